//! `watch`: follows rows on a live screen, or with a line for each change where there is no terminal.

mod screen;

use std::collections::{BTreeMap, HashSet};
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use scavenger_program::signal::EndSignal;
use scavenger_schema::simulation::State;
use serde_json::Value;
use sqlx::postgres::PgListener;

use super::row::QueueRow;
use super::text::{json_line, print_error, shown, speed};
use super::{Outcome, open_for, row_filter};
use crate::config::{Database, WatchOptions};
use crate::store::{RowFilter, Store, StoreError};
use screen::{Key, Screen};

/// One for the rows, one that listens.
const CONNECTIONS: u32 = 2;

/// Many changes at once are one reason to look: four times a second is as fast as anybody reads.
const SHORTEST_PAUSE: Duration = Duration::from_millis(250);

/// The newest so many rows are shown of those that a filter selects.
const MOST_SHOWN: u32 = 1000;

/// Rows that ended stay on the screen, the newest so many of them.
const MOST_ENDED: usize = 1000;

pub(super) async fn exec(database: &Database, options: &WatchOptions) -> anyhow::Result<Outcome> {
    let store = open_for(database, CONNECTIONS)?;
    store.check_schema().await?;
    let mut filter = first_filter(options);
    let rows = store.list(&filter).await?;
    let missing = missing_rows(options, &rows)?;
    if !missing.is_empty() {
        store.close().await;
        for row in missing {
            print_error(&format!("there is no row {row}"));
        }
        return Ok(Outcome::Failed);
    }
    let listener = store.listen_to_events().await?;
    let mut display = if options.output.is_json() {
        Display::Lines(Lines::new(true))
    } else if std::io::stdout().is_terminal() {
        Display::Screen(Box::new(Screen::open().context("the terminal cannot be drawn on")?))
    } else {
        Display::Lines(Lines::new(false))
    };
    let outcome = follow(&store, listener, options, &mut filter, rows, &mut display).await;
    drop(display);
    store.close().await;
    outcome
}

/// Without any wish: what has not ended.
fn first_filter(options: &WatchOptions) -> RowFilter {
    let mut filter = row_filter(&options.filter);
    if !options.rows.is_empty() {
        filter.rows = Some(options.rows.clone());
    } else if filter.states.is_empty() {
        filter.states = State::ALL.into_iter().filter(|state| !state.is_final()).collect();
    }
    // Who waits for the end waits for all; nobody reads more.
    if options.rows.is_empty() && !options.until_finished {
        filter.limit = Some(MOST_SHOWN);
    }
    filter
}

fn missing_rows(options: &WatchOptions, rows: &[Value]) -> anyhow::Result<Vec<i64>> {
    let found: HashSet<i64> = QueueRow::read_all(rows)?.iter().map(|row| row.id).collect();
    Ok(options.rows.iter().copied().filter(|row| !found.contains(row)).collect())
}

/// What made the loop go round.
enum Wake {
    Look,
    Redraw,
    End,
}

async fn follow(
    store: &Store,
    mut listener: PgListener,
    options: &WatchOptions,
    filter: &mut RowFilter,
    first: Vec<Value>,
    display: &mut Display,
) -> anyhow::Result<Outcome> {
    let mut signal = EndSignal::new()?;
    let mut values = first;
    let mut trouble = None;
    let mut looked = Instant::now();
    let mut ended_badly = HashSet::new();
    loop {
        let rows = QueueRow::read_all(&values)?;
        let has_ended = rows.iter().all(|row| row.has_ended);
        note_ends(&mut ended_badly, &rows);
        if !display.show(&values, &rows, trouble.as_deref())? {
            // Nobody reads on (`| head`).
            return Ok(Outcome::Done);
        }
        if options.until_finished && has_ended && trouble.is_none() {
            return Ok(if ended_badly.is_empty() { Outcome::Done } else { Outcome::Failed });
        }
        let wake = tokio::select! {
            () = tokio::time::sleep(options.interval) => Wake::Look,
            notified = listener.recv() => {
                if notified.is_err() {
                    // It connects again by itself, but not faster than the database comes back.
                    tokio::time::sleep(options.interval).await;
                }
                // Whatever else comes meanwhile is seen by the same look.
                tokio::time::sleep(SHORTEST_PAUSE.saturating_sub(looked.elapsed())).await;
                Wake::Look
            }
            key = display.key() => match key {
                Key::Quit => Wake::End,
                Key::Redraw => Wake::Redraw,
            },
            _ = signal.next() => Wake::End,
        };
        match wake {
            Wake::Redraw => continue,
            // Whoever waits for the end has not seen it.
            Wake::End if options.until_finished => return Ok(Outcome::Failed),
            Wake::End => return Ok(Outcome::Done),
            Wake::Look => {}
        }
        looked = Instant::now();
        filter.besides = newest_ended(&rows);
        match store.list(filter).await {
            Ok(found) => {
                trouble = None;
                values = found;
            }
            Err(StoreError::Query(error)) => {
                trouble = Some(format!(
                    "the database does not answer, tries again: {}",
                    crate::text::root_cause(&error)
                ));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Rows that failed or were cancelled, also when they are shown no more; one that is tried again is none of them.
fn note_ends(ended_badly: &mut HashSet<i64>, rows: &[QueueRow]) {
    for row in rows {
        if row.has_ended && row.state != State::Completed.as_str() {
            ended_badly.insert(row.id);
        } else {
            ended_badly.remove(&row.id);
        }
    }
}

/// A row that was shown is shown until somebody has seen its end.
fn newest_ended(rows: &[QueueRow]) -> Vec<i64> {
    let ended: Vec<i64> = rows.iter().filter(|row| row.has_ended).map(|row| row.id).collect();
    let others = rows.iter().filter(|row| !row.has_ended).map(|row| row.id);
    ended[ended.len().saturating_sub(MOST_ENDED)..].iter().copied().chain(others).collect()
}

enum Display {
    Screen(Box<Screen>),
    Lines(Lines),
}

impl Display {
    /// False if nobody reads on.
    fn show(&mut self, values: &[Value], rows: &[QueueRow], trouble: Option<&str>) -> anyhow::Result<bool> {
        match self {
            Self::Screen(screen) => screen.show(rows, trouble).map(|()| true).context("the terminal is gone"),
            Self::Lines(lines) => Ok(lines.show(values, rows, trouble)),
        }
    }

    async fn key(&mut self) -> Key {
        match self {
            Self::Screen(screen) => screen.key().await,
            Self::Lines(_) => std::future::pending().await,
        }
    }
}

/// A line for each change that is worth one.
struct Lines {
    began: Instant,
    json: bool,
    last: BTreeMap<i64, String>,
    trouble: Option<String>,
}

impl Lines {
    fn new(json: bool) -> Self {
        Self { began: Instant::now(), json, last: BTreeMap::new(), trouble: None }
    }

    fn show(&mut self, values: &[Value], rows: &[QueueRow], trouble: Option<&str>) -> bool {
        if self.trouble.as_deref() != trouble {
            self.trouble = trouble.map(ToOwned::to_owned);
            if let Some(trouble) = trouble {
                print_error(trouble);
            }
        }
        let mut stdout = std::io::stdout();
        for (value, row) in values.iter().zip(rows) {
            let shape = shape(row);
            if self.last.get(&row.id) == Some(&shape) {
                continue;
            }
            self.last.insert(row.id, shape);
            let text = if self.json { json_line(value) } else { self.line(row) };
            if writeln!(stdout, "{text}").is_err() {
                return false;
            }
        }
        true
    }

    fn line(&self, row: &QueueRow) -> String {
        let mut parts = vec![
            format!("{:>5} s", self.began.elapsed().as_secs()),
            format!("row {}", row.id),
            shown(&row.tpr_path),
            row.state.clone(),
        ];
        parts.extend(row.configuration.as_deref().map(shown));
        parts.extend(row.done());
        parts.extend(row.ns_per_day.map(|ns_per_day| format!("{} ns/day", speed(ns_per_day))));
        parts.extend(row.reason.as_deref().map(shown));
        parts.join("  ")
    }
}

/// Progress alone is worth a line only now and then.
fn shape(row: &QueueRow) -> String {
    let quarter = row.percent.map(|percent| (percent / 25.0).floor());
    format!("{}|{:?}|{quarter:?}|{}|{:?}", row.state, row.configuration, row.interruptions, row.reason)
}

#[cfg(test)]
mod tests {
    use super::super::row::tests::running;
    use super::*;

    #[test]
    fn progress_alone_is_no_line() {
        let mut row = running(7);
        let first = shape(&row);
        row.percent = Some(42.0);
        row.step = Some(210_000);
        assert_eq!(shape(&row), first);
        row.percent = Some(51.0);
        assert_ne!(shape(&row), first);
    }

    #[test]
    fn a_failure_that_is_shown_no_more_is_not_forgotten() {
        let mut ended_badly = HashSet::new();
        let with = |state: &str| {
            let mut row = running(1);
            row.state = state.to_owned();
            row.has_ended = state != "queued";
            [row, running(2)]
        };
        note_ends(&mut ended_badly, &with("failed"));
        note_ends(&mut ended_badly, &[running(2)]);
        assert!(ended_badly.contains(&1) && ended_badly.len() == 1);
        note_ends(&mut ended_badly, &with("queued"));
        note_ends(&mut ended_badly, &with("completed"));
        assert!(ended_badly.is_empty());
    }

    #[test]
    fn what_has_ended_stays() {
        let mut ended = running(1);
        (ended.state, ended.has_ended) = ("failed".to_owned(), true);
        assert_eq!(newest_ended(&[ended, running(2)]), [1, 2]);
    }
}
