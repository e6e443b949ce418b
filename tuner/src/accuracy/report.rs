//! The table of the `accuracy` command.

use std::fmt::Write as _;

use scavenger_schema::tuning::Interval;
use scavenger_tuner_model::learn::{self, Stratum};

use super::components::Compared;
use super::memory::Peak;
use super::pieces::Brought;
use super::tables::{Known, Worth};
use super::{Accuracy, Errors, Regime};

/// Fewest groups for which a percentile means anything.
const FEW: usize = 8;

/// The tables as Markdown.
#[must_use]
pub fn table(accuracy: &Accuracy) -> String {
    let mut text = String::from(
        "Error = exp(|ln(predicted/measured)|) - 1 on machines and systems left out of the fit, each machine x \
         system counting the same: median / 90th percentile.\n\n",
    );
    let [whole, part] = accuracy.rows_on_one_node;
    let _ = writeln!(
        text,
        "One node, 1 to 128 cores; what a run teaches, it was on one node, too. {whole} rows are on a whole node, {part} on a \
         part of one whose other cores are idle, and 0 beside neighbours:\n"
    );
    rows(&mut text, &accuracy.served);
    text.push_str("\nAll rows, on up to 2048 nodes:\n\n");
    rows(&mut text, &accuracy.regimes);
    for (place, loss) in ["one node", "several nodes", "two GPUs"].iter().zip(&accuracy.splits) {
        let _ = writeln!(
            text,
            "| loss by choosing the model's best split, {place} | {} choices | mean {}, worst {} | mean 2%, worst 10% | - | - | - | - |",
            loss.choices,
            percent(loss.mean),
            percent(loss.worst)
        );
    }
    memory_row(&mut text, &accuracy.memory);
    components(&mut text, &accuracy.components);
    tables(&mut text, &accuracy.tables);
    settings(&mut text, super::settings::unmeasured(), &super::settings::compared());
    for (part, regimes) in &accuracy.parts {
        let _ = writeln!(text, "\nThe rows on {part}:\n");
        rows(&mut text, regimes);
    }
    text
}

fn components(text: &mut String, compared: &[Compared]) {
    text.push_str(
        "\nParts of a step, predicted over measured (accounting tables of md.log), machine and system left out of the fit:\n\n\
         | component | logs | 10% / median / 90% | median by machine |\n|---|---|---|---|\n",
    );
    for Compared { component, logs, ratio: [low, middle, high], by_machine } in compared {
        let machines: Vec<String> =
            by_machine.iter().map(|(machine, ratio)| format!("{machine} {ratio:.2}")).collect();
        let _ = writeln!(
            text,
            "| {} | {logs} | {low:.2} / {middle:.2} / {high:.2} | {} |",
            component.name(),
            machines.join(", ")
        );
    }
}

fn tables(text: &mut String, worth: &[Worth]) {
    text.push_str(
        "\nWhat the table of md.log adds, on up to 8 nodes: one run with its speed alone, and with its table as seven \
         observations more, machine and system left out of the fit:\n\n\
         | one known run | groups | speed alone | with the table | half-width | with the table |\n|---|---|---|---|---|---|\n",
    );
    for Worth { name, groups, alone, with } in worth {
        let errors =
            |known: &Known| format!("{} / {}", percent(known.errors.median), percent(known.errors.p90));
        let interval =
            |known: &Known| format!("x{:.2}, covers {}", known.half_width, percent(known.coverage));
        let _ = writeln!(
            text,
            "| {name} | {groups} | {} | {} | {} | {} |",
            errors(alone),
            errors(with),
            interval(alone),
            interval(with)
        );
    }
}

fn settings(
    text: &mut String,
    unmeasured: Option<super::settings::Compared>,
    compared: &[super::settings::Compared],
) {
    text.push_str(
        "\nSettings that no other row has, one core, a build for SSE4.1 on Zen 4, after the plain run was measured \
         (settings.csv):\n\n\
         | setting | measured, us per step | predicted | within the interval |\n|---|---:|---:|---|\n",
    );
    let unmeasured = unmeasured.map(|one| super::settings::Compared {
        name: format!("{}, before it was measured", one.name),
        ..one
    });
    for one in unmeasured.iter().chain(compared) {
        let Interval { p10, p50, p90 } = one.predicted;
        let digits = usize::from(one.measured < 100.0);
        let _ = writeln!(
            text,
            "| {} | {:.digits$} | {p50:.digits$} ({p10:.digits$} to {p90:.digits$}) | {} |",
            one.name,
            one.measured,
            if one.is_covered() { "yes" } else { "no" }
        );
    }
}

fn memory_row(text: &mut String, peaks: &[Peak]) {
    let mut systems: Vec<u64> = peaks.iter().map(|peak| peak.atoms).collect();
    systems.sort_unstable();
    systems.dedup();
    let range = |least: bool| {
        let ratios = peaks.iter().filter(|peak| peak.least == least).map(|peak| peak.requested);
        ratios.fold((f64::INFINITY, 0.0_f64), |(low, high), ratio| (low.min(ratio), high.max(ratio)))
    };
    let ((low, high), (least_low, least_high)) = (range(false), range(true));
    let below = peaks.iter().filter(|peak| peak.requested < 1.0).count();
    let _ = writeln!(
        text,
        "| memory request over measured peak, thread-MPI | {} boxes of water, {} runs | {low:.2} to {high:.2}, below \
         the peak {below} times; {least_low:.2} to {least_high:.2} where the least request of 64 MiB counts | 1 to 1.5 \
         | - | - | - | - |",
        systems.len(),
        peaks.len(),
    );
}

fn rows(text: &mut String, regimes: &[Regime]) {
    text.push_str(
        "| regime | groups | this model | goal | cycles / (speed x cores) | with thread, halo and rank terms | 80% interval covers | half-width (goal) |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for regime in regimes {
        let errors = |errors: &Errors| {
            let p90 = if regime.groups < FEW { "too few".to_owned() } else { percent(errors.p90) };
            format!("{} / {p90}", percent(errors.median))
        };
        let (median, p90, width) = regime.goal;
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} / {} | {} | {} | {} | x{:.2} (x{width:.2}) |",
            regime.name,
            regime.groups,
            errors(&regime.model),
            goal(median),
            goal(p90),
            errors(&regime.plain),
            errors(&regime.terms),
            percent(regime.coverage),
            regime.half_width,
        );
    }
}

/// What is not as it must be: a regime of CPUs in which a plain model is ahead, a factor of the intervals that the model has
/// otherwise, and a line of the tables that `page` does not have. The last digit of a number may differ, since libraries of
/// mathematics do.
#[must_use]
pub fn shortfalls(accuracy: &Accuracy, page: &str) -> Vec<String> {
    let parts = accuracy.parts.iter().map(|(name, regimes)| (*name, regimes));
    let all = [("one node", &accuracy.served), ("all rows", &accuracy.regimes)].into_iter().chain(parts);
    let mut wrong: Vec<String> =
        all.flat_map(|(rows, regimes)| regimes.iter().flat_map(move |regime| behind(rows, regime))).collect();
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

/// The factors that calibrate the intervals, as `WIDENING` of the model has them.
#[must_use]
pub fn widening(accuracy: &Accuracy) -> String {
    let line = |(stratum, known, factor): &(Stratum, learn::Known, f64)| {
        format!("{stratum:?}, {known:?} known: {factor:.2}\n")
    };
    format!("\nFactors on the standard deviation\n{}", accuracy.widening.iter().map(line).collect::<String>())
}

/// Where a plain model is ahead in a regime of CPUs.
fn behind(rows: &str, regime: &Regime) -> Vec<String> {
    let is_on_cpus = regime.name.starts_with("CPU, ");
    let is_judged = regime.groups >= FEW;
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

/// What each part of the model brings, as Markdown.
#[must_use]
pub fn pieces(brought: &Brought) -> String {
    let mut text = String::from(
        "What each part brings on one node, machine and system left out of the fit (median / 90th percentile in %, \
         half-width, what the interval of 80% covers): the part alone, on a model without any of them, and all parts but \
         this one.\n\n\
         | part | never measured: alone | without | another system: alone | without | this system: alone | without |\n\
         |---|---|---|---|---|---|---|\n",
    );
    let cell = |regime: &Regime| {
        let Regime { model, half_width, coverage, .. } = regime;
        let (median, p90) = (model.median * 100.0, model.p90 * 100.0);
        format!("{median:.0} / {p90:.0}, x{half_width:.2} covers {:.0}", coverage * 100.0)
    };
    for tried in &brought.regimes {
        let _ = write!(text, "| {} ", tried.name);
        for (place, without) in tried.without.iter().enumerate() {
            let alone = tried.alone.as_ref().and_then(|alone| alone.get(place)).map_or("-".to_owned(), cell);
            let _ = write!(text, "| {alone} | {} ", cell(without));
        }
        text.push_str("|\n");
    }
    let [best, better] = &brought.splits;
    let _ = writeln!(
        text,
        "\nM7, {} choices of a split on one node: the model's best loses {} on the mean and {} at worst, the better of its \
         two best, once both were measured, {} and {}.",
        best.choices,
        percent(best.mean),
        percent(best.worst),
        percent(better.mean),
        percent(better.worst)
    );
    let [counted, ignored] = brought.settings;
    let _ = writeln!(
        text,
        "\nM8, {} runs of settings.csv after the plain one was measured: {} within the interval and a median error of {} with \
         the settings counted, {} and {} with all of them ignored.",
        counted.1,
        counted.0,
        percent(counted.2),
        ignored.0,
        percent(ignored.2)
    );
    text
}

/// Goals have up to one digit behind the point.
fn goal(share: f64) -> String {
    format!("{}%", (share * 1000.0).round() / 10.0)
}

fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regime_in_which_a_plain_model_is_ahead_is_told() {
        let errors = |median, p90| Errors { median, p90 };
        let regime = Regime {
            name: "CPU, machine never measured",
            goal: (0.1, 0.4, 1.3),
            groups: 9,
            model: errors(0.12, 0.41),
            plain: errors(0.11, 0.50),
            terms: errors(0.20, 0.40),
            coverage: 0.8,
            half_width: 1.3,
        };
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
