//! The ScavengerJobs of a row in the cluster: the one place that reads, makes and deletes them.

use scavenger_schema::scavenger_job::ScavengerJob;
use scavenger_schema::simulation::{GromacsToTune, LadderRung};

use crate::advance::Log;
use crate::cluster::{Cluster, ClusterError, LogPart, Replaced};
use crate::manifest::{
    ManifestSettings, Probe, RowNames, Terms, pinned_image, probe_job, requested_image, simulation_job,
};
use crate::mdrun_log;
use crate::view::JobView;

/// A ScavengerJob, and what the row needs of it.
pub(super) type Found<'a> = (&'a ScavengerJob, &'a JobView);

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
    pub(super) async fn job(
        &self,
        ladder: &[LadderRung],
    ) -> Result<Option<(ScavengerJob, JobView)>, ClusterError> {
        self.read(&self.names.job(), ladder).await
    }

    /// That of the submission before.
    pub(super) async fn previous(&self) -> Result<Option<JobView>, ClusterError> {
        Ok(self.read(&self.names.previous(), &[]).await?.map(|(_, view)| view))
    }

    /// That of the probe that read its checkpoint.
    pub(super) async fn previous_probe(&self) -> Result<Option<JobView>, ClusterError> {
        Ok(self.read(&self.names.previous_verification(), &[]).await?.map(|(_, view)| view))
    }

    /// That of a probe.
    pub(super) async fn probe(&self, probe: Probe) -> Result<Option<(ScavengerJob, JobView)>, ClusterError> {
        self.read(&self.names.probe(probe), &[]).await
    }

    async fn read(
        &self,
        name: &str,
        ladder: &[LadderRung],
    ) -> Result<Option<(ScavengerJob, JobView)>, ClusterError> {
        let job = self.cluster.job(&self.row.namespace, name).await?;
        Ok(job.map(|job| {
            let view = JobView::new(&job, self.row, ladder, &self.settings.queue_id);
            (job, view)
        }))
    }

    /// A part of the log of the last attempt.
    pub(super) async fn log(&self, found: Option<Found<'_>>, part: LogPart) -> Result<Log, ClusterError> {
        let Some((job, attempt)) = found.and_then(|(job, view)| Some((job, view.last_attempt()?))) else {
            return Ok(Log::Gone);
        };
        let text = self.cluster.log(&self.row.namespace, job, attempt.number, part).await?;
        Ok(text.map_or(Log::Gone, |text| Log::Read { facts: mdrun_log::parse(&text), text }))
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

    pub(super) async fn delete_probe(&self, probe: Probe, uid: Option<&str>) -> Result<(), ClusterError> {
        self.cluster.delete(&self.row.namespace, &self.names.probe(probe), uid).await
    }

    /// That of the probe that read the checkpoint of any submission.
    pub(super) async fn delete_verification(&self, submission: i32, uid: &str) -> Result<(), ClusterError> {
        let name = self.names.verification_of(submission);
        self.cluster.delete(&self.row.namespace, &name, Some(uid)).await
    }

    pub(super) async fn create_job(&self, rung: &LadderRung, terms: &Terms) -> Result<(), ClusterError> {
        self.cluster.create(&simulation_job(self.row, rung, self.settings, terms)).await
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
        self.cluster.delete(&self.row.namespace, &self.names.job_of(submission), Some(uid)).await
    }
}
