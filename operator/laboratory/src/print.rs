//! The comparison for people and for programs.

use std::fmt::Write as _;

use scavenger_schema::terminal::shown;
use serde::Serialize;

use crate::{
    compare::Outcome,
    measure::{Figures, Interval},
    sweep::Swept,
    targets::{self, Met},
};

/// A column: its head, how many digits its figures have, and the figure.
type Column = (&'static str, usize, fn(&Figures) -> f64);

const COLUMNS: [Column; 13] = [
    ("goodput", 3, |figures| figures.goodput),
    ("kept core h", 0, |figures| figures.kept_core_hours),
    ("lost core h", 0, |figures| figures.lost_core_hours),
    ("redone", 0, |figures| figures.redone_core_hours),
    ("interruptions", 0, |figures| figures.interruptions),
    ("killed", 0, |figures| figures.killed_for_memory),
    ("done", 0, |figures| figures.finished),
    ("wait min", 1, |figures| figures.wait_minutes),
    ("slowdown", 2, |figures| figures.slowdown),
    ("cpu used", 3, |figures| figures.utilisation),
    ("later pods %", 2, |figures| figures.ordinary_later_percent),
    ("by s", 1, |figures| figures.ordinary_later_seconds),
    ("preempted", 0, |figures| figures.ordinary_preemptions),
];

/// What is compared.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// The scenario or the trace.
    pub workload: String,
    /// How many seeds.
    pub seeds: u64,
    /// How late the operator sees what changes, in milliseconds.
    pub late_milliseconds: i64,
    /// What each policy did.
    pub outcomes: Vec<Outcome>,
}

/// The table: the median of each figure, and the interval from the 5th to the 95th percentile below it.
#[must_use]
pub fn table(comparison: &Comparison) -> String {
    let head = std::iter::once("policy").chain(COLUMNS.map(|(head, ..)| head)).map(str::to_owned);
    let mut rows: Vec<Vec<String>> = vec![head.collect()];
    for outcome in &comparison.outcomes {
        let intervals = COLUMNS.map(|(_, digits, figure)| (digits, outcome.over(figure)));
        let median = |(digits, interval): (usize, Interval)| number(interval.median, digits);
        rows.push(std::iter::once(outcome.name.clone()).chain(intervals.map(median)).collect());
        let range = |(digits, Interval { low, high, .. }): (usize, Interval)| {
            format!("{}..{}", number(low, digits), number(high, digits))
        };
        if comparison.seeds > 1 {
            rows.push(std::iter::once(String::new()).chain(intervals.map(range)).collect());
        }
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..=COLUMNS.len()).map(width).collect();
    let seeds = if comparison.seeds == 1 { "1 seed" } else { "seeds" };
    let mut text = match comparison.seeds {
        1 => format!("{}, {seeds}\n", comparison.workload),
        number => format!("{}, {number} {seeds}: median, 5% to 95%\n", comparison.workload),
    };
    for row in rows {
        let _ = write!(text, "{:<width$}", row[0], width = widths[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            let _ = write!(text, "  {cell:>width$}");
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

fn number(value: f64, digits: usize) -> String {
    if value.is_nan() { "-".to_owned() } else { format!("{value:.digits$}") }
}

/// Rows under their head, as a table that Markdown reads, too.
pub(crate) fn grid(rows: &[Vec<String>]) -> String {
    // Names may hold anything.
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| shown(cell)).collect()).collect();
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (place, row) in rows.iter().enumerate() {
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(text, "| {cell:<width$} ");
        }
        text.push_str("|\n");
        if place == 0 {
            for width in &widths {
                let _ = write!(text, "|{}", "-".repeat(width + 2));
            }
            text.push_str("|\n");
        }
    }
    text
}

fn range(interval: Interval, digits: usize) -> String {
    format!("{} to {}", number(interval.low, digits), number(interval.high, digits))
}

/// The targets, and what the seeds gave.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Targets {
    /// How many seeds.
    pub seeds: u64,
    /// How late the operator sees what changes, in milliseconds.
    pub late_milliseconds: i64,
    /// Every target in every case.
    pub rows: Vec<targets::Row>,
    /// What each case gave.
    pub outcomes: Vec<targets::Outcome>,
}

/// The table of the targets.
#[must_use]
pub fn targets(targets: &Targets) -> String {
    let head = ["workload", "figure", "median", "5% to 95%", "target", "result", "setting"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for row in &targets.rows {
        rows.push(vec![
            row.workload.clone(),
            row.figure.clone(),
            number(row.interval.median, row.digits),
            range(row.interval, row.digits),
            row.target.to_owned(),
            row.met.words().to_owned(),
            row.setting.map_or(String::new(), |setting| number(setting, 2)),
        ]);
    }
    let count = |met: Met| targets.rows.iter().filter(|row| row.met == met).count();
    let each = [Met::Yes, Met::ByMedian, Met::No, Met::NotComparable];
    let counts = each.map(|met| format!("{} {}", count(met), met.words())).join(", ");
    format!("{}\nSeeds: {}. Of {} targets: {counts}.\n", grid(&rows), targets.seeds, targets.rows.len())
}

/// A setting of the pool over several values.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sweep {
    /// Its name.
    pub setting: String,
    /// The mode in which it was played.
    pub mode: &'static str,
    /// How many seeds.
    pub seeds: u64,
    /// How late the operator sees what changes, in milliseconds.
    pub late_milliseconds: i64,
    /// What each workload gave.
    pub workloads: Vec<Swept>,
}

/// The columns of a sweep.
const SWEPT: [Column; 8] = [
    ("goodput", 3, |figures| figures.goodput),
    ("kept core h", 0, |figures| figures.kept_core_hours),
    ("lost core h", 0, |figures| figures.lost_core_hours),
    ("done again", 0, |figures| figures.redone_core_hours),
    ("interruptions", 0, |figures| figures.interruptions),
    ("wait min", 1, |figures| figures.wait_minutes),
    ("later pods %", 2, |figures| figures.ordinary_later_percent),
    ("cpu used", 3, |figures| figures.utilisation),
];

/// The table of a sweep: the median of each figure over the seeds, and the range of what is lost.
#[must_use]
pub fn sweep(sweep: &Sweep) -> String {
    let head = ["workload", sweep.setting.as_str()].into_iter().chain(SWEPT.map(|(head, ..)| head));
    let mut rows: Vec<Vec<String>> = vec![head.chain(["lost, 5% to 95%"]).map(str::to_owned).collect()];
    for swept in &sweep.workloads {
        for outcome in &swept.outcomes {
            let mut row = vec![swept.workload.clone(), outcome.name.clone()];
            row.extend(SWEPT.map(|(_, digits, figure)| number(outcome.over(figure).median, digits)));
            row.push(range(outcome.over(|figures| figures.lost_core_hours), 0));
            rows.push(row);
        }
    }
    let seeds =
        if sweep.seeds == 1 { "1 seed".to_owned() } else { format!("median of {} seeds", sweep.seeds) };
    format!("{} in mode {}, {seeds}\n\n{}", sweep.setting, sweep.mode, grid(&rows))
}

/// One document with all figures of all seeds.
///
/// # Panics
/// If it cannot be JSON, which figures always can.
#[must_use]
pub fn json(document: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(document).expect("figures should be JSON");
    text.push('\n');
    text
}
