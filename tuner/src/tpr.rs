//! What a run input file says, as a description of the system.
//!
//! Only GROMACS itself reads every version of its own format, so `gmx dump` reads it, and what matters in a dump is found as the
//! submitter finds it when it inspects a file where it is.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use scavenger_schema::gpu_offload;
use scavenger_schema::tuning::{GpuOffload, PmeDescription, Settings, SystemDescription};

/// Prints what the program `$1` says of itself and of the file `$2`.
const READ: &str = concat!(
    include_str!("../../gromacs-submitter/src/probe/dump.sh"),
    "command -v \"$1\" >/dev/null || exit 127\n",
    "\"$1\" -quiet --version 2>/dev/null | what_a_version_says\n",
    "\"$1\" -quiet dump -s \"$2\" 2>/dev/null | what_a_dump_says\n",
);
/// How the shell ends if there is no such program.
const NO_PROGRAM: i32 = 127;

/// Why a file gives no system.
#[derive(Debug, thiserror::Error)]
pub enum TprError {
    /// GROMACS is not there.
    #[error("cannot run {0} to read the run input file; install GROMACS, or name it with --gmx")]
    Start(String),
    /// There is no shell.
    #[error("cannot read what gmx dump prints")]
    Read(#[source] io::Error),
    /// It printed no such value, because it could not read the file or this is no run input file.
    #[error("gmx dump found no {0}; is this a run input file that this version of GROMACS can read?")]
    Missing(&'static str),
    /// It printed something else than a number.
    #[error("gmx dump says {key} = {value}, which is not a number in range")]
    Number {
        /// Name of the parameter.
        key: &'static str,
        /// What stands there.
        value: String,
    },
}

/// What GROMACS's own program `gmx` says of itself and of `file`, by the keys of an inspection.
pub fn read(gmx: &str, file: &Path) -> Result<BTreeMap<String, String>, TprError> {
    let mut shell = Command::new("sh");
    let output = shell.args(["-c", READ, "read", gmx]).arg(file).stdin(Stdio::null()).output();
    let output = output.map_err(TprError::Read)?;
    if output.status.code() == Some(NO_PROGRAM) {
        return Err(TprError::Start(gmx.to_owned()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let found = text.lines().filter_map(|line| line.split_once('='));
    Ok(found.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
}

/// The system about which this was found.
pub fn describe(values: &BTreeMap<String, String>) -> Result<SystemDescription, TprError> {
    let atoms: u64 = number(values, "atoms")?;
    let rcoulomb: f64 = number(values, "rcoulomb")?;
    let rvdw: f64 = number(values, "rvdw")?;
    // With a tolerance mdrun chooses both itself, and larger ones than the file says.
    let tolerance: f64 = number(values, "verlet-buffer-tolerance").unwrap_or(0.0);
    let (rlist_nm, nstlist) = if tolerance < 0.0 {
        SystemDescription::list_of(number(values, "rlist")?, number(values, "nstlist")?)
    } else {
        (None, None)
    };
    let uses_pme = values.get("coulombtype").is_some_and(|kind| kind.to_ascii_uppercase().starts_with("PME"));
    let pme = if uses_pme {
        let grid =
            [number(values, "fourier-nx")?, number(values, "fourier-ny")?, number(values, "fourier-nz")?];
        Some(PmeDescription { grid, order: number(values, "pme-order")? })
    } else {
        None
    };
    let on_gpu = gpu_offload::allowed(values);
    let usual = GpuOffload::default();
    let edges =
        values.get("box").map(|edges| edges.split(',').filter_map(|edge| edge.parse().ok()).collect());
    let box_nm = edges.and_then(|edges: Vec<f64>| <[f64; 3]>::try_from(edges).ok());
    Ok(SystemDescription {
        atoms,
        box_nm: box_nm.filter(|edges| edges.iter().all(|edge| *edge > 0.0)),
        nsteps: number(values, "nsteps")?,
        dt_ps: number(values, "dt")?,
        cutoff_nm: SystemDescription::cutoff_of(rcoulomb, rvdw),
        rlist_nm,
        nstlist,
        pme,
        bonded_interactions: number(values, "bonded").ok(),
        constraints: number(values, "constraints").ok(),
        gpu_offload: GpuOffload {
            nonbonded: on_gpu.nonbonded.unwrap_or(usual.nonbonded),
            pme: on_gpu.pme.unwrap_or(false),
            bonded: on_gpu.bonded.unwrap_or(usual.bonded),
            update: on_gpu.update.unwrap_or(usual.update),
        },
        settings: Settings::of(values, atoms),
    })
}

fn number<T: std::str::FromStr>(values: &BTreeMap<String, String>, key: &'static str) -> Result<T, TprError> {
    let text = values.get(key).ok_or(TprError::Missing(key))?;
    text.parse().map_err(|_| TprError::Number { key, value: text.chars().take(40).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found in the dump of a box of water.
    const WATER: &str = "atoms=2652 integrator=md dt=0.002 nsteps=5000 nstlist=10 verlet-buffer-tolerance=0.005 rlist=1.012 \
        coulombtype=PME rcoulomb=1 rvdw=0.9 fourier-nx=25 fourier-ny=26 fourier-nz=27 pme-order=4 vdw-type=Cut-off \
        tcoupl=V-rescale pcoupl=No constraint-algorithm=Lincs bonded=0 constraints=2652 energy-groups=1 \
        update-obstacles=none box=2.986,2.987,2.988";

    fn parse(found: &str) -> Result<SystemDescription, TprError> {
        let words = found.split_whitespace().filter_map(|word| word.split_once('='));
        describe(&words.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
    }

    fn water(from: &str, to: &str) -> SystemDescription {
        parse(&WATER.replace(from, to)).expect("the answer should be read")
    }

    #[test]
    fn reads_a_box_of_water() {
        let system = water("", "");
        assert_eq!((system.atoms, system.nsteps, system.dt_ps), (2652, 5000, 0.002));
        assert_eq!(system.box_nm, Some([2.986, 2.987, 2.988]));
        assert_eq!((system.cutoff_nm, system.rlist_nm, system.nstlist), (1.0, None, None));
        assert_eq!(system.pme, Some(PmeDescription { grid: [25, 26, 27], order: 4 }));
        assert_eq!((system.bonded_interactions, system.constraints), (Some(0), Some(2652)));
    }

    #[test]
    fn a_vacuum_has_a_cutoff_that_a_request_may_have() {
        let of = |cutoff: &str, rlist: &str, nstlist: &str| {
            let found = WATER
                .replace("rcoulomb=1", &format!("rcoulomb={cutoff}"))
                .replace("rvdw=0.9", &format!("rvdw={cutoff}"))
                .replace("tolerance=0.005", "tolerance=-1")
                .replace("rlist=1.012", &format!("rlist={rlist}"))
                .replace("nstlist=10", &format!("nstlist={nstlist}"))
                .replace("coulombtype=PME", "coulombtype=Cut-off");
            let system = parse(&found).expect("the answer should be read");
            scavenger_tuner_model::system::System::check(&system).expect("the tuner should take it");
            (system.cutoff_nm, system.rlist_nm, system.nstlist)
        };
        assert_eq!(of("0", "0", "0"), (5.0, None, None));
        assert_eq!(of("333.3", "333.3", "10"), (5.0, None, Some(10)));
        assert_eq!(of("1.2", "1.3", "20"), (1.2, Some(1.3), Some(20)));
    }

    #[test]
    fn settings_and_build_tell_what_may_run_on_a_gpu() {
        let of = |from: &str, to: &str, build: &str| {
            let offload = water(from, &format!("{to} {build}")).gpu_offload;
            [offload.nonbonded, offload.pme, offload.bonded, offload.update]
        };
        let cuda = "gromacs-version=2024.4 precision=mixed gpu-support=CUDA";
        assert_eq!(of("=none", "=none", ""), [true, true, true, false], "the build is not known");
        assert_eq!(of("=none", "=none", cuda), [true; 4]);
        assert_eq!(of("=none", "=none", "gpu-support=disabled"), [false; 4]);
        assert_eq!(of("=none", "=virtual-sites", cuda), [true, true, true, false]);
    }

    #[test]
    fn says_what_is_missing_or_no_number() {
        let error = |from: &str, to: &str| {
            parse(&WATER.replace(from, to)).expect_err("it should be refused").to_string()
        };
        assert!(error("atoms=", "atom=").contains("no atoms"));
        assert!(error("=2652 ", "=-3 ").contains("atoms = -3"));
        assert!(error("=26 ", "=99999999999 ").contains("fourier-ny"));
    }
}
