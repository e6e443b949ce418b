//! Ordinary pods grow to what they requested, on a node that ScavengerJobs fill by use: no ordinary container is killed or
//! evicted. The control arm shows that it can happen: by requests and without the supervisor the kernel takes the ordinary
//! pods first.
//!
//! A limit on the cgroup of all pods stands for the node's memory, as in `memory.rs`, so this is a program of its own. What
//! the node uses is played, and the threshold of memory is so little above it that few ScavengerJobs fill the rest.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt, api::DeleteParams};
use scavenger_e2e::{
    World,
    alone::alone,
    by_use::{PlayedUse, allocatable, is_known, usage_of_the_pool, with_usage},
    cgroup::PodGroup,
    faults::Operator,
    growth::{hog, is_killed, lives_on, ordinary_pods_harmed, takes},
    repetitions,
    room::{delete_all, delete_pod, has_reason, patch_pool, status},
    world::{exec, real_node, until},
};
use scavenger_schema::{
    quantity,
    scavenger_job::{Accounting, Attempt, Phase, ScavengerJob},
};
use scavenger_vocabulary::{Outcome, Reason, WaitingReason};
use serde_json::{Value, json};

/// MiB.
const MEBIBYTE: i64 = 1 << 20;

/// GROMACS's image has Bash.
const IMAGE: &str = "scavenger.dev/gromacs:2022.5";

/// Those that fill the node; a third one finds nothing free.
const FILLING: [&str; 2] = ["first", "second"];

/// MiB that each of them may use, and holds.
const LIMIT: i64 = 512;
const HELD: u64 = 300;

/// MiB that each of two ordinary pods requests and comes to use. The operator keeps as much free as one of them may take at
/// once. They grow together.
const GROWN: u64 = 300;

/// One that takes its memory within seconds: with less cpu the start of its containers alone would take minutes.
fn workload(name: &str, node: &str, supervised: bool) -> Value {
    json!({
        "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob", "metadata": { "name": name },
        "spec": {
            "image": IMAGE, "command": ["bash", "-c", format!("{}; sleep 1000000 & wait", takes(HELD, "0.01"))],
            "resources": { "requests": { "cpu": "400m", "memory": format!("{LIMIT}Mi") } },
            "supervisor": { "enabled": supervised },
            "nodeSelector": { "kubernetes.io/hostname": node },
            "interruptionAfter": "1s", "terminationGracePeriodSeconds": 1,
        },
    })
}

/// Waits until a ScavengerJob holds what it takes; returns its pod and attempt.
async fn holds(world: &World, name: &str, accounting: Accounting) -> Result<(Pod, i64)> {
    until(&format!("{name} holds its memory"), || async {
        let sj = world.api::<ScavengerJob>().get(name).await?;
        let Some(attempt) = status(&sj).attempt.filter(|_| status(&sj).phase == Some(Phase::Running)) else {
            return Ok(None);
        };
        if attempt.accounting != accounting {
            let usage = usage_of_the_pool(world).await?;
            anyhow::bail!("{name} is not counted by {accounting:?}: {attempt:?}; the pool: {usage:?}");
        }
        // The pod of an earlier attempt can be there yet.
        let is_its = |pod: &Pod| pod.name_any().starts_with(&attempt.job_name);
        let Some(pod) = world.pods(name).await?.into_iter().find(is_its) else { return Ok(None) };
        let log = world.api::<Pod>().logs(&pod.name_any(), &Default::default()).await.unwrap_or_default();
        Ok(log.contains("grown").then_some((pod, attempt.number)))
    })
    .await
}

/// Two ordinary pods that have run beside the ScavengerJobs, idle, grow to what they requested at once, while the node has
/// as much left as one of them takes. Returns how many of the two were killed.
async fn pair_grows(world: &World, beside: &PodGroup, round: &str) -> Result<usize> {
    let names = ["one", "other"].map(|which| format!("grows-{round}-{which}"));
    let requests = json!({ "cpu": "10m", "memory": format!("{GROWN}Mi") });
    let line = format!("until [[ -e /tmp/go ]]; do sleep 0.1; done; {}", takes(GROWN, "0.1"));
    for name in &names {
        world.create::<Pod>(hog(name, IMAGE, &requests, &line)).await?;
    }
    for name in &names {
        world.pod_runs(name).await?;
    }
    // One that is killed would start again at once, since what the node uses is played, and compete with the pods that grow.
    patch_pool(world, &json!({ "paused": true })).await?;
    beside.node().leave(GROWN)?;
    let ends = try_join_all(names.iter().map(|name| async move {
        exec(&world.api::<Pod>(), name, "owner", &["touch", "/tmp/go"]).await?;
        is_killed(world, name).await
    }))
    .await;
    beside.node().lift()?;
    patch_pool(world, &json!({ "paused": false })).await?;
    let mut killed = 0;
    for (name, was_killed) in names.iter().zip(ends?) {
        killed += usize::from(was_killed || !lives_on(world, name).await?);
    }
    // With cgroup v1 the container runtime now calls them OOMKilled when they end. The operator must not take that for harm.
    for name in &names {
        delete_pod(world, name).await?;
    }
    Ok(killed)
}

/// By requests and without the supervisor, ordinary pods are killed while ScavengerJobs stay.
async fn ordinary_pods_go(world: &World, node: &str) -> Result<()> {
    let mut group = None;
    for name in FILLING {
        world.create::<ScavengerJob>(workload(name, node, false)).await?;
        group = Some(PodGroup::of(&holds(world, name, Accounting::Requests).await?.0)?);
    }
    let killed = pair_grows(world, &group.context("something fills the node")?, "control").await?;
    ensure!(killed > 0, "no ordinary pod was killed, so the other arm shows nothing");
    println!("by requests and without the supervisor {killed} of 2 ordinary pods were killed");
    for name in FILLING {
        let sj = world.phase(name, Phase::Running).await?;
        ensure!(status(&sj).attempts.is_empty(), "{:?}", status(&sj));
    }
    delete_all(world).await
}

/// Two ordinary pods grow beside ScavengerJobs that are counted by use. Returns how many of these went.
async fn scavenger_jobs_go(world: &World, round: usize, harmed: &BTreeSet<String>) -> Result<usize> {
    let mut attempts = Vec::new();
    let mut group = None;
    for name in FILLING {
        let (pod, attempt) = holds(world, name, Accounting::Usage).await?;
        group = Some(PodGroup::of(&pod)?);
        attempts.push(attempt);
    }
    let killed = pair_grows(world, &group.context("something fills the node")?, &round.to_string()).await?;
    ensure!(killed == 0, "round {round}: {killed} ordinary pods were killed");
    let now = ordinary_pods_harmed(&world.client).await?;
    ensure!(now.iter().all(|name| harmed.contains(name)), "round {round}: harmed: {now:?}");
    // One may be enough.
    let gone = || async {
        let mut gone: Vec<Attempt> = Vec::new();
        for (name, attempt) in FILLING.iter().zip(&attempts) {
            let sj = world.api::<ScavengerJob>().get(name).await?;
            gone.extend(status(&sj).attempts.into_iter().filter(|one| one.number == *attempt));
        }
        Ok((!gone.is_empty()).then_some(gone))
    };
    let gone = until("a ScavengerJob was killed", gone).await?;
    for attempt in &gone {
        let what = (attempt.outcome, attempt.reason.clone());
        ensure!(what == (Some(Outcome::Interrupted), Some(Reason::NodeOutOfMemory)), "{attempt:?}");
    }
    Ok(gone.len())
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn ordinary_pods_grow_to_their_requests_beside_scavenger_jobs_that_fill_the_node() {
    alone("growth", |world, proxy| async move {
        let node = real_node(&Api::all(world.client.clone())).await?;
        let memory = quantity::parse_units(&allocatable(world, &node, "memory").await?.0)?;
        PlayedUse::new("50m", "4Gi").measure(&proxy, &node, None);
        let operator = Operator::start(&proxy, &world.client).await?;
        patch_pool(world, &json!({ "nodeSelector": null })).await?;
        ordinary_pods_go(world, &node).await?;
        let harmed = ordinary_pods_harmed(&world.client).await?.into_iter().collect();
        let result = with_usage(world, &node, || async {
            is_known(world).await?;
            // Two and a half of them fit below the threshold, beside what is expected to be used.
            let expected = usage_of_the_pool(world).await?.expected["memory"].units()?;
            let threshold = (expected + LIMIT * 5 / 2 * MEBIBYTE) as f64 / memory as f64;
            patch_pool(world, &json!({ "startThresholdOverrides": { "memory": threshold } })).await?;
            for name in FILLING {
                world.create::<ScavengerJob>(workload(name, &node, true)).await?;
                holds(world, name, Accounting::Usage).await?;
            }
            world.create::<ScavengerJob>(workload("third", &node, true)).await?;
            let waits = |job: &ScavengerJob| has_reason(job, WaitingReason::NoCapacity);
            world.job_until("third", "finds the node full", waits).await?;
            world.api::<ScavengerJob>().delete("third", &DeleteParams::default()).await?;
            let (rounds, mut gone) = (repetitions(3), 0);
            for round in 1..=rounds {
                gone += scavenger_jobs_go(world, round, &harmed).await?;
            }
            println!(
                "by use {} ordinary pods grew to their requests, in {rounds} pairs; none was killed or evicted, {gone} \
                 ScavengerJobs were",
                2 * rounds
            );
            let usage = usage_of_the_pool(world).await?;
            ensure!(usage.tripped_nodes.is_empty(), "the node counts as harmed: {usage:?}");
            Ok(())
        })
        .await;
        patch_pool(world, &json!({ "startThresholdOverrides": { "memory": null } })).await?;
        result?;
        operator.kill().await
    });
}
