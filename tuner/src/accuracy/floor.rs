//! What must not be lost: the model is ahead of both plain models, and the page says so.

use super::report::{is_few, percent, table};
use super::{Accuracy, KNOWN_PRODUCT, Regime};

/// What is not as it must be: a regime of CPUs in which a plain model is ahead, a factor of the intervals that the model has
/// otherwise, and a line of the tables that `page` does not have. The last digit of a number may differ, since libraries of
/// mathematics do.
#[must_use]
pub fn shortfalls(accuracy: &Accuracy, page: &str) -> Vec<String> {
    let parts = accuracy.parts.iter().map(|(name, regimes)| (*name, regimes));
    let all = [("one node", &accuracy.served), ("all rows", &accuracy.regimes)].into_iter().chain(parts);
    let mut wrong: Vec<String> = Vec::new();
    for (rows, regimes) in all {
        // The one regime that the files have no rows for.
        let has_rows = |regime: &&Regime| regime.groups > 0 || regime.name != KNOWN_PRODUCT.0;
        for regime in regimes.iter().filter(has_rows) {
            wrong.extend(behind(rows, regime));
        }
    }
    for (stratum, known, factor) in &accuracy.widening {
        let shipped = stratum.widening(*known);
        if (shipped - factor).abs() > 0.05 {
            wrong.push(format!(
                "WIDENING in tuner/model/src/learn/mod.rs: {shipped} for {stratum:?} and {known:?}, and the rows give {factor:.2}"
            ));
        }
    }
    let pages: Vec<Line<'_>> = page.lines().map(Line::new).collect();
    for line in table(accuracy).lines().filter(|line| line.starts_with("| ")) {
        let printed = Line::new(line);
        if !pages.iter().any(|line| line.is_nearly(&printed)) {
            wrong.push(format!("the page does not have the line: {line}"));
        }
    }
    wrong
}

/// Where a plain model is ahead in a regime of CPUs.
fn behind(rows: &str, regime: &Regime) -> Vec<String> {
    let is_on_cpus = regime.name.starts_with("CPU, ");
    let is_judged = !is_few(regime);
    let mut wrong = Vec::new();
    for (name, plain) in
        [("cycles / (speed x cores)", regime.plain), ("thread, halo and rank terms", regime.terms)]
    {
        let model = regime.model;
        for (what, own, other, counts) in [
            ("median", model.median, plain.median, true),
            ("90th percentile", model.p90, plain.p90, is_judged),
        ] {
            if is_on_cpus && counts && own >= other {
                wrong.push(format!(
                    "{rows}, {}: the {what} is {}, and {} for {name}",
                    regime.name,
                    percent(own),
                    percent(other)
                ));
            }
        }
    }
    wrong
}

/// A line of a page: its words, and its numbers in units of their last digit.
struct Line<'a> {
    words: Vec<&'a str>,
    numbers: Vec<(usize, i64)>,
}

impl<'a> Line<'a> {
    fn new(line: &'a str) -> Self {
        let (mut words, mut numbers) = (Vec::new(), Vec::new());
        let is_part = |c: char| c.is_ascii_digit() || c == '.';
        let mut rest = line;
        while let Some(from) = rest.find(|c: char| c.is_ascii_digit()) {
            let (before, number) = rest.split_at(from);
            let end = number.find(|c: char| !is_part(c)).unwrap_or(number.len());
            let (number, after) = number.split_at(end);
            words.push(before);
            let decimals = number.split_once('.').map_or(0, |(_, digits)| digits.len());
            let digits: String = number.chars().filter(char::is_ascii_digit).collect();
            numbers.push((decimals, digits.parse().unwrap_or(i64::MAX)));
            rest = after;
        }
        words.push(rest);
        Self { words, numbers }
    }

    fn is_nearly(&self, other: &Self) -> bool {
        let near = |((decimals, a), (others, b)): (&(usize, i64), &(usize, i64))| {
            decimals == others && a.abs_diff(*b) <= 1
        };
        self.words == other.words
            && self.numbers.len() == other.numbers.len()
            && self.numbers.iter().zip(&other.numbers).all(near)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Errors;
    use super::super::report::FEW;
    use super::*;

    fn regime(name: &'static str) -> Regime {
        let errors = |median, p90| Errors { median, p90 };
        Regime {
            name,
            goal: (0.1, 0.4, 1.3),
            groups: 9,
            model: errors(0.12, 0.41),
            plain: errors(0.11, 0.50),
            terms: errors(0.20, 0.40),
            coverage: 0.8,
            half_width: 1.3,
        }
    }

    #[test]
    fn a_regime_in_which_a_plain_model_is_ahead_is_told() {
        let regime = regime("CPU, machine never measured");
        let told = behind("one node", &regime);
        assert_eq!(
            told,
            [
                "one node, CPU, machine never measured: the median is 12%, and 11% for cycles / (speed x cores)",
                "one node, CPU, machine never measured: the 90th percentile is 41%, and 40% for thread, halo and rank terms",
            ]
        );
        let few = Regime { groups: FEW - 1, ..regime.clone() };
        assert_eq!(behind("one node", &few).len(), 1, "a percentile of few groups means nothing");
        let on_gpu = Regime { name: "one GPU, class never measured", ..regime };
        assert_eq!(behind("all rows", &on_gpu), Vec::<String>::new());
    }

    #[test]
    fn the_last_digit_of_a_number_may_differ() {
        let nearly = |a, b| Line::new(a).is_nearly(&Line::new(b));
        assert!(nearly("| x | 12% / 41% | x1.34 |", "| x | 13% / 41% | x1.33 |"));
        for other in
            ["| x | 14% / 41% | x1.34 |", "| y | 12% / 41% | x1.34 |", "| x | 12% / 41% | x1.3 |", "| x |"]
        {
            assert!(!nearly("| x | 12% / 41% | x1.34 |", other), "{other}");
        }
    }
}
