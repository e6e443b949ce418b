//! What the API server refuses: pods of a namespace over its quota, for thousands at once, and a watch. The operator is a
//! process of its own behind a proxy that counts its writes; nodes and containers are played by KWOK.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{core::v1::ResourceQuota, rbac::v1::ClusterRole};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use scavenger_e2e::{
    World,
    alone::{alone, in_phase, submit},
    faults::{Fate, Operator, Witness},
    room::{has_reason, status},
    world::{played, until},
};
use scavenger_schema::{
    names,
    scavenger_job::{Phase, ScavengerJob},
};
use scavenger_vocabulary::WaitingReason;
use serde_json::json;

/// So many are submitted to a namespace with a quota for a few.
const MANY: usize = 5000;

/// For how long writes are counted.
const COUNTED: Duration = Duration::from_secs(30);

/// Lets the namespace have so many pods.
async fn quota(world: &World, pods: usize) -> Result<()> {
    let quotas = world.api::<ResourceQuota>();
    let pods = pods.to_string();
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "few" },
        "spec": { "hard": { "pods": pods } },
    });
    let apply = PatchParams::apply("e2e").force();
    quotas.patch("few", &apply, &Patch::Apply(&quota)).await?;
    until("the quota counts", || async {
        let hard = quotas.get("few").await?.status.and_then(|status| status.hard).unwrap_or_default();
        Ok(hard.get("pods").is_some_and(|hard| hard.0 == pods).then_some(()))
    })
    .await
}

/// Those that say that they wait for the quota, after it was checked that their words are right.
async fn told_of_the_quota(world: &World) -> Result<usize> {
    let sjs = world.api::<ScavengerJob>().list(&ListParams::default()).await?;
    let told: Vec<_> = sjs.into_iter().filter(|sj| has_reason(sj, WaitingReason::QuotaExceeded)).collect();
    for sj in &told {
        let message = status(sj).message.unwrap_or_default();
        ensure!(
            message.contains("exceeded quota: few") && message.contains("limited: pods=3"),
            "{:?}",
            status(sj)
        );
    }
    Ok(told.len())
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn thousands_over_a_quota_cost_few_writes_and_say_why_they_wait() {
    alone("over-quota", |world, proxy| async move {
        quota(world, 3).await?;
        let (all, made) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counted, counted_made) = (Arc::clone(&all), Arc::clone(&made));
        proxy.judge(move |write| {
            // There may be something left of other tests that the operator clears up.
            if !write.path.contains(&format!("/namespaces/{}/", world.namespace)) {
                return Fate::Pass;
            }
            counted.fetch_add(1, Ordering::Relaxed);
            let makes = write.method == "POST" && write.path.ends_with("/jobs");
            counted_made.fetch_add(usize::from(makes), Ordering::Relaxed);
            Fate::Pass
        });
        let witness = Witness::start(&world.client, &world.namespace);
        let operator = Operator::start(&proxy, &world.client).await?;
        let began = Instant::now();
        submit(world, MANY, "10m").await?;
        let submitted = began.elapsed();
        until("three run and others say why they do not", || async {
            let told = told_of_the_quota(world).await?;
            Ok((told > 0 && in_phase(world, Phase::Running).await? == 3).then_some(()))
        })
        .await?;
        // The first ones that were started at once learn of the quota one after the other.
        until("no more than one tries at a time", || async {
            Ok((in_phase(world, Phase::Starting).await? <= 1).then_some(()))
        })
        .await?;
        let (all_before, made_before) = (all.load(Ordering::Relaxed), made.load(Ordering::Relaxed));
        // Not a wait for something: the time in which writes are counted.
        tokio::time::sleep(COUNTED).await;
        let writes = all.load(Ordering::Relaxed) - all_before;
        let jobs = made.load(Ordering::Relaxed) - made_before;
        let told = told_of_the_quota(world).await?;
        println!(
            "over quota: {MANY} submitted in {:.0} s; in {} s {writes} writes, {jobs} Jobs made; {told} say why after {:.0} s",
            submitted.as_secs_f64(),
            COUNTED.as_secs(),
            began.elapsed().as_secs_f64()
        );
        // Five a second inform. One tries at most every 5 s, and each try is some ten writes.
        ensure!(writes <= 5 * 30 + 60 + 20, "{writes} writes in {} s", COUNTED.as_secs());
        ensure!(jobs <= 6, "{jobs} were tried in {} s", COUNTED.as_secs());
        ensure!(told >= 100, "{told} say why they wait after {:.0} s", began.elapsed().as_secs_f64());
        witness.is_content()?;
        // After at most 80 s without a try.
        quota(world, 10).await?;
        until("ten run", || async { Ok((in_phase(world, Phase::Running).await? == 10).then_some(())) })
            .await?;
        witness.is_content()?;
        operator.kill().await
    });
}

/// The right to see nodes is taken from the operator's account, or given back.
async fn set_may_watch_nodes(world: &World, role: &ClusterRole, may: bool) -> Result<()> {
    let roles: Api<ClusterRole> = Api::all(world.client.clone());
    let is_kept = |rule: &&k8s_openapi::api::rbac::v1::PolicyRule| {
        let nodes = rule.resources.iter().flatten().any(|resource| resource == "nodes");
        let core = rule.api_groups.iter().flatten().any(String::is_empty);
        may || !(nodes && core)
    };
    let rules: Vec<_> = role.rules.iter().flatten().filter(is_kept).collect();
    ensure!(may || rules.len() + 1 == role.rules.as_deref().unwrap_or_default().len(), "{rules:?}");
    let patch = Patch::Merge(json!({ "rules": rules }));
    roles.patch(names::OPERATOR, &PatchParams::default(), &patch).await?;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the clock of the test")]
fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

#[test]
fn a_watch_that_is_refused_stops_planning_until_the_right_is_back() {
    alone("refused-watch", |world, proxy| async move {
        let sjs: Api<ScavengerJob> = world.api();
        let create = |name: &'static str| async {
            let sj = serde_json::from_value(played(name, "10m"))?;
            sjs.create(&PostParams::default(), &sj).await?;
            anyhow::Ok(())
        };
        let roles: Api<ClusterRole> = Api::all(world.client.clone());
        let role = roles.get(names::OPERATOR).await?;
        let operator = Operator::start(&proxy, &world.client).await?;
        create("before").await?;
        world.phase("before", Phase::Running).await?;
        ensure!(operator.is_ready().await?, "it runs one and is not ready");
        let refused = || operator.metric(r#"scavenger_watch_errors_total{kind="nodes",code="403"}"#);
        ensure!(refused().await? == 0.0, "it was refused before");

        let began = Instant::now();
        let result = async {
            set_may_watch_nodes(world, &role, false).await?;
            // Rights are looked at when a watch begins.
            proxy.cut_watches();
            until("the metric counts the refusal", || async { Ok((refused().await? > 0.0).then_some(())) })
                .await?;
            until("it is not ready", || async { Ok((!operator.is_ready().await?).then_some(())) }).await?;
            println!(
                "watch refused -> not ready after {:.0} s (30 s are set)",
                began.elapsed().as_secs_f64()
            );
            create("meanwhile").await?;
            ensure!(operator.health().await?.0, "a restart would not give it the right");
            Ok(())
        }
        .await;
        set_may_watch_nodes(world, &role, true).await?;
        result?;

        let (given_back, began) = (now(), Instant::now());
        let meanwhile = status(
            &world.phase("meanwhile", Phase::Running).await.context("after the right was given back")?,
        );
        // It asks again after a minute at most.
        println!("right given back -> running after {:.0} s", began.elapsed().as_secs_f64());
        let decided = meanwhile.attempt.context("it has no attempt")?.creation_time.0;
        // Times in a status have no fractions of a second.
        ensure!(
            decided.as_second() >= given_back.as_second(),
            "it was started while nodes could not be seen"
        );
        // It may just have lost its Lease to nobody: on a busy machine the API server answers late.
        until("it is ready", || async { Ok(operator.is_ready().await?.then_some(())) }).await?;
        let before = world.phase("before", Phase::Running).await?;
        ensure!(status(&before).interrupted_count == 0, "{:?}", status(&before));
        operator.kill().await
    });
}
