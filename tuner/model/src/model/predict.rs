//! What the model says of one layout on one kind of node.

use scavenger_schema::tuning::{Interval, Layout};

use super::place::{placement, throttling};
use super::{Expected, Job, Model, origin};
use crate::hardware::Hardware;
use crate::interval::{combine, log_normal};
use crate::learn::Known;
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
        let seconds = self.step_time(job, hardware.cpu, place).total * throttling(cpu_millicores);
        job.system.ns_per_day(seconds) * (-about.shift).exp()
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
        let Expected { step, sigma, known } =
            self.expect(job, hardware.cpu, &placement(hardware, layout, cpu_millicores));
        let step = step.scaled(throttling(cpu_millicores));
        let of_threads = match (hardware.smt, hardware.smt_known || known > Known::Nothing) {
            (true, _) => SIGMA_SMT,
            (false, false) => SIGMA_UNKNOWN_SMT,
            (false, true) => 0.0,
        };
        let sigma = combine(&[sigma, job.work.sigma_of_output(step.total), of_threads]);
        Prediction { ns_per_day: log_normal(job.system.ns_per_day(step.total), sigma), step }
    }
}
