//! `cargo xtask faults`: whether `test` finds faults. Faults of one line are drawn from all that cargo-mutants can make,
//! and each is tried alone on the tests that need no cluster.

mod draw;
mod trial;

use std::fs;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::{cache, contract, test};
use draw::Fault;
use trial::{End, How, Verdict, Verdicts};

/// Version of cargo-mutants, which is built once and kept in the cache.
const CARGO_MUTANTS: &str = "27.1.0";

/// Seed faults of one line, and see which of them the tests find
///
/// The same seed gives the same faults until the code changes. Each fault is tried alone, in a copy of the checkout, on the
/// tests that need no cluster: first those in the library of its package, then its other tests, then the tests of the
/// packages that use it. A fault that does not build is replaced. A fault that all tests miss is shown with the commands
/// that try it on a cluster. Needs what `cargo test` needs. Logs are in target/faults; let nothing else build in that folder
/// meanwhile.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Number that decides which faults are drawn
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of faults that build
    #[arg(long, value_name = "N", default_value_t = 30)]
    count: usize,
    /// Seed faults in this part only
    #[arg(long, value_name = "PART")]
    only: Option<Part>,
}

/// Faults are spread evenly over these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Planner,
    Operator,
    Submitter,
    Tuner,
}

/// A package with faults.
struct Package {
    name: &'static str,
    part: Part,
    /// Packages that use it, and whose tests without a cluster see what it does. Those of the planner play whole clusters
    /// on the simulator already. No other package uses one of these five: end-to-end tests run the programs.
    users: &'static [&'static str],
}

const PACKAGES: [Package; 5] = [
    Package {
        name: "scavenger-planner",
        part: Part::Planner,
        users: &["scavenger-operator", "scavenger-simulator", "scavenger-laboratory"],
    },
    Package { name: "scavenger-operator", part: Part::Operator, users: &[] },
    Package { name: "gromacs-submitter", part: Part::Submitter, users: &[] },
    Package { name: "scavenger-tuner", part: Part::Tuner, users: &[] },
    Package {
        name: "scavenger-tuner-model",
        part: Part::Tuner,
        users: &["scavenger-tuner", "gromacs-submitter"],
    },
];

/// Draws faults, tries them, and prints what became of each.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let cargo_mutants = cache::program("cargo-mutants", CARGO_MUTANTS, &[])?;
    let folder = test::target()?.join("faults");
    let all = draw::list(&cargo_mutants)?;
    let mut left = draw::in_order(&all, arguments);
    let diffs = folder.join("diffs");
    cache::remove(&diffs)?;
    fs::create_dir_all(&diffs).with_context(|| format!("cannot create {}", diffs.display()))?;
    let how = How { cargo_mutants, pythons: contract::pythons()?, folder, all: &all };
    how.copy()?;
    let mut faults = Vec::new();
    let mut verdicts = Verdicts::new();
    let mut failed = Vec::new();
    let mut next: Vec<&Fault> = left.drain(..arguments.count.min(left.len())).collect();
    while !next.is_empty() {
        for fault in &next {
            faults.push(*fault);
            let number = faults.len();
            eprintln!("{number:2} {}", fault.name);
            let path = diffs.join(format!("{number}.diff"));
            fs::write(&path, fault.for_git()).with_context(|| format!("cannot write {}", path.display()))?;
        }
        for package in &PACKAGES {
            let of_package: Vec<&Fault> =
                next.iter().copied().filter(|fault| fault.package == package.name).collect();
            // What the others' tests say is worth as much without it.
            if let Err(error) = how.judge(package, &of_package, &mut verdicts) {
                eprintln!("faults: {}: {error:#}", package.name);
                failed.push(package.name);
            }
        }
        // What does not build asks nothing of the tests: another fault of the same part is tried in its place.
        next.retain(|fault| {
            verdicts.get(&fault.name).is_some_and(|verdict| verdict.end == End::DoesNotBuild)
        });
        next = next.iter().filter_map(|fault| draw::next(&mut left, fault.part())).collect();
    }
    println!("{}", table(&faults, &verdicts));
    let mut missed = 0;
    for (number, fault) in faults.iter().enumerate() {
        if verdicts.get(&fault.name).is_some_and(Verdict::is_missed) {
            missed += 1;
            let diff = diffs.join(format!("{}.diff", number + 1));
            println!("{}\n  git apply {} && cargo xtask test", fault.name, diff.display());
        }
    }
    match (failed.as_slice(), missed) {
        ([], 0) => Ok(()),
        ([], _) => bail!("the tests without a cluster miss {missed} of {} faults", arguments.count),
        _ => bail!("not all faults were tried: see above what is wrong with {}", failed.join(", ")),
    }
}

/// What became of each fault.
fn table(faults: &[&Fault], verdicts: &Verdicts) -> String {
    let mut text = "| | fault | found by | seconds |\n|--:|---|---|--:|".to_owned();
    for (number, fault) in faults.iter().enumerate() {
        let Some(Verdict { end, seconds }) = verdicts.get(&fault.name) else { continue };
        let end = match end {
            End::Found(test) => format!("`{test}`"),
            End::Timeout => "a test that does not end".to_owned(),
            End::Missed => "**missed**".to_owned(),
            End::DoesNotBuild => "(does not build)".to_owned(),
        };
        // A bar would end the field.
        let name = fault.name.replace('|', "\\|");
        text += &format!("\n| {} | {name} | {end} | {seconds:.0} |", number + 1);
    }
    text
}
