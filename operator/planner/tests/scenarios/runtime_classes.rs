//! RuntimeClasses: what they take of a node counts from the start, and they move no pod out of the pool.

use scavenger_planner::{
    fixtures::{node, runtime_class, seconds, settings, sj},
    values::{Observation, Phase, RuntimeClass, ScavengerJob, Settings, WaitingReason},
};
use scavenger_simulator::{Cluster, Stream};

use super::{attempt, completed, work};

/// Two nodes of 10 cpu. The second has a label, and a taint for pods in sandboxes.
fn cluster(settings: Settings) -> Cluster {
    let sandbox = node("n2", 10_000).labelled("sandbox", "yes").tainted("sandbox");
    Cluster::new(settings.filled_to(1.0)).with_nodes([node("n1", 10_000), sandbox])
}

/// A class for the nodes with sandboxes, as GKE has one for gVisor.
fn sandboxed() -> RuntimeClass {
    runtime_class("gvisor").only_on("sandbox", "yes").tolerating(Some("sandbox"))
}

/// A pool that allows it.
fn allowing() -> Settings {
    let allowed_runtime_classes = vec!["gvisor".into()];
    Settings { allowed_runtime_classes, tolerated_taints: vec!["sandbox".into()], ..settings() }
}

fn in_class(name: &str, class: &str, cpu_milli: i64) -> ScavengerJob {
    sj(name).asking(cpu_milli).with_runtime_class(class)
}

fn says(cluster: &Cluster, name: &str, message: &str) -> bool {
    let waiting = cluster.status(name).admitted.as_ref().and_then(|admitted| admitted.waiting.as_ref());
    waiting.is_some_and(|waiting| waiting.reason == WaitingReason::Refused && waiting.message == message)
}

#[test]
fn a_class_that_chooses_no_nodes_is_allowed_and_its_overhead_counts_from_the_start() {
    let mut cluster = cluster(settings());
    cluster.set_runtime_class(runtime_class("kata").taking(250));
    cluster.run_for(seconds(1));
    // Each takes 2.75 cpu, so three of them fit and a fourth would only do by what its containers request.
    for name in ["a", "b", "c", "d"] {
        cluster.submit(in_class(name, "kata", 2500), work(100));
    }
    for name in ["a", "b", "c"] {
        cluster.run_until_phase(name, Phase::Running);
        // As a container's limit, to which what it uses is compared.
        assert_eq!(attempt(&cluster, name).demand.per_pod.cpu_milli, 2500);
    }
    cluster.run_for(seconds(30));
    assert_eq!(cluster.waits("d"), Some(WaitingReason::NoCapacity), "{}", cluster.history());
    assert_eq!(cluster.starts.len(), 3, "none was started in vain\n{}", cluster.history());
    completed(&mut cluster, "d");
}

#[test]
fn the_overhead_of_a_start_is_held_across_a_restart() {
    let mut cluster = cluster(settings());
    cluster.set_runtime_class(runtime_class("kata").taking(4000));
    cluster.scheduler_works = false;
    cluster.submit(in_class("a", "kata", 4000), work(100));
    cluster.run_until_phase("a", Phase::Starting);
    cluster.restart(true);
    assert_eq!(cluster.planner.ledger().total().cpu_milli, 8000);
    cluster.submit(sj("b").asking(4000), work(100));
    cluster.run_for(seconds(10));
    assert_eq!(cluster.waits("b"), Some(WaitingReason::NoCapacity));
    cluster.scheduler_works = true;
    cluster.run_until_phase("b", Phase::Completed);
}

#[test]
fn where_the_planner_chooses_the_node_the_overhead_counts_too() {
    let mut cluster = cluster(settings().with_group("boxes", ("sandbox", "yes"), 0.1));
    cluster.set_runtime_class(runtime_class("kata").taking(250));
    cluster.run_for(seconds(1));
    for name in ["a", "b", "c", "d"] {
        cluster.submit(in_class(name, "kata", 2500), work(100));
    }
    cluster.run_until_phase("c", Phase::Running);
    cluster.run_for(seconds(30));
    assert_eq!(cluster.waits("d"), Some(WaitingReason::NoCapacity), "{}", cluster.history());
    completed(&mut cluster, "d");
}

#[test]
fn a_class_that_chooses_nodes_is_refused_until_the_pool_allows_it() {
    let mut cluster = cluster(settings());
    cluster.set_runtime_class(sandboxed());
    cluster.run_for(seconds(1));
    cluster.submit(in_class("a", "gvisor", 1000), work(50));
    cluster.run_for(seconds(3600));
    let refused = "the ScavengerPool does not allow RuntimeClass \"gvisor\", which has a say in where pods go \
                   (scheduling); an admin must name it in limits.allowedRuntimeClasses";
    assert!(says(&cluster, "a", refused), "{:?}", cluster.status("a"));
    assert!(cluster.starts.is_empty(), "no start is tried in vain");
    // Allowed, its toleration still opens a node that is not of the pool.
    cluster.set_pool(Ok(Settings { tolerated_taints: Vec::new(), ..allowing().filled_to(1.0) }));
    cluster.run_for(seconds(60));
    let beyond = "RuntimeClass \"gvisor\" tolerates taint sandbox, which is not among toleratedTaints of the ScavengerPool";
    assert!(says(&cluster, "a", beyond), "{:?}", cluster.status("a"));
    cluster.set_pool(Ok(allowing().filled_to(1.0)));
    cluster.run_until_phase("a", Phase::Running);
    assert_eq!(cluster.live_pods("a")[0].node.as_deref(), Some("n2"));
    completed(&mut cluster, "a");
    assert_eq!(cluster.status("a").counted_interruptions, 0);
}

#[test]
fn capacity_counts_only_where_a_class_lets_pods_go() {
    let mut cluster = cluster(allowing());
    cluster.set_runtime_class(sandboxed());
    cluster.submit(in_class("first", "gvisor", 8000), work(200));
    cluster.run_until_phase("first", Phase::Running);
    cluster.submit(in_class("second", "gvisor", 8000), work(50));
    cluster.run_for(seconds(100));
    assert_eq!(cluster.waits("second"), Some(WaitingReason::NoCapacity), "{}", cluster.history());
    assert_eq!(cluster.starts.len(), 1, "the empty node is none for it");
    cluster.submit(sj("plain").asking(8000), work(50));
    cluster.run_until_phase("plain", Phase::Running);
    completed(&mut cluster, "second");
}

#[test]
fn a_class_that_tolerates_everything_is_never_allowed() {
    let mut cluster = cluster(allowing());
    cluster.set_runtime_class(runtime_class("gvisor").tolerating(None));
    cluster.run_for(seconds(1));
    cluster.submit(in_class("a", "gvisor", 1000), work(50));
    cluster.run_for(seconds(100));
    let refused = "RuntimeClass \"gvisor\" tolerates taints of every key, and so nodes outside the ScavengerPool; its \
                   tolerations must name keys of toleratedTaints";
    assert!(says(&cluster, "a", refused), "{:?}", cluster.status("a"));
}

#[test]
fn a_class_that_asks_for_another_node_than_the_spec_is_refused() {
    let mut cluster = cluster(allowing());
    cluster.set_runtime_class(sandboxed());
    cluster.run_for(seconds(1));
    cluster.submit(sj("a").only_on("sandbox", "no").with_runtime_class("gvisor"), work(50));
    cluster.run_for(seconds(100));
    let refused = "spec.nodeSelector asks for another value of sandbox than RuntimeClass \"gvisor\" does";
    assert!(says(&cluster, "a", refused), "{:?}", cluster.status("a"));
}

#[test]
fn a_class_that_is_not_there_is_waited_for_and_no_start_is_tried() {
    let mut cluster = cluster(settings());
    cluster.submit(in_class("a", "nvidia", 1000), work(50));
    cluster.run_for(seconds(2 * 24 * 3600));
    assert!(
        says(&cluster, "a", "RuntimeClass \"nvidia\" does not exist; waits until it does"),
        "{:?}",
        cluster.status("a")
    );
    assert!(cluster.starts.is_empty());
    let writes = cluster.log.len();
    cluster.run_for(seconds(24 * 3600));
    assert_eq!(cluster.log.len(), writes, "nothing is done until it comes");
    cluster.set_runtime_class(runtime_class("nvidia"));
    cluster.run_until_phase("a", Phase::Running);
    // Taken away again, as with an operator of devices that is installed again, it takes nothing from what runs.
    cluster.remove_runtime_class("nvidia");
    completed(&mut cluster, "a");
}

#[test]
fn a_class_that_goes_while_a_start_is_under_way_is_refused_by_the_api_server_and_tried_again() {
    let mut cluster = cluster(settings());
    cluster.set_runtime_class(runtime_class("nvidia"));
    cluster.run_for(seconds(1));
    cluster.hold_watch(Stream::Nodes);
    cluster.remove_runtime_class("nvidia");
    cluster.submit(in_class("a", "nvidia", 1000), work(50));
    cluster.run_until("it waits for that", |cluster| cluster.waits("a") == Some(WaitingReason::Refused));
    assert!(cluster.status("a").not_before.is_some(), "after a delay");
    cluster.set_runtime_class(runtime_class("nvidia"));
    cluster.let_go(Stream::Nodes);
    completed(&mut cluster, "a");
}

#[test]
fn while_classes_cannot_be_listed_only_those_wait_whose_class_is_not_known() {
    let mut cluster = cluster(settings());
    cluster.set_runtime_class(runtime_class("known"));
    cluster.run_for(seconds(1));
    cluster.planner.observe(Observation::RuntimeClassesKnown(false), cluster.now);
    for name in ["known", "unknown"] {
        cluster.submit(in_class(name, name, 1000), work(50));
    }
    cluster.submit(sj("plain").asking(1000), work(50));
    cluster.run_until_phase("plain", Phase::Running);
    cluster.run_until_phase("known", Phase::Running);
    cluster.run_for(seconds(60));
    let unknown = "RuntimeClass \"unknown\" is not known; waits until the operator can list RuntimeClasses";
    assert!(says(&cluster, "unknown", unknown), "{:?}", cluster.status("unknown"));
    cluster.planner.observe(Observation::RuntimeClassesKnown(true), cluster.now);
    cluster.run_for(seconds(10));
    let missing = "RuntimeClass \"unknown\" does not exist; waits until it does";
    assert!(says(&cluster, "unknown", missing), "{:?}", cluster.status("unknown"));
}

#[test]
fn a_class_that_changes_counts_for_those_that_wait() {
    let mut cluster = cluster(settings());
    cluster.set_runtime_class(runtime_class("kata"));
    cluster.submit(sj("first").asking(5000), work(100));
    cluster.run_until_phase("first", Phase::Running);
    cluster.submit(in_class("a", "kata", 6000), work(50));
    cluster.run_for(seconds(10));
    assert_eq!(cluster.waits("a"), Some(WaitingReason::NoCapacity));
    cluster.set_runtime_class(runtime_class("kata").taking(5000));
    cluster.run_for(seconds(10));
    assert_eq!(cluster.waits("a"), Some(WaitingReason::NeverFits), "{:?}", cluster.status("a"));
    cluster.set_runtime_class(runtime_class("kata").taking(100));
    completed(&mut cluster, "a");
}
