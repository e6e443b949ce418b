//! States of containers.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerState, Pod as ApiPod};
use scavenger_planner::values::Container;

use super::{convert::shortened, supervision};
use crate::manifest;

/// Longest termination message that goes on into a status, in bytes.
const MAX_MESSAGE: usize = 1024;

/// The container that runs the workload. The kubelet sorts statuses by name, and a sidecar that was injected may come
/// first.
pub(super) fn main(object: &ApiPod) -> Option<&ContainerState> {
    let statuses = object.status.as_ref()?.container_statuses.as_deref()?;
    statuses.iter().find(|status| status.name == manifest::CONTAINER)?.state.as_ref()
}

/// When a container of a pod was last killed for memory, be it running again or not.
pub(super) fn killed_for_memory(object: &ApiPod) -> Option<Timestamp> {
    let statuses = object.status.as_ref()?.container_statuses.as_deref()?;
    let states = statuses.iter().flat_map(|status| [&status.state, &status.last_state]).flatten();
    let killed = states.filter_map(|state| state.terminated.as_ref());
    let killed = killed.filter(|ended| ended.reason.as_deref() == Some("OOMKilled"));
    killed.filter_map(|ended| Some(ended.finished_at.as_ref()?.0)).max()
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
