//! What a user wants added.

use scavenger_schema::simulation::Engine;

use super::super::text::{cut, shown};
use crate::grompp_options::check_settings;
use crate::mdrun_options::MdrunOptions;
use crate::store::{Labels, NewRow};
use crate::text::command_line;

/// A row that the user wants, or why it is none.
pub(super) struct Entry {
    /// Line of the CSV file.
    pub(super) line: Option<u64>,
    /// The values of a sweep, such as `lambda=3`.
    pub(super) values: Option<String>,
    /// The file, as far as it is known; nothing for a command.
    pub(super) tpr_path: String,
    /// The row.
    pub(super) row: Result<NewRow, String>,
}

impl Entry {
    /// Refuses what the submitter would refuse once the row's turn has come.
    pub(super) fn check(&mut self) {
        let Ok(row) = &self.row else { return };
        let checked = check_mdrun(row).and_then(|()| check_mdp(row));
        if let Err(error) = checked {
            self.row = Err(error);
        }
    }

    /// What it runs, if it is a command.
    pub(super) fn command(&self) -> Option<&[String]> {
        self.row.as_ref().ok()?.command.as_deref()
    }

    /// The file or the command.
    pub(super) fn what(&self) -> String {
        shown(&self.command().map_or_else(|| self.tpr_path.clone(), command_line))
    }

    /// The file or the command, and the values of a sweep.
    pub(super) fn named(&self) -> String {
        let what = cut(&self.what(), 200);
        self.values.as_ref().map_or_else(|| what.clone(), |it| format!("{what} ({})", cut(&shown(it), 200)))
    }

    pub(super) fn label(&self) -> String {
        match self.line {
            Some(line) if self.what().is_empty() => format!("line {line}"),
            Some(line) => format!("line {line} ({})", self.named()),
            None => self.named(),
        }
    }
}

fn check_mdrun(row: &NewRow) -> Result<(), String> {
    let words = row.mdrun_options.as_deref().unwrap_or_default();
    let simulations = row.multidir.as_ref().map_or(1, |folders| folders.len().max(1));
    let simulations = u32::try_from(simulations).unwrap_or(u32::MAX);
    // The database says what is wrong with another engine.
    let engine = row.engine.clone().and_then(|name| Engine::try_from(name).ok()).unwrap_or(Engine::ThreadMpi);
    MdrunOptions::of_row(words, simulations, engine).map(drop).map_err(|error| error.to_string())
}

fn check_mdp(row: &NewRow) -> Result<(), String> {
    let Some(Labels(settings)) = &row.mdp_options else { return Ok(()) };
    check_settings(settings).map_err(|error| error.to_string())
}
