//! The queue as the demo sees it: through psql in the database's own pod.

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::{cluster::Cluster, install::NAMESPACE};

/// psql in the database's pod; the socket needs no password.
pub(super) const PSQL: [&str; 6] =
    ["psql", "--host=/tmp", "--no-psqlrc", "--quiet", "scavenger", "--username"];

/// The admin of the queue.
const ADMIN: &str = "postgres";

/// Who puts the rows into the queue and looks at them.
pub(super) const CHEMIST: &str = "chemist";

/// One row of the view gromacs_queue.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Row {
    pub(super) id: i64,
    pub(super) tpr_path: String,
    pub(super) state: String,
    pub(super) reason: Option<String>,
    pub(super) configuration: Option<String>,
    pub(super) rung: Option<i32>,
    pub(super) rungs: Option<i32>,
    pub(super) step: Option<i64>,
    pub(super) last_step: Option<i64>,
    pub(super) percent: Option<f64>,
    pub(super) ns_per_day: Option<f64>,
    pub(super) interruptions: i64,
    pub(super) lost_seconds: Option<i64>,
}

/// One attempt, as the submitter recorded it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Attempt {
    pub(super) row_id: i64,
    pub(super) first_step: Option<i64>,
    pub(super) last_step: Option<i64>,
    pub(super) outcome: Option<String>,
    pub(super) reason: Option<String>,
}

/// The queue's database.
pub(super) struct Queue<'a> {
    cluster: &'a Cluster,
}

impl<'a> Queue<'a> {
    pub(super) fn new(cluster: &'a Cluster) -> Self {
        Self { cluster }
    }

    fn psql(&self, role: &str, options: &[&str], statement: &str) -> Result<String> {
        let mut arguments =
            vec!["exec", "--namespace", NAMESPACE, "postgres-0", "--container", "postgres", "--"];
        arguments.extend(PSQL);
        arguments.push(role);
        arguments.extend(["--set=ON_ERROR_STOP=1"]);
        arguments.extend(options);
        arguments.extend(["--command", statement]);
        self.cluster.kubectl_output(&arguments)
    }

    fn json<T: serde::de::DeserializeOwned>(&self, select: &str) -> Result<Vec<T>> {
        let statement = format!("select coalesce(json_agg(t), '[]') from ({select}) t");
        let text = self.psql(CHEMIST, &["--tuples-only", "--no-align"], &statement)?;
        serde_json::from_str(text.trim())
            .with_context(|| format!("psql answered with no JSON to: {statement}"))
    }

    /// What an admin does once for a chemist: a role to log in with, and the namespace that its rows may name.
    pub(super) fn add_tenant(&self, namespace: &str) -> Result<()> {
        let statement = format!(
            "create role {CHEMIST} login in role gromacs_chemist; \
             insert into gromacs_tenant (database_role, namespace) values ('{CHEMIST}', '{namespace}')"
        );
        self.psql(ADMIN, &[], &statement).map(drop)
    }

    /// Puts rows into the queue and returns their ids.
    pub(super) fn insert(&self, namespace: &str, claim: &str, paths: &[&str]) -> Result<Vec<i64>> {
        let mut ids = Vec::new();
        for path in paths {
            let id = self.psql(
                CHEMIST,
                &["--tuples-only", "--no-align"],
                &format!(
                    "insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path, \
                     interruption_after_seconds) values ('{namespace}', '{claim}', '{path}', 60) returning id"
                ),
            )?;
            ids.push(id.trim().parse().with_context(|| format!("psql returned no id but {id:?}"))?);
        }
        Ok(ids)
    }

    /// The rows as people see them.
    pub(super) fn rows(&self, ids: &[i64]) -> Result<Vec<Row>> {
        self.json(&format!("select * from gromacs_queue where id in ({}) order by id", list(ids)))
    }

    /// The attempts in the order in which they ran.
    pub(super) fn attempts(&self, ids: &[i64]) -> Result<Vec<Attempt>> {
        self.json(&format!(
            "select row_id, first_step, last_step, outcome, reason from gromacs_attempt \
             where row_id in ({}) and start_time is not null order by row_id, submission, attempt",
            list(ids)
        ))
    }

    /// What came of the rows, as psql prints it.
    pub(super) fn summary(&self, ids: &[i64]) -> Result<String> {
        self.psql(
            CHEMIST,
            &[],
            &format!(
                "select id, tpr_path, state, configuration, round(ns_per_day::numeric, 2) as ns_per_day, \
                 interruptions, attempts, wall_seconds, run_seconds, lost_seconds from gromacs_queue where id in ({}) order by id",
                list(ids)
            ),
        )
    }
}

fn list(ids: &[i64]) -> String {
    ids.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
}
