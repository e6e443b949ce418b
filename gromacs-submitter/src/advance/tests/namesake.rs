//! A row that has the number of another one, because the database was restored from a backup that does not know that one: what it
//! has left in the cluster is not this row's.

use scavenger_schema::scavenger_job::ScavengerJob;
use serde_json::{Value, json};

use super::*;
use crate::fixtures::{manifest_settings, namesake, terms};
use crate::manifest::{Probe, probe_job, simulation_job};

const PHASES: [Phase; 6] =
    [Phase::Waiting, Phase::Starting, Phase::Running, Phase::Interrupted, Phase::Completed, Phase::Failed];

/// A ScavengerJob of the row that the backup does not know, as the row with its number sees it.
fn left(mut made: ScavengerJob, phase: Phase) -> JobView {
    let attempt = json!({ "number": 1, "jobName": "x", "generation": 1, "podCount": 1, "requests": {}, "args": [],
        "priorityClassName": "p", "creationTime": "2026-11-21T10:00:00Z", "startTime": "2026-11-21T10:00:01Z",
        "endTime": "2026-11-21T11:00:00Z", "outcome": "Completed", "message": ANSWER });
    let failed = json!({ "type": "Failed", "status": "True", "reason": "Unknown", "message": "x",
        "lastTransitionTime": "2026-11-21T11:00:00Z" });
    let conditions: Vec<Value> = (phase == Phase::Failed).then_some(failed).into_iter().collect();
    let status = json!({ "phase": phase, "conditions": conditions, "startTimes": ["2026-11-21T10:00:01Z"], "attempts": [attempt] });
    made.status = Some(serde_json::from_value(status).expect("should be a status"));
    JobView::new(&made, &namesake(), &ladder())
}

/// All that a row can meet under the names that it would give its own.
fn beside(row: GromacsToTune, phase: Phase) -> Scene {
    let (settings, terms) = (manifest_settings(), terms());
    let probe = |probe| left(probe_job(&self::row(), probe, &settings, &terms), phase);
    let job = left(simulation_job(&self::row(), &ladder()[0], &settings, &terms), phase);
    let kind = if row.status.private.verifying { Probe::Verification } else { Probe::Inspection };
    Scene {
        probe: Some(probe(kind)),
        job: Some(job.clone()),
        previous: Some(job),
        previous_probe: Some(probe(Probe::Verification)),
        ..Scene::of(row).read(CONTINUED)
    }
}

fn in_state(state: State, submission: i32) -> GromacsToTune {
    let status = RowStatus { state, submission, ..submitted().status };
    let job_expiry_time = state.is_final().then(|| now().into());
    GromacsToTune { status: RowStatus { job_expiry_time, ..status }, ..namesake() }
}

fn leaves_alone(step: &Step) -> bool {
    matches!(step.action, Action::Record | Action::Settle | Action::AskTuner(_))
        && step.inspection.is_none()
        && step.attempts.is_empty()
        && step.observations.is_empty()
        && step.lost.is_empty()
}

#[test]
fn what_a_row_of_the_same_number_has_left_is_neither_read_nor_changed() {
    for phase in PHASES {
        for state in State::ALL {
            for (submission, cancel_requested) in [(1, false), (2, false), (2, true)] {
                let row = GromacsToTune { cancel_requested, ..in_state(state, submission) };
                let scene = beside(row.clone(), phase);
                let case =
                    format!("{state}, {phase:?}, submission {submission}, cancelled {cancel_requested}");
                let details = details(&row, &scene.seen(needs(&row, now())));
                assert!(details.log.is_none() && !details.job_log && !details.image, "{case}: {details:?}");
                let step = scene.step();
                assert!(leaves_alone(&step), "{case}: {step:?}");
                let is_in_its_way = |name: &str| {
                    reason(&step)
                        .starts_with(&format!("ScavengerJob {name} in namespace lab is in the way: "))
                        && reason(&step).ends_with("; delete it if nobody needs it, and retry")
                };
                let name = match state {
                    State::Inspecting => "gromacs-7-inspect".to_owned(),
                    _ => format!("gromacs-7-{submission}"),
                };
                match state {
                    _ if state.is_final() => assert_eq!(step.status.state, state, "{case}"),
                    _ if cancel_requested => assert_eq!(step.status.state, State::Cancelled, "{case}"),
                    State::Queued => assert_eq!(step.status.state, State::Inspecting, "{case}"),
                    State::Tuning => assert!(matches!(step.action, Action::AskTuner(_)), "{case}"),
                    _ => {
                        assert_eq!(step.status.state, State::Failed, "{case}");
                        assert!(is_in_its_way(&name), "{case}: {}", reason(&step));
                    }
                }
            }
        }
    }
}

/// Its own ScavengerJob has ended, and under the name of the probe that would read the checkpoint is another row's.
#[test]
fn what_reads_the_checkpoint_of_a_row_of_the_same_number_says_nothing_of_this_one() {
    for phase in PHASES {
        let mut row = in_state(State::Running, 1);
        row.status.private.verifying = true;
        let mut scene = beside(row, phase);
        scene.job = Some(completed_job());
        scene.log = Log::Gone;
        let step = scene.step();
        assert!(matches!(step.action, Action::Record), "{phase:?}: {step:?}");
        assert_eq!(step.status.state, State::Failed, "{phase:?}");
        assert!(
            reason(&step).starts_with("ScavengerJob gromacs-7-1-verify in namespace lab is in the way: ")
        );
    }
}
