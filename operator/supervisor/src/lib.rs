//! Process 1 of a `ScavengerJob`'s container.
//!
//! The supervisor starts the workload and stays beside it. It brings signals to the processes that must get them, watches
//! checkpoints, reports them, and ends with the workload's exit code. Nothing that goes wrong with the watching or the
//! reporting matters for the workload.
//!
//! | module | holds | I/O |
//! |---|---|---|
//! | [`signals`] | to which processes a signal goes | no |
//! | [`tracker`] | which files count as new checkpoints | no |
//! | [`state`] | what is known, and the reports made of it | no |
//! | [`table`] | the process table | `/proc` |
//! | [`cpu`] | the processor time of the workload | `/proc` |
//! | [`files`] | checkpoint files, progress, the file server's clock | files |
//! | [`announced`] | changes that the kernel announces, in their order | inotify |
//! | [`watch`] | the thread that looks at files | files |
//! | [`reporter`] | the thread that sends reports, with what `scavenger-reporting` has | network |
//! | [`message`] | the termination message | one file |
//! | [`child`], [`delivery`], [`request`], [`run`] | the workload's processes | processes |
//! | [`cli`], [`copy`] | the command line, and the copy for another container | files |

pub mod announced;
pub mod child;
pub mod cli;
pub mod copy;
pub mod cpu;
pub mod delivery;
pub mod files;
pub mod message;
pub mod reporter;
pub mod request;
pub mod run;
pub mod signals;
pub mod state;
pub mod table;
pub mod tracker;
pub mod watch;

use std::io::Write as _;

/// Writes one line to the standard error, which is the workload's as well. A line that cannot be written is lost.
pub(crate) fn say(text: &str) {
    let line = format!("scavenger-supervisor: {text}\n");
    std::io::stderr().write_all(line.as_bytes()).ok();
}
