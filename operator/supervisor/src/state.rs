//! What the supervisor knows of its workload, and the reports made of it.

use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use scavenger_schema::supervision::{Checkpoint, Cpu, CpuTime, EndReport, LiveReport, Stop};

/// A workload that was asked for a checkpoint is not asked again for so long: the operator waits no longer.
const ANSWER: Duration = Duration::from_secs(30);

/// A checkpoint, by this machine's clock that never jumps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Made {
    /// When it was written.
    pub at: Instant,
    /// How much later it can have been: file systems round down, some to whole seconds.
    pub precision: Duration,
    /// The kernel announced it before the signal to stop came, and never again.
    pub came_before_stop: bool,
}

impl Made {
    fn is_since(&self, time: Instant) -> bool {
        self.at + self.precision >= time
    }

    /// Its time alone does not tell, if it is about that of the signal.
    fn answers(&self, stopped: Instant) -> bool {
        self.at >= stopped || (!self.came_before_stop && self.is_since(stopped))
    }
}

/// What is known.
#[derive(Debug, Clone, Copy, Default)]
pub struct State {
    /// Whether checkpoints are watched at all, and could be looked at to the end.
    pub watched: bool,
    /// The newest checkpoint.
    pub checkpoint: Option<Made>,
    /// How many there were.
    pub seen: u64,
    /// The last number that the workload wrote.
    pub progress: Option<f64>,
    /// The processor time that was counted last.
    pub cpu: Option<CpuTime>,
    /// The same at the newest checkpoint.
    pub cpu_at_checkpoint: CpuTime,
    /// When a checkpoint was asked for that is not there yet.
    pub asked: Option<Instant>,
    /// When the first signal to stop came.
    pub stopped: Option<Instant>,
    /// A checkpoint was written after it.
    pub answered: bool,
    /// A checkpoint was asked for and not there yet when it came: one that follows can be the answer to either.
    pub asked_before: bool,
}

impl State {
    /// Takes in a checkpoint. The newest never goes back.
    pub fn count(&mut self, made: Made) {
        self.seen += 1;
        if self.checkpoint.is_none_or(|known| known.at <= made.at) {
            self.checkpoint = Some(made);
            self.cpu_at_checkpoint = self.cpu.unwrap_or_default();
        }
        self.asked = self.asked.filter(|asked| !made.is_since(*asked));
        self.answered |= self.stopped.is_some_and(|stopped| made.answers(stopped));
    }

    /// Whether a checkpoint that was asked for can still come.
    #[must_use]
    pub fn awaits_checkpoint(&self, now: Instant) -> bool {
        self.asked.is_some_and(|asked| now.saturating_duration_since(asked) < ANSWER)
    }

    /// Takes in a signal to stop, and returns whether it is the first one.
    pub fn stop(&mut self, now: Instant) -> bool {
        let is_first = self.stopped.is_none();
        if is_first {
            self.stopped = Some(now);
            self.asked_before = self.asked.is_some();
            // Somebody may have counted the answer before this is said. What was counted earlier is none, however its time
            // is rounded.
            self.answered = self.checkpoint.is_some_and(|made| made.at >= now);
        }
        is_first
    }

    fn answer(&self) -> Stop {
        match self.stopped {
            None => Stop::NotAsked,
            Some(_) if self.answered && self.asked_before => Stop::Unknown,
            Some(_) if self.answered => Stop::Answered,
            Some(_) if self.watched => Stop::Unanswered,
            Some(_) => Stop::Unknown,
        }
    }

    /// The time is that of the node's clock at the moment of the report: a clock that jumped in between moves it along.
    fn checkpoint(&self, now: Instant, clock: SystemTime) -> Option<Checkpoint> {
        let made = self.checkpoint?;
        let age = now.saturating_duration_since(made.at);
        let time = Timestamp::try_from(clock.checked_sub(age)?).ok()?;
        let time = Timestamp::from_millisecond(time.as_millisecond()).ok()?;
        Some(Checkpoint { time, age_seconds: milliseconds(age.as_secs_f64()), seen: self.seen })
    }

    fn cpu(&self) -> Option<Cpu> {
        let (total, before) = (self.cpu?, self.cpu_at_checkpoint);
        let since_checkpoint = CpuTime {
            run_seconds: milliseconds(total.run_seconds - before.run_seconds),
            wait_seconds: milliseconds(total.wait_seconds - before.wait_seconds),
        };
        Some(Cpu { total, since_checkpoint })
    }

    /// What is sent while the workload runs.
    #[must_use]
    pub fn live(&self, now: Instant, clock: SystemTime) -> LiveReport {
        LiveReport { checkpoint: self.checkpoint(now, clock), progress: self.progress, cpu: self.cpu() }
    }

    /// What stands in the termination message.
    #[must_use]
    pub fn end(&self, now: Instant, clock: SystemTime) -> EndReport {
        let (checkpoint, stop) = (self.checkpoint(now, clock), self.answer());
        EndReport { checkpoint, progress: self.progress, cpu: self.cpu(), stop }
    }
}

/// Seconds, rounded: nobody needs the rest.
pub(crate) fn milliseconds(seconds: f64) -> f64 {
    (seconds * 1_000.0).round() / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_is_answered_by_a_later_checkpoint() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let made =
            |seconds, precision| Made { at: start + second * seconds, precision, came_before_stop: false };
        let mut state = State { watched: true, ..State::default() };
        let stop = |state: &State| state.end(start + 60 * second, SystemTime::UNIX_EPOCH + 100 * second).stop;
        assert_eq!(stop(&state), Stop::NotAsked);
        state.count(made(10, Duration::ZERO));
        let mut rounded = state;
        state.stop(start + 20 * second);
        assert_eq!(stop(&state), Stop::Unanswered);
        assert_eq!(stop(&State { watched: false, ..state }), Stop::Unknown);
        // A file system that rounds down to whole seconds: the order of announcements tells.
        let moment = start + Duration::from_millis(20_500);
        let mut counted_before = rounded;
        counted_before.count(made(20, second));
        counted_before.stop(moment);
        assert_eq!(stop(&counted_before), Stop::Unanswered);
        rounded.stop(moment);
        rounded.count(Made { came_before_stop: true, ..made(20, second) });
        assert_eq!(stop(&rounded), Stop::Unanswered);
        rounded.count(made(20, second));
        assert_eq!(stop(&rounded), Stop::Answered);
        // The file was written once more, by somebody who never closes it.
        state.count(Made { came_before_stop: true, ..made(21, Duration::ZERO) });
        assert_eq!(stop(&state), Stop::Answered);
        // One that was asked for just before the stop may be the answer to that.
        let asked = Some(start + 19 * second);
        let mut torn = State { asked, watched: true, ..State::default() };
        let mut asked = torn;
        torn.stop(start + 20 * second);
        torn.count(made(21, Duration::ZERO));
        assert_eq!(stop(&torn), Stop::Unknown);
        asked.count(made(19, Duration::ZERO));
        asked.stop(start + 20 * second);
        assert_eq!(stop(&asked), Stop::Unanswered);
        asked.count(made(21, Duration::ZERO));
        assert_eq!(stop(&asked), Stop::Answered);
        // An older one changes nothing.
        state.count(made(5, Duration::ZERO));
        assert_eq!(state.checkpoint.map(|made| made.at), Some(start + 21 * second));
    }

    #[test]
    fn a_request_is_open_until_it_is_answered_or_too_old() {
        let start = Instant::now();
        let mut state = State { watched: true, ..State::default() };
        assert!(!state.awaits_checkpoint(start));
        state.asked = Some(start);
        assert!(state.awaits_checkpoint(start + Duration::from_secs(29)));
        assert!(!state.awaits_checkpoint(start + Duration::from_secs(30)));
        let at = start + Duration::from_secs(12);
        state.count(Made { at, precision: Duration::ZERO, came_before_stop: false });
        assert!(!state.awaits_checkpoint(start + Duration::from_secs(13)));
    }

    #[test]
    fn a_time_is_told_by_the_age() {
        let start = Instant::now();
        let mut state = State::default();
        state.count(Made { at: start, precision: Duration::ZERO, came_before_stop: false });
        let clock = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        let report = state.live(start + Duration::from_millis(2_500), clock).checkpoint.unwrap();
        assert_eq!(report.time, Timestamp::from_millisecond(997_500).unwrap());
        assert_eq!((report.age_seconds, report.seen), (2.5, 1));
    }

    #[test]
    fn processor_time_is_told_from_the_start_and_from_the_newest_checkpoint() {
        let start = Instant::now();
        let mut state = State::default();
        let cpu = |state: &State| state.live(start, SystemTime::UNIX_EPOCH + Duration::from_secs(1_000)).cpu;
        assert_eq!(cpu(&state), None, "a kernel that does not count");
        let time = |run_seconds, wait_seconds| CpuTime { run_seconds, wait_seconds };
        state.cpu = Some(time(2.0, 0.5));
        assert_eq!(cpu(&state), Some(Cpu { total: time(2.0, 0.5), since_checkpoint: time(2.0, 0.5) }));
        let made = Made { at: start, precision: Duration::ZERO, came_before_stop: false };
        state.count(made);
        state.cpu = Some(time(2.3, 9.5));
        let since_checkpoint = time(0.3, 9.0);
        assert_eq!(cpu(&state), Some(Cpu { total: time(2.3, 9.5), since_checkpoint }));
        // An older checkpoint changes nothing.
        state.count(Made { at: start.checked_sub(Duration::from_secs(9)).unwrap(), ..made });
        assert_eq!(cpu(&state).unwrap().since_checkpoint, since_checkpoint);
    }
}
