//! Waiting for room: quotas, an operator that is away, and other configurations after an interruption.

use scavenger_schema::tuning::Resources;

use super::*;

/// A row whose attempt on `rung` was interrupted at half of its 4,000,000 steps: 4 ns remain, which take 1.2 hours on
/// 2 cores, 2.1 on 1 core and 4.4 on half of one.
fn interrupted(rung: i32, reason: WaitingReason) -> Scene {
    let mut row = submitted();
    row.system.nsteps = Some(4_000_000);
    row.status.rung = Some(rung);
    row.status.step = Some(2_000_000);
    row.status.state = State::Interrupted;
    row.status.attempt = 1;
    row.status.private.attempts_recorded = 1;
    row.status.private.interruption_time = Some(now());
    let job = JobView {
        attempts: vec![attempt(1, rung, Some(Outcome::Interrupted))],
        has_run: true,
        phase: Phase::Interrupted,
        ..waits(rung, reason)
    };
    let mut scene = Scene::with_job(row, job);
    scene.after(1);
    scene
}

fn free(scene: &mut Scene, cpu_millicores: u32) {
    let free = Resources { cpu_millicores, memory_bytes: 4 << 30, gpus: 0 };
    scene.pool.as_mut().expect("should have a pool").nodes[0].largest_free = Some(free);
}

fn short(scene: &mut Scene) {
    // 400 steps of 2 fs: 1.5 s on 1 core.
    scene.row.status.step = Some(3_999_600);
}

#[test]
fn behind_the_forecast_of_its_start_stands_how_long_it_takes_then() {
    let mut scene = interrupted(2, WaitingReason::Suspended);
    let job = scene.job.as_mut().expect("should be there");
    job.message = Some("is suspended; it is expected to start between 10:00 and 12:00 UTC".to_owned());
    job.has_forecast = true;
    let step = scene.go();
    let said = reason(&step);
    assert!(said.ends_with("between 10:00 and 12:00 UTC, and then takes about 2.1 h"), "{said}");
}

#[test]
fn after_an_interruption_it_grows_into_the_room_there_is() {
    let mut scene = interrupted(3, WaitingReason::BackingOff);
    free(&mut scene, 2000);
    let step = scene.go();
    assert_eq!((&step.action, step.status.next_rung), (&Action::Record, Some(1)));
    assert_eq!(
        reason(&step),
        "continues on configuration 1 of 3, 2 cores: with the capacity there is now it would be done in 74 min instead of \
         4.4 h"
    );
    let replace = Action::ReplaceJob { rung: 1, resumes: false, resource_version: "42".to_owned() };
    assert_eq!(scene.step().action, replace);
    // Replaced. At most one change follows an interruption, however the room comes and goes.
    let job = scene.job.take().expect("should be there");
    scene.job = Some(JobView { rung: Some(1), ..job });
    assert_eq!(scene.go().status.rung, Some(1));
    free(&mut scene, 1000);
    scene.after(5);
    let step = scene.go();
    assert_eq!((step.action, step.status.next_rung), (Action::Settle, None));
}

#[test]
fn the_largest_that_fits_is_taken() {
    let mut scene = interrupted(3, WaitingReason::BackingOff);
    free(&mut scene, 1500);
    assert_eq!(scene.go().status.next_rung, Some(2));
    free(&mut scene, 900);
    let mut scene = interrupted(3, WaitingReason::BackingOff);
    free(&mut scene, 900);
    assert_eq!(scene.go().status.next_rung, None, "what it has is the best that fits");
}

#[test]
fn it_shrinks_at_once_when_waiting_would_take_longer_than_computing() {
    for reason in [WaitingReason::NoCapacity, WaitingReason::Unscheduled, WaitingReason::BackingOff] {
        // Hours to go: 10 minutes of waiting for twice the speed pay.
        let mut scene = interrupted(2, reason);
        free(&mut scene, 600);
        assert_eq!(scene.go().status.next_rung, None, "{reason}");
        // Seconds to go: they do not.
        let mut scene = interrupted(2, reason);
        short(&mut scene);
        free(&mut scene, 600);
        let step = scene.go();
        assert_eq!(step.status.next_rung, Some(3), "{reason}");
    }
}

#[test]
fn a_small_gain_is_not_worth_a_change() {
    let mut scene = interrupted(2, WaitingReason::BackingOff);
    scene.ladder[0].ns_per_day_p50 = scene.ladder[1].ns_per_day_p50 * 1.1;
    assert_eq!(scene.go().status.next_rung, None);
    scene.ladder[0].ns_per_day_p50 = scene.ladder[1].ns_per_day_p50 * 1.2;
    assert_eq!(scene.go().status.next_rung, Some(1));
}

#[test]
fn only_room_is_a_reason_to_change() {
    for reason in [
        WaitingReason::BehindInQueue,
        WaitingReason::Paused,
        WaitingReason::Suspended,
        WaitingReason::NodeUnreachable,
        WaitingReason::QuotaExceeded,
    ] {
        let mut scene = interrupted(3, reason);
        assert_eq!(scene.go().status.next_rung, None, "{reason}");
    }
    // Never interrupted, so nothing is known that the tuner did not know.
    let mut scene = Scene::with_job(submitted(), waits(3, WaitingReason::BackingOff));
    assert_eq!(scene.go().status.next_rung, None);
    // It just started.
    let mut scene = interrupted(3, WaitingReason::BackingOff);
    scene.job.as_mut().expect("should be there").phase = Phase::Starting;
    assert_eq!(scene.go().status.next_rung, None);
    // The status speaks of the spec before.
    let mut scene = interrupted(3, WaitingReason::BackingOff);
    scene.job.as_mut().expect("should be there").judged = false;
    assert_eq!(scene.go().status.next_rung, None);
}

#[test]
fn room_that_was_measured_before_the_interruption_tells_nothing() {
    let mut scene = interrupted(3, WaitingReason::BackingOff);
    scene.pool.as_mut().expect("should have a pool").update_time = Some(now());
    let step = scene.go();
    assert_eq!(step.status.next_rung, None);
    assert_eq!(
        step.status.next_attempt_time.to_jiff(),
        scene.now + SignedDuration::from_secs(5),
        "looks again soon"
    );
    // Nothing changed for two of the operator's intervals, so it wrote nothing.
    scene.now += SignedDuration::from_secs(10);
    assert_eq!(scene.go().status.next_rung, Some(1));
}

/// It was down the ladder and begins over again with what it had when it was interrupted.
#[test]
fn who_comes_back_to_where_it_was_changes_no_more() {
    for superseded in [false, true] {
        let mut scene = interrupted(1, WaitingReason::NoCapacity);
        short(&mut scene);
        free(&mut scene, 600);
        scene.job.as_mut().expect("should be there").attempts[0].is_superseded = superseded;
        assert_eq!(scene.go().status.next_rung, (!superseded).then_some(3));
    }
}

#[test]
fn a_later_interruption_allows_a_change_again() {
    let mut scene = interrupted(3, WaitingReason::BackingOff);
    scene.go();
    let mut second = attempt(2, 1, Some(Outcome::Interrupted));
    second.end_time = Some(scene.now);
    let job = scene.job.take().expect("should be there");
    let first = job.attempts[0].clone();
    scene.job = Some(JobView { rung: Some(1), attempts: vec![first, second], ..job });
    short(&mut scene);
    free(&mut scene, 600);
    scene.after(1);
    assert_eq!(scene.go().status.rung, Some(1), "the change of the first one is done");
    scene.go();
    scene.after(1);
    assert_eq!(scene.go().status.next_rung, Some(3));
}

#[test]
fn a_quota_is_left_for_a_configuration_that_it_holds() {
    let room = |cpu: &str| {
        let quota = serde_json::from_value(serde_json::json!({
            "spec": {}, "status": { "hard": { "cpu": cpu }, "used": { "cpu": "1" } },
        }));
        Some(QuotaRoom::of(&[quota.expect("should be a quota")]))
    };
    for (quota, next_rung) in
        [(None, None), (room("1"), None), (room("1500m"), Some(3)), (room("2"), Some(2))]
    {
        let mut scene = Scene::with_job(submitted(), waits(1, WaitingReason::QuotaExceeded));
        scene.quota.clone_from(&quota);
        let step = scene.go();
        assert_eq!(step.status.next_rung, next_rung, "{quota:?}");
        assert!(reason(&step).starts_with("the operator's sentence"), "{}", reason(&step));
    }
    // Below the smallest there is nothing, and the ladder is not started over: a quota is not room that comes back.
    let mut scene = Scene::with_job(submitted(), waits(3, WaitingReason::QuotaExceeded));
    scene.quota = room("1500m");
    let step = scene.go();
    assert_eq!(
        (step.action, step.status.next_rung, step.status.private.next_lap_time),
        (Action::Settle, None, None)
    );
}

#[test]
fn the_clock_stands_still_while_the_operator_is_away() {
    let mut scene = Scene::with_job(submitted(), waits(1, WaitingReason::NoCapacity));
    scene.go();
    scene.after(500);
    assert_eq!(scene.go().status.next_rung, None);
    // Nobody writes any more.
    for _ in 0..100 {
        scene.now += SignedDuration::from_secs(600);
        let step = scene.go();
        assert_eq!((&step.action, step.status.next_rung), (&Action::Settle, None));
        assert!(reason(&step).contains("has not been heard of"), "{}", reason(&step));
    }
    let waited = scene.row.status.private.no_room_seconds;
    assert!((waited - 500.0).abs() < 1e-9, "{waited}");
    scene.after(1);
    assert_eq!(scene.go().status.next_rung, None, "back again");
    scene.after(100);
    assert_eq!(scene.go().status.next_rung, Some(2));
}

#[test]
fn what_kubelets_refuse_twice_falls_back() {
    for (words, falls_back) in [
        ("node n1 refused pod x: SMTAlignmentError: not enough free physical CPUs", true),
        ("node n1 refused pod x: TopologyAffinityError: Resources cannot be allocated", true),
        ("node n1 refused pod x: OutOfcpu: Node didn't have enough resource", false),
    ] {
        let refused = |number| AttemptView {
            message: Some(words.to_owned()),
            start_time: None,
            ..attempt(number, 1, Some(Outcome::Withdrawn))
        };
        let waiting = |attempts| JobView { attempts, ..waits(1, WaitingReason::BackingOff) };
        let mut scene = Scene::with_job(submitted(), waiting(vec![refused(1)]));
        assert_eq!(scene.go().status.next_rung, None, "once may be one node");
        scene.job = Some(waiting(vec![refused(1), refused(2)]));
        let step = scene.go();
        assert_eq!(step.status.next_rung, falls_back.then_some(2), "{words}");
        if falls_back {
            assert!(reason(&step).starts_with("nodes refuse its pods twice; falls back to"), "{step:?}");
        }
        // What was refused with another configuration says nothing of this one.
        let smaller =
            JobView { attempts: vec![refused(1), refused(2)], ..waits(2, WaitingReason::BackingOff) };
        assert_eq!(Scene::with_job(submitted(), smaller).go().status.next_rung, None);
    }
}

#[test]
fn what_was_measured_on_cpus_says_nothing_of_a_gpu() {
    use crate::advance::ladder::{rest_seconds, take};

    let mut ladder = crate::fixtures::ladder();
    ladder[0].gpus = 1;
    let mut row = interrupted(2, WaitingReason::BackingOff).row;
    let rest = |row: &GromacsToTune, rung: usize| {
        rest_seconds(row, &row.status, &ladder[rung - 1], &ladder, false).expect("the row has an end")
    };
    let [on_gpu, here, below] = [1, 2, 3].map(|rung| rest(&row, rung));
    row.status.private.speed_ratio = Some(0.5);
    let measured = [1, 2, 3].map(|rung| rest(&row, rung));
    assert_eq!(measured, [on_gpu, 2.0 * here, 2.0 * below]);
    take(&mut row.status, Some(3), &ladder);
    assert_eq!((row.status.rung, row.status.private.speed_ratio), (Some(3), Some(0.5)));
    take(&mut row.status, None, &ladder);
    assert_eq!((row.status.rung, row.status.private.speed_ratio), (Some(3), Some(0.5)));
    take(&mut row.status, Some(1), &ladder);
    assert_eq!(
        (row.status.rung, row.status.private.speed_ratio),
        (Some(1), None),
        "a GPU that was never measured"
    );
    assert_eq!(rest(&row, 1), on_gpu);
}
