//! Options of mdrun that a row may add to those that the submitter chooses.
//!
//! Only here stands which these are. What the pipeline decides itself is none of them: files of its own, checkpoints,
//! ranks, threads, devices, and how long mdrun runs.

use std::iter::Peekable;
use std::slice::Iter;

/// What follows an option.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Value {
    /// Nothing: it is a switch.
    Switch,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A whole number from the first to the second.
    Whole(i64, i64),
    /// A number from the first to the second.
    Real(f64, f64),
    /// A file on the volume.
    File,
    /// One file on the volume or several.
    Files,
}

/// Every option that a row may set, in the order of the alphabet.
const OPTIONS: [(&str, Value); 20] = [
    ("-awh", Value::File),
    ("-ddcheck", Value::Switch),
    ("-ddorder", Value::Word(&["interleave", "pp_pme", "cartesian"])),
    ("-dlb", Value::Word(&["auto", "no", "yes"])),
    ("-dds", Value::Real(0.1, 1.0)),
    ("-ei", Value::File),
    ("-nocpnum", Value::Switch),
    ("-noddcheck", Value::Switch),
    ("-noreprod", Value::Switch),
    ("-notunepme", Value::Switch),
    (NSTLIST, Value::Whole(0, 1000)),
    (PIN, Value::Word(&["off", "on"])),
    ("-plumed", Value::File),
    ("-rcon", Value::Real(0.0, 100.0)),
    ("-rdd", Value::Real(0.0, 100.0)),
    ("-reprod", Value::Switch),
    ("-table", Value::File),
    ("-tableb", Value::Files),
    ("-tablep", Value::File),
    ("-tunepme", Value::Switch),
];

/// Whether threads are pinned to cores. It is part of the layout, which knows whether the cores are the pod's own.
const PIN: &str = "-pin";

/// Steps between pair searches; 0 leaves the choice to mdrun.
const NSTLIST: &str = "-nstlist";

/// Options that a row could seem to need, and with which it would not come to its end.
const REFUSED: [(&str, &str); 8] = [
    ("-cpnum", "mdrun then writes each checkpoint under another name, and the row goes on from state.cpt"),
    ("-membed", MEMBED),
    ("-mn", MEMBED),
    ("-mp", MEMBED),
    (
        "-multidir",
        "name the folders in the row's own multidir instead (gromacs-submitter add --multidir sim0 sim1)",
    ),
    ("-nex", REPLEX),
    ("-replex", REPLEX),
    ("-reseed", REPLEX),
];
/// Replicas exchange through the MPI library that joins their processes. With thread-MPI, which the images have, mdrun
/// refuses to run several simulations at all.
const REPLEX: &str = "replicas exchange inside one mdrun of a GROMACS with library MPI, and a row runs one mdrun in each \
    folder: leave it out to compute the simulations without exchanges, or run `mpirun gmx_mpi mdrun -multidir ... -replex` \
    as a ScavengerJob of your own (docs/checkpointing.md, MPI)";
const MEMBED: &str =
    "an embedding asks questions and cannot go on from a checkpoint: run it yourself, and add its result";

/// Most bytes of a path, so that it fits into an argument behind the place where the volume is mounted.
const LONGEST_PATH: usize = 900;

/// Why words are no options that a row may set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// It is not in the list.
    #[error("mdrun option {0:?} cannot be set for a row; these can: {names}", names = names())]
    Know(String),
    /// A row with it would not come to its end.
    #[error("mdrun option {0} cannot be set for a row: {1}")]
    Refuse(&'static str, &'static str),
    /// Several mdrun processes share the pod's cores.
    #[error(
        "mdrun option -pin on cannot be set for a row of several simulations, which would all be pinned to the same cores; leave it out"
    )]
    PinSeveral,
    /// A value without an option.
    #[error("{0:?} is not an option of mdrun: options begin with '-', and each takes its own values")]
    Begin(String),
    /// It takes a value and has none, or another than it takes.
    #[error("mdrun option {option} needs {needs}{}", found.as_ref().map(|found| format!(", not {found:?}")).unwrap_or_default())]
    Take {
        /// The option.
        option: &'static str,
        /// What it takes.
        needs: String,
        /// What it has.
        found: Option<String>,
    },
    /// It stands there twice.
    #[error("mdrun option {0} is given twice")]
    Repeat(&'static str),
}

/// A word of mdrun's command line.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Argument {
    Plain(String),
    File(String),
}

/// Options that are in the list, with values that they take.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MdrunOptions(Vec<Argument>);

impl MdrunOptions {
    /// The words of a text, which are divided by blanks.
    #[must_use]
    pub fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(ToOwned::to_owned).collect()
    }

    /// Reads options and values, each a word of its own.
    ///
    /// # Errors
    /// [`OptionError`] with a sentence for the first word that is wrong.
    pub fn read(words: &[String]) -> Result<Self, OptionError> {
        let mut arguments = Vec::new();
        let mut seen: Vec<&str> = Vec::new();
        let mut words = words.iter().peekable();
        while let Some(word) = words.next() {
            if !word.starts_with('-') {
                return Err(OptionError::Begin(word.clone()));
            }
            if let Some((name, why)) = REFUSED.iter().find(|(name, _)| name == word) {
                return Err(OptionError::Refuse(name, why));
            }
            let Some((name, value)) = OPTIONS.iter().find(|(name, _)| name == word) else {
                return Err(OptionError::Know(word.clone()));
            };
            if seen.contains(name) {
                return Err(OptionError::Repeat(name));
            }
            seen.push(name);
            arguments.push(Argument::Plain(word.clone()));
            match value {
                Value::Switch => {}
                Value::Word(_) | Value::Whole(..) | Value::Real(..) => {
                    arguments.push(Argument::Plain(take(&mut words, name, *value)?));
                }
                Value::File => arguments.push(Argument::File(take(&mut words, name, *value)?)),
                Value::Files => {
                    arguments.push(Argument::File(take(&mut words, name, *value)?));
                    while words.peek().is_some_and(|word| !word.starts_with('-')) {
                        arguments.push(Argument::File(take(&mut words, name, *value)?));
                    }
                }
            }
        }
        Ok(Self(arguments))
    }

    /// Paths of the files that they name, relative to the root of the volume.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|argument| match argument {
            Argument::Plain(_) => None,
            Argument::File(path) => Some(path.as_str()),
        })
    }

    /// The same of a row of so many simulations.
    ///
    /// # Errors
    /// [`OptionError`] with a sentence for the first word that is wrong.
    pub fn of_row(words: &[String], simulations: u32) -> Result<Self, OptionError> {
        let options = Self::read(words)?;
        if options.pins() && simulations > 1 { Err(OptionError::PinSeveral) } else { Ok(options) }
    }

    /// True if threads shall be pinned to cores.
    #[must_use]
    pub fn pins(&self) -> bool {
        self.value(PIN) == Some("on")
    }

    /// Steps between pair searches, if they set them.
    #[must_use]
    pub fn nstlist(&self) -> Option<i32> {
        self.value(NSTLIST).and_then(|steps| steps.parse().ok()).filter(|&steps| steps > 0)
    }

    /// The word behind an option that takes one.
    fn value(&self, option: &str) -> Option<&str> {
        self.0.windows(2).find_map(|pair| match pair {
            [Argument::Plain(name), Argument::Plain(value)] if name == option => Some(value.as_str()),
            _ => None,
        })
    }

    /// As mdrun gets them behind its layout, where the volume is mounted at `root`: without what the layout says.
    #[must_use]
    pub fn arguments(&self, root: &str) -> Vec<String> {
        let mut arguments = Vec::new();
        let mut all = self.0.iter();
        while let Some(argument) = all.next() {
            match argument {
                Argument::Plain(word) if word == PIN => {
                    all.next();
                }
                Argument::Plain(word) => arguments.push(word.clone()),
                Argument::File(path) => arguments.push(format!("{root}/{path}")),
            }
        }
        arguments
    }

    /// The words again, with each path as `change` has it.
    ///
    /// # Errors
    /// What `change` says.
    pub fn with_files<E>(&self, change: impl Fn(&str) -> Result<String, E>) -> Result<Vec<String>, E> {
        let word = |argument: &Argument| match argument {
            Argument::Plain(word) => Ok(word.clone()),
            Argument::File(path) => change(path),
        };
        self.0.iter().map(word).collect()
    }
}

/// The next word, if the option takes it.
fn take(
    words: &mut Peekable<Iter<'_, String>>,
    option: &'static str,
    value: Value,
) -> Result<String, OptionError> {
    // A number may be negative; no option is a number.
    let word = words.next_if(|word| !word.starts_with('-') || word.parse::<f64>().is_ok());
    match word {
        Some(word) if value.takes(word) => Ok(word.clone()),
        found => Err(OptionError::Take { option, needs: value.needs(), found: found.cloned() }),
    }
}

impl Value {
    fn takes(self, word: &str) -> bool {
        match self {
            Self::Switch => false,
            Self::Word(words) => words.contains(&word),
            Self::Whole(least, most) => {
                word.parse().is_ok_and(|number: i64| (least..=most).contains(&number))
            }
            Self::Real(least, most) => word.parse().is_ok_and(|number: f64| (least..=most).contains(&number)),
            Self::File | Self::Files => {
                let is_part = |part: &str| !matches!(part, "" | "." | "..");
                word.len() <= LONGEST_PATH
                    && !word.chars().any(char::is_control)
                    && word.split('/').all(is_part)
            }
        }
    }

    fn needs(self) -> String {
        match self {
            Self::Switch => "no value".to_owned(),
            Self::Word(words) => format!("one of {}", words.join(", ")),
            Self::Whole(least, most) => format!("a whole number between {least} and {most}"),
            Self::Real(least, most) => format!("a number between {least} and {most}"),
            Self::File | Self::Files => {
                "the path of a file relative to the root of the volume, without '..' and '//'".to_owned()
            }
        }
    }
}

fn names() -> String {
    OPTIONS.map(|(name, _)| name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<MdrunOptions, OptionError> {
        MdrunOptions::read(&MdrunOptions::words(text))
    }

    #[test]
    fn options_become_arguments_and_files_are_found_on_the_volume() {
        let options = read("-plumed meta/plumed.dat -dlb yes -rdd 1.4 -tableb a.xvg b/c.xvg -notunepme")
            .expect("should be good");
        assert_eq!(options.files().collect::<Vec<_>>(), ["meta/plumed.dat", "a.xvg", "b/c.xvg"]);
        assert_eq!(
            options.arguments("/data").join(" "),
            "-plumed /data/meta/plumed.dat -dlb yes -rdd 1.4 -tableb /data/a.xvg /data/b/c.xvg -notunepme"
        );
        let moved = options.with_files(|path| Ok::<_, ()>(format!("x/{path}"))).expect("should be good");
        assert_eq!(moved[1], "x/meta/plumed.dat");
        assert_eq!(read(""), Ok(MdrunOptions::default()));
    }

    #[test]
    fn pinning_is_part_of_the_layout() {
        let options = read("-dlb yes -pin on -notunepme").expect("should be good");
        assert!(options.pins());
        assert_eq!(options.arguments("/data").join(" "), "-dlb yes -notunepme");
        let words = options.with_files(|path| Ok::<_, ()>(path.to_owned())).expect("should be good");
        assert_eq!(words, MdrunOptions::words("-dlb yes -pin on -notunepme"), "the row says it");
        assert!(!read("-pin off").expect("should be good").pins() && !MdrunOptions::default().pins());
        // No file of that name is taken for it.
        assert!(!read("-tableb on").expect("should be good").pins());
        assert_eq!(read("-nstlist 200 -dlb yes").expect("should be good").nstlist(), Some(200));
        assert_eq!(read("-nstlist 0").expect("should be good").nstlist(), None, "mdrun chooses");
        assert_eq!(options.nstlist(), None);
        assert!(MdrunOptions::of_row(&words, 1).is_ok());
        let error = MdrunOptions::of_row(&words, 2).expect_err("should be refused").to_string();
        assert!(error.contains("would all be pinned to the same cores"), "{error}");
        let off = MdrunOptions::words("-pin off");
        assert!(MdrunOptions::of_row(&off, 2).is_ok());
    }

    #[test]
    fn what_the_pipeline_decides_itself_and_what_is_wrong_is_refused() {
        for (text, words) in [
            ("-maxh 1", "\"-maxh\" cannot be set for a row; these can: -awh, "),
            ("-ntmpi 4", "\"-ntmpi\" cannot be set"),
            ("-cpi other.cpt", "\"-cpi\" cannot be set"),
            (
                "-multidir a b",
                "-multidir cannot be set for a row: name the folders in the row's own multidir",
            ),
            (
                "-replex 1000",
                "-replex cannot be set for a row: replicas exchange inside one mdrun of a GROMACS with library MPI",
            ),
            (
                "-nex 10",
                "leave it out to compute the simulations without exchanges, or run `mpirun gmx_mpi mdrun",
            ),
            (
                "-cpnum",
                "-cpnum cannot be set for a row: mdrun then writes each checkpoint under another name",
            ),
            ("-membed a.dat -mn b.ndx", "-membed cannot be set for a row: an embedding asks questions"),
            ("yes", "\"yes\" is not an option of mdrun"),
            ("-dlb", "-dlb needs one of auto, no, yes"),
            ("-dlb maybe", "-dlb needs one of auto, no, yes, not \"maybe\""),
            ("-dlb -reprod", "-dlb needs one of auto, no, yes"),
            ("-nstlist 1001", "-nstlist needs a whole number between 0 and 1000, not \"1001\""),
            ("-nstlist -1", "not \"-1\""),
            ("-rdd NaN", "-rdd needs a number between 0 and 100, not \"NaN\""),
            (
                "-plumed ../other/plumed.dat",
                "-plumed needs the path of a file relative to the root of the volume",
            ),
            ("-plumed /etc/passwd", "-plumed needs the path of a file"),
            ("-tableb a.xvg ../b.xvg", "-tableb needs the path"),
            ("-reprod -reprod", "-reprod is given twice"),
            ("-reprod yes", "\"yes\" is not an option of mdrun"),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn the_list_names_nothing_twice() {
        for (number, (name, _)) in OPTIONS.iter().enumerate() {
            assert!(OPTIONS[number + 1..].iter().all(|(other, _)| other != name), "{name}");
            assert!(REFUSED.iter().all(|(other, _)| other != name), "{name} is refused as well");
        }
    }
}
