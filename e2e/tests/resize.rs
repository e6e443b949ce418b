//! An ordinary pod grows in place where its node has not enough left: the real kubelet defers the resize until the
//! ScavengerJob that loses least has gone. It fills the node's memory, so it has the node to itself.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use k8s_openapi::{
    api::core::v1::{Node, Pod},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use scavenger_e2e::{
    World,
    room::{interrupted, start, status},
    run,
    world::{counter_beside, ordinary_pod, until},
};
use scavenger_schema::scavenger_job::{Phase, ScavengerJob};
use scavenger_vocabulary::Reason;
use serde_json::{Value, json};

/// Bytes of an amount as nodes and pods of this cluster write it.
fn bytes(amount: &Quantity) -> Result<u64> {
    let text = amount.0.as_str();
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let shift = match unit {
        "" => 0,
        "Ki" => 10,
        "Mi" => 20,
        "Gi" => 30,
        _ => anyhow::bail!("{text} has a unit that was not expected"),
    };
    Ok(number.parse::<u64>()? << shift)
}

fn memory(amounts: Option<&BTreeMap<String, Quantity>>) -> Result<u64> {
    amounts.and_then(|amounts| amounts.get("memory")).map_or(Ok(0), bytes)
}

/// MiB of memory that the real node has and no pod requests.
async fn free_memory(world: &World) -> Result<u64> {
    let nodes = Api::<Node>::all(world.client.clone()).list(&ListParams::default()).await?;
    let real = nodes.into_iter().find(|node| !node.annotations().contains_key("kwok.x-k8s.io/node"));
    let real = real.context("the cluster has no real node")?;
    let mut free = memory(real.status.as_ref().and_then(|status| status.allocatable.as_ref()))?;
    let here = ListParams::default().fields(&format!("spec.nodeName={}", real.name_any()));
    for pod in Api::<Pod>::all(world.client.clone()).list(&here).await? {
        for container in pod.spec.iter().flat_map(|spec| &spec.containers) {
            let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
            free = free.saturating_sub(memory(requests)?);
        }
    }
    Ok(free >> 20)
}

/// A ScavengerJob that runs for long and requests so much memory; what it has done is lost unless it saves.
fn holding(name: &str, mebibytes: u64, saves: bool) -> Value {
    let mut sj = counter_beside(name, 1_000_000);
    sj["spec"]["resources"]["requests"]["memory"] = json!(format!("{mebibytes}Mi"));
    sj["spec"]["interruptionAfter"] = json!("10m");
    sj["spec"]["checkpoint"] = json!({ "savesOnSigterm": saves, "restartSeconds": 5 });
    sj
}

#[test]
fn a_resize_that_the_node_defers_takes_the_one_that_loses_least() {
    run("deferred-resize", |world| async move {
        world.claim("data").await?;
        let free = free_memory(world).await?;
        let part = |percent: u64| free * percent / 100;
        start(world, holding("dear", part(30), false)).await?;
        start(world, holding("cheap", part(35), true)).await?;
        let requests = |mebibytes: u64| json!({ "cpu": "10m", "memory": format!("{mebibytes}Mi") });
        world.create::<Pod>(ordinary_pod("grows", &requests(part(5)))).await?;
        world.pod_runs("grows").await?;
        let uid = world.api::<Pod>().get("grows").await?.uid().context("the pod has no UID")?;

        // 30 + 35 + 45 percent: one of the two must go, and either would do.
        let larger = requests(part(45));
        let resize = json!({ "spec": { "containers": [{
            "name": "owner", "resources": { "requests": larger, "limits": larger },
        }] } });
        let pods = world.api::<Pod>();
        pods.patch_subresource("resize", "grows", &PatchParams::default(), &Patch::Strategic(&resize))
            .await?;
        let reason = interrupted(world, "cheap", 1).await?;
        ensure!(reason == Reason::PreemptedByOperator, "{reason}");
        let cheap = world.api::<ScavengerJob>().get("cheap").await?;
        let message = status(&cheap).attempts.first().and_then(|attempt| attempt.message.clone());
        let message = message.context("the attempt says nothing")?;
        println!("{message}");
        let grows = format!("for the resize of pod {}/grows on node", world.namespace);
        ensure!(message.contains(&grows), "{message}");

        // The kubelet tries again on its own, on the pod as it is.
        until("the pod has grown", || async {
            let pod = pods.get("grows").await?;
            ensure!(pod.uid().as_ref() == Some(&uid), "the pod is another one");
            let containers = pod.status.and_then(|status| status.container_statuses).unwrap_or_default();
            let resources = containers.first().and_then(|status| status.resources.clone());
            let now = memory(resources.and_then(|resources| resources.requests).as_ref())?;
            Ok((now >> 20 == part(45)).then_some(()))
        })
        .await?;
        let dear = status(&world.phase("dear", Phase::Running).await?);
        ensure!(dear.interrupted_count == 0, "{dear:?}");
        let cheap = status(&world.api::<ScavengerJob>().get("cheap").await?);
        ensure!(cheap.phase == Some(Phase::Interrupted), "it took back what the pod needed: {cheap:?}");
        Ok(())
    });
}
