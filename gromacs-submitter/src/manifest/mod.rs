//! From a row to its ScavengerJobs. Pure: the same row and configuration give the same object, so an object that is
//! there already can be compared with the one that would be made.

mod checkpoint;
mod configurations;
mod image;
mod paths;
mod row_names;
mod run_input;
mod terms;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use kube::{ResourceExt, api::ObjectMeta};
use scavenger_schema::bounds::WHOLE_CORE;
use scavenger_schema::names;
use scavenger_schema::quantity::{format_bytes, format_milli};
use scavenger_schema::scavenger_job::{
    DEFAULT_TTL_SECONDS, EnvVar, ImagePullPolicy, PersistentVolumeClaimMount, Quantity, Resources,
    ScavengerJob, ScavengerJobSpec,
};
use scavenger_schema::simulation::{
    ANNOTATION_CONFIGURATIONS, Benchmark, Command, GromacsToTune, LadderRung,
};
use scavenger_schema::supervisor::JobSupervisor;
use scavenger_schema::tuning::{Device, Layout, release_year};
use sha2::{Digest, Sha256};

pub use checkpoint::restart_seconds;
pub use configurations::Configurations;
pub use image::{pinned_image, requested_image};
pub(crate) use paths::{MOUNT_PATH, folder};
use paths::{tpr_file, working_directory};
pub use row_names::{Probe, RowNames};
pub(crate) use row_names::{is_of_row, row_of, selector_of_queue, selector_of_row};
pub(crate) use run_input::own_copy;
use run_input::{places, run_input};
pub use terms::Terms;

use crate::gpus;
use crate::grompp_options;
use crate::mdrun_log::step_interval;
use crate::mdrun_options::MdrunOptions;
use crate::multidir::{self, mpi};
use crate::probe::{
    GROMPP_SCRIPT, INSPECT_SCRIPT, PREPARE_SCRIPT, START_SCRIPT, VERIFY_SCRIPT, WATER_SCRIPT,
};
use crate::text::{literal, pairs};

/// Seconds between SIGTERM and SIGKILL for mdrun where the pool allows them. It mostly needs far fewer and then gives
/// its room back sooner; the rest is for a slow volume.
pub const USUAL_GRACE_SECONDS: i64 = 60;

/// Steps between pair searches that mdrun may choose by itself where the .tpr file has fewer: on CPU cores, and with GPUs.
const NSTLIST_OF_MDRUN: (i32, i32) = (40, 100);

/// mdrun takes a signal in at a pair search and stops at the next one, as 2020.6 and 2022.5 were seen to do.
const SEARCHES_TO_STOP: i32 = 2;

/// 2025.2 looks for signals less often: it says that it stops within so many steps. From which release on is not known;
/// from this one it is reckoned with.
const STEPS_TO_STOP: (u32, i32) = (2023, 200);

/// Replicas agree on it every 200 steps: 2022.5 says that it stops within twice as many.
const STEPS_TO_STOP_TOGETHER: i32 = 400;

/// Bytes of a checkpoint per atom: positions and velocities, written twice (file and copy) in double precision at worst.
const CHECKPOINT_BYTES_PER_ATOM: f64 = 96.0;

/// What a slow shared volume takes per second.
const SLOW_VOLUME_BYTES_PER_SECOND: f64 = 20e6;

/// Seconds for what does not depend on the system: the signal's way, closing files, the end of the process.
const STOP_SECONDS: f64 = 5.0;

/// A probe, a minimisation and a command have nothing to save: what ignores SIGTERM is ended soon.
const PROBE_GRACE_SECONDS: i64 = 1;

/// What the inspection's script is told where a row has none: no steps, no checkpoint.
const NOTHING: &str = "-";

/// What a probe asks for: `gmx dump` needs one core for less than a second, and about 100 bytes per atom.
const PROBE_CPU: &str = "100m";
const PROBE_MEMORY_BYTES: i64 = 256 << 20;

/// What it asks for if it was killed with less: so many times as much, so that few tries find what it needs.
const MORE_PROBE_MEMORY: i64 = 4;

/// Most memory that a probe asks for, bytes; the dump of 500,000,000 atoms.
pub(crate) const MOST_PROBE_MEMORY: u64 = 64 << 30;

/// What making a file asks for: `gmx grompp` takes one core for 1 to 5 s, and was measured at 206 MiB up to
/// 200,000 atoms (the tables of the force field) and at 274 MiB for 784,080.
const GROMPP_MILLICORES: i32 = 500;
const GROMPP_MEMORY_BYTES: i64 = 320 << 20;
const WATER_BYTES_PER_ATOM: i64 = 500;

/// Settings of the process that go into the objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestSettings {
    /// Identity of the queue in this database.
    pub queue_id: String,
    /// Image of rows that name none.
    pub gromacs_image: String,
    /// When the kubelet pulls it.
    pub image_pull_policy: ImagePullPolicy,
    /// RuntimeClass of configurations with GPUs.
    pub gpu_runtime_class: Option<String>,
}

/// Seconds that mdrun needs after SIGTERM for its last checkpoint, at the slow end of what `rung` may do.
#[must_use]
pub fn needed_grace_seconds(row: &GromacsToTune, rung: &LadderRung) -> i64 {
    if row.is_minimisation() {
        return PROBE_GRACE_SECONDS;
    }
    // All simulations of a row write at the same time.
    let atoms = row.system.atoms.unwrap_or(0) as f64 * f64::from(row.simulations());
    let writing = atoms * CHECKPOINT_BYTES_PER_ATOM / SLOW_VOLUME_BYTES_PER_SECOND;
    let seeing = if is_followed_by_script(row) { multidir::LOOK_SECONDS } else { 0.0 };
    // A float that is too large becomes the largest integer.
    (STOP_SECONDS + seconds_to_heed(row, rung) + writing + seeing).ceil() as i64
}

/// Seconds that mdrun computes before it does what it was told, at the slow end of what `rung` may do.
fn seconds_to_heed(row: &GromacsToTune, rung: &LadderRung) -> f64 {
    let steps_per_second = slow_ns_per_day(row, rung) * 1000.0 / row.system.dt_ps.unwrap_or(0.002) / 86400.0;
    f64::from(steps_to_stop(row, rung)) / steps_per_second
}

/// What is measured varies by as much, and mdrun may be told to stop in a slow moment.
const SLOW_MOMENT: f64 = 0.8;

/// The slow end of what may be: a prediction may be off by a factor of three, a measurement of this row is not.
fn slow_ns_per_day(row: &GromacsToTune, rung: &LadderRung) -> f64 {
    row.status
        .private
        .speed_ratio
        .map_or(rung.ns_per_day_p10, |ratio| rung.ns_per_day_p50 * ratio * SLOW_MOMENT)
}

fn steps_to_stop(row: &GromacsToTune, rung: &LadderRung) -> i32 {
    let chosen = if rung.layout.nb == Device::Gpu { NSTLIST_OF_MDRUN.1 } else { NSTLIST_OF_MDRUN.0 };
    // mdrun raises what the file says, but not what the row's own option says.
    let of_file = || row.system.nstlist.unwrap_or(chosen).max(chosen);
    let searches = further_options(row).nstlist().unwrap_or_else(of_file).saturating_mul(SEARCHES_TO_STOP);
    if further_options(row).exchange_interval().is_some() {
        return searches.max(STEPS_TO_STOP_TOGETHER);
    }
    match row.system.gromacs_version.as_deref().and_then(release_year) {
        Some(year) if year < STEPS_TO_STOP.0 => searches,
        _ => searches.max(STEPS_TO_STOP.1),
    }
}

/// The ScavengerJob that runs `rung` on the terms of the pool.
#[must_use]
pub fn simulation_job(
    row: &GromacsToTune,
    rung: &LadderRung,
    settings: &ManifestSettings,
    terms: &Terms,
) -> ScavengerJob {
    let mut spec = base_spec(row, settings, terms);
    pin(row, &mut spec);
    spec.args = mdrun_args(row, rung);
    spec.working_dir = Some(working_directory(row));
    spec.resources = requests(rung, terms.gpu_resource.as_deref().unwrap_or(gpus::USUAL));
    spec.node_selector.extend(rung.node_labels.0.clone());
    spec.runtime_class_name = settings.gpu_runtime_class.clone().filter(|_| rung.gpus > 0);
    // mdrun refuses to start where the image sets another number.
    spec.env.extend(threads(rung.layout.ntomp));
    spec.interruption_after = checkpoint::interval(row).into();
    if starts_over(row) {
        // What an interrupted attempt left is written over, not kept beside.
        spec.command = [gmx(row), "-nobackup", "mdrun"].map(ToOwned::to_owned).to_vec();
        if row.uses_library_mpi() {
            spec.command.splice(..0, mpi::launcher(row, rung));
        }
    } else {
        let mdrun = ["gmx", "mdrun"].map(ToOwned::to_owned).to_vec();
        (spec.command, spec.args) = if row.uses_library_mpi() {
            spec.supervisor = Some(mpi::supervisor());
            mpi::command(row, rung, &places(row), further_options(row).exchange_interval(), spec.args)
        } else if row.is_multidir() {
            multidir::command(row, rung, &places(row), [mdrun, spec.args].concat())
        } else {
            let shell = ["sh", "-c", &literal(START_SCRIPT), "start"].map(ToOwned::to_owned);
            ([shell.to_vec(), mdrun].concat(), spec.args)
        };
        spec.checkpoint = Some(checkpoint::promise(row, terms));
    }
    let usual = if row.is_minimisation() { PROBE_GRACE_SECONDS } else { USUAL_GRACE_SECONDS };
    spec.termination_grace_period_seconds =
        needed_grace_seconds(row, rung).max(usual).min(terms.longest_grace);
    let mut job = job(row, RowNames::of(row).job(), spec, settings);
    job.labels_mut().insert(names::LABEL_FOLDER.to_owned(), folder_label(row));
    job.annotations_mut().insert(ANNOTATION_CONFIGURATIONS.to_owned(), Configurations::new(rung.rung).text());
    job
}

/// The ScavengerJob that runs a command: its words as they are. It promises no checkpoint, so each attempt begins again.
#[must_use]
pub fn command_job(
    row: &GromacsToTune,
    command: Command<'_>,
    settings: &ManifestSettings,
    terms: &Terms,
) -> ScavengerJob {
    let mut spec = base_spec(row, settings, terms);
    pin(row, &mut spec);
    spec.command = command.words.iter().map(|word| literal(word)).collect();
    spec.working_dir = Some(working_directory(row));
    spec.resources = amounts(command.cpu_millicores, command.memory_bytes);
    // More threads than cores take time from each other: many programs begin one for each core of the node.
    spec.env = threads(u32::try_from(command.cpu_millicores).unwrap_or(0) / WHOLE_CORE);
    spec.interruption_after = checkpoint::interval(row).into();
    let mut job = job(row, RowNames::of(row).job(), spec, settings);
    job.labels_mut().insert(names::LABEL_FOLDER.to_owned(), folder_label(row));
    job
}

/// The program of the row's GROMACS.
fn gmx(row: &GromacsToTune) -> &'static str {
    if row.uses_library_mpi() { mpi::PROGRAM } else { "gmx" }
}

/// True if a script runs its mdrun, follows what that writes into a file, and says how far it is.
fn is_followed_by_script(row: &GromacsToTune) -> bool {
    row.is_multidir() || (row.uses_library_mpi() && !starts_over(row))
}

/// What OpenMP, and what keeps to its variables, takes for the number of threads.
fn threads(count: u32) -> Vec<EnvVar> {
    let value = Some(count.max(1).to_string());
    vec![EnvVar { name: "OMP_NUM_THREADS".to_owned(), value, value_from: None }]
}

/// True if each attempt begins again: a benchmark, and a minimisation, which writes no checkpoints.
fn starts_over(row: &GromacsToTune) -> bool {
    row.benchmark().is_some() || row.is_minimisation()
}

/// What stands for the row's folder in a label: two rows, even of two databases, that name one folder of one claim have
/// the same. A hash, since a label takes 63 characters and few kinds of them.
fn folder_label(row: &GromacsToTune) -> String {
    // The claim is mounted without a subPath.
    let folder = format!("{}\0\0{}", row.persistent_volume_claim, working_directory(row));
    let hash = Sha256::digest(folder);
    hash[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The ScavengerJob that reads the .tpr file or the checkpoint. The .tpr file of a calibration it makes first.
#[must_use]
pub fn probe_job(
    row: &GromacsToTune,
    probe: Probe,
    settings: &ManifestSettings,
    terms: &Terms,
) -> ScavengerJob {
    let mut spec = base_spec(row, settings, terms);
    if probe == Probe::Verification {
        pin(row, &mut spec);
    }
    let (mut cpu, mut memory) = (PROBE_CPU.to_owned(), format_bytes(probe_memory_bytes(row)));
    let (script, mut arguments) = match (probe, row.benchmark()) {
        (Probe::Inspection, Some(benchmark)) => {
            let atoms = i64::try_from(benchmark.water.atoms()).unwrap_or(i64::MAX);
            let bytes = GROMPP_MEMORY_BYTES.saturating_add(atoms.saturating_mul(WATER_BYTES_PER_ATOM));
            (cpu, memory) = (grompp_cpu(row), format_bytes(bytes.div_euclid(1 << 20) << 20));
            let mut arguments = vec!["water".to_owned(), tpr_file(row), working_directory(row)];
            arguments.extend(benchmark.water.cells.map(|count| count.to_string()));
            arguments.extend([benchmark.steps.to_string(), row.uuid.clone()]);
            (WATER_SCRIPT, arguments)
        }
        (Probe::Inspection, None) if row.command().is_some() => {
            let work = working_directory(row);
            let folder = work.rsplit_once('/').map_or(MOUNT_PATH, |(folder, _)| folder).to_owned();
            (PREPARE_SCRIPT, vec!["prepare".to_owned(), folder, work, row.uuid.clone()])
        }
        (Probe::Inspection, None) => {
            let (arguments, makes) = inspection(row);
            if makes {
                (cpu, memory) =
                    (grompp_cpu(row), format_bytes(probe_memory_bytes(row).max(GROMPP_MEMORY_BYTES)));
            }
            (if makes { GROMPP_SCRIPT } else { INSPECT_SCRIPT }, arguments)
        }
        (Probe::Verification, _) if row.is_multidir() => {
            let folders = row.multidir.iter().cloned();
            (
                VERIFY_SCRIPT,
                ["verify".to_owned(), working_directory(row)].into_iter().chain(folders).collect(),
            )
        }
        (Probe::Verification, _) => (
            VERIFY_SCRIPT,
            vec!["verify".to_owned(), format!("{}/{}", working_directory(row), checkpoint::FILE)],
        ),
    };
    // The script of one simulation is the first argument of that which runs it for each.
    let script = if row.is_multidir() {
        arguments.splice(..1, ["multidir".to_owned(), without_comments(script)]);
        script_for_several(probe)
    } else {
        script
    };
    spec.command = vec!["sh".to_owned(), "-c".to_owned(), literal(&without_comments(script))];
    spec.args = arguments.iter().map(|argument| literal(argument)).collect();
    spec.resources.requests =
        BTreeMap::from([("cpu".to_owned(), Quantity(cpu)), ("memory".to_owned(), Quantity(memory))]);
    // The row's own, which the pool's limits must allow anyhow.
    spec.interruption_after = checkpoint::interval(row).into();
    // It writes no checkpoint, and its answer is short: an init container would only make it slower.
    spec.supervisor = Some(JobSupervisor { enabled: Some(false), signal: None });
    spec.termination_grace_period_seconds = PROBE_GRACE_SECONDS;
    job(row, RowNames::of(row).probe(probe), spec, settings)
}

/// The script that runs a probe's own for each of them.
fn script_for_several(probe: Probe) -> &'static str {
    match probe {
        Probe::Inspection => multidir::INSPECT_SCRIPT,
        Probe::Verification => multidir::VERIFY_SCRIPT,
    }
}

/// The arguments of the script that reads a file, and whether it makes that first.
fn inspection(row: &GromacsToTune) -> (Vec<String>, bool) {
    let mut arguments = vec!["inspect".to_owned(), tpr_file(row), working_directory(row), row.uuid.clone()];
    let none = || NOTHING.to_owned();
    let steps = row.extended_nsteps.map(|nsteps| nsteps.to_string());
    arguments.push(steps.unwrap_or_else(none));
    let files = further_options(row);
    let checkpoint = row.checkpoint_path.as_ref().map(|path| format!("{MOUNT_PATH}/{path}"));
    arguments.push(checkpoint.unwrap_or_else(none));
    arguments.push(own_copy(row).map_or_else(none, ToOwned::to_owned));
    if row.is_multidir() {
        arguments.push(row.multidir.len().to_string());
        arguments.extend(row.multidir.iter().cloned());
    }
    arguments.extend(files.files().map(|path| format!("{MOUNT_PATH}/{path}")));
    let made_by = words_for_grompp(row);
    let makes = !made_by.is_empty();
    if makes {
        // Those of the inspection itself: all but its name.
        arguments.insert(1, (arguments.len() - 1).to_string());
        arguments.extend(made_by);
        if !row.mdp_options.is_empty() {
            arguments.push("--".to_owned());
            arguments.extend(pairs(&row.mdp_options));
        }
    }
    (arguments, makes)
}

/// A script without the lines that are for people: the API server takes no longer argument than 16 kB.
fn without_comments(script: &str) -> String {
    let lines = script.lines().filter(|line| !line.trim_start().starts_with("# "));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Half a core makes a file of 100,000 atoms in a few seconds; a row may have less.
fn grompp_cpu(row: &GromacsToTune) -> String {
    let most = row.max_cpu_millicores.unwrap_or(GROMPP_MILLICORES);
    format!("{}m", most.min(GROMPP_MILLICORES))
}

fn probe_memory_bytes(row: &GromacsToTune) -> i64 {
    let own = row.limits().max_memory_bytes.unwrap_or(MOST_PROBE_MEMORY).min(MOST_PROBE_MEMORY);
    let most = i64::try_from(own).unwrap_or(i64::MAX);
    let outgrown = row.status.private.probe_outgrown_memory_bytes;
    let more = outgrown.map(|outgrown| outgrown.saturating_mul(MORE_PROBE_MEMORY));
    more.map_or(PROBE_MEMORY_BYTES, |more| more.min(most).max(PROBE_MEMORY_BYTES))
}

/// Compares amounts, not spellings: an API server or a person may write `1000m` for `1`. A GPU is a GPU, whatever it is called
/// on the node that was chosen.
fn same_requests(left: &BTreeMap<String, Quantity>, right: &BTreeMap<String, Quantity>) -> bool {
    let amounts = |list: &BTreeMap<String, Quantity>| -> Option<BTreeMap<String, i64>> {
        let name = |name: &String| if gpus::is_gpu(name) { gpus::USUAL.to_owned() } else { name.clone() };
        list.iter().map(|(resource, amount)| Some((name(resource), amount.milli().ok()?))).collect()
    };
    amounts(left).is_some_and(|left| amounts(right) == Some(left))
}

/// mdrun's own file names, in a folder of the row's own: no `-deffnm`, with which a run with pull code could not
/// append to its output after an interruption. Appending is the default; said explicitly, mdrun refuses to start
/// without a checkpoint, as it must at first.
fn mdrun_args(row: &GromacsToTune, rung: &LadderRung) -> Vec<String> {
    let dt_ps = row.system.dt_ps.unwrap_or(0.002);
    let interval = if is_followed_by_script(row) {
        multidir::step_interval(rung, dt_ps)
    } else {
        step_interval(rung.ns_per_day_p50, dt_ps, rung.hours_to_finish)
    };
    let progress = ["-v".to_owned(), "-stepout".to_owned(), interval.to_string()];
    if let Some(benchmark) = row.benchmark() {
        return benchmark_args(row, &benchmark).into_iter().chain(progress).collect();
    }
    let mut args = Vec::new();
    if !row.is_multidir() {
        let (folder, name) = run_input(row);
        args.extend(["-s".to_owned(), literal(&format!("{folder}/{name}"))]);
    }
    if !row.is_minimisation() {
        args.extend(["-cpi", checkpoint::FILE, "-cpo", checkpoint::FILE, "-cpt"].map(ToOwned::to_owned));
        args.push(checkpoint::mdrun_minutes(row, seconds_to_heed(row, rung)));
    }
    if !row.is_minimisation() && !appends(row) {
        args.push("-noappend".to_owned());
    }
    let options = further_options(row);
    // Half a core, or a part of one, is never a pod's own.
    let has_whole_cores = u32::try_from(rung.cpu_millicores).is_ok_and(|cpu| cpu.is_multiple_of(WHOLE_CORE));
    let layout = Layout { pin: options.pins() && has_whole_cores && !row.is_multidir(), ..rung.layout.0 };
    args.extend(layout_args(row, &layout));
    args.extend(progress);
    args.extend(options.arguments(MOUNT_PATH).iter().map(|argument| literal(argument)));
    args
}

/// The arguments of a layout, as the image's build takes them.
fn layout_args(row: &GromacsToTune, layout: &Layout) -> Vec<String> {
    let version = row.system.gromacs_version.as_deref();
    if row.uses_library_mpi() || (row.build().lacks_thread_mpi() && layout.ntmpi == 1) {
        layout.mdrun_args_of_a_rank(version)
    } else {
        layout.mdrun_args(version)
    }
}

/// True if all of its mdrun must be one rank: its build has no thread-MPI, or PLUMED is patched into it, which does not work
/// with thread-MPI; GROMACS's own interface to PLUMED (2025) takes one rank, too. With library MPI ranks are processes.
pub(crate) fn runs_on_one_rank(row: &GromacsToTune) -> bool {
    !row.uses_library_mpi() && (row.build().lacks_thread_mpi() || further_options(row).has("-plumed"))
}

/// True if mdrun goes on in its output files after an interruption, which it must be able to lock.
pub(crate) fn appends(row: &GromacsToTune) -> bool {
    // It can append only to the output files that its checkpoint names, which are not in the folder of the row.
    row.append != Some(false) && row.checkpoint_path.is_none()
}

/// The row's own options. A row whose options are wrong is failed before anything is made for it.
fn further_options(row: &GromacsToTune) -> MdrunOptions {
    MdrunOptions::read(&row.mdrun_options).unwrap_or_default()
}

/// Words for grompp, which makes its file; none if that is there. A row whose words are wrong is failed before anything is made
/// for it.
fn words_for_grompp(row: &GromacsToTune) -> Vec<String> {
    grompp_options::of_row(&row.grompp_options, &row.after).unwrap_or_default()
}

/// No checkpoint to go on from: what is measured is one stretch. The counters cannot be reset while PME is being tuned.
fn benchmark_args(row: &GromacsToTune, benchmark: &Benchmark) -> Vec<String> {
    let mut args = vec!["-s".to_owned(), literal(&tpr_file(row))];
    args.extend(["-cpt", "-1"].map(ToOwned::to_owned));
    args.extend(layout_args(row, &benchmark.layout));
    args.extend(["-notunepme", "-noconfout", "-resetstep"].map(ToOwned::to_owned));
    args.push(benchmark.reset_step().to_string());
    args
}

fn requests(rung: &LadderRung, gpu_resource: &str) -> Resources {
    let mut requests = amounts(rung.cpu_millicores, rung.memory_bytes);
    if rung.gpus > 0 {
        requests.requests.insert(gpu_resource.to_owned(), Quantity(rung.gpus.to_string()));
    }
    requests
}

fn amounts(cpu_millicores: i32, memory_bytes: i64) -> Resources {
    let requests = BTreeMap::from([
        ("cpu".to_owned(), Quantity(format_milli(cpu_millicores.into()))),
        ("memory".to_owned(), Quantity(format_bytes(memory_bytes))),
    ]);
    Resources { requests, limits: None }
}

/// The image that the inspection ran, or what is requested if that is not known.
fn pin(row: &GromacsToTune, spec: &mut ScavengerJobSpec) {
    if let Some(image) = &row.pinned_image {
        spec.image.clone_from(image);
    }
}

fn base_spec(row: &GromacsToTune, settings: &ManifestSettings, terms: &Terms) -> ScavengerJobSpec {
    ScavengerJobSpec {
        image: requested_image(row, settings),
        image_pull_policy: Some(settings.image_pull_policy),
        image_pull_secrets: Vec::new(),
        command: Vec::new(),
        args: Vec::new(),
        env: mpi::environment(row),
        working_dir: None,
        resources: Resources::default(),
        pod_count: 1,
        persistent_volume_claims: vec![PersistentVolumeClaimMount {
            claim_name: row.persistent_volume_claim.clone(),
            mount_path: MOUNT_PATH.to_owned(),
            sub_path: None,
            read_only: false,
        }],
        config_maps: Vec::new(),
        secrets: Vec::new(),
        run_as_user: row.run_as_user,
        run_as_group: row.run_as_group,
        fs_group: None,
        interruption_after: Duration::from_secs(60).into(),
        checkpoint: None,
        supervisor: None,
        termination_grace_period_seconds: PROBE_GRACE_SECONDS,
        // Its file is read, or its box made, on the same kind of node: a volume that is bound to the first node that uses
        // it must not be bound to another kind.
        node_selector: row
            .benchmark()
            .map_or_else(|| row.node_labels.0.clone(), |benchmark| benchmark.node_labels),
        tolerations: terms.tolerations(),
        runtime_class_name: None,
        service_account_name: row.service_account.clone(),
        pod_metadata: None,
        suspend: false,
        active_deadline_seconds: None,
        ttl_seconds_after_finished: DEFAULT_TTL_SECONDS,
    }
}

fn job(
    row: &GromacsToTune,
    name: String,
    spec: ScavengerJobSpec,
    settings: &ManifestSettings,
) -> ScavengerJob {
    ScavengerJob {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(row.namespace.clone()),
            labels: Some(row_names::labels(row, &settings.queue_id)),
            // From the first moment on its name is held until its pods are gone; else the operator would have to write once
            // more before its first attempt.
            finalizers: Some(vec![names::FINALIZER.to_owned()]),
            ..ObjectMeta::default()
        },
        spec,
        status: None,
    }
}
