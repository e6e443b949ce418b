//! The hashes of a run of the planner's tests, and those that are recorded.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Display, Formatter},
    fs,
    path::{Path, PathBuf},
    str::FromStr,
};

use anyhow::{Context, Result, bail};

/// Digits of each hash that are recorded. A hash is over all that came before, so what these leave undecided the last hash
/// of the test decides.
const DIGITS: usize = 4;

/// Plans of each test of which digits are recorded: those after them are in its last hash.
const EACH: usize = 400;

/// The first line of the file.
const HEAD: &str = "# Of each test of the planner: how many plans it has, the last hash, and the first digits of the others.";

/// What is known of the plans of each test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Recording(BTreeMap<String, Plans>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Plans {
    count: usize,
    last: String,
    digits: String,
}

/// A test whose plans differ from those that are recorded.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Difference {
    /// Its first plan that differs, counted from 1; or a later one, if so few digits do not tell.
    Plan(String, usize),
    /// It is not recorded.
    New(String),
    /// It is recorded, and let the planner plan nothing.
    Gone(String),
}

/// The file into which a test writes.
pub(super) fn file_of(test: &str, folder: &Path) -> PathBuf {
    folder.join(test.replace("::", "."))
}

impl Recording {
    /// What tests have written into a folder.
    pub(super) fn of_run(folder: &Path) -> Result<Self> {
        let mut all = BTreeMap::new();
        for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let path = entry.context("cannot read a folder")?.path();
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let test = path.file_name().unwrap_or_default().to_string_lossy().replace('.', "::");
            all.extend(Plans::of(&text).map(|plans| (test, plans)));
        }
        Ok(Self(all))
    }

    /// The tests in which `now` differs.
    pub(super) fn differences(&self, now: &Self) -> Vec<Difference> {
        let tests: BTreeSet<&String> = self.0.keys().chain(now.0.keys()).collect();
        let difference = |test: &String| match (self.0.get(test), now.0.get(test)) {
            (Some(before), Some(now)) => {
                before.first_other(now).map(|plan| Difference::Plan(test.clone(), plan))
            }
            (None, _) => Some(Difference::New(test.clone())),
            (_, None) => Some(Difference::Gone(test.clone())),
        };
        tests.into_iter().filter_map(difference).collect()
    }
}

impl Plans {
    /// None of a test in which nothing was planned.
    fn of(trace: &str) -> Option<Self> {
        let hashes = || trace.lines().filter_map(|line| line.strip_prefix("= "));
        let digits = hashes().take(EACH).filter_map(|hash| hash.get(..DIGITS)).collect();
        Some(Self { count: hashes().count(), last: hashes().next_back()?.to_owned(), digits })
    }

    fn first_other(&self, now: &Self) -> Option<usize> {
        if self == now {
            return None;
        }
        let digits =
            |plans: &Self| plans.digits.as_bytes().chunks(DIGITS).map(<[u8]>::to_vec).collect::<Vec<_>>();
        let (before, after) = (digits(self), digits(now));
        let same = before.iter().zip(&after).take_while(|(before, after)| before == after).count();
        Some(same + 1)
    }
}

impl Difference {
    /// The test, if it lets the planner plan before and now.
    pub(super) fn test_on_both_sides(&self) -> Option<&str> {
        match self {
            Self::Plan(test, _) => Some(test),
            Self::New(_) | Self::Gone(_) => None,
        }
    }
}

impl Display for Difference {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(test, plan) => write!(formatter, "{test}: from plan {plan} on"),
            Self::New(test) => write!(formatter, "{test}: is not recorded"),
            Self::Gone(test) => write!(formatter, "{test}: is recorded, and nothing was planned in it"),
        }
    }
}

/// As the file has it, or (`{:#}`) how much that is.
impl Display for Recording {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        if formatter.alternate() {
            let plans: usize = self.0.values().map(|plans| plans.count).sum();
            return write!(formatter, "{} tests with {plans} plans", self.0.len());
        }
        writeln!(formatter, "{HEAD}")?;
        for (test, Plans { count, last, digits }) in &self.0 {
            writeln!(formatter, "{test} {count} {last} {digits}")?;
        }
        Ok(())
    }
}

impl FromStr for Recording {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let read = |line: &str| {
            let [test, count, last, digits] = line.split(' ').collect::<Vec<_>>()[..] else {
                bail!("{line:?} is no line of a recording")
            };
            let count = count.parse().with_context(|| format!("{count:?} is no number of plans"))?;
            Ok((test.to_owned(), Plans { count, last: last.to_owned(), digits: digits.to_owned() }))
        };
        Ok(Self(lines.map(read).collect::<Result<_>>()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(tests: &[(&str, &str)]) -> Recording {
        Recording(tests.iter().map(|(test, trace)| ((*test).to_owned(), Plans::of(trace).unwrap())).collect())
    }

    #[test]
    fn a_recording_is_read_as_it_was_written() {
        let recording =
            recording(&[("a::b", "= 0123456789abcdef\n= 1111000000000000\n"), ("c", "= ffff000000000000\n")]);
        assert_eq!(recording.to_string().lines().nth(1), Some("a::b 2 1111000000000000 01231111"));
        assert_eq!(recording.to_string().parse::<Recording>().unwrap(), recording);
        assert_eq!(format!("{recording:#}"), "2 tests with 3 plans");
        assert!("a 1".parse::<Recording>().is_err());
        assert!("a x y z".parse::<Recording>().is_err());
    }

    #[test]
    fn what_differs_is_named_with_its_first_plan() {
        let before =
            recording(&[("a", "= 1111a\n= 2222a\n= 3333a\n"), ("b", "= 1111a\n"), ("same", "= 1111a\n")]);
        let now =
            recording(&[("a", "= 1111a\n= 2229a\n= 3339a\n"), ("c", "= 1111a\n"), ("same", "= 1111a\n")]);
        let expected =
            [Difference::Plan("a".into(), 2), Difference::Gone("b".into()), Difference::New("c".into())];
        assert_eq!(before.differences(&now), expected);
        let digits_are_the_same = recording(&[("same", "= 1111b\n")]);
        let differences = recording(&[("same", "= 1111a\n")]).differences(&digits_are_the_same);
        assert_eq!(differences, [Difference::Plan("same".into(), 2)]);
    }

    #[test]
    fn a_test_that_plans_nothing_is_not_recorded() {
        assert_eq!(Plans::of("< something\n"), None);
    }
}
