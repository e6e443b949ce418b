//! What a user wants added.

use super::super::text::{cut, shown};
use crate::store::NewRow;
use crate::text::command_line;

/// A row that the user wants, or why it is none.
pub(super) struct Entry {
    /// Line of the CSV file.
    pub(super) line: Option<u64>,
    /// The values of a sweep, such as `lambda=3`.
    pub(super) values: Option<String>,
    /// The file, as far as it is known; nothing for a command.
    pub(super) tpr_path: String,
    /// The row.
    pub(super) row: Result<NewRow, String>,
}

impl Entry {
    /// What it runs, if it is a command.
    pub(super) fn command(&self) -> Option<&[String]> {
        self.row.as_ref().ok()?.command.as_deref()
    }

    /// The file or the command.
    pub(super) fn what(&self) -> String {
        shown(&self.command().map_or_else(|| self.tpr_path.clone(), command_line))
    }

    /// The file or the command, and the values of a sweep.
    pub(super) fn named(&self) -> String {
        let what = cut(&self.what(), 200);
        self.values.as_ref().map_or_else(|| what.clone(), |it| format!("{what} ({})", cut(&shown(it), 200)))
    }

    pub(super) fn label(&self) -> String {
        match self.line {
            Some(line) if self.what().is_empty() => format!("line {line}"),
            Some(line) => format!("line {line} ({})", self.named()),
            None => self.named(),
        }
    }
}
