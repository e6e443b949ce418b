//! How a process of GROMACS ended: what it said, and what that means. What is recorded of an attempt is read as what has just
//! ended is.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::types::Json;

use super::{Meaning, is_known_line, of_exit_code, of_gromacs};
use crate::mdrun_log::{is_progress, last_message};

/// What an operator says of the pod that ended, in front of the exit code.
const EXITED: &str = " exited with code ";

/// What the script says that runs several simulations, in front of the exit code of one.
const ENDED: &str = " ended with exit code ";

/// So many failures on the only node that there is say as much as one on each of two nodes.
const FAILURES_ON_ONE_NODE: usize = 3;

/// How a process of GROMACS ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct End {
    /// What it said: its message, or else the last line that says what went wrong.
    pub(crate) words: Option<String>,
    /// True if that is a message of its own.
    pub(crate) is_message: bool,
    /// What it means.
    pub(crate) meaning: Meaning,
    /// Its exit code, if anybody said it.
    pub(crate) exit_code: Option<i32>,
}

impl End {
    /// Reads its output, and the operator's message, which quotes the end of that. Whoever made a step on a processor has the
    /// instructions that it lacks for another reason, and began with an input that GROMACS takes.
    pub(crate) fn read(log: &str, message: &str, made_a_step: bool) -> Self {
        let told = [log, message];
        let own = told.into_iter().find_map(last_message);
        let (is_message, blames_input) = (own.is_some(), own.as_ref().is_some_and(|own| own.blames_input));
        let words = own.map(|own| own.text).or_else(|| told.into_iter().find_map(last_warning));
        let code_behind = |text: &str, before: &str| -> Option<i32> {
            let (_, behind) = text.rsplit_once(before)?;
            let digits = behind.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(behind.len());
            behind[..digits].parse().ok()
        };
        let exit_code = code_behind(log, ENDED).or_else(|| code_behind(message, EXITED));
        let meaning = match words.as_deref().map(of_gromacs) {
            Some(meaning) => meaning,
            None => exit_code.map_or(Meaning::Unknown, of_exit_code),
        };
        let meaning = match meaning {
            Meaning::Processor if made_a_step => Meaning::Crash,
            Meaning::Unknown if blames_input && !made_a_step => Meaning::Input,
            meaning => meaning,
        };
        Self { words, is_message, meaning, exit_code }
    }
}

/// The last line in which a program that ended without a message of its own, or the system, says what went wrong; none if there
/// is none.
fn last_warning(text: &str) -> Option<String> {
    let is_warning = |line: &&str| is_known_line(line) && !is_progress(line);
    text.rsplit(['\n', '\r']).map(str::trim).find(is_warning).map(ToOwned::to_owned)
}

/// A failed attempt of a row, as it was recorded.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct Failure {
    /// Its submission.
    pub submission: i32,
    /// Where it ran, if that is known.
    pub node: Option<String>,
    /// What tells which hardware that is.
    pub node_labels: Option<Json<BTreeMap<String, String>>>,
    /// What it ran in.
    pub image: Option<String>,
    /// The operator's message.
    pub message: Option<String>,
    /// The end of its log.
    pub log_end: Option<String>,
    /// True if it computed.
    pub made_a_step: bool,
}

impl Failure {
    /// What its end means.
    pub(crate) fn meaning(&self) -> Meaning {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        End::read(&text(&self.log_end), &text(&self.message), self.made_a_step).meaning
    }
}

/// True if what failed on `nodes`, a name for each time, would fail on any: two nodes said so, or the only one of the `count`
/// that there are, again and again. What ran nobody knows where counts as one node.
pub(crate) fn is_no_nodes_fault(nodes: &[Option<&str>], count: usize) -> bool {
    let known: BTreeSet<&str> = nodes.iter().copied().flatten().collect();
    known.len() > 1 || (nodes.len() >= FAILURES_ON_ONE_NODE && (known.is_empty() || count <= 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_nodes_or_the_only_one_say_that_it_is_no_nodes_fault() {
        let (one, other) = (Some("a"), Some("b"));
        for (nodes, count, is) in [
            (&[one][..], 5, false),
            (&[one, one, one, one], 5, false),
            (&[one, other], 5, true),
            (&[one, None], 5, false),
            (&[one, one], 1, false),
            (&[one, one, one], 1, true),
            (&[None, None], 5, false),
            (&[None, None, None], 5, true),
            (&[None, None, None, one], 5, false),
        ] {
            assert_eq!(is_no_nodes_fault(nodes, count), is, "{nodes:?} of {count}");
        }
    }

    #[test]
    fn a_crash_without_a_message_is_told_by_its_last_warning() {
        let text = "step 0: One or more water molecules can not be settled.\nCheck for bad contacts\n\
                    step 12: One or more water molecules can not be settled.\n\rstep 20, remaining wall clock time: 1 s\r";
        let warning = "step 12: One or more water molecules can not be settled.";
        assert_eq!(last_warning(text).as_deref(), Some(warning));
        assert_eq!(last_warning("starting mdrun 'W'\n\rstep 20\r"), None);
    }

    #[test]
    fn an_exit_code_tells_where_nothing_was_said() {
        let of = |log: &str, message: &str, made_a_step: bool| {
            let end = End::read(log, message, made_a_step);
            (end.meaning, end.exit_code)
        };
        let exited = |code: i32| format!("pod gromacs-7-1-1-0-x exited with code {code}: :-) GROMACS");
        assert_eq!(of("", &exited(139), false), (Meaning::Crash, Some(139)));
        assert_eq!(of("", &exited(132), false), (Meaning::Processor, Some(132)));
        assert_eq!(of("", &exited(132), true), (Meaning::Crash, Some(132)), "it had the instructions");
        assert_eq!(of("", &exited(1), false), (Meaning::Unknown, Some(1)));
        let several = "simulation a ended with exit code 135\nsimulation b is complete\n";
        assert_eq!(of(several, &exited(1), true), (Meaning::Crash, Some(135)));
        // What it said counts before how it ended.
        let warned = "starting mdrun 'W'\nstep 0: One or more water molecules can not be settled.\n";
        assert_eq!(of(warned, &exited(139), false), (Meaning::Unstable, Some(139)));
        let said = "Program: gmx mdrun\n\nFatal error:\nNobody knows these words\n\nFor more\n";
        assert_eq!(of(said, &exited(139), false).0, Meaning::Unknown);
        assert_eq!(of("", "", false), (Meaning::Unknown, None));
    }
}
