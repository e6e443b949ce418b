//! A dry run of accounting Usage.

use super::*;

fn dry() -> Settings {
    let mut settings = settings().by_use();
    settings.usage.as_mut().expect("the rules should be there").dry_run = true;
    settings
}

/// Core-hours and interruptions so far.
fn result(cluster: &Cluster) -> (f64, u64) {
    let run = cluster.planner.pool_report(cluster.now).usage.and_then(|usage| usage.dry_run);
    let run = run.expect("a dry run should be reported");
    (run.core_hours(), run.interruptions)
}

#[test]
fn a_dry_run_changes_nothing_and_says_what_would_have_been() {
    let mut cluster = reserved(dry());
    cluster.submit(sj("a").asking(1000), work(3000));
    minutes(&mut cluster, 65, |_| (1000, 1000));
    assert_eq!(cluster.waits("a"), Some(WaitingReason::NoCapacity));
    let (core_hours, interruptions) = result(&cluster);
    // About 5.9 cores for an hour: 7 less what is expected.
    assert!((5.0..6.1).contains(&core_hours), "{core_hours}");
    assert_eq!(interruptions, 0);
    minutes(&mut cluster, 5, |_| (6000, 1000));
    assert_eq!(result(&cluster).1, 1);
}

#[test]
fn what_scavenger_jobs_hold_by_requests_is_not_free_a_second_time() {
    let mut cluster = Cluster::new(dry()).with_nodes([node("n1", 10_000)]);
    for number in 0..5 {
        cluster.create_pod(pod(&format!("web-{number}"), 1000), FOREVER);
    }
    cluster.submit(sj("a").asking(2000), work(30_000));
    minutes(&mut cluster, 65, |_| (1000, 1000));
    assert_eq!(cluster.status("a").phase, Phase::Running);
    // 7 cores, less the 1.1 that are expected, less the 2 that it has by requests.
    let (core_hours, _) = result(&cluster);
    assert!((3.4..4.1).contains(&core_hours), "{core_hours}");
}

#[test]
fn a_peak_that_is_shorter_than_the_linger_takes_nothing_back() {
    let mut cluster = reserved(dry());
    minutes(&mut cluster, 10, |_| (1000, 1000));
    cluster.run_for(seconds(EVERY));
    measure(&mut cluster, |_| (6000, 1000));
    minutes(&mut cluster, 5, |_| (1000, 1000));
    assert_eq!(result(&cluster).1, 0);
    minutes(&mut cluster, 2, |_| (6000, 1000));
    assert_eq!(result(&cluster).1, 1);
}
