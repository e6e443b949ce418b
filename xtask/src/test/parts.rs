//! What a soak does beside the tests: measurements on an emulated machine, and whole installations, as people make them.

use std::{path::Path, process::Command, time::Instant};

use anyhow::{Result, bail};

use super::{Arguments, CLUSTERS, stamps::Stamps};
use crate::{cluster, shell};

/// Name of each part, the arguments of `cargo xtask` that carry it out, and whether it makes a cluster.
const PARTS: [(&str, &[&str], bool); 5] = [
    ("kernel with cgroup v2", &["kernel"], false),
    ("demo by the chart", &["demo", "--chart"], true),
    ("demo on another cluster", &["walk", "demo"], true),
    ("commands of the pages", &["walk", "pages"], true),
    ("release without a checkout", &["walk", "release"], true),
];

/// Runs all parts that `stamps` does not know.
pub(super) fn run(program: &Path, arguments: &Arguments, stamps: &Stamps) -> Result<()> {
    let name = arguments.name.numbered(CLUSTERS + 1)?;
    let mut failed = Vec::new();
    for (part, verb, makes_cluster) in PARTS {
        if let Some(seconds) = stamps.passed(part) {
            eprintln!("soak: {part}: left out, has passed at this commit ({seconds:.0} s)");
            continue;
        }
        eprintln!("soak: {part} ...");
        let began = Instant::now();
        let mut command = Command::new(program);
        command.args(verb);
        if makes_cluster {
            command.args(["--name", name.as_str()]);
        }
        if arguments.no_install {
            command.arg("--no-install");
        }
        // Left over from a run that was stopped.
        let result = cluster::down(name.as_str()).and_then(|()| shell::run(&mut command));
        match result.and_then(|()| stamps.stamp(part, began.elapsed().as_secs_f64())) {
            Ok(()) => eprintln!("soak: {part}: ok ({:.0} s)", began.elapsed().as_secs_f64()),
            Err(error) => {
                eprintln!("soak: {part}: FAILED: {error:#}");
                failed.push(part);
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("these parts failed: {}", failed.join(", ")) }
}
