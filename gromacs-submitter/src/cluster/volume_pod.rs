//! A small pod that mounts a volume: read-only for people who look at the files of rows, or to write for those who bring some.
//! Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{
    Affinity, Capabilities, Container, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm,
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodSecurityContext, PodSpec,
    ResourceRequirements, SeccompProfile, SecurityContext, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt as _;
use kube::api::ObjectMeta;
use scavenger_schema::names;
use scavenger_schema::simulation::LABEL_MANAGED_BY;

use crate::manifest::MOUNT_PATH;
use crate::store::RowFolder;
use crate::text::literal;

/// Label that says what an object is, and its values here.
pub(super) const LABEL_NAME: &str = "app.kubernetes.io/name";
pub(super) const READER: &str = "gromacs-reader";
pub(super) const WRITER: &str = "gromacs-writer";

/// Their containers.
const CONTAINERS: [&str; 2] = ["reader", "writer"];

const READ_SCRIPT: &str = include_str!("wait.sh");
const WRITE_SCRIPT: &str = concat!(include_str!("clear.sh"), include_str!("wait.sh"));

/// How long a pod may take to end, seconds: one that reads has nothing to save, and its shell ignores SIGTERM. One that writes
/// removes at most what is copied in one go.
const READER_GRACE_SECONDS: i64 = 1;
const WRITER_GRACE_SECONDS: i64 = 30;

/// What it asks for: so little that it fits beside simulations. It is an ordinary pod, for which they are interrupted.
const REQUESTS: [(&str, &str); 2] = [("cpu", "10m"), ("memory", "32Mi")];

/// What it may use: checksums take a core, and nothing of it is large.
const LIMITS: [(&str, &str); 2] = [("cpu", "1"), ("memory", "128Mi")];

/// What a container waits for that never comes by itself.
const HOPELESS: [&str; 6] = [
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
];

/// Where a pod that mounts a claim can be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// On any node.
    Anywhere,
    /// Only where the volume is mounted now.
    On(Vec<String>),
    /// Nowhere: this pod has the volume for itself.
    TakenBy(String),
}

/// How far a pod is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// It takes commands.
    Ready,
    /// Not yet, and why.
    Waiting(String),
    /// It never will, and why.
    Hopeless(String),
}

/// What a pod does with a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose<'a> {
    /// It reads files.
    Read,
    /// It writes files.
    Write {
        /// Path from the root of the volume for what is on its way, which is removed when the pod ends.
        staging: &'a str,
    },
}

impl Purpose<'_> {
    /// Name of the container that takes commands.
    #[must_use]
    pub fn container(self) -> &'static str {
        let [reader, writer] = CONTAINERS;
        match self {
            Self::Read => reader,
            Self::Write { .. } => writer,
        }
    }
}

/// A claim, and as whom it is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mount<'a> {
    /// Namespace of the claim.
    pub namespace: &'a str,
    /// Name of the claim.
    pub claim: &'a str,
    /// User id.
    pub user: i64,
    /// Group id, also of the volume.
    pub group: i64,
    /// ServiceAccount, if it is not the namespace's default.
    pub service_account: Option<&'a str>,
}

impl<'a> From<&'a RowFolder> for Mount<'a> {
    fn from(row: &'a RowFolder) -> Self {
        Self {
            namespace: &row.namespace,
            claim: &row.persistent_volume_claim,
            user: row.run_as_user,
            group: row.group(),
            service_account: row.service_account.as_deref(),
        }
    }
}

/// What the pod is made of.
#[derive(Debug, Clone)]
pub struct VolumePod<'a> {
    /// The volume.
    pub mount: Mount<'a>,
    /// Name of the pod.
    pub name: &'a str,
    /// Image.
    pub image: &'a str,
    /// Where it can be.
    pub placement: &'a Placement,
    /// How long it may run.
    pub within: Duration,
    /// What it is for.
    pub purpose: Purpose<'a>,
}

/// Where a pod that mounts `claim` can be, if these pods on these nodes mount it. The volume itself is not for everyone
/// to read, so one that is not attached to nodes counts as one that is.
#[must_use]
pub fn placement(claim: &PersistentVolumeClaim, mounts: &[(String, String)]) -> Placement {
    let granted = claim.status.as_ref().and_then(|status| status.access_modes.as_ref());
    let requested = claim.spec.as_ref().and_then(|spec| spec.access_modes.as_ref());
    let modes = granted.or(requested).map(Vec::as_slice).unwrap_or_default();
    let has = |mode: &str| modes.iter().any(|other| other == mode);
    match mounts.first() {
        _ if has("ReadWriteMany") || has("ReadOnlyMany") => Placement::Anywhere,
        None => Placement::Anywhere,
        Some((pod, _)) if has("ReadWriteOncePod") => Placement::TakenBy(pod.clone()),
        Some(_) => {
            let mut nodes: Vec<String> = mounts.iter().map(|(_, node)| node.clone()).collect();
            nodes.sort_unstable();
            nodes.dedup();
            Placement::On(nodes)
        }
    }
}

/// The pod. It meets the restricted Pod Security level, and runs as the row's own pods do.
#[must_use]
pub fn volume_pod(plan: &VolumePod) -> Pod {
    let mount = plan.mount;
    let (name, grace) = match plan.purpose {
        Purpose::Read => (READER, READER_GRACE_SECONDS),
        Purpose::Write { .. } => (WRITER, WRITER_GRACE_SECONDS),
    };
    let spec = PodSpec {
        containers: vec![container(plan)],
        restart_policy: Some("Never".to_owned()),
        active_deadline_seconds: Some(i64::try_from(plan.within.as_secs()).unwrap_or(i64::MAX).max(1)),
        termination_grace_period_seconds: Some(grace),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(mount.user),
            run_as_group: Some(mount.group),
            fs_group: Some(mount.group),
            // As in the row's own pods.
            fs_group_change_policy: Some("OnRootMismatch".to_owned()),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                ..SeccompProfile::default()
            }),
            ..PodSecurityContext::default()
        }),
        // It may be what lets the image be pulled.
        service_account_name: mount.service_account.map(ToOwned::to_owned),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        affinity: affinity(plan.placement),
        volumes: Some(vec![Volume {
            name: "data".to_owned(),
            // Not read-only here: where a volume is attached already, some drivers refuse it in another mode.
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: mount.claim.to_owned(),
                read_only: None,
            }),
            ..Volume::default()
        }]),
        ..PodSpec::default()
    };
    // Labels of the project's own would make it a pod of a ScavengerJob, which the policies refuse.
    let labels = [(LABEL_MANAGED_BY, names::SUBMITTER), (LABEL_NAME, name)];
    Pod {
        metadata: ObjectMeta {
            name: Some(plan.name.to_owned()),
            namespace: Some(mount.namespace.to_owned()),
            labels: Some(labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        status: None,
    }
}

fn container(plan: &VolumePod) -> Container {
    let (script, staging, read_only) = match plan.purpose {
        Purpose::Read => (READ_SCRIPT, None, Some(true)),
        Purpose::Write { staging } => (WRITE_SCRIPT, Some(staging), None),
    };
    let arguments =
        staging.into_iter().flat_map(|staging| ["put".to_owned(), format!("{MOUNT_PATH}/{staging}")]);
    let command = ["sh", "-c", script].into_iter().map(ToOwned::to_owned).chain(arguments);
    let amounts = |amounts: [(&str, &str); 2]| -> BTreeMap<String, Quantity> {
        amounts.into_iter().map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned()))).collect()
    };
    Container {
        name: plan.purpose.container().to_owned(),
        image: Some(plan.image.to_owned()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        command: Some(command.map(|word| literal(&word)).collect()),
        resources: Some(ResourceRequirements {
            requests: Some(amounts(REQUESTS)),
            limits: Some(amounts(LIMITS)),
            ..ResourceRequirements::default()
        }),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".to_owned()]),
                ..Capabilities::default()
            }),
            ..SecurityContext::default()
        }),
        volume_mounts: Some(vec![VolumeMount {
            name: "data".to_owned(),
            mount_path: MOUNT_PATH.to_owned(),
            read_only,
            ..VolumeMount::default()
        }]),
        ..Container::default()
    }
}

fn affinity(placement: &Placement) -> Option<Affinity> {
    let Placement::On(nodes) = placement else { return None };
    // A field takes one value, so there is a term for each node.
    let terms = nodes.iter().map(|node| NodeSelectorTerm {
        match_expressions: None,
        match_fields: Some(vec![NodeSelectorRequirement {
            key: "metadata.name".to_owned(),
            operator: "In".to_owned(),
            values: Some(vec![node.clone()]),
        }]),
    });
    Some(Affinity {
        node_affinity: Some(NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(NodeSelector {
                node_selector_terms: terms.collect(),
            }),
            ..NodeAffinity::default()
        }),
        ..Affinity::default()
    })
}

/// How far the pod is.
#[must_use]
pub fn readiness(pod: &Pod) -> Readiness {
    let words = |reason: &str, message: Option<&str>| match message {
        Some(message) => format!("{reason}: {message}"),
        None => reason.to_owned(),
    };
    let Some(status) = &pod.status else { return Readiness::Waiting("it is not seen yet".to_owned()) };
    if pod.metadata.deletion_timestamp.is_some() {
        return Readiness::Hopeless("it is being deleted".to_owned());
    }
    let phase = status.phase.as_deref().unwrap_or("Pending");
    if matches!(phase, "Failed" | "Succeeded") {
        let reason = status.reason.as_deref().unwrap_or("it has ended");
        return Readiness::Hopeless(words(reason, status.message.as_deref()));
    }
    let container = status
        .container_statuses
        .iter()
        .flatten()
        .find(|container| CONTAINERS.contains(&container.name.as_str()))
        .and_then(|container| container.state.as_ref());
    if container.is_some_and(|state| state.running.is_some()) {
        return Readiness::Ready;
    }
    if let Some(waiting) = container.and_then(|state| state.waiting.as_ref()) {
        let reason = waiting.reason.as_deref().unwrap_or("its container waits");
        let text = words(reason, waiting.message.as_deref());
        return if HOPELESS.contains(&reason) { Readiness::Hopeless(text) } else { Readiness::Waiting(text) };
    }
    let unscheduled = status
        .conditions
        .iter()
        .flatten()
        .find(|condition| condition.type_ == "PodScheduled" && condition.status == "False")
        .and_then(|condition| condition.message.as_deref());
    Readiness::Waiting(match unscheduled {
        Some(message) => format!("no node takes it: {message}"),
        None => format!("pod {} is {}", pod.name_any(), phase.to_lowercase()),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Command;

    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::row_folder;

    fn claim(modes: &[&str]) -> PersistentVolumeClaim {
        serde_json::from_value(json!({ "metadata": {}, "status": { "accessModes": modes } }))
            .expect("should be a claim")
    }

    fn mounts(mounts: &[(&str, &str)]) -> Vec<(String, String)> {
        mounts.iter().map(|(pod, node)| ((*pod).to_owned(), (*node).to_owned())).collect()
    }

    #[test]
    fn it_goes_where_the_volume_is() {
        let running = mounts(&[("a", "n2"), ("b", "n1"), ("c", "n2")]);
        assert_eq!(placement(&claim(&["ReadWriteOnce"]), &[]), Placement::Anywhere);
        assert_eq!(placement(&claim(&["ReadWriteMany"]), &running), Placement::Anywhere);
        assert_eq!(
            placement(&claim(&["ReadWriteOnce"]), &running),
            Placement::On(vec!["n1".to_owned(), "n2".to_owned()])
        );
        assert_eq!(placement(&claim(&["ReadWriteOncePod"]), &running), Placement::TakenBy("a".to_owned()));
    }

    fn manifest_of(placement: &Placement, purpose: Purpose) -> Value {
        let within = Duration::from_secs(600);
        let folder = row_folder();
        let mount = Mount::from(&folder);
        let plan = VolumePod { mount, name: "reader", image: "gmx", placement, within, purpose };
        serde_json::to_value(volume_pod(&plan)).expect("should be JSON")
    }

    fn manifest(placement: &Placement) -> Value {
        manifest_of(placement, Purpose::Read)
    }

    fn is_restricted(pod: &Value) {
        let (spec, container) = (&pod["spec"], &pod["spec"]["containers"][0]);
        assert_eq!(container["securityContext"]["allowPrivilegeEscalation"], false);
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
        assert_eq!(container["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
        assert_eq!(spec["securityContext"]["runAsNonRoot"], true);
        assert_eq!(spec["securityContext"]["runAsUser"], 2001);
        assert_eq!(spec["securityContext"]["runAsGroup"], 2002);
        assert_eq!(spec["securityContext"]["fsGroup"], 2002);
        assert_eq!(spec["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
        assert_eq!(spec["automountServiceAccountToken"], false);
        assert_eq!(spec["activeDeadlineSeconds"], 600);
        assert_eq!(spec["volumes"].as_array().map(Vec::len), Some(1));
        assert_eq!(spec["volumes"][0]["persistentVolumeClaim"]["claimName"], "simulations");
        assert!(spec["affinity"].is_null());
        let labels = pod["metadata"]["labels"].as_object().expect("should have labels");
        assert!(labels.keys().all(|key| !key.starts_with(names::GROUP)), "{labels:?}");
    }

    #[test]
    fn it_reads_only_and_is_restricted() {
        let pod = manifest(&Placement::Anywhere);
        is_restricted(&pod);
        let container = &pod["spec"]["containers"][0];
        assert_eq!(container["volumeMounts"][0]["readOnly"], true);
        let script = container["command"][2].as_str().unwrap_or_default();
        assert_eq!(script.replace("$$", "$"), READ_SCRIPT, "Kubernetes replaces variables");
    }

    #[test]
    fn one_that_writes_is_restricted_too_and_removes_what_is_on_its_way() {
        let staging = "a/.put-$(id)";
        let pod = manifest_of(&Placement::Anywhere, Purpose::Write { staging });
        is_restricted(&pod);
        let container = &pod["spec"]["containers"][0];
        assert_eq!(container["volumeMounts"][0]["mountPath"], "/data");
        assert!(container["volumeMounts"][0]["readOnly"].is_null());
        assert_eq!(pod["metadata"]["labels"][LABEL_NAME], WRITER);
        assert_eq!(container["name"], Purpose::Write { staging }.container());
        assert_eq!(container["command"][3], "put");
        assert_eq!(container["command"][4], "/data/a/.put-$$(id)", "Kubernetes replaces variables");
        let script = container["command"][2].as_str().unwrap_or_default();
        assert_eq!(script.replace("$$", "$"), WRITE_SCRIPT);
        assert!(pod["spec"]["terminationGracePeriodSeconds"].as_i64() > Some(1));
    }

    /// Runs the script of a pod that writes, whose `sleep` does `asleep`, and in which these processes run. Returns what is left of the
    /// volume.
    fn left_behind(asleep: &str, processes: &[&str]) -> Vec<String> {
        let folder = tempfile::tempdir().expect("should make a folder");
        let at = |path: &str| folder.path().join(path);
        for path in ["volume/.put/deep", "volume/other", "bin"] {
            fs::create_dir_all(at(path)).expect("should make a folder");
        }
        fs::write(at("volume/.put/deep/1"), "half").expect("should write");
        processes
            .iter()
            .for_each(|it| fs::create_dir_all(at("proc").join(it)).expect("should make a folder"));
        fs::write(at("bin/sleep"), format!("#!/bin/sh\n{asleep}\n")).expect("should write");
        fs::set_permissions(at("bin/sleep"), fs::Permissions::from_mode(0o755)).expect("should be set");
        let script = WRITE_SCRIPT.replace("/proc/", &format!("{}/", at("proc").display()));
        let path = std::env::var("PATH").unwrap_or_default();
        let ended = Command::new("sh")
            .args(["-c", &script, "put"])
            .arg(at("volume/.put"))
            .env("PATH", format!("{}:{path}", at("bin").display()))
            .status()
            .expect("should start");
        assert!(ended.success(), "{ended}");
        let left = fs::read_dir(at("volume")).expect("should be read");
        left.map(|entry| entry.expect("should be read").file_name().display().to_string()).collect()
    }

    #[test]
    fn what_is_on_its_way_goes_with_the_pod() {
        // Nobody sends a command any more.
        assert_eq!(left_behind(":", &["1"]), ["other"]);
        // It is deleted while a command runs.
        assert_eq!(left_behind("kill -TERM $PPID", &["1", "20"]), ["other"]);
    }

    #[test]
    fn it_is_kept_on_the_nodes_of_the_volume() {
        let pod = manifest(&Placement::On(vec!["n1".to_owned(), "n2".to_owned()]));
        let required =
            &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        let terms = required["nodeSelectorTerms"].as_array().expect("should be terms");
        assert_eq!(terms.len(), 2);
        assert_eq!(
            terms[1]["matchFields"],
            json!([{ "key": "metadata.name", "operator": "In", "values": ["n2"] }])
        );
    }

    fn seen(status: &Value) -> Readiness {
        let pod = json!({ "metadata": { "name": "reader" }, "status": status });
        readiness(&serde_json::from_value(pod).expect("should be a pod"))
    }

    #[test]
    fn what_it_waits_for_is_said() {
        let container = |state: Value| {
            json!({ "phase": "Pending", "containerStatuses": [{
                "name": "reader", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state,
            }] })
        };
        assert_eq!(seen(&container(json!({ "running": {} }))), Readiness::Ready);
        let waiting =
            |reason: &str| container(json!({ "waiting": { "reason": reason, "message": "no gmx" } }));
        assert_eq!(
            seen(&waiting("ContainerCreating")),
            Readiness::Waiting("ContainerCreating: no gmx".to_owned())
        );
        assert_eq!(
            seen(&waiting("ImagePullBackOff")),
            Readiness::Hopeless("ImagePullBackOff: no gmx".to_owned())
        );
        let unscheduled = json!({ "phase": "Pending", "conditions": [
            { "type": "PodScheduled", "status": "False", "message": "0/1 nodes are available" },
        ] });
        assert_eq!(
            seen(&unscheduled),
            Readiness::Waiting("no node takes it: 0/1 nodes are available".to_owned())
        );
        let ended = json!({ "phase": "Failed", "reason": "DeadlineExceeded" });
        assert_eq!(seen(&ended), Readiness::Hopeless("DeadlineExceeded".to_owned()));
    }
}
