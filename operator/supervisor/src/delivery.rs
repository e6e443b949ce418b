//! Brings signals to the workload's processes.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use nix::{
    sys::signal::{self, Signal},
    unistd::Pid,
};

use crate::{
    say,
    signals::{self, Identity, Process, Rule},
    table,
};

/// Knows the workload and who of it got SIGTERM.
#[derive(Debug)]
pub struct Delivery {
    rule: Rule,
    supervisor: i32,
    child: i32,
    terminated: Mutex<BTreeSet<Identity>>,
}

impl Delivery {
    /// For the processes below this one.
    #[must_use]
    pub fn new(rule: Rule, child: i32) -> Self {
        Self { rule, supervisor: Pid::this().as_raw(), child, terminated: Mutex::default() }
    }

    /// Sends a signal to those that the rule chooses. Returns whether any of them got it.
    pub fn deliver(&self, signal: Signal) -> bool {
        let table = self.table();
        let chosen = signals::recipients(&table, self.supervisor, self.child, signal as i32, &self.rule);
        let mut got = false;
        for process in chosen {
            // A signal that reaches process 1 of a container is ignored if there is no handler for it. The workload is
            // process 1 no longer, and would end.
            let ends = matches!(signal, Signal::SIGHUP | Signal::SIGUSR1 | Signal::SIGUSR2);
            if ends && !process.survives(signal as i32) {
                say(&format!("{signal} is not sent to {}: it has no handler for it", name(process)));
            } else {
                got |= self.send(process, signal);
            }
        }
        got
    }

    /// Whether a process is left that got SIGTERM and has a handler for it.
    pub fn is_awaited(&self) -> bool {
        let terminated = self.terminated.lock().unwrap_or_else(PoisonError::into_inner);
        let awaited = |process: &Process| {
            !process.zombie
                && process.catches(Signal::SIGTERM as i32)
                && terminated.contains(&process.identity())
        };
        self.table().iter().any(awaited)
    }

    /// Sends a signal to the command itself.
    pub fn to_child(&self, signal: Signal) {
        signal::kill(Pid::from_raw(self.child), signal).ok();
    }

    /// Asks everything that the command left behind to end.
    pub fn end_strays(&self) {
        let table = self.table();
        // What reads from a pipe ends with its writer. SIGTERM would cost the last lines that it has not written yet.
        for process in table.iter().filter(|process| !process.zombie && process.reads.is_none()) {
            self.send(process, Signal::SIGTERM);
        }
    }

    /// Ends everything that the command left behind.
    pub fn kill_strays(&self) {
        for process in self.table().iter().filter(|process| !process.zombie) {
            say(&format!("{} is still there after the workload has ended: killed", name(process)));
            signal::kill(Pid::from_raw(process.pid), Signal::SIGKILL).ok();
        }
    }

    /// SIGTERM goes to each process once: some programs take a second one as an order to give up at once.
    fn send(&self, process: &Process, signal: Signal) -> bool {
        let mut terminated = self.terminated.lock().unwrap_or_else(PoisonError::into_inner);
        if signal == Signal::SIGTERM && !terminated.insert(process.identity()) {
            return false;
        }
        let sent = signal::kill(Pid::from_raw(process.pid), signal).is_ok();
        if sent {
            say(&format!("{signal} sent to {}", name(process)));
        }
        sent
    }

    /// The processes; the command alone where there is no `/proc` to read.
    fn table(&self) -> Vec<Process> {
        let table = table::below(self.supervisor);
        if table.is_empty() && signal::kill(Pid::from_raw(self.child), None).is_ok() {
            let all = u64::MAX;
            return vec![Process {
                pid: self.child,
                parent: self.supervisor,
                deaf: all,
                ..Process::default()
            }];
        }
        table
    }
}

/// How a process is called in a message.
fn name(process: &Process) -> String {
    let command = process.command.join(" ");
    let mut short: String = command.chars().filter(|letter| !letter.is_control()).take(80).collect();
    if short.is_empty() {
        short.clone_from(&process.program);
    }
    format!("process {} ({short})", process.pid)
}
