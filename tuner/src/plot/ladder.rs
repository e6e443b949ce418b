//! Predicted speed and efficiency over cores.

use anyhow::Result;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use scavenger_schema::tuning::{LadderReply, Resources, Rung};
use scavenger_tuner_model::ladder::CurvePoint;
use scavenger_tuner_model::text::{thousands, three_digits};

use super::style::{
    FONT, GREY, GRID, Root, Style, TEXT, TITLE, WIDTH, legend, legend_size, log_base, range, text,
};

const HEIGHT: u32 = 700;
/// Height of the upper panel.
const SPEED: i32 = 390;
/// Left end of what is inside the axes.
const INSIDE: i32 = 78;
/// Pixels from the upper edge of a panel to the upper end of its axis.
const MARGIN: i32 = 10;

/// The points of one kind of hardware.
struct Line<'a> {
    name: &'a str,
    style: Style,
    points: Vec<&'a CurvePoint>,
}

impl Line<'_> {
    fn is_of(&self, class: &str) -> bool {
        self.name.strip_prefix(class).is_some_and(|rest| rest.is_empty() || rest.starts_with(','))
    }

    /// True if the configuration lies on this line or close to it, where its layout is for other nodes, too: the same class may
    /// have two lines, with and without hardware threads.
    fn holds(&self, rung: &Rung) -> bool {
        let is_here = |point: &&CurvePoint| {
            point.resources.cpu_millicores == rung.resources.cpu_millicores
                && (point.ns_per_day.p50 / rung.ns_per_day.p50 - 1.0).abs() < 0.1
        };
        self.is_of(&rung.hardware_class) && self.points.iter().any(is_here)
    }
}

/// Where a pair of values is drawn, in pixels of the whole picture.
type Place<'a> = &'a dyn Fn(f64, f64) -> (i32, i32);

/// The axis on the left of a panel.
struct LeftAxis<'a, Y> {
    range: Y,
    name: &'a str,
    label: &'a dyn Fn(&f64) -> String,
}

/// Draws the speed of each kind of hardware over cores, its efficiency below, and the configurations of the ladder.
pub fn ladder(atoms: u64, curve: &[CurvePoint], reply: &LadderReply, min_efficiency: f64) -> Result<String> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    for point in curve {
        let style = Style::new(lines.len());
        match lines.iter_mut().find(|line| line.name == point.name) {
            Some(line) => line.points.push(point),
            None => lines.push(Line { name: &point.name, style, points: vec![point] }),
        }
    }
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        root.fill(&WHITE)?;
        let title = format!("Predicted speed of {} atoms", thousands(atoms as f64));
        text(&root, &title, (12, 8), 18, &BLACK, VPos::Top)?;
        let key = "lines: median; bands: 8 of 10 speeds lie inside; marks: configurations of the ladder";
        text(&root, key, (12, 31), TEXT, &GREY, VPos::Top)?;
        draw_speed(&root, &lines, reply)?;
        draw_efficiency(&root, &lines, reply, min_efficiency)?;
        root.present()?;
    }
    Ok(svg)
}

fn cores(resources: &Resources) -> f64 {
    f64::from(resources.cpu_millicores) / 1000.0
}

/// Draws the axes of a panel between two heights of the picture, cores below, and then what is in it.
fn panel<Y>(
    root: &Root<'_>,
    (top, bottom): (i32, i32),
    lines: &[Line<'_>],
    y: LeftAxis<'_, Y>,
    draw: impl FnOnce(Place<'_>) -> Result<()>,
) -> Result<()>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let all_cores = lines.iter().flat_map(|line| &line.points).map(|point| cores(&point.resources));
    let beside_gpu = lines.iter().flat_map(|line| &line.points).any(|point| point.resources.gpus > 0);
    let area = root.clone().shrink((0, top), (WIDTH as i32, bottom - top));
    let mut chart = ChartBuilder::on(&area)
        .margin(MARGIN)
        .margin_right(24)
        .x_label_area_size(40)
        .y_label_area_size(INSIDE - MARGIN)
        .build_cartesian_2d(range(all_cores).log_scale().base(2.0), y.range)?;
    chart
        .configure_mesh()
        .bold_line_style(GRID)
        .light_line_style(WHITE.mix(0.0))
        .axis_style(GREY)
        .x_desc(if beside_gpu { "cores; with a GPU, those beside it" } else { "cores" })
        .y_desc(y.name)
        .x_label_formatter(&|value| three_digits(*value))
        .y_label_formatter(&|value| (y.label)(value))
        .x_labels(12)
        .y_labels(8)
        .label_style((FONT, TEXT))
        .axis_desc_style((FONT, TEXT))
        .draw()?;
    draw(&|x, y| chart.backend_coord(&(x, y)))
}

fn draw_speed(root: &Root<'_>, lines: &[Line<'_>], reply: &LadderReply) -> Result<()> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let speeds = range(points().flat_map(|point| [point.ns_per_day.p10, point.ns_per_day.p90]));
    let base = log_base(&speeds);
    let axis = LeftAxis {
        range: speeds.log_scale().base(base),
        name: "speed in ns/day",
        label: &|value| three_digits(*value),
    };
    panel(root, (TITLE, TITLE + SPEED), lines, axis, |at| {
        for line in lines {
            let upper = line.points.iter().map(|point| at(cores(&point.resources), point.ns_per_day.p90));
            let lower =
                line.points.iter().rev().map(|point| at(cores(&point.resources), point.ns_per_day.p10));
            let band: Vec<(i32, i32)> = upper.chain(lower).collect();
            root.draw(&Polygon::new(band, line.style.colour().mix(0.12)))?;
        }
        for line in lines {
            let middle = line.points.iter().map(|point| at(cores(&point.resources), point.ns_per_day.p50));
            line.style.line(root, middle.collect())?;
        }
        draw_marks(root, lines, reply, |rung| at(cores(&rung.resources), rung.ns_per_day.p50))
    })?;
    let entries: Vec<(String, Style)> = lines.iter().map(|line| (line.name.to_owned(), line.style)).collect();
    // Speed grows with cores: the lower right is empty.
    let (width, height) = legend_size(&entries, true);
    let corner = (WIDTH as i32 - 34 - width, TITLE + SPEED - MARGIN - 50 - height);
    legend(root, corner, &entries, true)
}

/// Marks the configurations on the line of their hardware.
fn draw_marks(
    root: &Root<'_>,
    lines: &[Line<'_>],
    reply: &LadderReply,
    at: impl Fn(&Rung) -> (i32, i32),
) -> Result<()> {
    for rung in &reply.rungs {
        let of_class = || lines.iter().find(|line| line.is_of(&rung.hardware_class));
        if let Some(line) = lines.iter().find(|line| line.holds(rung)).or_else(of_class) {
            line.style.mark(root, at(rung), 5)?;
        }
    }
    Ok(())
}

fn draw_efficiency(
    root: &Root<'_>,
    lines: &[Line<'_>],
    reply: &LadderReply,
    min_efficiency: f64,
) -> Result<()> {
    let (top, bottom) = (TITLE + SPEED, HEIGHT as i32 - 36);
    let axis =
        LeftAxis { range: 0.0..1.05, name: "efficiency", label: &|value| format!("{:.0}%", value * 100.0) };
    panel(root, (top, bottom), lines, axis, |at| {
        for line in lines {
            let points = line.points.iter().map(|point| at(cores(&point.resources), point.efficiency));
            line.style.line(root, points.collect())?;
        }
        draw_marks(root, lines, reply, |rung| at(cores(&rung.resources), rung.efficiency))?;
        let (left, right, limit) = (INSIDE, WIDTH as i32 - 24, at(1.0, min_efficiency).1);
        root.draw(&PathElement::new(vec![(left, limit), (right, limit)], GREY.stroke_width(1)))?;
        let note = format!("without a GPU, more cores do not pay below {:.0}%", min_efficiency * 100.0);
        let style = (FONT, TEXT).into_font().color(&GREY).pos(Pos::new(HPos::Right, VPos::Top));
        Ok(root.draw(&Text::new(note, (right - 8, limit + 4), style))?)
    })?;
    let meaning = [
        "efficiency: speed per core, relative to the best speed per core on the same hardware;",
        "with a GPU: speed, relative to the best speed with that GPU",
    ];
    for (place, words) in meaning.into_iter().enumerate() {
        text(root, words, (12, bottom + 16 * place as i32), TEXT, &GREY, VPos::Top)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use scavenger_tuner_model::ladder::fixtures::{labelled, node, request, water};
    use scavenger_tuner_model::{Model, ladder as model_ladder};

    use super::*;

    #[test]
    fn each_kind_of_hardware_has_a_line_a_name_and_its_marks() {
        let model = Model::prior();
        let instance = "node.kubernetes.io/instance-type";
        let gpu = [(instance, "hpc6a.48xlarge"), ("nvidia.com/gpu.product", "NVIDIA-A100")];
        let nodes = vec![
            labelled(&node(20_000, 256), &gpu, 1),
            labelled(&node(128_000, 512), &[(instance, "m6g.metal")], 0),
        ];
        let request = request(water(100_000), nodes);
        let reply = model_ladder::build(&model, &request).expect("there should be a ladder");
        let curve = model_ladder::curve(&model, &request).expect("there should be a curve");
        let svg = ladder(100_000, &curve, &reply, 0.7).expect("it should be drawn");
        for text in ["zen3", "zen3+a100", "neoverse-n1", "ns/day", "efficiency", "100,000 atoms", "70%"] {
            assert!(svg.contains(text), "{text}");
        }
        // The first line has circles: one per configuration in both panels, and one in the legend.
        let first = &curve[0].name;
        let of_first = reply.rungs.iter().filter(|rung| rung.hardware_class == *first).count();
        assert_eq!(svg.matches("<circle").count(), 2 * of_first + 1);
        assert!(svg.trim_end().ends_with("</svg>") && !svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn a_single_point_is_drawn() {
        let model = Model::prior();
        let request = request(water(10_000), vec![node(700, 4)]);
        let reply = model_ladder::build(&model, &request).expect("there should be a ladder");
        let curve = model_ladder::curve(&model, &request).expect("there should be a curve");
        let svg = ladder(10_000, &curve, &reply, 0.7).expect("it should be drawn");
        assert!(svg.contains("unknown"));
    }
}
