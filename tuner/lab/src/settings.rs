//! Settings that no row of the other files has, beside what was measured on one core.

use std::collections::BTreeMap;

use scavenger_schema::tuning::{
    Build, Interval, Layout, NodeShape, PmeDescription, PredictRequest, Resources, Settings,
    SystemDescription,
};
use scavenger_tuner_model::Model;
use scavenger_tuner_model::model::Observation;
use scavenger_tuner_model::system::usual_water;
use serde::Deserialize;

const SETTINGS: &str = include_str!("../../data/settings.csv");
/// The machine of the file: one thread of a Zen 4 server, with a build for SSE4.1.
const INSTANCE: (&str, &str) = ("node.kubernetes.io/instance-type", "c7a.large");
const BUILD: &str = "SSE4.1";
/// Time step of its runs, in ps.
const DT_PS: f64 = 0.002;

/// A line of the file.
#[derive(Clone, Debug, Deserialize)]
struct Line {
    name: String,
    atoms: u64,
    box_nm: f64,
    pme_grid: u32,
    precision: String,
    settings: String,
    us_per_step: f64,
}

/// One setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// What it is.
    pub name: String,
    /// Measured microseconds per step.
    pub measured: f64,
    /// Predicted ones: the tenth, half and nine tenths.
    pub predicted: Interval,
}

impl Compared {
    /// True if it was measured within the interval.
    #[must_use]
    pub fn is_covered(&self) -> bool {
        self.predicted.p10 <= self.measured && self.measured <= self.predicted.p90
    }

    /// Predicted over measured time.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.predicted.p50 / self.measured
    }
}

/// Every setting beside its prediction, after the run without any was measured: how fast the build is on that machine is
/// another question. Lines that cannot be read are left out.
#[must_use]
pub fn compared() -> Vec<Compared> {
    let mut reader = csv::Reader::from_reader(SETTINGS.as_bytes());
    let lines: Vec<Line> = reader.deserialize().filter_map(Result::ok).collect();
    let plain = lines.first().and_then(observed);
    let model = Model::prior().learn(plain.as_slice());
    lines.iter().filter_map(|line| compare(&model, line)).collect()
}

/// The first setting, which is plain, before anything was measured: what is known of a build for narrower vector
/// instructions than the processor has.
#[must_use]
pub fn unmeasured() -> Option<Compared> {
    let mut reader = csv::Reader::from_reader(SETTINGS.as_bytes());
    let plain: Line = reader.deserialize().find_map(Result::ok)?;
    compare(&Model::prior(), &plain)
}

/// A line as a measured run.
fn observed(line: &Line) -> Option<Observation> {
    Observation::new(&request(line)?, None, ns_per_day(line.us_per_step)).ok()
}

/// Speed for microseconds per step, and the other way round.
fn ns_per_day(us: f64) -> f64 {
    DT_PS / 1000.0 * 86_400.0 / us * 1e6
}

fn compare(model: &Model, line: &Line) -> Option<Compared> {
    let speed = model.answer(&request(line)?).ok()?.ns_per_day;
    let predicted =
        Interval { p10: ns_per_day(speed.p90), p50: ns_per_day(speed.p50), p90: ns_per_day(speed.p10) };
    Some(Compared { name: line.name.clone(), measured: line.us_per_step, predicted })
}

fn request(line: &Line) -> Option<PredictRequest> {
    let settings: Settings = serde_json::from_str(&line.settings).ok()?;
    let build =
        Build { simd: Some(BUILD.to_owned()), precision: Some(line.precision.clone()), ..Build::default() };
    let request = of_water(line.atoms, line.box_nm, line.pme_grid);
    Some(PredictRequest { system: SystemDescription { settings, ..request.system }, build, ..request })
}

/// A cube of water on one core of the machine, with so many points of the PME grid along an edge.
pub(super) fn of_water(atoms: u64, box_nm: f64, pme_grid: u32) -> PredictRequest {
    let pme = (pme_grid > 0).then_some(PmeDescription { grid: [pme_grid; 3], order: 4 });
    let system = SystemDescription { pme, ..usual_water(atoms, [box_nm; 3]) };
    let (name, value) = INSTANCE;
    let node = NodeShape {
        count: 1,
        allocatable: Resources { cpu_millicores: 2000, memory_bytes: 8 << 30, gpus: 0 },
        largest_free: None,
        labels: BTreeMap::from([(name.to_owned(), value.to_owned())]),
    };
    PredictRequest {
        system,
        layout: Layout::cpu(1, 1),
        node,
        cpu_millicores: Some(1000),
        gromacs_version: Some("2022.5".to_owned()),
        build: Build { simd: Some(BUILD.to_owned()), ..Build::default() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_for_narrow_instructions_is_known_before_it_is_measured() {
        let plain = unmeasured().expect("the file begins with the plain run");
        assert!(plain.is_covered(), "{plain:?}");
    }

    #[test]
    fn the_interval_of_80_percent_covers_what_was_measured() {
        let all = compared();
        assert_eq!(all.len(), 12, "{all:#?}");
        let outside: Vec<&Compared> = all.iter().filter(|one| !one.is_covered()).collect();
        assert!(outside.len() <= 2, "{outside:#?}");
    }

    #[test]
    fn a_setting_costs_what_it_was_measured_to_cost() {
        let all = compared();
        let plain = all[0].ratio();
        for one in &all {
            // Against plain water on the same core: free energy was off by 2.6, one molecule by up to 14.
            let relative = one.ratio() / plain;
            let most = if one.name.contains("perturbed") { 1.5 } else { 1.9 };
            assert!((1.0 / most..most).contains(&relative), "{relative} {one:?}");
        }
    }

    #[test]
    fn settings_widen_the_interval() {
        let all = compared();
        let width = |one: &Compared| one.predicted.p90 / one.predicted.p10;
        for one in all.iter().filter(|one| one.name != "plain") {
            assert!(width(one) > width(&all[0]), "{one:?}");
        }
    }
}
