//! What a change of the pool does to a live cluster. The cluster is the simulator's, and the file is written as the operator writes
//! it.

use std::{fs, path::Path};

use scavenger_laboratory::pool::Pool;
use scavenger_planner::{
    fixtures::{node, seconds, sj},
    values::{Observation, PreemptionMode, Settings},
};
use scavenger_simulator::{Cluster, Workload};
use scavenger_specs::snapshot::{self, Header, VERSION};
use serde_json::Value;
use tempfile::NamedTempFile;

use super::command_line::simulate;

/// Ten ScavengerJobs of one core run on two nodes of eight, for ten minutes, in a pool with all defaults.
fn busy() -> Cluster {
    let nodes = ["n1", "n2"].map(|name| node(name, 8000).labelled("name", name));
    let mut cluster = Cluster::new(Pool::usual(PreemptionMode::Scheduler).settings).with_nodes(nodes);
    for number in 0..10 {
        cluster
            .submit(sj(&format!("a{number}")), Workload { needs: seconds(100_000), ..Workload::default() });
    }
    cluster.run_for(seconds(600));
    assert_eq!(cluster.all_live_pods().len(), 10);
    cluster
}

fn written(cluster: &Cluster, observations: &[Observation]) -> String {
    let header = Header {
        snapshot_time: cluster.now,
        operator_version: VERSION.to_owned(),
        observations: None,
        node_agents: None,
    };
    let mut out = Vec::new();
    snapshot::write(header, observations, &mut out).expect("it should be written");
    String::from_utf8(out).expect("it should be text")
}

fn file(text: &str, suffix: &str) -> NamedTempFile {
    let file = NamedTempFile::with_suffix(suffix).expect("a file should be made");
    fs::write(file.path(), text).expect("the file should take it");
    file
}

fn snapshot(cluster: &Cluster) -> NamedTempFile {
    file(&written(cluster, &cluster.objects()), ".json")
}

fn pool(spec: &str) -> NamedTempFile {
    let head = "apiVersion: scavenger.dev/v1alpha1\nkind: ScavengerPool\nmetadata: { name: default }\n";
    file(&format!("{head}spec: {spec}\n"), ".yaml")
}

fn path(file: &NamedTempFile) -> &str {
    text(file.path())
}

fn text(path: &Path) -> &str {
    path.to_str().expect("it should be text")
}

/// The document, and the exit status with `--exit-code`.
fn play(cluster: &Cluster, spec: Option<&str>) -> (Value, Option<i32>) {
    let (snapshot, pool) = (snapshot(cluster), spec.map(pool));
    let mut arguments = vec!["--snapshot", path(&snapshot), "-o", "json", "--exit-code"];
    if let Some(pool) = &pool {
        arguments.extend(["--pool", path(pool)]);
    }
    let (status, stdout, stderr) = simulate(&arguments);
    assert_eq!(stderr, "");
    (serde_json::from_str(&stdout).expect("it should be JSON"), status)
}

/// When, who, what and why.
fn said(document: &Value, due_to: Option<&str>) -> Vec<(i64, String, String)> {
    let events = document["events"].as_array().expect("there should be events").iter();
    let events = events.filter(|event| event["dueTo"].as_str() == due_to);
    events
        .map(|event| {
            let word = |field: &str| event[field].as_str().expect(field).to_owned();
            let seconds = event["seconds"].as_i64().expect("it has a time");
            (seconds, word("event"), word("reason"))
        })
        .collect()
}

#[test]
fn a_lower_threshold_interrupts_in_rounds_as_the_budgets_say() {
    let spec = "{ startThreshold: 0.3, headroomTarget: 0.35, interruptThreshold: 0.36, \
                disruptionBudgets: [{ jobs: 2, period: 100s }] }";
    let (document, status) = play(&busy(), Some(spec));
    // 35% of 16 cores are 5.6.
    let interrupted = said(&document, Some("change"));
    assert!(
        interrupted.iter().all(|(_, what, reason)| what == "Interrupted" && reason == "Headroom"),
        "{document:#}"
    );
    let times: Vec<i64> = interrupted.iter().map(|(time, ..)| *time / 10 * 10).collect();
    assert_eq!(times, [0, 0, 100, 100, 200], "{document:#}");
    assert_eq!(status, Some(3));
    let (changed, unchanged) = (&document["changed"], &document["unchanged"]);
    assert_eq!(
        (&changed["events"]["Interrupted"], &unchanged["events"]["Interrupted"]),
        (&5.into(), &0.into())
    );
    assert_eq!((changed["activeAtEnd"].as_u64(), unchanged["activeAtEnd"].as_u64()), (Some(5), Some(10)));
    // Each of them saves every minute, and has one core.
    for event in document["events"].as_array().unwrap() {
        let lost = event["lostCoreSeconds"].as_f64().unwrap();
        assert!((0.0..60.0).contains(&lost) && event["nodes"].as_array().unwrap().len() == 1, "{event}");
    }
    let lost = changed["lostCoreHours"].as_f64().unwrap();
    assert!(lost > 0.0 && lost < 5.0 * 60.0 / 3600.0, "{document:#}");
    assert_eq!(changed["reasons"]["Headroom"], 5);
}

#[test]
fn a_node_that_is_taken_from_the_pool_is_cleared_after_a_minute() {
    let cluster = busy();
    let there = cluster.all_live_pods().iter().filter(|pod| pod.place() == Some(&"n1".into())).count();
    let (document, status) = play(&cluster, Some("{ nodeSelector: { name: n2 } }"));
    let left: Vec<_> =
        said(&document, Some("change")).into_iter().filter(|(_, what, _)| what == "Interrupted").collect();
    assert_eq!((left.len(), status), (there, Some(3)), "{document:#}");
    assert!(
        left.iter().all(|(time, _, reason)| (60..80).contains(time) && reason == "NodeLeftPool"),
        "{left:?}"
    );
    assert!(
        document.to_string().contains("node n1 does not belong to the pool any more: it lacks label name=n2")
    );
}

#[test]
fn a_pool_that_stays_as_it_is_changes_nothing() {
    let cluster = busy();
    for spec in [None, Some("{}")] {
        let (document, status) = play(&cluster, spec);
        assert_eq!(status, Some(0), "{document:#}");
        assert_eq!(
            (document["events"].as_array().map(Vec::len), &document["differs"]),
            (Some(0), &Value::Bool(false))
        );
    }
    let (snapshot, pool) = (snapshot(&cluster), pool("{}"));
    let (status, table, stderr) = simulate(&["--snapshot", path(&snapshot), "--pool", path(&pool)]);
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    assert!(table.contains("Nothing happens to any ScavengerJob."), "{table}");
}

#[test]
fn what_happens_anyway_is_not_held_against_the_change() {
    let mut cluster = busy();
    // It is looked at before the operator sees these. One of them fits below 70% of 16 cores.
    for name in ["b0", "b1", "b2"] {
        cluster.submit(sj(name), Workload::default());
    }
    let (document, status) = play(&cluster, Some("{ startThreshold: 0.8 }"));
    let started =
        |due_to| said(&document, Some(due_to)).into_iter().map(|(_, what, _)| what).collect::<Vec<_>>();
    assert_eq!(
        (started("anyway"), started("change")),
        (vec!["Started".to_owned()], vec!["Started".to_owned()])
    );
    assert_eq!((status, document["unchanged"]["waitingAtEnd"].as_u64()), (Some(3), Some(2)), "{document:#}");
    let (document, status) = play(&cluster, Some("{ startThreshold: 0.72 }"));
    assert_eq!((said(&document, Some("anyway")).len(), status), (1, Some(0)), "{document:#}");
    let (document, status) = play(&cluster, None);
    assert_eq!((said(&document, None).len(), status), (1, Some(3)), "{document:#}");
    // A pool that starts nothing prevents what would happen.
    let (document, _) = play(&cluster, Some("{ paused: true }"));
    assert_eq!(said(&document, Some("onlyWithout")).len(), 1, "{document:#}");
}

#[test]
fn a_person_reads_a_table_that_says_what_it_leaves_out() {
    let (snapshot, pool) = (snapshot(&busy()), pool("{ nodeSelector: { name: n2 } }"));
    let arguments = ["--snapshot", path(&snapshot), "--pool", path(&pool)];
    let (status, table, stderr) = simulate(&arguments);
    assert_eq!((status, stderr.as_str()), (Some(0), ""), "a status of 3 needs --exit-code");
    assert_eq!(simulate(&arguments).1, table, "the same bytes again");
    for said in [
        "| after   | ScavengerJob |",
        "| Interrupted | NodeLeftPool |",
        "| the change |",
        "| with the change | without |",
        "lost core hours",
        "This assumes that nothing else happens",
    ] {
        assert!(table.contains(said), "{said} is missing:\n{table}");
    }
    assert!(table.lines().all(|line| line.chars().count() <= 140), "{table}");
    let (_, short, _) = simulate(&[&arguments[..], &["--limit", "2"]].concat());
    assert!(short.contains("Left out (--limit): "), "{short}");
    assert_eq!(short.lines().filter(|line| line.starts_with("| 0:0")).count(), 2, "{short}");
}

#[test]
fn what_cannot_be_played_is_said_in_one_sentence() {
    let cluster = busy();
    let objects = cluster.objects();
    let whole = written(&cluster, &objects);
    let by_use = Settings::by_use(Pool::usual(PreemptionMode::Scheduler).settings);
    let by_use = written(&cluster, &[Observation::Pool(Box::new(Ok(by_use)))]);
    let (first, _) = whole.trim_end().rsplit_once('\n').unwrap();
    let object = cluster.stored_sj("a0").resource_version;
    let last = whole.replacen(
        &format!("\"resource_version\":{object}"),
        "\"resource_version\":18446744073709551615",
        1,
    );
    let many = whole.replacen("\"pod_count\":1", "\"pod_count\":4000000000", 1);
    let late = whole.replacen(&cluster.now.to_string(), "9999-01-01T00:00:00Z", 1);
    for (text, said) in [
        ("", "is empty"),
        ("kind: List\n", "line 1 does not begin a snapshot"),
        (&whole[..whole.len() - 20], "is not an observation"),
        (first, "it was cut short; take the snapshot again"),
        (&format!("{whole}{{\"Nothing\":1}}\n"), "is not an observation"),
        (&whole.replacen(VERSION, "7.8.9", 1), "scavenger-operator 7.8.9 wrote it"),
        (&by_use, "spec.accounting of its ScavengerPool is Usage"),
        (&many, "ScavengerJob lab/a0 has 4000000000 pods, and 1000 are the most"),
        (&late, "is too late"),
        (&last, "cannot be played: what it shows contradicts itself"),
    ] {
        let file = file(text, ".json");
        let (status, stdout, stderr) = simulate(&["--snapshot", path(&file)]);
        assert_eq!(status, Some(2), "{said}: {stderr}");
        assert!(
            stdout.is_empty() && stderr.contains(said) && stderr.contains(path(&file)),
            "{said}: {stderr}"
        );
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
    let good = file(&whole, ".json");
    let (bad, fine) = (pool("{ startThreshold: 0.99 }"), pool("{}"));
    for (more, said) in [
        (&["--pool", path(&bad)][..], "spec.headroomTarget of cpu must be at least its start threshold"),
        (&["--pool", path(&fine), "--pool", path(&fine)], "--snapshot plays one change: name one --pool"),
        (&["--hours", "0"], "--hours"),
        (&["--seeds", "3"], "--seeds"),
    ] {
        let (status, stdout, stderr) = simulate(&[&["--snapshot", path(&good)], more].concat());
        assert!(status == Some(2) && stdout.is_empty() && stderr.contains(said), "{more:?}: {stderr}");
    }
    let (status, _, stderr) = simulate(&["--scenario", "steady", "--exit-code"]);
    assert!(status == Some(2) && stderr.contains("--exit-code"), "{stderr}");
}
