//! What the pictures share: sizes, colours, text. They are read at 600 pixels, and in grey, too.

use anyhow::Result;
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use scavenger_schema::colours;

/// Width of a picture in pixels.
pub(super) const WIDTH: i32 = 640;
/// Height of title and subtitle.
pub(super) const TITLE: i32 = 52;
/// Size of most text in pixels.
pub(super) const TEXT: i32 = 12;
/// Pixels that a letter takes: about what sans-serif does. No font is read.
const LETTER: f64 = 6.4;
const FONT: &str = "sans-serif";

pub(super) const GREY: RGBColor = rgb(colours::GREY);
pub(super) const GRID: RGBColor = rgb(colours::GRID);
/// As in the pictures of the pages.
pub(super) const ORDINARY: RGBColor = RGBColor(189, 189, 189);
/// See [`ORDINARY`].
pub(super) const SCAVENGERS: RGBColor = RGBColor(156, 189, 228);

const fn rgb((red, green, blue): (u8, u8, u8)) -> RGBColor {
    RGBColor(red, green, blue)
}

/// Length and gap of dashes in pixels; the first line is drawn through.
const DASHES: [(i32, i32); 5] = [(1, 0), (9, 4), (3, 3), (14, 5), (6, 7)];

/// A whole picture, with coordinates in pixels.
pub(super) type Root<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws a picture of this height below a title and a subtitle.
pub(super) fn picture(
    height: i32,
    (title, subtitle): (&str, &str),
    draw: impl FnOnce(&Root<'_>) -> Result<()>,
) -> Result<String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH as u32, height as u32)).into_drawing_area();
        root.fill(&WHITE)?;
        text(&root, (12, 20), HPos::Left, (16, &BLACK), title)?;
        text(&root, (12, 40), HPos::Left, (TEXT, &GREY), subtitle)?;
        draw(&root)?;
        root.present()?;
    }
    Ok(svg)
}

/// Writes a line of text beside a point; `y` is the middle of its height.
pub(super) fn text(
    root: &Root<'_>,
    at: (i32, i32),
    side: HPos,
    (size, colour): (i32, &RGBColor),
    words: &str,
) -> Result<()> {
    let style = (FONT, size).into_font().color(colour).pos(Pos::new(side, VPos::Center));
    Ok(root.draw(&Text::new(words.to_owned(), at, style))?)
}

/// About how wide a text is in pixels.
pub(super) fn width_of(words: &str) -> i32 {
    (words.chars().count() as f64 * LETTER).ceil() as i32
}

/// A line between points.
pub(super) fn line(root: &Root<'_>, points: Vec<(i32, i32)>, colour: RGBColor, width: u32) -> Result<()> {
    Ok(root.draw(&PathElement::new(points, colour.stroke_width(width)))?)
}

/// The same with the dashes of this number.
pub(super) fn dashed(
    root: &Root<'_>,
    points: Vec<(i32, i32)>,
    number: usize,
    (colour, width): (RGBColor, u32),
) -> Result<()> {
    match DASHES[number % DASHES.len()] {
        (_, 0) => line(root, points, colour, width),
        (length, gap) => {
            Ok(root.draw(&DashedPathElement::new(points, length, gap, colour.stroke_width(width)))?)
        }
    }
}

/// The colour of this number.
pub(super) fn colour(number: usize) -> RGBColor {
    rgb(colours::DISTINCT[number % colours::DISTINCT.len()])
}

/// Filled squares with names from this point on to the right.
pub(super) fn squares(root: &Root<'_>, (mut x, y): (i32, i32), entries: &[(RGBColor, &str)]) -> Result<()> {
    for (colour, name) in entries {
        root.draw(&Rectangle::new([(x, y - 5), (x + 10, y + 5)], colour.filled()))?;
        root.draw(&Rectangle::new([(x, y - 5), (x + 10, y + 5)], GREY.stroke_width(1)))?;
        text(root, (x + 16, y), HPos::Left, (TEXT, &BLACK), name)?;
        x += 36 + width_of(name);
    }
    Ok(())
}

/// A round number that is not below `value`, and in how many parts it is divided so that these are round, too.
pub(super) fn round_above(value: f64) -> (f64, i32) {
    if !(value.is_finite() && value > 0.0) {
        return (1.0, 4);
    }
    let power = 10_f64.powf(value.log10().floor());
    let rounds = [(1.0, 5), (1.5, 3), (2.0, 4), (2.5, 5), (3.0, 3), (4.0, 4), (5.0, 5), (6.0, 3), (8.0, 4)];
    let above = rounds.into_iter().find(|(digits, _)| digits * power >= value);
    above.map_or((10.0 * power, 5), |(digits, parts)| (digits * power, parts))
}
