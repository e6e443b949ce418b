//! `cargo xtask versions`: the same tests on one release of Kubernetes after the other.

use anyhow::{Result, bail};
use clap::ValueEnum;

use super::{Arguments, Depth, run_at};
use crate::cluster::{self, Kubernetes};

/// Run the tests that an older Kubernetes could fail, on each release
///
/// Those are the tests that share a cluster: lifecycles, policies, CRDs, the command line. Takes about ten minutes for
/// a release, and as long again the first time, when it is compiled.
#[derive(Debug, clap::Args)]
pub(crate) struct VersionsArguments {
    /// Only on these releases
    #[arg(long, value_enum, value_name = "RELEASE")]
    only: Vec<Kubernetes>,
    /// Name of the cluster; one of that name that is left over from an earlier run is removed first
    #[arg(long, default_value = "versions", value_name = "NAME")]
    name: cluster::Name,
    /// Name missing Debian packages instead of installing them
    #[arg(long)]
    no_install: bool,
}

/// Runs them, and says at the end which releases failed.
pub(crate) fn run(arguments: &VersionsArguments) -> Result<()> {
    let mut failed = Vec::new();
    let releases = if arguments.only.is_empty() { Kubernetes::value_variants() } else { &arguments.only };
    for &kubernetes in releases {
        eprintln!("versions: Kubernetes {kubernetes} ...");
        let mut tests = vec!["--workspace", "--test", "e2e", "--", "together::"];
        for module in missing(kubernetes) {
            tests.extend(["--skip", module]);
        }
        let result = run_at(
            &Arguments {
                all: false,
                keep: false,
                reuse: false,
                name: arguments.name.clone(),
                kubernetes,
                no_install: arguments.no_install,
                retry: false,
                usage: false,
                arguments: tests.into_iter().map(str::to_owned).collect(),
            },
            Depth::Test,
            None,
        );
        match result {
            Ok(()) => eprintln!("versions: Kubernetes {kubernetes}: ok"),
            Err(error) => {
                eprintln!("versions: Kubernetes {kubernetes}: FAILED: {error:#}");
                failed.push(kubernetes.to_string());
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("tests failed on Kubernetes {}", failed.join(", ")) }
}

/// Tests whose means a release does not have.
fn missing(kubernetes: Kubernetes) -> &'static [&'static str] {
    match kubernetes {
        // They inject their containers with a MutatingAdmissionPolicy.
        Kubernetes::V1_31 | Kubernetes::V1_34 => &["sidecar::"],
        Kubernetes::V1_37 => &[],
    }
}
