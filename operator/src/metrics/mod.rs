//! Metric names and what they count.

mod by_use;
mod forecasts;
mod measured;
mod node_agents;
mod pool;
mod reports;

use std::sync::{Mutex, atomic::AtomicU64};

use jiff::Timestamp;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};
use scavenger_forecast::Results;
use scavenger_planner::{
    Counts,
    action::{Answer, Event, Failure},
    loss::Work,
    report::PoolReport,
    resources::{CPU, PODS, is_in_bytes},
    values::{Attempt, ScavengerJob, ScavengerJobStatus, WaitingReason},
};
use scavenger_program::metrics::{self as program, Process};

use self::{node_agents::NodeAgentMetrics, reports::ReportMetrics};
use crate::observe::progress::Progress;
use by_use::ByUse;
use forecasts::Forecasts;
use measured::RunTime;
use pool::PoolMetrics;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: String,
}

/// Why something ended, and in which namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct End {
    namespace: String,
    reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PhaseLabel {
    phase: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ActionLabels {
    task: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TaskLabel {
    task: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WatchError {
    kind: &'static str,
    code: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResourceLabel {
    resource: String,
}

/// Everything the operator measures.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
    starts: Counter,
    completions: Counter,
    interruptions: Family<End, Counter>,
    withdrawals: Family<End, Counter>,
    failures: Family<End, Counter>,
    start_latency: Histogram,
    launch_duration: Histogram,
    phases: Family<PhaseLabel, Gauge>,
    waiting: Family<Reason, Gauge>,
    oldest_waiting: Gauge<f64, AtomicU64>,
    longest_deletion: Gauge<f64, AtomicU64>,
    starved: Gauge,
    actions: Family<ActionLabels, Counter>,
    action_duration: Family<TaskLabel, Histogram, fn() -> Histogram>,
    plan_duration: Histogram,
    pool: PoolMetrics,
    by_use: ByUse,
    leader: Gauge,
    watch_age: Family<KindLabel, Gauge<f64, AtomicU64>>,
    watch_errors: Family<WatchError, Counter>,
    undecodable: Family<KindLabel, Gauge>,
    process: Process,
    peak_resident_memory: Gauge,
    lost_events: Counter,
    in_flight_expired: Counter,
    view_differences: Counter,
    useful_work: Family<ResourceLabel, Counter<f64, AtomicU64>>,
    lost_work: Family<ResourceLabel, Counter<f64, AtomicU64>>,
    without_checkpoint: Counter,
    /// Of the endpoint for supervisors.
    pub(crate) reports: ReportMetrics,
    /// Of the endpoint for the agents of nodes.
    pub(crate) node_agents: NodeAgentMetrics,
    run_time: RunTime,
    forecasts: Forecasts,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let metrics = Self {
            registry: Mutex::new(Registry::with_prefix("scavenger")),
            starts: Counter::default(),
            completions: Counter::default(),
            interruptions: Family::default(),
            withdrawals: Family::default(),
            failures: Family::default(),
            // 1 s to about 6 days: somebody may queue for as long.
            start_latency: doubling(1.0, 20),
            // 1 s to about 17 minutes: after the pool's `startDeadline` it has failed.
            launch_duration: doubling(1.0, 11),
            phases: Family::default(),
            waiting: Family::default(),
            oldest_waiting: Gauge::default(),
            longest_deletion: Gauge::default(),
            starved: Gauge::default(),
            actions: Family::default(),
            // 1 ms to about 33 s: after 20 s no answer is waited for.
            action_duration: Family::new_with_constructor(|| doubling(1e-3, 16)),
            // 10 µs to about 5 s: the first one, which reckons with everything there is, may take 2 s.
            plan_duration: doubling(1e-5, 20),
            pool: PoolMetrics::default(),
            by_use: ByUse::default(),
            leader: Gauge::default(),
            watch_age: Family::default(),
            watch_errors: Family::default(),
            undecodable: Family::default(),
            process: Process::default(),
            peak_resident_memory: Gauge::default(),
            lost_events: Counter::default(),
            in_flight_expired: Counter::default(),
            view_differences: Counter::default(),
            useful_work: Family::default(),
            lost_work: Family::default(),
            without_checkpoint: Counter::default(),
            reports: ReportMetrics::default(),
            node_agents: NodeAgentMetrics::default(),
            run_time: RunTime::default(),
            forecasts: Forecasts::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&self) {
        let mut registry = self.registry.lock().expect("nobody should panic while holding the registry");
        registry.register("starts", "Attempts whose pods all ran", self.starts.clone());
        registry.register("completions", "ScavengerJobs that succeeded", self.completions.clone());
        registry.register(
            "interruptions",
            "Attempts taken away after a container had started",
            self.interruptions.clone(),
        );
        registry.register(
            "withdrawals",
            "Attempts that ended because not all of their pods could start",
            self.withdrawals.clone(),
        );
        registry.register("failures", "ScavengerJobs that failed", self.failures.clone());
        registry.register_with_unit(
            "start_latency",
            "From a ScavengerJob's creation, or its last interruption, until all pods ran",
            Unit::Seconds,
            self.start_latency.clone(),
        );
        registry.register_with_unit(
            "launch_duration",
            "From the decision to start until all pods ran",
            Unit::Seconds,
            self.launch_duration.clone(),
        );
        registry.register("jobs", "ScavengerJobs by phase", self.phases.clone());
        registry.register("waiting_jobs", "ScavengerJobs that wait, by reason", self.waiting.clone());
        registry.register("actions", "Actions of the operator by task and result", self.actions.clone());
        registry.register_with_unit(
            "action_duration",
            "Until an action was carried out, by task",
            Unit::Seconds,
            self.action_duration.clone(),
        );
        registry.register_with_unit(
            "plan_duration",
            "Duration of one plan",
            Unit::Seconds,
            self.plan_duration.clone(),
        );
        registry.register(
            "leader",
            "1 on the replica that plans and writes, 0 on one that stands by",
            self.leader.clone(),
        );
        registry.register_with_unit(
            "watch_age",
            "Since the API server last sent an event, a bookmark or a part of a list; a quiet watch gets a bookmark about once a minute",
            Unit::Seconds,
            self.watch_age.clone(),
        );
        registry.register(
            "watch_errors",
            "Lists and watches that failed, by kind and HTTP status",
            self.watch_errors.clone(),
        );
        registry.register(
            "undecodable_objects",
            "Objects that cannot be decoded, by kind: nothing is done about them until they are deleted",
            self.undecodable.clone(),
        );
        registry.register_with_unit(
            "peak_resident_memory",
            "The most memory that the whole process had since it began",
            Unit::Bytes,
            self.peak_resident_memory.clone(),
        );
        registry.register(
            "lost_events",
            "Kubernetes events that were not published; the status says what they would have said",
            self.lost_events.clone(),
        );
        registry.register(
            "in_flight_expired",
            "Reservations given back because it was not known for too long whether their start was written",
            self.in_flight_expired.clone(),
        );
        registry.register(
            "view_differences",
            "Times that the operator's view differed from what it is made from, and everything was listed again",
            self.view_differences.clone(),
        );
        let seconds = "core-seconds of cpu, GiB-seconds of memory and storage, unit-seconds of others";
        registry.register(
            "useful_work",
            format!("Requests times the time whose results were kept: {seconds}"),
            self.useful_work.clone(),
        );
        registry.register(
            "lost_work",
            format!("Requests times the time since the last checkpoint, when an attempt ended: {seconds}"),
            self.lost_work.clone(),
        );
        registry.register(
            "attempts_without_checkpoint",
            "Attempts that ran and ended before their first checkpoint",
            self.without_checkpoint.clone(),
        );
        self.pool.register(&mut registry);
        self.by_use.register(&mut registry);
        self.reports.register(&mut registry);
        self.node_agents.register(&mut registry);
        self.run_time.register(&mut registry);
        self.forecasts.register(&mut registry);
        self.register_ages(&mut registry);
        program::register_build(&mut registry, env!("CARGO_PKG_VERSION"));
    }

    fn register_ages(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "oldest_waiting",
            "How long the ScavengerJob that has waited longest has waited for nothing but capacity, of those that can ever fit",
            Unit::Seconds,
            self.oldest_waiting.clone(),
        );
        registry.register_with_unit(
            "longest_deletion",
            "How long the deletion of a ScavengerJob that takes longest is under way",
            Unit::Seconds,
            self.longest_deletion.clone(),
        );
        registry.register(
            "starved_jobs",
            "ScavengerJobs that run and get less than a tenth of the processor time that they could use, as their supervisors report",
            self.starved.clone(),
        );
    }

    /// Takes in a status that was written while its attempt was still known as `before`.
    pub(crate) fn written(&self, before: Option<&Attempt>, sj: &ScavengerJob) {
        self.run_time.written(before, sj);
        let now = sj.status.attempt.as_deref();
        let was_settled = before.is_some_and(Work::is_settled);
        let is_other = before.map(|before| before.number) != now.map(|now| now.number);
        // A counter takes nothing back, so each attempt counts once: when it is measured, or else, by what it promised, when
        // the next one begins.
        if let Some(before) = before.filter(|before| is_other && before.outcome.is_some() && !was_settled) {
            self.ended(sj, before);
        }
        if let Some(now) = now.filter(|now| Work::is_settled(now) && (is_other || !was_settled)) {
            self.ended(sj, now);
        }
    }

    /// Takes in a ScavengerJob that is gone, whose last attempt no status has settled.
    pub(crate) fn gone(&self, sj: &ScavengerJob) {
        self.run_time.written(None, sj);
        if let Some(attempt) = sj.status.attempt.as_deref() {
            self.ended(sj, attempt);
        }
    }

    /// Takes in what an attempt that has ended was good for.
    fn ended(&self, sj: &ScavengerJob, attempt: &Attempt) {
        let Some(work) = Work::of_ended(sj, attempt) else { return };
        for (name, amount) in attempt.demand.total().iter().filter(|(name, _)| *name != PODS) {
            let amount = match name {
                CPU => amount as f64 / 1e3,
                _ if is_in_bytes(name) => amount as f64 / f64::from(1 << 30),
                _ => amount as f64,
            };
            let label = ResourceLabel { resource: name.to_owned() };
            self.useful_work.get_or_create(&label).inc_by(amount * work.useful.as_secs_f64());
            self.lost_work.get_or_create(&label).inc_by(amount * work.lost.as_secs_f64());
        }
        if work.before_first_checkpoint {
            self.without_checkpoint.inc();
        }
    }

    /// Takes in whether this replica leads.
    pub(crate) fn leads(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    /// Takes in how old the watches are.
    pub(crate) fn watches(&self, progress: &Progress) {
        for (watched, age) in progress.ages() {
            self.watch_age.get_or_create(&KindLabel { kind: watched.name() }).set(age.as_secs_f64());
        }
    }

    /// Counts a list or a watch that failed.
    pub(crate) fn watch_failed(&self, kind: &'static str, code: String) {
        self.watch_errors.get_or_create(&WatchError { kind, code }).inc();
    }

    /// Takes in how many objects of a kind cannot be decoded.
    pub(crate) fn undecodable(&self, kind: &'static str, count: usize) {
        self.undecodable.get_or_create(&KindLabel { kind }).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Counts a Kubernetes event that was not published.
    pub(crate) fn lost_event(&self) {
        self.lost_events.inc();
    }

    /// Counts reservations that expired.
    pub(crate) fn expired(&self, reservations: u64) {
        self.in_flight_expired.inc_by(reservations);
    }

    /// Counts a view that had to be made again.
    pub(crate) fn view_differs(&self) {
        self.view_differences.inc();
    }

    /// Counts what became of an action, and how long that took.
    pub(crate) fn action(
        &self,
        task: &'static str,
        answer: &Result<Answer, Failure>,
        took: std::time::Duration,
    ) {
        self.action_duration.get_or_create(&TaskLabel { task }).observe(took.as_secs_f64());
        let result = match answer {
            Ok(_) => "ok",
            Err(Failure::Conflict) => "conflict",
            Err(Failure::Gone) => "gone",
            Err(Failure::NameTaken(_)) => "name_taken",
            Err(Failure::Refused(_)) => "refused",
            Err(Failure::QuotaExceeded(_)) => "quota_exceeded",
            Err(Failure::Transient(_)) => "error",
        };
        self.actions.get_or_create(&ActionLabels { task, result }).inc();
    }

    /// Counts an attempt whose pods all run, of a ScavengerJob that was created at `creation`, once its status was written.
    pub(crate) fn started(&self, creation: Timestamp, status: &ScavengerJobStatus) {
        self.starts.inc();
        let attempt = status.attempt.as_ref();
        if let Some((decision, start)) = attempt.and_then(|a| Some((a.creation_time, a.start_time?))) {
            let waited_since = status.interruption_times.last().copied().unwrap_or(creation);
            self.start_latency.observe(seconds_between(waited_since, start));
            self.launch_duration.observe(seconds_between(decision, start));
        }
    }

    /// Counts an event in the life of a ScavengerJob, once its status was written.
    pub(crate) fn event(&self, event: Event, namespace: &str, status: &ScavengerJobStatus) {
        let end = |reason| End { namespace: namespace.to_owned(), reason };
        let reason = || {
            let reason =
                status.attempt.as_ref().and_then(|attempt| attempt.reason.as_ref()).map(ToString::to_string);
            end(reason.unwrap_or_default())
        };
        match event {
            // Counted when its pods run: see `started`.
            Event::Started => {}
            Event::Interrupted => {
                self.interruptions.get_or_create(&reason()).inc();
            }
            Event::Withdrawn => {
                self.withdrawals.get_or_create(&reason()).inc();
            }
            Event::Completed => {
                self.completions.inc();
            }
            Event::Failed => {
                let reason = status.failure.as_ref().map(ToString::to_string).unwrap_or_default();
                self.failures.get_or_create(&end(reason)).inc();
            }
        }
    }

    /// Takes in how long a plan took.
    pub(crate) fn planned(&self, duration: std::time::Duration) {
        self.plan_duration.observe(duration.as_secs_f64());
    }

    /// Takes in how many ScavengerJobs are where.
    fn counts(&self, counts: &Counts) {
        for (phase, count) in &counts.phases {
            let label = PhaseLabel { phase: phase.name() };
            self.phases.get_or_create(&label).set(i64::try_from(*count).unwrap_or(i64::MAX));
        }
        for reason in WaitingReason::ALL {
            let count = counts.waiting.get(&reason).copied().unwrap_or(0);
            let label = Reason { reason: reason.name().to_owned() };
            self.waiting.get_or_create(&label).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// Takes in how many ScavengerJobs are where, what the pool has, and how much of it is used.
    pub(crate) fn pool(&self, pool: &PoolReport<'_>, now: Timestamp) {
        self.counts(pool.counts);
        let age = |since: Option<Timestamp>| since.map_or(0.0, |since| seconds_between(since, now));
        self.oldest_waiting.set(age(pool.oldest_ready));
        self.longest_deletion.set(age(pool.longest_deletion));
        self.starved.set(i64::try_from(pool.starved).unwrap_or(i64::MAX));
        self.pool.set(pool);
        self.by_use.set(pool.usage.as_ref());
        self.node_agents.nodes(&pool.nodes);
    }

    /// Takes in how many forecasts came to what.
    pub(crate) fn forecasts(&self, results: Results) {
        self.forecasts.set(results);
    }

    /// Everything in OpenMetrics text.
    pub(crate) fn render(&self) -> Result<String, std::fmt::Error> {
        self.peak_resident_memory.set(program::resident_memory().peak);
        let registry = self.registry.lock().expect("nobody should panic while holding the registry");
        program::text(&registry, &self.process)
    }
}

/// A histogram with this many limits, each twice the one before.
fn doubling(first: f64, limits: i32) -> Histogram {
    Histogram::new((0..limits).map(|power| first * 2_f64.powi(power)))
}

/// Clocks differ, so the end may seem to lie before the beginning.
fn seconds_between(begin: Timestamp, end: Timestamp) -> f64 {
    end.duration_since(begin).as_secs_f64().max(0.0)
}

#[cfg(test)]
mod tests;
