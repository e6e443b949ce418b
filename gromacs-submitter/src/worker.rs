//! Carries out the steps of one row: looks, decides, acts, writes, until there is nothing to do at once.

use std::sync::{Arc, Mutex, PoisonError};

use scavenger_schema::scavenger_job::ScavengerJob;
use scavenger_schema::simulation::{
    GromacsToTune, LadderRung, LadderSettings, RowStatus, State, job_name, verification_name,
};
use scavenger_schema::tuning::SystemDescription;
use scavenger_vocabulary::{Phase, WaitingReason};

use crate::advance::{self, Action, Input, Log, NoConfiguration, Settings, Step};
use crate::cluster::{Cluster, ClusterError, LogPart, Replaced};
use crate::follower::Follower;
use crate::health::Metrics;
use crate::heard::Heard;
use crate::ladder_settings::choose;
use crate::manifest::{
    ManifestSettings, Probe, Terms, USUAL_GRACE_SECONDS, pinned_image, probe_job, probe_name,
    requested_image, simulation_job,
};
use crate::mdrun_log;
use crate::multidir;
use crate::quota::QuotaRoom;
use crate::store::{Answer, Changes, Claim, Store, StoreError};
use crate::tuner_client::{Ladder, TunerClient, TunerError};
use crate::view::{JobView, PoolView};
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
    /// How configurations are chosen where neither row nor tenant nor pool say it.
    pub ladder_settings: LadderSettings,
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

    /// True if the row waits for other nodes than there are.
    fn waits_for_nodes(&self) -> bool {
        matches!(self, Self::FitNodes(_) | Self::Tuner(TunerError::FitNodes(_)))
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

/// What is seen of the outside.
#[derive(Default)]
struct Seen {
    /// The configurations that are tried.
    ladder: Vec<LadderRung>,
    /// Those of the submission that are not tried any more.
    replaced: Vec<LadderRung>,
    probe: Option<JobView>,
    job: Option<JobView>,
    previous: Option<JobView>,
    previous_probe: Option<JobView>,
    pool: Option<PoolView>,
    quota: Option<QuotaRoom>,
    log: Log,
    job_log: Log,
    image: Option<String>,
    is_followed: bool,
    memory_bytes: Option<i64>,
}

impl Worker {
    /// Takes the row as far as it goes.
    ///
    /// # Errors
    /// Only if the database cannot be written; the lease then ends by itself.
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
        let status = RowStatus { blocked: error.waits_for_nodes(), ..backed_off };
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
        let seen = self.look(&claim.row).await?;
        let step = advance::advance(&Input {
            row: &claim.row,
            ladder: &seen.ladder,
            probe: seen.probe.as_ref(),
            job: seen.job.as_ref(),
            previous: seen.previous.as_ref(),
            previous_probe: seen.previous_probe.as_ref(),
            pool: seen.pool.as_ref(),
            quota: seen.quota.as_ref(),
            log: &seen.log,
            job_log: &seen.job_log,
            image: seen.image.as_deref(),
            is_followed: seen.is_followed,
            room_is_taken: self.room_is_taken(&seen),
            memory_bytes: seen.memory_bytes,
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

    /// Reads what the row's state is about, and nothing else.
    async fn look(&self, row: &GromacsToTune) -> Result<Seen, StepError> {
        let mut seen = Seen::default();
        let status = &row.status;
        match status.state {
            State::Completed | State::Failed | State::Cancelled => {
                if status.job_expiry_time.is_some_and(|time| time.to_jiff() <= self.store.clock()) {
                    seen.job = self.view_of(row, &job_name(row.id, status.submission)).await?;
                    seen.probe = self.view_of(row, &probe_name(row, advance::probe_left_by(row))).await?;
                }
            }
            State::Queued => {
                if status.submission > 1 {
                    let before = status.submission - 1;
                    seen.previous = self.view_of(row, &job_name(row.id, before)).await?;
                    seen.previous_probe = self.view_of(row, &verification_name(row.id, before)).await?;
                    seen.probe = self.view_of(row, &probe_name(row, Probe::Inspection)).await?;
                }
            }
            State::Inspecting => {
                let found = self.view(row, &probe_name(row, Probe::Inspection), &[]).await?;
                seen.log = self.log_of_ended(row, found.as_ref()).await?;
                seen.pool = self.pool(row).await?;
                if let Some((job, view)) = found.as_ref().filter(|(_, view)| view.phase == Phase::Completed) {
                    let attempt = view.last_attempt().map_or(1, |attempt| attempt.number);
                    let image_id = self.cluster.image_id(&row.namespace, job, attempt).await?;
                    let requested = requested_image(row, &self.manifest);
                    seen.image = image_id.and_then(|image_id| pinned_image(&requested, &image_id));
                }
                seen.probe = found.map(|(_, view)| view);
            }
            State::Tuning => {
                seen.probe = self.view_of(row, &probe_name(row, Probe::Inspection)).await?;
                seen.pool = self.pool(row).await?;
            }
            State::Submitted | State::Running | State::Interrupted => {
                self.look_at_job(row, &mut seen).await?;
            }
        }
        Ok(seen)
    }

    async fn look_at_job(&self, row: &GromacsToTune, seen: &mut Seen) -> Result<(), StepError> {
        let ladder = self.store.ladder(row.id, row.status.submission).await?;
        let found = self.view(row, &job_name(row.id, row.status.submission), &ladder).await?;
        (seen.replaced, seen.ladder) = ladder.into_iter().partition(|rung| rung.replaced);
        let phase = found.as_ref().map(|(_, view)| view.phase);
        if row.status.verifying {
            let probe = self.view(row, &probe_name(row, Probe::Verification), &[]).await?;
            seen.log = self.log_of_ended(row, probe.as_ref()).await?;
            if probe.as_ref().is_some_and(|(_, view)| view.phase == Phase::Failed) {
                seen.job_log = self.log_of_ended(row, found.as_ref()).await?;
            }
            seen.probe = probe.map(|(_, view)| view);
        } else if let Some(running) = found.as_ref().filter(|_| phase == Some(Phase::Running)) {
            self.look_at_running(row, running, seen).await?;
        } else {
            seen.log = self.log_of_ended(row, found.as_ref()).await?;
        }
        // While it runs with the largest configuration, nothing about the pool matters, unless an earlier attempt has ended
        // that nobody has seen: on which nodes it can have run goes with what it measured.
        let has_news =
            found.as_ref().is_some_and(|(_, view)| view.has_ended_since(row.status.attempts_recorded));
        let may_grow = row.status.grown_from.is_some() || advance::may_grow(&row.status, &seen.ladder);
        if phase != Some(Phase::Running) || has_news || may_grow {
            seen.pool = self.pool(row).await?;
        }
        let waiting_reason = found.as_ref().and_then(|(_, view)| view.waiting_reason);
        if waiting_reason == Some(WaitingReason::QuotaExceeded) {
            seen.quota = self.cluster.quotas(&row.namespace).await?.as_deref().map(QuotaRoom::of);
        }
        seen.job = found.map(|(_, view)| view);
        Ok(())
    }

    async fn look_at_running(
        &self,
        row: &GromacsToTune,
        running: &(ScavengerJob, JobView),
        seen: &mut Seen,
    ) -> Result<(), StepError> {
        let Some(attempt) = running.1.last_attempt().filter(|_| running.1.ours) else { return Ok(()) };
        // Where it started is read first; what follows can be followed.
        let status = &row.status;
        let knows_start = attempt.number == status.attempt
            && status.first_step.is_some()
            && status.progress_from_step.is_some();
        if knows_start {
            seen.is_followed = self.follow(row, &running.0).await?;
        }
        if !seen.is_followed {
            let part = if knows_start { LogPart::Progress } else { LogPart::StartAndProgress };
            seen.log = self.log(row, Some(running), part).await?;
        }
        seen.memory_bytes = self.cluster.memory_bytes(&row.namespace, &running.0, attempt.number).await;
        Ok(())
    }

    /// True if the attempt's log is followed, here or by another submitter.
    async fn follow(&self, row: &GromacsToTune, job: &ScavengerJob) -> Result<bool, StepError> {
        let Some(follower) = &self.follower else { return Ok(false) };
        Ok(follower.follows(row)
            || self.store.is_followed_elsewhere(row.id).await?
            || follower.follow(row, job))
    }

    /// The pool as far as the row may run there, with the time at which a submitter first saw what the operator wrote
    /// down: the operator's clock is another one.
    async fn pool(&self, row: &GromacsToTune) -> Result<Option<PoolView>, StepError> {
        let mut view = self.cluster.pool().await?.as_ref().map(PoolView::new);
        if let Some(view) = &mut view {
            let written = view.update_time;
            if let Some(written) = written {
                view.update_time = Some(self.first_seen(written).await?);
            }
            let both = written.zip(view.update_time);
            view.operator_ahead = both.map(|(theirs, ours)| theirs.duration_since(ours)).unwrap_or_default();
        }
        Ok(view.map(|view| view.of_row(row)))
    }

    async fn first_seen(&self, written: jiff::Timestamp) -> Result<jiff::Timestamp, StepError> {
        if let Some(seen) = self.heard.of(written) {
            return Ok(seen);
        }
        let seen = self.store.pool_seen(written).await?;
        self.heard.remember(written, seen);
        Ok(seen)
    }

    fn taken(&self) -> std::sync::MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if a row has taken what this status of the pool says is free. The next status says what is left.
    fn room_is_taken(&self, seen: &Seen) -> bool {
        self.taken().covers(update_of(seen), self.store.clock())
    }

    async fn view_of(&self, row: &GromacsToTune, name: &str) -> Result<Option<JobView>, StepError> {
        Ok(self.view(row, name, &[]).await?.map(|(_, view)| view))
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
                // A row that has ended is given back at once: nothing is left to do. One that is queued again takes its
                // place in line, under the limits that the claim knows.
                let state = step.status.state;
                let releases = step.action == Action::Settle
                    || state.is_final()
                    || (state == State::Queued && row.status.state != State::Queued);
                let changes = Changes {
                    inspection: step.inspection,
                    ladder: None,
                    renewed: None,
                    answer: None,
                    attempts: step.attempts,
                    lost: step.lost,
                    observations: step.observations,
                    refused: step.refused,
                    stops_appending: step.stops_appending,
                    clears_requests: step.clears_requests,
                    releases,
                };
                let written = Box::new(self.store.record(claim, &step.status, &changes).await?);
                return Ok(if releases { Progress::Settled(written) } else { Progress::Written(written) });
            }
            Action::AskTuner(system) => {
                let (status, ladder, answer) = self.ask_tuner(row, *system, seen.pool.as_ref()).await?;
                let changes = Changes { ladder: Some(ladder), answer: Some(answer), ..Changes::default() };
                return Ok(Progress::Written(Box::new(self.store.record(claim, &status, &changes).await?)));
            }
            Action::AskAgain(system) => {
                let asked = self.ask_tuner(row, *system, seen.pool.as_ref()).await;
                let (status, renewed, answer) = match asked {
                    Ok((_, proposed, answer)) => {
                        let (status, ladder) = advance::renewed(row, &seen.ladder, &seen.replaced, proposed);
                        (status, Some(ladder), Some(answer))
                    }
                    Err(StepError::Store(error)) => return Err(error.into()),
                    // What was proposed at first stays, until the next interruption.
                    Err(error) => {
                        tracing::info!(row = row.id, %error, "no configurations after an interruption; keeps those it has");
                        (advance::was_asked(row), None, None)
                    }
                };
                let changes = Changes { renewed, answer, ..Changes::default() };
                return Ok(Progress::Written(Box::new(self.store.record(claim, &status, &changes).await?)));
            }
            Action::Predict(request) => {
                let Ladder { rungs, answer } = self.tuner.expectation(&request).await?;
                let (status, ladder) = advance::with_ladder(row, rungs, seen.pool.as_ref(), &[])?;
                let changes = Changes { ladder: Some(ladder), answer: Some(answer), ..Changes::default() };
                return Ok(Progress::Written(Box::new(self.store.record(claim, &status, &changes).await?)));
            }
            Action::CreateProbe(probe) => {
                self.cluster.create(&probe_job(row, probe, &self.manifest, &seen.terms())).await?;
            }
            Action::DeleteProbe(probe) => {
                let uid = seen.probe.as_ref().map(|probe| probe.uid.as_str());
                self.cluster.delete(namespace, &probe_name(row, probe), uid).await?;
            }
            Action::DeleteVerification { submission, uid } => {
                self.cluster.delete(namespace, &verification_name(row.id, submission), Some(&uid)).await?;
            }
            Action::CreateJob(rung) => {
                let rung_found = find_rung(row, &seen.ladder, rung)?;
                let restart_seconds = self.store.restart_seconds(row).await?;
                let terms = seen.terms_for(rung_found, restart_seconds);
                let job = simulation_job(row, rung_found, &self.manifest, &terms);
                self.cluster.create(&job).await?;
            }
            Action::SuspendJob { resource_version } => {
                let name = job_name(row.id, row.status.submission);
                let replaced = self.cluster.suspend(namespace, &name, &resource_version).await?;
                tracing::info!(row = row.id, ?replaced, "suspends it to grow");
                if let Replaced::Refused(words) = replaced {
                    return self
                        .refused(claim, advance::without_growth(row, &words, self.store.clock()))
                        .await;
                }
            }
            Action::ResumeJob { resource_version } => {
                let name = job_name(row.id, row.status.submission);
                let replaced = self.cluster.resume(namespace, &name, &resource_version).await?;
                tracing::info!(row = row.id, ?replaced, "resumes it as it is");
            }
            Action::ReplaceJob { rung, resumes, resource_version } => {
                let rung_found = find_rung(row, &seen.ladder, rung)?;
                let restart_seconds = self.store.restart_seconds(row).await?;
                let terms = seen.terms_for(rung_found, restart_seconds);
                let job = simulation_job(row, rung_found, &self.manifest, &terms);
                let replaced = self.cluster.replace(&job, &resource_version, resumes).await?;
                tracing::info!(row = row.id, rung, ?replaced, "replaces the configuration");
                if let Replaced::Refused(words) = replaced {
                    return self
                        .refused(claim, advance::with_refusal(row, rung, &words, self.store.clock()))
                        .await;
                }
            }
            Action::DeleteJob { submission, uid } => {
                self.cluster.delete(namespace, &job_name(row.id, submission), Some(&uid)).await?;
            }
        }
        Ok(Progress::Continue)
    }

    /// The configurations that the tuner proposes for a row now, without those that cannot run it.
    async fn ask_tuner(
        &self,
        row: &GromacsToTune,
        system: SystemDescription,
        pool: Option<&PoolView>,
    ) -> Result<(RowStatus, Vec<LadderRung>, Answer), StepError> {
        let nodes = pool.map(PoolView::shapes).unwrap_or_default();
        let limits = pool.map_or_else(|| row.limits(), |pool| pool.limits.bound(&row.limits()));
        let of_tenant = self.store.ladder_settings(&row.owner, &row.namespace).await?;
        let of_pool = pool.map(|pool| pool.ladder_settings).unwrap_or_default();
        let chosen = choose(&row.ladder_settings, &of_tenant, &of_pool, &self.ladder_settings);
        let limits = chosen.within(&limits);
        // A restart on resources that were measured is a free experiment: the tuner may choose another layout.
        let status = &row.status;
        // What several measured side by side says nothing of one.
        let measured = if !row.is_multidir() && (status.submission > 1 || status.interruptions > 0) {
            self.store.measured_runs(row.id, status.submission.saturating_add(1)).await?
        } else {
            Vec::new()
        };
        let shared = self.tuner.shared_gpus(row, &system, &limits, &nodes).await?;
        let share = multidir::share(row, &nodes, &limits);
        let Ladder { rungs: ladder, answer } =
            self.tuner.ladder(row, system, share.limits, &share.nodes, measured).await?;
        let mut answer = Answer { chosen: Some(chosen), ..answer };
        let refusals = self.store.refusals(row.id).await?;
        let ladder = advance::without_refused(ladder, &refusals).map_err(StepError::FitPool)?;
        let mut ladder = multidir::together(row, ladder, &shared, &nodes, &limits)?;
        answer.notes.extend(advance::beside_ordinary_pods(&mut ladder, pool));
        let kills = match row.status.outgrown_memory_bytes {
            Some(_) => self.store.kills(row.id).await?,
            None => Vec::new(),
        };
        let (status, ladder) = advance::with_ladder(row, ladder, pool, &kills)?;
        Ok((status, ladder, answer))
    }

    async fn refused(&self, claim: &Claim, status: RowStatus) -> Result<Progress, StepError> {
        let changes = Changes { releases: true, ..Changes::default() };
        Ok(Progress::Settled(Box::new(self.store.record(claim, &status, &changes).await?)))
    }
}

impl Seen {
    fn terms(&self) -> Terms {
        let pool = self.pool.as_ref();
        Terms {
            longest_grace: pool.map_or(USUAL_GRACE_SECONDS, |pool| pool.limits.max_grace_seconds),
            supervised: pool.is_some_and(|pool| pool.supervises),
            tolerated_taints: pool.map(|pool| pool.tolerated_taints.clone()).unwrap_or_default(),
            gpu_resource: None,
            restart_seconds: None,
        }
    }

    /// With what the GPUs of a configuration are called, and what a restart costs.
    fn terms_for(&self, rung: &LadderRung, restart_seconds: Option<i32>) -> Terms {
        let gpu_resource = self.pool.as_ref().and_then(|pool| pool.gpu_resource_for(rung));
        Terms { gpu_resource: gpu_resource.map(str::to_owned), restart_seconds, ..self.terms() }
    }
}

fn update_of(seen: &Seen) -> Option<jiff::Timestamp> {
    seen.pool.as_ref().and_then(|pool| pool.update_time)
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
