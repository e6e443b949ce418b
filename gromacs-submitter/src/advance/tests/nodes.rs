//! A row that runs on one kind of nodes alone, and a configuration that does.

use std::collections::BTreeMap;

use sqlx::types::Json;

use super::*;

fn bound() -> GromacsToTune {
    let mut row = row();
    row.node_labels =
        Json(BTreeMap::from([("node.kubernetes.io/instance-type".to_owned(), "c6a.8xlarge".to_owned())]));
    row
}

#[test]
fn it_waits_for_nodes_of_its_kind_before_anything_is_made() {
    for state in [State::Inspecting, State::Tuning] {
        let mut scene = Scene::of(bound());
        scene.row.status.state = state;
        // As the worker reads it for this row.
        scene.pool = scene.pool.take().map(|pool| pool.of_row(&scene.row));
        let step = scene.go();
        assert_eq!((step.action.clone(), step.status.state), (Action::Settle, state));
        assert!(
            reason(&step).contains("has the labels node.kubernetes.io/instance-type=c6a.8xlarge"),
            "{}",
            reason(&step)
        );
    }
}

#[test]
fn only_nodes_of_its_kind_count() {
    let mut pool = pool();
    let mut zen = pool.nodes[0].clone();
    zen.labels = bound().node_labels.0.clone();
    zen.labels.insert("kubernetes.io/arch".to_owned(), "amd64".to_owned());
    zen.largest_free = Some(Default::default());
    pool.nodes.push(zen);
    let smallest = &ladder()[2];
    assert!(pool.clone().of_row(&row()).has_room_for(smallest));
    let of_row = pool.of_row(&bound());
    assert_eq!(of_row.nodes.len(), 1);
    assert!(!of_row.has_room_for(smallest), "the room is on nodes of another kind");
}

/// Two cores of a fast kind of node, then two, one and half a core of any.
fn with_fast_nodes(free_there: u32) -> Scene {
    let mut scene = Scene::of(submitted());
    let labels = BTreeMap::from([("kind".to_owned(), "fast".to_owned())]);
    let first = &scene.ladder[0];
    let fast = LadderRung { ns_per_day_p50: 160.0, node_labels: Json(labels.clone()), ..first.clone() };
    scene.ladder.insert(0, fast);
    for (rung, number) in scene.ladder.iter_mut().zip(1..) {
        rung.rung = number;
    }
    let pool = scene.pool.as_mut().expect("should have a pool");
    let mut node = pool.nodes[0].clone();
    node.labels = labels;
    node.largest_free.as_mut().expect("should be known").cpu_millicores = free_there;
    pool.nodes.push(node);
    scene
}

#[test]
fn what_is_for_one_kind_of_node_is_tried_while_that_kind_has_capacity() {
    for (free, first) in [(2000, 1), (1000, 2)] {
        let scene = with_fast_nodes(free);
        let submitted = with_ladder(&scene.row, scene.ladder.clone(), scene.pool.as_ref(), &[]);
        assert_eq!(
            submitted.expect("should be a ladder").0.rung,
            Some(first),
            "{free} millicores are free there"
        );
    }
    // What was free there is gone: the same for any node is tried soon, and the row is never bound to that kind.
    let mut scene = with_fast_nodes(0);
    scene.job = Some(waits(1, WaitingReason::NoCapacity));
    scene.go();
    scene.after(89);
    assert_eq!(scene.go().status.next_rung, None, "the scheduler has its time");
    scene.after(1);
    let step = scene.go();
    assert_eq!(step.status.next_rung, Some(2));
    assert!(reason(&step).ends_with("falls back to configuration 2 of 4, 2 cores"), "{}", reason(&step));
    // Started over, it goes by what there is then.
    for (free, first) in [(2000, 1), (0, 2)] {
        let mut scene = with_fast_nodes(free);
        scene.row.status.rung = Some(4);
        scene.job = Some(waits(4, WaitingReason::NeverFits));
        scene.go();
        scene.after(60);
        assert_eq!(scene.go().status.next_rung, Some(first), "{free}");
    }
}

#[test]
fn a_row_that_runs_anywhere_grows_onto_the_fast_kind() {
    let mut scene = with_fast_nodes(2000);
    scene.row.system.nsteps = Some(50_000_000);
    scene.row.status.state = State::Running;
    (scene.row.status.rung, scene.row.status.attempt) = (Some(2), 1);
    (scene.row.status.first_step, scene.row.status.step) = (Some(0), Some(1000));
    (scene.row.status.private.progress_from_step, scene.row.status.private.progress_from_time) =
        (Some(0), Some(now()));
    scene.row.status.ns_per_day = Some(78.0);
    let ran = AttemptView { rung: Some(2), ..attempt(1, 1, None) };
    scene.job = Some(JobView { attempts: vec![ran], has_run: true, ..job(Phase::Running, 2) });
    scene.after(600);
    let step = scene.go();
    assert_eq!(
        (step.status.next_rung, step.status.private.grown_from),
        (Some(1), Some(2)),
        "{}",
        reason(&step)
    );
    assert!(
        reason(&step).contains("configuration 1 of 4, 2 cores on nodes with kind=fast"),
        "{}",
        reason(&step)
    );
}

#[test]
fn its_pods_are_sent_there_and_nowhere_else() {
    let scene = with_fast_nodes(2000);
    let mut row = scene.row.clone();
    row.node_labels = Json(BTreeMap::from([("zone".to_owned(), "a".to_owned())]));
    let selector = |rung: usize| {
        let settings = crate::fixtures::manifest_settings();
        let job =
            crate::manifest::simulation_job(&row, &scene.ladder[rung], &settings, &crate::fixtures::terms());
        serde_json::to_value(job.spec.node_selector).expect("should be JSON")
    };
    assert_eq!(selector(0), serde_json::json!({ "kind": "fast", "zone": "a" }));
    assert_eq!(selector(1), serde_json::json!({ "zone": "a" }));
}

#[test]
fn where_processors_are_shared_a_simulation_can_be_slower_than_alone() {
    let alone = ladder();
    let busy = PoolView { shared_cpu: 0.2, ..pool() };
    let mut beside = alone.clone();
    let note = beside_ordinary_pods(&mut beside, Some(&busy));
    assert_eq!(
        note.as_deref(),
        Some(
            "ordinary pods are expected to use 20% of the pool's cpu and come first, so the lower end of each speed is 20% \
             lower"
        )
    );
    for (alone, beside) in alone.iter().zip(&beside) {
        let expected = LadderRung { ns_per_day_p10: alone.ns_per_day_p10 * (1.0 - 0.2), ..alone.clone() };
        assert_eq!(*beside, expected);
    }
    for quiet in [None, Some(&pool())] {
        let mut same = alone.clone();
        assert_eq!(beside_ordinary_pods(&mut same, quiet), None);
        assert_eq!(same, alone, "nothing is shared");
    }
}
