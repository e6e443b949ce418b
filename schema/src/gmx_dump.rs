//! What `gmx dump` calls the interactions of a kind of molecule, in the releases since 2018.
//!
//! Two readers rest on it: the script that inspects a file where it is, and the tuner's command line. Tried with dumps of
//! 2020.6, 2022.5 and 2025.2.

/// Bonded interactions with the pairs of atoms three bonds apart, and how many numbers of the dump's list each takes: its
/// type and its atoms.
pub const BONDED: [(&str, u32); 26] = [
    ("Bond", 3),
    ("G96Bond", 3),
    ("Morse", 3),
    ("Cubic Bonds", 3),
    ("Harmonic Pot.", 3),
    ("FENE Bonds", 3),
    ("Tab. Bonds", 3),
    ("Angle", 4),
    ("G96Angle", 4),
    ("U-B", 4),
    ("Quartic Angles", 4),
    ("Restricted Angles", 4),
    ("Restr. Angles", 4),
    ("Lin. Angle", 4),
    ("Tab. Angles", 4),
    ("Proper Dih.", 5),
    ("Ryckaert-Bell.", 5),
    ("Fourier Dih.", 5),
    ("Improper Dih.", 5),
    ("Per. Imp. Dih.", 5),
    ("Restricted Dih.", 5),
    ("Restr. Dih.", 5),
    ("CBT Dih.", 5),
    ("Tab. Dih.", 5),
    ("CMAP Dih.", 6),
    ("LJ-14", 3),
];

/// True for the lists of virtual sites, which newer releases shorten: `Virtual site 3`, `Virt. site 3fd`, `Vir. site 3out`.
#[must_use]
pub fn is_virtual_sites(kind: &str) -> bool {
    kind.starts_with("Vir") && kind.contains(" site ")
}

/// True for an atom with two states: `atom[ 0]={type= 0, typeB= 1, ptype= Atom, m= 1, q= 0, mB= 1, qB= 0, ...`.
#[must_use]
pub fn has_two_states(line: &str) -> bool {
    let Some((_, atom)) = line.split_once('{') else { return false };
    let value = |name: &str| {
        atom.split(',').find_map(|part| {
            let (key, value) = part.split_once('=')?;
            (key.trim() == name).then(|| value.trim())
        })
    };
    [("type", "typeB"), ("m", "mB"), ("q", "qB")]
        .iter()
        .any(|(a, b)| value(b).is_some_and(|b| value(a) != Some(b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_sites_have_three_spellings() {
        for kind in ["Virtual site 1", "Virtual site N", "Virt. site 4fd", "Vir. site 3fad"] {
            assert!(is_virtual_sites(kind), "{kind}");
        }
        for kind in ["Vir. Temp.", "Vir. Temp. (not used)", "Position Rest."] {
            assert!(!is_virtual_sites(kind), "{kind}");
        }
    }

    #[test]
    fn an_atom_with_two_states_is_found() {
        let atom = |type_b: &str, charge_b: &str| {
            format!(
                "   atom[     0]={{type=  0, typeB={type_b}, ptype=    Atom, m= 1.6e+01, q=-8.2e-01, mB= 1.6e+01, \
                 qB={charge_b}, resind=    0, atomnumber=  8}}"
            )
        };
        assert!(!has_two_states(&atom("  0", "-8.2e-01")));
        assert!(has_two_states(&atom("  1", "-8.2e-01")) && has_two_states(&atom("  0", " 0.0e+00")));
        assert!(!has_two_states("atom (3):") && !has_two_states("atom[0]={name=\"OW\"}"));
    }
}
