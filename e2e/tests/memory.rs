//! Who is killed when a node has no memory left: real pods, with the scores that the kubelet gives them.
//!
//! This machine must not run out of memory itself. So the cgroup of all pods of the cluster gets a limit, which stands for
//! the node's memory. That concerns every pod of the cluster, so this is a program of its own. It can only be done on the
//! machine on which the node runs, and there as root.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, api::DeleteParams};
use scavenger_e2e::{
    World,
    cgroup::{NodeMemory, PodGroup},
    growth::{hog, is_killed, takes},
    repetitions,
    room::{delete_pod, status},
    world::run_within,
};
use scavenger_schema::scavenger_job::{Phase, ScavengerJob};
use scavenger_vocabulary::{Outcome, Reason};
use serde_json::{Value, json};

/// What the workload holds, of the 512 MiB that are its limit.
const HELD: u64 = 400;

/// What an ordinary pod that requested little grows to.
const GROWN: u64 = 300;

/// What the node has left when the ordinary pod comes.
const LEFT: u64 = 150;

/// The image of all of them: it has Bash.
const IMAGE: &str = "scavenger.dev/gromacs:2022.5";

fn workload(name: &str, supervised: bool) -> Value {
    json!({
        "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob", "metadata": { "name": name },
        "spec": {
            "image": IMAGE, "command": ["bash", "-c", format!("{}; sleep 1000000 & wait", takes(HELD, "0.05"))],
            "resources": { "requests": { "cpu": "100m", "memory": "512Mi" } },
            "supervisor": { "enabled": supervised },
            "interruptionAfter": "1s", "terminationGracePeriodSeconds": 1,
        },
    })
}

/// An ordinary pod comes, and grows beyond what the node has left. True if it is killed; false if it has all that it wanted.
async fn comes(world: &World, node: &NodeMemory, name: &str) -> Result<bool> {
    node.leave(LEFT)?;
    // Burstable: it may use far more than it requested.
    let requests = json!({ "cpu": "10m", "memory": "64Mi" });
    world.create::<Pod>(hog(name, IMAGE, &requests, &takes(GROWN, "0.05"))).await?;
    let end = is_killed(world, name).await;
    node.lift()?;
    end
}

/// Waits until a ScavengerJob holds what it takes; returns its pod.
async fn holds(world: &World, name: &str) -> Result<Pod> {
    world.phase(name, Phase::Running).await?;
    let pod = world.pod(name).await?;
    world.log_until(&pod.name_any(), "the workload holds its memory", |line| line == "grown").await?;
    Ok(pod)
}

/// Without the supervisor: the kernel takes the ordinary pod, although that alone requested its memory for a purpose.
async fn ordinary_goes(world: &World) -> Result<()> {
    world.create::<ScavengerJob>(workload("alone", false)).await?;
    let pod = holds(world, "alone").await?;
    let group = PodGroup::of(&pod)?;
    ensure!(
        comes(world, group.node(), "beside-alone").await?,
        "the ordinary pod lives, so the other arm shows nothing"
    );
    let sj = world.phase("alone", Phase::Running).await?;
    ensure!(status(&sj).attempts.is_empty(), "{:?}", status(&sj));
    delete_pod(world, "beside-alone").await?;
    world.api::<ScavengerJob>().delete("alone", &DeleteParams::default()).await?;
    Ok(())
}

/// With it: the workload goes, which is an interruption, since it was measured to use less than its limit.
async fn workload_goes(world: &World) -> Result<()> {
    world.create::<ScavengerJob>(workload("supervised", true)).await?;
    for round in 1..=repetitions(1).min(10) {
        let pod = holds(world, "supervised").await?;
        let group = PodGroup::of(&pod)?;
        let number = pod.labels().get("scavenger.dev/attempt").cloned().context("the pod has no attempt")?;
        let measured =
            |sj: &ScavengerJob| status(sj).usage.is_some_and(|usage| usage.attempt.to_string() == number);
        world.job_until("supervised", "it was measured", measured).await?;
        let name = format!("beside-{round}");
        ensure!(
            !comes(world, group.node(), &name).await?,
            "round {round}: the ordinary pod was killed first"
        );
        let killed =
            |sj: &ScavengerJob| status(sj).attempts.iter().any(|one| one.number.to_string() == number);
        let sj = world.job_until("supervised", "its workload was killed", killed).await?;
        let attempt = status(&sj).attempts.into_iter().find(|one| one.number.to_string() == number);
        let attempt = attempt.context("the attempt is not recorded")?;
        ensure!(
            (attempt.outcome, attempt.reason.as_ref())
                == (Some(Outcome::Interrupted), Some(&Reason::NodeOutOfMemory)),
            "{attempt:?}"
        );
        println!("round {round}: {}", attempt.message.unwrap_or_default());
        delete_pod(world, &name).await?;
    }
    Ok(())
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn the_supervised_workload_goes_before_an_ordinary_pod() {
    let limit = std::time::Duration::from_secs(if repetitions(1) > 1 { 3600 } else { 600 });
    run_within(limit, "memory", |world| async move {
        ordinary_goes(world).await?;
        workload_goes(world).await
    });
}
