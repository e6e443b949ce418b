//! Carries out the steps of one row: looks, decides, acts, writes, until there is nothing to do at once.

mod act;
mod look;
mod row_objects;

use std::sync::{Arc, Mutex, PoisonError};

use scavenger_schema::simulation::{GromacsToTune, RowStatus, State};

use self::row_objects::RowObjects;
use crate::advance::{self, Input, NoConfiguration, Seen, Settings};
use crate::cluster::{Cluster, ClusterError};
use crate::follower::Follower;
use crate::health::Metrics;
use crate::heard::Heard;
use crate::manifest::{ManifestSettings, RowNames};
use crate::store::{Changes, Claim, Store, StoreError};
use crate::tuner_client::{TunerClient, TunerError};
use crate::webhook::Webhook;

/// A row that takes more steps at once than this is given back and looked at again later: no life needs more than
/// about ten, so something keeps changing it to and fro.
const MOST_STEPS: usize = 30;

/// What the steps of all rows share.
pub struct Worker {
    /// The database.
    pub store: Store,
    /// Kubernetes.
    pub cluster: Cluster,
    /// The tuner.
    pub tuner: TunerClient,
    /// Follows running rows; none for a process that does not stay.
    pub follower: Option<Follower>,
    /// Where ends of rows are reported to; the store must keep them.
    pub webhook: Option<Webhook>,
    /// Settings of the decisions.
    pub settings: Settings,
    /// Settings of the objects.
    pub manifest: ManifestSettings,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// When the operator was heard of last.
    pub heard: Heard,
    /// The room that a row has taken of what the pool's status says is free.
    pub taken: Mutex<Taken>,
}

/// Room that a row has taken, and that the pool's status may still say is free.
#[derive(Debug, Default)]
pub struct Taken {
    /// That status.
    status: Option<jiff::Timestamp>,
    /// Until then later ones may say so, too.
    until: Option<jiff::Timestamp>,
}

impl Taken {
    /// A row takes what the status of `update` says is free, for as long at least.
    fn take(&mut self, update: Option<jiff::Timestamp>, least: std::time::Duration, now: jiff::Timestamp) {
        self.status = update;
        let until = jiff::SignedDuration::try_from(least).ok().and_then(|least| now.checked_add(least).ok());
        self.until = self.until.max(until);
    }

    fn covers(&self, update: Option<jiff::Timestamp>, now: jiff::Timestamp) -> bool {
        (update.is_some() && self.status == update) || self.until.is_some_and(|until| now < until)
    }
}

/// Why a step was not done.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Kubernetes.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The tuner.
    #[error(transparent)]
    Tuner(#[from] TunerError),
    /// The pool takes the row in no configuration.
    #[error("{0}")]
    FitPool(String),
    /// The pool's nodes take it in none now.
    #[error("{0}")]
    FitNodes(String),
    /// A step names what is not there.
    #[error("row {row} has no configuration {rung}")]
    FindRung {
        /// The row.
        row: i64,
        /// The rung.
        rung: i32,
    },
}

impl StepError {
    /// True if the row cannot go on without a person.
    fn is_final(&self, state: State) -> bool {
        match self {
            Self::Store(error) => error.is_final(),
            Self::Cluster(error) => error.is_final(state),
            Self::Tuner(error) => error.is_final(),
            Self::FitPool(_) | Self::FindRung { .. } => true,
            Self::FitNodes(_) => false,
        }
    }

    /// True if the row waits for something that the other rows of its owner need not wait for: nodes that there are not, or
    /// rights in its namespace.
    fn is_its_own(&self) -> bool {
        match self {
            Self::FitNodes(_) | Self::Tuner(TunerError::FitNodes(_)) => true,
            Self::Cluster(error) => error.is_forbidden(),
            _ => false,
        }
    }
}

impl From<NoConfiguration> for StepError {
    fn from(why: NoConfiguration) -> Self {
        match why {
            NoConfiguration::Now(reason) => Self::FitNodes(reason),
            NoConfiguration::Ever(reason) => Self::FitPool(reason),
        }
    }
}

/// How a row's turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// As far as it goes without waiting.
    Done,
    /// It became failed.
    Failed,
    /// A step could not be done; it is tried again later.
    BackedOff,
}

impl Worker {
    /// Takes the row as far as it goes.
    ///
    /// # Errors
    /// Only if the database cannot be written; the lease then runs out.
    pub async fn run(&self, mut claim: Claim) -> Result<Turn, StoreError> {
        for _ in 0..MOST_STEPS {
            let before = claim.row.status.clone();
            // On the heap: many rows are worked on at a time, and a step holds a whole ScavengerJob.
            match Box::pin(self.step(&claim)).await {
                Ok(Progress::Continue) => {}
                Ok(Progress::Written(written)) => {
                    self.changed(&before, &written.row);
                    claim = *written;
                }
                Ok(Progress::Settled(written)) => {
                    self.changed(&before, &written.row);
                    let failed = written.row.status.state == State::Failed && before.state != State::Failed;
                    return Ok(if failed { Turn::Failed } else { Turn::Done });
                }
                Err(StepError::Store(error)) if !error.is_final() => return Err(error),
                Err(error) => return self.give_up(&claim, &error).await,
            }
        }
        tracing::error!(
            row = claim.row.id,
            steps = MOST_STEPS,
            "row changed too often without a pause; backing off"
        );
        let status = advance::with_backoff(
            &claim.row,
            format!("changed {MOST_STEPS} times without a pause; tries again later"),
            jitter(),
            self.store.clock(),
        );
        self.store.record(&claim, &status, &Changes { releases: true, ..Changes::default() }).await?;
        Ok(Turn::BackedOff)
    }

    async fn give_up(&self, claim: &Claim, error: &StepError) -> Result<Turn, StoreError> {
        let reason = error.to_string();
        let changes = Changes { releases: true, ..Changes::default() };
        self.metrics.count_step("error");
        let state = claim.row.status.state;
        if error.is_final(state) && state.is_final() {
            // What cannot be removed now is left to its own ttlSecondsAfterFinished.
            tracing::warn!(row = claim.row.id, namespace = %claim.row.namespace, %reason, "not removed");
            let status = RowStatus { job_expiry_time: None, ..claim.row.status.clone() };
            self.store.record(claim, &status, &changes).await?;
            return Ok(Turn::Done);
        }
        if error.is_final(state) {
            tracing::warn!(row = claim.row.id, namespace = %claim.row.namespace, %reason, "row failed");
            let status =
                advance::with_failure(&claim.row, reason, self.settings.keep_jobs, self.store.clock());
            let written = self.store.record(claim, &status, &changes).await?;
            self.changed(&claim.row.status, &written.row);
            return Ok(Turn::Failed);
        }
        tracing::warn!(row = claim.row.id, namespace = %claim.row.namespace, %reason, "step is tried again later");
        let backed_off = advance::with_backoff(&claim.row, reason, jitter(), self.store.clock());
        let blocked = error.is_its_own() && !matches!(state, State::Running) && !state.is_final();
        let status = RowStatus { blocked, ..backed_off };
        self.store.record(claim, &status, &changes).await?;
        Ok(Turn::BackedOff)
    }

    fn changed(&self, before: &RowStatus, row: &GromacsToTune) {
        log_change(before, row);
        self.metrics.count_state(before, &row.status);
        if let Some(webhook) =
            self.webhook.as_ref().filter(|_| row.status.state.is_final() && !before.state.is_final())
        {
            webhook.wake();
        }
    }

    async fn step(&self, claim: &Claim) -> Result<Progress, StepError> {
        // On the heap, too: it holds two ScavengerJobs at a time.
        let seen = Box::pin(self.look(&claim.row)).await?;
        let step = advance::advance(&Input {
            row: &claim.row,
            seen: &seen,
            settings: &self.settings,
            now: self.store.clock(),
        });
        self.metrics.count_step(step.action.name());
        tracing::debug!(row = claim.row.id, action = step.action.name(), "step");
        if let Some(least) = step.takes_room {
            self.taken().take(update_of(&seen), least, self.store.clock());
        }
        self.act(claim, &seen, step).await
    }

    fn objects_of<'a>(&'a self, row: &'a GromacsToTune) -> RowObjects<'a> {
        RowObjects::new(&self.cluster, &self.manifest, row)
    }

    fn taken(&self) -> std::sync::MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Progress {
    /// Kubernetes was written; look again.
    Continue,
    /// The row was written; look again.
    Written(Box<Claim>),
    /// The row was written and given back.
    Settled(Box<Claim>),
}

fn log_change(before: &RowStatus, row: &GromacsToTune) {
    let after = &row.status;
    if (before.state, before.rung, before.submission) != (after.state, after.rung, after.submission) {
        tracing::info!(
            row = row.id,
            namespace = %row.namespace,
            scavenger_job = %RowNames::of(row).job(),
            from = %before.state,
            state = %after.state,
            rung = after.rung,
            reason = after.reason.as_deref().unwrap_or_default(),
            "state changed"
        );
    }
}

fn jitter() -> f64 {
    rand::random()
}

/// The status of the pool that was seen.
fn update_of(seen: &Seen) -> Option<jiff::Timestamp> {
    seen.pool.as_ref().and_then(|pool| pool.update_time)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::SignedDuration;

    use super::*;
    use crate::fixtures::now;

    #[test]
    fn what_a_row_takes_is_taken_until_the_pool_can_know() {
        let after = |seconds| now() + SignedDuration::from_secs(seconds);
        let mut taken = Taken::default();
        assert!(!taken.covers(None, now()) && !taken.covers(Some(now()), now()));
        taken.take(Some(now()), Duration::ZERO, now());
        assert!(taken.covers(Some(now()), after(100)), "the same status");
        assert!(!taken.covers(Some(after(5)), after(6)), "the next one says what is left");
        taken.take(Some(after(5)), Duration::from_secs(60), after(6));
        assert!(taken.covers(Some(after(10)), after(65)) && !taken.covers(Some(after(10)), after(66)));
    }
}
