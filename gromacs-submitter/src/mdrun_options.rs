//! Options of mdrun that a row may add to those that the submitter chooses.
//!
//! Only here stands which these are. What the pipeline decides itself is none of them: files of its own, checkpoints,
//! ranks, threads, devices, and how long mdrun runs.

use scavenger_schema::simulation::Engine;

use crate::gmx_options::{self, Argument, OptionError, Tool, Value};

/// Every option that a row may set, in the order of the alphabet.
const OPTIONS: [(&str, Value); 23] = [
    ("-awh", Value::File),
    ("-ddcheck", Value::Switch),
    ("-ddorder", Value::Word(&["interleave", "pp_pme", "cartesian"])),
    ("-dlb", Value::Word(&["auto", "no", "yes"])),
    ("-dds", Value::Real(0.1, 1.0)),
    ("-ei", Value::File),
    ("-nex", Value::Whole(0, i32::MAX as i64)),
    ("-nocpnum", Value::Switch),
    ("-noddcheck", Value::Switch),
    ("-noreprod", Value::Switch),
    ("-notunepme", Value::Switch),
    (NSTLIST, Value::Whole(0, 1000)),
    (PIN, Value::Word(&["off", "on"])),
    ("-plumed", Value::File),
    ("-rcon", Value::Real(0.0, 100.0)),
    ("-rdd", Value::Real(0.0, 100.0)),
    (REPLEX, Value::Whole(1, i32::MAX as i64)),
    ("-reprod", Value::Switch),
    ("-reseed", Value::Whole(-1, i32::MAX as i64)),
    ("-table", Value::File),
    ("-tableb", Value::Files),
    ("-tablep", Value::File),
    ("-tunepme", Value::Switch),
];

/// Whether threads are pinned to cores. It is part of the layout, which knows whether the cores are the pod's own.
const PIN: &str = "-pin";

/// Steps between pair searches; 0 leaves the choice to mdrun.
const NSTLIST: &str = "-nstlist";

/// Steps between two exchanges of replicas.
const REPLEX: &str = "-replex";

/// Options about exchanges, which only simulations in one mdrun can make.
const EXCHANGES: [&str; 3] = [REPLEX, "-nex", "-reseed"];

/// Options that a row could seem to need, and with which it would not come to its end.
const REFUSED: [(&str, &str); 5] = [
    ("-cpnum", "mdrun then writes each checkpoint under another name, and the row goes on from state.cpt"),
    ("-membed", MEMBED),
    ("-mn", MEMBED),
    ("-mp", MEMBED),
    (
        "-multidir",
        "name the folders in the row's own multidir instead (gromacs-submitter add --multidir sim0 sim1)",
    ),
];
const MEMBED: &str =
    "an embedding asks questions and cannot go on from a checkpoint: run it yourself, and add its result";

const MDRUN: Tool = Tool { name: "mdrun", options: &OPTIONS, refused: &REFUSED };

/// Options that are in the list, with values that they take.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MdrunOptions(Vec<Argument>);

impl MdrunOptions {
    /// The words of a text, if they are options that a row may have.
    ///
    /// # Errors
    /// [`OptionError`] with a sentence for the first word that is wrong.
    pub fn words(text: &str) -> Result<Vec<String>, OptionError> {
        let words = gmx_options::words(text);
        Self::read(&words)?;
        Ok(words)
    }

    /// Reads options and values, each a word of its own.
    ///
    /// # Errors
    /// [`OptionError`] with a sentence for the first word that is wrong.
    pub fn read(words: &[String]) -> Result<Self, OptionError> {
        gmx_options::read(&MDRUN, words).map(Self)
    }

    /// Paths of the files that they name, relative to the root of the volume.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|argument| match argument {
            Argument::Plain(_) => None,
            Argument::File(path) => Some(path.as_str()),
        })
    }

    /// The same of a row of so many simulations, and of the engine that runs them.
    ///
    /// # Errors
    /// [`OptionError`] with a sentence for the first word that is wrong.
    pub fn of_row(words: &[String], simulations: u32, engine: Engine) -> Result<Self, OptionError> {
        let options = Self::read(words)?;
        let is_one_mdrun = engine == Engine::Mpi && simulations > 1;
        let exchange = EXCHANGES.into_iter().find(|option| options.has(option));
        match exchange.filter(|_| !is_one_mdrun) {
            Some(option) => Err(OptionError::Exchange(option)),
            None if options.pins() && simulations > 1 => Err(OptionError::PinSeveral),
            None => Ok(options),
        }
    }

    /// Steps between two exchanges of replicas, if there are any.
    #[must_use]
    pub fn exchange_interval(&self) -> Option<i64> {
        self.value(REPLEX).and_then(|steps| steps.parse().ok())
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

    /// True if the option is among them.
    #[must_use]
    pub fn has(&self, option: &str) -> bool {
        self.0.contains(&Argument::Plain(option.to_owned()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use gmx_options::words;

    fn read(text: &str) -> Result<MdrunOptions, OptionError> {
        MdrunOptions::read(&words(text))
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
        let kept = options.with_files(|path| Ok::<_, ()>(path.to_owned())).expect("should be good");
        assert_eq!(kept, words("-dlb yes -pin on -notunepme"), "the row says it");
        assert!(!read("-pin off").expect("should be good").pins() && !MdrunOptions::default().pins());
        // No file of that name is taken for it.
        assert!(!read("-tableb on").expect("should be good").pins());
        assert_eq!(read("-nstlist 200 -dlb yes").expect("should be good").nstlist(), Some(200));
        assert_eq!(read("-nstlist 0").expect("should be good").nstlist(), None, "mdrun chooses");
        assert_eq!(options.nstlist(), None);
        let of_row = |words, simulations| MdrunOptions::of_row(words, simulations, Engine::ThreadMpi);
        assert!(of_row(&kept, 1).is_ok());
        let error = of_row(&kept, 2).expect_err("should be refused").to_string();
        assert!(error.contains("would all be pinned to the same cores"), "{error}");
        let off = words("-pin off");
        assert!(of_row(&off, 2).is_ok());
    }

    #[test]
    fn replicas_exchange_in_one_mdrun_alone() {
        let exchange = words("-dlb no -replex 1000 -nex 100 -reseed -1");
        let options = MdrunOptions::of_row(&exchange, 4, Engine::Mpi).expect("should be good");
        assert_eq!(options.exchange_interval(), Some(1000));
        assert_eq!(options.arguments("/data").join(" "), exchange.join(" "));
        assert_eq!(read("-dlb no").expect("should be good").exchange_interval(), None);
        for option in ["-replex 1000", "-nex 100", "-reseed 7"] {
            for (simulations, engine) in [(4, Engine::ThreadMpi), (1, Engine::Mpi), (1, Engine::ThreadMpi)] {
                let error = MdrunOptions::of_row(&words(option), simulations, engine);
                let error = error.expect_err("should be refused").to_string();
                let name = option.split(' ').next().unwrap_or_default();
                assert!(error.starts_with(&format!("mdrun option {name} needs engine mpi and ")), "{error}");
            }
        }
    }

    #[test]
    fn what_the_pipeline_decides_itself_and_what_is_wrong_is_refused() {
        for (text, said) in [
            ("-maxh 1", "\"-maxh\" cannot be set for a row; these can: -awh, "),
            ("-ntmpi 4", "\"-ntmpi\" cannot be set"),
            ("-cpi other.cpt", "\"-cpi\" cannot be set"),
            (
                "-multidir a b",
                "-multidir cannot be set for a row: name the folders in the row's own multidir",
            ),
            ("-replex 0", "-replex needs a whole number between 1 and "),
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
            assert!(error.contains(said), "{text}: {error}");
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
