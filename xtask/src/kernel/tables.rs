//! What the machines report, as tables for people.

use std::fmt::Write as _;

use scavenger_kernel_guest::report::Line;

/// What one machine reported.
#[derive(Debug, Default)]
pub(super) struct Report {
    tables: Vec<Table>,
    notes: Vec<String>,
    /// What was expected and is not so.
    pub(super) failed: Vec<String>,
    /// How much was expected.
    pub(super) checks: usize,
    /// It has measured everything.
    pub(super) done: bool,
}

#[derive(Debug)]
struct Table {
    title: String,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Report {
    /// Takes in a line of the machine.
    pub(super) fn enter(&mut self, line: Line) {
        match line {
            Line::Table { title, head, .. } => self.tables.push(Table { title, head, rows: Vec::new() }),
            Line::Row(cells) => {
                if let Some(table) = self.tables.last_mut() {
                    table.rows.push(cells);
                }
            }
            Line::Check { passed, text } => {
                self.checks += 1;
                if !passed {
                    self.failed.push(text);
                }
            }
            Line::Note(text) => self.notes.push(text),
            Line::Done => self.done = true,
        }
    }

    /// The tables in Markdown, and below them what the machine noted.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for table in &self.tables {
            let _ = write!(text, "{}\n\n{}", table.title, line(&table.head));
            text.push_str(&line(&vec!["---".to_owned(); table.head.len()]));
            text.extend(table.rows.iter().map(|row| line(row)));
            text.push('\n');
        }
        for note in &self.notes {
            let _ = writeln!(text, "{note}");
        }
        text
    }
}

fn line(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(lines: &str) -> Report {
        let mut report = Report::default();
        lines.lines().filter_map(Line::parse).for_each(|line| report.enter(line));
        report
    }

    #[test]
    fn rows_stand_in_the_table_that_began_last() {
        let report = report(
            "row\tlost\ntable\ta\tFirst\tx\ty\nrow\t1\t2\n[ 1.0] a message of the kernel\ntable\tb\tSecond\tz\nrow\t3\n\
             note\tslow\ndone\n",
        );
        let expected =
            "First\n\n| x | y |\n| --- | --- |\n| 1 | 2 |\n\nSecond\n\n| z |\n| --- |\n| 3 |\n\nslow\n";
        assert_eq!(report.text(), expected);
        assert!(report.done && report.failed.is_empty());
    }

    #[test]
    fn what_is_not_so_is_kept() {
        let report = report("check\tpassed\tone\ncheck\tfailed\ttwo\n");
        assert_eq!((report.checks, report.failed.as_slice()), (2, ["two".to_owned()].as_slice()));
        assert!(!report.done, "a machine that says nothing more has not measured everything");
    }
}
