//! Owners first: when somebody needs room a ScavengerJob goes, and never an ordinary pod that would not have gone
//! without ScavengerJobs; on the real scheduler, in both modes, among ordinary pods of several priorities.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{core::v1::Pod, policy::v1::PodDisruptionBudget};
use kube::ResourceExt;
use scavenger_e2e::{
    World,
    room::{bring_pool, class, delete_pod, holding, owner_with, patch_pool, remove_classes, start, status},
    run,
    world::until,
};
use scavenger_schema::{
    names,
    scavenger_job::{Phase, ScavengerJob},
};
use serde_json::{Value, json};

/// Ordinary priorities, least first. Owners of the lowest are still far above every ScavengerJob.
const PRIORITIES: [(&str, i32); 4] = [("lowest", -100), ("low", 0), ("middle", 100), ("high", 100_000)];

/// Classes of these priorities.
async fn classes(world: &World, policy: &str) -> Result<BTreeMap<&'static str, String>> {
    let mut classes = BTreeMap::new();
    for (name, value) in PRIORITIES {
        classes.insert(name, class(world, name, value, policy).await?);
    }
    Ok(classes)
}

/// The owners' pods are those they were, and run.
async fn owners_stay(world: &World, owners: &BTreeMap<String, Option<String>>) -> Result<()> {
    for (name, uid) in owners {
        let pod = world.api::<Pod>().get_opt(name).await?.with_context(|| format!("owner {name} is gone"))?;
        ensure!(pod.uid() == *uid, "owner {name} is another pod");
        ensure!(pod.metadata.deletion_timestamp.is_none(), "owner {name} is being deleted");
        let phase = pod.status.and_then(|status| status.phase);
        ensure!(phase.as_deref() == Some("Running"), "owner {name} is {phase:?}");
    }
    Ok(())
}

async fn owner(
    world: &World,
    owners: &mut BTreeMap<String, Option<String>>,
    class: &str,
    (slot, slots): (&str, u32),
) -> Result<String> {
    let name = format!("owner-{}", owners.len());
    owner_with(world, &name, Some(class), (slot, slots), json!({})).await?;
    world.pod_runs(&name).await?;
    owners.insert(name.clone(), world.api::<Pod>().get(&name).await?.uid());
    owners_stay(world, owners).await?;
    Ok(name)
}

async fn budget(world: &World, selector: Value) -> Result<()> {
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "nothing" },
        "spec": { "maxUnavailable": 0, "selector": selector },
    });
    world.create::<PodDisruptionBudget>(budget).await?;
    until("the budget is in force", || async {
        let budget = world.api::<PodDisruptionBudget>().get("nothing").await?;
        Ok(budget.status.and_then(|status| status.observed_generation).map(|_| ()))
    })
    .await
}

async fn story(world: &World, classes: &BTreeMap<&str, String>) -> Result<()> {
    // 17 of 18: below the threshold of 95%. The last one is nobody's.
    let slot = &world.slots(18).await?;
    let mut owners = BTreeMap::new();
    owner(world, &mut owners, &classes["lowest"], (slot, 5)).await?;
    owner(world, &mut owners, &classes["middle"], (slot, 2)).await?;
    for name in ["first", "second"] {
        start(world, holding(name, slot, 5, true)).await?;
    }

    // One of high priority, and one of none in particular: each time a ScavengerJob goes, although an ordinary pod of
    // the lowest priority would have made room as well.
    let total = |jobs: [i64; 2]| jobs.iter().sum::<i64>();
    let counts = || async {
        let mut counts = [0; 2];
        for (count, name) in counts.iter_mut().zip(["first", "second"]) {
            let job = world.api::<ScavengerJob>().get(name).await?;
            *count = status(&job).interrupted_count;
        }
        anyhow::Ok(counts)
    };
    for (round, priority) in [(1, "high"), (2, "low")] {
        owner(world, &mut owners, &classes[priority], (slot, 5)).await?;
        until("a ScavengerJob is called interrupted", || async {
            Ok((total(counts().await?) >= round).then_some(()))
        })
        .await?;
        ensure!(total(counts().await?) == round, "more went than were needed: {:?}", counts().await?);
    }
    ensure!(counts().await? == [1, 1], "{:?}", counts().await?);
    owners_stay(world, &owners).await?;

    // When two of them are done, one of the ScavengerJobs comes back and disturbs nobody.
    for name in ["owner-2", "owner-3"] {
        owners.remove(name);
        delete_pod(world, name).await?;
    }
    for name in ["first", "second"] {
        world.phase(name, Phase::Running).await?;
    }
    owners_stay(world, &owners).await
}

async fn with_classes(world: &World, policy: &str) -> Result<()> {
    world.claim("data").await?;
    let classes = classes(world, policy).await?;
    let result = story(world, &classes).await;
    remove_classes(world, &classes.into_values().collect::<Vec<_>>()).await?;
    result
}

/// A budget without a selector of labels is no hindrance to kube-scheduler, and none to anybody else.
#[test]
#[ignore = "in `cargo xtask test --all`"]
fn kube_scheduler_takes_scavenger_jobs_and_no_owner() {
    run("owners", |world| async move {
        budget(world, json!({})).await?;
        with_classes(world, "PreemptLowerPriority").await
    });
}

/// The budget forbids the eviction of every pod of a ScavengerJob by its label.
#[test]
fn in_mode_operator_the_operator_does_too() {
    run("owners-operator", |world| async move {
        let all = json!({ "matchExpressions": [{ "key": names::LABEL_JOB, "operator": "Exists" }] });
        budget(world, all).await?;
        bring_pool(world, &json!({ "preemptionMode": "Operator" })).await?;
        let result = with_classes(world, "Never").await;
        patch_pool(world, &json!({ "preemptionMode": "Scheduler" })).await?;
        result
    });
}
