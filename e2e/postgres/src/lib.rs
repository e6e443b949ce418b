//! A Postgres of a test's own: an empty server on a Unix socket in a temporary folder. Nothing is configured outside, and
//! nothing is left behind, however the test ends.

use std::{
    fmt::Write as _,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::{
        fs::{PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};

/// Debian's folder of the programs.
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

/// Starts the server, says so, and takes it away when its input ends: also when the test is killed. SIGQUIT (immediate)
/// is no farewell to its clients, and nothing is written down, as when its machine is lost. Settings are in the file, not
/// on the command line, which nobody could overrule.
const GUARD: &str = r#"
    if ! [ -d data ]; then
        "$1/initdb" --pgdata=data --username=tester --auth=trust --no-sync --encoding=UTF8 --locale=C >log 2>&1 || exit 1
        printf %s "$3" >>data/postgresql.conf
    fi
    "$1/pg_ctl" -D data -w -l log -o "$2" start >/dev/null 2>&1 </dev/null || exit 1
    echo up
    read -r wish
    "$1/pg_ctl" -D data -w -m immediate stop >/dev/null 2>&1
    [ "$wish" = keep ] || rm -rf "$PWD"
"#;

/// The superuser, who needs no password.
pub const USER: &str = "tester";

/// A server; it and its data are gone when this is dropped, or the process ends.
pub struct Postgres {
    folder: PathBuf,
    user: Option<(u32, u32)>,
    /// Lines of its configuration.
    settings: String,
    guard: Option<Child>,
}

impl Postgres {
    /// Makes an empty server and starts it, with settings such as `max_connections=200`.
    ///
    /// # Errors
    /// If the programs are missing or do not start.
    pub fn start(settings: &[&str]) -> Result<Self> {
        ensure!(Path::new(PROGRAMS).is_dir(), "{PROGRAMS} is missing; apt-get install postgresql-15");
        // Short: the path of a Unix socket has at most 107 bytes. The guard removes it.
        let folder = tempfile::Builder::new().prefix("test-pg-").tempdir()?.keep();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
        let user = unprivileged_user()?;
        if let Some((uid, gid)) = user {
            chown(&folder, Some(uid), Some(gid))?;
        }
        let settings = settings.iter().map(|setting| format!("{setting}\n")).collect();
        let mut postgres = Self { folder, user, settings, guard: None };
        postgres.up()?;
        Ok(postgres)
    }

    /// Starts the server again, and returns when it answers.
    ///
    /// # Errors
    /// If it does not start.
    pub fn up(&mut self) -> Result<()> {
        let mut command = Command::new("sh");
        let options = format!("-k '{}' -c listen_addresses=", self.folder.display());
        command.args(["-c", GUARD, "postgres", PROGRAMS, &options, &self.settings]).current_dir(&self.folder);
        // A process group of its own: an interrupt at the terminal must not end the shell before the server.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        let mut guard = command.spawn().context("no shell starts")?;
        let mut line = String::new();
        BufReader::new(guard.stdout.take().context("its output is not piped")?).read_line(&mut line)?;
        self.guard = Some(guard);
        if line.trim() != "up" {
            let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            bail!("Postgres does not start: {}", log.trim());
        }
        Ok(())
    }

    /// Takes the server away at once; its data stay.
    ///
    /// # Errors
    /// If it was away already.
    pub fn down(&mut self) -> Result<()> {
        let mut guard = self.guard.take().context("Postgres is away already")?;
        guard.stdin.take().context("its input is not piped")?.write_all(b"keep\n")?;
        guard.wait()?;
        Ok(())
    }

    /// Address of a database, for the superuser. `postgres` is there from the beginning.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        let mut host = String::new();
        for byte in self.folder.to_string_lossy().bytes() {
            let _ = write!(host, "%{byte:02X}");
        }
        format!("postgres://{USER}@{host}/{database}")
    }

    /// Its Unix socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder.join(".s.PGSQL.5432")
    }

    /// psql, connected to database `postgres`, which prints values and nothing else, and fails when a statement does.
    #[must_use]
    pub fn psql(&self) -> Command {
        let mut command = Command::new(format!("{PROGRAMS}/psql"));
        command
            .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"])
            .args(["--dbname=postgres", "--username", USER])
            .arg(format!("--host={}", self.folder.display()))
            .stdin(Stdio::null());
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some(mut guard) = self.guard.take() {
            drop(guard.stdin.take());
            let _ = guard.wait();
        }
        // The guard did not, if the server was away or never started.
        let _ = fs::remove_dir_all(&self.folder);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn sql(postgres: &Postgres, statement: &str) -> String {
        let output = postgres.psql().args(["--command", statement]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    #[test]
    fn its_data_outlive_an_outage_and_nothing_outlives_the_test() {
        let mut postgres = Postgres::start(&["max_connections=7"]).unwrap();
        let folder = postgres.folder.clone();
        assert_eq!(sql(&postgres, "show max_connections"), "7");
        sql(&postgres, "create table t (n int); insert into t values (3)");
        postgres.down().unwrap();
        assert!(!postgres.socket().exists(), "it is still there");
        assert!(postgres.down().is_err());
        postgres.up().unwrap();
        assert_eq!(sql(&postgres, "select n from t"), "3");
        drop(postgres);
        assert!(!folder.exists(), "{} is left behind", folder.display());

        let mut postgres = Postgres::start(&[]).unwrap();
        let folder = postgres.folder.clone();
        postgres.down().unwrap();
        drop(postgres);
        assert!(!folder.exists(), "{} is left behind", folder.display());
    }

    #[test]
    fn it_says_why_it_does_not_start() {
        let error = Postgres::start(&["max_connections=none"]).err().unwrap().to_string();
        assert!(error.contains("max_connections"), "{error}");
    }
}
