//! Pictures of a comparison, as SVG: what is used over time, what is lost, and who waits for how long.

mod lost;
mod style;
mod used;
mod waiting;

use anyhow::Result;

use crate::print::Comparison;

/// The pictures by the names of their files.
///
/// # Errors
/// If one cannot be drawn, which no comparison brings about.
pub fn pictures(comparison: &Comparison) -> Result<[(&'static str, String); 3]> {
    Ok([
        ("used.svg", used::draw(comparison)?),
        ("lost.svg", lost::draw(comparison)?),
        ("waiting.svg", waiting::draw(comparison)?),
    ])
}
