//! To which processes a signal goes: a function of the process table, without I/O.

use std::collections::{BTreeMap, BTreeSet};

use regex_lite::Regex;

/// A process as `/proc` shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// Its parent's id.
    pub parent: i32,
    /// When it started, in clock ticks since boot. With the id it names one process: ids come again.
    pub started: u64,
    /// The file name of the program that runs. For a script that is the interpreter.
    pub program: String,
    /// The command line.
    pub command: Vec<String>,
    /// The signals that it has a handler for, one bit each; signal 1 is the lowest bit.
    pub caught: u64,
    /// The signals that it ignores or blocks.
    pub deaf: u64,
    /// It has ended and waits for its parent.
    pub zombie: bool,
    /// The pipe that its standard input reads from.
    pub reads: Option<u64>,
    /// The pipes that it can write to.
    pub writes: BTreeSet<u64>,
}

/// A process, so that no other is meant when its id is given out again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The id.
    pub pid: i32,
    /// [`Process::started`].
    pub started: u64,
}

impl Process {
    /// What distinguishes it from a later process with its id.
    #[must_use]
    pub fn identity(&self) -> Identity {
        Identity { pid: self.pid, started: self.started }
    }

    /// Whether it has a handler for a signal.
    #[must_use]
    pub fn catches(&self, signal: i32) -> bool {
        self.caught & bit(signal) != 0
    }

    /// Whether it lives on after a signal that ends a process without a handler.
    #[must_use]
    pub fn survives(&self, signal: i32) -> bool {
        (self.caught | self.deaf) & bit(signal) != 0
    }

    fn looked_through(&self, signal: i32) -> bool {
        match self.kind() {
            // The author of a shell script with a trap has thought of the signal. To signal the children as well would
            // reach them twice.
            Kind::Shell => !(trap_is_told_by_handler(signal) && self.catches(signal)),
            Kind::Wrapper => true,
            Kind::Workload => false,
        }
    }

    fn kind(&self) -> Kind {
        // A login shell has a dash before its name.
        let own_name = self.command.first().map_or("", |name| file_name(name).trim_start_matches('-'));
        let name = match self.program.as_str() {
            // One program with many names. Without a name of its own it is told by the first argument.
            "busybox" | "toybox" if own_name == self.program => {
                self.command.get(1).map_or("", |name| file_name(name))
            }
            "busybox" | "toybox" | "" => own_name,
            program => program,
        };
        match name {
            "sh" | "bash" | "dash" | "ash" | "zsh" | "ksh" | "ksh93" | "mksh" | "rbash" | "yash" | "fish" => {
                Kind::Shell
            }
            // `timeout` passes a signal on twice: to its child and to its process group.
            "timeout" | "time" | "tini" | "tini-static" | "dumb-init" | "catatonit" => Kind::Wrapper,
            _ => Kind::Workload,
        }
    }
}

enum Kind {
    Shell,
    Wrapper,
    Workload,
}

/// A shell catches SIGINT and SIGQUIT for its own purposes, with and without a trap.
fn trap_is_told_by_handler(signal: i32) -> bool {
    const INTERRUPT: i32 = 2;
    const QUIT: i32 = 3;
    signal != INTERRUPT && signal != QUIT
}

fn bit(signal: i32) -> u64 {
    if (1..=64).contains(&signal) { 1 << (signal - 1) } else { 0 }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Which processes are meant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Recipients {
    /// The command that was given. Where that is a shell: what the shell runs.
    #[default]
    Child,
    /// Every process without children of its own.
    Leaves,
    /// Every process.
    All,
}

/// The rule: whom a signal is for.
#[derive(Debug, Clone, Default)]
pub struct Rule {
    /// The set to choose from.
    pub recipients: Recipients,
    /// Only processes whose command line this matches. The whole table is looked at, whatever `recipients` says.
    pub process: Option<Regex>,
}

/// The processes of the table below the supervisor.
struct Tree<'a> {
    processes: BTreeMap<i32, &'a Process>,
    children: BTreeMap<i32, Vec<i32>>,
}

impl<'a> Tree<'a> {
    fn new(table: &'a [Process], root: i32) -> Self {
        let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        for process in table.iter().filter(|process| process.pid != process.parent) {
            children.entry(process.parent).or_default().push(process.pid);
        }
        let known: BTreeMap<i32, &Process> = table.iter().map(|process| (process.pid, process)).collect();
        let mut processes = BTreeMap::new();
        let mut open = vec![root];
        while let Some(pid) = open.pop() {
            for child in children.get(&pid).into_iter().flatten() {
                // A table that changed while it was read can hold a circle.
                if processes.insert(*child, known[child]).is_none() {
                    open.push(*child);
                }
            }
        }
        processes.remove(&root);
        processes.retain(|_, process| !process.zombie);
        for of in children.values_mut() {
            of.retain(|pid| processes.contains_key(pid));
            of.sort_unstable();
        }
        Self { processes, children }
    }

    fn children(&self, pid: i32) -> &[i32] {
        self.children.get(&pid).map_or(&[], Vec::as_slice)
    }

    /// Whether a process reads what one of its siblings, or a process below a sibling, can write.
    fn reads_from_sibling(&self, process: &Process) -> bool {
        let Some(pipe) = process.reads else { return false };
        let siblings = self.children(process.parent).iter().filter(|pid| **pid != process.pid);
        siblings.copied().any(|sibling| self.subtree(sibling).iter().any(|one| one.writes.contains(&pipe)))
    }

    fn subtree(&self, pid: i32) -> Vec<&'a Process> {
        let mut found = BTreeSet::new();
        let mut open = vec![pid];
        while let Some(pid) = open.pop() {
            if found.insert(pid) {
                open.extend(self.children(pid));
            }
        }
        found.iter().filter_map(|pid| self.processes.get(pid).copied()).collect()
    }

    /// What a process runs, if it is a shell or a wrapper, and the process itself otherwise.
    fn behind(&self, process: &'a Process, signal: i32, depth: u32, found: &mut Vec<&'a Process>) {
        const DEEPEST: u32 = 64;
        let children: Vec<&Process> =
            self.children(process.pid).iter().filter_map(|pid| self.processes.get(pid).copied()).collect();
        if depth == DEEPEST || children.is_empty() || !process.looked_through(signal) {
            found.push(process);
            return;
        }
        let first: Vec<&Process> =
            children.iter().copied().filter(|child| !self.reads_from_sibling(child)).collect();
        // Two that read from each other: rather both than none.
        for child in if first.is_empty() { children } else { first } {
            self.behind(child, signal, depth + 1, found);
        }
    }
}

/// The processes that get a signal, each once, in the order of their ids.
///
/// `supervisor` is the process below which all others stand, `child` the command that it started. Nobody is left out of
/// the answer because a rule matches nothing: then [`Recipients::Child`] holds.
#[must_use]
pub fn recipients<'a>(
    table: &'a [Process],
    supervisor: i32,
    child: i32,
    signal: i32,
    rule: &Rule,
) -> Vec<&'a Process> {
    let tree = Tree::new(table, supervisor);
    let all = || tree.processes.values().copied();
    let mut chosen: Vec<&Process> = match (&rule.process, rule.recipients) {
        (Some(pattern), _) => all().filter(|process| pattern.is_match(&process.command.join(" "))).collect(),
        (None, Recipients::Child) => Vec::new(),
        (None, Recipients::Leaves) => all()
            .filter(|process| tree.children(process.pid).is_empty() && !tree.reads_from_sibling(process))
            .collect(),
        (None, Recipients::All) => all().collect(),
    };
    if chosen.is_empty()
        && let Some(process) = tree.processes.get(&child)
    {
        tree.behind(process, signal, 0, &mut chosen);
    }
    chosen.sort_unstable_by_key(|process| process.pid);
    chosen.dedup_by_key(|process| process.pid);
    chosen
}

/// Every process below the supervisor.
#[must_use]
pub fn descendants(table: &[Process], supervisor: i32) -> Vec<&Process> {
    Tree::new(table, supervisor).processes.into_values().collect()
}

#[cfg(test)]
mod tests;
