//! Who goes when others need the room, on a real cluster. The tests here share one pool with each other: they change
//! only what concerns a resource of their own, or pods that ask for it.

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp, tz::Offset};
use k8s_openapi::api::{core::v1::Pod, policy::v1::PodDisruptionBudget};
use kube::api::{Patch, PatchParams};
use scavenger_e2e::{
    World,
    local::program,
    room::{
        bring_pool, delete_all, delete_pod, has_reason, holding, in_mode_operator, interrupted, now,
        owner_of_class, patch_pool, pools, start, status, thresholds, with_headroom, with_thresholds,
    },
    run,
    tool::Tool,
    world::until,
};
use scavenger_schema::{
    names,
    scavenger_job::{Phase, ScavengerJob},
};
use scavenger_vocabulary::{Reason, WaitingReason, pool_condition};
use serde_json::{Value, json};
use tokio::process::Command;

#[test]
#[ignore = "in `cargo xtask test --all`"]
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
            ensure!(reason == Reason::Headroom, "{reason}");
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

/// The ScavengerJobs of the namespace that a change of the pool interrupts, as the laboratory says.
async fn foretold(world: &World, change: &Value) -> Result<Vec<(String, String)>> {
    let folder = tempfile::tempdir()?;
    let file = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (live, pool) = (file("live.json"), file("new.yaml"));
    let simulate = ["simulate", "--snapshot", &live, "--pool", &pool, "--limit", "10000", "--output", "json"];
    let page: Value = until("the snapshot can be played", || async {
        fs::write(&live, Tool::of(None)?.good(&["snapshot"]).await?)?;
        let mut new = serde_json::to_value(pools(world).get(names::DEFAULT_POOL).await?)?;
        for (name, value) in change.as_object().context("no object")? {
            new["spec"][name] = value.clone();
        }
        fs::write(&pool, new.to_string())?;
        let output = Command::new(program("scavenger-laboratory")?).args(simulate).output().await?;
        if output.status.success() {
            return Ok(Some(serde_json::from_slice(&output.stdout)?));
        }
        // It was taken in the middle of what other tests do.
        ensure!(String::from_utf8_lossy(&output.stderr).contains("contradicts itself"), "{output:?}");
        Ok(None)
    })
    .await?;
    let text = |event: &Value, name: &str| event[name].as_str().unwrap_or_default().to_owned();
    let mine = format!("{}/", world.namespace);
    let events = page["events"].as_array().with_context(|| page.to_string())?;
    let events = events.iter().filter(|event| event["dueTo"] == "change" && event["event"] == "Interrupted");
    let events = events.map(|event| (text(event, "scavengerJob"), text(event, "reason")));
    Ok(events.filter_map(|(name, why)| Some((name.strip_prefix(&mine)?.to_owned(), why))).collect())
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn what_the_laboratory_says_of_a_change_comes_true() {
    run("what-if", |world| async move {
        world.claim("data").await?;
        let slot = &world.slots(10).await?;
        for (name, saves, restart_seconds) in
            [("dear", false, 600), ("middling", false, 5), ("cheap", true, 5)]
        {
            let mut job = holding(name, slot, 2, saves);
            job["spec"]["checkpoint"]["restartSeconds"] = json!(restart_seconds);
            start(world, job).await?;
        }
        // Leaves 2 of 10 slots to ScavengerJobs.
        let lower = [json!(0.2), json!(0.25), json!(0.3)];
        let mut foretold = foretold(world, &thresholds(slot, lower.clone())).await?;
        foretold.sort();
        let expected = ["cheap", "middling"].map(|name| (name.to_owned(), "Headroom".to_owned()));
        ensure!(foretold == expected, "{foretold:?}");

        with_thresholds(world, slot, lower, || async {
            for (name, reason) in foretold {
                let why = interrupted(world, &name, 1).await?;
                ensure!(why.to_string() == reason, "{name}: {why}");
            }
            // What was not foretold does not happen when the others have gone.
            let dear = world.phase("dear", Phase::Running).await?;
            ensure!(status(&dear).interrupted_count == 0, "{:?}", status(&dear));
            Ok(())
        })
        .await
    });
}

/// Nothing starts outside the window, which opens with the next minute.
#[test]
#[ignore = "in `cargo xtask test --all`"]
fn when_a_window_opens_its_thresholds_hold() {
    run("window", |world| async move {
        world.claim("data").await?;
        let slot = &world.slots(10).await?;
        let result = starts_in_its_window(world, slot).await;
        patch_pool(world, &json!({ "windows": null, "startThresholdOverrides": { slot: null } })).await?;
        result?;
        until("no window is open", || async { Ok(window_of_the_pool(world).await?.is_none().then_some(())) })
            .await
    });
}

async fn starts_in_its_window(world: &World, slot: &str) -> Result<()> {
    let clock = |time: Timestamp| Offset::from_seconds(INDIA).map(|offset| offset.to_datetime(time));
    let time_of_day = |time| clock(time).map(|clock| clock.strftime("%H:%M").to_string());
    let window = |opens: Timestamp| {
        anyhow::Ok(json!({ "windows": [{
            "name": "soon", "timeZone": "Asia/Kolkata", "start": time_of_day(opens)?,
            "end": time_of_day(opens + SignedDuration::from_hours(1))?, "startThresholdOverrides": { slot: 1 },
        }] }))
    };
    patch_pool(world, &json!({ "startThresholdOverrides": { slot: 0 } })).await?;
    bring_pool(world, &window(now() + SignedDuration::from_hours(2))?).await?;
    world.create::<ScavengerJob>(holding("waits", slot, 2, true)).await?;
    let is_told = |job: &ScavengerJob| has_reason(job, WaitingReason::NoCapacity);
    world.job_until("waits", "waits for capacity", is_told).await?;
    // Now it opens at a full minute, half a minute ahead at least: on a busy machine a patch alone takes seconds.
    let opens = Timestamp::from_second((now().as_second() + 90) / 60 * 60)?;
    patch_pool(world, &window(opens)?).await?;
    ensure!(window_of_the_pool(world).await?.is_none(), "the window is open already");
    let job = world.phase("waits", Phase::Running).await?;
    let started = status(&job).start_times.first().context("it runs")?.0;
    ensure!(started >= opens, "{started} is before {opens}");
    let window = window_of_the_pool(world).await?;
    ensure!(window.as_deref() == Some("soon"), "{window:?}");
    Ok(())
}

/// How far clocks in India are ahead all the year, in seconds.
const INDIA: i32 = 19_800;

async fn window_of_the_pool(world: &World) -> Result<Option<String>> {
    Ok(pools(world).get(names::DEFAULT_POOL).await?.status.and_then(|status| status.window))
}

/// A budget of the namespace's own answers evictions with 429; two that match with 500.
#[test]
#[ignore = "in `cargo xtask test --all`"]
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
                ensure!(reason == Reason::Headroom, "{reason}");
                world.pod_runs("owner").await?;
                delete_pod(world, "owner").await?;
            }
            world.phase("kept", Phase::Running).await?;
            Ok(())
        })
        .await
    });
}

/// What a pod's spec says of a claim that it mounts.
fn mounting(claim: &str) -> Value {
    json!({ "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": claim } }] })
}

/// Time from a pod's creation until it runs.
async fn time_to_run(world: &World, class: Option<&str>, slot: &str) -> Result<Duration> {
    let running = |pod: Option<&Pod>| {
        let phase = pod.and_then(|pod| pod.status.as_ref()).and_then(|status| status.phase.as_deref());
        phase == Some("Running")
    };
    let began = Instant::now();
    // Its claim is bound, to a volume of this node.
    owner_of_class(world, "owner", class, slot, mounting("data")).await?;
    let runs = kube::runtime::wait::await_condition(world.api::<Pod>(), "owner", running);
    tokio::time::timeout(scavenger_e2e::world::LIMIT, runs)
        .await
        .context("the owner's pod does not run")??;
    Ok(began.elapsed())
}

/// Two that fill a node below the threshold: an older one that would lose little, and a younger one that would lose much.
/// Those of the round before go first: after each interruption one waits twice as long before it starts again.
async fn two_anew(world: &World, slot: &str) -> Result<()> {
    delete_all(world).await?;
    for (name, saves) in [("cheap", true), ("dear", false)] {
        start(world, holding(name, slot, 5, saves)).await?;
    }
    Ok(())
}

async fn the_cheaper_one_goes(world: &World, class: &str) -> Result<()> {
    // Both together stay below the threshold of 95%.
    let slot = &world.slots(11).await?;
    two_anew(world, slot).await?;

    // What cannot be judged interrupts nobody, and the pool says so.
    let apart = json!({ "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
        { "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": "apart" } } }] } } });
    for (name, more, constraint) in [
        ("apart", apart, "podAntiAffinity"),
        ("unbound", mounting("never"), "PersistentVolumeClaim never is not bound"),
    ] {
        owner_of_class(world, name, Some(class), slot, more).await?;
        let named = format!("{}/{name} (", world.namespace);
        until("the pool names the pod that is not judged", || async {
            let pool = pools(world).get(names::DEFAULT_POOL).await?;
            let conditions = pool.status.unwrap_or_default().conditions;
            let said = conditions.iter().any(|condition| {
                condition.type_ == pool_condition::UNJUDGED_PODS
                    && condition.status == "True"
                    && condition.message.contains(&named)
                    && condition.message.contains(constraint)
            });
            Ok(said.then_some(()))
        })
        .await?;
        delete_pod(world, name).await?;
    }
    for name in ["cheap", "dear"] {
        let job = world.phase(name, Phase::Running).await?;
        ensure!(status(&job).interrupted_count == 0, "{name}: {:?}", status(&job));
    }

    // The older one goes, since it loses less; kube-scheduler would take the younger one.
    let (mut operator, mut scheduler) = (Vec::new(), Vec::new());
    // More than twenty do not make the median better.
    for _ in 0..scavenger_e2e::repetitions(3).min(20) {
        two_anew(world, slot).await?;
        operator.push(time_to_run(world, Some(class), slot).await?);
        let reason = interrupted(world, "cheap", 1).await?;
        ensure!(reason == Reason::PreemptedByOperator, "{reason}");
        let dear = world.phase("dear", Phase::Running).await?;
        ensure!(status(&dear).interrupted_count == 0, "{:?}", status(&dear));
        delete_pod(world, "owner").await?;
    }
    // The same without the class: stock preemption.
    for _ in 0..operator.len() {
        two_anew(world, slot).await?;
        scheduler.push(time_to_run(world, None, slot).await?);
        delete_pod(world, "owner").await?;
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

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn in_mode_operator_the_one_that_loses_least_goes_and_the_pod_runs() {
    run("operator-mode", |world| async move {
        world.claim("data").await?;
        in_mode_operator(world, |class| async move { the_cheaper_one_goes(world, &class).await }).await
    });
}

#[test]
fn a_bad_pool_is_refused_with_the_name_of_its_field() {
    run("bad-pool", |world| async move {
        let cases = [
            ("spec.headroomTarget", json!({ "headroomTarget": 0.1, "interruptThreshold": 0.99 })),
            ("spec.headroomTarget", json!({ "headroomTarget": 0.99, "interruptThreshold": 0.99 })),
            (
                "spec.headroomTargetOverrides",
                json!({ "headroomTargetOverrides": { "memory": 0.1 }, "interruptThreshold": 0.99 }),
            ),
            ("spec.interruptThresholdOverrides", json!({ "interruptThresholdOverrides": { "gpu": 0.1 } })),
            ("spec.interruptThreshold", json!({ "interruptThreshold": 2 })),
            ("spec.weights.cpu", json!({ "weights": { "cpu": -1 } })),
            ("spec.reserveAfter", json!({ "reserveAfter": "0s" })),
            ("spec.reserveAfter", json!({ "reserveAfter": "169h" })),
            ("spec.reserveAfter", json!({ "reserveAfter": "soon" })),
            ("spec.preemptionMode", json!({ "preemptionMode": "Both" })),
            ("spec.pendingTimeout", json!({ "pendingTimeout": "0s" })),
            ("spec.pendingTimeout", json!({ "pendingTimeout": "-1m" })),
            ("spec.startDeadline", json!({ "startDeadline": "999ms" })),
            ("spec.startDeadline", json!({ "startDeadline": 300 })),
            ("spec.referenceGrace", json!({ "referenceGrace": "-1s" })),
            ("spec.interruptionBackoff", json!({ "interruptionBackoff": "soon" })),
            ("spec.prioritySteps", json!({ "prioritySteps": 0 })),
            ("spec.prioritySteps", json!({ "prioritySteps": 11 })),
            ("spec.maxConcurrentStarts", json!({ "maxConcurrentStarts": 0 })),
            ("spec.maxConcurrentStarts", json!({ "maxConcurrentStarts": 10_001 })),
            ("spec.startThreshold", json!({ "startThreshold": 1.1 })),
            (
                "spec.windows[0].start",
                json!({ "windows": [{ "name": "a", "start": "24:00", "end": "06:00" }] }),
            ),
            ("spec.windows[0].end", json!({ "windows": [{ "name": "a", "start": "20:00", "end": "6 am" }] })),
            ("spec.windows[0].end", json!({ "windows": [{ "name": "a", "start": "20:00" }] })),
            (
                "spec.windows[0].name",
                json!({ "windows": [{ "name": "A", "start": "20:00", "end": "06:00" }] }),
            ),
            (
                "spec.windows[0].days[0]",
                json!({ "windows": [{ "name": "a", "days": ["Monday"], "start": "20:00", "end": "06:00" }] }),
            ),
            (
                "spec.windows[1]",
                json!({ "windows": [
                { "name": "a", "start": "20:00", "end": "06:00" }, { "name": "a", "start": "06:00", "end": "07:00" },
            ] }),
            ),
            (
                "in each window headroomTarget",
                json!({ "windows": [
                { "name": "a", "start": "20:00", "end": "06:00", "startThreshold": 0.95, "interruptThreshold": 0.9 },
            ] }),
            ),
            ("spec.disruptionBudgets[0].jobs", json!({ "disruptionBudgets": [{ "jobs": "ten" }] })),
            ("spec.disruptionBudgets[0].jobs", json!({ "disruptionBudgets": [{ "jobs": "101%" }] })),
            ("spec.disruptionBudgets[0].jobs", json!({ "disruptionBudgets": [{ "jobs": -1 }] })),
            ("spec.disruptionBudgets[0].jobs", json!({ "disruptionBudgets": [{ "period": "1m" }] })),
            (
                "spec.disruptionBudgets[0].reasons[0]",
                json!({ "disruptionBudgets": [{ "reasons": ["Drained"], "jobs": 0 }] }),
            ),
            (
                "spec.disruptionBudgets[0].period",
                json!({ "disruptionBudgets": [{ "jobs": 1, "period": "0s" }] }),
            ),
            (
                "spec.disruptionBudgets[0].period",
                json!({ "disruptionBudgets": [{ "jobs": 1, "period": "8d" }] }),
            ),
            (
                "spec.disruptionBudgets[0].schedule.end",
                json!({ "disruptionBudgets": [{ "jobs": 1, "schedule": { "start": "20:00" } }] }),
            ),
            ("spec.nodeSelector", json!({ "nodeSelector": { "zone": "z".repeat(64) } })),
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
        let told = matches!(&pool, Err(kube::Error::Api(status)) if status.message.contains("interruptThreshold: 1 switches"));
        ensure!(told, "{pool:?}");
        for off in [
            json!({ "interruptThreshold": 1, "startThreshold": 1 }),
            json!({
                "interruptThresholdOverrides": { "gpu": 1 }, "startThresholdOverrides": { "gpu": 1 },
                "headroomTargetOverrides": { "gpu": 0.1 },
            }),
        ] {
            let patch = json!({ "spec": off });
            let taken = pools(world).patch(names::DEFAULT_POOL, &dry, &Patch::Merge(&patch)).await?;
            let kept = taken.spec.interrupt_threshold.is_some();
            ensure!(kept, "{taken:?}");
        }
        Ok(())
    });
}
