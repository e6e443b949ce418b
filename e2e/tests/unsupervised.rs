//! Where the supervisor, or the way of its reports, is missing: nothing fails, and precision alone is lost. A program of its
//! own, since these tests change both for everybody on the cluster.

use std::{
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
    World, egress,
    interruption::{Ended, take_away},
    postgres::NAMESPACE,
    repetitions,
    room::{has_run_for, patch_pool, pools, status},
    run,
    world::{counter, until},
};
use scavenger_schema::{
    names,
    scavenger_job::{Phase, ScavengerJob},
};
use scavenger_vocabulary::{Reason, condition};
use serde_json::json;

/// Held by the test that has changed the supervisor or the way of its reports.
static SUPERVISOR: Mutex<()> = Mutex::new(());

/// The reports could go to the operator, and none leaves the pod.
const FORBIDDEN: &str = "the operator, and egress is forbidden";

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

/// A workload is interrupted while its reports go to nobody, to somebody who is silent, to somebody who talks nonsense, and
/// nowhere, because a NetworkPolicy forbids it. Returns how often. In the soak the operator hears nothing for ten minutes.
async fn reports_are_missed(world: &World) -> Result<i64> {
    let mut job = counter("count", 100_000);
    job["spec"]["checkpoint"]["path"] = json!("/data/count");
    // It has a handler for SIGTERM alone. A workload that can be asked tries again after 10 s, others after a minute.
    job["spec"]["checkpoint"]["request"] = json!({ "signal": "USR1" });
    world.create::<ScavengerJob>(job).await?;
    let mut interruptions = 0;
    let away = Duration::from_secs(if repetitions(1) > 1 { 150 } else { 5 });
    for to in ["nobody", "silent", "nonsense", FORBIDDEN] {
        reports_go_to(world, if to == FORBIDDEN { "scavenger-operator" } else { to }).await?;
        let ready = async || {
            world.phase("count", Phase::Running).await?;
            if to == FORBIDDEN {
                egress::forbid(&world.pod("count").await?)?;
            }
            has_run_for(world, "count", away).await?;
            match to {
                // It says so once, and goes on.
                "nobody" | FORBIDDEN => {
                    let pod = world.pod("count").await?.name_any();
                    world.log_until(&pod, "the report is missed", |line| line.contains("report")).await?;
                    Ok(())
                }
                to => taken(world, to, "taken").await,
            }
        };
        let Ended { attempt, took } = take_away(world, "count", ready).await?;
        println!("reports go to {to}: ended after {took:.1?}, lost {:?} s", attempt.lost_seconds);
        ensure!(attempt.answered_sigterm == Some(true) && attempt.lost_seconds == Some(0), "{attempt:?}");
        interruptions = attempt.number;
    }
    world.phase("count", Phase::Running).await?;
    let job = world.api::<ScavengerJob>().get("count").await?;
    ensure!(status(&job).interrupted_count == interruptions, "{:?}", status(&job));
    Ok(interruptions)
}

#[test]
fn without_reports_nothing_fails_and_the_end_is_measured() {
    let _alone = SUPERVISOR.lock().unwrap_or_else(PoisonError::into_inner);
    run("unreported", |world| async move {
        world.claim("data").await?;
        impostors(world).await?;
        reports_go_to(world, "nobody").await?;
        let result = reports_are_missed(world).await;
        reports_go_to(world, "scavenger-operator").await?;
        let impostors: Api<Pod> = Api::namespaced(world.client.clone(), NAMESPACE);
        for name in ["silent", "nonsense"] {
            impostors.delete(name, &DeleteParams::default()).await?;
        }
        let interruptions = result?;
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
fn an_image_that_cannot_be_pulled_is_done_without() {
    let _alone = SUPERVISOR.lock().unwrap_or_else(PoisonError::into_inner);
    run("no-supervisor", |world| async move {
        world.claim("data").await?;
        let pool = pools(world).get(names::DEFAULT_POOL).await?;
        let image = pool.spec.supervisor.context("the tests' pool has no supervisor")?.image;
        let with = |image: &str| json!({ "supervisor": { "image": image } });
        patch_pool(world, &with("scavenger.dev/supervisor:of-nobody")).await?;
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
