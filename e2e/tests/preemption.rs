//! Who goes when others need the room, on a real cluster. The tests here share one pool with each other: they change
//! only what concerns a resource of their own, or pods that ask for it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{core::v1::Pod, policy::v1::PodDisruptionBudget, scheduling::v1::PriorityClass};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use scavenger_e2e::{
    World, run,
    world::{COUNTER, counter, until},
};
use scavenger_schema::{
    names,
    reasons::{interruption, pool_condition},
    scavenger_job::{Phase, ScavengerJob, ScavengerJobStatus},
    scavenger_pool::ScavengerPool,
};
use serde_json::{Value, json};

fn status(job: &ScavengerJob) -> ScavengerJobStatus {
    job.status.clone().unwrap_or_default()
}

fn pools(world: &World) -> Api<ScavengerPool> {
    Api::all(world.client.clone())
}

async fn patch_pool(world: &World, spec: &Value) -> Result<()> {
    let patch = json!({ "spec": spec });
    pools(world).patch(names::DEFAULT_POOL, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

/// A ScavengerJob that counts for a long time and holds `slots`; one that does not save loses what it counted since
/// its last checkpoint, as far as the operator knows.
fn holding(name: &str, slot: &str, slots: u32, saves: bool) -> Value {
    let mut job = counter(name, 1_000_000);
    job["spec"]["args"][2] = json!(format!("--checkpoint=/data/{name}"));
    job["spec"]["args"][4] = json!(format!("--journal=/data/journal-{name}"));
    job["spec"]["resources"]["requests"][slot] = json!(slots);
    job["spec"]["interruptionAfter"] = json!("10m");
    job["spec"]["checkpoint"] = json!({ "savesOnSigterm": saves, "restartSeconds": 5 });
    job
}

async fn start(world: &World, job: Value) -> Result<()> {
    let name = job["metadata"]["name"].as_str().context("a test's job should have a name")?.to_owned();
    world.create::<ScavengerJob>(job).await?;
    world.phase(&name, Phase::Running).await?;
    Ok(())
}

/// Waits until a ScavengerJob was interrupted this often, and returns why the last time.
async fn interrupted(world: &World, name: &str, count: i64) -> Result<String> {
    let job = world
        .job_until(name, &format!("interrupted {count} times"), |job| status(job).interrupted_count == count)
        .await?;
    let status = status(&job);
    let last = status.attempts.last().context("no attempt was recorded")?;
    last.reason.clone().context("the attempt has no reason")
}

async fn delete_pod(world: &World, name: &str) -> Result<()> {
    let pods = world.api::<Pod>();
    pods.delete(name, &DeleteParams::default()).await?;
    until(&format!("pod {name} is gone"), || async { Ok(pods.get_opt(name).await?.is_none().then_some(())) })
        .await
}

/// Keeps 3 of 10 slots free once more than 8 are used.
async fn with_headroom<F>(world: &World, slot: &str, test: impl FnOnce() -> F) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    let overrides = |start: Value, target: Value, interrupt: Value| {
        json!({
            "startThresholdOverrides": { slot: start },
            "headroomTargetOverrides": { slot: target },
            "interruptThresholdOverrides": { slot: interrupt },
        })
    };
    patch_pool(world, &overrides(json!(0.5), json!(0.7), json!(0.8))).await?;
    let result = test().await;
    patch_pool(world, &overrides(Value::Null, Value::Null, Value::Null)).await?;
    result
}

#[test]
fn the_cheapest_goes_before_others_need_its_room() {
    run("headroom", |world| async move {
        world.claim("data").await?;
        let slot = &world.slots(10).await?;
        with_headroom(world, slot, || async {
            start(world, holding("dear", slot, 2, false)).await?;
            start(world, holding("cheap", slot, 2, true)).await?;
            // 4 + 4 slots are no more than 8.
            world.owner_pod("owner", slot, 4).await?;
            world.pod_runs("owner").await?;
            world.owner_pod("second", slot, 1).await?;
            let reason = interrupted(world, "cheap", 1).await?;
            ensure!(reason == interruption::HEADROOM, "{reason}");
            world.pod_runs("second").await?;
            let dear = world.phase("dear", Phase::Running).await?;
            ensure!(status(&dear).interrupted_count == 0, "{:?}", status(&dear));
            // Below the start threshold again, it goes on.
            delete_pod(world, "owner").await?;
            world.phase("cheap", Phase::Running).await?;
            let dear = world.phase("dear", Phase::Running).await?;
            ensure!(status(&dear).interrupted_count == 0, "{:?}", status(&dear));
            Ok(())
        })
        .await
    });
}

/// A budget of the namespace's own answers evictions with 429; two that match with 500.
#[test]
fn a_budget_that_forbids_everything_does_not_keep_it() {
    run("budget", |world| async move {
        world.claim("data").await?;
        let slot = &world.slots(10).await?;
        with_headroom(world, slot, || async {
            start(world, holding("kept", slot, 5, true)).await?;
            for (round, budget) in [(1, "first"), (2, "second")] {
                let budget = json!({
                    "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": budget },
                    "spec": { "maxUnavailable": 0, "selector": {} },
                });
                world.create::<PodDisruptionBudget>(budget).await?;
                world.phase("kept", Phase::Running).await?;
                world.owner_pod("owner", slot, 4).await?;
                let reason = interrupted(world, "kept", round).await?;
                ensure!(reason == interruption::HEADROOM, "{reason}");
                world.pod_runs("owner").await?;
                delete_pod(world, "owner").await?;
            }
            world.phase("kept", Phase::Running).await?;
            Ok(())
        })
        .await
    });
}

/// An owner's pod with a class of its own, and what else its spec has.
async fn owner_of_class(
    world: &World,
    name: &str,
    class: Option<&str>,
    slot: &str,
    more: Value,
) -> Result<()> {
    let requests = json!({ slot: "4", "cpu": "10m", "memory": "16Mi" });
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

/// Time from a pod's creation until it runs.
async fn time_to_run(world: &World, class: Option<&str>, slot: &str) -> Result<Duration> {
    let running = |pod: Option<&Pod>| {
        let phase = pod.and_then(|pod| pod.status.as_ref()).and_then(|status| status.phase.as_deref());
        phase == Some("Running")
    };
    let began = Instant::now();
    owner_of_class(world, "owner", class, slot, json!({})).await?;
    let runs = kube::runtime::wait::await_condition(world.api::<Pod>(), "owner", running);
    tokio::time::timeout(scavenger_e2e::world::LIMIT, runs)
        .await
        .context("the owner's pod does not run")??;
    Ok(began.elapsed())
}

async fn in_mode_operator(world: &World, class: &str) -> Result<()> {
    // Both together stay below the threshold of 95%.
    let slot = &world.slots(11).await?;
    start(world, holding("cheap", slot, 5, true)).await?;
    start(world, holding("dear", slot, 5, false)).await?;

    // What can not be judged interrupts nobody, and the pool says so.
    let apart = json!({ "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
        { "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": "unjudged" } } }] } } });
    owner_of_class(world, "unjudged", Some(class), slot, apart).await?;
    let named = format!("{}/unjudged (podAntiAffinity)", world.namespace);
    until("the pool names the pod that is not judged", || async {
        let pool = pools(world).get(names::DEFAULT_POOL).await?;
        let conditions = pool.status.unwrap_or_default().conditions;
        let said = conditions.iter().any(|condition| {
            condition.type_ == pool_condition::UNJUDGED_PODS
                && condition.status == "True"
                && condition.message.contains(&named)
        });
        Ok(said.then_some(()))
    })
    .await?;
    for name in ["cheap", "dear"] {
        let job = world.phase(name, Phase::Running).await?;
        ensure!(status(&job).interrupted_count == 0, "{name}: {:?}", status(&job));
    }
    delete_pod(world, "unjudged").await?;

    // The older one goes, since it loses less; kube-scheduler would take the younger one.
    let (mut operator, mut scheduler) = (Vec::new(), Vec::new());
    // More than twenty do not make the median better.
    for round in 1..=scavenger_e2e::repetitions(3).min(20) {
        operator.push(time_to_run(world, Some(class), slot).await?);
        let reason = interrupted(world, "cheap", i64::try_from(round)?).await?;
        ensure!(reason == interruption::PREEMPTED_BY_OPERATOR, "{reason}");
        let dear = world.phase("dear", Phase::Running).await?;
        ensure!(status(&dear).interrupted_count == 0, "{:?}", status(&dear));
        delete_pod(world, "owner").await?;
        world.phase("cheap", Phase::Running).await?;
    }
    // The same without the class: stock preemption.
    for _ in 0..operator.len() {
        scheduler.push(time_to_run(world, None, slot).await?);
        delete_pod(world, "owner").await?;
        for name in ["cheap", "dear"] {
            world.phase(name, Phase::Running).await?;
        }
    }
    operator.sort();
    scheduler.sort();
    println!(
        "ordinary pod created -> Running on a full node, median of {}: {:.2} s in mode Operator, {:.2} s with stock \
         preemption",
        operator.len(),
        operator[operator.len() / 2].as_secs_f64(),
        scheduler[scheduler.len() / 2].as_secs_f64(),
    );
    Ok(())
}

/// Other tests' pods do not name the class, so the mode does not concern them.
#[test]
fn in_mode_operator_the_one_that_loses_least_goes_and_the_pod_runs() {
    run("operator-mode", |world| async move {
        world.claim("data").await?;
        let classes: Api<PriorityClass> = Api::all(world.client.clone());
        let class: PriorityClass = serde_json::from_value(json!({
            "metadata": { "name": world.namespace },
            "value": 0,
            "preemptionPolicy": "Never",
        }))?;
        classes.create(&PostParams::default(), &class).await?;
        patch_pool(world, &json!({ "preemptionMode": "Operator" })).await?;
        let result = in_mode_operator(world, &world.namespace).await;
        patch_pool(world, &json!({ "preemptionMode": "Scheduler" })).await?;
        classes.delete(&world.namespace, &DeleteParams::default()).await?;
        result
    });
}

#[test]
fn a_bad_pool_is_refused_with_the_name_of_its_field() {
    run("bad-pool", |world| async move {
        let cases = [
            ("spec.headroomTarget", json!({ "headroomTarget": 0.1 })),
            ("spec.headroomTarget", json!({ "headroomTarget": 1, "interruptThreshold": 1 })),
            ("spec.headroomTargetOverrides", json!({ "headroomTargetOverrides": { "memory": 0.1 } })),
            ("spec.interruptThresholdOverrides", json!({ "interruptThresholdOverrides": { "gpu": 0.1 } })),
            ("spec.interruptThreshold", json!({ "interruptThreshold": 2 })),
            ("spec.weights.cpu", json!({ "weights": { "cpu": -1 } })),
            ("spec.preemptionMode", json!({ "preemptionMode": "Both" })),
        ];
        for (field, spec) in cases {
            let dry = PatchParams { dry_run: true, ..PatchParams::default() };
            let patch = json!({ "spec": spec });
            let refused = pools(world).patch(names::DEFAULT_POOL, &dry, &Patch::Merge(&patch)).await;
            match refused {
                Err(kube::Error::Api(status)) => {
                    ensure!(status.message.contains(field), "{field} is not named in: {}", status.message);
                }
                other => anyhow::bail!("{patch} was not refused: {other:?}"),
            }
        }
        let dry = PatchParams { dry_run: true, ..PatchParams::default() };
        let off = json!({ "spec": { "interruptThreshold": null, "headroomTarget": 0.1 } });
        let pool = pools(world).patch(names::DEFAULT_POOL, &dry, &Patch::Merge(&off)).await;
        // A merge patch takes null for "remove", so the default comes back and is refused like any other.
        ensure!(pool.is_err(), "{pool:?}");
        Ok(())
    });
}
