//! What can be set, on the command line or in the environment.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use scavenger_program::completions;
use scavenger_program::logging::{Logging, Program};
use scavenger_schema::quantity;
use scavenger_schema::tuning::{NodeShape, Resources};

/// Predict how fast GROMACS runs and recommend configurations
///
/// The tuner takes the description of a simulation and of the nodes it may run on, and answers with a ladder of
/// configurations: requests, limits and the mdrun layout that goes with them, the fastest sensible one first.
/// It runs nothing, and writes nothing but the rows that calibrate inserts on request.
#[derive(Debug, Parser)]
#[command(name = "scavenger-tuner", version, propagate_version = true)]
pub struct Cli {
    /// How to log.
    #[command(flatten)]
    pub logging: Logging<Tuner>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve ladders over HTTP
    Serve(ServeOptions),
    /// Print the ladder for one simulation, without a service
    Recommend(RecommendOptions),
    /// Propose benchmarks for a kind of node, and put them into the queue
    ///
    /// Those that would tell most: short simulations of water, with the arguments of mdrun. What they measure, once it
    /// is among the runs that the service learns from, narrows the intervals by what is printed. With --namespace and
    /// --pvc they become rows of kind calibration, which the submitter makes and runs; without, nothing is written.
    Calibrate(CalibrateOptions),
    /// Check measured runs of your own, and add them to what the tuner learns from
    ///
    /// Reads a CSV file with one run per line, all on the same kind of node, and prints how far each is from the
    /// prediction. With --database-url all of them are inserted, or none; without, nothing is written.
    Import(ImportOptions),
    /// Print the OpenAPI document of the service
    Openapi,
    /// Print the completions of a shell
    ///
    /// For bash, for example: `source <(scavenger-tuner completions bash)`.
    Completions(completions::Options),
}

/// This program's flags for logs.
#[derive(Clone, Debug)]
pub struct Tuner;

impl Program for Tuner {
    const LOG: &'static str = "SCAVENGER_TUNER_LOG";
    const LOG_FORMAT: &'static str = "SCAVENGER_TUNER_LOG_FORMAT";
    const LOG_HELP: &'static str = "Log what FILTER lets through\n\nA level (error, warn, info, debug, trace) or \
        directives as of the tracing crate, such as `info,scavenger_tuner=debug`. Logs go to stderr.";
}

/// Options of `serve`.
#[derive(Clone, Debug, Args)]
pub struct ServeOptions {
    /// Listen on ADDRESS
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "SCAVENGER_TUNER_LISTEN",
        default_value = "0.0.0.0:8080",
        help_heading = "Connection"
    )]
    pub listen: SocketAddr,
    /// Give up on a request after DURATION
    #[arg(
        long,
        value_name = "DURATION",
        env = "SCAVENGER_TUNER_REQUEST_TIMEOUT",
        default_value = "5s",
        value_parser = duration,
        help_heading = "Connection"
    )]
    pub request_timeout: Duration,
    /// Learn from the measured runs in the Postgres database at URL
    ///
    /// The table gromacs_observation is read, nothing is written. Without it, or while the database cannot be
    /// reached, predictions rest on the hardware classes alone.
    #[arg(
        long,
        value_name = "URL",
        env = "SCAVENGER_TUNER_DATABASE_URL",
        hide_env_values = true,
        help_heading = "Learning"
    )]
    pub database_url: Option<String>,
}

/// Options of `calibrate`.
#[derive(Clone, Debug, Args)]
pub struct CalibrateOptions {
    /// The kind of node [default: this machine]
    ///
    /// Cores and memory, then GPUs and labels that tell the hardware, as for recommend.
    #[arg(long, value_name = "CORES,MEMORY[,gpus=N][,LABEL=VALUE]", value_parser = node_argument)]
    pub node: Option<NodeShape>,
    /// Version of GROMACS
    #[arg(long, value_name = "VERSION")]
    pub gromacs_version: Option<String>,
    /// Most benchmarks to propose, 1 to 3
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub max_benchmarks: u32,
    /// Most cores that a benchmark may take [default: all of the node]
    #[arg(long, value_name = "N")]
    pub max_cores: Option<u32>,
    /// Most atoms that a benchmark may have, at least 5184 [default: about 784000]
    #[arg(long, value_name = "N")]
    pub max_atoms: Option<u64>,
    /// How long a benchmark should take, 20s to 10m
    ///
    /// At the predicted speed. The second half of it is measured.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration)]
    pub benchmark_time: Duration,
    /// Learn from the measured runs in the Postgres database at URL, and insert the rows there
    ///
    /// Those runs count that the role in the URL may read. It inserts as that role, which must be one of the
    /// namespace's tenants.
    #[arg(
        long,
        value_name = "URL",
        env = "SCAVENGER_TUNER_DATABASE_URL",
        hide_env_values = true,
        help_heading = "Queue"
    )]
    pub database_url: Option<String>,
    /// Insert the benchmarks as rows that run in NAMESPACE
    #[arg(
        long,
        value_name = "NAMESPACE",
        env = "SCAVENGER_TUNER_NAMESPACE",
        requires_all = ["pvc", "database_url", "node"],
        help_heading = "Queue"
    )]
    pub namespace: Option<String>,
    /// Make the boxes of water on the PersistentVolumeClaim NAME of that namespace
    ///
    /// In folders calibration-ROW at its root.
    #[arg(
        long,
        value_name = "NAME",
        env = "SCAVENGER_TUNER_PVC",
        requires = "namespace",
        help_heading = "Queue"
    )]
    pub pvc: Option<String>,
    /// Container image with GROMACS and its force fields [default: the tenant's, else the submitter's]
    #[arg(long, value_name = "IMAGE", requires = "namespace", help_heading = "Queue")]
    pub image: Option<String>,
    /// User id to run as [default: the tenant's, else 1000]
    #[arg(long, value_name = "UID", requires = "namespace", help_heading = "Queue")]
    pub run_as_user: Option<i64>,
    /// Measure what neighbours cost: run the largest benchmark alone, then several of it at once
    ///
    /// On at most half of the node's cores; then as many copies as it has cores for, 8 at most, begin together when the
    /// first one is completed. Each records how much of its node was requested.
    #[arg(long, help_heading = "Learning")]
    pub neighbours: bool,
    /// Priority among your rows: higher ones start first
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        allow_negative_numbers = true,
        help_heading = "Queue"
    )]
    pub priority: i32,
    /// Let the database try to insert the rows, and take them back
    #[arg(long, help_heading = "Safety")]
    pub dry_run: bool,
    /// Print a table or JSON
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: Output,
}

/// Options of `import`.
#[derive(Clone, Debug, Args)]
pub struct ImportOptions {
    /// CSV file with a line of names and a line per run, - for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// A label of the nodes that the runs were on, may be given several times
    ///
    /// Those that tell the hardware, such as node.kubernetes.io/instance-type=c6a.16xlarge or
    /// nvidia.com/gpu.product=NVIDIA-A100.
    #[arg(long, value_name = "LABEL=VALUE", value_parser = label_argument, required = true)]
    pub label: Vec<(String, String)>,
    /// Version of GROMACS of all runs without a version of their own
    #[arg(long, value_name = "VERSION")]
    pub gromacs_version: Option<String>,
    /// Insert the runs into the Postgres database at URL
    ///
    /// As the role in the URL, which must be a member of gromacs_submitter.
    #[arg(long, value_name = "URL", env = "SCAVENGER_TUNER_DATABASE_URL", hide_env_values = true)]
    pub database_url: Option<String>,
    /// Record the runs as those of the role NAME [default: the role in the URL]
    #[arg(long, value_name = "NAME", requires = "database_url")]
    pub owner: Option<String>,
    /// Let the database try to insert the rows, and take them back
    #[arg(long, help_heading = "Safety")]
    pub dry_run: bool,
}

/// Options of `recommend`.
#[derive(Clone, Debug, Args)]
pub struct RecommendOptions {
    /// Run input file (.tpr) of the simulation
    ///
    /// Read with `gmx dump`. A number of steps given on the command line counts instead of the file's.
    #[arg(value_name = "FILE", help_heading = "Simulation", conflicts_with_all = ["request", "atoms"])]
    pub file: Option<PathBuf>,
    /// Program of GROMACS that reads FILE
    #[arg(long, value_name = "PROGRAM", default_value = "gmx", help_heading = "Simulation")]
    pub gmx: String,
    /// Number of atoms, of water with the usual settings
    #[arg(
        long,
        value_name = "N",
        required_unless_present_any = ["request", "file"],
        conflicts_with = "request",
        help_heading = "Simulation"
    )]
    pub atoms: Option<u64>,
    /// Read the whole request as JSON from FILE, - for standard input
    ///
    /// The body of `POST /v1/ladder`. Nothing else of the simulation or the nodes is taken from flags then.
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Simulation",
        conflicts_with_all = ["nsteps", "node"]
    )]
    pub request: Option<PathBuf>,
    /// Steps to do, -1 for a run without an end
    #[arg(
        long,
        value_name = "N",
        default_value_t = -1,
        allow_negative_numbers = true,
        help_heading = "Simulation"
    )]
    pub nsteps: i64,
    /// Version of GROMACS
    #[arg(long, value_name = "VERSION", help_heading = "Simulation", conflicts_with = "request")]
    pub gromacs_version: Option<String>,
    /// Vector instructions of the build, such as AVX2_256 [default: those of the processor]
    #[arg(long, value_name = "NAME", help_heading = "Simulation", conflicts_with = "request")]
    pub simd: Option<String>,
    /// A node it may run on, may be given several times [default: this machine]
    ///
    /// Cores and memory, then GPUs and labels that tell the hardware, such as
    /// `64,256Gi,gpus=1,nvidia.com/gpu.product=NVIDIA-A100` or `16,64Gi,node.kubernetes.io/instance-type=m6i.4xlarge`.
    /// `count=N` says how many there are, `free=CORES` how many cores are free on the one with the most.
    #[arg(
        long,
        value_name = "CORES,MEMORY[,gpus=N][,count=N][,free=CORES][,LABEL=VALUE]",
        value_parser = node_argument,
        help_heading = "Scheduling"
    )]
    pub node: Vec<NodeShape>,
    /// Most cores that a configuration may ask for
    #[arg(long, value_name = "N", help_heading = "Scheduling")]
    pub max_cores: Option<u32>,
    /// Most memory that a configuration may ask for, as a quantity
    #[arg(long, value_name = "MEMORY", value_parser = memory_argument, help_heading = "Scheduling")]
    pub max_memory: Option<u64>,
    /// Most GPUs that a configuration may ask for, 0 for none
    #[arg(long, value_name = "N", help_heading = "Scheduling")]
    pub max_gpus: Option<u32>,
    /// Least efficiency of the largest configuration that pays, on each kind of hardware [default: 0.7]
    ///
    /// Speed per price, relative to the best on the same hardware. Without a GPU that is the parallel efficiency.
    #[arg(long, value_name = "SHARE", help_heading = "Scheduling")]
    pub min_efficiency: Option<f64>,
    /// Most configurations to print [default: 12]
    #[arg(long, value_name = "N", help_heading = "Scheduling")]
    pub max_configurations: Option<u32>,
    /// Learn from the measured runs in the Postgres database at URL
    ///
    /// Those count that the role in the URL may read.
    #[arg(
        long,
        value_name = "URL",
        env = "SCAVENGER_TUNER_DATABASE_URL",
        hide_env_values = true,
        help_heading = "Learning"
    )]
    pub database_url: Option<String>,
    /// Draw speed and efficiency over cores, a line per kind of hardware, into FILE, as SVG
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Print a table or JSON
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: Output,
}

/// Form of what is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For a person.
    Table,
    /// The reply of `POST /v1/ladder`.
    Json,
}

fn label_argument(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("{text:?} is not LABEL=VALUE"))?;
    Ok((key.to_owned(), value.to_owned()))
}

fn memory_argument(text: &str) -> Result<u64, String> {
    let bytes = quantity::parse_units(text).map_err(|error| error.to_string())?;
    u64::try_from(bytes).map_err(|_| "must not be negative".to_owned())
}

fn duration(text: &str) -> Result<Duration, String> {
    let parsed: jiff::SignedDuration =
        text.parse().map_err(|_| "write a duration with its unit, such as 5s or 2m".to_owned())?;
    let wanted = Duration::try_from(parsed).map_err(|_| "must not be negative".to_owned())?;
    if wanted.is_zero() || wanted > Duration::from_secs(3600) {
        return Err("must be more than 0 and at most 1h".to_owned());
    }
    Ok(wanted)
}

/// `16,64Gi,gpus=1,count=8,free=4,label=value`
fn node_argument(text: &str) -> Result<NodeShape, String> {
    let mut parts = text.split(',');
    let cores = parts.next().unwrap_or_default();
    let milli =
        quantity::parse_milli(cores).map_err(|error| format!("cannot read the cores {cores:?}: {error}"))?;
    let memory = parts.next().ok_or("memory is missing after the cores, such as 16,64Gi")?;
    let bytes = quantity::parse_units(memory)
        .map_err(|error| format!("cannot read the memory {memory:?}: {error}"))?;
    let mut node = NodeShape {
        count: 1,
        allocatable: Resources {
            cpu_millicores: u32::try_from(milli).map_err(|_| format!("{cores} cores are out of range"))?,
            memory_bytes: u64::try_from(bytes).map_err(|_| format!("{memory} is out of range"))?,
            gpus: 0,
        },
        largest_free: None,
        labels: BTreeMap::new(),
    };
    let mut free = None;
    for part in parts {
        let (key, value) = part.split_once('=').ok_or_else(|| format!("{part:?} is not LABEL=VALUE"))?;
        match key {
            "gpus" => {
                node.allocatable.gpus =
                    value.parse().map_err(|_| format!("{value:?} is not a number of GPUs"))?;
            }
            "count" => {
                node.count = value.parse().map_err(|_| format!("{value:?} is not a number of nodes"))?;
            }
            "free" => {
                let milli = quantity::parse_milli(value)
                    .map_err(|error| format!("cannot read the free cores {value:?}: {error}"))?;
                let within =
                    u32::try_from(milli).ok().filter(|milli| *milli <= node.allocatable.cpu_millicores);
                free = Some(within.ok_or_else(|| format!("{value} cores cannot be free of {cores}"))?);
            }
            _ => {
                node.labels.insert(key.to_owned(), value.to_owned());
            }
        }
    }
    // The cores decide: memory and GPUs are taken to be free.
    node.largest_free = free.map(|cpu_millicores| Resources { cpu_millicores, ..node.allocatable });
    Ok(node)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations_have_units_and_bounds() {
        assert_eq!(duration("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for bad in ["5", "0s", "-1s", "2h", ""] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn nodes_are_read_from_one_argument() {
        let node = node_argument("1500m,4Gi,gpus=2,a/b=c").expect("the node should be read");
        assert_eq!(node.allocatable.cpu_millicores, 1500);
        assert_eq!(node.allocatable.memory_bytes, 4 << 30);
        assert_eq!(node.allocatable.gpus, 2);
        assert_eq!(node.labels["a/b"], "c");
        assert_eq!((node.count, node.largest_free), (1, None));
        let busy = node_argument("16,64Gi,count=8,free=4500m").expect("the node should be read");
        assert_eq!((busy.count, busy.labels.len()), (8, 0));
        assert_eq!(
            busy.largest_free.map(|free| (free.cpu_millicores, free.memory_bytes)),
            Some((4500, 64 << 30))
        );
        for bad in [
            "",
            "4",
            "x,4Gi",
            "4,x",
            "4,4Gi,gpus=x",
            "4,4Gi,label",
            "-4,4Gi",
            "99999999999,4Gi",
            "4,4Gi,free=5",
            "4,4Gi,free=-1",
            "4,4Gi,count=x",
        ] {
            assert!(node_argument(bad).is_err(), "{bad}");
        }
    }
}
