//! The memory that is requested against peaks measured with thread-MPI. `tuner/data/README.md` says how they were
//! measured.

use scavenger_schema::tuning::{Layout, MIB, PmeDescription, SystemDescription};
use scavenger_tuner_model::memory::{peak_bytes, request_bytes};
use scavenger_tuner_model::system::{System, usual_water};

use super::data::{Table, number};

const PEAKS: &str = include_str!("../../data/memory.csv");

/// One run whose peak was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    /// Atoms of the box of water.
    pub atoms: u64,
    /// Predicted peak over the measured one.
    pub predicted: f64,
    /// Request over the measured peak.
    pub requested: f64,
    /// True if the request is the least that is ever made.
    pub least: bool,
}

/// All runs.
#[must_use]
pub fn load() -> Vec<Peak> {
    Table::new(PEAKS).rows().filter_map(|cell| peak(&cell)).collect()
}

fn peak<'a>(cell: &impl Fn(&str) -> &'a str) -> Option<Peak> {
    let edge = number(cell("box_nm"))?;
    let atoms = number(cell("atoms"))? as u64;
    let pme = Some(PmeDescription { grid: [number(cell("pme_grid"))? as u32; 3], order: 4 });
    let system = SystemDescription { dt_ps: 0.001, pme, ..usual_water(atoms, [edge; 3]) };
    let system = System::check(&system).ok()?;
    let count = |name: &str| Some(number(cell(name))? as u32);
    let layout =
        Layout { npme: cell("npme").parse().ok()?, ..Layout::cpu(count("ranks")?, count("threads")?) };
    let measured = number(cell("peak_kib"))? * 1024.0;
    let predicted = peak_bytes(&system, &layout);
    let requested = request_bytes(predicted);
    Some(Peak {
        atoms,
        predicted: predicted as f64 / measured,
        requested: requested as f64 / measured,
        least: requested <= 64 * MIB,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_request_is_below_the_peak_and_none_wastes_much() {
        let peaks = load();
        assert!(peaks.len() >= 40, "{}", peaks.len());
        for peak in &peaks {
            assert!(peak.requested > 1.0, "{peak:?}");
            assert!(peak.least || peak.requested < 1.5, "{peak:?}");
            assert!((0.9..1.2).contains(&peak.predicted), "{peak:?}");
        }
    }
}
