//! Where mdrun says that the time of a run went.

use serde::{Deserialize, Serialize};

/// The table of wall time by activity that ends mdrun's log (`R E A L   C Y C L E   A N D   T I M E   A C C O U N T I N G`),
/// in seconds. Lines that the tuner's model has no part for are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CycleTable {
    /// `Total`.
    pub total: f64,
    /// Pairs that the kernels computed, in all: mdrun's tuning of PME makes the cut-off longer, and the pairs more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pairs: Option<f64>,
    /// `Neighbor search`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub neighbor_search: Option<f64>,
    /// `Force`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force: Option<f64>,
    /// `PME spread`, or both directions in releases that count them together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pme_spread: Option<f64>,
    /// `PME gather`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pme_gather: Option<f64>,
    /// `PME 3D-FFT`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pme_fft: Option<f64>,
    /// `PME 3D-FFT Comm.`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pme_fft_comm: Option<f64>,
    /// `PME solve Elec`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pme_solve: Option<f64>,
    /// `PME redist. X/F`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pme_redistribution: Option<f64>,
    /// `Comm. coord.`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comm_coord: Option<f64>,
    /// `Wait + Comm. F`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comm_force: Option<f64>,
    /// `NB X/F buffer ops.`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer_ops: Option<f64>,
    /// `Constraints`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constraints: Option<f64>,
    /// `Update`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<f64>,
}

impl CycleTable {
    /// Puts in the line that mdrun calls `name`. Others, and what is no time, are left out.
    pub fn set(&mut self, name: &str, seconds: f64) {
        if !(seconds.is_finite() && seconds >= 0.0) {
            return;
        }
        let line = match name {
            "Total" => {
                self.total = seconds;
                return;
            }
            "Neighbor search" => &mut self.neighbor_search,
            "Force" => &mut self.force,
            "PME spread" | "PME spread/gather" => &mut self.pme_spread,
            "PME gather" => &mut self.pme_gather,
            "PME 3D-FFT" => &mut self.pme_fft,
            "PME 3D-FFT Comm." => &mut self.pme_fft_comm,
            "PME solve Elec" => &mut self.pme_solve,
            "PME redist. X/F" => &mut self.pme_redistribution,
            "Comm. coord." => &mut self.comm_coord,
            "Wait + Comm. F" => &mut self.comm_force,
            "NB X/F buffer ops." => &mut self.buffer_ops,
            "Constraints" => &mut self.constraints,
            "Update" => &mut self.update,
            _ => return,
        };
        *line = Some(seconds);
    }

    /// True if it says where the time of a step went.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.total.is_finite() && self.total > 0.0 && self.force.is_some_and(|force| force > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_known_by_mdruns_names() {
        let mut table = CycleTable::default();
        for (name, seconds) in
            [("Force", 0.42), ("PME spread", 0.099), ("Rest", 0.002), ("Update", f64::NAN), ("Total", 0.727)]
        {
            table.set(name, seconds);
        }
        let known =
            CycleTable { total: 0.727, force: Some(0.42), pme_spread: Some(0.099), ..CycleTable::default() };
        assert_eq!(table, known);
        assert!(table.is_usable() && !CycleTable::default().is_usable());
    }
}
