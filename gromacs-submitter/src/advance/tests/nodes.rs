//! A row that runs on one kind of nodes alone.

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
    let smallest = ladder()[2].resources();
    assert!(pool.clone().of_row(&row()).has_room_for(&smallest));
    let of_row = pool.of_row(&bound());
    assert_eq!(of_row.nodes.len(), 1);
    assert!(!of_row.has_room_for(&smallest), "the room is on nodes of another kind");
}
