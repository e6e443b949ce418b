//! The model asked about one job.

use scavenger_schema::tuning::{Interval, Layout};

use super::place::placement;
use super::{Job, Model, origin};
use crate::hardware::Hardware;
use crate::interval::{combine, log_normal};
use crate::learn::{About, Origin};
use crate::performance::{Placement, StepTime};

/// The same if a CPU of Kubernetes is a hardware thread: what runs on the other one is not known.
const SIGMA_SMT: f64 = 0.15;

/// The same if it is not known whether it is one: between a thread and a core lies a factor of 1.7. A measurement on
/// such nodes tells.
const SIGMA_UNKNOWN_SMT: f64 = 0.25;

/// What the model says of one layout on one kind of node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Speed in ns per day.
    pub ns_per_day: Interval,
    /// Where the time goes.
    pub step: StepTime,
}

/// A model that is asked about one job; see [`Model::about`].
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    pub(super) model: &'a Model,
    pub(super) job: &'a Job,
    /// By class, and the processor beside it if it is a GPU.
    pub(super) about: Vec<((&'static str, &'static str), About)>,
}

impl Asked<'_> {
    /// What is known of one GPU at most, if anything is.
    fn about(&self, origin: &Origin) -> Option<&About> {
        let mine = |hardware: &(&str, &str)| origin.gpus() <= 1 && *hardware == origin.hardware();
        self.about.iter().find(|(hardware, _)| mine(hardware)).map(|(_, about)| about)
    }

    /// Uncertainty from hardware threads.
    fn sigma_of_threads(&self, hardware: &Hardware, origin: &Origin) -> f64 {
        if hardware.smt {
            SIGMA_SMT
        } else if !hardware.smt_known && !self.model.knowledge.knows(origin) {
            SIGMA_UNKNOWN_SMT
        } else {
            0.0
        }
    }

    /// Median speed in ns per day of `layout` with `cpu_millicores` on `hardware`: [`Self::predict`] without
    /// the interval, for comparing many layouts.
    #[must_use]
    pub fn speed(&self, hardware: &Hardware, layout: &Layout, cpu_millicores: u32) -> f64 {
        self.speed_in(hardware, &placement(hardware, layout, cpu_millicores), cpu_millicores)
    }

    /// The same if nothing else ran on the node. Efficiency is counted with it: what a core more brings to a simulation does
    /// not depend on what others do, and measured efficiencies are of such nodes.
    #[must_use]
    pub fn speed_alone(&self, hardware: &Hardware, layout: &Layout, cpu_millicores: u32) -> f64 {
        let place = placement(hardware, layout, cpu_millicores);
        self.speed_in(hardware, &Placement { busy: place.share, ..place }, cpu_millicores)
    }

    fn speed_in(&self, hardware: &Hardware, place: &Placement, cpu_millicores: u32) -> f64 {
        let physics = self.model.physics_in(self.job, hardware.cpu, place, cpu_millicores);
        if self.about.is_empty() {
            return physics;
        }
        let about = self.about(&origin(self.job, hardware.cpu, place, self.job.site));
        physics * about.map_or(1.0, |about| (-about.shift).exp())
    }

    /// Speed of `layout` with `cpu_millicores` on `hardware`, with its interval.
    #[must_use]
    pub fn predict(&self, hardware: &Hardware, layout: &Layout, cpu_millicores: u32) -> Prediction {
        let (place, physics) = self.model.physical_step(self.job, hardware, layout, cpu_millicores);
        let origin = origin(self.job, hardware.cpu, &place, self.job.site);
        let about = self.about(&origin).copied();
        let about = about.unwrap_or_else(|| self.model.knowledge.about(&origin));
        let step = physics.scaled(about.shift.exp());
        let sigma = combine(&[
            self.model.sigma(self.job, hardware.cpu, &origin, &physics, &about),
            self.job.work.sigma_of_output(step.total),
            self.sigma_of_threads(hardware, &origin),
        ]);
        Prediction { ns_per_day: log_normal(self.job.system.ns_per_day(step.total), sigma), step }
    }
}
