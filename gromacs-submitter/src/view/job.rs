//! A ScavengerJob as far as a row needs it.

use jiff::Timestamp;
use kube::ResourceExt;
use scavenger_schema::scavenger_job::{Attempt, ScavengerJob, ScavengerJobStatus};
use scavenger_schema::simulation::{GromacsToTune, LadderRung};
use scavenger_vocabulary::{Outcome, Phase, Reason, WaitingReason, condition};

use super::node::{NodeView, gpu_requests};
use crate::manifest::{Configurations, is_of_row};
use crate::suspension;
use crate::text::without_nul;

/// A ScavengerJob as far as a row needs it.
#[derive(Debug, Clone, PartialEq)]
pub struct JobView {
    /// UID.
    pub uid: String,
    /// Version that a replacement must name.
    pub resource_version: String,
    /// True if it was made for this row, and not for another one that had its number.
    pub ours: bool,
    /// True while it is being deleted.
    pub deleting: bool,
    /// Where it is; Waiting until the operator has said anything.
    pub phase: Phase,
    /// True if the status speaks of the spec that is there now, not of the one before.
    pub judged: bool,
    /// Why it waits; none also for a reason that is not known here.
    pub waiting_reason: Option<WaitingReason>,
    /// Why it failed.
    pub failure_reason: Option<Reason>,
    /// The operator's sentence, and when it expects the start of what waits.
    pub message: Option<String>,
    /// True if that ends with such a forecast.
    pub has_forecast: bool,
    /// The configuration that its spec asks for.
    pub rung: Option<i32>,
    /// When the submitter last gave it another configuration.
    pub change_time: Option<Timestamp>,
    /// True if it ever ran.
    pub has_run: bool,
    /// True if its spec says that it shall not run.
    pub suspended: bool,
    /// True if the submitter has suspended it, to go on with another configuration.
    pub suspended_to_grow: bool,
    /// Since when it waits, for whatever reason; none while an attempt is active.
    pub waiting_since: Option<Timestamp>,
    /// When it ended.
    pub finish_time: Option<Timestamp>,
    /// Its attempts in ascending order, the active one included.
    pub attempts: Vec<AttemptView>,
}

/// One attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptView {
    /// Number, counted from 1.
    pub number: i32,
    /// Configuration it runs with; none if it is none of the ladder's.
    pub rung: Option<i32>,
    /// True if the ScavengerJob was given a configuration after this attempt was decided, also the same one again.
    pub is_superseded: bool,
    /// CPU, millicores.
    pub cpu_millicores: Option<i32>,
    /// Memory, bytes.
    pub memory_bytes: Option<i64>,
    /// GPUs.
    pub gpus: Option<i32>,
    /// Where it ran, if the operator says so, and if that is one kind of node.
    pub node: Option<NodeView>,
    /// Arguments.
    pub args: Vec<String>,
    /// When it was decided.
    pub creation_time: Timestamp,
    /// When it ran.
    pub start_time: Option<Timestamp>,
    /// When it ended.
    pub end_time: Option<Timestamp>,
    /// How.
    pub outcome: Option<Outcome>,
    /// Why.
    pub reason: Option<Reason>,
    /// Why, one sentence, with the container's last words.
    pub message: Option<String>,
    /// Seconds that it ran after its last checkpoint, if its supervisor measured that.
    pub lost_seconds: Option<i64>,
}

impl JobView {
    /// Reads a ScavengerJob with the name of one of `row`.
    #[must_use]
    pub fn new(job: &ScavengerJob, row: &GromacsToTune, ladder: &[LadderRung]) -> Self {
        let status = job.status.clone().unwrap_or_default();
        let configurations = Configurations::of(job);
        let generation = job.metadata.generation.unwrap_or(1);
        let reason_of = |kind: &str, value: &str| {
            status
                .conditions
                .iter()
                .find(|found| found.type_ == kind && found.status == value)
                .map(|found| found.reason.as_str())
        };
        let mut attempts: Vec<AttemptView> = status
            .attempts
            .iter()
            .chain(status.attempt.as_ref())
            .map(|attempt| AttemptView::new(attempt, &configurations, ladder))
            .collect();
        // The last attempt may stand in both places; the later one, the active, is dropped.
        attempts.sort_by_key(|attempt| (attempt.number, attempt.outcome.is_none()));
        attempts.dedup_by_key(|attempt| attempt.number);
        Self {
            uid: job.uid().unwrap_or_default(),
            resource_version: job.resource_version().unwrap_or_default(),
            ours: is_of_row(job.labels(), row),
            deleting: job.metadata.deletion_timestamp.is_some(),
            phase: status.phase.unwrap_or(Phase::Waiting),
            judged: status.observed_generation.is_some()
                && status.observed_generation == job.metadata.generation,
            waiting_reason: reason_of(condition::ADMITTED, "False").and_then(WaitingReason::from_name),
            failure_reason: reason_of(condition::FAILED, "True").map(Reason::from_name),
            message: said(foreseen(&status)),
            has_forecast: status.expected_start.is_some(),
            rung: configurations.rung(generation, ladder, &job.spec.resources.requests),
            change_time: configurations.change_time(job),
            has_run: status.interrupted_count > 0 || !status.start_times.is_empty(),
            suspended: job.spec.suspend,
            suspended_to_grow: suspension::is_ours(job),
            waiting_since: status
                .conditions
                .iter()
                .find(|found| found.type_ == condition::ADMITTED && found.status == "False")
                .map(|found| found.last_transition_time.0),
            finish_time: status.finish_time.as_ref().map(|time| time.0),
            attempts,
        }
    }

    /// The last attempt.
    #[must_use]
    pub fn last_attempt(&self) -> Option<&AttemptView> {
        self.attempts.last()
    }

    /// True if an attempt after the number `recorded` has ended.
    #[must_use]
    pub fn has_ended_since(&self, recorded: i32) -> bool {
        self.attempts.iter().any(|attempt| attempt.number > recorded && attempt.outcome.is_some())
    }
}

impl AttemptView {
    fn new(attempt: &Attempt, configurations: &Configurations, ladder: &[LadderRung]) -> Self {
        let request = |name: &str| attempt.requests.get(name);
        Self {
            number: i32::try_from(attempt.number).unwrap_or(i32::MAX),
            rung: configurations.rung(attempt.generation, ladder, &attempt.requests),
            is_superseded: configurations.have_changed_since(attempt.generation),
            cpu_millicores: request("cpu").and_then(|cpu| cpu.milli().ok()?.try_into().ok()),
            memory_bytes: request("memory").and_then(|memory| memory.units().ok()),
            gpus: gpu_requests(&attempt.requests).map(|(_, count)| count).sum(),
            node: NodeView::new(&attempt.nodes, &attempt.requests),
            args: attempt.args.clone(),
            creation_time: attempt.creation_time.0,
            start_time: attempt.start_time.as_ref().map(|time| time.0),
            end_time: attempt.end_time.as_ref().map(|time| time.0),
            outcome: attempt.outcome,
            reason: attempt.reason.clone(),
            message: said(attempt.message.clone()),
            lost_seconds: attempt.lost_seconds,
        }
    }
}

/// The operator's message, and when it expects the start of what waits.
fn foreseen(status: &ScavengerJobStatus) -> Option<String> {
    let message = status.message.clone();
    let Some(expected) = &status.expected_start else { return message };
    let between = format!("it is expected to start {}", expected.between());
    Some(
        message
            .filter(|message| !message.is_empty())
            .map_or(between.clone(), |said| format!("{said}; {between}")),
    )
}

/// A message, if it says anything, as Postgres can hold it.
fn said(message: Option<String>) -> Option<String> {
    message.map(without_nul).filter(|message| !message.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::{ladder, manifest_settings, row, terms};
    use crate::manifest::simulation_job;

    /// What another release of the submitter made, with a flag that this one does not know.
    #[test]
    fn attempts_are_recognised_whatever_their_arguments() {
        let (row, ladder) = (row(), ladder());
        let mut job = simulation_job(&row, &ladder[1], &manifest_settings(), &terms());
        job.spec.args.push("-new-flag".to_owned());
        job.metadata.generation = Some(2);
        let attempt = |number: i64, generation: i64, rung: usize| {
            let of_rung = simulation_job(&row, &ladder[rung], &manifest_settings(), &terms());
            json!({ "number": number, "jobName": "x", "generation": generation, "podCount": 1,
                "requests": of_rung.spec.resources.requests, "args": ["-old-flag"], "priorityClassName": "p",
                "creationTime": "2026-11-21T10:00:00Z" })
        };
        let mut status =
            json!({ "phase": "Running", "attempts": [attempt(1, 1, 0)], "attempt": attempt(2, 2, 1) });
        status["attempts"][0]["outcome"] = "Interrupted".into();
        job.status = Some(serde_json::from_value(status).expect("should be a status"));
        let numbers = Configurations::new(1).and(2, 2).text();
        job.metadata
            .annotations
            .get_or_insert_default()
            .insert(scavenger_schema::simulation::ANNOTATION_CONFIGURATIONS.to_owned(), numbers);
        let view = JobView::new(&job, &row, &ladder);
        assert_eq!(view.rung, Some(2));
        assert_eq!(view.attempts.iter().map(|attempt| attempt.rung).collect::<Vec<_>>(), [Some(1), Some(2)]);
        let superseded: Vec<bool> = view.attempts.iter().map(|attempt| attempt.is_superseded).collect();
        assert_eq!(superseded, [true, false]);
    }

    #[test]
    fn a_row_says_when_its_job_is_expected_to_start() {
        let said = |status: serde_json::Value| {
            let (row, ladder) = (row(), ladder());
            let mut job = simulation_job(&row, &ladder[0], &manifest_settings(), &terms());
            job.status = Some(serde_json::from_value(status).expect("should be a status"));
            JobView::new(&job, &row, &ladder).message
        };
        let expected = json!({ "earliest": "2026-11-28T14:10:00Z", "latest": "2026-11-28T16:40:00Z",
            "forecastTime": "2026-11-28T13:00:00Z" });
        assert_eq!(
            said(json!({ "phase": "Waiting", "message": "needs 4 cpu", "expectedStart": expected }))
                .as_deref(),
            Some("needs 4 cpu; it is expected to start between 2026-11-28 14:10 and 16:40 UTC")
        );
        assert_eq!(
            said(json!({ "phase": "Waiting", "message": "needs 4 cpu" })).as_deref(),
            Some("needs 4 cpu")
        );
    }

    #[test]
    fn the_api_server_says_since_when_it_has_another_configuration() {
        let view = |configurations: &Configurations| {
            let (row, ladder) = (row(), ladder());
            let mut job = simulation_job(&row, &ladder[0], &manifest_settings(), &terms());
            let annotations = job.metadata.annotations.get_or_insert_default();
            annotations.insert(
                scavenger_schema::simulation::ANNOTATION_CONFIGURATIONS.to_owned(),
                configurations.text(),
            );
            let wrote = |manager: &str, time: &str| json!({ "manager": manager, "time": time });
            let own = "gromacs-submitter";
            let entries = [
                wrote(own, "2026-11-21T10:00:00Z"),
                wrote(own, "2026-11-21T11:00:00Z"),
                wrote("kubectl-edit", "2026-11-21T12:00:00Z"),
            ];
            job.metadata.managed_fields = Some(
                entries.map(|entry| serde_json::from_value(entry).expect("should be an entry")).to_vec(),
            );
            JobView::new(&job, &row, &ladder).change_time
        };
        let first = Configurations::new(1);
        assert_eq!(view(&first), None, "it was made with it");
        let changed = "2026-11-21T11:00:00Z".parse().expect("should be a time");
        assert_eq!(view(&first.and(2, 2)), Some(changed));
    }
}
