//! A queue of a test's own on this machine: Postgres, tuner and submitters as processes that a test can kill, stop and
//! start again, in front of the cluster's real API server.

use std::{
    fmt::Write as _,
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context, Result, bail, ensure};
use serde::de::DeserializeOwned;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::{
    faults::{OPERATOR, Proxy},
    world::until,
};

/// Debian's folder of the programs.
const POSTGRES: &str = "/usr/lib/postgresql/15/bin";

/// One of our programs, built beside the operator's.
fn program(name: &str) -> Result<PathBuf> {
    let operator = std::env::var_os(OPERATOR).with_context(|| format!("{OPERATOR} is not set"))?;
    let program = Path::new(&operator).with_file_name(name);
    ensure!(program.is_file(), "{} is missing; `cargo xtask test` builds it", program.display());
    Ok(program)
}

/// A Postgres on a Unix socket in a folder of its own.
pub struct Postgres {
    folder: tempfile::TempDir,
    user: Option<(u32, u32)>,
    /// Ends, and the server with it, when its standard input is closed: also when this process is killed.
    guard: Option<Child>,
}

impl Postgres {
    /// Makes an empty database and starts its server.
    ///
    /// # Errors
    /// If the programs are missing or do not start.
    pub async fn start() -> Result<Self> {
        ensure!(Path::new(POSTGRES).is_dir(), "{POSTGRES} is missing; apt-get install postgresql-15");
        // Short: the path of a Unix socket has at most 107 bytes.
        let folder = tempfile::Builder::new().prefix("e2e-pg-").tempdir()?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700))?;
        let user = unprivileged_user()?;
        if let Some((uid, gid)) = user {
            chown(folder.path(), Some(uid), Some(gid))?;
        }
        let mut postgres = Self { folder, user, guard: None };
        let init = postgres
            .command(&format!(
                "{POSTGRES}/initdb --pgdata=data --username=tester --auth=trust --no-sync --encoding=UTF8 --locale=C"
            ))
            .output()
            .await?;
        ensure!(init.status.success(), "initdb failed: {}", String::from_utf8_lossy(&init.stderr));
        postgres.up().await?;
        Ok(postgres)
    }

    fn command(&self, script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(self.folder.path()).stdin(Stdio::null()).kill_on_drop(false);
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        command
    }

    /// Starts the server again.
    ///
    /// # Errors
    /// If it does not answer in time.
    pub async fn up(&mut self) -> Result<()> {
        // SIGQUIT: no farewell to its clients and nothing written down, as when its machine is lost.
        let script = format!(
            "{POSTGRES}/postgres -D data -k \"$PWD\" -c listen_addresses= -c max_connections=200 >>log 2>&1 </dev/null &
            server=$!
            read -r _
            kill -QUIT $server
            wait $server"
        );
        self.guard = Some(self.command(&script).stdin(Stdio::piped()).process_group(0).spawn()?);
        until("Postgres answers", || async { Ok(self.sql("select 1").await.ok()) }).await?;
        Ok(())
    }

    /// Takes the server away at once.
    ///
    /// # Errors
    /// If it was away already.
    pub async fn down(&mut self) -> Result<()> {
        let mut guard = self.guard.take().context("Postgres is away already")?;
        drop(guard.stdin.take());
        guard.wait().await?;
        Ok(())
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        let mut host = String::new();
        for byte in self.folder.path().to_string_lossy().bytes() {
            let _ = write!(host, "%{byte:02X}");
        }
        format!("postgres://tester@{host}/postgres")
    }

    /// Runs a statement and returns what psql prints.
    ///
    /// # Errors
    /// What psql complains about.
    pub async fn sql(&self, statement: &str) -> Result<String> {
        let output = Command::new(format!("{POSTGRES}/psql"))
            .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"])
            .args(["--username=tester", "--dbname=postgres", "--command", statement])
            .arg(format!("--host={}", self.folder.path().display()))
            .stdin(Stdio::null())
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

/// Postgres refuses to run as root; who is not root runs it as itself.
fn unprivileged_user() -> Result<Option<(u32, u32)>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    if uid.and_then(|ids| ids.split_whitespace().nth(1)) != Some("0") {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd")?;
    for name in ["postgres", "nobody"] {
        let found =
            users.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|fields| fields[0] == name);
        if let Some([_, _, uid, gid, ..]) = found.as_deref() {
            return Ok(Some((uid.parse()?, gid.parse()?)));
        }
    }
    bail!("there is neither a user postgres nor a user nobody, as which Postgres could run")
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
    /// If it can not be.
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
        let kubeconfig = proxy.kubeconfig()?;
        let stderr = match std::env::var_os("SCAVENGER_E2E_SUBMITTER_LOG") {
            Some(path) => fs::File::options().create(true).append(true).open(path)?.into(),
            None => Stdio::null(),
        };
        let child = Command::new(program("gromacs-submitter")?)
            .args(["run", "--gromacs-image=played", "--listen=127.0.0.1:0", "--max-waiting=10000"])
            .args(["--lease=30s", "--tuner-url", &format!("http://{tuner}")])
            .env("DATABASE_URL", postgres.url())
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
    Ok(Printed {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
