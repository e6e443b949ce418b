//! The parts of a step against the accounting tables of md.log.
//!
//! The tables count seconds of wall time by component. mdrun's tuning of PME moves work between two of them, so each
//! is compared for the pairs that the log counted. `../../data/README.md` names the source.

use scavenger_tuner_model::Model;
use scavenger_tuner_model::performance::CpuParts;

use super::data::{Row, Table, number};
use super::{Fold, fit};

const CYCLES: &str = include_str!("../../data/cycles.csv");

/// Releases before it have no dual pair list: their pairs and cycles per pair are others.
const DUAL_PAIR_LIST: u32 = 2018;
/// Standard deviation of the components of one machine and system in a fit.
const GROUP_SIGMA: f64 = 0.2;
/// A component of a step: its name for people, and the columns of the file that count it. Releases that count both directions
/// of the interpolation together have one column for it.
#[derive(Debug, PartialEq, Eq)]
pub struct Component(pub &'static str, &'static [&'static str]);

/// All components.
pub(super) static COMPONENTS: [Component; COUNT] = [
    Component("force", &["force"]),
    Component("PME spread and gather", &["pme_spread", "pme_spread_gather", "pme_gather"]),
    Component("PME FFT and solve", &["pme_fft", "pme_solve"]),
    Component("constraints, update, search, buffers", &["constraints", "update", "search", "buffer_ops"]),
    Component("communication of positions and forces", &["comm_coord", "comm_force"]),
    Component("PME FFT communication", &["pme_fft_comm"]),
    Component("PME redistribution", &["pme_redist"]),
];
const COUNT: usize = 7;

/// Seconds of each component of a step, if its pair work is `tuned` times that of the input: mdrun's tuning of PME moves work
/// between pairs and grid.
fn predicted(step: &CpuParts, tuned: f64) -> [f64; COUNT] {
    [
        step.pair * tuned,
        step.spread,
        step.mesh / tuned,
        step.other,
        step.halo + step.waiting + if step.apart { 0.0 } else { step.mesh_waiting },
        step.transpose / tuned,
        step.redistribution,
    ]
}

/// The table of one log.
#[derive(Clone, Debug)]
pub struct Log {
    /// Computer, as in [`Row::machine`].
    pub machine: String,
    /// System.
    pub system: String,
    /// The run, with its table.
    pub row: Row,
    /// Pairs that were computed over those of the input.
    tuned: f64,
    /// Measured seconds per step, by place in [`COMPONENTS`].
    seconds: Vec<(usize, f64)>,
    /// Rows of the same machine and system.
    group: f64,
}

/// All logs of one node and of releases with a dual pair list.
#[must_use]
pub fn load(rows: &[Row]) -> Vec<Log> {
    let mut logs: Vec<Log> = Table::new(CYCLES).rows().filter_map(|cell| log(&cell, rows)).collect();
    let count = |log: &Log| {
        logs.iter().filter(|other| other.machine == log.machine && other.system == log.system).count() as f64
    };
    let groups: Vec<f64> = logs.iter().map(count).collect();
    for (log, group) in logs.iter_mut().zip(groups) {
        log.group = group;
    }
    logs
}

fn log<'a>(cell: &impl Fn(&str) -> &'a str, rows: &[Row]) -> Option<Log> {
    let year: u32 = cell("version").split('.').next()?.parse().ok()?;
    if year < DUAL_PAIR_LIST || cell("nodes") != "1" {
        return None;
    }
    let machine = match cell("cluster") {
        "ARCHER" | "ARCHER_baseline_noconfout" => "archer",
        "ARCHER2" => "archer2",
        "CSD3-Skylake" | "CSD3Skylake" => "csd3",
        "Cirrus" => "cirrus",
        _ => return None,
    };
    let system = cell("system");
    let on_this = |row: &&Row| row.machine == machine && row.system == system && !row.npme_guessed;
    let mut row = rows.iter().find(on_this)?.clone();
    row.place.ranks = number(cell("ranks"))?;
    row.place.threads = number(cell("threads"))?;
    row.place.npme = number(cell("npme"))?;
    row.place.cores = number(cell("cores"))?;
    row.place.smt = row.place.ranks * row.place.threads / row.place.cores;
    row.ns_per_day = number(cell("ns_per_day"))?;
    let steps = number(cell("total"))? / row.seconds();
    let pairs = (number(cell("pairs_lj_M"))? + number(cell("pairs_q_M"))?) * 1e6;
    let tuned = pairs / row.job.work.pairs;
    let measured =
        |Component(_, columns): &Component| columns.iter().filter_map(|column| number(cell(column))).sum();
    let seconds: Vec<(usize, f64)> = COMPONENTS.iter().map(measured).enumerate().collect();
    let seconds = seconds
        .into_iter()
        .filter(|(_, seconds)| *seconds > 0.0)
        .map(|(place, all)| (place, all / steps))
        .collect();
    Some(Log { machine: machine.to_owned(), system: system.to_owned(), row, tuned, seconds, group: 1.0 })
}

/// ln(predicted / measured) of each component of each log, with its weight in a fit.
pub(super) fn errors(model: &Model, logs: &[&Log]) -> Vec<(f64, f64)> {
    let of_log = |log: &&Log| {
        let step = predicted(&model.cpu_parts(&log.row.job, log.row.cpu, &log.row.place), log.tuned);
        let weight = 1.0 / (GROUP_SIGMA * log.group.sqrt());
        let error = |(place, seconds): &(usize, f64)| (step[*place] / seconds).ln();
        log.seconds.iter().map(|measured| (error(measured), weight)).collect::<Vec<_>>()
    };
    logs.iter().flat_map(of_log).collect()
}

/// How one component came out.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// Which.
    pub component: &'static Component,
    /// Logs that have it.
    pub logs: usize,
    /// Predicted over measured: the tenth, fiftieth and ninetieth percentile, each machine x system counting the same.
    pub ratio: [f64; 3],
}

/// Compares with the folds that know neither the machine nor the system.
pub(super) fn compare(folds: &[Fold<'_>], logs: &[Log]) -> Vec<Compared> {
    // Predicted over measured, and the weight of the log.
    let ratio = |component: usize, log: &Log| {
        let fold = folds.iter().find(|fold| fold.judges(&log.row))?;
        let (_, seconds) = log.seconds.iter().find(|(found, _)| *found == component)?;
        let step = fold.model.cpu_parts(&log.row.job, log.row.cpu, &log.row.place);
        Some((predicted(&step, log.tuned)[component] / seconds, 1.0 / log.group))
    };
    let compared = |(place, component)| {
        let values: Vec<(f64, f64)> = logs.iter().filter_map(|log| ratio(place, log)).collect();
        let ratio = [0.1, 0.5, 0.9].map(|share| fit::weighted_quantile(&values, share));
        Compared { component, logs: values.len(), ratio }
    };
    COMPONENTS.iter().enumerate().map(compared).collect()
}
