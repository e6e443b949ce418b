//! What `gmx dump` calls the interactions of a kind of molecule, in the releases since 2018: the script that inspects a file
//! knows all of them. Tried with dumps of 2020.6, 2022.5 and 2025.2.

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
