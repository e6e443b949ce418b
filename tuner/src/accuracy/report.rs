//! The table of the `accuracy` command.

use std::fmt::Write as _;

use scavenger_schema::tuning::Interval;

use super::components::Compared;
use super::memory::Peak;
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
    text.push_str("One node, 1 to 128 cores; what a run teaches, it was on one node, too:\n\n");
    rows(&mut text, &accuracy.served);
    text.push_str("\nAll rows, on up to 2048 nodes:\n\n");
    rows(&mut text, &accuracy.regimes);
    for (place, loss) in ["one node", "several nodes"].iter().zip(&accuracy.splits) {
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

/// Goals have up to one digit behind the point.
fn goal(share: f64) -> String {
    format!("{}%", (share * 1000.0).round() / 10.0)
}

fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

#[cfg(test)]
mod tests {
    /// `12% / 41%` as numbers; none where there are too few groups.
    fn percents(cell: &str) -> [Option<f64>; 2] {
        let mut numbers = cell.split(" / ").map(|text| text.strip_suffix('%')?.parse().ok());
        [numbers.next().flatten(), numbers.next().flatten()]
    }

    #[test]
    fn the_model_is_ahead_of_both_plain_models_in_every_regime_of_cpus() {
        let report = include_str!("../../data/accuracy.md");
        let regimes = report.lines().filter(|line| line.starts_with("| CPU, "));
        let (mut compared, mut medians) = (0, 0);
        for line in regimes {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let [_, _, _, model, _, plain, terms, ..] = cells[..] else { panic!("{line}") };
            let model = percents(model);
            for other in [plain, terms].map(percents) {
                for (own, other) in model.into_iter().zip(other) {
                    let Some((own, other)) = own.zip(other) else { continue };
                    assert!(own < other, "{line}");
                    compared += 1;
                }
            }
            medians += usize::from(model[0].is_some());
        }
        // Three regimes on one node and three on all rows at the least.
        assert!(medians >= 6 && compared >= 24, "{medians} {compared}");
    }
}
