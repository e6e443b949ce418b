//! Sweeps: rows that differ in a value which stands in their paths, labels and options. The Python package has the same rule,
//! and is tried with the same cases (`sweep.json`).

use std::collections::BTreeSet;
use std::str::FromStr;

use scavenger_schema::row::{Labels, NewRow, Value};

/// Rows that a sweep makes at most: a slip of the hand must not fill the queue.
const MOST_ROWS: usize = 10_000;

/// Digits of a number in a range, so that none of them overflows.
const MOST_DIGITS: usize = 9;

/// Longest name, as that of a label.
const LONGEST_NAME: usize = 63;

/// Stands in a path for the row in `after`.
const AFTER: &str = "after";

/// Something that varies, with its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sweep {
    name: String,
    values: Vec<String>,
}

/// One value of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Combination<'a>(Vec<(&'a str, &'a str)>);

impl FromStr for Sweep {
    type Err = String;

    /// Reads `lambda=0..19` (both included), `i=0..100..5`, `i=00..19` (padded) or `T=300,310`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, values) =
            text.split_once('=').ok_or("write NAME=VALUES, for example lambda=0..19 or T=300,310")?;
        let is_first = |sign: char| sign.is_ascii_alphabetic() || sign == '_';
        let is_other = |sign: char| sign.is_ascii_alphanumeric() || sign == '_';
        if !name.starts_with(is_first) || !name.chars().all(is_other) || name.len() > LONGEST_NAME {
            return Err(format!(
                "{name:?} cannot be swept; a name has 1 to {LONGEST_NAME} letters, digits and '_', and begins with no digit"
            ));
        }
        if name == AFTER {
            return Err(format!("{AFTER} cannot be swept; {{{AFTER}}} stands for the row in {AFTER}"));
        }
        let values = match range(name, values)? {
            Some(values) => values,
            None => values.split(',').map(|value| value.trim().to_owned()).collect(),
        };
        if values.iter().any(String::is_empty) {
            return Err(format!("{name} has an empty value; write for example {name}=0..19 or {name}=a,b,c"));
        }
        if let Some(control) = values.iter().find(|value| value.contains(char::is_control)) {
            return Err(format!("{name} has the value {control:?}; write values without control characters"));
        }
        let mut seen = BTreeSet::new();
        if let Some(twice) = values.iter().find(|value| !seen.insert(*value)) {
            return Err(format!("{name} has the value {twice} twice; leave one out"));
        }
        Ok(Self { name: name.to_owned(), values })
    }
}

/// The numbers of `0..19` or `0..100..5`; none if the text is no range.
fn range(name: &str, text: &str) -> Result<Option<Vec<String>>, String> {
    let number = |text: &str| {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let is_number =
            (1..=MOST_DIGITS).contains(&digits.len()) && digits.bytes().all(|it| it.is_ascii_digit());
        if is_number { text.parse::<i64>().ok() } else { None }
    };
    let parts: Vec<&str> = text.splitn(3, "..").collect();
    let (first_text, last_text, step) = match parts.as_slice() {
        [first, last] => (*first, *last, Some(1)),
        [first, last, step] if !step.starts_with('-') => (*first, *last, number(step)),
        _ => return Ok(None),
    };
    let (Some(first), Some(last), Some(step)) = (number(first_text), number(last_text), step) else {
        return Ok(None);
    };
    if step == 0 {
        return Err(format!("the step of {name} is 0; write 1 or more"));
    }
    let count = usize::try_from((last - first).abs() / step + 1).unwrap_or(usize::MAX);
    bounded(count)?;
    let is_padded = |text: &str| {
        let digits = text.trim_start_matches('-');
        digits.len() > 1 && digits.starts_with('0')
    };
    let width =
        if is_padded(first_text) || is_padded(last_text) { first_text.len().max(last_text.len()) } else { 0 };
    let ahead = if last >= first { step } else { -step };
    let numbers = std::iter::successors(Some(first), |number| Some(number + ahead)).take(count);
    Ok(Some(numbers.map(|number| format!("{number:0width$}")).collect()))
}

fn bounded(count: usize) -> Result<(), String> {
    if count > MOST_ROWS {
        return Err(format!("the sweep makes {count} rows; make at most {MOST_ROWS} at once"));
    }
    Ok(())
}

impl Sweep {
    /// Every combination of values, the first name varying slowest.
    ///
    /// # Errors
    /// A message if there are too many, or a name is given twice.
    pub fn grid(sweeps: &[Self]) -> Result<Vec<Combination<'_>>, String> {
        let mut names = BTreeSet::new();
        if let Some(twice) = sweeps.iter().find(|sweep| !names.insert(&sweep.name)) {
            return Err(format!("{} is swept twice; leave one out", twice.name));
        }
        bounded(sweeps.iter().fold(1, |count: usize, sweep| count.saturating_mul(sweep.values.len())))?;
        let mut grid = vec![Combination(Vec::new())];
        for sweep in sweeps {
            let mut longer = Vec::new();
            for Combination(before) in &grid {
                for value in &sweep.values {
                    let mut pairs = before.clone();
                    pairs.push((sweep.name.as_str(), value.as_str()));
                    longer.push(Combination(pairs));
                }
            }
            grid = longer;
        }
        Ok(grid)
    }

    /// The first name that stands in none of the texts: the rows would be the same.
    pub fn unused<'a>(sweeps: &'a [Self], texts: &[String]) -> Option<&'a str> {
        let is_used = |sweep: &&Self| texts.iter().any(|text| text.contains(&format!("{{{}}}", sweep.name)));
        sweeps.iter().find(|sweep| !is_used(sweep)).map(|sweep| sweep.name.as_str())
    }
}

impl Combination<'_> {
    /// A text in which each `{name}` is its value. What the values hold is not replaced again.
    #[must_use]
    pub fn fill(&self, text: &str) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('{') {
            filled.push_str(before);
            let found = self.0.iter().find_map(|&(name, value)| {
                let behind = behind.strip_prefix(name)?.strip_prefix('}')?;
                Some((value, behind))
            });
            let (value, behind) = found.unwrap_or(("{", behind));
            filled.push_str(value);
            rest = behind;
        }
        filled + rest
    }

    /// A row whose texts, lists of words and labels are filled.
    #[must_use]
    pub fn fill_row(&self, row: &NewRow) -> NewRow {
        let mut filled = row.clone();
        for (column, value) in row.values() {
            let value = match value {
                Some(Value::Text(text)) => Value::Text(self.fill(&text)),
                Some(Value::Texts(words)) => Value::Texts(words.iter().map(|word| self.fill(word)).collect()),
                Some(Value::Labels(labels)) => Value::Labels(Labels(
                    labels.0.iter().map(|(name, value)| (self.fill(name), self.fill(value))).collect(),
                )),
                _ => continue,
            };
            filled.set(column.name, value);
        }
        filled
    }

    /// `lambda=3, T=310`.
    #[must_use]
    pub fn shown(&self) -> String {
        self.0.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(", ")
    }
}

/// The texts of a row in which a name can stand.
#[must_use]
pub fn texts_of(row: &NewRow) -> Vec<String> {
    let texts = |value| match value {
        Value::Text(text) => vec![text],
        Value::Texts(words) => words,
        Value::Labels(labels) => labels.0.into_iter().flat_map(|(name, value)| [name, value]).collect(),
        _ => Vec::new(),
    };
    row.values().filter_map(|(_, value)| value).flat_map(texts).collect()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Cases {
        values: Vec<Good>,
        refused: Vec<Bad>,
        grids: Vec<Grid>,
    }

    #[derive(Deserialize)]
    struct Good {
        given: String,
        name: String,
        values: Vec<String>,
    }

    #[derive(Deserialize)]
    struct Bad {
        given: String,
        says: String,
    }

    #[derive(Deserialize)]
    struct Grid {
        sweep: Vec<String>,
        text: String,
        rows: Vec<String>,
    }

    fn cases() -> Cases {
        serde_json::from_str(include_str!("sweep.json")).expect("should be the cases")
    }

    fn sweeps(given: &[String]) -> Vec<Sweep> {
        given.iter().map(|given| given.parse().expect("should be good")).collect()
    }

    #[test]
    fn values_are_read() {
        for Good { given, name, values } in cases().values {
            assert_eq!(given.parse(), Ok(Sweep { name, values }), "{given}");
        }
    }

    #[test]
    fn what_is_wrong_is_refused() {
        for Bad { given, says } in cases().refused {
            let error = given.parse::<Sweep>().expect_err(&given);
            assert!(error.contains(&says), "{given}: {error}");
        }
        for given in ["lambda", "x=a\nb", "x=a\0", ""] {
            given.parse::<Sweep>().expect_err(given);
        }
    }

    #[test]
    fn every_combination_is_a_row() {
        for Grid { sweep, text, rows } in cases().grids {
            let sweeps = sweeps(&sweep);
            let grid = Sweep::grid(&sweeps).expect("should be a grid");
            let found: Vec<String> = grid.iter().map(|combination| combination.fill(&text)).collect();
            assert_eq!(found, rows, "{text}");
        }
    }

    #[test]
    fn a_grid_has_an_end() {
        let grid = |given: &[&str]| {
            let sweeps = sweeps(&given.iter().map(|given| (*given).to_owned()).collect::<Vec<_>>());
            Sweep::grid(&sweeps).map(|grid| grid.len())
        };
        assert_eq!(grid(&[]), Ok(1));
        assert_eq!(grid(&["a=0..99", "b=0..99"]), Ok(10_000));
        let many = grid(&["a=0..1", "b=0..5001"]);
        assert!(many.is_err_and(|error| error.contains("the sweep makes 10004 rows; make at most 10000")));
        assert!(grid(&["a=1", "a=2"]).is_err_and(|error| error.contains("a is swept twice")));
    }

    #[test]
    fn texts_words_and_labels_of_a_row_are_filled() {
        let words = ["-f", "md-{l}.mdp", "-c", "{after}"].map(ToOwned::to_owned).to_vec();
        let row = NewRow {
            tpr_path: "fep/{l}.tpr".to_owned(),
            grompp_options: Some(words),
            labels: Some(Labels([("l".to_owned(), "{l}".to_owned())].into())),
            priority: Some(3),
            ..NewRow::default()
        };
        let sweeps = sweeps(&["l=0.5".to_owned()]);
        let grid = Sweep::grid(&sweeps).expect("should be a grid");
        let filled = grid[0].fill_row(&row);
        assert_eq!(filled.tpr_path, "fep/0.5.tpr");
        assert_eq!(filled.grompp_options.expect("should have them")[1..], ["md-0.5.mdp", "-c", "{after}"]);
        assert_eq!(filled.labels, Some(Labels([("l".to_owned(), "0.5".to_owned())].into())));
        assert_eq!(filled.priority, Some(3));
        assert_eq!(grid[0].shown(), "l=0.5");
        assert_eq!(Sweep::unused(&sweeps, &texts_of(&row)), None);
        assert_eq!(Sweep::unused(&sweeps, &["l".to_owned()]), Some("l"));
    }
}
