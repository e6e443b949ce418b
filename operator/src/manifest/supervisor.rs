//! The supervisor in a pod: an init container brings the program, and the workload's command is run under it. Whether that
//! is done for an attempt is for the planner to say.

use k8s_openapi::{
    api::core::v1::{
        ConfigMapVolumeSource, Container, EmptyDirVolumeSource, KeyToPath, LocalObjectReference, PodSpec,
        ProjectedVolumeSource, ResourceRequirements, SecurityContext, ServiceAccountTokenProjection, Volume,
        VolumeMount, VolumeProjection,
    },
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};
use scavenger_planner::values::Supervisor;
use scavenger_schema::{
    scavenger_job::ScavengerJobSpec,
    supervisor::{MOUNT_PATH, NAME, PROGRAM},
};

use super::CONTAINER;
use crate::reports::{AUDIENCE, CA, CA_KEY};

/// What the operator's own settings add to manifests.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    /// Where supervisors send their reports; none if nobody receives any. It begins with `https://`.
    pub(crate) report_url: Option<String>,
}

/// Seconds for which a token holds. The kubelet renews it before that.
const TOKEN_SECONDS: i64 = 3600;

/// How often a workload reports that can be asked for a checkpoint: the answers ask for it, and the operator waits for 30
/// seconds. The endpoint takes no more than this of one pod.
const REPORT_EVERY: &str = "10s";

/// Annotation with the volumes that are no reason for the cluster autoscaler to keep a node.
const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes";

/// Where the init container finds the program.
const PROGRAM_OF_IMAGE: &str = "/scavenger-supervisor";

/// Volume of the token. That of the certificates is called as their ConfigMap.
const TOKEN: &str = "scavenger-supervisor-token";

/// Puts the supervisor in front of the workload. Without a command there is nothing to put it in front of.
pub(super) fn put_in_front(
    pod: &mut PodSpec,
    spec: &ScavengerJobSpec,
    supervisor: &Supervisor,
    settings: &Settings,
) {
    if spec.command.is_empty() {
        return;
    }
    let directory = format!("{MOUNT_PATH}/bin");
    let Some(main) = pod.containers.iter_mut().find(|container| container.name == CONTAINER) else { return };
    let mut volumes = vec![Volume {
        name: NAME.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource {
            size_limit: Some(Quantity("8Mi".to_owned())),
            ..EmptyDirVolumeSource::default()
        }),
        ..Volume::default()
    }];
    let mut mounts = vec![mount(NAME, &directory, true)];
    if settings.report_url.is_some() {
        volumes.extend([token(), certificates()]);
        mounts.extend([
            mount(TOKEN, &format!("{MOUNT_PATH}/token"), true),
            mount(CA, &format!("{MOUNT_PATH}/ca"), true),
        ]);
    }
    pod.init_containers = Some(vec![Container {
        name: NAME.to_owned(),
        image: Some(supervisor.image.to_string()),
        command: Some([PROGRAM_OF_IMAGE, "copy", &directory].map(str::to_owned).to_vec()),
        resources: main.resources.clone().map(without_devices),
        volume_mounts: Some(vec![mount(NAME, &directory, false)]),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        security_context: main
            .security_context
            .clone()
            .map(|context| SecurityContext { read_only_root_filesystem: Some(true), ..context }),
        ..Container::default()
    }]);
    main.command = Some(command(spec, settings));
    main.volume_mounts.get_or_insert_default().extend(mounts);
    pod.volumes.get_or_insert_default().extend(volumes);
    let own =
        supervisor.image_pull_secrets.iter().map(|name| LocalObjectReference { name: name.to_string() });
    let secrets = pod.image_pull_secrets.get_or_insert_default();
    for secret in own {
        if !secrets.contains(&secret) {
            secrets.push(secret);
        }
    }
    if secrets.is_empty() {
        pod.image_pull_secrets = None;
    }
}

/// Equal to those of the workload, which costs nothing: init containers run before it. The pod stays Guaranteed, and
/// whatever a LimitRange asks of containers holds for this one, too. But no devices: a kubelet that is started again
/// allocates those of init containers again, although they have ended, and rejects the running pod while its device
/// plugin is not back (kubernetes/kubernetes#138446).
fn without_devices(mut resources: ResourceRequirements) -> ResourceRequirements {
    // The names of devices have a domain.
    for amounts in [&mut resources.requests, &mut resources.limits].into_iter().flatten() {
        amounts.retain(|name, _| !name.contains('/'));
    }
    resources
}

/// The cluster autoscaler keeps nodes for pods with local storage. What is in this volume nobody misses.
pub(super) fn let_nodes_go(metadata: &mut ObjectMeta, pod: &PodSpec) {
    if pod.init_containers.is_some() {
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.entry(SAFE_TO_EVICT.to_owned()).or_insert_with(|| NAME.to_owned());
    }
}

/// The supervisor's command line, with the user's command at its end. `args` follow it as before.
fn command(spec: &ScavengerJobSpec, settings: &Settings) -> Vec<String> {
    let mut line = vec![PROGRAM.to_owned(), "run".to_owned()];
    let mut flag = |name: &str, value: &str| line.extend([name.to_owned(), literal(value)]);
    let signal = spec.supervisor.as_ref().and_then(|supervisor| supervisor.signal.as_ref());
    if let Some(to) = signal.and_then(|signal| signal.to) {
        flag("--signal-to", to.flag());
    }
    if let Some(process) = signal.and_then(|signal| signal.process.as_ref()) {
        flag("--signal-process", process);
    }
    if let Some(checkpoint) = &spec.checkpoint {
        if let Some(path) = &checkpoint.path {
            flag("--checkpoint", path);
        }
        if let Some(path) = &checkpoint.progress_path {
            flag("--progress", path);
        }
    }
    if let Some(url) = &settings.report_url {
        flag("--report-url", url);
        flag("--report-token", &format!("{MOUNT_PATH}/token/token"));
        flag("--report-ca", &format!("{MOUNT_PATH}/ca/{CA_KEY}"));
        if let Some(request) = spec.checkpoint.as_ref().and_then(|checkpoint| checkpoint.request.as_ref()) {
            flag("--report-every", REPORT_EVERY);
            if let Some(signal) = request.signal {
                flag("--request-signal", signal.flag());
            }
            // In one word with its flag: it may begin with a dash, or be empty.
            line.extend(request.command.iter().map(|word| format!("--request-command={}", literal(word))));
        }
    }
    line.push("--".to_owned());
    line.extend(spec.command.iter().cloned());
    line
}

/// The kubelet expands `$(NAME)` in commands. What is said to the supervisor is meant literally.
fn literal(text: &str) -> String {
    text.replace('$', "$$")
}

fn mount(name: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: Some(read_only),
        ..VolumeMount::default()
    }
}

/// A token of the pod's service account, bound to the pod, and good for reports alone.
fn token() -> Volume {
    let projection = ServiceAccountTokenProjection {
        audience: Some(AUDIENCE.to_owned()),
        expiration_seconds: Some(TOKEN_SECONDS),
        path: "token".to_owned(),
    };
    Volume {
        name: TOKEN.to_owned(),
        projected: Some(ProjectedVolumeSource {
            sources: Some(vec![VolumeProjection {
                service_account_token: Some(projection),
                ..VolumeProjection::default()
            }]),
            ..ProjectedVolumeSource::default()
        }),
        ..Volume::default()
    }
}

/// The certificates of those who receive reports. A pod starts without them, too: then nothing is reported.
fn certificates() -> Volume {
    Volume {
        name: CA.to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: CA.to_owned(),
            items: Some(vec![KeyToPath {
                key: CA_KEY.to_owned(),
                path: CA_KEY.to_owned(),
                ..KeyToPath::default()
            }]),
            optional: Some(true),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    }
}
