//! The reply to a request for one layout.

use scavenger_schema::bounds;
use scavenger_schema::tuning::{Layout, NodeShape, PredictReply, PredictRequest, Resources, StepCost};

use super::Model;
use crate::error::{FieldError, TuneError, length_within, within};
use crate::hardware::hardware_of;
use crate::ladder::Sane;
use crate::performance::StepTime;
use crate::{layout, memory};

impl Model {
    /// Answers a whole request for one layout.
    pub fn answer(&self, request: &PredictRequest) -> Result<PredictReply, TuneError> {
        let sane = Sane::new(self, &request.system, request.gromacs_version.as_deref(), &request.build)?;
        let job = &sane.job;
        let node = &request.node;
        check_node(node).map_err(|error| error.within("node"))?;
        let layout = request.layout;
        check_layout(&layout)?;
        if let Some(cpu) = request.cpu_millicores.filter(|cpu| !bounds::is_pod_cpu(*cpu)) {
            let (half, whole, most) = (bounds::HALF_CORE, bounds::WHOLE_CORE, bounds::CPU_MILLICORES.max);
            let problem = format!("must be {half} or a multiple of {whole}, at most {most}, is {cpu}");
            return Err(FieldError::new("cpuMillicores", problem).into());
        }
        let hardware =
            hardware_of(&node.labels, node.allocatable.gpus).on_node(node.allocatable.cpu_millicores);
        layout::check(&job.system, &layout, hardware.gpu).map_err(FieldError::refused)?;
        let cpu_millicores = cpu_of(request);
        let peak = self.peak_bytes(job, &layout);
        let resources =
            Resources { cpu_millicores, memory_bytes: memory::request_bytes(peak), gpus: layout.gpus };
        if !resources.fits_in(&node.allocatable) {
            return Err(TuneError::NothingFits(FieldError::new(
                "node.allocatable",
                format!(
                    "the layout needs {} and the node offers {}",
                    display(&resources),
                    display(&node.allocatable)
                ),
            )));
        }
        let prediction = self.predict(job, &hardware, &layout, cpu_millicores);
        let ns_per_day = prediction.ns_per_day;
        let hours_to_finish = job.system.hours(ns_per_day.p50);
        let mut notes = sane.notes.clone();
        notes.extend(Sane::note_on_hours("this configuration", hours_to_finish));
        Ok(PredictReply {
            model_version: self.version.clone(),
            hardware_class: hardware.class(layout.gpus),
            ns_per_day,
            hours_to_finish,
            memory_bytes: peak,
            resources,
            step: step_cost(&prediction.step),
            notes,
        })
    }
}

/// CPU of the pod in thousandths of a core.
pub(super) fn cpu_of(request: &PredictRequest) -> u32 {
    request.cpu_millicores.unwrap_or_else(|| request.layout.threads().saturating_mul(bounds::WHOLE_CORE))
}

fn step_cost(step: &StepTime) -> StepCost {
    StepCost {
        pair_us: step.pair * 1e6,
        pme_us: step.pme * 1e6,
        other_us: step.other * 1e6,
        overhead_us: step.overhead * 1e6,
        total_us: step.total * 1e6,
    }
}

/// Checks what a request says of a node. Fields of the error are relative to the node: their paths are written only if
/// something is wrong.
pub(crate) fn check_node(node: &NodeShape) -> Result<(), FieldError> {
    within("count", node.count, bounds::NODES)?;
    for (name, amount) in
        [("allocatable", Some(&node.allocatable)), ("largestFree", node.largest_free.as_ref())]
    {
        let Some(amount) = amount else { continue };
        check_amount(amount).map_err(|error| error.within(name))?;
    }
    for (name, value) in &node.labels {
        length_within("labels", name, bounds::LABEL_NAME_LENGTH)?;
        length_within(name, value, bounds::LABEL_VALUE_LENGTH).map_err(|error| error.within("labels"))?;
    }
    Ok(())
}

fn check_amount(amount: &Resources) -> Result<(), FieldError> {
    within("cpuMillicores", amount.cpu_millicores, bounds::CPU_MILLICORES)?;
    within("memoryBytes", amount.memory_bytes, bounds::MEMORY_BYTES)?;
    within("gpus", amount.gpus, bounds::GPUS)?;
    Ok(())
}

/// Checks the numbers of a layout one by one; whether they go together is for [`layout::check`].
pub(crate) fn check_layout(layout: &Layout) -> Result<(), FieldError> {
    within("layout.ntmpi", layout.ntmpi, bounds::RANKS)?;
    within("layout.ntomp", layout.ntomp, bounds::THREADS)?;
    within("layout.npme", layout.npme, bounds::PME_RANKS)?;
    within("layout.gpus", layout.gpus, bounds::GPUS)?;
    Ok(())
}

/// Resources for a person.
pub(crate) fn display(resources: &Resources) -> String {
    let cores = f64::from(resources.cpu_millicores) / 1000.0;
    let mebibytes = resources.memory_bytes / scavenger_schema::tuning::MIB;
    let gpus = match resources.gpus {
        0 => String::new(),
        1 => ", 1 GPU".to_owned(),
        n => format!(", {n} GPUs"),
    };
    let cores = if resources.cpu_millicores == 1000 { "1 core".to_owned() } else { format!("{cores} cores") };
    format!("{cores}, {mebibytes} MiB{gpus}")
}
