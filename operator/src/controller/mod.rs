//! The loop: what is seen goes into the planner, its actions go out to the executor, their results come back in.
//!
//! One task owns the planner, so no lock is ever held. Nothing in here waits for a single ScavengerJob: actions run
//! beside the loop, and their answers arrive as messages.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Client, api::PostParams};
use scavenger_planner::{
    Planner,
    action::{ActionResult, Line},
    check,
    values::{Key, LiveReport, Name, Observation},
};
use scavenger_program::objects::Objects;
use scavenger_schema::{
    names,
    scavenger_pool::{ScavengerPool, ScavengerPoolStatus},
    terminal::shown,
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};
use tracing::{debug, info, warn};

use crate::{
    execute::Executor,
    forecast::Forecasts,
    leader::Leadership,
    manifest,
    metrics::Metrics,
    node_use::{Memory, Store},
    observe::{self, Reporting, Watched, progress::Progress},
    pool,
    reports::{Link, Nodes, Report},
};

/// Messages that may wait for the loop. A watch that is faster than the loop waits; nothing is dropped.
const CHANNEL: usize = 4096;

/// Checkpoints whose times are closer are one that was reported again: its age is measured each time.
const ANOTHER: SignedDuration = SignedDuration::from_millis(500);

/// Messages taken in before the next plan, so that a burst is planned once and a stream still gets its plans.
const BATCH: usize = 1000;

/// How often the pool's status is written at most.
const POOL_STATUS_EVERY: Duration = Duration::from_secs(5);

/// How often at least, so that who reads it can tell a cluster in which nothing changes from one without an operator.
const POOL_STATUS_AT_LEAST_EVERY: Duration = Duration::from_secs(60);

/// How often sums that are kept up change by change are compared with what they are made from. With 100,000
/// ScavengerJobs that should take about a tenth of a second.
const CHECK_EVERY: Duration = Duration::from_secs(600);

/// How long a graceful stop waits for actions that are under way.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// How long a graceful stop then publishes the events that wait. Together with the rest it ends well before the pod's grace
/// period of 30 s does.
const EVENTS_GRACE: Duration = Duration::from_secs(5);

/// What the loop takes in.
#[derive(Debug)]
pub(crate) enum Message {
    /// A watch saw something.
    Seen(Observation),
    /// A watch begins to list everything: until the list is complete, the order of what it shows means nothing.
    Listing(Watched),
    /// A watch has delivered a full list.
    Listed(Watched),
    /// A kind may not be listed or watched.
    Forbidden(Watched),
    /// A watch ended, which it never should.
    WatchEnded(Watched),
    /// An object has a version that is no number.
    Unordered(Watched, String),
}

/// What health checks may ask.
#[derive(Debug, Default)]
pub(crate) struct Health {
    ready: AtomicBool,
    /// Second of the loop's last turn.
    last_turn: AtomicI64,
    /// When each watch was last heard of.
    pub(crate) progress: Arc<Progress>,
}

impl Health {
    /// True while this replica stands by and could lead, or leads and every watch has delivered its first list.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    /// True if it was ready before.
    fn set_ready(&self, ready: bool) -> bool {
        self.ready.swap(ready, Ordering::Relaxed)
    }

    /// Seconds since the loop last turned; it turns at least every 5 s.
    pub(crate) fn idle_seconds(&self, now: Timestamp) -> i64 {
        now.as_second() - self.last_turn.load(Ordering::Relaxed)
    }
}

/// Why the loop ended although nobody asked it to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControllerError {
    #[error("the watch of {0} ended; the view would grow stale unseen")]
    WatchEnded(&'static str),
    #[error(
        "resourceVersion {1:?} of {0} is not a number; the operator needs an API server whose versions say what is newer \
         (Kubernetes on etcd, or 1.35 and newer)"
    )]
    Unordered(&'static str, String),
    #[error("the Lease could not be renewed in time: another replica may lead by now")]
    LeadershipLost,
}

/// What one term of watching has shown: the planner, and the watches that feed it.
struct View {
    planner: Planner,
    messages: mpsc::Receiver<Message>,
    /// Kinds that have no complete list yet.
    unlisted: BTreeSet<Watched>,
    /// What the agents of nodes are told.
    nodes: Nodes,
    _watches: JoinSet<()>,
}

impl View {
    fn start(client: &Client, reporting: &Reporting, link: &Link) -> Self {
        link.begin();
        let (sender, messages) = mpsc::channel(CHANNEL);
        let watches = observe::start(client, &sender, reporting);
        let (unlisted, nodes) = (Watched::ALL.into(), link.nodes.clone());
        Self { planner: Planner::default(), messages, unlisted, nodes, _watches: watches }
    }

    /// True if enough is known to plan: all, but for kinds that are not vital and cannot be listed or watched.
    fn can_plan(&mut self, failing: &[Watched]) -> bool {
        let is_missing = |watched: &Watched| watched.is_vital() || !failing.contains(watched);
        let can_plan = !self.unlisted.iter().any(is_missing);
        if can_plan {
            for observation in Watched::ALL.iter().filter_map(|kind| kind.known(!failing.contains(kind))) {
                self.planner.observe(observation, now());
            }
        }
        can_plan
    }

    /// Takes in a message and those that arrived with it.
    fn take_in(&mut self, message: Message) -> Result<(), ControllerError> {
        let mut next = Some(message);
        for _ in 0..BATCH {
            let Some(message) = next else { break };
            match message {
                Message::Seen(observation) => {
                    let now = now();
                    self.nodes.see(&observation, now);
                    self.planner.observe(observation, now);
                }
                // While it lists again, what was known of a kind that is not vital is good enough.
                Message::Listing(watched) if !watched.is_vital() => {}
                // The rights may come, and it is looked at for how long it fails.
                Message::Forbidden(_) => {}
                Message::Listing(watched) => {
                    self.unlisted.insert(watched);
                }
                Message::Listed(watched) => {
                    if self.unlisted.remove(&watched) {
                        debug!(kind = watched.name(), "list is complete");
                    }
                }
                Message::WatchEnded(watched) => return Err(ControllerError::WatchEnded(watched.name())),
                Message::Unordered(watched, version) => {
                    return Err(ControllerError::Unordered(watched.name(), version));
                }
            }
            next = self.messages.try_recv().ok();
        }
        Ok(())
    }
}

impl View {
    /// Takes in on which nodes an agent is live, if that has changed.
    fn see_agents(&mut self) {
        if let Some(nodes) = self.nodes.agents(tokio::time::Instant::now()) {
            self.planner.observe(Observation::NodeAgents(nodes), now());
        }
    }

    /// Takes in what a supervisor said. A pod that is not seen yet reports again.
    fn hear(&mut self, report: Report, metrics: &Metrics) {
        let Report { namespace, pod, pod_uid, checkpoint, progress, cpu, received, .. } = report;
        let (pod, uid) = (Key::new(namespace.clone(), pod), Name::from(pod_uid));
        let before = self.planner.checkpoint_of(&pod, &uid);
        let report = LiveReport { pod: pod.clone(), uid: uid.clone(), checkpoint, progress, cpu };
        self.planner.observe(Observation::Report(report), received);
        if let Some(known) = self.planner.checkpoint_of(&pod, &uid)
            && before.is_none_or(|before| known.duration_since(before) >= ANOTHER)
        {
            metrics.reports.checkpoint(namespace);
        }
    }
}

/// The operator's loop.
pub(crate) struct Controller {
    pub(crate) client: Client,
    /// Client that sends each request once, and returns a 429 like any other answer.
    pub(crate) once: Client,
    /// Client of the watches, whose answers are listened to. It sends each request once, too: a watcher has its own
    /// back-off, and an error that is held back is not seen.
    pub(crate) watching: Client,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) health: Arc<Health>,
    /// Actions that run at the same time.
    pub(crate) concurrency: usize,
    /// What the supervisors in pods say.
    pub(crate) reports: Link,
    /// Namespace of the operator.
    pub(crate) namespace: String,
    /// What the operator's own settings add to the Jobs of attempts.
    pub(crate) manifests: manifest::Settings,
}

impl Controller {
    /// Runs until `stop` ends, then waits for actions under way. A replica that stands by watches nothing: what it saw
    /// could not be trusted when it takes over, and would cost the API server as much as the leader does.
    pub(crate) async fn run(
        mut self,
        mut leadership: watch::Receiver<Leadership>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), ControllerError> {
        let executor = Arc::new(Executor::new(
            self.client.clone(),
            self.once.clone(),
            leadership.clone(),
            Arc::clone(&self.metrics),
            self.manifests.clone(),
        ));
        let store = Store::new(&self.client, &self.namespace);
        let reporting = Reporting {
            node_use: Some(store.clone()),
            progress: Arc::clone(&self.health.progress),
            metrics: Arc::clone(&self.metrics),
        };
        let mut memory = Memory::new(store);
        let mut failing = Vec::new();
        let mut line = Line::default();
        let mut under_way: JoinSet<ActionResult> = JoinSet::new();
        let mut view: Option<View> = None;
        let mut pool_status = PoolStatus::new(self.client.clone(), Arc::clone(&executor.forecasts));
        let mut wake_at: Option<Timestamp> = None;
        let mut checked = Instant::now();
        tokio::pin!(stop);

        loop {
            self.health.last_turn.store(now().as_second(), Ordering::Relaxed);
            tokio::select! {
                // Woken; what it is now is looked at below.
                changed = leadership.changed() => if changed.is_err() {
                    return Err(ControllerError::LeadershipLost);
                },
                () = &mut stop => break,
                Some(message) = next_message(&mut view) => if let Some(view) = &mut view {
                    view.take_in(message)?;
                },
                Some(result) = under_way.join_next() => if let Some(view) = &mut view {
                    take_in(&mut view.planner, result);
                    while let Some(result) = under_way.try_join_next() {
                        take_in(&mut view.planner, result);
                    }
                },
                Some(report) = self.reports.reports.recv() => if let Some(view) = &mut view {
                    view.hear(report, &self.metrics);
                },
                Some(kill) = self.reports.kills.recv() => if let Some(view) = &mut view {
                    view.planner.observe(Observation::Kill(kill), now());
                },
                () = tokio::time::sleep(until(wake_at)) => {}
            }
            // Looked at in every turn: a leader that has lost the Lease must not plan one thing more.
            let leadership = *leadership.borrow();
            match leadership {
                Leadership::Unknown | Leadership::Standby => {
                    self.health.set_ready(leadership == Leadership::Standby);
                    continue;
                }
                // It was frozen: the election has not said so yet.
                Leadership::Leader { .. } if !leadership.holds(tokio::time::Instant::now()) => {
                    return Err(ControllerError::LeadershipLost);
                }
                Leadership::Leader { .. } => {}
                Leadership::Lost => return Err(ControllerError::LeadershipLost),
            }
            let view = view.get_or_insert_with(|| {
                // Lists that begin now have what the leader before wrote last, and with it all capacity that was given
                // away.
                self.health.progress.begin();
                self.health.set_ready(false);
                self.metrics.leads(true);
                View::start(&self.watching, &reporting, &self.reports)
            });
            let is_blind = self.is_blind(&mut failing);
            if is_blind || !view.can_plan(&failing) {
                // The next message wakes the loop; a timer that is due could not be served.
                wake_at = None;
                continue;
            }
            if !self.health.set_ready(true) {
                info!("every watch has delivered its list");
            }
            view.see_agents();
            let began = Instant::now();
            let plan = view.planner.plan(now());
            self.metrics.planned(began.elapsed());
            self.metrics.expired(plan.report.expired);
            if checked.elapsed() >= CHECK_EVERY {
                checked = Instant::now();
                if let Err(difference) = check::kept_up(&view.planner) {
                    warn!(
                        difference,
                        "the view differs from what it is made from; everything is listed again"
                    );
                    self.metrics.view_differs();
                    // As after a restart: what was planned in the old view is not begun, and what is under way is cut
                    // off, so that no answer of it is taken for one to the new view.
                    (line, under_way) = (Line::default(), JoinSet::new());
                    *view = View::start(&self.watching, &reporting, &self.reports);
                    wake_at = None;
                    continue;
                }
            }
            wake_at = plan.wake_at;
            for action in plan.actions {
                line.join(action);
            }
            while under_way.len() < self.concurrency
                && let Some(action) = line.take()
            {
                let executor = Arc::clone(&executor);
                under_way.spawn(async move { executor.execute(action).await });
            }
            executor.set_busy(line.waits());
            self.reports.serve(&view.planner.supervised_namespaces());
            self.reports.requests.ask(view.planner.asked_for_checkpoint());
            self.reports.nodes.publish(now());
            pool_status.offer(&view.planner, &self.metrics);
            memory.offer(&view.planner);
        }
        info!(under_way = under_way.len(), "stopping: nothing new is planned");
        let finish = async { while under_way.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_GRACE, finish).await.is_err() {
            warn!("stopped before every action was answered; the next start finds what became of them");
        }
        executor.finish(EVENTS_GRACE).await;
        // Only what a planner knows that has seen everything is worth more than what is written down already.
        if let Some(view) = view.filter(|_| self.health.is_ready() && leads(*leadership.borrow())) {
            Box::pin(memory.finish(&view.planner)).await;
        }
        Ok(())
    }
}

impl Controller {
    /// True while there were only errors for too long on some watch: others may have taken the capacity that it last
    /// showed, and pods that it last showed may have ended. `failing` is what was said about it last.
    fn is_blind(&self, failing: &mut Vec<Watched>) -> bool {
        let now_failing = self.health.progress.failing();
        let is_blind = now_failing.iter().any(|watched| watched.is_vital());
        if now_failing != *failing {
            let kinds: Vec<&str> = now_failing.iter().map(|watched| watched.name()).collect();
            let kinds = kinds.join(", ");
            if is_blind {
                warn!(kinds, "nothing is planned: watches have only failed for a while");
            } else if now_failing.is_empty() {
                info!("every watch works again");
            } else {
                warn!(
                    kinds,
                    "watches have only failed for a while; planning goes on with what was known last"
                );
            }
            *failing = now_failing;
        }
        if is_blind {
            self.health.set_ready(false);
        }
        is_blind
    }
}

/// True if this replica leads, and the Lease is still its own.
fn leads(leadership: Leadership) -> bool {
    matches!(leadership, Leadership::Leader { .. }) && leadership.holds(tokio::time::Instant::now())
}

fn take_in(planner: &mut Planner, result: Result<ActionResult, tokio::task::JoinError>) {
    match result {
        Ok(result) => {
            let time = result.time;
            planner.observe(Observation::Done(result), time);
        }
        // A task that panicked never answers, and its ScavengerJob would wait forever: better to start again.
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => {}
    }
}

/// The next message of the watches; a replica that stands by has none.
async fn next_message(view: &mut Option<View>) -> Option<Message> {
    match view {
        Some(view) => view.messages.recv().await,
        None => std::future::pending().await,
    }
}

/// How long to sleep if nothing is seen; at most a few seconds, so that health and pool status stay fresh.
fn until(wake_at: Option<Timestamp>) -> Duration {
    let Some(wake_at) = wake_at else { return POOL_STATUS_EVERY };
    let milliseconds = wake_at.as_millisecond().saturating_sub(now().as_millisecond());
    // Stamps have microseconds: one more millisecond, or a timer could fire just before it is due.
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0) + 1).min(POOL_STATUS_EVERY)
}

/// Writes the pool's status when it changed, at most every [`POOL_STATUS_EVERY`], and every
/// [`POOL_STATUS_AT_LEAST_EVERY`] when it did not.
struct PoolStatus {
    client: Client,
    forecasts: Arc<Forecasts>,
    written: Option<(ScavengerPoolStatus, Instant)>,
    last: Option<Instant>,
    under_way: Option<tokio::task::JoinHandle<bool>>,
}

impl PoolStatus {
    fn new(client: Client, forecasts: Arc<Forecasts>) -> Self {
        Self { client, forecasts, written: None, last: None, under_way: None }
    }

    fn offer(&mut self, planner: &Planner, metrics: &Metrics) {
        self.forecasts.look(planner, now());
        if self.last.is_some_and(|last| last.elapsed() < POOL_STATUS_EVERY) {
            return;
        }
        if let Some(task) = self.under_way.take() {
            if !task.is_finished() {
                self.under_way = Some(task);
                return;
            }
            if !futures::FutureExt::now_or_never(task).is_some_and(|written| written.unwrap_or(false)) {
                self.written = None;
            }
        }
        self.last = Some(Instant::now());
        let now = now();
        let pool = planner.pool_report(now);
        metrics.pool(&pool, now);
        metrics.forecasts(self.forecasts.results());
        let mut status = pool::status(&pool, now);
        // Of the spec by which the planner plans, whatever stands in the API server by now.
        status.observed_generation = planner.settings().ok().map(|settings| settings.generation);
        for new in &mut status.conditions {
            let written = self.written.iter().flat_map(|(old, _)| &old.conditions);
            if let Some(old) =
                written.into_iter().find(|old| old.type_ == new.type_ && old.status == new.status)
            {
                new.last_transition_time = old.last_transition_time.clone();
            }
        }
        // Somebody's deletion may wait until it is written down what was used.
        let is_awaited = pool.shares.as_ref().is_some_and(|shares| shares.is_awaited);
        let is_told = |(told, at): &(ScavengerPoolStatus, Instant)| {
            !is_awaited
                && pool::without_counts(told) == pool::without_counts(&status)
                && at.elapsed() < POOL_STATUS_AT_LEAST_EVERY
        };
        if self.written.as_ref().is_some_and(is_told) {
            return;
        }
        self.written = Some((status.clone(), Instant::now()));
        status.update_time = Some(Time(now));
        let pools: Objects<ScavengerPool> = Objects::all(self.client.clone());
        let forecasts = Arc::clone(&self.forecasts);
        self.under_way = Some(tokio::spawn(async move { write(&pools, status, &forecasts).await }));
    }
}

/// Writes a pool status; false if it was not written.
async fn write(
    pools: &Objects<ScavengerPool>,
    mut new_status: ScavengerPoolStatus,
    forecasts: &Forecasts,
) -> bool {
    let mut pool = match pools.get_opt(names::DEFAULT_POOL).await {
        Ok(Some(pool)) => pool,
        Ok(None) => return false,
        Err(error) => {
            warn!(error = shown(&error.to_string()), "the pool could not be read");
            return false;
        }
    };
    // What the leader before this one had learnt is read before it is written over.
    forecasts.recall(pool.status.as_ref().and_then(|status| status.forecast.as_ref()));
    new_status.forecast = Some(forecasts.status());
    pool.status = Some(new_status);
    // With the version that was read: if the pool changed since, the status is written at the next turn.
    match pools.replace_status(names::DEFAULT_POOL, &PostParams::default(), &pool).await {
        Ok(_) => true,
        Err(error) => {
            warn!(error = shown(&error.to_string()), "the pool's status was not written");
            false
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the edge: the one clock of the loop")]
fn now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests;
