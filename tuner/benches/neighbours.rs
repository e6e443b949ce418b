//! What neighbours cost on the machine at hand: boxes of water on one core, alone and beside as many copies as the machine
//! has other cores, in turn. Prints the lines of `data/neighbours.csv`. Needs `gmx`; takes six to seven minutes, during which
//! the machine should do nothing else.

#![allow(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a bench prints, and fails where it cannot go on"
)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::available_parallelism;

/// Copies of GROMACS's own box of 216 molecules along each edge: 5,184 to 41,472 atoms.
const COPIES: [u64; 3] = [2, 3, 4];
/// Edge of that box in nm.
const CELL_NM: f64 = 1.86206;
const ATOMS_OF_CELL: u64 = 648;
/// How often each is measured; the middle counts.
const ROUNDS: usize = 5;
/// Steps times atoms of a run: some ten seconds on a core. Its second half is measured.
const WORK: u64 = 10_000_000;

/// Makes the box that a calibration simulates, too.
const MAKE: &str = include_str!("../../gromacs-submitter/src/probe/water.sh");

fn gmx(folder: &Path, arguments: &str) -> Child {
    Command::new("gmx")
        .args(["-quiet", "-nobackup"])
        .args(arguments.split(' '))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("gmx should be installed (package gromacs)")
}

/// Makes `water.tpr`.
fn make(folder: &Path, copies: u64) {
    let script = format!("make_folder() {{ mkdir -p -- \"$1\"; }}\n{MAKE}");
    let copies = copies.to_string();
    let made = Command::new("sh")
        .args(["-euc", &script, "make"])
        .args([folder.join("water.tpr"), folder.join("make")])
        .args([&copies, &copies, &copies, "-1"])
        .stdin(Stdio::null())
        .output()
        .expect("sh should start");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// Starts mdrun on one core of the machine.
fn mdrun(folder: &Path, core: usize, steps: u64) -> Child {
    let half = steps / 2;
    gmx(
        folder,
        &format!(
            "mdrun -s water.tpr -deffnm core-{core} -ntmpi 1 -ntomp 1 -pin on -pinoffset {core} -pinstride 1 -nb cpu \
             -notunepme -noconfout -nsteps {steps} -resetstep {half}"
        ),
    )
}

/// What stands behind a word at the beginning of a line of md.log, the last time.
fn said(log: &str, word: &str) -> String {
    let line = log.lines().rfind(|line| line.trim_start().starts_with(word)).expect("the log should have it");
    let mut words = line.trim_start()[word.len()..].split_whitespace().filter(|word| *word != "=");
    words.next().expect("a value should follow").to_owned()
}

/// ns per day of a run on the first core, beside copies on the next ones.
fn measure(folder: &Path, neighbours: usize, steps: u64) -> f64 {
    // The copies go on for longer, so that the one that is measured is never alone.
    let mut copies: Vec<Child> = (1..=neighbours).map(|core| mdrun(folder, core, 2 * steps)).collect();
    let status = mdrun(folder, 0, steps).wait().expect("mdrun should end");
    assert!(status.success(), "mdrun failed");
    for copy in &mut copies {
        copy.kill().and_then(|()| copy.wait()).expect("a copy should end");
    }
    let log = std::fs::read_to_string(folder.join("core-0.log")).expect("mdrun should write a log");
    said(&log, "Performance:").parse().expect("a speed should be a number")
}

fn main() {
    let cores = available_parallelism().expect("the cores should be known").get();
    assert!(cores > 1, "a machine of one core has no neighbours");
    println!("atoms,box_nm,pme_grid,neighbours,ns_per_day,low,high");
    for copies in COPIES {
        let atoms = ATOMS_OF_CELL * copies.pow(3);
        let folder = tempfile::tempdir().expect("should make a folder");
        make(folder.path(), copies);
        let mut speeds = [const { Vec::new() }; 2];
        for _ in 0..ROUNDS {
            for (speeds, neighbours) in speeds.iter_mut().zip([0, cores - 1]) {
                speeds.push(measure(folder.path(), neighbours, WORK / atoms));
            }
        }
        let log = std::fs::read_to_string(folder.path().join("core-0.log")).expect("there should be a log");
        let grid = said(&log, "fourier-nx");
        for (mut speeds, neighbours) in speeds.into_iter().zip([0, cores - 1]) {
            speeds.sort_by(f64::total_cmp);
            let (low, middle, high) = (speeds[0], speeds[ROUNDS / 2], speeds[ROUNDS - 1]);
            let edge = CELL_NM * copies as f64;
            println!("{atoms},{edge:.5},{grid},{neighbours},{middle},{low},{high}");
        }
    }
}
