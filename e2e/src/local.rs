//! A queue of a test's own on this machine: Postgres, tuner and submitters as processes that a test can kill, stop and
//! start again, in front of the cluster's real API server.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

use anyhow::{Context, Result, ensure};
use scavenger_local_postgres::Postgres as Server;
use serde::de::DeserializeOwned;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::{
    World,
    faults::{OPERATOR, Proxy},
    queue::admit_submitter,
};

/// One of our programs, built beside the operator's.
///
/// # Errors
/// If it was not built.
pub fn program(name: &str) -> Result<PathBuf> {
    let operator = std::env::var_os(OPERATOR).with_context(|| format!("{OPERATOR} is not set"))?;
    let program = Path::new(&operator).with_file_name(name);
    ensure!(program.is_file(), "{} is missing; `cargo xtask test` builds it", program.display());
    Ok(program)
}

/// A Postgres on a Unix socket in a folder of its own.
pub struct Postgres {
    server: Server,
}

impl Postgres {
    /// Makes an empty database and starts its server.
    ///
    /// # Errors
    /// If the programs are missing or do not start.
    pub async fn start() -> Result<Self> {
        let server = tokio::task::spawn_blocking(|| Server::start(&["max_connections=200"])).await??;
        Ok(Self { server })
    }

    /// Starts the server again.
    ///
    /// # Errors
    /// If it does not answer in time.
    pub fn up(&mut self) -> Result<()> {
        self.server.up()
    }

    /// Takes the server away at once.
    ///
    /// # Errors
    /// If it was away already.
    pub fn down(&mut self) -> Result<()> {
        self.server.down()
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.url("postgres")
    }

    /// Its Unix socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.server.socket()
    }

    /// Runs a statement and returns what psql prints.
    ///
    /// # Errors
    /// What psql complains about.
    pub async fn sql(&self, statement: &str) -> Result<String> {
        let output = Command::from(self.server.psql())
            .args(["--command", statement])
            .output()
            .await
            .context("psql does not start")?;
        ensure!(output.status.success(), "psql failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Rows of a select.
    ///
    /// # Errors
    /// What psql complains about, or if the rows have another shape.
    pub async fn rows<T: DeserializeOwned>(&self, select: &str) -> Result<Vec<T>> {
        let text = self.sql(&format!("select coalesce(json_agg(t), '[]') from ({select}) t")).await?;
        serde_json::from_str(&text).with_context(|| format!("unexpected rows: {text}"))
    }

    /// A single number.
    ///
    /// # Errors
    /// What psql complains about, or if it is none.
    pub async fn number(&self, select: &str) -> Result<usize> {
        let text = self.sql(select).await?;
        text.parse().with_context(|| format!("{select} returned no number but {text:?}"))
    }
}

/// A Postgres with an empty queue, whose rows may run in the test's namespace.
///
/// # Errors
/// If it does not start.
pub async fn queue(world: &World) -> Result<Postgres> {
    admit_submitter(world).await?;
    let postgres = Postgres::start().await?;
    submitter(&postgres, &["migrate"]).await?;
    let tenant = format!(
        "insert into gromacs_tenant (database_role, namespace) values (session_user, '{}')",
        world.namespace
    );
    postgres.sql(&tenant).await?;
    Ok(postgres)
}

/// A tuner on a port of its own.
pub struct Tuner {
    child: Child,
    address: String,
}

impl Tuner {
    /// Starts one; on the address of one before it, if one is given.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn start(address: Option<&str>) -> Result<Self> {
        let mut child = Command::new(program("scavenger-tuner")?)
            .args(["serve", "--log-format", "json", "--listen", address.unwrap_or("127.0.0.1:0")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("the tuner does not start")?;
        let mut log = BufReader::new(child.stderr.take().context("its log is not piped")?).lines();
        let line = log.next_line().await?.context("the tuner ended at once")?;
        let event: serde_json::Value = serde_json::from_str(&line)?;
        let address = event["fields"]["listen"].as_str().with_context(|| format!("no address in {line}"))?;
        let tuner = Self { child, address: address.to_owned() };
        // A pipe that nobody reads would stop it in the end.
        tokio::spawn(async move { while let Ok(Some(_)) = log.next_line().await {} });
        Ok(tuner)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Kills it.
    ///
    /// # Errors
    /// If it cannot be.
    pub async fn kill(mut self) -> Result<String> {
        self.child.kill().await?;
        Ok(self.address)
    }
}

/// A submitter that reaches the API server through a proxy.
pub struct Submitter {
    child: Child,
    _kubeconfig: tempfile::NamedTempFile,
}

impl Submitter {
    /// Starts one that works until it is killed.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn start(postgres: &Postgres, tuner: &str, proxy: &Proxy) -> Result<Self> {
        Self::start_with(&postgres.url(), tuner, proxy, &[]).await
    }

    /// Like [`Self::start`], with another way to the database and more arguments.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn start_with(database: &str, tuner: &str, proxy: &Proxy, more: &[&str]) -> Result<Self> {
        let kubeconfig = proxy.kubeconfig()?;
        let stderr = match std::env::var_os("SCAVENGER_E2E_SUBMITTER_LOG") {
            Some(path) => fs::File::options().create(true).append(true).open(path)?.into(),
            None => Stdio::null(),
        };
        let child = Command::new(program("gromacs-submitter")?)
            .args(["run", "--gromacs-image=played", "--listen=127.0.0.1:0", "--max-waiting=10000"])
            .args(["--lease=30s", "--tuner-url", &format!("http://{tuner}")])
            .args(more)
            .env("DATABASE_URL", database)
            .env("KUBECONFIG", kubeconfig.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .kill_on_drop(true)
            .spawn()
            .context("the submitter does not start")?;
        Ok(Self { child, _kubeconfig: kubeconfig })
    }

    /// Kills it: no signal that it could handle, no time to give anything back.
    ///
    /// # Errors
    /// If it had ended by itself, which it never should.
    pub async fn kill(mut self) -> Result<()> {
        let ended = self.child.try_wait()?;
        ensure!(ended.is_none(), "the submitter had ended by itself: {ended:?}");
        self.child.kill().await?;
        Ok(())
    }
}

/// Runs another verb of the submitter to its end and returns what it prints.
///
/// # Errors
/// What it complains about.
pub async fn submitter(postgres: &Postgres, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program("gromacs-submitter")?)
        .args(arguments)
        .env("DATABASE_URL", postgres.url())
        .stdin(Stdio::null())
        .output()
        .await?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{arguments:?} failed: {}", complaint.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What a program printed.
#[derive(Debug)]
pub struct Printed {
    /// Exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// Data.
    pub stdout: String,
    /// Everything else.
    pub stderr: String,
}

impl From<Output> for Printed {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Runs a verb of the tuner to its end, without any of this process's environment.
///
/// # Errors
/// If it does not start.
pub async fn tuner(arguments: &[&str]) -> Result<Printed> {
    let output = Command::new(program("scavenger-tuner")?)
        .args(arguments)
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .await
        .context("the tuner does not start")?;
    Ok(output.into())
}
