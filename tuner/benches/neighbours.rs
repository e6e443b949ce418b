//! What neighbours cost on the machine at hand: three boxes of water on a part of its cores, alone and beside copies of
//! themselves. 1, 2, 4, ... copies run at once until they fill it.
//!
//! ```sh
//! cargo bench -p scavenger-tuner --bench neighbours -- --cores 8 > rows.csv
//! ```
//!
//! Prints a row per run, in the columns of `data/neighbours.csv`, and then how to import them, so that the tuner learns
//! what neighbours cost there. Needs `gmx`. A copy has an eighth of the cores unless `--cores` says another number. It takes
//! about 13 minutes, on two cores 7, during which the machine should do nothing else. With `--short` it measures each once,
//! in a third of that.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::expect_used,
    reason = "a bench prints, and fails where it cannot go on"
)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::available_parallelism;

use scavenger_schema::gpu_offload::VERSION;
use scavenger_schema::tuning::{Build, Layout};
use scavenger_schema::water::WaterBox;
use scavenger_tuner::tpr;
use scavenger_tuner_model::Model;
use scavenger_tuner_model::calibrate::{fastest_layout, water};
use scavenger_tuner_model::hardware::{hardware_of, labels_from_cpuinfo};
use scavenger_tuner_model::model::Job;

/// Atoms of the boxes for each core of a copy.
const ATOMS_PER_CORE: [u64; 3] = [5000, 17_000, 41_000];
/// How often each is measured.
const ROUNDS: usize = 3;
/// Predicted seconds of a run. Its second half is measured, and what is shorter than 5 s is no measurement.
const SECONDS: f64 = 16.0;

/// Makes the box that a calibration simulates, too.
const MAKE: &str = include_str!("../../gromacs-submitter/src/probe/water.sh");

/// Makes `water.tpr`.
fn make(folder: &Path, found: WaterBox) {
    let script = format!("make_folder() {{ mkdir -p -- \"$1\"; }}\n{MAKE}");
    let made = Command::new("sh")
        .args(["-euc", &script, "make"])
        .args([folder.join("water.tpr"), folder.join("make")])
        .args(found.cells.map(|copies| copies.to_string()))
        .arg("-1")
        .stdin(Stdio::null())
        .output()
        .expect("sh should start");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// Starts a copy as a pod would.
fn mdrun(folder: &Path, copy: u32, layout: &Layout, steps: u64, version: Option<&str>) -> Child {
    let (steps, half) = (steps.to_string(), (steps / 2).to_string());
    Command::new("gmx")
        .args(["-quiet", "-nobackup", "mdrun", "-s", "water.tpr", "-deffnm", &format!("copy-{copy}")])
        .args(layout.mdrun_args(version))
        .args(["-notunepme", "-noconfout", "-nsteps", &steps, "-resetstep", &half])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("gmx should be installed (package gromacs)")
}

/// The number `place` behind a word at the beginning of a line of md.log, the last time.
fn said(log: &str, word: &str, place: usize) -> f64 {
    let line = log.lines().rfind(|line| line.trim_start().starts_with(word)).expect("the log should have it");
    let mut numbers = line.split_whitespace().filter_map(|text| text.parse().ok());
    numbers.nth(place).expect("a number should follow")
}

/// The log of a run beside `neighbours` copies.
fn measure(folder: &Path, neighbours: u32, start: impl Fn(u32, u64) -> Child) -> String {
    // They go on for longer, so that the one that is measured is never alone.
    let mut copies: Vec<Child> = (1..=neighbours).map(|copy| start(copy, 2)).collect();
    let status = start(0, 1).wait().expect("mdrun should end");
    assert!(status.success(), "mdrun failed");
    for copy in &mut copies {
        copy.kill().and_then(|()| copy.wait()).expect("a copy should end");
    }
    std::fs::read_to_string(folder.join("copy-0.log")).expect("mdrun should write a log")
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let rounds = if arguments.iter().any(|one| one == "--short") { 1 } else { ROUNDS };
    let cpus = u32::try_from(available_parallelism().expect("the cores should be known").get()).expect("few");
    let given = arguments.iter().position(|one| one == "--cores").and_then(|place| arguments.get(place + 1));
    let cores = given.map_or((cpus / 8).max(1), |cores| cores.parse().expect("--cores should be a number"));
    assert!((1..=cpus / 2).contains(&cores), "two copies of {cores} cores do not fit on {cpus}");

    let labels = labels_from_cpuinfo(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default());
    let hardware = hardware_of(&labels, 0).on_node(cpus * 1000);
    let values = tpr::read("gmx", Path::new("/dev/null")).expect("gmx should be installed (package gromacs)");
    let (version, build) = (values.get(VERSION).map(String::as_str), Build::of(&values));
    let words = [&build.simd, &build.precision, &build.mpi, &build.gpu_backend];
    let words = words.map(|word| word.clone().unwrap_or_default()).join(",");
    println!(
        "atoms,box_nm,pme_grid,ntmpi,ntomp,npme,ns_per_day,wall_seconds,gromacs_version,simd,precision,mpi,gpu_backend,\
         node_cpu_millicores,node_requested_millicores"
    );
    for atoms in ATOMS_PER_CORE {
        let found = WaterBox::near(atoms * u64::from(cores));
        let job = Job::new(&water(found), version, &build).expect("water should be accepted");
        let layout = fastest_layout(&job, &hardware, cores).expect("the cores should suit the box");
        let seconds = job.system.ns_per_day(Model::prior().speed(&job, &hardware, &layout, cores * 1000));
        let steps = ((SECONDS / seconds / 200.0).ceil() as u64) * 200;
        let folder = tempfile::tempdir().expect("should make a folder");
        make(folder.path(), found);
        let counts = || (0..).map(|power| 1_u32 << power).take_while(|copies| copies * cores <= cpus);
        for copies in (0..rounds).flat_map(|_| counts()) {
            let start = |copy, times| mdrun(folder.path(), copy, &layout, times * steps, version);
            let log = measure(folder.path(), copies - 1, start);
            let grid = ["fourier-nx", "fourier-ny", "fourier-nz"].map(|edge| said(&log, edge, 0).to_string());
            let edges = found.edges_nm().map(|edge| format!("{edge:.5}"));
            let Layout { ntmpi, ntomp, npme, .. } = layout;
            println!(
                "{},{},{},{ntmpi},{ntomp},{npme},{},{},{},{words},{},{}",
                found.atoms(),
                edges.join("x"),
                grid.join("x"),
                said(&log, "Performance:", 0),
                said(&log, "Time:", 1),
                version.unwrap_or_default(),
                cpus * 1000,
                copies * cores * 1000
            );
        }
    }
    let labels: Vec<String> = labels.iter().map(|(name, value)| format!(" --label {name}={value}")).collect();
    eprintln!("the tuner learns from these rows by: scavenger-tuner import rows.csv{}", labels.concat());
}
