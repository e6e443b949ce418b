//! `cargo xtask test`: what a contributor runs before a change; with `--all` every test. `cargo xtask soak`: all of them with
//! the full counts. `cargo xtask versions`: those that an older Kubernetes could fail, on each release. `cargo xtask upgrade`:
//! from an older build and back.

mod call;
mod flaky;
mod lanes;
mod parts;
mod profile;
mod programs;
mod stamps;
mod upgrade;
mod versions;

use std::{path::PathBuf, process::Command, sync::Mutex, time::Duration};

use anyhow::{Context, Result};
use clap::ValueEnum as _;

pub(crate) use upgrade::{UpgradeArguments, run as upgrade};
pub(crate) use versions::{VersionsArguments, run as versions};

use profile::Profile;
use programs::Programs;
use stamps::Stamps;

use crate::{
    cluster::{self, Cluster, Kubernetes},
    contract::{self, Pythons},
    forecast::Forecast,
    images,
    install::{self, Agents, By},
    packages, program, shell, trace,
    usage::Usage,
};

/// Run what a change must pass: every test that needs no cluster, and each mechanism of Kubernetes on a real one
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Run every test
    #[arg(long)]
    all: bool,
    /// Leave the clusters up afterwards
    #[arg(long)]
    keep: bool,
    /// Use clusters that an earlier run with --keep left up, and install on them what was built since
    #[arg(long)]
    reuse: bool,
    /// Name of the tests' cluster, and the beginning of the others' names; such clusters that are left over from an
    /// earlier run are removed first, unless with --reuse
    #[arg(long, default_value = CLUSTER, value_name = "NAME")]
    name: cluster::Name,
    /// Run this release of Kubernetes
    #[arg(long, value_enum, value_name = "RELEASE", default_value_t)]
    kubernetes: Kubernetes,
    /// Name missing Debian packages instead of installing them
    #[arg(long)]
    no_install: bool,
    /// Run tests that failed beside the others once more when they are done, and let them count if they pass alone; both
    /// are shown
    #[arg(long, conflicts_with = "arguments")]
    retry: bool,
    /// Print at the end which processes used the processors, what an API server did, and how long each part took
    #[arg(long = "where")]
    usage: bool,
    /// Arguments for `cargo test`, for example `--workspace --test e2e together::`
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

/// What named tests get: figures that a test prints are part of the result, and what is named runs though it is in `--all`.
/// A test program takes each only once.
const NAMED: [&str; 2] = ["--show-output", "--include-ignored"];

/// So many of the parts that took longest are named at the end.
const SHOWN: usize = 5;

/// Cluster of the tests, beside any that the user has.
const CLUSTER: &str = "test";

/// Clusters that share out every test. Most tests wait for their cluster, so two cores carry three. The last one comes when
/// what needs no cluster is done: beside that, the API servers of three answer so late that the operators lose their Leases
/// all the time.
const CLUSTERS: usize = 3;

impl Default for Arguments {
    fn default() -> Self {
        let name = CLUSTER.parse().expect("the default name should be a good one");
        Self {
            all: false,
            keep: false,
            reuse: false,
            name,
            kubernetes: Kubernetes::default(),
            no_install: false,
            retry: false,
            usage: false,
            arguments: Vec::new(),
        }
    }
}

impl Arguments {
    /// Those of `cargo xtask ci`.
    pub(crate) fn of_ci(all: bool) -> Self {
        Self { all, retry: true, ..Self::default() }
    }
}

/// Run every test with the full counts: takes hours, and can be resumed
///
/// Then runs `cargo xtask kernel`, the demo with the Helm chart, the demo on a cluster that knows nothing of the project, and
/// the commands of the pages. Each part that passes is stamped with the commit it passed at, in target/soak.
#[derive(Debug, clap::Args)]
pub(crate) struct SoakArguments {
    /// Leave out the parts that have passed already at this commit
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    test: Arguments,
}

/// How often tests repeat what they repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Every test, modest repetition.
    Test,
    /// The full counts.
    Soak,
}

impl Depth {
    /// How long one program of tests may take: more than twice as long as the longest does.
    const fn limit(self) -> Duration {
        match self {
            Self::Test => Duration::from_mins(30),
            Self::Soak => Duration::from_hours(4),
        }
    }
}

/// What all runs of `cargo test` have in common.
struct How {
    depth: Depth,
    /// What some of them run.
    pythons: Pythons,
    /// Where the planner's tests write what they plan, if that is compared with the recording.
    trace: Option<PathBuf>,
}

/// Carries out `cargo xtask test`.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    run_at(arguments, Depth::Test, None)
}

/// Carries out `cargo xtask soak`.
pub(crate) fn soak(arguments: &SoakArguments) -> Result<()> {
    let stamps = Stamps::of_work_tree(target()?.join("soak"), arguments.resume)?;
    let tests = run_at(&arguments.test, Depth::Soak, Some(&stamps));
    if !arguments.test.arguments.is_empty() {
        return tests;
    }
    // Each is a whole installation, so they come one after the other, and all of them even if one fails.
    let walks = parts::run(program::path()?, &arguments.test, &stamps);
    tests.and(walks)
}

/// Runs the tests and takes their clusters down again.
fn run_at(arguments: &Arguments, depth: Depth, stamps: Option<&Stamps>) -> Result<()> {
    let is_whole = arguments.arguments.is_empty();
    let all = is_whole && (arguments.all || depth == Depth::Soak);
    let usage = if arguments.usage { Some(Usage::start()?) } else { None };
    let profile = Mutex::new(None);
    let mut names = vec![arguments.name.clone()];
    if all {
        for number in 2..=CLUSTERS {
            names.push(arguments.name.numbered(number)?);
        }
    }
    // All that can be wrong with the machine first, before anything is changed.
    // Nodes without containers, for tests with more ScavengerJobs than a machine can run. Only pods that tolerate their
    // taint go there.
    let options = cluster::Options {
        kubernetes: arguments.kubernetes,
        no_install: arguments.no_install,
        fake_nodes: 3,
        registry: true,
        metrics_server: true,
    };
    cluster::check(&options)?;
    let mut wanted: Vec<&str> = packages::CLUSTER.to_vec();
    wanted.extend(packages::TESTS);
    if all {
        wanted.extend(packages::KERNEL);
    }
    let what = match (is_whole, all) {
        _ if depth == Depth::Soak => What::Soak,
        (false, _) => What::Named,
        (true, false) => What::Change,
        (true, true) => What::All,
    };
    eprint!("{}", flaky::told()?);
    forecast(&options, &wanted, what)?.print_before(!arguments.no_install, || {
        packages::ensure(&wanted, !arguments.no_install)?;
        images::ensure(!arguments.no_install)
    })?;
    let trace = if is_whole && depth == Depth::Test { Some(target()?.join("trace/test")) } else { None };
    trace.as_deref().map_or(Ok(()), trace::prepare)?;
    let how = How { depth, pythons: contract::pythons()?, trace };

    // What is compiled needs both cores; a cluster that waits would only disturb.
    let programs = if is_whole {
        Some(Programs::build()?)
    } else {
        shell::run(cargo_test(&["--no-run"]).args(&arguments.arguments))?;
        None
    };

    cluster::tell_when_interrupted(&names, call::interrupt)?;
    let prepare = |name: &cluster::Name| {
        if !arguments.reuse {
            // Left over from a run that was stopped: its objects would be in the way.
            cluster::down(name.as_str())?;
        }
        let cluster = cluster::up(name.as_str(), &options)?;
        let by = By::Kustomization("e2e/deploy");
        install::install(&cluster, by, Agents::Labelled, images::Profile::Dev)?;
        images::push_to(&cluster, images::Image::Counter, images::Profile::Dev)?;
        for image in [images::Image::CounterMpirun, images::Image::GromacsWrapped, images::Image::GromacsMpi]
        {
            images::load_onto(&cluster, image, images::Profile::Dev)?;
        }
        if arguments.usage && name == &arguments.name {
            let folder = target()?.join("where");
            *profile.lock().expect("nobody should have panicked") = Some(Profile::start(&cluster, folder)?);
        }
        Ok(cluster)
    };
    let result = if let Some(programs) = &programs {
        let (retry, take_away) = (arguments.retry, !arguments.keep);
        let shown = if arguments.usage { usize::MAX } else { SHOWN };
        let lanes = lanes::Lanes { how: &how, programs, all, retry, take_away, stamps, shown };
        lanes.run(&names, &prepare).and_then(|()| how.trace.as_deref().map_or(Ok(()), trace::compare))
    } else {
        prepare(&arguments.name).and_then(|cluster| {
            let mut tests = cargo_test(&[]);
            how.apply(&mut tests, Some(&cluster))?;
            // Their own `--` ends cargo's arguments, as it does on the command line.
            tests.args(&arguments.arguments);
            if !arguments.arguments.iter().any(|argument| argument == "--") {
                tests.arg("--");
            }
            if !arguments.keep && arguments.arguments.iter().any(|argument| argument.starts_with(lanes::LAST))
            {
                tests.env("SCAVENGER_E2E_LAST", "1");
            }
            let is_given = |flag: &&&str| arguments.arguments.iter().any(|argument| argument == **flag);
            tests.args(NAMED.iter().filter(|flag| !is_given(flag)));
            // Measurements have a command of their own.
            shell::run(tests.args(["--skip", "bench::"]))
        })
    };
    let profile = profile.into_inner().expect("nobody should have panicked").map(Profile::stop);
    for name in &names {
        if arguments.keep {
            let name = name.as_str();
            eprintln!("the cluster {name} stays up: eval \"$(cargo xtask cluster env --name {name})\"");
        } else {
            cluster::leave(name);
        }
    }
    // Once the clusters have ended, all that they used is known.
    for table in usage.map(Usage::stop).into_iter().chain(profile) {
        match table {
            Ok(table) => println!("\n{table}"),
            Err(error) => eprintln!("test: {error:#}"),
        }
    }
    result
}

/// Folder of what cargo builds: this program is in target/debug, wherever that is.
pub(crate) fn target() -> Result<PathBuf> {
    let target = program::path()?.ancestors().nth(2).context("this program is in no folder of cargo's")?;
    Ok(target.to_owned())
}

/// What comes, and how long it takes.
fn forecast(options: &cluster::Options, wanted: &[&str], what: What) -> Result<Forecast> {
    let mut forecast = Forecast::of_missing(options, images::Image::value_variants(), wanted)?;
    forecast.add("programs and tests are compiled", 8..=12, " the first time, later only what changed");
    match what {
        What::Soak => forecast.add_open("long tests and measurements run: several hours"),
        What::All => forecast.add(format!("{CLUSTERS} clusters start, and every test runs"), 28..=40, ""),
        What::Change => forecast.add("a cluster starts, and the tests run", 12..=18, ""),
        What::Named => {
            forecast.add("a cluster starts", 2..=2, "");
            forecast.add_open("the tests run that you named");
        }
    }
    Ok(forecast)
}

/// What is run, for the forecast.
#[derive(Debug, Clone, Copy)]
enum What {
    /// Some tests.
    Named,
    /// What a change must pass.
    Change,
    /// Every test.
    All,
    /// Every test, with the full counts.
    Soak,
}

/// A `cargo test`.
fn cargo_test(arguments: &[&str]) -> Command {
    let mut tests = shell::cargo(&["test", "--locked", "--no-fail-fast"]);
    tests.args(arguments);
    tests
}

impl How {
    /// Lets tests find the cluster, if they need one, and know how deep they go.
    fn apply(&self, tests: &mut Command, cluster: Option<&Cluster>) -> Result<()> {
        tests.env("SCAVENGER_E2E", "1");
        if let Some(cluster) = cluster {
            on(cluster, tests)?;
        }
        match self.depth {
            Depth::Test => for_a_change(tests, &self.pythons),
            // Other cases each time, and twenty times proptest's own 256; tests with a number of their own multiply it
            // alike. What is found goes into proptest-regressions/.
            Depth::Soak => {
                everywhere(tests, &self.pythons);
                tests.env("SCAVENGER_E2E_REPEAT", "100").env("PROPTEST_CASES", "5120");
            }
        }
        Ok(())
    }
}

/// Lets a test run find the cluster.
pub(crate) fn on(cluster: &Cluster, tests: &mut Command) -> Result<()> {
    // Built for the images just now.
    let operator = program::folder()?.join("scavenger-operator");
    tests
        .env("SCAVENGER_E2E", "1")
        .env("SCAVENGER_E2E_KUBECONFIG", cluster.kubeconfig())
        .env("SCAVENGER_E2E_KUBECTL", cluster.binary("kubectl"))
        .env("SCAVENGER_E2E_OPERATOR", operator)
        .env("SCAVENGER_E2E_KUBEPODS", cluster.kubepods())
        .env("SCAVENGER_E2E_REGISTRY", cluster.registry())
        .env("SCAVENGER_E2E_REGISTRY_FRONT", cluster.registry_front())
        .env("SCAVENGER_E2E_REGISTRY_LOGIN", format!("{}:{}", cluster::LOGIN.0, cluster::LOGIN.1));
    alike(tests);
    Ok(())
}

/// What tests have that a change must pass, wherever they run.
pub(crate) fn for_a_change(tests: &mut Command, pythons: &Pythons) {
    everywhere(tests, pythons);
    // The same cases for every change, so that one is judged by what it did.
    tests.env("PROPTEST_RNG_SEED", "1");
}

/// What every run of tests has, with the Pythons.
fn everywhere(tests: &mut Command, pythons: &Pythons) {
    alike(tests);
    pythons.apply(tests);
}

/// How every run of tests and benchmarks works.
fn alike(tests: &mut Command) {
    tests
        // What failed is in the message; a backtrace through futures only hides it.
        .env("RUST_BACKTRACE", "0")
        // Most of the time the tests on a cluster wait for it.
        .env("RUST_TEST_THREADS", "8");
}
