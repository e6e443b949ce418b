//! Development tasks of the project: `cargo xtask demo`, `test`, `versions`, `upgrade`, `walk`, `bench`, `fidelity`, `faults`, `fuzz`,
//! `kernel`, `trace`, `ci`, `cluster`, `generate`, `release`.

mod bench;
mod cache;
mod chart;
mod ci;
mod cluster;
mod compile;
mod contract;
mod demo;
mod docs;
mod faults;
mod fidelity;
mod forecast;
mod fuzz;
mod generate;
mod images;
mod install;
mod kernel;
mod layers;
mod lint;
mod packages;
mod paths;
mod preflight;
mod program;
mod progress;
mod release;
mod rules;
mod shell;
mod test;
mod trace;
mod usage;
mod walk;
mod words;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Build, test and show ScavengerJobs for Kubernetes
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", version)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    Demo(demo::Arguments),
    Test(test::Arguments),
    Soak(test::SoakArguments),
    Versions(test::VersionsArguments),
    Upgrade(test::UpgradeArguments),
    Walk(walk::Arguments),
    Bench(bench::Arguments),
    Fidelity(fidelity::Arguments),
    Faults(faults::Arguments),
    Fuzz(fuzz::Arguments),
    Kernel(kernel::Arguments),
    Trace(trace::Arguments),
    Ci(ci::Arguments),
    Generate(generate::Arguments),
    /// Run a real Kubernetes on this machine
    Cluster(cluster::Arguments),
    /// Build the container images as archives, and push them to a registry
    Images(images::Arguments),
    Release(release::Arguments),
}

fn main() -> ExitCode {
    program::remember();
    match run(Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One sentence with its causes; a backtrace would tell nobody more.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> anyhow::Result<()> {
    match task {
        Task::Demo(arguments) => demo::run(&arguments),
        Task::Test(arguments) => test::run(&arguments),
        Task::Soak(arguments) => test::soak(&arguments),
        Task::Versions(arguments) => test::versions(&arguments),
        Task::Upgrade(arguments) => test::upgrade(&arguments),
        Task::Walk(arguments) => walk::run(&arguments),
        Task::Bench(arguments) => bench::run(&arguments),
        Task::Fidelity(arguments) => fidelity::run(&arguments),
        Task::Faults(arguments) => faults::run(&arguments),
        Task::Fuzz(arguments) => fuzz::run(&arguments),
        Task::Kernel(arguments) => kernel::run(&arguments),
        Task::Trace(arguments) => trace::run(&arguments),
        Task::Ci(arguments) => ci::run(&arguments),
        Task::Generate(arguments) => generate::run(&arguments),
        Task::Cluster(arguments) => cluster::run(arguments),
        Task::Images(arguments) => images::run(&arguments),
        Task::Release(arguments) => release::run(&arguments),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn flags_do_not_contradict_each_other() {
        super::Arguments::command().debug_assert();
    }
}
