//! How commands print.

use std::fmt::Write as _;

use anyhow::Context;
use jiff::SignedDuration;
use scavenger_planner::resources::{Amount, PODS, Resources};
pub(super) use scavenger_program::output::print;
use scavenger_schema::terminal::shown;
use serde::Serialize;

/// How to print what a command found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Output {
    /// A table for people
    Text,
    /// One JSON object a line
    Json,
}

/// One JSON object a line.
pub(super) fn json_lines<T: Serialize>(values: &[T]) -> anyhow::Result<String> {
    let mut text = String::new();
    for value in values {
        text.push_str(&serde_json::to_string(value).context("a value cannot be written as JSON")?);
        text.push('\n');
    }
    Ok(text)
}

/// Columns with two spaces between them; the last one is as long as it is. Not by comfy-table: borders, wrapping and the
/// terminal's width, which are what it does more, would all be switched off.
pub(super) fn table<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    // Names, labels and messages may hold anything.
    let rows: Vec<[String; N]> = rows.iter().map(|row| row.each_ref().map(|cell| shown(cell))).collect();
    let mut widths = header.map(|cell| cell.chars().count());
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    let mut line = |cells: [&str; N]| {
        let padded: Vec<String> =
            cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        writeln!(text, "{}", padded.join("  ").trim_end()).expect("writing to a string should not fail");
    };
    line(header);
    for row in &rows {
        line(row.each_ref().map(String::as_str));
    }
    text
}

/// A share as it stands in tables.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// A duration in whole seconds, minutes and so on, as kubectl writes ages.
pub(super) fn age(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m{}s", seconds / 60, seconds % 60),
        7200..172_800 => format!("{}h{}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d{}h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// What pods request, without saying that each of them is a pod.
pub(super) fn requests(per_pod: &Resources, pod_count: u32) -> String {
    let amounts = per_pod.iter().filter(|(name, _)| *name != PODS);
    let amounts: Vec<String> = amounts.map(|(name, amount)| Amount(name, amount).to_string()).collect();
    match pod_count {
        1 => amounts.join(", "),
        count => format!("{count} pods with {}", amounts.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let age = |seconds| age(SignedDuration::from_secs(seconds));
        assert_eq!(
            [age(-3), age(61), age(125), age(7300), age(200_000)],
            ["0s", "61s", "2m5s", "2h1m", "2d7h"]
        );
    }

    #[test]
    fn columns_are_as_wide_as_their_cells_and_forge_no_line() {
        let rows = [["a".to_owned(), "evil\nb  forged".to_owned()], ["water".to_owned(), String::new()]];
        assert_eq!(table(["NAME", "SAYS"], &rows), "NAME   SAYS\na      evil b  forged\nwater\n");
    }
}
