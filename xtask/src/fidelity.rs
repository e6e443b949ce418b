//! `cargo xtask fidelity`: how faithful the laboratory is.

use anyhow::Result;

use crate::{bench::Measurement, cluster, images, packages};

/// Compare the laboratory with a real control plane
///
/// Plays one scenario (20 played nodes, 100 ScavengerJobs, 200 ordinary pods, ten minutes) some times on a cluster of its own
/// and with 50 seeds in the laboratory, and prints what was counted side by side. Four of five runs on the cluster should lie
/// between the 5th and the 95th percentile of the laboratory. It also plays a laboratory with a wrong rule, which should not
/// hold them.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name of the cluster; one of that name that is left over from an earlier run is removed first
    #[arg(long, default_value = "fidelity", value_name = "NAME")]
    name: cluster::Name,
    /// How often it is played on the cluster; each time takes eleven minutes
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=50))]
    runs: u32,
    /// Measure with programs as the tests build them, without optimisation: no second build of every dependency
    #[arg(long)]
    dev: bool,
    /// Leave the cluster up afterwards
    #[arg(long)]
    keep: bool,
    /// Name missing Debian packages instead of installing them
    #[arg(long)]
    no_install: bool,
}

/// The scenario is about so many nodes.
const NODES: u32 = 20;

/// Measures, and takes the cluster down again.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let options = cluster::Options {
        no_install: arguments.no_install,
        fake_nodes: NODES,
        ..cluster::Options::default()
    };
    cluster::check(&options)?;
    packages::ensure(packages::CLUSTER, !arguments.no_install)?;
    images::ensure(!arguments.no_install)?;
    let profile = if arguments.dev { images::Profile::Dev } else { images::Profile::Release };
    let variables = vec![("SCAVENGER_E2E_FIDELITY_RUNS", arguments.runs.to_string())];
    let modules = &["bench::fidelity::"];
    Measurement { name: &arguments.name, options, profile, keep: arguments.keep, modules, variables }
        .run(|_| Ok(()))
}
