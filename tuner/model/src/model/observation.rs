//! A measured run.

use scavenger_schema::bounds::{self, Bounds};
use scavenger_schema::tuning::{Layout, NodeShape, PredictRequest};

use super::Job;
use super::answer::cpu_of;
use super::place::{busy, placement, throttling};
use crate::error::{FieldError, within};
use crate::hardware::{CpuClass, hardware_of};
use crate::performance::Placement;
use crate::{layout, memory};

/// What a run would have used that was killed for its memory, relative to its limit: in the middle, in proportion,
/// between the limit and twice the limit, with which the run is tried next.
const BEYOND_LIMIT: f64 = std::f64::consts::SQRT_2;

/// A measured run.
#[derive(Clone, Debug)]
pub struct Observation {
    /// What ran.
    pub job: Job,
    /// CPU it ran on.
    pub cpu: &'static CpuClass,
    /// How it ran.
    pub place: Placement,
    /// Time relative to the same cores without a limit below one; see `throttling`.
    pub slowdown: f64,
    /// Measured speed; none if only its memory was measured.
    pub ns_per_day: Option<f64>,
    /// ln(measured peak memory / predicted), if it was measured.
    pub memory_residual: Option<f64>,
}

impl Observation {
    /// A run of a pod on this cluster, which was `run`: its node without CPU if nobody knows how large that was. When it began,
    /// all pods together requested so much of its node, if that is known.
    pub fn new(
        run: &PredictRequest,
        requested_millicores: Option<u32>,
        ns_per_day: f64,
    ) -> Result<Self, FieldError> {
        let PredictRequest { system, layout, node: NodeShape { labels, allocatable, .. }, .. } = run;
        let hardware = hardware_of(labels, allocatable.gpus).on_node(allocatable.cpu_millicores);
        let job = Job::new(system, run.gromacs_version.as_deref(), &run.build)?;
        layout::check(&job.system, layout, hardware.gpu).map_err(FieldError::refused)?;
        let some = Bounds { min: 1, ..bounds::CPU_MILLICORES };
        let cpu_millicores = within("cpuMillicores", cpu_of(run), some)?;
        let requested = requested_millicores.filter(|_| hardware.node_cpus.is_some());
        Ok(Self {
            place: Placement {
                busy: busy(&hardware, cpu_millicores, requested),
                ..placement(&hardware, layout, cpu_millicores)
            },
            slowdown: throttling(cpu_millicores),
            cpu: hardware.cpu,
            // mdrun cut the box as it is; all that is counted is what a prediction counts.
            job: job.filled().unwrap_or(job),
            ns_per_day: Some(ns_per_day),
            memory_residual: None,
        })
    }

    /// The same run, which was killed for using more than `bytes` with this layout. How fast it would have been, and how
    /// much memory it would have used, nobody saw.
    #[must_use]
    pub fn killed_for_memory(self, layout: &Layout, bytes: u64) -> Self {
        // Saturates: a limit is far below 2^64.
        let guess = (bytes as f64 * BEYOND_LIMIT) as u64;
        Self { ns_per_day: None, ..self.with_peak_memory(layout, guess) }
    }

    /// The same run, whose memory was at most `bytes` with this layout.
    #[must_use]
    pub fn with_peak_memory(self, layout: &Layout, bytes: u64) -> Self {
        let predicted = memory::peak_bytes(&self.job.system, layout);
        let memory_residual = (bytes > 0).then(|| (bytes as f64 / predicted as f64).ln());
        Self { memory_residual, ..self }
    }
}
