//! How the objects of a row are named and marked, and how they are recognised.

use std::collections::BTreeMap;

use scavenger_schema::names;
use scavenger_schema::simulation::{
    GromacsToTune, LABEL_MANAGED_BY, LABEL_QUEUE, LABEL_ROW, LABEL_ROW_UUID, selector,
};

/// What a probe reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// The .tpr file.
    Inspection,
    /// The checkpoint.
    Verification,
}

/// The names of a row's objects. A row has one ScavengerJob for each submission, and for a time one for each probe.
///
/// ```
/// use gromacs_submitter::manifest::{Probe, RowNames};
///
/// let names = RowNames::new(12, 2);
/// assert_eq!(names.job(), "gromacs-12-2");
/// assert_eq!(names.previous(), "gromacs-12-1");
/// assert_eq!(names.probe(Probe::Inspection), "gromacs-12-inspect");
/// assert_eq!(names.probe(Probe::Verification), "gromacs-12-2-verify");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowNames {
    row: i64,
    submission: i32,
}

impl RowNames {
    /// Those of a row in a submission.
    #[must_use]
    pub fn new(row: i64, submission: i32) -> Self {
        Self { row, submission }
    }

    /// Those of a row as it is now.
    #[must_use]
    pub fn of(row: &GromacsToTune) -> Self {
        Self::new(row.id, row.status.submission)
    }

    /// Name of the ScavengerJob of any submission.
    #[must_use]
    pub fn job_of(self, submission: i32) -> String {
        format!("gromacs-{}-{submission}", self.row)
    }

    /// Name of the ScavengerJob of this submission.
    #[must_use]
    pub fn job(self) -> String {
        self.job_of(self.submission)
    }

    /// Name of that of the submission before.
    #[must_use]
    pub fn previous(self) -> String {
        self.job_of(self.submission - 1)
    }

    /// The submission whose ScavengerJob has this name; none if it is none of the row's.
    #[must_use]
    pub fn submission_of(self, job: &str) -> Option<i32> {
        job.strip_prefix(&format!("gromacs-{}-", self.row))?.parse().ok()
    }

    /// Name of a probe's ScavengerJob.
    #[must_use]
    pub fn probe(self, probe: Probe) -> String {
        match probe {
            Probe::Inspection => format!("gromacs-{}-inspect", self.row),
            Probe::Verification => self.verification_of(self.submission),
        }
    }

    /// Name of the ScavengerJob that reads the checkpoint of any submission.
    #[must_use]
    pub fn verification_of(self, submission: i32) -> String {
        format!("{}-verify", self.job_of(submission))
    }

    /// Name of the one that read the checkpoint of the submission before.
    #[must_use]
    pub fn previous_verification(self) -> String {
        self.verification_of(self.submission - 1)
    }

    /// Name of a pod that reads the volume of the row; `random` distinguishes two of the same row.
    #[must_use]
    pub fn reader(self, random: u32) -> String {
        format!("gromacs-{}-reader-{random:08x}", self.row)
    }
}

/// The labels of a row's ScavengerJobs.
pub(super) fn labels(row: &GromacsToTune, queue_id: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        (LABEL_MANAGED_BY.to_owned(), names::SUBMITTER.to_owned()),
        (LABEL_ROW.to_owned(), row.id.to_string()),
        (LABEL_ROW_UUID.to_owned(), row.uuid.clone()),
        (LABEL_QUEUE.to_owned(), queue_id.to_owned()),
    ])
}

/// True if an object with these labels was made for the row. Its number says nothing: two queues that share a cluster may both
/// have a row 1, and so may one queue before and after its database is restored from a backup. What has no UUID is nobody's: no
/// row of a database that has UUIDs was ever without.
pub(crate) fn is_of_row(found: &BTreeMap<String, String>, row: &GromacsToTune) -> bool {
    found.get(LABEL_ROW_UUID) == Some(&row.uuid)
}

/// Selector of what was made for the row with this UUID.
pub(crate) fn selector_of_row(uuid: &str) -> String {
    format!("{LABEL_ROW_UUID}={uuid}")
}

/// Selector of the ScavengerJobs of all rows of a queue.
pub(crate) fn selector_of_queue(queue_id: &str) -> String {
    format!("{},{LABEL_QUEUE}={queue_id}", selector())
}

/// The row that an object with these labels was made for.
pub(crate) fn row_of(labels: &BTreeMap<String, String>) -> Option<i64> {
    labels.get(LABEL_ROW)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{namesake, row};

    #[test]
    fn an_object_is_recognised_by_the_uuid_it_was_marked_with() {
        let marked = labels(&row(), "q");
        assert!(is_of_row(&marked, &row()) && row_of(&marked) == Some(7));
        assert!(!is_of_row(&marked, &namesake()), "of the same number, in the same queue");
        let mut lacking = marked.clone();
        lacking.remove(LABEL_ROW_UUID);
        assert!(!is_of_row(&lacking, &row()), "of a build before there were UUIDs");
        assert_eq!(
            selector_of_row(&row().uuid),
            format!("scavenger.dev/row-uuid={}", marked[LABEL_ROW_UUID])
        );
    }

    #[test]
    fn a_submission_is_read_from_the_name_of_its_job() {
        let names = RowNames::new(7, 3);
        assert_eq!(names.submission_of(&names.job()), Some(3));
        assert_eq!(names.submission_of(&names.previous()), Some(2));
        for other in ["gromacs-70-1", "gromacs-7-inspect", "gromacs-7-1-verify", "other"] {
            assert_eq!(names.submission_of(other), None, "{other}");
        }
    }
}
