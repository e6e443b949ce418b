//! Under the supervisor on a real node: SIGTERM reaches the workload whatever stands in front of it, what was lost is
//! measured, and strangers are refused. Who goes is in `decides.rs`, what a missing supervisor changes in `unsupervised.rs`.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    ResourceExt,
    api::{DeleteParams, LogParams, Patch, PatchParams},
};
use scavenger_e2e::{
    World,
    checkpointing::{checkpoint, on_demand},
    gromacs,
    interruption::{Ended, take_away},
    metrics::Metrics,
    postgres::NAMESPACE,
    queue, repetitions,
    room::{has_run_for, now, start, status},
    run,
    world::{exec, until},
};
use scavenger_schema::scavenger_job::{Phase, ScavengerJob};
use serde_json::{Value, json};

/// Steps that no test waits for.
const ENDLESS: u32 = 100_000_000;

/// Time that a workload has to write its checkpoint. One that nobody asks uses it up.
const GRACE: Duration = Duration::from_secs(20);

/// As the entry point of the most used public image of GROMACS: a shell that waits for mdrun, without `exec`.
const WRAPPER: &str =
    "#!/bin/bash\ngmx -quiet mdrun \"$@\"\ncode=$?\necho \"mdrun ended with $code\"\nexit $code\n";

/// A parent that starts a worker, passes SIGTERM on, and waits: what torchrun does.
const LAUNCHER: &str = r#"
my $pid = fork // die; if (!$pid) { exec @ARGV or exit 127 }
$SIG{TERM} = sub { kill TERM => $pid };
1 until waitpid($pid, 0) == $pid; exit($? & 127 ? 128 + ($? & 127) : $? >> 8)
"#;

/// Ways to start mdrun, which follows as `"$@"`.
const SHAPES: [(&str, &str); 7] = [
    ("tee", r#""$@" 2>&1 | tee mdrun.out"#),
    ("timeout", r#"timeout 10h "$@"; exit $?"#),
    ("nohup", r#"nohup "$@"; exit $?"#),
    ("background", r#"sleep 1000000 & "$@" & wait"#),
    ("trap", r#"trap 'kill -TERM $child; wait $child; exit $?' TERM; "$@" & child=$!; wait $child"#),
    ("nested", r#"bash -c '"$@"; exit $?' inner "$@"; exit $?"#),
    ("launcher", r#"perl -e "$LAUNCHER" -- "$@"; exit $?"#),
];

/// A simulation of the water box in a folder of its own, which is started by `command`.
fn simulation(name: &str, folder: &str, command: &[&str]) -> Value {
    json!({
        "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob", "metadata": { "name": name },
        "spec": {
            "image": "scavenger.dev/gromacs:2022.5",
            "command": command,
            "args": ["-s", "/data/water/water.tpr", "-cpi", "state.cpt", "-cpt", "1000", "-nt", "1", "-pin", "off"],
            "workingDir": folder,
            "env": [{ "name": "LAUNCHER", "value": LAUNCHER }],
            "resources": { "requests": { "cpu": "100m", "memory": "128Mi" } },
            "persistentVolumeClaims": [{ "claimName": "simulations", "mountPath": "/data" }],
            "configMaps": [{ "name": "wrapper", "mountPath": "/wrapper" }],
            "interruptionAfter": "1s",
            "checkpoint": { "path": format!("{folder}/*.cpt"), "savesOnSigterm": true, "restartSeconds": 1 },
            "terminationGracePeriodSeconds": GRACE.as_secs(),
        },
    })
}

/// The water box, a folder on the claim for each of the names, and the wrapper.
async fn prepare(world: &World, folders: &[&str]) -> Result<()> {
    let folders: String = folders.iter().map(|name| format!("mkdir -p /data/water/{name}\n")).collect();
    queue::prepare_with(world, ENDLESS, &folders).await?;
    let wrapper = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "wrapper" }, "data": { "mdrun": WRAPPER },
    });
    world.create::<ConfigMap>(wrapper).await?;
    Ok(())
}

/// Waits until mdrun computes; returns its pod.
async fn computes(world: &World, name: &str) -> Result<String> {
    world.phase(name, Phase::Running).await?;
    let pod = world.pod(name).await?.name_any();
    world
        .log_until(&pod, &format!("mdrun of {name} computes"), |line| line.contains("starting mdrun"))
        .await?;
    Ok(pod)
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn a_wrapper_without_exec_loses_nothing() {
    run("wrapper", |world| async move {
        // Named as the checks of a row's folder expect it.
        let folder = "/data/water/gromacs-1";
        prepare(world, &["gromacs-1", "alone"]).await?;
        let command = ["bash", "/wrapper/mdrun"];
        world.create::<ScavengerJob>(simulation("wrapped", folder, &command)).await?;
        let interruptions = repetitions(3).min(20);
        for _ in 0..interruptions {
            let ended = take_away(world, "wrapped", async || {
                computes(world, "wrapped").await?;
                has_run_for(world, "wrapped", Duration::from_secs(2)).await
            })
            .await?;
            ended.answered_within("wrapped", GRACE)?;
        }
        world.api::<ScavengerJob>().delete("wrapped", &DeleteParams::default()).await?;
        let computed = gromacs::computed_so_far(world, 1).await?;
        println!("{interruptions} interruptions: {computed:?}");
        ensure!(computed.steps == computed.last_step, "steps were computed twice: {computed:?}");

        // The same without the supervisor: SIGTERM ends in the shell.
        let mut alone = simulation("alone", "/data/water/alone", &command);
        alone["spec"]["supervisor"] = json!({ "enabled": false });
        alone["spec"]["terminationGracePeriodSeconds"] = json!(5);
        world.create::<ScavengerJob>(alone).await?;
        let ready = async || computes(world, "alone").await.map(drop);
        let Ended { attempt, took } = take_away(world, "alone", ready).await?;
        println!("alone: ended after {took:.1?} of 5 s");
        ensure!(!attempt.supervised && attempt.answered_sigterm.is_none(), "{attempt:?}");
        ensure!(took >= Duration::from_secs(5), "a shell as process 1 passed SIGTERM on after {took:?}");
        let pod = computes(world, "alone").await?;
        let listed =
            exec(&world.api(), &pod, "main", &["bash", "-c", "ls; grep -c Restarting md.log || true"])
                .await?;
        ensure!(!listed.contains("state.cpt") && listed.ends_with('0'), "a checkpoint was written: {listed}");
        Ok(())
    });
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn every_way_to_start_mdrun_ends_with_a_checkpoint() {
    run("shapes", |world| async move {
        prepare(world, &SHAPES.map(|(name, _)| name)).await?;
        let tries = SHAPES.map(|(name, script)| async move {
            let script = format!("{script}\n");
            let command = ["bash", "-c", &script, "shape", "gmx", "-quiet", "mdrun"];
            world.create::<ScavengerJob>(simulation(name, &format!("/data/water/{name}"), &command)).await?;
            let ended = take_away(world, name, async || computes(world, name).await.map(drop)).await?;
            ended.answered_within(name, GRACE)?;
            // And what was written is what the next attempt goes on from.
            let pod = computes(world, name).await?;
            let count = ["grep", "-c", "Restarting from checkpoint", "md.log"];
            let restarts = exec(&world.api(), &pod, "main", &count).await?;
            let attempts = ended.attempt.number.to_string();
            ensure!(
                restarts == attempts,
                "{name} went on from its checkpoint {restarts} times of {attempts}"
            );
            anyhow::Ok(())
        });
        try_join_all(tries).await?;
        Ok(())
    });
}

/// A shell that takes SIGTERM for itself, so that mdrun is killed when the grace period is over.
const DEAF: &str = r#"trap : TERM; "$@" & wait; wait"#;

/// When the checkpoint was written from which an attempt goes on, in seconds since 1970; its step; and the step from which
/// mdrun says that it goes on.
async fn goes_on_from(world: &World, pod: &str) -> Result<(i64, u64, u64)> {
    const WORDS: &str = "continuing from step ";
    let log = world.log_until(pod, "mdrun goes on from a checkpoint", |line| line.contains(WORDS)).await?;
    let step = log.split_once(WORDS).and_then(|(_, rest)| rest.split([',', ' ']).next());
    let step = step.context("no step is named")?.parse()?;
    // Long before the next checkpoint.
    let script = "stat -c %Y state.cpt; gmx -quiet dump -cp state.cpt 2> dump.err | grep -m 1 '^step = '";
    let printed = exec(&world.api(), pod, "main", &["bash", "-c", script]).await?;
    let mut lines = printed.lines();
    let written = lines.next().context("no time")?.trim().parse()?;
    let saved = lines.next().and_then(|line| line.split('=').nth(1)).context(printed.clone())?;
    Ok((written, saved.trim().parse()?, step))
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn what_is_said_to_be_lost_is_what_mdrun_computes_again() {
    run("twice", |world| async move {
        prepare(world, &["twice"]).await?;
        let command = ["bash", "-c", DEAF, "deaf", "gmx", "-quiet", "mdrun"];
        let mut job = simulation("twice", "/data/water/twice", &command);
        // A checkpoint every half minute: none is written while the first is found, the attempt taken away and the next one
        // looked at.
        job["spec"]["args"][5] = json!("0.5");
        job["spec"]["terminationGracePeriodSeconds"] = json!(1);
        world.create::<ScavengerJob>(job).await?;
        let ready = async || {
            let pod = computes(world, "twice").await?;
            until("mdrun has written a checkpoint", || async {
                let found = exec(&world.api(), &pod, "main", &["ls"]).await?;
                Ok(found.lines().any(|name| name == "state.cpt").then_some(()))
            })
            .await?;
            let status = status(&world.api::<ScavengerJob>().get("twice").await?);
            let start = status.start_times.last().context("it has not started")?.0;
            let so_far = now().duration_since(start).unsigned_abs();
            has_run_for(world, "twice", so_far + Duration::from_secs(8)).await
        };
        let Ended { attempt, .. } = take_away(world, "twice", ready).await?;
        let pod = computes(world, "twice").await?;
        let (written, step, again) = goes_on_from(world, &pod).await?;
        let end = attempt.end_time.as_ref().context("no end")?.0.as_second();
        let lost = attempt.lost_seconds.context("nothing was measured")?;
        let worked = attempt.worked_seconds.context("its processor time was not counted")?;
        let started = attempt.start_time.as_ref().context("no start")?.0.as_second();
        println!("it ran for {} s and worked for {worked} s of them", end - started);
        println!(
            "the checkpoint of step {step} was {} s old; went on at step {again}; {lost} s were said to be lost",
            end - written
        );
        ensure!(step > 0 && again == step, "went on at {again}, and the checkpoint is of {step}");
        ensure!(attempt.answered_sigterm == Some(false), "{attempt:?}");
        // Stamps have whole seconds. Others on the node had a part of the time.
        ensure!((1..=end - started + 1).contains(&worked), "{attempt:?}");
        ensure!(
            (1..=end - written + 2).contains(&lost),
            "the checkpoint was {} s old: {attempt:?}",
            end - written
        );
        Ok(())
    });
}

/// A pod that is no workload of ours: it reports with a token whose signature is broken, with one for somebody else, with
/// one for the API server, and with its own as often as it can.
fn stranger() -> Value {
    let supervisor = concat!("scavenger.dev/supervisor:", env!("CARGO_PKG_VERSION"));
    let url = format!("https://scavenger-operator-reports.{NAMESPACE}.svc:8443/reports");
    let script = format!(
        r#"own=$(cat /token/own); echo "${{own%??????}}AAAAAA" > /tmp/forged; cp /token/* /tmp
        reports() {{ /supervisor/scavenger-supervisor run --report-url {url} --report-token /tmp/$1 \
            --report-ca /ca/ca.crt --report-every $2 --request-signal USR1 -- sleep 1000 2>&1 | sed -u "s/^/$1: /" & }}
        for token in forged elsewhere api; do reports $token 1s; done
        for i in {{1..{FLOOD}}}; do reports own 1ms; done
        wait"#
    );
    let mount = |name: &str| json!({ "name": name, "mountPath": format!("/{name}"), "readOnly": true });
    let token = |path: &str, audience: &str| {
        let mut token = json!({ "path": path, "expirationSeconds": 3600 });
        if !audience.is_empty() {
            token["audience"] = json!(audience);
        }
        json!({ "serviceAccountToken": token })
    };
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "stranger" },
        "spec": {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
            "securityContext": { "runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000, "runAsNonRoot": true },
            "initContainers": [{
                "name": "supervisor", "image": supervisor, "command": ["/scavenger-supervisor", "copy", "/supervisor"],
                "volumeMounts": [{ "name": "supervisor", "mountPath": "/supervisor" }],
            }],
            "containers": [{
                "name": "main", "image": "scavenger.dev/gromacs:2022.5", "command": ["bash", "-c", script],
                // It is not to take both cores from the operator and everybody else.
                "resources": { "requests": { "cpu": "10m" }, "limits": { "cpu": "500m", "memory": "256Mi" } },
                "volumeMounts": [mount("supervisor"), mount("token"), mount("ca")],
            }],
            "volumes": [
                { "name": "supervisor", "emptyDir": { "sizeLimit": "8Mi" } },
                { "name": "ca", "configMap": { "name": "scavenger-supervisor-ca" } },
                { "name": "token", "projected": { "sources": [
                    token("own", "scavenger.dev/supervisor"), token("elsewhere", "vault"), token("api", ""),
                ] } },
            ],
        },
    })
}

/// The counter of reports that were answered in this way.
fn reports(result: &str) -> String {
    format!("scavenger_reports_total{{result=\"{result}\"}}")
}

/// So many processes report as fast as they are answered.
const FLOOD: usize = 16;

#[test]
fn strangers_are_refused_and_their_floods_harm_nobody() {
    run("strangers", |world| async move {
        world.claim("data").await?;
        // One holds 5, which is below the threshold of 95%.
        let slot = &world.slots(6).await?;
        start(world, on_demand("heard", slot, 5)).await?;
        checkpoint(world, "heard").await?;
        let began = Instant::now();
        let before = Metrics::read(world).await?;
        world.create::<Pod>(stranger()).await?;
        for (token, status) in [("forged", 401), ("elsewhere", 401), ("api", 401), ("own", 429)] {
            let words = format!("HTTP status {status}");
            let refused = |line: &str| line.starts_with(&format!("{token}: ")) && line.contains(&words);
            world
                .log_until("stranger", &format!("the token {token} is answered by {status}"), refused)
                .await?;
        }
        // Meanwhile those who have something to say are heard.
        for _ in 0..3 {
            let began = Instant::now();
            checkpoint(world, "heard").await?;
            println!("a checkpoint beside the flood was known after {:.1} s", began.elapsed().as_secs_f64());
        }
        let before = &before;
        let what = "3 reports are counted as not authenticated, and 100 as too often";
        let (after, seconds) = until(what, || async {
            let Ok(after) = Metrics::read(world).await else { return Ok(None) };
            let count = |result: &str| after.increase(before, &reports(result));
            let is_counted = count("unauthenticated") >= 3.0 && count("too_often") >= 100.0;
            Ok(is_counted.then(|| (after, began.elapsed().as_secs_f64())))
        })
        .await?;
        let count = |result: &str| after.increase(before, &reports(result));
        let reviews: f64 = ["known", "refused", "error"]
            .map(|result| {
                after.increase(before, &format!("scavenger_token_reviews_total{{result=\"{result}\"}}"))
            })
            .iter()
            .sum();
        println!(
            "in {seconds:.0} s: {} reports taken, {} too often, {} not authenticated, {reviews} token reviews",
            count("taken"),
            count("too_often"),
            count("unauthenticated"),
        );
        ensure!((2.0..=5.0 * seconds + 5.0).contains(&reviews), "{reviews} reviews in {seconds} s\n{after}");
        let job = world.api::<ScavengerJob>().get("heard").await?;
        ensure!(status(&job).interrupted_count == 0, "{:?}", status(&job));
        Ok(())
    });
}

/// What the page about the supervisor shows for a pod of one's own, with the processes of all containers in one namespace.
#[test]
#[ignore = "in `cargo xtask test --all`"]
fn in_a_pod_of_ones_own_with_a_shared_process_namespace() {
    run("own-pod", |world| async move {
        prepare(world, &["own"]).await?;
        let supervisor = concat!("scavenger.dev/supervisor:", env!("CARGO_PKG_VERSION"));
        let mount = json!({ "name": "supervisor", "mountPath": "/supervisor", "readOnly": true });
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "own" },
            "spec": {
                "restartPolicy": "Never", "shareProcessNamespace": true, "terminationGracePeriodSeconds": GRACE.as_secs(),
                "securityContext": { "runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000, "runAsNonRoot": true },
                "initContainers": [{
                    "name": "supervisor", "image": supervisor, "command": ["/scavenger-supervisor", "copy", "/supervisor"],
                    "volumeMounts": [{ "name": "supervisor", "mountPath": "/supervisor" }],
                }],
                "containers": [{
                    "name": "main", "image": "scavenger.dev/gromacs:2022.5", "workingDir": "/data/water/own",
                    "command": [
                        "/supervisor/scavenger-supervisor", "run", "--checkpoint", "/data/water/own/state.cpt", "--",
                        "bash", "/wrapper/mdrun",
                    ],
                    "args": ["-s", "/data/water/water.tpr", "-cpi", "state.cpt", "-nt", "1", "-pin", "off"],
                    "resources": { "requests": { "cpu": "50m" } },
                    "volumeMounts": [
                        mount, { "name": "data", "mountPath": "/data" }, { "name": "wrapper", "mountPath": "/wrapper" },
                    ],
                }],
                "volumes": [
                    { "name": "supervisor", "emptyDir": { "sizeLimit": "8Mi" } },
                    { "name": "data", "persistentVolumeClaim": { "claimName": "simulations" } },
                    { "name": "wrapper", "configMap": { "name": "wrapper" } },
                ],
            },
        });
        world.create::<Pod>(pod).await?;
        world.log_until("own", "mdrun computes", |line| line.contains("starting mdrun")).await?;
        // Kept for a look at its end.
        let pods = world.api::<Pod>();
        let keep = json!({ "metadata": { "finalizers": ["e2e.scavenger.dev/keep"] } });
        pods.patch("own", &PatchParams::default(), &Patch::Merge(&keep)).await?;
        pods.delete("own", &DeleteParams::default()).await?;
        let message = until("the pod has ended", || async {
            let statuses = pods.get("own").await?.status.and_then(|status| status.container_statuses);
            let ended = statuses.unwrap_or_default().into_iter().find_map(|status| status.state?.terminated);
            Ok(ended.map(|ended| ended.message.unwrap_or_default()))
        })
        .await;
        let log = pods.logs("own", &LogParams::default()).await.unwrap_or_default();
        let free = json!({ "metadata": { "finalizers": null } });
        pods.patch("own", &PatchParams::default(), &Patch::Merge(&free)).await?;
        let message = message?;
        let said: Value =
            serde_json::from_str(&message).with_context(|| format!("{message:?} is not JSON\n{log}"))?;
        ensure!(said["scavengerSupervisor"]["stop"] == "Answered", "{message}\n{log}");
        Ok(())
    });
}
