//! Options of grompp, with which a row makes its .tpr file itself: of what the row before it computed, for example.
//!
//! grompp runs in the folder of the .tpr file, as people run it, so its files are named from there. What it writes is no
//! option: the .tpr file is the row's.

use std::collections::BTreeMap;

use crate::gmx_options::{self, Argument, OptionError, Tool, Value};

const OPTIONS: [(&str, Value); 16] = [
    ("-c", Value::Beside),
    ("-e", Value::Beside),
    ("-f", Value::Beside),
    ("-maxwarn", Value::Whole(0, 1000)),
    ("-n", Value::Beside),
    ("-norenum", Value::Switch),
    ("-normvsbds", Value::Switch),
    ("-p", Value::Beside),
    ("-r", Value::Beside),
    ("-rb", Value::Beside),
    ("-ref", Value::Beside),
    ("-renum", Value::Switch),
    ("-rmvsbds", Value::Switch),
    ("-t", Value::Beside),
    ("-time", Value::Real(-1.0, 1e12)),
    ("-zero", Value::Switch),
];

const OUTPUT: &str = "the .tpr file is that of the row, and mdout.mdp lies in the folder of its results";

const GROMPP: Tool = Tool {
    name: "grompp",
    options: &OPTIONS,
    refused: &[("-imd", OUTPUT), ("-o", OUTPUT), ("-po", OUTPUT), ("-pp", OUTPUT)],
};

/// Without these grompp looks for names of its own, which would be found by chance.
const NEEDED: [&str; 3] = ["-f", "-c", "-p"];

/// No option of grompp: the database puts it behind those of a row with settings of its own, which programs of before do not know.
const SETTINGS: &str = "-mdp";

/// Stands in a path for the number of the row that this one comes after.
const AFTER: &str = "{after}";

/// The words of a text, if they are options that a row may have.
///
/// # Errors
/// [`OptionError`] with a sentence for the first word that is wrong.
pub fn words(text: &str) -> Result<Vec<String>, OptionError> {
    let words = gmx_options::words(text);
    arguments(&words)?;
    Ok(words)
}

/// Checks words that stand in a list of their own.
///
/// # Errors
/// [`OptionError`] with a message for the first word that is wrong.
pub fn check(words: &[String]) -> Result<(), OptionError> {
    arguments(words).map(drop)
}

/// Reads the options of a row, each a word of its own; none if grompp is not to run. `{after}` becomes the number of the row
/// in `after`.
///
/// # Errors
/// [`OptionError`] with a sentence for the first word that is wrong.
pub fn of_row(words: &[String], after: &[i64]) -> Result<Vec<String>, OptionError> {
    let word = |argument: Argument| match argument {
        Argument::Plain(word) => Ok(word),
        Argument::File(path) if path.contains(AFTER) => match after {
            [row] => Ok(path.replace(AFTER, &row.to_string())),
            rows => Err(OptionError::After(rows.len())),
        },
        Argument::File(path) => Ok(path),
    };
    arguments(words)?.into_iter().map(word).collect()
}

/// Checks the settings that grompp reads instead of those of its -f file.
///
/// # Errors
/// [`OptionError::Same`] if two names are one for GROMACS.
pub fn check_settings(settings: &BTreeMap<String, String>) -> Result<(), OptionError> {
    let mut seen: BTreeMap<String, &String> = BTreeMap::new();
    for name in settings.keys() {
        if let Some(other) = seen.insert(setting(name), name) {
            return Err(OptionError::Same(other.clone(), name.clone()));
        }
    }
    Ok(())
}

/// The name of a setting as GROMACS compares names.
fn setting(name: &str) -> String {
    name.chars().filter(|sign| !matches!(sign, '-' | '_')).flat_map(char::to_lowercase).collect()
}

fn arguments(words: &[String]) -> Result<Vec<Argument>, OptionError> {
    let words = words.strip_suffix(&[SETTINGS.to_owned()]).unwrap_or(words);
    let arguments = gmx_options::read(&GROMPP, words)?;
    let lacks = |option: &&&str| !words.is_empty() && !words.iter().any(|word| word == **option);
    NEEDED.iter().find(lacks).map_or(Ok(arguments), |option| Err(OptionError::Lack(option)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gmx_options::words;

    const EQUILIBRATION: &str = "-f npt.mdp -c ../nvt/gromacs-{after}/confout.gro -t ../nvt/gromacs-{after}/state.cpt -p topol.top -maxwarn 1";

    #[test]
    fn files_of_the_row_before_are_named_by_its_number() {
        assert_eq!(
            of_row(&words(EQUILIBRATION), &[7]).expect("should be good").join(" "),
            "-f npt.mdp -c ../nvt/gromacs-7/confout.gro -t ../nvt/gromacs-7/state.cpt -p topol.top -maxwarn 1"
        );
        assert_eq!(of_row(&[], &[]), Ok(Vec::new()), "the file is there");
        let marked = words(&format!("{EQUILIBRATION} -mdp"));
        assert_eq!(of_row(&marked, &[7]), of_row(&words(EQUILIBRATION), &[7]), "grompp does not know it");
    }

    #[test]
    fn a_setting_has_one_name() {
        let settings =
            |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), "1".to_owned())).collect();
        assert_eq!(check_settings(&settings(&["ref-t", "ref-p", "gen-temp"])), Ok(()));
        for (one, other) in [("REF_T", "ref-t"), ("ref-t", "reft"), ("tau-t", "tau_T")] {
            let error = check_settings(&settings(&[one, other])).expect_err("are one").to_string();
            assert!(
                error.contains(&format!("{one} and {other}, which are one setting for GROMACS")),
                "{error}"
            );
        }
    }

    #[test]
    fn what_is_wrong_is_refused() {
        for (text, after, said) in [
            ("-f a.mdp -c a.gro", &[1][..], "grompp needs -p in grompp_options"),
            (EQUILIBRATION, &[], "and there are 0; write its number"),
            (EQUILIBRATION, &[1, 2], "and there are 2; write its number"),
            (
                "-f a.mdp -o b.tpr",
                &[],
                "grompp option -o cannot be set for a row: the .tpr file is that of the row",
            ),
            ("-f /etc/a.mdp", &[], "-f needs the path of a file relative to the folder of the .tpr file"),
            ("-v", &[], "grompp option \"-v\" cannot be set for a row; these can: -c, "),
            ("md.mdp", &[], "\"md.mdp\" is not an option of grompp"),
            ("-maxwarn -1", &[], "-maxwarn needs a whole number between 0 and 1000"),
        ] {
            let error = of_row(&words(text), after).expect_err(text).to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
