//! How long one step takes.
//!
//! Work is divided among cores; what does not shrink with cores (threads that wait for each other, halos,
//! transposes of the PME grid, latency) is added. The form is physics; the few factors in [`Constants`] are
//! fitted over all measured machines at once, so that a machine that was never measured is predicted by its
//! class alone.

use crate::hardware::{CpuClass, GpuClass};
use crate::system::System;
use crate::work::Work;

/// The fitted factors, common to all hardware.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// Measured over tabulated cycles of the pair kernel.
    pub pair: f64,
    /// Measured over counted cycles of PME spread and gather.
    pub spread: f64,
    /// Measured over counted cycles of FFT and solve.
    pub mesh: f64,
    /// Measured over counted cycles of update, constraints, bonded, search.
    pub other: f64,
    /// Loss of a rank whose threads fill a shared cache.
    pub thread: f64,
    /// Seconds per step for the barriers of OpenMP, times threads^0.75 - 1.
    pub barrier: f64,
    /// Gain of a second hardware thread per core.
    pub smt: f64,
    /// Reference cycles per atom of a halo, spent by one thread of a rank.
    pub halo: f64,
    /// Reference cycles per PME grid point of a rank that one of its threads moves.
    pub mesh_serial: f64,
    /// Power of the PME ranks with which the messages of a transpose grow.
    pub mesh_growth: f64,
    /// Reference cycles per atom of a rank that only one of its threads works.
    pub serial: f64,
    /// The same that domain decomposition adds.
    pub serial_domain: f64,
    /// Relative load imbalance per relative size of the halo.
    pub imbalance: f64,
    /// Seconds per message between ranks of one node.
    pub latency: f64,
    /// Seconds per message between nodes.
    pub net_latency: f64,
    /// Growth of that per node, relative: more ranks share links and wait for the slowest.
    pub net_growth: f64,
    /// Bytes per second of one node's network.
    pub net_bandwidth: f64,
    /// GPU: operations per pair relative to the peak.
    pub gpu_pair: f64,
    /// GPU: passes over memory per PME grid point and per spread point.
    pub gpu_mesh: f64,
    /// GPU: bytes per atom for everything that is neither.
    pub gpu_atom: f64,
    /// GPU: seconds per step of launches and waits.
    pub gpu_launch: f64,
}

impl Constants {
    /// Fitted to the measurements in `tuner/data`; see `scavenger-tuner accuracy`.
    pub const FITTED: Self = Self {
        pair: 1.19,
        spread: 1.6,
        mesh: 1.8,
        other: 3.42,
        thread: 0.0812,
        barrier: 2.02e-5,
        smt: 0.213,
        halo: 60.6,
        mesh_serial: 24.3,
        mesh_growth: 0.329,
        serial: 29.1,
        serial_domain: 59.8,
        imbalance: 0.0505,
        latency: 1.50e-6,
        net_latency: 5.70e-6,
        net_growth: 0.159,
        net_bandwidth: 8.86e9,
        gpu_pair: 196.0,
        gpu_mesh: 10.2,
        gpu_atom: 513.0,
        gpu_launch: 9.31e-5,
    };

    /// What one would guess before any fit; also the centre that the fit is drawn to.
    pub const PHYSICS: Self = Self {
        pair: 1.0,
        spread: 1.8,
        mesh: 2.2,
        other: 4.0,
        thread: 0.08,
        barrier: 20e-6,
        smt: 0.18,
        halo: 60.0,
        mesh_serial: 20.0,
        mesh_growth: 0.4,
        serial: 30.0,
        serial_domain: 60.0,
        imbalance: 0.05,
        latency: 1.5e-6,
        net_latency: 4e-6,
        net_growth: 0.1,
        net_bandwidth: 8e9,
        gpu_pair: 150.0,
        gpu_mesh: 25.0,
        gpu_atom: 600.0,
        gpu_launch: 80e-6,
    };

    /// How many there are.
    pub const COUNT: usize = 21;

    /// Logarithms, in the order of the fields; all are positive.
    #[must_use]
    pub fn logs(&self) -> [f64; Self::COUNT] {
        let Self { pair, spread, mesh, other, thread, barrier, smt, .. } = *self;
        let Self {
            halo,
            mesh_serial,
            mesh_growth,
            serial,
            serial_domain,
            imbalance,
            latency,
            net_latency,
            net_growth,
            net_bandwidth,
            ..
        } = *self;
        let Self { gpu_pair, gpu_mesh, gpu_atom, gpu_launch, .. } = *self;
        [
            pair,
            spread,
            mesh,
            other,
            thread,
            barrier,
            smt,
            halo,
            mesh_serial,
            mesh_growth,
            serial,
            serial_domain,
            imbalance,
            latency,
            net_latency,
            net_growth,
            net_bandwidth,
            gpu_pair,
            gpu_mesh,
            gpu_atom,
            gpu_launch,
        ]
        .map(f64::ln)
    }

    /// The opposite of [`Self::logs`].
    #[must_use]
    pub fn from_logs(logs: &[f64; Self::COUNT]) -> Self {
        let [
            pair,
            spread,
            mesh,
            other,
            thread,
            barrier,
            smt,
            halo,
            mesh_serial,
            mesh_growth,
            serial,
            serial_domain,
            imbalance,
            latency,
            net_latency,
            net_growth,
            net_bandwidth,
            gpu_pair,
            gpu_mesh,
            gpu_atom,
            gpu_launch,
        ] = logs.map(f64::exp);
        Self {
            pair,
            spread,
            mesh,
            other,
            thread,
            barrier,
            smt,
            halo,
            mesh_serial,
            mesh_growth,
            serial,
            serial_domain,
            imbalance,
            latency,
            net_latency,
            net_growth,
            net_bandwidth,
            gpu_pair,
            gpu_mesh,
            gpu_atom,
            gpu_launch,
        }
    }
}

/// A layout on given hardware, over one or several nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placement {
    /// Nodes.
    pub nodes: f64,
    /// Ranks in all, PME ranks included.
    pub ranks: f64,
    /// Threads per rank.
    pub threads: f64,
    /// Ranks for PME alone.
    pub npme: f64,
    /// Cores in all; may be a part of one.
    pub cores: f64,
    /// Threads per core.
    pub smt: f64,
    /// What is used of GPUs.
    pub gpu: Option<GpuPlacement>,
}

/// The part of a placement that is on GPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GpuPlacement {
    /// Product.
    pub class: &'static GpuClass,
    /// How many.
    pub count: f64,
    /// PME is there.
    pub pme: bool,
    /// Bonded interactions are there.
    pub bonded: bool,
    /// Update and constraints are there.
    pub update: bool,
}

/// Where the seconds of a step go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepTime {
    /// Pair interactions.
    pub pair: f64,
    /// PME without communication.
    pub pme: f64,
    /// Bonded, constraints, update.
    pub other: f64,
    /// What does not shrink with cores.
    pub overhead: f64,
    /// The whole step. Less than the sum where parts overlap.
    pub total: f64,
}

impl StepTime {
    /// Share of the step that is overhead, 0 to 1: the more, the less the prediction is worth.
    #[must_use]
    pub fn overhead_share(&self) -> f64 {
        (self.overhead / self.total).clamp(0.0, 1.0)
    }
}

/// Time of one step of `system`, whose work was counted before.
#[must_use]
pub fn step_time(
    system: &System,
    work: &Work,
    cpu: &CpuClass,
    place: &Placement,
    constants: &Constants,
) -> StepTime {
    match place.gpu {
        None => cpu_step(system, work, cpu, place, constants),
        Some(gpu) => gpu_step(system, work, cpu, place, &gpu, constants),
    }
}

/// Factor on all work of a rank because its threads share memory and wait for each other.
///
/// Linear in the caches that the rank spans. What a single thread of a rank does is counted apart.
fn thread_loss(cpu: &CpuClass, place: &Placement, constants: &Constants) -> f64 {
    let cores = (place.cores / place.ranks).max(1.0);
    1.0 + constants.thread * (cores - 1.0) / cpu.cache_cores
}

/// Reference cycles of a rank during which its other threads wait.
fn work_of_one_thread(system: &System, place: &Placement, pp_ranks: f64, constants: &Constants) -> f64 {
    let waiting = 1.0 - 1.0 / place.threads;
    let domains = if pp_ranks > 1.0 { 1.0 } else { 0.0 };
    system.atoms / pp_ranks * waiting * (constants.serial + domains * constants.serial_domain)
}

/// Core-seconds become seconds: cores, threads of a rank, hardware threads.
fn speedup(cpu: &CpuClass, place: &Placement, constants: &Constants) -> f64 {
    let smt = 1.0 + constants.smt * place.smt.log2();
    place.cores * smt / thread_loss(cpu, place, constants)
}

fn cpu_step(
    system: &System,
    work: &Work,
    cpu: &CpuClass,
    place: &Placement,
    constants: &Constants,
) -> StepTime {
    let cycles = cpu.clock_ghz * 1e9;
    let reference = cycles * cpu.ipc;
    let speedup = speedup(cpu, place, constants);
    let pp_ranks = place.ranks - place.npme;
    let pme_ranks = if place.npme > 0.0 { place.npme } else { place.ranks };
    let pp_speedup = speedup * pp_ranks / place.ranks;
    let pme_speedup = speedup * pme_ranks / place.ranks;

    let pair = work.pairs * constants.pair * cpu.pair_cycles / cycles / pp_speedup;
    let other = (work.bonded + work.update) * constants.other / reference / pp_speedup;
    let pme = (work.spread * constants.spread + work.mesh * constants.mesh) / reference / pme_speedup;

    let latency = if place.nodes > 1.0 {
        constants.net_latency * (1.0 + constants.net_growth * place.nodes)
    } else {
        constants.latency
    };
    let barrier = constants.barrier * (place.threads.powf(BARRIER_GROWTH) - 1.0);
    let halo = Halo::of(system, pp_ranks);
    let halo_time = halo.atoms * constants.halo / reference
        + halo.messages * latency
        + network(place, constants, halo.atoms * pp_ranks * BYTES_PER_HALO_ATOM);
    // Domain decomposition, constraints across domains and the reduction of forces are done by one thread.
    let serial = work_of_one_thread(system, place, pp_ranks, constants) / reference;
    let imbalance = constants.imbalance * halo.relative.ln_1p() * (pair + other);
    let pme_comm = system.pme.map_or(0.0, |pme| {
        if pme_ranks <= 1.0 {
            return 0.0;
        }
        pme.points() / pme_ranks * constants.mesh_serial / reference
            + TRANSPOSES * pme_ranks.powf(constants.mesh_growth) * latency
            + network(place, constants, TRANSPOSES * pme.points() * BYTES_PER_GRID_POINT)
    });

    if place.npme == 0.0 {
        let overhead = barrier + halo_time + serial + imbalance + pme_comm;
        return StepTime { pair, pme, other, overhead, total: pair + other + pme + overhead };
    }
    // Ranks of their own work at the same time.
    let redistribution = 2.0 * (pp_ranks / place.npme) * latency;
    let particles = pair + other + halo_time + serial + imbalance;
    let mesh_share =
        work.mesh * constants.mesh / (work.spread * constants.spread + work.mesh * constants.mesh);
    let movable = pme * mesh_share + pme_comm;
    let total = balanced(particles, pair, pme + pme_comm, movable) + barrier + redistribution;
    let overhead = barrier + redistribution + halo_time + serial + imbalance + pme_comm;
    StepTime { pair, pme, other, overhead, total }
}

/// Largest factor on the volume of the cut-off that mdrun's tuning of PME goes to: 1.4 in its radius.
const MOST_TUNED: f64 = 2.7;

/// Time of the slower of two kinds of ranks after mdrun has tuned PME.
///
/// The tuning makes the cut-off longer and the grid coarser by the same factor while the PME ranks are the slower
/// ones: with `u` the volume of the cut-off relative to the input, `pair` grows as u and the `movable` part of PME
/// shrinks as 1/u. It never makes the cut-off shorter, so PME ranks that have too little to do stay idle.
fn balanced(particles: f64, pair: f64, mesh: f64, movable: f64) -> f64 {
    if particles >= mesh || pair <= 0.0 {
        return particles.max(mesh);
    }
    // particles + pair (u - 1) = mesh - movable + movable / u
    let half = 0.5 * (particles - pair - mesh + movable);
    let u = ((half * half + pair * movable).sqrt() - half) / pair;
    let u = u.clamp(1.0, MOST_TUNED);
    (particles + pair * (u - 1.0)).max(mesh - movable + movable / u)
}

/// Power of the threads of a rank with which a barrier of OpenMP takes longer. A step has some fifty parallel regions
/// and barriers; published measurements of one are below 1 µs for a few threads and 10 to 20 µs for 128.
const BARRIER_GROWTH: f64 = 0.75;

/// Transposes of the PME grid per step: two forth, two back.
const TRANSPOSES: f64 = 4.0;
/// Bytes per grid point and transpose: one complex number for two real points.
const BYTES_PER_GRID_POINT: f64 = 4.0;
/// Bytes per halo atom and step: position there, force back.
const BYTES_PER_HALO_ATOM: f64 = 24.0;

/// Seconds to move `bytes` (of all ranks) between nodes.
fn network(place: &Placement, constants: &Constants, bytes: f64) -> f64 {
    if place.nodes <= 1.0 {
        return 0.0;
    }
    // What stays inside a node does not use the network; of the surface of a node's block about a cube root of
    // its ranks shows on each side.
    let ranks_per_node = (place.ranks / place.nodes).max(1.0);
    bytes / place.nodes / ranks_per_node.cbrt() / constants.net_bandwidth
}

/// What a domain needs of its neighbours.
struct Halo {
    /// Atoms that one rank receives.
    atoms: f64,
    /// The same relative to its own atoms, at most 8.
    relative: f64,
    /// Messages per step that follow one another.
    messages: f64,
}

impl Halo {
    fn of(system: &System, ranks: f64) -> Self {
        if ranks <= 1.0 {
            return Self { atoms: 0.0, relative: 0.0, messages: 0.0 };
        }
        let own = system.atoms / ranks;
        let edge = (own / system.density).cbrt();
        // The eighth shell: a layer of the list radius on three of the six faces.
        let volume = (edge + system.rlist_nm).powi(3) - edge.powi(3);
        let atoms = (0.5 * volume * system.density).min(system.atoms - own);
        let pulses = (system.rlist_nm / edge).ceil().clamp(1.0, 4.0);
        Self { atoms, relative: (atoms / own).min(8.0), messages: 6.0 * pulses }
    }
}

fn gpu_step(
    system: &System,
    work: &Work,
    cpu: &CpuClass,
    place: &Placement,
    gpu: &GpuPlacement,
    constants: &Constants,
) -> StepTime {
    let class = gpu.class;
    let flops = class.tflops * 1e12 * class.use_of_peak * gpu.count;
    let bytes = class.bandwidth * 1e9 * gpu.count;
    let reference = cpu.clock_ghz * 1e9 * cpu.ipc;
    let speedup = speedup(cpu, place, constants);
    let on_cpu = |operations: f64| operations / reference / speedup;

    let pair = work.pairs * constants.gpu_pair / flops;
    let pme_cpu = on_cpu(work.spread * constants.spread + work.mesh * constants.mesh);
    let pme_gpu = system.pme.map_or(0.0, |pme| {
        let spread = system.atoms * f64::from(pme.order).powi(3);
        (pme.points() + spread) * 4.0 * constants.gpu_mesh / bytes
    });
    let other_gpu = system.atoms * constants.gpu_atom / bytes;
    let bonded = if gpu.bonded { 0.0 } else { on_cpu(work.bonded * constants.other) };
    let update = if gpu.update { 0.0 } else { on_cpu(work.update * GPU_HOST_UPDATE) };
    // Positions there and forces back over PCIe, unless the update is there too.
    let transfer = if gpu.update { 0.0 } else { system.atoms * BYTES_PER_HALO_ATOM / 12e9 };

    let device = pair + other_gpu + if gpu.pme { pme_gpu } else { 0.0 };
    let host = bonded + if gpu.pme { 0.0 } else { pme_cpu };
    let between = constants.gpu_launch * class.launch * (1.0 + 0.5 * gpu.count.log2()) + transfer;
    let pme = if gpu.pme { pme_gpu } else { pme_cpu };
    StepTime {
        pair,
        pme,
        other: other_gpu + bonded + update,
        overhead: between,
        total: device.max(host) + update + between,
    }
}

/// Update and constraints on the host beside a GPU, in counted cycles: the pair search, which is most of the
/// `other` work of a CPU run, is on the GPU or hidden.
const GPU_HOST_UPDATE: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::fixtures::water;

    fn seconds(atoms: u64, place: &Placement) -> StepTime {
        let system = System::check(&water(atoms)).expect("water should be accepted");
        let cpu = CpuClass::by_key("zen2").expect("Zen 2 should be in the table");
        step_time(&system, &Work::of(&system), cpu, place, &Constants::FITTED)
    }

    fn cores(ranks: f64, threads: f64) -> Placement {
        Placement { nodes: 1.0, ranks, threads, npme: 0.0, cores: ranks * threads, smt: 1.0, gpu: None }
    }

    #[test]
    fn half_a_core_takes_twice_as_long() {
        let whole = seconds(3000, &cores(1.0, 1.0));
        let half = seconds(3000, &Placement { cores: 0.5, ..cores(1.0, 1.0) });
        assert!((half.total / whole.total - 2.0).abs() < 0.01);
    }

    #[test]
    fn more_cores_are_faster_until_overhead_eats_them() {
        let one = seconds(1_000_000, &cores(1.0, 1.0)).total;
        let many = seconds(1_000_000, &cores(64.0, 1.0)).total;
        assert!((30.0..64.0).contains(&(one / many)), "{}", one / many);
        let small = seconds(3000, &cores(1.0, 1.0)).total / seconds(3000, &cores(16.0, 1.0)).total;
        assert!(small < 14.0, "{small}");
    }

    #[test]
    fn the_overhead_share_grows_with_cores() {
        let few = seconds(30_000, &cores(2.0, 1.0)).overhead_share();
        let many = seconds(30_000, &cores(64.0, 1.0)).overhead_share();
        assert!(few < many && many < 1.0);
    }
}
