//! `cargo xtask trace`: whether the planner answers as it did. Its tests write a hash for each plan (scavenger-simulator,
//! `trace.rs`); this compares them with those that are recorded, and shows the first plan that differs.

mod hashes;
mod story;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};

use crate::{compile, shell, test};
use hashes::{Difference, Recording};

/// Whose answers are recorded, by its name in `cargo xtask test`. Tests of the operator run the simulator, too.
pub(crate) const PROGRAM: &str = "operator/planner main";

/// The recording, relative to the checkout.
const RECORDING: &str = "operator/planner/tests/data/answers.txt";

/// Where the tests write, as they know it.
const FOLDER: &str = "SCAVENGER_TRACE";

/// Lets them write what was given and answered, too.
const TEXT: &str = "SCAVENGER_TRACE_TEXT";

/// Show where the planner answers differently than recorded
///
/// Runs the planner's scenarios, properties and days, and compares a hash of each plan with the recording. For the first test
/// that differs it shows what the planner was given, and what it answered before and now. For that it builds the commit that
/// changed the recording last, in target/trace.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Record what the planner answers now: each answer that differs is meant to
    #[arg(long, conflicts_with_all = ["test", "story"])]
    record: bool,
    /// Show this test instead of the first that differs
    #[arg(long, value_name = "NAME")]
    test: Option<String>,
    /// Show so many of the things that the planner saw before the plan that differs
    #[arg(long, default_value_t = 20, value_name = "N")]
    story: usize,
}

/// Carries out `cargo xtask trace`.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let target = test::target()?;
    let folder = target.join("trace");
    let tests = Tests::build(Path::new(shell::ROOT), &target)?;
    if let Some(test) = &arguments.test {
        return show(&tests, test, arguments.story, &folder);
    }
    let passed = tests.run(None, &folder.join("now"))?;
    let now = Recording::of_run(&folder.join("now"))?;
    if arguments.record {
        ensure!(
            passed,
            "tests fail; run `cargo test -p scavenger-planner --test main`, and record when they pass"
        );
        let text = now.to_string();
        fs::write(Path::new(shell::ROOT).join(RECORDING), &text)
            .with_context(|| format!("cannot write {RECORDING}"))?;
        println!("{now:#}: recorded in {RECORDING}, {} KiB", text.len() / 1024);
        return Ok(());
    }
    let differences = recorded()?.differences(&now);
    if differences.is_empty() {
        println!("{now:#}: all answers are as recorded");
        return Ok(());
    }
    if let Some(test) = differences.iter().find_map(Difference::test_on_both_sides) {
        show(&tests, test, arguments.story, &folder)?;
    }
    bail!(summary(&differences));
}

/// Compares what tests have written into a folder with the recording.
///
/// # Errors
/// If an answer differs: in which tests, and what to do about it.
pub(crate) fn compare(folder: &Path) -> Result<()> {
    let differences = recorded()?.differences(&Recording::of_run(folder)?);
    if differences.is_empty() { Ok(()) } else { bail!(summary(&differences)) }
}

/// Lets a run of tests write into this folder, of which what an earlier run has left is removed.
pub(crate) fn prepare(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

/// Lets the tests that are recorded write into a folder.
pub(crate) fn to(folder: &Path, tests: &mut Command) {
    tests.env(FOLDER, folder);
}

fn recorded() -> Result<Recording> {
    let text = fs::read_to_string(Path::new(shell::ROOT).join(RECORDING));
    text.with_context(|| format!("cannot read {RECORDING}"))?.parse()
}

/// What differs, and what to do about it.
fn summary(differences: &[Difference]) -> String {
    /// More are counted only.
    const SHOWN: usize = 20;
    let lines: Vec<String> = differences.iter().take(SHOWN).map(|one| format!("\n  {one}")).collect();
    let more = match differences.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!("\n  and {more} more"),
    };
    format!(
        "the planner answers differently than recorded ({RECORDING}); `cargo xtask trace` shows how; if each difference is \
         meant, run `cargo xtask trace --record`, and say in the commit why:{}{more}",
        lines.concat()
    )
}

/// The planner's tests, as some commit has them.
struct Tests {
    program: PathBuf,
    /// Folder of the planner's package.
    package: PathBuf,
}

impl Tests {
    /// Builds those of the checkout in a folder. Two checkouts need two target folders: cargo names what it builds of a workspace
    /// by paths within it, and would take the build of one for that of the other.
    fn build(checkout: &Path, target: &Path) -> Result<Self> {
        let arguments = ["test", "--locked", "--no-run", "--package", "scavenger-planner", "--test", "main"];
        let mut cargo = shell::cargo(&arguments);
        cargo.current_dir(checkout).env("CARGO_TARGET_DIR", target);
        let built = compile::run("compiling the planner's tests", &mut cargo)?;
        let program = built.into_iter().find(|program| program.profile.test);
        let program = program.context("cargo built no tests of the planner")?.executable;
        Ok(Self { program, package: checkout.join("operator/planner") })
    }

    /// Runs all of them, or one with the text of what is given and answered. False if one failed.
    fn run(&self, one: Option<&str>, folder: &Path) -> Result<bool> {
        prepare(folder)?;
        let mut command = Command::new(&self.program);
        command.current_dir(&self.package).env("CARGO_MANIFEST_DIR", &self.package);
        // The cases of `cargo xtask test`. On one thread a test would not have its name.
        command.env("PROPTEST_RNG_SEED", "1").env("RUST_TEST_THREADS", "8").env(FOLDER, folder);
        if let Some(test) = one {
            command.env(TEXT, "1").args(["--exact", test]);
        }
        let output = command.output().with_context(|| format!("cannot run {}", self.program.display()))?;
        if !output.status.success() {
            eprintln!("{}", String::from_utf8_lossy(&output.stdout).trim_end());
        }
        Ok(output.status.success())
    }
}

/// Shows the first plan of a test that differs, with what came before it.
fn show(now: &Tests, test: &str, story: usize, folder: &Path) -> Result<()> {
    let revision = shell::git(&["log", "-1", "--format=%H", "--", RECORDING])?;
    ensure!(!revision.is_empty(), "no commit has {RECORDING}: there is nothing to compare with");
    let checkout = folder.join(&revision[..12]);
    unpack(&revision, &checkout)?;
    let before = Tests::build(&checkout, &checkout.join("target"))?;
    let text = |tests: &Tests, name: &str| {
        let folder = folder.join(name);
        tests.run(Some(test), &folder)?;
        let file = hashes::file_of(test, &folder);
        fs::read_to_string(&file)
            .with_context(|| format!("test {test} does not let the planner plan, or is not there"))
    };
    let (before, now) = (text(&before, "before")?, text(now, "after")?);
    print!("{test}, compared with {}: {}", &revision[..12], story::of(&before, &now, story));
    Ok(())
}

/// Makes a folder with the files of a commit, unless it is there.
fn unpack(revision: &str, folder: &Path) -> Result<()> {
    if folder.join("Cargo.toml").exists() {
        return Ok(());
    }
    let output =
        Command::new("git").args(["archive", "--format=tar", revision]).current_dir(shell::ROOT).output();
    let output = output.context("cannot run git")?;
    ensure!(
        output.status.success(),
        "git archive failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    tar::Archive::new(output.stdout.as_slice())
        .unpack(folder)
        .with_context(|| format!("cannot unpack {revision} into {}", folder.display()))
}
