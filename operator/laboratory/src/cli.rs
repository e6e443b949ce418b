//! The command line.

use std::{
    fs,
    num::NonZero,
    path::{Path, PathBuf},
};

use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};
use scavenger_planner::values::PreemptionMode;
use scavenger_program::{
    exit::{Exit, Unusable},
    output,
};

use crate::{
    compare::{Took, compare, contenders, mode_name},
    coverage, plot,
    policy::Kind,
    pool::{Document, Pool},
    print::{self, Comparison},
    snapshot, sweep,
    targets::{self, Case},
    values::{DAY, SECOND, Time},
    what_if,
    workload::{
        Mix, Read, Workload, openb,
        scenario::{SCENARIOS, Scenario},
        trace,
    },
};

/// Play ScavengerJobs in virtual time, and compare what policies lose
#[derive(Debug, Parser)]
#[command(name = "scavenger-laboratory", version)]
pub struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Simulate(Simulate),
    Targets(Targets),
    Sweep(Sweep),
    Coverage(coverage::Options),
    Scenarios,
}

/// What is played instead of a snapshot: clap requires nothing that conflicts with what is given.
const OTHERS: [&str; 3] = ["scenario", "trace", "openb"];

/// Play a workload under several policies and pools
#[derive(Debug, clap::Args)]
struct Simulate {
    /// Play the scenario of this name
    #[arg(long, value_name = "NAME", group = "what")]
    scenario: Option<String>,
    /// Play a trace in the laboratory's own format
    #[arg(long, value_name = "FILE", group = "what")]
    trace: Option<PathBuf>,
    /// Play Alibaba's trace cluster-trace-gpu-v2023, whose two files are in FOLDER
    #[arg(long, value_name = "FOLDER", group = "what")]
    openb: Option<PathBuf>,
    /// Play on from what `scavenger-operator snapshot` wrote of a live cluster: who would be interrupted, who would start. With
    /// --pool, what that change of the pool does beside what would happen anyway
    #[arg(long, value_name = "FILE", group = "what", conflicts_with_all = ["policy", "seeds", "late", "plot", "what_if", "speed"])]
    snapshot: Option<PathBuf>,
    /// Play so many hours of the snapshot, 1 to 168
    #[arg(long, value_name = "N", requires = "snapshot", conflicts_with_all = OTHERS, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=168))]
    hours: u16,
    /// Print so many events of the snapshot at most: those that the change brings about first
    #[arg(long, value_name = "N", requires = "snapshot", conflicts_with_all = OTHERS, default_value_t = 100)]
    limit: usize,
    /// End with status 3 if the change of the snapshot's pool makes a difference; without --pool, if anything happens
    #[arg(long, requires = "snapshot", conflicts_with_all = OTHERS)]
    exit_code: bool,
    /// Take this window of the trace: its first second and the second behind its last
    #[arg(long, value_name = "FROM..TO", requires = "openb", default_value = "12300000..12560000")]
    window: String,
    /// Compare the pool of this file; again for another one. Without, both preemption modes with all defaults
    #[arg(long, value_name = "FILE")]
    pool: Vec<PathBuf>,
    /// Compare the policy of this name; again for another one. Without, all of them
    #[arg(long, value_name = "NAME")]
    policy: Vec<String>,
    /// Play with so many seeds, from 1 on
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Let the operator see so late what changes, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=600_000))]
    late: Time,
    /// How to print the comparison
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Output,
    /// Draw what is used, what is lost and who waits as SVG files into this folder
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
    /// Print one page on which an admin can decide: what ScavengerJobs would have got done at several start thresholds, and
    /// what it would have cost ordinary pods
    #[arg(long, conflicts_with_all = ["policy", "scenario", "openb"])]
    what_if: bool,
    /// Say on standard error how much processor time each run took
    #[arg(long)]
    speed: bool,
}

/// Play the operator beside other policies at equal capacity, and say which targets are met
#[derive(Debug, clap::Args)]
struct Targets {
    /// Also play two windows of Alibaba's trace cluster-trace-gpu-v2023, whose two files are in FOLDER
    #[arg(long, value_name = "FOLDER")]
    openb: Option<PathBuf>,
    /// Play the scenario of this name; again for another one. Without, steady, daily, bursty and large-jobs
    #[arg(long, value_name = "NAME")]
    scenario: Vec<String>,
    #[command(flatten)]
    many: Many,
}

/// Play a setting of the pool with several values, and say what each costs
#[derive(Debug, clap::Args)]
struct Sweep {
    /// Change this field of the pool's spec, or both thresholds of headroom together (headroom)
    #[arg(long, value_name = "NAME")]
    setting: String,
    /// Give it this value, written as YAML; again for another one. Without, those that its default was chosen from
    #[arg(long, value_name = "VALUE")]
    value: Vec<String>,
    /// Change it in the pool of this file. Without, in the pool that its default was chosen with
    #[arg(long, value_name = "FILE")]
    pool: Option<PathBuf>,
    /// Play the scenario of this name; again for another one. Without, steady, daily, bursty and large-jobs
    #[arg(long, value_name = "NAME")]
    scenario: Vec<String>,
    #[command(flatten)]
    many: Many,
}

/// What commands of many runs have in common.
#[derive(Debug, clap::Args)]
struct Many {
    /// Play with so many seeds, from 1 on
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Let the operator see so late what changes, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=600_000))]
    late: Time,
    /// Play so many seeds at a time; what is printed is the same. Without, as many as there are processors
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// How to print the table
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Output,
}

impl Many {
    fn threads(&self) -> usize {
        let processors = || std::thread::available_parallelism().map_or(1, NonZero::get);
        self.threads.map_or_else(processors, usize::from)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Json,
}

/// Does what the command line says, and says how the program ends.
///
/// # Errors
/// [`Unusable`] if what was given cannot be used.
pub fn run(options: &Options) -> Result<Exit> {
    match &options.command {
        Command::Scenarios => {
            let lines = SCENARIOS.map(|scenario| format!("{:<12}{}\n", scenario.name, scenario.about));
            output::print(&lines.concat())
        }
        Command::Simulate(options) => match &options.snapshot {
            Some(snapshot) => return play_on(snapshot, options),
            None => simulate(options),
        },
        Command::Targets(options) => targets(options),
        Command::Sweep(options) => sweep(options),
        Command::Coverage(options) => coverage::run(options),
    }
    .map(|()| Exit::Done)
}

/// Plays on from a snapshot.
fn play_on(snapshot: &Path, options: &Simulate) -> Result<Exit> {
    let Simulate { hours, limit, exit_code, .. } = *options;
    let json = options.output == Output::Json;
    snapshot::run(&snapshot::Options { snapshot, pools: &options.pool, hours, limit, json, exit_code })
}

fn simulate(options: &Simulate) -> Result<()> {
    let tell = |took: Took| {
        if options.speed {
            eprintln!("{:>8.2} s  {}", took.time.as_secs_f64(), took.what);
        }
    };
    if options.what_if {
        return what_if(options, tell);
    }
    let pools = pools(&options.pool)?;
    let kinds = kinds(&options.policy)?;
    let (name, workload) = workload(options)?;
    can_be_counted(&name, &workload(1), &pools)?;
    if let Some(folder) = &options.plot {
        // Before the runs, which take long.
        fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
    }
    let outcomes = compare(&contenders(&kinds, &pools), options.seeds, options.late, workload, tell);
    let comparison =
        Comparison { workload: name, seeds: options.seeds, late_milliseconds: options.late, outcomes };
    if let Some(folder) = &options.plot {
        for (file, picture) in plot::pictures(&comparison)? {
            let path = folder.join(file);
            fs::write(&path, picture).map_err(|error| cannot_write(&path, &error))?;
        }
    }
    output::print(&match options.output {
        Output::Table => print::table(&comparison),
        Output::Json => print::json(&comparison),
    })
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Unusable {
    Unusable(format!("{}: cannot be written: {error}", path.display()))
}

fn what_if(options: &Simulate, tell: impl FnMut(Took)) -> Result<()> {
    let missing = || Unusable("--what-if plays the recording of a cluster: name it with --trace".to_owned());
    let path = options.trace.as_deref().ok_or_else(missing)?;
    let pool = match &options.pool[..] {
        [] => Pool::usual(PreemptionMode::Scheduler),
        [file] => Pool::read(file)?,
        _ => {
            return Err(Unusable(
                "--what-if plays one pool at several thresholds: name one --pool".to_owned(),
            )
            .into());
        }
    };
    let Read { workload, recorded, .. } = read_trace(path)?;
    can_be_counted(&path.display().to_string(), &workload, [&pool])?;
    let facts = what_if::Facts { workload: &workload, recorded, pool: &pool };
    let contenders = what_if::contenders(&pool);
    let draw = |seed| what_if::draw(&facts, seed);
    let outcomes = compare(&contenders, options.seeds, options.late, draw, tell);
    let (name, late_milliseconds) = (path.display().to_string(), options.late);
    let comparison = Comparison { workload: name, seeds: options.seeds, late_milliseconds, outcomes };
    output::print(&match options.output {
        Output::Table => what_if::page(&facts, &comparison),
        Output::Json => print::json(&comparison),
    })
}

/// Reads a trace, and says what was left out.
fn read_trace(path: &Path) -> Result<Read, Unusable> {
    let read = trace::read(path)?;
    if let Some(note) = &read.note {
        eprintln!("{}: {note}", path.display());
    }
    Ok(read)
}

fn pools(files: &[PathBuf]) -> Result<Vec<Pool>, Unusable> {
    if files.is_empty() {
        return Ok([PreemptionMode::Scheduler, PreemptionMode::Operator].map(Pool::usual).into());
    }
    files.iter().map(|file| Pool::read(file)).collect()
}

/// A pool that counts by use needs a workload that says what its pods use.
fn can_be_counted<'a>(
    name: &str,
    workload: &Workload,
    pools: impl IntoIterator<Item = &'a Pool>,
) -> Result<(), Unusable> {
    let why = format!(
        "nothing says what the pods of {name} use: play --scenario reserved, or a recording of a cluster that serves metrics.k8s.io"
    );
    for pool in pools.into_iter().filter(|_| workload.uses.is_none()) {
        pool.clone().by_requests(&why)?;
    }
    Ok(())
}

fn kinds(names: &[String]) -> Result<Vec<Kind>, Unusable> {
    if names.is_empty() {
        return Ok(Kind::ALL.into());
    }
    let known = Kind::ALL.map(Kind::name).join(", ");
    let unknown = |name: &str| Unusable(format!("there is no policy {name:?}; there are {known}"));
    names.iter().map(|name| Kind::named(name).ok_or_else(|| unknown(name))).collect()
}

type Draw = Box<dyn Fn(u64) -> Workload + Sync>;

/// The workload for each seed, and what it is called. In a trace without ScavengerJobs they are drawn.
fn workload(options: &Simulate) -> Result<(String, Draw), Unusable> {
    if let Some(name) = &options.scenario {
        let scenario = scenario(name)?;
        return Ok((format!("scenario {name}"), Box::new(move |seed| scenario.draw(seed))));
    }
    if let Some(path) = &options.trace {
        let workload = read_trace(path)?.workload;
        return Ok((format!("trace {}", path.display()), with_scavengers(workload)));
    }
    if let Some(folder) = &options.openb {
        let window = window(&options.window)?;
        let workload = openb::read(folder, window)?;
        let name = format!("openb, seconds {}, {} nodes", options.window, workload.nodes.len());
        return Ok((name, of_openb(workload)));
    }
    Err(Unusable("nothing to play: name --scenario, --trace, --openb or --snapshot".to_owned()))
}

fn scenario(name: &str) -> Result<Scenario, Unusable> {
    let known = SCENARIOS.map(|scenario| scenario.name).join(", ");
    Scenario::named(name).ok_or_else(|| Unusable(format!("there is no scenario {name:?}; there are {known}")))
}

/// The scenarios that targets and sweeps are played in.
const USUAL: [&str; 4] = ["steady", "daily", "bursty", "large-jobs"];

fn scenarios(names: &[String]) -> Result<Vec<Scenario>, Unusable> {
    if names.is_empty() {
        return USUAL.into_iter().map(scenario).collect();
    }
    names.iter().map(|name| scenario(name)).collect()
}

/// Three days of the trace: those with the highest load, and those with the most pods before the trace thins out.
const WINDOWS: [(i64, i64); 2] = [(12_300_000, 12_560_000), (11_130_000, 11_390_000)];

fn targets(options: &Targets) -> Result<()> {
    let mut cases = Vec::new();
    for scenario in scenarios(&options.scenario)? {
        cases.push(Case { name: scenario.name.to_owned(), draw: Box::new(move |seed| scenario.draw(seed)) });
    }
    for (from, to) in options.openb.iter().flat_map(|_| WINDOWS) {
        let folder = options.openb.as_deref().unwrap_or(Path::new(""));
        let name = format!("openb {from}..{to}");
        cases.push(Case { name, draw: of_openb(openb::read(folder, (from, to))?) });
    }
    let Many { seeds, late, output, .. } = options.many;
    let threads = options.many.threads();
    let outcomes: Vec<_> = cases.iter().map(|case| targets::play(case, seeds, late, threads)).collect();
    let rows = outcomes.iter().flat_map(targets::judge).collect();
    let table = print::Targets { seeds, late_milliseconds: late, rows, outcomes };
    output::print(&match output {
        Output::Table => print::targets(&table),
        Output::Json => print::json(&table),
    })
}

fn sweep(options: &Sweep) -> Result<()> {
    let pool = options.pool.as_deref().map(Document::read).transpose()?;
    let values = sweep::values(&options.setting, &options.value, pool.as_ref())?;
    let scenarios = scenarios(&options.scenario)?;
    for scenario in &scenarios {
        can_be_counted(scenario.name, &scenario.draw(1), values.iter().map(|value| &value.pool))?;
    }
    let Many { seeds, late, output, .. } = options.many;
    let how = (seeds, late, options.many.threads());
    let one = |scenario: &Scenario| sweep::sweep((scenario.name, &|seed| scenario.draw(seed)), &values, how);
    let mode = values.first().map_or(PreemptionMode::Scheduler, |one| one.pool.settings.preemption_mode);
    let table = print::Sweep {
        setting: options.setting.clone(),
        mode: mode_name(mode),
        seeds,
        late_milliseconds: late,
        workloads: scenarios.iter().map(one).collect(),
    };
    output::print(&match output {
        Output::Table => print::sweep(&table),
        Output::Json => print::json(&table),
    })
}

fn window(text: &str) -> Result<(i64, i64), Unusable> {
    let wrong =
        || Unusable(format!("--window {text:?} must be two seconds, the later one last: 12300000..12560000"));
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let window: (i64, i64) = (from.parse().map_err(|_| wrong())?, to.parse().map_err(|_| wrong())?);
    let longest = i64::MAX / SECOND / DAY;
    if window.0 < 0 || window.0 >= window.1 || window.1 > longest {
        return Err(wrong());
    }
    Ok(window)
}

/// ScavengerJobs in a trace that has none have work for this part of its cpu.
const DRAWN_PERCENT: i64 = 40;

fn of_openb(workload: Workload) -> Draw {
    let draw = with_scavengers(workload);
    Box::new(move |seed| {
        let mut workload = draw(seed);
        openb::draw_within_seconds(&mut workload, &mut crate::chance::Chance::new(seed, 5));
        workload
    })
}

fn with_scavengers(workload: Workload) -> Draw {
    if !workload.scavengers.is_empty() {
        return Box::new(move |_| workload.clone());
    }
    Box::new(move |seed| {
        let cores = workload.capacity().cpu / 1000 * DRAWN_PERCENT / 100;
        let mix = Mix::filling(cores, workload.length);
        let scavengers = mix.draw(&mut crate::chance::Chance::new(seed, 2));
        Workload { scavengers, ..workload.clone() }
    })
}
