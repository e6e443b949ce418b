//! A calibration: one configuration on one kind of node, from its box of water to what it measured.

use std::collections::BTreeMap;

use scavenger_schema::tuning::{NodeShape, Resources};

use super::*;
use crate::fixtures::{calibration, inspected};
use crate::view::PoolNode;

fn node(cores: u32, labels: &[(&str, &str)]) -> PoolNode {
    let resources = Resources { cpu_millicores: cores * 1000, memory_bytes: 4 << 30, gpus: 0 };
    let shape = NodeShape {
        count: 1,
        allocatable: resources,
        largest_free: Some(resources),
        labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
    };
    PoolNode { shape, gpu_resource: None }
}

const TYPE: &str = "node.kubernetes.io/instance-type";
const AMD64: (&str, &str) = ("kubernetes.io/arch", "amd64");
const ARM64: (&str, &str) = ("kubernetes.io/arch", "arm64");

/// A calibration that was inspected, in front of these nodes.
fn tuning_on(nodes: Vec<PoolNode>) -> Scene {
    let mut row = calibration();
    row.inspected = inspected();
    row.status.state = State::Tuning;
    row.system.atoms = Some(11_664);
    let mut scene = Scene::of(row);
    scene.pool = Some(PoolView { nodes, ..pool() });
    scene
}

/// What a benchmark of 1200 steps prints: mdrun says in between that it starts to count again.
fn log_of_benchmark() -> &'static str {
    "starting mdrun 'water'\n1200 steps,      2.4 ps.\n\
     \rstep 0\rstep 500, remaining wall clock time:    14 s          \
     \n\nstep 600: resetting all time and cycle counters\n\
     \rstep 1200, remaining wall clock time:     0 s          \n\
     \n               Core t (s)   Wall t (s)        (%)\n       Time:       12.057       12.057      100.0\n\
     \n                 (ns/day)    (hour/ns)\nPerformance:        8.601        2.791\n\n"
}

#[test]
fn its_box_is_made_and_its_configuration_is_not_for_the_tuner_to_choose() {
    let mut scene = Scene::of(calibration());
    scene.pool = Some(PoolView { nodes: vec![node(8, &[AMD64])], ..pool() });
    assert_eq!(scene.go().status.state, State::Inspecting);
    assert_eq!(scene.step().action, Action::CreateProbe(Probe::Inspection));
    scene.probe = Some(job(Phase::Running, 1));
    assert!(reason(&scene.step()).starts_with("makes the box of water: "));

    let mut scene = tuning_on(vec![node(8, &[AMD64]), node(64, &[AMD64]), node(2, &[ARM64])]);
    let Action::Predict(request) = scene.step().action else { panic!("{:?}", scene.step().action) };
    assert_eq!(request.node.labels, BTreeMap::from([(AMD64.0.to_owned(), AMD64.1.to_owned())]));
    assert_eq!((request.layout.ntmpi, request.layout.ntomp, request.system.atoms), (1, 1, 11_664));
    let (status, ladder) = with_ladder(&scene.row, vec![ladder().remove(1)], scene.pool.as_ref(), &[])
        .expect("should be a configuration");
    assert_eq!(status.reason.as_deref(), Some("the tuner expects 45.0 ns/day (36.0 to 54.0)"));
    scene.row.status = status;
    scene.ladder = ladder;
    assert_eq!(scene.step().action, Action::CreateJob(1));
}

#[test]
fn a_kind_of_node_that_is_not_there_fails_it_with_a_sentence() {
    for (nodes, sentence) in [
        (vec![node(8, &[ARM64])], "has the labels kubernetes.io/arch=amd64; add a calibration with labels"),
        (
            vec![node(8, &[AMD64, (TYPE, "c6a.16xlarge")]), node(8, &[AMD64, (TYPE, "c5a.16xlarge")])],
            "nodes of 2 kinds can run it, and what it measures would tell of none of them",
        ),
        (vec![node(0, &[AMD64])], "it takes 1 core, and the nodes that it is about offer 0 cores"),
    ] {
        let mut scene = tuning_on(nodes);
        // Before its box is made, and again before it is submitted.
        for state in [State::Inspecting, State::Tuning] {
            scene.row.status.state = state;
            let step = scene.step();
            assert_eq!(step.status.state, State::Failed, "{state}");
            assert!(reason(&step).contains(sentence), "{}", reason(&step));
        }
    }
    // What does not matter for its class does not make another kind.
    let milan = [AMD64, (TYPE, "c6a.16xlarge")];
    let step = tuning_on(vec![node(8, &milan), node(8, &[AMD64, (TYPE, "m6a.large")])]).step();
    assert_ne!(step.status.state, State::Failed, "{:?}", step.status.reason);
    let gpu = [AMD64, (TYPE, "c6a.16xlarge"), ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB")];
    let step = tuning_on(vec![node(8, &gpu), node(8, &gpu[..2])]).step();
    assert_ne!(step.status.state, State::Failed, "it uses no GPU");
    let mut scene = tuning_on(Vec::new());
    assert_eq!(scene.step().action, Action::Settle, "a pool without nodes may get some");
    scene.row.status.state = State::Inspecting;
    assert_eq!(scene.step().action, Action::CreateProbe(Probe::Inspection));
}

#[test]
fn without_room_it_waits_and_takes_no_other_configuration() {
    let mut row = calibration();
    row.status = submitted().status;
    for why in [WaitingReason::NoCapacity, WaitingReason::Unscheduled, WaitingReason::NeverFits] {
        let mut scene = Scene::with_job(row.clone(), waits(1, why));
        scene.ladder.truncate(1);
        scene.go();
        for _ in 0..5 {
            scene.after(700);
            let step = scene.go();
            assert_eq!((&step.action, step.status.next_rung), (&Action::Settle, None), "{why}");
            assert_eq!(
                reason(&step),
                "the operator's sentence; a calibration runs with no other configuration"
            );
        }
    }
}

#[test]
fn what_it_measures_is_told_of_the_second_half_and_of_its_nodes() {
    let mut row = calibration();
    row.status = submitted().status;
    row.system.atoms = Some(11_664);
    row.system.dt_ps = Some(0.002);
    let mut scene = Scene::with_job(row, completed_job()).read(log_of_benchmark());
    scene.ladder.truncate(1);
    scene.pool =
        Some(PoolView { nodes: vec![node(8, &[AMD64]), node(64, &[AMD64]), node(8, &[ARM64])], ..pool() });
    let step = scene.step();
    assert_eq!((step.status.state, step.status.ns_per_day), (State::Completed, Some(8.601)));
    let [observation] = step.observations.as_slice() else { panic!("{:?}", step.observations) };
    let measured = observation.measured.expect("it should be measured");
    assert_eq!(measured.steps, 600);
    assert!((measured.wall_seconds - 12.057).abs() < 1e-9);
    let place = observation.place.as_ref().expect("both nodes are of one class");
    assert_eq!((place.labels["kubernetes.io/arch"].as_str(), place.class.as_str()), ("amd64", "amd64"));
    assert_eq!(observation.system.atoms, 11_664);
}

#[test]
fn its_box_is_made_again_when_it_is_tried_again() {
    let mut row = calibration();
    row.inspected = inspected();
    row.status.submission = 2;
    assert_eq!(Scene::of(row.clone()).step().status.state, State::Inspecting);
    row.kind = Kind::Simulation;
    assert_eq!(Scene::of(row).step().status.state, State::Tuning);
}

#[test]
fn without_a_log_nothing_was_measured() {
    let mut row = calibration();
    row.status = submitted().status;
    let mut scene = Scene::with_job(row, completed_job());
    scene.log = Log::Gone;
    let step = scene.step();
    assert_eq!(step.status.state, State::Failed);
    assert!(reason(&step).contains("its log is gone"), "{}", reason(&step));
    assert!(step.observations.is_empty());
}

#[test]
fn an_interrupted_one_starts_over() {
    let mut row = calibration();
    row.status = submitted().status;
    row.status.state = State::Running;
    row.system.atoms = Some(11_664);
    (row.status.attempt, row.status.first_step, row.status.step) = (1, Some(0), Some(1000));
    let interrupted = JobView {
        attempts: vec![attempt(1, 1, Some(Outcome::Interrupted))],
        has_run: true,
        phase: Phase::Interrupted,
        ..waits(1, WaitingReason::NoCapacity)
    };
    let mut scene = Scene::with_job(row, interrupted);
    scene.ladder.truncate(1);
    let step = scene.go();
    assert_eq!((step.status.state, step.status.interruptions), (State::Interrupted, 1));
    assert!(step.observations.is_empty());
    scene.job = Some(JobView {
        attempts: vec![attempt(1, 1, Some(Outcome::Interrupted)), attempt(2, 1, Some(Outcome::Completed))],
        ..completed_job()
    });
    let step = scene.read(log_of_benchmark()).step();
    assert_eq!(step.status.state, State::Completed);
    assert_eq!(step.observations.len(), 1);
    assert_eq!(step.observations[0].attempt, 2);
}

#[test]
fn one_that_ends_too_early_twice_fails() {
    let mut row = calibration();
    row.status = submitted().status;
    let early = log_of_benchmark().replace("\rstep 1200, remaining wall clock time:     0 s          \n", "");
    let mut scene = Scene::with_job(row, completed_job()).read(&early);
    scene.ladder.truncate(1);
    let step = scene.step();
    assert_eq!((step.status.state, step.status.submission), (State::Queued, 2));
    assert_eq!(reason(&step), "mdrun ended at step 500 of 1200 without an error; begins again");
    scene.row.status.submission = 2;
    scene.earlier = vec![Earlier { is_short: true, seconds: 3.0 }];
    let step = scene.step();
    assert_eq!(step.status.state, State::Failed);
    assert!(reason(&step).starts_with("the benchmark ended at step 500 of 1200"), "{}", reason(&step));
}
