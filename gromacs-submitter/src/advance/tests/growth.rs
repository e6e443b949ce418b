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
    assert_eq!((step.status.next_rung, step.status.grown_from), (Some(1), Some(3)));
    let announced = reason(&step).to_owned();
    assert!(announced.contains("configuration 1 of 3, 2 cores"), "{announced}");
    assert!(announced.contains("takes 33.9 h instead of 120.0 h"), "{announced}");
    assert_eq!(scene.step().action, Action::SuspendJob { resource_version: "42".to_owned() });

    scene.job = Some(JobView { suspended: true, ..runs(1, 3) });
    let step = scene.go();
    assert_eq!((step.action.clone(), reason(&step)), (Action::Settle, announced.as_str()), "its pod ends");

    let ended = vec![attempt(1, 3, Some(Outcome::Interrupted))];
    let stopped = JobView {
        suspended: true,
        has_run: true,
        attempts: ended.clone(),
        waiting_reason: Some(WaitingReason::Suspended),
        ..job(Phase::Interrupted, 3)
    };
    scene.job = Some(stopped);
    let resource_version = "42".to_owned();
    assert_eq!(scene.step().action, Action::ReplaceJob { rung: 1, resumes: true, resource_version });

    scene.job = Some(JobView { has_run: true, attempts: ended.clone(), ..job(Phase::Interrupted, 1) });
    let step = scene.go();
    assert_eq!((step.status.rung, step.status.next_rung), (Some(1), None));
    assert_eq!(reason(&step), announced, "the history has it beside the new configuration");
    scene.go();
    assert_eq!((scene.row.status.interruptions, scene.row.status.grown_from), (1, Some(3)));

    let attempts = ended.into_iter().chain([attempt(2, 1, None)]).collect();
    scene.job = Some(JobView { attempts, ..runs(2, 1) });
    assert_eq!(scene.go().status.grown_from, None);
}

#[test]
fn it_stays_as_it_is_where_nothing_much_is_gained_or_others_wait() {
    type Change = fn(&mut Scene);
    let changes: [(&str, Change); 8] = [
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

fn pool_of(scene: &mut Scene) -> &mut PoolView {
    scene.pool.as_mut().expect("should have a pool")
}

#[test]
fn without_room_after_all_it_goes_back_to_what_it_had() {
    let mut scene = small();
    scene.row.status.state = State::Interrupted;
    scene.row.status.rung = Some(1);
    scene.row.status.grown_from = Some(3);
    scene.row.status.attempts_recorded = 1;
    let attempts = vec![attempt(1, 3, Some(Outcome::Interrupted))];
    scene.job = Some(JobView {
        attempts,
        has_run: true,
        phase: Phase::Interrupted,
        ..waits(1, WaitingReason::NoRoom)
    });
    scene.go();
    scene.after(80);
    assert_eq!(scene.go().status.next_rung, None, "the scheduler has its time");
    scene.after(20);
    let step = scene.go();
    assert_eq!((step.status.next_rung, step.status.grown_from), (Some(3), None), "{}", reason(&step));
}

#[test]
fn what_kubernetes_refuses_leaves_nothing_suspended() {
    let mut row = small().row;
    (row.status.next_rung, row.status.grown_from) = (Some(1), Some(3));
    let status = with_refusal(&row, 1, "too large", now());
    assert_eq!(status.next_rung, Some(3), "it is resumed with what it had");
    row.status.grown_from = None;
    assert_eq!(with_refusal(&row, 1, "too large", now()).next_rung, None);
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
    scene.after(10 * 3600);
    assert_eq!(scene.step().status.next_rung, None, "it may still be sooner where it stands");
    scene.after(3600);
    let step = scene.step();
    assert_eq!((step.status.next_rung, step.takes_room), (Some(3), true));
    assert!(reason(&step).contains("has waited in line for 11.0 h"), "{}", reason(&step));
    scene.room_is_taken = true;
    assert_eq!(scene.step().status.next_rung, None, "another row was first");
    scene.room_is_taken = false;
    pool_of(&mut scene).nodes[0].largest_free = Some(Default::default());
    assert_eq!(scene.step().status.next_rung, None, "there is no room");
    let mut smallest = in_line(3);
    smallest.after(12 * 3600);
    assert_eq!(smallest.step().status.next_rung, None, "there is nothing smaller");
}
