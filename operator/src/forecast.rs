//! When those that wait will start: what starts have taught, and the forecast of each.
//!
//! The loop looks at the queue once a minute. The executor says which start, and asks for a forecast when it writes a
//! status that is written anyway: nothing is written for the sake of a forecast. What was learnt stands in the pool's status, which
//! is written each minute, and the next leader goes on from there.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use scavenger_forecast::{Class, Forecast, Forecaster, Kind, Results, Waiting};
use scavenger_planner::{
    Planner,
    resources::{Resources, is_in_bytes},
    values::{Demand, Key, Phase, ScavengerJobStatus, WaitingReason},
};
use scavenger_schema::{scavenger_job::ExpectedStart, scavenger_pool::ForecastStatus};
use tokio::time::Instant;

/// How often the queue is looked at: it is sorted for that.
const EVERY: Duration = Duration::from_secs(60);

/// So many seconds after it left the queue a ScavengerJob counts as one that waited: while it starts, it is in no queue.
const STARTS_WITHIN: i64 = 3600;

/// Shared by the loop and the executor.
#[derive(Debug, Default)]
pub(crate) struct Forecasts(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    forecaster: Forecaster,
    /// True once it was looked up what the leader before this one had learnt.
    recalled: bool,
    looked: Option<Instant>,
    /// Second of the last look.
    looked_at: i64,
    /// What the nodes of the pool have.
    pool: Resources,
    /// The ScavengerJobs in the queue as of the last look, and those that left it lately.
    queue: HashMap<Key, Known>,
    /// How many of each class never ran.
    of_class: BTreeMap<Class, u32>,
}

/// A ScavengerJob that waits.
#[derive(Debug, Clone, Copy)]
struct Known {
    waiting: Waiting,
    forecast: Forecast,
    /// Second of the last look at which it was in the queue.
    looked: i64,
}

/// The same number for the same ScavengerJob under every leader (FNV-1a).
fn id(key: &Key) -> u64 {
    let bytes = key.namespace.bytes().chain([b'/']).chain(key.name.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The class of a demand, in the cores of this pool.
fn class(demand: &Demand, pool: &Resources) -> Class {
    let total = demand.total();
    let has_devices = total.other.iter().any(|(name, amount)| *amount > 0 && !is_in_bytes(name));
    let asked = (total.cpu_milli, total.memory_bytes);
    let kind = Kind::of(demand.pod_count, has_devices);
    Class::of_demand(kind, asked, (pool.cpu_milli, pool.memory_bytes))
}

/// True if who waits for this waits for capacity, or only for some time: then starts before say something about its own.
pub(crate) fn is_foreseeable(reason: WaitingReason) -> bool {
    use WaitingReason::{BackingOff, BehindInQueue, NoCapacity, Unscheduled};
    matches!(reason, NoCapacity | Unscheduled | BehindInQueue | BackingOff)
}

fn waits_for_capacity(status: &ScavengerJobStatus) -> bool {
    let waiting = status.admitted.as_ref().and_then(|admitted| admitted.waiting.as_ref());
    matches!(status.phase, Phase::Waiting | Phase::Interrupted)
        && waiting.is_none_or(|waiting| is_foreseeable(waiting.reason))
}

impl Forecasts {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().expect("nobody should panic while holding what was learnt")
    }

    /// Takes in who waits, if that was not done for a minute.
    pub(crate) fn look(&self, planner: &Planner, now: Timestamp) {
        let mut state = self.state();
        if state.looked.is_some_and(|looked| looked.elapsed() < EVERY) {
            return;
        }
        state.looked = Some(Instant::now());
        state.take_in(planner, now);
    }

    /// All pods of a ScavengerJob run.
    fn started(&self, key: &Key, now: Timestamp) {
        let mut state = self.state();
        // Who was not there at the last look did not wait.
        if let Some(Known { waiting, .. }) = state.queue.remove(key) {
            state.forecaster.observe_start(now.as_second(), &waiting);
        }
    }

    /// The status of a ScavengerJob was written.
    pub(crate) fn written(
        &self,
        key: &Key,
        status: &ScavengerJobStatus,
        begins_to_run: bool,
        now: Timestamp,
    ) {
        let is_under_way = matches!(status.phase, Phase::Starting | Phase::Running);
        if begins_to_run {
            self.started(key, now);
        } else if !is_under_way && !waits_for_capacity(status) {
            self.gone(key);
        }
    }

    /// A ScavengerJob is gone, has ended, or waits for something else than capacity.
    pub(crate) fn gone(&self, key: &Key) {
        let mut state = self.state();
        state.queue.remove(key);
        state.forecaster.observe_gone(id(key));
    }

    /// When a ScavengerJob will start whose status is being written; none unless it waits for capacity.
    pub(crate) fn expected_start(
        &self,
        key: &Key,
        status: &ScavengerJobStatus,
        demand: impl FnOnce() -> Option<Arc<Demand>>,
        now: Timestamp,
    ) -> Option<ExpectedStart> {
        if !waits_for_capacity(status) {
            return None;
        }
        let state = self.state();
        let forecast = match state.queue.get(key) {
            Some(known) if known.looked == state.looked_at => known.forecast,
            _ => {
                let demand = demand()?;
                state.newcomer(key, &demand, status, now)
            }
        };
        let Forecast::Between { from, to, .. } = forecast else { return None };
        let time = |second: i64| Timestamp::from_second(second.max(now.as_second())).ok().map(Time);
        Some(ExpectedStart { earliest: time(from)?, latest: time(to)?, forecast_time: Time(now) })
    }

    /// Goes on from what the leader before this one had learnt; the first time only.
    pub(crate) fn recall(&self, known: Option<&ForecastStatus>) {
        let mut state = self.state();
        if !std::mem::replace(&mut state.recalled, true)
            && let Some(forecaster) = known.and_then(|known| Forecaster::recall(known.learnt.as_deref()?))
        {
            state.forecaster = forecaster;
        }
    }

    /// What the pool's status says.
    pub(crate) fn status(&self) -> ForecastStatus {
        let state = self.state();
        let rounded = |coverage: f64| (coverage * 1e2).round() / 1e2;
        ForecastStatus {
            starts_seen: state.forecaster.starts_seen().into(),
            coverage: state.forecaster.coverage().map(rounded),
            learnt: Some(state.forecaster.remember()),
        }
    }

    /// How many forecasts came to what.
    pub(crate) fn results(&self) -> Results {
        self.state().forecaster.results()
    }
}

impl State {
    fn take_in(&mut self, planner: &Planner, now: Timestamp) {
        self.pool = planner.pool_report(now).allocatable.clone();
        let entries = planner.queue();
        let waiting: Vec<Waiting> = entries
            .iter()
            .map(|entry| Waiting {
                id: id(&entry.sj),
                class: class(entry.demand, &self.pool),
                interrupted: entry.interruptions > 0,
            })
            .collect();
        self.forecaster.observe_waiting(now.as_second(), &waiting);
        let forecasts = self.forecaster.forecasts(now.as_second(), &waiting);
        self.of_class.clear();
        for one in waiting.iter().filter(|one| !one.interrupted) {
            *self.of_class.entry(one.class).or_default() += 1;
        }
        self.queue.retain(|_, known| now.as_second() - known.looked < STARTS_WITHIN);
        self.looked_at = now.as_second();
        let known = waiting.into_iter().zip(forecasts).map(|(waiting, forecast)| Known {
            waiting,
            forecast,
            looked: now.as_second(),
        });
        self.queue.extend(entries.into_iter().map(|entry| entry.sj).zip(known));
    }

    /// The forecast for one that was not there at the last look: behind all of its class that never ran, or the first of those that
    /// were interrupted.
    fn newcomer(&self, key: &Key, demand: &Demand, status: &ScavengerJobStatus, now: Timestamp) -> Forecast {
        let class = class(demand, &self.pool);
        let interrupted = status.counted_interruptions > 0;
        let before = if interrupted { 0 } else { self.of_class.get(&class).copied().unwrap_or(0) };
        let begin = status.not_before.filter(|time| *time > now).unwrap_or(now);
        self.forecaster.forecast(begin.as_second(), &Waiting { id: id(key), class, interrupted }, before)
    }
}

#[cfg(test)]
mod tests {
    use scavenger_planner::{
        fixtures::{at, key, node, pod, settings, sj},
        values::{Admitted, Observation, ScavengerJob, Waiting as Why},
    };

    use super::*;

    /// A pool whose only node is full, and these ScavengerJobs.
    fn planner(waiting: &[ScavengerJob]) -> Planner {
        let mut planner = Planner::default();
        planner.observe(Observation::Node(node("n1", 4000)), at(0));
        planner.observe(Observation::Pool(Box::new(Ok(settings()))), at(0));
        planner.observe(Observation::Pod(Box::new(pod("full", 3900).on("n1").running())), at(0));
        for sj in waiting {
            planner.observe(Observation::ScavengerJob(Box::new(sj.clone())), at(0));
        }
        planner.plan(at(0));
        planner
    }

    fn names(count: usize) -> Vec<ScavengerJob> {
        (0..count).map(|number| sj(&format!("j{number:03}"))).collect()
    }

    fn waits_for(reason: WaitingReason) -> ScavengerJobStatus {
        let waiting = Some(Why { reason, message: String::new() });
        ScavengerJobStatus {
            admitted: Some(Admitted { waiting, since: at(0) }),
            ..ScavengerJobStatus::default()
        }
    }

    /// One that has seen one of them start in each of so many ten minutes.
    fn taught(sjs: &[ScavengerJob], starts: usize) -> Forecasts {
        let forecasts = Forecasts::default();
        for started in 0..starts {
            let now = at(600 * i64::try_from(started).unwrap());
            forecasts.state().take_in(&planner(&sjs[started..]), now);
            forecasts.written(&sjs[started].key, &ScavengerJobStatus::default(), true, now + 599 * SECOND);
        }
        forecasts
    }

    const SECOND: jiff::SignedDuration = jiff::SignedDuration::from_secs(1);

    fn expected(
        forecasts: &Forecasts,
        sj: &ScavengerJob,
        status: &ScavengerJobStatus,
    ) -> Option<ExpectedStart> {
        let demand = || sj.spec.as_ref().ok().map(|spec| spec.demand.clone());
        forecasts.expected_start(&sj.key, status, demand, at(600 * 40))
    }

    #[test]
    fn a_forecast_stands_beside_why_it_waits_once_30_starts_were_seen() {
        let sjs = names(60);
        let behind = waits_for(WaitingReason::BehindInQueue);
        let few = taught(&sjs, 29);
        assert_eq!(expected(&few, &sjs[50], &behind), None);
        assert_eq!(few.status().starts_seen, 29);
        let forecasts = taught(&sjs, 40);
        forecasts.state().take_in(&planner(&sjs[40..]), at(600 * 40));
        let [first, last] = [40, 59].map(|place| expected(&forecasts, &sjs[place], &behind).unwrap());
        assert!(first.earliest <= first.latest && first.latest < last.latest, "{first:?} {last:?}");
        // A newcomer comes behind all of its class.
        let newcomer = expected(&forecasts, &sj("new"), &ScavengerJobStatus::default()).unwrap();
        assert!(newcomer.latest >= last.latest, "{newcomer:?} {last:?}");
        for reason in [WaitingReason::Suspended, WaitingReason::QuotaExceeded, WaitingReason::NeverFits] {
            assert_eq!(expected(&forecasts, &sjs[50], &waits_for(reason)), None, "{reason:?}");
        }
        let runs = ScavengerJobStatus { phase: Phase::Running, ..behind };
        assert_eq!(expected(&forecasts, &sjs[50], &runs), None);
    }

    #[test]
    fn the_next_leader_goes_on_from_what_was_learnt_and_only_once() {
        let sjs = names(60);
        let known = taught(&sjs, 40).status();
        let next = Forecasts::default();
        next.recall(Some(&known));
        assert_eq!(next.status(), known);
        next.recall(Some(&taught(&sjs, 30).status()));
        assert_eq!(next.status().starts_seen, 40, "what it has learnt itself by then is newer");
        let unreadable = ForecastStatus { learnt: Some("?".to_owned()), ..known };
        let learns_again = Forecasts::default();
        learns_again.recall(Some(&unreadable));
        assert_eq!(learns_again.status().starts_seen, 0);
    }

    #[test]
    fn who_was_not_in_the_queue_did_not_wait() {
        let forecasts = Forecasts::default();
        forecasts.written(&key("at-once"), &ScavengerJobStatus::default(), true, at(1));
        assert_eq!(forecasts.status().starts_seen, 0);
        let sjs = names(1);
        forecasts.state().take_in(&planner(&sjs), at(2));
        forecasts.written(&sjs[0].key, &waits_for(WaitingReason::Suspended), false, at(3));
        forecasts.written(&sjs[0].key, &ScavengerJobStatus::default(), true, at(4));
        assert_eq!(forecasts.status().starts_seen, 0, "it waited for somebody to resume it");
    }

    #[test]
    fn the_class_goes_by_what_is_scarcest() {
        let pool = Resources { cpu_milli: 100_000, memory_bytes: 400 << 30, ..Resources::default() };
        let of = |cpu_milli, gib: i64, pod_count| {
            let per_pod = Resources { cpu_milli, memory_bytes: gib << 30, pods: 1, ..Resources::default() };
            let demand = Demand { per_pod, pod_count, ..(*sj("x").spec.unwrap().demand).clone() };
            class(&demand, &pool).name()
        };
        assert_eq!(of(1000, 4, 1), "1 pod up to 1 cpu");
        assert_eq!(of(1000, 16, 1), "1 pod up to 4 cpu");
        assert_eq!(of(1000, 4, 4), "several pods up to 4 cpu");
    }
}
