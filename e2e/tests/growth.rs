//! Ordinary pods grow to what they requested, on a node that ScavengerJobs fill by use: no ordinary container is killed or
//! evicted. `memory.rs` has the control arm: without the supervisor the kernel takes the ordinary pod first.
//!
//! A limit on the cgroup of all pods stands for the node's memory, as there, so this is a program of its own. What the node
//! uses is played: nearly all of what ScavengerJobs may fill, so that few of them fill the rest.

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt};
use scavenger_e2e::{
    World,
    alone::alone,
    by_use::{PlayedUse, allocatable, is_known, usage_of_the_pool, with_usage},
    cgroup::PodGroup,
    faults::Operator,
    growth::{hog, is_killed, ordinary_pods_harmed, takes},
    repetitions,
    room::{delete_pod, has_reason, patch_pool, status},
    world::{exec, real_node, until},
};
use scavenger_schema::{
    quantity,
    scavenger_job::{Accounting, Phase, ScavengerJob},
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

fn workload(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob", "metadata": { "name": name },
        "spec": {
            "image": IMAGE, "command": ["bash", "-c", format!("{}; sleep 1000000 & wait", takes(HELD, "0.05"))],
            "resources": { "requests": { "cpu": "20m", "memory": format!("{LIMIT}Mi") } },
            "nodeSelector": { "kubernetes.io/hostname": node },
            "interruptionAfter": "1s", "terminationGracePeriodSeconds": 1,
        },
    })
}

/// Waits until a ScavengerJob holds what it takes; returns its pod and attempt.
async fn holds(world: &World, name: &str) -> Result<(Pod, i64)> {
    until(&format!("{name} holds its memory"), || async {
        let sj = world.api::<ScavengerJob>().get(name).await?;
        let Some(attempt) = status(&sj).attempt.filter(|_| status(&sj).phase == Some(Phase::Running)) else {
            return Ok(None);
        };
        ensure!(attempt.accounting == Accounting::Usage, "{attempt:?}");
        // The pod of an earlier attempt can be there yet.
        let is_its = |pod: &Pod| pod.name_any().starts_with(&attempt.job_name);
        let Some(pod) = world.pods(name).await?.into_iter().find(is_its) else { return Ok(None) };
        let log = world.api::<Pod>().logs(&pod.name_any(), &Default::default()).await.unwrap_or_default();
        Ok(log.contains("grown").then_some((pod, attempt.number)))
    })
    .await
}

/// Two ordinary pods have run beside them, idle, and grow to what they requested at once. Returns how many ScavengerJobs
/// went.
async fn round(world: &World, number: usize) -> Result<usize> {
    let mut attempts = Vec::new();
    let mut group = None;
    for name in FILLING {
        let (pod, attempt) = holds(world, name).await?;
        group = Some(PodGroup::of(&pod)?);
        attempts.push(attempt);
    }
    let group = group.context("something fills the node")?;
    let names = ["one", "other"].map(|which| format!("grows-{number}-{which}"));
    let requests = json!({ "cpu": "10m", "memory": format!("{GROWN}Mi") });
    let line = format!("until [[ -e /tmp/go ]]; do sleep 0.1; done; {}", takes(GROWN, "0.2"));
    for name in &names {
        world.create::<Pod>(hog(name, IMAGE, &requests, &line)).await?;
    }
    for name in &names {
        world.pod_runs(name).await?;
    }
    let before = ordinary_pods_harmed(&world.client).await?;
    group.node().leave(GROWN)?;
    let ends = try_join_all(names.iter().map(|name| async move {
        exec(&world.api::<Pod>(), name, "owner", &["touch", "/tmp/go"]).await?;
        is_killed(world, name).await
    }))
    .await;
    group.node().lift()?;
    ensure!(ends?.iter().all(|killed| !killed), "round {number}: an ordinary pod was killed");
    let harmed = ordinary_pods_harmed(&world.client).await?;
    ensure!(harmed.iter().all(|name| before.contains(name)), "round {number}: harmed: {harmed:?}");
    for name in &names {
        delete_pod(world, name).await?;
    }
    // One may be enough.
    let gone = || async {
        let mut gone = Vec::new();
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
fn ordinary_pods_grow_to_their_requests_beside_scavenger_jobs_that_fill_the_node() {
    alone("growth", |world, proxy| async move {
        let node = real_node(&Api::all(world.client.clone())).await?;
        let memory = quantity::parse_units(&allocatable(world, &node, "memory").await?.0)?;
        // What is expected is a tenth more, and is rounded up. Two and a half of them fit below the threshold.
        let used = (memory * 8 / 10 - LIMIT * 5 / 2 * MEBIBYTE) * 10 / 11;
        PlayedUse::new("50m", &used.to_string()).measure(&proxy, &node, None);
        let operator = Operator::start(&proxy, &world.client).await?;
        patch_pool(world, &json!({ "nodeSelector": null })).await?;
        with_usage(world, &node, || async {
            is_known(world).await?;
            for name in FILLING {
                world.create::<ScavengerJob>(workload(name, &node)).await?;
                holds(world, name).await?;
            }
            world.create::<ScavengerJob>(workload("third", &node)).await?;
            let waits = |job: &ScavengerJob| has_reason(job, WaitingReason::NoCapacity);
            world.job_until("third", "finds the node full", waits).await?;
            world.api::<ScavengerJob>().delete("third", &Default::default()).await?;
            let (rounds, mut gone) = (repetitions(3), 0);
            for number in 1..=rounds {
                gone += round(world, number).await?;
            }
            println!(
                "{} ordinary pods grew to their requests, in {rounds} pairs; none was killed or evicted, {gone} ScavengerJobs were",
                2 * rounds
            );
            let usage = usage_of_the_pool(world).await?;
            ensure!(usage.tripped_nodes.is_empty(), "the node counts as harmed: {usage:?}");
            Ok(())
        })
        .await?;
        operator.kill().await
    });
}
