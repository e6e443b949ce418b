//! A real Postgres of a test program's own, on a Unix socket in a temporary folder.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can not start its server must say so loudly"
)]

use std::fmt::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sqlx::{Connection as _, PgConnection};

/// Debian's folder of the programs.
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

/// A server that ends when this is dropped.
pub struct Postgres {
    folder: PathBuf,
    /// The shell that holds the server: it stops the server when its standard input closes.
    guard: Child,
}

impl Postgres {
    /// Starts it; [`Postgres::connect`] waits until it answers.
    pub fn start() -> Self {
        let program = Path::new(PROGRAMS).join("postgres");
        assert!(
            program.exists(),
            "{} is missing; install it: apt-get install postgresql-15",
            program.display()
        );
        // Short: the path of a Unix socket has at most 107 bytes.
        let folder = std::env::temp_dir().join(format!("tuner-pg-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("should make a temporary folder");
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700))
            .expect("should set permissions");
        let script = r#"
            "$1/initdb" --pgdata="$2/data" --username=tester --auth=trust --no-sync --encoding=UTF8 --locale=C >"$2/log" 2>&1 || exit 1
            "$1/postgres" -D "$2/data" -k "$2" -c listen_addresses= -c fsync=off >>"$2/log" 2>&1 </dev/null &
            server=$!
            read -r _
            kill -INT $server
            wait $server
            rm -rf "$2"
        "#;
        let mut command = Command::new("sh");
        command.args(["-c", script, "postgres", PROGRAMS]).arg(&folder);
        command.stdin(Stdio::piped()).current_dir(&folder).process_group(0);
        // Postgres refuses to run as root.
        if std::fs::metadata(&folder).expect("should see the folder").uid() == 0 {
            let nobody = 65534;
            chown(&folder, Some(nobody), Some(nobody)).expect("should give the folder away");
            command.uid(nobody).gid(nobody);
        }
        let guard = command.spawn().expect("should start a shell");
        Self { folder, guard }
    }

    /// Its address, for the superuser.
    pub fn url(&self) -> String {
        let mut host = String::new();
        for byte in self.folder.to_string_lossy().bytes() {
            let _ = write!(host, "%{byte:02X}");
        }
        format!("postgres://tester@{host}/postgres")
    }

    /// A connection, once it answers.
    pub async fn connect(&self) -> PgConnection {
        let mut last = String::new();
        for _ in 0..300 {
            match PgConnection::connect(&self.url()).await {
                Ok(connection) => return connection,
                Err(error) => last = error.to_string(),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("Postgres did not start within 30 s: {last}");
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}
