//! Rows of the Postgres queue, the names derived from them, and the migrations that make the tables.
//!
//! The columns are documented in `schema/migrations`, where each has a comment with its unit.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use jiff_sqlx::Timestamp;
use scavenger_vocabulary::Outcome;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::types::Json;

pub use crate::gpu_offload::MINIMISERS;
use crate::names;
pub use crate::row::{LadderSettings, System};
use crate::tuning::{
    Build, GpuOffload, Layout, Limits, NodeShape, PmeDescription, Resources, Settings, SystemDescription,
};
use crate::water::WaterBox;

/// The migrations, embedded. One that was released is never edited. What 1 to 17 made was never released.
pub static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!("./migrations");

/// Channel on which Postgres tells that a row was inserted or a request set.
pub const NOTIFY_CHANNEL: &str = "gromacs_to_tune";

/// Channel on which Postgres tells that the history of a row grew.
pub const EVENT_CHANNEL: &str = "gromacs_event";

/// Label on a ScavengerJob: the number of the row it belongs to, for people. A database that is restored from a backup gives
/// the number to another row.
pub const LABEL_ROW: &str = "scavenger.dev/row";

/// Label on a ScavengerJob: the UUID of the row it belongs to, by which the row knows it.
pub const LABEL_ROW_UUID: &str = "scavenger.dev/row-uuid";

/// Label on a ScavengerJob: the queue (database) its row is in. Two queues that share a cluster may both have a row 1.
pub const LABEL_QUEUE: &str = "scavenger.dev/queue";

/// Annotation on a simulation's ScavengerJob: the configuration of each generation of its spec, such as `1=1,3=2`.
pub const ANNOTATION_CONFIGURATIONS: &str = "scavenger.dev/configurations";

/// Label that says which program manages an object; for ours the value is [`names::SUBMITTER`].
pub const LABEL_MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Selector of everything the submitter makes.
#[must_use]
pub fn selector() -> String {
    format!("{LABEL_MANAGED_BY}={}", names::SUBMITTER)
}

/// Where a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// Nothing was done yet.
    Queued,
    /// Its .tpr file is read.
    Inspecting,
    /// The tuner is asked.
    Tuning,
    /// Its ScavengerJob waits for its first start.
    Submitted,
    /// Its ScavengerJob runs.
    Running,
    /// Its ScavengerJob was interrupted and waits.
    Interrupted,
    /// Every step was computed.
    Completed,
    /// It cannot go on without a person.
    Failed,
    /// Its owner stopped it.
    Cancelled,
}

impl State {
    /// All states, in the order of a life.
    pub const ALL: [Self; 9] = [
        Self::Queued,
        Self::Inspecting,
        Self::Tuning,
        Self::Submitted,
        Self::Running,
        Self::Interrupted,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// As the database and the metrics spell it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Inspecting => "inspecting",
            Self::Tuning => "tuning",
            Self::Submitted => "submitted",
            Self::Running => "running",
            Self::Interrupted => "interrupted",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// True if nothing happens any more unless a person asks for it.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

impl fmt::Display for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// What a row is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Computes a .tpr file.
    Simulation,
    /// Measures how fast a kind of node is.
    Calibration,
    /// Runs a command.
    Command,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Simulation, Self::Calibration, Self::Command];

    /// As the database spells it, also as the source of what was measured.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Simulation => "simulation",
            Self::Calibration => "calibration",
            Self::Command => "command",
        }
    }
}

impl TryFrom<String> for Kind {
    type Error = UnknownKind;

    fn try_from(text: String) -> Result<Self, UnknownKind> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or(UnknownKind(text))
    }
}

/// Which mdrun runs a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Engine {
    /// `gmx mdrun`, whose ranks are threads. Several simulations are as many processes.
    ThreadMpi,
    /// `mpirun gmx_mpi mdrun`, whose ranks are processes. Several simulations are one mdrun, and can exchange.
    Mpi,
}

impl Engine {
    /// All engines.
    pub const ALL: [Self; 2] = [Self::ThreadMpi, Self::Mpi];

    /// As the database spells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ThreadMpi => "thread-mpi",
            Self::Mpi => "mpi",
        }
    }
}

impl TryFrom<String> for Engine {
    type Error = UnknownEngine;

    fn try_from(text: String) -> Result<Self, UnknownEngine> {
        Self::ALL.into_iter().find(|engine| engine.as_str() == text).ok_or(UnknownEngine(text))
    }
}

/// The text is no engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownEngine(String);

impl fmt::Display for UnknownEngine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "unknown engine {:?}; is the database schema newer than this program?", self.0)
    }
}

impl std::error::Error for UnknownEngine {}

/// The text is no kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownKind(String);

impl fmt::Display for UnknownKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "unknown row kind {:?}; is the database schema newer than this program?", self.0)
    }
}

impl std::error::Error for UnknownKind {}

/// The text is no state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownState(String);

impl fmt::Display for UnknownState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "unknown row state {:?}; is the database schema newer than this program?", self.0)
    }
}

impl std::error::Error for UnknownState {}

impl FromStr for State {
    type Err = UnknownState;

    fn from_str(text: &str) -> Result<Self, UnknownState> {
        Self::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or_else(|| UnknownState(text.to_owned()))
    }
}

impl TryFrom<String> for State {
    type Error = UnknownState;

    fn try_from(text: String) -> Result<Self, UnknownState> {
        text.parse()
    }
}

/// A row of `gromacs_to_tune`: what the user asked for, what is known of the system, and where it is.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct GromacsToTune {
    /// Number of the row.
    pub id: i64,
    /// What tells it from a row that had the same number in another database, or before a backup was restored.
    pub uuid: String,
    /// What it is for.
    #[sqlx(try_from = "String")]
    pub kind: Kind,
    /// Database role that inserted it.
    pub owner: String,
    /// Namespace it runs in.
    pub namespace: String,
    /// PersistentVolumeClaim with the .tpr file.
    pub persistent_volume_claim: String,
    /// Path of the .tpr file in that volume; that of the working directory of a command.
    pub tpr_path: String,
    /// Folders of several simulations, relative to that of the file; empty for one simulation.
    pub multidir: Vec<String>,
    /// Which mdrun runs it.
    #[sqlx(try_from = "String")]
    pub engine: Engine,
    /// Container image, if not the default.
    pub image: Option<String>,
    /// The same by its digest, as the inspection ran it.
    pub pinned_image: Option<String>,
    /// User id it runs as.
    pub run_as_user: i64,
    /// Group id it runs as, if not the same.
    pub run_as_group: Option<i64>,
    /// Higher starts first.
    pub priority: i32,
    /// Most CPU it may ask for, millicores.
    pub max_cpu_millicores: Option<i32>,
    /// Most memory it may ask for, bytes.
    pub max_memory_bytes: Option<i64>,
    /// Most GPUs it may ask for.
    pub max_gpus: Option<i32>,
    /// Least CPU it runs with, millicores.
    pub min_cpu_millicores: Option<i32>,
    /// Least predicted speed it runs with, ns per day.
    pub min_ns_per_day: Option<f64>,
    /// Seconds between checkpoints.
    pub interruption_after_seconds: i32,
    /// Seconds it waits for room before it falls back, if not the default.
    pub fallback_after_seconds: Option<i32>,
    /// False if each restart writes new output files; mdrun appends unless it is.
    pub append: Option<bool>,
    /// Path of the checkpoint that it starts from, in that volume.
    pub checkpoint_path: Option<String>,
    /// Further options of mdrun and their values.
    pub mdrun_options: Vec<String>,
    /// Options of grompp and their values, with which it makes its .tpr file; none if that is there.
    pub grompp_options: Vec<String>,
    /// Settings that grompp reads instead of those of its -f file.
    pub mdp_options: Json<BTreeMap<String, String>>,
    /// Labels that its node must have.
    pub node_labels: Json<BTreeMap<String, String>>,
    /// When it should be completed.
    pub deadline: Option<Timestamp>,
    /// ServiceAccount it runs as, if not the namespace's default.
    pub service_account: Option<String>,
    /// Rows that must be completed before this one begins.
    pub after: Vec<i64>,
    /// How its configurations are chosen, as far as it says so itself.
    #[sqlx(flatten)]
    pub ladder_settings: LadderSettings,
    /// The simulated system, as far as it is known.
    #[sqlx(flatten)]
    pub system: System,
    /// What a calibration runs; empty in a simulation.
    #[sqlx(flatten)]
    pub benchmark_columns: BenchmarkColumns,
    /// What a command runs; empty in other rows.
    #[sqlx(flatten)]
    pub command_columns: CommandColumns,
    /// What the inspection printed: what the file says, whatever the row says of it. None until the .tpr file was read, and the
    /// working directory made.
    pub inspected: Option<Json<BTreeMap<String, String>>>,
    /// Steps in all to which it was extended after it had been completed.
    pub extended_nsteps: Option<i64>,
    /// The owner wants it stopped.
    pub cancel_requested: bool,
    /// The owner wants it tried again.
    pub retry_requested: bool,
    /// What the submitter writes.
    #[sqlx(flatten)]
    pub status: RowStatus,
}

impl System {
    /// Step at which the simulation is complete, once it is known.
    #[must_use]
    pub fn last_step(&self) -> Option<i64> {
        self.nsteps?.checked_add(self.init_step.unwrap_or(0))
    }

    /// As the tuner wants it, but for its settings; none until the number of atoms is known.
    #[must_use]
    pub fn description(&self) -> Option<SystemDescription> {
        let usual = GpuOffload::default();
        Some(SystemDescription {
            atoms: u64::try_from(self.atoms?).ok()?,
            box_nm: self.box_nm.as_deref().and_then(|lengths| lengths.try_into().ok()),
            nsteps: self.nsteps.unwrap_or(-1),
            dt_ps: self.dt_ps.unwrap_or(0.002),
            cutoff_nm: self.cutoff_nm.unwrap_or(1.0),
            rlist_nm: self.rlist_nm,
            nstlist: self.nstlist.and_then(|steps| u32::try_from(steps).ok()),
            pme: self.pme(),
            bonded_interactions: self.bonded_interactions.and_then(|count| u64::try_from(count).ok()),
            constraints: self.constraints.and_then(|count| u64::try_from(count).ok()),
            gpu_offload: GpuOffload {
                nonbonded: self.gpu_nonbonded.unwrap_or(usual.nonbonded),
                pme: self.gpu_pme.unwrap_or(usual.pme),
                bonded: self.gpu_bonded.unwrap_or(usual.bonded),
                update: self.gpu_update.unwrap_or(usual.update),
            },
            settings: Settings::default(),
        })
    }

    fn pme(&self) -> Option<PmeDescription> {
        let grid: Vec<u32> = self
            .pme_grid
            .as_ref()?
            .iter()
            .map(|points| u32::try_from(*points).ok())
            .collect::<Option<_>>()?;
        Some(PmeDescription {
            grid: grid.try_into().ok()?,
            order: self.pme_order.and_then(|order| u32::try_from(order).ok()).unwrap_or(4),
        })
    }
}

/// The columns that only a calibration has.
#[derive(Debug, Clone, Default, PartialEq, sqlx::FromRow)]
pub struct BenchmarkColumns {
    /// Atoms of the box of water.
    pub benchmark_atoms: Option<i32>,
    /// Ranks, those for PME included.
    pub benchmark_ranks: Option<i32>,
    /// Threads of each.
    pub benchmark_threads: Option<i32>,
    /// Ranks for PME alone.
    pub benchmark_pme_ranks: Option<i32>,
    /// GPUs.
    pub benchmark_gpus: Option<i32>,
    /// Labels that the node must have.
    pub benchmark_node_labels: Option<Json<BTreeMap<String, String>>>,
}

/// The columns that only a command has.
#[derive(Debug, Clone, Default, PartialEq, sqlx::FromRow)]
pub struct CommandColumns {
    /// Program and arguments.
    pub command: Option<Vec<String>>,
    /// CPU, millicores.
    pub cpu_millicores: Option<i32>,
    /// Memory, bytes.
    pub memory_bytes: Option<i64>,
}

/// What a row of kind command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command<'a> {
    /// Program and arguments.
    pub words: &'a [String],
    /// CPU, millicores.
    pub cpu_millicores: i32,
    /// Memory, bytes.
    pub memory_bytes: i64,
}

/// What a calibration runs: this, and nothing else.
#[derive(Debug, Clone, PartialEq)]
pub struct Benchmark {
    /// The system.
    pub water: WaterBox,
    /// Steps.
    pub steps: i64,
    /// How mdrun divides its cores, one per rank and thread.
    pub layout: Layout,
    /// Labels that the node must have.
    pub node_labels: BTreeMap<String, String>,
}

impl Benchmark {
    /// Step at which mdrun's counters start again: what comes before is for caches and clocks to settle.
    #[must_use]
    pub fn reset_step(&self) -> i64 {
        self.steps / 2
    }

    /// CPU, millicores.
    #[must_use]
    pub fn cpu_millicores(&self) -> u32 {
        self.layout.threads().saturating_mul(1000)
    }

    /// True if the nodes of this shape are of the kind that is measured.
    #[must_use]
    pub fn is_about(&self, node: &NodeShape) -> bool {
        self.node_labels.iter().all(|(key, value)| node.labels.get(key) == Some(value))
    }
}

impl GromacsToTune {
    /// What it runs if it is a calibration. The table's rules see to it that nothing is missing then.
    #[must_use]
    pub fn benchmark(&self) -> Option<Benchmark> {
        let columns = &self.benchmark_columns;
        let count = |column: Option<i32>| column.and_then(|count| u32::try_from(count).ok());
        let gpus = count(columns.benchmark_gpus)?;
        let layout = Layout {
            npme: count(columns.benchmark_pme_ranks)?,
            ..Layout::water(count(columns.benchmark_ranks)?, count(columns.benchmark_threads)?, gpus)
        }
        .known_to(self.system.gromacs_version.as_deref());
        Some(Benchmark {
            water: WaterBox::near(count(columns.benchmark_atoms)?.into()),
            steps: self.system.nsteps?,
            layout,
            node_labels: columns.benchmark_node_labels.as_ref()?.0.clone(),
        })
        .filter(|_| self.kind == Kind::Calibration)
    }

    /// What it runs if it is a command. The table's rules see to it that nothing is missing then.
    #[must_use]
    pub fn command(&self) -> Option<Command<'_>> {
        let columns = &self.command_columns;
        let words = columns.command.as_deref()?;
        Some(Command { words, cpu_millicores: columns.cpu_millicores?, memory_bytes: columns.memory_bytes? })
    }

    /// True if its mdrun is started by the launcher of library MPI.
    #[must_use]
    pub fn uses_library_mpi(&self) -> bool {
        self.engine == Engine::Mpi
    }

    /// True if it computes several simulations side by side.
    #[must_use]
    pub fn is_multidir(&self) -> bool {
        !self.multidir.is_empty()
    }

    /// How many simulations it computes at the same time.
    #[must_use]
    pub fn simulations(&self) -> u32 {
        u32::try_from(self.multidir.len()).unwrap_or(u32::MAX).max(1)
    }

    /// True if it may run on nodes of this shape.
    #[must_use]
    pub fn may_run_on(&self, node: &NodeShape) -> bool {
        node.has(&self.node_labels)
    }

    /// True if it minimises an energy, as far as its file is known.
    #[must_use]
    pub fn is_minimisation(&self) -> bool {
        let integrator = self.inspected.as_ref().and_then(|found| found.get("integrator"));
        integrator.is_some_and(|name| MINIMISERS.contains(&name.as_str()))
    }

    /// The system as the tuner wants it, with the settings that the inspection found; none until the number of atoms is
    /// known.
    #[must_use]
    pub fn description(&self) -> Option<SystemDescription> {
        self.describe(&self.system)
    }

    /// As [`Self::description`], of a system that the columns may not hold: what the file says, say.
    #[must_use]
    pub fn describe(&self, system: &System) -> Option<SystemDescription> {
        let system = system.description()?;
        let settings =
            self.inspected.as_ref().map(|found| Settings::of(&found.0, system.atoms)).unwrap_or_default();
        Some(SystemDescription { settings, ..system })
    }

    /// How the image's GROMACS was built, as far as the inspection found it.
    #[must_use]
    pub fn build(&self) -> Build {
        self.inspected.as_ref().map(|found| Build::of(&found.0)).unwrap_or_default()
    }

    /// The user's limits as the tuner wants them.
    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits {
            max_cpu_millicores: self.max_cpu_millicores.and_then(|millicores| u32::try_from(millicores).ok()),
            max_memory_bytes: self.max_memory_bytes.and_then(|bytes| u64::try_from(bytes).ok()),
            max_gpus: self.max_gpus.and_then(|gpus| u32::try_from(gpus).ok()),
            ..Limits::default()
        }
    }
}

/// The columns that the submitter writes, all together at the end of each step.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct RowStatus {
    /// Where it is.
    #[sqlx(try_from = "String")]
    pub state: State,
    /// Why, one sentence.
    pub reason: Option<String>,
    /// Number of its ScavengerJob.
    pub submission: i32,
    /// UID of the ScavengerJob once it was seen.
    pub job_uid: Option<String>,
    /// Configuration in use.
    #[sqlx(rename = "configuration")]
    pub rung: Option<i32>,
    /// Configuration that is about to replace it.
    #[sqlx(rename = "next_configuration")]
    pub next_rung: Option<i32>,
    /// Attempt that the progress belongs to.
    pub attempt: i32,
    /// Step at which that attempt started.
    pub first_step: Option<i64>,
    /// Last step seen.
    pub step: Option<i64>,
    /// Speed.
    pub ns_per_day: Option<f64>,
    /// When they were seen.
    pub progress_time: Option<Timestamp>,
    /// It waits for something that its owner's other rows do not wait for.
    pub blocked: bool,
    /// Seconds by which it is expected to miss its deadline; none if it is expected to meet it.
    pub late_seconds: Option<i64>,
    /// Interruptions over all submissions.
    pub interruptions: i32,
    /// When mdrun first ran.
    pub start_time: Option<Timestamp>,
    /// When it ended.
    pub finish_time: Option<Timestamp>,
    /// When the row is looked at next.
    pub next_attempt_time: Timestamp,
    /// Steps in a row that could not be done.
    pub failures: i32,
    /// Most memory that the attempt was seen to use, bytes.
    pub peak_memory_bytes: Option<i64>,
    /// When the ScavengerJob of a row that has ended is removed.
    pub job_expiry_time: Option<Timestamp>,
    /// The .tpr file is read again before the next submission.
    pub inspect_again: bool,
    /// What the submitter alone remembers of it.
    #[sqlx(rename = "submitter_state", json)]
    pub private: PrivateState,
}

/// What the submitter remembers of a row for itself alone. It is one document, and nobody else knows its keys. They may come and go
/// with any version; what one means and holds never changes. Those that this version does not know are kept, since a newer
/// submitter may work beside it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PrivateState {
    /// Configuration that it was stopped on to go on with a larger one; none once it runs.
    pub grown_from: Option<i32>,
    /// Growths in a row that came to nothing.
    pub growth_failures: i32,
    /// How often the whole ladder was tried.
    pub laps: i32,
    /// When it starts over from the largest configuration.
    pub next_lap_time: Option<jiff::Timestamp>,
    /// Since when it waits for room.
    pub no_room_since: Option<jiff::Timestamp>,
    /// Seconds it waited for room before that.
    pub no_room_seconds: f64,
    /// When the attempt was first seen.
    pub attempt_seen_time: Option<jiff::Timestamp>,
    /// Highest attempt whose end is recorded.
    pub attempts_recorded: i32,
    /// Step of the attempt when its progress was first seen.
    pub progress_from_step: Option<i64>,
    /// When that was.
    pub progress_from_time: Option<jiff::Timestamp>,
    /// When the last interruption came to be known.
    pub interruption_time: Option<jiff::Timestamp>,
    /// Interruptions when the tuner was asked last.
    pub ladder_interruptions: i32,
    /// The checkpoint is being read.
    pub verifying: bool,
    /// Most memory with which mdrun was killed for using more, bytes.
    pub outgrown_memory_bytes: Option<i64>,
    /// The same of the probes that read its files.
    pub probe_outgrown_memory_bytes: Option<i64>,
    /// Starts in a row that ended before the first step for a reason that goes by.
    pub start_failures: i32,
    /// Before this time its next submission is not begun.
    pub not_before: Option<jiff::Timestamp>,
    /// Step that a checkpoint is known to have reached.
    pub checkpoint_step: Option<i64>,
    /// Measured speed divided by the predicted one.
    pub speed_ratio: Option<f64>,
    /// What a newer submitter wrote.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// A configuration that the tuner proposed.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct LadderRung {
    /// Place in the ladder, counted from 1.
    #[sqlx(rename = "configuration")]
    pub rung: i32,
    /// CPU, millicores.
    pub cpu_millicores: i32,
    /// Memory, bytes.
    pub memory_bytes: i64,
    /// GPUs.
    pub gpus: i32,
    /// Labels of the kind of node that it is bound to; any node if empty.
    pub node_labels: Json<BTreeMap<String, String>>,
    /// How mdrun divides them.
    pub layout: Json<Layout>,
    /// Predicted speed, one time in ten it is lower.
    pub ns_per_day_p10: f64,
    /// Predicted speed, median.
    pub ns_per_day_p50: f64,
    /// Predicted speed, one time in ten it is higher.
    pub ns_per_day_p90: f64,
    /// Predicted hours for all steps.
    pub hours_to_finish: Option<f64>,
    /// Parallel efficiency: speed per core relative to the best on the same hardware, with a GPU the speed itself.
    pub efficiency: f64,
    /// Predicted peak memory, bytes.
    pub predicted_memory_bytes: i64,
    /// Hardware class of the prediction.
    pub hardware_class: String,
    /// True if there was room when the tuner was asked.
    pub fits_now: bool,
    /// Why it is on the ladder.
    pub reason: String,
    /// Version of the tuner's model.
    pub model_version: String,
    /// The tuner, asked again, does not propose it any more.
    pub replaced: bool,
}

impl LadderRung {
    /// True if it may run on nodes of this shape, however large they are.
    #[must_use]
    pub fn may_run_on(&self, node: &NodeShape) -> bool {
        node.has(&self.node_labels)
    }

    /// True if it is for one kind of node alone.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        !self.node_labels.is_empty()
    }

    /// What its pod asks for.
    #[must_use]
    pub fn resources(&self) -> Resources {
        Resources {
            cpu_millicores: u32::try_from(self.cpu_millicores).unwrap_or(0),
            memory_bytes: u64::try_from(self.memory_bytes).unwrap_or(0),
            gpus: u32::try_from(self.gpus).unwrap_or(0),
        }
    }
}

/// How an attempt ended, as `gromacs_attempt.outcome` spells it.
#[must_use]
pub fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Completed => "completed",
        Outcome::Failed => "failed",
        Outcome::Interrupted => "interrupted",
        Outcome::Withdrawn => "withdrawn",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_survive_the_way_through_text() {
        for state in State::ALL {
            assert_eq!(state.as_str().parse(), Ok(state));
        }
        assert!("done".parse::<State>().is_err());
    }

    #[test]
    fn kinds_survive_the_way_through_text() {
        for kind in Kind::ALL {
            assert_eq!(Kind::try_from(kind.as_str().to_owned()), Ok(kind));
        }
        assert!(Kind::try_from("benchmark".to_owned()).is_err());
    }

    #[test]
    fn migrations_are_numbered_once() {
        let versions: Vec<i64> = MIGRATIONS.iter().map(|migration| migration.version).collect();
        assert!(versions.is_sorted_by(|one, next| one < next), "{versions:?}");
    }

    #[test]
    fn what_the_user_gave_stays_and_what_was_read_is_read_again() {
        let read = |nsteps, atoms| System { nsteps: Some(nsteps), atoms: Some(atoms), ..System::default() };
        let given = System { atoms: Some(9), dt_ps: Some(0.004), ..System::default() };
        let first = read(1000, 10).kept_from(&given, &System::default());
        assert_eq!((first.nsteps, first.atoms, first.dt_ps), (Some(1000), Some(9), Some(0.004)));
        let second = read(2000, 11).kept_from(&first, &read(1000, 10));
        assert_eq!((second.nsteps, second.atoms, second.dt_ps), (Some(2000), Some(9), Some(0.004)));
    }

    #[test]
    fn a_system_without_atoms_can_not_be_described() {
        assert_eq!(System::default().description(), None);
        let water = System {
            atoms: Some(2652),
            pme_grid: Some(vec![25, 25, 25]),
            pme_order: Some(4),
            nsteps: Some(100),
            init_step: Some(50),
            ..System::default()
        };
        let description = water.description().expect("should have atoms");
        assert_eq!(description.pme, Some(PmeDescription { grid: [25, 25, 25], order: 4 }));
        assert_eq!(water.last_step(), Some(150));
    }
}
