//! The queue's database as the tests reach it: psql in the database's own pod, as an admin would.

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{AttachParams, AttachedProcess},
};
use serde::de::DeserializeOwned;
use tokio::io::AsyncReadExt;

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
        let parameters = AttachParams::default().container("postgres").stdout(true).stderr(true);
        let mut process: AttachedProcess = self.pods.exec("postgres-0", command, &parameters).await?;
        let mut stdout = process.stdout().context("exec gave no standard output")?;
        let mut stderr = process.stderr().context("exec gave no standard error")?;
        let status = process.take_status().context("exec gave no status")?;
        let (mut printed, mut complaint) = (String::new(), String::new());
        tokio::try_join!(stdout.read_to_string(&mut printed), stderr.read_to_string(&mut complaint))?;
        let status = status.await.context("exec ended without a status")?;
        if status.status.as_deref() != Some("Success") {
            bail!("psql failed: {} ({})", complaint.trim(), status.message.unwrap_or_default());
        }
        Ok(printed.trim().to_owned())
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
