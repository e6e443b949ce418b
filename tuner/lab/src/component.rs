//! The components of a step that mdrun's own accounting shows, beside the parts of the model.
//!
//! mdrun ends its log with a table of wall time by activity. A component is a sum of its lines that the model has parts
//! for, so that a measured run is several observations: of the whole step, and of each component.

use scavenger_tuner_model::performance::CpuParts;

use super::cycles::CycleTable;

/// A component of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// `Force`.
    Force,
    /// `PME spread` and `PME gather`.
    Spread,
    /// `PME 3D-FFT` and `PME solve Elec`.
    Fft,
    /// `Constraints`, `Update`, `Neighbor search`, `NB X/F buffer ops.`.
    Other,
    /// `Comm. coord.` and `Wait + Comm. F`.
    Halo,
    /// `PME 3D-FFT Comm.`.
    Transpose,
    /// `PME redist. X/F`.
    Redistribution,
}

impl Component {
    /// How many there are.
    pub const COUNT: usize = 7;

    /// All of them.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Force,
        Self::Spread,
        Self::Fft,
        Self::Other,
        Self::Halo,
        Self::Transpose,
        Self::Redistribution,
    ];

    /// Name in tables for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Force => "force",
            Self::Spread => "PME spread and gather",
            Self::Fft => "PME FFT and solve",
            Self::Other => "constraints, update, search, buffers",
            Self::Halo => "communication of positions and forces",
            Self::Transpose => "PME FFT communication",
            Self::Redistribution => "PME redistribution",
        }
    }

    /// True for what ranks exchange.
    #[must_use]
    pub fn is_communication(self) -> bool {
        matches!(self, Self::Halo | Self::Transpose | Self::Redistribution)
    }

    /// Seconds of it in a table; none if the table has none of its lines.
    #[must_use]
    pub fn measured(self, table: &CycleTable) -> Option<f64> {
        let lines = match self {
            Self::Force => [table.force, None, None, None],
            Self::Spread => [table.pme_spread, table.pme_gather, None, None],
            Self::Fft => [table.pme_fft, table.pme_solve, None, None],
            Self::Other => [table.constraints, table.update, table.neighbor_search, table.buffer_ops],
            Self::Halo => [table.comm_coord, table.comm_force, None, None],
            Self::Transpose => [table.pme_fft_comm, None, None, None],
            Self::Redistribution => [table.pme_redistribution, None, None, None],
        };
        let seconds: f64 = lines.into_iter().flatten().sum();
        (seconds > 0.0 && seconds.is_finite()).then_some(seconds)
    }

    /// Seconds of it in a step, if its pair work is `tuned` times that of the input: mdrun's tuning of PME moves work between
    /// pairs and grid.
    #[must_use]
    pub fn of(self, step: &CpuParts, tuned: f64) -> f64 {
        match self {
            Self::Force => step.pair * tuned,
            Self::Spread => step.spread,
            Self::Fft => step.mesh / tuned,
            Self::Other => step.other,
            Self::Halo => step.halo + step.imbalance + step.network,
            Self::Transpose => (step.transpose + step.mesh_network) / tuned,
            Self::Redistribution => step.redistribution + step.messages,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_the_sum_of_its_lines() {
        let table = CycleTable {
            total: 10.0,
            force: Some(6.0),
            pme_spread: Some(0.5),
            pme_gather: Some(0.25),
            ..CycleTable::default()
        };
        assert_eq!(Component::Force.measured(&table), Some(6.0));
        assert_eq!(Component::Spread.measured(&table), Some(0.75));
        assert_eq!(Component::Halo.measured(&table), None);
    }
}
