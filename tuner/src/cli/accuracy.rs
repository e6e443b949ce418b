//! `accuracy`: the model against measurements.

use anyhow::Context as _;

use super::Failure;
use crate::accuracy::{floor, pieces, report, run};
use crate::config::AccuracyOptions;

/// Validates and prints the table.
pub fn exec(options: &AccuracyOptions) -> Result<(), Failure> {
    let rounds = usize::from(options.fit_rounds);
    if options.parts {
        return super::print(&report::pieces(&pieces::run(rounds)));
    }
    let accuracy = run(rounds);
    let mut text = report::table(&accuracy);
    if options.show_constants {
        text.push_str(&format!("\n{:#?}\n", accuracy.fitted));
        text.push_str(&report::widening(&accuracy));
    }
    if let Some(path) = &options.plot {
        let svg = crate::plot::accuracy(&accuracy.points).map_err(Failure::work)?;
        super::write(path, &svg)?;
    }
    super::print(&text)?;
    let Some(path) = &options.check else { return Ok(()) };
    let page = std::fs::read_to_string(path)
        .with_context(|| format!("--check {} cannot be read", path.display()))
        .map_err(Failure::work)?;
    let wrong = floor::shortfalls(&accuracy, &page);
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Failure::work(anyhow::anyhow!("{}", wrong.join("\n"))))
}
