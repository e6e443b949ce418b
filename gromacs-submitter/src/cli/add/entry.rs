//! What a user wants added.

use super::super::text::{cut, shown};
use crate::store::NewRow;

/// A row that the user wants, or why it is none.
pub(super) struct Entry {
    /// Line of the CSV file.
    pub(super) line: Option<u64>,
    /// The values of a sweep, such as `lambda=3`.
    pub(super) values: Option<String>,
    /// The file, as far as it is known.
    pub(super) tpr_path: String,
    /// The row.
    pub(super) row: Result<NewRow, String>,
}

impl Entry {
    /// The file, and the values of a sweep.
    pub(super) fn named(&self) -> String {
        let path = cut(&shown(&self.tpr_path), 200);
        self.values.as_ref().map_or_else(|| path.clone(), |it| format!("{path} ({})", cut(&shown(it), 200)))
    }

    pub(super) fn label(&self) -> String {
        match self.line {
            Some(line) if self.tpr_path.is_empty() => format!("line {line}"),
            Some(line) => format!("line {line} ({})", self.named()),
            None => self.named(),
        }
    }
}
