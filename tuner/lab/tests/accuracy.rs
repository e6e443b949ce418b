//! What must never be lost: the model is ahead of a plain model on machines and systems that it has not seen.

use scavenger_tuner_lab::{floor, plot, run};
use scavenger_tuner_model::performance::Constants;

const PAGE: &str = include_str!("../../data/accuracy.md");
const PLOT: &str = include_str!("../../data/accuracy.svg");

/// The whole validation, as `accuracy --check` does it.
#[test]
fn the_model_is_ahead_of_the_plain_model_in_every_regime_of_cpus_and_the_page_says_so() {
    let accuracy = run();
    let (shipped, fitted) = (Constants::FITTED.logs(), accuracy.fitted.constants.logs());
    for ((name, shipped), fitted) in Constants::NAMES.iter().zip(shipped).zip(fitted) {
        assert!(
            (shipped - fitted).abs() < 0.02,
            "{name} is {}, the fit gives {}",
            shipped.exp(),
            fitted.exp()
        );
    }
    assert_eq!(accuracy.regimes.len(), 6);
    let wrong = floor::shortfalls(&accuracy, PAGE);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let drawn = plot::accuracy(&accuracy.points).expect("it should be drawn");
    assert!(
        floor::is_same_plot(PLOT, &drawn),
        "draw it again: scavenger-tuner-lab --plot tuner/data/accuracy.svg"
    );
}
