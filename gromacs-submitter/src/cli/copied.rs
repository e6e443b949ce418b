//! What `fetch` and `put` say of files that they copy.

use std::collections::BTreeMap;

use super::text::{count, number_of, shown};
use super::{print_error, print_line};

/// Names that a message gives.
const MOST_NAMED: usize = 5;

/// What becomes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fate {
    Copied,
    WouldCopy,
    /// It was there already, with the same content.
    Unchanged,
    /// It is another one each time it is copied, or gone.
    Changing,
}

impl Fate {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Copied => "copied",
            Self::WouldCopy => "would copy",
            Self::Unchanged => "unchanged",
            Self::Changing => "changing",
        }
    }
}

/// Files and bytes of each fate.
#[derive(Debug, Default)]
pub(super) struct Counts(BTreeMap<Fate, (usize, u64)>);

impl Counts {
    pub(super) fn add(&mut self, size: u64, fate: Fate) {
        let (number, bytes) = self.0.entry(fate).or_default();
        (*number, *bytes) = (*number + 1, bytes.saturating_add(size));
    }

    /// `copied 3 files of 2 rows, 1,234 bytes; 1 file had the same content already`, if ` of 2 rows` is `of`.
    pub(super) fn sum(&self, is_dry_run: bool, of: &str) -> String {
        let fate = if is_dry_run { Fate::WouldCopy } else { Fate::Copied };
        let get = |fate: Fate| self.0.get(&fate).copied().unwrap_or_default();
        let ((number, bytes), (unchanged, _)) = (get(fate), get(Fate::Unchanged));
        let mut sum = format!("{} {}{of}, {} bytes", fate.word(), number_of(number, "file"), bytes_of(bytes));
        if unchanged > 0 {
            sum.push_str(&format!("; {} had the same content already", number_of(unchanged, "file")));
        }
        sum
    }
}

/// A line for a file, unless it was there already. `place` says where it changed: `here`.
pub(super) fn print_file(name: &str, fate: Fate, place: &str) {
    match fate {
        Fate::Copied | Fate::WouldCopy => print_line(&format!("{} {}", fate.word(), shown(name))),
        Fate::Unchanged => {}
        Fate::Changing => print_error(&format!("{}; copy it again later", changing(name, place))),
    }
}

/// What is wrong with a file that is another one each time.
pub(super) fn changing(name: &str, place: &str) -> String {
    format!("{} changed {place} while it was copied, twice, or is gone", shown(name))
}

/// The first of these names, and how many more there are.
pub(super) fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names = names.into_iter();
    let mut named: Vec<String> = names.by_ref().take(MOST_NAMED).map(shown).collect();
    let more = names.count();
    if more > 0 {
        named.push(format!("{more} more"));
    }
    named.join(", ")
}

pub(super) fn bytes_of(bytes: u64) -> String {
    count(i64::try_from(bytes).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_names_stand_for_all() {
        assert_eq!(named(["1", "2", "3", "4", "5"]), "1, 2, 3, 4, 5");
        assert_eq!(named(["1", "2", "3", "4", "5", "6", "7"]), "1, 2, 3, 4, 5, 2 more");
        assert_eq!(named(["a\nb"]), shown("a\nb"));
    }

    #[test]
    fn each_fate_is_counted() {
        let mut counts = Counts::default();
        for (size, fate) in
            [(1500, Fate::Copied), (500, Fate::Copied), (7, Fate::Unchanged), (9, Fate::Changing)]
        {
            counts.add(size, fate);
        }
        assert_eq!(counts.sum(false, ""), "copied 2 files, 2,000 bytes; 1 file had the same content already");
        assert!(counts.sum(true, " of 2 rows").starts_with("would copy 0 files of 2 rows, 0 bytes; "));
    }
}
