//! States of containers.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerState, Pod as ApiPod};
use scavenger_planner::values::Container;
use scavenger_schema::supervisor;

use super::{
    convert::{deletion_forced, shortened},
    supervision,
};
use crate::manifest;

/// Longest termination message that goes on into a status, in bytes.
const MAX_MESSAGE: usize = 1024;

/// The container that runs the workload. The kubelet sorts statuses by name, and a sidecar that was injected may come
/// first.
pub(super) fn main(object: &ApiPod) -> Option<&ContainerState> {
    let statuses = object.status.as_ref()?.container_statuses.as_deref()?;
    statuses.iter().find(|status| status.name == manifest::CONTAINER)?.state.as_ref()
}

/// The state of the main container. What the kubelet says of the image of a volume it says of the containers that mount it. A
/// ScavengerJob has no such volume: it was injected, and tells nothing of the ScavengerJob's own image.
pub(super) fn of_main(object: &ApiPod) -> Container {
    match seen(main(object)) {
        Container::Waiting(Some((_, message))) if is_about_a_volume(object, &message) => {
            Container::Waiting(None)
        }
        container => container,
    }
}

/// True if a message names the image of a volume, and not that of the main container.
fn is_about_a_volume(object: &ApiPod, message: &str) -> bool {
    let Some(spec) = &object.spec else { return false };
    let of_volumes = spec.volumes.iter().flatten().filter_map(|volume| volume.image.as_ref());
    let mut of_volumes = of_volumes.filter_map(|image| image.reference.as_deref());
    let main = spec.containers.iter().find(|container| container.name == manifest::CONTAINER);
    let main = main.and_then(|main| main.image.as_deref());
    of_volumes.any(|image| names(message, image)) && !main.is_some_and(|image| names(message, image))
}

/// True if a message names an image, be it with the registry and the tag that are meant where it has none.
fn names(message: &str, image: &str) -> bool {
    fn untagged(image: &str) -> &str {
        image.strip_suffix(":latest").unwrap_or(image)
    }
    let words = message.split(|char: char| char.is_whitespace() || matches!(char, '"' | '\'' | ','));
    let mut images = words.map(|word| untagged(word.trim_end_matches(':')));
    images.any(|named| {
        named.strip_suffix(untagged(image)).is_some_and(|before| before.is_empty() || before.ends_with('/'))
    })
}

/// True if containers were injected, beside the main one and that of the supervisor.
pub(super) fn has_injected(object: &ApiPod) -> bool {
    let Some(spec) = &object.spec else { return false };
    let mut before = spec.init_containers.iter().flatten();
    spec.containers.iter().any(|container| container.name != manifest::CONTAINER)
        || before.any(|container| container.name != supervisor::NAME)
}

/// What an init container said that failed: after it nothing of the pod is started. Neither the supervisor's counts, which is
/// looked at apart, nor one that runs beside the others until they have ended.
pub(super) fn failed_init(object: &ApiPod) -> Option<String> {
    let specs = object.spec.as_ref()?.init_containers.as_deref()?;
    let is_before_main = |name: &str| {
        let mut named = specs.iter().filter(|container| container.name == name);
        name != supervisor::NAME
            && named.all(|container| container.restart_policy.as_deref() != Some("Always"))
    };
    let statuses = object.status.as_ref()?.init_container_statuses.as_deref()?;
    let mut ended = statuses.iter().filter(|status| is_before_main(&status.name)).filter_map(|status| {
        let ended = status.state.as_ref()?.terminated.as_ref()?;
        (ended.exit_code != 0).then_some((&status.name, ended))
    });
    let (name, ended) = ended.next()?;
    let message = shortened(ended.message.as_deref().unwrap_or_default().trim(), MAX_MESSAGE);
    let colon = if message.is_empty() { "" } else { ": " };
    Some(format!("init container {name} exited with code {}{colon}{message}", ended.exit_code))
}

/// When a container of a pod was last killed for memory, be it running again or not. What ends because the pod was deleted
/// does not count, nor what ends well: with cgroup v1 the kernel says that memory ran out to every container below the limit
/// of the node's pods. The container runtime then gives each of them the reason OOMKilled when it ends, however long after.
pub(super) fn killed_for_memory(object: &ApiPod, deletion_requested: Option<Timestamp>) -> Option<Timestamp> {
    // The last version before a pod is removed says when that was, and not when it was asked for. A kill before that was
    // seen in earlier ones.
    if deletion_forced(object) {
        return None;
    }
    let status = object.status.as_ref()?;
    let statuses =
        [&status.container_statuses, &status.init_container_statuses].into_iter().flatten().flatten();
    let states = statuses.flat_map(|status| [&status.state, &status.last_state]).flatten();
    let killed = states.filter_map(|state| state.terminated.as_ref());
    let killed = killed.filter(|ended| ended.reason.as_deref() == Some("OOMKilled") && ended.exit_code != 0);
    let times = killed.filter_map(|ended| Some(ended.finished_at.as_ref()?.0));
    times.filter(|time| deletion_requested.is_none_or(|requested| *time < requested)).max()
}

/// When a container started. One that could not be started carries the zero time.
pub(super) fn started(state: &ContainerState) -> Option<Timestamp> {
    let running = state.running.as_ref().and_then(|running| running.started_at.as_ref());
    let ended = state.terminated.as_ref().and_then(|ended| ended.started_at.as_ref());
    running.or(ended).map(|time| time.0).filter(|time| *time > Timestamp::UNIX_EPOCH)
}

/// A container, by its state.
pub(super) fn seen(state: Option<&ContainerState>) -> Container {
    let Some(state) = state else { return Container::Waiting(None) };
    if let Some(ended) = &state.terminated {
        return Container::Ended {
            exit_code: ended.exit_code,
            reason: ended.reason.clone().unwrap_or_default(),
            message: shortened(
                supervision::parted(ended.message.as_deref().unwrap_or_default()).0,
                MAX_MESSAGE,
            ),
            time: ended.finished_at.as_ref().map(|time| time.0),
            started: started(state).is_some(),
        };
    }
    if state.running.is_some() {
        return Container::Running;
    }
    let waiting = state.waiting.as_ref();
    Container::Waiting(waiting.and_then(|waiting| {
        Some((
            waiting.reason.clone()?,
            shortened(waiting.message.as_deref().unwrap_or_default(), MAX_MESSAGE),
        ))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A pod whose main container waits with this message, and with a volume of this image that was injected.
    fn waiting(message: &str) -> ApiPod {
        serde_json::from_value(json!({
            "metadata": {},
            "spec": {
                "containers": [{ "name": "main", "image": "r.io/a:1" }, { "name": "network", "image": "r.io/b:1" }],
                "volumes": [{ "name": "image", "image": { "reference": "data/a" } }],
            },
            "status": { "containerStatuses": [
                one("state", &json!({ "waiting": { "reason": "ErrImagePull", "message": message } })),
            ] },
        }))
        .map(|mut pod: ApiPod| {
            pod.status.as_mut().unwrap().container_statuses.as_mut().unwrap()[0].name = "main".to_owned();
            pod
        })
        .unwrap()
    }

    /// As `EnsureImageExists` of the kubelet (1.37), containerd (2.3) and CRI-O (1.36) say it.
    #[test]
    fn the_image_of_an_injected_volume_says_nothing_of_the_main_container() {
        for (message, is_own) in [
            (r#"Back-off pulling image "data/a""#, false),
            (
                r#"failed to pull and unpack image "docker.io/data/a:latest": failed to resolve image: docker.io/data/a:latest: not found"#,
                false,
            ),
            (
                "initializing source docker://data/a:latest: reading manifest latest in docker.io/data/a: manifest unknown",
                false,
            ),
            ("image pull failed for data/a because the registry is unavailable", false),
            (r#"Back-off pulling image "r.io/a:1""#, true),
            ("initializing source docker://r.io/a:1: reading manifest 1 in r.io/a: manifest unknown", true),
            (r#"failed to pull and unpack image "r.io/data/abc:1""#, true),
            ("pull QPS exceeded", true),
        ] {
            let is_there = of_main(&waiting(message)) != Container::Waiting(None);
            assert_eq!(is_there, is_own, "{message}");
        }
    }

    #[test]
    fn what_is_neither_the_main_container_nor_the_supervisors_was_injected() {
        let of = |containers: &Value, before: &Value| {
            let spec = json!({ "containers": containers, "initContainers": before });
            has_injected(&serde_json::from_value(json!({ "metadata": {}, "spec": spec })).unwrap())
        };
        let named = |name: &str| json!([{ "name": name }]);
        assert!(!of(&named("main"), &named("scavenger-supervisor")));
        assert!(!of(&named("main"), &json!([])));
        assert!(of(&named("main"), &named("mesh")));
        assert!(of(&json!([{ "name": "mesh" }, { "name": "main" }]), &json!([])));
    }

    fn ended(reason: &str, exit_code: i32) -> Value {
        json!({ "terminated": { "reason": reason, "exitCode": exit_code, "finishedAt": "2026-01-01T00:01:00Z" } })
    }

    #[test]
    fn an_init_container_that_failed_is_named_unless_it_is_ours_or_runs_beside_main() {
        let failed = |name: &str, restart_policy: Option<&str>, exit_code: i32| {
            let ended = json!({ "terminated": { "exitCode": exit_code, "message": "no route\n" } });
            let mut status = one("state", &ended);
            status["name"] = name.into();
            failed_init(
                &serde_json::from_value(json!({
                    "metadata": {},
                    "spec": { "containers": [], "initContainers": [{ "name": name, "restartPolicy": restart_policy }] },
                    "status": { "phase": "Failed", "initContainerStatuses": [status] },
                }))
                .unwrap(),
            )
        };
        let said = "init container mesh exited with code 2: no route";
        assert_eq!(failed("mesh", None, 2).as_deref(), Some(said));
        assert_eq!(failed("mesh", None, 0), None);
        assert_eq!(failed("mesh", Some("Always"), 2), None, "it is a sidecar");
        assert_eq!(failed("scavenger-supervisor", None, 2), None, "it is looked at apart");
    }

    fn killed(statuses: &Value, deletion_requested: Option<&str>) -> bool {
        with_grace(30, statuses, deletion_requested)
    }

    fn with_grace(grace: i64, statuses: &Value, deletion_requested: Option<&str>) -> bool {
        let metadata = json!({
            "name": "web", "deletionGracePeriodSeconds": grace, "deletionTimestamp": deletion_requested,
        });
        let pod = serde_json::from_value(json!({ "metadata": metadata, "status": statuses })).unwrap();
        let requested = deletion_requested.map(|time| time.parse().unwrap());
        killed_for_memory(&pod, requested).is_some()
    }

    fn one(state: &str, container: &Value) -> Value {
        json!({ "name": "web", "image": "", "imageID": "", "ready": true, "restartCount": 1, state: container })
    }

    #[test]
    fn every_container_that_was_killed_for_memory_counts() {
        for kind in ["containerStatuses", "initContainerStatuses"] {
            for state in ["state", "lastState"] {
                let of = |container| json!({ kind: [one(state, &container)] });
                assert!(killed(&of(ended("OOMKilled", 137)), None), "{kind} {state}");
                assert!(!killed(&of(ended("Error", 137)), None), "{kind} {state}");
            }
        }
    }

    /// With cgroup v1 the reason may be of another container's kill.
    #[test]
    fn what_ends_well_or_was_deleted_was_not_killed() {
        let of = |exit_code| json!({ "containerStatuses": [one("state", &ended("OOMKilled", exit_code))] });
        assert!(!killed(&of(0), None));
        assert!(!killed(&of(137), Some("2026-01-01T00:00:58Z")));
        assert!(killed(&of(137), Some("2026-01-01T00:01:01Z")), "it was killed before");
        assert!(!with_grace(0, &of(137), Some("2026-01-01T00:01:01Z")), "the pod is being removed");
    }
}
