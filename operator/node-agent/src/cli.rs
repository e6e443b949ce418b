//! The command line.

use std::{path::PathBuf, time::Duration};

use clap::{CommandFactory as _, error::ErrorKind};
use scavenger_reporting::{
    client::ReportTo,
    flags::{Program, Reports, duration},
};

/// Make the cgroups of ScavengerJobs' pods on this node idle, so that ordinary pods do not notice them
#[derive(Debug, clap::Parser)]
#[command(name = "scavenger-node-agent", version)]
pub struct Cli {
    /// Find the cgroups of pods in this folder: `kubepods.slice` or `kubepods`, as it is mounted
    ///
    /// By default it is looked for below /sys/fs/cgroup, and there below cpu with cgroup v1.
    #[arg(long, global = true, value_name = "PATH", env = "SCAVENGER_NODE_AGENT_TREE")]
    pub tree: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What the program can do.
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Keep the cgroups of the pods that the operator lists idle, until SIGTERM, and then give back every weight
    Run(Arguments),
    /// Give back every weight that this program has taken, and end
    ///
    /// For a node whose agent was killed and does not come back. It needs no operator.
    Restore,
}

/// For the flags that every program has which reports.
#[derive(Debug, Clone)]
pub struct NodeAgent;

impl Program for NodeAgent {
    const REPORT_URL: &'static str = "SCAVENGER_NODE_AGENT_REPORT_URL";
    const REPORT_TOKEN: &'static str = "SCAVENGER_NODE_AGENT_REPORT_TOKEN";
    const REPORT_CA: &'static str = "SCAVENGER_NODE_AGENT_REPORT_CA";
}

/// The arguments of `run`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Where the operator is.
    #[command(flatten)]
    pub reports: Reports<NodeAgent>,
    /// Check this often that the cgroups are still idle
    ///
    /// `systemctl daemon-reload` and some runtimes write weights again, which ends it.
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = duration,
        default_value = "10s",
        env = "SCAVENGER_NODE_AGENT_LOOK_EVERY"
    )]
    pub look_every: Duration,
}

impl Arguments {
    /// Where the operator is. Without a URL the process ends.
    #[must_use]
    pub fn to(self) -> ReportTo {
        self.reports.to().unwrap_or_else(|| {
            let problem = "set --report-url, or SCAVENGER_NODE_AGENT_REPORT_URL";
            Cli::command().error(ErrorKind::MissingRequiredArgument, problem).exit()
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
        let line = ["scavenger-node-agent", "restore", "--tree", "/kubepods"];
        assert_eq!(Cli::try_parse_from(line).unwrap().tree, Some("/kubepods".into()));
        let run =
            |flags: &[&str]| Cli::try_parse_from(["scavenger-node-agent", "run"].iter().chain(flags)).is_ok();
        assert!(run(&["--report-url", "https://operator/nodes", "--report-token", "t", "--report-ca", "c"]));
        assert!(!run(&["--report-url", "https://operator/nodes"]));
        assert!(!run(&["--report-url", "http://operator", "--report-token", "t", "--report-ca", "c"]));
    }
}
