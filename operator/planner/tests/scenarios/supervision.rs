//! Workloads under the supervisor: which attempts, what it reports, and what follows from that.

use jiff::SignedDuration;
use scavenger_planner::{
    action::Task,
    fixtures::{key, node, pod, seconds, settings, sj},
    values::{
        Key, LiveReport, Name, Node, Observation, Outcome, Phase, PreemptionMode, Rank, Reason, ScavengerJob,
        Settings, Supervision,
    },
};
use scavenger_simulator::{Cluster, Unstartable, Workload};

use super::{attempt, completed, level, outcome, work, writes};

fn supervised() -> Cluster {
    Cluster::new(settings().supervising()).with_nodes([node("n1", 10_000)])
}

fn watched(name: &str) -> ScavengerJob {
    sj(name).interruptible_after(seconds(60)).watched()
}

/// Reason and message of its condition Supervised.
fn condition(cluster: &Cluster, name: &str) -> Option<(Supervision, String)> {
    cluster.status(name).supervised.clone().map(|supervised| (supervised.why, supervised.message))
}

fn wishing(mut sj: ScavengerJob, enabled: Option<bool>) -> ScavengerJob {
    if let Ok(spec) = &mut sj.spec {
        spec.supervision.enabled = enabled;
    }
    sj
}

#[test]
fn pool_and_scavenger_job_decide_together_whether_it_is_supervised() {
    let off = |mut settings: Settings| {
        settings.supervisor.as_mut().unwrap().by_default = false;
        settings
    };
    let cases = [
        (settings(), watched("a"), None),
        (settings(), wishing(watched("a"), Some(true)), Some(Supervision::NotInPool)),
        (settings().supervising(), watched("a"), Some(Supervision::Supervised)),
        (settings().supervising(), wishing(watched("a"), Some(false)), Some(Supervision::SwitchedOff)),
        (settings().supervising(), sj("a"), Some(Supervision::NoCommand)),
        (off(settings().supervising()), watched("a"), Some(Supervision::SwitchedOff)),
        (off(settings().supervising()), wishing(watched("a"), Some(true)), Some(Supervision::Supervised)),
    ];
    for (settings, sj, why) in cases {
        let mut cluster = Cluster::new(settings).with_nodes([node("n1", 10_000)]);
        cluster.submit(sj, work(30));
        cluster.run_until_phase("a", Phase::Running);
        assert_eq!(condition(&cluster, "a").map(|(why, _)| why), why);
        let is_supervised = why == Some(Supervision::Supervised);
        assert_eq!(attempt(&cluster, "a").supervised, is_supervised, "{why:?}");
        assert_eq!(cluster.is_supervised(&key("a-1-0")), is_supervised, "{why:?}");
        completed(&mut cluster, "a");
        let lost = is_supervised.then(|| seconds(0));
        assert_eq!(attempt(&cluster, "a").measured.lost, lost, "{why:?}");
    }
}

#[test]
fn a_supervisor_that_cannot_be_started_is_left_out_and_nobody_fails() {
    for why in [Unstartable::Pull("r.io/s:1: not found".to_owned()), Unstartable::NoExec] {
        let mut cluster = supervised();
        let workload = || Workload { no_supervisor: Some(why.clone()), ..work(30) };
        cluster.submit(watched("a"), workload());
        cluster.run_until("the first attempt is withdrawn", |c| {
            c.status("a").attempt.as_ref().is_some_and(|attempt| attempt.outcome.is_some())
        });
        assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Withdrawn), Reason::SupervisorNotStarted));
        let held = cluster.planner.pool_report(cluster.now).without_supervisor.unwrap().join(", ");
        assert!(held.contains("\"lab\"") && held.contains("a-1-0"), "{held}");
        assert!(cluster.planner.pool_report(cluster.now).closed_nodes.is_empty(), "no node is to blame");
        cluster.run_until_phase("a", Phase::Running);
        let (reason, message) = condition(&cluster, "a").unwrap();
        assert_eq!(reason, Supervision::NotStarted);
        assert!(message.contains("starts without it"), "{message}");
        assert!(!cluster.is_supervised(&key("a-2-0")));
        // Another one of the namespace does not try at all for a while.
        cluster.submit(watched("b"), workload());
        cluster.run_until_phase("b", Phase::Running);
        assert_eq!(attempt(&cluster, "b").number, 1);
        completed(&mut cluster, "a");
        assert_eq!(cluster.status("a").interrupted_count, 0);
        // Later it is tried again, in vain, and the time is longer.
        cluster.submit(watched("c"), workload());
        cluster.run_until_phase("c", Phase::Completed);
        assert_eq!(attempt(&cluster, "c").number, 2);
    }
}

/// Its supervisor cannot be pulled.
fn unpulled() -> Workload {
    Workload { no_supervisor: Some(Unstartable::Pull("r.io/s:1: i/o timeout".to_owned())), ..work(3000) }
}

fn is_supervised(cluster: &Cluster, name: &str) -> bool {
    cluster.status(name).phase == Phase::Running && attempt(cluster, name).supervised
}

#[test]
fn a_registry_that_does_not_answer_for_a_moment_takes_the_supervisor_from_nobody() {
    let mut cluster = supervised().with_nodes([node("n2", 10_000)]);
    for name in ["a", "b"] {
        cluster.submit(watched(name), unpulled());
    }
    cluster.run_for(seconds(40));
    for name in ["a", "b"] {
        cluster.change_workload(name, |workload| workload.no_supervisor = None);
        cluster.start(&key(&format!("{name}-1-0")));
    }
    cluster.submit(watched("c"), work(3000));
    cluster.run_for(seconds(10));
    for name in ["a", "b", "c"] {
        assert!(is_supervised(&cluster, name), "{name}");
        assert_eq!(attempt(&cluster, name).number, 1, "{name}");
    }
}

#[test]
fn while_a_namespace_goes_without_the_supervisor_one_start_in_five_minutes_probes() {
    let mut cluster = supervised();
    cluster.submit(watched("a"), unpulled());
    cluster.run_until("it runs without", |cluster| cluster.status("a").phase == Phase::Running);
    assert!(!is_supervised(&cluster, "a"));
    cluster.run_for(seconds(60));
    cluster.submit(watched("b"), work(3000));
    cluster.run_for(seconds(180));
    assert_eq!(
        (is_supervised(&cluster, "b"), attempt(&cluster, "b").number),
        (false, 1),
        "nobody probes yet"
    );
    cluster.run_for(seconds(60));
    for name in ["c", "d"] {
        cluster.submit(watched(name), unpulled());
    }
    cluster.run_for(seconds(120));
    let numbers = ["c", "d"].map(|name| attempt(&cluster, name).number);
    assert_eq!(numbers, [2, 1], "one of them probed");
    // The registry is back, and the next probe shows it to all.
    cluster.run_for(seconds(100));
    cluster.submit(watched("e"), work(3000));
    cluster.run_for(seconds(100));
    cluster.submit(watched("f"), work(3000));
    cluster.run_for(seconds(10));
    assert_eq!(["e", "f"].map(|name| is_supervised(&cluster, name)), [false, true]);
    cluster.submit(watched("g"), work(3000));
    cluster.run_for(seconds(10));
    assert!(is_supervised(&cluster, "g"));
}

#[test]
fn an_operator_that_was_started_again_does_not_fail_them_either() {
    let mut cluster = supervised();
    for name in ["a", "b"] {
        cluster.submit(watched(name), Workload { no_supervisor: Some(Unstartable::NoExec), ..work(30) });
    }
    for _ in 0..6 {
        cluster.run_for(seconds(4));
        cluster.restart(true);
    }
    completed(&mut cluster, "a");
    assert_eq!(cluster.status("b").phase, Phase::Completed);
}

fn last_checkpoint(cluster: &mut Cluster, name: &str) -> Option<i64> {
    cluster.run_for(seconds(90));
    let started = attempt(cluster, name).start_time?;
    Some(cluster.status(name).last_checkpoint?.duration_since(started).as_secs())
}

#[test]
fn a_report_stays_within_the_attempt_and_never_goes_back() {
    let mut cluster = supervised();
    cluster.submit(watched("a"), work(1000));
    cluster.run_until_phase("a", Phase::Running);
    let pod = key("a-1-0");
    cluster.run_for(seconds(50));
    assert_eq!(level(&cluster, "a"), Some(3));
    cluster.report_of(&pod, 100, None);
    assert_eq!(level(&cluster, "a"), Some(3), "from before the attempt: it began with that");
    cluster.report_of(&pod, 5, Some(0.25));
    assert_eq!(level(&cluster, "a"), Some(1));
    cluster.report_of(&pod, 40, Some(7.0));
    assert_eq!(level(&cluster, "a"), Some(1), "an older one changes nothing");
    let of = |pod: Key, uid: &str| {
        Observation::Report(LiveReport {
            pod,
            uid: uid.into(),
            checkpoint: Some("9999-01-01T00:00:00Z".parse().unwrap()),
            progress: Some(1.0),
            cpu: None,
        })
    };
    // Another pod had that name, nobody has the other one, and a time to come is now.
    cluster.run_for(seconds(30));
    cluster.tell(of(pod.clone(), "another"));
    cluster.tell(of(key("b-1-0"), "another"));
    assert_eq!(level(&cluster, "a"), Some(2));
    cluster.report_of(&pod, -100_000, None);
    assert_eq!(level(&cluster, "a"), Some(1));
    cluster.run_for(seconds(21));
    assert_eq!(level(&cluster, "a"), Some(2));
    let told = last_checkpoint(&mut cluster, "a").unwrap();
    assert!((79..=81).contains(&told), "{told}");
    assert_eq!(cluster.status("a").progress, Some(0.25));
}

#[test]
fn the_checkpoint_is_known_at_once_of_the_pod_that_reported_it_alone() {
    let mut cluster = supervised();
    cluster.submit(watched("a"), work(1000));
    cluster.run_until_phase("a", Phase::Running);
    cluster.run_for(seconds(30));
    let pod = key("a-1-0");
    let uid = cluster.pod("a-1-0").unwrap().uid.clone();
    assert_eq!(cluster.planner.checkpoint_of(&pod, &uid), None);
    let now = cluster.now;
    cluster.report_of(&pod, 0, None);
    assert_eq!(cluster.planner.checkpoint_of(&pod, &uid), Some(now));
    assert_eq!(cluster.planner.checkpoint_of(&pod, &Name::from("another")), None);
    assert_eq!(cluster.planner.checkpoint_of(&key("b-1-0"), &uid), None);
}

#[test]
fn without_a_report_the_promised_interval_counts_and_with_one_the_loss_saturates() {
    let mut cluster = supervised();
    let mut every_30 = watched("a");
    every_30.spec.as_mut().unwrap().checkpoint_interval = Some(seconds(30));
    cluster.submit(every_30.clone(), work(1000));
    cluster.submit(ScavengerJob { key: key("b"), uid: "uid-of-b".into(), ..every_30 }, work(1000));
    cluster.run_until("both run", |c| ["a", "b"].iter().all(|n| c.status(n).phase == Phase::Running));
    cluster.report_checkpoint("b");
    cluster.run_for(seconds(32));
    assert_eq!((level(&cluster, "a"), level(&cluster, "b")), (Some(1), Some(2)));
    cluster.run_for(seconds(60));
    assert_eq!((level(&cluster, "a"), level(&cluster, "b")), (Some(1), Some(3)));
}

#[test]
fn in_a_gang_the_named_rank_counts_or_the_oldest_of_all() {
    for (rank, after_one, after_other) in [(Rank::One(0), 1, 1), (Rank::One(1), 3, 1), (Rank::Oldest, 3, 1)] {
        let mut cluster = supervised();
        let mut gang = watched("a").gang(2);
        gang.spec.as_mut().unwrap().supervision.rank = rank;
        cluster.submit(gang, work(1000));
        cluster.run_until_phase("a", Phase::Running);
        cluster.run_for(seconds(50));
        cluster.report_of(&key("a-1-0"), 0, None);
        assert_eq!(level(&cluster, "a"), Some(after_one), "{rank:?}");
        cluster.report_of(&key("a-1-1"), 0, None);
        assert_eq!(level(&cluster, "a"), Some(after_other), "{rank:?}");
    }
}

/// Interrupts it after so many seconds, 30 s after a checkpoint if there is one, and waits for what is found out.
fn interrupted(cluster: &mut Cluster, name: &str, after: i64, checkpoint: bool) {
    cluster.run_until_phase(name, Phase::Running);
    let number = attempt(cluster, name).number;
    cluster.run_for(seconds(after - 30));
    if checkpoint {
        cluster.report_checkpoint(name);
    }
    cluster.run_for(seconds(30));
    cluster.preempt(&key(&format!("{name}-{number}-0")));
    cluster.run_for(seconds(10));
    assert_eq!(outcome(cluster, name).1, Some(Outcome::Interrupted));
    assert_eq!(attempt(cluster, name).number, number);
}

#[test]
fn what_an_interruption_cost_is_measured_when_the_pod_has_ended() {
    // Saves, checkpoint before, silent at the end: seconds lost of 105, whether it answered.
    let cases = [
        (true, false, false, Some(0), Some(true)),
        (false, true, false, Some(30), Some(false)),
        (false, false, false, Some(105), Some(false)),
        (false, true, true, Some(30), None),
        (false, false, true, None, None),
    ];
    for (saves, checkpoint, is_silent, lost, answered) in cases {
        let mut cluster = supervised();
        cluster.submit(watched("a"), Workload { saves, is_silent, ..work(1000) });
        interrupted(&mut cluster, "a", 105, checkpoint);
        let measured = attempt(&cluster, "a").measured;
        let close = |found: Option<i64>, wanted: Option<i64>| match (found, wanted) {
            (Some(found), Some(wanted)) => (found - wanted).abs() <= 2,
            (found, wanted) => found == wanted,
        };
        let found = measured.lost.map(|lost| lost.as_secs());
        assert!(close(found, lost), "{found:?}, not {lost:?}\n{}", cluster.history());
        assert_eq!(measured.answered_sigterm, answered);
        // 30 s after its checkpoint, or 45 s after the end of its first stretch of 60 s, which counts as one.
        let expected = if checkpoint { 30 } else { 45 };
        assert!(close(measured.expected.map(|span| span.as_secs()), Some(expected)), "{measured:?}");
        let mut history = cluster.log.iter().filter_map(|(_, action)| match &action.task {
            Task::WriteStatus(write) => write.ended.as_ref(),
            _ => None,
        });
        assert!(history.all(|attempt| attempt.number == 1));
    }
}

#[test]
fn who_is_seen_not_to_save_counts_as_one_that_does_not_until_it_does() {
    let mut cluster = supervised();
    cluster.submit(watched("a").saving(), Workload { saves: false, ..work(10_000) });
    cluster.run_until_phase("a", Phase::Running);
    assert!(cluster.stored_sj("a").saves_on_sigterm());
    interrupted(&mut cluster, "a", 50, false);
    assert!(cluster.stored_sj("a").saves_on_sigterm(), "it ran for less than its restart costs");
    interrupted(&mut cluster, "a", 100, true);
    assert!(cluster.stored_sj("a").saves_on_sigterm(), "its last checkpoint was younger than its interval");
    interrupted(&mut cluster, "a", 130, false);
    assert!(!cluster.stored_sj("a").saves_on_sigterm());
    let message = cluster.status("a").observed_saves.as_ref().unwrap().message.clone();
    assert!(message.starts_with("attempt 3 got SIGTERM and wrote no checkpoint"), "{message}");
    cluster.change_workload("a", |workload| workload.saves = true);
    interrupted(&mut cluster, "a", 100, false);
    assert!(cluster.stored_sj("a").saves_on_sigterm());
    assert!(cluster.status("a").observed_saves.as_ref().is_some_and(|observed| observed.saves));
}

#[test]
fn who_was_killed_before_its_grace_was_over_shows_nothing() {
    let mut cluster = supervised();
    cluster.submit(
        watched("a").saving(),
        Workload { saves: false, on_sigterm: 137, grace: seconds(3), ..work(10_000) },
    );
    interrupted(&mut cluster, "a", 100, false);
    assert_eq!(attempt(&cluster, "a").measured.answered_sigterm, Some(false));
    assert!(cluster.stored_sj("a").saves_on_sigterm());
}

#[test]
fn reports_are_written_from_the_small_budget() {
    let mut cluster = Cluster::new(settings().supervising().filled_to(1.0).starting_at_once(400))
        .with_nodes([node("n1", 400_000), node("n2", 400_000), node("n3", 400_000), node("n4", 400_000)]);
    cluster.thorough = false;
    let names: Vec<String> = (0..300).map(|number| format!("a{number}")).collect();
    for name in &names {
        cluster.submit(watched(name), work(10_000));
    }
    cluster.run_until("all run", |c| names.iter().all(|n| c.status(n).phase == Phase::Running));
    cluster.run_for(seconds(120));
    let before = writes(&cluster);
    for _ in 0..4 {
        for name in &names {
            cluster.report_of(&key(&format!("{name}-1-0")), 0, None);
        }
        cluster.run_for(seconds(15));
    }
    let written = writes(&cluster) - before;
    assert!((250..=310).contains(&written), "{written} writes in a minute");
}

/// Who makes room, and for what.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    Scheduler,
    Operator,
    Headroom,
}

/// Of two on a full node one has a checkpoint that is newer than the other's by these seconds: who goes?
fn goes(mode: Mode, younger_is_fresh: bool, apart: i64) -> String {
    let settings = match mode {
        Mode::Scheduler => settings().filled_to(1.0),
        Mode::Operator => settings().preempting().filled_to(1.0),
        Mode::Headroom => settings().filled_to(0.8),
    };
    let mut cluster = Cluster::new(settings.supervising()).with_nodes([node("n1", 10_000)]);
    cluster.strict = false;
    for name in ["older", "younger"] {
        cluster.submit(watched(name).asking(4000).interruptible_after(seconds(600)), work(10_000));
        cluster.run_until_phase(name, Phase::Running);
        cluster.run_for(seconds(100));
    }
    let (fresh, old) = if younger_is_fresh { ("younger", "older") } else { ("older", "younger") };
    cluster.report_checkpoint(old);
    cluster.run_for(seconds(apart));
    cluster.report_checkpoint(fresh);
    cluster.run_for(seconds(5));
    let ordinary = pod("owner", if mode == Mode::Headroom { 1500 } else { 5000 });
    let ordinary = if mode == Mode::Operator { ordinary.patient() } else { ordinary };
    cluster.create_pod(ordinary, seconds(1000));
    cluster.run_until("somebody went", |cluster| {
        cluster.scavenger_jobs().any(|sj| sj.status.phase == Phase::Interrupted)
    });
    cluster.run_for(seconds(20));
    let went = cluster.scavenger_jobs().filter(|sj| sj.status.interrupted_count > 0);
    went.map(|sj| sj.key.name.to_string()).collect::<Vec<_>>().join(" and ")
}

#[test]
fn a_fresh_checkpoint_decides_where_the_operator_does_and_age_where_the_scheduler_does() {
    // Within one step of 200 s, too.
    for apart in [500, 50] {
        for mode in [Mode::Operator, Mode::Headroom] {
            assert_eq!(goes(mode, true, apart), "younger", "{mode:?}");
            assert_eq!(goes(mode, false, apart), "older", "{mode:?}");
        }
        // kube-scheduler knows no checkpoints.
        assert_eq!(goes(Mode::Scheduler, true, apart), goes(Mode::Scheduler, false, apart));
    }
}

/// How long after the order the pods of a workload that is in the way are evicted, and whether it was asked for a checkpoint.
fn evicted_after(
    spec: impl FnOnce(ScavengerJob) -> ScavengerJob,
    mode: Mode,
    answers_after: Option<i64>,
) -> (i64, bool) {
    let settings = match mode {
        Mode::Headroom => settings().filled_to(0.8),
        _ => settings().preempting().filled_to(1.0),
    };
    let mut cluster = Cluster::new(settings.supervising()).with_nodes([node("n1", 10_000)]);
    cluster.strict = false;
    cluster.submit(spec(watched("a").asking(8000)), work(10_000));
    cluster.run_until_phase("a", Phase::Running);
    cluster.run_for(seconds(60));
    cluster.report_checkpoint("a");
    cluster.run_for(seconds(60));
    let ordinary = pod("owner", if mode == Mode::Headroom { 1500 } else { 5000 });
    cluster.create_pod(if mode == Mode::Operator { ordinary.patient() } else { ordinary }, seconds(1000));
    let before = cluster.log.len();
    cluster.run_until("it is ordered to go", |cluster| {
        cluster.log[before..].iter().any(|(_, action)| is_order(&action.task))
    });
    cluster.run_for(seconds(2));
    let is_asked = cluster.planner.asked_for_checkpoint().count() == 1;
    if let Some(after) = answers_after {
        cluster.run_for(seconds(after));
        cluster.report_checkpoint("a");
    }
    cluster.run_until("it was interrupted", |cluster| cluster.status("a").interrupted_count == 1);
    assert_eq!(cluster.planner.asked_for_checkpoint().count(), 0);
    let time = |found: fn(&Task) -> bool| {
        let first = cluster.log[before..].iter().find(|(_, action)| found(&action.task));
        first.map(|(time, _)| *time).expect("it should be in the log")
    };
    let evicted = time(|task| matches!(task, Task::Interrupt { .. }));
    (evicted.duration_since(time(is_order)).as_secs(), is_asked)
}

fn is_order(task: &Task) -> bool {
    matches!(task, Task::WriteStatus(write) if write.orders_interruption())
}

#[test]
fn a_planned_interruption_waits_for_a_checkpoint_that_is_asked_for() {
    let asked = |sj: ScavengerJob| sj.that_can_be_asked();
    let (after, is_asked) = evicted_after(asked, Mode::Headroom, Some(5));
    assert!(is_asked && (6..=9).contains(&after), "{after} s");
    let (after, is_asked) = evicted_after(asked, Mode::Headroom, None);
    assert!(is_asked && (29..=32).contains(&after), "{after} s");
    // A pod waits, or nothing is lost anyway, or nobody can ask.
    for (what, (after, is_asked)) in [
        ("a pod waits", evicted_after(asked, Mode::Operator, None)),
        ("it saves when it is stopped", evicted_after(|sj| asked(sj).saving(), Mode::Headroom, None)),
        ("it cannot be asked", evicted_after(|sj| sj, Mode::Headroom, None)),
    ] {
        assert!(!is_asked && after <= 2, "{what}: {after} s");
    }
}

#[test]
fn a_drain_and_a_node_that_left_the_pool_leave_time_for_a_checkpoint_too() {
    let inside = || node("n1", 10_000).labelled("pool", "scavenger");
    let selecting = || {
        let mut settings = settings().supervising().filled_to(1.0);
        settings.node_selector = [("pool".into(), "scavenger".into())].into();
        settings
    };
    type Plan = fn(&mut Cluster, Settings);
    let plans: [(Plan, Reason); 2] = [
        (|cluster, settings| cluster.set_pool(Ok(Settings { drain: true, ..settings })), Reason::Drained),
        (|cluster, _| cluster.set_node(node("n1", 10_000)), Reason::NodeLeftPool),
    ];
    for (plan, reason) in plans {
        for answers in [true, false] {
            let mut cluster = Cluster::new(selecting()).with_nodes([inside()]);
            cluster.strict = false;
            cluster.submit(
                watched("a").asking(8000).that_can_be_asked(),
                Workload { saves: false, ..work(10_000) },
            );
            cluster.run_until_phase("a", Phase::Running);
            cluster.run_for(seconds(60));
            cluster.report_checkpoint("a");
            cluster.run_for(seconds(60));
            plan(&mut cluster, selecting());
            cluster.run_until("it is asked", |cluster| cluster.planner.asked_for_checkpoint().count() == 1);
            cluster.run_for(seconds(2));
            if answers {
                cluster.report_checkpoint("a");
            }
            let after = evicted_within(&mut cluster);
            let expected = if answers { 0..=3 } else { 25..=30 };
            assert!(expected.contains(&after), "{reason}: {after} s, it answers: {answers}");
            cluster.run_until("it was interrupted", |cluster| cluster.status("a").interrupted_count == 1);
            assert_eq!(attempt(&cluster, "a").reason, Some(reason.clone()));
            // What it lost is what it ran after the checkpoint that it was asked for.
            cluster.run_until("it is measured", |cluster| attempt(cluster, "a").measured.lost.is_some());
            let lost = attempt(&cluster, "a").measured.lost.map(|lost| lost.as_secs());
            assert!(
                lost.is_some_and(|lost| if answers { lost <= 5 } else { lost >= 85 }),
                "{reason}: {lost:?}"
            );
        }
    }
}

/// A ScavengerJob that is asked for a checkpoint before headroom takes it, and does not answer.
fn asked_for_headroom(settings: Settings) -> Cluster {
    asked_beside(settings, node("n1", 10_000), None)
}

/// The same, on this node and beside another ScavengerJob.
fn asked_beside(settings: Settings, node: Node, other: Option<ScavengerJob>) -> Cluster {
    let mut cluster = Cluster::new(settings.supervising()).with_nodes([node]);
    cluster.strict = false;
    if let Some(other) = other {
        let name = other.key.name.to_string();
        cluster.submit(other, work(10_000));
        cluster.run_until_phase(&name, Phase::Running);
    }
    cluster.submit(watched("a").asking(7000).that_can_be_asked(), work(10_000));
    cluster.run_until_phase("a", Phase::Running);
    cluster.run_for(seconds(60));
    cluster.report_checkpoint("a");
    cluster.run_for(seconds(60));
    cluster.create_pod(pod("owner", 2500).patient(), seconds(1000));
    cluster.run_until("it is asked", |cluster| cluster.planner.asked_for_checkpoint().count() == 1);
    cluster.run_for(seconds(2));
    cluster
}

/// In how many seconds it is evicted.
fn evicted_within(cluster: &mut Cluster) -> i64 {
    let before = cluster.now;
    cluster.run_until("it is evicted", |cluster| {
        cluster.log.iter().any(|(_, action)| matches!(action.task, Task::Interrupt { .. }))
    });
    cluster.now.duration_since(before).as_secs()
}

#[test]
fn an_operator_that_was_started_again_still_waits_for_the_checkpoint() {
    let mut cluster = asked_for_headroom(settings().filled_to(0.8));
    assert!(cluster.status("a").last_checkpoint.is_some());
    cluster.restart(true);
    let after = evicted_within(&mut cluster);
    assert!((20..=30).contains(&after), "{after} s");
}

#[test]
fn who_is_deleted_is_not_asked_any_more() {
    let mut cluster = asked_for_headroom(settings().filled_to(0.8));
    cluster.delete_sj("a");
    cluster.run_for(seconds(120));
    assert!(cluster.scavenger_jobs().next().is_none(), "{}", cluster.history());
    assert_eq!(cluster.planner.asked_for_checkpoint().count(), 0);
}

#[test]
fn nobody_who_cannot_wait_waits_for_a_checkpoint_that_was_asked_for() {
    let headroom = || Settings { preemption_mode: PreemptionMode::Operator, ..settings().filled_to(0.8) };
    let mut nobody_else = asked_for_headroom(headroom());
    assert!((26..=30).contains(&evicted_within(&mut nobody_else)));
    // An ordinary pod finds no capacity but what it is giving back.
    let mut waits = asked_for_headroom(headroom());
    waits.create_pod(pod("second", 3000).patient(), seconds(1000));
    assert!(evicted_within(&mut waits) <= 3);
    waits.run_for(seconds(20));
    assert_eq!(waits.status("a").interrupted_count, 1);
    // One that waits for something else on that node is served without it.
    let slot = "example.com/slot";
    let holder = watched("b").asking(100).asking_for(slot, 1);
    let mut other = asked_beside(headroom(), node("n1", 10_000).having(slot, 2), Some(holder));
    let mut second = pod("second", 100).patient();
    second.requests.other.insert(slot.into(), 2);
    other.create_pod(second, seconds(1000));
    other.run_until("b goes", |cluster| cluster.status("b").interrupted_count == 1);
    assert_eq!(other.planner.asked_for_checkpoint().count(), 1, "a is still waited for");
    // Its node runs out of memory.
    let mut pressed = asked_for_headroom(headroom());
    pressed.set_node(node("n1", 10_000).pressed("MemoryPressure"));
    assert!(evicted_within(&mut pressed) <= 3);
}

#[test]
fn nobody_else_goes_while_one_that_was_asked_is_being_evicted() {
    for offset in [0, 20, 100, 500, 900, 990] {
        let mut cluster =
            Cluster::new(settings().filled_to(0.8).supervising()).with_nodes([node("n1", 10_000)]);
        cluster.strict = false;
        for name in ["a", "b"] {
            cluster.submit(watched(name).asking(4000).that_can_be_asked(), work(10_000));
            cluster.run_until_phase(name, Phase::Running);
        }
        cluster.run_for(seconds(60));
        cluster.report_checkpoint("a");
        cluster.report_checkpoint("b");
        cluster.run_for(seconds(60) + SignedDuration::from_millis(offset));
        cluster.create_pod(pod("owner", 1500), seconds(1000));
        // The eviction takes a moment to be seen.
        cluster.run_for(seconds(29));
        cluster.hold_watch(scavenger_simulator::Stream::Pods);
        cluster.run_for(seconds(5));
        cluster.let_go(scavenger_simulator::Stream::Pods);
        cluster.run_for(seconds(60));
        let went: u32 = ["a", "b"].map(|name| cluster.status(name).interrupted_count).iter().sum();
        assert_eq!(went, 1, "{offset} ms after a whole second");
    }
}

#[test]
fn the_namespaces_of_all_are_known_in_a_pool_with_a_supervisor() {
    for (settings, wanted) in [(settings().supervising(), vec!["a", "b", "lab"]), (settings(), vec![])] {
        let mut cluster = Cluster::new(settings);
        for (namespace, name) in [("lab", "x"), ("a", "x"), ("a", "y"), ("b", "z"), ("lab", "a")] {
            let uid = format!("{namespace}-{name}").as_str().into();
            let sj = ScavengerJob { key: Key::new(namespace, name), uid, ..watched(name) };
            cluster.tell(Observation::ScavengerJob(Box::new(sj)));
        }
        let found = cluster.planner.supervised_namespaces();
        assert_eq!(found.iter().map(|name| &***name).collect::<Vec<_>>(), wanted);
    }
}
