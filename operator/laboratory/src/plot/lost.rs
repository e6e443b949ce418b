//! What is lost by policy: a bar of its parts, the median over the seeds, and the range of the whole.

use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::style::{
    GREY, GRID, Root, TEXT, TITLE, WIDTH, line, picture, round_above, squares, text, width_of,
};
use crate::{compare::Outcome, measure::Figures, print::Comparison};

const RIGHT: i32 = 150;
const BAR: i32 = 20;
const STEP: i32 = 34;
const LEGEND: i32 = 24;

/// A part of what is lost: its name, its colour, which differs in grey, too, and its figure.
type Part = (&'static str, RGBColor, fn(&Figures) -> f64);

const PARTS: [Part; 4] = [
    ("done again", RGBColor(120, 40, 10), |figures| figures.redone_core_hours),
    ("restarts", RGBColor(213, 110, 30), |figures| figures.restart_core_hours),
    ("idle", RGBColor(240, 190, 80), |figures| figures.idle_core_hours),
    ("checkpoints", RGBColor(205, 222, 242), |figures| figures.checkpoint_core_hours),
];

/// Draws it.
pub(super) fn draw(comparison: &Comparison) -> Result<String> {
    let names = comparison.outcomes.iter().map(|outcome| width_of(&outcome.name));
    let left = names.max().unwrap_or(0) + 24;
    let height = TITLE + LEGEND + comparison.outcomes.len() as i32 * STEP + 50;
    let title = format!("Lost core hours: {}", comparison.workload);
    let subtitle = match comparison.seeds {
        1 => "1 seed".to_owned(),
        seeds => format!("{seeds} seeds: the median of each part; the line is 5% to 95% of the whole"),
    };
    let most = comparison.outcomes.iter().map(|outcome| outcome.over(lost).high.max(parts(outcome)));
    let (high, marks) = round_above(most.fold(0.0, f64::max));
    let at = move |hours: f64| left + (f64::from(WIDTH - left - RIGHT) * hours / high).round() as i32;
    picture(height, (&title, &subtitle), |root| {
        squares(root, (left, TITLE + LEGEND / 2), &PARTS.map(|(name, colour, _)| (colour, name)))?;
        let top = TITLE + LEGEND;
        let bottom = top + comparison.outcomes.len() as i32 * STEP;
        for mark in 0..=marks {
            let hours = high * f64::from(mark) / f64::from(marks);
            let colour = if mark == 0 { GREY } else { GRID };
            line(root, vec![(at(hours), top), (at(hours), bottom)], colour, 1)?;
            text(root, (at(hours), bottom + 12), HPos::Center, (TEXT, &GREY), &number(hours))?;
        }
        text(root, (at(high / 2.0), bottom + 32), HPos::Center, (TEXT, &GREY), "core hours")?;
        for (place, outcome) in comparison.outcomes.iter().enumerate() {
            let middle = top + place as i32 * STEP + STEP / 2;
            text(root, (left - 8, middle), HPos::Right, (TEXT, &BLACK), &outcome.name)?;
            bar(root, outcome, middle, &at)?;
        }
        Ok(())
    })
}

fn lost(figures: &Figures) -> f64 {
    figures.lost_core_hours
}

fn parts(outcome: &Outcome) -> f64 {
    PARTS.iter().map(|(_, _, figure)| outcome.over(figure).median).sum()
}

fn number(hours: f64) -> String {
    if hours.fract() == 0.0 { format!("{hours:.0}") } else { format!("{hours:.1}") }
}

fn bar(root: &Root<'_>, outcome: &Outcome, middle: i32, at: &dyn Fn(f64) -> i32) -> Result<()> {
    let mut from = 0.0;
    for (_, colour, figure) in PARTS {
        let to = from + outcome.over(figure).median;
        let corners = [(at(from), middle - BAR / 2), (at(to), middle + BAR / 2)];
        if at(to) > at(from) {
            root.draw(&Rectangle::new(corners, colour.filled()))?;
            root.draw(&Rectangle::new(corners, GREY.stroke_width(1)))?;
        }
        from = to;
    }
    let whole = outcome.over(lost);
    if whole.high > whole.low {
        line(root, vec![(at(whole.low), middle), (at(whole.high), middle)], BLACK, 2)?;
        for end in [at(whole.low), at(whole.high)] {
            line(root, vec![(end, middle - 4), (end, middle + 4)], BLACK, 2)?;
        }
    }
    let per = 100.0 * outcome.over(|figures| figures.lost_core_hours / figures.kept_core_hours).median;
    let digits = usize::from(whole.median < 100.0);
    let words = format!("{:.digits$} ({per:.1}% of kept)", whole.median);
    text(root, (at(whole.high.max(from)) + 8, middle), HPos::Left, (TEXT, &GREY), &words)
}
