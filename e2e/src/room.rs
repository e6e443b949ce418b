//! ScavengerJobs that hold room on the real node, and owners' pods that want it.

use std::{future::Future, time::Duration};

use anyhow::{Context, Result};
use jiff::Timestamp;
use k8s_openapi::api::{core::v1::Pod, scheduling::v1::PriorityClass};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use scavenger_schema::{
    names,
    scavenger_job::{Phase, ScavengerJob, ScavengerJobStatus},
    scavenger_pool::ScavengerPool,
};
use scavenger_vocabulary::{Reason, WaitingReason};
use serde_json::{Value, json};

use crate::{
    World,
    world::{COUNTER, LIMIT, counter_beside, until, until_within},
};

/// What became of a ScavengerJob so far.
#[must_use]
pub fn status(job: &ScavengerJob) -> ScavengerJobStatus {
    job.status.clone().unwrap_or_default()
}

/// Waits until the active attempt of a ScavengerJob has run for this time. Nothing is written meanwhile, so it is asked
/// again and again.
///
/// # Errors
/// If it does not start within the limit, and then runs for so long.
pub async fn has_run_for(world: &World, name: &str, time: Duration) -> Result<()> {
    until_within(LIMIT + time, &format!("{name} has run for {time:?}"), || async {
        let status = status(&world.api::<ScavengerJob>().get(name).await?);
        let started = status.start_times.last().filter(|_| status.phase == Some(Phase::Running));
        let due = started.and_then(|started| started.0.checked_add(time).ok());
        Ok(due.is_some_and(|due| due <= now()).then_some(()))
    })
    .await
}

/// The time by this machine's clock.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the clock of the test")]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// True if a condition of a ScavengerJob says that it waits for this reason.
#[must_use]
pub fn has_reason(job: &ScavengerJob, reason: WaitingReason) -> bool {
    status(job).conditions.iter().any(|condition| condition.reason == reason.name())
}

/// The pool's API.
#[must_use]
pub fn pools(world: &World) -> Api<ScavengerPool> {
    Api::all(world.client.clone())
}

/// Changes what the pool's spec names.
///
/// # Errors
/// What the API server says.
pub async fn patch_pool(world: &World, spec: &Value) -> Result<()> {
    let patch = json!({ "spec": spec });
    pools(world).patch(names::DEFAULT_POOL, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

/// Like [`patch_pool`], and waits until the operator plans by it: what it hears of the pool and of ScavengerJobs has no common
/// order.
///
/// # Errors
/// What the API server says, or if no operator takes it in.
pub async fn bring_pool(world: &World, spec: &Value) -> Result<()> {
    patch_pool(world, spec).await?;
    pool_is_known(world).await
}

/// Waits until the operator plans by the pool as it is now.
///
/// # Errors
/// What the API server says, or if no operator takes it in.
pub async fn pool_is_known(world: &World) -> Result<()> {
    let wanted = pools(world).get(names::DEFAULT_POOL).await?.metadata.generation;
    until("the operator knows the pool", || async {
        let status = pools(world).get(names::DEFAULT_POOL).await?.status.unwrap_or_default();
        Ok((status.observed_generation >= wanted).then_some(()))
    })
    .await
}

/// Start threshold, headroom target and interrupt threshold for `slot`, as a change of the pool's spec.
#[must_use]
pub fn thresholds(slot: &str, of: [Value; 3]) -> Value {
    let [start, target, interrupt] = of;
    json!({
        "startThresholdOverrides": { slot: start },
        "headroomTargetOverrides": { slot: target },
        "interruptThresholdOverrides": { slot: interrupt },
    })
}

/// Gives the pool these [`thresholds`] for the time of a test.
///
/// # Errors
/// What the API server says, or the test.
pub async fn with_thresholds<F>(
    world: &World,
    slot: &str,
    of: [Value; 3],
    test: impl FnOnce() -> F,
) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    bring_pool(world, &thresholds(slot, of)).await?;
    let result = test().await;
    patch_pool(world, &thresholds(slot, [Value::Null, Value::Null, Value::Null])).await?;
    result
}

/// Keeps 3 of 10 slots free once more than 8 are used.
///
/// # Errors
/// What the API server says, or the test.
pub async fn with_headroom<F>(world: &World, slot: &str, test: impl FnOnce() -> F) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    with_thresholds(world, slot, [json!(0.5), json!(0.7), json!(0.8)], test).await
}

/// A ScavengerJob that counts for a long time and holds `slots`; one that does not save loses what it counted since
/// its last checkpoint, as far as the operator knows.
#[must_use]
pub fn holding(name: &str, slot: &str, slots: u32, saves: bool) -> Value {
    let mut job = counter_beside(name, 1_000_000);
    job["spec"]["resources"]["requests"][slot] = json!(slots);
    job["spec"]["interruptionAfter"] = json!("10m");
    job["spec"]["checkpoint"] = json!({ "savesOnSigterm": saves, "restartSeconds": 5 });
    job
}

/// Creates a ScavengerJob and waits until it runs.
///
/// # Errors
/// If it does not.
pub async fn start(world: &World, job: Value) -> Result<()> {
    let name = job["metadata"]["name"].as_str().context("a test's job should have a name")?.to_owned();
    world.create::<ScavengerJob>(job).await?;
    world.phase(&name, Phase::Running).await?;
    Ok(())
}

/// Deletes all ScavengerJobs of the namespace at once, since their pods take their time to end, and waits until they are
/// gone.
///
/// # Errors
/// If they do not go.
pub async fn delete_all(world: &World) -> Result<()> {
    let sjs = world.api::<ScavengerJob>();
    sjs.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    until("all ScavengerJobs are gone", || async {
        Ok(sjs.list(&ListParams::default()).await?.items.is_empty().then_some(()))
    })
    .await
}

/// Waits until a ScavengerJob was interrupted this often, and returns why the last time.
///
/// # Errors
/// If it is not.
pub async fn interrupted(world: &World, name: &str, count: i64) -> Result<Reason> {
    let job = world
        .job_until(name, &format!("interrupted {count} times"), |job| status(job).interrupted_count == count)
        .await?;
    let status = status(&job);
    let last = status.attempts.last().context("no attempt was recorded")?;
    last.reason.clone().context("the attempt has no reason")
}

/// Deletes a pod and waits until it is gone.
///
/// # Errors
/// If it does not go.
pub async fn delete_pod(world: &World, name: &str) -> Result<()> {
    let pods = world.api::<Pod>();
    pods.delete(name, &DeleteParams::default()).await?;
    until(&format!("pod {name} is gone"), || async { Ok(pods.get_opt(name).await?.is_none().then_some(())) })
        .await
}

/// An owner's pod with a class of its own, which asks for 4 slots, and what else its spec has.
///
/// # Errors
/// What the API server says.
pub async fn owner_of_class(
    world: &World,
    name: &str,
    class: Option<&str>,
    slot: &str,
    more: Value,
) -> Result<()> {
    owner_with(world, name, class, (slot, 4), more).await
}

/// An owner's pod with a class of its own, which asks for so many slots, and what else its spec has.
///
/// # Errors
/// What the API server says.
pub async fn owner_with(
    world: &World,
    name: &str,
    class: Option<&str>,
    (slot, slots): (&str, u32),
    more: Value,
) -> Result<()> {
    let requests = json!({ slot: slots.to_string(), "cpu": "10m", "memory": "16Mi" });
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "app": name } },
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "priorityClassName": class,
            "containers": [{
                "name": "owner", "image": COUNTER, "imagePullPolicy": "IfNotPresent",
                "command": ["scavenger-counter", "--to=1000000", "--every=1s", "--checkpoint=/tmp/count"],
                "resources": { "requests": requests, "limits": requests },
            }],
        },
    });
    if let (Some(spec), Value::Object(more)) = (pod["spec"].as_object_mut(), more) {
        spec.extend(more);
    }
    world.create::<Pod>(pod).await?;
    Ok(())
}

/// Waits until kube-scheduler has called a pod unschedulable.
///
/// # Errors
/// If it does not.
pub async fn unschedulable(world: &World, name: &str) -> Result<()> {
    until(&format!("pod {name} is unschedulable"), || async {
        let pod = world.api::<Pod>().get(name).await?;
        let conditions = pod.status.and_then(|status| status.conditions).unwrap_or_default();
        let told = conditions.iter().any(|condition| condition.reason.as_deref() == Some("Unschedulable"));
        Ok(told.then_some(()))
    })
    .await
}

/// Makes a PriorityClass, named after the test and what it is.
///
/// # Errors
/// What the API server says.
pub async fn class(world: &World, what: &str, value: i32, policy: &str) -> Result<String> {
    let name = format!("{}-{what}", world.namespace);
    let class: PriorityClass = serde_json::from_value(json!({
        "metadata": { "name": name }, "value": value, "preemptionPolicy": policy,
    }))?;
    Api::all(world.client.clone()).create(&PostParams::default(), &class).await?;
    Ok(name)
}

/// Removes PriorityClasses.
///
/// # Errors
/// What the API server says.
pub async fn remove_classes(world: &World, classes: &[String]) -> Result<()> {
    let api: Api<PriorityClass> = Api::all(world.client.clone());
    for class in classes {
        api.delete(class, &DeleteParams::default()).await?;
    }
    Ok(())
}

/// Runs a test in preemption mode Operator, with the name of a class as deploy/preemption-operator makes it the default.
/// Other tests' pods do not name the class, so the mode does not concern them.
///
/// # Errors
/// Those of the test.
pub async fn in_mode_operator<F>(world: &World, test: impl FnOnce(String) -> F) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    let patient = class(world, "patient", 0, "Never").await?;
    patch_pool(world, &json!({ "preemptionMode": "Operator" })).await?;
    let result = test(patient.clone()).await;
    patch_pool(world, &json!({ "preemptionMode": "Scheduler" })).await?;
    remove_classes(world, &[patient]).await?;
    result
}
