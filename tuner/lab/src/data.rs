//! The measured table, read into jobs and placements. `tuner/data/README.md` says what is assumed.

use std::sync::OnceLock;

use scavenger_schema::tuning::{Build, GpuOffload, PmeDescription, SystemDescription, release_year};
use scavenger_tuner_model::hardware::{CpuClass, GpuClass};
use scavenger_tuner_model::layout::unasked_offload;
use scavenger_tuner_model::model::Job;
use scavenger_tuner_model::npme;
use scavenger_tuner_model::performance::{GpuPlacement, Placement};
use scavenger_tuner_model::system::{cube_of_water, usual_water};

const HECBIOSIM: &str = include_str!("../../data/hecbiosim.csv");
const ARCHER: &str = include_str!("../../data/archer-benchmarks.csv");
const ONE_NODE: &str = include_str!("../../data/one-node.csv");
const FEW_CORES: &str = include_str!("../../data/few-cores.csv");

/// One measured run.
#[derive(Clone, Debug)]
pub struct Row {
    /// Computer it ran on: what is left out as a whole.
    pub machine: String,
    /// Release of GROMACS: two builds on one computer differ nearly like two computers.
    pub version: String,
    /// Name of the system.
    pub system: String,
    /// Class of its CPUs.
    pub cpu: &'static CpuClass,
    /// The system.
    pub job: Job,
    /// How it ran.
    pub place: Placement,
    /// True if the PME ranks in `place` are mdrun's guess and were not recorded.
    pub npme_guessed: bool,
    /// Measured speed.
    pub ns_per_day: f64,
}

impl Row {
    /// True if it used a GPU.
    #[must_use]
    pub fn on_gpu(&self) -> bool {
        self.place.gpu.is_some()
    }

    /// Cycles per pair with the build that ran.
    #[must_use]
    pub fn pair_cycles(&self) -> f64 {
        self.cpu.pair_cycles_with(self.job.simd())
    }

    /// True if it had some cores of a node. Two threads on each of half of the cores were measured as a whole node.
    #[must_use]
    pub fn is_part_of_node(&self) -> bool {
        self.place.smt < 1.5 && self.place.busy < 0.99
    }

    /// Measured seconds per step.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        // ns per day and seconds per step are each other's inverse up to the same factor.
        self.job.system.ns_per_day(self.ns_per_day)
    }
}

/// A table with a header. Split at commas and not read by the crate csv: the files are compiled in, and none of them quotes.
pub(super) struct Table<'a> {
    header: Vec<&'a str>,
    lines: std::str::Lines<'a>,
}

impl<'a> Table<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let mut lines = text.lines();
        Self { header: lines.next().unwrap_or_default().split(',').collect(), lines }
    }

    pub(super) fn rows(self) -> impl Iterator<Item = impl Fn(&str) -> &'a str> {
        let header = self.header;
        self.lines.map(move |line| {
            let cells: Vec<&str> = line.split(',').collect();
            let header = header.clone();
            move |name: &str| {
                let column = header.iter().position(|title| *title == name);
                column.and_then(|at| cells.get(at).copied()).unwrap_or_default()
            }
        })
    }
}

/// All usable rows: those on one node, which is what is served.
#[must_use]
pub fn load() -> Vec<Row> {
    let hecbiosim = Table::new(HECBIOSIM).rows().filter_map(|cell| hecbiosim_row(&cell));
    let archer = Table::new(ARCHER).rows().filter_map(|cell| archer_row(&cell));
    let parts = [ONE_NODE, FEW_CORES].into_iter().flat_map(|text| Table::new(text).rows());
    hecbiosim.chain(archer).chain(parts.filter_map(|cell| part_of_node_row(&cell))).collect()
}

pub(super) fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite() && *value > 0.0)
}

fn job<'a>(cell: &impl Fn(&str) -> &'a str) -> Option<Job> {
    let point = |name: &str| Some(number(cell(name))? as u32);
    let atoms = number(cell("atoms"))?;
    let grid = [point("pme_nx")?, point("pme_ny")?, point("pme_nz")?];
    let system = SystemDescription {
        box_nm: None,
        dt_ps: number(cell("dt_ps"))?,
        cutoff_nm: number(cell("rcoulomb_nm")).or_else(|| number(cell("cutoff_nm")))?,
        pme: Some(PmeDescription { grid, order: 4 }),
        bonded_interactions: None,
        constraints: None,
        ..usual_water(atoms as u64, cube_of_water(atoms))
    };
    let simd = Some(cell("simd_build")).filter(|name| !name.is_empty()).map(str::to_owned);
    Job::new(&system, Some(cell("gromacs_version")), &Build { simd, ..Build::default() }).ok()
}

fn hecbiosim_row<'a>(cell: &impl Fn(&str) -> &'a str) -> Option<Row> {
    let machine = cell("machine");
    if cell("nodes") != "1" {
        return None;
    }
    let threads = number(cell("threads_per_rank"));
    // (CPU, GPU, cores beside the GPU and of the node)
    let (cpu, gpu, host) = match machine {
        "archer2" => ("zen2", None, (0.0, 128.0)),
        "bede" => ("neoverse-v2", Some("gh200"), (72.0, 72.0)),
        "jade2" => ("broadwell", Some("v100"), (4.0, 40.0)),
        "lumi" => ("zen3", Some("mi250x"), (16.0, 64.0)),
        _ => return None,
    };
    let place = if let Some(gpu) = gpu {
        gpu_place(gpu, 1.0, 1.0, host, cell("gromacs_version"))?
    } else {
        let threads = threads?;
        // With two threads per rank and more, the threads were the two of each of 64 cores.
        let (cores, smt) = if threads > 1.0 { (64.0, 2.0) } else { (128.0, 1.0) };
        let ranks = number(cell("ranks_per_node"))?;
        let busy = cores / 128.0;
        Placement { ranks, threads, npme: 0.0, cores, smt, busy, share: busy, gpu: None }
    };
    let cpu = if machine == "archer2" { archer2_since_december_2022()? } else { CpuClass::by_key(cpu)? };
    let job = job(cell)?;
    let npme = match place.gpu {
        None => npme::guess(&job.system, cpu.simd, place.ranks as u32),
        Some(_) => 0,
    };
    Some(Row {
        machine: machine.to_owned(),
        version: cell("gromacs_version").to_owned(),
        system: cell("system").to_owned(),
        cpu,
        job,
        npme_guessed: true,
        place: Placement { npme: f64::from(npme), ..place },
        ns_per_day: number(cell("ns_per_day"))?,
    })
}

/// Zen 2 at 2.0 GHz, to which ARCHER2 set its processors in December 2022 (its documentation, "CPU frequency"; before,
/// they ran at 2.25 GHz and boosted). The rows of hecbiosim.csv are from after that: the same layouts were 18 to 23%
/// faster in 2021.
fn archer2_since_december_2022() -> Option<&'static CpuClass> {
    static CLASS: OnceLock<Option<CpuClass>> = OnceLock::new();
    CLASS
        .get_or_init(|| Some(CpuClass { clock_ghz: 2.0, boost_ghz: 2.0, ..*CpuClass::by_key("zen2")? }))
        .as_ref()
}

fn archer_row<'a>(cell: &impl Fn(&str) -> &'a str) -> Option<Row> {
    if cell("remarks").contains("confout") || cell("nodes") != "1" {
        return None;
    }
    let (machine, cpu) = match cell("hardware") {
        "E5-2695 v4" => ("cirrus", "broadwell"),
        "E5-2697 v2" => ("archer", "ivybridge"),
        "EPYC 7742" => ("archer2", "zen2"),
        "Gold 6142" => ("csd3", "skylake-sp"),
        "P100(Myriad)" => ("myriad", "broadwell"),
        _ => return None,
    };
    let ranks = number(cell("ranks"))?;
    let cores = number(cell("cores"))?;
    let npme = cell("npme").parse().unwrap_or(0.0);
    let place = match number(cell("gpus")) {
        Some(gpus) => {
            let place = gpu_place("p100", gpus, ranks, (cores, 36.0), cell("gromacs_version"))?;
            Placement { npme, ..place }
        }
        None => Placement {
            ranks,
            threads: number(cell("threads"))?,
            npme,
            cores,
            smt: number(cell("smt"))?,
            busy: 1.0,
            share: 1.0,
            gpu: None,
        },
    };
    Some(Row {
        version: cell("gromacs_version").to_owned(),
        machine: machine.to_owned(),
        system: cell("system").to_owned(),
        cpu: CpuClass::by_key(cpu)?,
        job: job(cell)?,
        npme_guessed: false,
        place,
        ns_per_day: number(cell("ns_per_day"))?,
    })
}

/// A part of a node that nobody else used, or of which it is not recorded.
fn part_of_node_row<'a>(cell: &impl Fn(&str) -> &'a str) -> Option<Row> {
    let (machine, cpu) = match cell("machine") {
        // Two groups measured on Bridges-2, each with a build of its own: one machine, which is left out as a whole.
        "Bridges2-shirts" | "Bridges2-schwinns" => ("bridges2", "zen2"),
        "LUMI-G-cpu" => ("lumi-g", "zen3"),
        "Adroit" => ("adroit", "skylake-sp"),
        "TigerGpu" => ("tigergpu", "broadwell"),
        "Traverse" => ("traverse", "power9"),
        "Tiger" => ("tiger", "skylake-sp"),
        "Perseus" => ("perseus", "broadwell"),
        "Della-haswell" => ("della-haswell", "haswell"),
        "Della-cascade" => ("della-cascade", "cascadelake"),
        _ => return None,
    };
    if cell("set") == "skip" {
        return None;
    }
    let (ranks, threads) = (number(cell("ranks"))?, number(cell("threads"))?);
    let (cores, of_node) = (number(cell("cores"))?, number(cell("cores_per_node"))?);
    let (cpu, job) = (CpuClass::by_key(cpu)?, job(cell)?);
    let is_on_gpu = |name: &str| cell(name) == "gpu";
    let gpu = match cell("gpu") {
        "" => None,
        product => Some(GpuPlacement {
            class: GpuClass::by_key(&product.to_ascii_lowercase())?,
            count: number(cell("gpus"))?,
            pme: is_on_gpu("gpu_pme"),
            bonded: is_on_gpu("gpu_bonded"),
            update: is_on_gpu("gpu_update"),
        }),
    };
    // Where it is not recorded: mdrun's own rule.
    let recorded: Option<f64> = cell("npme").parse().ok();
    let guessed = || if gpu.is_some() { 0 } else { npme::guess(&job.system, cpu.simd, ranks as u32) };
    let npme = recorded.unwrap_or_else(|| f64::from(guessed()));
    let share = cores / of_node;
    let place = Placement { ranks, threads, npme, cores, smt: number(cell("smt"))?, busy: share, share, gpu };
    Some(Row {
        machine: machine.to_owned(),
        version: format!("{} {}", cell("gromacs_version"), cell("simd_build")),
        system: cell("system").to_owned(),
        cpu,
        job,
        place,
        npme_guessed: recorded.is_none(),
        ns_per_day: number(cell("ns_per_day"))?,
    })
}

/// A run with what mdrun puts on the GPU without being asked to.
fn gpu_place(
    gpu: &str,
    gpus: f64,
    ranks: f64,
    (cores, of_node): (f64, f64),
    version: &str,
) -> Option<Placement> {
    let class = GpuClass::by_key(gpu)?;
    release_year(version)?;
    let GpuOffload { pme, bonded, update, .. } = unasked_offload(Some(version), &Build::default());
    let gpu = GpuPlacement { class, count: gpus, pme, bonded, update };
    let threads = (cores / ranks).floor().max(1.0);
    let share = cores / of_node;
    Some(Placement { ranks, threads, npme: 0.0, cores, smt: 1.0, busy: 1.0, share, gpu: Some(gpu) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use scavenger_tuner_model::system::MEASURED_ATOMS;

    #[test]
    fn every_usable_row_is_read() {
        let rows = load();
        let of = |machine: &str| rows.iter().filter(|row| row.machine == machine).count();
        assert_eq!(of("archer2"), 39 + 1);
        assert_eq!((of("bede"), of("jade2"), of("lumi"), of("myriad")), (5, 5, 5, 60));
        assert_eq!((of("bridges2"), of("lumi-g")), (31, 10));
        assert_eq!((of("tiger"), of("perseus"), of("della-haswell"), of("della-cascade")), (32, 11, 1, 9));
        // Those of the set "skip" were bound to cores in a way that no pod is.
        assert_eq!((of("adroit"), of("tigergpu"), of("traverse")), (10, 7, 7));
        // Of the runs on one node some wrote coordinates in the timed part.
        assert_eq!((of("archer"), of("cirrus"), of("csd3")), (7, 8, 6));
    }

    #[test]
    fn pme_ranks_are_guessed_as_the_logs_recorded_them() {
        let rows = load();
        let recorded: Vec<_> = rows.iter().filter(|row| !row.npme_guessed && !row.on_gpu()).collect();
        let right = recorded.iter().filter(|row| {
            f64::from(npme::guess(&row.job.system, row.cpu.simd, row.place.ranks as u32)) == row.place.npme
        });
        assert!(
            recorded.len() > 60 && right.clone().count() * 10 >= recorded.len() * 9,
            "{} of {}",
            right.count(),
            recorded.len()
        );
    }

    #[test]
    fn the_model_knows_which_sizes_were_measured() {
        let sizes = load().into_iter().map(|row| row.job.system.atoms);
        // The largest ran on several nodes.
        assert_eq!(sizes.fold(f64::INFINITY, f64::min), MEASURED_ATOMS.min);
    }

    #[test]
    fn seconds_are_the_inverse_of_speed() {
        let row = &load()[0];
        assert!((row.job.system.ns_per_day(row.seconds()) / row.ns_per_day - 1.0).abs() < 1e-12);
    }
}
