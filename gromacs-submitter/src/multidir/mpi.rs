//! One mdrun of a build for library MPI, which its launcher starts: `mpirun -np 8 gmx_mpi mdrun`.
//!
//! Everything runs in one pod, so the launcher needs no ssh and no network. What it needs it is told by variables, which launchers
//! that do not know them leave alone: `-np` is the one option that all of them have. A script finds checkpoints that belong
//! together before mdrun starts, and says in mdrun's words how far it is.

use scavenger_schema::scavenger_job::EnvVar;
use scavenger_schema::simulation::{GromacsToTune, LadderRung};
use scavenger_schema::supervisor::{JobSupervisor, Recipients, SignalRule};

use super::Places;
use crate::mdrun_log::progress_seconds;
use crate::text::literal;

/// Runs the launcher.
pub const MPI_SCRIPT: &str =
    concat!(include_str!("../probe/checkpoint.sh"), include_str!("several.sh"), include_str!("mpi.sh"));

/// The program, as GROMACS names a build for library MPI.
pub(crate) const PROGRAM: &str = "gmx_mpi";

/// Tells the scripts to use that program in the place of gmx.
const PROGRAM_VARIABLE: &str = "GROMACS_PROGRAM";

/// Becomes mdrun, and leaves its number where the script finds it: launchers end their ranks a second after SIGTERM, so the script
/// sends it to the ranks.
const RANK: &str = r#": >"$RANKS/$$"; exec "$@""#;

/// What the launchers of Open MPI 4 and 5 and of Intel MPI are told. That of MPICH binds nothing, and starts as many ranks as it
/// is told.
const VARIABLES: [(&str, &str); 9] = [
    // More ranks than cores take turns.
    ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
    ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
    // The cores are not the pod's own, and two pods would be bound to the same.
    ("OMPI_MCA_hwloc_base_binding_policy", "none"),
    ("PRTE_MCA_hwloc_default_binding_policy", "none"),
    ("I_MPI_PIN", "off"),
    // A rank that waits for another one leaves its core to it.
    ("OMPI_MCA_mpi_yield_when_idle", "1"),
    // Ranks may not read each other's memory where the runtime forbids process_vm_readv.
    ("OMPI_MCA_btl_vader_single_copy_mechanism", "none"),
    ("OMPI_MCA_smsc", "^cma"),
    // 4 MiB for each rank: the 64 MiB of a pod's /dev/shm would hold 15.
    ("OMPI_MCA_btl_vader_backing_directory", "/tmp"),
];

/// The variables of a pod that runs the program: of a simulation, or of a probe.
pub(crate) fn environment(row: &GromacsToTune) -> Vec<EnvVar> {
    if !row.uses_library_mpi() {
        return Vec::new();
    }
    let variables = [(PROGRAM_VARIABLE, PROGRAM)].into_iter().chain(VARIABLES);
    let variable = |(name, value): (&str, &str)| EnvVar {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        value_from: None,
    };
    variables.map(variable).collect()
}

/// Who gets SIGTERM: the ranks. The launcher would end them a second later.
pub(crate) fn supervisor() -> JobSupervisor {
    let signal = SignalRule { to: Some(Recipients::Leaves), process: None };
    JobSupervisor { enabled: None, signal: Some(signal) }
}

/// The launcher, behind which stands what each rank runs.
pub(crate) fn launcher(row: &GromacsToTune, rung: &LadderRung) -> Vec<String> {
    let ranks = rung.layout.ntmpi.saturating_mul(row.simulations());
    ["mpirun", "-np", &ranks.to_string()].map(ToOwned::to_owned).to_vec()
}

/// What runs the simulations of a row: a shell with the script, behind which stands the launcher with mdrun and its arguments.
pub(crate) fn command(
    row: &GromacsToTune,
    rung: &LadderRung,
    places: &Places,
    exchange_interval: Option<i64>,
    mdrun_args: Vec<String>,
) -> (Vec<String>, Vec<String>) {
    let command = vec!["sh".to_owned(), "-c".to_owned(), literal(MPI_SCRIPT), "mpi".to_owned()];
    let every = progress_seconds(rung.hours_to_finish).ceil();
    let mut args = vec![literal(&places.work)];
    args.extend([row.system.last_step().unwrap_or(0).to_string(), every.to_string()]);
    args.extend([exchange_interval.unwrap_or(0).to_string(), row.simulations().to_string()]);
    let folders: Vec<String> = row.multidir.iter().map(|folder| literal(folder)).collect();
    if folders.is_empty() {
        args.push(".".to_owned());
    } else {
        args.extend(folders.iter().cloned());
    }
    args.extend(launcher(row, rung));
    args.extend(["sh", "-c", &literal(RANK), "rank", PROGRAM, "mdrun"].map(ToOwned::to_owned));
    if !folders.is_empty() {
        // A name may begin as an option does.
        args.push("-multidir".to_owned());
        args.extend(folders.iter().map(|folder| format!("./{folder}")));
        args.extend(["-s".to_owned(), literal(&places.file)]);
    }
    args.extend(mdrun_args);
    (command, args)
}
