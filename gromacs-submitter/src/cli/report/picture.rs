//! The picture: simulations that run, how attempts ended, the speed of each and of all, over one axis of time. SVG.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;

use super::super::text::{cut, number_of, shown};
use super::clock;
use super::sums::{Sums, seconds};
use crate::store::Ran;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 24.0;
/// Above the first panel: title and summary.
const TOP: f64 = 78.0;
const PANEL: f64 = 130.0;
/// Between panels, with the title of the next.
const GAP: f64 = 40.0;
/// Told apart without colour vision, too (Okabe and Ito), the same as in the tuner's pictures.
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];
const COMPLETED: &str = "#009e73";
const INTERRUPTED: &str = "#e69f00";
const FAILED: &str = "#d55e00";
const GREY: &str = "#5f6b73";

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
pub(super) fn draw(ran: &[Ran], sums: &Sums) -> String {
    let time = Time { since: sums.since, span: seconds(sums.since, sums.until).max(1.0) };
    let height = TOP + 4.0 * PANEL + 3.0 * GAP + 44.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <title>GROMACS simulations over time</title>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    text(&mut svg, LEFT, 22.0, "start", "font-size=\"16\" font-weight=\"bold\"", &title(sums));
    text(&mut svg, LEFT, 40.0, "start", &format!("fill=\"{GREY}\""), &subtitle(sums));
    running(&mut svg, ran, &time, sums);
    endings(&mut svg, &time, sums);
    speeds(&mut svg, ran, &time, sums);
    throughput(&mut svg, &time, sums);
    time_labels(&mut svg, &time, sums, TOP + 4.0 * PANEL + 3.0 * GAP + 18.0);
    svg.push_str("</svg>\n");
    svg
}

fn title(sums: &Sums) -> String {
    let parts = [(sums.simulations, "simulation"), (sums.runs, "run"), (sums.interrupted, "interruption")];
    parts.map(|(number, one)| number_of(usize::try_from(number).unwrap_or(0), one)).join(", ")
}

fn subtitle(sums: &Sums) -> String {
    format!(
        "{} to {} UTC: {} completed, {} failed; {:.1} ns simulated in {:.1} core hours",
        clock(sums.since),
        clock(sums.until),
        sums.completed,
        sums.failed,
        sums.ns,
        sums.core_hours
    )
}

/// The number that runs, exactly: up at a start, down at an end.
fn running(svg: &mut String, ran: &[Ran], time: &Time, sums: &Sums) {
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
    frame(svg, &panel, time, sums, "simulations running");
    let mut points = format!("{:.1},{:.1}", time.at(sums.since), panel.bottom);
    let mut number = 0;
    for (moment, change) in &changes {
        let x = time.at(*moment);
        let _ = write!(points, " {x:.1},{:.1}", panel.at(f64::from(number)));
        number += change;
        let _ = write!(points, " {x:.1},{:.1}", panel.at(f64::from(number)));
    }
    let right = time.at(sums.until);
    let _ = write!(points, " {right:.1},{:.1} {right:.1},{:.1}", panel.at(f64::from(number)), panel.bottom);
    let _ = writeln!(
        svg,
        "<polygon points=\"{points}\" fill=\"{0}\" fill-opacity=\"0.25\" stroke=\"{0}\" stroke-width=\"1.5\"/>",
        COLOURS[0]
    );
}

/// How attempts ended in each stretch, on top of each other.
fn endings(svg: &mut String, time: &Time, sums: &Sums) {
    let most = sums.bins.iter().map(|bin| bin.completed + bin.failed + bin.interrupted).max().unwrap_or(0);
    let panel = Panel::new(1, most as f64);
    frame(svg, &panel, time, sums, "attempts that ended");
    for bin in &sums.bins {
        let mut below = 0;
        for (number, colour, name) in [
            (bin.interrupted, INTERRUPTED, "interrupted"),
            (bin.completed, COMPLETED, "completed"),
            (bin.failed, FAILED, "failed"),
        ] {
            if number > 0 {
                let label = format!("{number} {name} from {} to {}", clock(bin.from), clock(bin.to));
                bar(
                    svg,
                    &panel,
                    (time.at(bin.from), time.at(bin.to)),
                    (below as f64, (below + number) as f64),
                    colour,
                    &label,
                );
            }
            below += number;
        }
    }
    legend(svg, &panel, &[(INTERRUPTED, "interrupted"), (COMPLETED, "completed"), (FAILED, "failed")]);
}

/// A line per attempt, from its start to its end, at the speed that mdrun measured.
fn speeds(svg: &mut String, ran: &[Ran], time: &Time, sums: &Sums) {
    let most = ran.iter().filter_map(|attempt| attempt.ns_per_day).fold(0.0, f64::max);
    let panel = Panel::new(2, most);
    frame(svg, &panel, time, sums, "ns/day of each run");
    let mut rows: Vec<(i64, &str)> = ran.iter().map(|it| (it.row_id, it.tpr_path.as_str())).collect();
    rows.sort_unstable();
    rows.dedup();
    // More rows than colours can not be told apart, and colours that return would say that they are the same.
    let one_each = rows.len() <= COLOURS.len();
    for attempt in ran {
        let Some(ns_per_day) = attempt.ns_per_day else { continue };
        let place = rows.iter().position(|(row, _)| *row == attempt.row_id).unwrap_or(0);
        let colour = if one_each { COLOURS[place % COLOURS.len()] } else { COLOURS[0] };
        let end = attempt.end_time.map_or(sums.until, jiff_sqlx::Timestamp::to_jiff);
        let from = time.at(attempt.start_time.to_jiff());
        // Never too short to be seen.
        let to = time.at(end).max(from + 3.0).min(WIDTH - RIGHT);
        let y = panel.at(ns_per_day);
        let label = format!(
            "row {} ({}), {} cores: {ns_per_day:.2} ns/day",
            attempt.row_id,
            shown(&attempt.tpr_path),
            f64::from(attempt.cpu_millicores.unwrap_or(0)) / 1000.0
        );
        let _ = writeln!(
            svg,
            "<line x1=\"{:.1}\" y1=\"{y:.1}\" x2=\"{to:.1}\" y2=\"{y:.1}\" stroke=\"{colour}\" stroke-width=\"3\" \
             stroke-linecap=\"round\" stroke-opacity=\"{}\"><title>{}</title></line>",
            from.min(to - 3.0),
            if one_each { 1.0 } else { 0.45 },
            escape(&label)
        );
    }
    if one_each {
        let names: Vec<String> =
            rows.iter().map(|(row, path)| format!("{row} {}", cut(&file_name(path), 16))).collect();
        let entries: Vec<(&str, &str)> =
            names.iter().enumerate().map(|(place, name)| (COLOURS[place], name.as_str())).collect();
        legend(svg, &panel, &entries);
    }
}

fn file_name(path: &str) -> String {
    shown(path.rsplit('/').next().unwrap_or(path)).trim_end_matches(".tpr").to_owned()
}

/// All simulations together.
fn throughput(svg: &mut String, time: &Time, sums: &Sums) {
    let most = sums.bins.iter().map(|bin| bin.ns_per_day).fold(0.0, f64::max);
    let panel = Panel::new(3, most);
    frame(svg, &panel, time, sums, "ns/day of all together");
    for bin in sums.bins.iter().filter(|bin| bin.ns_per_day > 0.0) {
        let label = format!("{:.2} ns/day from {} to {}", bin.ns_per_day, clock(bin.from), clock(bin.to));
        bar(svg, &panel, (time.at(bin.from), time.at(bin.to)), (0.0, bin.ns_per_day), COLOURS[0], &label);
    }
}

fn bar(
    svg: &mut String,
    panel: &Panel,
    (from, to): (f64, f64),
    (low, high): (f64, f64),
    colour: &str,
    label: &str,
) {
    let (top, bottom) = (panel.at(high), panel.at(low));
    let _ = writeln!(
        svg,
        "<rect x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"><title>{}</title></rect>",
        from + 0.5,
        (to - from - 1.0).max(0.5),
        bottom - top,
        escape(label)
    );
}

/// Title, lines at round values and at round times.
fn frame(svg: &mut String, panel: &Panel, time: &Time, sums: &Sums, title: &str) {
    let right = WIDTH - RIGHT;
    text(svg, LEFT, panel.bottom - PANEL - 8.0, "start", "font-weight=\"bold\"", title);
    let parts = parts(panel.high);
    for part in 0..=parts {
        let value = panel.high * f64::from(part) / f64::from(parts);
        let y = panel.at(value);
        let colour = if part == 0 { "#888888" } else { "#e4e4e4" };
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"{colour}\"/>"
        );
        text(svg, LEFT - 8.0, y + 4.0, "end", &format!("fill=\"{GREY}\""), &number(value));
    }
    for moment in ticks(sums) {
        let x = time.at(moment);
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"#eeeeee\"/>",
            panel.bottom - PANEL,
            panel.bottom
        );
    }
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

fn time_labels(svg: &mut String, time: &Time, sums: &Sums, y: f64) {
    let ticks = ticks(sums);
    let step = ticks.windows(2).map(|pair| seconds(pair[0], pair[1])).next().unwrap_or(0.0);
    let mut last_day = String::new();
    for moment in ticks {
        let x = time.at(moment);
        let day = moment.strftime("%b %-d").to_string();
        if step >= 86_400.0 {
            text(svg, x, y, "middle", &format!("fill=\"{GREY}\""), &day);
            continue;
        }
        let hour = moment.strftime(if step < 60.0 { "%H:%M:%S" } else { "%H:%M" }).to_string();
        text(svg, x, y, "middle", &format!("fill=\"{GREY}\""), &hour);
        if day != last_day {
            text(svg, x, y + 16.0, "middle", &format!("fill=\"{GREY}\""), &day);
            last_day = day;
        }
    }
}

/// To the right above the panel.
fn legend(svg: &mut String, panel: &Panel, entries: &[(&str, &str)]) {
    let y = panel.bottom - PANEL - 8.0;
    // Seven units per letter is about what sans-serif takes at this size.
    let widths: Vec<f64> = entries.iter().map(|(_, name)| 24.0 + 7.0 * name.chars().count() as f64).collect();
    let mut x = WIDTH - RIGHT - widths.iter().sum::<f64>();
    for ((colour, name), width) in entries.iter().zip(widths) {
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\" fill=\"{colour}\"/>",
            y - 9.0
        );
        text(svg, x + 14.0, y, "start", "", name);
        x += width;
    }
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, style: &str, words: &str) {
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {style}>{}</text>",
        escape(words)
    );
}

/// Names come from files that anybody can make.
fn escape(text: &str) -> String {
    shown(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::super::sums::tests::{now, ran};
    use super::*;

    fn drawn(attempts: &[Ran]) -> String {
        draw(attempts, &Sums::new(attempts, now() - SignedDuration::from_hours(24), now()))
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
        assert_eq!(svg.matches("stroke-linecap").count(), 5);
        assert!(svg.contains("5 simulations, 5 runs, 1 interruption<") && svg.contains("ns/day of each run"));
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf,"), "{svg}");
    }

    #[test]
    fn nothing_that_ran_is_no_harm() {
        let svg = drawn(&[]);
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN"), "{svg}");
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
