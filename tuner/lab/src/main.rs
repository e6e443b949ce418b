//! Prints how good the model is on measured runs that were left out of its fit.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use scavenger_program::{exit, output};
use scavenger_tuner_lab::{floor, plot, report, run};

/// Print how good predictions are on measured runs left out of the fit
///
/// Fits the model to public measurements with whole machines and systems left out, predicts those, and prints a table in
/// Markdown with a plain model beside. Takes some seconds.
#[derive(Debug, Parser)]
#[command(name = "scavenger-tuner-lab", version)]
struct Options {
    /// Draw predicted against measured speed into FILE, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Print the constants that all measurements together give, too
    #[arg(long)]
    show_constants: bool,
    /// Fail unless the model is ahead of the plain model in every regime of CPUs, and PAGE has these tables
    #[arg(long, value_name = "PAGE")]
    check: Option<PathBuf>,
}

fn main() -> ExitCode {
    exit::ended(print(&Options::parse()))
}

/// Validates and prints the table.
fn print(options: &Options) -> Result<()> {
    let accuracy = run();
    let mut text = report::table(&accuracy);
    if options.show_constants {
        text.push_str(&format!("\n{:#?}\n", accuracy.fitted));
    }
    if let Some(path) = &options.plot {
        let svg = plot::accuracy(&accuracy.points)?;
        std::fs::write(path, &svg).with_context(|| format!("cannot write {}", path.display()))?;
    }
    output::print(&text)?;
    let Some(path) = &options.check else { return Ok(()) };
    let page = std::fs::read_to_string(path)
        .with_context(|| format!("--check {} cannot be read", path.display()))?;
    let wrong = floor::shortfalls(&accuracy, &page);
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(())
}
