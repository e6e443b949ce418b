//! What kubelets, container runtimes and registries say of a container or pod that does not start, and whose fault that is.
//!
//! Each line has where it is said: file and function of Kubernetes (`k8s`), containerd, CRI-O, containers/image, runc or crun, and
//! the oldest release in which it was read. CRI-O was read in 1.31, 1.34 and 1.36. Names in the messages are ours.

use super::{
    Fault,
    kubelet::{fault, is_missing, is_own_limit, names_a_bad_command},
};
use crate::{
    fixtures::{pod, sj},
    values::{Pod, ScavengerJobSpec},
};

/// It names Secret `s`, ConfigMap `c` and claim `data`.
fn spec() -> ScavengerJobSpec {
    ScavengerJobSpec {
        secrets: vec!["s".into()],
        config_maps: vec!["c".into()],
        claims: vec!["data".into()],
        ..sj("a").spec.expect("the spec should be valid")
    }
}

/// Reason, message, and who says it.
type Said<'a> = (&'a str, &'a str, &'a str);

fn all(expected: Fault, said: &[Said<'_>]) {
    for (reason, message, source) in said {
        assert_eq!(fault(&spec(), reason, message), expected, "{source}: {reason}: {message}");
    }
}

const PULL: &str = "ErrImagePull";

#[test]
fn an_image_that_the_registry_does_not_have_or_give_is_the_specs_fault() {
    all(
        Fault::Own,
        &[
            (
                PULL,
                r#"rpc error: code = NotFound desc = failed to pull and unpack image "r.io/a:2": failed to resolve reference "r.io/a:2": r.io/a:2: not found"#,
                "containerd 1.7 pull.go Client.fetch",
            ),
            (
                PULL,
                r#"rpc error: code = NotFound desc = failed to pull and unpack image "r.io/a:2": failed to resolve image: r.io/a:2: not found"#,
                "containerd 2.3 core/transfer/local/pull.go localTransferService.pull",
            ),
            (
                PULL,
                "initializing source docker://r.io/a:2: reading manifest 2 in r.io/a: manifest unknown",
                "containers/image docker/docker_client.go fetchManifest",
            ),
            (
                PULL,
                "unable to retrieve auth token: invalid username/password: unauthorized: incorrect login",
                "containers/image docker/errors.go ErrUnauthorizedForCredentials.Error",
            ),
            (
                "ImagePullBackOff",
                r#"Back-off pulling image "r.io/a:1": SignatureValidationFailed: image pull failed for r.io/a:1 because the signature validation failed: Source image rejected: no signature"#,
                "k8s 1.37 pkg/kubelet/images/image_manager.go evalCRIPullErr, pullImage",
            ),
            (
                "SignatureValidationFailed",
                "image pull failed for r.io/a:1 because the signature validation failed: Source image rejected: no signature",
                "k8s 1.37 pkg/kubelet/images/image_manager.go evalCRIPullErr",
            ),
            (
                "InvalidImageName",
                r#"Failed to apply default image tag "A:b:c": couldn't parse image name "A:b:c": invalid reference format"#,
                "k8s 1.37 pkg/kubelet/images/image_manager.go EnsureImageExists",
            ),
            (
                "ErrImageNeverPull",
                r#"Container image "r.io/a:1" is not present with pull policy of Never"#,
                "k8s 1.37 pkg/kubelet/images/image_manager.go EnsureImageExists",
            ),
        ],
    );
}

#[test]
fn what_a_registry_a_node_or_a_layer_lacks_is_not() {
    all(
        Fault::Cluster,
        &[
            (
                "RegistryUnavailable",
                "image pull failed for r.io/a:1 because the registry is unavailable: pinging container registry r.io: 401 Unauthorized",
                "k8s 1.37 pkg/kubelet/images/image_manager.go evalCRIPullErr; CRI-O server/image_pull.go PullImage",
            ),
            (
                "ImagePullBackOff",
                r#"Back-off pulling image "r.io/a:1": RegistryUnavailable: image pull failed for r.io/a:1 because the registry is unavailable: unauthorized: no"#,
                "k8s 1.37 pkg/kubelet/images/image_manager.go pullImage",
            ),
            (
                "ImageInspectError",
                r#"Failed to inspect image "": rpc error: code = NotFound desc = failed to resolve "sha256:1": snapshot sha256:1 does not exist: not found"#,
                "k8s 1.37 pkg/kubelet/images/image_manager.go imagePullPrecheck",
            ),
            (
                PULL,
                r#"failed to pull and unpack image "r.io/a:1": failed to copy: httpReadSeeker: failed open: content at https://r.io/v2/a/blobs/sha256:1 not found: not found"#,
                "containerd 1.7 content/helpers.go Copy",
            ),
            (
                PULL,
                r#"failed to pull and unpack image "r.io/a:1": failed to copy: httpReadSeeker: failed open: unexpected status code https://cdn.r.io/sha256:1: 403 Forbidden"#,
                "containerd 1.7 content/helpers.go Copy",
            ),
            (
                PULL,
                "copying system image: reading blob sha256:1: fetching blob: StatusCode: 403, 403 Forbidden",
                "containers/image docker/docker_client.go getBlob",
            ),
            (
                PULL,
                r#"failed to pull and unpack image "r.io/a:1": failed to unpack image on snapshotter overlayfs: content digest sha256:1: not found"#,
                "containerd 1.7 pull.go Client.Pull",
            ),
            (
                PULL,
                r#"failed to pull and unpack image "r.io/a:1": failed to prepare extraction snapshot "extract-1 sha256:1": parent snapshot sha256:0 does not exist: not found"#,
                "containerd 1.7 pkg/unpack/unpacker.go",
            ),
            (
                PULL,
                r#"failed to pull and unpack image "r.io/a:1": unexpected media type text/html for sha256:1: not found"#,
                "containerd 1.7 images/image.go Manifest",
            ),
            (
                PULL,
                r#"failed to resolve reference "r.io/a:1": failed to authorize: failed to fetch anonymous token: unexpected status from GET request to https://r.io/token: 404 Not Found"#,
                "containerd 1.7 remotes/docker/resolver.go",
            ),
            (
                "rpc error: bad dockerconfigjson",
                "unexpected end of JSON input",
                "k8s 1.37 pkg/kubelet/images/image_manager.go EnsureImageExists: an error without a reason of its own",
            ),
        ],
    );
    all(
        Fault::Node,
        &[
            (
                PULL,
                r#"failed to resolve reference "r.io/a:1": no resolve hosts: not found"#,
                "containerd 1.7 remotes/docker/resolver.go Resolve",
            ),
            (
                PULL,
                r#"failed to pull and unpack image "r.io/a:1": failed to extract layer sha256:1: write /x: no space left on device"#,
                "containerd 1.7 pkg/unpack/unpacker.go",
            ),
        ],
    );
}

/// Another node may have processors of that kind. Wherever it is tried, it is the image.
#[test]
fn an_image_for_other_processors_is_the_nodes_fault_until_it_fails_elsewhere_too() {
    for (message, source) in [
        (
            r#"failed to pull and unpack image "r.io/a:1": no match for platform in manifest: not found"#,
            "containerd 1.7 images/handlers.go LimitManifests",
        ),
        (
            r#"choosing image instance: no image found in manifest list for architecture "arm64", variant "v8", OS "linux""#,
            "containers/image internal/manifest/docker_schema2_list.go ChooseInstance",
        ),
        (
            r#"choosing image instance: no image found in image index for architecture "arm64", variant "v8", OS "linux""#,
            "containers/image internal/manifest/oci_index.go chooseInstance",
        ),
    ] {
        all(Fault::Node, &[(PULL, message, source)]);
        assert!(names_a_bad_command(message), "{source}: {message}");
    }
}

#[test]
fn a_name_that_looks_like_other_words_is_a_name() {
    for image in ["r.io/tls:1", "r.io/x509:1", "r.io/toomanyrequests:1", "r.io/timeout/refused:eof"] {
        let (name, tag) = image.rsplit_once(':').expect("it has a tag");
        all(
            Fault::Own,
            &[
                (PULL, &format!("failed to resolve reference \"{image}\": {image}: not found"), "containerd"),
                (
                    PULL,
                    &format!(
                        "initializing source docker://{image}: reading manifest {tag} in {name}: manifest unknown"
                    ),
                    "CRI-O",
                ),
            ],
        );
    }
    for image in ["r.io/unauthorized:1", "r.io/insufficient_scope:1", "r.io/not-found:1"] {
        let (name, tag) = image.rsplit_once(':').expect("it has a tag");
        all(
            Fault::Cluster,
            &[
                (PULL, &format!("failed to resolve reference \"{image}\": something new"), "containerd"),
                (PULL, &format!("reading manifest {tag} in {name}: something new"), "CRI-O"),
            ],
        );
    }
    // A mount of a volume, and of something injected.
    for message in [
        r#"failed to create subPath directory for volumeMount "runasnonroot" of container "main""#,
        r#"cannot find volume "secret" to mount into container "main""#,
    ] {
        all(
            Fault::Cluster,
            &[("CreateContainerConfigError", message, "k8s 1.37 pkg/kubelet/kubelet_pods.go makeMounts")],
        );
    }
    // PersistentVolumes, and volumes that were injected.
    for volume in ["secret-store", "secret-1", "secret-01x", "secret", "s", "image", "network", "main"] {
        let message = format!("MountVolume.SetUp failed for volume \"{volume}\" : secret \"s\" not found");
        assert!(!is_missing(&spec(), &message), "{message}");
    }
    // Of the spec it names another one, or one whose name only begins so.
    for message in [
        r#"MountVolume.SetUp failed for volume "secret-0" : configmap "c" not found"#,
        r#"secret "s2" not found"#,
        "couldn't find key s in Secret lab/other",
        "couldn't find key c in ConfigMap s/other",
    ] {
        assert!(!is_missing(&spec(), message), "{message}");
    }
}

#[test]
fn what_keeps_a_container_from_being_created_is_seldom_its_own_fault() {
    let config = "CreateContainerConfigError";
    all(
        Fault::Cluster,
        &[
            // The operator gives each pod a user other than 0: what says so was injected.
            (
                config,
                r#"container has runAsNonRoot and image will run as root (pod: "p", container: main)"#,
                "k8s 1.37 pkg/kubelet/kuberuntime/security_context_others.go verifyRunAsNonRoot",
            ),
            (
                config,
                "device plugin PreStartContainer rpc failed with err: rpc error: invalid variable name",
                "k8s 1.37 pkg/kubelet/cm/devicemanager/manager.go callPreStartContainerIfNeeded",
            ),
            (
                config,
                "endpoint not found in cache for a registered resource: example.com/s",
                "k8s 1.37 pkg/kubelet/cm/devicemanager/manager.go callPreStartContainerIfNeeded",
            ),
            (
                config,
                r#"environment variable key "k" not found in file "/f""#,
                "k8s 1.37 pkg/kubelet/kubelet_pods.go makeEnvironmentVariables",
            ),
            (
                config,
                "failed to list services when setting up env vars",
                "k8s 1.37 pkg/kubelet/kubelet_pods.go getServiceEnvVarMap",
            ),
            (
                "CreateContainerError",
                r#"failed to resolve image "sha256:1": not found"#,
                "containerd 1.7 pkg/cri/server/container_create.go CreateContainer",
            ),
            (
                "CreateContainerError",
                "ImageVolumeMountFailed: failed to mount the image of a volume: not found",
                "CRI-O server/container_create_linux.go; k8s.io/cri-api pkg/errors/errors.go",
            ),
            ("PreCreateHookError", "no", "k8s 1.37 pkg/kubelet/kuberuntime/kuberuntime_container.go"),
            ("PreStartHookError", "no", "k8s 1.37 pkg/kubelet/kuberuntime/kuberuntime_container.go"),
            ("PostStartHookError", "no", "k8s 1.37 pkg/kubelet/kuberuntime/kuberuntime_container.go"),
            ("RunContainerError", "no", "k8s 1.37 pkg/kubelet/container/sync_result.go"),
            ("CrashLoopBackOff", "back-off 10s", "k8s 1.37 pkg/kubelet/container/sync_result.go"),
        ],
    );
    all(
        Fault::Own,
        &[
            (
                config,
                r#"secret "s" not found"#,
                "k8s 1.37 pkg/kubelet/kubelet_pods.go makeEnvironmentVariables",
            ),
            (
                config,
                "couldn't find key k in ConfigMap lab/c",
                "k8s 1.37 pkg/kubelet/kubelet_pods.go makeEnvironmentVariables",
            ),
            (
                "CreateContainerError",
                "no command specified",
                "CRI-O internal/factory/container/container.go SpecSetProcessArgs",
            ),
            (
                "CreateContainerError",
                "set memory limit 4194304 too low; should be at least 12582912 bytes",
                "CRI-O internal/config/cgmgr/cgmgr_linux.go VerifyMemoryIsEnough",
            ),
        ],
    );
}

#[test]
fn the_runtimes_words_of_a_program_are_known_from_those_of_a_hook_a_mount_or_a_node() {
    let runc = "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: \
                unable to start container process: ";
    for (words, source) in [
        (
            r#"exec: "gmx": executable file not found in $PATH: unknown"#,
            "runc 1.1 libcontainer/standard_init_linux.go",
        ),
        (
            r#"error during container init: exec: "/opt/webhook": stat /opt/webhook: no such file or directory: unknown"#,
            "runc 1.3 libcontainer/process_linux.go initProcess.start",
        ),
        (
            r#"error during container init: exec: "/opt/error mounting": permission denied: unknown"#,
            "runc 1.3 libcontainer/process_linux.go initProcess.start",
        ),
        (
            r#"error during container init: chdir to cwd ("/root") set in config.json failed: permission denied: unknown"#,
            "runc 1.1 libcontainer/init_linux.go finalizeNamespace",
        ),
        (
            "container init was OOM-killed (memory limit too low?): unknown",
            "runc 1.1 libcontainer/process_linux.go initProcess.start",
        ),
    ] {
        assert!(names_a_bad_command(&format!("{runc}{words}")), "{source}: {words}");
    }
    for (message, source) in [
        (
            r#"container create failed: time="2026-01-01T00:00:00Z" level=error msg="runc create failed: unable to start container process: error during container init: exec: \"gmx\": executable file not found in $PATH""#,
            "CRI-O internal/oci/runtime_oci.go CreateContainer",
        ),
        (
            "container create failed: executable file `gmx` not found in $PATH: No such file or directory",
            "crun src/libcrun/utils.c find_executable",
        ),
        (
            "OCI runtime create failed: the path `/data/run` exists but it is not executable: Operation not permitted: unknown",
            "crun src/libcrun/utils.c find_executable",
        ),
        (
            "OCI runtime create failed: the path `/data` is not a regular file: Operation not permitted: unknown",
            "crun src/libcrun/utils.c find_executable",
        ),
    ] {
        assert!(names_a_bad_command(message), "{source}: {message}");
    }
    for (message, source) in [
        (
            r#"failed to create containerd task: failed to create shim task: OCI runtime create failed: unable to retrieve OCI runtime error (open /run/log.json: no such file or directory): exec: "nvidia-container-runtime": executable file not found in $PATH: unknown"#,
            "containerd 1.7 pkg/process/init.go runtimeError",
        ),
        (
            r#"failed to create containerd task: failed to start shim: start failed: exec: "containerd-shim-kata-v2": executable file not found in $PATH"#,
            "containerd 1.7 runtime/v2/manager.go startShim",
        ),
        (
            r#"unable to start container process: error during container init: error running prestart hook #0: exec: "nvidia-smi": executable file not found in $PATH"#,
            "runc 1.1 libcontainer/configs/config.go Hooks.RunHooks",
        ),
        (
            r#"unable to start container process: error during container init: error mounting "/var/lib/kubelet/pods/u" to rootfs at "/exec: x": no such file or directory"#,
            "runc 1.1 libcontainer/rootfs_linux.go prepareRootfs",
        ),
        ("error executing hook `/usr/bin/hook` (exit code: 1)", "crun src/libcrun/container.c do_hooks"),
    ] {
        assert!(!names_a_bad_command(message), "{source}: {message}");
    }
}

/// `pkg/kubelet/eviction/helpers.go`, 1.31 as 1.37.
#[test]
fn an_eviction_is_its_own_fault_only_if_its_main_container_is_to_blame() {
    let alone = pod("a-1-0", 1);
    let in_company = Pod { has_injected: true, ..alone.clone() };
    for (message, is_own, is_own_in_company) in [
        ("Container main exceeded its local ephemeral storage limit \"1Gi\". ", true, true),
        ("Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ", true, false),
        ("Container network exceeded its local ephemeral storage limit \"1Gi\". ", false, false),
        ("Container main-mesh exceeded its local ephemeral storage limit \"1Gi\". ", false, false),
        ("Usage of EmptyDir volume \"main\" exceeds the limit \"1Gi\". ", false, false),
        (
            "The node was low on resource: ephemeral-storage. Threshold quantity: 1, available: 0. Container main was using 9Gi, \
             request is 0, has larger consumption of ephemeral-storage. ",
            false,
            false,
        ),
        ("Pod was rejected: The node had condition: [DiskPressure]. ", false, false),
    ] {
        assert_eq!(is_own_limit(&alone, message), is_own, "{message}");
        assert_eq!(is_own_limit(&in_company, message), is_own_in_company, "{message}");
    }
}
