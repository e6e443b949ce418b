//! The model asked about one job.

use std::sync::Arc;

use scavenger_schema::tuning::{Interval, Layout};

use super::place::{placement, throttling};
use super::{Job, Model, SIGMA_SHARED, features, origin, sigma_of_build};
use crate::hardware::Hardware;
use crate::interval::{combine, log_normal};
use crate::learn::{About, Features, Known, Origin};
use crate::performance::StepTime;

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
    pub(super) about: Vec<((&'static str, &'static str), Arc<About>)>,
}

impl Asked<'_> {
    fn about(&self, origin: &Origin) -> Option<&About> {
        let mine = |hardware: &(&str, &str)| origin.gpus() <= 1 && *hardware == origin.hardware();
        self.about.iter().find(|(hardware, _)| mine(hardware)).map(|(_, about)| &**about)
    }

    /// Expected residual, its standard deviation, and what is known.
    fn learned(&self, features: &Features) -> (f64, f64, Known) {
        let answer = |about: &About| {
            let (shift, sigma) = about.ask(features);
            (shift, sigma, about.known())
        };
        match self.about(features.origin()) {
            Some(about) => answer(about),
            None => answer(&self.model.knowledge.about(features.origin(), self.job.asker)),
        }
    }

    /// Uncertainty from hardware threads.
    fn sigma_of_threads(&self, hardware: &Hardware, features: &Features) -> f64 {
        if hardware.smt {
            SIGMA_SMT
        } else if !hardware.smt_known
            && !self.model.knowledge.knows(features.origin().class(), features.origin().gpus())
        {
            SIGMA_UNKNOWN_SMT
        } else {
            0.0
        }
    }

    /// Median speed in ns per day of `layout` with `cpu_millicores` on `hardware`: [`Self::predict`] without
    /// the interval, for comparing many layouts.
    #[must_use]
    pub fn speed(&self, hardware: &Hardware, layout: &Layout, cpu_millicores: u32) -> f64 {
        if self.about.is_empty() {
            return self.model.physics(self.job, hardware, layout, cpu_millicores);
        }
        let place = placement(hardware, layout, cpu_millicores);
        let (parts, boost) = self.model.parts(self.job, hardware.cpu, &place);
        let parts = parts.scaled(throttling(cpu_millicores));
        let origin = origin(self.job, hardware.cpu, &place, self.job.site);
        let learned = self.about(&origin).map(|about| about.seconds(&parts, boost, &place));
        self.job.system.ns_per_day(learned.unwrap_or_else(|| parts.seconds()))
    }

    /// True if nothing was learned about any of the hardware.
    #[must_use]
    pub fn is_prior(&self) -> bool {
        self.about.is_empty()
    }

    /// Speed of `layout` with `cpu_millicores` on `hardware`, with its interval.
    #[must_use]
    pub fn predict(&self, hardware: &Hardware, layout: &Layout, cpu_millicores: u32) -> Prediction {
        let (place, physics) = self.model.physical_step(self.job, hardware, layout, cpu_millicores);
        let features = features(self.job, hardware.cpu, &place, self.job.site, &physics);
        let (shift, sigma, known) = self.learned(&features);
        let step = physics.scaled(shift.exp());
        let sigma = features.widening(known)
            * combine(&[
                sigma_of_build(self.job, hardware.cpu, &physics, known),
                sigma,
                SIGMA_SHARED,
                self.job.work.sigma_of_output(step.total),
                self.sigma_of_threads(hardware, &features),
                self.model.unmeasured_gpus(&features),
            ]);
        Prediction { ns_per_day: log_normal(self.job.system.ns_per_day(step.total), sigma), step }
    }
}
