//! The page for people and for programs. It is bounded: of a large cluster what the change does comes first, and how many events are
//! left out is said.

use std::{collections::BTreeSet, fmt::Write as _};

use jiff::Timestamp;
use serde::Serialize;

use super::{
    difference::{DueTo, Row},
    play::{Happening, Sums},
};
use crate::print::grid;

/// What a change does. The document for programs is this, too.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Page {
    pub(super) snapshot: String,
    pub(super) snapshot_time: Timestamp,
    pub(super) hours: u16,
    /// The file of the changed pool.
    pub(super) pool: Option<String>,
    /// True if the change makes a difference; without one, if anything happens.
    pub(super) differs: bool,
    pub(super) events: Vec<Row>,
    pub(super) left_out: usize,
    /// ScavengerJobs that wait for what a snapshot does not show, and go on waiting.
    pub(super) held: usize,
    pub(super) unchanged: Sums,
    pub(super) changed: Option<Sums>,
}

/// So many rows in the order of time: what the change does comes before what happens anyway.
pub(super) fn chosen(rows: Vec<Row>, limit: usize) -> Vec<Row> {
    let mut rows: Vec<(usize, Row)> = rows.into_iter().enumerate().collect();
    rows.sort_by_key(|(place, row)| (row.due_to, *place));
    rows.truncate(limit);
    rows.sort_by_key(|(place, _)| *place);
    rows.into_iter().map(|(_, row)| row).collect()
}

const ASSUMED: &str = "\n\
    This assumes that nothing else happens: no workload ends, no pod and no ScavengerJob arrives, every node stays as it is, and\n\
    pods of ScavengerJobs take their whole grace period to stop. So it says what the change does, not what the hour will be like.\n";

/// What a person reads.
pub(super) fn table(page: &Page) -> String {
    let beside = match &page.pool {
        Some(pool) => format!("with the pool of {pool}, beside the pool as it is"),
        None => "with the pool as it is".to_owned(),
    };
    let mut text = format!(
        "{} of {:.0}: {} {beside}\n\n",
        page.snapshot,
        page.snapshot_time,
        match page.hours {
            1 => "1 hour".to_owned(),
            hours => format!("{hours} hours"),
        },
    );
    events(&mut text, page);
    text.push('\n');
    text.push_str(&sums(page));
    if page.held > 0 {
        let _ = writeln!(
            text,
            "\nScavengerJobs that wait for a quota, an admission policy or a volume, and go on waiting here, since a snapshot does \
             not show\nwhen that is over: {}",
            page.held
        );
    }
    text.push_str(ASSUMED);
    text
}

fn events(text: &mut String, page: &Page) {
    if page.events.is_empty() && page.left_out == 0 {
        text.push_str("Nothing happens to any ScavengerJob.\n");
        return;
    }
    let mut cells = vec![
        ["after", "ScavengerJob", "event", "reason", "lost core s", "node", "due to"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for row in &page.events {
        let Happening { seconds, scavenger_job, event, reason, lost_core_seconds, nodes, .. } =
            &row.happening;
        let nodes = match &nodes[..] {
            [first, second, third, rest @ ..] if !rest.is_empty() => {
                format!("{first} {second} {third} and {} more", rest.len())
            }
            nodes => nodes.join(" "),
        };
        cells.push(vec![
            clock(*seconds),
            scavenger_job.clone(),
            event.name().to_owned(),
            reason.clone(),
            format!("{lost_core_seconds:.0}"),
            nodes,
            due_to(row),
        ]);
    }
    text.push_str(&grid(&cells));
    if page.left_out > 0 {
        let _ = writeln!(text, "Left out (--limit): {}", page.left_out);
    }
    if page.changed.is_some() && !page.differs {
        text.push_str("The change makes no difference: all of this happens without it, too.\n");
    }
}

fn due_to(row: &Row) -> String {
    match (row.due_to, row.without_change_seconds) {
        (Some(DueTo::Change), _) => "the change".to_owned(),
        (Some(DueTo::OnlyWithout), _) => "only without the change".to_owned(),
        (Some(DueTo::Anyway), Some(time)) if time.abs_diff(row.happening.seconds) >= 10 => {
            format!("anyway, at {}", clock(time))
        }
        (Some(DueTo::Anyway) | None, _) => "anyway".to_owned(),
    }
}

fn clock(seconds: i64) -> String {
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

fn sums(page: &Page) -> String {
    let runs: Vec<&Sums> = page.changed.iter().chain([&page.unchanged]).collect();
    let mut cells: Vec<Vec<String>> = vec![match page.changed {
        Some(_) => ["", "with the change", "without"].map(str::to_owned).to_vec(),
        None => ["", "as it is"].map(str::to_owned).to_vec(),
    }];
    let mut row = |name: &str, figure: &dyn Fn(&Sums) -> String| {
        cells.push([name.to_owned()].into_iter().chain(runs.iter().map(|run| figure(run))).collect());
    };
    let events: BTreeSet<_> = runs.iter().flat_map(|run| run.events.keys()).collect();
    for event in events {
        row(event.name(), &|run| run.events.get(event).copied().unwrap_or(0).to_string());
    }
    let reasons: BTreeSet<_> = runs.iter().flat_map(|run| run.reasons.keys()).collect();
    for reason in reasons {
        row(&format!("Interrupted: {reason}"), &|run| {
            run.reasons.get(reason).copied().unwrap_or(0).to_string()
        });
    }
    row("lost core hours", &|run| format!("{:.2}", run.lost_core_hours));
    row("run at the end", &|run| run.active_at_end.to_string());
    row("wait at the end", &|run| run.waiting_at_end.to_string());
    grid(&cells)
}
