//! The ScavengerJobs of a row in the cluster: the one place that reads, makes and deletes them.

use scavenger_schema::scavenger_job::ScavengerJob;
use scavenger_schema::simulation::{Command, GromacsToTune, LadderRung};

use crate::advance::Log;
use crate::cluster::{Cluster, ClusterError, LogPart, Replaced};
use crate::manifest::{
    ManifestSettings, Probe, RowNames, Terms, command_job, pinned_image, probe_job, requested_image,
    simulation_job,
};
use crate::mdrun_log::{self, LogFacts};
use crate::view::JobView;

/// A ScavengerJob, and what the row needs of it.
pub(super) type Found<'a> = (&'a ScavengerJob, &'a JobView);

/// A ScavengerJob if the row has made it, and what is to be seen of it even if another one has.
pub(super) type Read = (Option<ScavengerJob>, Option<JobView>);

/// The ScavengerJobs of a row.
pub(super) struct RowObjects<'a> {
    cluster: &'a Cluster,
    settings: &'a ManifestSettings,
    row: &'a GromacsToTune,
    names: RowNames,
}

impl<'a> RowObjects<'a> {
    pub(super) fn new(cluster: &'a Cluster, settings: &'a ManifestSettings, row: &'a GromacsToTune) -> Self {
        Self { cluster, settings, row, names: RowNames::of(row) }
    }

    /// That of the submission, which may have any of these configurations.
    pub(super) async fn job(&self, ladder: &[LadderRung]) -> Result<Read, ClusterError> {
        self.read(&self.names.job(), ladder).await
    }

    /// That of the submission before.
    pub(super) async fn previous(&self) -> Result<Option<JobView>, ClusterError> {
        Ok(self.read(&self.names.previous(), &[]).await?.1)
    }

    /// That of the probe that read its checkpoint.
    pub(super) async fn previous_probe(&self) -> Result<Option<JobView>, ClusterError> {
        Ok(self.read(&self.names.previous_verification(), &[]).await?.1)
    }

    /// That of a probe.
    pub(super) async fn probe(&self, probe: Probe) -> Result<Read, ClusterError> {
        self.read(&self.names.probe(probe), &[]).await
    }

    async fn read(&self, name: &str, ladder: &[LadderRung]) -> Result<Read, ClusterError> {
        let job = self.cluster.job(&self.row.namespace, name).await?;
        let view = job.as_ref().map(|job| JobView::new(job, self.row, ladder));
        // Without the object, nobody asks for the pods of one that another row has made.
        Ok((job.filter(|_| view.as_ref().is_some_and(|view| view.ours)), view))
    }

    /// A part of the log of the last attempt.
    pub(super) async fn log(&self, found: Option<Found<'_>>, part: LogPart) -> Result<Log, ClusterError> {
        let Some((job, attempt)) = found.and_then(|(job, view)| Some((job, view.last_attempt()?))) else {
            return Ok(Log::Gone);
        };
        let text = self.cluster.log(&self.row.namespace, job, attempt.number, part).await?;
        Ok(text.map_or(Log::Gone, |text| Log::Read { facts: facts_of(self.row, &text), text }))
    }

    /// Memory that the pod of an attempt uses now, bytes.
    pub(super) async fn memory_bytes(&self, job: &ScavengerJob, attempt: i32) -> Option<i64> {
        self.cluster.memory_bytes(&self.row.namespace, job, attempt).await
    }

    /// The image that ran the last attempt, as exactly as the node says it.
    pub(super) async fn image(&self, (job, view): Found<'_>) -> Result<String, ClusterError> {
        let attempt = view.last_attempt().map_or(1, |attempt| attempt.number);
        let image_id = self.cluster.image_id(&self.row.namespace, job, attempt).await?;
        let requested = requested_image(self.row, self.settings);
        Ok(pinned_image(&requested, image_id.as_deref()))
    }

    pub(super) async fn create_probe(&self, probe: Probe, terms: &Terms) -> Result<(), ClusterError> {
        self.cluster.create(&probe_job(self.row, probe, self.settings, terms)).await
    }

    pub(super) async fn delete_probe(&self, probe: Probe, uid: &str) -> Result<(), ClusterError> {
        self.cluster.delete(&self.row.namespace, &self.names.probe(probe), uid).await
    }

    /// That of the probe that read the checkpoint of any submission.
    pub(super) async fn delete_verification(&self, submission: i32, uid: &str) -> Result<(), ClusterError> {
        let name = self.names.verification_of(submission);
        self.cluster.delete(&self.row.namespace, &name, uid).await
    }

    pub(super) async fn create_job(&self, rung: &LadderRung, terms: &Terms) -> Result<(), ClusterError> {
        self.cluster.create(&simulation_job(self.row, rung, self.settings, terms)).await
    }

    pub(super) async fn create_command(
        &self,
        command: Command<'_>,
        terms: &Terms,
    ) -> Result<(), ClusterError> {
        self.cluster.create(&command_job(self.row, command, self.settings, terms)).await
    }

    pub(super) async fn replace_job(
        &self,
        rung: &LadderRung,
        terms: &Terms,
        resource_version: &str,
        resumes: bool,
    ) -> Result<Replaced, ClusterError> {
        let job = simulation_job(self.row, rung, self.settings, terms);
        self.cluster.replace(&job, resource_version, resumes).await
    }

    pub(super) async fn suspend_job(&self, resource_version: &str) -> Result<Replaced, ClusterError> {
        self.cluster.suspend(&self.row.namespace, &self.names.job(), resource_version).await
    }

    pub(super) async fn resume_job(&self, resource_version: &str) -> Result<Replaced, ClusterError> {
        self.cluster.resume(&self.row.namespace, &self.names.job(), resource_version).await
    }

    /// Also that of another submission.
    pub(super) async fn delete_job(&self, submission: i32, uid: &str) -> Result<(), ClusterError> {
        self.cluster.delete(&self.row.namespace, &self.names.job_of(submission), uid).await
    }
}

/// What mdrun says in a log. What a command prints says nothing of its row, even if that is the log of an mdrun.
fn facts_of(row: &GromacsToTune, text: &str) -> LogFacts {
    if row.command().is_some() { LogFacts::default() } else { mdrun_log::parse(text) }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use axum::{Json, Router};

    use super::*;
    use crate::fixtures::{client, command, ladder, manifest_settings, namesake, row, terms};

    #[test]
    fn an_mdrun_that_a_command_prints_is_none_of_the_rows() {
        let log = "\nstep 100, remaining wall clock time:    14 s          \n";
        assert_ne!(facts_of(&row(), log), LogFacts::default());
        assert_eq!(facts_of(&command(), log), LogFacts::default());
    }

    #[tokio::test]
    async fn of_what_another_row_of_the_same_number_has_made_nothing_can_be_read() {
        let made = simulation_job(&row(), &ladder()[0], &manifest_settings(), &terms());
        let path = "/apis/scavenger.dev/v1alpha1/namespaces/lab/scavengerjobs/gromacs-7-1";
        let router = Router::new().route(path, get(|| async move { Json(made) }));
        let (cluster, settings) = (Cluster::with_client(client(router).await), manifest_settings());
        for (row, ours) in [(row(), true), (namesake(), false)] {
            let objects = RowObjects::new(&cluster, &settings, &row);
            let (job, view) = objects.job(&ladder()).await.expect("should be read");
            let view = view.expect("should be there");
            assert_eq!((job.is_some(), view.ours), (ours, ours));
        }
    }
}
