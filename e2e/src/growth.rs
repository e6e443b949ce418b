//! Pods that take memory until something ends them, and what became of them.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, LogParams},
};
use scavenger_schema::names;
use serde_json::{Value, json};

use crate::{
    World,
    cgroup::PodGroup,
    world::{exec, until},
};

/// What a process that was killed for memory ends with.
const KILLED: i32 = 137;

/// A line of Bash that takes so many MiB, ten at a time with `pause` seconds after each, and then says `grown`.
#[must_use]
pub fn takes(mebibytes: u64, pause: &str) -> String {
    format!(
        "chunk=x; for i in {{1..20}}; do chunk=$chunk$chunk; done; for ((i = 0; i < {mebibytes}; i++)); do \
         all[i]=$chunk; ((i % 10)) || sleep {pause}; done; echo grown"
    )
}

/// An ordinary pod, Burstable, that takes so many MiB and holds them.
#[must_use]
pub fn hog(name: &str, image: &str, requests: &Value, line: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "owner", "image": image, "imagePullPolicy": "IfNotPresent",
                "command": ["bash", "-c", format!("{line}; sleep 1000000 & wait")],
                "resources": { "requests": requests },
            }],
        },
    })
}

/// Waits until an ordinary pod has grown, or was killed or evicted. True if it was.
///
/// # Errors
/// If it ends otherwise, or neither happens in time.
pub async fn is_killed(world: &World, name: &str) -> Result<bool> {
    until(&format!("{name} has grown, or was killed"), || async {
        if was_killed(world, name).await? {
            return Ok(Some(true));
        }
        let log = world.api::<Pod>().logs(name, &LogParams::default()).await.unwrap_or_default();
        Ok(log.contains("grown").then_some(false))
    })
    .await
}

/// Waits until it is known of an ordinary pod that has grown whether it lives on. One that grew first can be killed while
/// another one still grows.
///
/// # Errors
/// If it ends otherwise.
pub async fn lives_on(world: &World, name: &str) -> Result<bool> {
    until(&format!("{name} answers, or was killed"), || async {
        if exec(&world.api::<Pod>(), name, "owner", &["true"]).await.is_ok() {
            return Ok(Some(true));
        }
        Ok(was_killed(world, name).await?.then_some(false))
    })
    .await
}

async fn was_killed(world: &World, name: &str) -> Result<bool> {
    let status = world.api::<Pod>().get(name).await?.status.unwrap_or_default();
    if status.reason.as_deref() == Some("Evicted") {
        return Ok(true);
    }
    let state = status.container_statuses.unwrap_or_default().pop().and_then(|status| status.state);
    let Some(ended) = state.and_then(|state| state.terminated) else { return Ok(false) };
    ensure!(ended.exit_code == KILLED, "{name} ended otherwise: {ended:?}");
    Ok(true)
}

/// Deletes an ordinary pod so that nobody hears of its end, and waits until nothing of it is left on the node.
///
/// With cgroup v1 the kernel says that memory ran out to every container below the limit of the node's pods. The container
/// runtime then calls each of them OOMKilled when it ends, whatever ended it.
///
/// # Errors
/// What the API server says.
pub async fn delete_at_once(world: &World, name: &str) -> Result<()> {
    let pods = world.api::<Pod>();
    // Nothing is left of one that was killed.
    let group = PodGroup::of(&pods.get(name).await?).ok();
    pods.delete(name, &DeleteParams::default().grace_period(0)).await?;
    until("nothing is left of the ordinary pod", || async {
        Ok(group.as_ref().is_none_or(PodGroup::is_gone).then_some(()))
    })
    .await
}

/// Every ordinary pod of the cluster that was evicted, or of which a container was killed for memory: namespace/name.
///
/// # Errors
/// What the API server says.
pub async fn ordinary_pods_harmed(client: &Client) -> Result<Vec<String>> {
    let ordinary = ListParams::default().labels(&format!("!{}", names::LABEL_JOB));
    let pods = Api::<Pod>::all(client.clone()).list(&ordinary).await?;
    let is_harmed = |pod: &Pod| {
        let Some(status) = &pod.status else { return false };
        let containers = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
        let mut states = containers.flat_map(|one| [&one.state, &one.last_state]).flatten();
        status.reason.as_deref() == Some("Evicted")
            || states.any(|state| {
                let ended = state.terminated.as_ref();
                ended.is_some_and(|ended| ended.reason.as_deref() == Some("OOMKilled"))
            })
    };
    let name = |pod: &Pod| format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
    Ok(pods.iter().filter(|pod| is_harmed(pod)).map(name).collect())
}
