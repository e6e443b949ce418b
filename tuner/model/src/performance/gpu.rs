//! A step on GPUs.

use super::cpu::{Halo, Speed};
use super::{Constants, GpuPlacement, Placement, StepTime};
use crate::hardware::{CpuClass, GpuClass};
use crate::system::System;
use crate::work::Work;

/// Update and constraints on the host beside a GPU, in counted cycles: the pair search, which is most of the
/// `other` work of a CPU run, is on the GPU or hidden.
const HOST_UPDATE: f64 = 1.0;
/// Bytes per second over PCIe.
const PCIE: f64 = 12e9;
/// Bytes per atom and step between host and GPU: positions there, forces back.
const BYTES_PER_ATOM: f64 = 24.0;
/// Bytes that PME touches again and again, per point of the grid (real and transformed) and per charge.
const FOOTPRINT: (f64, f64) = (8.0, 16.0);
/// Launches of each further rank on a GPU, relative to those of the first. Its kernels are smaller, not fewer, and those of
/// the ranks follow one another.
const FURTHER_RANK: f64 = 0.5;

/// Time of one step.
pub(super) fn step(
    system: &System,
    work: &Work,
    cpu: &CpuClass,
    place: &Placement,
    gpu: &GpuPlacement,
    constants: &Constants,
) -> StepTime {
    let class = gpu.class;
    let speed = Speed::of(cpu, place, constants);
    let on_cpu = |cycles: f64| cycles / speed.reference / speed.cores * (1.0 + speed.loss);
    let pair = work.pairs * constants.gpu_pair / (class.tflops * 1e12 * class.use_of_peak);
    let atoms = system.atoms * constants.gpu_atom / (class.bandwidth * 1e9);
    let mesh = if gpu.pme { mesh(system, class, constants) } else { 0.0 };
    // Several GPUs were never measured beside what is served: an even part each.
    let (pair, atoms, mesh) = (pair / gpu.count, atoms / gpu.count, mesh / gpu.count);

    // The host works beside the GPU. Perturbed pairs have no kernel on GPUs.
    let pme_on_host =
        if gpu.pme { 0.0 } else { on_cpu(work.spread * constants.spread + work.mesh * constants.mesh) };
    let bonded = if gpu.bonded { 0.0 } else { work.bonded };
    let on_host = on_cpu((bonded + work.perturbed) * constants.other);

    let further = (place.ranks / gpu.count - 1.0).max(0.0);
    let launches =
        constants.gpu_launch * class.launch * (1.0 + 0.5 * gpu.count.log2() + FURTHER_RANK * further);
    // Positions there and forces back, unless the update is there too.
    let (update, copies) = if gpu.update {
        (0.0, 0.0)
    } else {
        (on_cpu(work.update * HOST_UPDATE), system.atoms * BYTES_PER_ATOM / PCIE)
    };
    // Neighbours meet on the host: what they exchange is copied there and back.
    let halo = Halo::of(system, place.ranks - place.npme);
    let exchange = halo.atoms * (constants.halo / speed.reference + BYTES_PER_ATOM / PCIE)
        + halo.messages * constants.latency;
    let overhead = launches + copies + exchange + work.output_seconds();
    let both = (pair + atoms + mesh).max(pme_on_host + on_host);
    StepTime {
        pair,
        pme: mesh + pme_on_host,
        other: atoms + on_host + update,
        overhead,
        total: both + update + overhead,
    }
}

/// Time of PME on one GPU. What its cache holds of grid and charges is not read from memory.
fn mesh(system: &System, class: &GpuClass, constants: &Constants) -> f64 {
    let Some(pme) = system.pme else { return 0.0 };
    let points = pme.points();
    let spread = system.atoms * f64::from(pme.order).powi(3);
    let bytes = (points + spread) * 4.0 * constants.gpu_mesh;
    let footprint = FOOTPRINT.0 * points + FOOTPRINT.1 * system.atoms;
    let missed = footprint / (footprint + class.cache_mib * f64::from(1 << 20));
    bytes / (class.bandwidth * 1e9) * (missed + (1.0 - missed) * constants.gpu_cache)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::fixtures::water;

    fn place(gpu: &'static GpuClass, ranks: f64) -> Placement {
        let gpu = GpuPlacement { class: gpu, count: 1.0, pme: true, bonded: true, update: false };
        let threads = (16.0 / ranks).max(1.0);
        let (smt, busy, share) = (1.0, 1.0, 0.25);
        let npme = if ranks > 1.0 { 1.0 } else { 0.0 };
        Placement { ranks, threads, npme, cores: 16.0, smt, busy, share, gpu: Some(gpu) }
    }

    fn seconds(atoms: u64, gpu: &'static GpuClass, ranks: f64) -> f64 {
        let system = System::check(&water(atoms)).expect("water should be accepted");
        let cpu = CpuClass::by_key("zen3").expect("Zen 3 should be in the table");
        let place = place(gpu, ranks);
        let gpu = place.gpu.expect("there is one");
        step(&system, &Work::of(&system), cpu, &place, &gpu, &Constants::FITTED).total
    }

    fn a100() -> &'static GpuClass {
        GpuClass::by_key("a100").expect("A100 should be in the table")
    }

    #[test]
    fn further_ranks_on_one_gpu_cost() {
        let times: Vec<f64> = [1.0, 2.0, 4.0, 8.0].map(|ranks| seconds(100_000, a100(), ranks)).to_vec();
        assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
    }

    #[test]
    fn what_is_written_takes_as_long_as_without_a_gpu() {
        let mut raw = water(100_000);
        let total = |raw: &scavenger_schema::tuning::SystemDescription| {
            let system = System::check(raw).expect("water should be accepted");
            let cpu = CpuClass::by_key("zen3").expect("Zen 3 should be in the table");
            let place = place(a100(), 1.0);
            let gpu = place.gpu.expect("there is one");
            step(&system, &Work::of(&system), cpu, &place, &gpu, &Constants::FITTED).total
        };
        let without = total(&raw);
        raw.settings.output_bytes_per_step = 1.5e6;
        assert!((total(&raw) - without - 0.01).abs() < 1e-6);
    }

    #[test]
    fn a_grid_that_the_cache_holds_takes_less() {
        static CACHED: std::sync::OnceLock<GpuClass> = std::sync::OnceLock::new();
        let cached = CACHED.get_or_init(|| GpuClass { cache_mib: 4.0 * a100().cache_mib, ..*a100() });
        let gain = |atoms| seconds(atoms, a100(), 1.0) / seconds(atoms, cached, 1.0);
        assert!(gain(400_000) > 1.01 && gain(400_000) < 1.5, "{}", gain(400_000));
        assert!(gain(20_000) > 1.0);
    }
}
