//! What `fetch` prints: a line for each file that is copied, a sum, and at the end what is missing.

use serde_json::{Value, json};

use super::row::Result;
use crate::cli::copied::{Counts, print_file};
use crate::cli::text::{json as print_json, number_of, shown};
use crate::cli::{print_error, print_line};
use crate::config::FetchOptions;

/// Rows that are missing and get a line of their own: a project may hold thousands that have not begun.
const MOST_MISSING: usize = 20;

/// The folder of a row among those of others, as on the volume.
pub(super) fn folder_of(row: i64) -> String {
    format!("gromacs-{row}")
}

/// Prints as rows are done, or all of it at the end as JSON.
pub(super) struct Printer<'a> {
    options: &'a FetchOptions,
    is_of_several: bool,
    rows: usize,
    counts: Counts,
    /// What JSON says.
    files: Vec<Value>,
}

impl<'a> Printer<'a> {
    pub(super) fn new(options: &'a FetchOptions, is_of_several: bool) -> Self {
        Self { options, is_of_several, rows: 0, counts: Counts::default(), files: Vec::new() }
    }

    /// The files of a row.
    pub(super) fn row(&mut self, row: i64, results: &[Result]) {
        self.rows += 1;
        for (name, size, fate) in results {
            self.counts.add(*size, *fate);
            if self.options.output.is_json() {
                let file = json!({ "row": row, "name": name, "size": size, "result": fate.word() });
                self.files.push(file);
                continue;
            }
            let name = if self.is_of_several { format!("{}/{name}", folder_of(row)) } else { name.clone() };
            print_file(&name, *fate, "on the volume");
        }
    }

    /// The sum, and the rows that are missing.
    pub(super) fn end(mut self, missing: &[(i64, String)]) {
        if self.options.output.is_json() {
            let rows = missing.iter().map(|(row, why)| {
                json!({ "row": row, "name": null, "size": null, "result": "missing", "reason": why })
            });
            self.files.extend(rows);
            return print_line(&print_json(&Value::Array(self.files)));
        }
        print_line(&self.sum());
        for (row, why) in missing.iter().take(MOST_MISSING) {
            print_error(&format!("row {row} is missing: {}", shown(why)));
        }
        if let Some(more @ 1..) = missing.len().checked_sub(MOST_MISSING) {
            let rows = number_of(more, "other row");
            print_error(&format!("{rows} are missing, too; --output json names all and says why"));
        }
    }

    fn sum(&self) -> String {
        let of_rows =
            if self.is_of_several { format!(" of {}", number_of(self.rows, "row")) } else { String::new() };
        self.counts.sum(self.options.dry_run, &of_rows)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::copied::Fate;
    use crate::config::{Cli, Command};

    #[test]
    fn the_sum_counts_rows_if_there_are_several() {
        let all = ["gromacs-submitter", "fetch", "7", "8", "--to", "x", "--output", "json"];
        let Command::Fetch(options) = Cli::try_parse_from(all).expect("should be good").command else {
            panic!("should be fetch")
        };
        let results = |name: &str| {
            vec![(name.to_owned(), 1500, Fate::Copied), ("md.log".to_owned(), 7, Fate::Unchanged)]
        };
        let mut one = Printer::new(&options, false);
        one.row(7, &results("a.xtc"));
        assert_eq!(one.sum(), "copied 1 file, 1,500 bytes; 1 file had the same content already");
        let mut several = Printer::new(&options, true);
        several.row(7, &results("a.xtc"));
        several.row(8, &results("a.xtc"));
        assert_eq!(
            several.sum(),
            "copied 2 files of 2 rows, 3,000 bytes; 2 files had the same content already"
        );
        assert_eq!(several.files[2], json!({ "row": 8, "name": "a.xtc", "size": 1500, "result": "copied" }));
    }
}
