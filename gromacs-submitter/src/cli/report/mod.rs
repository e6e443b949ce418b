//! `report`: what ran, as a table, as CSV and as a picture.

mod picture;
mod sums;

use std::io::Write;
use std::path::Path;

use anyhow::Context as _;
use jiff::Timestamp;
use serde_json::json;

use super::text::{
    Table, core_hours, count, json as print_json, number_of, shown, speed, stretch, terminal_width,
};
use super::{Outcome, open_current, print_line, row_filter};
use crate::config::{Database, ReportOptions};
use crate::store::Ran;
use sums::{Measured, Sums, clock};

pub(super) async fn exec(database: &Database, options: &ReportOptions) -> anyhow::Result<Outcome> {
    let store = open_current(database).await?;
    let now = store.now().await?;
    let since = options.since.from(now);
    anyhow::ensure!(since < now, "--since {since} is in the future");
    let ran = store.ran(&row_filter(&options.filter), since).await?;
    store.close().await;
    let sums = Sums::new(&ran, since, now);
    if let Some(file) = &options.plot {
        let svg = picture::draw(&ran, &sums)?;
        std::fs::write(file, svg).with_context(|| format!("--plot {} cannot be written", file.display()))?;
    }
    if let Some(file) = &options.csv {
        if file == Path::new("-") {
            // The data alone: a summary among them would be no CSV. Whoever closed stdout wants no more of it.
            let _ = write_csv(std::io::stdout().lock(), &ran, now);
            return Ok(Outcome::Done);
        }
        let created = std::fs::File::create(file);
        created
            .map_err(csv::Error::from)
            .and_then(|file| write_csv(file, &ran, now))
            .with_context(|| format!("--csv {} cannot be written", file.display()))?;
    }
    if options.output.is_json() {
        print_line(&print_json(&json!(sums)));
    } else {
        table(&sums).iter().for_each(|line| print_line(line));
    }
    Ok(Outcome::Done)
}

fn table(sums: &Sums) -> Vec<String> {
    if sums.runs == 0 {
        return vec![format!("nothing ran since {}", clock(sums.since))];
    }
    let mut lines = vec![
        format!("{} to {} (UTC)", clock(sums.since), clock(sums.until)),
        format!(
            "{}{} ran {}, together {}, {} core hours",
            amount(sums.simulations, "simulation"),
            [(sums.calibrations, "calibration"), (sums.commands, "command")]
                .iter()
                .filter(|(count, _)| *count > 0)
                .map(|(count, kind)| format!(" and {}", amount(*count, kind)))
                .collect::<String>(),
            amount(sums.runs, "time"),
            stretch(sums.run_seconds as i64),
            core_hours(sums.core_hours)
        ),
        format!(
            "{} completed, {} failed, {} interrupted{}",
            count(sums.completed),
            count(sums.failed),
            count(sums.interrupted),
            sums.seconds_between_interruptions
                .map(|seconds| format!(" (one in {} of running)", stretch(seconds as i64)))
                .unwrap_or_default()
        ),
        format!("{} ns simulated, {} ns/day while anything ran", speed(sums.ns), speed(sums.ns_per_day)),
        lost(sums),
    ];
    lines.extend(measured(&sums.measured));
    lines.push(String::new());
    let mut table =
        Table::new(&["FROM (UTC)", ">RUNNING", ">INTERRUPTED", ">COMPLETED", ">FAILED", ">NS", ">NS/DAY"]);
    for bin in &sums.bins {
        table.push(&[
            clock(bin.from),
            format!("{:.1}", bin.running),
            bin.interrupted.to_string(),
            bin.completed.to_string(),
            bin.failed.to_string(),
            speed(bin.ns),
            speed(bin.ns_per_day),
        ]);
    }
    lines.extend(table.render(terminal_width()));
    lines
}

fn lost(sums: &Sums) -> String {
    match sums.lost_seconds {
        None => "lost work was not measured".to_owned(),
        Some(0) => "no work was lost".to_owned(),
        Some(lost) => {
            let share = 100.0 * lost as f64 / sums.run_seconds.max(1.0);
            format!("{} of work lost, {share:.2} % of the time it ran", stretch(lost))
        }
    }
}

/// What the tuner can learn about neighbours from; none where no node is known.
fn measured(measured: &Measured) -> Option<String> {
    let Measured { whole_node, part_alone, part_beside_others } = *measured;
    (whole_node + part_alone + part_beside_others > 0).then(|| {
        format!(
            "{} measured on a whole node, {} on a part of one that was idle otherwise, {} beside other pods",
            amount(whole_node, "run"),
            count(part_alone),
            count(part_beside_others)
        )
    })
}

fn amount(number: i64, one: &str) -> String {
    number_of(usize::try_from(number).unwrap_or(0), one)
}

const COLUMNS: [&str; 24] = [
    "row",
    "owner",
    "namespace",
    "tpr_path",
    "submission",
    "attempt",
    "cpu_millicores",
    "memory_bytes",
    "gpus",
    "ntmpi",
    "ntomp",
    "start_time",
    "end_time",
    "run_seconds",
    "outcome",
    "reason",
    "first_step",
    "last_step",
    "ns",
    "ns_per_day",
    "kind",
    "lost_seconds",
    "node_cpu_millicores",
    "node_requested_millicores",
];

/// A line per attempt. Control characters are replaced: a line of the file is a line of the table.
fn write_csv(into: impl Write, ran: &[Ran], now: Timestamp) -> Result<(), csv::Error> {
    fn cell<T: ToString>(value: Option<T>) -> String {
        value.map(|value| value.to_string()).unwrap_or_default()
    }
    let mut writer = csv::Writer::from_writer(into);
    writer.write_record(COLUMNS)?;
    for attempt in ran {
        let end = attempt.end_time.map(jiff_sqlx::Timestamp::to_jiff);
        let start = attempt.start_time.to_jiff();
        writer.write_record([
            attempt.row_id.to_string(),
            shown(&attempt.owner),
            attempt.namespace.clone(),
            shown(&attempt.tpr_path),
            attempt.submission.to_string(),
            attempt.attempt.to_string(),
            cell(attempt.cpu_millicores),
            cell(attempt.memory_bytes),
            cell(attempt.gpus),
            cell(attempt.ntmpi),
            cell(attempt.ntomp),
            start.to_string(),
            cell(end),
            sums::seconds(start, end.unwrap_or(now)).round().to_string(),
            cell(attempt.outcome.as_deref()),
            cell(attempt.reason.as_deref().map(shown)),
            cell(attempt.first_step),
            cell(attempt.last_step),
            cell(sums::simulated_ns(attempt)),
            cell(attempt.ns_per_day),
            attempt.kind.clone(),
            cell(attempt.lost_seconds),
            cell(attempt.node_cpu_millicores),
            cell(attempt.node_requested_millicores),
        ])?;
    }
    writer.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::sums::tests::{now, ran};
    use super::*;

    #[test]
    fn the_csv_has_a_line_per_attempt_whatever_its_texts_hold() {
        let mut odd = ran(2, 0, Some(600), "interrupted");
        odd.tpr_path = "a,\"b\"\n\u{1b}[2J.tpr".to_owned();
        let mut file = Vec::new();
        write_csv(&mut file, &[ran(1, 0, Some(3600), "completed"), odd], now()).expect("should write");
        let text = String::from_utf8(file).expect("should be text");
        assert_eq!(text.lines().count(), 3, "{text}");
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        assert_eq!(reader.headers().expect("should have a header"), COLUMNS.as_slice());
        let records: Vec<csv::StringRecord> =
            reader.records().map(|record| record.expect("should be a record")).collect();
        assert_eq!(&records[0][13], "3600");
        assert_eq!(&records[0][18], "1");
        assert_eq!(&records[1][3], "a,\"b\" \u{fffd}[2J.tpr");
    }

    #[test]
    fn the_summary_says_what_ran() {
        let mut attempts = [ran(1, 0, Some(3600), "interrupted"), ran(1, 3600, Some(7200), "completed")];
        let lines = table(&Sums::new(&attempts, now() - jiff::SignedDuration::from_hours(24), now()));
        assert_eq!(lines[1], "1 simulation ran 2 times, together 2 h, 2.00 core hours");
        assert_eq!(lines[2], "1 completed, 0 failed, 1 interrupted (one in 2 h of running)");
        assert_eq!(lines[4], "lost work was not measured");
        attempts[0].lost_seconds = Some(36);
        let sums = Sums::new(&attempts, now() - jiff::SignedDuration::from_hours(24), now());
        assert_eq!(lost(&sums), "36 s of work lost, 0.50 % of the time it ran");
        (attempts[1].node_cpu_millicores, attempts[1].node_requested_millicores) = (Some(8000), Some(5000));
        let lines = table(&Sums::new(&attempts, now() - jiff::SignedDuration::from_hours(24), now()));
        let told = "0 runs measured on a whole node, 0 on a part of one that was idle otherwise, 1 beside other pods";
        assert_eq!(lines[5], told);
        assert!(table(&Sums::new(&[], now(), now()))[0].starts_with("nothing ran since"));
    }
}
