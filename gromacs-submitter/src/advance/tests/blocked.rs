//! Rows that wait for something of their own.

use std::collections::BTreeMap;

use sqlx::types::Json;

use super::*;

#[test]
fn what_no_other_row_waits_for_is_told_from_capacity() {
    for (why, blocked) in [
        (WaitingReason::VolumeUnbound, true),
        (WaitingReason::VolumeUnknown, true),
        (WaitingReason::FolderInUse, true),
        (WaitingReason::Suspended, true),
        (WaitingReason::NeverFits, true),
        (WaitingReason::Refused, true),
        (WaitingReason::NoCapacity, false),
        (WaitingReason::BehindInQueue, false),
        (WaitingReason::QuotaExceeded, false),
        (WaitingReason::TenantLimit, false),
        (WaitingReason::Paused, false),
        (WaitingReason::BackingOff, false),
    ] {
        let mut row = submitted();
        row.status.rung = Some(3);
        let mut scene = Scene::with_job(row, waits(3, why));
        assert_eq!(scene.go().status.blocked, blocked, "{why}");
        // It runs after all.
        scene.job = Some(JobView { attempts: vec![attempt(1, 3, None)], ..job(Phase::Running, 3) });
        assert!(!scene.go().status.blocked, "{why}");
        // The same of the pod that reads its file.
        let mut inspecting = row_in(State::Inspecting);
        inspecting.probe = Some(waits(1, why));
        assert_eq!(inspecting.go().status.blocked, blocked, "{why}");
    }
    let mut scene =
        Scene::with_job(submitted(), JobView { judged: false, ..waits(1, WaitingReason::VolumeUnbound) });
    assert!(!scene.go().status.blocked, "the status speaks of the spec before");
}

fn row_in(state: State) -> Scene {
    let mut row = row();
    row.status.state = state;
    Scene::of(row)
}

#[test]
fn starts_that_come_to_nothing_count_from_the_third() {
    let withdrawn = |number, reason: Reason| AttemptView {
        start_time: None,
        reason: Some(reason),
        ..attempt(number, 1, Some(Outcome::Withdrawn))
    };
    let pulls =
        |count: i32| (1..=count).map(|number| withdrawn(number, Reason::ContainerNotCreated)).collect();
    for (attempts, blocked) in [
        (pulls(2), false),
        (pulls(3), true),
        ((1..=3).map(|number| withdrawn(number, Reason::Unscheduled)).collect(), false),
        (vec![attempt(1, 1, Some(Outcome::Interrupted)), withdrawn(2, Reason::ContainerNotCreated)], false),
    ] {
        let waiting = JobView { attempts, ..waits(1, WaitingReason::BackingOff) };
        assert_eq!(Scene::with_job(submitted(), waiting.clone()).go().status.blocked, blocked, "{waiting:?}");
    }
}

#[test]
fn nodes_that_only_this_row_asks_for_are_its_own() {
    for (state, labels, blocked) in [
        (State::Tuning, BTreeMap::from([("kind".to_owned(), "fast".to_owned())]), true),
        (State::Inspecting, BTreeMap::from([("kind".to_owned(), "fast".to_owned())]), true),
        (State::Tuning, BTreeMap::new(), false),
    ] {
        let mut scene = row_in(state);
        scene.row.node_labels = Json(labels);
        scene.pool = Some(PoolView { nodes: Vec::new(), ..pool() });
        assert_eq!(scene.go().status.blocked, blocked, "{state}");
    }
}
