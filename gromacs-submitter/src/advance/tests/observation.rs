//! What the tuner is told of an attempt.

use std::collections::BTreeMap;

use scavenger_schema::tuning::NodeShape;

use super::*;
use crate::view::{NodeView, PoolNode};

const MILAN: (&str, &str) = ("node.kubernetes.io/instance-type", "c6a.16xlarge");
const ROME: (&str, &str) = ("node.kubernetes.io/instance-type", "c5a.16xlarge");

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// A pool with a node of each of these kinds, all of which can run anything.
fn pool_of(kinds: &[&[(&str, &str)]]) -> PoolView {
    let shape = pool().nodes[0].clone();
    let nodes = kinds.iter().map(|pairs| PoolNode {
        shape: NodeShape { labels: labels(pairs), ..shape.shape.clone() },
        gpu_resource: None,
    });
    PoolView { nodes: nodes.collect(), ..pool() }
}

fn completed_on(node: Option<NodeView>) -> JobView {
    let mut job = completed_job();
    job.attempts[0].node = node;
    job
}

fn place_of(step: &Step) -> Option<(Option<&str>, &str)> {
    let [observation] = step.observations.as_slice() else { panic!("{:?}", step.observations) };
    observation.place.as_ref().map(|place| (place.node.as_deref(), place.class.as_str()))
}

#[test]
fn what_ran_is_told_of_the_node_that_it_ran_on() {
    let node = NodeView {
        name: "n2".to_owned(),
        labels: labels(&[MILAN]),
        cpu_millicores: Some(8000),
        requested_millicores: Some(3000),
    };
    for pool in [None, Some(pool_of(&[&[ROME], &[MILAN], &[]]))] {
        let mut scene = Scene::with_job(submitted(), completed_on(Some(node.clone()))).read(CONTINUED);
        scene.pool = pool;
        let step = scene.step();
        assert_eq!(place_of(&step), Some((Some("n2"), "zen3")));
        let place = step.observations[0].place.as_ref().expect("it is known where it ran");
        assert_eq!(place.labels, labels(&[MILAN]));
        assert_eq!((place.cpu_millicores, place.requested_millicores), (Some(8000), Some(3000)));
    }
}

#[test]
fn without_a_node_classes_are_compared_and_not_labels() {
    let other_size = ("node.kubernetes.io/instance-type", "m6a.large");
    for (kinds, place) in [
        (vec![&[MILAN][..], &[MILAN, ("kubernetes.io/arch", "amd64")]], Some((None, "zen3"))),
        (vec![&[MILAN][..], &[other_size]], Some((None, "zen3"))),
        (vec![&[MILAN][..], &[ROME]], None),
        // Nobody knows what a node without labels is, and it may have run on the other.
        (vec![&[MILAN][..], &[]], None),
        (vec![&[][..], &[]], Some((None, "unknown"))),
        (Vec::new(), None),
    ] {
        let mut scene = Scene::with_job(submitted(), completed_on(None)).read(CONTINUED);
        scene.pool = Some(pool_of(&kinds));
        assert_eq!(place_of(&scene.step()), place, "{kinds:?}");
    }
}

#[test]
fn a_gpu_belongs_to_the_class_of_who_has_it() {
    let product = ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB");
    let mut view = attempt(1, 1, Some(Outcome::Completed));
    view.node = Some(NodeView {
        name: "n".to_owned(),
        labels: labels(&[MILAN, product]),
        cpu_millicores: None,
        requested_millicores: None,
    });
    let class = |view: &AttemptView| Place::of(view).map(|place| place.class);
    assert_eq!(class(&view).as_deref(), Some("zen3"));
    view.gpus = Some(1);
    assert_eq!(class(&view).as_deref(), Some("zen3+a100"));
    view.node = None;
    assert_eq!(class(&view), None);
}

#[test]
fn a_kill_for_memory_tells_of_memory_and_not_of_speed() {
    let mut job = job(Phase::Failed, 1);
    job.failure_reason = Some(Reason::OOMKilled);
    let mut killed = attempt(1, 1, Some(Outcome::Failed));
    killed.reason = Some(Reason::OOMKilled);
    job.attempts = vec![killed];
    let mut scene = Scene::with_job(submitted(), job);
    scene.row.status.attempt = 1;
    scene.row.status.peak_memory_bytes = Some(200 << 20);
    let step = scene.read(CONTINUED).step();
    let [observation] = step.observations.as_slice() else { panic!("{:?}", step.observations) };
    assert!(observation.killed_for_memory);
    assert_eq!((observation.measured, observation.peak_memory_bytes), (None, Some(300 << 20)));
    assert_eq!(step.attempts[0].peak_memory_bytes, Some(300 << 20));
}

/// The working set counts page cache, which fills what there is.
#[test]
fn a_peak_at_the_limit_of_what_was_not_killed_is_not_told() {
    for (mib, told) in [(284, true), (285, false), (300, false)] {
        let mut row = submitted();
        (row.status.attempt, row.status.peak_memory_bytes) = (1, Some(mib << 20));
        let step = Scene::with_job(row, completed_job()).read(CONTINUED).step();
        assert_eq!(step.observations[0].peak_memory_bytes, told.then_some(mib << 20), "{mib} of 300 MiB");
        assert!(step.observations[0].measured.is_some() && !step.observations[0].killed_for_memory);
        assert_eq!(step.attempts[0].peak_memory_bytes, Some(mib << 20), "people see it");
    }
}
