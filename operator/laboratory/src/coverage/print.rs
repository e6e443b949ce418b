//! The table of `scavenger-laboratory coverage`.

use std::fmt::Write as _;

use super::judge::{Count, Coverage};

/// What forecasts came to, under a heading.
pub(super) fn text(heading: &str, coverage: &Coverage) -> String {
    let mut text =
        format!("{heading}\n{:<28}{:>10}{:>9}{:>9}{:>9}\n", "", "forecasts", "hold", "earlier", "later");
    let line = |text: &mut String, name: &str, count: Count| {
        let percent = |part: u64| part as f64 * 100.0 / count.all as f64;
        let (hold, early, late) = (count.coverage() * 100.0, percent(count.early), percent(count.late));
        let _ = writeln!(text, "{name:<28}{:>10}{hold:>8.1}%{early:>8.1}%{late:>8.1}%", count.all);
    };
    line(&mut text, "all", coverage.total());
    for (longest, count) in coverage.deciles() {
        line(&mut text, &format!("expected up to {}", span(longest)), count);
    }
    for (class, count) in &coverage.classes {
        line(&mut text, &class.name(), *count);
    }
    let (width, wait) = coverage.medians();
    let _ = writeln!(text, "median width {}, median wait {}: {:.2}", span(width), span(wait), width / wait);
    let _ = writeln!(text, "unknown {}, undecided at the end {}\n", coverage.unknown, coverage.undecided);
    text
}

/// Minutes, hours or days.
fn span(seconds: f64) -> String {
    match seconds {
        _ if seconds < 3600.0 => format!("{:.1} min", seconds / 60.0),
        _ if seconds < 172_800.0 => format!("{:.1} h", seconds / 3600.0),
        _ => format!("{:.1} d", seconds / 86_400.0),
    }
}
