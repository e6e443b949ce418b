//! A ScavengerJob that failed: whose fault it was, and what the row does about it. A row ends only for its own fault.

use scavenger_schema::simulation::{Kind, LadderRung, PrivateState, RowStatus, State};
use scavenger_vocabulary::Reason;

use super::attempt::{AttemptRecord, peak_of_last};
use super::clock::{finish_time, seconds_between};
use super::elsewhere::{count, other_kind};
use super::next::{next_submission, with_history};
use super::seen::Input;
use super::short::ended_on_its_own;
use super::step::{Refused, Step, record};
use super::tries::{again_later, too_often, tried_often, well_after_seconds};
use super::words::{before_greeting, last_line, said};
use crate::faults::configuration::uses_gpu;
use crate::faults::{End, Failure, Fault, Meaning, is_no_nodes_fault, is_plainest, of_kubelet, remedy};
use crate::manifest::appends;
use crate::mdrun_log::{last_lines, last_words};
use crate::multidir::failed_simulation;
use crate::view::{AttemptView, JobView};

pub(super) fn failed(status: RowStatus, input: &Input<'_>, job: &JobView) -> Step {
    let attempt = job.last_attempt();
    let facts = input.log().facts();
    let first_step = facts.and_then(|facts| facts.first_step).or(status.first_step);
    let last_step = facts.and_then(|facts| facts.last_step);
    let record_of = |attempt: &AttemptView, peak_memory_bytes: Option<i64>| AttemptRecord {
        first_step,
        last_step,
        peak_memory_bytes,
        log_end: last_lines(input.log().text()),
        ..AttemptRecord::of(attempt)
    };
    if job.failure_reason == Some(Reason::OOMKilled)
        && let Some((attempt, limit)) = attempt.and_then(|attempt| Some((attempt, attempt.memory_bytes?)))
    {
        // It used all that it had; what it would have used, nobody saw.
        let attempts = vec![record_of(attempt, Some(limit))];
        let next = match input.row.kind {
            Kind::Command => end_of(status, killed_for_memory(limit, input), input, job),
            _ => with_more_memory(&status, limit, last_step, input),
        };
        return Step { attempts, ..record(next) };
    }
    let attempts =
        attempt.map(|attempt| record_of(attempt, peak_of_last(&status, Some(attempt)))).into_iter().collect();
    let step = if job.failure_reason == Some(Reason::ContainerFailed) && input.row.kind == Kind::Command {
        record(end_of(status, words_of_command(input, job), input, job))
    } else if job.failure_reason == Some(Reason::ContainerFailed) {
        // What was seen of it while it ran counts, too: its log may have lost its beginning.
        let made_a_step = last_step.is_some_and(|last| first_step.is_none_or(|first| last > first))
            || (status.first_step.is_some() && status.step > status.first_step);
        mdrun_failed(status, made_a_step, input, job)
    } else {
        did_not_run(status, input, job)
    };
    Step { attempts, ..step }
}

/// The ScavengerJob failed, and not because of what mdrun did.
fn did_not_run(status: RowStatus, input: &Input<'_>, job: &JobView) -> Step {
    let (row, said) = (input.row, said(job));
    let has_run = status.start_time.is_some();
    let meaning = of_kubelet(&said);
    let may_pass = match job.failure_reason {
        // The program may be misspelt, and one that has run may be another one by now.
        Some(Reason::ContainerNotCreated) if row.kind == Kind::Command => meaning != Meaning::Unknown,
        // The inspection has run in the image: it is not misspelt.
        Some(Reason::ContainerNotCreated) => has_run || row.pinned_image.is_some(),
        Some(Reason::ReferenceMissing | Reason::Refused) => has_run,
        Some(Reason::Unknown) => true,
        _ => false,
    };
    if row.kind == Kind::Calibration || !may_pass {
        return record(end_of(status, with_remedy(&said, meaning, false, input), input, job));
    }
    // Registries remove what no tag names any more. The tag says what has taken its place.
    let is_pinned = row
        .pinned_image
        .as_ref()
        .is_some_and(|image| image.contains('@') && Some(image) != row.image.as_ref());
    let forgets_image = meaning == Meaning::NoImage && is_pinned;
    let what = match (&row.pinned_image, forgets_image) {
        (Some(image), true) => {
            format!("image {image} is gone from its registry; goes on with what its tag names now")
        }
        _ => said.clone(),
    };
    match again_later(&status, &what, input) {
        Some(step) => Step { forgets_image, ..step },
        None => record(end_of(status, too_often(&said, meaning, row), input, job)),
    }
}

/// Why a command failed: its last line, behind the operator's sentence, which has the exit code. Nobody knows what a command means
/// by it, so it is not tried again.
fn words_of_command(input: &Input<'_>, job: &JobView) -> String {
    let said = said(job);
    let (log, said) = (input.log().text(), said.lines().next().unwrap_or_default());
    match last_line(log).filter(|line| !said.contains(line)) {
        Some(line) => format!("{said}: {line}"),
        None => said.to_owned(),
    }
}

fn killed_for_memory(limit: i64, input: &Input<'_>) -> String {
    let (mebibytes, id) = (limit >> 20, input.row.id);
    format!(
        "the command was killed for using more than its {mebibytes} MiB of memory; give it more (gromacs-submitter edit {id} \
         --memory), and retry"
    )
}

fn mdrun_failed(status: RowStatus, made_a_step: bool, input: &Input<'_>, job: &JobView) -> Step {
    let message = job.last_attempt().and_then(|attempt| attempt.message.as_deref()).unwrap_or_default();
    let end = End::read(input.log().text(), message, made_a_step);
    let failed_in = [input.log().text(), message].into_iter().filter(|_| input.row.is_multidir());
    let where_it_failed = failed_in.filter_map(failed_simulation).next();
    let where_it_failed = where_it_failed.map(|folder| format!(" in {folder}")).unwrap_or_default();
    let said = said(job);
    let reason = match &end.words {
        Some(words) if end.is_message => format!("mdrun failed{where_it_failed}: {words}"),
        // It crashed. The operator's sentence ends in mdrun's greeting, whose smile begins with a colon.
        Some(words) => format!("mdrun failed{where_it_failed}: {words} ({})", before_greeting(&said)),
        None if end.meaning != Meaning::Unknown => {
            format!("mdrun crashed{where_it_failed} ({})", before_greeting(&said))
        }
        None => match ended_on_its_own(&status, input, job) {
            Some(reason) => return record(end_of(status, reason, input, job)),
            None => match words_before_its_end(input) {
                Some(words) => format!("mdrun failed{where_it_failed}: {words} ({})", before_greeting(&said)),
                None => said,
            },
        },
    };
    if input.row.kind != Kind::Simulation {
        return record(end_of(status, reason, input, job));
    }
    let ran = job.last_attempt().and_then(|attempt| attempt.rung).or(status.rung);
    let failure = Ended { end, reason, made_a_step, rung: ran, said_by: job };
    failure.follow(status, input)
}

/// The last that an mdrun said which names no error: the system says so in its own words if it cannot even start it.
fn words_before_its_end(input: &Input<'_>) -> Option<String> {
    let log = input.log();
    let has_started = log.facts().is_some_and(|facts| facts.first_step.is_some());
    if has_started { last_words(log.text()) } else { last_line(log.text()) }
}

/// How mdrun ended with an error.
struct Ended<'a> {
    end: End,
    /// Why the row fails, if nothing else helps.
    reason: String,
    made_a_step: bool,
    /// The configuration that it ran with.
    rung: Option<i32>,
    said_by: &'a JobView,
}

impl Ended<'_> {
    fn follow(self, status: RowStatus, input: &Input<'_>) -> Step {
        let Self { end, reason, made_a_step, rung, .. } = &self;
        let words = end.words.as_deref().unwrap_or_default();
        let is_plain =
            rung.is_none_or(|rung| layout_of(rung, input).is_none_or(|rung| is_plainest(&rung.layout.0)));
        match (end.meaning, end.meaning.fault()) {
            (_, Fault::Configuration) if !made_a_step && rung.is_some() => {
                let number = rung.unwrap_or_default();
                let reason = format!("mdrun refuses configuration {number}: {words}; tries the next one");
                self.with_another(&status, reason, input)
            }
            (Meaning::NoLocks, _) if appends(input.row) => {
                let reason =
                    format!("mdrun could not start: {words}; starts again and writes new output files");
                let next = with_history(next_submission(input.row, reason), &status);
                Step { stops_appending: true, ..record(next) }
            }
            (meaning, Fault::Passing) => {
                let what =
                    if *made_a_step { reason.clone() } else { format!("mdrun could not start: {words}") };
                match again_later(&status, &what, input) {
                    Some(step) => step,
                    None => self.ends(status, too_often(reason, meaning, input.row), input),
                }
            }
            (Meaning::Unknown | Meaning::Input, _) if !made_a_step && end.words.is_some() && !is_plain => {
                let reason = format!("{reason}; tries one rank on the CPU before it gives up");
                self.with_another(&status, reason, input)
            }
            (_, Fault::Node) => self.on_another_node(status, input),
            (meaning, _) => {
                let reason = with_remedy(reason, meaning, *made_a_step, input);
                self.ends(status, reason, input)
            }
        }
    }

    fn ends(&self, status: RowStatus, reason: String, input: &Input<'_>) -> Step {
        record(end_of(status, reason, input, self.said_by))
    }

    /// Goes on with another configuration: this one is marked.
    fn with_another(&self, status: &RowStatus, reason: String, input: &Input<'_>) -> Step {
        let next = with_history(next_submission(input.row, reason), status);
        Step { refused: self.refused(), ..record(next) }
    }

    fn refused(&self) -> Option<Refused> {
        Some(Refused { rung: self.rung?, words: self.end.words.clone()? })
    }

    /// True if the attempt ran for so long that failures before it are forgotten.
    fn ran_well(&self, input: &Input<'_>) -> bool {
        let attempt = self.said_by.last_attempt();
        let ran = attempt.and_then(|attempt| Some(seconds_between(attempt.start_time?, attempt.end_time?)));
        ran.is_some_and(|seconds| seconds >= well_after_seconds(input.row))
    }

    /// As far as anybody can tell the node ended it: it is tried elsewhere or later, until what other nodes say shows that this
    /// would not help. A GPU is left out by then, and everything else ends the row.
    fn on_another_node(&self, status: RowStatus, input: &Input<'_>) -> Step {
        let node = self.said_by.last_attempt().and_then(|attempt| attempt.node.as_ref());
        let what = before_greeting(&self.reason);
        let reason = match node {
            Some(node) => format!("{what} on node {}", node.name),
            None => what.to_owned(),
        };
        let again = again_later(&status, &reason, input);
        let used_gpu =
            self.rung.and_then(|rung| layout_of(rung, input)).is_some_and(|rung| uses_gpu(&rung.layout.0));
        if self.end.meaning == Meaning::Gpu && used_gpu {
            // [`super::without_refused`] counts the nodes. One on which it has computed for long says nothing of GPUs.
            let refused = self.refused().filter(|_| !self.ran_well(input));
            let without = || self.with_another(&status, format!("{reason}; goes on without GPUs"), input);
            return Step { refused, ..again.unwrap_or_else(without) };
        }
        let row = input.row;
        let is_of_processor = self.end.meaning == Meaning::Processor;
        let nodes = input.pool().map(|pool| pool.nodes.as_slice()).unwrap_or_default();
        let labels = node.map(|node| &node.labels);
        if is_of_processor
            && other_kind(nodes, labels, &input.seen.failures, row.pinned_image.as_deref()).is_some()
        {
            return again
                .unwrap_or_else(|| self.ends(status, too_often(&reason, self.end.meaning, row), input));
        }
        let first = status.submission.saturating_sub(status.private.start_failures);
        let is_alike =
            |failure: &&Failure| failure.submission >= first && failure.meaning().fault() == Fault::Node;
        let before = input.seen.failures.iter().filter(is_alike).map(|failure| failure.node.as_deref());
        let all: Vec<Option<&str>> = before.chain([node.map(|node| node.name.as_str())]).collect();
        if is_no_nodes_fault(&all, count(nodes)) {
            let reason = format!("{what}, {}", tried_often(&all));
            // What to do about words that nobody knows is to read them.
            let meaning =
                if self.end.meaning == Meaning::Unknown { Meaning::Crash } else { self.end.meaning };
            return self.ends(status, with_remedy(&reason, meaning, self.made_a_step, input), input);
        }
        again.unwrap_or_else(|| self.ends(status, too_often(&reason, self.end.meaning, row), input))
    }
}

/// The configuration of the ladder with this number.
fn layout_of<'a>(rung: i32, input: &Input<'a>) -> Option<&'a LadderRung> {
    input.ladder().iter().find(|found| found.rung == rung)
}

fn with_remedy(reason: &str, meaning: Meaning, made_a_step: bool, input: &Input<'_>) -> String {
    let remedy = remedy(meaning, made_a_step, input.row);
    remedy.map_or_else(|| reason.to_owned(), |remedy| format!("{reason}; {remedy}"))
}

pub(super) fn end_of(status: RowStatus, reason: String, input: &Input<'_>, job: &JobView) -> RowStatus {
    RowStatus {
        state: State::Failed,
        reason: Some(reason),
        finish_time: Some(finish_time(input, job)),
        next_rung: None,
        private: PrivateState { verifying: false, ..status.private },
        ..status
    }
}

/// Killed for lack of memory: the next submission goes on from the checkpoint, with a configuration that has more.
/// It ends where no configuration has: then asking the tuner again fails the row with that sentence.
fn with_more_memory(status: &RowStatus, limit: i64, last_step: Option<i64>, input: &Input<'_>) -> RowStatus {
    let reason =
        format!("mdrun was killed for using more than its {} MiB of memory; goes on with more", limit >> 20);
    let next = with_history(next_submission(input.row, reason), status);
    RowStatus {
        step: last_step.or(next.step),
        private: PrivateState {
            outgrown_memory_bytes: next.private.outgrown_memory_bytes.max(Some(limit)),
            ..next.private
        },
        ..next
    }
}
