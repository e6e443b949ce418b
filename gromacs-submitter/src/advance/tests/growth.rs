//! A row that runs with less than there is room for, and one that waits in line beside room that nobody takes.

use std::collections::BTreeMap;

use sqlx::types::Json;

use super::*;

/// 100 ns, a day or more with each configuration; runs on half a core at nine tenths of the predicted speed.
fn small() -> Scene {
    let mut row = submitted();
    row.system.nsteps = Some(50_000_000);
    row.status.state = State::Running;
    row.status.rung = Some(3);
    row.status.attempt = 1;
    row.status.first_step = Some(0);
    row.status.step = Some(1000);
    row.status.ns_per_day = Some(20.0);
    (row.status.private.progress_from_step, row.status.private.progress_from_time) = (Some(0), Some(now()));
    Scene::with_job(row, runs(1, 3))
}

fn runs(number: i32, rung: i32) -> JobView {
    JobView { attempts: vec![attempt(number, rung, None)], has_run: true, ..job(Phase::Running, rung) }
}

#[test]
fn it_stops_at_its_checkpoint_and_goes_on_with_more() {
    let mut scene = small();
    scene.after(590);
    assert_eq!(scene.go().status.next_rung, None, "it has not run for as long as it may lose");
    scene.after(20);
    let step = scene.go();
    assert_eq!((step.status.next_rung, step.status.private.grown_from), (Some(1), Some(3)));
    assert_eq!(step.takes_room, Some(Duration::from_secs(60)), "no herd grows into the same");
    let announced = reason(&step).to_owned();
    assert!(announced.contains("configuration 1 of 3, 2 cores"), "{announced}");
    assert!(announced.contains("takes 33.9 h instead of 120.0 h"), "{announced}");
    assert_eq!(scene.step().action, Action::SuspendJob { resource_version: "42".to_owned() });

    scene.job = Some(JobView { suspended: true, suspended_to_grow: true, ..runs(1, 3) });
    let step = scene.go();
    assert_eq!((step.action.clone(), reason(&step)), (Action::Settle, announced.as_str()), "its pod ends");

    let ended = vec![attempt(1, 3, Some(Outcome::Interrupted))];
    scene.job = Some(stopped(true));
    let resource_version = "42".to_owned();
    assert_eq!(scene.step().action, Action::ReplaceJob { rung: 1, resumes: true, resource_version });

    scene.job = Some(JobView { has_run: true, attempts: ended.clone(), ..job(Phase::Interrupted, 1) });
    let step = scene.go();
    assert_eq!((step.status.rung, step.status.next_rung), (Some(1), None));
    assert_eq!(reason(&step), announced, "the history has it beside the new configuration");
    scene.go();
    assert_eq!((scene.row.status.interruptions, scene.row.status.private.grown_from), (1, Some(3)));

    let attempts = ended.into_iter().chain([attempt(2, 1, None)]).collect();
    scene.job = Some(JobView { attempts, ..runs(2, 1) });
    assert_eq!(scene.go().status.private.grown_from, None);
}

/// The attempt on configuration 3 was stopped by a suspension, the submitter's or a person's.
fn stopped(suspended_to_grow: bool) -> JobView {
    JobView {
        suspended: true,
        suspended_to_grow,
        has_run: true,
        attempts: vec![attempt(1, 3, Some(Outcome::Interrupted))],
        waiting_reason: Some(WaitingReason::Suspended),
        ..job(Phase::Interrupted, 3)
    }
}

/// It was about to go on with configuration 1.
fn growing(job: JobView) -> Scene {
    let mut scene = small();
    (scene.row.status.next_rung, scene.row.status.private.grown_from) = (Some(1), Some(3));
    scene.job = Some(job);
    scene
}

fn resume() -> Action {
    Action::ResumeJob { resource_version: "42".to_owned() }
}

#[test]
fn what_a_person_holds_stays_held_and_grows_no_more() {
    // Held while its pod ends, and held when it has ended.
    for held in [JobView { suspended: true, ..runs(1, 3) }, stopped(false)] {
        let mut scene = growing(held);
        let step = scene.go();
        assert_eq!(
            (step.status.next_rung, step.status.private.grown_from),
            (None, None),
            "{:?}",
            step.action
        );
        scene.job = Some(stopped(false));
        for _ in 0..3 {
            assert_eq!(scene.go().action, Action::Settle, "it waits for that person");
        }
        // Released, it runs as it did before.
        scene.job = Some(runs(2, 3));
        assert_eq!((scene.go().status.state, scene.row.status.rung), (State::Running, Some(3)));
    }
    // Another configuration for a row that does not grow keeps it held.
    let mut scene = growing(stopped(false));
    (scene.row.status.next_rung, scene.row.status.private.grown_from) = (Some(2), None);
    let resource_version = "42".to_owned();
    assert_eq!(scene.step().action, Action::ReplaceJob { rung: 2, resumes: false, resource_version });
}

#[test]
fn what_it_has_suspended_is_resumed_whatever_became_of_the_growth() {
    type Change = fn(&mut Scene);
    let changes: [(&str, Change); 4] = [
        ("the intention is gone", |scene| scene.row.status.next_rung = None),
        ("all of it is gone", |scene| {
            (scene.row.status.next_rung, scene.row.status.private.grown_from) = (None, None);
        }),
        ("there is no such configuration", |scene| scene.row.status.next_rung = Some(9)),
        ("a person has changed its requests", |scene| {
            scene.row.status.next_rung = None;
            scene.job = Some(JobView { rung: None, ..stopped(true) });
        }),
    ];
    for (why, change) in changes {
        let mut scene = growing(stopped(true));
        change(&mut scene);
        assert_eq!(scene.step().action, resume(), "{why}");
    }
    // It was to have what it has.
    let mut scene = growing(stopped(true));
    scene.row.status.next_rung = Some(3);
    scene.go();
    assert_eq!(scene.step().action, resume());
    // Its pod is ending while nothing is intended any more.
    let mut scene = growing(JobView { suspended: true, suspended_to_grow: true, ..runs(1, 3) });
    (scene.row.status.next_rung, scene.row.status.private.grown_from) = (None, None);
    scene.go();
    scene.job = Some(stopped(true));
    assert_eq!(scene.step().action, resume());
    // What only was to grow, and was not replaced, is resumed with another configuration all the same.
    let mut scene = growing(stopped(true));
    (scene.row.status.next_rung, scene.row.status.private.grown_from) = (Some(2), None);
    let resource_version = "42".to_owned();
    assert_eq!(scene.step().action, Action::ReplaceJob { rung: 2, resumes: true, resource_version });
}

#[test]
fn a_row_that_is_cancelled_while_it_grows_leaves_nothing() {
    for job in [JobView { suspended: true, suspended_to_grow: true, ..runs(1, 3) }, stopped(true)] {
        let mut scene = growing(job);
        scene.row.cancel_requested = true;
        let delete = Action::DeleteJob { submission: 1, uid: "uid-1".to_owned() };
        assert_eq!(scene.step().action, delete);
    }
}

#[test]
fn it_does_not_stop_for_what_the_pool_forbids() {
    let mut scene = small();
    scene.after(3600);
    pool_of(&mut scene).limits.max_cpu_millicores = Some(1000);
    assert_eq!(scene.step().status.next_rung, Some(2));
    pool_of(&mut scene).limits.max_cpu_millicores = Some(500);
    assert_eq!(scene.step().status.next_rung, None);
}

#[test]
fn it_stays_as_it_is_where_nothing_much_is_gained_or_others_wait() {
    type Change = fn(&mut Scene);
    let changes: [(&str, Change); 10] = [
        ("its speed is that of the attempt before", |scene| scene.row.status.first_step = None),
        ("another row was first", |scene| scene.room_is_taken = true),
        ("others wait for room", |scene| pool_of(scene).waiting_for_room = 1),
        ("there is no room", |scene| pool_of(scene).nodes[0].largest_free = Some(Default::default())),
        ("less than half of the time is not won", |scene| {
            scene.row.status.rung = Some(2);
            scene.row.status.ns_per_day = Some(45.0);
            scene.job = Some(runs(1, 2));
        }),
        ("it is nearly done", |scene| scene.row.status.step = Some(49_999_000)),
        ("its image starts mdrun by a script, and nobody brings SIGTERM there", |scene| {
            let found = BTreeMap::from([("launcher".to_owned(), "script".to_owned())]);
            scene.row.inspected = Some(Json(found));
        }),
        ("a minimisation would begin again", |scene| {
            let found = BTreeMap::from([("integrator".to_owned(), "steep".to_owned())]);
            scene.row.inspected = Some(Json(found));
        }),
        ("nothing was measured", |scene| scene.row.status.ns_per_day = None),
        ("a person has suspended it", |scene| scene.job = Some(JobView { suspended: true, ..runs(1, 3) })),
    ];
    for (why, change) in changes {
        let mut scene = small();
        scene.after(3600);
        change(&mut scene);
        let step = scene.step();
        assert_eq!((step.action.clone(), step.status.next_rung), (Action::Settle, None), "{why}");
    }
    let mut scene = small();
    scene.after(3600);
    pool_of(&mut scene).update_time = Some(now());
    assert_eq!(scene.step().status.next_rung, None, "the operator is away");
}

/// With all that there is, the rest takes a little more than a quarter of the time, and 30 s for the stop, and the restart: of
/// 240 s that is less than half with a restart of 22 s or less.
#[test]
fn a_restart_costs_what_was_measured_and_else_what_is_usual() {
    for (measured, grows) in [
        (Some(20), true),
        (Some(25), false),
        // Nothing starts within 2 s.
        (Some(2), true),
        (None, false),
        (Some(300), false),
    ] {
        let mut scene = small();
        scene.after(3600);
        scene.restart_seconds = measured;
        // 20 ns a day are 27,778 steps of 2 fs in 240 s.
        scene.row.status.step = Some(50_000_000 - 27_778);
        let step = scene.step();
        assert_eq!(step.status.next_rung.is_some(), grows, "{measured:?}: {}", reason(&step));
    }
}

fn pool_of(scene: &mut Scene) -> &mut PoolView {
    scene.pool.as_mut().expect("should have a pool")
}

#[test]
fn without_room_after_all_it_goes_back_to_what_it_had() {
    let mut scene = stopped_to_grow(WaitingReason::NoCapacity);
    scene.go();
    scene.after(80);
    assert_eq!(scene.go().status.next_rung, None, "the scheduler has its time");
    scene.after(20);
    let step = scene.go();
    assert_eq!((step.status.next_rung, step.status.private.grown_from), (Some(3), None), "{}", reason(&step));
    assert_eq!(step.status.private.growth_failures, 1);
}

/// It was stopped, and waits with configuration 1.
fn stopped_to_grow(why: WaitingReason) -> Scene {
    let mut scene = small();
    scene.row.status.state = State::Interrupted;
    (scene.row.status.rung, scene.row.status.private.grown_from) = (Some(1), Some(3));
    scene.row.status.private.attempts_recorded = 1;
    let attempts = vec![attempt(1, 3, Some(Outcome::Interrupted))];
    scene.job = Some(JobView { attempts, has_run: true, phase: Phase::Interrupted, ..waits(1, why) });
    scene
}

#[test]
fn it_does_not_stop_to_stand_in_line_or_before_a_quota() {
    let mut scene = stopped_to_grow(WaitingReason::QuotaExceeded);
    let step = scene.go();
    assert_eq!((step.status.next_rung, step.status.private.grown_from), (Some(3), None), "{}", reason(&step));
    assert_eq!(step.status.private.growth_failures, 1);
    let mut scene = stopped_to_grow(WaitingReason::BehindInQueue);
    assert_eq!(scene.go().status.next_rung, None);
    scene.after(100);
    let step = scene.go();
    assert_eq!(
        (step.status.next_rung, step.status.private.growth_failures),
        (Some(3), 1),
        "{}",
        reason(&step)
    );
}

#[test]
fn after_a_growth_that_came_to_nothing_the_next_one_takes_twice_as_long() {
    let mut scene = small();
    for (failures, seconds) in [(0, 600), (1, 1200), (2, 2400), (100, 600 << 8)] {
        scene.row.status.private.growth_failures = failures;
        scene.now = now();
        scene.after(seconds - 1);
        assert_eq!(scene.step().status.next_rung, None, "{failures}");
        scene.after(1);
        assert_eq!(scene.step().status.next_rung, Some(1), "{failures}");
    }
    // It runs with more: all is well. With what it had before: it is not.
    for (rung, failures) in [(1, 0), (3, 5)] {
        let mut scene = small();
        (scene.row.status.private.growth_failures, scene.row.status.private.grown_from) = (5, Some(3));
        scene.job = Some(runs(2, rung));
        assert_eq!(
            (scene.go().status.private.growth_failures, scene.row.status.private.grown_from),
            (failures, None)
        );
    }
}

#[test]
fn what_kubernetes_refuses_leaves_nothing_suspended() {
    let mut scene = growing(stopped(true));
    scene.row.status = with_refusal(&scene.row, 1, "too large", now());
    assert!(scene.row.status.next_attempt_time.to_jiff() <= now(), "it does not stand still meanwhile");
    assert_eq!((scene.row.status.next_rung, scene.row.status.private.grown_from), (None, None));
    assert_eq!(scene.row.status.private.growth_failures, 1);
    assert_eq!(scene.step().action, resume(), "with what it had");
    // What only waits goes on waiting.
    let waits = with_refusal(&scene.row, 1, "too large", now());
    assert!(waits.next_attempt_time.to_jiff() > now());
}

#[test]
fn what_may_not_be_suspended_goes_on_as_it_is() {
    let mut scene = growing(runs(1, 3));
    assert_eq!(scene.step().action, Action::SuspendJob { resource_version: "42".to_owned() });
    scene.row.status = without_growth(&scene.row, "denied by a policy", now());
    assert!(scene.row.status.next_attempt_time.to_jiff() > now(), "it does not ask again at once");
    let step = scene.go();
    assert_eq!(
        (&step.action, step.status.state, step.status.next_rung),
        (&Action::Settle, State::Running, None)
    );
}

/// 10 ns: 3 hours on two cores, 5 on one, 11 on half a core.
fn in_line(rung: i32) -> Scene {
    let mut row = submitted();
    row.system.nsteps = Some(5_000_000);
    row.status.rung = Some(rung);
    let waiting = JobView { waiting_since: Some(now()), ..waits(rung, WaitingReason::BehindInQueue) };
    let mut scene = Scene::with_job(row, waiting);
    pool_of(&mut scene).nodes[0].largest_free = Some(ladder()[2].resources());
    scene
}

#[test]
fn room_that_nobody_takes_is_used_by_what_would_be_done_by_now() {
    let mut scene = in_line(1);
    scene.after(7 * 3600);
    assert_eq!(scene.step().status.next_rung, None, "it may still be sooner where it stands");
    scene.after(3600);
    let step = scene.step();
    assert_eq!((step.status.next_rung, step.takes_room), (Some(3), Some(Duration::ZERO)));
    assert!(reason(&step).contains("has waited in line for 8.0 h"), "{}", reason(&step));
    scene.room_is_taken = true;
    assert_eq!(scene.step().status.next_rung, None, "another row was first");
    scene.room_is_taken = false;
    pool_of(&mut scene).nodes[0].largest_free = Some(Default::default());
    assert_eq!(scene.step().status.next_rung, None, "there is no room");
    let mut smallest = in_line(3);
    smallest.after(12 * 3600);
    assert_eq!(smallest.step().status.next_rung, None, "there is nothing smaller");
}
