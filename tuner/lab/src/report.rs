//! The table of the `accuracy` command.

use std::fmt::Write as _;

use scavenger_schema::tuning::Interval;

use super::components::Compared;
use super::efficiency::Pick;
use super::memory::Peak;
use super::{Accuracy, Errors, Regime, SPLIT_GOAL, SplitLoss};

/// Fewest groups whose 90th percentile is more than that of the worst of them.
pub(super) const FEW: usize = 8;

/// The tables as Markdown.
#[must_use]
pub fn table(accuracy: &Accuracy) -> String {
    let mut text = String::from(
        "Error = exp(|ln(predicted/measured)|) - 1 on machines and systems left out of the fit, each machine x \
         system counting the same: median / 90th percentile.\n\n",
    );
    let (all, parts) = accuracy.on_cpus;
    let _ = writeln!(
        text,
        "One node, 1 to 128 cores. {} rows on CPUs are on a whole node, {parts} on a part of one whose other cores are idle:\n",
        all - parts
    );
    rows(&mut text, &accuracy.regimes);
    let (SplitLoss { choices, mean, worst }, (most_mean, most_worst)) = (accuracy.splits, SPLIT_GOAL);
    let _ = writeln!(
        text,
        "| loss by choosing the model's best split | {choices} choices | mean {}, worst {} | mean {}, worst {} | - | - | - |",
        percent(mean),
        percent(worst),
        goal(most_mean),
        goal(most_worst)
    );
    picks(&mut text, &accuracy.picks);
    memory_row(&mut text, &accuracy.memory);
    components(&mut text, &accuracy.components);
    settings(&mut text, super::settings::unmeasured(), &super::settings::compared());
    neighbours(&mut text, &super::neighbours::pairs());
    text
}

fn picks(text: &mut String, picks: &[Pick]) {
    let count = |is_it: fn(&Pick) -> bool| picks.iter().filter(|pick| is_it(pick)).count();
    let (right, near) = (count(|pick| pick.apart == 0), count(|pick| pick.apart <= 1));
    let more = count(|pick| pick.predicted > pick.measured);
    let _ = writeln!(
        text,
        "| most cores with an efficiency of 0.7, the ladder's own rule | {} choices | {right} right, {near} within one \
         size of it; {more} too many | two thirds right | - | - | - |",
        picks.len(),
    );
}

fn components(text: &mut String, compared: &[Compared]) {
    text.push_str(
        "\nParts of a step, predicted over measured (accounting tables of md.log), machine and system left out of the fit:\n\n\
         | component | logs | 10% / median / 90% |\n|---|---|---|\n",
    );
    for Compared { component, logs, ratio: [low, middle, high] } in compared {
        let _ = writeln!(text, "| {} | {logs} | {low:.2} / {middle:.2} / {high:.2} |", component.0);
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

fn neighbours(text: &mut String, pairs: &[super::neighbours::Pair]) {
    text.push_str(
        "\nBoxes of water on a part of a machine's cores, in ns/day: alone, beside copies, and what is predicted once one of \
         the two was measured (neighbours.csv):\n\n\
         | atoms | cores | busy cores beside copies | alone | beside copies | slower by | repetitions differ by | predicted \
         after the run alone | beside copies within it | predicted after the run beside copies |\n\
         |---:|---:|---:|---:|---:|---:|---:|---|---|---|\n",
    );
    for pair in pairs {
        let interval = |Interval { p10, p50, p90 }: Interval| format!("{p50:.1} ({p10:.1} to {p90:.1})");
        let _ = writeln!(
            text,
            "| {} | {} | {} | {:.1} | {:.1} | {:.0}% | {:.0}% | {} | {} | {} |",
            pair.atoms,
            pair.cores.0,
            pair.cores.1,
            pair.alone,
            pair.beside,
            100.0 * (pair.alone / pair.beside - 1.0),
            100.0 * (pair.spread - 1.0),
            interval(pair.after_alone),
            if pair.is_covered() { "yes" } else { "no" },
            interval(pair.after_beside)
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
         | - | - | - |",
        systems.len(),
        peaks.len(),
    );
}

fn rows(text: &mut String, regimes: &[Regime]) {
    text.push_str(
        "| regime | groups | this model | goal | cycles / (speed x cores) | 80% interval covers | half-width (goal) |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for regime in regimes {
        let (median, p90, width) = regime.goal;
        let errors = |errors: &Errors| {
            let few = if is_few(regime) { " (few)" } else { "" };
            format!("{} / {}{few}", percent(errors.median), percent(errors.p90))
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} / {} | {} | {} | x{:.2} (x{width:.2}) |",
            regime.name,
            regime.groups,
            errors(&regime.model),
            goal(median),
            goal(p90),
            errors(&regime.plain),
            percent(regime.coverage),
            regime.half_width,
        );
    }
    if regimes.iter().any(is_few) {
        let _ = writeln!(
            text,
            "\n(few): of fewer than {FEW} groups the 90th percentile is little more than the error of the worst one."
        );
    }
}

/// True if the groups are too few for their 90th percentile to mean much.
pub(super) fn is_few(regime: &Regime) -> bool {
    (1..FEW).contains(&regime.groups)
}

/// Goals have up to one digit behind the point.
fn goal(share: f64) -> String {
    format!("{}%", (share * 1000.0).round() / 10.0)
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}
