//! `show`: the story of one row on one screen.

use std::collections::BTreeMap;

use scavenger_schema::simulation::Engine;
use scavenger_schema::tuning::EFFICIENCY;
use serde::Deserialize as _;
use serde_json::Value;

use super::asked::{asked, chosen};
use super::row::QueueRow;
use super::text::{
    Table, cores, count, cut, json, number_of, short, shown, speed, stretch, terminal_width, wrap,
};
use super::{Outcome, open_current, print_error, print_line};
use crate::config::{Database, ShowOptions};
use crate::manifest::folder;
use crate::text::{command_line, pairs};

/// Lines of the history on a terminal: the whole story should fit on its screen.
const MOST_EVENTS: usize = 12;

/// Lines of the end of a log on a terminal.
const MOST_LOG_LINES: usize = 12;

pub(super) async fn exec(database: &Database, options: &ShowOptions) -> anyhow::Result<Outcome> {
    let store = open_current(database).await?;
    let story = store.show(options.row).await?;
    store.close().await;
    let Some(story) = story else {
        print_error(&format!("there is no row {}", options.row));
        return Ok(Outcome::Failed);
    };
    if options.output.is_json() {
        print_line(&json(&story));
    } else {
        let row = QueueRow::read(&story["row"])?;
        for line in tell(&row, &story, terminal_width()) {
            print_line(&line);
        }
    }
    Ok(Outcome::Done)
}

fn tell(row: &QueueRow, story: &Value, width: Option<usize>) -> Vec<String> {
    let mut lines = vec![format!(
        "{}: {} on volume {} in namespace {}, of {}",
        row.scavenger_job,
        row.tpr_path,
        text(&story["simulation"]["persistent_volume_claim"]),
        row.namespace,
        row.owner
    )];
    let facts = facts(row, story).into_iter().chain(notes(story));
    lines.extend(facts.map(|(name, fact)| format!("{name:<12}{fact}")));
    // Facts are wrapped, not cut: a reason is worth a second line.
    let mut lines: Vec<String> =
        lines.iter().flat_map(|line| wrap(&shown(line), width.unwrap_or(usize::MAX), 12)).collect();
    for (heading, table, below) in [
        ("configurations, largest first", ladder(row, story), Some(EFFICIENCY)),
        ("attempts", attempts(story), None),
    ] {
        if !table.is_empty() {
            lines.push(String::new());
            lines.push(heading.to_owned());
            lines.extend(
                table
                    .render(width.map(|width| width.saturating_sub(2)))
                    .iter()
                    .map(|line| format!("  {line}")),
            );
            let below = below.map(|meaning| format!("  efficiency: {meaning}"));
            lines.extend(below.iter().flat_map(|line| wrap(line, width.unwrap_or(usize::MAX), 2)));
        }
    }
    if row.state == "failed" {
        lines.extend(end_of_log(story, width));
    }
    let (table, hidden) = history(story, width.map(|_| MOST_EVENTS));
    lines.push(String::new());
    lines.push(if hidden > 0 {
        format!("history (without the first {hidden}; in a pipe it is whole)")
    } else {
        "history".to_owned()
    });
    lines.extend(
        table.render(width.map(|width| width.saturating_sub(2))).iter().map(|line| format!("  {line}")),
    );
    lines
}

fn facts(row: &QueueRow, story: &Value) -> Vec<(&'static str, String)> {
    let simulation = &story["simulation"];
    let mut facts = vec![("state", state(row, simulation))];
    facts.extend(benchmark(row, simulation).map(|benchmark| ("calibration", benchmark)));
    if let Some(reason) = &row.reason {
        facts.push(("why", reason.clone()));
    }
    let retry = if row.state == "completed" { "extension" } else { "retry" };
    for (requested, what) in [("cancel_requested", "cancel"), ("retry_requested", retry)] {
        if simulation[requested] == true {
            facts.push(("requested", format!("{what}; the submitter sees to it")));
        }
    }
    if let Some(progress) = progress(row) {
        facts.push(("progress", progress));
    }
    if let Some(system) = system(simulation) {
        facts.push(("system", system));
    }
    facts.extend(words_of(simulation, "command").map(|words| ("command", command_line(&words))));
    if let Some(configuration) = &row.configuration {
        let tried = tried(story);
        let place = tried.iter().position(|rung| {
            row.configuration_number.is_some() && rung["configuration"].as_i64() == row.configuration_number
        });
        let place = place
            .map(|index| format!(" (configuration {} of {})", index + 1, tried.len()))
            .unwrap_or_default();
        facts.push(("runs with", format!("{configuration}{place}")));
    }
    facts.extend(super::simulations::together(row, simulation).map(|text| ("simulations", text)));
    let engine = simulation["engine"].as_str().filter(|engine| *engine != Engine::ThreadMpi.as_str());
    facts.extend(engine.map(|engine| ("engine", engine.to_owned())));
    if let Some(path) = simulation["checkpoint_path"].as_str() {
        facts.push(("starts from", path.to_owned()));
    }
    for (name, column) in [("nodes", "node_labels"), ("mdp", "mdp_options")] {
        facts.extend(
            Some(labels(&simulation[column])).filter(|pairs| !pairs.is_empty()).map(|pairs| (name, pairs)),
        );
    }
    for (tool, column) in [("grompp", "grompp_options"), ("mdrun", "mdrun_options")] {
        facts.extend(words_of(simulation, column).map(|words| (tool, words.join(" "))));
    }
    if let Some(nsteps) = simulation["extended_nsteps"].as_i64() {
        facts.push(("extended", format!("to {} steps in all", count(nsteps))));
    }
    if let Some(deadline) = &row.deadline {
        let late = row.late().map(|late| format!(", {late}")).unwrap_or_default();
        facts.push(("deadline", format!("{}{late}", minute(deadline))));
    }
    facts.push(("asked for", asked(simulation)));
    facts.extend(rows_of(&simulation["after"]).map(|rows| ("after", rows)));
    facts.extend(rows_of(&simulation["after_any"]).map(|rows| ("after any", rows)));
    facts.push(("time", times(row)));
    facts.push(("results", format!("{} on the volume", folder(&row.tpr_path, row.id))));
    if let Some(next) = next(row) {
        facts.push(("next", next));
    }
    facts
}

/// The words of a column; none if it has none.
fn words_of(simulation: &Value, column: &str) -> Option<Vec<String>> {
    let words: Vec<String> =
        items(simulation, column).filter_map(Value::as_str).map(ToOwned::to_owned).collect();
    (!words.is_empty()).then_some(words)
}

/// What the tuner said when it was asked for the configurations of the present submission.
fn answer(story: &Value) -> Option<&Value> {
    let submission = &story["simulation"]["submission"];
    items(story, "tuner_answers").find(|answer| &answer["submission"] == submission)
}

/// How it chose them, and its notes, one fact each.
fn notes(story: &Value) -> Vec<(&'static str, String)> {
    let Some(answer) = answer(story) else { return Vec::new() };
    let chosen = Some(chosen(answer)).filter(|parts| !parts.is_empty());
    let notes = answer["notes"].as_array().into_iter().flatten().map(|note| ("tuner notes", text(note)));
    chosen.map(|parts| ("chosen", parts.join(", "))).into_iter().chain(notes).collect()
}

/// What a calibration measures; none for a simulation.
fn benchmark(row: &QueueRow, simulation: &Value) -> Option<String> {
    if row.kind != "calibration" {
        return None;
    }
    let number = |name: &str| simulation[name].as_i64().unwrap_or(0);
    let mut text = format!(
        "about {} atoms of water, {} steps, the second half measured, {} x {} on {}",
        count(number("benchmark_atoms")),
        count(number("nsteps")),
        number("benchmark_ranks"),
        number("benchmark_threads"),
        cores(1000.0 * (number("benchmark_ranks") * number("benchmark_threads")) as f64)
    );
    if number("benchmark_gpus") > 0 {
        text.push_str(" and a GPU");
    }
    let labels = labels(&simulation["benchmark_node_labels"]);
    if !labels.is_empty() {
        text.push_str(&format!(", on nodes with {labels}"));
    }
    Some(text)
}

/// Labels as the database says them; nothing if there are none.
fn labels(found: &Value) -> String {
    BTreeMap::deserialize(found).map(|labels| pairs(&labels).join(", ")).unwrap_or_default()
}

fn state(row: &QueueRow, simulation: &Value) -> String {
    let since = simulation["seconds_in_state"]
        .as_i64()
        .map(|seconds| format!(" for {}", stretch(seconds)))
        .unwrap_or_default();
    let ahead = match simulation["rows_ahead"].as_u64().and_then(|ahead| usize::try_from(ahead).ok()) {
        Some(0) => ", first in its owner's queue".to_owned(),
        Some(ahead) => format!(", {} of the same owner before it", number_of(ahead, "row")),
        None => String::new(),
    };
    format!("{}{since}{ahead}", row.state)
}

fn progress(row: &QueueRow) -> Option<String> {
    let mut parts = Vec::new();
    if let (Some(step), Some(last)) = (row.step, row.last_step) {
        parts.push(format!("step {} of {}", count(step), count(last)));
    }
    parts.extend(row.done());
    parts.extend(row.ns_per_day.map(|ns_per_day| format!("{} ns/day", speed(ns_per_day))));
    parts.extend(row.seconds_left.map(|seconds| format!("{} left", stretch(seconds))));
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn system(simulation: &Value) -> Option<String> {
    let atoms = simulation["atoms"].as_i64()?;
    let mut parts = vec![format!("{} atoms", count(atoms))];
    if let (Some(nsteps), Some(dt_ps)) = (simulation["nsteps"].as_i64(), simulation["dt_ps"].as_f64()) {
        let ns = nsteps as f64 * dt_ps / 1000.0;
        parts.push(format!("{} steps of {dt_ps} ps ({} ns)", count(nsteps), short(ns)));
    }
    let lengths = |name: &str, by: &str| -> Option<String> {
        let values: Vec<String> =
            simulation[name].as_array()?.iter().filter_map(Value::as_f64).map(short).collect();
        Some(values.join(by))
    };
    parts.extend(lengths("box_nm", " x ").map(|lengths| format!("box {lengths} nm")));
    parts.extend(lengths("pme_grid", "x").map(|grid| format!("PME {grid}")));
    parts.extend(simulation["cutoff_nm"].as_f64().map(|cutoff| format!("cut-off {} nm", short(cutoff))));
    parts.extend(simulation["gromacs_version"].as_str().map(|version| format!("GROMACS {version}")));
    Some(parts.join(", "))
}

/// `row 7`, `rows 7, 8`; none if there is none.
fn rows_of(numbers: &Value) -> Option<String> {
    let rows: Vec<String> = numbers.as_array()?.iter().map(text).collect();
    let word = if rows.len() == 1 { "row" } else { "rows" };
    (!rows.is_empty()).then(|| format!("{word} {}", rows.join(", ")))
}

fn times(row: &QueueRow) -> String {
    let mut parts = vec![format!("added {}", minute(&row.creation_time))];
    parts.extend(row.start_time.as_deref().map(|time| format!("first ran {}", minute(time))));
    parts.extend(row.finish_time.as_deref().map(|time| format!("ended {}", minute(time))));
    if let (Some(wall), Some(run)) = (row.wall_seconds, row.run_seconds) {
        parts.push(format!("ran {} of {}", stretch(run), stretch(wall)));
    }
    parts.push(match row.interruptions {
        0 => "not interrupted".to_owned(),
        1 => "interrupted once".to_owned(),
        times => format!("interrupted {times} times"),
    });
    if let Some(lost) = row.lost_seconds.filter(|_| row.interruptions > 0) {
        parts.push(if lost == 0 { "nothing lost".to_owned() } else { format!("lost {}", stretch(lost)) });
    }
    parts.join(", ")
}

/// What a person can do.
fn next(row: &QueueRow) -> Option<String> {
    match row.state.as_str() {
        "completed" if row.kind == "simulation" => {
            Some(format!("to go on for longer: gromacs-submitter extend {} --ns NANOSECONDS", row.id))
        }
        "failed" => Some(format!("remove the cause, then: gromacs-submitter retry {}", row.id)),
        "cancelled" if row.kind == "command" => {
            Some(format!("to start over: gromacs-submitter retry {}", row.id))
        }
        "cancelled" => Some(format!("to go on from its last checkpoint: gromacs-submitter retry {}", row.id)),
        _ => None,
    }
}

/// The configurations of the present submission that are tried, the first one first.
fn tried(story: &Value) -> Vec<&Value> {
    let submission = &story["simulation"]["submission"];
    let of_it = items(story, "ladder").filter(|rung| &rung["submission"] == submission);
    of_it.filter(|rung| rung["replaced"] != true).collect()
}

/// They as a table.
fn ladder(row: &QueueRow, story: &Value) -> Table {
    let mut table = Table::new(&[
        "",
        ">NUMBER",
        ">CORES",
        ">GPUS",
        ">MEMORY",
        "RANKS x THREADS",
        "PREDICTED NS/DAY",
        ">EFFICIENCY",
        "REASON",
    ]);
    for (place, rung) in (1..).zip(tried(story)) {
        let number = |name: &str| rung[name].as_f64().map_or_else(|| "-".to_owned(), speed);
        table.push(&[
            if rung["configuration"].as_i64() == row.configuration_number { "->" } else { "" }.to_owned(),
            i32::to_string(&place),
            rung["cpu_millicores"].as_f64().map_or_else(|| "-".to_owned(), |it| (it / 1000.0).to_string()),
            text(&rung["gpus"]),
            mebibytes(&rung["memory_bytes"]),
            layout(&rung["layout"]),
            format!(
                "{} ({} to {})",
                number("ns_per_day_p50"),
                number("ns_per_day_p10"),
                number("ns_per_day_p90")
            ),
            rung["efficiency"].as_f64().map_or_else(|| "-".to_owned(), |it| format!("{:.0} %", it * 100.0)),
            text(&rung["reason"]),
        ]);
    }
    table
}

fn attempts(story: &Value) -> Table {
    let mut table = Table::new(&[
        "ATTEMPT", ">CORES", ">MEMORY", "STARTED", ">RAN", ">LOST", ">STEPS", ">NS/DAY", "ENDED", "REASON",
    ]);
    for attempt in items(story, "attempts") {
        let steps = match (attempt["first_step"].as_i64(), attempt["last_step"].as_i64()) {
            (Some(first), Some(last)) => format!("{} to {}", count(first), count(last)),
            (Some(first), None) => format!("from {}", count(first)),
            _ => "-".to_owned(),
        };
        let why = attempt["message"].as_str().or_else(|| attempt["reason"].as_str()).unwrap_or_default();
        let ran = attempt["run_seconds"].as_i64().map_or_else(|| "-".to_owned(), stretch);
        table.push(&[
            format!("{}.{}", text(&attempt["submission"]), text(&attempt["attempt"])),
            attempt["cpu_millicores"].as_f64().map_or_else(|| "-".to_owned(), |it| (it / 1000.0).to_string()),
            mebibytes(&attempt["memory_bytes"]),
            attempt["start_time"].as_str().map_or_else(|| "-".to_owned(), minute),
            ran,
            attempt["lost_seconds"].as_i64().map_or_else(|| "-".to_owned(), stretch),
            steps,
            attempt["ns_per_day"].as_f64().map_or_else(|| "-".to_owned(), speed),
            attempt["outcome"].as_str().unwrap_or("runs").to_owned(),
            why.to_owned(),
        ]);
    }
    table
}

/// The last words of the attempt that failed, if they were kept.
fn end_of_log(story: &Value, width: Option<usize>) -> Vec<String> {
    let last = items(story, "attempts").last();
    let Some((attempt, log)) = last.and_then(|last| Some((last, last["log_end"].as_str()?))) else {
        return Vec::new();
    };
    let all: Vec<&str> = log.lines().collect();
    let hidden = width.map_or(0, |_| all.len().saturating_sub(MOST_LOG_LINES));
    let number = format!("{}.{}", text(&attempt["submission"]), text(&attempt["attempt"]));
    let mut lines = vec![String::new(), format!("end of the log of attempt {number}")];
    lines.extend(all[hidden..].iter().map(|line| {
        let line = format!("  {}", shown(line));
        width.map_or_else(|| line.clone(), |width| cut(&line, width))
    }));
    lines
}

/// The newest `most` events, and how many are left out.
fn history(story: &Value, most: Option<usize>) -> (Table, usize) {
    let mut table = Table::new(&["TIME", "STATE", "CONFIGURATION", "WHY"]);
    let events: Vec<&Value> = items(story, "events").collect();
    let hidden = most.map_or(0, |most| events.len().saturating_sub(most));
    for event in &events[hidden..] {
        table.push(&[
            event["event_time"].as_str().map(second).unwrap_or_default(),
            text(&event["state"]),
            event["configuration"].as_i64().map(|rung| rung.to_string()).unwrap_or_default(),
            event["message"].as_str().unwrap_or_default().to_owned(),
        ]);
    }
    (table, hidden)
}

fn items<'a>(story: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    story[list].as_array().map(Vec::as_slice).unwrap_or_default().iter()
}

fn layout(layout: &Value) -> String {
    format!("{} x {}", text(&layout["ntmpi"]), text(&layout["ntomp"]))
}

fn mebibytes(bytes: &Value) -> String {
    bytes.as_i64().map_or_else(|| "-".to_owned(), |bytes| format!("{} MiB", (bytes + (1 << 20) - 1) >> 20))
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// `2026-11-21T08:00:10.123+00:00` as `2026-11-21 08:00`; the database says UTC unless it was told otherwise.
fn minute(time: &str) -> String {
    moment(time, 16)
}

fn second(time: &str) -> String {
    moment(time, 19)
}

fn moment(time: &str, length: usize) -> String {
    time.chars().take(length).collect::<String>().replace('T', " ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::row::tests::running;
    use super::*;

    fn story() -> Value {
        json!({
            "simulation": {
                "persistent_volume_claim": "data", "run_as_user": 1000, "priority": 0, "atoms": 92_224, "nsteps": 500_000,
                "dt_ps": 0.002, "box_nm": [9.5, 9.5, 9.5], "interruption_after_seconds": 600, "submission": 1,
                "seconds_in_state": 125, "cancel_requested": false, "retry_requested": false, "rows_ahead": null,
            },
            "ladder": [
                { "submission": 1, "configuration": 1, "cpu_millicores": 2000, "gpus": 0, "memory_bytes": 67_108_864,
                  "layout": { "ntmpi": 1, "ntomp": 2 }, "ns_per_day_p10": 15.0, "ns_per_day_p50": 20.0,
                  "ns_per_day_p90": 26.0, "reason": "the fastest" },
                { "submission": 1, "configuration": 2, "cpu_millicores": 1000, "gpus": 0, "memory_bytes": 67_108_864,
                  "layout": { "ntmpi": 1, "ntomp": 1 }, "ns_per_day_p10": 8.0, "ns_per_day_p50": 11.0,
                  "ns_per_day_p90": 14.0, "efficiency": 0.914, "reason": "half of it" },
            ],
            "tuner_answers": [
                { "submission": 0, "notes": ["of an earlier one"] },
                { "submission": 1, "notes": ["the CPU of some nodes is unknown", "even the fastest takes 3 years"],
                  "min_efficiency": 0.7, "max_configurations": 12, "gpu_price": 4.0, "memory_price": 0.01,
                  "set_by": { "min_efficiency": "row", "max_configurations": "tuner", "gpu_price": "tuner",
                      "memory_price": "pool" } },
            ],
            "attempts": [
                { "submission": 1, "attempt": 1, "cpu_millicores": 1000, "memory_bytes": 67_108_864,
                  "start_time": "2026-11-21T08:00:10+00:00", "end_time": null, "outcome": null, "first_step": 0,
                  "last_step": null, "ns_per_day": null, "run_seconds": 125, "message": "bad \u{1b}[2J news" },
            ],
            "events": (0..20).map(|number| json!({
                "event_time": "2026-11-21T08:00:10.123+00:00", "state": "queued", "configuration": null, "message": format!("{number}"),
            })).collect::<Vec<_>>(),
        })
    }

    #[test]
    fn a_story_has_everything_and_nothing_for_the_terminal_to_obey() {
        let lines = tell(&running(7), &story(), None);
        let all = lines.join("\n");
        assert!(all.contains("\n  efficiency: speed per core, relative to the best"), "{all}");
        for fact in [
            "gromacs-7-1: runs/7/md.tpr on volume data in namespace chem, of anna",
            "state       running for 2 min",
            "why         attempt 1 runs on 1 core",
            "progress    step 205,000 of 500,000, 41 %, 12.3 ns/day, 1 h 11 min left",
            "92,224 atoms, 500,000 steps of 0.002 ps (1 ns), box 9.5 x 9.5 x 9.5 nm",
            "1 core, 64 MiB, 1x1 (configuration 2 of 2)",
            "->       2",
            "11.0 (8.00 to 14.0)",
            "91 %  half of it",
            "results     runs/7/gromacs-7 on the volume",
            "chosen      first configuration with at least 70 % of the best speed per price (row), at most 12 configurations (tuner), \
             a GPU counted as 4 cores (tuner), a GiB of memory counted as 0.01 cores (pool)",
            "tuner notes the CPU of some nodes is unknown",
            "tuner notes even the fastest takes 3 years",
        ] {
            assert!(all.contains(fact), "{fact:?} is missing in\n{all}");
        }
        assert!(!all.contains('\u{1b}') && !all.contains("of an earlier one"));
        assert_eq!(lines.iter().filter(|line| line.contains("queued")).count(), 20, "in a pipe it is whole");
    }

    #[test]
    fn a_calibration_says_what_it_measures() {
        let row = QueueRow { kind: "calibration".to_owned(), ..running(7) };
        let mut story = story();
        for (name, value) in [
            ("benchmark_atoms", json!(11_664)),
            ("benchmark_ranks", json!(2)),
            ("benchmark_threads", json!(4)),
            ("benchmark_gpus", json!(1)),
            ("benchmark_node_labels", json!({ "kubernetes.io/arch": "amd64" })),
        ] {
            story["simulation"][name] = value;
        }
        let all = tell(&row, &story, None).join("\n");
        let told = "calibration about 11,664 atoms of water, 500,000 steps, the second half measured, 2 x 4 on 8 cores \
                    and a GPU, on nodes with kubernetes.io/arch=amd64";
        assert!(all.contains(told), "{all}");
    }

    #[test]
    fn on_a_terminal_nothing_is_wider_than_it() {
        let mut row = running(7);
        row.reason = Some("word ".repeat(60));
        let lines = tell(&row, &story(), Some(80));
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
        assert!(
            lines.iter().filter(|line| line.contains("word")).count() > 3,
            "a reason is wrapped, not cut"
        );
        assert!(lines.iter().any(|line| line.contains("without the first 8")));
    }

    #[test]
    fn a_failed_row_says_what_to_do() {
        let mut row = running(7);
        row.state = "failed".to_owned();
        let mut story = story();
        assert!(tell(&row, &story, None).iter().any(|line| line.ends_with("gromacs-submitter retry 7")));
        assert!(!tell(&row, &story, None).iter().any(|line| line.starts_with("end of the log")));
        let log: String = (0..30).map(|line| format!("line {line} {}\u{1b}\n", "x".repeat(100))).collect();
        story["attempts"][0]["log_end"] = json!(log);
        let lines = tell(&row, &story, Some(80));
        assert!(lines.contains(&"end of the log of attempt 1.1".to_owned()), "{lines:#?}");
        assert!(lines.iter().any(|line| line.starts_with("  line 29 x") && line.chars().count() <= 80));
        assert_eq!(lines.iter().filter(|line| line.starts_with("  line ")).count(), MOST_LOG_LINES);
        assert!(!lines.concat().contains('\u{1b}'));
    }
}
