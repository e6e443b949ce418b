//! The count itself, for a single pod and for the leader of a gang.

use std::io::Write;
use std::time::Instant;

use crate::checkpoint::{self, Checkpoint, Store};
use crate::events::{Event, Events};
use crate::gang::{self, Followers};
use crate::journal::{self, Event as Entry, Journal};
use crate::settings::{OnSigterm, Settings};

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The count is complete.
    Done,
    /// SIGTERM came first.
    Stopped(OnSigterm),
    /// The work failed by itself, or a peer was lost.
    Failed,
}

impl Ending {
    /// What the kubelet gets to see.
    pub(crate) fn exit_status(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Stopped(what) => what.exit_status(),
            Self::Failed => 1,
        }
    }
}

/// Why a run could not be carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Checkpoint(#[from] checkpoint::Error),
    #[error(transparent)]
    Journal(#[from] journal::Error),
    #[error(transparent)]
    Gang(#[from] gang::Error),
}

impl Error {
    /// True if another run holds the checkpoint.
    pub(crate) fn is_overlap(&self) -> bool {
        matches!(self, Self::Checkpoint(checkpoint::Error::InUse { .. }))
    }
}

/// Counts until the end, SIGTERM, or a failure.
pub(crate) fn run(settings: &Settings, events: &Events) -> Result<Ending, Error> {
    match &settings.gang {
        Some(gang) if gang.index > 0 => gang::follow(settings, gang, events),
        _ => lead(settings, events),
    }
}

/// Prints one line that a person or a test may read in the pod's log.
pub(crate) fn say(line: &str) {
    // A log that nobody reads any more is no reason to stop counting.
    writeln!(std::io::stdout(), "{line}").ok();
}

/// One attempt: what it knows and where it writes.
struct Attempt<'a> {
    settings: &'a Settings,
    store: Store,
    journal: Journal,
    reached: Checkpoint,
    saved_at: Instant,
}

impl Attempt<'_> {
    fn save(&mut self) -> Result<(), Error> {
        self.store.save(self.reached)?;
        self.saved_at = Instant::now();
        self.note(Entry::Checkpoint)?;
        say(&format!("checkpoint {}", self.reached.count));
        Ok(())
    }

    fn note(&mut self, entry: Entry) -> Result<(), Error> {
        Ok(self.journal.write(entry, self.reached.attempt, self.reached.count)?)
    }

    fn stop(&mut self) -> Result<Ending, Error> {
        self.note(Entry::Sigterm)?;
        if self.settings.on_sigterm.saves() {
            self.save()?;
        }
        say(&format!("stopped {}", self.reached.count));
        Ok(Ending::Stopped(self.settings.on_sigterm))
    }

    fn fail(&mut self, reason: &str) -> Result<Ending, Error> {
        self.note(Entry::Fail)?;
        say(&format!("failed {}: {reason}", self.reached.count));
        Ok(Ending::Failed)
    }

    fn done(&mut self) -> Result<Ending, Error> {
        self.note(Entry::Done)?;
        say(&format!("done {}", self.reached.count));
        Ok(Ending::Done)
    }
}

fn lead(settings: &Settings, events: &Events) -> Result<Ending, Error> {
    let mut journal = Journal::open(settings.journal.as_deref())?;
    let (store, found) = match Store::open(&settings.checkpoint) {
        Err(error @ checkpoint::Error::InUse { .. }) => {
            journal.write(Entry::Overlap, 0, 0)?;
            return Err(error.into());
        }
        opened => opened?,
    };
    let last = found.unwrap_or(Checkpoint { attempt: 0, count: 0 });
    let reached = Checkpoint { attempt: settings.attempt.unwrap_or(last.attempt + 1), count: last.count };
    let mut attempt = Attempt { settings, store, journal, reached, saved_at: Instant::now() };
    attempt.note(Entry::Start)?;
    let verb = if found.is_some() { "resumed" } else { "started" };
    say(&format!("{verb} at {}", reached.count));

    if reached.count < settings.to || reached.attempt < settings.not_before_attempt {
        // Says on the disk that this attempt exists, and finds out now, not after the first interval, whether
        // checkpoints can be written at all.
        attempt.store.save(reached)?;
    }
    let mut followers = match &settings.gang {
        None => Followers::none(),
        Some(gang) => match Followers::gather(gang, events, settings.on_sigterm)? {
            gang::Gathering::All(followers) => followers,
            gang::Gathering::Stopped => return attempt.stop(),
            gang::Gathering::Failed(reason) => return attempt.fail(&reason),
        },
    };
    if let Err(lost) = followers.start(reached) {
        return attempt.fail(&lost);
    }
    count(&mut attempt, &mut followers, events)
}

fn count(attempt: &mut Attempt<'_>, followers: &mut Followers, events: &Events) -> Result<Ending, Error> {
    let settings = attempt.settings;
    let may_end = attempt.reached.attempt >= settings.not_before_attempt;
    while attempt.reached.count < settings.to || !may_end {
        let step = attempt.reached.count + 1;
        match compute(step, settings, followers, events) {
            Step::Computed => {}
            Step::Stopped => return attempt.stop(),
            Step::PeerLost(reason) => return attempt.fail(&reason),
        }
        attempt.reached.count = step;
        attempt.note(Entry::Step)?;
        if settings.fail_at == Some(step) {
            return attempt.fail("as --fail-at asked");
        }
        let is_last = step >= settings.to && may_end;
        if is_last || attempt.saved_at.elapsed() >= settings.checkpoint_interval {
            attempt.save()?;
        }
    }
    // Only after the last checkpoint: a follower that ends first must not leave a leader that has to redo it.
    followers.end(attempt.reached.count);
    attempt.done()
}

/// What became of a step.
enum Step {
    Computed,
    Stopped,
    PeerLost(String),
}

/// The work of one step: time passes, and every follower does the same step.
fn compute(step: u64, settings: &Settings, followers: &mut Followers, events: &Events) -> Step {
    if let Err(lost) = followers.go(step) {
        return Step::PeerLost(lost);
    }
    let computed = Instant::now() + settings.every;
    let silent = computed + followers.timeout();
    loop {
        let computing = Instant::now() < computed;
        if !computing && followers.all_did(step) {
            return Step::Computed;
        }
        match events.next_before(if computing { computed } else { silent }) {
            Some(Event::Terminate) if settings.on_sigterm == OnSigterm::Ignore => {}
            Some(Event::Terminate) => return Step::Stopped,
            Some(event) => {
                if let Err(lost) = followers.hear(event) {
                    return Step::PeerLost(lost);
                }
            }
            None if computing => {}
            None => return Step::PeerLost(followers.silent(step)),
        }
    }
}
