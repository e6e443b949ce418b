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
    api::{DeleteParams, Patch, PatchParams},
};
use scavenger_e2e::{
    World,
    interruption::{Ended, take_away},
    postgres::NAMESPACE,
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

/// Sends the reports to nobody, or to the operator again.
async fn reports_arrive(world: &World, arrive: bool) -> Result<()> {
    let services: Api<Service> = Api::namespaced(world.client.clone(), NAMESPACE);
    let name = if arrive { "scavenger-operator" } else { "nobody" };
    let patch = json!({ "spec": { "selector": { "app.kubernetes.io/name": name } } });
    services.patch("scavenger-operator-reports", &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

#[test]
fn without_reports_nothing_fails_and_the_end_is_measured() {
    let _alone = SUPERVISOR.lock().unwrap_or_else(PoisonError::into_inner);
    run("unreported", |world| async move {
        world.claim("data").await?;
        reports_arrive(world, false).await?;
        let result = async {
            let mut job = counter("count", 100_000);
            job["spec"]["checkpoint"]["path"] = json!("/data/count");
            // It has a handler for SIGTERM alone. A workload that can be asked tries again after 10 s, others after a minute.
            job["spec"]["checkpoint"]["request"] = json!({ "signal": "USR1" });
            world.create::<ScavengerJob>(job).await?;
            let ready = async || {
                world.phase("count", Phase::Running).await?;
                has_run_for(world, "count", Duration::from_secs(5)).await
            };
            let Ended { attempt, .. } = take_away(world, "count", ready).await?;
            ensure!(attempt.answered_sigterm == Some(true) && attempt.lost_seconds == Some(0), "{attempt:?}");
            world.phase("count", Phase::Running).await?;
            // It says so once, and goes on.
            let pod = world.pod("count").await?.name_any();
            world.log_until(&pod, "the report is missed", |line| line.contains("report")).await?;
            let job = world.api::<ScavengerJob>().get("count").await?;
            ensure!(status(&job).interrupted_count == 1, "{:?}", status(&job));
            anyhow::Ok(())
        };
        let result = result.await;
        reports_arrive(world, true).await?;
        result?;
        // The operator goes, too; its successor hears of the next checkpoint.
        let pods: Api<Pod> = Api::namespaced(world.client.clone(), NAMESPACE);
        let leader = world.leader().await?;
        pods.delete(&leader, &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() })
            .await?;
        let before = status(&world.api::<ScavengerJob>().get("count").await?).last_checkpoint_time;
        let job =
            world.job_until("count", "heard again", |job| status(job).last_checkpoint_time > before).await?;
        ensure!(status(&job).interrupted_count == 1, "{:?}", status(&job));
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
