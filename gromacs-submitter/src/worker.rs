//! Carries out the steps of one row: looks, decides, acts, writes, until there is nothing to do at once.

use std::sync::Arc;

use jiff::Timestamp;
use scavenger_schema::scavenger_job::{Phase, ScavengerJob};
use scavenger_schema::simulation::{GromacsToTune, LadderRung, RowStatus, State, job_name};

use crate::advance::{self, Action, Input, Log, Settings, Step};
use crate::cluster::{Cluster, ClusterError, LogPart};
use crate::health::Metrics;
use crate::manifest::{ManifestSettings, Probe, probe_job, probe_name, simulation_job};
use crate::mdrun_log;
use crate::store::{Changes, Claim, Store, StoreError};
use crate::tuner_client::{TunerClient, TunerError};
use crate::view::{JobView, PoolView};

/// A row that takes more steps at once than this is given back and looked at again later: no life needs more than
/// about ten, so it goes round in circles.
const MOST_STEPS: usize = 30;

/// What the steps of all rows share.
pub struct Worker {
    /// The database.
    pub store: Store,
    /// Kubernetes.
    pub cluster: Cluster,
    /// The tuner.
    pub tuner: TunerClient,
    /// Settings of the decisions.
    pub settings: Settings,
    /// Settings of the objects.
    pub manifest: ManifestSettings,
    /// Metrics.
    pub metrics: Arc<Metrics>,
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
    /// True if the row can not go on without a person.
    fn is_final(&self, state: State) -> bool {
        match self {
            Self::Store(_) => false,
            Self::Cluster(error) => error.is_final(state),
            Self::Tuner(error) => error.is_final(),
            Self::FindRung { .. } => true,
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

/// What is seen of the outside.
struct Seen {
    ladder: Vec<LadderRung>,
    probe: Option<JobView>,
    job: Option<JobView>,
    previous: Option<JobView>,
    pool: Option<PoolView>,
    log: Log,
}

impl Worker {
    /// Takes the row as far as it goes.
    ///
    /// # Errors
    /// Only if the database can not be written; the lease then ends by itself.
    pub async fn run(&self, mut claim: Claim) -> Result<Turn, StoreError> {
        for _ in 0..MOST_STEPS {
            let before = claim.row.status.clone();
            match self.step(&claim).await {
                Ok(Progress::Continue) => {}
                Ok(Progress::Written(written)) => {
                    log_change(&before, &written.row);
                    self.metrics.count_state(&before, &written.row.status);
                    claim = *written;
                }
                Ok(Progress::Settled(written)) => {
                    log_change(&before, &written.row);
                    self.metrics.count_state(&before, &written.row.status);
                    let failed = written.row.status.state == State::Failed && before.state != State::Failed;
                    return Ok(if failed { Turn::Failed } else { Turn::Done });
                }
                Err(StepError::Store(error)) => return Err(error),
                Err(error) => return self.give_up(&claim, &error).await,
            }
        }
        tracing::error!(
            row = claim.row.id,
            steps = MOST_STEPS,
            "row goes round in circles; it is looked at again later"
        );
        let status =
            advance::with_backoff(&claim.row, "takes too many steps at once".to_owned(), jitter(), now());
        self.store.record(&claim, &status, &Changes { releases: true, ..Changes::default() }).await?;
        Ok(Turn::BackedOff)
    }

    async fn give_up(&self, claim: &Claim, error: &StepError) -> Result<Turn, StoreError> {
        let reason = error.to_string();
        let changes = Changes { releases: true, ..Changes::default() };
        self.metrics.count_step("error");
        if error.is_final(claim.row.status.state) {
            tracing::warn!(row = claim.row.id, namespace = %claim.row.namespace, %reason, "row failed");
            let status = advance::with_failure(&claim.row, reason, now());
            let written = self.store.record(claim, &status, &changes).await?;
            self.metrics.count_state(&claim.row.status, &written.row.status);
            return Ok(Turn::Failed);
        }
        tracing::warn!(row = claim.row.id, namespace = %claim.row.namespace, %reason, "step is tried again later");
        let status = advance::with_backoff(&claim.row, reason, jitter(), now());
        self.store.record(claim, &status, &changes).await?;
        Ok(Turn::BackedOff)
    }

    async fn step(&self, claim: &Claim) -> Result<Progress, StepError> {
        let seen = self.look(&claim.row).await?;
        let step = advance::advance(&Input {
            row: &claim.row,
            ladder: &seen.ladder,
            probe: seen.probe.as_ref(),
            job: seen.job.as_ref(),
            previous: seen.previous.as_ref(),
            pool: seen.pool.as_ref(),
            log: &seen.log,
            settings: &self.settings,
            now: now(),
        });
        self.metrics.count_step(step.action.name());
        tracing::debug!(row = claim.row.id, action = step.action.name(), "step");
        self.act(claim, &seen, step).await
    }

    /// Reads what the row's state is about, and nothing else.
    async fn look(&self, row: &GromacsToTune) -> Result<Seen, StepError> {
        let mut seen = Seen {
            ladder: Vec::new(),
            probe: None,
            job: None,
            previous: None,
            pool: None,
            log: Log::NotRead,
        };
        let status = &row.status;
        match status.state {
            State::Completed | State::Failed | State::Cancelled => {}
            State::Queued => {
                if status.submission > 1 {
                    seen.previous = self
                        .view(row, &job_name(row.id, status.submission - 1), &[])
                        .await?
                        .map(|(_, view)| view);
                    seen.probe =
                        self.view(row, &probe_name(row, Probe::Inspection), &[]).await?.map(|(_, view)| view);
                }
            }
            State::Inspecting => {
                let found = self.view(row, &probe_name(row, Probe::Inspection), &[]).await?;
                seen.log = self.log_of_ended(row, found.as_ref()).await?;
                seen.probe = found.map(|(_, view)| view);
            }
            State::Tuning => {
                seen.probe =
                    self.view(row, &probe_name(row, Probe::Inspection), &[]).await?.map(|(_, view)| view);
                seen.pool = self.cluster.pool().await?.as_ref().map(PoolView::new);
            }
            State::Submitted | State::Running | State::Interrupted => {
                seen.ladder = self.store.ladder(row.id, status.submission).await?;
                let name = job_name(row.id, status.submission);
                let found = self.view(row, &name, &seen.ladder).await?;
                if status.verifying {
                    let probe = self.view(row, &probe_name(row, Probe::Verification), &[]).await?;
                    seen.log = self.log_of_ended(row, probe.as_ref()).await?;
                    seen.probe = probe.map(|(_, view)| view);
                } else if found.as_ref().is_some_and(|(_, view)| view.phase == Phase::Running) {
                    let knows_start =
                        found.as_ref().and_then(|(_, view)| view.last_attempt()).is_some_and(|attempt| {
                            attempt.number == status.attempt && status.first_step.is_some()
                        });
                    let part = if knows_start { LogPart::Progress } else { LogPart::StartAndProgress };
                    seen.log = self.log(row, found.as_ref(), part).await?;
                } else {
                    seen.log = self.log_of_ended(row, found.as_ref()).await?;
                }
                seen.job = found.map(|(_, view)| view);
                seen.pool = self.cluster.pool().await?.as_ref().map(PoolView::new);
            }
        }
        Ok(seen)
    }

    async fn view(
        &self,
        row: &GromacsToTune,
        name: &str,
        ladder: &[LadderRung],
    ) -> Result<Option<(ScavengerJob, JobView)>, StepError> {
        let job = self.cluster.job(&row.namespace, name).await?;
        Ok(job.map(|job| {
            let view = JobView::new(&job, row, ladder, &self.manifest.queue_id);
            (job, view)
        }))
    }

    async fn log_of_ended(
        &self,
        row: &GromacsToTune,
        found: Option<&(ScavengerJob, JobView)>,
    ) -> Result<Log, StepError> {
        let ended =
            found.filter(|(_, view)| view.ours && matches!(view.phase, Phase::Completed | Phase::Failed));
        if ended.is_none() { Ok(Log::NotRead) } else { self.log(row, ended, LogPart::StartAndEnd).await }
    }

    async fn log(
        &self,
        row: &GromacsToTune,
        found: Option<&(ScavengerJob, JobView)>,
        part: LogPart,
    ) -> Result<Log, StepError> {
        let Some((job, attempt)) = found.and_then(|(job, view)| Some((job, view.last_attempt()?))) else {
            return Ok(Log::Gone);
        };
        let text = self.cluster.log(&row.namespace, job, attempt.number, part).await?;
        Ok(text.map_or(Log::Gone, |text| Log::Read { facts: mdrun_log::parse(&text), text }))
    }

    async fn act(&self, claim: &Claim, seen: &Seen, step: Step) -> Result<Progress, StepError> {
        let row = &claim.row;
        let namespace = &row.namespace;
        match step.action {
            Action::Record | Action::Settle => {
                // A row that has ended is given back at once: nothing is left to do.
                let releases = step.action == Action::Settle || step.status.state.is_final();
                let changes = Changes {
                    inspection: step.inspection,
                    ladder: None,
                    attempts: step.attempts,
                    observation: step.observation,
                    clears_requests: step.clears_requests,
                    releases,
                };
                let written = Box::new(self.store.record(claim, &step.status, &changes).await?);
                return Ok(if releases { Progress::Settled(written) } else { Progress::Written(written) });
            }
            Action::AskTuner(system) => {
                let nodes = seen.pool.as_ref().map(|pool| pool.nodes.as_slice()).unwrap_or_default();
                let ladder = self.tuner.ladder(row, *system, nodes).await?;
                let status = advance::with_ladder(row, ladder.len());
                let changes = Changes { ladder: Some(ladder), ..Changes::default() };
                return Ok(Progress::Written(Box::new(self.store.record(claim, &status, &changes).await?)));
            }
            Action::CreateProbe(probe) => self.cluster.create(&probe_job(row, probe, &self.manifest)).await?,
            Action::DeleteProbe(probe) => {
                let uid = seen.probe.as_ref().map(|probe| probe.uid.as_str());
                self.cluster.delete(namespace, &probe_name(row, probe), uid).await?;
            }
            Action::CreateJob(rung) => {
                let job = simulation_job(row, find_rung(row, &seen.ladder, rung)?, &self.manifest);
                self.cluster.create(&job).await?;
            }
            Action::ReplaceJob { rung, resource_version } => {
                let job = simulation_job(row, find_rung(row, &seen.ladder, rung)?, &self.manifest);
                let replaced = self.cluster.replace(&job, &resource_version).await?;
                tracing::info!(
                    row = row.id,
                    rung,
                    replaced,
                    "configuration replaced, unless it changed meanwhile"
                );
            }
            Action::DeleteJob { submission, uid } => {
                self.cluster.delete(namespace, &job_name(row.id, submission), Some(&uid)).await?;
            }
        }
        Ok(Progress::Continue)
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

fn find_rung<'a>(
    row: &GromacsToTune,
    ladder: &'a [LadderRung],
    rung: i32,
) -> Result<&'a LadderRung, StepError> {
    ladder.iter().find(|found| found.rung == rung).ok_or(StepError::FindRung { row: row.id, rung })
}

fn log_change(before: &RowStatus, row: &GromacsToTune) {
    let after = &row.status;
    if (before.state, before.rung, before.submission) != (after.state, after.rung, after.submission) {
        tracing::info!(
            row = row.id,
            namespace = %row.namespace,
            scavenger_job = %job_name(row.id, after.submission),
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

#[allow(
    clippy::disallowed_methods,
    reason = "the clock is read here, at the edge, and handed to what decides"
)]
fn now() -> Timestamp {
    Timestamp::now()
}
