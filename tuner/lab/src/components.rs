//! The parts of a step against the accounting tables of md.log.
//!
//! The tables count seconds of wall time by component. mdrun's tuning of PME moves work between two of them, so each
//! is compared for the pairs that the log counted. `../../data/README.md` names the source.

use scavenger_tuner_model::Model;

use super::component::Component;
use super::cycles::CycleTable;
use super::data::{Row, Table, number};
use super::{Fold, fit};

const CYCLES: &str = include_str!("../../data/cycles.csv");

/// Releases before it have no dual pair list: their pairs and cycles per pair are others.
const DUAL_PAIR_LIST: u32 = 2018;
/// Standard deviation of the components of one machine and system in a fit.
const GROUP_SIGMA: f64 = 0.2;
/// Most nodes for which communication is compared: beyond, waiting for others is most of it.
const FEW_NODES: f64 = 8.0;

/// Columns of the file, and what mdrun calls their lines. Releases that count both directions of the interpolation together
/// have one column for it.
const LINES: [(&str, &str); 14] = [
    ("force", "Force"),
    ("pme_spread", "PME spread"),
    ("pme_spread_gather", "PME spread/gather"),
    ("pme_gather", "PME gather"),
    ("pme_fft", "PME 3D-FFT"),
    ("pme_solve", "PME solve Elec"),
    ("constraints", "Constraints"),
    ("update", "Update"),
    ("search", "Neighbor search"),
    ("buffer_ops", "NB X/F buffer ops."),
    ("comm_coord", "Comm. coord."),
    ("comm_force", "Wait + Comm. F"),
    ("pme_fft_comm", "PME 3D-FFT Comm."),
    ("pme_redist", "PME redist. X/F"),
];

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
    /// Measured seconds per step.
    seconds: Vec<(Component, f64)>,
    /// Rows of the same machine and system.
    group: f64,
}

/// All logs of releases with a dual pair list.
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
    if year < DUAL_PAIR_LIST {
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
    row.place.nodes = number(cell("nodes"))?;
    row.place.ranks = number(cell("ranks"))?;
    row.place.threads = number(cell("threads"))?;
    row.place.npme = number(cell("npme"))?;
    row.place.cores = number(cell("cores"))?;
    row.place.smt = row.place.ranks * row.place.threads / row.place.cores;
    row.ns_per_day = number(cell("ns_per_day"))?;
    let total = number(cell("total"))?;
    let steps = total / row.seconds();
    let pairs = (number(cell("pairs_lj_M"))? + number(cell("pairs_q_M"))?) * 1e6;
    let tuned = pairs / row.job.work.pairs;
    let mut table = CycleTable { total, ..CycleTable::default() };
    for (column, line) in LINES {
        if let Some(seconds) = number(cell(column)) {
            table.set(line, seconds);
        }
    }
    let seconds = Component::ALL
        .into_iter()
        .filter(|component| !component.is_communication() || row.place.nodes <= FEW_NODES)
        .filter_map(|component| Some((component, component.measured(&table)? / steps)))
        .collect();
    Some(Log { machine: machine.to_owned(), system: system.to_owned(), row, tuned, seconds, group: 1.0 })
}

/// ln(predicted / measured) of each component of each log, with its weight in a fit.
pub(super) fn errors(model: &Model, logs: &[&Log]) -> Vec<(f64, f64)> {
    let of_log = |log: &&Log| {
        let step = model.cpu_parts(&log.row.job, log.row.cpu, &log.row.place);
        let weight = 1.0 / (GROUP_SIGMA * log.group.sqrt());
        let error = |(component, seconds): &(Component, f64)| (component.of(&step, log.tuned) / seconds).ln();
        log.seconds.iter().map(|measured| (error(measured), weight)).collect::<Vec<_>>()
    };
    logs.iter().flat_map(of_log).collect()
}

/// How one component came out.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// Which.
    pub component: Component,
    /// Logs that have it.
    pub logs: usize,
    /// Predicted over measured: the tenth, fiftieth and ninetieth percentile, each machine x system counting the same.
    pub ratio: [f64; 3],
    /// The median on each machine.
    pub by_machine: Vec<(String, f64)>,
}

/// Compares with the folds that know neither the machine nor the system.
pub(super) fn compare(folds: &[Fold<'_>], logs: &[Log]) -> Vec<Compared> {
    let ratios = |component: Component| -> Vec<(&Log, f64)> {
        logs.iter()
            .filter_map(|log| {
                let fold = folds.iter().find(|fold| fold.judges(&log.row))?;
                let (_, seconds) = log.seconds.iter().find(|(found, _)| *found == component)?;
                let step = fold.model.cpu_parts(&log.row.job, log.row.cpu, &log.row.place);
                Some((log, component.of(&step, log.tuned) / seconds))
            })
            .collect()
    };
    Component::ALL
        .into_iter()
        .map(|component| {
            let ratios = ratios(component);
            let values: Vec<(f64, f64)> =
                ratios.iter().map(|(log, ratio)| (*ratio, 1.0 / log.group)).collect();
            let mut machines: Vec<&str> = ratios.iter().map(|(log, _)| log.machine.as_str()).collect();
            machines.sort_unstable();
            machines.dedup();
            let median = |machine: &&str| {
                let of: Vec<(f64, f64)> = ratios
                    .iter()
                    .filter(|(log, _)| log.machine == *machine)
                    .map(|(log, ratio)| (*ratio, 1.0 / log.group))
                    .collect();
                ((*machine).to_owned(), fit::weighted_quantile(&of, 0.5))
            };
            Compared {
                component,
                logs: values.len(),
                ratio: [0.1, 0.5, 0.9].map(|share| fit::weighted_quantile(&values, share)),
                by_machine: machines.iter().map(median).collect(),
            }
        })
        .collect()
}
