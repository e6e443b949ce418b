//! `calibrate`: which benchmarks to run on a kind of node, and the rows that run them.

use std::fmt::Write as _;

use anyhow::anyhow;
use scavenger_schema::bounds::WHOLE_CORE;
use scavenger_schema::tuning::{Build, CalibrationReply, CalibrationRequest, MIB, Resources};
use scavenger_tuner_model::calibrate;
use scavenger_tuner_model::text::three_digits;
use serde::Serialize;

use super::Failure;
use super::recommend::this_machine;
use crate::calibration::{self, InsertError, Target};
use crate::config::CalibrateOptions;

/// What is printed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Proposal {
    #[serde(flatten)]
    reply: CalibrationReply,
    /// Rows of gromacs_to_tune that run the benchmarks, in their order; none if nothing was inserted.
    rows: Vec<i64>,
    /// The benchmark that is run again beside copies of itself; none if that was not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    neighbours: Option<Neighbours>,
    /// What became of them; not part of the JSON.
    #[serde(skip)]
    outcome: Outcome,
}

/// Copies of a benchmark that run at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Neighbours {
    /// Place of the benchmark in the list, from 0 on.
    benchmark: usize,
    /// How many run at once.
    copies: u32,
    /// Their rows; none if nothing was inserted.
    rows: Vec<i64>,
}

/// Most copies that run at once.
const MOST_COPIES: u32 = 8;

/// The largest benchmark, as often as a node has cores for it; none if that is once.
fn neighbours(reply: &CalibrationReply, node: &Resources) -> Option<Neighbours> {
    let (benchmark, run) =
        reply.benchmarks.iter().enumerate().max_by_key(|(_, run)| run.resources.cpu_millicores)?;
    let wanted = run.resources;
    let held = [
        node.cpu_millicores.checked_div(wanted.cpu_millicores),
        node.gpus.checked_div(wanted.gpus),
        node.memory_bytes.checked_div(wanted.memory_bytes).and_then(|copies| copies.try_into().ok()),
    ];
    let copies = held.into_iter().flatten().fold(MOST_COPIES, u32::min);
    (copies > 1).then_some(Neighbours { benchmark, copies, rows: Vec::new() })
}

/// What became of the benchmarks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Proposed,
    Tried,
    Inserted,
}

/// Prints the proposal, and inserts its rows if it was said where.
pub fn exec(options: &CalibrateOptions) -> Result<(), Failure> {
    super::block_on(run(options))
}

async fn run(options: &CalibrateOptions) -> Result<(), Failure> {
    let node = match &options.node {
        Some(node) => node.clone(),
        None => this_machine()?,
    };
    let source = super::source(options.database_url.as_deref())?;
    let model = super::model(source.as_ref()).await?;
    let target = target(options, node.labels.clone());
    let offered = node.allocatable;
    // Two of them at least must fit side by side.
    let half = options.neighbours.then_some(offered.cpu_millicores / 2);
    if half.is_some_and(|half| half < WHOLE_CORE) {
        return Err(Failure::work(anyhow!(
            "--neighbours: two benchmarks need a core each, and the node has fewer than 2"
        )));
    }
    let asked = options.max_cores.map(|cores| cores.saturating_mul(WHOLE_CORE));
    let request = CalibrationRequest {
        node,
        gromacs_version: options.gromacs_version.clone(),
        build: Build::default(),
        max_benchmarks: options.max_benchmarks,
        max_cpu_millicores: asked.into_iter().chain(half).min(),
        max_atoms: options.max_atoms,
        seconds: options.benchmark_time.as_secs_f64(),
    };
    let reply = calibrate::propose(&model, &request)
        .map_err(|error| Failure::work(anyhow!("no benchmark: {error}")))?;
    let neighbours = if options.neighbours {
        let found = neighbours(&reply, &offered);
        Some(found.ok_or_else(|| {
            Failure::work(anyhow!(
                "--neighbours: the node holds no benchmark twice; it offers too little memory or GPUs"
            ))
        })?)
    } else {
        None
    };
    let mut proposal = Proposal { reply, rows: Vec::new(), neighbours, outcome: Outcome::Proposed };
    if let (Some(source), Some(target)) = (&source, &target) {
        let copies = proposal.neighbours.as_ref().map(|one| (one.benchmark, one.copies));
        let (rows, beside) =
            calibration::insert(source, target, &proposal.reply.benchmarks, copies, options.dry_run)
                .await
                .map_err(failure)?;
        if options.dry_run {
            proposal.outcome = Outcome::Tried;
        } else {
            (proposal.rows, proposal.outcome) = (rows, Outcome::Inserted);
            if let Some(neighbours) = &mut proposal.neighbours {
                neighbours.rows = beside;
            }
        }
    }
    super::print_as(options.output, &proposal, table)
}

fn target(
    options: &CalibrateOptions,
    node_labels: std::collections::BTreeMap<String, String>,
) -> Option<Target> {
    Some(Target {
        namespace: options.namespace.clone()?,
        persistent_volume_claim: options.pvc.clone()?,
        image: options.image.clone(),
        run_as_user: options.run_as_user,
        priority: options.priority,
        node_labels,
    })
}

fn failure(error: InsertError) -> Failure {
    if error.is_about_values() {
        let sentence = error.to_string();
        let remedy = if sentence.contains("_benchmark_cores_") { "; --max-cores bounds it" } else { "" };
        Failure::work(anyhow!("nothing was added: {sentence}{remedy}"))
    } else {
        Failure::environment(anyhow::Error::new(error).context("nothing was added"))
    }
}

fn table(proposal: &Proposal) -> String {
    let reply = &proposal.reply;
    let mut text = format!(
        "hardware {}: speeds are known within a factor of {:.2}\n",
        reply.hardware_class, reply.half_width
    );
    for (index, run) in reply.benchmarks.iter().enumerate() {
        let _ = writeln!(
            text,
            "{}. {} atoms of water on {} {}{}, {} MiB, about {} s; then within {:.2}\n   gmx mdrun {}",
            index + 1,
            run.system.atoms,
            run.resources.cpu_millicores / 1000,
            if run.resources.cpu_millicores == 1000 { "core" } else { "cores" },
            if run.resources.gpus > 0 { " and a GPU" } else { "" },
            run.resources.memory_bytes / MIB,
            three_digits(run.seconds),
            run.half_width_after,
            run.mdrun_args.join(" ")
        );
        if let Some(row) = proposal.rows.get(index) {
            let _ = writeln!(text, "   row {row}");
        }
    }
    let copies = proposal.neighbours.as_ref().map_or(0, |one| one.copies as usize);
    if let Some(Neighbours { benchmark, rows, .. }) = &proposal.neighbours {
        let _ = writeln!(
            text,
            "{}. number {} once more when it is completed, {copies} at once on one node",
            reply.benchmarks.len() + 1,
            benchmark + 1
        );
        let rows: Vec<String> = rows.iter().map(ToString::to_string).collect();
        if !rows.is_empty() {
            let _ = writeln!(text, "   rows {}", rows.join(", "));
        }
    }
    let count = match reply.benchmarks.len() + copies {
        1 => "1 row".to_owned(),
        count => format!("{count} rows"),
    };
    match proposal.outcome {
        Outcome::Proposed => {}
        Outcome::Tried => {
            let _ = writeln!(text, "would add {count}");
        }
        Outcome::Inserted => {
            let _ = writeln!(text, "added {count}");
        }
    }
    text
}
