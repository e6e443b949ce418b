//! What decides how far one run tells of another.

use super::kernel::{DIMENSIONS, Direction, Priors, direction};
use super::prepared::Key;
use super::{Stratum, hash};
use crate::model::Job;
use crate::performance::{Component, Placement, StepTime};
use crate::work::Doubts;

/// How runs teach. All of it, but for measuring what each part of it is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learning {
    /// A parameter for each part of a step; else one for all work and one for the whole step.
    pub by_part: bool,
    /// Runs that disagree count less and widen the interval, and the physics is made linear where the runs are.
    pub robust: bool,
}

impl Default for Learning {
    fn default() -> Self {
        Self { by_part: true, robust: true }
    }
}

/// A place and a GROMACS build on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    pub(super) machine: u64,
    pub(super) build: u64,
    /// Year and number of the release; zeros if the build does not say.
    pub(super) release: (u32, u32),
}

impl Site {
    /// The site where `machine` (a cluster) runs the release `build`.
    #[must_use]
    pub fn new(machine: &str, build: &str) -> Self {
        Self { machine: hash(machine.as_bytes()), build: hash(build.as_bytes()), release: release(build) }
    }
}

/// `2024.4-conda` as (2024, 4); zeros where there is no number.
pub(super) fn release(build: &str) -> (u32, u32) {
    let from = build.find(|c: char| c.is_ascii_digit()).unwrap_or(build.len());
    let numbers = |text: &str| -> u32 {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        text[..end].parse().unwrap_or(0)
    };
    let (year, rest) = build[from..].split_once('.').unwrap_or((&build[from..], ""));
    (numbers(year), numbers(rest))
}

/// Class, site and system of a run, whatever its layout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Origin {
    pub(super) class: &'static str,
    /// Standard deviation of the class.
    pub(super) class_sigma: f64,
    /// GPUs that worked together: what several do says nothing of one, nor of another number.
    pub(super) gpus: u32,
    /// Class of the processor beside the GPUs; empty without.
    pub(super) host: &'static str,
    pub(super) site: Site,
    pub(super) system: u64,
    pub(super) ln_atoms: f64,
    /// What is doubtful about the system, whatever the machine.
    pub(super) doubts: Doubts,
    pub(super) learning: Learning,
}

impl Origin {
    /// Origin of the runs of `job` on a class of hardware.
    #[must_use]
    pub fn new(class: &'static str, class_sigma: f64, gpus: u32, site: Site, job: &Job) -> Self {
        let (system, ln_atoms, doubts) = (job.key, job.ln_atoms, job.doubts());
        Self { class, class_sigma, gpus, host: "", site, system, ln_atoms, doubts, learning: job.learning() }
    }

    /// The same of GPUs beside a processor of that class.
    #[must_use]
    pub fn beside(self, host: &'static str) -> Self {
        Self { host, ..self }
    }

    /// The hardware class.
    #[must_use]
    pub fn class(&self) -> &'static str {
        self.class
    }

    /// The class, and that of the processor beside it if it is a GPU.
    #[must_use]
    pub fn hardware(&self) -> (&'static str, &'static str) {
        (self.class, self.host)
    }

    /// GPUs that work together.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.gpus
    }

    /// A number that repetitions of a run have in common.
    #[must_use]
    pub fn run_key(&self, place: &Placement) -> u64 {
        let Placement { nodes, ranks, threads, npme, cores, smt, busy, gpu } = *place;
        let mut key = hash(self.class.as_bytes()) ^ hash(self.host.as_bytes()).rotate_left(1);
        let mut mix = |value: u64| key = (key.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for value in [self.system, self.site.machine, self.site.build] {
            mix(value);
        }
        for value in [nodes, ranks, threads, npme, cores, smt, busy] {
            mix(value.to_bits());
        }
        if let Some(gpu) = gpu {
            mix(gpu.count.to_bits());
            mix(u64::from(gpu.pme) | u64::from(gpu.bonded) << 1 | u64::from(gpu.update) << 2);
        }
        key
    }

    /// What decides which runs tell of it, and how much: where it was, on which system.
    pub(super) fn key(&self, owner: Option<u64>) -> Key {
        let Self { site, system, ln_atoms, host, doubts, .. } = *self;
        let atoms =
            ln_atoms.to_bits() ^ doubts.step.to_bits().rotate_left(1) ^ doubts.other.to_bits().rotate_left(2);
        Key { host, system, atoms, machine: site.machine, build: site.build, owner }
    }

    /// The prior variances of its class.
    pub(super) fn priors(&self) -> Priors {
        Priors::new(self.class_sigma, self.gpus > 0, self.learning.by_part)
    }

    /// What runs tell of each other by: the class, and the number of GPUs. The unknown class of CPUs and that of GPUs have
    /// the name in common alone.
    pub(super) fn family(&self) -> (&'static str, u32) {
        (self.class, self.gpus)
    }
}

/// A run: where it was, and its step as predicted from the class alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Features {
    pub(super) origin: Origin,
    pub(super) step: StepTime,
    pub(super) ln_threads: f64,
    pub(super) ln_nodes: f64,
    pub(super) stratum: Stratum,
    /// Equal for repetitions of a run.
    pub(super) key: u64,
}

impl Features {
    /// Features of a job on a placement whose step was predicted.
    #[must_use]
    pub fn new(origin: Origin, place: &Placement, step: &StepTime) -> Self {
        // What is predicted of it counts, too: the same system may write more or less.
        let key = origin.run_key(place) ^ step.total.to_bits();
        let (ln_threads, ln_nodes) = (place.threads.ln(), place.nodes.ln());
        Self { origin, step: *step, ln_threads, ln_nodes, stratum: Stratum::of(place), key }
    }

    /// Where it was.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Its step as predicted from the class alone.
    #[must_use]
    pub fn step(&self) -> &StepTime {
        &self.step
    }

    /// The same run with a step that consists of one component of it alone.
    pub(super) fn component(&self, component: Component) -> Self {
        Self { step: component.of(&self.step, 1.0), ..*self }
    }

    /// By how much the logarithm of the time changes with each of the parameters, where they are zero.
    pub(super) fn direction(&self) -> Direction {
        direction(&self.step, self.ln_threads, self.ln_nodes)
    }

    /// Logarithm of the time with the parameters `theta` relative to that without, and the direction there.
    pub(super) fn moved(&self, theta: &[f64; DIMENSIONS]) -> (f64, Direction) {
        super::kernel::moved(&self.step, self.ln_threads, self.ln_nodes, theta)
    }
}
