//! What a change of the pool would do to a live cluster from now on: a snapshot of it goes on with the pool as it is and with
//! another one, and the difference is what the change does.
//!
//! | part | where |
//! |---|---|
//! | the snapshot, as far as it can be played | `live` |
//! | what happens with one pool | `play` |
//! | what the change does beside what would happen anyway | `difference` |
//! | the table and the document | `print` |
//!
//! The model is the simulator's, on which the planner is tested: it takes the operator's own observations, with labels, taints,
//! claims and budgets, where the laboratory's world has numbers. docs/change-pool.md says what is assumed.

mod difference;
mod live;
mod play;
mod print;

use std::path::{Path, PathBuf};

use anyhow::Result;
use scavenger_program::{
    exit::{Exit, Unusable},
    output,
};

use self::{difference::DueTo, print::Page};
use crate::pool::Pool;

/// What is played, and how it is printed.
#[derive(Debug)]
pub struct Options<'a> {
    /// The file of the snapshot.
    pub snapshot: &'a Path,
    /// The file of the pool that is to come; none plays the one that is there.
    pub pools: &'a [PathBuf],
    /// For how long.
    pub hours: u16,
    /// So many events are printed at most.
    pub limit: usize,
    /// True for a document instead of a table.
    pub json: bool,
    /// True if the exit status says whether anything happens.
    pub exit_code: bool,
}

/// Plays a snapshot, prints what happens, and says how the program ends.
///
/// # Errors
/// [`Unusable`] if the snapshot or the pool cannot be played.
pub fn run(options: &Options<'_>) -> Result<Exit> {
    let pool = match options.pools {
        [] => None,
        [file] => Some(Pool::read(file)?.by_requests(live::MEASURES_NOTHING)?),
        _ => return Err(Unusable("--snapshot plays one change: name one --pool".to_owned()).into()),
    };
    let live = live::read(options.snapshot)?;
    let play = |pool: Option<&Pool>| {
        play::play(&live, pool.map(|pool| &pool.settings), options.hours)
            .map_err(|what| Unusable(format!("{}: cannot be played: {what}", options.snapshot.display())))
    };
    let unchanged = play(None)?;
    let changed = pool.as_ref().map(|pool| play(Some(pool))).transpose()?;
    let with = changed.as_ref().map(|run| &run.happenings[..]);
    let rows = difference::rows(&unchanged.happenings, with);
    let differs = rows.iter().any(|row| row.due_to != Some(DueTo::Anyway));
    let page = Page {
        snapshot: options.snapshot.display().to_string(),
        snapshot_time: live.time,
        hours: options.hours,
        pool: options.pools.first().map(|file| file.display().to_string()),
        differs,
        left_out: rows.len().saturating_sub(options.limit),
        events: print::chosen(rows, options.limit),
        held: unchanged.held,
        unchanged: unchanged.sums,
        changed: changed.map(|run| run.sums),
    };
    output::print(&if options.json { crate::print::json(&page) } else { print::table(&page) })?;
    Ok(if options.exit_code && differs { Exit::Differs } else { Exit::Done })
}
