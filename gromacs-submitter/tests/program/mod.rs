//! Starts the real program with nothing in its environment but the database.

#![allow(
    dead_code,
    clippy::expect_used,
    clippy::panic,
    reason = "each test program uses a part; a failure must be loud"
)]

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use serde_json::Value;
use sqlx::{Connection as _, Executor as _, PgConnection};

use crate::postgres;

/// The program.
pub const SUBMITTER: &str = env!("CARGO_BIN_EXE_gromacs-submitter");

/// The program and its database; what rows need is in the environment.
pub struct Program {
    url: Option<String>,
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output should be UTF-8")
}

impl Program {
    pub fn new(url: String) -> Self {
        Self { url: Some(url) }
    }

    pub fn without_database() -> Self {
        Self { url: None }
    }

    /// On a database with the newest schema.
    pub async fn migrated() -> Self {
        let (store, url) = postgres::migrated_store("tests").await;
        store.close().await;
        Self::new(url)
    }

    pub fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    pub fn command<T: AsRef<OsStr>>(&self, arguments: &[T]) -> Command {
        let mut command = Command::new(SUBMITTER);
        command.args(arguments).env_clear().stdin(Stdio::null());
        if let Some(url) = &self.url {
            command
                .env("DATABASE_URL", url)
                .env("SCAVENGER_SUBMITTER_NAMESPACE", "lab")
                .env("SCAVENGER_SUBMITTER_PVC", "data");
        }
        command
    }

    pub fn run<T: AsRef<OsStr>>(&self, arguments: &[T]) -> Output {
        self.command(arguments).output().expect("the submitter should start")
    }

    /// What it prints when all is well.
    pub fn good<T: AsRef<OsStr> + std::fmt::Debug>(&self, arguments: &[T]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    }

    pub fn json(&self, arguments: &[&str]) -> Value {
        let printed = self.good(&[arguments, &["--output", "json"]].concat());
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
    }

    pub fn with_stdin(&self, arguments: &[&str], input: impl AsRef<[u8]>) -> Output {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the submitter should start");
        let mut stdin = child.stdin.take().expect("stdin should be piped");
        // One that ends early reads no more of it.
        let _ = stdin.write_all(input.as_ref());
        drop(stdin);
        child.wait_with_output().expect("the submitter should end")
    }

    /// Number of rows in the queue.
    pub fn rows(&self) -> usize {
        self.json(&["list", "--limit", "1000000"]).as_array().expect("should be a list").len()
    }

    pub async fn sql(&self, statement: &'static str) {
        let url = self.url.as_deref().expect("should have a database");
        let mut connection = PgConnection::connect(url).await.expect("should connect");
        connection.execute(statement).await.expect("should be good SQL");
    }
}

/// Lines of a program that goes on.
pub struct Lines {
    child: Child,
    reader: BufReader<ChildStdout>,
}

impl Lines {
    pub fn of(mut child: Child) -> Self {
        let stdout = child.stdout.take().expect("stdout should be piped");
        Self { child, reader: BufReader::new(stdout) }
    }

    /// Reads up to a line with these words; the program's end is a failure.
    pub fn until(&mut self, words: &str) -> String {
        let mut all = String::new();
        loop {
            let mut line = String::new();
            let read = self.reader.read_line(&mut line).expect("should be text");
            assert!(read > 0, "it ended before {words:?}: {all}");
            if line.contains(words) {
                return line;
            }
            all.push_str(&line);
        }
    }

    /// Reads to its end; returns its exit code.
    pub fn end(mut self) -> Option<i32> {
        let mut rest = String::new();
        self.reader.read_to_string(&mut rest).expect("should be text");
        self.child.wait().expect("should end").code()
    }
}
