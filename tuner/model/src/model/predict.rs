//! What the model says of one layout on one kind of node.

use scavenger_schema::tuning::{Interval, Layout};

use super::place::{placement, throttling};
use super::{Job, Model, origin};
use crate::hardware::Hardware;
use crate::interval::{combine, log_normal};
use crate::learn::Origin;
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

impl Model {
    /// Speed in ns per day by physics alone.
    #[must_use]
    pub fn physics(&self, job: &Job, hardware: &Hardware, layout: &Layout, cpu_millicores: u32) -> f64 {
        self.physics_in(job, hardware, &placement(hardware, layout, cpu_millicores), cpu_millicores)
    }

    fn physics_in(&self, job: &Job, hardware: &Hardware, place: &Placement, cpu_millicores: u32) -> f64 {
        job.system.ns_per_day(self.step_time(job, hardware.cpu, place).total * throttling(cpu_millicores))
    }

    /// Median speed in ns per day of `layout` with `cpu_millicores` on `hardware`: [`Self::predict`] without
    /// the interval, for comparing many layouts.
    #[must_use]
    pub fn speed(&self, job: &Job, hardware: &Hardware, layout: &Layout, cpu_millicores: u32) -> f64 {
        self.speed_in(job, hardware, &placement(hardware, layout, cpu_millicores), cpu_millicores)
    }

    /// The same if nothing else ran on the node. Efficiency is counted with it: what a core more brings to a simulation does
    /// not depend on what others do, and measured efficiencies are of such nodes.
    #[must_use]
    pub fn speed_alone(&self, job: &Job, hardware: &Hardware, layout: &Layout, cpu_millicores: u32) -> f64 {
        let place = placement(hardware, layout, cpu_millicores);
        self.speed_in(job, hardware, &Placement { busy: place.share, ..place }, cpu_millicores)
    }

    fn speed_in(&self, job: &Job, hardware: &Hardware, place: &Placement, cpu_millicores: u32) -> f64 {
        let about = self.knowledge.about(&origin(job, hardware.cpu, place));
        self.physics_in(job, hardware, place, cpu_millicores) * (-about.shift).exp()
    }

    /// Speed of `layout` with `cpu_millicores` on `hardware`, with its interval.
    #[must_use]
    pub fn predict(
        &self,
        job: &Job,
        hardware: &Hardware,
        layout: &Layout,
        cpu_millicores: u32,
    ) -> Prediction {
        let place = placement(hardware, layout, cpu_millicores);
        let physics = self.step_time(job, hardware.cpu, &place).scaled(throttling(cpu_millicores));
        let origin = origin(job, hardware.cpu, &place);
        let about = self.knowledge.about(&origin);
        let step = physics.scaled(about.shift.exp());
        let sigma = combine(&[
            self.sigma(job, hardware.cpu, &origin, &physics, &about),
            job.work.sigma_of_output(step.total),
            self.sigma_of_threads(hardware, &origin),
        ]);
        Prediction { ns_per_day: log_normal(job.system.ns_per_day(step.total), sigma), step }
    }

    /// Uncertainty from hardware threads.
    fn sigma_of_threads(&self, hardware: &Hardware, origin: &Origin) -> f64 {
        if hardware.smt {
            SIGMA_SMT
        } else if !hardware.smt_known && !self.knowledge.knows(origin) {
            SIGMA_UNKNOWN_SMT
        } else {
            0.0
        }
    }
}
