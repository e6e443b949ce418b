//! Asks the workload for a checkpoint, when the operator wants one.

use std::{
    ffi::{CString, OsString},
    os::unix::ffi::OsStringExt as _,
    sync::{Mutex, MutexGuard, PoisonError},
};

use nix::sys::signal::{SigSet, Signal};

use crate::{
    child::{self, End},
    delivery::Delivery,
    say,
};

/// How a workload is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// By a signal, which goes where SIGTERM would go.
    Signal(Signal),
    /// By a command that is run beside it.
    Command(Vec<OsString>),
}

/// Asks, and knows the command that is still at it.
#[derive(Debug)]
pub struct Asker {
    way: Way,
    /// With these blocked, and with this priority, the command is started.
    mask: SigSet,
    keep_priority: bool,
    running: Mutex<Option<i32>>,
}

#[derive(Debug)]
enum Way {
    Signal(Signal),
    Command(Vec<CString>),
}

impl Asker {
    /// The command starts as the workload did.
    #[must_use]
    pub fn new(request: Request, keep_priority: bool, mask: SigSet) -> Self {
        let way = match request {
            Request::Signal(signal) => Way::Signal(signal),
            // Nobody can give a zero byte on a command line.
            Request::Command(words) => Way::Command(
                words.into_iter().filter_map(|word| CString::new(word.into_vec()).ok()).collect(),
            ),
        };
        Self { way, mask, keep_priority, running: Mutex::default() }
    }

    /// Asks. Returns whether there was anybody to ask.
    pub fn ask(&self, delivery: &Delivery) -> bool {
        let words = match &self.way {
            Way::Signal(signal) => return delivery.deliver(*signal),
            Way::Command(words) => words,
        };
        // Held until its id is known: the thread that reaps looks for it here.
        let mut running = self.running();
        if running.is_some() {
            return false;
        }
        match child::start_beside(words, self.keep_priority, &self.mask) {
            Ok(pid) => {
                *running = Some(pid);
                true
            }
            Err(error) => {
                say(&format!("cannot run the command that asks for a checkpoint: {error}"));
                false
            }
        }
    }

    /// Takes in the end of any process.
    pub fn ended(&self, pid: i32, end: End) {
        let mut running = self.running();
        if *running == Some(pid) {
            *running = None;
            if end.code != 0 {
                let hint = if end.code == 127 { ": it may not exist" } else { "" };
                say(&format!(
                    "the command that asks for a checkpoint ended with exit code {}{hint}",
                    end.code
                ));
            }
        }
    }

    fn running(&self) -> MutexGuard<'_, Option<i32>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
