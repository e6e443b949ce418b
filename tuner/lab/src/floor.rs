//! What must not get worse unnoticed.
//!
//! The floor is that the model is ahead of the plain model. The bounds below hold what is printed beside that.

use super::report::{is_few, percent, table};
use super::{Accuracy, CPU_REGIMES, GPU_REGIMES, KNOWN_PRODUCT, Regime};

/// Least and most that a figure may be.
type Bounds = (f64, f64);

/// Median of predicted over measured time of each component.
const COMPONENTS: Bounds = (0.75, 1.3);
/// Share of measurements inside the interval of 80%.
const COVERAGE: Bounds = (0.77, 0.93);
/// The same of machines that were never measured: those of other people asked for as wide ones.
const COVERAGE_OF_CLASSES: Bounds = (0.77, 0.95);
/// The same of GPUs: seven machines with eight systems are too few to narrow an interval by.
const COVERAGE_OF_GPUS: Bounds = (0.77, 1.0);
/// Greatest median and 90th percentile of the error by regime, how much is covered, and the greatest half-width, so that no
/// interval covers more because it is wider.
const REGIMES: [(&str, f64, f64, Bounds, f64); 6] = [
    (CPU_REGIMES[0].0, 0.14, 0.34, COVERAGE_OF_CLASSES, 1.42),
    (CPU_REGIMES[1].0, 0.16, 0.38, COVERAGE, 1.4),
    (CPU_REGIMES[2].0, 0.11, 0.3, COVERAGE, 1.3),
    (GPU_REGIMES[0].0, 0.08, 0.17, COVERAGE_OF_GPUS, 1.6),
    (GPU_REGIMES[1].0, 0.14, 0.33, COVERAGE_OF_GPUS, 1.4),
    (KNOWN_PRODUCT.0, 0.18, 0.46, COVERAGE_OF_GPUS, 1.6),
];
/// Fewest choices of a split, and greatest mean and worst loss.
const LOSSES: (usize, f64, f64) = (8, 0.02, 0.1);
/// Least share of the numbers of cores that pay which are found, and which are found up to one measured size.
const PICKS: [(&str, usize, f64); 2] = [("exactly", 0, 0.66), ("up to one size", 1, 0.9)];

/// What is not as it must be: a regime of CPUs in which the plain model is ahead, a figure outside its bounds, and a line of the
/// tables that `page` does not have. The last digit of a number may differ, since libraries of mathematics do.
#[must_use]
pub fn shortfalls(accuracy: &Accuracy, page: &str) -> Vec<String> {
    let mut wrong: Vec<String> = Vec::new();
    for regime in &accuracy.regimes {
        wrong.extend(behind(regime));
        wrong.extend(worse(regime));
    }
    let components = accuracy.components.iter();
    wrong.extend(
        components.filter_map(|one| outside(one.component.0, "the median", one.ratio[1], COMPONENTS)),
    );
    let (fewest, mean, worst) = LOSSES;
    if accuracy.splits.choices < fewest {
        wrong.push(format!("splits: {} choices, must be at least {fewest}", accuracy.splits.choices));
    }
    wrong.extend(outside("splits", "the mean loss", accuracy.splits.mean, (0.0, mean)));
    wrong.extend(outside("splits", "the worst loss", accuracy.splits.worst, (0.0, worst)));
    for (what, apart, least) in PICKS {
        let found = accuracy.picks.iter().filter(|pick| pick.apart <= apart).count();
        if (found as f64) < least * accuracy.picks.len() as f64 {
            wrong.push(format!("of {} sizes that pay, {found} are found {what}", accuracy.picks.len()));
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

/// True if `drawn` is the plot `kept` but for the last digit of numbers: an old plot shows another model.
#[must_use]
pub fn is_same_plot(kept: &str, drawn: &str) -> bool {
    let same = |(a, b): (&str, &str)| Line::new(a).is_nearly(&Line::new(b));
    kept.lines().count() == drawn.lines().count() && kept.lines().zip(drawn.lines()).all(same)
}

/// What is wrong with a figure that is not within its bounds, as it is printed, with two digits behind the point.
fn outside(of: &str, what: &str, figure: f64, (least, most): Bounds) -> Option<String> {
    let printed = (figure * 100.0).round() / 100.0;
    let is_within = (least - 1e-9..=most + 1e-9).contains(&printed);
    (!is_within).then(|| format!("{of}: {what} is {printed}, must be {least} to {most}"))
}

/// Where a regime is worse than it was: larger errors, an interval that covers too little or too much, or is too wide.
fn worse(regime: &Regime) -> Vec<String> {
    let bounds = REGIMES.iter().filter(|(name, ..)| *name == regime.name);
    let figures = |(name, median, p90, coverage, width): &(&str, f64, f64, Bounds, f64)| {
        [
            outside(name, "the median", regime.model.median, (0.0, *median)),
            outside(name, "the 90th percentile", regime.model.p90, (0.0, *p90)),
            outside(name, "what the interval covers", regime.coverage, *coverage),
            outside(name, "the half-width", regime.half_width, (1.0, *width)),
        ]
    };
    bounds.flat_map(figures).flatten().collect()
}

/// Where the plain model is ahead in a regime of CPUs.
fn behind(regime: &Regime) -> Vec<String> {
    let Regime { name, model, plain, .. } = regime;
    let figures = [
        ("median", model.median, plain.median, true),
        ("90th percentile", model.p90, plain.p90, !is_few(regime)),
    ];
    let is_wrong = |(.., own, other, counts): &(&str, f64, f64, bool)| *counts && own >= other;
    let wrong = figures.into_iter().filter(|_| name.starts_with("CPU, ")).filter(is_wrong);
    wrong
        .map(|(what, own, other, _)| {
            format!("{name}: the {what} is {}, and {} plain", percent(own), percent(other))
        })
        .collect()
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
            plain: errors(0.11, 0.40),
            coverage: 0.8,
            half_width: 1.3,
        }
    }

    #[test]
    fn a_regime_in_which_the_plain_model_is_ahead_is_told() {
        let regime = regime("CPU, machine never measured");
        assert_eq!(
            behind(&regime),
            [
                "CPU, machine never measured: the median is 12%, and 11% plain",
                "CPU, machine never measured: the 90th percentile is 41%, and 40% plain",
            ]
        );
        let few = Regime { groups: FEW - 1, ..regime.clone() };
        assert_eq!(behind(&few).len(), 1, "a percentile of few groups means nothing");
        let on_gpu = Regime { name: "one GPU, class never measured", ..regime };
        assert_eq!(behind(&on_gpu), Vec::<String>::new());
    }

    #[test]
    fn figures_outside_their_bounds_are_named() {
        let model = Errors { median: 0.12, p90: 0.3 };
        let good = Regime { model, ..regime(CPU_REGIMES[0].0) };
        assert_eq!(worse(&good), Vec::<String>::new());
        for coverage in [0.69, 0.76, 0.96, 1.0] {
            assert_eq!(worse(&Regime { coverage, ..good.clone() }).len(), 1, "{coverage}");
        }
        let wrong = worse(&Regime { half_width: 1.6, ..good.clone() });
        assert_eq!(wrong, [format!("{}: the half-width is 1.6, must be 1 to 1.42", good.name)]);
        let wrong = worse(&Regime { model: Errors { median: 0.2, p90: 0.5 }, ..good });
        assert_eq!(wrong.len(), 2);
        assert_eq!(outside("force", "the median", 1.304, (0.75, 1.3)), None);
    }

    #[test]
    fn a_plot_of_other_runs_or_of_another_model_is_another() {
        let kept = "<svg>\n<circle cx=\"120\" cy=\"80\" r=\"3\"/>\n</svg>";
        assert!(is_same_plot(kept, &kept.replace("80", "81")));
        assert!(!is_same_plot(kept, &kept.replace("80", "83")));
        assert!(!is_same_plot(kept, &kept.replace("</svg>", "<circle cx=\"1\" cy=\"1\" r=\"3\"/>\n</svg>")));
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
