//! Pictures as SVG: speed and efficiency over cores. The lab draws predicted against measured speed in the same style.
//!
//! They are read at 600 pixels, in grey too: each line has its own dashes and its own mark, and colours are only a help.

mod ladder;
mod style;

pub use ladder::ladder;
