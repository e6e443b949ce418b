//! What neighbours cost: boxes of water on one core, alone and beside copies on all other cores of the machine
//! (`benches/neighbours.rs` measures them).

use scavenger_schema::tuning::{Interval, PredictRequest};
use scavenger_tuner_model::Model;
use serde::Deserialize;

use super::settings::{measured, of_water};

const NEIGHBOURS: &str = include_str!("../../data/neighbours.csv");
/// Cores of the machine.
const NODE_MILLICORES: u32 = 2000;

/// A line of the file.
#[derive(Clone, Debug, Deserialize)]
struct Line {
    atoms: u64,
    box_nm: f64,
    pme_grid: u32,
    /// Copies beside it, each on a core.
    neighbours: u32,
    ns_per_day: f64,
    low: f64,
    high: f64,
}

/// A box of water, alone and beside copies of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// Its atoms.
    pub atoms: u64,
    /// Measured ns per day alone.
    pub alone: f64,
    /// The same beside the copies.
    pub beside: f64,
    /// Highest over lowest speed of the repetitions, of the one of the two that varied more.
    pub spread: f64,
    /// What is predicted, in ns per day, once the run alone was measured.
    pub after_alone: Interval,
    /// The same once the run beside the copies was measured.
    pub after_beside: Interval,
}

impl Pair {
    /// True if the speed beside the copies lies in the interval that the run alone gives.
    #[must_use]
    pub fn is_covered(&self) -> bool {
        self.after_alone.p10 <= self.beside && self.beside <= self.after_alone.p90
    }
}

/// All pairs. Lines that cannot be read are left out.
#[must_use]
pub fn pairs() -> Vec<Pair> {
    let mut reader = csv::Reader::from_reader(NEIGHBOURS.as_bytes());
    let lines: Vec<Line> = reader.deserialize().filter_map(Result::ok).collect();
    let alone = lines.iter().filter(|line| line.neighbours == 0);
    let pair = |alone: &Line| {
        let beside = lines.iter().find(|line| line.neighbours > 0 && line.atoms == alone.atoms)?;
        let request = of_water(alone.atoms, alone.box_nm, alone.pme_grid);
        Some(Pair {
            atoms: alone.atoms,
            alone: alone.ns_per_day,
            beside: beside.ns_per_day,
            spread: (alone.high / alone.low).max(beside.high / beside.low),
            after_alone: after(&request, alone)?,
            after_beside: after(&request, beside)?,
        })
    };
    alone.filter_map(pair).collect()
}

/// What is predicted once a run was measured, and what was beside it is known.
fn after(request: &PredictRequest, line: &Line) -> Option<Interval> {
    let requested = 1000 * (1 + line.neighbours);
    let run = measured(request, line.ns_per_day)?;
    let run = run.on_node(&request.node.labels, 1000, NODE_MILLICORES, Some(requested));
    Some(Model::prior().learn(&[run]).answer(request).ok()?.ns_per_day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_alone_says_how_fast_one_beside_neighbours_is() {
        let all = pairs();
        assert_eq!(all.len(), 3, "{all:#?}");
        for pair in &all {
            assert!(pair.is_covered(), "{pair:?}");
            // What was beside a run is counted: it decides little of what is predicted afterwards.
            let ratio = pair.after_alone.p50 / pair.after_beside.p50;
            assert!((0.8..1.25).contains(&ratio), "{ratio} {pair:?}");
        }
    }
}
