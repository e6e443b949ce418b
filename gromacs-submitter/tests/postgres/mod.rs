//! A Postgres of the tests' own: started once per test program, on a Unix socket in a temporary folder, with a fresh
//! database for each test. Nothing is configured outside, and nothing is left behind.

#![allow(
    clippy::expect_used,
    clippy::panic,
    dead_code,
    reason = "a test that can not start its server must say so loudly; not every program uses all of it"
)]

use std::fmt::Write as _;
use std::io::Read as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use gromacs_submitter::store::Store;
use sqlx::{Connection as _, Executor as _, PgConnection};

/// Debian's folder of the programs.
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

struct Server {
    folder: PathBuf,
    /// Its standard input is open as long as this program runs: when it closes, the server is stopped.
    _guard: Child,
}

static SERVER: OnceLock<Server> = OnceLock::new();
static DATABASES: AtomicU32 = AtomicU32::new(0);

/// What a test does first in a migrated database. Everybody may run simulations in namespace `lab`.
const TENANTS: &str = "insert into gromacs_tenant (database_role, namespace)
    values ('tester', 'lab'), ('worker', 'lab'), ('rich', 'lab'), ('poor', 'lab')";

/// Roles belong to the server: made once, after the first migration has made those that they are members of. `worker`
/// does what the submitter does and, as a chemist, adds the rows; `submitter` does the former alone.
const LOGINS: &str = "create role worker login in role gromacs_submitter, gromacs_chemist;
    create role submitter login in role gromacs_submitter;
    create role alice login in role gromacs_chemist;
    create role bob login in role gromacs_chemist;
    create role tuner login in role gromacs_tuner;
    create role dashboard login in role gromacs_reader;
    create role nobody login";

static LOGINS_MADE: tokio::sync::OnceCell<()> = tokio::sync::OnceCell::const_new();

/// A database with nothing in it, and its URL for the superuser.
pub async fn empty_database() -> String {
    let server = SERVER.get_or_init(start);
    let name = format!("test_{}", DATABASES.fetch_add(1, Ordering::Relaxed));
    let mut connection = connect_when_ready(&server.url("postgres")).await;
    let statement = format!("create database {name}");
    connection.execute(sqlx::AssertSqlSafe(statement)).await.expect("should create a database");
    server.url(&name)
}

/// A database with the newest schema, and its URL for the superuser.
pub async fn migrated_database() -> String {
    let url = empty_database().await;
    let admin = store(&url, "admin");
    admin.migrate().await.expect("should migrate from zero");
    LOGINS_MADE
        .get_or_init(|| async {
            admin.pool().execute(LOGINS).await.expect("should make roles to log in with");
        })
        .await;
    admin.close().await;
    url
}

/// A store on a database with the newest schema, as a role with no more rights than it needs, and its URL.
pub async fn migrated_store(holder: &str) -> (Store, String) {
    let url = migrated_database().await;
    let admin = store(&url, "admin");
    admin.pool().execute(TENANTS).await.expect("should add tenants");
    admin.close().await;
    let url = as_role(&url, "worker");
    (store(&url, holder), url)
}

/// The same database for another role.
pub fn as_role(url: &str, role: &str) -> String {
    let (_, rest) = url.split_once('@').expect("should be a URL with a user");
    format!("postgres://{role}@{rest}")
}

/// Another store on the same database.
pub fn store(url: &str, holder: &str) -> Store {
    let lease = Duration::from_secs(60);
    Store::new(url, holder.to_owned(), lease, 5, Duration::from_secs(10)).expect("should read the URL")
}

impl Server {
    fn url(&self, database: &str) -> String {
        let mut host = String::new();
        for byte in self.folder.to_string_lossy().bytes() {
            let _ = write!(host, "%{byte:02X}");
        }
        format!("postgres://tester@{host}/{database}")
    }
}

fn start() -> Server {
    let postgres = Path::new(PROGRAMS).join("postgres");
    assert!(
        postgres.exists(),
        "{} is missing, which these tests need; install it: apt-get install postgresql-15",
        postgres.display()
    );
    // Short: the path of a Unix socket has at most 107 bytes.
    let folder = std::env::temp_dir().join(format!("submitter-pg-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("should make a temporary folder");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700))
        .expect("should set permissions");
    let user = unprivileged_user();
    if let Some((uid, gid)) = user {
        chown(&folder, Some(uid), Some(gid)).expect("should give the folder away");
    }
    // The server must not outlive the tests, however they end: the shell waits for the end of its input, which is
    // closed when this process is gone, then stops the server and removes the folder.
    let script = r#"
        "$1/initdb" --pgdata="$2/data" --username=tester --auth=trust --no-sync --encoding=UTF8 --locale=C >"$2/log" 2>&1 || exit 1
        # In the file, not on the command line, which nobody could overrule.
        echo "fsync = off" >>"$2/data/postgresql.conf"
        "$1/postgres" -D "$2/data" -k "$2" -c listen_addresses= -c max_connections=100 >>"$2/log" 2>&1 </dev/null &
        server=$!
        read -r _
        kill -INT $server
        wait $server
        rm -rf "$2"
    "#;
    let mut command = Command::new("sh");
    command
        .args(["-c", script, "postgres", PROGRAMS])
        .arg(&folder)
        .stdin(Stdio::piped())
        .current_dir(&folder);
    // A process group of its own: an interrupt at the terminal must not end the shell before the server.
    command.process_group(0);
    if let Some((uid, gid)) = user {
        command.uid(uid).gid(gid);
    }
    let guard = command.spawn().expect("should start a shell");
    Server { folder, _guard: guard }
}

/// Postgres refuses to run as root; who is not root runs it as itself.
fn unprivileged_user() -> Option<(u32, u32)> {
    let status = std::fs::read_to_string("/proc/self/status").expect("should be Linux");
    let uid_line = status.lines().find(|line| line.starts_with("Uid:")).expect("should name the user");
    if uid_line.split_whitespace().nth(2) != Some("0") {
        return None;
    }
    let mut users = String::new();
    std::fs::File::open("/etc/passwd")
        .and_then(|mut file| file.read_to_string(&mut users))
        .expect("should list the users");
    ["postgres", "nobody"].into_iter().find_map(|name| {
        let fields: Vec<&str> =
            users.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|fields| fields[0] == name)?;
        Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
    })
}

async fn connect_when_ready(url: &str) -> PgConnection {
    let mut last = String::new();
    for _ in 0..300 {
        match PgConnection::connect(url).await {
            Ok(connection) => return connection,
            Err(error) => last = error.to_string(),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let log = SERVER.get().and_then(|server| std::fs::read_to_string(server.folder.join("log")).ok());
    panic!("Postgres did not start within 30 s: {last}\n{}", log.unwrap_or_default());
}
