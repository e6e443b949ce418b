//! What is reported and measured while workloads run.
//!
//! # What supervisors report
//!
//! A report is for one pod of the active attempt. Its checkpoint is taken to be between the start of the attempt and now, and
//! never goes back. Of a gang the pod counts that the spec names ([`Rank`]). A report changes the
//! expected loss of its own ScavengerJob alone, between nothing and that of a run of `interruptionAfter`: one that tells of
//! no checkpoint changes nothing, and one that tells of an old checkpoint does not change what a newer one said.
//!
//! What is reported changes the planner's own view of the status ([`Tracked::sj`](super::tracked::Tracked::sj)), so every rule
//! and every write of the status sees it. It is stored with the next write, or when the budget for information allows
//! (`plan/inform.rs`). A planner that is started again knows what was stored, until the next report.
//!
//! # Processor time
//!
//! Beside busy ordinary pods a ScavengerJob can be ready to run and get next to nothing. Then time passes without work, and little
//! is lost with it. Of the time since the last checkpoint therefore the share counts that the workload got of the processor
//! time that it could use ([`CpuTime::share`]); of the pods of a gang the one that got least, for which the others wait. One that got
//! less than [`STARVED`] between two reports is starved from the first of them on, until it gets more.
//!
//! # What ScavengerJobs really use
//!
//! Samples come by the clock, one for each pod. Those of all pods of the active attempt are added up; the time between two
//! samples is the weight of the second one. The result is for people and for reports: no rule reads it.
//!
//! Like what supervisors report it changes the planner's own view of the status first. It is stored with
//! the next write, and by a write of its own when it was measured for a minute, and then each time the measured time has
//! doubled or a peak has grown by a quarter: about ten writes a day.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::values::{
    Attempt, AttemptUsage, Cpu, CpuTime, Figures, LiveReport, Name, Rank, ScavengerJob, earlier,
    resources::{Amount, CPU, MEMORY, Share},
};

/// A tenth: what is left to idle ScavengerJobs of a node whose processors ordinary pods need is less.
const STARVED: f64 = 0.1;

/// Between two reports that are closer together nothing is judged.
const BETWEEN_REPORTS: SignedDuration = SignedDuration::from_secs(60);

/// What the pods of one attempt reported.
#[derive(Debug, Default)]
pub(crate) struct Live {
    attempt: u32,
    pods: BTreeMap<Name, Reported>,
    stored: Stored,
    /// When the newest report came.
    heard: Option<Timestamp>,
}

/// What is stored, before what was reported is laid over it.
#[derive(Debug, Default)]
struct Stored {
    last_checkpoint: Option<Timestamp>,
    progress: Option<f64>,
    starved_since: Option<Timestamp>,
}

impl Stored {
    fn of(sj: &ScavengerJob) -> Self {
        let status = &sj.status;
        let (last_checkpoint, progress) = (status.last_checkpoint, status.progress);
        Self { last_checkpoint, progress, starved_since: status.starved_since }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Reported {
    index: Option<u32>,
    checkpoint: Option<Timestamp>,
    progress: Option<f64>,
    /// What it got of the processor time that it could use since its checkpoint.
    share: Option<Share>,
    /// The report from which the next judgement counts.
    since: Option<(Timestamp, CpuTime)>,
    /// Since when it gets next to nothing, or that it gets enough; none until that was judged.
    starved: Option<Option<Timestamp>>,
}

impl Reported {
    /// Takes in the processor time of a pod that requests so much, in an attempt that began then.
    fn count(&mut self, cpu: &Cpu, requested_milli: i64, start: Timestamp, now: Timestamp) {
        let since = self.checkpoint.map_or(start, |checkpoint| checkpoint.max(start));
        self.share = Some(cpu.since_checkpoint.share(now.duration_since(since), requested_milli));
        let Some((time, before)) = self.since else {
            self.since = Some((now, cpu.total));
            return;
        };
        let over = now.duration_since(time);
        if over < BETWEEN_REPORTS {
            return;
        }
        let share = cpu.total.since(before).share(over, requested_milli);
        let starves = share < Share::from_fraction(STARVED);
        self.starved = Some(starves.then(|| self.starved.flatten().unwrap_or(time)));
        self.since = Some((now, cpu.total));
    }
}

impl Live {
    /// Takes in what a pod of the active attempt reports.
    pub(crate) fn note(
        &mut self,
        sj: &ScavengerJob,
        index: Option<u32>,
        report: &LiveReport,
        now: Timestamp,
    ) {
        let attempt = sj.status.attempt.as_ref().map_or(0, |attempt| attempt.number);
        if self.attempt != attempt || self.heard.is_none() {
            *self = Self { attempt, stored: Stored::of(sj), ..Self::default() };
        }
        self.heard = Some(now);
        let checkpoint = report.checkpoint.map(|checkpoint| checkpoint.min(now));
        let progress = report.progress.filter(|progress| (0.0..=1.0).contains(progress));
        let known = self.pods.entry(report.pod.name.clone()).or_default();
        known.index = index;
        known.checkpoint = known.checkpoint.max(checkpoint);
        known.progress = progress.or(known.progress);
        let running = sj.status.attempt.as_ref().and_then(|attempt| Some((attempt, attempt.start_time?)));
        if let (Some(cpu), Some((attempt, start))) = (&report.cpu, running) {
            known.count(cpu, attempt.demand.per_pod.cpu_milli, start, now);
        }
    }

    /// A new version of the ScavengerJob is stored. What is under way stays reported.
    pub(super) fn rebase(&mut self, sj: &mut ScavengerJob) {
        if self.heard.is_some() {
            self.stored = Stored::of(sj);
            self.overlay(sj);
        }
    }

    /// Lays what was reported over the status of the ScavengerJob.
    pub(crate) fn overlay(&self, sj: &mut ScavengerJob) {
        let Some(attempt) = sj.status.active_attempt().filter(|attempt| attempt.number == self.attempt)
        else {
            return;
        };
        let rank = sj.spec.as_ref().map_or(Rank::Oldest, |spec| spec.supervision.rank);
        let pods = usize::try_from(attempt.demand.pod_count).unwrap_or(usize::MAX);
        if let (Some(start), Some(checkpoint)) = (attempt.start_time, self.checkpoint(rank, pods)) {
            sj.status.last_checkpoint = self.stored.last_checkpoint.max(Some(checkpoint.max(start)));
        }
        let counted = self.pods.values().filter(|pod| rank.counts(pod.index));
        let progress = counted.filter_map(|pod| pod.progress).reduce(f64::min);
        sj.status.progress = progress.or(self.stored.progress);
        sj.status.cpu_share = self.pods.values().filter_map(|pod| pod.share).min();
        let judged = self.pods.values().filter_map(|pod| pod.starved);
        // What is stored says since when, if it has been so all the time.
        let stored = self.stored.starved_since.filter(|_| !self.is_well());
        sj.status.starved_since = judged.fold(stored, earlier);
    }

    /// True once every pod that was judged gets what it can use.
    fn is_well(&self) -> bool {
        let mut judged = self.pods.values().filter_map(|pod| pod.starved).peekable();
        judged.peek().is_some() && judged.all(|pod| pod.is_none())
    }

    /// Names of the pods that get next to nothing.
    pub(crate) fn starved(&self) -> impl Iterator<Item = &Name> {
        self.pods.iter().filter(|(_, pod)| pod.starved.flatten().is_some()).map(|(name, _)| name)
    }

    /// The checkpoint that counts: that of one pod, or the oldest once every pod has one.
    fn checkpoint(&self, rank: Rank, pods: usize) -> Option<Timestamp> {
        let counted = || self.pods.values().filter(|pod| rank.counts(pod.index));
        if rank == Rank::Oldest && counted().filter(|pod| pod.checkpoint.is_some()).count() < pods {
            return None;
        }
        counted().filter_map(|pod| pod.checkpoint).min()
    }

    /// True if a pod of the active attempt has reported.
    pub(crate) fn is_heard(&self, sj: &ScavengerJob) -> bool {
        self.heard.is_some() && sj.status.active_attempt().is_some_and(|active| active.number == self.attempt)
    }

    /// True if something was reported that is not stored. Stored stamps have whole seconds.
    pub(crate) fn has_news(&self, sj: &ScavengerJob) -> bool {
        let second = |time: Option<Timestamp>| time.map(Timestamp::as_second);
        self.heard.is_some()
            && (second(sj.status.last_checkpoint) > second(self.stored.last_checkpoint)
                || sj.status.progress != self.stored.progress
                || sj.status.starved_since.is_some() != self.stored.starved_since.is_some())
    }
}

/// A sample says nothing about more than this before it: of a gap nothing is known.
const LONGEST: SignedDuration = SignedDuration::from_secs(60);

/// What the first sample stands for: how often metrics-server measures by default.
const FIRST: SignedDuration = SignedDuration::from_secs(15);

/// Nothing is said about less than this.
const LEAST: SignedDuration = SignedDuration::from_secs(60);

/// Requests are judged after this time.
const JUDGED: SignedDuration = SignedDuration::from_mins(10);

/// What an attempt was measured to use.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    usage: AttemptUsage,
    /// What is stored of it.
    stored: Option<AttemptUsage>,
    /// The last sample.
    last: Option<Timestamp>,
}

impl Meter {
    /// Goes on where what is stored ends.
    pub(crate) fn of(sj: &ScavengerJob, attempt: u32) -> Self {
        let stored = sj.status.usage.as_deref().copied().filter(|usage| usage.attempt == attempt);
        Self {
            usage: stored.unwrap_or(AttemptUsage { attempt, ..AttemptUsage::default() }),
            stored,
            last: None,
        }
    }

    /// Takes in what all pods use together.
    pub(crate) fn add(&mut self, time: Timestamp, cpu_milli: i64, memory_bytes: i64) {
        let since = self.last.map_or(FIRST, |last| time.duration_since(last));
        if since <= SignedDuration::ZERO {
            // The same sample again, or one from before it.
            return;
        }
        self.last = Some(time);
        let weight = since.min(LONGEST);
        let before = self.usage.measured;
        self.usage.measured = before.saturating_add(weight);
        self.usage.cpu.add(before, cpu_milli, weight);
        self.usage.memory.add(before, memory_bytes, weight);
    }

    /// What was measured so far.
    pub(crate) fn usage(&self) -> AttemptUsage {
        self.usage
    }

    /// A new version of the ScavengerJob is stored.
    pub(super) fn rebase(&mut self, sj: &mut ScavengerJob) {
        self.stored = sj.status.usage.as_deref().copied().filter(|usage| usage.attempt == self.usage.attempt);
        if sj.status.attempt.as_ref().is_some_and(|attempt| attempt.number == self.usage.attempt) {
            sj.status.usage = Some(self.usage.into());
        }
    }

    /// True if something was measured that is worth a write.
    pub(crate) fn has_news(&self) -> bool {
        let Some(stored) = &self.stored else { return self.usage.measured >= LEAST };
        let has_grown = |new: Figures, old: Figures| new.peak.saturating_sub(old.peak) > old.peak / 4;
        self.usage.measured >= stored.measured.saturating_mul(2)
            || self.usage.measured >= stored.measured.saturating_add(LEAST)
                && (has_grown(self.usage.cpu, stored.cpu) || has_grown(self.usage.memory, stored.memory))
    }
}

impl Figures {
    /// Takes in an amount that stands for a time, after a time.
    fn add(&mut self, before: SignedDuration, amount: i64, time: SignedDuration) {
        let (before, time) = (before.as_millis(), time.as_millis());
        let sum = i128::from(self.mean) * before + i128::from(amount) * time;
        self.mean = i64::try_from(sum / (before + time).max(1)).unwrap_or(i64::MAX);
        self.peak = self.peak.max(amount);
    }
}

impl AttemptUsage {
    /// What the ScavengerJob asks for in vain, in one sentence; none if it uses at least half of its requests, or if that
    /// was measured for less than ten minutes. Of cpu the mean counts, of memory the peak: more of it was needed once.
    pub fn advice(&self, attempt: &Attempt) -> Option<String> {
        if self.measured < JUDGED || attempt.number != self.attempt {
            return None;
        }
        let requests = attempt.demand.total();
        let too_much = [
            (CPU, requests.cpu_milli, self.cpu.mean, "on average"),
            (MEMORY, requests.memory_bytes, self.memory.peak, "at most"),
        ];
        let too_much: Vec<String> = too_much
            .into_iter()
            .filter(|(_, requested, used, _)| *requested >= used.saturating_mul(2))
            .map(|(name, requested, used, how)| {
                format!("uses {} {how} and requests {}", Amount(name, used), Amount(name, requested))
            })
            .collect();
        if too_much.is_empty() {
            return None;
        }
        let minutes = self.measured.as_mins();
        Some(format!("{}, as measured for {minutes} minutes: request less", too_much.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{at, seconds, sj};

    fn figures(mean: i64, peak: i64) -> Figures {
        Figures { mean, peak }
    }

    #[test]
    fn a_sample_weighs_the_time_since_the_one_before() {
        let mut meter = Meter::of(&sj("a"), 1);
        meter.add(at(0), 1000, 100);
        assert_eq!(meter.usage.cpu, figures(1000, 1000));
        meter.add(at(45), 200, 300);
        assert_eq!(
            meter.usage,
            AttemptUsage {
                attempt: 1,
                measured: seconds(60),
                cpu: figures(400, 1000),
                memory: figures(250, 300),
            }
        );
        meter.add(at(45), 5000, 5000);
        meter.add(at(30), 5000, 5000);
        assert_eq!(meter.usage.cpu, figures(400, 1000), "what is no newer is no sample");
        // Of a gap of an hour only the last minute is known.
        meter.add(at(3645), 600, 250);
        assert_eq!((meter.usage.measured, meter.usage.cpu), (seconds(120), figures(500, 1000)));
    }

    #[test]
    fn it_is_written_after_a_minute_and_whenever_its_time_has_doubled_or_its_peak_has_grown() {
        let mut sj = sj("a");
        let mut attempt = Attempt::first(sj.spec.as_ref().unwrap().demand.clone(), at(0));
        attempt.start_time = Some(at(0));
        sj.status.attempt = Some(attempt.into());
        let mut meter = Meter::of(&sj, 1);
        let mut written = Vec::new();
        for second in (15..=3600).step_by(15) {
            // Once it works harder.
            let cpu = if second == 1500 { 1300 } else { 1000 };
            meter.add(at(second), cpu, 100);
            if meter.has_news() {
                written.push(second);
                sj.status.usage = Some(meter.usage.into());
                meter.rebase(&mut sj);
            }
        }
        assert_eq!(written, [60, 120, 240, 480, 960, 1500, 3000]);
        // A planner that is started again goes on from there.
        let again = Meter::of(&sj, 1);
        assert_eq!(again.usage.measured, seconds(3000));
        assert!(!again.has_news());
        assert_eq!(Meter::of(&sj, 2).usage.measured, SignedDuration::ZERO, "another attempt");
    }

    #[test]
    fn who_uses_less_than_half_is_told_so() {
        let demand = sj("a").asking(4000).spec.unwrap().demand;
        let attempt = Attempt::first(demand, at(0));
        let requested = attempt.demand.total().memory_bytes;
        let usage = AttemptUsage {
            attempt: 1,
            measured: seconds(1500),
            cpu: figures(1700, 3900),
            memory: figures(requested / 8, requested / 4),
        };
        assert_eq!(
            usage.advice(&attempt).as_deref(),
            Some(
                "uses 1.7 cpu on average and requests 4 cpu; uses 1000 MiB at most and requests 4000 MiB, as measured for \
                 25 minutes: request less"
            )
        );
        let memory = figures(requested / 8, requested * 3 / 4);
        let busy = AttemptUsage { cpu: figures(3000, 3900), memory, ..usage };
        assert_eq!(busy.advice(&attempt), None);
        assert_eq!(
            AttemptUsage { measured: seconds(599), ..usage }.advice(&attempt),
            None,
            "too early to say"
        );
        assert_eq!(AttemptUsage { attempt: 2, ..usage }.advice(&attempt), None, "of another attempt");
    }
}
