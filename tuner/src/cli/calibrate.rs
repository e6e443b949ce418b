//! `calibrate`: which benchmarks to run on a kind of node.

use std::fmt::Write as _;

use anyhow::anyhow;
use scavenger_schema::tuning::{CalibrationReply, CalibrationRequest, MIB};
use scavenger_tuner_model::{Model, calibrate};

use super::Failure;
use super::recommend::{speed, this_machine};
use crate::config::CalibrateOptions;

/// Prints the proposal.
pub fn exec(options: &CalibrateOptions) -> Result<(), Failure> {
    let node = match &options.node {
        Some(node) => node.clone(),
        None => this_machine()?,
    };
    let request = CalibrationRequest {
        node,
        gromacs_version: options.gromacs_version.clone(),
        max_benchmarks: options.max_benchmarks,
    };
    let reply = calibrate::propose(&Model::prior(), &request)
        .map_err(|error| Failure::work(anyhow!("no benchmark: {error}")))?;
    super::print_as(options.output, &reply, table)
}

fn table(reply: &CalibrationReply) -> String {
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
    }
    text
}
