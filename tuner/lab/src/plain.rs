//! Two plain models to be beaten, fitted in the same folds and refitted with the same run. They know what the class
//! table says of the processor: the clock, the cycles per pair with its vector instructions, and what a second thread
//! per core gains. Their count of the work is their own, so that a change of the model does not move them.

use scavenger_tuner_model::system::System;

use super::data::Row;
use super::fit;

/// Cycles per pair on a GPU.
const GPU_PAIR: f64 = 4.2;
/// Power of the threads per core that their speed grows with: 1.18 for two.
const SECOND_THREAD: f64 = 0.24;

/// Effort of a fit that begins where the fit without the run ended.
const REFIT_ROUNDS: usize = 15;

/// Cycles over speed x cores, optionally with terms for threads, halo and ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct Plain {
    /// ln of: cycles per counted cycle; loss per thread; seconds per relative halo; seconds per rank's root.
    logs: [f64; 4],
    terms: bool,
    /// Measured over predicted, of the runs known on the machine.
    scale: f64,
}

impl Plain {
    /// Fits to rows, each machine x system counting the same.
    #[must_use]
    pub fn fit(rows: &[&Row], terms: bool) -> Self {
        let start =
            Self { logs: [1.0_f64.ln(), 0.01_f64.ln(), 1e-5_f64.ln(), 1e-5_f64.ln()], terms, scale: 1.0 };
        start.fitted(rows, 80)
    }

    fn fitted(&self, rows: &[&Row], rounds: usize) -> Self {
        let groups = super::groups(rows);
        let with = |logs: &[f64]| {
            let mut model = self.clone();
            model.logs[..logs.len()].copy_from_slice(logs);
            model
        };
        let free = if self.terms { 4 } else { 1 };
        let found = fit::minimise(&self.logs[..free], rounds, |logs| {
            let model = with(logs);
            let errors = |rows: &Vec<&Row>| {
                rows.iter().map(|row| (model.seconds(row) / row.seconds()).ln().abs()).sum::<f64>()
                    / rows.len() as f64
            };
            groups.values().map(errors).sum()
        });
        with(&found)
    }

    /// The same model fitted again to what it was fitted to, `rest`, and the runs that are known of the machine; these
    /// then give the speed of the machine.
    #[must_use]
    pub fn refitted(&self, rest: &[&Row], known: &[&Row]) -> Self {
        if known.is_empty() {
            return self.clone();
        }
        let rows: Vec<&Row> = rest.iter().chain(known).copied().collect();
        let again = self.fitted(&rows, REFIT_ROUNDS);
        let values: Vec<(f64, f64)> =
            known.iter().map(|row| ((row.seconds() / again.seconds(row)).ln(), 1.0)).collect();
        Self { scale: fit::weighted_quantile(&values, 0.5).exp(), ..again }
    }

    /// Predicted seconds per step.
    #[must_use]
    pub fn seconds(&self, row: &Row) -> f64 {
        let [cycle, thread, halo, rank] = self.logs.map(f64::exp);
        let system: &System = &row.job.system;
        let place = &row.place;
        // Of a GPU, cycles per pair are those of its peak.
        let pair_cycles = if place.gpu.is_some() { GPU_PAIR } else { row.pair_cycles() };
        let cycles = pair_cycles * pairs(system) + mesh(system);
        let speed = match place.gpu {
            Some(gpu) => gpu.class.tflops * 1e12 * gpu.count / 64.0,
            None => row.cpu.clock_ghz * 1e9 * place.cores * place.smt.powf(SECOND_THREAD),
        };
        let time = cycle * cycles / speed;
        if !self.terms {
            return time * self.scale;
        }
        let cores_per_rank = (place.cores / place.ranks).max(1.0);
        let edge = (row.job.system.atoms / place.ranks / row.job.system.density).cbrt();
        let relative_halo = if place.ranks > 1.0 { (1.0 + 1.0 / edge).powi(3) - 1.0 } else { 0.0 };
        let terms =
            time * (1.0 + thread * (cores_per_rank - 1.0)) + halo * relative_halo + rank * place.ranks.sqrt();
        terms * self.scale
    }
}

/// Half a sphere of the cut-off and 0.25 nm for each atom.
fn pairs(system: &System) -> f64 {
    let sphere = 4.0 / 3.0 * std::f64::consts::PI * (system.cutoff_nm + 0.25).powi(3) * system.density;
    0.5 * system.atoms * sphere.min(system.atoms)
}

/// GROMACS's own estimate for PME: spread and gather, FFT and solve.
fn mesh(system: &System) -> f64 {
    system.pme.map_or(0.0, |pme| {
        let points = pme.points();
        let charges = system.atoms * (5.0 * f64::from(pme.order).powi(3) + 100.0);
        charges + 3.0 * points * points.log2() + 9.0 * points
    })
}
