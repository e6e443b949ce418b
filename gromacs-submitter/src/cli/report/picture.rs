//! The picture: simulations that run, how attempts ended, the speed of each and of all, over one axis of time. SVG.
//!
//! It is read at 600 pixels, in grey too: how an attempt ended is light, medium or dark, and each row has its own dashes.

use std::collections::BTreeMap;

use anyhow::Result;
use jiff::Timestamp;
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use scavenger_schema::colours;

use super::super::text::{core_hours, cut, number_of, shown};
use super::sums::{Sums, clock, seconds};
use crate::store::Ran;

const WIDTH: f64 = 640.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 24.0;
/// Above the first panel: title and summary.
const TOP: f64 = 78.0;
const PANEL: f64 = 130.0;
/// Between panels, with the title of the next.
const GAP: f64 = 40.0;
const TEXT: i32 = 13;
/// Pixels that a letter takes in the legend: about what sans-serif does.
const LETTER: f64 = 7.0;
const FONT: &str = "sans-serif";
const fn rgb((red, green, blue): (u8, u8, u8)) -> RGBColor {
    RGBColor(red, green, blue)
}
/// The colour of a row; after the last the first comes again.
const fn colour(place: usize) -> RGBColor {
    rgb(colours::DISTINCT[place % colours::DISTINCT.len()])
}
/// Length and gap of the dashes of a row; the first is drawn through.
const DASHES: [(i32, i32); 7] = [(1, 0), (9, 3), (3, 3), (14, 4), (5, 6), (9, 7), (2, 6)];
/// Light, medium and dark in grey, too.
const INTERRUPTED: RGBColor = RGBColor(240, 190, 80);
const COMPLETED: RGBColor = RGBColor(0, 140, 105);
const FAILED: RGBColor = RGBColor(90, 20, 0);
const GREY: RGBColor = rgb(colours::GREY);
const GRID: RGBColor = rgb(colours::GRID);

/// The whole picture, with coordinates in pixels.
type Root<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A panel: values from 0 to `high`, drawn upwards from `bottom`.
struct Panel {
    bottom: f64,
    high: f64,
}

impl Panel {
    /// Number `index` from above; as high as the round number above `most`.
    fn new(index: u32, most: f64) -> Self {
        let top = TOP + f64::from(index) * (PANEL + GAP);
        Self { bottom: top + PANEL, high: round_above(most) }
    }

    fn at(&self, value: f64) -> f64 {
        self.bottom - PANEL * (value / self.high).clamp(0.0, 1.0)
    }
}

/// A round number with one digit, or two and a half, that is not below `value`.
fn round_above(value: f64) -> f64 {
    if !(value.is_finite() && value > 0.0) {
        return 1.0;
    }
    let power = 10_f64.powf(value.log10().floor());
    let digits = [1.0, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    digits.into_iter().map(|digit| digit * power).find(|round| *round >= value).unwrap_or(value)
}

/// Into how many parts a round number is divided, so that these are round, too.
fn parts(high: f64) -> u32 {
    let digit = high / 10_f64.powf(high.log10().floor());
    let parts = match (digit * 2.0).round() as u32 {
        6 | 12 => 3,
        4 | 8 | 16 => 4,
        _ => 5,
    };
    // What is counted has no fractions.
    if high < f64::from(parts) && high.fract() == 0.0 { high as u32 } else { parts }
}

/// The axis of time.
struct Time {
    since: Timestamp,
    span: f64,
}

impl Time {
    fn at(&self, time: Timestamp) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (seconds(self.since, time) / self.span).clamp(0.0, 1.0)
    }
}

/// Draws it.
pub(super) fn draw(ran: &[Ran], sums: &Sums) -> Result<String> {
    let time = Time { since: sums.since, span: seconds(sums.since, sums.until).max(1.0) };
    let height = TOP + 4.0 * PANEL + 3.0 * GAP + 44.0;
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH as u32, height as u32)).into_drawing_area();
        root.fill(&WHITE)?;
        text(&root, (12.0, 24.0), HPos::Left, (17, &BLACK), &title(sums))?;
        text(&root, (12.0, 44.0), HPos::Left, (TEXT - 1, &GREY), &subtitle(sums))?;
        running(&root, ran, &time, sums)?;
        endings(&root, &time, sums)?;
        speeds(&root, ran, &time, sums)?;
        throughput(&root, &time, sums)?;
        time_labels(&root, &time, sums, TOP + 4.0 * PANEL + 3.0 * GAP + 18.0)?;
        root.present()?;
    }
    Ok(svg)
}

fn title(sums: &Sums) -> String {
    let parts = [(sums.simulations, "simulation"), (sums.runs, "run"), (sums.interrupted, "interruption")];
    parts.map(|(number, one)| number_of(usize::try_from(number).unwrap_or(0), one)).join(", ")
}

fn subtitle(sums: &Sums) -> String {
    format!(
        "{} to {} UTC: {} completed, {} failed; {:.1} ns simulated in {} core hours",
        clock(sums.since),
        clock(sums.until),
        sums.completed,
        sums.failed,
        sums.ns,
        core_hours(sums.core_hours)
    )
}

/// The number that runs, exactly: up at a start, down at an end.
fn running(root: &Root<'_>, ran: &[Ran], time: &Time, sums: &Sums) -> Result<()> {
    let mut changes: BTreeMap<Timestamp, i32> = BTreeMap::new();
    for attempt in ran {
        *changes.entry(attempt.start_time.to_jiff().max(sums.since)).or_default() += 1;
        if let Some(end) = attempt.end_time {
            *changes.entry(end.to_jiff().clamp(sums.since, sums.until)).or_default() -= 1;
        }
    }
    let mut number = 0;
    let mut most = 0;
    for change in changes.values() {
        number += change;
        most = most.max(number);
    }
    let panel = Panel::new(0, f64::from(most));
    frame(root, &panel, time, sums, "simulations running (number)")?;
    let mut points = vec![pixel(time.at(sums.since), panel.bottom)];
    let mut number = 0;
    for (moment, change) in &changes {
        let x = time.at(*moment);
        points.push(pixel(x, panel.at(f64::from(number))));
        number += change;
        points.push(pixel(x, panel.at(f64::from(number))));
    }
    let right = time.at(sums.until);
    points.push(pixel(right, panel.at(f64::from(number))));
    points.push(pixel(right, panel.bottom));
    root.draw(&Polygon::new(points.clone(), colour(0).mix(0.25)))?;
    Ok(root.draw(&PathElement::new(points, colour(0).stroke_width(2)))?)
}

/// How attempts ended in each stretch, on top of each other.
fn endings(root: &Root<'_>, time: &Time, sums: &Sums) -> Result<()> {
    let most = sums.bins.iter().map(|bin| bin.completed + bin.failed + bin.interrupted).max().unwrap_or(0);
    let panel = Panel::new(1, most as f64);
    frame(root, &panel, time, sums, "attempts that ended (number)")?;
    for bin in &sums.bins {
        let mut below = 0;
        for (number, colour) in
            [(bin.interrupted, INTERRUPTED), (bin.completed, COMPLETED), (bin.failed, FAILED)]
        {
            let (from, to) = (time.at(bin.from), time.at(bin.to));
            bar(root, &panel, (from, to), (below as f64, (below + number) as f64), colour)?;
            below += number;
        }
    }
    legend(root, &panel, &[(INTERRUPTED, "interrupted"), (COMPLETED, "completed"), (FAILED, "failed")], false)
}

/// A line per attempt, from its start to its end, at the speed that mdrun measured.
fn speeds(root: &Root<'_>, ran: &[Ran], time: &Time, sums: &Sums) -> Result<()> {
    let most = ran.iter().filter_map(|attempt| attempt.ns_per_day).fold(0.0, f64::max);
    let panel = Panel::new(2, most);
    frame(root, &panel, time, sums, "speed of each run (ns/day)")?;
    let mut rows: Vec<(i64, &str)> = ran.iter().map(|it| (it.row_id, it.tpr_path.as_str())).collect();
    rows.sort_unstable();
    rows.dedup();
    // More rows than colours cannot be distinguished, and a colour that returns would say that two rows are the same.
    let one_each = rows.len() <= colours::DISTINCT.len();
    for attempt in ran {
        let Some(ns_per_day) = attempt.ns_per_day else { continue };
        let place = rows.iter().position(|(row, _)| *row == attempt.row_id).unwrap_or(0);
        let end = attempt.end_time.map_or(sums.until, jiff_sqlx::Timestamp::to_jiff);
        let from = time.at(attempt.start_time.to_jiff());
        // Never too short to be seen.
        let to = time.at(end).max(from + 3.0).min(WIDTH - RIGHT);
        let y = panel.at(ns_per_day);
        let ends = vec![pixel(from.min(to - 3.0), y), pixel(to, y)];
        let place = if one_each { place } else { 0 };
        let stroke = colour(place).mix(if one_each { 1.0 } else { 0.45 }).stroke_width(3);
        dashed(root, ends, place, stroke)?;
    }
    if one_each {
        // As many letters as leave place for the title of the panel.
        let letters = ((420.0 / rows.len().max(1) as f64 - 38.0) / LETTER).max(3.0) as usize;
        let name = |row: i64, path: &str| cut(&format!("{row} {}", file_name(path)), letters);
        let names: Vec<String> = rows.iter().map(|(row, path)| name(*row, path)).collect();
        let entries: Vec<(RGBColor, &str)> =
            names.iter().enumerate().map(|(place, name)| (colour(place), name.as_str())).collect();
        legend(root, &panel, &entries, true)?;
    }
    Ok(())
}

fn file_name(path: &str) -> String {
    shown(path.rsplit('/').next().unwrap_or(path)).trim_end_matches(".tpr").to_owned()
}

/// All simulations together.
fn throughput(root: &Root<'_>, time: &Time, sums: &Sums) -> Result<()> {
    let most = sums.bins.iter().map(|bin| bin.ns_per_day).fold(0.0, f64::max);
    let panel = Panel::new(3, most);
    frame(root, &panel, time, sums, "speed of all together (ns/day)")?;
    for bin in sums.bins.iter().filter(|bin| bin.ns_per_day > 0.0) {
        bar(root, &panel, (time.at(bin.from), time.at(bin.to)), (0.0, bin.ns_per_day), colour(0))?;
    }
    Ok(())
}

fn pixel(x: f64, y: f64) -> (i32, i32) {
    (x.round() as i32, y.round() as i32)
}

fn bar(
    root: &Root<'_>,
    panel: &Panel,
    (from, to): (f64, f64),
    (low, high): (f64, f64),
    colour: RGBColor,
) -> Result<()> {
    if high <= low {
        return Ok(());
    }
    let corners = [pixel(from + 0.5, panel.at(high)), pixel((to - 0.5).max(from + 1.5), panel.at(low))];
    Ok(root.draw(&Rectangle::new(corners, colour.filled()))?)
}

/// Title, lines at round values and at round times.
fn frame(root: &Root<'_>, panel: &Panel, time: &Time, sums: &Sums, title: &str) -> Result<()> {
    let right = WIDTH - RIGHT;
    text(root, (12.0, panel.bottom - PANEL - 8.0), HPos::Left, (TEXT, &BLACK), title)?;
    for moment in ticks(sums) {
        let x = time.at(moment);
        let ends = vec![pixel(x, panel.bottom - PANEL), pixel(x, panel.bottom)];
        root.draw(&PathElement::new(ends, GRID.stroke_width(1)))?;
    }
    let parts = parts(panel.high);
    for part in 0..=parts {
        let value = panel.high * f64::from(part) / f64::from(parts);
        let y = panel.at(value);
        let colour = if part == 0 { GREY } else { GRID };
        root.draw(&PathElement::new(vec![pixel(LEFT, y), pixel(right, y)], colour.stroke_width(1)))?;
        text(root, (LEFT - 8.0, y + 4.0), HPos::Right, (TEXT - 1, &GREY), &number(value))?;
    }
    Ok(())
}

fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Round times, at most ten.
fn ticks(sums: &Sums) -> Vec<Timestamp> {
    const STEPS: [i64; 14] =
        [10, 30, 60, 300, 600, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 604_800, 2_419_200, 31_536_000];
    let span = seconds(sums.since, sums.until);
    let step = STEPS.into_iter().find(|step| span / *step as f64 <= 10.0).unwrap_or(STEPS[STEPS.len() - 1]);
    let first = sums.since.as_second().div_euclid(step) + 1;
    let last = sums.until.as_second().div_euclid(step);
    (first..=last).filter_map(|tick| Timestamp::from_second(tick * step).ok()).collect()
}

fn time_labels(root: &Root<'_>, time: &Time, sums: &Sums, y: f64) -> Result<()> {
    let ticks = ticks(sums);
    let step = ticks.windows(2).map(|pair| seconds(pair[0], pair[1])).next().unwrap_or(0.0);
    let mut last_day = String::new();
    for moment in ticks {
        let x = time.at(moment);
        let label = |y: f64, words: &str| text(root, (x, y), HPos::Center, (TEXT - 1, &GREY), words);
        let day = moment.strftime("%b %-d").to_string();
        if step >= 86_400.0 {
            label(y, &day)?;
            continue;
        }
        let hour = moment.strftime(if step < 60.0 { "%H:%M:%S" } else { "%H:%M" }).to_string();
        label(y, &hour)?;
        if day != last_day {
            label(y + 16.0, &day)?;
            last_day = day;
        }
    }
    Ok(())
}

/// Draws a line with the dashes of a row.
fn dashed(root: &Root<'_>, ends: Vec<(i32, i32)>, place: usize, stroke: ShapeStyle) -> Result<()> {
    match DASHES[place % DASHES.len()] {
        (_, 0) => root.draw(&PathElement::new(ends, stroke))?,
        (length, gap) => root.draw(&DashedPathElement::new(ends, length, gap, stroke))?,
    }
    Ok(())
}

/// To the right above the panel: squares, or pieces of the lines of rows.
fn legend(root: &Root<'_>, panel: &Panel, entries: &[(RGBColor, &str)], of_rows: bool) -> Result<()> {
    let y = panel.bottom - PANEL - 8.0;
    let sample = if of_rows { 24.0 } else { 10.0 };
    let width = |name: &str| sample + 14.0 + LETTER * name.chars().count() as f64;
    let mut x = WIDTH - RIGHT - entries.iter().map(|(_, name)| width(name)).sum::<f64>();
    for (place, (colour, name)) in entries.iter().enumerate() {
        if of_rows {
            let ends = vec![pixel(x, y - 6.0), pixel(x + sample, y - 6.0)];
            dashed(root, ends, place, colour.stroke_width(3))?;
        } else {
            root.draw(&Rectangle::new([pixel(x, y - 10.0), pixel(x + sample, y)], colour.filled()))?;
        }
        text(root, (x + sample + 4.0, y), HPos::Left, (TEXT - 1, &BLACK), name)?;
        x += width(name);
    }
    Ok(())
}

/// Words above the line at `y`. Names come from files that anybody can make: control characters are replaced, and the
/// backend escapes the rest.
fn text(
    root: &Root<'_>,
    (x, y): (f64, f64),
    align: HPos,
    (size, colour): (i32, &RGBColor),
    words: &str,
) -> Result<()> {
    let style = (FONT, size).into_font().color(colour).pos(Pos::new(align, VPos::Bottom));
    Ok(root.draw(&Text::new(shown(words), pixel(x, y), style))?)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::super::sums::tests::{now, ran};
    use super::*;

    fn drawn(attempts: &[Ran]) -> String {
        let sums = Sums::new(attempts, now() - SignedDuration::from_hours(24), now());
        draw(attempts, &sums).expect("it should be drawn")
    }

    #[test]
    fn every_run_is_in_the_picture() {
        let attempts: Vec<Ran> = (0..5)
            .map(|row| {
                ran(
                    row,
                    row * 3000,
                    Some(row * 3000 + 9000),
                    if row == 2 { "interrupted" } else { "completed" },
                )
            })
            .collect();
        let svg = drawn(&attempts);
        for words in ["5 simulations, 5 runs, 1 interruption", "speed of each run (ns/day)", "interrupted"] {
            assert!(svg.contains(words), "{words}");
        }
        // Each row has its colour: of its line, and of the piece of it in the legend.
        for (red, green, blue) in &colours::DISTINCT[..5] {
            let hex = format!("#{red:02X}{green:02X}{blue:02X}");
            assert!(svg.matches(&hex).count() >= 2, "{hex}");
        }
        assert!(svg.trim_end().ends_with("</svg>") && !svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn nothing_that_ran_is_no_harm() {
        let svg = drawn(&[]);
        assert!(svg.trim_end().ends_with("</svg>") && !svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn a_name_is_only_a_name() {
        let mut odd = ran(1, 0, Some(60), "completed");
        odd.tpr_path = "a/<script>alert(\"1\")</script>\u{1b}.tpr".to_owned();
        let svg = drawn(&[odd]);
        assert!(!svg.contains("<script") && !svg.contains('\u{1b}'), "{svg}");
    }

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!(
            [0.0, 0.25, 1.0, 3.0, 7.0, 11.0, 24.0, 480.0].map(round_above),
            [1.0, 0.25, 1.0, 3.0, 8.0, 20.0, 25.0, 500.0]
        );
        assert_eq!([1.0, 2.0, 3.0, 20.0, 25.0, 60.0, 0.5].map(parts), [1, 2, 3, 4, 5, 3, 5]);
    }
}
