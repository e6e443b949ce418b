//! Admission refuses Jobs or pods: a policy, a webhook or a LimitRange, which may be wrong itself.

use jiff::SignedDuration;
use scavenger_planner::{
    fixtures::{key, node, seconds, settings, sj},
    values::{Key, Outcome, Phase, Reason, ScavengerJob, Settings, WaitingReason},
};
use scavenger_simulator::Cluster;

use super::{all_is_quiet, outcome, work};

fn large(settings: Settings) -> Cluster {
    Cluster::new(settings).with_nodes([node("n1", 200_000)])
}

fn keys(count: usize) -> impl Iterator<Item = Key> {
    (0..count).map(|number| key(&format!("job{number:02}")))
}

/// An admission policy refuses the Jobs or the pods of all.
fn deny(cluster: &mut Cluster, pods: bool, denied: impl Iterator<Item = Key>) {
    if pods { cluster.denied_pods.extend(denied) } else { cluster.denied_jobs.extend(denied) }
}

/// kube-scheduler preempts the pod of one that runs.
fn preempt(cluster: &mut Cluster, name: &str) {
    let pod = cluster.live_pods(name)[0].key.clone();
    cluster.preempt(&pod);
}

fn allow(cluster: &mut Cluster) {
    cluster.denied_jobs.clear();
    cluster.denied_pods.clear();
}

fn all(cluster: &Cluster, phase: Phase) -> bool {
    cluster.scavenger_jobs().all(|sj| sj.status.phase == phase)
}

#[test]
fn a_rule_that_is_wrong_for_a_while_fails_nobody() {
    for pods in [false, true] {
        let mut cluster = large(settings());
        // Five have done work already.
        for key in keys(5) {
            cluster.submit(sj(&key.name), work(300));
            cluster.run_until_phase(&key.name, Phase::Running);
        }
        deny(&mut cluster, pods, keys(25));
        for key in keys(25).skip(5) {
            cluster.submit(sj(&key.name), work(300));
        }
        for key in keys(5) {
            preempt(&mut cluster, &key.name);
        }
        cluster.run_for(seconds(150));
        let is_held = |sj: &ScavengerJob| {
            let message = &sj.status.message;
            message.starts_with(
                "the API server refuses all starts in namespace \"lab\"; one start at a time is tried",
            ) && message.ends_with("denied request: label team is missing")
        };
        assert!(cluster.scavenger_jobs().any(is_held), "{}", cluster.history());
        assert!(!cluster.scavenger_jobs().any(|sj| sj.status.phase == Phase::Failed));
        allow(&mut cluster);
        let allowed = cluster.now;
        cluster.run_until("all run", |cluster| {
            cluster.scavenger_jobs().all(|sj| matches!(sj.status.phase, Phase::Running | Phase::Completed))
        });
        // Those that were refused again and again wait out their own delay.
        let waited = cluster.now.duration_since(allowed);
        assert!(waited < seconds(110), "{waited}");
        cluster.run_until("all have ended", |cluster| all(cluster, Phase::Completed));
        all_is_quiet(&mut cluster);
        assert!(cluster.scavenger_jobs().all(|sj| sj.status.refused_since.is_none()));
    }
}

#[test]
fn of_a_namespace_that_is_held_one_at_a_time_tries() {
    let mut cluster = large(settings());
    deny(&mut cluster, false, keys(100));
    for key in keys(100) {
        cluster.submit(sj(&key.name), work(300));
    }
    cluster.run_for(seconds(60));
    let tried = |cluster: &Cluster| cluster.scavenger_jobs().map(attempts).sum::<u32>();
    let before = tried(&cluster);
    cluster.run_for(seconds(600));
    let more = tried(&cluster) - before;
    assert!((60..=120).contains(&more), "{more} tries in ten minutes, one at a time and 5 s apart");
    // Another namespace has nothing to do with it.
    let mut other = sj("other");
    other.key = Key::new("elsewhere", "other");
    let began = cluster.now;
    cluster.submit(other, work(10));
    cluster.run_until("the other one runs", |cluster| {
        cluster.scavenger_jobs().any(|sj| &*sj.key.name == "other" && sj.status.phase == Phase::Running)
    });
    assert!(cluster.now.duration_since(began) < seconds(3));
}

fn attempts(sj: &ScavengerJob) -> u32 {
    sj.status.attempt.as_ref().map_or(0, |attempt| attempt.number)
}

#[test]
fn many_with_the_same_spec_hold_nobody_else() {
    for pods in [false, true] {
        let mut cluster = large(settings());
        deny(&mut cluster, pods, keys(9));
        for key in keys(9) {
            cluster.submit(sj(&key.name).alike(7), work(300));
        }
        cluster.run_for(seconds(60));
        let began = cluster.now;
        cluster.submit(sj("good"), work(10));
        cluster.run_until_phase("good", Phase::Running);
        assert!(cluster.now.duration_since(began) < seconds(3), "{}", cluster.history());
        cluster.run_until("it waits", |cluster| cluster.waits("job00") == Some(WaitingReason::Refused));
        let message = &cluster.status("job00").message;
        assert!(
            message.contains(" is forbidden: ValidatingAdmissionPolicy 'team'"),
            "its own words: {message}"
        );
    }
}

#[test]
fn one_that_is_taken_says_that_the_rule_is_right() {
    let mut cluster = large(settings());
    deny(&mut cluster, false, keys(2));
    for key in keys(2) {
        cluster.submit(sj(&key.name), work(300));
    }
    cluster.run_for(seconds(5));
    cluster.submit(sj("good"), work(10));
    cluster.run_until_phase("good", Phase::Running);
    // Two before it and one after it are not three in a row.
    deny(&mut cluster, false, std::iter::once(key("third")));
    cluster.submit(sj("third"), work(300));
    cluster.run_for(seconds(2));
    let began = cluster.now;
    cluster.submit(sj("next"), work(10));
    cluster.run_until_phase("next", Phase::Running);
    assert!(cluster.now.duration_since(began) < seconds(3), "{}", cluster.history());
}

#[test]
fn what_is_refused_for_a_day_fails_with_the_words_of_the_refusal() {
    for grace in [0, 3600, 24 * 3600] {
        let mut pool = settings();
        pool.refusal_grace = seconds(grace);
        let mut cluster = large(pool);
        deny(&mut cluster, false, keys(1));
        cluster.submit(sj("job00"), work(300));
        if grace > 0 {
            cluster.run_for(seconds(grace - 60));
            assert_eq!(outcome(&cluster, "job00").1, Some(Outcome::Withdrawn));
            assert_eq!(cluster.waits("job00"), Some(WaitingReason::Refused));
        }
        cluster.run_for(seconds(900));
        assert_eq!(cluster.status("job00").phase, Phase::Failed, "{grace}");
        assert_eq!(outcome(&cluster, "job00").2, Reason::Refused);
        let message = &cluster.status("job00").message;
        assert!(message.starts_with("Refused: jobs.batch \"job00-"), "{message}");
        assert!(
            message.contains("label team is missing; each start has been refused since 2027-"),
            "{message}"
        );
        all_is_quiet(&mut cluster);
    }
}

/// Refused now and then is not refused for a day.
#[test]
fn refusals_count_from_the_first_since_one_was_taken() {
    let mut pool = settings();
    pool.refusal_grace = seconds(1800);
    let mut cluster = large(pool);
    cluster.submit(sj("job00"), work(100_000));
    for _ in 0..4 {
        cluster.run_until_phase("job00", Phase::Running);
        deny(&mut cluster, false, keys(1));
        preempt(&mut cluster, "job00");
        cluster.run_for(seconds(1500));
        assert_eq!(cluster.waits("job00"), Some(WaitingReason::Refused));
        allow(&mut cluster);
    }
    // Nor is a refusal of long ago, after which it waited for something else.
    deny(&mut cluster, false, keys(1));
    cluster.run_for(seconds(700));
    cluster.set_pool(Ok(Settings { paused: true, refusal_grace: seconds(1800), ..settings() }));
    cluster.run_for(SignedDuration::from_hours(5));
    cluster.set_pool(Ok(Settings { refusal_grace: seconds(1800), ..settings() }));
    cluster.run_for(seconds(1500));
    assert_eq!(cluster.waits("job00"), Some(WaitingReason::Refused));
    allow(&mut cluster);
    cluster.run_until_phase("job00", Phase::Running);
}

/// Taken, and then kept from running by something else, is not refused.
#[test]
fn a_start_that_was_taken_ends_the_count_whatever_it_ended_in() {
    let mut cluster = large(settings());
    deny(&mut cluster, false, keys(1));
    cluster.submit(sj("job00").only_on("there", "is-none"), work(300));
    cluster.set_node(node("n2", 10_000).labelled("there", "is-none"));
    cluster.run_until("it is refused", |cluster| cluster.status("job00").refused_since.is_some());
    allow(&mut cluster);
    // The planner believes that the node is there, and kube-scheduler finds that it takes nothing.
    cluster.scheduler_works = false;
    cluster
        .run_until("it finds no node", |cluster| cluster.waits("job00") == Some(WaitingReason::Unscheduled));
    assert_eq!(cluster.status("job00").refused_since, None);
}

/// In a namespace with many each is tried rarely, and is refused all the time.
#[test]
fn a_day_of_refusals_is_one_in_a_large_namespace_too() {
    let mut cluster = large(settings());
    cluster.thorough = false;
    deny(&mut cluster, true, keys(300));
    for key in keys(300) {
        cluster.submit(sj(&key.name).asking(100), work(300));
    }
    cluster.run_for(SignedDuration::from_hours(24));
    assert!(cluster.scavenger_jobs().all(|sj| sj.status.phase != Phase::Failed));
    cluster.run_for(SignedDuration::from_hours(8));
    assert!(all(&cluster, Phase::Failed), "{}", cluster.history());
}
