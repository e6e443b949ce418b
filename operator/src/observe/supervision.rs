//! What the supervisor of a pod leaves in the pod's status.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, Pod as ApiPod};
use scavenger_planner::values::{Container, Cpu, CpuTime, EndReport};
use scavenger_schema::{
    supervision::{self, EndMessage},
    supervisor,
};

use super::container;

/// SIGKILL, as an exit code.
const KILLED: i32 = 137;

/// The init container that brings the supervisor; none if the pod runs without one.
pub(super) fn bringer(object: &ApiPod) -> Option<Box<Container>> {
    let containers = object.spec.as_ref()?.init_containers.as_deref()?;
    containers.iter().find(|container| container.name == supervisor::NAME)?;
    let statuses = object
        .status
        .as_ref()
        .and_then(|status| status.init_container_statuses.as_deref())
        .unwrap_or_default();
    let state = statuses.iter().find(|status| status.name == supervisor::NAME);
    Some(Box::new(container::seen(state.and_then(|status| status.state.as_ref()))))
}

/// The workload's own message, and what the supervisor left in the last line of the termination message.
pub(super) fn parted(message: &str) -> (&str, Option<supervision::EndReport>) {
    let message = message.trim();
    let (own, last) = message.rsplit_once('\n').unwrap_or(("", message));
    match serde_json::from_str::<EndMessage>(last) {
        Ok(left) => (own.trim(), Some(left.scavenger_supervisor)),
        Err(_) => (message, None),
    }
}

/// What the supervisor left when the workload had ended, in the planner's terms.
pub(super) fn end_report(state: Option<&ContainerState>) -> Option<EndReport> {
    let ended = state?.terminated.as_ref()?;
    let left = parted(ended.message.as_deref()?).1?;
    let progress = left.progress.filter(|progress| (0.0..=1.0).contains(progress));
    let checkpoint = left.checkpoint.and_then(|checkpoint| written(&checkpoint, ended));
    Some(EndReport { checkpoint, progress, cpu: left.cpu.and_then(cpu), stop: left.stop })
}

/// What is believed of processor time: nothing of what is no time.
pub(crate) fn cpu(said: supervision::Cpu) -> Option<Cpu> {
    let time = |seconds: f64| SignedDuration::try_from_secs_f64(seconds.max(0.0)).ok();
    let both = |said: supervision::CpuTime| {
        Some(CpuTime { run: time(said.run_seconds)?, wait: time(said.wait_seconds)? })
    };
    Some(Cpu { total: both(said.total)?, since_checkpoint: both(said.since_checkpoint)? })
}

/// When the checkpoint was written: its age before the container's end, which a clock that jumped does not move. A container
/// that was killed may have left its message a whole grace period before its end; then the earlier of the two counts.
fn written(checkpoint: &supervision::Checkpoint, ended: &ContainerStateTerminated) -> Option<Timestamp> {
    let Some(end) = ended.finished_at.as_ref().map(|time| time.0) else { return Some(checkpoint.time) };
    let age = SignedDuration::try_from_secs_f64(checkpoint.age_seconds).ok()?.max(SignedDuration::ZERO);
    let by_age = end.saturating_sub(age).unwrap_or(Timestamp::MIN);
    let written = if ended.exit_code == KILLED { by_age.min(checkpoint.time) } else { by_age };
    let start = ended.started_at.as_ref().map_or(Timestamp::MIN, |time| time.0);
    Some(written.max(start).min(end))
}

#[cfg(test)]
mod tests {
    use scavenger_schema::supervision::Stop;
    use serde_json::json;

    use super::*;

    fn ended(message: &str, exit_code: i32) -> ContainerState {
        serde_json::from_value(json!({ "terminated": {
            "exitCode": exit_code, "reason": "Error", "message": message,
            "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:10:00Z",
        } }))
        .unwrap()
    }

    fn checkpoint(time: &str, age: f64, exit_code: i32) -> String {
        let message = json!({ "scavengerSupervisor": {
            "checkpoint": { "time": time, "ageSeconds": age, "seen": 2 }, "stop": "Answered", "progress": 0.5 } });
        let report = end_report(Some(&ended(&message.to_string(), exit_code))).unwrap();
        assert_eq!((report.stop, report.progress), (Stop::Answered, Some(0.5)));
        report.checkpoint.unwrap().to_string()
    }

    #[test]
    fn the_age_counts_and_what_it_says_stays_within_the_life_of_the_container() {
        assert_eq!(checkpoint("2020-01-01T00:00:00Z", 30.0, 143), "2026-01-01T00:09:30Z", "a clock jumped");
        assert_eq!(
            checkpoint("2026-01-01T00:09:00Z", 5.0, 137),
            "2026-01-01T00:09:00Z",
            "it was killed later"
        );
        assert_eq!(checkpoint("2026-01-01T00:09:00Z", 86_400.0, 0), "2026-01-01T00:00:00Z");
        assert_eq!(checkpoint("2026-01-01T00:09:00Z", -9.0, 0), "2026-01-01T00:10:00Z");
    }

    #[test]
    fn the_last_line_is_the_supervisors_and_the_rest_the_workloads() {
        let line = r#"{"scavengerSupervisor":{"stop":"Unknown"}}"#;
        let both = format!("step 5\nstep 6\n{line}   \n");
        let (own, left) = parted(&both);
        assert_eq!((own, left.unwrap().stop), ("step 5\nstep 6", Stop::Unknown));
        assert_eq!(parted(line).0, "");
        let and_more = format!("{line}\nand more");
        for other in ["step 5\nstep 6", "", "{}", &and_more] {
            assert_eq!(parted(other), (other, None));
        }
        assert_eq!(end_report(Some(&ended("step 5", 1))), None);
    }

    #[test]
    fn an_age_that_is_no_number_tells_nothing() {
        let of = |age: f64| {
            let time = "2026-01-01T00:09:00Z".parse().unwrap();
            let ended = ended("", 0).terminated.unwrap();
            written(&supervision::Checkpoint { time, age_seconds: age, seen: 1 }, &ended)
        };
        assert_eq!((of(f64::NAN), of(f64::INFINITY)), (None, None));
        assert!(of(1e15).is_some());
    }
}
