//! Windows of time in which the pool has other thresholds. The model begins at 08:00:00 UTC.

use jiff::civil::time;
use scavenger_planner::{
    fixtures::{at, daily, node, seconds, settings, sj},
    resources::Share,
    values::{Calendar, Filling, Outcome, Phase, Reason, Settings, WaitingReason, Window},
};
use scavenger_simulator::Cluster;

use super::{all_is_quiet, outcome, work};

fn filling(settings: Settings) -> Filling {
    Filling { start_thresholds: settings.start_thresholds, headroom: settings.headroom }
}

/// A pool that may be filled to one share from five past eight to ten past, and to another one otherwise.
fn with_window(inside: Settings, outside: Settings) -> Settings {
    let window = Window {
        name: "break".into(),
        schedule: daily(time(8, 5, 0, 0), time(8, 10, 0, 0)),
        filling: filling(inside),
    };
    let calendar = Calendar::new(vec![window], filling(outside.clone()));
    Settings { calendar: Some(calendar.into()), ..outside }
}

const OPENS: i64 = 300;
const CLOSES: i64 = 600;

fn cluster(settings: Settings) -> Cluster {
    Cluster::new(settings).with_nodes([node("n1", 10_000)])
}

#[test]
fn who_finds_no_capacity_starts_when_a_window_opens_and_goes_on_when_it_closes() {
    let mut cluster = cluster(with_window(settings().filled_to(1.0), settings().without_headroom()));
    for name in ["a", "b"] {
        cluster.submit(sj(name).asking(5000), work(1000));
    }
    cluster.run_until("the window is about to open", |cluster| cluster.now >= at(OPENS - 2));
    assert_eq!(cluster.waits("b"), Some(WaitingReason::NoCapacity));
    cluster.run_until_phase("b", Phase::Running);
    assert!(cluster.now < at(OPENS + 10), "{}", cluster.history());
    cluster.run_until("the window is closed", |cluster| cluster.now >= at(CLOSES + 100));
    cluster.submit(sj("late").asking(1000), work(10));
    for name in ["a", "b", "late"] {
        cluster.run_until_phase(name, Phase::Completed);
        assert_eq!(cluster.status(name).interrupted_count, 0, "{name}");
    }
    all_is_quiet(&mut cluster);
}

#[test]
fn what_fits_inside_a_window_only_waits_for_it() {
    let mut cluster = cluster(with_window(settings().filled_to(0.95), settings()));
    cluster.submit(sj("large").asking(9000), work(10));
    cluster.submit(sj("huge").asking(9600), work(10));
    cluster.run_for(seconds(60));
    assert_eq!(cluster.waits("large"), Some(WaitingReason::NoCapacity));
    assert_eq!(
        cluster.status("large").message,
        "needs 9 cpu, but only 7 cpu are left below the threshold of 70%"
    );
    assert_eq!(cluster.waits("huge"), Some(WaitingReason::NeverFits));
    assert_eq!(
        cluster.status("huge").message,
        "asks for 9.6 cpu in all, but ScavengerJobs may fill the pool only up to 95% of 10 cpu"
    );
    cluster.run_until_phase("large", Phase::Completed);
    assert!(cluster.now > at(OPENS) && cluster.now < at(OPENS + 30), "{}", cluster.history());
}

/// The same where a node is counted by use: nobody has measured it yet, and the window opens later.
#[test]
fn by_use_too_what_fits_inside_a_window_only_waits_for_it() {
    let mut cluster = cluster(with_window(settings().filled_to(0.95), settings()).by_use());
    cluster.submit(sj("large").asking(9000), work(10));
    cluster.submit(sj("huge").asking(9600), work(10));
    cluster.run_for(seconds(60));
    assert_eq!(cluster.waits("large"), Some(WaitingReason::NoCapacity), "{}", cluster.history());
    assert_eq!(cluster.waits("huge"), Some(WaitingReason::NeverFits), "{}", cluster.history());
}

#[test]
fn at_the_end_of_a_window_those_go_that_the_thresholds_of_the_day_do_not_allow() {
    for is_restarted in [false, true] {
        let mut day = settings().filled_to(0.3);
        day.headroom.target = Share::from_fraction(0.5);
        day.headroom.interrupt_threshold = Some(Share::from_fraction(0.6));
        let mut cluster = cluster(with_window(settings().filled_to(1.0), day));
        cluster.run_until("the window is open", |cluster| cluster.now >= at(OPENS));
        for name in ["a", "b", "c"] {
            cluster.submit(sj(name).asking(3000), work(500));
            cluster.run_until_phase(name, Phase::Running);
        }
        cluster.run_until("the window is about to close", |cluster| cluster.now >= at(CLOSES - 2));
        assert_eq!(cluster.scavenger_jobs().map(|sj| sj.status.interrupted_count).sum::<u32>(), 0);
        if is_restarted {
            cluster.restart(false);
        }
        cluster.run_until("it is closed", |cluster| cluster.now >= at(CLOSES + 60));
        let interrupted: Vec<&str> = cluster
            .scavenger_jobs()
            .filter(|sj| sj.status.interrupted_count == 1)
            .map(|sj| &*sj.key.name)
            .collect();
        // 9 of 10 cores are used, down to 5: two of them.
        assert_eq!(interrupted.len(), 2, "{interrupted:?}\n{}", cluster.history());
        for name in interrupted {
            assert_eq!(outcome(&cluster, name), (1, Some(Outcome::Interrupted), Reason::Headroom));
        }
    }
}
