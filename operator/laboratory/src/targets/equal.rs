//! How much of a knob a policy needs so that its ScavengerJobs keep as many core hours as another's.

use crate::measure::Figures;

/// Core hours that are kept count as the same within this part of them.
pub(super) const SAME: f64 = 0.01;

/// So often a setting is tried at most.
const TRIES: usize = 10;

/// Plays a run with settings between two ends until it keeps as much as wanted, and returns the setting that came closest with
/// its figures. More of the setting should keep more.
pub(super) fn keeping(
    wanted: f64,
    (first, least, most): (f64, f64, f64),
    play: impl Fn(f64) -> Figures,
) -> (f64, Figures) {
    let off = |figures: &Figures| figures.kept_core_hours / wanted - 1.0;
    let mut best: Option<(f64, Figures)> = None;
    // With nothing of it nothing is kept; what the other end keeps is not known yet.
    let (mut low, mut high) = ((least, -1.0), (most, f64::NAN));
    let mut setting = first;
    for _ in 0..TRIES {
        let figures = play(setting);
        let here = off(&figures);
        if best.as_ref().is_none_or(|(_, other)| here.abs() < off(other).abs()) {
            best = Some((setting, figures));
        }
        if here.abs() <= SAME || (here < 0.0 && setting >= most) {
            break;
        }
        if here < 0.0 {
            low = (setting, here);
        } else {
            high = (setting, here);
        }
        setting = between(low, high);
        if high.0 - low.0 < 1e-4 {
            break;
        }
    }
    best.expect("it should have been tried once")
}

/// Where the line between both ends crosses what is wanted, and not too close to either of them.
fn between((low, under): (f64, f64), (high, over): (f64, f64)) -> f64 {
    if over.is_nan() {
        return high;
    }
    let part = -under / (over - under);
    low + (high - low) * part.clamp(0.1, 0.9)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn search(wanted: f64, kept: fn(f64) -> f64) -> (f64, f64, usize) {
        let tries = Cell::new(0);
        let (setting, figures) = keeping(wanted, (0.7, 0.0, 1.0), |setting| {
            tries.set(tries.get() + 1);
            Figures { kept_core_hours: kept(setting), ..Figures::default() }
        });
        (setting, figures.kept_core_hours, tries.get())
    }

    #[test]
    fn as_much_is_kept_after_few_tries() {
        for kept in [|setting: f64| 1000.0 * setting, |setting: f64| 1000.0 * setting.powi(3)] {
            for wanted in [100.0, 340.0, 700.0, 950.0] {
                let (_, found, tries) = search(wanted, kept);
                assert!((found / wanted - 1.0).abs() <= SAME && tries <= TRIES, "{wanted}: {found}, {tries}");
            }
        }
        assert_eq!(search(700.0, |setting| 1000.0 * setting), (0.7, 700.0, 1));
    }

    #[test]
    fn what_cannot_be_reached_ends_at_the_far_end() {
        let (setting, found, tries) = search(2000.0, |setting| 1000.0 * setting);
        assert_eq!((setting, found, tries), (1.0, 1000.0, 2));
    }
}
