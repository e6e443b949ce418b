//! `cargo xtask bench`: the figures of planner and operator, as a table.

use anyhow::Result;

use crate::{
    cluster, images,
    install::{self, Agents, By},
    packages, shell, test,
};

/// Measure planner and operator, and print the figures
///
/// First the planner alone: processor time and memory as the cluster grows. Then the operator on a cluster of its own
/// with many played nodes: how fast and how soon ScavengerJobs become Jobs, next to what one client gets done with plain
/// Jobs in the same run. Takes about half an hour on two cores; whatever else the machine does is in the figures.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name of the cluster; one of that name that is left over from an earlier run is removed first
    #[arg(long, default_value = "bench", value_name = "NAME")]
    name: cluster::Name,
    /// Played nodes of the cluster
    #[arg(long, default_value_t = 200, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=5000))]
    nodes: u32,
    /// Jobs of each kind [default: 2000; 100000 for `--only memory`]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    jobs: Option<u32>,
    /// Pods that report, of `--only reports`
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    reporters: u32,
    /// Pods of each ScavengerJob, of `--only reports`; starts are what takes long
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pods_each: u32,
    /// Minutes for which they report
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=600))]
    minutes: u32,
    /// Measure only this
    #[arg(long, value_name = "WHAT")]
    only: Option<Part>,
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

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// The planner, without a cluster
    Planner,
    /// The operator on a cluster
    Cluster,
    /// What the supervisor costs a start
    Supervisor,
    /// What pods that report cost the API server; only if it is named
    Reports,
    /// What ordinary pods notice of ScavengerJobs that run on what is reserved but not used; only if it is named
    Usage,
    /// The memory of the operator with 100,000 ScavengerJobs; only if it is named
    Memory,
}

/// Measures, and takes the cluster down again.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let is_wanted = |part| arguments.only.is_none_or(|only| only == part);
    if is_wanted(Part::Planner) {
        let bench =
            ["bench", "--locked", "--package", "scavenger-planner", "--bench", "planner", "--", "tables"];
        shell::run(&mut shell::cargo(&bench))?;
    }
    if arguments.only == Some(Part::Planner) {
        return Ok(());
    }
    let options = cluster::Options {
        no_install: arguments.no_install,
        // Played nodes would take processor time of the only real one.
        fake_nodes: if arguments.only == Some(Part::Usage) { 0 } else { arguments.nodes },
        metrics_server: arguments.only == Some(Part::Usage),
        ..cluster::Options::default()
    };
    cluster::check(&options)?;
    packages::ensure(packages::CLUSTER, !arguments.no_install)?;
    images::ensure(!arguments.no_install)?;
    let modules: &[&str] = match arguments.only {
        Some(Part::Planner) => &[],
        Some(Part::Cluster) => &["bench::cluster::"],
        Some(Part::Supervisor) => &["bench::supervisor::"],
        // These leave the API server with more than the others should begin with.
        Some(Part::Reports) => &["bench::reports::"],
        Some(Part::Usage) => &["bench::usage::"],
        Some(Part::Memory) => &["bench::memory::"],
        None => &["bench::cluster::", "bench::supervisor::"],
    };
    let mut variables = vec![
        ("SCAVENGER_E2E_BENCH_REPORTERS", arguments.reporters.to_string()),
        ("SCAVENGER_E2E_BENCH_PODS_EACH", arguments.pods_each.to_string()),
        ("SCAVENGER_E2E_BENCH_MINUTES", arguments.minutes.to_string()),
    ];
    // Else each has its own number.
    variables.extend(arguments.jobs.map(|jobs| ("SCAVENGER_E2E_BENCH_JOBS", jobs.to_string())));
    let profile = if arguments.dev { images::Profile::Dev } else { images::Profile::Release };
    Measurement { name: &arguments.name, options, profile, keep: arguments.keep, modules, variables }.run(
        |cluster| match arguments.only {
            Some(Part::Usage) => images::load_onto(cluster, images::Image::CounterMpirun, profile),
            _ => Ok(()),
        },
    )
}

/// Tests that measure, on a cluster of their own.
pub(crate) struct Measurement<'a> {
    /// Name of the cluster; one of that name is removed first.
    pub(crate) name: &'a cluster::Name,
    pub(crate) options: cluster::Options,
    pub(crate) profile: images::Profile,
    /// Leave the cluster up afterwards.
    pub(crate) keep: bool,
    /// The tests.
    pub(crate) modules: &'a [&'a str],
    /// What they find in their environment.
    pub(crate) variables: Vec<(&'static str, String)>,
}

impl Measurement<'_> {
    /// Measures, and takes the cluster down again; `prepare` is done once the project is installed.
    pub(crate) fn run(&self, prepare: impl Fn(&cluster::Cluster) -> Result<()>) -> Result<()> {
        // What is compiled needs both cores, which a cluster would disturb.
        let mut build = vec!["test", "--locked", "--workspace", "--test", "e2e"];
        if self.profile == images::Profile::Release {
            // The one that measures is a client of the same API server on the same cores, and reads all that happens.
            build.push("--release");
        }
        shell::run(shell::cargo(&build).arg("--no-run"))?;
        let name = self.name.as_str();
        cluster::down(name)?;
        let cluster = cluster::up(name, &self.options)?;
        cluster::tell_when_interrupted(std::slice::from_ref(self.name), || {})?;
        let installed =
            install::install(&cluster, By::Kustomization("e2e/deploy"), Agents::Labelled, self.profile);
        let result = installed.and_then(|()| prepare(&cluster)).and_then(|()| {
            let mut tests = shell::cargo(&build);
            test::on(&cluster, tests.args(["--", "--show-output", "--ignored"]).args(self.modules))?;
            shell::run(tests.envs(self.variables.iter().map(|(name, value)| (*name, value))))
        });
        if self.keep {
            eprintln!("the cluster stays up: eval \"$(cargo xtask cluster env --name {name})\"");
        } else {
            cluster::leave(self.name);
        }
        result
    }
}
