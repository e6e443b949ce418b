//! Text for people: safe on a terminal, aligned, with units.

use std::io::{IsTerminal as _, Write as _};

pub(super) use scavenger_program::exit::print_error;
use scavenger_schema::terminal::is_unsafe;
pub(super) use scavenger_schema::terminal::shown;
use serde_json::Value;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

pub(super) use crate::text::{cores, count, number_of, speed};

/// JSON, one value over several lines, with everything escaped that [`shown`] would replace.
pub(super) fn json(value: &Value) -> String {
    escape(&serde_json::to_string_pretty(value).unwrap_or_default())
}

/// The same on one line.
pub(super) fn json_line(value: &Value) -> String {
    escape(&value.to_string())
}

/// Outside of strings JSON has no such characters but the line breaks of its layout; inside, serde escapes those below
/// a space, and no others.
fn escape(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        if character != '\n' && is_unsafe(character) {
            escaped.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// Prints a line; whoever closed stdout (`| head`) wants no more of it, and no panic either.
pub(super) fn print_line(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Prints what a person may want to know beside the data.
pub(super) fn print_note(text: &str) {
    let _ = writeln!(std::io::stderr(), "note: {}", shown(text));
}

/// Width of the terminal that stdout is, none if it is none.
pub(super) fn terminal_width() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    ratatui::crossterm::terminal::size().ok().map(|(width, _)| usize::from(width)).filter(|width| *width > 0)
}

/// At most `width` columns of `text`, the last of them an ellipsis if something is missing.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut taken = 0;
    let mut short: String = text
        .chars()
        .take_while(|character| {
            taken += character.width().unwrap_or(0);
            taken < width
        })
        .collect();
    if width > 0 {
        short.push('…');
    }
    short
}

/// Lines of at most `width`, broken between words; those after the first are indented.
pub(super) fn wrap(line: &str, width: usize, indent: usize) -> Vec<String> {
    if line.chars().count() <= width || width <= indent + 8 {
        return vec![cut(line, width)];
    }
    let mut lines = vec![String::new()];
    for word in line.split_inclusive(' ') {
        let last = lines.last().map_or(0, |last| last.chars().count());
        if last > indent && last + word.trim_end().chars().count() > width {
            lines.push(" ".repeat(indent));
        }
        if let Some(last) = lines.last_mut() {
            last.push_str(word);
        }
    }
    lines.iter().map(|line| cut(line.trim_end(), width)).collect()
}

/// Those of `names` for which `name` may have been meant, the likeliest first.
pub(super) fn near<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let name = name.to_lowercase();
    // A third of a word may be wrong, and a letter of the shortest.
    let most = (name.chars().count() / 3).max(1);
    let mut near: Vec<(usize, &str)> = names
        .into_iter()
        .map(|other| (strsim::osa_distance(&name, &other.to_lowercase()), other))
        .filter(|(distance, _)| *distance <= most)
        .collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter().map(|(_, other)| other).collect()
}

/// A table; its last column is as long as it is, unless a width cuts it. Not by comfy-table, which wraps a row that is too
/// wide: `watch` counts on one line for each row.
pub(super) struct Table {
    headings: Vec<&'static str>,
    right: Vec<bool>,
    lines: Vec<Vec<String>>,
}

impl Table {
    /// Headings; one that begins with `>` stands over a column of numbers, which is aligned to the right.
    pub(super) fn new(headings: &[&'static str]) -> Self {
        Self {
            headings: headings.iter().map(|heading| heading.trim_start_matches('>')).collect(),
            right: headings.iter().map(|heading| heading.starts_with('>')).collect(),
            lines: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, cells: &[String]) {
        self.lines.push(cells.iter().map(|cell| shown(cell)).collect());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Lines, heading first, each at most `width` wide.
    pub(super) fn render(&self, width: Option<usize>) -> Vec<String> {
        let heading: Vec<String> = self.headings.iter().map(|heading| (*heading).to_owned()).collect();
        let all = || std::iter::once(&heading).chain(&self.lines);
        let widths: Vec<usize> = (0..heading.len())
            .map(|column| {
                all().map(|line| line.get(column).map_or(0, |cell| cell.width())).max().unwrap_or(0)
            })
            .collect();
        all()
            .map(|line| {
                let padded: Vec<String> = line
                    .iter()
                    .enumerate()
                    .map(|(column, cell)| {
                        let blanks = " ".repeat(widths[column].saturating_sub(cell.width()));
                        if self.right[column] { format!("{blanks}{cell}") } else { format!("{cell}{blanks}") }
                    })
                    .collect();
                let text = padded.join("  ").trim_end().to_owned();
                width.map_or_else(|| text.clone(), |width| cut(&text, width))
            })
            .collect()
    }
}

/// `12 s`, `5 min`, `2 h 10 min`, `3 d 4 h`.
pub(super) fn stretch(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (days, hours, minutes) = (seconds / 86400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min"),
        (0, _, 0) => format!("{hours} h"),
        (0, ..) => format!("{hours} h {minutes} min"),
        (_, 0, _) => format!("{days} d"),
        _ => format!("{days} d {hours} h"),
    }
}

/// Core hours with three digits that count, and all digits before the point.
pub(super) fn core_hours(hours: f64) -> String {
    if hours >= 100.0 { count(hours.round() as i64) } else { speed(hours) }
}

/// Three digits behind the point at most, and none that is zero.
pub(super) fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_gets_through() {
        let nasty = "a\u{1b}[31mred\u{1b}]0;title\u{7}\u{9b}2J\u{7f}b\u{202e}gpj\nnext\u{200b}";
        let safe = shown(nasty);
        assert_eq!(
            safe,
            "a\u{fffd}[31mred\u{fffd}]0;title\u{fffd}\u{fffd}2J\u{fffd}b\u{fffd}gpj next\u{fffd}"
        );
        let value = serde_json::json!({ "name": nasty });
        let printed = json(&value);
        assert!(!printed.chars().any(|character| character != '\n' && is_unsafe(character)), "{printed}");
        assert_eq!(
            serde_json::from_str::<Value>(&printed).expect("should be JSON"),
            value,
            "nothing is lost"
        );
        assert!(!json_line(&value).contains('\n'));
    }

    #[test]
    fn a_table_lines_up_and_is_cut_to_the_width() {
        let mut table = Table::new(&[">ROW", "FILE", "REASON"]);
        table.push(&["1".into(), "wässer/a.tpr".into(), "waits".into()]);
        table.push(&["22".into(), "水.tpr".into(), "no room for 16 s\nfalls back".into()]);
        assert_eq!(
            table.render(None),
            [
                "ROW  FILE          REASON",
                "  1  wässer/a.tpr  waits",
                " 22  水.tpr        no room for 16 s falls back"
            ]
        );
        assert_eq!(table.render(Some(26))[2], " 22  水.tpr        no roo…");
        assert!(table.render(Some(9)).iter().all(|line| line.width() <= 9));
        assert_eq!(cut("abc", 0), "");
    }

    #[test]
    fn names_that_may_have_been_meant_are_near() {
        let near = |name: &str| near(name, ["alice", "alina", "bob", "alice"]);
        assert_eq!(near("alcie"), ["alice"]);
        assert_eq!(near("Alice"), ["alice"]);
        assert_eq!(near("alin"), ["alina"]);
        assert_eq!(near("bo"), ["bob"]);
        assert!(near("mallory").is_empty() && near("").is_empty());
    }

    #[test]
    fn amounts_have_units() {
        assert_eq!(
            [0, 59, 60, 3599, 3600, 7800, 86400, 100_000].map(stretch),
            ["0 s", "59 s", "1 min", "59 min", "1 h", "2 h 10 min", "1 d", "1 d 3 h"]
        );
        assert_eq!([0.0421, 12.34, 1234.4].map(core_hours), ["0.04", "12.3", "1,234"]);
    }
}
