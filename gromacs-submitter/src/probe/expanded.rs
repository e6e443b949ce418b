//! Expanded ensembles: whether the row can go on from a checkpoint.
//!
//! From release 2022.5 on GROMACS writes none with its legacy simulator, not even at SIGTERM, since a restart lost a step of the
//! Monte Carlo moves (its issue 4629). Releases before write them, and with the modular simulator fail to. What mdrun runs with
//! which simulator, `getReasonsForIncompatibility` in its `modularsimulator.cpp` says.

use std::collections::BTreeMap;

use scavenger_schema::gpu_offload;

use crate::mdrun_options::MdrunOptions;

/// Key of what keeps an expanded ensemble from the modular simulator, as far as the script alone sees it.
pub(super) const LEGACY: &str = "legacy-simulator";

/// First release whose checkpoints of an expanded ensemble are sound.
const FIRST_SOUND: (u32, u32) = (2022, 5);

/// Obstacles, and what they are called. The script has found each.
const FOUND: [(&str, &str); 9] = [
    ("acceleration", "acceleration"),
    ("annealing", "simulated annealing"),
    ("deformation", "deformation of the box"),
    ("disabled", "GMX_DISABLE_MODULAR_SIMULATOR in the image"),
    ("distance-restraints", "distance restraints"),
    ("frozen-atoms", "freeze groups"),
    ("interactive-md", "interactive MD"),
    ("orientation-restraints", "orientation restraints"),
    ("virtual-sites", "virtual sites"),
];

/// Settings with the value that is none, and what they are called.
const SET: [(&str, &[&str], &str); 5] = [
    ("awh", &["false"], "AWH"),
    ("cos-acceleration", &["0"], "cosine acceleration"),
    ("mts", &["false"], "multiple time stepping"),
    ("simulated-tempering", &["false"], TEMPERING),
    ("swapcoords", &["no", "No"], "swapping of ions and water"),
];

/// Nothing else can replace it.
const TEMPERING: &str = "simulated tempering";

/// The one integrator that the modular simulator has here.
const INTEGRATOR: &str = "md-vv";

/// Why a row with what was found in its file, and with these options, cannot go on after an interruption, and what to do: none if
/// it can.
#[must_use]
pub fn without_checkpoints(values: &BTreeMap<String, String>, options: &MdrunOptions) -> Option<String> {
    let word = |key: &str| values.get(key).map(String::as_str).unwrap_or_default();
    if word("free-energy") != "expanded" && word("simulated-tempering") != "true" {
        return None;
    }
    let found = [gpu_offload::OBSTACLES, LEGACY].map(|key| word(key).split(','));
    let is_found = |name: &str| found.clone().into_iter().flatten().any(|one| one == name);
    let is_set = |key: &str, none: &[&str]| !word(key).is_empty() && !none.contains(&word(key));
    let integrator = word("integrator");
    let mut reasons = Vec::new();
    if integrator != INTEGRATOR {
        reasons.push(format!("integrator {integrator}"));
    }
    reasons.extend(
        SET.iter().filter(|(key, none, _)| is_set(key, none)).map(|(_, _, words)| (*words).to_owned()),
    );
    reasons.extend(FOUND.iter().filter(|(name, _)| is_found(name)).map(|(_, words)| (*words).to_owned()));
    if options.has("-ei") {
        reasons.push("essential dynamics (-ei)".to_owned());
    }
    if !reasons.is_empty() {
        let remedy = if reasons.iter().any(|reason| reason == TEMPERING) {
            "run it yourself, without interruptions"
        } else {
            "leave that out and use integrator md-vv, or run it yourself, without interruptions"
        };
        return Some(format!(
            "GROMACS cannot go on from a checkpoint of an expanded ensemble with {}; {remedy}",
            reasons.join(", ")
        ));
    }
    let version = word("gromacs-version");
    release(version).filter(|release| *release < FIRST_SOUND).map(|_| {
        format!(
            "GROMACS {version} writes no sound checkpoints of an expanded ensemble; name an image with GROMACS 2022.5 or newer, \
             and retry"
        )
    })
}

/// Year and number of a release, as `gmx --version` prints it: `2022.5-Debian_2022.5_2`, `2025.0-dev` or `2023`.
fn release(version: &str) -> Option<(u32, u32)> {
    let numbers = version.split(|sign: char| !sign.is_ascii_digit() && sign != '.').next()?;
    let mut numbers = numbers.split('.');
    let year = numbers.next()?.parse().ok()?;
    Some((year, numbers.next().and_then(|number| number.parse().ok()).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::parse_inspection;

    const WATER: &str = include_str!("../../tests/fixtures/inspection-2022.txt");

    /// What is said of an expanded ensemble with md-vv and 2022.5, with these changes.
    fn said(changes: &[(&str, &str)], options: &str) -> Option<String> {
        let mut values = parse_inspection(WATER).expect("should be a good answer").values;
        let changes = [("free-energy", "expanded"), ("integrator", "md-vv")].iter().chain(changes);
        values.extend(changes.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        let words: Vec<String> = options.split_whitespace().map(ToOwned::to_owned).collect();
        without_checkpoints(&values, &MdrunOptions::read(&words).expect("should be options"))
    }

    #[test]
    fn what_keeps_an_expanded_ensemble_from_its_checkpoints_is_named_with_the_remedy() {
        assert_eq!(said(&[], "-dlb yes"), None);
        for (key, value, named) in [
            ("integrator", "md-vv-avek", "integrator md-vv-avek"),
            ("integrator", "sd", "integrator sd"),
            ("update-obstacles", "shells,frozen-atoms", "freeze groups"),
            ("update-obstacles", "acceleration", "acceleration"),
            ("update-obstacles", "deformation", "deformation of the box"),
            ("update-obstacles", "virtual-sites", "virtual sites"),
            ("update-obstacles", "orientation-restraints", "orientation restraints"),
            ("legacy-simulator", "annealing", "simulated annealing"),
            ("legacy-simulator", "distance-restraints", "distance restraints"),
            ("legacy-simulator", "interactive-md", "interactive MD"),
            ("legacy-simulator", "disabled", "GMX_DISABLE_MODULAR_SIMULATOR in the image"),
            ("awh", "true", "AWH"),
            ("mts", "true", "multiple time stepping"),
            ("swapcoords", "X", "swapping of ions and water"),
            ("cos-acceleration", "0.1", "cosine acceleration"),
        ] {
            let said = said(&[(key, value)], "");
            let expected = format!(
                "GROMACS cannot go on from a checkpoint of an expanded ensemble with {named}; leave that out and use integrator \
                 md-vv, or run it yourself, without interruptions"
            );
            assert_eq!(said, Some(expected), "{key}={value}");
        }
        let two =
            said(&[("legacy-simulator", "annealing"), ("update-obstacles", "frozen-atoms")], "-ei sam.edi");
        let two = two.expect("should be refused");
        assert!(
            two.contains("with simulated annealing, freeze groups, essential dynamics (-ei); leave"),
            "{two}"
        );
    }

    #[test]
    fn what_keeps_the_update_off_a_gpu_alone_does_not_matter() {
        assert_eq!(said(&[("update-obstacles", "shells,coupled-constraints")], ""), None);
        assert_eq!(said(&[("pull", "true"), ("tcoupl", "Nose-Hoover"), ("pcoupl", "C-rescale")], ""), None);
    }

    #[test]
    fn tempering_has_no_other_way() {
        for free_energy in ["expanded", "no"] {
            let said = said(&[("simulated-tempering", "true"), ("free-energy", free_energy)], "");
            assert_eq!(
                said.as_deref(),
                Some(
                    "GROMACS cannot go on from a checkpoint of an expanded ensemble with simulated tempering; run it yourself, \
                     without interruptions"
                )
            );
        }
    }

    #[test]
    fn other_free_energies_go_on_whatever_they_have() {
        for free_energy in ["no", "yes", "static", "slow-growth"] {
            let changes =
                [("free-energy", free_energy), ("integrator", "sd"), ("update-obstacles", "frozen-atoms")];
            assert_eq!(said(&changes, "-ei sam.edi"), None, "{free_energy}");
        }
    }

    #[test]
    fn a_release_without_sound_checkpoints_is_named() {
        for version in ["2020.6-Debian-2020.6-2", "2021.7", "2022", "2022.4"] {
            let said = said(&[("gromacs-version", version)], "").expect("should be refused");
            assert!(said.starts_with(&format!("GROMACS {version} writes no sound checkpoints")), "{said}");
        }
        for version in [
            "2022.5",
            "2022.6-colvars",
            "2022.10",
            "2023",
            "2025.2-Debian_2025.2_1",
            "2026.0-dev-2025",
            "unknown",
        ] {
            assert_eq!(said(&[("gromacs-version", version)], ""), None, "{version}");
        }
    }
}
