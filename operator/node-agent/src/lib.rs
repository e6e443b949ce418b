//! The agent of a node. It makes the cgroups of ScavengerJobs' pods idle, so that they take no processor from ordinary pods.
//!
//! The operator lists these pods. So the agent needs no rights in the cluster, and no files but those of the pods' cgroups. If
//! it fails, pods start and end as they do without it.
//!
//! When a container was killed for memory the operator asks why, and the agent tells it from the kernel's counters.
//!
//! | module | holds | I/O |
//! |---|---|---|
//! | [`keeper`] | which pods are listed, what was found, and what to do | no |
//! | [`kills`] | why containers were killed for memory | no |
//! | [`run`] | the thread that keeps the cgroups and reads their counters | cgroups |
//! | [`watch`] | the thread that hears of changed counters | cgroups |
//! | [`ask`] | the thread that asks the operator, and answers it | network |
//! | [`cli`] | the command line | no |

pub mod ask;
pub mod cli;
pub mod keeper;
pub mod kills;
pub mod run;
pub mod watch;

use std::io::Write as _;

/// Writes one line to the standard error. A line that cannot be written is lost.
pub(crate) fn say(text: &str) {
    let line = format!("scavenger-node-agent: {text}\n");
    std::io::stderr().write_all(line.as_bytes()).ok();
}

/// A problem that is written once until it changes.
#[derive(Debug, Default)]
pub(crate) struct Problem(Option<String>);

impl Problem {
    /// Notes what is wrong now, and returns it if it was not noted before.
    pub(crate) fn is(&mut self, now: Option<String>) -> Option<&str> {
        let is_news = self.0 != now;
        self.0 = now;
        self.0.as_deref().filter(|_| is_news)
    }

    /// Whether anything is wrong.
    pub(crate) fn is_there(&self) -> bool {
        self.0.is_some()
    }
}
