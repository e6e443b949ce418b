//! A row of the view `gromacs_queue` as the command line shows it.

use serde::Deserialize;
use serde_json::Value;

use super::text::{Table, speed, stretch};

/// The columns that tables show. Others may be added to the view.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct QueueRow {
    pub(super) id: i64,
    pub(super) owner: String,
    pub(super) namespace: String,
    pub(super) tpr_path: String,
    pub(super) state: String,
    pub(super) reason: Option<String>,
    pub(super) configuration: Option<String>,
    pub(super) configuration_number: Option<i64>,
    pub(super) configurations: Option<i64>,
    pub(super) step: Option<i64>,
    pub(super) last_step: Option<i64>,
    pub(super) percent: Option<f64>,
    pub(super) ns_per_day: Option<f64>,
    pub(super) seconds_left: Option<i64>,
    /// True if nothing happens any more unless a person asks for it.
    pub(super) has_ended: bool,
    pub(super) interruptions: i64,
    pub(super) attempts: Option<i64>,
    pub(super) creation_time: String,
    pub(super) start_time: Option<String>,
    pub(super) finish_time: Option<String>,
    pub(super) wall_seconds: Option<i64>,
    pub(super) run_seconds: Option<i64>,
    #[serde(default)]
    pub(super) lost_seconds: Option<i64>,
    pub(super) scavenger_job: String,
    pub(super) kind: String,
    #[serde(default)]
    pub(super) project: Option<String>,
    #[serde(default)]
    pub(super) deadline: Option<String>,
    #[serde(default)]
    pub(super) late_seconds: Option<i64>,
    #[serde(default)]
    pub(super) simulations: Option<i64>,
}

impl QueueRow {
    /// Reads what the store returned.
    pub(super) fn read(value: &Value) -> anyhow::Result<Self> {
        Self::deserialize(value).map_err(|error| {
            anyhow::anyhow!(
                "the view gromacs_queue has another shape than this program's ({error}); is it newer?"
            )
        })
    }

    /// Reads them all.
    pub(super) fn read_all(values: &[Value]) -> anyhow::Result<Vec<Self>> {
        values.iter().map(Self::read).collect()
    }

    pub(super) fn done(&self) -> Option<String> {
        self.percent.map(|percent| format!("{percent:.0} %"))
    }

    /// That it is late, and by how much.
    pub(super) fn late(&self) -> Option<String> {
        let by = stretch(self.late_seconds?);
        Some(if self.state == "completed" {
            format!("missed its deadline by {by}")
        } else {
            format!("will miss its deadline by about {by}")
        })
    }

    fn cells(&self) -> Vec<String> {
        let dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        vec![
            self.id.to_string(),
            self.state.clone(),
            self.tpr_path.clone(),
            dash(self.configuration.clone()),
            dash(self.done()),
            dash(self.ns_per_day.map(speed)),
            dash(self.seconds_left.map(stretch)),
            self.interruptions.to_string(),
            self.late().into_iter().chain(self.reason.clone()).collect::<Vec<_>>().join("; "),
        ]
    }
}

const HEADINGS: [&str; 9] =
    [">ROW", "STATE", "FILE", "CONFIGURATION", ">DONE", ">NS/DAY", ">LEFT", ">INTERRUPTED", "REASON"];

/// Whose rows they are and where they run is shown if these differ, what they are for if not all are simulations, and how
/// many simulations they are if one is of several.
pub(super) fn table(rows: &[QueueRow]) -> Table {
    let differ =
        |value: fn(&QueueRow) -> &String| rows.windows(2).any(|pair| value(&pair[0]) != value(&pair[1]));
    let (owners, namespaces) = (differ(|row| &row.owner), differ(|row| &row.namespace));
    let projects = rows.iter().any(|row| row.project.is_some());
    let kinds = rows.iter().any(|row| row.kind != "simulation");
    let several = rows.iter().any(|row| row.simulations > Some(1));
    let mut headings = HEADINGS.to_vec();
    if several {
        headings.insert(1, ">SIMULATIONS");
    }
    if projects {
        headings.insert(1, "PROJECT");
    }
    if kinds {
        headings.insert(1, "KIND");
    }
    if namespaces {
        headings.insert(1, "NAMESPACE");
    }
    if owners {
        headings.insert(1, "OWNER");
    }
    let mut table = Table::new(&headings);
    for row in rows {
        let mut cells = row.cells();
        if several {
            cells.insert(1, row.simulations.unwrap_or(1).to_string());
        }
        if projects {
            cells.insert(1, row.project.clone().unwrap_or_else(|| "-".to_owned()));
        }
        if kinds {
            cells.insert(1, row.kind.clone());
        }
        if namespaces {
            cells.insert(1, row.namespace.clone());
        }
        if owners {
            cells.insert(1, row.owner.clone());
        }
        table.push(&cells);
    }
    table
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A row that runs.
    pub(in crate::cli) fn running(id: i64) -> QueueRow {
        QueueRow {
            id,
            owner: "anna".to_owned(),
            namespace: "chem".to_owned(),
            tpr_path: format!("runs/{id}/md.tpr"),
            state: "running".to_owned(),
            reason: Some("attempt 1 runs on 1 core".to_owned()),
            configuration: Some("1 core, 64 MiB, 1x1".to_owned()),
            configuration_number: Some(2),
            configurations: Some(3),
            step: Some(205_000),
            last_step: Some(500_000),
            percent: Some(41.0),
            ns_per_day: Some(12.345),
            seconds_left: Some(4300),
            has_ended: false,
            interruptions: 0,
            attempts: Some(1),
            creation_time: "2026-11-21T08:00:00+00:00".to_owned(),
            start_time: Some("2026-11-21T08:00:10+00:00".to_owned()),
            finish_time: None,
            wall_seconds: Some(60),
            run_seconds: Some(60),
            lost_seconds: None,
            scavenger_job: format!("gromacs-{id}-1"),
            kind: "simulation".to_owned(),
            project: None,
            deadline: None,
            late_seconds: None,
            simulations: Some(1),
        }
    }

    #[test]
    fn the_number_of_simulations_is_shown_if_a_row_has_several() {
        let four = QueueRow { simulations: Some(4), ..running(8) };
        let lines = table(&[running(7), four]).render(None);
        assert!(lines[0].starts_with("ROW  SIMULATIONS  STATE"), "{}", lines[0]);
        assert!(lines[1].starts_with("  7            1  running"), "{}", lines[1]);
        assert!(lines[2].starts_with("  8            4  running"), "{}", lines[2]);
    }

    #[test]
    fn a_row_that_is_late_says_by_how_much() {
        let mut late = QueueRow { late_seconds: Some(7200), ..running(7) };
        let line = |row: &QueueRow| table(std::slice::from_ref(row)).render(None)[1].clone();
        assert!(
            line(&late).ends_with("will miss its deadline by about 2 h; attempt 1 runs on 1 core"),
            "{}",
            line(&late)
        );
        (late.state, late.reason) = ("completed".to_owned(), None);
        assert!(line(&late).ends_with("missed its deadline by 2 h"), "{}", line(&late));
    }

    #[test]
    fn a_line_tells_how_far_how_fast_how_long_and_why() {
        let lines = table(&[running(7)]).render(None);
        assert_eq!(
            lines,
            [
                "ROW  STATE    FILE           CONFIGURATION        DONE  NS/DAY        LEFT  INTERRUPTED  REASON",
                "  7  running  runs/7/md.tpr  1 core, 64 MiB, 1x1  41 %    12.3  1 h 11 min            0  attempt 1 runs on 1 core",
            ]
        );
    }

    #[test]
    fn owners_and_namespaces_are_shown_if_they_differ() {
        let mut other = running(8);
        other.owner = "bert".to_owned();
        let lines = table(&[running(7), other]).render(None);
        assert!(lines[0].starts_with("ROW  OWNER  STATE"), "{}", lines[0]);
    }

    #[test]
    fn kinds_are_shown_if_there_are_calibrations() {
        let calibration = QueueRow { kind: "calibration".to_owned(), ..running(8) };
        let lines = table(&[running(7), calibration]).render(None);
        assert!(lines[0].starts_with("ROW  KIND         STATE"), "{}", lines[0]);
        assert!(lines[2].starts_with("  8  calibration  running"), "{}", lines[2]);
    }
}
