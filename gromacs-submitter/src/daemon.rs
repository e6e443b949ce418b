//! Many rows at once: claims what is due, and sleeps until something happens.
//!
//! What wakes it: an inserted row or a request (LISTEN), a changed ScavengerJob (watch), a row that is due (timer),
//! a row that is done. A slow poll heals what these miss.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use tokio::sync::{Notify, mpsc};
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::MissedTickBehavior;

use crate::store::{Claim, ClaimOptions, StoreError};
use crate::worker::{Turn, Worker};

/// The loop turns at least this often.
const SLOWEST_TURN: Duration = Duration::from_secs(10);

/// Turns that others ask for are so far apart: any role that may connect to the database may send as many notifications as it
/// likes, and each turn claims.
const SHORTEST_TURN: Duration = Duration::from_millis(100);

/// How often the rows are counted for the metrics, and people can see that a submitter works.
const COUNT_INTERVAL: Duration = Duration::from_secs(30);

/// How soon it turns again after the database did not answer.
const AFTER_DATABASE_ERROR: Duration = Duration::from_secs(2);

/// How long a row rests whose step could not be written: it is due, and would be claimed again at once. Others go on.
const AFTER_ROW_ERROR: Duration = Duration::from_secs(5);

/// How long before a claim a row may have become due in a transaction that ended after it.
const IN_FLIGHT: Duration = Duration::from_secs(1);

/// How many changed ScavengerJobs may be on their way; when it is full the watches wait.
const CHANGES_BUFFERED: usize = 1024;

/// How many rows at once, and who waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pace {
    /// Rows worked on at the same time.
    pub concurrency: usize,
    /// Rows of one owner that wait in the cluster.
    pub max_waiting: usize,
    /// How long rows in work may take to come to a stop.
    pub shutdown_grace: Duration,
}

/// Runs until `stop` is notified, then lets the rows in work come to a stop and gives their leases back.
pub async fn run(worker: Arc<Worker>, pace: Pace, stop: Arc<Notify>) {
    let wake = Arc::new(Notify::new());
    let (changed, mut changes) = mpsc::channel(CHANGES_BUFFERED);
    let mut helpers = JoinSet::new();
    helpers.spawn(listen(Arc::clone(&worker), Arc::clone(&wake)));
    helpers.spawn(write_progress(Arc::clone(&worker)));
    helpers.spawn(report_ends(Arc::clone(&worker)));
    let mut watches = Watches { worker: Arc::clone(&worker), changed, by_namespace: HashMap::new() };
    let mut rows = Rows::default();
    let stopped = stop.notified();
    tokio::pin!(stopped);
    loop {
        let delay = turn(&worker, &pace, &mut rows, &mut watches).await;
        let turned = tokio::time::Instant::now();
        tokio::select! {
            () = &mut stopped => break,
            () = woken(&wake, turned) => {}
            () = tokio::time::sleep(delay) => {}
            Some(row) = changes.recv() => {
                let mut changed = vec![row];
                while let Ok(row) = changes.try_recv() {
                    changed.push(row);
                }
                wake_rows(&worker, changed).await;
            }
            Some(ended) = rows.working.join_next_with_id() => rows.ended(ended),
        }
        while let Some(ended) = rows.working.try_join_next_with_id() {
            rows.ended(ended);
        }
    }
    tracing::info!(working = rows.working.len(), "stops: rows in work come to an end");
    let finish = async { while rows.working.join_next().await.is_some() {} };
    if tokio::time::timeout(pace.shutdown_grace, finish).await.is_err() {
        tracing::warn!(
            "rows in work did not come to an end in time; their steps are repeated by the next submitter"
        );
    }
    rows.working.shutdown().await;
    helpers.shutdown().await;
    let given_back = async {
        worker.store.release_all().await?;
        worker.store.is_gone().await?;
        worker.store.follow_no_more().await
    };
    if let Err(error) = given_back.await {
        tracing::warn!(%error, "leases could not be given back; they end by themselves");
    }
}

/// Advances every row as far as it goes without waiting. True if every step could be done and no row failed.
///
/// # Errors
/// If the database cannot be read or written.
pub async fn run_once(worker: Arc<Worker>, pace: &Pace) -> Result<bool, StoreError> {
    // It stays written when this process ends: people then see for how long nobody has come.
    worker.store.is_alive(pace.max_waiting).await?;
    let mut seen: HashSet<i64> = HashSet::new();
    let mut all_well = true;
    loop {
        let options = ClaimOptions {
            limit: pace.concurrency,
            except: seen.iter().copied().collect(),
            max_waiting: pace.max_waiting,
            early: true,
        };
        let claims = worker.store.claim(&options).await?;
        if claims.is_empty() {
            if let Some(webhook) = &worker.webhook {
                webhook.send_due(&worker.store, &worker.metrics).await?;
            }
            return Ok(all_well);
        }
        let mut working = JoinSet::new();
        for claim in claims {
            seen.insert(claim.row.id);
            let worker = Arc::clone(&worker);
            working.spawn(async move { worker.run(claim).await });
        }
        while let Some(ended) = working.join_next().await {
            match ended {
                Ok(Ok(Turn::Done)) => {}
                Ok(Ok(Turn::Failed | Turn::BackedOff)) | Err(_) => all_well = false,
                Ok(Err(StoreError::LoseLease(_))) => {}
                // The others go on; if it is the database that does not answer, the next claim says so.
                Ok(Err(error)) => {
                    tracing::warn!(%error, "a row could not be written; the next run repeats its step");
                    all_well = false;
                }
            }
        }
    }
}

/// Waits for a notification, but not before the shortest turn is over. One that comes meanwhile is kept.
async fn woken(wake: &Notify, turned: tokio::time::Instant) {
    tokio::time::sleep_until(turned + SHORTEST_TURN).await;
    wake.notified().await;
}

#[derive(Default)]
struct Rows {
    counted: Option<Instant>,
    working: JoinSet<Result<(), StoreError>>,
    by_task: HashMap<Id, i64>,
    /// Rows whose step could not be written, and until when they rest.
    resting: HashMap<i64, Instant>,
}

impl Rows {
    fn ended(&mut self, ended: Result<(Id, Result<(), StoreError>), tokio::task::JoinError>) {
        let (id, is_written) = match ended {
            Ok((id, result)) => (id, result.is_ok()),
            Err(error) => {
                // A defect in the handling of one row must not take the others along; its lease ends by itself.
                tracing::error!(%error, "the handling of a row ended unexpectedly");
                (error.id(), false)
            }
        };
        if let Some(row) = self.by_task.remove(&id).filter(|_| !is_written) {
            self.resting.insert(row, Instant::now() + AFTER_ROW_ERROR);
        }
    }

    /// How soon one of the rows that rest may be claimed again.
    fn next_rested(&self) -> Option<Duration> {
        self.resting.values().min().map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// Rows that must not be claimed now.
    fn not_now(&mut self) -> Vec<i64> {
        let now = Instant::now();
        self.resting.retain(|_, until| *until > now);
        self.by_task.values().chain(self.resting.keys()).copied().collect()
    }
}

/// Claims what is due and starts work on it; returns how long there is nothing to do.
async fn turn(worker: &Arc<Worker>, pace: &Pace, rows: &mut Rows, watches: &mut Watches) -> Duration {
    let limit = pace.concurrency.saturating_sub(rows.working.len());
    let result = claim(worker, pace, rows, watches, limit).await;
    worker.metrics.turned(result.is_ok());
    worker.metrics.set_working(rows.working.len());
    match result {
        Ok(delay) => delay,
        Err(error) => {
            tracing::warn!(%error, "the database does not answer; tries again");
            AFTER_DATABASE_ERROR
        }
    }
}

async fn claim(
    worker: &Arc<Worker>,
    pace: &Pace,
    rows: &mut Rows,
    watches: &mut Watches,
    limit: usize,
) -> Result<Duration, StoreError> {
    let began = Instant::now();
    // A claim of one row is one of a row in work, and new rows would wait until none of those is due.
    if limit > 1 {
        let options =
            ClaimOptions { limit, except: rows.not_now(), max_waiting: pace.max_waiting, early: false };
        let claims = worker.store.claim(&options).await?;
        // Watched from before anything is made there, so that nothing that happens to it is missed.
        watches.keep(claims.iter().map(|claim| claim.row.namespace.clone()));
        for claim in claims {
            let row = claim.row.id;
            let task = rows.working.spawn(work(Arc::clone(worker), claim));
            rows.by_task.insert(task.id(), row);
        }
    }
    watches.only(worker.store.namespaces().await?);
    if rows.counted.is_none_or(|counted| counted.elapsed() >= COUNT_INTERVAL) {
        worker.store.is_alive(pace.max_waiting).await?;
        worker.metrics.set_rows(&worker.store.count_by_state().await?);
        worker.metrics.set_late(worker.store.count_late().await?);
        rows.counted = Some(Instant::now());
    }
    if limit <= 1 {
        // The end of one of them is the next event.
        return Ok(SLOWEST_TURN);
    }
    // Not at once again: what became due meanwhile may be about to be woken once more.
    let due = worker.store.next_due(began.elapsed() + IN_FLIGHT).await?.unwrap_or(f64::INFINITY).max(0.1);
    let rested = rows.next_rested().unwrap_or(SLOWEST_TURN);
    Ok(Duration::try_from_secs_f64(due).unwrap_or(SLOWEST_TURN).min(rested).min(SLOWEST_TURN))
}

async fn work(worker: Arc<Worker>, claim: Claim) -> Result<(), StoreError> {
    let row = claim.row.id;
    match worker.run(claim).await {
        Ok(_) => Ok(()),
        Err(StoreError::LoseLease(_)) => {
            tracing::info!(row, "another submitter works on the row now");
            Ok(())
        }
        Err(error) => {
            tracing::warn!(row, %error, "the row could not be written; the step is repeated");
            Err(error)
        }
    }
}

async fn wake_rows(worker: &Worker, mut changed: Vec<i64>) {
    changed.sort_unstable();
    changed.dedup();
    if let Err(error) = worker.store.wake(&changed).await {
        // The rows are due by themselves after a while.
        tracing::warn!(%error, "rows could not be woken");
    }
}

/// Writes down the progress of the rows that are followed, forever.
async fn write_progress(worker: Arc<Worker>) {
    let Some(follower) = &worker.follower else { return };
    let mut every = tokio::time::interval(worker.settings.progress_interval);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        worker.metrics.set_followed(follower.count());
        if let Err(error) = follower.write(&worker.store, worker.store.clock()).await {
            tracing::warn!(%error, "progress could not be written; the newest is written later");
        }
    }
}

/// Reports ends of rows, forever. An endpoint that hangs holds up nothing else.
async fn report_ends(worker: Arc<Worker>) {
    if let Some(webhook) = &worker.webhook {
        webhook.run(&worker.store, &worker.metrics).await;
    }
}

/// Wakes the loop when a row is inserted or a request is set. Listens again, forever, when the database went away.
async fn listen(worker: Arc<Worker>, wake: Arc<Notify>) {
    loop {
        match worker.store.listen().await {
            Ok(mut listener) => {
                // What was inserted before anybody listened.
                wake.notify_one();
                loop {
                    match listener.try_recv().await {
                        Ok(Some(_)) => wake.notify_one(),
                        // The connection was lost and is made again by the next call; something may have been missed.
                        Ok(None) => {
                            wake.notify_one();
                            tokio::time::sleep(AFTER_DATABASE_ERROR).await;
                        }
                        Err(error) => {
                            tracing::warn!(%error, "listening to the database failed; listens again");
                            break;
                        }
                    }
                }
            }
            Err(error) => tracing::debug!(%error, "cannot listen to the database yet"),
        }
        tokio::time::sleep(AFTER_DATABASE_ERROR).await;
    }
}

/// One watch per namespace that has rows in work: the submitter needs no right to see any other.
struct Watches {
    worker: Arc<Worker>,
    changed: mpsc::Sender<i64>,
    by_namespace: HashMap<String, AbortHandle>,
}

impl Watches {
    fn keep(&mut self, namespaces: impl IntoIterator<Item = String>) {
        for namespace in namespaces {
            if self.by_namespace.contains_key(&namespace) {
                continue;
            }
            let task = tokio::spawn(watch(Arc::clone(&self.worker), namespace.clone(), self.changed.clone()));
            self.by_namespace.insert(namespace, task.abort_handle());
        }
    }

    fn only(&mut self, namespaces: Vec<String>) {
        let wanted: HashSet<&String> = namespaces.iter().collect();
        self.by_namespace.retain(|namespace, task| {
            let keeps = wanted.contains(namespace);
            if !keeps {
                task.abort();
            }
            keeps
        });
        self.keep(namespaces);
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        self.by_namespace.values().for_each(AbortHandle::abort);
    }
}

async fn watch(worker: Arc<Worker>, namespace: String, changed: mpsc::Sender<i64>) {
    let stream = worker.cluster.changed_rows(&namespace, &worker.manifest.queue_id);
    futures::pin_mut!(stream);
    while let Some(event) = stream.next().await {
        match event {
            Ok(row) => {
                if changed.send(row).await.is_err() {
                    return;
                }
            }
            Err(error) => tracing::warn!(%namespace, %error, "watching ScavengerJobs failed; watches again"),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test]
    async fn notifications_without_a_pause_make_it_turn_no_more_often() {
        let wake = Notify::new();
        let began = Instant::now();
        for turns in 1..=3 {
            wake.notify_one();
            woken(&wake, Instant::now()).await;
            assert!(began.elapsed() >= SHORTEST_TURN * turns, "{turns}");
        }
    }

    #[tokio::test]
    async fn a_notification_that_comes_too_early_is_kept() {
        let wake = Notify::new();
        let turned = Instant::now();
        wake.notify_one();
        // Another branch of the loop is done first.
        assert_eq!(woken(&wake, turned + SHORTEST_TURN).now_or_never(), None);
        woken(&wake, turned).await;
        assert_eq!(woken(&wake, turned).now_or_never(), None, "it was one");
        wake.notify_one();
        assert_eq!(woken(&wake, turned).now_or_never(), Some(()), "after a while it is heard at once");
    }
}
