//! How a kubelet and a container runtime say what happened to a pod, and whose fault it is that a container was not created or
//! started.
//!
//! A wrong image name stays wrong, and its ScavengerJob has failed. A registry that is away comes back, and nobody's
//! night of work may end because of it. The kubelet's reason does not distinguish the two, its message does: it quotes the
//! registry, the container runtime or the API server. What no rule knows is the cluster's fault, for trying again is
//! cheap. So is all that a volume or an injected container needs and does not have: only what the spec itself names can be
//! misspelt there.

use super::{Fault, Meaning, Speaker, meaning};
use crate::values::{Container, Name, Pod, PodPhase, ScavengerJobSpec, tells_of_loss};

/// Why a container ended that was killed for memory.
pub(crate) const OUT_OF_MEMORY: &str = "OOMKilled";

/// Why a pod ended that the kubelet evicted.
pub(crate) const EVICTED: &str = "Evicted";

/// Why a Job failed if one of its pods had condition DisruptionTarget: the only rule of its podFailurePolicy.
pub(crate) const POD_FAILURE_POLICY: &str = "PodFailurePolicy";

/// True if the kubelet evicted a pod because its node had no memory left. Disks and limits of its own are another matter.
pub(crate) fn is_evicted_for_memory(reason: &str, message: &str) -> bool {
    reason == EVICTED && meaning(Speaker::Eviction, message) == Some(Meaning::NodeOutOfMemory)
}

/// True if the kubelet evicted this pod because of what the ScavengerJob itself may use. A limit of all containers together
/// tells nothing where some were injected.
pub(crate) fn is_own_limit(pod: &Pod, message: &str) -> bool {
    match meaning(Speaker::Eviction, message) {
        Some(Meaning::OwnLimit) => true,
        Some(Meaning::PodLimit) => !pod.has_injected,
        _ => false,
    }
}

/// The runtime's message, if the container was created and could not be started.
pub(crate) fn message_of(pod: &Pod) -> Option<&str> {
    match &pod.container {
        Container::Ended { exit_code, message, started: false, reason, .. }
            if *exit_code != 0 && !tells_of_loss(reason) =>
        {
            Some(message)
        }
        Container::Waiting(Some((reason, message))) if reason == "RunContainerError" => Some(message),
        _ => None,
    }
}

/// Why a pod ended before its main container was started, be it that the kubelet refused it or that an init container
/// failed that was injected. Whether its container had started before that it may not know any more.
pub(crate) fn refused(pod: &Pod) -> Option<String> {
    if pod.phase != PodPhase::Failed || pod.deletion_requested.is_some() || pod.container.has_started() {
        return None;
    }
    match &pod.status_reason {
        Some((reason, message)) if reason == EVICTED && is_own_limit(pod, message) => None,
        Some((reason, message)) => Some(format!("{reason}: {}", message.trim())),
        None => pod.failed_init.clone(),
    }
}

/// Reasons with which the kubelet says that it cannot create a container.
pub fn is_creation_error(reason: &str) -> bool {
    is_pull_error(reason)
        || matches!(
            reason,
            "CreateContainerConfigError"
                | "CreateContainerError"
                | "ErrImageNeverPull"
                | "InvalidImageName"
                | "PreCreateHookError"
                | "PreStartHookError"
                | "RunContainerError"
        )
}

/// True if the kubelet has not got the image, or does not take the one that it got.
pub fn is_of_image(reason: &str) -> bool {
    is_pull_error(reason) || reason == "ErrImageNeverPull"
}

fn is_pull_error(reason: &str) -> bool {
    matches!(
        reason,
        "ErrImagePull"
            | "ImagePullBackOff"
            | "ImageInspectError"
            | "RegistryUnavailable"
            | "SignatureValidationFailed"
    )
}

/// Whose fault it is, by the kubelet's reason and message. A container that has started with the spec that its ScavengerJob
/// has now shows that nothing in it is misspelt: that is for [`crate::lifecycle::known::Known::has_run`] to say.
pub fn fault(spec: &ScavengerJobSpec, reason: &str, message: &str) -> Fault {
    let speaker = match reason {
        "InvalidImageName" | "ErrImageNeverPull" | "SignatureValidationFailed" => return Fault::Own,
        "CreateContainerConfigError" if is_missing(spec, message) => return Fault::Own,
        "CreateContainerError" => Speaker::Create,
        "ErrImagePull" | "ImagePullBackOff" => Speaker::Pull,
        // The reason alone says that the API server, the node or the registry is at fault.
        _ => return Fault::Cluster,
    };
    meaning(speaker, &message.to_ascii_lowercase()).map_or(Fault::Cluster, Meaning::fault)
}

/// What the author of a ScavengerJob does about an image that the registry does not have, or does not give.
pub fn remedy(reason: &str, message: &str) -> Option<&'static str> {
    if !is_pull_error(reason) {
        return None;
    }
    Some(match meaning(Speaker::Pull, &message.to_ascii_lowercase()) {
        Some(Meaning::NotGiven) => {
            "name a Secret of this namespace with a login for the registry in spec.imagePullSecrets, and check spec.image"
        }
        _ => "check spec.image",
    })
}

/// True if the kubelet says that a Secret, ConfigMap or claim that the spec itself names, or a key in one, does not exist.
/// What a volume needs is not named there: the login of a PersistentVolume, say. Other things that are "not found" (a driver,
/// a node, an attachment) belong to the cluster.
pub fn is_missing(spec: &ScavengerJobSpec, message: &str) -> bool {
    let kinds = [("secret", &spec.secrets), ("configmap", &spec.config_maps)];
    // What the pod itself names the kubelet says at once, of a volume right behind the volume's name. What a
    // PersistentVolume, a driver or the network of the pod needs may have the same name and be in another namespace:
    // there the kubelet says first what could not be done without it.
    if let Some((_, rest)) = message.split_once(" for volume \"") {
        let Some((volume, said)) = rest.split_once("\" : ") else { return false };
        return kinds.iter().any(|(kind, named)| {
            volume_of(kind, named, volume).is_some_and(|own| is_not_found(kind, own, said))
        });
    }
    let said = message.strip_prefix("Error: ").unwrap_or(message);
    let lacks = |(kind, named): &(&str, &Vec<Name>)| {
        named.iter().any(|own| is_not_found(kind, own, said) || lacks_key(kind, own, said))
    };
    // Of a claim the kubelet says first for which of the pod's volumes it was looked up.
    let mut parts = said.split(": ");
    kinds.iter().any(lacks)
        || parts.any(|said| spec.claims.iter().any(|own| is_not_found("persistentvolumeclaim", own, said)))
}

/// What the volume of this name is made of, if it is one that the operator makes for a Secret or ConfigMap of the spec: they are
/// numbered in the order of the spec. A volume of a claim has the name of its PersistentVolume here.
fn volume_of<'a>(kind: &str, named: &'a [Name], volume: &str) -> Option<&'a Name> {
    let mut numbered = named.iter().enumerate();
    numbered.find(|(number, _)| volume == format!("{kind}-{number}")).map(|(_, name)| name)
}

/// `secret "NAME" not found`, in the singular or the plural.
fn is_not_found(kind: &str, name: &str, said: &str) -> bool {
    let Some(rest) = said.strip_prefix(kind) else { return false };
    let rest = rest.strip_prefix('s').unwrap_or(rest).strip_prefix(" \"");
    rest.and_then(|rest| rest.strip_prefix(name)).is_some_and(|rest| rest.starts_with("\" not found"))
}

/// `couldn't find key KEY in Secret NAMESPACE/NAME`.
fn lacks_key(kind: &str, name: &str, said: &str) -> bool {
    let object = said.strip_prefix("couldn't find key ").and_then(|said| said.rsplit_once(" in "));
    let Some((of_kind, object)) = object.and_then(|(_, object)| object.split_once(' ')) else { return false };
    of_kind.eq_ignore_ascii_case(kind) && object.trim_end().rsplit('/').next() == Some(name)
}

/// True if a container cannot be started because of its command, its image or its limit, wherever that is tried.
pub fn names_a_bad_command(message: &str) -> bool {
    meaning(Speaker::Start, &message.to_ascii_lowercase()) == Some(Meaning::BadCommand)
}

/// True if a warning about a pod keeps it from nothing: the kubelet goes on, and may be pulling a large image meanwhile. Events
/// have stamps of whole seconds, so such a warning can look like the newest one.
pub fn is_note(reason: &str) -> bool {
    matches!(
        reason,
        "DNSConfigForming"
            | "FailedToRetrieveImagePullSecret"
            | "HostIPsIPFamilyMismatch"
            | "MissingClusterDNS"
    )
}

/// True if an event of a pod only says that its container was not created. The container's status has the cause, or will
/// have it in a moment, and the cause decides whose fault it is.
pub fn is_shown_by_container(reason: &str, message: &str) -> bool {
    let names_one = message.strip_prefix("Error: ").is_some_and(is_creation_error);
    let pulls = message.starts_with("Failed to pull image") || message.starts_with("Back-off pulling image");
    (reason == "Failed" && (names_one || pulls)) || (reason == "BackOff" && pulls)
}

/// A message of a pull that only says to wait: the kubelet of some versions keeps the registry's own words to itself
/// between two tries.
pub fn only_backs_off(reason: &str, message: &str) -> bool {
    reason == "ImagePullBackOff"
        && message.strip_prefix("Back-off pulling image").is_some_and(|rest| !rest.contains(": "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::sj;

    /// It names Secret `s`, ConfigMap `c` and claim `data`.
    fn spec() -> ScavengerJobSpec {
        let spec = sj("a").spec.unwrap();
        ScavengerJobSpec {
            secrets: vec!["s".into()],
            config_maps: vec!["c".into()],
            claims: vec!["data".into()],
            ..spec
        }
    }

    fn all(fault_of: Fault, cases: &[(&str, &str)]) {
        for (reason, message) in cases {
            assert_eq!(fault(&spec(), reason, message), fault_of, "{reason}: {message}");
        }
    }

    #[test]
    fn a_registry_that_is_away_throttles_or_fails_is_the_clusters_fault() {
        let pull =
            r#"failed to pull and unpack image "r.io/a/b:1": failed to resolve reference "r.io/a/b:1": "#;
        for words in [
            r#"failed to do request: Head "https://r.io/v2/a/b/manifests/1": dial tcp 10.0.0.1:443: connect: connection refused"#,
            r#"failed to do request: Head "https://r.io/v2/a/b/manifests/1": dial tcp 10.0.0.1:443: i/o timeout"#,
            r#"failed to do request: Head "https://r.io/v2/a/b/manifests/1": dial tcp: lookup r.io on 10.96.0.10:53: no such host"#,
            r#"failed to do request: Head "https://r.io/v2/": tls: failed to verify certificate: x509: certificate has expired"#,
            r#"failed to do request: Head "https://r.io/v2/": net/http: TLS handshake timeout"#,
            "unexpected status from HEAD request to https://r.io/v2/a/b/manifests/1: 503 Service Unavailable",
            "failed to authorize: failed to fetch anonymous token: unexpected status: 503 Service Unavailable",
            "unexpected status code https://r.io/v2/a/b/manifests/1: 429 Too Many Requests - Server message: toomanyrequests: pull rate limit",
            r#"failed to copy: httpReadSeeker: failed open: failed to do request: Get "https://r.io/v2/a/b/blobs/sha256:1": EOF"#,
        ] {
            let message = format!("{pull}{words}");
            let quoted = format!("Back-off pulling image \"r.io/a/b:1\": ErrImagePull: {message}");
            all(Fault::Cluster, &[("ErrImagePull", &message), ("ImagePullBackOff", &quoted)]);
        }
        all(
            Fault::Cluster,
            &[
                ("ImagePullBackOff", "Back-off pulling image \"not-found/unauthorized:1\""),
                ("ErrImagePull", "something that nobody has seen before"),
                (
                    "ErrImagePull",
                    "pinging container registry r.io: Get \"https://r.io/v2/\": dial tcp 10.0.0.1:443: connect: no route to host",
                ),
                ("RegistryUnavailable", "pull QPS exceeded"),
                ("ErrImagePull", "pull QPS exceeded"),
                (
                    "ErrImagePull",
                    "rpc error: code = Unavailable desc = connection error: desc = \"transport: Error while dialing\"",
                ),
                (
                    "ErrImagePull",
                    "failed to pull and unpack image \"r.io/a:1\": failed to commit snapshot: rename: input/output error",
                ),
                (
                    "ErrImagePull",
                    "initializing source docker://r.io/a:1: pinging container registry r.io: received unexpected HTTP status: 502 Bad Gateway",
                ),
                (
                    "ErrImagePull",
                    "reading blob sha256:1: fetching blob: received unexpected HTTP status: 500 Internal Server Error",
                ),
                (
                    "ImageInspectError",
                    "Failed to inspect image \"r.io/a:1\": rpc error: code = Unknown desc = layer not known",
                ),
                (
                    "CreateContainerError",
                    "error creating container storage: the container name \"k8s_main\" is already in use",
                ),
                (
                    "CreateContainerError",
                    "failed to create containerd container: mkdir /var/lib/containerd/x: no space left on device",
                ),
                (
                    "CreateContainerError",
                    "failed to generate container \"1\" spec: failed to generate spec: path \"/mnt/x\" is mounted on \"/\" but it is not a shared mount",
                ),
                (
                    "CreateContainerError",
                    "failed to prepare subPath for volumeMount \"claim-0\" of container \"main\"",
                ),
                (
                    "CreateContainerError",
                    "failed to inject CDI devices: unresolvable CDI devices nvidia.com/gpu=0",
                ),
                (
                    "CreateContainerConfigError",
                    "failed to prepare subPath for volumeMount \"claim-0\" of container \"main\": not a directory",
                ),
                (
                    "CreateContainerConfigError",
                    "Get \"https://10.96.0.1:443/api/v1/namespaces/lab/secrets/s\": dial tcp: connect: connection refused",
                ),
                ("PreCreateHookError", "x"),
                ("PreStartHookError", "x"),
                (
                    "CreateContainerConfigError",
                    "failed to sync secret cache: timed out waiting for the condition",
                ),
                (
                    "CreateContainerConfigError",
                    "services have not yet been read at least once, cannot construct envvars",
                ),
                ("CreateContainerConfigError", "secret \"injected\" not found"),
                ("CreateContainerConfigError", "couldn't find key k in ConfigMap lab/injected"),
                ("CreateContainerError", "context deadline exceeded"),
                ("CreateContainerError", "failed to reserve container name \"main\": name is reserved"),
                ("RunContainerError", "failed to create containerd task: failed to create shim task"),
            ],
        );
    }

    #[test]
    fn what_the_registry_does_not_have_or_does_not_give_is_the_specs_fault() {
        all(
            Fault::Own,
            &[
                (
                    "ErrImagePull",
                    r#"failed to pull and unpack image "r.io/a/b:2": failed to resolve reference "r.io/a/b:2": r.io/a/b:2: not found"#,
                ),
                (
                    "ImagePullBackOff",
                    r#"Back-off pulling image "r.io/a/b:2": ErrImagePull: failed to resolve reference "r.io/a/b:2": r.io/a/b:2: not found"#,
                ),
                (
                    "ErrImagePull",
                    "pull access denied for nope, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed",
                ),
                ("ErrImagePull", "reading manifest 2 in r.io/a/b: manifest unknown: manifest unknown"),
                (
                    "ErrImagePull",
                    "failed to authorize: failed to fetch oauth token: unexpected status from GET request to https://r.io/token: 401 Unauthorized",
                ),
                (
                    "ErrImagePull",
                    "reading manifest 1 in docker.io/a/b: requested access to the resource is denied",
                ),
                ("InvalidImageName", "couldn't parse image name \"A:b:c\": invalid reference format"),
                ("ErrImageNeverPull", "Container image \"a\" is not present with pull policy of Never"),
                ("CreateContainerConfigError", "secret \"s\" not found"),
                ("CreateContainerConfigError", "configmap \"c\" not found"),
                ("CreateContainerConfigError", "couldn't find key k in Secret lab/s"),
                ("CreateContainerConfigError", "couldn't find key k in ConfigMap lab/c"),
                (
                    "CreateContainerError",
                    "failed to generate container \"1\" spec: failed to generate spec: no command specified",
                ),
            ],
        );
    }

    /// As containerd 2.3 quotes a registry with HTTP's basic authentication.
    #[test]
    fn the_remedy_is_a_pull_secret_where_the_registry_gives_nothing_and_the_name_where_it_has_nothing() {
        let pull = "failed to pull and unpack image \"r.io/a:1\": failed to resolve image: ";
        let remedy = |words: &str| {
            let message = format!("Back-off pulling image \"r.io/a:1\": ErrImagePull: {pull}{words}");
            remedy("ImagePullBackOff", &message)
        };
        for words in [
            "pull access denied, repository does not exist or may require authorization: authorization failed: no basic auth credentials",
            "unexpected status from HEAD request to https://r.io/v2/a/manifests/1: 401 Unauthorized",
            "unexpected status from HEAD request to https://r.io/v2/a/manifests/1: 403 Forbidden",
        ] {
            assert!(remedy(words).unwrap().contains("spec.imagePullSecrets"), "{words}");
        }
        assert_eq!(remedy("r.io/a:1: not found"), Some("check spec.image"));
        assert_eq!(super::remedy("CreateContainerConfigError", "secret \"s\" not found"), None);
    }

    /// As the kubelet, its volume plugins and the attach-detach controller say it, in Kubernetes 1.31 as in 1.37.
    #[test]
    fn only_what_the_spec_itself_names_is_its_fault() {
        for own in [
            r#"MountVolume.SetUp failed for volume "secret-0" : secret "s" not found"#,
            r#"MountVolume.SetUp failed for volume "secret-0" : secrets "s" not found"#,
            r#"MountVolume.SetUp failed for volume "configmap-0" : configmap "c" not found"#,
            r#"MountVolume.SetUp failed for volume "configmap-0" : configmaps "c" not found"#,
            r#"Error: secret "s" not found"#,
            r#"error processing PVC lab/data: failed to fetch PVC: persistentvolumeclaims "data" not found"#,
        ] {
            assert!(is_missing(&spec(), own), "{own}");
            assert!(!is_missing(&sj("a").spec.unwrap(), own), "it names nothing: {own}");
        }
        for foreign in [
            r#"MountVolume.NewMounter initialization failed for volume "lun" : couldn't get secret lab/lun-login error: secrets "lun-login" not found"#,
            r#"MountVolume.NewMounter initialization failed for volume "lun" : couldn't get secret storage/s error: secrets "s" not found"#,
            r#"MountVolume.SetUp failed for volume "pv-1" : fetching NodePublishSecretRef storage/s failed: failed to find the secret s in the namespace storage with error: secrets "s" not found"#,
            r#"MountVolume.MountDevice failed for volume "pv-1" : fetching NodeStageSecretRef storage/s failed: failed to find the secret s in the namespace storage with error: secrets "s" not found"#,
            r#"MountVolume.MountDevice failed for volume "pv-1" : rpc error: code = Internal desc = secrets "s" not found"#,
            r#"MountVolume.SetUp failed for volume "ceph" : failed to get secret from ["storage"/"s"]: secrets "s" not found"#,
            r#"MountVolume.SetUp failed for volume "flex" : Couldn't get secret storage/s: secrets "s" not found"#,
            r#"MountVolume.SetUp failed for volume "istiod-ca-cert" : configmap "istio-ca-root-cert" not found"#,
            r#"MountVolume.SetUp failed for volume "kube-api-access-x" : configmap "kube-root-ca.crt" not found"#,
            r#"MountVolume.SetUp failed for volume "projected" : references non-existent secret key: token"#,
            r#"MountVolume.SetUp failed for volume "secret-0" : failed to sync secret cache: timed out waiting for the condition"#,
            r#"MountVolume.SetUp failed for volume "v" : object "lab"/"secret-not-found" not registered"#,
            r#"MountVolume.SetUp failed for volume "nfs" : mount failed: exit status 32: mount.nfs: Connection timed out"#,
            r#"MountVolume.SetUp failed for volume "pv" : rpc error: code = DeadlineExceeded desc = context deadline exceeded"#,
            r#"MountVolume.SetUp failed for volume "pv" : kubernetes.io/csi: mounter.SetUpAt failed to get CSI client: driver name d not found in the list of registered CSI drivers"#,
            r#"MountVolume.NodeAffinity check failed for volume "pv" : no matching NodeSelectorTerms"#,
            r#"MountVolume.NewMounter initialization failed for volume "pv" : path "/mnt/disks/s" does not exist"#,
            r#"MountVolume.WaitForAttach failed for volume "pv" : volume attachment is being deleted"#,
            r#"MapVolume.SetUpDevice failed for volume "pv" : secrets "s" not found"#,
            r#"AttachVolume.Attach failed for volume "pv" : rpc error: code = NotFound desc = node n1 not found"#,
            r#"AttachVolume.Attach failed for volume "pv" : rpc error: code = Internal desc = secret "s" not found"#,
            r#"Failed to create pod sandbox: rpc error: code = Unknown desc = failed to set up network: configmap "c" not found"#,
            r#"MountVolume.SetUp failed for volume "pv" : secrets "s" not found"#,
            r#"Multi-Attach error for volume "pv" Volume is already exclusively attached to one node"#,
            r#"AttachVolume.Attach failed for volume "pv" : volumeattachments.storage.k8s.io "csi-1" not found"#,
            "MountVolume.MountDevice failed : driver name d not found in the list of registered CSI drivers",
            "Unable to attach or mount volumes: unmounted volumes=[pvc-0]: timed out",
        ] {
            assert!(!is_missing(&spec(), foreign), "{foreign}");
        }
    }

    #[test]
    fn only_the_words_of_the_registry_count() {
        assert!(only_backs_off("ImagePullBackOff", "Back-off pulling image \"r.io:5000/a/b:2\""));
        assert!(!only_backs_off(
            "ImagePullBackOff",
            "Back-off pulling image \"a\": ErrImagePull: a: not found"
        ));
        assert!(!only_backs_off("ErrImagePull", "a: not found"));
    }

    #[test]
    fn a_command_that_does_not_exist_is_known_from_other_trouble_of_the_runtime() {
        let runc = "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: ";
        for (words, bad) in [
            (
                r#"error during container init: exec: "gmx_mpi": executable file not found in $PATH: unknown"#,
                true,
            ),
            (
                r#"error during container init: exec: "/opt/run": stat /opt/run: no such file or directory: unknown"#,
                true,
            ),
            (r#"error during container init: exec: "/run.sh": permission denied: unknown"#, true),
            ("exec /usr/bin/gmx: exec format error", true),
            ("unable to apply cgroup configuration: mkdir: no space left on device", false),
            (
                "error running prestart hook #0: exit status 1: nvidia-container-cli: initialization error: nvml error: driver/library version mismatch",
                false,
            ),
            (
                "error running prestart hook #0: exit status 1: nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object file: no such file or directory",
                false,
            ),
            (
                r#"error during container init: error mounting "/var/lib/kubelet/pods/u/volumes/v" to rootfs at "/data": permission denied"#,
                false,
            ),
        ] {
            assert_eq!(names_a_bad_command(&format!("{runc}{words}")), bad, "{words}");
        }
    }
}
