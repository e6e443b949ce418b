//! From what watches deliver to the lines of a file, and on from there.

mod watches;

use std::{fs, io::Write as _};

use kube::runtime::watcher::Event as Seen;
use scavenger_recording::{Class, HEADER, Pod};
use serde_json::json;

use super::*;

const LIMIT: u64 = 1 << 20;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + second).unwrap()
}

fn recorder(path: &std::path::Path) -> Recorder {
    let mut recorder = Recorder::open(path.to_owned(), LIMIT, Vec::new()).unwrap();
    recorder.write([Line { time: at(0), event: Event::Begin }]).unwrap();
    recorder
}

fn node(name: &str, cpu: &str) -> ApiNode {
    serde_json::from_value(json!({
        "metadata": { "name": name, "uid": format!("uid of {name}"), "labels": { "kubernetes.io/hostname": name } },
        "status": { "allocatable": { "cpu": cpu, "memory": "8Gi", "pods": "110" },
                    "conditions": [{ "type": "Ready", "status": "True" }] },
    }))
    .unwrap()
}

/// A pod of the namespace `payroll` that was created at second 10.
fn pod(name: &str, node: Option<&str>, phase: &str) -> ApiPod {
    let state = match phase {
        "Running" => json!({ "running": { "startedAt": "2026-01-01T00:00:15Z" } }),
        "Succeeded" => json!({ "terminated": { "exitCode": 0, "startedAt": "2026-01-01T00:00:15Z",
                                               "finishedAt": "2026-01-01T00:01:00Z" } }),
        _ => json!({}),
    };
    let status = json!({ "name": "main", "image": "registry.example/ledger:7", "imageID": "", "ready": false,
                         "restartCount": 0, "state": state });
    let bound = node.map(
        |_| json!({ "type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:12Z" }),
    );
    serde_json::from_value(json!({
        "metadata": { "name": name, "namespace": "payroll", "uid": format!("uid of {name}"),
                      "creationTimestamp": "2026-01-01T00:00:10Z", "labels": { "app": "ledger" } },
        "spec": { "nodeName": node, "containers": [{ "name": "main", "image": "registry.example/ledger:7",
                  "resources": { "requests": { "cpu": "250m", "memory": "64Mi" } } }] },
        "status": { "phase": phase, "conditions": bound.into_iter().collect::<Vec<_>>(), "containerStatuses": [status] },
    }))
    .unwrap()
}

fn see_nodes(recorder: &mut Recorder, nodes: &[ApiNode]) {
    recorder.see_node(Some(Seen::Init)).unwrap();
    for node in nodes {
        recorder.see_node(Some(Seen::InitApply(node.clone()))).unwrap();
    }
    recorder.see_node(Some(Seen::InitDone)).unwrap();
}

fn list_pods(recorder: &mut Recorder, pods: &[ApiPod]) {
    recorder.see_pod(Some(Seen::Init)).unwrap();
    for pod in pods {
        recorder.see_pod(Some(Seen::InitApply(pod.clone()))).unwrap();
    }
    recorder.see_pod(Some(Seen::InitDone)).unwrap();
}

/// The events of a file, each with its second where the cluster said it, and short names.
fn events(path: &std::path::Path) -> Vec<String> {
    let mut events = Vec::new();
    let mut names: Vec<String> = Vec::new();
    let text = fs::read(path).unwrap();
    scavenger_recording::read(&*text, |_, line| {
        let mut short = |name: &str| {
            let known = names.iter().position(|other| other == name);
            let number = known.unwrap_or_else(|| {
                names.push(name.to_owned());
                names.len() - 1
            });
            format!("{}{number}", &name[..1])
        };
        let second = line.time.as_second() - at(0).as_second();
        let when = if second < 1000 { format!("{second} ") } else { String::new() };
        let what = match &line.event {
            Event::Begin => "begin".to_owned(),
            Event::Mark => "mark".to_owned(),
            Event::Full => "full".to_owned(),
            Event::Node(node) => format!("node {} {}", short(&node.name), node.cpu_milli),
            Event::NodeGone { name } => format!("gone {}", short(name)),
            Event::Pod(Pod { name, cpu_milli, .. }) => format!("pod {} {cpu_milli}", short(name)),
            Event::Bound { name, node } => format!("bound {} {}", short(name), short(node)),
            Event::Started { name } => format!("started {}", short(name)),
            Event::Ended { name } => format!("ended {}", short(name)),
            Event::Use { name, cpu_milli, .. } => format!("use {} {cpu_milli}", short(name)),
        };
        events.push(when + &what);
        Ok(())
    })
    .unwrap();
    events
}

#[test]
fn a_pod_becomes_a_line_for_each_step_and_no_step_is_written_twice() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut recorder = recorder(file.path());
    see_nodes(&mut recorder, &[node("rack-1", "4"), node("rack-2", "4")]);
    list_pods(&mut recorder, &[pod("a", None, "Pending")]);
    for (node, phase) in [
        (Some("rack-2"), "Pending"),
        (Some("rack-2"), "Running"),
        (Some("rack-2"), "Running"),
        (Some("rack-2"), "Succeeded"),
    ] {
        recorder.see_pod(Some(Seen::Apply(pod("a", node, phase)))).unwrap();
    }
    recorder.see_pod(Some(Seen::Delete(pod("a", Some("rack-2"), "Succeeded")))).unwrap();
    recorder.see_node(Some(Seen::Apply(node("rack-1", "4")))).unwrap();
    recorder.see_node(Some(Seen::Apply(node("rack-1", "3")))).unwrap();
    recorder.see_node(Some(Seen::Delete(node("rack-1", "3")))).unwrap();
    assert_eq!(
        events(file.path()),
        [
            "0 begin",
            "node n0 4000",
            "node n1 4000",
            "10 pod p2 250",
            "12 bound p2 n1",
            "15 started p2",
            "60 ended p2",
            "node n0 3000",
            "gone n0",
        ]
    );
}

#[test]
fn no_name_namespace_image_or_label_of_the_cluster_is_in_the_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut recorder = recorder(file.path());
    see_nodes(&mut recorder, &[node("rack-1", "4")]);
    list_pods(&mut recorder, &[pod("wages", Some("rack-1"), "Running")]);
    recorder.see_pod(Some(Seen::Delete(pod("wages", Some("rack-1"), "Running")))).unwrap();
    let text = fs::read_to_string(file.path()).unwrap();
    for real in ["rack", "wages", "payroll", "ledger", "registry", "hostname", "uid"] {
        assert!(!text.contains(real), "{real} is in {text}");
    }
    assert_eq!(text.lines().count(), 7, "{text}");
}

#[test]
fn what_went_while_a_watch_was_away_is_seen_in_the_next_list() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut recorder = recorder(file.path());
    see_nodes(&mut recorder, &[node("rack-1", "4"), node("rack-2", "4")]);
    list_pods(&mut recorder, &[pod("a", Some("rack-1"), "Running"), pod("b", Some("rack-1"), "Running")]);
    see_nodes(&mut recorder, &[node("rack-1", "4")]);
    let short_lived = pod("c", Some("rack-1"), "Succeeded");
    list_pods(&mut recorder, &[pod("a", Some("rack-1"), "Running"), short_lived]);
    assert_eq!(
        events(file.path())[9..],
        ["gone n1", "10 pod p4 250", "12 bound p4 n0", "15 started p4", "60 ended p4", "ended p3"]
    );
}

#[test]
fn what_ended_before_the_recording_began_is_no_part_of_it() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut recorder = Recorder::open(file.path().to_owned(), LIMIT, Vec::new()).unwrap();
    recorder.write([Line { time: at(100), event: Event::Begin }]).unwrap();
    see_nodes(&mut recorder, &[node("rack-1", "4")]);
    list_pods(&mut recorder, &[pod("a", Some("rack-1"), "Succeeded"), pod("b", Some("rack-1"), "Running")]);
    let events = events(file.path());
    assert_eq!(events[2..], ["10 pod p1 250", "12 bound p1 n0", "15 started p1"], "{events:?}");
}

#[test]
fn a_recorder_goes_on_after_one_that_was_killed_in_the_middle_of_a_line() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut first = recorder(file.path());
    see_nodes(&mut first, &[node("rack-1", "4")]);
    list_pods(
        &mut first,
        &[
            pod("a", Some("rack-1"), "Running"),
            pod("b", Some("rack-1"), "Running"),
            pod("done", Some("rack-1"), "Succeeded"),
        ],
    );
    drop(first);
    let before = events(file.path());
    let half = Line { time: at(70), event: Event::Mark }.text();
    let mut appended = fs::OpenOptions::new().append(true).open(file.path()).unwrap();
    appended.write_all(&half.as_bytes()[..half.len() - 4]).unwrap();

    let mut second = recorder(file.path());
    see_nodes(&mut second, &[node("rack-1", "4")]);
    list_pods(
        &mut second,
        &[
            pod("a", Some("rack-1"), "Succeeded"),
            pod("done", Some("rack-1"), "Succeeded"),
            pod("new", None, "Pending"),
        ],
    );
    let all = events(file.path());
    assert_eq!(all[..before.len()], before);
    // Of b nobody knows when it went.
    assert_eq!(all[before.len()..], ["0 begin", "60 ended p1", "10 pod p4 250", "ended p2"], "{all:?}");
    let text = fs::read_to_string(file.path()).unwrap();
    assert_eq!(text.matches("time,event").count(), 1, "one header");
}

#[test]
fn half_a_header_is_written_again_and_another_file_is_left_alone() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), &HEADER[..9]).unwrap();
    drop(recorder(file.path()));
    assert_eq!(events(file.path()), ["0 begin"]);
    for other in ["apiVersion: v1\nkind: Pod\n", "notes without an end", "time,event\n"] {
        fs::write(file.path(), other).unwrap();
        let error = Recorder::open(file.path().to_owned(), LIMIT, Vec::new()).unwrap_err().to_string();
        assert!(error.contains("line 1: it is not the header of a recording"), "{other}: {error}");
        assert_eq!(fs::read_to_string(file.path()).unwrap(), other);
    }
    fs::write(file.path(), format!("{HEADER}2026-01-01T00:00:00Z,mark\n")).unwrap();
    let error = Recorder::open(file.path().to_owned(), LIMIT, Vec::new()).unwrap_err().to_string();
    assert!(error.contains("line 2: it has 2 columns"), "{error}");
    let error = Recorder::open("/nowhere/week.trace".into(), LIMIT, Vec::new()).unwrap_err().to_string();
    assert!(error.starts_with("/nowhere/week.trace cannot be recorded into"), "{error}");
}

#[test]
fn two_recorders_do_not_write_into_one_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let _first = recorder(file.path());
    let error = Recorder::open(file.path().to_owned(), LIMIT, Vec::new()).unwrap_err().to_string();
    assert!(error.contains("is being recorded into by another process"), "{error}");
}

#[test]
fn a_file_never_grows_beyond_its_limit_and_says_when_it_is_full() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let arrival = |number: usize| {
        let name = format!("pod-{number:016x}");
        let pod = Pod { name, cpu_milli: 1, memory_mib: 1, gpus: 0, priority: 0, class: Class::Ordinary };
        Line { time: at(1), event: Event::Pod(pod) }
    };
    let limit = 10_000;
    let open = |limit| Recorder::open(file.path().to_owned(), limit, Vec::new()).unwrap();
    let mut recorder = open(limit);
    let mut number = 0;
    while recorder.write([arrival(number)]).unwrap() == Written::Yes {
        number += 1;
        assert!(number < 1000, "it never became full");
    }
    drop(recorder);
    let size = |path| fs::metadata(path).unwrap().len();
    let filled = size(file.path());
    assert!(filled <= limit && filled > limit - 200, "{filled}");
    let events_before = events(file.path());
    assert_eq!(events_before.len(), number + 1);
    assert!(events_before[number].ends_with("full"));

    let mut again = open(limit + 300);
    assert_eq!(again.write([Line { time: at(2), event: Event::Begin }]).unwrap(), Written::Full);
    drop(again);
    assert_eq!(size(file.path()), filled, "it is full for every recorder");

    let mut larger = open(LIMIT);
    assert_eq!(larger.write([Line { time: at(2), event: Event::Begin }]).unwrap(), Written::Yes);
    assert!(size(file.path()) > filled);
}

#[test]
fn use_is_written_when_it_has_changed_by_a_tenth() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut recorder = recorder(file.path());
    see_nodes(&mut recorder, &[node("rack-1", "4")]);
    list_pods(&mut recorder, &[pod("a", Some("rack-1"), "Running")]);
    let usage = |name: &str, cpu_milli, mib: i64| PodUsage {
        pod: Key::new("payroll", name),
        time: at(20),
        cpu_milli,
        memory_bytes: mib << 20,
    };
    for (cpu, memory) in [(100, 50), (149, 60), (150, 60), (150, 124), (2000, 124), (2150, 124), (1800, 124)]
    {
        recorder.see_use(&[usage("a", cpu, memory), usage("unknown", 5, 5)]).unwrap();
    }
    let uses: Vec<String> = events(file.path()).into_iter().filter(|event| event.contains("use")).collect();
    assert_eq!(uses, ["20 use p1 100", "20 use p1 150", "20 use p1 150", "20 use p1 2000", "20 use p1 1800"]);
}
