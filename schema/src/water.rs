//! The boxes of water that benchmarks run: whole copies, side by side, of the equilibrated box that comes with GROMACS
//! (`spc216.gro`). Whole copies fit without seams, so nothing has to be minimised before it runs.

/// Atoms of one copy: 216 molecules.
pub const CELL_ATOMS: u64 = 648;

/// Edge of one copy, nm.
pub const CELL_NM: f64 = 1.862_06;

/// Fewest copies along an edge: with two, a cut-off of 1 nm has room to either side.
const FEWEST: u32 = 2;

/// Most copies along an edge: ten million atoms lie far below.
const MOST: u32 = 100;

/// A box of water, as near to a cube as whole copies go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaterBox {
    /// Copies along x, y and z.
    pub cells: [u32; 3],
}

impl WaterBox {
    /// The smallest one.
    pub const SMALLEST: Self = Self { cells: [FEWEST; 3] };

    /// The box whose number of atoms is nearest to `atoms`.
    ///
    /// ```
    /// use scavenger_schema::water::WaterBox;
    /// assert_eq!(WaterBox::near(50_000).cells, [4, 4, 5]);
    /// assert_eq!(WaterBox::near(50_000).atoms(), 51_840);
    /// ```
    #[must_use]
    pub fn near(atoms: u64) -> Self {
        let boxes = (FEWEST..MOST).flat_map(|n| (0..3).map(move |longer| Self { cells: cells(n, longer) }));
        // Of two that are as near, the smaller one: it comes first.
        boxes.min_by_key(|found| found.atoms().abs_diff(atoms)).unwrap_or(Self::SMALLEST)
    }

    /// The largest box of at most `atoms` atoms; the smallest one if that is more.
    #[must_use]
    pub fn at_most(atoms: u64) -> Self {
        let boxes = (FEWEST..MOST).flat_map(|n| (0..3).map(move |longer| Self { cells: cells(n, longer) }));
        boxes.take_while(|found| found.atoms() <= atoms).last().unwrap_or(Self::SMALLEST)
    }

    /// Atoms.
    #[must_use]
    pub fn atoms(&self) -> u64 {
        self.cells.iter().map(|&count| u64::from(count)).product::<u64>() * CELL_ATOMS
    }

    /// Edges in nm.
    #[must_use]
    pub fn edges_nm(&self) -> [f64; 3] {
        self.cells.map(|count| f64::from(count) * CELL_NM)
    }
}

/// `n` copies along each edge, one more along `longer` of them.
fn cells(n: u32, longer: usize) -> [u32; 3] {
    [0, 1, 2].map(|axis| if axis + longer >= 3 { n + 1 } else { n })
}

#[cfg(all(test, feature = "http"))]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_nearly_cubes_and_near_what_was_wanted() {
        assert_eq!(WaterBox::near(0), WaterBox::SMALLEST);
        assert_eq!(WaterBox::at_most(0), WaterBox::SMALLEST);
        assert_eq!(WaterBox::SMALLEST.atoms(), crate::bounds::BENCHMARK_ATOMS.min);
        for wanted in [5184, 12_000, 48_000, 192_000, 768_000, 10_000_000] {
            let found = WaterBox::near(wanted);
            let [x, y, z] = found.cells;
            assert!(x <= y && y <= z && z <= x + 1, "{found:?}");
            let ratio = found.atoms() as f64 / wanted as f64;
            assert!((0.75..1.35).contains(&ratio), "{wanted}: {ratio}");
            assert_eq!(WaterBox::near(found.atoms()), found);
            let below = WaterBox::at_most(wanted);
            assert!(below.atoms() <= wanted && WaterBox::at_most(below.atoms()) == below, "{below:?}");
        }
    }

    #[test]
    fn the_density_is_that_of_water() {
        let found = WaterBox::near(192_000);
        let volume: f64 = found.edges_nm().iter().product();
        assert!((found.atoms() as f64 / volume - 100.37).abs() < 0.01);
    }
}
