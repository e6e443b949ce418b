//! Under the supervisor on a real node: SIGTERM reaches the workload whatever stands in front of it, what was lost is
//! measured, and a real checkpoint decides who goes. What a missing supervisor changes is in `unsupervised.rs`.

use std::{
    cell::Cell,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    ResourceExt,
    api::{DeleteParams, LogParams, Patch, PatchParams},
};
use scavenger_e2e::{
    World, gromacs,
    interruption::{Ended, take_away},
    metrics::Metrics,
    postgres::NAMESPACE,
    queue, repetitions,
    room::{
        delete_all, delete_pod, has_run_for, holding, in_mode_operator, interrupted, owner_of_class, start,
        status, with_headroom,
    },
    run,
    world::{exec, until},
};
use scavenger_schema::scavenger_job::{Phase, ScavengerJob};
use scavenger_vocabulary::Reason;
use serde_json::{Value, json};

/// Held by a test whose ordinary pod waits for capacity of the real node, and by one whose workload is asked for a checkpoint
/// there: nobody is asked while somebody waits.
static WAITING: Mutex<()> = Mutex::new(());

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

/// A workload that writes a checkpoint when the test asks for it, and not on SIGTERM.
fn on_demand(name: &str, slot: &str) -> Value {
    let script = format!(
        "cd /data; echo 0.25 > {name}.progress; while :; do \
         if [ -e {name}.ask ]; then rm {name}.ask; date > {name}.new; mv {name}.new {name}.state; fi; sleep 0.3; done"
    );
    let mut job = holding(name, slot, 5, false);
    job["spec"]["image"] = json!("scavenger.dev/gromacs:2022.5");
    job["spec"]["command"] = json!(["bash", "-c", script]);
    job["spec"]["args"] = json!([]);
    // Reports over TLS take a moment of processor time, too.
    job["spec"]["resources"]["requests"]["cpu"] = json!("200m");
    job["spec"]["checkpoint"] = json!({
        "path": format!("/data/{name}.state"), "progressPath": format!("/data/{name}.progress"), "restartSeconds": 1,
        // It has no handler for the signal. A workload that can be asked reports every 10 s, others once a minute.
        "request": { "signal": "USR1" },
    });
    job["spec"]["terminationGracePeriodSeconds"] = json!(1);
    job
}

/// How many checkpoints the operator was told of in the namespace. It knows of them long before a status says so, which is
/// written once a minute at most.
async fn reported(world: &World) -> Result<f64> {
    let name = format!("scavenger_reported_checkpoints_total{{namespace=\"{}\"}}", world.namespace);
    Ok(Metrics::read(world).await?.value(&name))
}

/// Has a workload write a checkpoint, and waits until the operator knows of it. No other one of the namespace may write one
/// meanwhile.
async fn checkpoint(world: &World, name: &str) -> Result<()> {
    let pod = world.pod(name).await?.name_any();
    let touch = format!("/data/{name}.ask");
    let ask = || async { exec(&world.api(), &pod, "main", &["touch", &touch]).await };
    let before = Cell::new(reported(world).await?);
    ask().await?;
    let before = &before;
    until(&format!("the operator knows of a new checkpoint of {name}"), || async {
        // Nobody leads for a moment if a replica is slow to renew its Lease.
        let Ok(now) = reported(world).await else { return Ok(None) };
        if now < before.get() {
            // The next leader counts from 0, and may have taken the checkpoint for an old one.
            before.set(now);
            ask().await?;
        }
        Ok((now > before.get()).then_some(()))
    })
    .await
}

/// Waits until what the first attempt of a ScavengerJob lost is known.
async fn first_measured(world: &World, name: &str) -> Result<ScavengerJob> {
    world
        .job_until(name, "measured", |job| {
            status(job).attempts.first().is_some_and(|attempt| attempt.lost_seconds.is_some())
        })
        .await
}

/// Two that an owner's pod wants to have gone: the one with the newer checkpoint goes, whichever is older.
async fn the_newer_checkpoint_goes(world: &World, class: &str) -> Result<()> {
    // Both together stay below the threshold of 95%.
    let slot = &world.slots(11).await?;
    for (round, fresh, stale) in [(1, "younger", "older"), (2, "older", "younger")] {
        delete_all(world).await?;
        for name in ["older", "younger"] {
            start(world, on_demand(name, slot)).await?;
        }
        has_run_for(world, "younger", Duration::from_secs(5)).await?;
        checkpoint(world, fresh).await?;
        let owner = format!("owner-{round}");
        owner_of_class(world, &owner, Some(class), slot, json!({})).await?;
        let reason = interrupted(world, fresh, 1).await?;
        ensure!(reason == Reason::PreemptedByOperator, "{reason}");
        world.pod_runs(&owner).await?;
        let kept = world.phase(stale, Phase::Running).await?;
        ensure!(status(&kept).interrupted_count == 0, "{:?}", status(&kept));
        let job = first_measured(world, fresh).await?;
        let attempt = &status(&job).attempts[0];
        println!(
            "{fresh} went: lost {:?} s, expected {:?} s, answered SIGTERM: {:?}",
            attempt.lost_seconds, attempt.expected_lost_seconds, attempt.answered_sigterm
        );
        ensure!(attempt.answered_sigterm == Some(false), "{attempt:?}");
        let expected = attempt.expected_lost_seconds.context("nothing was expected")?;
        let lost = attempt.lost_seconds.context("nothing was measured")?;
        ensure!((lost - expected).abs() <= 3, "lost {lost} s instead of {expected} s");
        ensure!(status(&job).progress == Some(0.25), "{:?}", status(&job).progress);
        delete_pod(world, &owner).await?;
    }
    Ok(())
}

#[test]
fn a_real_checkpoint_decides() {
    let _alone = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    run("decides", |world| async move {
        world.claim("data").await?;
        in_mode_operator(world, |class| async move { the_newer_checkpoint_goes(world, &class).await }).await
    });
}

/// Writes a checkpoint on SIGUSR1, and not on SIGTERM.
fn asked(name: &str, slot: &str) -> Value {
    let mut job = on_demand(name, slot);
    let script = format!(
        "cd /data; trap 'date > {name}.new; mv {name}.new {name}.state' USR1; \
         date > {name}.state; while :; do sleep 0.2; done"
    );
    job["spec"]["command"] = json!(["bash", "-c", script]);
    job["spec"]["checkpoint"] = json!({
        "path": format!("/data/{name}.state"), "restartSeconds": 1, "request": { "signal": "USR1" },
    });
    job
}

#[test]
fn a_planned_interruption_asks_for_a_checkpoint_first() {
    let _alone = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    run("asked", |world| async move {
        world.claim("data").await?;
        let slot = &world.slots(10).await?;
        with_headroom(world, slot, || async {
            start(world, asked("asked", slot)).await?;
            until("it is known to write checkpoints", || async {
                Ok((reported(world).await? > 0.0).then_some(()))
            })
            .await?;
            has_run_for(world, "asked", Duration::from_secs(20)).await?;
            world.owner_pod("owner", slot, 4).await?;
            let reason = interrupted(world, "asked", 1).await?;
            ensure!(reason == Reason::Headroom, "{reason}");
            let job = first_measured(world, "asked").await?;
            let attempt = &status(&job).attempts[0];
            println!("asked before it went: lost {:?} of more than 20 s", attempt.lost_seconds);
            ensure!(attempt.lost_seconds.is_some_and(|lost| lost < 20), "{attempt:?}");
            ensure!(attempt.answered_sigterm == Some(false), "{attempt:?}");
            Ok(())
        })
        .await
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
        start(world, on_demand("heard", slot)).await?;
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
