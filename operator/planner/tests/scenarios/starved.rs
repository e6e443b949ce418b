//! ScavengerJobs that get next to no processor time beside busy ordinary pods.

use scavenger_planner::{
    fixtures::{node, pod, seconds, settings, sj},
    values::{Outcome, Phase, Reason, ScavengerJob},
};
use scavenger_simulator::{Cluster, Workload};

use super::{attempt, outcome, work};

const REPORT: i64 = 600;

fn watched(name: &str) -> ScavengerJob {
    sj(name).interruptible_after(seconds(7200)).watched()
}

/// One that runs on n1.
fn running_on_n1() -> Cluster {
    let mut cluster = Cluster::new(settings().supervising()).with_nodes([node("n1", 10_000)]);
    cluster.submit(watched("a"), work(100_000));
    cluster.run_until_phase("a", Phase::Running);
    cluster.run_for(seconds(5));
    cluster
}

/// It reports so often that for each second it had so many milliseconds on a processor, and waited for one for the rest.
fn reports(cluster: &mut Cluster, name: &str, times: i64, milliseconds: i64) {
    for _ in 0..times {
        let ran =
            cluster.now.duration_since(attempt(cluster, name).start_time.expect("it should run")).as_secs();
        let run = ran * milliseconds / 1000;
        cluster.report_cpu(name, run, ran - run);
        cluster.run_for(seconds(REPORT));
    }
}

#[test]
fn one_that_got_nothing_for_an_hour_goes_on_elsewhere_and_is_kept_off_that_node() {
    let mut cluster = running_on_n1();
    let first = cluster.now;
    reports(&mut cluster, "a", 2, 20);
    let since = cluster.status("a").starved_since.unwrap();
    assert!((first..first + seconds(5)).contains(&since), "from the first report: {first} {since}");
    reports(&mut cluster, "a", 6, 20);
    assert_eq!(cluster.status("a").phase, Phase::Running, "there is no other node");
    cluster.set_node(node("n2", 10_000));
    cluster.submit(sj("fills-n2").asking(6000), work(50_000));
    cluster.run_for(seconds(70));
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Interrupted), Reason::Starved));
    let status = cluster.status("a");
    assert_eq!((status.interrupted_count, status.counted_interruptions), (1, 0), "it may have made that up");
    assert_eq!(status.starved_since, None);
    cluster.run_until_phase("a", Phase::Running);
    assert_eq!(&*attempt(&cluster, "a").nodes[0].name, "n2", "although n1 has more left");
}

#[test]
fn after_an_hour_it_may_go_back() {
    let mut cluster = running_on_n1();
    reports(&mut cluster, "a", 8, 0);
    cluster.set_node(node("n2", 10_000));
    cluster.run_for(seconds(70));
    assert_eq!(outcome(&cluster, "a").2, Reason::Starved);
    cluster.remove_node("n2");
    cluster.run_for(seconds(3000));
    assert_ne!(cluster.status("a").phase, Phase::Running, "n1 alone is left, and it is kept off n1");
    cluster.run_for(seconds(1200));
    assert_eq!(cluster.status("a").phase, Phase::Running);
}

#[test]
fn one_that_has_nothing_to_do_or_gets_on_again_stays() {
    let mut cluster = running_on_n1();
    cluster.set_node(node("n2", 10_000));
    for _ in 0..10 {
        cluster.report_cpu("a", 0, 0);
        cluster.run_for(seconds(REPORT));
        assert_eq!(cluster.status("a").starved_since, None, "its threads were not ready");
    }
    reports(&mut cluster, "a", 3, 0);
    assert!(cluster.status("a").starved_since.is_some());
    // Over the ten minutes it had a half.
    let ran = cluster.now.duration_since(attempt(&cluster, "a").start_time.unwrap()).as_secs();
    cluster.report_cpu("a", REPORT / 2, ran - REPORT / 2);
    cluster.run_for(seconds(7200));
    assert_eq!((cluster.status("a").starved_since, cluster.status("a").interrupted_count), (None, 0));
}

#[test]
fn another_operator_keeps_what_is_on_record_and_waits_for_two_reports() {
    let mut cluster = running_on_n1();
    reports(&mut cluster, "a", 3, 0);
    cluster.run_for(seconds(90));
    let since = cluster.status("a").starved_since.unwrap();
    cluster.set_node(node("n2", 10_000));
    cluster.restart(true);
    cluster.run_for(seconds(3600));
    assert_eq!(cluster.status("a").starved_since, Some(since));
    assert_eq!(cluster.status("a").phase, Phase::Running, "this planner has not heard which pod it is");
    reports(&mut cluster, "a", 2, 0);
    assert_eq!(cluster.status("a").interrupted_count, 1);
}

#[test]
fn work_counts_by_the_processor_time_that_it_had() {
    let mut cluster = Cluster::new(settings().supervising()).with_nodes([node("n1", 10_000)]);
    for name in ["busy", "starved"] {
        cluster.submit(watched(name).asking(3000), Workload { saves: false, ..work(100_000) });
        cluster.run_until_phase(name, Phase::Running);
        cluster.run_for(seconds(5));
    }
    cluster.run_for(seconds(3600));
    reports(&mut cluster, "busy", 1, 1000);
    reports(&mut cluster, "starved", 1, 20);
    // The other one began later, but has worked for an hour.
    cluster.submit(sj("waits"), work(10));
    cluster.create_pod(pod("ordinary", 5000), seconds(100_000));
    cluster.run_for(seconds(30));
    assert_eq!(cluster.status("busy").phase, Phase::Running);
    let ended = attempt(&cluster, "starved");
    let (worked, lost) = (ended.measured.worked.unwrap(), ended.measured.lost.unwrap());
    let ran = ended.end_time.unwrap().duration_since(ended.start_time.unwrap()).as_secs();
    assert!(ran > 3600 && (60..100).contains(&worked.as_secs()), "{ran} {worked}");
    assert_eq!(lost.as_secs(), worked.as_secs(), "it wrote no checkpoint");
    let expected = ended.measured.expected.unwrap().as_secs();
    assert!((60..100).contains(&expected), "{expected}");
}
