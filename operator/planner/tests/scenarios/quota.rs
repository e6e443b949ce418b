//! Namespaces that are over their quota, or that are being terminated.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use scavenger_planner::{
    fixtures::{node, pod, seconds, settings, sj},
    resources::Resources,
    values::{Access, Key, Observation, Phase, ScavengerJob, ScavengerJobStatus, Volume, WaitingReason},
};
use scavenger_simulator::Cluster;

use super::{all_is_quiet, cluster, work};

const GREEDY: &str = "greedy";

/// A ScavengerJob of the namespace with the quota.
fn greedy(name: &str) -> ScavengerJob {
    let mut sj = sj(name);
    sj.key = Key::new(GREEDY, name);
    sj
}

fn status<'a>(cluster: &'a Cluster, name: &str) -> &'a ScavengerJobStatus {
    let found = cluster.scavenger_jobs().find(|sj| sj.key == Key::new(GREEDY, name));
    &found.expect("the ScavengerJob should be there").status
}

fn reason(cluster: &Cluster, name: &str) -> Option<WaitingReason> {
    Some(status(cluster, name).admitted.as_ref()?.waiting.as_ref()?.reason)
}

/// What its pods may ask for in all.
fn quota(cpu_milli: i64) -> Resources {
    Resources { cpu_milli, ..Resources::default() }
}

fn jobs_quota(count: i64) -> Resources {
    objects("count/jobs.batch", count)
}

/// How long newcomers of another namespace wait, one after the other.
fn newcomers(cluster: &mut Cluster, count: usize) -> Vec<SignedDuration> {
    let mut waited = Vec::new();
    for number in 0..count {
        let name = format!("newcomer{number}");
        let began = cluster.now;
        cluster.submit(sj(&name).asking(2000), work(10));
        cluster.run_until_phase(&name, Phase::Running);
        waited.push(cluster.now.duration_since(began));
        cluster.run_for(seconds(20));
    }
    waited
}

#[test]
fn five_thousand_over_quota_do_not_hold_up_newcomers_of_other_namespaces() {
    for at_once in [10, 1] {
        let pool = settings().starting_at_once(at_once);
        let mut cluster = Cluster::new(pool).with_nodes([node("n1", 50_000_000)]);
        cluster.thorough = false;
        cluster.quotas.insert(GREEDY.into(), quota(1));
        for number in 0..5000 {
            cluster.submit(greedy(&format!("job{number:04}")).asking(1000 + number % 5), work(10));
        }
        let waited = newcomers(&mut cluster, 20);
        // The first ones learn of the quota; from then on they try one at a time.
        let known = if at_once == 1 { seconds(25) } else { seconds(3) };
        assert!(waited[0] < seconds(25), "{waited:?}");
        assert!(waited.iter().skip(1).all(|waited| *waited < known), "{waited:?}");
        let tried = cluster.starts.iter().filter(|(key, _)| &*key.namespace == GREEDY).count();
        assert!(tried < 40, "{tried} starts failed in {}", cluster.now);
    }
}

#[test]
fn those_that_are_held_say_so() {
    let mut cluster = cluster();
    cluster.quotas.insert(GREEDY.into(), quota(500));
    for name in ["a", "b", "c"] {
        cluster.submit(greedy(name), work(10));
    }
    cluster.run_until("one is refused", |cluster| status(cluster, "a").failed_starts > 0);
    cluster.submit(greedy("d"), work(10));
    cluster.run_for(seconds(2));
    assert_eq!(reason(&cluster, "d"), Some(WaitingReason::QuotaExceeded));
    let message = &status(&cluster, "d").message;
    assert!(message.contains("exceeded quota: small, requested: cpu=1000"), "{message}");
    assert!(status(&cluster, "d").attempt.is_none());
}

#[test]
fn a_smaller_ask_is_not_held() {
    let mut cluster = cluster();
    cluster.quotas.insert(GREEDY.into(), quota(1500));
    cluster.submit(greedy("large").asking(2000), work(10));
    cluster.run_until("it is refused", |cluster| status(cluster, "large").failed_starts > 0);
    cluster.submit(greedy("as-large").asking(2000), work(10));
    cluster.submit(greedy("small"), work(10));
    cluster.run_until("the small one runs", |cluster| status(cluster, "small").phase == Phase::Running);
    assert_eq!(reason(&cluster, "as-large"), Some(WaitingReason::QuotaExceeded));
    assert!(cluster.now < scavenger_planner::fixtures::at(25), "{}", cluster.now);
}

#[test]
fn when_one_of_the_namespace_ends_the_next_one_starts() {
    let mut cluster = Cluster::new(settings()).with_nodes([node("n1", 100_000)]);
    cluster.quotas.insert(GREEDY.into(), quota(2000));
    for number in 0..12 {
        cluster.submit(greedy(&format!("job{number:02}")), work(300));
    }
    cluster.run_for(seconds(250));
    let running =
        |cluster: &Cluster| cluster.scavenger_jobs().filter(|sj| sj.status.phase == Phase::Running).count();
    let completed =
        |cluster: &Cluster| cluster.scavenger_jobs().filter(|sj| sj.status.phase == Phase::Completed).count();
    assert_eq!(running(&cluster), 2);
    for ended in [2, 4] {
        cluster.run_until("both have ended", |cluster| completed(cluster) == ended);
        cluster.run_for(seconds(10));
        assert_eq!(running(&cluster), 2, "{}", cluster.history());
    }
    cluster.run_until("all have ended", |cluster| completed(cluster) == 12);
}

#[test]
fn a_quota_that_is_raised_lets_all_start_soon() {
    let mut cluster = Cluster::new(settings()).with_nodes([node("n1", 100_000)]);
    cluster.quotas.insert(GREEDY.into(), quota(500));
    for number in 0..40 {
        cluster.submit(greedy(&format!("job{number:02}")), work(1000));
    }
    cluster.run_for(seconds(1200));
    cluster.quotas.clear();
    // One probes at the latest after a minute and a half, then twice as many each time.
    cluster.run_for(seconds(130));
    let tried_before = |sj: &&ScavengerJob| sj.status.failed_starts > 0;
    let waiting: Vec<_> = cluster.scavenger_jobs().filter(|sj| sj.status.phase == Phase::Waiting).collect();
    assert!(waiting.iter().all(tried_before), "{}", cluster.history());
    cluster
        .run_until("all run", |cluster| cluster.scavenger_jobs().all(|sj| sj.status.start_times.len() == 1));
}

#[test]
fn a_quota_on_jobs_holds_all_of_its_namespace_until_a_job_goes() {
    let mut cluster = Cluster::new(settings()).with_nodes([node("n1", 100_000)]);
    cluster.quotas.insert(GREEDY.into(), jobs_quota(1));
    for name in ["a", "b", "c"] {
        cluster.submit(greedy(name), work(10));
    }
    cluster.run_until("one is refused", |cluster| status(cluster, "b").failed_starts > 0);
    cluster.submit(greedy("small").asking(100), work(10));
    cluster.run_for(seconds(3));
    assert_eq!(reason(&cluster, "small"), Some(WaitingReason::QuotaExceeded));
    cluster.submit(sj("other"), work(10));
    completed_one(&mut cluster, "other");
    cluster.quotas.insert(GREEDY.into(), jobs_quota(4));
    cluster.run_until("all have ended", |cluster| {
        cluster.scavenger_jobs().all(|sj| sj.status.phase == Phase::Completed)
    });
}

fn completed_one(cluster: &mut Cluster, name: &str) {
    let began = cluster.now;
    cluster.run_until_phase(name, Phase::Completed);
    let took = cluster.now.duration_since(began);
    assert!(took < seconds(15), "{took}");
}

#[test]
fn a_namespace_that_is_being_terminated_is_waited_for_and_fails_nobody() {
    for has_job in [false, true] {
        let mut cluster = cluster();
        cluster.submit(greedy("a"), work(10));
        if has_job {
            cluster.run_until("its Job is made", |cluster| cluster.all_jobs().count() > 0);
        }
        cluster.terminating.insert(GREEDY.into());
        cluster.run_until("it is refused", |cluster| status(cluster, "a").failed_starts > 0);
        assert!(cluster.now < scavenger_planner::fixtures::at(20), "{}", cluster.now);
        assert_eq!(reason(&cluster, "a"), Some(WaitingReason::NamespaceTerminating));
        cluster.submit(greedy("b").asking(100), work(10));
        cluster.run_for(seconds(3));
        assert_eq!(reason(&cluster, "b"), Some(WaitingReason::NamespaceTerminating));
        assert!(status(&cluster, "b").attempt.is_none());
        cluster.submit(sj("other"), work(10));
        completed_one(&mut cluster, "other");
        cluster.run_for(seconds(3600));
        assert!(cluster.scavenger_jobs().all(|sj| sj.status.phase != Phase::Failed));
        let tried = cluster.starts.iter().filter(|(key, _)| &*key.namespace == GREEDY).count();
        assert!(tried < 60, "{tried}");
        // It was another one of that name, say.
        cluster.terminating.clear();
        cluster.run_until("all have ended", |cluster| {
            cluster.scavenger_jobs().all(|sj| sj.status.phase == Phase::Completed)
        });
        all_is_quiet(&mut cluster);
    }
}

#[test]
fn a_gang_that_fits_its_quota_in_part_probes_less_and_less_often() {
    let mut cluster = Cluster::new(settings()).with_nodes([node("n1", 100_000)]);
    cluster.quotas.insert(GREEDY.into(), quota(2500));
    cluster.submit(greedy("gang").gang(4), work(1000));
    cluster.run_for(seconds(1200));
    let tried = cluster.starts.len();
    // The pods that its own start made are no news when they go: after five refusals one in 80 s, and 15 s to see it.
    assert!((5..20).contains(&tried), "{tried} starts\n{}", cluster.history());
    assert_eq!(reason(&cluster, "gang"), Some(WaitingReason::QuotaExceeded));
    cluster.quotas.clear();
    cluster.run_until("it runs", |cluster| status(cluster, "gang").phase == Phase::Running);
}

#[test]
fn the_reason_of_those_that_are_held_does_not_follow_every_change_of_capacity() {
    const NAMES: [&str; 3] = ["a", "b", "c"];
    let mut cluster = cluster();
    cluster.quotas.insert(GREEDY.into(), quota(500));
    for name in NAMES {
        cluster.submit(greedy(name), work(10));
    }
    let mut told: BTreeMap<&str, Vec<WaitingReason>> = BTreeMap::new();
    for round in 0..30 {
        // For 90 s nobody fits, then for 40 s everybody does.
        cluster.create_pod(pod(&format!("ordinary{round}"), 9000), seconds(90));
        for _ in 0..130 {
            cluster.run_for(seconds(1));
            for name in NAMES {
                let told = told.entry(name).or_default();
                told.extend(reason(&cluster, name).filter(|reason| told.last() != Some(reason)));
            }
        }
    }
    let tried = cluster.starts.len();
    assert!(tried > 10, "{tried} starts: the quota should have been tried again and again");
    for (name, told) in told {
        assert_eq!(told.last(), Some(&WaitingReason::QuotaExceeded), "{name}: {told:?}");
        assert!(told.len() < 6, "{name} was told {told:?} one after the other");
    }
}

#[test]
fn those_that_are_held_say_so_once_nothing_but_capacity_is_lacking() {
    let mut cluster = cluster();
    cluster.quotas.insert(GREEDY.into(), quota(500));
    cluster.submit(greedy("a"), work(10));
    cluster.run_until("it is refused", |cluster| status(cluster, "a").failed_starts > 0);
    cluster.quotas.clear();
    cluster.create_pod(pod("ordinary", 9000), seconds(3000));
    cluster.run_for(seconds(50));
    assert_eq!(reason(&cluster, "a"), Some(WaitingReason::QuotaExceeded));
    cluster.run_for(seconds(40));
    assert_eq!(reason(&cluster, "a"), Some(WaitingReason::NoCapacity));
    cluster.run_until("it runs", |cluster| status(cluster, "a").phase == Phase::Running);
}

/// How many objects of a kind it may have.
fn objects(kind: &str, count: i64) -> Resources {
    match kind {
        "pods" => Resources { pods: count, ..Resources::default() },
        _ => Resources { other: [(kind.into(), count)].into(), ..Resources::default() },
    }
}

#[test]
fn a_gang_that_a_quota_on_cpu_refused_holds_only_those_that_would_be_refused_too() {
    let mut cluster = Cluster::new(settings()).with_nodes([node("n1", 100_000)]);
    cluster.quotas.insert(GREEDY.into(), quota(3500));
    cluster.submit(greedy("gang").gang(4), work(1000));
    cluster.run_until("it is refused", |cluster| status(cluster, "gang").failed_starts > 0);
    cluster.submit(greedy("single").asking(4000), work(10));
    cluster.submit(greedy("smaller").asking(3000), work(10));
    cluster.run_until("the smaller one runs", |cluster| status(cluster, "smaller").phase == Phase::Running);
    assert_eq!(status(&cluster, "single").failed_starts, 0, "it would be refused, and waits");
    assert_eq!(reason(&cluster, "single"), Some(WaitingReason::QuotaExceeded));
}

#[test]
fn a_gang_that_a_quota_on_pods_refused_holds_gangs_and_no_single_pod() {
    for resource in ["pods", "count/pods"] {
        let mut cluster = Cluster::new(settings()).with_nodes([node("n1", 100_000)]);
        cluster.quotas.insert(GREEDY.into(), objects(resource, 3));
        cluster.submit(greedy("gang").gang(4), work(1000));
        cluster.run_until("it is refused, and its pods are gone", |cluster| {
            status(cluster, "gang").failed_starts > 0 && cluster.all_live_pods().is_empty()
        });
        cluster.submit(greedy("small-pods").gang(4).asking(100), work(10));
        cluster.submit(greedy("single").asking(4000), work(10));
        cluster.submit(greedy("pair").gang(2), work(10));
        cluster.run_for(seconds(2));
        for name in ["single", "pair"] {
            assert_eq!(status(&cluster, name).phase, Phase::Running, "{resource}: {name}");
        }
        assert_eq!(status(&cluster, "small-pods").attempt, None, "{resource}");
        assert_eq!(reason(&cluster, "small-pods"), Some(WaitingReason::QuotaExceeded), "{resource}");
    }
}

#[test]
fn a_gang_that_a_quota_on_services_refused_holds_gangs_and_no_single_pod() {
    for resource in ["services", "count/services"] {
        let mut cluster = Cluster::new(settings()).with_nodes([node("n1", 100_000)]);
        cluster.quotas.insert(GREEDY.into(), objects(resource, 1));
        cluster.submit(greedy("first").gang(2), work(100_000));
        cluster.run_until("it runs", |cluster| status(cluster, "first").phase == Phase::Running);
        cluster.submit(greedy("gang").gang(4), work(10));
        cluster.run_until("it is refused", |cluster| status(cluster, "gang").failed_starts > 0);
        cluster.submit(greedy("pair").gang(2).asking(100), work(10));
        cluster.submit(greedy("single").asking(8000), work(10));
        cluster.run_for(seconds(2));
        assert_eq!(status(&cluster, "single").phase, Phase::Running, "{resource}");
        assert_eq!(status(&cluster, "pair").attempt, None, "{resource}");
        assert_eq!(reason(&cluster, "pair"), Some(WaitingReason::QuotaExceeded), "{resource}");
    }
}

fn bind(cluster: &mut Cluster, claim: &str) {
    cluster.unbound_claims.clear();
    let volume = Volume {
        name: "pv".into(),
        claim: Some(Key::new(GREEDY, claim)),
        affinity: Vec::new(),
        access: Access::ManyNodes,
    };
    cluster.planner.observe(Observation::Volume(volume), cluster.now);
}

#[test]
fn five_thousand_on_an_unbound_claim_do_not_hold_up_newcomers() {
    for at_once in [10, 1] {
        let pool = settings().starting_at_once(at_once);
        let mut cluster = Cluster::new(pool).with_nodes([node("n1", 50_000_000)]);
        cluster.thorough = false;
        cluster.unbound_claims.insert(Key::new(GREEDY, "data"));
        for number in 0..5000 {
            let sj = greedy(&format!("job{number:04}")).asking(1000 + number % 5);
            cluster.submit(sj.mounting("data"), work(10));
        }
        let waited = newcomers(&mut cluster, 20);
        // Until the first starts are given up nobody knows; then one at a time tries.
        assert!(waited.iter().all(|waited| *waited < seconds(65)), "{waited:?}");
        let known = if at_once == 1 { seconds(65) } else { seconds(3) };
        assert!(waited.iter().skip(2).all(|waited| *waited < known), "{waited:?}");
        let tried = cluster.starts.iter().filter(|(key, _)| &*key.namespace == GREEDY).count();
        assert!(tried < 40, "{tried} starts failed in {}", cluster.now);
    }
}

#[test]
fn those_on_an_unbound_claim_say_so_and_hold_nobody_that_does_not_mount_it() {
    let mut cluster = cluster();
    cluster.unbound_claims.insert(Key::new(GREEDY, "data"));
    for name in ["a", "b"] {
        cluster.submit(greedy(name).mounting("data"), work(10));
    }
    cluster.run_until("one is withdrawn", |cluster| status(cluster, "a").failed_starts > 0);
    cluster.submit(greedy("c").mounting("data"), work(10));
    cluster.submit(greedy("other").mounting("scratch"), work(10));
    cluster.submit(greedy("plain"), work(10));
    cluster.run_for(seconds(3));
    assert_eq!(reason(&cluster, "c"), Some(WaitingReason::VolumeUnbound));
    let message = &status(&cluster, "c").message;
    assert!(message.contains("PersistentVolumeClaim \"data\" is not bound"), "{message}");
    assert!(status(&cluster, "c").attempt.is_none());
    for name in ["other", "plain"] {
        assert_eq!(status(&cluster, name).phase, Phase::Running, "{name}");
    }
    // Nobody waits for the next try once its volume is there.
    bind(&mut cluster, "data");
    cluster.run_for(seconds(5));
    assert_eq!(status(&cluster, "c").phase, Phase::Running, "{}", cluster.history());
    cluster.run_until("all have ended", |cluster| {
        cluster.scavenger_jobs().all(|sj| sj.status.phase == Phase::Completed)
    });
    all_is_quiet(&mut cluster);
}
