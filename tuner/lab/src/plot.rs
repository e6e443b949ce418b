//! Predicted against measured speed.

#[path = "../../src/plot/style.rs"]
mod style;

use anyhow::Result;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::VPos;

use crate::Point;
use scavenger_tuner_model::text::{thousands, three_digits};
use style::{FONT, GREY, GRID, Style, TEXT, TITLE, WIDTH, legend, log_base, range, text};

/// So that the panel is about square.
const HEIGHT: u32 = 560;
/// Width of the legend on the right.
const LEGEND: i32 = 150;
/// Half-width of the strip along the diagonal.
const STRIP: f64 = 1.4;

/// Draws predicted against measured speed, a mark per run; each machine has its own colour and shape.
pub fn accuracy(points: &[Point]) -> Result<String> {
    let mut groups: Vec<String> = points.iter().map(group).collect();
    groups.sort_unstable();
    groups.dedup();
    let groups: Vec<(String, Style)> =
        groups.into_iter().enumerate().map(|(index, name)| (name, Style::new(index))).collect();
    let all = || points.iter().flat_map(|point| [point.measured, point.predicted]);
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        root.fill(&WHITE)?;
        text(&root, "Predicted against measured speed", (12, 8), 18, &BLACK, VPos::Top)?;
        let key = format!(
            "{} runs, each on a machine that was left out of the fit; dashed: {STRIP} times as fast or slow",
            thousands(points.len() as f64)
        );
        text(&root, &key, (12, 31), TEXT, &GREY, VPos::Top)?;
        let axis = || range(all()).log_scale().base(log_base(&range(all())));
        let area = root.clone().shrink((0, TITLE), (WIDTH as i32 - LEGEND, HEIGHT as i32 - TITLE));
        let mut chart = ChartBuilder::on(&area)
            .margin(10)
            .x_label_area_size(40)
            .y_label_area_size(64)
            .build_cartesian_2d(axis(), axis())?;
        chart
            .configure_mesh()
            .bold_line_style(GRID)
            .light_line_style(WHITE.mix(0.0))
            .axis_style(GREY)
            .x_desc("measured speed in ns/day")
            .y_desc("predicted speed in ns/day")
            .x_label_formatter(&|value| three_digits(*value))
            .y_label_formatter(&|value| three_digits(*value))
            .label_style((FONT, TEXT))
            .axis_desc_style((FONT, TEXT))
            .draw()?;
        let std::ops::Range { start, end } = range(all());
        let at = |x: f64, y: f64| chart.backend_coord(&(x, y));
        root.draw(&PathElement::new(vec![at(start, start), at(end, end)], GREY.stroke_width(1)))?;
        let strip = [
            [at(start * STRIP, start), at(end, end / STRIP)],
            [at(start, start * STRIP), at(end / STRIP, end)],
        ];
        for ends in strip {
            root.draw(&DashedPathElement::new(ends, 5, 4, GREY.stroke_width(1)))?;
        }
        // Groups with many points first: they would hide those with few.
        let mut order: Vec<&(String, Style)> = groups.iter().collect();
        order.sort_by_key(|(name, _)| {
            std::cmp::Reverse(points.iter().filter(|one| group(one) == *name).count())
        });
        for (name, style) in order {
            for point in points.iter().filter(|point| group(point) == *name) {
                style.mark(&root, at(point.measured, point.predicted), 3)?;
            }
        }
        legend(&root, (WIDTH as i32 - LEGEND + 4, TITLE + 10), &groups, false)?;
        root.present()?;
    }
    Ok(svg)
}

/// The name of the machine, and whether its GPUs were used.
fn group(point: &Point) -> String {
    if point.on_gpu { format!("{}, GPU", point.machine) } else { point.machine.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_points_are_no_harm() {
        let svg = accuracy(&[]).expect("it should be drawn");
        assert!(svg.trim_end().ends_with("</svg>") && !svg.contains("NaN"), "{svg}");
    }
}
