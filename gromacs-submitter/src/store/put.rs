//! What counts for files that are brought onto a volume.

use super::{Store, StoreError};

/// What holds for a namespace in which the connected role may run simulations.
#[derive(Debug, Clone, Default, PartialEq, Eq, sqlx::FromRow)]
pub struct Destination {
    /// The one user id that is allowed, if the tenant says so.
    pub run_as_user: Option<i64>,
    /// The one group id that is allowed, if the tenant says so.
    pub run_as_group: Option<i64>,
    /// User id of rows that ask for none.
    pub default_user: i64,
    /// ServiceAccount of its pods, if it is not the namespace's default.
    pub service_account: Option<String>,
    /// Image of the tenant, or else of its newest row that has one.
    pub image: Option<String>,
    /// The most that may be brought at a time, bytes; no limit if none.
    pub max_put_bytes: Option<i64>,
}

/// A row that has not ended, and which files it names.
#[derive(Debug, Clone, Default, PartialEq, Eq, sqlx::FromRow)]
pub struct InUse {
    /// Number of the row.
    pub id: i64,
    /// Path of its .tpr file.
    pub tpr_path: String,
    /// Folders of its simulations if it is of several.
    pub multidir: Vec<String>,
    /// Path of the checkpoint that it starts from.
    pub checkpoint_path: Option<String>,
    /// Options of mdrun.
    pub mdrun_options: Vec<String>,
    /// Options of grompp.
    pub grompp_options: Vec<String>,
}

impl Store {
    /// What the admin has set for the connected role in a namespace; none if it may run nothing there.
    pub async fn destination(&self, namespace: &str) -> Result<Option<Destination>, StoreError> {
        Ok(sqlx::query_as(
            "select t.run_as_user, t.run_as_group, gromacs_run_as_user(null, t.run_as_user) as default_user, t.service_account, t.max_put_bytes,
                coalesce(t.image, (select coalesce(r.pinned_image, r.image) from gromacs_to_tune r
                    where r.owner = t.database_role and r.namespace = t.namespace
                        and coalesce(r.pinned_image, r.image) is not null
                    order by r.id desc limit 1)) as image
            from gromacs_tenant t where t.database_role = session_user and t.namespace = $1",
        )
        .bind(namespace)
        .fetch_optional(&self.pool)
        .await?)
    }

    /// The rows with files on a claim that have not ended, as far as the connected role sees them.
    pub async fn in_use(&self, namespace: &str, claim: &str) -> Result<Vec<InUse>, StoreError> {
        Ok(sqlx::query_as(
            "select id, tpr_path, multidir, checkpoint_path, mdrun_options, grompp_options from gromacs_to_tune
            where namespace = $1 and persistent_volume_claim = $2
                and state not in ('completed', 'failed', 'cancelled') order by id",
        )
        .bind(namespace)
        .bind(claim)
        .fetch_all(&self.pool)
        .await?)
    }
}
