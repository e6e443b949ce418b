//! `accuracy`: the model against measurements.

use super::Failure;
use crate::accuracy::{report, run};
use crate::config::AccuracyOptions;

/// Validates and prints the table.
pub fn exec(options: &AccuracyOptions) -> Result<(), Failure> {
    let accuracy = run(usize::from(options.fit_rounds));
    let mut text = report::table(&accuracy);
    if options.show_constants {
        text.push_str(&format!("\n{:#?}\n", accuracy.fitted));
    }
    if let Some(path) = &options.plot {
        let svg = crate::plot::accuracy(&accuracy.points).map_err(Failure::work)?;
        super::write(path, &svg)?;
    }
    super::print(&text)
}
