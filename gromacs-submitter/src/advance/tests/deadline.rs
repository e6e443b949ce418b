//! Rows with a deadline.

use super::*;
use crate::advance::deadline::Outlook;

/// 10 ns. At the slow end of what is predicted that takes 3.8 h on 2 cores, 6.7 h on one and 13.6 h on half of one.
fn due_in(hours: f64) -> Scene {
    let mut row = submitted();
    row.system.nsteps = Some(5_000_000);
    row.deadline = Some((now() + SignedDuration::from_secs_f64(hours * 3600.0)).into());
    Scene::of(row)
}

fn free(scene: &mut Scene, cpu_millicores: u32) {
    let pool = scene.pool.as_mut().expect("should have a pool");
    pool.nodes[0].largest_free.as_mut().expect("should be known").cpu_millicores = cpu_millicores;
}

fn late(scene: &Scene) -> Option<i64> {
    let input_now = scene.now;
    let outlook = Outlook::new(&scene.row, &scene.row.status, &scene.ladder, input_now);
    outlook.and_then(|outlook| outlook.late(&scene.ladder[0], 0.0)).map(|late| (late / 3600.0).round() as i64)
}

#[test]
fn it_is_judged_at_the_slow_end() {
    assert_eq!(late(&due_in(10.0)), Some(-6));
    assert_eq!(late(&due_in(3.5)), Some(0));
    let mut scene = due_in(1.0);
    assert_eq!(late(&scene), Some(3));
    // What was measured is known better than what was predicted: a tenth of the speed.
    scene.row.status.private.speed_ratio = Some(0.1);
    assert_eq!(late(&scene), Some(33));
    // What the running attempt measures counts at once: 100 ns/day, and half of it is done.
    (scene.row.status.first_step, scene.row.status.step) = (Some(0), Some(2_500_000));
    scene.row.status.ns_per_day = Some(100.0);
    assert_eq!(late(&scene), Some(0), "1.3 h at nine tenths of that");
    scene.row.deadline = None;
    assert_eq!(late(&scene), None);
    let mut calibration = crate::fixtures::calibration();
    calibration.deadline = Some(now().into());
    assert_eq!(late(&Scene::of(calibration)), None);
}

#[test]
fn it_says_so_while_it_waits_and_while_it_runs_and_not_to_and_fro() {
    let mut scene = due_in(3.0);
    free(&mut scene, 100);
    scene.job = Some(waits(1, WaitingReason::BehindInQueue));
    let step = scene.go();
    // 3.846 h less 3 h, in whole minutes.
    assert_eq!(step.status.late_seconds, Some(51 * 60));
    // A little faster than was thought is not enough to take it back.
    scene.row.deadline = Some((now() + SignedDuration::from_secs(13_900)).into());
    assert_eq!(scene.go().status.late_seconds, Some(0));
    scene.row.deadline = Some((now() + SignedDuration::from_secs(14_600)).into());
    assert_eq!(scene.go().status.late_seconds, None, "more than a twentieth to spare");
    scene.row.deadline = Some((now() + SignedDuration::from_secs(13_900)).into());
    assert_eq!(scene.go().status.late_seconds, None, "in time");

    // What is not begun is late from its deadline on.
    let mut queued = due_in(-0.5);
    queued.row.status.state = State::Tuning;
    queued.pool = None;
    assert_eq!(queued.go().status.late_seconds, Some(1800));
    // What has ended is not.
    let mut ended = due_in(-0.5).read(CONTINUED);
    ended.row.system.nsteps = Some(4000);
    ended.job = Some(completed_job());
    let step = ended.go();
    assert_eq!((step.status.state, step.status.late_seconds), (State::Completed, None));
}

#[test]
fn in_line_it_waits_no_longer_than_its_deadline_allows() {
    for (hours, next) in [(4.2, None), (4.0, Some(2))] {
        let mut scene = due_in(hours);
        free(&mut scene, 1000);
        scene.job = Some(JobView { waiting_since: Some(now()), ..waits(1, WaitingReason::BehindInQueue) });
        // A sixth of an hour, and as long again would be too long or not.
        scene.after(600);
        scene.row.deadline =
            scene.row.deadline.map(|time| (time.to_jiff() + SignedDuration::from_secs(600)).into());
        let step = scene.go();
        assert_eq!(step.status.next_rung, next, "{hours}: {}", reason(&step));
    }
}

/// It waits with the largest, and 10 minutes are over.
#[test]
fn it_falls_back_to_what_is_in_time_if_that_has_capacity() {
    for (hours, free_cpu, next) in [(20.0, 600, Some(3)), (10.0, 600, Some(2)), (20.0, 100, Some(2))] {
        let mut scene = due_in(hours);
        free(&mut scene, free_cpu);
        scene.job = Some(waits(1, WaitingReason::NoCapacity));
        scene.go();
        scene.after(600);
        let step = scene.go();
        assert_eq!(step.status.next_rung, next, "{hours} h, {free_cpu} free: {}", reason(&step));
    }
}

#[test]
fn a_row_that_is_late_grows_earlier_and_for_less() {
    // It has run on one core for so long, at 30 ns/day: 8 h are left, and 5.7 on two cores.
    for (hours, seconds, next) in [(6.0, 310, Some(1)), (6.0, 290, None), (20.0, 610, None)] {
        let mut scene = due_in(hours);
        let status = &mut scene.row.status;
        (status.state, status.rung, status.attempt) = (State::Running, Some(2), 1);
        (status.first_step, status.step) = (Some(0), Some(1000));
        (status.private.progress_from_step, status.private.progress_from_time) = (Some(0), Some(now()));
        status.ns_per_day = Some(30.0);
        scene.ladder[0].ns_per_day_p50 = 63.0;
        scene.job =
            Some(JobView { attempts: vec![attempt(1, 2, None)], has_run: true, ..job(Phase::Running, 2) });
        scene.after(seconds);
        let step = scene.go();
        assert_eq!(step.status.next_rung, next, "{hours} h, {seconds} s: {}", reason(&step));
        let says = reason(&step).ends_with("which would miss its deadline");
        assert_eq!(says, next.is_some(), "{}", reason(&step));
    }
}

#[test]
fn it_takes_what_there_is_rather_than_wait_past_its_deadline() {
    // 10 minutes of waiting leave enough time, or they do not.
    for (hours, next) in [(6.0, None), (3.9, Some(2)), (1.0, Some(2))] {
        let mut scene = due_in(hours);
        free(&mut scene, 1000);
        scene.job = Some(waits(1, WaitingReason::NoCapacity));
        let step = scene.go();
        assert_eq!(step.status.next_rung, next, "{hours}: {}", reason(&step));
    }
    // There is nothing else to take: it waits as usual.
    let mut scene = due_in(1.0);
    free(&mut scene, 400);
    scene.job = Some(waits(1, WaitingReason::NoCapacity));
    assert_eq!(scene.go().status.next_rung, None);
    // One that cannot grow waits as well, unless the smaller one is done sooner than this one after the wait.
    for (steps, next) in [(5_000_000, None), (100_000, Some(2))] {
        let mut scene = due_in(0.0);
        free(&mut scene, 1000);
        scene.row.system.nsteps = Some(steps);
        let script = std::collections::BTreeMap::from([("launcher".to_owned(), "script".to_owned())]);
        scene.row.inspected = Some(sqlx::types::Json(script));
        scene.job = Some(waits(1, WaitingReason::NoCapacity));
        assert_eq!(scene.go().status.next_rung, next, "{steps} steps");
    }
    // A row without a deadline has patience.
    let mut scene = due_in(1.0);
    free(&mut scene, 1000);
    scene.row.deadline = None;
    scene.job = Some(waits(1, WaitingReason::NoCapacity));
    assert_eq!(scene.go().status.next_rung, None);
}
