//! The table of the `accuracy` command.

use std::fmt::Write as _;

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
    text.push_str(
        "| memory request | 0 | too few: the recorded figures are samples, not peaks | - | - | - | - | - |\n",
    );
    for (part, regimes) in &accuracy.parts {
        let _ = writeln!(text, "\nOf these, the rows on {part}:\n");
        rows(&mut text, regimes);
    }
    text
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
            percent(median),
            percent(p90),
            errors(&regime.plain),
            errors(&regime.terms),
            percent(regime.coverage),
            regime.half_width,
        );
    }
}

fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}
