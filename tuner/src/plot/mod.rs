//! Pictures as SVG: speed and efficiency over cores, and predicted against measured speed.
//!
//! They are read at 600 pixels, in grey too: each line has its own dashes and its own mark, and colours are only a help.

mod accuracy;
mod ladder;
mod style;

pub use accuracy::accuracy;
pub use ladder::ladder;
