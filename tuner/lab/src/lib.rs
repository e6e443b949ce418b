//! How good the model is on measurements that it has not seen.

pub mod components;
pub mod data;
pub mod efficiency;
pub mod fit;
pub mod fitted;
pub mod floor;
pub mod memory;
pub mod neighbours;
pub mod plain;
pub mod plot;
pub mod report;
pub mod settings;

use std::collections::BTreeMap;

use scavenger_tuner_model::Model;
use scavenger_tuner_model::interval::Z90;
use scavenger_tuner_model::model::Observation;

use components::Log;
use data::Row;
use fitted::{Fitted, fit_constants};
use plain::Plain;

/// Rows that count together: one system on one machine.
fn groups<'a>(rows: &[&'a Row]) -> BTreeMap<(String, String), Vec<&'a Row>> {
    let mut groups: BTreeMap<_, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        groups.entry((row.machine.clone(), row.system.clone())).or_default().push(*row);
    }
    groups
}

/// Predicted seconds per step.
fn seconds(model: &Model, row: &Row) -> f64 {
    model.step_time(&row.job, row.cpu, &row.place).total
}

/// How one regime came out. Without groups, its figures mean nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Regime {
    /// What was known.
    pub name: &'static str,
    /// The goal of this row: median and 90th percentile of the error, half-width of the interval.
    pub goal: (f64, f64, f64),
    /// Systems on machines, each counting the same.
    pub groups: usize,
    /// Errors of the model.
    pub model: Errors,
    /// Errors of [`Plain`].
    pub plain: Errors,
    /// Share of measurements inside p10 to p90.
    pub coverage: f64,
    /// Median of p90 / p50.
    pub half_width: f64,
}

/// exp(|ln(predicted / measured)|) - 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Errors {
    /// Median.
    pub median: f64,
    /// 90th percentile.
    pub p90: f64,
}

/// One prediction beside its measurement, in logarithms.
struct Outcome<'a> {
    row: &'a Row,
    group: (String, String),
    model: f64,
    /// Standard deviation that is served.
    sigma: f64,
    plain: f64,
}

/// The constants fitted without one machine and without one system on whatever machine.
struct Fold<'a> {
    machine: &'a str,
    system: &'a str,
    model: Model,
    plain: Plain,
}

/// The folds that judge each of `rows`.
fn folds<'a>(rows: &[&'a Row], logs: &[Log]) -> Vec<Fold<'a>> {
    let mut left_out: Vec<(&str, &str)> =
        rows.iter().map(|row| (row.machine.as_str(), row.system.as_str())).collect();
    left_out.sort_unstable();
    left_out.dedup();
    let fold = |(machine, system)| {
        let is_left = |row: &&Row| row.machine != machine && row.system != system;
        let rest: Vec<&Row> = rows.iter().copied().filter(is_left).collect();
        let logs: Vec<&Log> =
            logs.iter().filter(|log| log.machine != machine && log.system != system).collect();
        Fold { machine, system, model: fit_constants(&rest, &logs).model(), plain: Plain::fit(&rest) }
    };
    left_out.into_iter().map(fold).collect()
}

fn key(row: &Row) -> (String, String) {
    (row.machine.clone(), row.system.clone())
}

impl Fold<'_> {
    /// True for the rows that are judged with it.
    fn judges(&self, row: &Row) -> bool {
        row.machine == self.machine && row.system == self.system
    }

    /// Predicts `targets` knowing `known` of the machine.
    fn outcomes<'a>(&self, known: &[&Row], targets: &[&'a Row]) -> Vec<Outcome<'a>> {
        let observations: Vec<Observation> = known.iter().map(|row| observation(row)).collect();
        let model = if known.is_empty() { self.model.clone() } else { self.model.learn(&observations) };
        let plain = if known.is_empty() { self.plain } else { Plain::fit(known) };
        targets
            .iter()
            .map(|row| {
                let expected = model.expect(&row.job, row.cpu, &row.place);
                let error = |predicted: f64| (predicted / row.seconds()).ln();
                Outcome {
                    row,
                    group: key(row),
                    model: error(expected.step.total),
                    sigma: expected.sigma,
                    plain: error(plain.seconds(row)),
                }
            })
            .collect()
    }
}

fn observation(row: &Row) -> Observation {
    Observation {
        job: row.job.clone(),
        cpu: row.cpu,
        place: row.place,
        slowdown: 1.0,
        ns_per_day: Some(row.ns_per_day),
        memory_residual: None,
    }
}

/// True if another machine among `rows` has the GPU of `row`.
fn has_product_elsewhere(row: &Row, rows: &[&Row]) -> bool {
    let product = |row: &Row| row.place.gpu.map(|gpu| gpu.class.key);
    rows.iter().any(|other| other.machine != row.machine && product(other) == product(row))
}

/// Never measured: whole machines and whole systems are left out.
fn unmeasured<'a>(folds: &[Fold<'_>], rows: &[&'a Row]) -> Vec<Outcome<'a>> {
    folds
        .iter()
        .flat_map(|fold| {
            let out: Vec<&Row> = rows.iter().copied().filter(|row| fold.judges(row)).collect();
            fold.outcomes(&[], &out)
        })
        .collect()
}

/// One run of another system on that machine: each other system's middle run in turn.
fn other_system<'a>(folds: &[Fold<'_>], rows: &[&'a Row]) -> Vec<Outcome<'a>> {
    let mut outcomes = Vec::new();
    for fold in folds {
        let of_machine: Vec<&Row> = rows.iter().copied().filter(|row| row.machine == fold.machine).collect();
        let groups = groups(&of_machine);
        let (targets, sources): (Vec<_>, Vec<_>) =
            groups.values().partition(|members| members.iter().all(|row| fold.judges(row)));
        for targets in &targets {
            for sources in &sources {
                outcomes.extend(fold.outcomes(&[middle(sources)], targets));
            }
        }
    }
    outcomes
}

/// One run of this system, other core counts within a factor of 4: five runs spread over the measured ones in
/// turn.
fn same_system<'a>(folds: &[Fold<'_>], rows: &[&'a Row]) -> Vec<Outcome<'a>> {
    let mut outcomes = Vec::new();
    for fold in folds {
        let judged: Vec<&Row> = rows.iter().copied().filter(|row| fold.judges(row)).collect();
        for members in groups(&judged).values() {
            let step = (members.len() / 5).max(1);
            for known in members.iter().step_by(step) {
                let others: Vec<&Row> = members
                    .iter()
                    .copied()
                    .filter(|row| {
                        let ratio = row.place.cores / known.place.cores;
                        (ratio - 1.0).abs() > 0.01 && (0.249..=4.01).contains(&ratio)
                    })
                    .collect();
                outcomes.extend(fold.outcomes(&[known], &others));
            }
        }
    }
    outcomes
}

/// The run in the middle of the measured speeds.
fn middle<'a>(rows: &[&'a Row]) -> &'a Row {
    let mut sorted = rows.to_vec();
    sorted.sort_by(|a, b| a.ns_per_day.total_cmp(&b.ns_per_day));
    sorted[sorted.len() / 2]
}

/// Outcomes by group.
fn counts<'a>(outcomes: &[&'a Outcome<'_>]) -> BTreeMap<&'a (String, String), f64> {
    let mut counts = BTreeMap::new();
    for outcome in outcomes {
        *counts.entry(&outcome.group).or_default() += 1.0;
    }
    counts
}

fn regime(name: &'static str, goal: (f64, f64, f64), outcomes: &[&Outcome<'_>]) -> Regime {
    let counts = counts(outcomes);
    let weighted = |value: &dyn Fn(&Outcome<'_>) -> f64| -> Vec<(f64, f64)> {
        outcomes.iter().map(|outcome| (value(outcome), 1.0 / counts[&outcome.group])).collect()
    };
    let errors = |values: &[(f64, f64)]| {
        let size = |share| fit::weighted_quantile(values, share).exp() - 1.0;
        Errors { median: size(0.5), p90: size(0.9) }
    };
    let covered = weighted(&|outcome| f64::from(u8::from(outcome.model.abs() <= Z90 * outcome.sigma)));
    let total: f64 = covered.iter().map(|(_, weight)| weight).sum();
    Regime {
        name,
        goal,
        groups: counts.len(),
        model: errors(&weighted(&|outcome| outcome.model.abs())),
        plain: errors(&weighted(&|outcome| outcome.plain.abs())),
        coverage: covered.iter().map(|(value, weight)| value * weight).sum::<f64>() / total.max(1e-9),
        half_width: fit::weighted_quantile(&weighted(&|outcome| Z90 * outcome.sigma), 0.5).exp(),
    }
}

/// How much is lost by choosing the split that the model finds best instead of the best measured one, at a fixed machine, system
/// and number of cores: relative losses, one per choice.
fn split_losses(folds: &[Fold<'_>], rows: &[&Row]) -> Vec<f64> {
    let mut losses = Vec::new();
    for fold in folds {
        let mut choices: BTreeMap<Choice, Vec<&Row>> = BTreeMap::new();
        for row in rows.iter().filter(|row| fold.judges(row)) {
            choices.entry(choice(row)).or_default().push(row);
        }
        for rows in choices.values() {
            let splits = repeated(rows);
            if splits.len() < 2 {
                continue;
            }
            let best = splits.iter().map(|(_, speed)| *speed).fold(0.0, f64::max);
            let taken =
                splits.iter().min_by(|a, b| seconds(&fold.model, a.0).total_cmp(&seconds(&fold.model, b.0)));
            let chosen = taken.map_or(best, |(_, speed)| *speed);
            losses.push(best / chosen - 1.0);
        }
    }
    losses
}

/// The different splits of `rows`, each with the mean speed of its repetitions.
fn repeated<'a>(rows: &[&'a Row]) -> Vec<(&'a Row, f64)> {
    let mut splits: Vec<(&Row, Vec<f64>)> = Vec::new();
    for row in rows {
        match splits.iter_mut().find(|(known, _)| known.place == row.place) {
            Some((_, speeds)) => speeds.push(row.ns_per_day),
            None => splits.push((row, vec![row.ns_per_day])),
        }
    }
    splits.into_iter().map(|(row, speeds)| (row, speeds.iter().sum::<f64>() / speeds.len() as f64)).collect()
}

/// What is lost by choosing the model's best split of ranks and threads, relative to the best measured one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SplitLoss {
    /// Number of choices.
    pub choices: usize,
    /// Mean loss.
    pub mean: f64,
    /// Worst loss.
    pub worst: f64,
}

impl SplitLoss {
    fn of(losses: &[f64]) -> Self {
        Self {
            choices: losses.len(),
            mean: losses.iter().sum::<f64>() / losses.len().max(1) as f64,
            worst: losses.iter().copied().fold(0.0, f64::max),
        }
    }
}

/// A prediction for the plot: a machine that was left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Computer.
    pub machine: String,
    /// Measured speed in ns per day.
    pub measured: f64,
    /// Predicted speed in ns per day.
    pub predicted: f64,
    /// True if on a GPU.
    pub on_gpu: bool,
}

/// Everything the `accuracy` command prints.
#[derive(Clone, Debug, PartialEq)]
pub struct Accuracy {
    /// Rows on CPUs, and how many of them are on a part of a node.
    pub on_cpus: (usize, usize),
    /// What is known, for CPUs and for one GPU.
    pub regimes: Vec<Regime>,
    /// Losses by choosing a split.
    pub splits: SplitLoss,
    /// Which size pays, measured and predicted.
    pub picks: Vec<efficiency::Pick>,
    /// Parts of a step beside those of the tables in md.log.
    pub components: Vec<components::Compared>,
    /// Requests of memory beside measured peaks.
    pub memory: Vec<memory::Peak>,
    /// Predictions for machines that were left out.
    pub points: Vec<Point>,
    /// The constants that all rows together give.
    pub fitted: Fitted,
}

/// The regimes for CPUs: name and goal.
const CPU_REGIMES: [(&str, (f64, f64, f64)); 3] = [
    ("CPU, machine never measured, class known", (0.12, 0.40, 1.35)),
    ("CPU, one run of another system on that machine", (0.09, 0.30, 1.30)),
    ("CPU, one run of this system, other cores within 4x", (0.045, 0.15, 1.15)),
];
/// The regimes for GPUs: name and goal.
const GPU_REGIMES: [(&str, (f64, f64, f64)); 2] = [
    ("one GPU, class never measured", (0.20, 0.60, 1.8)),
    ("one GPU, class measured on another system", (0.12, 0.30, 1.3)),
];
/// The regime of a product that another machine has runs of: name and goal.
const KNOWN_PRODUCT: (&str, (f64, f64, f64)) = ("one GPU, known product, other site", (0.10, 0.25, 1.3));

/// The goal of the choice: mean and worst loss.
const SPLIT_GOAL: (f64, f64) = (0.02, 0.10);

/// Validates and fits.
#[must_use]
pub fn run() -> Accuracy {
    let rows = data::load();
    let cpu: Vec<&Row> = rows.iter().filter(|row| !row.on_gpu()).collect();
    // What several GPUs do is not modelled, so it is not validated either.
    let gpu: Vec<&Row> = rows.iter().filter(|row| row.place.gpu.is_some_and(|gpu| gpu.count < 1.5)).collect();
    let logs = components::load(&rows);
    let cpu_folds = folds(&cpu, &logs);
    let gpu_folds = folds(&gpu, &[]);
    let on_cpus =
        [unmeasured(&cpu_folds, &cpu), other_system(&cpu_folds, &cpu), same_system(&cpu_folds, &cpu)];
    let on_gpus = [unmeasured(&gpu_folds, &gpu), other_system(&gpu_folds, &gpu)];

    let of_cpus = CPU_REGIMES.iter().zip(&on_cpus);
    let regime_of = |((name, goal), outcomes): (&(&'static str, _), &Vec<Outcome<'_>>)| {
        regime(name, *goal, &outcomes.iter().collect::<Vec<_>>())
    };
    let mut regimes: Vec<Regime> = of_cpus.map(regime_of).collect();
    // A product that was measured at another site is not new, however new the machine is.
    let (on_known, on_new): (Vec<_>, Vec<_>) =
        on_gpus[0].iter().partition(|outcome| has_product_elsewhere(outcome.row, &gpu));
    let of_gpus = [on_new, on_gpus[1].iter().collect()];
    let rows_of_gpus = GPU_REGIMES.iter().zip(&of_gpus);
    regimes.extend(rows_of_gpus.map(|((name, goal), outcomes)| regime(name, *goal, outcomes)));
    regimes.push(regime(KNOWN_PRODUCT.0, KNOWN_PRODUCT.1, &on_known));
    let points = on_cpus[0]
        .iter()
        .chain(&on_gpus[0])
        .map(|outcome| Point {
            machine: outcome.row.machine.clone(),
            measured: outcome.row.ns_per_day,
            predicted: outcome.row.ns_per_day * (-outcome.model).exp(),
            on_gpu: outcome.row.on_gpu(),
        })
        .collect();
    let splits = SplitLoss::of(&split_losses(&cpu_folds, &cpu));
    let all: Vec<&Row> = cpu.iter().chain(&gpu).copied().collect();
    let fitted = fit_constants(&all, &logs.iter().collect::<Vec<_>>());
    let components = components::compare(&cpu_folds, &logs);
    let picks = efficiency::picks(&cpu_folds, &cpu);
    Accuracy {
        on_cpus: (cpu.len(), cpu.iter().filter(|row| row.is_part_of_node()).count()),
        regimes,
        splits,
        picks,
        components,
        memory: memory::load(),
        points,
        fitted,
    }
}

/// What a split of ranks and threads is chosen for: machine, build, system, and the cores of a part of a node.
type Choice = (String, String, String, u64);

fn choice(row: &Row) -> Choice {
    let cores = if row.is_part_of_node() { row.place.cores as u64 } else { 0 };
    (row.machine.clone(), row.version.clone(), row.system.clone(), cores)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_is_known_if_another_machine_has_it() {
        let rows = data::load();
        let gpu: Vec<&Row> = rows.iter().filter(|row| row.on_gpu()).collect();
        for row in &gpu {
            let is_on_one = ["bede", "lumi"].contains(&row.machine.as_str());
            assert_eq!(has_product_elsewhere(row, &gpu), !is_on_one, "{row:?}");
        }
    }

    /// Speed per core of one rank on each of so many cores, relative to that of a single core, as it was measured, and by how
    /// much the shipped constants may miss it.
    const EFFICIENCIES: [(&str, &str, f64, f64, f64); 7] = [
        ("bridges2", "AA-LLC-shirts", 32.0, 0.71, 0.06),
        ("bridges2", "AA-LLC-shirts", 64.0, 0.62, 0.10),
        ("bridges2", "AA-LLC-shirts", 128.0, 0.39, 0.12),
        ("tiger", "rnase_cubic", 4.0, 0.85, 0.10),
        ("tiger", "rnase_cubic", 8.0, 0.53, 0.18),
        ("tiger", "rnase_cubic", 16.0, 0.46, 0.13),
        ("tiger", "rnase_cubic", 32.0, 0.38, 0.10),
    ];

    #[test]
    fn efficiency_inside_a_node_falls_as_it_was_measured() {
        let rows = data::load();
        let model = Model::prior();
        for (machine, system, cores, expected, miss) in EFFICIENCIES {
            // The best of repetitions, which is what a node without other work does.
            let on = |cores: f64| -> &Row {
                let is_it = |row: &&Row| {
                    (row.machine.as_str(), row.system.as_str()) == (machine, system)
                        && row.place.cores == cores
                        && row.place.ranks == cores
                        && row.pair_cycles() == row.cpu.pair_cycles
                };
                let fastest = |a: &&Row, b: &&Row| a.ns_per_day.total_cmp(&b.ns_per_day);
                rows.iter().filter(is_it).max_by(fastest).expect("the files have the run")
            };
            let measured = on(cores).ns_per_day / on(1.0).ns_per_day / cores;
            assert!((measured - expected).abs() < 0.01, "{machine} {cores}: {measured}");
            let predicted = seconds(&model, on(1.0)) / seconds(&model, on(cores)) / cores;
            assert!((predicted - measured).abs() < miss, "{machine} {cores}: {predicted} for {measured}");
        }
    }
}
