//! Where the supervisor, or the way of its reports, is missing: nothing fails, and precision alone is lost. A program of its
//! own, since these tests change both for everybody on the cluster.

use std::{
    cell::Cell,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, LogParams, Patch, PatchParams, PostParams},
};
use scavenger_e2e::{
    World,
    checkpointing::on_demand,
    egress,
    interruption::{Ended, take_away},
    postgres::NAMESPACE,
    repetitions,
    room::{bring_pool, has_run_for, now, patch_pool, pools, start, status},
    run,
    world::{LIMIT, counter, counter_beside, exec, until, until_within},
};
use scavenger_schema::{
    names,
    scavenger_job::{Phase, ScavengerJob},
};
use scavenger_vocabulary::{Reason, condition};
use serde_json::{Value, json};

/// Held by the test that has changed the supervisor or the way of its reports.
static SUPERVISOR: Mutex<()> = Mutex::new(());

/// Sends the reports to the pods with this name.
async fn reports_go_to(world: &World, name: &str) -> Result<()> {
    let services: Api<Service> = Api::namespaced(world.client.clone(), NAMESPACE);
    let patch = json!({ "spec": { "selector": { "app.kubernetes.io/name": name } } });
    services.patch("scavenger-operator-reports", &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

/// Pods that take connections in the operator's place: one says nothing, one talks nonsense, and neither hangs up.
async fn impostors(world: &World) -> Result<()> {
    for (name, words) in [("silent", ""), ("nonsense", "HTTP/1.1 200 OK\\r\\n\\r\\n{}")] {
        let script = format!(
            "use IO::Socket::INET; my $all = IO::Socket::INET->new(LocalPort => 8443, Listen => 99, ReuseAddr => 1) or die; \
             $| = 1; print qq(listens\\n); my @open; \
             while (my $one = $all->accept) {{ $one->syswrite(qq({words})); push @open, $one; print qq(taken\\n) }}"
        );
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "labels": { "app.kubernetes.io/name": name } },
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "securityContext": {
                    "runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": { "type": "RuntimeDefault" },
                },
                "containers": [{
                    "name": "main", "image": "scavenger.dev/gromacs:2022.5", "imagePullPolicy": "IfNotPresent",
                    "command": ["perl", "-e", script], "resources": { "requests": { "cpu": "10m" } },
                    "ports": [{ "name": "reports", "containerPort": 8443 }],
                    "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
                }],
            },
        });
        let pods: Api<Pod> = Api::namespaced(world.client.clone(), NAMESPACE);
        pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
        taken(world, name, "listens").await?;
    }
    Ok(())
}

/// Waits until an impostor has said a word.
async fn taken(world: &World, name: &str, word: &str) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), NAMESPACE);
    until(&format!("pod {name} says {word:?}"), || async {
        let log = pods.logs(name, &LogParams::default()).await.unwrap_or_default();
        Ok(log.contains(word).then_some(()))
    })
    .await
}

/// For so long nobody hears a report: minutes in the soak.
fn away() -> Duration {
    Duration::from_secs(if repetitions(1) > 1 { 180 } else { 5 })
}

/// Whether a report of the attempt that runs has come to the status.
async fn is_heard(world: &World, name: &str) -> Result<bool> {
    let status = status(&world.api::<ScavengerJob>().get(name).await?);
    let started = status.start_times.last().map(|time| time.0);
    // Both are whole seconds.
    Ok(status.last_checkpoint_time.is_some_and(|time| Some(time.0) >= started))
}

/// The attempt that runs writes checkpoints, nobody hears of them while it runs, and its supervisor says so once. It is taken
/// away, and its end tells of the last one.
async fn end_tells(world: &World, name: &str, to: &str, ready: impl AsyncFn() -> Result<()>) -> Result<i64> {
    let since = Cell::new(now());
    let ready = async || {
        world.phase(name, Phase::Running).await?;
        ready().await?;
        has_run_for(world, name, away()).await?;
        ensure!(!is_heard(world, name).await?, "{name} was heard although its reports went to {to}");
        since.set(now());
        Ok(())
    };
    let Ended { attempt, took } = take_away(world, name, ready).await?;
    println!("reports go to {to}: ended after {took:.1?}, lost {:?} s", attempt.lost_seconds);
    ensure!(attempt.answered_sigterm == Some(true) && attempt.lost_seconds == Some(0), "{attempt:?}");
    // It is told by its age when the container ended, which the kubelet writes as whole seconds.
    let told = attempt.last_checkpoint_time.as_ref().map(|time| time.0.as_second() + 1);
    ensure!(told >= Some(since.get().as_second()), "it ran at {} at least: {attempt:?}", since.get());
    Ok(attempt.number)
}

/// Says once that a report is missed, and goes on.
async fn says_that_it_is_missed(world: &World, name: &str) -> Result<()> {
    let pod = world.pod(name).await?.name_any();
    world.log_until(&pod, "the report is missed", |line| line.contains("report")).await?;
    Ok(())
}

/// A counter whose supervisor watches its checkpoints.
fn watched(name: &str) -> Value {
    let mut job = counter_beside(name, 100_000);
    job["spec"]["checkpoint"]["path"] = json!(format!("/data/{name}"));
    // It has a handler for SIGTERM alone. A workload that can be asked tries again after 10 s, others after a minute.
    job["spec"]["checkpoint"]["request"] = json!({ "signal": "USR1" });
    job
}

/// A workload is interrupted while its reports go to nobody, to somebody who is silent, and to somebody who talks nonsense.
/// Returns how often.
async fn reports_are_missed(world: &World) -> Result<i64> {
    world.create::<ScavengerJob>(watched("count")).await?;
    let mut interruptions = 0;
    for to in ["nobody", "silent", "nonsense"] {
        reports_go_to(world, to).await?;
        let ready = async || match to {
            "nobody" => says_that_it_is_missed(world, "count").await,
            to => taken(world, to, "taken").await,
        };
        interruptions = end_tells(world, "count", to, ready).await?;
    }
    world.phase("count", Phase::Running).await?;
    let job = world.api::<ScavengerJob>().get("count").await?;
    ensure!(status(&job).interrupted_count == interruptions, "{:?}", status(&job));
    Ok(interruptions)
}

/// A workload writes one checkpoint while its reports go to nobody. When they go to the operator again, it hears of that one.
async fn a_missed_checkpoint_is_told_later(world: &World) -> Result<()> {
    reports_go_to(world, "nobody").await?;
    // It holds something that every node has.
    start(world, on_demand("kept", "memory", 64 << 20)).await?;
    let pod = world.pod("kept").await?.name_any();
    let run = async |command: &[&str]| exec(&world.api(), &pod, "main", command).await;
    run(&["touch", "/data/kept.ask"]).await?;
    until("the checkpoint is written", || async {
        Ok(run(&["test", "-s", "/data/kept.state"]).await.is_ok().then_some(()))
    })
    .await?;
    let written = now();
    says_that_it_is_missed(world, "kept").await?;
    has_run_for(world, "kept", away()).await?;
    ensure!(!is_heard(world, "kept").await?, "it was heard although its reports went to nobody");
    reports_go_to(world, "scavenger-operator").await?;
    // The longer reports failed, the later the next try.
    until_within(2 * LIMIT, "the operator hears of it", || async {
        Ok(is_heard(world, "kept").await?.then_some(()))
    })
    .await?;
    let heard = status(&world.api::<ScavengerJob>().get("kept").await?).last_checkpoint_time;
    ensure!(heard.as_ref().is_some_and(|time| time.0 <= written), "{heard:?}, and written before {written}");
    Ok(())
}

/// The reports could go to the operator, and none leaves the pod: it is forbidden before the supervisor has begun.
async fn egress_is_forbidden(world: &World) -> Result<()> {
    world.create::<ScavengerJob>(watched("forbidden")).await?;
    until("egress is forbidden", || async {
        let pod = world.pods("forbidden").await?.into_iter().next();
        Ok(pod.map(|pod| egress::forbid(&pod)).transpose()?.filter(|done| *done))
    })
    .await?;
    let ready = async || says_that_it_is_missed(world, "forbidden").await;
    end_tells(world, "forbidden", "the operator, and egress is forbidden", ready).await?;
    Ok(())
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn without_reports_nothing_fails_and_the_end_is_measured() {
    let _alone = SUPERVISOR.lock().unwrap_or_else(PoisonError::into_inner);
    run("unreported", |world| async move {
        world.claim("data").await?;
        impostors(world).await?;
        let result = async {
            a_missed_checkpoint_is_told_later(world).await?;
            reports_are_missed(world).await
        };
        let result = result.await;
        reports_go_to(world, "scavenger-operator").await?;
        let impostors: Api<Pod> = Api::namespaced(world.client.clone(), NAMESPACE);
        for name in ["silent", "nonsense"] {
            impostors.delete(name, &DeleteParams::default()).await?;
        }
        let interruptions = result?;
        egress_is_forbidden(world).await?;
        // The operator goes, too; its successor hears of the next checkpoint.
        let pods: Api<Pod> = Api::namespaced(world.client.clone(), NAMESPACE);
        let leader = world.leader().await?;
        pods.delete(&leader, &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() })
            .await?;
        let before = status(&world.api::<ScavengerJob>().get("count").await?).last_checkpoint_time;
        let job =
            world.job_until("count", "heard again", |job| status(job).last_checkpoint_time > before).await?;
        ensure!(status(&job).interrupted_count == interruptions, "{:?}", status(&job));
        Ok(())
    });
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn an_image_that_cannot_be_pulled_is_done_without() {
    let _alone = SUPERVISOR.lock().unwrap_or_else(PoisonError::into_inner);
    run("no-supervisor", |world| async move {
        world.claim("data").await?;
        let pool = pools(world).get(names::DEFAULT_POOL).await?;
        let image = pool.spec.supervisor.context("the tests' pool has no supervisor")?.image;
        let with = |image: &str| json!({ "supervisor": { "image": image } });
        bring_pool(world, &with("scavenger.dev/supervisor:of-nobody")).await?;
        let result = async {
            world.create::<ScavengerJob>(counter("count", 30)).await?;
            let job = world.phase("count", Phase::Completed).await?;
            let attempts = status(&job).attempts;
            ensure!(attempts.len() == 2, "{attempts:?}");
            ensure!(attempts[0].reason == Some(Reason::SupervisorNotStarted), "{attempts:?}");
            ensure!(!attempts[1].supervised && attempts[0].supervised, "{attempts:?}");
            let conditions = status(&job).conditions;
            let supervised = conditions.iter().find(|one| one.type_ == condition::SUPERVISED);
            ensure!(supervised.is_some_and(|one| one.status == "False"), "{conditions:?}");
            until("the pool says so", || async {
                let status = pools(world).get(names::DEFAULT_POOL).await?.status.unwrap_or_default();
                let said = status.conditions.iter().any(|one| {
                    one.type_ == "SupervisorStarts"
                        && one.status == "False"
                        && one.message.contains("of-nobody")
                });
                Ok(said.then_some(()))
            })
            .await
        };
        let result = result.await;
        patch_pool(world, &with(&image)).await?;
        result
    });
}
