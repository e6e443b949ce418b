//! The builds of GROMACS that ran, and which of them a request means that names none.

use scavenger_schema::tuning::{Build, NodeShape, SystemDescription};

use super::{Job, Model, Observation};
use crate::error::FieldError;
use crate::hardware::{CpuClass, Simd, cpu_from_labels};
use crate::learn::Site;

/// The newest run of one release of GROMACS on one class of CPU that named its build.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ran {
    cpu: &'static CpuClass,
    release: Site,
    built: Built,
}

/// What a build decides of a job, apart from its precision and what it can do on GPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Built {
    pub(super) simd: Option<Simd>,
    pub(super) site: Site,
    pub(super) launch: f64,
}

/// The builds of measured runs, newest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Builds(Vec<Ran>);

impl Builds {
    /// Those of `runs`, the newest of which is the last. In double precision GROMACS runs other systems, so to speak, and
    /// a request that wants it says so.
    pub(super) fn of(runs: &[Observation]) -> Self {
        let mut found: Vec<Ran> = Vec::new();
        for run in runs.iter().rev().filter(|run| run.job.names_build() && !run.job.system.double) {
            let is_same = |ran: &Ran| ran.cpu.key == run.cpu.key && ran.release == run.job.release;
            if !found.iter().any(is_same) {
                found.push(Ran { cpu: run.cpu, release: run.job.release, built: run.job.build() });
            }
        }
        Self(found)
    }

    /// The newest of this release, or of any, on processors of one of these classes. Else the newest on others that run
    /// the same programs.
    fn newest(&self, release: Option<Site>, cpus: &[&CpuClass]) -> Option<Built> {
        let of_release = || self.0.iter().filter(|ran| release.is_none_or(|release| ran.release == release));
        let on_class = of_release().find(|ran| cpus.iter().any(|cpu| cpu.key == ran.cpu.key));
        let runs_there = |ran: &&Ran| cpus.iter().any(|cpu| cpu.runs(ran.built.simd.unwrap_or(ran.cpu.simd)));
        on_class.or_else(|| of_release().find(runs_there)).map(|ran| ran.built)
    }
}

impl Model {
    /// The job of a request. One that names no build means that of the newest run with its version of GROMACS, or with
    /// any if it names none: what runs next is most likely built alike.
    ///
    /// A build that is assumed takes no GPU away: where one image has no code for GPUs, another may have it.
    pub(crate) fn job(
        &self,
        system: &SystemDescription,
        gromacs_version: Option<&str>,
        build: &Build,
        nodes: &[NodeShape],
    ) -> Result<Job, FieldError> {
        let job = Job::new(system, gromacs_version)?.built(gromacs_version, build)?;
        if !build.is_unknown() || self.builds.0.is_empty() {
            return Ok(job);
        }
        let mut cpus: Vec<&CpuClass> = nodes.iter().map(|node| cpu_from_labels(&node.labels)).collect();
        cpus.dedup_by_key(|cpu| cpu.key);
        let release = gromacs_version.map(|_| job.release);
        Ok(match self.builds.newest(release, &cpus) {
            Some(built) => job.built_like(built),
            None => job,
        })
    }
}
