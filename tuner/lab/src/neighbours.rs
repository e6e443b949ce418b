//! What neighbours cost: boxes of water on a part of a machine's cores, alone and beside copies of themselves
//! (`benches/neighbours.rs` measures them).

use scavenger_schema::tuning::{Build, Interval, Layout, PmeDescription, PredictRequest, SystemDescription};
use scavenger_tuner_model::Model;
use scavenger_tuner_model::model::Observation;
use serde::Deserialize;

use super::settings::of_water;

/// The files, and the instance type of the machine that each is of.
const FILES: [(&str, &str); 1] = [("c7a.large", include_str!("../../data/neighbours.csv"))];

/// A row: a run, in the columns of `scavenger-tuner import`.
#[derive(Clone, Debug, Deserialize)]
struct Line {
    atoms: u64,
    box_nm: String,
    pme_grid: String,
    ntmpi: u32,
    ntomp: u32,
    npme: u32,
    ns_per_day: f64,
    gromacs_version: String,
    simd: String,
    node_cpu_millicores: u32,
    node_requested_millicores: u32,
}

impl Line {
    fn layout(&self) -> Layout {
        Layout { npme: self.npme, ..Layout::cpu(self.ntmpi, self.ntomp) }
    }

    fn is_alone(&self) -> bool {
        self.node_requested_millicores <= 1000 * self.layout().threads()
    }

    fn request(&self, instance: &str) -> Option<PredictRequest> {
        let three = |text: &str| text.split('x').map(|part| part.parse().ok()).collect::<Option<Vec<f64>>>();
        let edges: [f64; 3] = three(&self.box_nm)?.try_into().ok()?;
        let grid: [f64; 3] = three(&self.pme_grid)?.try_into().ok()?;
        let mut request = of_water(self.atoms, edges[0], 0);
        request.node.labels.values_mut().for_each(|value| instance.clone_into(value));
        request.node.allocatable.cpu_millicores = self.node_cpu_millicores;
        let pme = Some(PmeDescription { grid: grid.map(|points| points as u32), order: 4 });
        Some(PredictRequest {
            system: SystemDescription { box_nm: Some(edges), pme, ..request.system },
            layout: self.layout(),
            cpu_millicores: Some(1000 * self.layout().threads()),
            gromacs_version: Some(self.gromacs_version.clone()),
            build: Build { simd: Some(self.simd.clone()), ..Build::default() },
            ..request
        })
    }
}

/// A box of water, alone and beside copies of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// Its atoms.
    pub atoms: u64,
    /// Its cores, and those of its node that were requested beside copies.
    pub cores: (u32, u32),
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

/// Lowest, middle and highest speed of repetitions, with one of them; none of none.
fn speeds<'a>(lines: impl Iterator<Item = &'a Line>) -> Option<(&'a Line, [f64; 3])> {
    let mut lines: Vec<&Line> = lines.collect();
    lines.sort_by(|a, b| a.ns_per_day.total_cmp(&b.ns_per_day));
    let middle = *lines.get(lines.len() / 2)?;
    Some((middle, [lines.first()?.ns_per_day, middle.ns_per_day, lines.last()?.ns_per_day]))
}

/// All pairs. Lines that cannot be read are left out.
#[must_use]
pub fn pairs() -> Vec<Pair> {
    FILES.iter().flat_map(|(instance, text)| pairs_of(instance, text)).collect()
}

fn pairs_of(instance: &str, text: &str) -> Vec<Pair> {
    let lines: Vec<Line> =
        csv::Reader::from_reader(text.as_bytes()).deserialize().filter_map(Result::ok).collect();
    let key = |line: &Line| (line.atoms, line.layout().threads(), line.node_requested_millicores);
    let mut keys: Vec<_> = lines.iter().filter(|line| !line.is_alone()).map(key).collect();
    keys.sort_unstable();
    keys.dedup();
    let pair = |(atoms, cores, requested)| {
        let (one, alone) = speeds(
            lines
                .iter()
                .filter(|line| line.is_alone() && (line.atoms, line.layout().threads()) == (atoms, cores)),
        )?;
        let (other, beside) = speeds(lines.iter().filter(|line| key(line) == (atoms, cores, requested)))?;
        let request = one.request(instance)?;
        Some(Pair {
            atoms,
            cores: (cores, requested / 1000),
            alone: alone[1],
            beside: beside[1],
            spread: (alone[2] / alone[0]).max(beside[2] / beside[0]),
            after_alone: after(&request, one)?,
            after_beside: after(&request, other)?,
        })
    };
    keys.into_iter().filter_map(pair).collect()
}

/// What is predicted once a run was measured, and what was beside it is known.
fn after(request: &PredictRequest, line: &Line) -> Option<Interval> {
    let requested = Some(line.node_requested_millicores);
    let run = Observation::new(request, requested, line.ns_per_day).ok()?;
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
