//! `import`: measured runs of one's own.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use scavenger_tuner_model::text::three_digits;

use super::Failure;
use crate::config::ImportOptions;
use crate::import::{self, ImportError, Run};

/// Checks the file, inserts its runs if it was said where, and prints how far they are from the prediction.
pub fn exec(options: &ImportOptions) -> Result<(), Failure> {
    let labels: BTreeMap<String, String> = options.label.iter().cloned().collect();
    let version = options.gromacs_version.as_deref();
    let runs = if options.file == Path::new("-") {
        import::read(io::stdin().lock(), &labels, version)
    } else {
        let file = std::fs::File::open(&options.file)
            .with_context(|| format!("cannot read {}", options.file.display()))
            .map_err(Failure::environment)?;
        import::read(file, &labels, version)
    };
    let runs = runs.map_err(|error| Failure::work(anyhow!("nothing was imported: {error}")))?;
    let outcome = super::block_on(async {
        // The pool of connections belongs to the runtime.
        let Some(source) = super::source(options.database_url.as_deref())? else { return Ok("checked") };
        let owner = options.owner.as_deref();
        import::insert(&source, &runs, owner, options.dry_run).await.map_err(failure)?;
        Ok(if options.dry_run { "would import" } else { "imported" })
    })?;
    super::print(&table(&runs, outcome))
}

fn failure(error: ImportError) -> Failure {
    Failure::environment(anyhow::Error::new(error).context("nothing was imported"))
}

fn table(runs: &[Run], outcome: &str) -> String {
    let mut text =
        format!("{:>5}  {:>10}  {:>8}  {:>16}  hardware\n", "line", "atoms", "ns/day", "time/predicted");
    let mut ratios: Vec<f64> = Vec::new();
    for run in runs {
        ratios.push(run.time_ratio);
        let _ = writeln!(
            text,
            "{:>5}  {:>10}  {:>8}  {:>16.2}  {}",
            run.line,
            run.asked.system.atoms,
            three_digits(run.ns_per_day),
            run.time_ratio,
            run.hardware_class
        );
    }
    ratios.sort_by(f64::total_cmp);
    let median = ratios.get(ratios.len() / 2).copied().unwrap_or(1.0);
    let plural = if runs.len() == 1 { "run" } else { "runs" };
    let _ = writeln!(
        text,
        "{outcome} {} {plural}; measured over predicted time, in the middle: {median:.2}",
        runs.len()
    );
    text
}
