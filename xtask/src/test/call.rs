//! A program of tests beside others: its output is printed as a whole when it has ended, has taken too long, or the user
//! interrupts it.

use std::{
    error::Error,
    fmt::{self, Display, Formatter, Write as _},
    fs::File,
    io::{Read, Seek, Write},
    os::unix::process::CommandExt,
    process::{Child, Command, ExitStatus},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

/// One run of a program.
pub(super) struct Call {
    pub(super) name: String,
    pub(super) command: Command,
    /// A test that never ends must not keep the others' results from the user.
    pub(super) limit: Duration,
}

/// Calls that have not ended.
static RUNNING: Mutex<Vec<Running>> = Mutex::new(Vec::new());

/// A call that has not ended.
struct Running {
    name: String,
    /// Its process, and the group of all that it starts.
    group: Pid,
    output: File,
    began: Instant,
}

impl Call {
    /// Runs it, and says for how many seconds it ran.
    ///
    /// # Errors
    /// [`Failed`] if it did not pass.
    pub(super) fn run(self) -> Result<f64> {
        eprintln!("test: {} ...", self.name);
        let (ended, result) = self.carry_out()?;
        let (seconds, text) = ended.print(if result.is_ok() { "ok" } else { "failed" })?;
        result.map(|()| seconds).map_err(|error| Failed::of(&error, &text).into())
    }

    /// Runs it to its end or its limit, and says which of the two it was.
    fn carry_out(mut self) -> Result<(Running, Result<()>)> {
        let output = tempfile::tempfile().context("cannot make a temporary file")?;
        let copy = || output.try_clone().context("cannot share a temporary file");
        self.command.stdout(copy()?).stderr(copy()?).process_group(0);
        let began = Instant::now();
        let mut child = self
            .command
            .spawn()
            .with_context(|| format!("cannot run {}", self.command.get_program().display()))?;
        let group = Pid::from_raw(child.id().try_into().context("a process has a strange number")?);
        running_now().push(Running { name: self.name, group, output, began });
        let ended = wait(&mut child, self.limit);
        if !matches!(ended, Ok(Some(_))) {
            // The tests that it runs, too. It has not been waited for, so the number is still its own.
            killpg(group, Signal::SIGKILL).context("cannot end the tests")?;
            child.wait().context("cannot wait for the tests")?;
        }
        let mut calls = running_now();
        let place = calls.iter().position(|running| running.group == group);
        let running = calls.remove(place.context("it was interrupted")?);
        let result = match ended.context("cannot wait for the tests")? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(anyhow!("ended with {status}")),
            None => Err(anyhow!("not done after {} s", self.limit.as_secs())),
        };
        Ok((running, result))
    }
}

impl Running {
    /// Prints what it has said and, below it, how it stands; returns for how many seconds it ran, and what it has said.
    fn print(mut self, how: &str) -> Result<(f64, String)> {
        let seconds = self.began.elapsed().as_secs_f64();
        let mut text = Vec::new();
        self.output
            .rewind()
            .and_then(|()| self.output.read_to_end(&mut text))
            .context("cannot read what the tests said")?;
        // At once, so that nothing comes in between.
        let mut stderr = std::io::stderr().lock();
        // If it was closed, nobody wants to read it.
        let _ = stderr.write_all(&text);
        let _ = writeln!(stderr, "test: {}: {how} ({seconds:.0} s)", self.name);
        Ok((seconds, String::from_utf8_lossy(&text).into_owned()))
    }
}

/// So many last lines of what a failed test printed are shown once more at the end, where a reader looks first.
const LINES: usize = 12;

/// A program of tests did not pass.
#[derive(Debug)]
pub(super) struct Failed {
    /// How it ended and, below that, the last lines of each test that failed.
    why: String,
    /// The tests that failed; none if it has not come so far that it said so.
    pub(super) tests: Vec<String>,
}

impl Failed {
    fn of(error: &anyhow::Error, text: &str) -> Self {
        let (mut why, mut tests) = (error.to_string(), Vec::new());
        for (name, said) in failures(text) {
            let lines: Vec<&str> = said.trim_end().lines().filter(|line| !line.is_empty()).collect();
            let _ = write!(why, "\n  {name}:");
            for line in &lines[lines.len().saturating_sub(LINES)..] {
                let _ = write!(why, "\n    {line}");
            }
            tests.push(name.to_owned());
        }
        Self { why, tests }
    }
}

impl Display for Failed {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.why)
    }
}

impl Error for Failed {}

/// Each test that failed, with what it has said. They stand behind each other for each program of tests: `failures:`, a section
/// for each test, and `failures:` with their names.
fn failures(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let lists = text.split("\nfailures:\n\n").skip(1);
    lists
        .filter_map(|list| list.split("\nfailures:\n").next())
        .flat_map(|list| list.split("---- ").skip(1))
        .filter_map(|section| section.split_once(" stdout ----\n"))
}

/// Ends all calls, and says what they have said so far.
pub(super) fn interrupt() {
    for running in running_now().drain(..) {
        if let Err(error) = killpg(running.group, Signal::SIGKILL) {
            eprintln!("test: {}: cannot be ended: {error}", running.name);
        }
        if let Err(error) = running.print("interrupted") {
            eprintln!("test: {error:#}");
        }
    }
}

fn running_now() -> MutexGuard<'static, Vec<Running>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for the end of a process; none if it has not ended by then.
#[expect(clippy::disallowed_methods, reason = "the standard library cannot wait for a process with a limit")]
fn wait(child: &mut Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let began = Instant::now();
    loop {
        let status = child.try_wait()?;
        if status.is_some() || began.elapsed() > limit {
            return Ok(status);
        }
        thread::sleep(Duration::from_millis(100));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_too_long_is_ended_with_all_that_it_started() {
        // Open for writing in all of them, and at its end when the last one is gone.
        let (mut alive, write) = std::io::pipe().unwrap();
        let mut command = Command::new("bash");
        command.args(["-c", "exec 3>&0; sleep 120 & wait"]).stdin(write);
        let (began, limit) = (Instant::now(), Duration::from_secs(1));
        let error = Call { name: "never ends".into(), command, limit }.carry_out().unwrap().1.unwrap_err();
        assert_eq!(error.to_string(), "not done after 1 s");
        alive.read_to_end(&mut Vec::new()).unwrap();
        assert!(began.elapsed() < Duration::from_secs(60), "what it started went on");
    }

    #[test]
    fn how_it_ended_is_said() {
        let call = |script: &str| {
            let mut command = Command::new("bash");
            command.args(["-c", script]);
            Call { name: "short".into(), command, limit: Duration::from_secs(60) }.carry_out().unwrap().1
        };
        assert!(call("exit 0").is_ok());
        assert_eq!(call("exit 3").unwrap_err().to_string(), "ended with exit status: 3");
    }

    #[test]
    fn why_each_test_failed_is_said_at_the_end() {
        let said = "\
running 3 tests
test one ... ok
test two ... FAILED

successes:

---- one stdout ----
not of interest

successes:
    one

failures:

---- two stdout ----
1 interruption

thread 'two' panicked at e2e/src/lib.rs:5:9:
gromacs-1 has not ended

---- three stdout ----
Error: no leader


failures:
    two
    three

test result: FAILED. 1 passed; 2 failed
";
        let failed = Failed::of(&anyhow!("ended with exit status: 101"), said);
        assert_eq!(failed.tests, ["two", "three"]);
        let expected = "\
ended with exit status: 101
  two:
    1 interruption
    thread 'two' panicked at e2e/src/lib.rs:5:9:
    gromacs-1 has not ended
  three:
    Error: no leader";
        assert_eq!(failed.to_string(), expected);
        let long: String = (0..100).map(|number| format!("line {number}\n")).collect();
        let long = format!("\nfailures:\n\n---- long stdout ----\n{long}\n\nfailures:\n    long\n");
        let long = Failed::of(&anyhow!("not done"), &long).why;
        assert_eq!(long.lines().count(), 2 + LINES);
        assert!(long.ends_with("    line 99"), "{long}");
        let none = Failed::of(&anyhow!("not done"), "error: could not compile");
        assert_eq!((none.why.as_str(), none.tests.len()), ("not done", 0));
    }
}
