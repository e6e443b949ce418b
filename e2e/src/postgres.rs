//! The queue's database as the tests reach it: psql in the database's own pod, as an admin would.

use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{AttachParams, AttachedProcess},
};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines, ReadHalf, SimplexStream, WriteHalf};

use crate::world::exec;

/// Namespace of the project's own parts.
pub const NAMESPACE: &str = "scavenger-system";

/// Where the database runs.
const POD: &str = "postgres-0";
const CONTAINER: &str = "postgres";

/// psql in the pod; the socket needs no password.
const PSQL: [&str; 8] = [
    "psql",
    "--host=/tmp",
    "--no-psqlrc",
    "--quiet",
    "--tuples-only",
    "--no-align",
    "--set=ON_ERROR_STOP=1",
    "--dbname=scavenger",
];

/// The queue's database.
pub struct Database {
    pods: Api<Pod>,
    readers: Mutex<Vec<Reader>>,
}

impl Database {
    /// The database that is installed in the cluster.
    #[must_use]
    pub fn new(client: &Client) -> Self {
        Self { pods: Api::namespaced(client.clone(), NAMESPACE), readers: Mutex::default() }
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
        command.extend(["--command", statement, &username]);
        exec(&self.pods, POD, CONTAINER, &command).await
    }

    /// Rows of a select.
    ///
    /// # Errors
    /// What psql complains about, or if the rows have another shape.
    pub async fn rows<T: DeserializeOwned>(&self, select: &str) -> Result<Vec<T>> {
        let text = self.read(&format!("select coalesce(json_agg(t), '[]') from ({select}) t")).await?;
        serde_json::from_str(&text).with_context(|| format!("unexpected rows: {text}"))
    }

    /// The answer to one select, from a psql that stays open if that works. A psql that has lost its server says so here
    /// for the first time, so the question is then asked anew: it changes nothing.
    async fn read(&self, select: &str) -> Result<String> {
        let idle = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let answered = async {
            let mut reader = match idle {
                Some(reader) => reader,
                None => Reader::open(&self.pods).await?,
            };
            let answer = reader.ask(select).await?;
            anyhow::Ok((reader, answer))
        };
        let Ok((reader, answer)) = answered.await else { return self.sql(select).await };
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).push(reader);
        Ok(answer)
    }
}

/// A psql that answers one select after the other. The tests ask for rows until they are as expected; each psql of its
/// own in the pod would cost the API server, the kubelet and containerd far more processor time than the answer.
struct Reader {
    /// The connection, which psql ends with.
    _process: AttachedProcess,
    questions: WriteHalf<SimplexStream>,
    answers: Lines<BufReader<ReadHalf<SimplexStream>>>,
}

impl Reader {
    /// What psql prints after an answer.
    const END: &str = "-- end of the answer";

    async fn open(pods: &Api<Pod>) -> Result<Self> {
        let parameters = AttachParams::default().container(CONTAINER).stdin(true).stdout(true).stderr(false);
        let command = PSQL.iter().copied().chain(["--username=postgres"]);
        let mut process = pods.exec(POD, command, &parameters).await?;
        let questions = process.stdin().context("exec gave no standard input")?;
        let answers = process.stdout().context("exec gave no standard output")?;
        Ok(Self { _process: process, questions, answers: BufReader::new(answers).lines() })
    }

    async fn ask(&mut self, select: &str) -> Result<String> {
        let question = format!("{select}\n;\n\\echo '{}'\n", Self::END);
        self.questions.write_all(question.as_bytes()).await?;
        self.questions.flush().await?;
        let mut answer = Vec::new();
        loop {
            let line = self.answers.next_line().await?.context("psql has ended")?;
            if line == Self::END {
                return Ok(answer.join("\n"));
            }
            answer.push(line);
        }
    }
}
