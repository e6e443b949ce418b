//! Paused and drain concern every ScavengerJob of the cluster, so they are tried in a program of their own: cargo runs
//! one after the other.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::{admissionregistration::v1::ValidatingWebhookConfiguration, core::v1::Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, EvictParams, ListParams, PostParams},
};
use scavenger_e2e::{
    World,
    checkpointing::{asked, first_measured},
    room::{
        bring_pool, delete_pod, has_reason, has_run_for, holding, in_mode_operator, interrupted, owner_with,
        patch_pool, pools, start, status,
    },
    run,
    world::{counter_beside, until, until_within},
};
use scavenger_schema::{
    names,
    scavenger_job::{Phase, ScavengerJob},
    tenants::TenantStatus,
};
use scavenger_vocabulary::{Reason, WaitingReason};
use serde_json::json;

/// Held by the test that changes the pool.
static POOL: Mutex<()> = Mutex::new(());

async fn paused(world: &World, name: &str) -> Result<()> {
    world
        .job_until(name, "told that the pool is paused", |job| has_reason(job, WaitingReason::Paused))
        .await?;
    Ok(())
}

/// Replaces the operator's pod, and waits until the new one is ready.
async fn restart_operator(world: &World) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), "scavenger-system");
    let ours = ListParams::default().labels("app.kubernetes.io/name=scavenger-operator");
    let old: Vec<Option<String>> = pods.list(&ours).await?.into_iter().map(|pod| pod.metadata.uid).collect();
    pods.delete_collection(&DeleteParams::default(), &ours).await?;
    until("another operator is ready", || async {
        let ready = pods.list(&ours).await?.into_iter().any(|pod| {
            let conditions = pod.status.and_then(|status| status.conditions).unwrap_or_default();
            !old.contains(&pod.metadata.uid)
                && conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
        });
        Ok(ready.then_some(()))
    })
    .await
}

async fn story(world: &World) -> Result<()> {
    world.claim("data").await?;
    let slot = world.slots(20).await?;
    let job = |name: &str, pods: u32| {
        let mut job = counter_beside(name, 1_000_000);
        if pods > 1 {
            job["spec"]["podCount"] = json!(pods);
            job["spec"]["args"][4] = json!(format!("--journal=/data/journal-{name}-{{index}}"));
            if let Some(args) = job["spec"]["args"].as_array_mut() {
                args.insert(0, json!("--gang"));
            }
        }
        job["spec"]["resources"]["requests"][&slot] = json!(2);
        job
    };
    world.create::<ScavengerJob>(job("single", 1)).await?;
    world.phase("single", Phase::Running).await?;

    // Paused: nothing starts, what runs goes on.
    bring_pool(world, &json!({ "paused": true })).await?;
    world.create::<ScavengerJob>(job("late", 1)).await?;
    paused(world, "late").await?;
    world.phase("single", Phase::Running).await?;
    patch_pool(world, &json!({ "paused": false })).await?;
    world.phase("late", Phase::Running).await?;

    world.create::<ScavengerJob>(job("gang", 2)).await?;
    world.phase("gang", Phase::Running).await?;
    let began = Instant::now();
    patch_pool(world, &json!({ "drain": true })).await?;
    for name in ["single", "late", "gang"] {
        let job = world
            .job_until(name, "interrupted", |job| {
                job.status.as_ref().is_some_and(|status| status.interrupted_count == 1)
            })
            .await?;
        let status = job.status.unwrap_or_default();
        let reason = status.attempts.last().and_then(|attempt| attempt.reason.clone());
        ensure!(reason == Some(Reason::Drained), "{name}: {reason:?}");
    }
    until("no pod is left", || async {
        let mut left = 0;
        for name in ["single", "late", "gang"] {
            left += world.pods(name).await?.len();
        }
        Ok((left == 0).then_some(()))
    })
    .await?;
    println!("drained 3 ScavengerJobs with 4 pods in {:.1} s", began.elapsed().as_secs_f64());

    // A new operator reads the same pool.
    restart_operator(world).await?;
    world.create::<ScavengerJob>(job("new", 1)).await?;
    for name in ["single", "late", "gang", "new"] {
        paused(world, name).await?;
    }
    ensure!(world.pods("single").await?.is_empty(), "it started although the pool is drained");
    patch_pool(world, &json!({ "drain": false })).await?;
    for name in ["single", "late", "gang", "new"] {
        world.phase(name, Phase::Running).await?;
    }
    Ok(())
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn paused_and_drained_it_holds_until_it_is_taken_back() {
    let _alone = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    run("drain", |world| async move {
        let result = story(world).await;
        patch_pool(world, &json!({ "paused": false, "drain": false })).await?;
        result
    });
}

/// A drain is planned: who can be asked for a checkpoint is asked before it goes.
#[test]
#[ignore = "in `cargo xtask test --all`"]
fn a_drain_asks_for_a_checkpoint_first() {
    let _alone = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    run("drain-asks", |world| async move {
        world.claim("data").await?;
        let slot = world.slots(10).await?;
        let request = json!({ "command": ["touch", "/data/asked.ask"] });
        start(world, asked("asked", &slot, 5, &request)).await?;
        let first = world.job_until("asked", "known to write checkpoints", |job| {
            status(job).last_checkpoint_time.is_some()
        });
        first.await?;
        has_run_for(world, "asked", Duration::from_secs(20)).await?;
        patch_pool(world, &json!({ "drain": true })).await?;
        let measured = first_measured(world, "asked").await;
        patch_pool(world, &json!({ "drain": false })).await?;
        let attempt = status(&measured?).attempts.remove(0);
        println!("asked before the drain: lost {:?} of more than 20 s", attempt.lost_seconds);
        ensure!(attempt.reason == Some(Reason::Drained), "{attempt:?}");
        ensure!(attempt.lost_seconds.is_some_and(|lost| lost < 20), "{attempt:?}");
        Ok(())
    });
}

/// Somebody's webhook for evictions in the test's namespace, whose server is down. All deletions pass.
async fn guard_evictions(world: &World) -> Result<()> {
    let webhook = json!({
        "metadata": { "name": world.namespace },
        "webhooks": [{
            "name": "drain-guard.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Fail", "timeoutSeconds": 2,
            "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": world.namespace } },
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/eviction"],
            }],
            "clientConfig": { "service": { "namespace": world.namespace, "name": "drain-guard", "path": "/" } },
        }],
    });
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(world.client.clone());
    webhooks.create(&PostParams::default(), &serde_json::from_value(webhook)?).await?;
    // It is in force once an eviction fails on it: a dry run of one evicts nothing.
    let pods = world.api::<Pod>();
    let pod = world.pod("night").await?.name_any();
    let dry_run = EvictParams {
        post_options: PostParams { dry_run: true, ..PostParams::default() },
        ..EvictParams::default()
    };
    until("the webhook is asked", || async {
        match pods.evict(&pod, &dry_run).await {
            Err(kube::Error::Api(error)) if error.message.contains("failed calling webhook") => Ok(Some(())),
            _ => Ok(None),
        }
    })
    .await
}

async fn past_the_webhook(world: &World) -> Result<()> {
    world.claim("data").await?;
    let slot = &world.slots(10).await?;
    start(world, holding("night", slot, 5, true)).await?;
    guard_evictions(world).await?;

    let began = Instant::now();
    patch_pool(world, &json!({ "drain": true })).await?;
    let reason = interrupted(world, "night", 1).await?;
    ensure!(reason == Reason::Drained, "{reason:?}");
    println!("drained past a webhook that is down in {:.1} s", began.elapsed().as_secs_f64());
    patch_pool(world, &json!({ "drain": false })).await?;
    world.phase("night", Phase::Running).await?;

    in_mode_operator(world, |patient| async move {
        owner_with(world, "owner", Some(&patient), (slot, 8), json!({})).await?;
        world.pod_runs("owner").await?;
        let reason = interrupted(world, "night", 2).await?;
        ensure!(reason == Reason::PreemptedByOperator, "{reason:?}");
        delete_pod(world, "owner").await
    })
    .await
}

/// A webhook for evictions holds up neither a drain nor an ordinary pod.
#[test]
#[ignore = "in `cargo xtask test --all`"]
fn a_webhook_for_evictions_that_is_down_holds_up_nobody() {
    let _alone = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    run("drain-webhook", |world| async move {
        let result = past_the_webhook(world).await;
        patch_pool(world, &json!({ "drain": false })).await?;
        let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(world.client.clone());
        webhooks.delete(&world.namespace, &DeleteParams::default()).await.ok();
        result
    });
}

/// What the pool's status says of the test's namespace, which is a tenant.
async fn tenant(world: &World) -> Result<Option<TenantStatus>> {
    let status = pools(world).get(names::DEFAULT_POOL).await?.status.unwrap_or_default();
    Ok(status.tenants.into_iter().find(|tenant| tenant.name == world.namespace))
}

/// Waits until the status says that the tenant used something, up to a later time than `since`.
async fn used(world: &World, since: Option<Timestamp>) -> Result<(f64, Timestamp)> {
    until_within(Duration::from_secs(180), "what the tenant used is written down", || async {
        let status = pools(world).get(names::DEFAULT_POOL).await?.status.unwrap_or_default();
        let counted = status.tenants_counted_until.map(|time| time.0);
        let own = status.tenants.into_iter().find(|tenant| tenant.name == world.namespace);
        let cpu = own.and_then(|tenant| tenant.averages.get("cpu").copied()).unwrap_or(0.0);
        Ok(counted.filter(|counted| cpu > 0.0 && Some(*counted) > since).map(|counted| (cpu, counted)))
    })
    .await
}

async fn shared(world: &World) -> Result<()> {
    world.claim("data").await?;
    let own = |rules: serde_json::Value| {
        let mut tenant = json!({ "name": world.namespace });
        if let (Some(tenant), Some(rules)) = (tenant.as_object_mut(), rules.as_object()) {
            tenant.extend(rules.clone());
        }
        json!({ "order": "FairShare", "tenants": [tenant] })
    };
    bring_pool(world, &own(json!({ "paused": true }))).await?;
    world.create::<ScavengerJob>(counter_beside("first", 1_000_000)).await?;
    let held = world.job_until("first", "told of its tenant", |job| {
        let message = status(job).message.unwrap_or_default();
        has_reason(job, WaitingReason::Paused) && message.contains(&world.namespace)
    });
    held.await?;
    bring_pool(world, &own(json!({ "maxShare": 0.0 }))).await?;
    let limited = world.job_until("first", "told of the limit", |job| {
        let message = status(job).message.unwrap_or_default();
        has_reason(job, WaitingReason::TenantLimit) && message.contains("maxShare")
    });
    limited.await?;
    bring_pool(world, &own(json!({ "weight": 2.0 }))).await?;
    world.phase("first", Phase::Running).await?;

    let (before, counted) = used(world, None).await?;
    restart_operator(world).await?;
    let (after, counted) = used(world, Some(counted)).await?;
    ensure!(after > before, "{before} cores before the restart, and {after} after it");

    // Its deletion takes nothing back, and does not take long.
    world.api::<ScavengerJob>().delete("first", &DeleteParams::default()).await?;
    until("it is gone", || async {
        Ok(world.api::<ScavengerJob>().get_opt("first").await?.is_none().then_some(()))
    })
    .await?;
    let (kept, _) = used(world, Some(counted)).await?;
    ensure!(kept >= after * 0.99, "{after} cores before the deletion, and {kept} after it");
    let tenant = tenant(world).await?.context("the tenant is not in the status")?;
    ensure!((tenant.weight - 2.0).abs() < 1e-9 && tenant.running == 0, "{tenant:?}");
    Ok(())
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn a_tenant_is_held_and_what_it_used_outlives_the_operator_and_its_scavenger_jobs() {
    let _alone = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    run("shares", |world| async move {
        let result = shared(world).await;
        patch_pool(world, &json!({ "order": null, "tenants": null })).await?;
        result
    });
}
