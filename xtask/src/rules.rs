//! The tables of rules at the head of the planner and of the submitter's decisions: a newcomer asks a question, and finds the
//! one file and the one function that answer it. Checked, so that a table never names what is not there.

use std::fs;

use anyhow::{Context, Result, bail, ensure};

use crate::shell;

/// A table, and what its rows refer to.
struct Table {
    /// The folder of the files.
    folder: &'static str,
    /// The file at whose head it stands.
    head: &'static str,
    /// How a function is marked that others call.
    public: &'static [&'static str],
}

const TABLES: [Table; 2] = [
    Table { folder: "operator/planner/src", head: "lib.rs", public: PUBLIC },
    Table {
        folder: "gromacs-submitter/src/advance",
        head: "mod.rs",
        public: &["pub ", "pub(crate) ", "pub(super) "],
    },
];

/// In a crate of its own, what is for the module above alone is a detail.
const PUBLIC: &[&str] = &["pub ", "pub(crate) "];

/// A file that holds a rule is read as a whole.
const MOST_LINES: usize = 500;

/// Fewer questions than this are no map.
const LEAST_ROWS: usize = 10;

/// Checks every row `| question | file | function |`.
pub(crate) fn check() -> Result<()> {
    TABLES.iter().try_for_each(check_table)
}

fn check_table(Table { folder, head, public }: &Table) -> Result<()> {
    let read = |file: &str| {
        let path = format!("{}/{folder}/{file}", shell::ROOT);
        fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
    };
    let rows = rows(&read(head)?)?;
    ensure!(rows.len() >= LEAST_ROWS, "{folder}/{head} has a table of {} rules only", rows.len());
    let wrong: Vec<String> = rows
        .iter()
        .filter_map(|row| {
            let answer = read(&row.file).and_then(|text| answers(row, &text, public));
            answer.err().map(|error| format!("{:?}: {error:#}", row.question))
        })
        .collect();
    if wrong.is_empty() { Ok(()) } else { bail!("the table in {folder}/{head}: {}", wrong.join("; ")) }
}

#[derive(Debug, PartialEq)]
struct Row {
    question: String,
    file: String,
    function: String,
}

/// The rows of the table whose questions end with a question mark.
fn rows(text: &str) -> Result<Vec<Row>> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("//! |"));
    let questions = lines.filter(|line| line.contains("? |"));
    questions
        .map(|line| {
            let cells: Vec<&str> = line.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
            let [question, file, function, ""] = cells[..] else {
                bail!("{line:?} is not a row of three cells")
            };
            Ok(Row { question: question.to_owned(), file: file.to_owned(), function: function.to_owned() })
        })
        .collect()
}

/// Whether a file holds the function that a row names, for others to call, and is short enough to be read.
fn answers(row: &Row, text: &str, public: &[&str]) -> Result<()> {
    let lines = text.lines().count();
    ensure!(lines < MOST_LINES, "{} has {lines} lines, {MOST_LINES} or more", row.file);
    let name = row.function.rsplit("::").next().unwrap_or_default();
    let mut is_of_trait = false;
    let found = text.lines().filter(|line| {
        // Every block begins and ends at the margin.
        if line.starts_with(|first: char| !first.is_whitespace()) {
            let head = line.split('{').next().unwrap_or_default();
            is_of_trait = head.starts_with("impl") && head.contains(" for ") || head.contains("trait ");
        }
        let begins = |line: &str, word: &str| {
            let rest = line.strip_prefix(word).and_then(|rest| rest.strip_prefix("fn "));
            rest.and_then(|rest| rest.strip_prefix(name)).is_some_and(|rest| rest.starts_with(['(', '<']))
        };
        let inside = line.trim_start();
        // A function of a trait has no word before it. Any other without one is a detail of its file.
        public.iter().any(|public| begins(inside, public))
            || is_of_trait && inside.len() < line.len() && begins(inside, "")
    });
    match found.count() {
        1 => Ok(()),
        count => bail!("{} has {count} functions {name} that others can call", row.file),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_names_one_function_of_a_short_file() {
        let table =
            "//! | question | file | function |\n//! |---|---|---|\n//! | who goes? | `a.rs` | `choose` |\n";
        let rows = rows(table).unwrap();
        assert_eq!(rows.len(), 1);
        let answers_planner = |text: &str| answers(&rows[0], text, PUBLIC);
        assert!(answers_planner("    pub fn choose(a: u8) {}\n").is_ok());
        assert!(answers_planner("pub(crate) fn choose() {}\n").is_ok());
        assert!(answers_planner("impl Cause for Drain {\n    fn choose(&self) {}\n}\n").is_ok());
        assert!(answers_planner("pub(crate) trait Cause {\n    fn choose(&self);\n}\n").is_ok());
        assert!(answers_planner("pub fn choose_all() {}\n").is_err());
        assert!(answers_planner("fn choose() {}\n").is_err(), "it is a detail of its file");
        assert!(answers_planner("pub(super) fn choose() {}\n").is_err());
        assert!(answers_planner("impl Drain {\n    fn choose(&self) {}\n}\n").is_err());
        assert!(answers_planner("pub fn choose() {}\npub fn choose() {}\n").is_err());
        assert!(answers_planner(&format!("pub fn choose() {{}}\n{}", "\n".repeat(MOST_LINES))).is_err());
        assert!(answers(&rows[0], "pub(super) fn choose() {}\n", TABLES[1].public).is_ok());
        assert!(super::rows("//! | who goes? | `a.rs` |\n").is_err());
    }

    #[test]
    fn the_tables_are_right() {
        check().unwrap();
    }
}
