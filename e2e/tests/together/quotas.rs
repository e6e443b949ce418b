//! The two kinds of quota, as deploy/examples has them: neither counts what belongs to the other.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use kube::api::{DeleteParams, Patch, PatchParams};
use scavenger_e2e::{
    World,
    kubectl::apply_example,
    room::{has_reason, status},
    run,
    users::refused,
    world::{counter, ordinary_pod, until},
};
use scavenger_schema::scavenger_job::{Phase, ScavengerJob};
use scavenger_vocabulary::WaitingReason;
use serde_json::{Value, json};

/// Lets a quota pass a single pod, and waits until it is counted.
async fn one_pod(world: &World, quota: &str) -> Result<()> {
    let api = world.api::<ResourceQuota>();
    let hard = json!({ "spec": { "hard": { "pods": "1" } } });
    api.patch(quota, &PatchParams::default(), &Patch::Merge(&hard)).await?;
    until(&format!("quota {quota} counts"), || async {
        let hard = api.get(quota).await?.status.and_then(|status| status.hard).unwrap_or_default();
        Ok(hard.get("pods").is_some_and(|pods| pods.0 == "1").then_some(()))
    })
    .await
}

async fn used(world: &World, quota: &str) -> Result<String> {
    let quota = world.api::<ResourceQuota>().get(quota).await?;
    let used = quota.status.and_then(|status| status.used).unwrap_or_default();
    Ok(used.get("pods").context("the quota counts no pods")?.0.clone())
}

fn ordinary(name: &str) -> Value {
    ordinary_pod(name, &json!({ "cpu": "10m", "memory": "16Mi" }))
}

#[test]
fn a_quota_of_ordinary_work_does_not_count_scavenger_jobs() {
    run("quota-ordinary", |world| async move {
        apply_example(&world.namespace, "quota-ordinary.yaml").await?;
        one_pod(world, "ordinary").await?;
        world.claim("data").await?;
        world.create::<Pod>(ordinary("first")).await?;
        let second = world.create::<Pod>(ordinary("second")).await;
        refused("a second ordinary pod", second, &["exceeded quota: ordinary"])?;
        world.create::<ScavengerJob>(counter("count", 1_000_000)).await?;
        world.phase("count", Phase::Running).await?;
        ensure!(used(world, "ordinary").await? == "1", "the ScavengerJob was counted");
        world.pod_runs("first").await
    });
}

#[test]
fn a_quota_of_scavenger_jobs_holds_them_and_nothing_else() {
    run("quota-jobs", |world| async move {
        apply_example(&world.namespace, "quota-scavengerjobs.yaml").await?;
        one_pod(world, "scavengerjobs").await?;
        world.claim("data").await?;
        world.create::<ScavengerJob>(counter("first", 1_000_000)).await?;
        world.phase("first", Phase::Running).await?;
        world.create::<Pod>(ordinary("own")).await?;
        world.pod_runs("own").await?;
        ensure!(used(world, "scavengerjobs").await? == "1", "an ordinary pod was counted");

        world.create::<ScavengerJob>(counter("second", 10)).await?;
        world
            .job_until("second", "told about the quota", |job| {
                let message = status(job).message.unwrap_or_default();
                message.contains("exceeded quota: scavengerjobs")
                    && has_reason(job, WaitingReason::QuotaExceeded)
            })
            .await?;
        world.api::<ScavengerJob>().delete("first", &DeleteParams::default()).await?;
        let second = world.phase("second", Phase::Completed).await?;
        let interruptions = second.status.map(|status| status.interrupted_count);
        ensure!(
            interruptions == Some(0),
            "waiting for the quota was counted as {interruptions:?} interruptions"
        );
        Ok(())
    });
}
