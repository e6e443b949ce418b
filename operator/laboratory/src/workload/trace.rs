//! The laboratory's own traces: CSV with a header, one row for each node, ordinary pod and ScavengerJob. The page
//! docs/contributing/laboratory.md describes the columns. A file that is the recording of a cluster is read as that.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _},
    path::Path,
};

use scavenger_program::exit::Unusable;
use scavenger_recording::HEADER;
use serde::Deserialize;

use super::{
    Node, Ordinary, Read, Scavenger, Workload,
    read::{ends_in_the_middle, finish},
    recording,
};
use crate::values::{Amounts, Time};

/// A row as it stands there. What does not concern its kind is empty.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    kind: Kind,
    name: Option<String>,
    start_s: Option<f64>,
    duration_s: Option<f64>,
    cpu_milli: i64,
    memory_mib: i64,
    gpus: Option<i64>,
    max_pods: Option<i64>,
    labels: Option<String>,
    priority: Option<i32>,
    pods: Option<u32>,
    interval_s: Option<f64>,
    checkpoint_s: Option<f64>,
    restart_s: Option<f64>,
    grace_s: Option<f64>,
    saves: Option<bool>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Node,
    Pod,
    ScavengerJob,
}

/// The longest span that a trace may have: a hundred years, far from what a number can hold.
const LONGEST_SECONDS: f64 = 100.0 * 366.0 * 86_400.0;

/// The most of a resource that a row may name: far more than any node has.
const MOST: i64 = 1 << 40;

/// Pods that a kubelet takes if the row does not say.
const PODS: i64 = 110;

/// Reads a trace.
///
/// # Errors
/// [`Unusable`] with the file and the line of what makes no sense.
pub fn read(path: &Path) -> Result<Read, Unusable> {
    let cannot = |error: io::Error| Unusable(format!("{}: cannot be read: {error}", path.display()));
    let mut file = BufReader::new(File::open(path).map_err(cannot)?);
    let begin = file.fill_buf().map_err(cannot)?;
    let read = if begin.starts_with(HEADER.as_bytes()) {
        recording::read(file)
    } else {
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(cannot)?;
        parse(&text)
    };
    read.map_err(|error| Unusable(format!("{}: {error}", path.display())))
}

/// Reads the text of a trace.
///
/// # Errors
/// A message with the line of what makes no sense.
pub fn parse(text: &str) -> Result<Read, String> {
    let (whole, note) = whole_lines(text);
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(whole.as_bytes());
    let headers = reader.headers().map_err(|error| format!("line 1: {error}"))?.clone();
    let mut workload = Workload::default();
    for record in reader.records() {
        let record = record.map_err(|error| said(&error))?;
        let line = record.position().map_or(0, csv::Position::line);
        let row: Row = record.deserialize(Some(&headers)).map_err(|error| said(&error))?;
        add(&mut workload, &row).map_err(|error| format!("line {line}: {error}"))?;
    }
    finish(&mut workload)?;
    Ok(Read { workload, recorded: None, note })
}

/// The text up to its last whole line: who records a trace can be killed in the middle of one.
fn whole_lines(text: &str) -> (&str, Option<String>) {
    let end = text.rfind('\n').map_or(0, |place| place + 1);
    let (whole, rest) = text.split_at(end);
    let number = whole.lines().count() as u64 + 1;
    (whole, (!rest.is_empty()).then(|| ends_in_the_middle(number)))
}

fn said(error: &csv::Error) -> String {
    let line = error.position().map_or(0, csv::Position::line);
    match error.kind() {
        csv::ErrorKind::Deserialize { err, .. } => format!("line {line}: {}", err.kind()),
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("line {line}: it has {len} columns where the header has {expected_len}")
        }
        _ => format!("line {line}: {error}"),
    }
}

fn add(workload: &mut Workload, row: &Row) -> Result<(), String> {
    let gpus = row.gpus.unwrap_or(0);
    for (name, amount) in [("cpu_milli", row.cpu_milli), ("memory_mib", row.memory_mib), ("gpus", gpus)] {
        if !(0..MOST).contains(&amount) {
            return Err(format!("{name} is {amount}, and must be between 0 and {}", MOST - 1));
        }
    }
    let requests = Amounts::of_pod(row.cpu_milli, row.memory_mib, gpus);
    match row.kind {
        Kind::Node => workload.nodes.push(node(row, requests, workload.nodes.len())?),
        Kind::Pod => workload.ordinary.push(Ordinary {
            arrival: given("start_s", row.start_s)?,
            duration: above_zero("duration_s", row.duration_s)?,
            requests,
            priority: row.priority.unwrap_or(0),
        }),
        Kind::ScavengerJob => workload.scavengers.push(scavenger(row, requests)?),
    }
    Ok(())
}

fn node(row: &Row, requests: Amounts, number: usize) -> Result<Node, String> {
    if row.cpu_milli == 0 || row.memory_mib == 0 {
        return Err("a node needs cpu_milli and memory_mib".to_owned());
    }
    let labels = row.labels.as_deref().unwrap_or_default();
    let labels = labels.split_whitespace().map(|label| {
        let pair = label.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        pair.ok_or(format!("label {label:?} must be a key, \"=\" and a value"))
    });
    Ok(Node {
        name: row.name.clone().filter(|name| !name.is_empty()).unwrap_or(format!("node-{number:04}")),
        capacity: Amounts { pods: row.max_pods.unwrap_or(PODS), ..requests },
        labels: labels.collect::<Result<BTreeMap<_, _>, _>>()?,
    })
}

fn scavenger(row: &Row, requests: Amounts) -> Result<Scavenger, String> {
    let pods = row.pods.unwrap_or(1);
    if pods == 0 {
        return Err("pods is 0, and must be at least 1".to_owned());
    }
    let or_nothing = |name, seconds: Option<f64>| given(name, Some(seconds.unwrap_or(0.0)));
    Ok(Scavenger {
        arrival: given("start_s", row.start_s)?,
        work: above_zero("duration_s", row.duration_s)?,
        pods,
        requests,
        interval: above_zero("interval_s", row.interval_s)?,
        cost: or_nothing("checkpoint_s", row.checkpoint_s)?,
        restart: or_nothing("restart_s", row.restart_s)?,
        grace: or_nothing("grace_s", row.grace_s)?,
        saves: row.saves.unwrap_or(false),
    })
}

/// Seconds as milliseconds.
fn given(name: &str, seconds: Option<f64>) -> Result<Time, String> {
    let seconds = seconds.ok_or(format!("{name} is missing"))?;
    if !(0.0..LONGEST_SECONDS).contains(&seconds) {
        return Err(format!("{name} is {seconds}, and must be between 0 and {LONGEST_SECONDS}"));
    }
    Ok((seconds * 1000.0).round() as Time)
}

fn above_zero(name: &str, seconds: Option<f64>) -> Result<Time, String> {
    match given(name, seconds)? {
        0 => Err(format!("{name} is 0, and must be more")),
        time => Ok(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "kind,name,start_s,duration_s,cpu_milli,memory_mib,gpus,max_pods,labels,priority,pods,\
                          interval_s,checkpoint_s,restart_s,grace_s,saves\n";

    fn parsed(rows: &str) -> Result<Read, String> {
        parse(&format!("{HEADER}{rows}"))
    }

    #[test]
    fn a_trace_has_nodes_pods_and_scavenger_jobs() {
        let read = parsed(
            "node,a,,,4000,8192,1,20,disk=ssd zone=b,,,,,,,\n\
             pod,,10,60.5,500,512,,,,7,,,,,,\n\
             scavenger-job,,0,3600,1000,1024,,,,,2,300,2,60,5,true\n",
        )
        .unwrap();
        assert_eq!(read.note, None);
        let Workload { nodes, ordinary, scavengers, length, .. } = read.workload;
        assert_eq!(nodes[0].capacity, Amounts { cpu: 4000, memory: 8192, pods: 20, gpus: 1 });
        assert_eq!(nodes[0].labels.get("zone").map(String::as_str), Some("b"));
        assert_eq!((ordinary[0].arrival, ordinary[0].duration, ordinary[0].priority), (10_000, 60_500, 7));
        assert_eq!((scavengers[0].pods, scavengers[0].interval, scavengers[0].saves), (2, 300_000, true));
        assert_eq!(length, 3_600_000);
    }

    #[test]
    fn a_row_that_makes_no_sense_is_named_by_its_line() {
        let node = "node,a,,,4000,8192,,,,,,,,,,\n";
        for (row, said) in [
            ("pod,,10,,500,512,,,,,,,,,,\n", "line 3: duration_s is missing"),
            ("pod,,-1,5,500,512,,,,,,,,,,\n", "line 3: start_s is -1, and must be between 0 and"),
            ("pod,,1,0,500,512,,,,,,,,,,\n", "line 3: duration_s is 0, and must be more"),
            ("pod,,1,NaN,500,512,,,,,,,,,,\n", "line 3: duration_s is NaN, and must be between"),
            ("pod,,1,5,-500,512,,,,,,,,,,\n", "line 3: cpu_milli is -500"),
            ("pod,,1,5,many,512,,,,,,,,,,\n", "line 3: invalid digit found in string"),
            ("plod,,1,5,1,512,,,,,,,,,,\n", "line 3: unknown variant `plod`"),
            ("pod,,1\n", "line 3: it has 3 columns where the header has 16"),
            ("scavenger-job,,0,3600,1000,1024,,,,,0,300,2,60,5,true\n", "line 3: pods is 0"),
            ("scavenger-job,,0,3600,1000,1024,,,,,1,,2,60,5,true\n", "line 3: interval_s is missing"),
            ("node,b,,,0,8192,,,,,,,,,,\n", "line 3: a node needs cpu_milli and memory_mib"),
            ("node,b,,,1,8192,,,ssd,,,,,,,\n", "line 3: label \"ssd\" must be a key"),
        ] {
            let error = parsed(&format!("{node}{row}")).err().unwrap_or_default();
            assert!(error.starts_with(said), "{row}: {error}");
        }
        for (rows, said) in [
            ("", "it has no nodes"),
            ("node,a,,,4000,8192,,,,,,,,,,\n", "it has neither ordinary pods nor ScavengerJobs"),
        ] {
            assert_eq!(parsed(rows).err().as_deref(), Some(said));
        }
        assert!(parse("kind,color\nnode,red\n").is_err());
    }

    #[test]
    fn a_trace_that_ends_in_the_middle_of_a_line_is_read_up_to_there() {
        let read = parsed("node,a,,,4000,8192,,,,,,,,,,\npod,,10,60,500,512,,,,,,,,,,\npod,,20,6").unwrap();
        assert_eq!(read.workload.ordinary.len(), 1);
        assert_eq!(read.note.as_deref(), Some("line 4 ends in the middle; the trace is read up to there"));
    }
}
