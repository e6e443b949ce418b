//! Which layouts mdrun accepts, and why it refuses the others.

use std::f64::consts::FRAC_1_SQRT_2;

use scavenger_schema::bounds;
use scavenger_schema::tuning::{BONDED_ON_GPU, Build, Device, GpuOffload, Layout, PME_ON_GPU, release_year};

use crate::hardware::{GpuClass, Simd};
use crate::npme;
use crate::system::{Pme, System};

/// Fewest atoms per rank that does pair work, on CPUs: mdrun's own lower limit for choosing ranks.
pub const MIN_ATOMS_PER_RANK: f64 = 90.0;
/// The same with a GPU.
pub const MIN_ATOMS_PER_GPU_RANK: f64 = 900.0;
/// Shortest edge of a domain in nm: bonded interactions and constraints reach up to about 1 nm, and dynamic load
/// balancing must be able to shrink a domain to 0.8 of its edge.
pub const MIN_DOMAIN_NM: f64 = 1.25;
/// Most OpenMP threads per rank that mdrun is compiled for.
pub const MAX_THREADS: u32 = bounds::THREADS.max;
/// From this number of ranks on, PME ranks of their own are considered, as mdrun does by itself.
pub const PME_RANKS_FROM: u32 = 19;
/// Most ranks that share all work among them, PME included, that anybody measured at the speed that is predicted for
/// them: beyond, the transposes of the grid among all ranks are guesswork.
pub const MOST_RANKS_WITHOUT_PME_RANKS: u32 = PME_RANKS_FROM - 1;
/// Device memory per atom in bytes, pair lists and grids included, generously.
const GPU_BYTES_PER_ATOM: f64 = 1500.0;

/// Why mdrun would refuse a layout, or why it makes no sense. Ranks are those that do the work in question.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// Ranks or threads are zero.
    #[error("needs at least one rank and one thread")]
    Nothing,
    /// So many threads per rank are more than mdrun is compiled for.
    #[error("{0} threads per rank are more than the {MAX_THREADS} that mdrun is compiled for")]
    TooManyThreads(u32),
    /// mdrun refuses numbers of ranks whose largest prime factor is too large.
    #[error("{0} ranks for pair work have the prime factor {1}, which mdrun refuses")]
    PrimeFactor(u32, u32),
    /// Too few atoms for so many ranks, and the fewest that each needs.
    #[error("{0} atoms are too few for {1} ranks, at least {2} per rank are needed")]
    TooFewAtoms(f64, u32, f64),
    /// The box cannot be cut into so many domains.
    #[error("the box cannot be cut into {0} domains of at least {MIN_DOMAIN_NM} nm")]
    DomainsTooSmall(u32),
    /// mdrun refuses more PME ranks than others, of so many ranks.
    #[error("{0} of {1} ranks for PME leave too few for pair work")]
    TooManyPmeRanks(u32, u32),
    /// PME ranks without PME.
    #[error("ranks for PME need a system with PME")]
    PmeRanksWithoutPme,
    /// A PME grid of so many points in the xy plane cannot be divided among so many ranks.
    #[error("a PME grid of {0} points in the xy plane cannot be divided among {1} ranks")]
    PmeGridTooSmall(u32, u32),
    /// A part of the step is put on a GPU that the run's settings keep off it.
    #[error("the settings of the run do not allow {0} on a GPU")]
    NotOnGpu(&'static str),
    /// Something is put on a GPU although there is none, or the nonbonded interactions are not there.
    #[error("work on a GPU needs a GPU, and the nonbonded interactions on it")]
    NoGpu,
    /// Each GPU needs a rank of its own at least.
    #[error("{0} GPUs cannot be divided among {1} ranks")]
    GpusAndRanks(u32, u32),
    /// PME on a GPU with several ranks needs exactly one PME rank.
    #[error("PME on a GPU with {0} ranks needs exactly one rank for PME")]
    PmeOnGpuNeedsOneRank(u32),
    /// Update on a GPU works with one rank here.
    #[error("update on a GPU needs a single rank, and PME on the GPU")]
    UpdateOnGpu,
    /// So many atoms do not fit into the GPU's memory of so many GiB.
    #[error("{0} atoms need more than the {1} GiB of the GPU")]
    GpuMemory(f64, f64),
}

/// Largest prime factor; 1 for 1.
#[must_use]
pub fn largest_prime_factor(mut n: u32) -> u32 {
    let mut largest = 1;
    let mut factor = 2;
    while factor * factor <= n {
        while n.is_multiple_of(factor) {
            largest = factor;
            n /= factor;
        }
        factor += 1;
    }
    if n > 1 { n } else { largest }
}

/// mdrun's check in `domdec_setup.cpp`: above 12 ranks, the largest prime factor may be at most ranks^(2/3).
fn refused_prime_factor(ranks: u32) -> Option<u32> {
    if ranks <= 12 {
        return None;
    }
    let factor = largest_prime_factor(ranks);
    (u64::from(factor).pow(3) > u64::from(ranks).pow(2)).then_some(factor)
}

/// Diagonals of the usual triclinic boxes relative to x, and the distances of their opposite faces relative to the
/// diagonal: what mdrun reckons with. The rhombic dodecahedron with a square and with a hexagon in the xy plane, and the
/// truncated octahedron.
const SKEWED: [([f64; 3], [f64; 3]); 3] = [
    ([1.0, 1.0, FRAC_1_SQRT_2], [0.8165, 0.8165, 1.0]),
    ([1.0, 0.8660, 0.8165], [0.8165, 0.9428, 1.0]),
    ([1.0, 0.9428, 0.8165], [0.8165, 0.8660, 1.0]),
];
/// How far from these a box may be: pressure coupling scales all edges alike, and files have few digits.
const SKEWED_WITHIN: f64 = 0.01;

/// Distances of opposite faces. The diagonal alone does not tell whether a box is rectangular, so one with the edges of a
/// usual triclinic box is taken for such: fewer domains than possible cost less than a run that does not start.
fn faces(box_nm: [f64; 3]) -> [f64; 3] {
    let is_like = |edges: &[f64; 3]| {
        edges.iter().zip(box_nm).all(|(edge, own)| (own / box_nm[0] / edge - 1.0).abs() < SKEWED_WITHIN)
    };
    let skew = SKEWED.iter().find(|(edges, _)| is_like(edges)).map_or([1.0; 3], |(_, skew)| *skew);
    [box_nm[0] * skew[0], box_nm[1] * skew[1], box_nm[2] * skew[2]]
}

/// True if the box can be cut into `ranks` boxes whose edges are long enough.
fn can_be_cut(box_nm: [f64; 3], ranks: u32) -> bool {
    let cuts = faces(box_nm).map(|edge| (edge / MIN_DOMAIN_NM).floor().max(1.0) as u32);
    (1..=cuts[0].min(ranks)).filter(|&x| ranks.is_multiple_of(x)).any(|x| {
        let rest = ranks / x;
        (1..=cuts[1].min(rest)).filter(|&y| rest.is_multiple_of(y)).any(|y| rest / y <= cuts[2])
    })
}

/// Checks that mdrun accepts `layout` for `system`, with `gpu` in the node if any.
pub fn check(system: &System, layout: &Layout, gpu: Option<&GpuClass>) -> Result<(), Refusal> {
    let Layout { ntmpi: ranks, ntomp: threads, npme, .. } = *layout;
    if ranks == 0 || threads == 0 {
        return Err(Refusal::Nothing);
    }
    if threads > MAX_THREADS {
        return Err(Refusal::TooManyThreads(threads));
    }
    check_pme_ranks(system, ranks, npme)?;
    let least = if layout.gpus > 0 { MIN_ATOMS_PER_GPU_RANK } else { MIN_ATOMS_PER_RANK };
    check_domains(system, ranks - npme, least)?;
    check_gpu(system, layout, gpu)
}

fn check_pme_ranks(system: &System, ranks: u32, npme: u32) -> Result<(), Refusal> {
    let Some(pme) = system.pme else {
        return if npme == 0 { Ok(()) } else { Err(Refusal::PmeRanksWithoutPme) };
    };
    if u64::from(npme) * 2 > u64::from(ranks) {
        return Err(Refusal::TooManyPmeRanks(npme, ranks));
    }
    // Without ranks of their own, PME is divided like the domains, in two dimensions: never the tighter limit.
    if npme > 0 && !can_divide_grid(pme, npme) {
        return Err(Refusal::PmeGridTooSmall(pme.grid[0].saturating_mul(pme.grid[1]), npme));
    }
    Ok(())
}

/// True if `ranks` can divide the grid along x and y so that each has as many lines along both as the interpolation
/// order. The lines need not divide evenly. mdrun demands this along x where ranks have several threads, and takes one
/// dimension or two after the division of the domains.
fn can_divide_grid(pme: Pme, ranks: u32) -> bool {
    let most = |axis: usize| pme.grid[axis] / pme.order;
    (1..=most(0).min(ranks)).any(|x| ranks.is_multiple_of(x) && ranks / x <= most(1))
}

fn check_domains(system: &System, ranks: u32, least: f64) -> Result<(), Refusal> {
    if ranks == 1 {
        return Ok(());
    }
    if let Some(factor) = refused_prime_factor(ranks) {
        return Err(Refusal::PrimeFactor(ranks, factor));
    }
    if system.atoms < least * f64::from(ranks) {
        return Err(Refusal::TooFewAtoms(system.atoms, ranks, least));
    }
    if !can_be_cut(system.box_nm, ranks) {
        return Err(Refusal::DomainsTooSmall(ranks));
    }
    Ok(())
}

fn check_gpu(system: &System, layout: &Layout, gpu: Option<&GpuClass>) -> Result<(), Refusal> {
    let on = |device: Device| device == Device::Gpu;
    let any = on(layout.nb) || on(layout.pme) || on(layout.bonded) || on(layout.update);
    if layout.gpus == 0 {
        return if any { Err(Refusal::NoGpu) } else { Ok(()) };
    }
    let Some(gpu) = gpu else { return Err(Refusal::NoGpu) };
    if !on(layout.nb) {
        return Err(Refusal::NoGpu);
    }
    let allowed = system.gpu_offload;
    for (part, device, allowed) in [
        ("nonbonded interactions", layout.nb, allowed.nonbonded),
        ("PME", layout.pme, allowed.pme),
        ("bonded interactions", layout.bonded, allowed.bonded),
        ("update", layout.update, allowed.update),
    ] {
        if on(device) && !allowed {
            return Err(Refusal::NotOnGpu(part));
        }
    }
    if !layout.ntmpi.is_multiple_of(layout.gpus) {
        return Err(Refusal::GpusAndRanks(layout.gpus, layout.ntmpi));
    }
    if on(layout.pme) && layout.ntmpi > 1 && layout.npme != 1 {
        return Err(Refusal::PmeOnGpuNeedsOneRank(layout.ntmpi));
    }
    if on(layout.update) && (layout.ntmpi > 1 || (system.pme.is_some() && !on(layout.pme))) {
        return Err(Refusal::UpdateOnGpu);
    }
    if system.atoms * GPU_BYTES_PER_ATOM > gpu.memory_gib * f64::from(layout.gpus) * 1024.0_f64.powi(3) {
        return Err(Refusal::GpuMemory(system.atoms, gpu.memory_gib));
    }
    Ok(())
}

/// Every way to divide `cores` cores among ranks and threads that [`check`] accepts, fewest ranks first. With PME, from
/// [`PME_RANKS_FROM`] ranks on some of them are for PME alone: mdrun's own number and a few more. A number of ranks that
/// none of these suits is left out.
#[must_use]
pub fn cpu_layouts(system: &System, cores: u32) -> Vec<Layout> {
    let mut layouts = Vec::new();
    for ranks in (1..=cores).filter(|&ranks| cores.is_multiple_of(ranks)) {
        // With atoms for no more ranks, larger divisors are refused too.
        if ranks > 1 && f64::from(ranks) * MIN_ATOMS_PER_RANK > 2.0 * system.atoms {
            break;
        }
        let even = Layout::cpu(ranks, cores / ranks);
        let with_pme_ranks =
            pme_rank_candidates(system, ranks).into_iter().map(|npme| Layout { npme, ..even });
        let is_valid = |layout: &Layout| check(system, layout, None).is_ok();
        // Without PME there is no grid to transpose, and all ranks do the same.
        let may_share_all = system.pme.is_none() || ranks <= MOST_RANKS_WITHOUT_PME_RANKS;
        layouts.extend(Some(even).filter(|even| may_share_all && is_valid(even)));
        layouts.extend(with_pme_ranks.filter(is_valid));
    }
    layouts
}

/// Numbers of PME ranks worth a look. mdrun's rule depends a little on the vector instructions of its build; those of
/// most builds of today are assumed.
fn pme_rank_candidates(system: &System, ranks: u32) -> Vec<u32> {
    if ranks < PME_RANKS_FROM || system.pme.is_none() {
        return Vec::new();
    }
    let mut candidates = vec![npme::guess(system, Simd::Avx2, ranks), ranks / 8, ranks / 4, ranks / 3];
    candidates.sort_unstable();
    candidates.dedup();
    candidates.retain(|npme| *npme > 0);
    candidates
}

/// The layout for one GPU beside `cores` cores: a single rank with all that is allowed on the GPU.
///
/// Neither several GPUs nor PME on the cores are proposed: no run says whether they are faster.
#[must_use]
pub fn gpu_layout(system: &System, cores: u32, gpu: &GpuClass) -> Option<Layout> {
    let allowed = system.gpu_offload;
    let on = |allowed: bool| if allowed { Device::Gpu } else { Device::Cpu };
    let layout = Layout {
        gpus: 1,
        nb: on(allowed.nonbonded),
        pme: on(allowed.pme),
        bonded: on(allowed.bonded),
        update: on(allowed.update && (allowed.pme || system.pme.is_none())),
        ..Layout::cpu(1, cores)
    };
    check(system, &layout, Some(gpu)).is_ok().then_some(layout)
}

/// First release whose mdrun updates and constrains on a GPU without being asked to.
const UPDATE_UNASKED: u32 = 2023;

/// What mdrun puts on a GPU without being asked to, if the settings of the run allow all of it. A release that is not known
/// is taken for one of the newest, a build that is not known for one with CUDA.
#[must_use]
pub fn unasked_offload(gromacs_version: Option<&str>, build: &Build) -> GpuOffload {
    let year = gromacs_version.and_then(release_year).unwrap_or(u32::MAX);
    let is_backend =
        |word: &str| build.gpu_backend.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(word));
    let (opencl, hip) = (is_backend("OpenCL"), is_backend("HIP"));
    GpuOffload {
        nonbonded: true,
        pme: year >= PME_ON_GPU && !hip,
        bonded: year >= BONDED_ON_GPU && !opencl && !hip,
        update: year >= UPDATE_UNASKED && !opencl && !hip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::fixtures::water;

    fn system(atoms: u64) -> System {
        System::check(&water(atoms)).expect("water should be accepted")
    }

    #[test]
    fn fourteen_ranks_are_refused_for_their_factor_seven() {
        assert_eq!(check(&system(100_000), &Layout::cpu(14, 1), None), Err(Refusal::PrimeFactor(14, 7)));
        assert_eq!(check(&system(100_000), &Layout::cpu(2, 7), None), Ok(()));
        assert_eq!(check(&system(100_000), &Layout::cpu(15, 1), None), Ok(()));
    }

    #[test]
    fn one_rank_cannot_be_a_pme_rank() {
        for (ranks, npme) in [(1, 1), (2, 2), (4, 3), (24, 13)] {
            let layout = Layout { npme, ..Layout::cpu(ranks, 1) };
            assert_eq!(
                check(&system(100_000), &layout, None),
                Err(Refusal::TooManyPmeRanks(npme, ranks)),
                "{ranks} {npme}"
            );
        }
    }

    #[test]
    fn small_systems_are_not_cut_into_many_domains() {
        // A box of 3 nm can be cut twice along each edge.
        assert_eq!(check(&system(2700), &Layout::cpu(8, 1), None), Ok(()));
        assert_eq!(check(&system(2700), &Layout::cpu(12, 1), None), Err(Refusal::DomainsTooSmall(12)));
        assert_eq!(
            check(&system(300), &Layout::cpu(4, 1), None),
            Err(Refusal::TooFewAtoms(300.0, 4, MIN_ATOMS_PER_RANK))
        );
    }

    #[test]
    fn triclinic_boxes_are_cut_along_the_distance_of_their_faces() {
        // A rhombic dodecahedron whose images are 5 nm apart: cells of 5/4 nm along x are 1.02 nm thick.
        let mut raw = water(8840);
        raw.box_nm = Some([5.0, 5.0, 3.5355]);
        let dodecahedron = System::check(&raw).expect("water should be accepted");
        let layout = Layout::cpu(32, 1);
        assert_eq!(check(&dodecahedron, &layout, None), Err(Refusal::DomainsTooSmall(32)));
        assert_eq!(check(&dodecahedron, &Layout::cpu(18, 1), None), Ok(()));
        raw.box_nm = Some([5.0, 5.0, 3.6]);
        let rectangular = System::check(&raw).expect("water should be accepted");
        assert_eq!(check(&rectangular, &layout, None), Ok(()));
    }

    #[test]
    fn without_pme_there_are_no_pme_ranks() {
        let mut raw = water(100_000);
        raw.pme = None;
        let system = System::check(&raw).expect("water should be accepted");
        let layout = Layout { npme: 4, ..Layout::cpu(20, 1) };
        assert_eq!(check(&system, &layout, None), Err(Refusal::PmeRanksWithoutPme));
        let layouts = cpu_layouts(&system, 64);
        assert!(layouts.contains(&Layout::cpu(64, 1)) && layouts.iter().all(|layout| layout.npme == 0));
    }

    #[test]
    fn a_thin_pme_grid_limits_the_pme_ranks() {
        let mut raw = water(100_000);
        raw.pme = Some(scavenger_schema::tuning::PmeDescription { grid: [24, 96, 96], order: 4 });
        let system = System::check(&raw).expect("water should be accepted");
        // 24 lines along x are enough for 6 ranks, 96 along y for 24.
        assert_eq!(check_pme_ranks(&system, 320, 144), Ok(()));
        assert_eq!(check_pme_ranks(&system, 320, 150), Err(Refusal::PmeGridTooSmall(24 * 96, 150)));
    }

    #[test]
    fn a_pme_grid_need_not_be_divisible_by_its_ranks() {
        let mut raw = water(885_000);
        raw.pme = Some(scavenger_schema::tuning::PmeDescription { grid: [96; 3], order: 4 });
        let system = System::check(&raw).expect("water should be accepted");
        for npme in [64, 48, 36, 20] {
            assert_eq!(check_pme_ranks(&system, 256, npme), Ok(()), "{npme}");
        }
    }

    #[test]
    fn more_ranks_without_pme_ranks_than_were_measured_are_not_proposed() {
        let mut thin = water(100_000);
        thin.box_nm = Some([4.0, 4.0, 62.5]);
        let thin = System::check(&thin).expect("water should be accepted");
        for system in [system(1_000_000), system(72_900), system(3000), thin] {
            for cores in 1..=192 {
                let layouts = cpu_layouts(&system, cores);
                for layout in &layouts {
                    assert_eq!(layout.npme == 0, layout.ntmpi <= MOST_RANKS_WITHOUT_PME_RANKS, "{layout:?}");
                }
                assert!(
                    !layouts.is_empty() || cores > MAX_THREADS,
                    "{cores} cores for {} atoms",
                    system.atoms
                );
            }
        }
        // No number of PME ranks suits 49 ranks: fewer of them have more threads each.
        let of_49: Vec<(u32, u32)> =
            cpu_layouts(&system(72_900), 49).iter().map(|layout| (layout.ntmpi, layout.ntomp)).collect();
        assert_eq!(of_49, [(1, 49), (7, 7)]);
        // mdrun's own choice is among them.
        let own = npme::guess(&system(1_000_000), Simd::Avx2, 128);
        assert!(cpu_layouts(&system(1_000_000), 128).contains(&Layout { npme: own, ..Layout::cpu(128, 1) }));
    }

    #[test]
    fn gpu_rules() {
        let gpu = GpuClass::by_key("a100").expect("the A100 should be in the table");
        let system = system(100_000);
        let one = gpu_layout(&system, 8, gpu).expect("water should run on a GPU");
        assert_eq!((one.nb, one.pme, one.update), (Device::Gpu, Device::Gpu, Device::Cpu));
        assert_eq!(check(&system, &one, None), Err(Refusal::NoGpu));
        assert_eq!(
            check(&system, &Layout { ntmpi: 4, ..one }, Some(gpu)),
            Err(Refusal::PmeOnGpuNeedsOneRank(4))
        );
        assert_eq!(check(&system, &Layout { ntmpi: 4, npme: 1, ..one }, Some(gpu)), Ok(()));
        assert_eq!(
            check(&system, &Layout { update: Device::Gpu, ..one }, Some(gpu)),
            Err(Refusal::NotOnGpu("update"))
        );
        assert_eq!(check(&system, &Layout { nb: Device::Cpu, ..one }, Some(gpu)), Err(Refusal::NoGpu));
        assert_eq!(
            check(&system, &Layout { ntmpi: 3, gpus: 2, pme: Device::Cpu, ..one }, Some(gpu)),
            Err(Refusal::GpusAndRanks(2, 3))
        );
    }

    #[test]
    fn a_gpu_whose_memory_is_too_small_is_refused() {
        let gpu = GpuClass::by_key("k80").expect("the K80 should be in the table");
        assert!(gpu_layout(&system(30_000_000), 8, gpu).is_none());
    }

    #[test]
    fn every_number_of_cores_has_a_layout() {
        let system = system(3000);
        for cores in 1..=MAX_THREADS {
            let layouts = cpu_layouts(&system, cores);
            assert!(layouts.iter().all(|layout| layout.threads() == cores));
            assert!(!layouts.is_empty(), "{cores}");
        }
    }
}
