//! What the pool allows ScavengerJobs, and what a pool must be: its limits, and rules of its fields.

use anyhow::{Context, Result, ensure};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use scavenger_e2e::{
    World, run,
    users::refused,
    world::{counter, until},
};
use scavenger_schema::{names, scavenger_job::ScavengerJob, scavenger_pool::ScavengerPool};
use serde_json::{Value, json};

use super::policies::patch;

/// Sends a ScavengerJob without having it stored.
async fn try_out(world: &World, spoil: impl FnOnce(&mut Value)) -> kube::Result<ScavengerJob> {
    let mut job = counter("tried", 10);
    spoil(&mut job["spec"]);
    let job: ScavengerJob = serde_json::from_value(job).map_err(kube::Error::SerdeError)?;
    world.api().create(&PostParams { dry_run: true, ..PostParams::default() }, &job).await
}

async fn set_limits(world: &World, limits: Value, dry_run: bool) -> kube::Result<ScavengerPool> {
    let pools: Api<ScavengerPool> = Api::all(world.client.clone());
    let patch = json!({ "spec": { "limits": limits } });
    let parameters = PatchParams { dry_run, ..PatchParams::default() };
    pools.patch(names::DEFAULT_POOL, &parameters, &Patch::Merge(&patch)).await
}

#[test]
fn each_limit_of_the_pool_is_enforced_by_name() {
    run("limits", |world| async move {
        // From before the limits: it may stay, but not move further out.
        set_limits(world, json!({ "maxTerminationGracePeriodSeconds": 90 }), false).await?;
        let long: fn(&mut Value) = |spec| spec["terminationGracePeriodSeconds"] = json!(80);
        until("a longer grace period is allowed", || async { Ok(try_out(world, long).await.ok().map(drop)) })
            .await?;
        let mut earlier = counter("earlier", 10);
        earlier["spec"]["resources"]["requests"]["cpu"] = json!("1000");
        long(&mut earlier["spec"]);
        world.create::<ScavengerJob>(earlier).await?;
        // Wide enough for the other tests, which run at the same time.
        let limits = json!({
            "minInterruptionAfter": "2s", "maxTerminationGracePeriodSeconds": 60,
            "minRunAsUser": 100, "maxRunAsUser": 60_000, "minRunAsGroup": 90, "maxRunAsGroup": 70_000,
            "maxPodCount": 40, "maxResources": { "cpu": "2000", "memory": "64Gi", "e2e.scavenger.dev/part": "300m" },
            "allowedRuntimeClasses": ["allowed", "allowed-too"],
        });
        set_limits(world, limits, false).await?;
        let result = enforced(world).await;
        let unset = json!({
            "minInterruptionAfter": "1s", "maxTerminationGracePeriodSeconds": null, "minRunAsUser": null,
            "maxRunAsUser": null, "minRunAsGroup": null, "maxRunAsGroup": null, "maxPodCount": null,
            "maxResources": null, "allowedRuntimeClasses": null,
        });
        set_limits(world, unset, false).await?;
        result
    });
}

async fn enforced(world: &World) -> Result<()> {
    type Spoil = fn(&mut Value);
    until("the limits count", || async {
        Ok(try_out(world, |spec| spec["podCount"] = json!(41)).await.is_err().then_some(()))
    })
    .await?;
    let refusals: [(&[&str], Spoil); 15] = [
        (&["spec.interruptionAfter", "limits.minInterruptionAfter"], |spec| {
            spec["interruptionAfter"] = json!("1s");
        }),
        (&["spec.interruptionAfter", "limits.maxInterruptionAfter"], |spec| {
            spec["interruptionAfter"] = json!("2h1s");
        }),
        (&["spec.terminationGracePeriodSeconds", "limits.maxTerminationGracePeriodSeconds"], |spec| {
            spec["terminationGracePeriodSeconds"] = json!(61);
        }),
        (&["spec.runAsUser", "limits.minRunAsUser"], |spec| spec["runAsUser"] = json!(99)),
        (&["spec.runAsUser", "limits.maxRunAsUser"], |spec| spec["runAsUser"] = json!(60_001)),
        (&["spec.runAsGroup", "limits.minRunAsGroup"], |spec| spec["runAsGroup"] = json!(89)),
        (&["spec.runAsGroup", "limits.maxRunAsGroup"], |spec| spec["runAsGroup"] = json!(70_001)),
        (&["spec.fsGroup", "limits.minRunAsGroup"], |spec| spec["fsGroup"] = json!(89)),
        (&["spec.fsGroup", "limits.maxRunAsGroup"], |spec| spec["fsGroup"] = json!(70_001)),
        (&["spec.podCount", "limits.maxPodCount"], |spec| spec["podCount"] = json!(41)),
        (&["spec.tolerations", "toleratedTaints", "'dedicated'"], |spec| {
            spec["tolerations"] = json!([{ "key": "dedicated", "operator": "Exists" }]);
        }),
        (
            &["spec.runtimeClassName is other", "allowed, allowed-too", "limits.allowedRuntimeClasses"],
            |spec| {
                spec["runtimeClassName"] = json!("other");
            },
        ),
        (&["spec.tolerations", "toleratedTaints", "''"], |spec| {
            spec["tolerations"] = json!([{ "operator": "Exists" }]);
        }),
        (&["spec.resources.requests", "limits.maxResources", "memory is 33Gi", "64Gi"], |spec| {
            spec["podCount"] = json!(2);
            spec["resources"]["requests"]["memory"] = json!("33Gi");
        }),
        (&["spec.resources.requests", "limits.maxResources", "e2e.scavenger.dev/part is 101m"], |spec| {
            spec["podCount"] = json!(3);
            spec["resources"]["requests"]["e2e.scavenger.dev/part"] = json!("101m");
        }),
    ];
    for (words, spoil) in refusals {
        refused(words[0], try_out(world, spoil).await, words)?;
    }
    let just_within: [(&str, Spoil); 5] = [
        ("a class of the list", |spec| spec["runtimeClassName"] = json!("allowed-too")),
        ("the shortest stretch", |spec| spec["interruptionAfter"] = json!("2s")),
        ("the longest stretch", |spec| spec["interruptionAfter"] = json!("120m")),
        ("the longest grace period", |spec| spec["terminationGracePeriodSeconds"] = json!(60)),
        ("all that is allowed", |spec| {
            spec["podCount"] = json!(3);
            spec["resources"]["requests"]["e2e.scavenger.dev/part"] = json!("100m");
            spec["runAsUser"] = json!(100);
            spec["runAsGroup"] = json!(90);
            spec["fsGroup"] = json!(70_000);
        }),
    ];
    for (what, spoil) in just_within {
        try_out(world, spoil).await.with_context(|| what.to_owned())?;
    }

    let grace = |seconds: u32| json!({ "spec": { "terminationGracePeriodSeconds": seconds } });
    let moved = patch::<ScavengerJob>(world, "earlier", grace(75)).await;
    refused("another grace period above the limit", moved, &["spec.terminationGracePeriodSeconds"])?;
    patch::<ScavengerJob>(world, "earlier", json!({ "metadata": { "labels": { "mine": "1" } } })).await?;
    patch::<ScavengerJob>(world, "earlier", json!({ "spec": { "args": ["--to=20"] } })).await?;
    patch::<ScavengerJob>(world, "earlier", json!({ "spec": { "suspend": true } })).await?;
    patch::<ScavengerJob>(world, "earlier", grace(20)).await?;
    world.api::<ScavengerJob>().delete("earlier", &DeleteParams::default()).await?;
    Ok(())
}

#[test]
fn limits_that_make_no_sense_are_refused_by_name() {
    run("bad-limits", |world| async move {
        let pools: Api<ScavengerPool> = Api::all(world.client.clone());
        let limits = pools.get(names::DEFAULT_POOL).await?.spec.limits;
        // The tests' pool sets the lower bound only.
        let default = scavenger_schema::scavenger_pool::Limits::default();
        ensure!(limits.max_interruption_after == default.max_interruption_after, "{limits:?}");
        for (field, limits) in [
            ("spec.limits.minInterruptionAfter", json!({ "minInterruptionAfter": "999ms" })),
            ("spec.limits.minInterruptionAfter", json!({ "minInterruptionAfter": "soon" })),
            (
                "spec.limits.maxInterruptionAfter",
                json!({ "minInterruptionAfter": "2h", "maxInterruptionAfter": "1h" }),
            ),
            (
                "spec.limits.maxTerminationGracePeriodSeconds",
                json!({ "maxTerminationGracePeriodSeconds": 0 }),
            ),
            (
                "spec.limits.maxTerminationGracePeriodSeconds",
                json!({ "maxTerminationGracePeriodSeconds": 3601 }),
            ),
            ("spec.limits.minRunAsUser", json!({ "minRunAsUser": 0 })),
            ("spec.limits.maxRunAsUser", json!({ "minRunAsUser": 2000, "maxRunAsUser": 1000 })),
            ("spec.limits.maxRunAsGroup", json!({ "minRunAsGroup": 2000, "maxRunAsGroup": 1000 })),
            ("spec.limits.maxPodCount", json!({ "maxPodCount": 0 })),
            ("spec.limits.maxResources", json!({ "maxResources": { "cpu": "-1" } })),
            ("spec.limits.allowedRuntimeClasses", json!({ "allowedRuntimeClasses": ["A/b"] })),
            ("spec.limits.allowedServiceAccounts", json!({ "allowedServiceAccounts": ["A/b"] })),
            ("spec.limits.allowedImages", json!({ "allowedImages": [] })),
            ("spec.limits.allowedImages", json!({ "allowedImages": ["*"] })),
            ("spec.limits.allowedImages", json!({ "allowedImages": ["registry.example/a*"] })),
        ] {
            refused(field, set_limits(world, limits, true).await, &[field])?;
        }
        Ok(())
    });
}

/// What is counted by use must be taken back below 100%: in each window, and of cpu and memory by name.
#[test]
fn accounting_by_use_needs_a_threshold_at_which_it_is_taken_back() {
    run("by-use-thresholds", |world| async move {
        let pools: Api<ScavengerPool> = Api::all(world.client.clone());
        let parameters = PatchParams { dry_run: true, ..PatchParams::default() };
        let by_use = async |more: Value| {
            let mut spec = json!({
                "accounting": "Usage", "startThreshold": 0.7, "headroomTarget": 0.8, "interruptThreshold": 0.9,
            });
            for (field, value) in more.as_object().into_iter().flatten() {
                spec[field] = value.clone();
            }
            let patch = json!({ "spec": spec });
            pools.patch(names::DEFAULT_POOL, &parameters, &Patch::Merge(&patch)).await
        };
        let window = |threshold: f64| {
            json!({ "windows": [{
                "name": "night", "start": "20:00", "end": "06:00", "startThreshold": 0.8, "interruptThreshold": threshold,
            }] })
        };
        let overrides = |name: &str| json!({ "interruptThresholdOverrides": { name: 1 } });
        let group = |labels: serde_json::Value, threshold: f64| {
            json!({ "nodeGroups": [{
                "name": "fast", "nodeSelector": labels, "startThreshold": 0.3, "headroomTarget": 0.4,
                "interruptThreshold": threshold,
            }] })
        };
        let fast = json!({ "net": "fast" });
        let words = ["accounting: Usage", "interruptThreshold"];
        for wrong in [
            json!({ "interruptThreshold": 1 }),
            window(1.0),
            group(fast.clone(), 1.0),
            overrides("cpu"),
            overrides("memory"),
        ] {
            refused(&wrong.to_string(), by_use(wrong).await, &words)?;
        }
        let below_target = by_use(group(fast.clone(), 0.4)).await;
        refused(
            "a group that gives back less than it takes",
            below_target,
            &["in each group headroomTarget"],
        )?;
        refused("a group of every node", by_use(group(json!({}), 0.5)).await, &["nodeSelector"])?;
        for right in [json!({}), window(0.95), group(fast, 0.5), overrides("ephemeral-storage")] {
            let what = right.to_string();
            by_use(right).await.context(what)?;
        }
        Ok(())
    });
}
