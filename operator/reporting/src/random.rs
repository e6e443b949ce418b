//! Numbers by chance. Nothing secret is made of them.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

/// A number that differs from process to process and from call to call.
#[must_use]
pub fn number() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Between 0 and 1.
#[must_use]
pub fn jitter() -> f64 {
    f64::from(u16::try_from(number() & 0xFFFF).unwrap_or(0)) / f64::from(u16::MAX)
}
