//! When the next report is due: a function of what happened to the ones before.

use std::time::{Duration, Instant};

/// So long until the next try if no replica leads. The Lease of one that is gone is free after 15 s.
const NOBODY_LEADS: Duration = Duration::from_secs(10);

/// Without news a report is repeated after this many intervals: a new leader knows nothing of earlier reports.
const REPEAT: u32 = 10;

/// The longest pause after failures, in intervals.
const LONGEST: u32 = 10;

/// What became of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was taken.
    Taken,
    /// No replica leads (HTTP status 421).
    NotLeader,
    /// Anything else.
    Failed,
}

/// Says when to report.
#[derive(Debug)]
pub struct Schedule {
    every: Duration,
    /// Answers carry requests for checkpoints, which must not come ten minutes late.
    asks: bool,
    /// There is something that no report has carried.
    news: bool,
    failures: u32,
    /// How often in a row no replica led.
    leaderless: u32,
    /// No report before this.
    earliest: Instant,
    /// A report even without news.
    repeat: Instant,
}

impl Schedule {
    /// `asks`: the answers matter, too. `jitter` is between 0 and 1; workloads that started together drift apart by it.
    #[must_use]
    pub fn new(now: Instant, every: Duration, asks: bool, jitter: f64) -> Self {
        let mut schedule =
            Self { every, asks, news: false, failures: 0, leaderless: 0, earliest: now, repeat: now };
        schedule.repeat = now + schedule.pause(jitter);
        schedule
    }

    /// Notes that there is something to report.
    pub fn news(&mut self) {
        self.news = true;
    }

    /// Notes that somebody waits for the next news: they are reported at this time.
    pub fn asked(&mut self, at: Instant) {
        self.earliest = at;
    }

    /// Notes that a report is made now; news that come from here on are for the next one.
    pub fn sending(&mut self) {
        self.news = false;
    }

    /// The moment of the next report.
    #[must_use]
    pub fn due(&self) -> Instant {
        if self.news { self.earliest } else { self.repeat.max(self.earliest) }
    }

    /// Takes in what became of a report.
    pub fn ended(&mut self, now: Instant, outcome: Outcome, jitter: f64) {
        let wait = match outcome {
            Outcome::Taken => {
                (self.failures, self.leaderless) = (0, 0);
                self.every
            }
            Outcome::NotLeader => {
                self.news = true;
                self.leaderless += 1;
                (NOBODY_LEADS * factor(self.leaderless)).min(self.every * LONGEST)
            }
            Outcome::Failed => {
                self.news = true;
                self.failures += 1;
                self.every * factor(self.failures)
            }
        };
        self.earliest = now + wait.mul_f64(1.0 + jitter / 4.0);
        self.repeat = now + self.pause(jitter);
    }

    fn pause(&self, jitter: f64) -> Duration {
        let repeat = if self.asks { self.every } else { self.every * REPEAT };
        repeat.mul_f64(1.0 + jitter / 4.0)
    }
}

/// 1, 2, 4 and so on, for one failure after the other.
fn factor(failures: u32) -> u32 {
    (1 << failures.saturating_sub(1).min(8)).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn news_are_reported_at_once_and_then_once_a_minute() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start, MINUTE, false, 0.0);
        assert_eq!(schedule.due(), start + 10 * MINUTE);
        schedule.news();
        assert_eq!(schedule.due(), start);
        schedule.sending();
        schedule.news();
        schedule.ended(start, Outcome::Taken, 1.0);
        assert_eq!(schedule.due(), start + MINUTE.mul_f64(1.25));
        schedule.sending();
        schedule.ended(start, Outcome::Taken, 0.0);
        assert_eq!(schedule.due(), start + 10 * MINUTE);
    }

    #[test]
    fn who_answers_with_requests_is_asked_every_minute() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start, MINUTE, true, 0.0);
        assert_eq!(schedule.due(), start + MINUTE);
        schedule.sending();
        schedule.ended(start + MINUTE, Outcome::Taken, 0.0);
        assert_eq!(schedule.due(), start + 2 * MINUTE);
    }

    #[test]
    fn a_checkpoint_that_was_asked_for_is_reported_at_once() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start, MINUTE, true, 0.0);
        schedule.sending();
        schedule.ended(start + MINUTE, Outcome::Taken, 0.0);
        schedule.asked(start + MINUTE);
        assert_eq!(schedule.due(), start + 2 * MINUTE, "without news nothing changes");
        schedule.news();
        assert_eq!(schedule.due(), start + MINUTE);
    }

    #[test]
    fn failures_wait_longer_each_time_and_lose_no_news() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start, MINUTE, false, 0.0);
        let mut waits = Vec::new();
        for _ in 0..6 {
            schedule.news();
            schedule.sending();
            schedule.ended(start, Outcome::Failed, 0.0);
            waits.push((schedule.due() - start).as_secs() / 60);
        }
        assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
        schedule.sending();
        schedule.ended(start, Outcome::NotLeader, 0.0);
        assert_eq!(schedule.due(), start + NOBODY_LEADS);
        schedule.ended(start, Outcome::NotLeader, 0.0);
        assert_eq!(schedule.due(), start + 2 * NOBODY_LEADS);
        schedule.sending();
        schedule.ended(start, Outcome::Taken, 0.0);
        schedule.news();
        assert_eq!(schedule.due(), start + MINUTE);
    }
}
