//! mdrun ends on its own before the last step, as it does after `-maxh`, or in a build that stops when what it waits for has
//! happened. A next submission goes on from the checkpoint, as long as each computes for a while.

use scavenger_schema::simulation::{Kind, RowStatus};

use super::attempt::{AttemptRecord, measurement, peak_of_last};
use super::checkpoint::has_checkpoints;
use super::clock::seconds_between;
use super::ladder::hours;
use super::next::{fail, next_submission, with_history};
use super::seen::{Earlier, Input};
use super::step::{Step, record};
use super::words::{before_greeting, said};
use crate::mdrun_log::{last_lines, last_words};
use crate::view::{AttemptView, JobView};

/// So many ends in a row, each before a checkpoint was due, are no accident.
pub(crate) const MOST_SHORT_ENDS: i64 = 3;

/// Exit code 0 before the last step.
pub(super) fn stopped_short(status: &RowStatus, step: i64, input: &Input<'_>, job: &JobView) -> Step {
    let row = input.row;
    let end = row.system.last_step().unwrap_or(0);
    let facts = input.log().facts();
    let first_step = facts.and_then(|facts| facts.first_step).or(status.first_step);
    let log_end = last_lines(input.log().text());
    let log_end = log_end.unwrap_or_else(|| format!("its log is gone; its checkpoint is at step {step}"));
    let attempts = job
        .last_attempt()
        .map(|attempt| AttemptRecord {
            first_step,
            last_step: Some(step),
            measured: facts.and_then(|facts| measurement(row, facts, first_step, step)),
            peak_memory_bytes: peak_of_last(status, Some(attempt)),
            log_end: Some(log_end),
            ..AttemptRecord::of(attempt)
        })
        .into_iter()
        .collect();
    if first_step.is_some_and(|first| step <= first) {
        let reason = format!("mdrun ends at step {step} of {end} without an error and gets no further");
        return Step { attempts, ..fail(input, reason) };
    }
    let begins_again = !has_checkpoints(row);
    if begins_again && input.seen.earlier.first().is_some_and(|earlier| earlier.is_short) {
        // It has no checkpoint, so it would begin again forever.
        let what = if row.kind == Kind::Calibration { "the benchmark" } else { "the minimisation" };
        let reason = format!(
            "{what} ended at step {step} of {end} without an error, again; set retry_requested to run it once more"
        );
        return Step { attempts, ..fail(input, reason) };
    }
    if !begins_again && ends_in_a_row(input, job) >= MOST_SHORT_ENDS {
        let reason = format!(
            "mdrun ended without an error at step {step} of {end}, {MOST_SHORT_ENDS} times in a row before it had computed for {} \
             (interruption_after_seconds){}",
            hours(interval_seconds(input)),
            what_it_said_and_what_to_do(input)
        );
        return Step { attempts, ..fail(input, reason) };
    }
    let goes_on = if begins_again { "begins again" } else { "goes on from its checkpoint" };
    let reason = format!("mdrun ended at step {step} of {end} without an error; {goes_on}");
    let next = next_submission(row, reason);
    let status = RowStatus { step: Some(step), ..with_history(next, status) };
    Step { attempts, ..record(status) }
}

/// How many submissions, this one included, mdrun has ended so one after the other. One that ran for longer has written its
/// checkpoint and comes to its end, however often mdrun ends.
fn ends_in_a_row(input: &Input<'_>, job: &JobView) -> i64 {
    let ran = |attempt: &AttemptView| Some(seconds_between(attempt.start_time?, attempt.end_time?));
    let interval = interval_seconds(input);
    if job.attempts.iter().filter_map(ran).sum::<f64>() >= interval {
        return 0;
    }
    let is_alike = |earlier: &&Earlier| earlier.is_short && earlier.seconds < interval;
    input.seen.earlier.iter().take_while(is_alike).fold(1, |ends, _| ends + 1)
}

fn interval_seconds(input: &Input<'_>) -> f64 {
    f64::from(input.row.interruption_after_seconds)
}

/// Why a row fails whose mdrun came to an end of its own, with its times and speed, with another exit code than 0 and without a
/// word of what is wrong: none if it did not.
pub(super) fn ended_on_its_own(status: &RowStatus, input: &Input<'_>, job: &JobView) -> Option<String> {
    let facts = input.log().facts().filter(|facts| facts.ns_per_day.is_some())?;
    let step = facts.last_step.or(status.step)?;
    let end = input.row.system.last_step()?;
    Some(format!(
        "mdrun ended at step {step} of {end} and names no error: {}{}",
        before_greeting(&said(job)),
        what_it_said_and_what_to_do(input)
    ))
}

/// What was computed may be all that is wanted, which nobody but the user knows: a row that is completed would let the rows after
/// it begin, without the last coordinates, which mdrun writes at the last step alone.
fn what_it_said_and_what_to_do(input: &Input<'_>) -> String {
    let words = last_words(input.log().text()).filter(|_| !input.row.is_multidir());
    let said = words.map(|words| format!("; its last words: {words}")).unwrap_or_default();
    let row = input.row.id;
    format!(
        "{said}; if that is all that is wanted, take it (gromacs-submitter fetch {row}); else change what ends it, and retry"
    )
}
