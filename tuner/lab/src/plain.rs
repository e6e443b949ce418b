//! A plain model to be beaten, fitted in the same folds: cycles over speed x cores. It knows what the class table says of the
//! processor: the clock, the cycles per pair with its vector instructions, and what a second thread per core gains. Its count
//! of the work is its own, so that a change of the model does not move it.

use scavenger_tuner_model::system::System;

use super::data::Row;
use super::fit;

/// Cycles per pair on a GPU.
const GPU_PAIR: f64 = 4.2;
/// Power of the threads per core that their speed grows with: 1.18 for two.
const SECOND_THREAD: f64 = 0.24;

/// Measured over counted time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plain(f64);

impl Plain {
    /// Fits to rows, each machine x system counting the same. The runs that are known of a machine give its speed alone.
    #[must_use]
    pub fn fit(rows: &[&Row]) -> Self {
        let of_group = |members: &Vec<&Row>| {
            let weight = 1.0 / members.len() as f64;
            members.iter().map(|row| (row.seconds() / counted(row), weight)).collect::<Vec<_>>()
        };
        let ratios: Vec<(f64, f64)> = super::groups(rows).values().flat_map(of_group).collect();
        Self(fit::weighted_quantile(&ratios, 0.5))
    }

    /// Predicted seconds per step.
    #[must_use]
    pub fn seconds(self, row: &Row) -> f64 {
        self.0 * counted(row)
    }
}

/// Seconds per step by the count alone.
fn counted(row: &Row) -> f64 {
    let (system, place): (&System, _) = (&row.job.system, &row.place);
    // Of a GPU, cycles per pair are those of its peak.
    let pair_cycles = if place.gpu.is_some() { GPU_PAIR } else { row.pair_cycles() };
    let speed = match place.gpu {
        Some(gpu) => gpu.class.tflops * 1e12 * gpu.count / 64.0,
        None => row.cpu.clock_ghz * 1e9 * place.cores * place.smt.powf(SECOND_THREAD),
    };
    (pair_cycles * pairs(system) + mesh(system)) / speed
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
