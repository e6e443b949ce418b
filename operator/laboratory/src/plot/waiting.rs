//! How long ScavengerJobs wait for their first run: for each policy the part of them that ran within a time, of the first seed.

use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::style::{GREY, GRID, Root, TEXT, TITLE, WIDTH, colour, dashed, line, picture, text};
use crate::print::Comparison;

const LEFT: i32 = 48;
const RIGHT: i32 = 24;
const PANEL: i32 = 260;
/// Height of a row of the legend.
const ROW: i32 = 18;

/// Minutes at which the axis has names, and the names. It is logarithmic.
const TIMES: [(f64, &str); 9] = [
    (1.0 / 60.0, "1 s"),
    (10.0 / 60.0, "10 s"),
    (1.0, "1 min"),
    (10.0, "10 min"),
    (60.0, "1 h"),
    (360.0, "6 h"),
    (1440.0, "1 day"),
    (10_080.0, "7 days"),
    (43_200.0, "30 days"),
];

/// Draws it.
pub(super) fn draw(comparison: &Comparison) -> Result<String> {
    let courses = || comparison.outcomes.iter().filter_map(|one| Some((one, one.course.as_ref()?)));
    let waits = courses().flat_map(|(_, course)| course.waits.iter().copied());
    let longest = waits.filter(|wait| wait.is_finite()).fold(TIMES[3].0, f64::max);
    let last = TIMES.iter().position(|(time, _)| *time >= longest).unwrap_or(TIMES.len() - 1);
    let (shortest, longest) = (TIMES[0].0, TIMES[last].0);
    let at = move |minutes: f64| {
        let part = (minutes.max(shortest) / shortest).ln() / (longest / shortest).ln();
        LEFT + (f64::from(WIDTH - LEFT - RIGHT) * part.min(1.0)).round() as i32
    };
    let top = TITLE + 8;
    let bottom = top + PANEL;
    let height = bottom + 52 + ROW * comparison.outcomes.len() as i32;
    let title = format!("ScavengerJobs that ran within a time: {}", comparison.workload);
    let subtitle = "seed 1; from submission to the first run, in percent of all that were submitted";
    picture(height, (&title, subtitle), |root| {
        axes(root, (top, bottom), &TIMES[..=last], &at)?;
        for (number, (outcome, course)) in courses().enumerate() {
            let all = course.waits.len().max(1) as f64;
            let height = |count: usize| bottom - (f64::from(PANEL) * count as f64 / all).round() as i32;
            let mut points = vec![(LEFT, bottom)];
            for (count, wait) in course.waits.iter().enumerate().filter(|(_, wait)| wait.is_finite()) {
                let (x, before, after) = (at(*wait), height(count), height(count + 1));
                points.extend([(x, before), (x, after)]);
            }
            let ran = course.waits.iter().filter(|wait| wait.is_finite()).count();
            points.push((WIDTH - RIGHT, height(ran)));
            // Many points fall onto one pixel.
            points.dedup();
            let stroke = (colour(number), 2);
            dashed(root, points, number, stroke)?;
            let y = bottom + 50 + ROW * number as i32;
            dashed(root, vec![(LEFT, y), (LEFT + 40, y)], number, stroke)?;
            let median = outcome.runs.first().map_or(f64::NAN, |run| run.wait_minutes);
            let name = &outcome.name;
            let words =
                format!("{name}: {ran} of {} ran, half of these within {}", course.waits.len(), span(median));
            text(root, (LEFT + 48, y), HPos::Left, (TEXT, &BLACK), &words)?;
        }
        Ok(())
    })
}

/// A time in the unit that suits it.
fn span(minutes: f64) -> String {
    match minutes {
        short if short < 1.0 => format!("{:.0} s", short * 60.0),
        long if long >= 120.0 => format!("{:.1} h", long / 60.0),
        usual => format!("{usual:.1} min"),
    }
}

fn axes(
    root: &Root<'_>,
    (top, bottom): (i32, i32),
    times: &[(f64, &str)],
    at: &dyn Fn(f64) -> i32,
) -> Result<()> {
    for percent in (0..=100).step_by(25) {
        let y = bottom - PANEL * percent / 100;
        let colour = if percent == 0 { GREY } else { GRID };
        line(root, vec![(LEFT, y), (WIDTH - RIGHT, y)], colour, 1)?;
        text(root, (LEFT - 6, y), HPos::Right, (TEXT, &GREY), &format!("{percent}%"))?;
    }
    for (minutes, name) in times {
        let x = at(*minutes);
        line(root, vec![(x, top), (x, bottom)], GRID, 1)?;
        text(root, (x, bottom + 12), HPos::Center, (TEXT, &GREY), name)?;
    }
    Ok(())
}
