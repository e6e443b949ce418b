//! Pictures as SVG: speed over cores, and predicted against measured speed.

use std::fmt::Write as _;

use scavenger_schema::tuning::LadderReply;
use scavenger_tuner_model::ladder::CurvePoint;

use crate::accuracy::Point;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 480.0;
/// Room for the axes.
const LEFT: f64 = 64.0;
const BOTTOM: f64 = 48.0;
const REST: f64 = 24.0;
/// Told apart without colour vision, too (Okabe and Ito).
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999"];

/// A logarithmic axis.
struct Axis {
    low: f64,
    high: f64,
    /// Where `low` and `high` are drawn.
    from: f64,
    to: f64,
}

impl Axis {
    /// Holds all `values`, which are positive; at least a factor of 2 wide.
    fn over(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (low, high) =
            values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        if low.is_finite() && low > 0.0 {
            Self { low: low / 1.1, high: high.max(2.0 * low) * 1.1, from, to }
        } else {
            Self { low: 1.0, high: 10.0, from, to }
        }
    }

    fn at(&self, value: f64) -> f64 {
        let share = (value.max(1e-300) / self.low).ln() / (self.high / self.low).ln();
        self.from + (self.to - self.from) * share
    }

    /// 1, 2 and 5 times powers of ten inside.
    fn ticks(&self) -> Vec<f64> {
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        (first..=last)
            .flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(power)))
            .filter(|tick| (self.low..=self.high).contains(tick))
            .collect()
    }
}

fn open(title: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<title>{title}</title>\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
    )
}

fn axes(svg: &mut String, x: &Axis, y: &Axis, x_title: &str, y_title: &str) {
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - REST);
    for tick in x.ticks() {
        let at = x.at(tick);
        let _ = writeln!(
            svg,
            "<line x1=\"{at:.1}\" y1=\"{bottom}\" x2=\"{at:.1}\" y2=\"{REST}\" stroke=\"#dddddd\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{tick}</text>",
            bottom + 16.0
        );
    }
    for tick in y.ticks() {
        let at = y.at(tick);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\" stroke=\"#dddddd\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{tick}</text>",
            LEFT - 6.0,
            at + 4.0
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{x_title}</text>\
         <text transform=\"translate(14 {:.1}) rotate(-90)\" text-anchor=\"middle\">{y_title}</text>",
        (LEFT + right) / 2.0,
        HEIGHT - 10.0,
        (REST + bottom) / 2.0
    );
}

fn polyline(svg: &mut String, points: impl Iterator<Item = (f64, f64)>, style: &str) {
    svg.push_str("<polyline fill=\"none\" points=\"");
    for (x, y) in points {
        let _ = write!(svg, "{x:.1},{y:.1} ");
    }
    let _ = writeln!(svg, "\" {style}/>");
}

/// Predicted speed and efficiency over cores, with the interval and the rungs; what uses a GPU is drawn apart.
#[must_use]
pub fn ladder(curve: &[CurvePoint], reply: &LadderReply) -> String {
    let cores = |millicores: u32| f64::from(millicores) / 1000.0;
    let right = WIDTH - REST;
    let x = Axis::over(curve.iter().map(|point| cores(point.resources.cpu_millicores)), LEFT, right);
    let ends = curve.iter().flat_map(|point| [point.ns_per_day.p10, point.ns_per_day.p90]);
    let y = Axis::over(ends, HEIGHT - BOTTOM, REST);
    let mut svg = open("Predicted speed over cores");
    axes(&mut svg, &x, &y, "cores", "ns/day (solid: p50, band: p10 to p90; dashed: efficiency)");
    for (gpus, colour) in [(0, COLOURS[0]), (1, COLOURS[2])] {
        let points: Vec<&CurvePoint> =
            curve.iter().filter(|point| u32::from(point.resources.gpus > 0) == gpus).collect();
        let at = |point: &CurvePoint, speed: f64| (x.at(cores(point.resources.cpu_millicores)), y.at(speed));
        svg.push_str("<polygon points=\"");
        let upper = points.iter().map(|point| at(point, point.ns_per_day.p90));
        let lower = points.iter().rev().map(|point| at(point, point.ns_per_day.p10));
        for (px, py) in upper.chain(lower) {
            let _ = write!(svg, "{px:.1},{py:.1} ");
        }
        let _ = writeln!(svg, "\" fill=\"{colour}\" fill-opacity=\"0.15\"/>");
        let middle = points.iter().map(|point| at(point, point.ns_per_day.p50));
        polyline(&mut svg, middle, &format!("stroke=\"{colour}\" stroke-width=\"2\""));
        // Efficiency is linear from 0 at the bottom to 1 at the top.
        let efficiency = points.iter().map(|point| {
            let height = HEIGHT - BOTTOM - REST;
            (x.at(cores(point.resources.cpu_millicores)), HEIGHT - BOTTOM - point.efficiency * height)
        });
        polyline(&mut svg, efficiency, &format!("stroke=\"{colour}\" stroke-dasharray=\"4 4\""));
    }
    for rung in &reply.rungs {
        let _ = writeln!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"5\" fill=\"{}\"><title>{} cores, {} GPUs: {:.3} ns/day</title></circle>",
            x.at(cores(rung.resources.cpu_millicores)),
            y.at(rung.ns_per_day.p50),
            COLOURS[1],
            cores(rung.resources.cpu_millicores),
            rung.resources.gpus,
            rung.ns_per_day.p50
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// Predicted against measured speed, a colour per machine; a circle is a run on CPUs, a square one on a GPU.
#[must_use]
pub fn accuracy(points: &[Point]) -> String {
    let all = || points.iter().flat_map(|point| [point.measured, point.predicted]);
    let x = Axis::over(all(), LEFT, WIDTH - REST);
    let y = Axis::over(all(), HEIGHT - BOTTOM, REST);
    let mut machines: Vec<&str> = points.iter().map(|point| point.machine.as_str()).collect();
    machines.sort_unstable();
    machines.dedup();
    let mut svg = open("Predicted against measured speed of machines left out of the fit");
    axes(&mut svg, &x, &y, "measured ns/day", "predicted ns/day");
    for (factor, style) in [
        (1.0, "stroke=\"black\""),
        (1.4, "stroke=\"#888888\" stroke-dasharray=\"4 4\""),
        (1.0 / 1.4, "stroke=\"#888888\" stroke-dasharray=\"4 4\""),
    ] {
        let (low, high) = (x.low.max(x.low / factor), x.high.min(x.high / factor));
        let line = [(x.at(low), y.at(low * factor)), (x.at(high), y.at(high * factor))];
        polyline(&mut svg, line.into_iter(), style);
    }
    for (index, machine) in machines.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        for point in points.iter().filter(|point| point.machine == *machine) {
            let (px, py) = (x.at(point.measured), y.at(point.predicted));
            let _ = if point.on_gpu {
                writeln!(
                    svg,
                    "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"6\" height=\"6\" fill=\"{colour}\"/>",
                    px - 3.0,
                    py - 3.0
                )
            } else {
                writeln!(svg, "<circle cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"2\" fill=\"{colour}\"/>")
            };
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{machine}</text>",
            LEFT + 8.0,
            REST + 14.0 * (index as f64 + 1.0)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use scavenger_tuner_model::ladder::fixtures::{node, request, water};
    use scavenger_tuner_model::{Model, ladder as model_ladder};

    use super::*;

    #[test]
    fn a_ladder_is_drawn_with_all_its_rungs() {
        let model = Model::prior();
        let request = request(water(100_000), vec![node(32_000, 64)]);
        let reply = model_ladder::build(&model, &request).expect("there should be a ladder");
        let curve = model_ladder::curve(&model, &request).expect("there should be a curve");
        assert!(curve.len() > reply.rungs.len());
        let svg = ladder(&curve, &reply);
        assert_eq!(svg.matches("<circle").count(), reply.rungs.len());
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn no_points_are_no_harm() {
        let svg = accuracy(&[]);
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN"), "{svg}");
    }
}
