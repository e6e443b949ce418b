//! The write of a status: one PUT over the version that was judged, and what follows from it.

use kube::api::PostParams;
use scavenger_planner::{
    action::{Answer, Failure, StatusWrite},
    values::{Key, Phase, ScavengerJobStatus},
};
use scavenger_schema::{scavenger_job::ScavengerJob, terminal::shown};
use tracing::info;

use super::{Executor, Outcome, errors::failure, now, record};
use crate::{observe::convert, status};

impl Executor {
    /// The ScavengerJob in the version that was judged, as the step before kept it, or read again: then it may be newer.
    async fn judged(&self, key: &Key, uid: &str, version: u64) -> Result<ScavengerJob, Failure> {
        match self.kept.take(uid).filter(|sj| convert::resource_version(sj) == version) {
            Some(sj) => Ok(sj),
            None => self.get_since(key, uid, Some(version)).await,
        }
    }

    pub(super) async fn write_status(&self, key: &Key, uid: &str, write: StatusWrite) -> Outcome {
        let StatusWrite { resource_version, status: new, ended, event } = write;
        let mut sj = self.judged(key, uid, resource_version).await?;
        if convert::resource_version(&sj) != resource_version {
            return Err(Failure::Conflict);
        }
        let begins_to_run = begins_to_run(&sj, &new);
        let before = status::from_crd(sj.status.as_ref()).attempt;
        let mut replaced = status::replacing(&sj, &new, ended.as_ref());
        let demand = || convert::sj(&sj).spec.ok().map(|spec| spec.demand.clone());
        replaced.expected_start = self.forecasts.expected_start(key, &new, demand, now());
        sj.status = Some(replaced);
        if new.phase == Phase::Starting {
            self.must_lead()?;
        }
        // The object carries the UID and the version that were judged: the API server refuses every other.
        let written = self
            .api::<ScavengerJob>(key)
            .replace_status(&key.name, &PostParams::default(), &sj)
            .await
            .map_err(failure)?;
        info!(
            namespace = %key.namespace, name = %key.name,
            phase = new.phase.name(),
            attempt = new.attempt.as_ref().map(|attempt| attempt.number),
            reason = new.admitted.as_ref().and_then(|a| a.waiting.as_ref()).map(|w| w.reason.name()),
            status_message = %shown(&new.message),
            "status written"
        );
        let attempts = written.status.iter().flat_map(|status| &status.attempts);
        if let Some(attempt) =
            ended.and_then(|ended| attempts.rev().find(|one| one.number == i64::from(ended.number)))
        {
            record::attempt_ended(key, uid, attempt);
        }
        self.forecasts.written(key, &new, begins_to_run, now());
        let sj = convert::sj(&written);
        if begins_to_run {
            self.metrics.started(sj.creation_time, &new);
        }
        if let Some(event) = event {
            self.metrics.event(event, &key.namespace, &new);
            self.events.tell(&written, event, &new.message);
        }
        if new.phase == Phase::Starting {
            self.kept.keep(written);
        }
        self.metrics.written(before.as_deref(), &sj);
        Ok(Answer::ScavengerJob(Box::new(sj)))
    }
}

/// True if with this status an attempt runs that did not before.
fn begins_to_run(sj: &ScavengerJob, new: &ScavengerJobStatus) -> bool {
    let before = sj.status.as_ref().and_then(|status| status.phase);
    new.phase == Phase::Running && before != Some(Phase::Running)
}
