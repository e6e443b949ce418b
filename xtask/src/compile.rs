//! Runs cargo where it compiles for minutes: one line that says how much is left, in place of one for each crate.

use std::{
    io::{BufReader, Read},
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::progress::Task;

/// A program that cargo has built, as its messages have it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Program {
    pub(crate) executable: PathBuf,
    /// Cargo.toml of its package.
    pub(crate) manifest_path: PathBuf,
    pub(crate) target: Target,
    pub(crate) profile: Profile,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Profile {
    /// It is a program of tests.
    pub(crate) test: bool,
}

/// Runs a cargo command to its end, and returns the programs that it built or found built. What is wrong with the code is
/// shown as cargo words it.
///
/// # Errors
/// If it fails.
pub(crate) fn run(what: &str, command: &mut Command) -> Result<Vec<Program>> {
    let task = Task::start(what);
    command
        .arg("--message-format=json-render-diagnostics")
        // Cargo alone knows how many parts there are, and says so on its own bar only.
        .env("CARGO_TERM_PROGRESS_WHEN", "always")
        .env("CARGO_TERM_PROGRESS_WIDTH", "200")
        .env("CARGO_TERM_COLOR", "never")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot run cargo")?;
    let said = child.stderr.take().expect("should be piped");
    let mut printed = Vec::new();
    let reader = std::thread::scope(|scope| {
        let stdout = child.stdout.take().expect("should be piped");
        let printed = &mut printed;
        let reader = scope.spawn(move || BufReader::new(stdout).read_to_end(printed));
        follow(said, &task)?;
        reader.join().expect("the thread that reads should not have panicked")
    });
    reader.context("cannot read what cargo says")?;
    let status = child.wait().context("cannot wait for cargo")?;
    if !status.success() {
        bail!("{what} failed: cargo ended with {status}; its own messages are above");
    }
    task.done(what);
    Ok(programs(&printed))
}

/// Most messages are of other things.
fn programs(messages: &[u8]) -> Vec<Program> {
    messages.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

/// What a line of cargo's is about.
#[derive(Debug, PartialEq, Eq)]
enum Line<'a> {
    /// So many of so many parts are done.
    Progress(u64, u64),
    /// One part has begun, or something else that passes.
    Passing,
    /// A message for people.
    Message(&'a str),
}

/// Lines end with a line feed; those of the bar with a carriage return.
fn follow(said: impl Read, task: &Task) -> std::io::Result<()> {
    let mut line = Vec::new();
    for byte in BufReader::new(said).bytes() {
        match byte? {
            b'\n' | b'\r' => {
                match read(String::from_utf8_lossy(&line).trim_end()) {
                    Line::Progress(done, all) => {
                        task.set_total(all);
                        task.set_position(done);
                    }
                    Line::Passing => {}
                    Line::Message(text) => task.say(text),
                }
                line.clear();
            }
            byte => line.push(byte),
        }
    }
    Ok(())
}

fn read(line: &str) -> Line<'_> {
    /// Cargo's verbs, to the right of a column of twelve.
    const PASSING: [&str; 10] = [
        "Compiling",
        "Checking",
        "Finished",
        "Downloading",
        "Downloaded",
        "Updating",
        "Locking",
        "Fresh",
        "Executable",
        "Blocking",
    ];
    // Cargo draws the bar again from the first column.
    let line = line.rsplit("\u{1b}[K").next().unwrap_or(line);
    let mut words = line.split_whitespace();
    match words.next() {
        None => Line::Passing,
        Some("Building") => {
            let numbers = words.find_map(|word| word.trim_end_matches(':').split_once('/'));
            let numbers = numbers.and_then(|(done, all)| Some((done.parse().ok()?, all.parse().ok()?)));
            numbers.map_or(Line::Passing, |(done, all)| Line::Progress(done, all))
        }
        Some(verb) if line.starts_with(' ') && PASSING.contains(&verb) => Line::Passing,
        Some(_) => Line::Message(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_what_cargo_says_is_executable() {
        let messages = br#"{"reason":"compiler-artifact","manifest_path":"/p/Cargo.toml","target":{"kind":["lib"],"name":"nix"},"profile":{"test":false},"executable":null}
{"reason":"compiler-artifact","manifest_path":"/p/Cargo.toml","target":{"kind":["bin"],"name":"counter"},"profile":{"test":false},"executable":"/t/counter"}
{"reason":"build-finished","success":true}
"#;
        let counter = Program {
            executable: "/t/counter".into(),
            manifest_path: "/p/Cargo.toml".into(),
            target: Target { name: "counter".into(), kind: vec!["bin".into()] },
            profile: Profile { test: false },
        };
        assert_eq!(programs(messages), [counter]);
    }

    #[test]
    fn lines_of_cargo_are_told_apart() {
        let bar = "    Building [=======>                 ] 123/456: k8s-openapi, kube-client";
        assert_eq!(read(bar), Line::Progress(123, 456));
        assert_eq!(read(&format!("\u{1b}[K{bar}")), Line::Progress(123, 456));
        assert_eq!(read("   Compiling serde v1.0.0"), Line::Passing);
        assert_eq!(read("    Finished `dev` profile in 3s"), Line::Passing);
        assert_eq!(read("error[E0308]: mismatched types"), Line::Message("error[E0308]: mismatched types"));
        assert_eq!(read("  --> src/main.rs:1:1"), Line::Message("  --> src/main.rs:1:1"));
        assert_eq!(read("   |"), Line::Message("   |"));
    }
}
