//! Nodes on which nothing starts, in whatever form that shows, beside others that are well; and what looks like it and
//! is the fault of a registry, a storage or a ScavengerJob.

use scavenger_planner::{
    fixtures::{at, key, node, seconds, settings, sj, warning},
    values::{Outcome, Phase, Reason, ScavengerJob, Settings},
};
use scavenger_simulator::{Cluster, Ill, Workload};

use super::{attempt, completed, outcome, work};

const DISK: &str =
    "failed to create containerd container: mkdir /var/lib/containerd/x: no space left on device";
const TIMEOUT: &str = "failed to pull image \"r.io/a:1\": dial tcp 10.0.0.1:443: i/o timeout";

fn creates(reason: &str, message: &str) -> Ill {
    Ill::Creates(reason.to_owned(), message.to_owned())
}

/// Ten nodes of 10 cpu. The first is ill.
fn ten_nodes(settings: Settings, ill: Ill) -> Cluster {
    let nodes = (1..=10).map(|number| node(&format!("n{number:02}"), 10_000));
    let mut cluster = Cluster::new(settings.filled_to(1.0)).with_nodes(nodes);
    cluster.strict = false;
    cluster.pod_event =
        Some(warning("FailedCreatePodSandBox", "plugin type=\"calico\" failed (add): connection refused"));
    cluster.ill_nodes.insert("n01".into(), ill);
    cluster
}

fn closed(cluster: &Cluster) -> Vec<String> {
    cluster.planner.pool_report(cluster.now).closed_nodes.iter().map(|(node, _)| node.to_string()).collect()
}

fn running(cluster: &Cluster) -> usize {
    cluster.scavenger_jobs().filter(|sj| sj.status.phase == Phase::Running).count()
}

/// Submits a hundred of 0.9 cpu, and says after how many seconds all run.
fn until_all_run(cluster: &mut Cluster, change: impl Fn(ScavengerJob) -> ScavengerJob) -> i64 {
    for number in 0..100 {
        cluster.submit(change(sj(&format!("job{number:02}")).asking(900)), work(100_000));
    }
    cluster.run_until("all run", |cluster| running(cluster) == 100);
    assert!(cluster.scavenger_jobs().all(|sj| sj.status.interrupted_count == 0));
    cluster.now.duration_since(at(0)).as_secs()
}

#[test]
fn a_hundred_run_soon_beside_a_node_that_starts_nothing_whatever_it_says() {
    for (ill, limit) in [
        (creates("CreateContainerError", DISK), 100),
        (creates("ErrImagePull", TIMEOUT), 100),
        (creates("ErrImageNeverPull", "Container image \"a\" is not present with pull policy of Never"), 100),
        (Ill::Refuses("UnexpectedAdmissionError".to_owned()), 30),
        (Ill::Refuses("OutOfpods".to_owned()), 30),
        (Ill::IsSilent, 400),
    ] {
        let mut cluster = ten_nodes(settings(), ill.clone());
        for number in 11..=12 {
            cluster.set_node(node(&format!("n{number}"), 10_000));
        }
        let time = until_all_run(&mut cluster, |sj| sj);
        assert_eq!(closed(&cluster), ["n01"], "{ill:?}");
        assert!(time <= limit, "{ill:?}: {time} s");
    }
}

#[test]
fn a_node_that_is_tried_again_and_still_starts_nothing_costs_seconds() {
    let mut cluster = ten_nodes(settings(), creates("CreateContainerError", DISK));
    // More than the others can take.
    for number in 0..120 {
        cluster.submit(sj(&format!("job{number:03}")).asking(900), work(100_000));
    }
    cluster.run_until("the node is closed", |cluster| closed(cluster) == ["n01"]);
    cluster.run_until("it is tried again", |cluster| closed(cluster).is_empty());
    let tried = cluster.now;
    cluster.run_until("it is closed again", |cluster| closed(cluster) == ["n01"]);
    let time = cluster.now.duration_since(tried);
    assert!(time < seconds(10), "{time}");
    assert!(!cluster.scavenger_jobs().any(|sj| sj.status.phase == Phase::Failed));
    // Mended, it takes them when its time is over.
    cluster.ill_nodes.clear();
    cluster.run_until("it takes them", |cluster| running(cluster) == 110);
}

#[test]
fn one_that_is_broken_closes_no_node() {
    for ill in [("CreateContainerError", DISK), ("ErrImagePull", TIMEOUT)] {
        let mut cluster = ten_nodes(settings(), Ill::IsSilent);
        cluster.ill_nodes.clear();
        let stuck = Some((ill.0.to_owned(), ill.1.to_owned()));
        cluster.submit(sj("broken"), Workload { stuck, ..work(10) });
        for number in 0..200 {
            cluster.submit(sj(&format!("good{number}")), work(100));
            cluster.run_for(seconds(60));
            assert!(closed(&cluster).is_empty(), "{:?}", closed(&cluster));
        }
        assert!(cluster.status("broken").failed_starts > 5);
    }
}

#[test]
fn a_registry_or_a_storage_that_is_away_closes_no_node_for_long() {
    for stuck in [Some(("ErrImagePull".to_owned(), TIMEOUT.to_owned())), None] {
        let mut cluster = ten_nodes(settings(), Ill::IsSilent);
        cluster.ill_nodes.clear();
        // They have run everywhere.
        for number in 0..10 {
            cluster.submit(sj(&format!("before{number}")), work(10));
        }
        cluster.run_for(seconds(60));
        if stuck.is_none() {
            let nodes: Vec<_> = cluster.all_nodes().map(|node| node.name.clone()).collect();
            cluster.ill_nodes.extend(nodes.into_iter().map(|node| (node, Ill::IsSilent)));
        }
        for number in 0..40 {
            let workload = Workload { stuck: stuck.clone(), ..work(100_000) };
            cluster.submit(sj(&format!("job{number}")), workload);
        }
        for _ in 0..120 {
            cluster.run_for(seconds(30));
            assert!(closed(&cluster).len() <= 1, "{:?}", closed(&cluster));
        }
        cluster.ill_nodes.clear();
        for number in 0..40 {
            cluster.let_start(&format!("job{number}"));
        }
        cluster.run_until("all run", |cluster| running(cluster) == 40);
    }
}

#[test]
fn an_image_that_other_nodes_have_fails_nobody_where_one_node_does_not_get_it() {
    let denied = "pull access denied, repository does not exist or may require authorization";
    let mut cluster = ten_nodes(settings(), creates("ErrImagePull", denied));
    until_all_run(&mut cluster.with_nodes([node("n11", 10_000), node("n12", 10_000)]), |sj| sj);
    // Where nobody gets it, it is not there.
    cluster = ten_nodes(settings(), Ill::IsSilent);
    cluster.ill_nodes.clear();
    let stuck = Some(("ErrImagePull".to_owned(), denied.to_owned()));
    cluster.submit(sj("a"), Workload { stuck, ..work(10) });
    cluster.run_until_phase("a", Phase::Failed);
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Failed), Reason::ContainerNotCreated));
}

#[test]
fn a_node_that_cannot_pull_the_supervisor_is_closed_and_the_namespace_keeps_it() {
    let mut cluster = ten_nodes(settings().supervising(), creates("ErrImagePull", TIMEOUT))
        .with_nodes([node("n11", 10_000), node("n12", 10_000)]);
    until_all_run(&mut cluster, ScavengerJob::watched);
    assert_eq!(closed(&cluster), ["n01"]);
    assert!(cluster.planner.pool_report(cluster.now).without_supervisor.is_some_and(|held| held.is_empty()));
    let supervised = cluster.scavenger_jobs().filter(|sj| attempt(&cluster, &sj.key.name).supervised).count();
    assert!(supervised >= 98, "{supervised}");
}

#[test]
fn one_that_runs_after_its_node_was_refused_to_it_is_completed() {
    let mut cluster = ten_nodes(settings(), Ill::Refuses("UnexpectedAdmissionError".to_owned()));
    cluster.submit(sj("a"), work(10));
    cluster.run_until("it is withdrawn", |cluster| cluster.status("a").failed_starts > 0);
    assert!(cluster.pod("a-1-0").is_none_or(|pod| pod.key == key("a-1-0")));
    cluster.ill_nodes.clear();
    completed(&mut cluster, "a");
}
