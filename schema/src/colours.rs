//! The colours of all pictures, as red, green and blue.

/// Distinct without colour vision (Okabe and Ito), the dark ones first: yellow and light blue are faint on white.
pub const DISTINCT: [(u8, u8, u8); 7] =
    [(0, 114, 178), (213, 94, 0), (0, 0, 0), (0, 158, 115), (204, 121, 167), (230, 159, 0), (86, 180, 233)];
/// Of text beside the main thing, and of axes.
pub const GREY: (u8, u8, u8) = (90, 90, 90);
/// Of the lines of a grid.
pub const GRID: (u8, u8, u8) = (222, 222, 222);
