//! Does what a step says: writes to Kubernetes, asks the tuner, or writes the row.

use scavenger_schema::simulation::{GromacsToTune, LadderRung, RowStatus, State};
use scavenger_schema::tuning::SystemDescription;

use super::{Progress, StepError, Worker};
use crate::advance::{self, Action, Seen, Step};
use crate::cluster::Replaced;
use crate::faults;
use crate::ladder_settings::choose;
use crate::manifest::{Terms, USUAL_GRACE_SECONDS, runs_on_one_rank};
use crate::store::{Answer, Changes, Claim};
use crate::tuner_client::Ladder;
use crate::view::PoolView;

impl Worker {
    pub(super) async fn act(&self, claim: &Claim, seen: &Seen, step: Step) -> Result<Progress, StepError> {
        let row = &claim.row;
        let objects = self.objects_of(row);
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
                    went_back: step.went_back,
                    observations: step.observations,
                    refused: step.refused,
                    stops_appending: step.stops_appending,
                    forgets_image: step.forgets_image,
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
            Action::CreateProbe(probe) => objects.create_probe(probe, &terms(seen)).await?,
            Action::DeleteProbe(probe) => {
                if let Some(found) = &seen.probe {
                    objects.delete_probe(probe, &found.uid).await?;
                }
            }
            Action::DeleteVerification { submission, uid } => {
                objects.delete_verification(submission, &uid).await?;
            }
            Action::CreateCommand => {
                if let Some(command) = row.command() {
                    objects.create_command(command, &terms(seen)).await?;
                }
            }
            Action::CreateJob(rung) => {
                let rung = find_rung(row, &seen.ladder, rung)?;
                let restart_seconds = self.store.restart_seconds(row).await?;
                objects.create_job(rung, &terms_for(seen, rung, restart_seconds)).await?;
            }
            Action::SuspendJob { resource_version } => {
                let replaced = objects.suspend_job(&resource_version).await?;
                tracing::info!(row = row.id, ?replaced, "suspends it to grow");
                if let Replaced::Refused(words) = replaced {
                    return self
                        .refused(claim, advance::without_growth(row, &words, self.store.clock()))
                        .await;
                }
            }
            Action::ResumeJob { resource_version } => {
                let replaced = objects.resume_job(&resource_version).await?;
                tracing::info!(row = row.id, ?replaced, "resumes it as it is");
            }
            Action::ReplaceJob { rung, resumes, resource_version } => {
                let found = find_rung(row, &seen.ladder, rung)?;
                let terms = terms_for(seen, found, self.store.restart_seconds(row).await?);
                let replaced = objects.replace_job(found, &terms, &resource_version, resumes).await?;
                tracing::info!(row = row.id, rung, ?replaced, "replaces the configuration");
                if let Replaced::Refused(words) = replaced {
                    return self
                        .refused(claim, advance::with_refusal(row, rung, &words, self.store.clock()))
                        .await;
                }
            }
            Action::DeleteJob { submission, uid } => objects.delete_job(submission, &uid).await?,
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
        let failures =
            if row.status.submission > 1 { self.store.failures(row.id).await? } else { Vec::new() };
        // Not on nodes whose processor cannot run its image.
        let kind = pool
            .and_then(|pool| advance::other_kind(&pool.nodes, None, &failures, row.pinned_image.as_deref()));
        let narrowed = pool.zip(kind.as_ref()).map(|(pool, kind)| advance::with_label(pool, kind));
        let pool = narrowed.as_ref().or(pool);
        let nodes = pool.map(PoolView::shapes).unwrap_or_default();
        let limits = pool.map_or_else(|| row.limits(), |pool| pool.limits.bound(&row.limits()));
        let of_pool = pool.map(|pool| pool.ladder_settings).unwrap_or_default();
        let chosen = choose(&row.ladder_settings, &of_pool);
        let limits = chosen.within(&limits);
        // A restart on resources that were measured is a free experiment: the tuner may choose another layout.
        let status = &row.status;
        // What other rows of the same system tried counts as well. What several measured side by side says nothing of one.
        let measured = if !row.is_multidir() && (status.submission > 1 || status.interruptions > 0) {
            self.store.measured_runs(row.id, &system, status.submission.saturating_add(1)).await?
        } else {
            Vec::new()
        };
        let shared = self.tuner.shared_gpus(row, &system, &limits, &nodes).await?;
        let share = advance::share(row, &nodes, &limits);
        let Ladder { rungs: ladder, answer } =
            self.tuner.ladder(row, system, share.limits.clone(), &share.nodes, measured).await?;
        let mut answer = Answer { chosen: Some(chosen), ..answer };
        let ladder = if runs_on_one_rank(row) { advance::on_one_rank(ladder) } else { ladder };
        let ladder = advance::in_processes(row, ladder, &share)?;
        let refusals = self.store.refusals(row.id).await?;
        let ladder = advance::without_refused(ladder, &refusals, advance::count_gpus(pool))
            .map_err(|words| StepError::FitPool(no_configuration(row, &words)))?;
        let ladder = match &kind {
            Some(kind) => advance::bound_to(kind, ladder),
            None => ladder,
        };
        let mut ladder = advance::together(row, ladder, &shared, &nodes, &limits)?;
        answer.notes.extend(advance::beside_ordinary_pods(&mut ladder, pool));
        let kills = match row.status.private.outgrown_memory_bytes {
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

/// Why no configuration is left, in the words of the last one, and what to do.
fn no_configuration(row: &GromacsToTune, words: &str) -> String {
    let remedy = faults::remedy(faults::of_gromacs(words), false, row);
    let remedy = remedy.unwrap_or_else(|| {
        format!(
            "mend {} or name another image (gromacs-submitter edit {} --image), and retry",
            row.tpr_path, row.id
        )
    });
    format!("{words}; {remedy}")
}

fn terms(seen: &Seen) -> Terms {
    let pool = seen.pool.as_ref();
    Terms {
        longest_grace: pool.map_or(USUAL_GRACE_SECONDS, |pool| pool.limits.max_grace_seconds),
        supervised: pool.is_some_and(|pool| pool.supervises),
        tolerated_taints: pool.map(|pool| pool.tolerated_taints.clone()).unwrap_or_default(),
        gpu_resource: None,
        restart_seconds: None,
    }
}

/// With what the GPUs of a configuration are called, and what a restart costs.
fn terms_for(seen: &Seen, rung: &LadderRung, restart_seconds: Option<i32>) -> Terms {
    let gpu_resource = seen.pool.as_ref().and_then(|pool| pool.gpu_resource_for(rung));
    Terms { gpu_resource: gpu_resource.map(str::to_owned), restart_seconds, ..terms(seen) }
}

fn find_rung<'a>(
    row: &GromacsToTune,
    ladder: &'a [LadderRung],
    rung: i32,
) -> Result<&'a LadderRung, StepError> {
    ladder.iter().find(|found| found.rung == rung).ok_or(StepError::FindRung { row: row.id, rung })
}
