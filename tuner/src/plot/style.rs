//! What all pictures share: sizes, colours, dashes and marks.

use anyhow::Result;
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use scavenger_schema::colours;

/// Height of a row of a legend.
const LEGEND_ROW: i32 = 18;
/// Width of a picture in pixels. It is scaled down to 600 in a page, and stays readable.
pub(super) const WIDTH: u32 = 640;
/// Height of title and subtitle.
pub(super) const TITLE: i32 = 48;
/// Size of most text in pixels.
pub(super) const TEXT: i32 = 13;
pub(super) const FONT: &str = "sans-serif";
pub(super) const GRID: RGBColor = rgb(colours::GRID);
pub(super) const GREY: RGBColor = rgb(colours::GREY);

const fn rgb((red, green, blue): (u8, u8, u8)) -> RGBColor {
    RGBColor(red, green, blue)
}

/// Length and gap of dashes in pixels; the first line is drawn through.
const DASHES: [(i32, i32); 5] = [(1, 0), (9, 4), (3, 3), (14, 5), (6, 7)];

/// A whole picture, with coordinates in pixels.
pub(super) type Root<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// How one line or one group of points is drawn.
#[derive(Clone, Copy)]
pub(super) struct Style {
    index: usize,
}

impl Style {
    /// The style of number `index`; 35 of them are distinct.
    pub(super) fn new(index: usize) -> Self {
        Self { index }
    }

    pub(super) fn colour(self) -> RGBColor {
        rgb(colours::DISTINCT[self.index % colours::DISTINCT.len()])
    }

    /// Draws a line through points.
    pub(super) fn line(self, root: &Root<'_>, points: Vec<(i32, i32)>) -> Result<()> {
        let (length, gap) = DASHES[self.index % DASHES.len()];
        let stroke = self.colour().stroke_width(2);
        if gap == 0 {
            root.draw(&PathElement::new(points, stroke))?;
        } else {
            root.draw(&DashedPathElement::new(points, length, gap, stroke))?;
        }
        Ok(())
    }

    /// Draws a mark around a point.
    pub(super) fn mark(self, root: &Root<'_>, (x, y): (i32, i32), radius: i32) -> Result<()> {
        let r = radius;
        let corners = match self.index % 5 {
            0 => return Ok(root.draw(&Circle::new((x, y), r, self.colour().filled()))?),
            1 => vec![(-r, -r), (r, -r), (r, r), (-r, r)],
            2 => vec![(0, -r - 1), (r + 1, r), (-r - 1, r)],
            3 => vec![(0, -r - 2), (r + 2, 0), (0, r + 2), (-r - 2, 0)],
            _ => vec![(0, r + 1), (r + 1, -r), (-r - 1, -r)],
        };
        let corners: Vec<(i32, i32)> = corners.into_iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
        Ok(root.draw(&Polygon::new(corners, self.colour()))?)
    }
}

fn sample_width(with_lines: bool) -> i32 {
    if with_lines { 36 } else { 16 }
}

/// Width and height of a legend. No font is read, so the width of text is estimated, generously.
pub(super) fn legend_size(entries: &[(String, Style)], with_lines: bool) -> (i32, i32) {
    let longest = entries.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let width = sample_width(with_lines) + 20 + (longest as f64 * f64::from(TEXT) * 0.58) as i32;
    (width, 8 + LEGEND_ROW * entries.len() as i32)
}

/// Names with a piece of their line or a mark, in a frame whose upper left corner is at `corner`.
pub(super) fn legend(
    root: &Root<'_>,
    corner: (i32, i32),
    entries: &[(String, Style)],
    with_lines: bool,
) -> Result<()> {
    let (left, top) = corner;
    let sample = sample_width(with_lines);
    let (width, height) = legend_size(entries, with_lines);
    let (right, bottom) = (left + width, top + height);
    root.draw(&Rectangle::new([corner, (right, bottom)], WHITE.mix(0.85).filled()))?;
    root.draw(&Rectangle::new([corner, (right, bottom)], GREY.stroke_width(1)))?;
    for (place, (name, style)) in entries.iter().enumerate() {
        let y = top + 4 + LEGEND_ROW / 2 + LEGEND_ROW * place as i32;
        let x = left + 8;
        if with_lines {
            style.line(root, vec![(x, y), (x + sample, y)])?;
        }
        style.mark(root, (x + sample / 2, y), 4)?;
        text(root, name, (x + sample + 6, y), TEXT, &BLACK, VPos::Center)?;
    }
    Ok(())
}

/// Writes a line of text that starts at a point.
pub(super) fn text(
    root: &Root<'_>,
    words: &str,
    at: (i32, i32),
    size: i32,
    colour: &RGBColor,
    place: VPos,
) -> Result<()> {
    let style = (FONT, size).into_font().color(colour).pos(Pos::new(HPos::Left, place));
    Ok(root.draw(&Text::new(words.to_owned(), at, style))?)
}

/// Both ends of positive values with some room, at least a factor of 2 apart.
pub(super) fn range(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let positive = values.filter(|value| value.is_finite() && *value > 0.0);
    let (low, high) =
        positive.fold((f64::INFINITY, 0.0_f64), |(low, high), one| (low.min(one), high.max(one)));
    if low.is_finite() { low / 1.15..high.max(2.0 * low) * 1.15 } else { 1.0..10.0 }
}

/// Base of a logarithmic axis, at whose powers labels stand: 2 where powers of 10 would be too few.
pub(super) fn log_base(range: &std::ops::Range<f64>) -> f64 {
    if range.end / range.start < 100.0 { 2.0 } else { 10.0 }
}
