//! What is used over time against the thresholds: a panel for each policy, of the first seed.

use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::style::{
    GREY, GRID, ORDINARY, Root, SCAVENGERS, TEXT, TITLE, WIDTH, dashed, line, picture, squares, text,
};
use crate::{
    compare::Outcome,
    measure::Course,
    print::Comparison,
    values::{DAY, HOUR, MINUTE, Time},
    world::Tally,
};

const LEFT: i32 = 48;
const RIGHT: i32 = 130;
const PANEL: i32 = 96;
/// Between panels, with the title of the next.
const GAP: i32 = 34;
/// So many steps of time a panel has at most.
const MOST_STEPS: usize = 200;
/// The legend above the first one.
const LEGEND: i32 = 20;

/// Draws it.
pub(super) fn draw(comparison: &Comparison) -> Result<String> {
    let number = comparison.outcomes.len() as i32;
    let height = TITLE + LEGEND + number * (PANEL + GAP) + 44;
    let title = format!("Requested cpu over time: {}", comparison.workload);
    let courses = comparison.outcomes.iter().filter_map(|outcome| outcome.course.as_ref());
    let longest = courses.map(|course| course.used.len()).max().unwrap_or(0);
    // No finer than a picture shows.
    let group = longest.div_ceil(MOST_STEPS).max(1);
    let minutes = Tally::STEP / MINUTE * group as Time;
    let subtitle = format!("seed 1; means of {minutes} minutes, in percent of what the nodes have for pods");
    picture(height, (&title, &subtitle), |root| {
        let entries = [(ORDINARY, "ordinary pods"), (SCAVENGERS, "ScavengerJobs")];
        squares(root, (LEFT, TITLE + LEGEND / 2), &entries)?;
        let mut bottom = TITLE + LEGEND;
        for outcome in &comparison.outcomes {
            bottom += GAP + PANEL;
            let Some(course) = &outcome.course else { continue };
            panel(root, bottom, outcome, (course, group))?;
        }
        let label = |x: i32, words: &str| text(root, (x, bottom + 12), HPos::Center, (TEXT, &GREY), words);
        for (time, words) in ticks(length(longest)) {
            label(at(time, longest), &words)?;
        }
        text(
            root,
            ((LEFT + WIDTH - RIGHT) / 2, bottom + 30),
            HPos::Center,
            (TEXT, &GREY),
            unit(length(longest)),
        )
    })
}

fn length(steps: usize) -> Time {
    Tally::STEP * steps as Time
}

/// Where a time is on the axis.
fn at(time: Time, steps: usize) -> i32 {
    let part = time as f64 / length(steps).max(1) as f64;
    LEFT + (f64::from(WIDTH - LEFT - RIGHT) * part).round() as i32
}

fn panel(root: &Root<'_>, bottom: i32, outcome: &Outcome, (course, group): (&Course, usize)) -> Result<()> {
    let right = WIDTH - RIGHT;
    let height = |share: f64| bottom - (f64::from(PANEL) * share.clamp(0.0, 1.0)).round() as i32;
    text(root, (LEFT, bottom - PANEL - 10), HPos::Left, (TEXT + 1, &BLACK), &heading(outcome))?;
    let steps = course.used.len();
    let edge = |share: &dyn Fn(&(f64, f64)) -> f64| -> Vec<(i32, i32)> {
        let mut begin = 0;
        let points = course.used.chunks(group).flat_map(|several| {
            let end = begin + several.len() as Time * Tally::STEP;
            let y = height(several.iter().map(share).sum::<f64>() / several.len() as f64);
            let both = [(at(begin, steps), y), (at(end, steps), y)];
            begin = end;
            both
        });
        points.collect()
    };
    for (share, colour) in [
        (&(|used: &(f64, f64)| used.0 + used.1) as &dyn Fn(&(f64, f64)) -> f64, SCAVENGERS),
        (&|used: &(f64, f64)| used.0, ORDINARY),
    ] {
        let mut points = edge(share);
        points.extend([(right, bottom), (LEFT, bottom)]);
        root.draw(&Polygon::new(points, colour.filled()))?;
    }
    for (time, _) in ticks(length(steps)) {
        let x = at(time, steps);
        line(root, vec![(x, bottom), (x, bottom + 4)], GREY, 1)?;
    }
    for percent in [0, 50, 100] {
        let y = height(f64::from(percent) / 100.0);
        let colour = if percent == 0 { GREY } else { GRID };
        line(root, vec![(LEFT, y), (right, y)], colour, 1)?;
        text(root, (LEFT - 6, y), HPos::Right, (TEXT, &GREY), &format!("{percent}%"))?;
    }
    let mut last = None;
    for (number, (name, share)) in outcome.thresholds.iter().enumerate() {
        let y = height(*share);
        dashed(root, vec![(LEFT, y), (right, y)], [2, 4, 1][number % 3], (BLACK, 1))?;
        // Names of lines that are close to each other stand apart.
        let beside = last.map_or(y, |last: i32| y.min(last - TEXT - 1));
        last = Some(beside);
        text(root, (right + 6, beside), HPos::Left, (TEXT - 1, &GREY), name)?;
    }
    Ok(())
}

fn heading(outcome: &Outcome) -> String {
    let Some(first) = outcome.runs.first() else { return outcome.name.clone() };
    format!(
        "{}: {:.0} core hours kept, {:.0} lost, {:.0} interruptions",
        outcome.name, first.kept_core_hours, first.lost_core_hours, first.interruptions
    )
}

/// Round times, at most ten, as hours or days since the beginning.
fn ticks(length: Time) -> Vec<(Time, String)> {
    let steps =
        [5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 3 * DAY, 7 * DAY, 30 * DAY];
    let step = steps.into_iter().find(|step| length / step <= 10).unwrap_or(365 * DAY);
    let by = if length > 4 * DAY { DAY } else { HOUR };
    let label = |time: Time| {
        let text = format!("{:.2}", time as f64 / by as f64);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    (0..=length / step).map(|number| (number * step, label(number * step))).collect()
}

fn unit(length: Time) -> &'static str {
    if length > 4 * DAY { "days" } else { "hours" }
}
