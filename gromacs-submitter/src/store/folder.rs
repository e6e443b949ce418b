//! Where a row's files are, and what its attempts printed last.

use super::{Store, StoreError};
use crate::manifest::{self, RowNames};

/// The folder of a row, what may read it, and how far the row is.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct RowFolder {
    /// Number of the row.
    pub id: i64,
    /// Its UUID, which its ScavengerJobs and its folder are marked with.
    pub uuid: String,
    /// Namespace it runs in.
    pub namespace: String,
    /// PersistentVolumeClaim with its files.
    pub persistent_volume_claim: String,
    /// Path of the .tpr file in that volume.
    pub tpr_path: String,
    /// Folders of its simulations if it is of several.
    pub multidir: Vec<String>,
    /// Container image, if the row or its tenant names one.
    pub image: Option<String>,
    /// The same by its digest, as the inspection ran it.
    pub pinned_image: Option<String>,
    /// User id it runs as.
    pub run_as_user: i64,
    /// Group id it runs as, if not the same.
    pub run_as_group: Option<i64>,
    /// ServiceAccount it runs as, if not the namespace's default.
    pub service_account: Option<String>,
    /// Where it is.
    pub state: String,
    /// Why, one sentence.
    pub reason: Option<String>,
    /// Number of its ScavengerJob.
    pub submission: i32,
}

impl RowFolder {
    /// The folder, seen from the root of the volume.
    #[must_use]
    pub fn path(&self) -> String {
        manifest::folder(&self.tpr_path, self.id)
    }

    /// The names of its objects.
    #[must_use]
    pub fn names(&self) -> RowNames {
        RowNames::new(self.id, self.submission)
    }

    /// The group that the row's pods run as.
    #[must_use]
    pub fn group(&self) -> i64 {
        self.run_as_group.unwrap_or(self.run_as_user)
    }
}

/// An attempt, and what is left of its output in the database.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct AttemptLog {
    /// Submission.
    pub submission: i32,
    /// Attempt.
    pub attempt: i32,
    /// Its last lines, if they were kept.
    pub log_end: Option<String>,
}

impl Store {
    /// The folder of a row; none if the connected role sees no such row.
    pub async fn folder(&self, row: i64) -> Result<Option<RowFolder>, StoreError> {
        Ok(self.folders(&[row]).await?.pop())
    }

    /// The folders of those of `rows` that the connected role sees, in the order of their numbers.
    pub async fn folders(&self, rows: &[i64]) -> Result<Vec<RowFolder>, StoreError> {
        Ok(sqlx::query_as(
            "select t.id, t.uuid::text as uuid, t.namespace, t.persistent_volume_claim, t.tpr_path, t.multidir, t.image, t.pinned_image, t.run_as_user,
                t.run_as_group, t.service_account, t.state, q.reason, t.submission
            from gromacs_to_tune t join gromacs_queue q on q.id = t.id where t.id = any ($1) order by t.id",
        )
        .bind(rows)
        .fetch_all(&self.pool)
        .await?)
    }

    /// The attempts of a row that ran, newest first.
    pub async fn attempt_logs(&self, row: i64) -> Result<Vec<AttemptLog>, StoreError> {
        Ok(sqlx::query_as(
            "select submission, attempt, log_end from gromacs_attempt
            where row_id = $1 and start_time is not null order by submission desc, attempt desc",
        )
        .bind(row)
        .fetch_all(&self.pool)
        .await?)
    }
}
