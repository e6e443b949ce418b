//! The queue's database as the tests reach it: psql in the database's own pod, as an admin would.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use serde::de::DeserializeOwned;

use crate::world::exec;

/// Namespace of the project's own parts.
pub const NAMESPACE: &str = "scavenger-system";

/// psql in the pod; the socket needs no password.
const PSQL: [&str; 9] = [
    "psql",
    "--host=/tmp",
    "--no-psqlrc",
    "--quiet",
    "--tuples-only",
    "--no-align",
    "--set=ON_ERROR_STOP=1",
    "--dbname=scavenger",
    "--command",
];

/// The queue's database.
pub struct Database {
    pods: Api<Pod>,
}

impl Database {
    /// The database that is installed in the cluster.
    #[must_use]
    pub fn new(client: &Client) -> Self {
        Self { pods: Api::namespaced(client.clone(), NAMESPACE) }
    }

    /// Runs a statement as the admin and returns what psql prints.
    ///
    /// # Errors
    /// What psql complains about.
    pub async fn sql(&self, statement: &str) -> Result<String> {
        self.sql_as("postgres", statement).await
    }

    /// Runs a statement as somebody and returns what psql prints.
    ///
    /// # Errors
    /// What psql complains about.
    pub async fn sql_as(&self, role: &str, statement: &str) -> Result<String> {
        let username = format!("--username={role}");
        let mut command: Vec<&str> = PSQL.to_vec();
        command.extend([statement, &username]);
        exec(&self.pods, "postgres-0", "postgres", &command).await
    }

    /// Rows of a select.
    ///
    /// # Errors
    /// What psql complains about, or if the rows have another shape.
    pub async fn rows<T: DeserializeOwned>(&self, select: &str) -> Result<Vec<T>> {
        let text = self.sql(&format!("select coalesce(json_agg(t), '[]') from ({select}) t")).await?;
        serde_json::from_str(&text).with_context(|| format!("unexpected rows: {text}"))
    }
}
