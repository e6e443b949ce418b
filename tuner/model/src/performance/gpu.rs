//! A step on GPUs.

use super::cpu::Speed;
use super::parts::{Overlap, Part, Parts};
use super::{Constants, GpuPlacement, Placement};
use crate::hardware::CpuClass;
use crate::system::System;
use crate::work::Work;

/// Update and constraints on the host beside a GPU, in counted cycles: the pair search, which is most of the
/// `other` work of a CPU run, is on the GPU or hidden.
const HOST_UPDATE: f64 = 1.0;
/// Bytes per second over PCIe.
const PCIE: f64 = 12e9;
/// Bytes per atom and step between host and GPU: positions there, forces back.
const BYTES_PER_ATOM: f64 = 24.0;

/// Time of one step by part, and the share of the host's clock that is boost.
pub(super) fn step(
    system: &System,
    work: &Work,
    cpu: &CpuClass,
    place: &Placement,
    gpu: &GpuPlacement,
    constants: &Constants,
) -> (Parts, f64) {
    let class = gpu.class;
    let flops = class.tflops * 1e12 * class.use_of_peak * gpu.count;
    let bytes = class.bandwidth * 1e9 * gpu.count;
    let speed = Speed::of(cpu, place, constants);
    let on_cpu = |cycles: f64| cycles / speed.reference / speed.cores * (1.0 + speed.loss);

    let mut parts = Parts::new(Overlap::Gpu);
    parts.first[Part::Pair as usize] = work.pairs * constants.gpu_pair / flops;
    parts.first[Part::Other as usize] = system.atoms * constants.gpu_atom / bytes;
    if gpu.pme {
        parts.first[Part::Mesh as usize] = system.pme.map_or(0.0, |pme| {
            let spread = system.atoms * f64::from(pme.order).powi(3);
            (pme.points() + spread) * 4.0 * constants.gpu_mesh / bytes
        });
    } else {
        parts.second[Part::Spread as usize] = on_cpu(work.spread * constants.spread);
        parts.second[Part::Mesh as usize] = on_cpu(work.mesh * constants.mesh);
    }
    if !gpu.bonded {
        parts.second[Part::Host as usize] = on_cpu(work.bonded * constants.other);
    }
    // Positions there and forces back, unless the update is there too.
    // Perturbed pairs have no kernel on GPUs.
    parts.second[Part::Host as usize] += on_cpu(work.perturbed * constants.other);
    let mut between = constants.gpu_launch * class.launch * (1.0 + 0.5 * gpu.count.log2());
    if !gpu.update {
        parts.after[Part::Host as usize] = on_cpu(work.update * HOST_UPDATE);
        between += system.atoms * BYTES_PER_ATOM / PCIE;
    }
    parts.after[Part::Launch as usize] = between;
    (parts, speed.boost)
}
