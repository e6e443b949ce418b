//! How a program ends, and what it says then.

use std::{io::Write as _, process::ExitCode};

use scavenger_schema::terminal::shown;

/// How a program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Status 0: everything was done.
    Done,
    /// Status 1: the work failed.
    Failed,
    /// Status 2: what was typed, or what the process finds around it, cannot be used.
    Unusable,
    /// Status 3: everything was done, and what was asked about makes a difference. For `--exit-code` alone.
    Differs,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Done => Self::SUCCESS,
            Exit::Failed => Self::from(1),
            Exit::Unusable => Self::from(2),
            Exit::Differs => Self::from(3),
        }
    }
}

/// Marks an error, wherever it is among the causes: what was typed, or what this process finds around it, cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct Unusable(pub String);

impl Exit {
    /// How a program ends after this error.
    #[must_use]
    pub fn after(error: &anyhow::Error) -> Self {
        if error.is::<Unusable>() { Self::Unusable } else { Self::Failed }
    }
}

/// Says what went wrong, and how the program ends.
pub fn ended(outcome: anyhow::Result<()>) -> ExitCode {
    ended_as(outcome.map(|()| Exit::Done))
}

/// The same of a program whose work can end in more than one way.
pub fn ended_as(outcome: anyhow::Result<Exit>) -> ExitCode {
    let exit = match outcome {
        Ok(exit) => exit,
        Err(error) => {
            print_error(&message(&error));
            Exit::after(&error)
        }
    };
    exit.into()
}

/// An error and its causes, each said once: some repeat theirs. A backtrace would help nobody.
#[must_use]
pub fn message(error: &anyhow::Error) -> String {
    let mut said = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if said.is_empty() {
            said = cause;
        } else if !said.contains(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    said
}

/// Prints what went wrong to standard error.
pub fn print_error(text: &str) {
    let lines: Vec<String> = text.lines().map(shown).collect();
    // Nobody is left to hear of it if this fails.
    let _ = writeln!(std::io::stderr(), "error: {}", lines.join("\n"));
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn what_is_unusable_is_distinguished_under_any_context() {
        let error = anyhow!("no such file").context(Unusable("no connection".to_owned())).context("outer");
        assert_eq!(Exit::after(&error), Exit::Unusable, "{error:#}");
        assert_eq!(Exit::after(&anyhow!("refused").context("outer")), Exit::Failed);
    }

    #[test]
    fn each_cause_is_said_once() {
        let error = anyhow!("refused").context("cannot connect: refused").context("outer");
        assert_eq!(message(&error), "outer: cannot connect: refused");
    }

    #[test]
    fn each_end_has_its_status() {
        let status = |exit: Exit| format!("{:?}", ExitCode::from(exit));
        assert_eq!(status(Exit::Done), format!("{:?}", ExitCode::SUCCESS));
        assert_eq!(status(Exit::Failed), format!("{:?}", ExitCode::from(1)));
        assert_eq!(status(Exit::Unusable), format!("{:?}", ExitCode::from(2)));
        assert_eq!(status(Exit::Differs), format!("{:?}", ExitCode::from(3)));
    }
}
