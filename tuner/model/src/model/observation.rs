//! A measured run.

use std::collections::BTreeMap;

use scavenger_schema::bounds::{self, Bounds};
use scavenger_schema::tuning::{Build, Layout, Resources, SystemDescription};

use super::job::{Job, local_site};
use super::place::{busy, placement, share, throttling};
use crate::error::{FieldError, within};
use crate::hardware::{CpuClass, hardware_of};
use crate::learn::{Site, hash};
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
    /// Time relative to the same cores without a limit below one; see [`super::Model::physics`].
    pub slowdown: f64,
    /// Where and with which build: [`local_site`] for runs on this cluster.
    pub site: Site,
    /// Measured speed; none if only its memory was measured.
    pub ns_per_day: Option<f64>,
    /// Whose run it was, as a number.
    pub owner: u64,
    /// ln(measured peak memory / predicted), if it was measured.
    pub memory_residual: Option<f64>,
}

impl Observation {
    /// A run of a pod on this cluster, from what its requests and the labels of its node said.
    pub fn local(
        system: &SystemDescription,
        gromacs_version: Option<&str>,
        layout: &Layout,
        resources: &Resources,
        labels: &BTreeMap<String, String>,
        ns_per_day: f64,
        owner: &str,
    ) -> Result<Self, FieldError> {
        let hardware = hardware_of(labels, resources.gpus);
        let job = Job::new(system, gromacs_version)?;
        layout::check(&job.system, layout, hardware.gpu).map_err(FieldError::refused)?;
        let some = Bounds { min: 1, ..bounds::CPU_MILLICORES };
        within("cpuMillicores", resources.cpu_millicores, some)?;
        Ok(Self {
            place: placement(&hardware, layout, resources.cpu_millicores),
            slowdown: throttling(resources.cpu_millicores),
            cpu: hardware.cpu,
            site: local_site(gromacs_version),
            // mdrun cut the box as it is; all that is counted is what a prediction counts.
            job: job.filled().unwrap_or(job),
            ns_per_day: Some(ns_per_day),
            owner: hash(owner.as_bytes()),
            memory_residual: None,
        })
    }

    /// The same run with a build of GROMACS of that version.
    pub fn built(self, gromacs_version: Option<&str>, build: &Build) -> Result<Self, FieldError> {
        let job = self.job.built(gromacs_version, build)?;
        Ok(Self { site: job.site, job, ..self })
    }

    /// The same run of a pod with `cpu_millicores` on a node that had so much CPU for pods, of which all pods together
    /// requested so much when it began, if that is known.
    #[must_use]
    pub fn on_node(
        mut self,
        labels: &BTreeMap<String, String>,
        cpu_millicores: u32,
        node_millicores: u32,
        requested_millicores: Option<u32>,
    ) -> Self {
        let hardware = hardware_of(labels, 0).on_node(node_millicores);
        self.place.busy = busy(&hardware, cpu_millicores, requested_millicores);
        self.place.share = share(&hardware, cpu_millicores);
        self
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
