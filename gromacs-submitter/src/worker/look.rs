//! Reads what the state of a row asks for, and nothing else.

use scavenger_schema::scavenger_job::ScavengerJob;
use scavenger_schema::simulation::GromacsToTune;

use super::row_objects::RowObjects;
use super::{StepError, Worker, update_of};
use crate::advance::{self, LogToRead, Seen};
use crate::cluster::LogPart;
use crate::quota::QuotaRoom;
use crate::view::PoolView;

impl Worker {
    pub(super) async fn look(&self, row: &GromacsToTune) -> Result<Seen, StepError> {
        let objects = self.objects_of(row);
        let needs = advance::needs(row, self.store.clock());
        let ladder =
            if needs.ladder { self.store.ladder(row.id, row.status.submission).await? } else { Vec::new() };
        let (previous, previous_probe) = if needs.previous {
            (objects.previous().await?, objects.previous_probe().await?)
        } else {
            (None, None)
        };
        let (job, job_seen) = if needs.job { objects.job(&ladder).await? } else { (None, None) };
        let (probe, probe_seen) = match needs.probe {
            Some(probe) => objects.probe(probe).await?,
            None => (None, None),
        };
        let (replaced, ladder) = ladder.into_iter().partition(|rung| rung.replaced);
        let mut seen = Seen {
            needs,
            ladder,
            replaced,
            probe: probe_seen,
            job: job_seen,
            previous,
            previous_probe,
            ..Seen::default()
        };

        let details = advance::details(row, &seen);
        match details.log {
            Some(LogToRead::OfProbe) => {
                seen.log = objects.log(probe.as_ref().zip(seen.probe.as_ref()), LogPart::Whole).await?;
            }
            Some(LogToRead::OfJob) => {
                seen.log = objects.log(job.as_ref().zip(seen.job.as_ref()), LogPart::StartAndEnd).await?;
            }
            Some(LogToRead::OfRunning { attempt, knows_start }) => {
                self.look_at_running(row, &objects, job.as_ref(), attempt, knows_start, &mut seen).await?;
            }
            None => {}
        }
        if details.job_log {
            seen.job_log = objects.log(job.as_ref().zip(seen.job.as_ref()), LogPart::StartAndEnd).await?;
        }
        if details.pool {
            seen.pool = self.pool(row).await?;
        }
        if details.quota {
            seen.quota = self.cluster.quotas(&row.namespace).await?.as_deref().map(QuotaRoom::of);
        }
        if let Some(probe) = probe.as_ref().zip(seen.probe.as_ref()).filter(|_| details.image) {
            seen.image = Some(objects.image(probe).await?);
        }
        if details.restart {
            seen.restart_seconds = self.store.restart_seconds(row).await?;
        }
        if details.earlier {
            seen.earlier = self.store.earlier(row.id, row.status.submission).await?;
        }
        if details.failures {
            seen.failures = self.store.failures(row.id).await?;
        }
        seen.room_is_taken = self.taken().covers(update_of(&seen), self.store.clock());
        Ok(seen)
    }

    async fn look_at_running(
        &self,
        row: &GromacsToTune,
        objects: &RowObjects<'_>,
        job: Option<&ScavengerJob>,
        attempt: i32,
        knows_start: bool,
        seen: &mut Seen,
    ) -> Result<(), StepError> {
        let Some(job) = job else { return Ok(()) };
        if knows_start {
            seen.is_followed = self.follow(row, job).await?;
        }
        if !seen.is_followed {
            let part = if knows_start { LogPart::Progress } else { LogPart::StartAndProgress };
            seen.log = objects.log(seen.job.as_ref().map(|view| (job, view)), part).await?;
        }
        seen.memory_bytes = objects.memory_bytes(job, attempt).await;
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
        if let Some(view) = &mut view
            && let Some(written) = view.update_time
        {
            let seen = self.first_seen(written).await?;
            view.update_time = Some(seen);
            view.operator_ahead = written.duration_since(seen);
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
}
