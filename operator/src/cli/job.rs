//! `scavenger-operator interrupt`, `hold` and `release`: what a person says about one ScavengerJob.

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Client, ResourceExt,
    api::{DeleteParams, EvictParams, ListParams, Patch, PatchParams, Preconditions},
};
use scavenger_planner::values::Key;
use scavenger_program::objects::Objects;
use scavenger_schema::{
    names,
    scavenger_job::{Phase, ScavengerJob},
};
use serde_json::json;

use super::{
    connection::{Connection, Target},
    text::print,
};

/// Interrupt one ScavengerJob; it starts again from its checkpoint
///
/// Evicts a pod of the attempt that is under way, with the rights of the kubeconfig's user: it needs `create` on
/// pods/eviction, and `list` on pods. A gang ends as a whole. The ScavengerJob waits from then on like any other: this
/// interruption does not advance it in the queue. To keep it from starting again, use `hold`.
#[derive(Debug, clap::Args)]
pub(super) struct Interrupt {
    #[command(flatten)]
    target: Target,

    #[command(flatten)]
    connection: Connection,
}

/// Let one ScavengerJob not start, and interrupt it if it runs
///
/// Sets `spec.suspend`, with the rights of the kubeconfig's user: it needs `patch` on scavengerjobs. The ScavengerJob keeps
/// its checkpoint, and waits with reason Suspended until `release`.
#[derive(Debug, clap::Args)]
pub(super) struct Hold {
    #[command(flatten)]
    target: Target,

    #[command(flatten)]
    connection: Connection,
}

/// Let one ScavengerJob start again, after hold
///
/// Takes back `spec.suspend`, with the rights of the kubeconfig's user: it needs `patch` on scavengerjobs.
#[derive(Debug, clap::Args)]
pub(super) struct Release {
    #[command(flatten)]
    target: Target,

    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn interrupt(options: &Interrupt) -> anyhow::Result<()> {
    let client = options.connection.connect().await?;
    let key = options.target.key(&client)?;
    let sj = read(&client, &key).await?;
    let phase = phase(&sj);
    if !phase.is_active() {
        bail!("{key} is {}: there is no attempt to interrupt", phase.name());
    }
    let pods: Objects<Pod> = Objects::namespaced(client, &key.namespace);
    let selector = format!("{}={}", names::LABEL_JOB_UID, sj.uid().unwrap_or_default());
    let list = pods.list(&ListParams::default().labels(&selector)).await;
    let list = list.with_context(|| format!("the pods of {key} could not be listed"))?;
    let Some(pod) = list.items.iter().find(|pod| is_evictable(pod)) else {
        bail!("{key} has no pod to evict: its attempt is ending, or its pods are not created yet")
    };
    let (name, uid) = (pod.name_any(), pod.uid());
    let only_this = Preconditions { uid, resource_version: None };
    let delete = DeleteParams { preconditions: Some(only_this), ..DeleteParams::default() };
    let eviction = EvictParams { delete_options: Some(delete), ..EvictParams::default() };
    match pods.evict(&name, &eviction).await {
        Ok(_) => print(&format!("{key} is being interrupted: pod {name} is evicted\n")),
        Err(kube::Error::Api(error)) if error.code == 429 => {
            bail!(
                "pod {name} of {key} could not be evicted: {}; delete the PodDisruptionBudget, or the pod",
                error.message
            )
        }
        Err(error) => Err(error).with_context(|| format!("pod {name} of {key} could not be evicted")),
    }
}

pub(super) async fn hold(options: &Hold) -> anyhow::Result<()> {
    let client = options.connection.connect().await?;
    let key = options.target.key(&client)?;
    suspend(&client, &key, true).await?;
    print(&format!("{key} is held: it does not start until `scavenger-operator release`\n"))
}

pub(super) async fn release(options: &Release) -> anyhow::Result<()> {
    let client = options.connection.connect().await?;
    let key = options.target.key(&client)?;
    suspend(&client, &key, false).await?;
    print(&format!("{key} is released: it starts in its turn\n"))
}

/// The ScavengerJob as it is stored.
pub(super) async fn read(client: &Client, key: &Key) -> anyhow::Result<ScavengerJob> {
    let api: Objects<ScavengerJob> = Objects::namespaced(client.clone(), &key.namespace);
    let sj = api.get_opt(&key.name).await.with_context(|| format!("{key} could not be read"))?;
    sj.with_context(|| missing(key))
}

/// Sets `spec.suspend` of a ScavengerJob that has not ended.
async fn suspend(client: &Client, key: &Key, suspend: bool) -> anyhow::Result<()> {
    let sj = read(client, key).await?;
    if phase(&sj).is_finished() {
        bail!("{key} is {}: it has ended", phase(&sj).name());
    }
    let api: Objects<ScavengerJob> = Objects::namespaced(client.clone(), &key.namespace);
    let patch = Patch::Merge(suspension(suspend));
    match api.patch(&key.name, &PatchParams::default(), &patch).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(error)) if error.is_not_found() => bail!(missing(key)),
        Err(error) => Err(error).with_context(|| format!("{key} could not be changed")),
    }
}

/// A submitter that has suspended it for a moment resumes nothing that a person holds: the suspension is the person's from
/// now on.
fn suspension(suspend: bool) -> serde_json::Value {
    let annotations = json!({ names::ANNOTATION_SUSPENDED_TO_GROW: null });
    json!({ "metadata": { "annotations": annotations }, "spec": { "suspend": suspend } })
}

fn phase(sj: &ScavengerJob) -> Phase {
    sj.status.as_ref().and_then(|status| status.phase).unwrap_or_default()
}

pub(super) fn missing(key: &Key) -> String {
    format!("there is no ScavengerJob {:?} in namespace {:?}", &*key.name, &*key.namespace)
}

/// True if a pod has not ended and is not being deleted.
fn is_evictable(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    pod.metadata.deletion_timestamp.is_none() && !matches!(phase, "Succeeded" | "Failed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_takes_over_what_a_submitter_has_suspended() {
        let patch = suspension(true);
        assert_eq!(patch["spec"]["suspend"], true);
        let annotations = patch["metadata"]["annotations"].as_object().unwrap();
        assert_eq!(annotations.get("scavenger.dev/suspended-to-grow"), Some(&serde_json::Value::Null));
    }

    #[test]
    fn pods_that_end_anyway_are_not_evicted() {
        let pod = |value| is_evictable(&serde_json::from_value(value).unwrap());
        assert!(pod(json!({ "metadata": {} })));
        assert!(pod(json!({ "metadata": {}, "status": { "phase": "Running" } })));
        assert!(!pod(json!({ "metadata": {}, "status": { "phase": "Failed" } })));
        assert!(!pod(json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } })));
    }
}
