//! What is typed, and what cannot be used: one message with the file and the line, and status 2.

use std::{fs, process::Command};

use scavenger_recording::{Class, Event, HEADER, Line, Node, Pod};

pub(super) fn simulate(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scavenger-laboratory"));
    let output = command.arg("simulate").args(arguments).output().expect("the program should run");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it should print text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// A trace of a node, two ordinary pods and a ScavengerJob, with something behind it.
pub(super) fn trace(more: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a file should be made");
    let rows = "kind,start_s,duration_s,cpu_milli,memory_mib,interval_s\n\
                node,,,9000,16384,\npod,0,2000,1000,1024,\npod,60,600,7000,1024,\nscavenger-job,0,300,2000,1024,60\n";
    fs::write(file.path(), format!("{rows}{more}")).expect("the file should take it");
    file
}

/// The file of a pool with this spec.
fn pool(spec: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::with_suffix(".yaml").expect("a file should be made");
    let text = format!(
        "apiVersion: scavenger.dev/v1alpha1\nkind: ScavengerPool\nmetadata: {{ name: default }}\nspec: {spec}\n"
    );
    fs::write(file.path(), text).expect("the file should take it");
    file
}

#[test]
fn what_cannot_be_used_is_said_in_one_line() {
    let bad_row = trace("pod,60,soon,1000,1024,\n");
    let row = bad_row.path().to_str().unwrap();
    let good = trace("");
    let good = good.path().to_str().unwrap();
    let pool = pool("{ startThreshold: 0.99 }");
    let pool = pool.path().to_str().unwrap();
    for (arguments, said) in [
        (&["--scenario", "weekly"][..], "there is no scenario \"weekly\"; there are steady"),
        (&["--scenario", "steady", "--policy", "best"], "there is no policy \"best\"; there are stock"),
        (&["--trace", row], "line 6: invalid float literal"),
        (&["--trace", "/nowhere.csv"], "/nowhere.csv: cannot be read"),
        (&["--trace", good, "--pool", pool], "spec.headroomTarget of cpu must be at least"),
        (&["--openb", "/nowhere", "--window", "5..5"], "--window \"5..5\" must be two seconds"),
        (&["--trace", good, "--plot", good], "cannot be written: File exists"),
        (&[], "nothing to play"),
    ] {
        let (status, stdout, stderr) = simulate(arguments);
        assert_eq!(status, Some(2), "{arguments:?}: {stderr}");
        assert!(stdout.is_empty() && stderr.contains(said), "{arguments:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

#[test]
fn a_trace_is_played_and_its_last_half_line_is_left_out() {
    let whole = trace("");
    let arguments = |file: &tempfile::NamedTempFile| {
        let path = file.path().to_str().unwrap().to_owned();
        let (status, stdout, stderr) =
            simulate(&["--trace", &path, "--policy", "stock", "--seeds", "1", "-o", "json"]);
        assert_eq!(status, Some(0), "{stderr}");
        (stdout.replace(&path, ""), stderr)
    };
    let (figures, silent) = arguments(&whole);
    assert!(silent.is_empty(), "{silent}");
    let read: serde_json::Value = serde_json::from_str(&figures).unwrap();
    let run = &read["outcomes"][0]["runs"][0];
    // It is preempted just before its first checkpoint, and runs again when the large pod is gone.
    assert_eq!(
        (run["interruptions"].as_f64(), run["finished"].as_f64()),
        (Some(1.0), Some(1.0)),
        "{figures}"
    );
    let (cut, said) = arguments(&trace("pod,90,60"));
    assert_eq!(cut, figures);
    assert!(said.contains("line 6 ends in the middle; the trace is read up to there"), "{said}");
}

/// A recording of two hours, as `scavenger-operator record` writes it: two nodes, a daemon on each, and a batch of pods every
/// twenty minutes that asks for a quarter of the cores.
fn recording(more: &str) -> tempfile::NamedTempFile {
    let second =
        |second: i64| jiff::Timestamp::from_second(1_800_000_000 + second).expect("it should be a time");
    let mut text = HEADER.to_owned();
    let mut write = |time: i64, event: Event| text.push_str(&Line { time: second(time), event }.text());
    write(0, Event::Begin);
    let mut pods = 0;
    let mut pod = |cpu_milli, priority, class| {
        pods += 1;
        let name = format!("pod-{pods}");
        (name.clone(), Event::Pod(Pod { name, cpu_milli, memory_mib: 512, gpus: 0, priority, class }))
    };
    for node in ["node-1", "node-2"] {
        let (cpu_milli, memory_mib, max_pods) = (8000, 32_768, 110);
        let labels = [("disk".to_owned(), "ssd".to_owned())].into();
        let name = node.to_owned();
        write(0, Event::Node(Node { name, cpu_milli, memory_mib, gpus: 0, max_pods, is_open: true, labels }));
        let (name, arrival) = pod(500, 2_000_001_000, Class::Daemon);
        write(-3600, arrival);
        write(-3600, Event::Bound { name, node: node.to_owned() });
    }
    for batch in 0..6 {
        for number in 0..4 {
            let (name, arrival) = pod(1000, 0, Class::Ordinary);
            let begin = 60 + batch * 1200;
            write(begin, arrival);
            let node = format!("node-{}", 1 + number % 2);
            write(begin + 1, Event::Bound { name: name.clone(), node });
            write(begin + 3, Event::Started { name: name.clone() });
            write(begin + 3, Event::Use { name: name.clone(), cpu_milli: 600, memory_mib: 100 });
            write(begin + 600, Event::Ended { name });
        }
    }
    for mark in (300..=7200).step_by(300) {
        write(mark, Event::Mark);
    }
    let file = tempfile::NamedTempFile::new().expect("a file should be made");
    fs::write(file.path(), text + more).expect("the file should take it");
    file
}

#[test]
fn a_recording_is_played_as_any_other_trace() {
    let file = recording("");
    let path = file.path().to_str().unwrap();
    let (status, stdout, stderr) =
        simulate(&["--trace", path, "--policy", "stock", "--seeds", "1", "-o", "json"]);
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    let read: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(read["outcomes"][0]["runs"][0]["ordinaryPods"].as_f64(), Some(26.0));
    let killed = recording("2027-01-15T10:00:05Z,mar");
    let path = killed.path().to_str().unwrap();
    let (status, _, stderr) = simulate(&["--trace", path, "--policy", "stock", "--seeds", "1"]);
    assert_eq!(status, Some(0));
    assert!(stderr.contains("ends in the middle; the trace is read up to there"), "{stderr}");
    let wrong = recording("2027-01-15T10:00:05Z,party,,,,,,,,,,\n");
    let path = wrong.path().to_str().unwrap();
    let (status, _, stderr) = simulate(&["--trace", path]);
    assert_eq!(status, Some(2), "{stderr}");
    assert!(stderr.contains(path) && stderr.contains("line 153: event \"party\" is unknown"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn an_admin_reads_on_one_page_what_scavenger_jobs_would_do() {
    let file = recording("");
    let path = file.path().to_str().unwrap();
    let arguments = ["--trace", path, "--what-if", "--seeds", "2"];
    let (status, page, stderr) = simulate(&arguments);
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    assert_eq!(simulate(&arguments).1, page, "the same bytes again");
    for said in [
        "2 h from 2027-01-15T08:00:00Z on",
        "2 nodes, 16.0 cores and 64 GiB for pods",
        "26 pods",
        // The daemons' one core, and 4 cores half of the time.
        "19% (3.0 cores) on average",
        "31% (5.0 cores) at the busiest moment",
        "81% (13.0 cores) on average",
        "as metrics.k8s.io measured it",
        "This is less than a day.",
        "the median of 2 seeds",
        "Recommended: startThreshold 0.",
    ] {
        assert!(page.contains(said), "{said} is missing:\n{page}");
    }
    let row = |percent: &str| -> Vec<f64> {
        let row = page.lines().find(|line| line.trim_start().starts_with(percent)).expect(percent);
        row.split_whitespace().skip(1).map(|cell| cell.parse().expect(row)).collect()
    };
    let (cautious, full) = (row("60%"), row("90%"));
    assert!(cautious[0] > 1.0 && full[4] > cautious[4], "{page}");
    assert!(cautious[5] < 1.0 && full[5] >= 1.0, "{page}");
    assert!(page.lines().count() < 40 && page.lines().all(|line| line.len() <= 140), "{page}");
    assert!(page.contains("name a pool with accounting Usage"), "{page}");
    let pool = pool("{ accounting: Usage, usage: {} }");
    let (status, by_use, stderr) =
        simulate(&[&arguments[..], &["--pool", pool.path().to_str().unwrap()]].concat());
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    assert!(by_use.contains("on average, by use") && by_use.contains("killed for"), "{by_use}");
    assert!(by_use.lines().all(|line| line.len() <= 140) && by_use != page, "{by_use}");
    for (others, said) in [
        (&["--scenario", "steady"][..], "cannot be used with"),
        (&[], "--what-if plays the recording of a cluster: name it with --trace"),
    ] {
        let (status, _, stderr) = simulate(&[&["--what-if"], others].concat());
        assert!(status == Some(2) && stderr.contains(said), "{stderr}");
    }
}
