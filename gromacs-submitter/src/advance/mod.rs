//! What happens next to a row: a pure function of the row, what is seen of its ScavengerJobs, the pool, the settings
//! and the time. Each rule stands in one place, those of a state and those that several states share:
//!
//! | question | file | function |
//! |---|---|---|
//! | What does a queued row wait for? | `queued.rs` | `queued` |
//! | What does the reading of its file say? | `inspecting.rs` | `inspecting` |
//! | When is the tuner asked for configurations? | `tuning.rs` | `tuning` |
//! | What happens while it is submitted, runs, or was interrupted? | `follow.rs` | `follow` |
//! | What happens to a row that has ended? | `finished.rs` | `finished` |
//! | What does it do while its ScavengerJob waits? | `waiting.rs` | `wait_for_room` |
//! | When does it stop to go on with more? | `growth.rs` | `intend` |
//! | When is the tuner asked again? | `renewal.rs` | `due` |
//! | What does a complete ScavengerJob mean? | `ending.rs` | `completed` |
//! | What does a failed ScavengerJob mean, and whose fault was it? | `failing.rs` | `failed` |
//! | What do the words mean with which GROMACS ends? | `../faults/mod.rs` | `of_gromacs` |
//! | On which kinds of nodes can it not run? | `elsewhere.rs` | `other_kind` |
//! | When is tried again what goes by? | `tries.rs` | `again_later` |
//! | What follows if mdrun ends before the last step? | `short.rs` | `stopped_short` |
//! | Which configurations does it try? | `ladder.rs` | `with_ladder` |
//! | Which configuration does it go on with? | `chooser.rs` | `choose` |
//! | Which configurations do several simulations have? | `together.rs` | `together` |
//! | What do ranks take that are processes? | `together.rs` | `in_processes` |
//! | Which step has its checkpoint reached? | `checkpoint.rs` | `saved_step` |
//! | Has it lost its checkpoint? | `checkpoint.rs` | `lost` |
//! | Will it miss its deadline? | `deadline.rs` | `late_seconds` |
//! | Does it wait for something that others do not wait for? | `blocked.rs` | `is_blocked` |
//! | What does the tuner learn of an attempt? | `observation.rs` | `of_attempt` |
//! | What did the restart of an attempt cost? | `restart.rs` | `measured` |
//! | What is a restart taken to cost? | `../manifest/checkpoint.rs` | `restart_seconds` |
//! | What is different about a calibration? | `calibration.rs` | `tune` |
//! | What becomes of it if a step can be done later? | `not_done.rs` | `with_backoff` |
//! | What becomes of it if a step can never be done? | `not_done.rs` | `with_failure` |
//!
//! A step either writes to Kubernetes or to the database, never both. What a write to Kubernetes brought about is
//! recorded when the next step sees it, so a step that is repeated after a crash finds what it made and goes on.

mod attempt;
mod blocked;
mod calibration;
mod checkpoint;
mod chooser;
mod clock;
mod deadline;
mod elsewhere;
mod ending;
mod failing;
mod finished;
mod follow;
mod growth;
mod inspecting;
mod ladder;
mod next;
mod not_done;
mod observation;
mod probed;
mod queued;
mod refused;
mod renewal;
mod restart;
mod seen;
mod short;
mod step;
#[cfg(test)]
mod tests;
mod together;
mod tries;
mod tuning;
mod waiting;
mod words;

use std::time::Duration;

use jiff::Timestamp;
use scavenger_schema::simulation::{GromacsToTune, State};

pub use attempt::{AttemptRecord, Measurement};
use clock::later;
pub use elsewhere::{bound_to, count_gpus, other_kind, with_label};
pub use follow::take_progress;
pub(crate) use ladder::hours;
pub use ladder::{Kill, NoConfiguration, beside_ordinary_pods, with_ladder};
pub use not_done::{backoff, with_backoff, with_failure, with_refusal, without_growth};
pub use observation::{Observation, Place};
pub use refused::{Refusal, on_one_rank, without_refused};
pub use renewal::{renewed, was_asked};
pub use seen::{Details, Earlier, Input, Log, LogToRead, Needs, Seen, Settings};
pub(crate) use short::MOST_SHORT_ENDS;
pub use step::{Action, Refused, Step};
pub use together::{Share, in_processes, share, together};

/// How long after its end a cancelled row is looked at once more: a submitter that stood still while another one
/// cancelled the row may have made a ScavengerJob since. No request to Kubernetes takes as long.
const SWEEP_DELAY: Duration = Duration::from_secs(600);

/// The rules of a state, which stand in a file of its own.
struct Rules {
    /// What is read first.
    needs: fn(&GromacsToTune, Timestamp) -> Needs,
    /// What is read then.
    details: fn(&GromacsToTune, &Seen) -> Details,
    /// What happens next.
    next: fn(&Input<'_>) -> Step,
}

fn rules_of(state: State) -> Rules {
    let nothing_more = |_: &GromacsToTune, _: &Seen| Details::default();
    match state {
        State::Queued => Rules { needs: queued::needs, details: nothing_more, next: queued::queued },
        State::Inspecting => {
            Rules { needs: inspecting::needs, details: inspecting::details, next: inspecting::inspecting }
        }
        State::Tuning => Rules { needs: tuning::needs, details: tuning::details, next: tuning::tuning },
        State::Submitted | State::Running | State::Interrupted => {
            Rules { needs: follow::needs, details: follow::details, next: follow::follow }
        }
        State::Completed | State::Failed | State::Cancelled => {
            Rules { needs: finished::needs, details: nothing_more, next: finished::finished }
        }
    }
}

/// What is read first for a row: what its state is about, and nothing else.
#[must_use]
pub fn needs(row: &GromacsToTune, now: Timestamp) -> Needs {
    (rules_of(row.status.state).needs)(row, now)
}

/// What is read then, given the configurations and the ScavengerJobs in `seen`.
#[must_use]
pub fn details(row: &GromacsToTune, seen: &Seen) -> Details {
    (rules_of(row.status.state).details)(row, seen)
}

/// Decides the next step of a row.
#[must_use]
pub fn advance(input: &Input<'_>) -> Step {
    let state = input.row.status.state;
    let mut step = (rules_of(state).next)(input);
    if state.is_final() {
        return step;
    }
    step.observations =
        step.attempts.iter().filter_map(|attempt| observation::of_attempt(attempt, input)).collect();
    step.status.blocked = blocked::is_blocked(&step.status, input);
    step.status.late_seconds = deadline::late_seconds(&step.status, input);
    let keeps = match step.status.state {
        State::Completed | State::Failed => input.settings.keep_jobs,
        State::Cancelled => SWEEP_DELAY,
        _ => return step,
    };
    step.status.job_expiry_time = Some(later(input.now, keeps).into());
    step
}
