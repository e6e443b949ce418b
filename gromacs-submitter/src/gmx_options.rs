//! Options of GROMACS's programs that a row may set: words that a person wrote, read against a list.

use std::iter::Peekable;
use std::slice::Iter;

/// What follows an option.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value {
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
    /// A file by its path from the folder of the .tpr file.
    Beside,
}

/// A program of GROMACS, and what rows may say of it.
#[derive(Debug)]
pub(crate) struct Tool {
    /// Its name.
    pub name: &'static str,
    /// Every option that a row may set, in the order of the alphabet.
    pub options: &'static [(&'static str, Value)],
    /// Options that a row could seem to need, and why it may not have them.
    pub refused: &'static [(&'static str, &'static str)],
}

/// Most bytes of a path, so that it fits into an argument behind the place where the volume is mounted.
const LONGEST_PATH: usize = 900;

/// Why words are no options that a row may set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// It is not in the list.
    #[error("{tool} option {word:?} cannot be set for a row; these can: {names}")]
    Know {
        /// The program.
        tool: &'static str,
        /// What was said.
        word: String,
        /// What can be said.
        names: String,
    },
    /// A row with it would not come to its end.
    #[error("{tool} option {option} cannot be set for a row: {why}")]
    Refuse {
        /// The program.
        tool: &'static str,
        /// The option.
        option: &'static str,
        /// What would become of it.
        why: &'static str,
    },
    /// Several mdrun processes share the pod's cores.
    #[error(
        "mdrun option -pin on cannot be set for a row of several simulations, which would all be pinned to the same cores; leave it out"
    )]
    PinSeveral,
    /// One simulation alone, or several that each have a mdrun of their own.
    #[error(
        "mdrun option {0} needs engine mpi and several simulations: replicas exchange inside one mdrun of a GROMACS with library MPI; \
         add the row with --engine mpi and --multidir, in an image with gmx_mpi and mpirun, or leave {0} out"
    )]
    Exchange(&'static str),
    /// A value without an option.
    #[error("{word:?} is not an option of {tool}: options begin with '-', and each takes its own values")]
    Begin {
        /// The program.
        tool: &'static str,
        /// What was said.
        word: String,
    },
    /// It takes a value and has none, or another than it takes.
    #[error("{tool} option {option} needs {needs}{}", found.as_ref().map(|found| format!(", not {found:?}")).unwrap_or_default())]
    Take {
        /// The program.
        tool: &'static str,
        /// The option.
        option: &'static str,
        /// What it takes.
        needs: String,
        /// What it has.
        found: Option<String>,
    },
    /// It stands there twice.
    #[error("{tool} option {option} is given twice")]
    Repeat {
        /// The program.
        tool: &'static str,
        /// The option.
        option: &'static str,
    },
    /// An option that grompp cannot do without.
    #[error("grompp needs {0} in grompp_options, such as -f md.mdp -c start.gro -p topol.top")]
    Lack(&'static str),
    /// It is not said which of them holds.
    #[error("mdp_options has {0} and {1}, which are one setting for GROMACS; leave one out")]
    Same(String, String),
    /// No row, or several, could be meant.
    #[error(
        "{{after}} in grompp_options stands for the row that this one comes after, and there are {0}; write its number"
    )]
    After(usize),
}

/// A word of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Argument {
    Plain(String),
    File(String),
}

/// The words of a text, which are divided by blanks.
#[must_use]
pub fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(ToOwned::to_owned).collect()
}

/// Reads options and values of a program, each a word of its own.
pub(crate) fn read(tool: &Tool, words: &[String]) -> Result<Vec<Argument>, OptionError> {
    let names = || tool.options.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let &Tool { name: tool, options, refused } = tool;
    let mut arguments = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        if !word.starts_with('-') {
            return Err(OptionError::Begin { tool, word: word.clone() });
        }
        if let Some(&(option, why)) = refused.iter().find(|(name, _)| name == word) {
            return Err(OptionError::Refuse { tool, option, why });
        }
        let Some(&(option, value)) = options.iter().find(|(name, _)| name == word) else {
            return Err(OptionError::Know { tool, word: word.clone(), names: names() });
        };
        if seen.contains(&option) {
            return Err(OptionError::Repeat { tool, option });
        }
        seen.push(option);
        arguments.push(Argument::Plain(word.clone()));
        let next = |words: &mut Peekable<Iter<'_, String>>| take(words, option, value, tool);
        match value {
            Value::Switch => {}
            Value::Word(_) | Value::Whole(..) | Value::Real(..) => {
                arguments.push(Argument::Plain(next(&mut words)?));
            }
            Value::File | Value::Beside => arguments.push(Argument::File(next(&mut words)?)),
            Value::Files => {
                arguments.push(Argument::File(next(&mut words)?));
                while words.peek().is_some_and(|word| !word.starts_with('-')) {
                    arguments.push(Argument::File(next(&mut words)?));
                }
            }
        }
    }
    Ok(arguments)
}

/// A path from somewhere, and not from the root of a file system.
fn is_path(word: &str) -> bool {
    word.len() <= LONGEST_PATH
        && !word.chars().any(char::is_control)
        && word.split('/').all(|part| !part.is_empty())
}

/// The next word, if the option takes it.
fn take(
    words: &mut Peekable<Iter<'_, String>>,
    option: &'static str,
    value: Value,
    tool: &'static str,
) -> Result<String, OptionError> {
    // A number may be negative; no option is a number.
    let word = words.next_if(|word| !word.starts_with('-') || word.parse::<f64>().is_ok());
    match word {
        Some(word) if value.takes(word) => Ok(word.clone()),
        found => Err(OptionError::Take { tool, option, needs: value.needs(), found: found.cloned() }),
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
                is_path(word) && word.split('/').all(|part| !matches!(part, "." | ".."))
            }
            Self::Beside => is_path(word),
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
            Self::Beside => "the path of a file relative to the folder of the .tpr file".to_owned(),
        }
    }
}
