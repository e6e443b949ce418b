//! The table that follows along: redrawn on a terminal, a line for each change elsewhere.

use std::{cell::RefCell, collections::BTreeMap, io::IsTerminal, time::Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::queue::Row;

pub(super) struct Display {
    began: Instant,
    kind: Kind,
}

enum Kind {
    Terminal { multi: MultiProgress, bars: RefCell<BTreeMap<i64, ProgressBar>> },
    Plain { last: RefCell<BTreeMap<i64, String>> },
}

impl Display {
    pub(super) fn new(title: &str) -> Self {
        let kind = if std::io::stderr().is_terminal() {
            Kind::Terminal { multi: MultiProgress::new(), bars: RefCell::default() }
        } else {
            Kind::Plain { last: RefCell::default() }
        };
        let display = Self { began: Instant::now(), kind };
        display.say(title);
        display.say(&header());
        display
    }

    /// Something happened.
    pub(super) fn say(&self, what: &str) {
        let line = format!("{:>5} s  {what}", self.began.elapsed().as_secs());
        match &self.kind {
            // Fails only if the terminal is gone; then nobody reads it.
            Kind::Terminal { multi, .. } => drop(multi.println(line)),
            Kind::Plain { .. } => eprintln!("{line}"),
        }
    }

    /// The rows as they are now.
    pub(super) fn show(&self, rows: &[Row]) {
        for row in rows {
            let line = line(row);
            match &self.kind {
                Kind::Terminal { multi, bars } => {
                    let mut bars = bars.borrow_mut();
                    let bar = bars.entry(row.id).or_insert_with(|| {
                        let style = ProgressStyle::with_template("         {wide_msg}")
                            .expect("should be a valid template");
                        multi.add(ProgressBar::new_spinner().with_style(style))
                    });
                    bar.set_message(line);
                }
                Kind::Plain { last } => {
                    // Progress alone is worth a line only now and then.
                    let mut last = last.borrow_mut();
                    let key = shape(row);
                    if last.get(&row.id) != Some(&key) {
                        last.insert(row.id, key);
                        self.say(&line);
                    }
                }
            }
        }
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        if let Kind::Terminal { bars, .. } = &self.kind {
            for bar in bars.borrow().values() {
                bar.abandon();
            }
        }
    }
}

fn header() -> String {
    columns("row", "state", "configuration", "no.", "done", "ns/day", "interrupted", "why")
}

#[expect(clippy::too_many_arguments, reason = "the eight columns of the table")]
fn columns(
    row: &str,
    state: &str,
    configuration: &str,
    rung: &str,
    done: &str,
    speed: &str,
    interruptions: &str,
    why: &str,
) -> String {
    format!(
        "{row:<14} {state:<11} {configuration:<27} {rung:<5} {done:>6} {speed:>7} {interruptions:>11}  {why}"
    )
}

fn line(row: &Row) -> String {
    let name = row.tpr_path.rsplit('/').next().unwrap_or_default().trim_end_matches(".tpr");
    let dash = || "-".to_owned();
    columns(
        &format!("{} {name}", row.id),
        &row.state,
        row.configuration.as_deref().unwrap_or("-"),
        &row.configuration_number
            .zip(row.configurations)
            .map_or_else(dash, |(rung, rungs)| format!("{rung}/{rungs}")),
        &row.percent.map_or_else(dash, |percent| format!("{percent:.0} %")),
        &row.ns_per_day.map_or_else(dash, |speed| format!("{speed:.1}")),
        &row.interruptions.to_string(),
        row.reason.as_deref().unwrap_or_default(),
    )
}

/// What makes a line worth printing again: everything but the exact progress and speed.
fn shape(row: &Row) -> String {
    let quarter = row.percent.map(|percent| (percent / 25.0).floor());
    format!(
        "{}|{:?}|{:?}|{quarter:?}|{}|{:?}",
        row.state, row.configuration, row.configuration_number, row.interruptions, row.reason
    )
}
