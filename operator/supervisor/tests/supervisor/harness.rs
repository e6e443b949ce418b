//! Starts the program and waits for what must come.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

use nix::{
    sys::signal::{self, Signal},
    unistd::Pid,
};
pub use scavenger_reporting::testing::eventually;
use scavenger_schema::supervision::{EndMessage, EndReport};
use tempfile::TempDir;

/// The program: the one that was built with the tests, or another build of it that is to be tested or measured.
pub fn program() -> String {
    let own = || env!("CARGO_BIN_EXE_scavenger-supervisor").to_owned();
    env::var("SCAVENGER_SUPERVISOR_PROGRAM").unwrap_or_else(|_| own())
}

/// A workload that writes `state.cpt` at each SIGTERM and notes each signal in `got`; it ends once `go` exists.
pub const SAVES: &str = "\
note() { echo $1 >> got; }\n\
save() { note TERM; echo $RANDOM$RANDOM > half; mv half state.cpt; }\n\
trap save TERM; trap 'note USR1' USR1; trap 'note WINCH' WINCH\n\
echo $$ > ready\n\
while [ ! -e go ]; do sleep 0.02; done\n\
exit 1\n";

/// Python plays programs of users. A machine without it cannot show what the test is there for.
pub fn has_python() {
    let found = Command::new("python3").arg("--version").output();
    assert!(
        found.is_ok_and(|found| found.status.success()),
        "python3 is missing: `cargo xtask test` installs it"
    );
}

/// A folder, and what runs in it.
pub struct Bench {
    pub folder: TempDir,
}

pub struct Running {
    child: Child,
    folder: PathBuf,
}

impl Bench {
    pub fn new() -> Self {
        let bench = Self { folder: tempfile::tempdir().unwrap() };
        fs::write(bench.path("message"), "").unwrap();
        fs::write(bench.path("saves"), SAVES).unwrap();
        bench
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub fn lines(&self, name: &str) -> Vec<String> {
        self.read(name).lines().map(str::to_owned).collect()
    }

    /// The number in a file that a process writes, once it is complete.
    pub fn number(&self, name: &str) -> i32 {
        let mut number = None;
        eventually(name, || {
            number = self.read(name).strip_suffix('\n').and_then(|text| text.parse().ok());
            number.is_some()
        });
        number.unwrap()
    }

    pub fn make(&self, name: &str) {
        fs::write(self.path(name), "").unwrap();
    }

    /// The report in the termination message.
    pub fn end_report(&self) -> Option<EndReport> {
        let message: EndMessage = serde_json::from_str(&self.read("message")).ok()?;
        Some(message.scavenger_supervisor)
    }

    pub fn command(&self, flags: &[&str], workload: &[&str]) -> Command {
        self.command_of(&[&program()], flags, workload)
    }

    pub fn command_of(&self, program: &[&str], flags: &[&str], workload: &[&str]) -> Command {
        let mut command = Command::new(program[0]);
        command
            .args(&program[1..])
            .args(["run", "--message"])
            .arg(self.path("message"))
            .args(flags)
            .arg("--")
            .args(workload);
        let log = fs::File::create(self.path("log")).unwrap();
        command.current_dir(self.folder.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        command
    }

    pub fn start(&self, flags: &[&str], workload: &[&str]) -> Running {
        self.start_command(self.command(flags, workload))
    }

    pub fn start_command(&self, mut command: Command) -> Running {
        Running { child: command.spawn().unwrap(), folder: self.folder.path().to_owned() }
    }

    /// Runs to the end.
    pub fn run(&self, flags: &[&str], workload: &[&str]) -> i32 {
        self.start(flags, workload).end()
    }
}

impl Running {
    pub fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }

    pub fn signal(&self, signal: Signal) {
        signal::kill(self.pid(), signal).unwrap();
    }

    /// Waits for the end, and returns the exit code.
    pub fn end(mut self) -> i32 {
        let mut status: Option<ExitStatus> = None;
        eventually("the end of the supervisor", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().code().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            eprintln!("the supervisor is still at work; it wrote:\n{log}");
            // The workload ends once this file exists; the supervisor must not be killed alone.
            fs::write(self.folder.join("go"), "").ok();
            for process in scavenger_supervisor::table::below(Pid::this().as_raw()) {
                if process.parent == self.pid().as_raw() {
                    signal::kill(Pid::from_raw(process.pid), Signal::SIGKILL).ok();
                }
            }
            self.child.kill().ok();
        }
        self.child.wait().ok();
    }
}

/// Whether there is such a process, a zombie aside.
pub fn lives(pid: i32) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}
