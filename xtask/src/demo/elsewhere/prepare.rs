//! Brings the demo onto a cluster: namespaces, the login for the registry, one node, and the definitions.

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use scavenger_schema::quantity::format_milli;
use serde_json::{Value, json};

use super::{
    super::stage::{LABEL, Stage},
    CHEMISTS, CRDS, OWNER, PLACEHOLDER_PRIORITY, PULL_SECRET,
    survey::Survey,
};
use crate::{chart, cluster::Access, images::Image, install, progress::Task, shell::ROOT};

/// Name of its PriorityClass.
const PLACEHOLDER_CLASS: &str = "demo-placeholder";

/// Longest time for the first image of a node.
const PULL_LIMIT: Duration = Duration::from_secs(180);

/// Brings onto the cluster what the installation and the story need.
pub(super) fn set(stage: &Stage, survey: &Survey, secret: Option<&str>) -> Result<()> {
    let access = &stage.access;
    let create =
        |object: &Value| access.kubectl_with_input(&["create", "-f", "-"], object.to_string().as_bytes());
    let task = Task::start("preparing the cluster");
    for name in [install::NAMESPACE, CHEMISTS, OWNER] {
        let mut namespace = super::super::namespace(name);
        namespace["metadata"]["labels"][LABEL] = json!("true");
        create(&namespace)?;
        if let Some(secret) = secret {
            create(&json!({
                "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
                "metadata": { "name": PULL_SECRET, "namespace": name },
                "stringData": { ".dockerconfigjson": secret },
            }))?;
            // For pods that name no Secret, as docs/install.md says. The controller leaves an account alone that is there.
            let account = json!({
                "apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": { "name": "default", "namespace": name },
                "imagePullSecrets": [{ "name": PULL_SECRET }],
            });
            let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
            access.kubectl_with_input(&apply, account.to_string().as_bytes())?;
        }
    }
    access.kubectl_output(&["label", "node", &survey.node.name, &format!("{LABEL}=true")])?;
    task.done(format!("namespaces are created, and node {} carries the demo", survey.node.name));

    try_to_pull(stage)?;
    if let Some(held) = survey.share.placeholder {
        create(&json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": { "name": PLACEHOLDER_CLASS, "labels": { LABEL: "true" } },
            "value": PLACEHOLDER_PRIORITY, "preemptionPolicy": "Never",
            "description": "Pods that hold free capacity for the demo of ScavengerJobs, and yield it to everybody.",
        }))?;
        // A week: longer than anybody looks around.
        let mut pod = super::super::counting_pod(stage, "placeholder", &format_milli(held), 7 * 24 * 3600);
        pod["spec"]["priorityClassName"] = json!(PLACEHOLDER_CLASS);
        create(&pod)?;
        let wait =
            ["wait", "--namespace", OWNER, "--for=condition=Ready", "--timeout=60s", "pod/placeholder"];
        access.kubectl_output(&wait).context("the placeholder does not start")?;
    }
    if survey.has_definitions { Ok(()) } else { install_definitions(access) }
}

/// Tries whether the node gets an image of ours, with the smallest pod: a registry that it cannot reach is better found now.
fn try_to_pull(stage: &Stage) -> Result<()> {
    let task = Task::start("trying whether the node can pull images");
    let access = &stage.access;
    let pod = super::super::counting_pod(stage, "pull", "10m", 1);
    access.kubectl_with_input(&["create", "-f", "-"], pod.to_string().as_bytes())?;
    let began = Instant::now();
    loop {
        let text = access.kubectl_output(&["get", "pod", "pull", "--namespace", OWNER, "--output=json"])?;
        let pod: Value = serde_json::from_str(&text).context("kubectl printed no JSON for a pod")?;
        if let Some(refusal) = refusal(&pod) {
            bail!(
                "the node cannot run {}: {refusal}; can it reach the registry, is a login missing (--pull-secret), and does its \
                 container runtime allow a registry without TLS?",
                stage.image(Image::Counter)
            );
        }
        if pod["status"]["phase"] == "Succeeded" {
            break;
        }
        ensure!(
            began.elapsed() < PULL_LIMIT,
            "a pod of the demo did not run within {} s: {}",
            PULL_LIMIT.as_secs(),
            pod["status"]
        );
        #[expect(clippy::disallowed_methods, reason = "the pod is asked for once a second")]
        std::thread::sleep(Duration::from_secs(1));
    }
    access.kubectl_output(&["delete", "pod", "pull", "--namespace", OWNER, "--wait"])?;
    task.done("the node pulls images from the registry");
    Ok(())
}

/// Why a pod's container will not start; none if it may still.
fn refusal(pod: &Value) -> Option<String> {
    if pod["status"]["phase"] == "Failed" {
        return Some(format!(
            "its pod failed: {}",
            pod["status"]["message"].as_str().unwrap_or("no message")
        ));
    }
    let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
    let reason = waiting["reason"].as_str()?;
    let is_refusal = reason.contains("ErrImage")
        || matches!(
            reason,
            "ImagePullBackOff"
                | "InvalidImageName"
                | "CreateContainerConfigError"
                | "CreateContainerError"
                | "RunContainerError"
        );
    is_refusal.then(|| format!("{reason}: {}", waiting["message"].as_str().unwrap_or("no message")))
}

/// The definitions with the demo's label, so that they are known at the end.
fn install_definitions(access: &Access) -> Result<()> {
    let path = format!("{ROOT}/{CRDS}");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let mut names = Vec::new();
    for mut definition in chart::documents(&text)? {
        definition["metadata"]["labels"][LABEL] = json!("true");
        access.kubectl_with_input(&["create", "-f", "-"], definition.to_string().as_bytes())?;
        names.push(format!("crd/{}", definition["metadata"]["name"].as_str().unwrap_or_default()));
    }
    let mut wait = vec!["wait", "--for=condition=Established", "--timeout=60s"];
    wait.extend(names.iter().map(String::as_str));
    access.kubectl_output(&wait).map(drop)
}

/// Values of the chart beside those of the demonstration's own.
pub(super) fn values(stage: &Stage, survey: &Survey, has_secret: bool) -> Value {
    let secrets = if has_secret { json!([PULL_SECRET]) } else { json!([]) };
    let (here, threshold) = (json!({ LABEL: "true" }), survey.share.threshold);
    let image = |image: Image| {
        let name = stage.image(image);
        let (name, digest) = name.split_once('@').unwrap_or((&name, ""));
        let (registry, repository) = name.rsplit_once('/').unwrap_or(("", name));
        json!({ "registry": registry, "repository": repository, "digest": digest })
    };
    json!({
        "image": { "pullSecrets": secrets },
        "operator": { "image": image(Image::Operator), "nodeSelector": here },
        "pool": { "spec": { "nodeSelector": here, "startThreshold": threshold, "headroomTarget": threshold } },
        "supervisor": { "image": image(Image::Supervisor), "pullSecrets": secrets },
        "tuner": { "image": image(Image::Tuner), "nodeSelector": here },
        "submitter": {
            "image": image(Image::GromacsSubmitter), "gromacsImage": image(Image::Gromacs), "nodeSelector": here,
        },
        "postgres": {
            "image": image(Image::Postgres), "nodeSelector": here, "storageClassName": survey.storage_class,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_cannot_pull_is_quoted() {
        let pod = |reason: &str| {
            let waiting = json!({ "reason": reason, "message": "401 Unauthorized" });
            json!({ "status": { "phase": "Pending", "containerStatuses": [{ "state": { "waiting": waiting } }] } })
        };
        assert_eq!(refusal(&pod("ErrImagePull")).unwrap(), "ErrImagePull: 401 Unauthorized");
        assert!(refusal(&pod("ImagePullBackOff")).is_some());
        assert_eq!(refusal(&pod("ContainerCreating")), None);
        assert_eq!(refusal(&json!({ "status": { "phase": "Pending" } })), None);
        assert!(refusal(&json!({ "status": { "phase": "Failed" } })).is_some());
    }
}
