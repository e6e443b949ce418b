//! The development cluster: a real Kubernetes on this machine, in namespaces of its own.
//!
//! The programs come from the Go modules in `deploy/devcluster`. What Kubernetes is told to do is decided there
//! (`cmd/devnode`); what the machine must provide (programs, addresses, cgroups, locks) is decided here.

mod binaries;
mod cgroups;
mod description;
mod down;
mod fake_nodes;
mod kubectl;
mod load;
mod metrics_server;
mod processes;
mod registry;
mod status;
mod supervisor;
mod up;
mod volumes;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

pub(crate) use binaries::{Kubernetes, tool};
pub(crate) use description::Cluster;
pub(crate) use kubectl::Access;
pub(crate) use registry::LOGIN;
pub(crate) use registry::program as registry_program;
pub(crate) use up::Options;

use crate::progress::Task;

/// Where every cluster keeps its files while it lives.
const STATE_ROOT: &str = "/var/lib/scavenger-devcluster";

/// Run a real Kubernetes on this machine
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Args)]
struct Which {
    /// Which cluster: several can run side by side
    #[arg(long, default_value = "dev", env = "SCAVENGER_CLUSTER")]
    name: Name,
}

/// A cluster's name: it becomes part of paths, of a cgroup and of a kubeconfig.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name(String);

impl Name {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Name of another cluster that belongs to this one: the second, say.
    pub(crate) fn numbered(&self, number: usize) -> Result<Self> {
        let name = format!("{}-{number}", self.0);
        name.parse().map_err(|error| anyhow::anyhow!("cluster {number} cannot be named {name}: {error}"))
    }
}

impl std::str::FromStr for Name {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let letters =
            name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        // Socket paths below the state folder end at 107 bytes.
        if name.is_empty() || name.len() > 20 || !letters || name.starts_with('-') {
            return Err("a cluster's name is 1 to 20 of a-z, 0-9 and '-', and does not begin with '-'".into());
        }
        Ok(Self(name.into()))
    }
}

/// Says, when the user interrupts a task that made clusters, that they are still there, after the task's own `before`. A task
/// that makes some after others says it of the last ones.
pub(crate) fn tell_when_interrupted(names: &[Name], before: fn()) -> Result<()> {
    static NAMES: Mutex<Vec<Name>> = Mutex::new(Vec::new());
    let is_first = std::mem::replace(&mut *locked(&NAMES), names.to_vec()).is_empty();
    if !is_first {
        return Ok(());
    }
    ctrlc::set_handler(move || {
        before();
        eprintln!("\ninterrupted");
        // Some may not have been made yet.
        let are_there = |name: &&Name| description::state_dir(name.as_str()).exists();
        for Name(name) in locked(&NAMES).iter().filter(are_there) {
            eprintln!("the cluster {name} stays up, `cargo xtask cluster down --name {name}` removes it");
        }
        // As a shell reports an end by SIGINT.
        std::process::exit(130);
    })
    .context("cannot wait for an interruption")
}

fn locked(names: &Mutex<Vec<Name>>) -> MutexGuard<'_, Vec<Name>> {
    names.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the cluster down at the end of what it was made for. What came of that matters more than a cluster that could
/// not be taken down, so this is only said.
pub(crate) fn leave(name: &Name) {
    let Name(name) = name;
    let task = Task::start(format!("taking the cluster {name} down"));
    match down(name) {
        Ok(()) => task.done(format!("the cluster {name} is down (--keep leaves it up)")),
        Err(error) => eprintln!("the cluster {name} was not taken down: {error:#}"),
    }
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Start a cluster and wait until its node is Ready
    ///
    /// Builds what is missing first. Harmless if the cluster is up already: it then only offers released
    /// volumes again, and adds what it is asked for: fake nodes, registry, metrics-server.
    Up {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        options: Options,
    },
    /// Stop a cluster and remove everything it left on this machine
    Down {
        #[command(flatten)]
        which: Which,
        /// Stop all clusters, whatever their names
        #[arg(long)]
        all: bool,
    },
    /// Say what runs, and what ended though it should run
    Status {
        #[command(flatten)]
        which: Which,
    },
    /// Print the shell commands that point kubectl at a cluster
    ///
    /// Use it as: eval "$(cargo xtask cluster env)"
    Env {
        #[command(flatten)]
        which: Which,
    },
    /// Load container images (docker-archive files) onto the node
    Load {
        #[command(flatten)]
        which: Which,
        /// Archives, as written by `cargo xtask images`
        #[arg(value_name = "IMAGE.tar", required = true)]
        archives: Vec<PathBuf>,
    },
    /// Empty the released volumes and offer them again
    Volumes {
        #[command(flatten)]
        which: Which,
    },
}

/// Carries out `cargo xtask cluster ...`.
pub(crate) fn run(arguments: Arguments) -> Result<()> {
    match arguments.verb {
        Verb::Up { which, options } => {
            let cluster = up::up(&which.name.0, &options)?;
            eprintln!("to use it: eval \"$(cargo xtask cluster env --name {})\"", cluster.name);
            Ok(())
        }
        Verb::Down { all: true, .. } => down::down_all(),
        Verb::Down { which, all: false } => down::down(&which.name.0),
        Verb::Status { which } => status::print(&which.name.0),
        Verb::Env { which } => {
            for (variable, value) in Cluster::running(&which.name.0)?.environment() {
                println!("export {variable}={value}");
            }
            Ok(())
        }
        Verb::Load { which, archives } => Cluster::running(&which.name.0)?.load(&archives),
        Verb::Volumes { which } => Cluster::running(&which.name.0)?.recycle_volumes(),
    }
}

/// All that can be wrong with the machine for running a cluster, found before anything is changed.
pub(crate) fn check(options: &Options) -> Result<()> {
    up::check(options)
}

/// What is still to be built before a cluster can start, for people.
pub(crate) fn missing(options: &Options) -> Result<Vec<&'static str>> {
    binaries::missing(options)
}

/// Starts the cluster `name`, or finds it running.
pub(crate) fn up(name: &str, options: &Options) -> Result<Cluster> {
    up::up(name, options)
}

/// Stops the cluster `name` and leaves nothing of it; no error if there is none.
pub(crate) fn down(name: &str) -> Result<()> {
    down::down(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_task_can_make_clusters_one_after_the_other() {
        for name in ["first", "second"] {
            let name: Name = name.parse().expect("the name is short enough");
            tell_when_interrupted(&[name], || {}).expect("an interruption can be waited for once more");
        }
    }
}
