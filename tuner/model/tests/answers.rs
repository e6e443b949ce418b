//! Ladders are made by ways that are faster than those of single predictions, and what was asked before is remembered.
//! Neither may change an answer.

use std::sync::LazyLock;

use proptest::prelude::*;
use scavenger_schema::tuning::{Build, LadderRequest, Layout, NodeShape, PredictRequest};
use scavenger_tuner_model::ladder::fixtures::{labelled, node, request, water};
use scavenger_tuner_model::model::Observation;
use scavenger_tuner_model::{Model, ladder};

const INSTANCE: &str = "node.kubernetes.io/instance-type";
const INSTANCES: [&str; 4] = ["c5a.x", "c6i.x", "c7g.x", "hpc6a.48xlarge"];

/// Systems of the runs.
fn atoms(n: u64) -> u64 {
    10_000 + 7000 * (n % 40)
}

/// Many runs on each class, which contradict each other.
static LEARNED: LazyLock<Model> = LazyLock::new(|| {
    let run = |n: u64| {
        let cores = n as u32 % 32 + 1;
        let speed = (400.0 + 50.0 * (n % 3) as f64) * f64::from(cores) / (atoms(n / 4) as f64 / 1000.0);
        let run = PredictRequest {
            system: water(atoms(n / 4)),
            layout: Layout::cpu(1, cores),
            node: labelled(&node(0, 0), &[(INSTANCE, INSTANCES[n as usize % 4])], 0),
            cpu_millicores: None,
            gromacs_version: n.is_multiple_of(5).then(|| "2022.5".to_owned()),
            build: Build::default(),
        };
        Observation::new(&run, None, speed).expect("the run should be accepted")
    };
    Model::prior().learn(&(0..600).map(run).collect::<Vec<_>>())
});

prop_compose! {
    fn any_node()(
        cores in 1_u32..130,
        instance in prop::sample::select(&INSTANCES[..]),
        gpus in prop_oneof![3 => Just(0_u32), 1 => 1_u32..4],
    ) -> NodeShape {
        let labels = [(INSTANCE, instance), ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB")];
        labelled(&node(cores * 1000, 256), &labels, gpus)
    }
}

prop_compose! {
    fn any_request()(
        n in 0_u64..60,
        measured in any::<bool>(),
        nodes in prop::collection::vec(any_node(), 1..6),
        version in prop::option::of(prop::sample::select(&["2016.3", "2022.5"][..])),
        simd in prop::option::of(prop::sample::select(&["SSE4.1", "AVX2_256"][..])),
    ) -> LadderRequest {
        let system = water(if measured { atoms(n) } else { 11_111 + 20_000 * n });
        let build = Build { simd: simd.map(str::to_owned), ..Build::default() };
        LadderRequest {
            gromacs_version: version.map(str::to_owned),
            build,
            ..request(system, nodes)
        }
    }
}

proptest! {
    #[test]
    fn a_configuration_has_the_speed_that_is_predicted_for_it_alone(asked in any_request(), knows in any::<bool>()) {
        let model = if knows { LEARNED.clone() } else { Model::prior() };
        let Ok(reply) = ladder::build(&model, &asked) else { return Ok(()) };
        for rung in reply.rungs {
            let is_bound_to = |node: &NodeShape| {
                rung.node_labels.iter().all(|(name, value)| node.labels.get(name) == Some(value))
            };
            let holders = asked.nodes.iter().filter(|node| rung.resources.fits_in(&node.allocatable));
            let holders = holders.filter(|node| is_bound_to(node));
            let alone = |node: &NodeShape| {
                let request = PredictRequest {
                    system: asked.system.clone(),
                    layout: rung.layout,
                    node: node.clone(),
                    cpu_millicores: Some(rung.resources.cpu_millicores),
                    gromacs_version: asked.gromacs_version.clone(),
                    build: asked.build.clone(),
                };
                model.answer(&request).expect("a configuration of the ladder can be predicted").ns_per_day.p50
            };
            let slowest = holders.map(alone).fold(f64::INFINITY, f64::min);
            let ratio = rung.ns_per_day.p50 / slowest;
            prop_assert!((ratio - 1.0).abs() < 1e-12, "{} of {rung:?}", ratio);
        }
    }

    #[test]
    fn what_was_asked_before_changes_no_answer(all in prop::collection::vec(any_request(), 2..6)) {
        let asked_often = LEARNED.clone();
        for request in all.iter().chain(&all) {
            // A copy remembers nothing.
            prop_assert_eq!(ladder::build(&asked_often, request), ladder::build(&asked_often.clone(), request));
        }
    }
}
