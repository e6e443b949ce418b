//! Small ScavengerJobs that read a file where it is: the .tpr file of a row, or the checkpoint of a submission. That of
//! a calibration makes the .tpr file first, and that of a command makes its working directory and reads nothing.
//!
//! Each runs a constant script with `sh -c SCRIPT NAME PATH`: the path is `$1`, so no shell ever parses a user's
//! string. The script writes a few `key=value` lines (under 1 kB) to the termination message, which the operator
//! copies into the ScavengerJob's status; the same lines are in the pod's log.

mod expanded;

use std::collections::BTreeMap;

use scavenger_schema::gpu_offload;
use scavenger_schema::simulation::{GromacsToTune, MINIMISERS, System};
use scavenger_schema::tuning::SystemDescription;

pub use expanded::without_checkpoints;

/// Reads the .tpr file and makes the working directory.
pub const INSPECT_SCRIPT: &str = concat!(
    include_str!("folder.sh"),
    include_str!("checkpoint.sh"),
    include_str!("dump.sh"),
    include_str!("inspect.sh")
);

/// Makes the .tpr file by grompp, unless something has been computed with it, and reads it as [`INSPECT_SCRIPT`] does.
pub const GROMPP_SCRIPT: &str = concat!(
    include_str!("folder.sh"),
    include_str!("checkpoint.sh"),
    include_str!("grompp.sh"),
    include_str!("dump.sh"),
    include_str!("inspect.sh")
);

/// Makes a box of water, and its working directory, and reads the .tpr file as [`INSPECT_SCRIPT`] does.
pub const WATER_SCRIPT: &str = concat!(
    include_str!("folder.sh"),
    include_str!("checkpoint.sh"),
    include_str!("water.sh"),
    include_str!("dump.sh"),
    include_str!("inspect.sh")
);

/// Makes the working directory of a command.
pub const PREPARE_SCRIPT: &str = concat!(include_str!("folder.sh"), include_str!("prepare.sh"));

/// Reads the step of a checkpoint, and how the newest log beside it ends.
pub const VERIFY_SCRIPT: &str = concat!(include_str!("checkpoint.sh"), include_str!("verify.sh"));

/// Starts mdrun, in the pod of a simulation, with a checkpoint that it can read.
pub const START_SCRIPT: &str = concat!(include_str!("checkpoint.sh"), include_str!("start.sh"));

/// Why the answer of a probe is of no use.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ProbeError {
    /// The lines are not there.
    #[error("the answer has no line {0:?}")]
    FindAnswer(&'static str),
    /// A value is missing or no number.
    #[error(
        "GROMACS printed no usable {key} for the .tpr file ({value:?}); give the column a value in the row"
    )]
    ReadValue {
        /// Its name in the dump.
        key: &'static str,
        /// What was there.
        value: String,
    },
    /// Test particle insertion, normal modes and the like: neither checkpoints, nor over soon.
    #[error(
        "integrator {0} writes no checkpoints and may take long; run it yourself. The queue takes dynamics (integrator md, md-vv, md-vv-avek, sd, bd) and minimisations (steep, cg, l-bfgs)"
    )]
    UseIntegrator(String),
    /// A run without an end never completes.
    #[error("nsteps is -1: the simulation would never end; set nsteps (gmx convert-tpr -nsteps) and retry")]
    EndSimulation,
    /// Nothing to compute.
    #[error("the .tpr file holds no atoms; write it again with gmx grompp")]
    FindAtoms,
    /// No time passes.
    #[error("dt is {0} ps in the .tpr file; it must be above 0 and at most 1 ps")]
    UseTimeStep(f64),
}

/// What an inspection found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Inspection {
    /// The columns it can fill.
    pub system: System,
    /// The image that ran it, as exactly as the node says; none where nobody asked.
    pub image: Option<String>,
    /// False if mdrun cannot lock its files there; none if nothing says so.
    pub append: Option<bool>,
    /// True if it has just made the file itself.
    pub made: bool,
    /// Every value it printed, for people and for later.
    pub values: BTreeMap<String, String>,
}

impl Inspection {
    /// True if the file minimises an energy.
    #[must_use]
    pub fn minimises(&self) -> bool {
        self.values.get("integrator").is_some_and(|name| MINIMISERS.contains(&name.as_str()))
    }
}

/// What the row's .tpr file says, as it was read last; nothing before the inspection.
#[must_use]
pub fn file_system(row: &GromacsToTune) -> System {
    let values = row.inspected.as_ref().map(|values| values.0.clone());
    values.and_then(|values| inspection_of(values).ok()).map(|found| found.system).unwrap_or_default()
}

/// Integrators that can go on from a checkpoint.
const DYNAMICS: [&str; 6] = ["md", "md-vv", "md-vv-avek", "sd", "sd1", "bd"];

/// What stands for the time step of a minimisation, in ps: the tuner counts steps by it.
const DT_OF_MINIMISATION: f64 = 0.001;

/// Key of the .tpr file's checksum and size.
const CHECKSUM: &str = "tpr-checksum";

/// Key of what `gmx` of the image is, where it is no program.
const LAUNCHER: &str = "launcher";

/// True if the image's `gmx` is a script: process 1 is then a shell, which ignores SIGTERM and passes it on to nobody.
#[must_use]
pub fn starts_by_script(row: &GromacsToTune) -> bool {
    row.inspected.as_ref().is_some_and(|values| values.get(LAUNCHER).is_some_and(|kind| kind == "script"))
}

/// Key of the name of the row's own copy of the .tpr file.
pub(crate) const RUN_INPUT: &str = "run-input";

/// Says of a file that the inspection has just made, and of nothing in it.
const MADE: &str = "made";

/// What may differ between two readings of one file, or of a file that only goes on for longer.
const MAY_DIFFER: [&str; 10] = [
    CHECKSUM,
    RUN_INPUT,
    expanded::LEGACY,
    LAUNCHER,
    "nsteps",
    "simulation-part",
    "locks",
    gpu_offload::VERSION,
    gpu_offload::GPU_SUPPORT,
    // Written by the run itself when it went on.
    "box",
];

/// How the .tpr file has changed since it was read before, as far as it matters to a run that is on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It is the same.
    None,
    /// It goes on for longer, or ends earlier: the checkpoint fits.
    Steps,
    /// It is another one. What differs is named, unless it is nothing that the inspection sees.
    Other(Vec<String>),
}

/// Compares two readings. Without a checksum of both, nobody can say.
#[must_use]
pub fn change(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Change {
    if before.get(CHECKSUM).is_none() || before.get(CHECKSUM) == after.get(CHECKSUM) {
        return Change::None;
    }
    let differ: Vec<String> = after
        .iter()
        .filter(|(key, value)| !MAY_DIFFER.contains(&key.as_str()) && before.get(*key) != Some(value))
        .map(|(key, _)| key.clone())
        .collect();
    if differ.is_empty() && before.get("nsteps") != after.get("nsteps") {
        Change::Steps
    } else {
        Change::Other(differ)
    }
}

/// Reads what the inspection script printed, wherever in `text` it stands.
///
/// # Errors
/// [`ProbeError`] with a sentence for the row.
pub fn parse_inspection(text: &str) -> Result<Inspection, ProbeError> {
    inspection_of(values_behind(text, "inspection=1")?)
}

/// Reads what the script printed that prepares a command: nothing about a simulation.
///
/// # Errors
/// [`ProbeError`] if it did not come to its end.
pub fn parse_preparation(text: &str) -> Result<Inspection, ProbeError> {
    let values = values_behind(text, "prepared=1")?;
    Ok(Inspection { values, ..Inspection::default() })
}

fn inspection_of(mut values: BTreeMap<String, String>) -> Result<Inspection, ProbeError> {
    let made = values.remove(MADE).is_some();
    let word = |key: &str| values.get(key).map(String::as_str).unwrap_or_default();
    let integrator = word("integrator");
    let minimises = MINIMISERS.contains(&integrator);
    if !minimises && !DYNAMICS.contains(&integrator) {
        return Err(ProbeError::UseIntegrator(integrator.to_owned()));
    }
    let atoms: i64 = number(&values, "atoms")?;
    if atoms < 1 {
        return Err(ProbeError::FindAtoms);
    }
    let nsteps: i64 = number(&values, "nsteps")?;
    if nsteps < 0 {
        return Err(ProbeError::EndSimulation);
    }
    let dt_ps: f64 = number(&values, "dt")?;
    // A minimisation has none, whatever its file says.
    let dt_ps = if minimises { DT_OF_MINIMISATION } else { dt_ps };
    if !(dt_ps > 0.0 && dt_ps <= 1.0) {
        return Err(ProbeError::UseTimeStep(dt_ps));
    }
    let rcoulomb: f64 = number(&values, "rcoulomb")?;
    let rvdw: f64 = number(&values, "rvdw")?;
    let cutoff_nm = Some(SystemDescription::cutoff_of(rcoulomb, rvdw));
    // With a tolerance mdrun chooses both itself, and larger ones than the file says.
    let fixed_list =
        optional::<f64>(&values, "verlet-buffer-tolerance").is_some_and(|tolerance| tolerance < 0.0);
    let (rlist_nm, nstlist) = SystemDescription::list_of(
        optional(&values, "rlist").filter(|_| fixed_list).unwrap_or(0.0),
        optional(&values, "nstlist").filter(|_| fixed_list).unwrap_or(0),
    );
    let uses_pme = word("coulombtype").to_ascii_lowercase().starts_with("pme");
    let pme_order: Option<i32> =
        optional(&values, "pme-order").filter(|order| uses_pme && (3..=12).contains(order));
    let pme_grid = ["fourier-nx", "fourier-ny", "fourier-nz"]
        .map(|key| optional::<i32>(&values, key).filter(|points| uses_pme && (4..=4096).contains(points)))
        .into_iter()
        .collect::<Option<Vec<i32>>>();
    let on_gpu = gpu_offload::allowed(&values);
    let system = System {
        atoms: Some(atoms),
        box_nm: box_diagonal(word("box")),
        nsteps: Some(nsteps),
        init_step: Some(optional(&values, "init-step").filter(|step| *step >= 0).unwrap_or(0)),
        dt_ps: Some(dt_ps),
        cutoff_nm,
        rlist_nm,
        nstlist: nstlist.and_then(|steps| i32::try_from(steps).ok()),
        pme_order: pme_order.filter(|_| pme_grid.is_some()),
        gpu_pme: on_gpu.pme,
        pme_grid,
        bonded_interactions: optional(&values, "bonded").filter(|count| *count >= 0),
        constraints: optional(&values, "constraints").filter(|count| *count >= 0),
        gpu_nonbonded: on_gpu.nonbonded,
        gpu_bonded: on_gpu.bonded,
        gpu_update: on_gpu.update,
        gromacs_version: Some(word("gromacs-version"))
            .filter(|version| !version.is_empty() && version.len() <= 100)
            .map(ToOwned::to_owned),
    };
    let append = (word("locks") == "no").then_some(false);
    Ok(Inspection { system, image: None, append, made, values })
}

/// What the verification found.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Verification {
    /// Step of the checkpoint.
    pub step: i64,
    /// True if that is the checkpoint before, since the newest one cannot be read.
    pub is_backup: bool,
    /// Speed in ns per day and wall time in seconds, as the newest log ends.
    pub speed: Option<(f64, f64)>,
}

/// Reads what the verification script printed.
///
/// # Errors
/// [`ProbeError`] if there is no step.
pub fn parse_verification(text: &str) -> Result<Verification, ProbeError> {
    let values = values_behind(text, "verification=1")?;
    let positive =
        |key: &str| optional::<f64>(&values, key).filter(|value| value.is_finite() && *value > 0.0);
    Ok(Verification {
        step: number(&values, "step")?,
        is_backup: values.contains_key("backup"),
        speed: positive("performance").zip(positive("time")),
    })
}

/// The `key=value` lines from the line `start` on.
fn values_behind(text: &str, start: &'static str) -> Result<BTreeMap<String, String>, ProbeError> {
    let mut lines = text.lines().map(str::trim).skip_while(|line| !line.ends_with(start));
    lines.next().ok_or(ProbeError::FindAnswer(start))?;
    Ok(lines
        .filter_map(|line| line.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect())
}

fn number<T: std::str::FromStr>(
    values: &BTreeMap<String, String>,
    key: &'static str,
) -> Result<T, ProbeError> {
    optional(values, key)
        .ok_or_else(|| ProbeError::ReadValue { key, value: values.get(key).cloned().unwrap_or_default() })
}

fn optional<T: std::str::FromStr>(values: &BTreeMap<String, String>, key: &str) -> Option<T> {
    values.get(key)?.parse().ok()
}

fn box_diagonal(text: &str) -> Option<Vec<f64>> {
    let lengths: Vec<f64> =
        text.split(',').map(|length| length.trim().parse().ok()).collect::<Option<_>>()?;
    (lengths.len() == 3 && lengths.iter().all(|length| *length > 0.0 && *length < 1e6)).then_some(lengths)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WATER: &str = include_str!("../../tests/fixtures/inspection-2022.txt");

    #[test]
    fn the_answer_fills_the_columns() {
        let inspection = parse_inspection(WATER).expect("should be a good answer");
        assert_eq!(
            inspection.system,
            System {
                atoms: Some(2652),
                box_nm: Some(vec![3.0, 3.0, 3.0]),
                nsteps: Some(4000),
                init_step: Some(0),
                dt_ps: Some(0.002),
                cutoff_nm: Some(0.9),
                pme_grid: Some(vec![25, 25, 25]),
                pme_order: Some(4),
                bonded_interactions: Some(0),
                constraints: Some(2652),
                gpu_nonbonded: Some(false),
                gpu_pme: Some(false),
                gpu_bonded: Some(false),
                gpu_update: Some(false),
                gromacs_version: Some("2022.5-Debian_2022.5_2".to_owned()),
                ..System::default()
            }
        );
        assert_eq!(inspection.values["tcoupl"], "V-rescale");
    }

    #[test]
    fn a_build_with_gpu_support_may_use_what_it_knows() {
        let text = WATER
            .replace("gpu-support=disabled", "gpu-support=CUDA")
            .replace("gromacs-version=2022.5-Debian_2022.5_2", "gromacs-version=2024.4");
        let system = parse_inspection(&text).expect("should be a good answer").system;
        assert_eq!((system.gpu_nonbonded, system.gpu_bonded), (None, None), "as the row or the tuner says");
        assert_eq!((system.gpu_pme, system.gpu_update), (Some(true), Some(true)));
        let lj_pme = text.replace("vdw-type=Cut-off", "vdw-type=PME");
        let system = parse_inspection(&lj_pme).expect("should be a good answer").system;
        assert_eq!((system.gpu_pme, system.gpu_update), (Some(false), Some(false)));
    }

    #[test]
    fn a_version_that_is_missing_or_far_too_long_is_not_known() {
        let longest = "2".repeat(100);
        for (line, version) in [
            (String::new(), None),
            ("gromacs-version=".to_owned(), None),
            (format!("gromacs-version={longest}"), Some(longest.clone())),
            (format!("gromacs-version={longest}2"), None),
        ] {
            let text = WATER.replace("gromacs-version=2022.5-Debian_2022.5_2", &line);
            let system = parse_inspection(&text).expect("should be a good answer").system;
            assert_eq!(system.gromacs_version, version, "{line}");
        }
    }

    #[test]
    fn what_stands_before_the_answer_does_not_matter() {
        let text = format!("Reading file a=b\nnsteps=7\n{WATER}");
        assert_eq!(parse_inspection(&text), parse_inspection(WATER));
    }

    #[test]
    fn the_list_counts_only_if_mdrun_may_not_change_it() {
        let text = WATER.replace("verlet-buffer-tolerance=0.005", "verlet-buffer-tolerance=-1");
        let system = parse_inspection(&text).expect("should be a good answer").system;
        assert_eq!((system.rlist_nm, system.nstlist), (Some(0.9), Some(10)));
    }

    #[test]
    fn a_cut_off_beyond_the_longest_counts_as_the_longest() {
        for cutoff in ["333", "0"] {
            let text = WATER
                .replace("rcoulomb=0.9", &format!("rcoulomb={cutoff}"))
                .replace("rvdw=0.9", &format!("rvdw={cutoff}"));
            let system = parse_inspection(&text).expect("should be a good answer").system;
            assert_eq!(system.cutoff_nm, Some(5.0), "{cutoff}");
        }
    }

    #[test]
    fn a_minimisation_has_steps_and_no_time_step() {
        for integrator in MINIMISERS {
            let text = WATER
                .replace("integrator=md", &format!("integrator={integrator}"))
                .replace("dt=0.002", "dt=0");
            let system = parse_inspection(&text).expect("should be a good answer").system;
            assert_eq!((system.nsteps, system.dt_ps), (Some(4000), Some(DT_OF_MINIMISATION)), "{integrator}");
        }
    }

    #[test]
    fn bad_files_are_named() {
        for (from, to, error) in [
            ("integrator=md", "integrator=tpi", ProbeError::UseIntegrator("tpi".to_owned())),
            ("nsteps=4000", "nsteps=-1", ProbeError::EndSimulation),
            ("atoms=2652", "atoms=0", ProbeError::FindAtoms),
            ("dt=0.002", "dt=0", ProbeError::UseTimeStep(0.0)),
            ("rvdw=0.9", "rvdw=x", ProbeError::ReadValue { key: "rvdw", value: "x".to_owned() }),
            ("inspection=1", "", ProbeError::FindAnswer("inspection=1")),
        ] {
            assert_eq!(parse_inspection(&WATER.replace(from, to)), Err(error), "{to}");
        }
    }

    #[test]
    fn a_file_that_was_written_again_is_told_from_one_that_goes_on_for_longer() {
        let read = |text: &str| parse_inspection(text).expect("should be a good answer").values;
        let with = |sum: &str, text: &str| read(&format!("{text}\ntpr-checksum={sum}\n"));
        let before = with("1-2", WATER);
        assert_eq!(change(&before, &with("1-2", WATER)), Change::None);
        assert_eq!(change(&read(WATER), &with("1-2", WATER)), Change::None, "nobody knows");
        let longer = WATER.replace("nsteps=4000", "nsteps=8000");
        assert_eq!(change(&before, &with("3-2", &longer)), Change::Steps);
        let other = longer.replace("dt=0.002", "dt=0.001");
        assert_eq!(change(&before, &with("3-2", &other)), Change::Other(vec!["dt".to_owned()]));
        assert_eq!(change(&before, &with("3-2", WATER)), Change::Other(Vec::new()));
    }

    #[test]
    fn without_locks_output_is_not_appended_to() {
        let append = |text: String| parse_inspection(&text).expect("should be a good answer").append;
        assert_eq!(append(format!("{WATER}locks=no\n")), Some(false));
        assert_eq!(append(format!("{WATER}locks=yes\n")), None);
        assert_eq!(append(WATER.to_owned()), None);
    }

    #[test]
    fn a_checkpoint_tells_its_step() {
        let alone = Verification { step: 4000, ..Verification::default() };
        assert_eq!(parse_verification("verification=1\nstep=4000\n"), Ok(alone));
        assert!(parse_verification("step=4000").is_err());
    }

    #[test]
    fn the_end_of_a_log_tells_the_speed() {
        let text = "verification=1\nstep=300\nperformance=2.959\ntime=17.577\n";
        let found = parse_verification(text).expect("should be a good answer");
        assert_eq!((found.step, found.speed), (300, Some((2.959, 17.577))));
        let bad = parse_verification("verification=1\nstep=3\nperformance=nan\ntime=1\n");
        assert_eq!(bad, Ok(Verification { step: 3, ..Verification::default() }));
    }

    /// The script on a log of GROMACS 2022 that mdrun appended to: the last speed counts.
    #[test]
    fn the_script_finds_the_last_speed() {
        let folder = tempfile::tempdir().expect("should make a folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("should write");
            path
        };
        let log = include_str!("../../tests/fixtures/md-end.log");
        let earlier = log.replace("2.959", "1.000");
        write("md.log", &format!("{earlier}{log}"));
        let checkpoint = write("state.cpt", "");
        let gmx = write("gmx", "#!/bin/sh\necho 'step = 300'\n");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&gmx, mode).expect("should make it a program");
        let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
        let output = std::process::Command::new("sh")
            .args(["-c", VERIFY_SCRIPT, "verify"])
            .arg(&checkpoint)
            .env("PATH", path)
            .env("TERMINATION_LOG", folder.path().join("message"))
            .output()
            .expect("should run");
        let text = String::from_utf8_lossy(&output.stdout);
        let found = parse_verification(&text).expect("should be an answer");
        assert_eq!((found.step, found.speed), (300, Some((2.959, 17.577))), "{text}");
        assert!(text.len() < 1000, "the operator copies at most 1 kB: {}", text.len());
        std::fs::remove_file(folder.path().join("md.log")).expect("should remove");
        let without = parse_verification("verification=1\nstep=300\n");
        assert_eq!(without.map(|found| found.speed), Ok(None));
    }

    /// What a simulation wrote stays, whatever becomes of its row: a script removes what it has made for the moment, and copies of
    /// the .tpr file that the row runs no more.
    #[test]
    fn no_script_removes_what_mdrun_wrote() {
        const OWN: [&str; 8] = [
            "$work/new.tpr",
            "$2/new.tpr",
            "$2/new.cpt",
            "$1/new.cpt",
            "$2/.lock-$$",
            "$base/.oldest-checkpoint",
            "\"$old\"",
            "cell.gro box.gro topol.top grompp.mdp mdout.mdp",
        ];
        let scripts = [GROMPP_SCRIPT, WATER_SCRIPT, VERIFY_SCRIPT, START_SCRIPT];
        let scripts = scripts.into_iter().chain([
            crate::multidir::RUN_SCRIPT,
            crate::multidir::INSPECT_SCRIPT,
            crate::multidir::VERIFY_SCRIPT,
        ]);
        let lines = scripts.flat_map(str::lines).map(str::trim).filter(|line| !line.starts_with("# "));
        let removing: Vec<&str> =
            lines.filter(|line| line.split([' ', ';', '{']).any(|word| word == "rm")).collect();
        assert!(removing.len() > 5, "they were not found");
        for line in removing {
            assert!(OWN.iter().any(|name| line.contains(name)), "{line}");
        }
        assert!(WATER_SCRIPT.contains("cd -- \"$2\" || exit 5"), "in a folder that it has made itself");
    }

    #[test]
    fn the_answer_fits_into_a_termination_message() {
        assert!(WATER.len() < 1000, "the operator copies at most 1 kB: {}", WATER.len());
    }
}
