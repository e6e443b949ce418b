//! `calibrate`: which benchmarks to run on a kind of node, and the rows that run them.

use std::fmt::Write as _;

use anyhow::anyhow;
use scavenger_schema::tuning::{Build, CalibrationReply, CalibrationRequest, MIB};
use scavenger_tuner_model::calibrate;
use serde::Serialize;

use super::Failure;
use super::recommend::{speed, this_machine};
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
    /// What became of them; not part of the JSON.
    #[serde(skip)]
    outcome: Outcome,
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
    let request = CalibrationRequest {
        node,
        gromacs_version: options.gromacs_version.clone(),
        // That of the newest run: it is for the model to know.
        build: Build::default(),
        max_benchmarks: options.max_benchmarks,
        max_cpu_millicores: options.max_cores.map(|cores| cores.saturating_mul(1000)),
        max_atoms: options.max_atoms,
        seconds: options.benchmark_time.as_secs_f64(),
    };
    let reply = calibrate::propose(&model, &request)
        .map_err(|error| Failure::work(anyhow!("no benchmark: {error}")))?;
    let mut proposal = Proposal { reply, rows: Vec::new(), outcome: Outcome::Proposed };
    if let (Some(source), Some(target)) = (&source, &target) {
        let rows = calibration::insert(source, target, &proposal.reply.benchmarks, options.dry_run)
            .await
            .map_err(failure)?;
        if options.dry_run {
            proposal.outcome = Outcome::Tried;
        } else {
            (proposal.rows, proposal.outcome) = (rows, Outcome::Inserted);
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
            speed(run.seconds),
            run.half_width_after,
            run.mdrun_args.join(" ")
        );
        if let Some(row) = proposal.rows.get(index) {
            let _ = writeln!(text, "   row {row}");
        }
    }
    let count = match reply.benchmarks.len() {
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
