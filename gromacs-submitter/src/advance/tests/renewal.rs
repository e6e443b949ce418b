//! The tuner is asked again after an interruption.

use sqlx::types::Json;

use super::*;
use crate::advance::words::said;

/// An attempt on configuration 2 that was interrupted, and whose speed is known: half of what was predicted.
fn interrupted() -> Scene {
    interrupted_on(2)
}

fn interrupted_on(rung: i32) -> Scene {
    let mut row = submitted();
    row.system.nsteps = Some(400_000_000);
    row.status.state = State::Running;
    (row.status.rung, row.status.attempt) = (Some(rung), 1);
    (row.status.first_step, row.status.step) = (Some(0), Some(4_000_000));
    row.status.ns_per_day = Some(22.5);
    let job = JobView {
        attempts: vec![attempt(1, rung, Some(Outcome::Interrupted))],
        has_run: true,
        phase: Phase::Interrupted,
        ..waits(rung, WaitingReason::BackingOff)
    };
    Scene::with_job(row, job)
}

#[test]
fn once_after_each_interruption() {
    let mut scene = interrupted();
    let step = scene.go();
    assert_eq!((&step.action, step.status.private.speed_ratio), (&Action::Record, Some(0.5)));
    assert_eq!(
        reason(&step),
        said(scene.job.as_ref().expect("should be there")),
        "and no longer that it runs"
    );
    assert_eq!(step.attempts.len(), 1, "what it measured is known before the tuner is asked");
    assert!(matches!(scene.step().action, Action::AskAgain(_)));
    // Whatever came of it.
    scene.row.status = was_asked(&scene.row);
    assert!(!matches!(scene.go().action, Action::AskAgain(_)));
    scene.after(600);
    assert!(!matches!(scene.go().action, Action::AskAgain(_)));
    // It runs, and is interrupted again.
    let running = attempt(2, 2, None);
    scene.job = Some(JobView { attempts: vec![running], has_run: true, ..job(Phase::Running, 2) });
    scene.go();
    scene.job = Some(JobView {
        attempts: vec![attempt(2, 2, Some(Outcome::Interrupted))],
        has_run: true,
        phase: Phase::Interrupted,
        ..waits(2, WaitingReason::BehindInQueue)
    });
    scene.go();
    assert!(matches!(scene.step().action, Action::AskAgain(_)), "whatever it waits for");
}

#[test]
fn not_before_anything_is_known_nor_while_it_is_held_or_grows() {
    type Change = fn(&mut Scene);
    let changes: [(&str, Change); 4] = [
        ("nothing was measured", |scene| scene.row.status.ns_per_day = None),
        ("no pool", |scene| scene.pool = None),
        ("no nodes", |scene| scene.pool = Some(PoolView { nodes: Vec::new(), ..pool() })),
        ("suspended", |scene| scene.job.as_mut().expect("should be there").suspended = true),
    ];
    for (why, change) in changes {
        let mut scene = interrupted();
        change(&mut scene);
        scene.go();
        assert!(!matches!(scene.step().action, Action::AskAgain(_)), "{why}");
    }
}

/// The tuner has learned, and proposes another layout for two cores and a third of a core, and no half of one.
fn proposed() -> Vec<LadderRung> {
    let mut ladder = ladder();
    ladder[0].layout = Json(scavenger_schema::tuning::Layout::cpu(2, 1));
    ladder[1].ns_per_day_p50 = 25.0;
    ladder[2].cpu_millicores = 333;
    for (rung, number) in ladder.iter_mut().zip(1..) {
        (rung.rung, rung.model_version) = (number, "2".to_owned());
    }
    ladder
}

#[test]
fn what_is_known_keeps_its_number_and_what_is_new_gets_the_next() {
    let mut scene = interrupted();
    scene.go();
    let (status, renewed_ladder) = renewed(&scene.row, &scene.ladder, &[], proposed());
    let numbers = |ladder: &[LadderRung]| ladder.iter().map(|rung| rung.rung).collect::<Vec<_>>();
    assert_eq!(numbers(&renewed_ladder), [4, 2, 5]);
    assert_eq!(status.private.ladder_interruptions, 1);
    // 22.5 ns/day were measured, and 25 are predicted now.
    let ratio = status.private.speed_ratio.expect("should be known");
    assert!((ratio - 0.9).abs() < 1e-9, "{ratio}");

    // The same once more: what was replaced comes back under its number, and nothing counts twice.
    scene.row.status = status;
    let gone: Vec<LadderRung> = scene.ladder.iter().filter(|rung| rung.rung != 2).cloned().collect();
    let (status, again) = renewed(&scene.row, &renewed_ladder, &gone, ladder());
    assert_eq!(numbers(&again), [1, 2, 3]);
    assert!(
        status.private.speed_ratio.is_some_and(|ratio| (ratio - 0.5).abs() < 1e-9),
        "{:?}",
        status.private.speed_ratio
    );
}

#[test]
fn a_row_that_grows_is_not_stopped_for_another_layout() {
    let mut scene = interrupted_on(1);
    scene.go();
    scene.row.status.private.grown_from = Some(3);
    let (status, renewed_ladder) = renewed(&scene.row, &scene.ladder, &[], proposed());
    let numbers: Vec<i32> = renewed_ladder.iter().map(|rung| rung.rung).collect();
    assert!(status.next_rung.is_none() && numbers.contains(&1), "{:?} {numbers:?}", status.next_rung);
    scene.row.status = status;
    scene.ladder = renewed_ladder;
    scene.job = Some(JobView {
        attempts: vec![attempt(1, 1, Some(Outcome::Interrupted)), attempt(2, 1, None)],
        has_run: true,
        ..job(Phase::Running, 1)
    });
    let step = scene.step();
    assert!(!matches!(step.action, Action::SuspendJob { .. }), "{step:?}");
}

#[test]
fn another_layout_of_the_same_resources_takes_over_at_once() {
    let mut scene = interrupted_on(1);
    scene.go();
    let (status, renewed_ladder) = renewed(&scene.row, &scene.ladder, &[], proposed());
    let numbers: Vec<i32> = renewed_ladder.iter().map(|rung| rung.rung).collect();
    assert_eq!((numbers, status.next_rung), (vec![4, 2, 5], Some(4)), "nobody waits for the same twice");
    scene.row.status = status;
    scene.ladder = renewed_ladder;
    assert!(matches!(scene.step().action, Action::ReplaceJob { rung: 4, resumes: false, .. }));
    assert_eq!(
        scene.row.status.reason.as_deref(),
        Some("continues with another layout on the same resources")
    );
}

#[test]
fn the_configuration_in_use_stays_until_it_is_replaced() {
    let mut scene = interrupted();
    scene.go();
    let others: Vec<LadderRung> = proposed().into_iter().filter(|rung| rung.cpu_millicores != 1000).collect();
    let (status, renewed_ladder) = renewed(&scene.row, &scene.ladder, &[], others);
    let numbers: Vec<i32> = renewed_ladder.iter().map(|rung| rung.rung).collect();
    assert_eq!(numbers, [4, 2, 5], "by its speed");
    // It falls back from there, and starts over from the first, whatever their numbers are.
    scene.row.status = status;
    scene.ladder = renewed_ladder;
    let waiting = JobView { has_run: true, ..waits(2, WaitingReason::NeverFits) };
    scene.job = Some(waiting.clone());
    let step = scene.go();
    assert_eq!(step.status.next_rung, Some(5));
    assert!(reason(&step).contains("falls back to configuration 3 of 3"), "{}", reason(&step));
    scene.job = Some(JobView { rung: Some(5), ..waiting });
    scene.go();
    scene.go();
    scene.after(3600);
    assert_eq!(scene.go().status.next_rung, Some(4));
}
