//! Which of the two best layouts a restart takes.
//!
//! The same resources would always get the same layout, so a wrong ranking would never be found out. A restart is a free
//! experiment: it takes the second-best layout with the probability that it is the best. What is measured that way comes
//! back in the next request, so a layout that lost is soon left alone, and one that won is kept.

use scavenger_schema::bounds::{self, Bounds};
use scavenger_schema::tuning::{Alternative, Explore, Layout, MeasuredRun};

use crate::error::{FieldError, within};
use crate::interval::combine;
use crate::model::check_layout;

/// Uncertainty of ln(speed) of one layout relative to another with the same cores: the residuals of layouts of the same
/// system and cores in tuner/data differ by as much.
const SIGMA_LAYOUT: f64 = 0.06;
/// The same of a measured run: repeats on shared cores differ by as much.
const SIGMA_MEASURED: f64 = 0.03;

/// What a request tells of earlier attempts, checked.
#[derive(Clone, Debug)]
pub(crate) struct Restart<'a> {
    seed: u64,
    measured: &'a [MeasuredRun],
}

impl<'a> Restart<'a> {
    pub(crate) fn new(explore: &'a Explore) -> Result<Self, FieldError> {
        within("seed", explore.seed, bounds::SEED)?;
        length_of_list(explore.measured.len())?;
        for (index, run) in explore.measured.iter().enumerate() {
            let check = || {
                within("cpuMillicores", run.cpu_millicores, bounds::MAX_CPU_MILLICORES)?;
                check_layout(&run.layout)?;
                within("nsPerDay", run.ns_per_day, bounds::NS_PER_DAY)
            };
            check().map_err(|error| error.within(&format!("measured[{index}]")))?;
        }
        Ok(Self { seed: explore.seed, measured: &explore.measured })
    }

    /// Runs on the same resources.
    fn on(&self, cpu_millicores: u32, gpus: u32) -> impl Iterator<Item = &'a MeasuredRun> {
        let same = move |run: &&MeasuredRun| (run.cpu_millicores, run.layout.gpus) == (cpu_millicores, gpus);
        self.measured.iter().filter(same)
    }

    /// True if something was measured on these resources.
    pub(crate) fn knows(&self, cpu_millicores: u32, gpus: u32) -> bool {
        self.on(cpu_millicores, gpus).next().is_some()
    }

    /// The layout to take out of all there are with their predicted speeds, and the other of the two best. None if there
    /// is only one, or nothing was measured on these resources.
    pub(crate) fn choose(
        &self,
        cpu_millicores: u32,
        layouts: &[(Layout, f64)],
    ) -> Option<(Layout, Alternative)> {
        let gpus = layouts.first()?.0.gpus;
        let runs: Vec<&MeasuredRun> = self.on(cpu_millicores, gpus).collect();
        // What all layouts were slower or faster than predicted says nothing of which is the best.
        let ratios: Vec<f64> = runs
            .iter()
            .filter_map(|run| {
                let (_, predicted) = layouts.iter().find(|(layout, _)| *layout == run.layout)?;
                Some((run.ns_per_day / predicted).ln())
            })
            .collect();
        let shift = mean(&ratios)?;
        let mut believed: Vec<(Layout, f64, f64)> = layouts
            .iter()
            .map(|(layout, predicted)| {
                let own: Vec<f64> =
                    runs.iter().filter(|run| run.layout == *layout).map(|run| run.ns_per_day.ln()).collect();
                match mean(&own) {
                    Some(measured) => (*layout, measured, SIGMA_MEASURED / (own.len() as f64).sqrt()),
                    None => (*layout, predicted.ln() + shift, SIGMA_LAYOUT),
                }
            })
            .collect();
        believed.sort_by(|a, b| b.1.total_cmp(&a.1));
        let [best, second, ..] = believed.as_slice() else { return None };
        let probability = normal((second.1 - best.1) / combine(&[best.2, second.2]));
        let explored = self.draw(cpu_millicores, gpus) < probability;
        let (taken, other) = if explored { (second, best) } else { (best, second) };
        let of_other = if explored { 1.0 - probability } else { probability };
        let alternative =
            Alternative { layout: other.0, ns_per_day: other.1.exp(), probability: of_other, explored };
        Some((taken.0, alternative))
    }

    /// A number from 0 to 1 that depends on the seed and the resources alone (SplitMix64).
    fn draw(&self, cpu_millicores: u32, gpus: u32) -> f64 {
        let resources = u64::from(cpu_millicores) << 32 | u64::from(gpus);
        let mut state = self.seed ^ resources.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut bits = 0;
        for _ in 0..2 {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            bits = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            bits ^= bits >> 31;
        }
        (bits >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn length_of_list(length: usize) -> Result<(), FieldError> {
    if bounds::MEASURED_RUNS.contain(&length) {
        return Ok(());
    }
    let Bounds { min, max } = bounds::MEASURED_RUNS;
    Err(FieldError::new("measured", format!("must hold {min} to {max} runs, holds {length}")))
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Distribution function of the standard normal, within 0.0002 (logistic with a cubic term).
fn normal(z: f64) -> f64 {
    1.0 / (1.0 + (-1.5976 * z - 0.070_566 * z.powi(3)).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::build;
    use crate::ladder::fixtures::{node, request, water};
    use crate::model::Model;
    use scavenger_schema::tuning::{LadderRequest, Rung};

    const CPU: u32 = 16_000;

    fn asked(seed: u64, measured: &[(Layout, f64)]) -> Option<Rung> {
        let measured = measured
            .iter()
            .map(|(layout, ns_per_day)| MeasuredRun {
                cpu_millicores: CPU,
                layout: *layout,
                ns_per_day: *ns_per_day,
            })
            .collect();
        let plain = request(water(100_000), vec![node(CPU, 64)]);
        let explore = Some(Explore { seed, measured }).filter(|explore| !explore.measured.is_empty());
        let request = LadderRequest { explore, ..plain };
        let rungs = build(&Model::prior(), &request).expect("there should be a ladder").rungs;
        rungs.into_iter().find(|rung| rung.resources.cpu_millicores == CPU)
    }

    fn rung(seed: u64, measured: &[(Layout, f64)]) -> Rung {
        asked(seed, measured).expect("there is a configuration of the whole node")
    }

    /// The best layout without any knowledge, with its speed.
    fn best() -> (Layout, f64) {
        let rung = rung(0, &[]);
        assert_eq!(rung.alternative, None);
        (rung.layout, rung.ns_per_day.p50)
    }

    #[test]
    fn the_share_of_seeds_that_explore_is_the_probability() {
        let (layout, speed) = best();
        let mut explored = 0;
        let mut probability = 0.0;
        for seed in 0..2000 {
            let rung = rung(seed, &[(layout, speed)]);
            let alternative = rung.alternative.expect("the whole node has several layouts");
            assert_eq!(alternative.explored, rung.layout != layout);
            probability =
                if alternative.explored { 1.0 - alternative.probability } else { alternative.probability };
            explored += u32::from(alternative.explored);
        }
        assert!(probability > 0.02 && probability <= 0.5, "{probability}");
        assert!((f64::from(explored) / 2000.0 - probability).abs() < 0.04, "{explored} {probability}");
    }

    #[test]
    fn the_same_seed_draws_the_same_layout() {
        let measured = [best()];
        for seed in [0, 1, 77, bounds::SEED.max] {
            assert_eq!(rung(seed, &measured), rung(seed, &measured));
        }
    }

    #[test]
    fn a_layout_that_lost_is_left_alone_and_one_that_won_is_kept() {
        let (layout, speed) = best();
        let other = rung(0, &[(layout, speed)]).alternative.expect("there are several layouts");
        let other = if other.explored { rung(0, &[(layout, speed)]).layout } else { other.layout };
        let taken = |ratio: f64, wanted: Layout| {
            let runs = [(layout, speed), (other, speed * ratio)];
            (0..200).filter(|seed| rung(*seed, &runs).layout == wanted).count()
        };
        // A third layout may still be worth a try.
        assert!(taken(1.2, other) > 150, "{}", taken(1.2, other));
        assert_eq!(taken(0.8, other), 0);
    }

    #[test]
    fn how_fast_the_machine_is_does_not_matter() {
        let (layout, speed) = best();
        let chance =
            |ratio: f64| rung(3, &[(layout, speed * ratio)]).alternative.map(|other| other.probability);
        let (slow, fast) = (chance(0.3).expect("there is another"), chance(3.0).expect("there is another"));
        assert!((slow - fast).abs() < 1e-9, "{slow} {fast}");
    }

    #[test]
    fn other_resources_and_unknown_layouts_change_nothing() {
        let plain = request(water(100_000), vec![node(CPU, 64)]);
        let without = build(&Model::prior(), &plain).expect("there should be a ladder");
        for run in [
            MeasuredRun { cpu_millicores: 7000, layout: Layout::cpu(7, 1), ns_per_day: 1.0 },
            MeasuredRun { cpu_millicores: CPU, layout: Layout::cpu(3, 5), ns_per_day: 1.0 },
        ] {
            let explore = Some(Explore { seed: 1, measured: vec![run] });
            let with = build(&Model::prior(), &LadderRequest { explore, ..plain.clone() });
            assert_eq!(with.expect("there should be a ladder"), without);
        }
    }

    #[test]
    fn the_normal_distribution_is_right() {
        for (z, share) in [(0.0, 0.5), (1.0, 0.8413), (-1.2816, 0.1), (2.0, 0.9772)] {
            assert!((normal(z) - share).abs() < 3e-4, "{z}");
        }
        assert_eq!(normal(f64::NEG_INFINITY), 0.0);
    }
}
