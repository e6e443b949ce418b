//! `cargo xtask test` and `cargo xtask soak`: every test, those on the real cluster included.

use anyhow::{Context, Result};

use crate::{cluster, images, install, packages, progress::Task, shell};

/// Run every test, the ones on a real cluster included
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Leave the cluster up afterwards
    #[arg(long)]
    keep: bool,
    /// Name of the tests' cluster; one of that name that is left over from an earlier run is removed first
    #[arg(long, default_value = CLUSTER, value_name = "NAME")]
    name: cluster::Name,
    /// Name missing Debian packages instead of installing them
    #[arg(long)]
    no_install: bool,
    /// Arguments for `cargo test`, for example `-p scavenger-e2e`; the whole workspace without any
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

/// Cluster of the tests, beside any that the user has.
const CLUSTER: &str = "test";

/// The test that takes the installation away.
const UNINSTALL: &str = "uninstall";

impl Default for Arguments {
    fn default() -> Self {
        let name = CLUSTER.parse().expect("the default name should be a good one");
        Self { keep: false, name, no_install: false, arguments: Vec::new() }
    }
}

/// How often tests repeat what they repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Every test, modest repetition.
    Test,
    /// The full counts.
    Soak,
}

/// Runs the tests and takes the cluster down again.
pub(crate) fn run(arguments: &Arguments, depth: Depth) -> Result<()> {
    let name = arguments.name.as_str();
    // All that can be wrong with the machine first, before anything is changed.
    // Nodes without containers, for tests with more ScavengerJobs than a machine can run. Only pods that tolerate their
    // taint go there.
    let options = cluster::Options { no_install: arguments.no_install, fake_nodes: 3 };
    cluster::check(&options)?;
    let mut wanted: Vec<&str> = packages::CLUSTER.to_vec();
    wanted.extend(images::PACKAGES);
    wanted.extend(packages::TESTS);
    packages::ensure(&wanted, !arguments.no_install)?;

    // What is compiled needs both cores; a cluster that waits would only disturb.
    let mut build = shell::cargo(&["test", "--locked", "--no-run"]);
    select(&mut build, arguments);
    shell::run(&mut build)?;

    // Left over from a run that was stopped: its objects would be in the way.
    cluster::down(name)?;
    let cluster = cluster::up(name, &options)?;
    cluster::tell_when_interrupted(name)?;
    let result = install::install(&cluster, "e2e/deploy", images::Profile::Dev).and_then(|()| {
        let mut tests = shell::cargo(&["test", "--locked", "--no-fail-fast"]);
        select(&mut tests, arguments);
        on(&cluster, &mut tests)?;
        if depth == Depth::Soak {
            // Twenty times proptest's own 256; tests with a number of their own multiply it alike.
            tests.env("SCAVENGER_E2E_REPEAT", "100").env("PROPTEST_CASES", "5120");
        }
        shell::run(&mut tests)?;
        if arguments.keep || !takes_it_away(arguments) {
            return Ok(());
        }
        // It takes the installation away, which nothing but the end may follow. Of the workspace, since the same program
        // built for one package has other features and is compiled anew.
        let mut last = shell::cargo(&["test", "--locked", "--workspace", "--test", UNINSTALL]);
        on(&cluster, &mut last)?;
        shell::run(last.env("SCAVENGER_E2E_LAST", "1"))
    });
    if arguments.keep {
        eprintln!("the cluster stays up: eval \"$(cargo xtask cluster env --name {name})\"");
    } else {
        let task = Task::start("taking the cluster down");
        match cluster::down(name) {
            Ok(()) => task.done("the cluster is down"),
            // What the tests found matters more.
            Err(error) => eprintln!("the cluster {name} was not taken down: {error:#}"),
        }
    }
    result
}

/// Lets a test run find the cluster.
pub(crate) fn on(cluster: &cluster::Cluster, tests: &mut std::process::Command) -> Result<()> {
    // Built for the images just now, into the folder in which this program is too.
    let operator = std::env::current_exe().context("cannot tell where this program is")?;
    let operator = operator.with_file_name("scavenger-operator");
    tests
        // Figures that a test prints are part of the result.
        .args(["--", "--show-output"])
        .env("SCAVENGER_E2E_KUBECONFIG", cluster.kubeconfig())
        .env("SCAVENGER_E2E_KUBECTL", cluster.binary("kubectl"))
        .env("SCAVENGER_E2E_OPERATOR", operator)
        .env("SCAVENGER_E2E", "1")
        // What failed is in the message; a backtrace through futures only hides it.
        .env("RUST_BACKTRACE", "0")
        // Most of the time the tests on the cluster wait for it.
        .env("RUST_TEST_THREADS", "8");
    Ok(())
}

/// True if the test that takes the installation away is among those asked for.
fn takes_it_away(arguments: &Arguments) -> bool {
    arguments.arguments.is_empty() || arguments.arguments.iter().any(|argument| argument == UNINSTALL)
}

fn select(command: &mut std::process::Command, arguments: &Arguments) {
    if arguments.arguments.is_empty() {
        command.arg("--workspace");
    } else {
        command.args(&arguments.arguments);
    }
}
