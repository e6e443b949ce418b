//! Where mdrun says that the time of a run went.

/// The table of wall time by activity that ends mdrun's log (`R E A L   C Y C L E   A N D   T I M E   A C C O U N T I N G`),
/// in seconds. Lines that the tuner's model has no part for are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CycleTable {
    /// `Total`.
    pub total: f64,
    /// `Neighbor search`.
    pub neighbor_search: Option<f64>,
    /// `Force`.
    pub force: Option<f64>,
    /// `PME spread`, or both directions in releases that count them together.
    pub pme_spread: Option<f64>,
    /// `PME gather`.
    pub pme_gather: Option<f64>,
    /// `PME 3D-FFT`.
    pub pme_fft: Option<f64>,
    /// `PME 3D-FFT Comm.`.
    pub pme_fft_comm: Option<f64>,
    /// `PME solve Elec`.
    pub pme_solve: Option<f64>,
    /// `PME redist. X/F`.
    pub pme_redistribution: Option<f64>,
    /// `Comm. coord.`.
    pub comm_coord: Option<f64>,
    /// `Wait + Comm. F`.
    pub comm_force: Option<f64>,
    /// `NB X/F buffer ops.`.
    pub buffer_ops: Option<f64>,
    /// `Constraints`.
    pub constraints: Option<f64>,
    /// `Update`.
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
}
