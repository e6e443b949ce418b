//! `cargo xtask fuzz`: searches for paths that lead elsewhere, with libFuzzer.

use std::fs;

use anyhow::Result;

use crate::{packages, shell, test};

/// Search for paths, and for output of pods, at which the submitter breaks
///
/// Gives libFuzzer what people write and what pods send (gromacs-submitter/fuzz). It keeps in target/fuzz/inputs what led it to
/// code that was new to it, and goes on from there the next time. An input that breaks something is written into target/fuzz,
/// and `cargo run --package gromacs-submitter-fuzz -- FILE` tries it out again.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Search for so many seconds
    #[arg(long, default_value_t = 60, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Name missing Debian packages instead of installing them
    #[arg(long)]
    no_install: bool,
}

/// Lets the compiler count which code an input reaches, as libFuzzer reads it: rustc's own `-Z sanitizer` is not in stable Rust.
const FLAGS: &str = "--cfg fuzzing -C debug-assertions -C passes=sancov-module -C llvm-args=-sanitizer-coverage-level=4 \
                     -C llvm-args=-sanitizer-coverage-inline-8bit-counters -C llvm-args=-sanitizer-coverage-pc-table \
                     -C llvm-args=-sanitizer-coverage-trace-compares";

/// Carries out `cargo xtask fuzz`.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    packages::ensure(&["g++"], !arguments.no_install)?;
    let folder = test::target()?.join("fuzz");
    let inputs = folder.join("inputs");
    fs::create_dir_all(&inputs)?;
    let mut cargo = shell::cargo(&["run", "--release", "--package", "gromacs-submitter-fuzz"]);
    // With a target of its own, build scripts and macros are compiled without these flags.
    cargo
        .args(["--target", &format!("{}-unknown-linux-gnu", std::env::consts::ARCH)])
        .arg("--target-dir")
        .arg(&folder);
    cargo.arg("--").arg(&inputs).arg(format!("-max_total_time={}", arguments.seconds));
    cargo.arg(format!("-artifact_prefix={}/", folder.display()));
    shell::run(cargo.env("RUSTFLAGS", FLAGS))
}
