//! What holds for any input. Cases that once failed are in `proptest-regressions/`.

mod budgets;
mod by_use;
mod everybody;
mod evidence;
mod headroom;
mod leaving;
mod lives;
mod order;
mod preemption;
mod refusals;
mod reports;
mod room;
mod shares;
mod starvation;

use proptest::prelude::ProptestConfig;

/// As many cases as a quick run needs, multiplied as `PROPTEST_CASES` multiplies proptest's own 256; `cargo xtask soak`
/// sets it. What is found there must not take longer to shrink than to find.
fn cases(modest: u32) -> ProptestConfig {
    ProptestConfig {
        cases: modest.saturating_mul(factor()),
        max_shrink_iters: 300,
        ..ProptestConfig::default()
    }
}

/// How many times as many cases as a quick run needs are asked for.
pub(crate) fn factor() -> u32 {
    const OWN: u32 = 256;
    (ProptestConfig::default().cases / OWN).max(1)
}
