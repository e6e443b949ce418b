//! Whole ladders as they are served, so that no change of an answer goes unseen.
//!
//! `INSTA_UPDATE=always cargo test -p scavenger-tuner-model --test ladders` writes them again.

use std::fmt::Write as _;

use scavenger_schema::tuning::{Build, Interval, LadderRequest, NodeShape, PredictRequest, Resources, Rung};
use scavenger_tuner_model::ladder::fixtures::{labelled, node, request, water};
use scavenger_tuner_model::model::Observation;
use scavenger_tuner_model::{Model, ladder};

const INSTANCE: &str = "node.kubernetes.io/instance-type";
const PRODUCT: &str = "nvidia.com/gpu.product";

/// Nodes of several kinds, by a name.
fn nodes(kind: &str) -> Vec<NodeShape> {
    let on = |instance: &str, cores: u32| labelled(&node(cores * 1000, 512), &[(INSTANCE, instance)], 0);
    match kind {
        "zen3" => vec![on("hpc6a.48xlarge", 96)],
        "icelake" => vec![on("c6i.metal", 64)],
        "two kinds" => vec![on("c5a.x", 32), on("c7i.x", 64)],
        "arm" => vec![on("c8g.x", 48)],
        "a100" => {
            let labels = [(INSTANCE, "hpc6a.48xlarge"), (PRODUCT, "NVIDIA-A100-SXM4-40GB")];
            vec![labelled(&node(64_000, 512), &labels, 1)]
        }
        _ => vec![node(16_000, 64)],
    }
}

fn asked(kind: &str, atoms: u64, simd: Option<&str>) -> LadderRequest {
    let build = Build { simd: simd.map(str::to_owned), ..Build::default() };
    LadderRequest { gromacs_version: Some("2024.4".to_owned()), build, ..request(water(atoms), nodes(kind)) }
}

/// A model that knows a run of `atoms` on the first node of `kind`, at `share` of what was predicted.
fn after_a_run(kind: &str, atoms: u64, share: f64) -> Model {
    let mut asked = asked(kind, atoms, None);
    asked.nodes.truncate(1);
    let reply = ladder::build(&Model::prior(), &asked).expect("there should be a ladder");
    let Rung { layout, resources, ns_per_day, .. } = &reply.rungs[1];
    // Nobody knows how large its node was.
    let allocatable = Resources { cpu_millicores: 0, ..asked.nodes[0].allocatable };
    let run = PredictRequest {
        system: asked.system,
        layout: *layout,
        node: NodeShape { allocatable, ..asked.nodes.remove(0) },
        cpu_millicores: Some(resources.cpu_millicores),
        gromacs_version: asked.gromacs_version,
        build: asked.build,
    };
    let run = Observation::new(&run, None, ns_per_day.p50 * share);
    Model::prior().learn(&[run.expect("the run should be accepted")])
}

/// Three significant digits: libraries of mathematics differ in the last ones.
fn digits(value: f64) -> String {
    let places = (2 - value.log10().floor() as i32).clamp(0, 6);
    format!("{value:.*}", places.unsigned_abs() as usize)
}

fn line(rung: &Rung) -> String {
    let Resources { cpu_millicores, memory_bytes, gpus } = rung.resources;
    let layout = rung.layout;
    let Interval { p10, p50, p90 } = rung.ns_per_day;
    let labels: Vec<String> =
        rung.node_labels.iter().map(|(name, value)| format!(", {name}={value}")).collect();
    format!(
        "{:>5} cpu {:>6} MiB {gpus} gpu, {}x{} npme {}: {} ({} to {}) ns/day, efficiency {:.2}, {}{}",
        f64::from(cpu_millicores) / 1000.0,
        memory_bytes >> 20,
        layout.ntmpi,
        layout.ntomp,
        layout.npme,
        digits(p50),
        digits(p10),
        digits(p90),
        rung.efficiency,
        rung.hardware_class,
        labels.concat()
    )
}

/// The ladder as text. Whatever it is, it goes down in speed, and an interval is around each speed.
fn ladder_of(model: &Model, asked: &LadderRequest) -> String {
    let rungs = ladder::build(model, asked).expect("there should be a ladder").rungs;
    assert!(
        !rungs.is_empty() && rungs.windows(2).all(|pair| pair[0].ns_per_day.p50 >= pair[1].ns_per_day.p50)
    );
    for Rung { ns_per_day: Interval { p10, p50, p90 }, efficiency, .. } in &rungs {
        assert!(p10 < p50 && p50 < p90 && (0.0..=1.0).contains(efficiency));
    }
    rungs.iter().map(|rung| line(rung) + "\n").collect()
}

#[test]
fn ladders_are_what_they_were() {
    let mut text = String::new();
    let mut add = |name: &str, model: &Model, asked: &LadderRequest| {
        let _ = writeln!(text, "# {name}\n{}", ladder_of(model, asked));
    };
    let prior = Model::prior();
    for kind in ["unknown", "zen3", "icelake", "two kinds", "arm", "a100"] {
        for atoms in [20_000, 100_000, 1_000_000] {
            add(&format!("{kind}, {atoms} atoms"), &prior, &asked(kind, atoms, None));
        }
    }
    for (kind, simd) in
        [("icelake", "AVX2_256"), ("icelake", "SSE4.1"), ("zen3", "SSE4.1"), ("arm", "ARM_NEON_ASIMD")]
    {
        add(&format!("{kind}, a build for {simd}"), &prior, &asked(kind, 100_000, Some(simd)));
    }
    let learned = after_a_run("zen3", 100_000, 0.7);
    for atoms in [100_000, 30_000] {
        add(
            &format!("zen3, {atoms} atoms, after a run of 100000 at 0.7 of what was predicted"),
            &learned,
            &asked("zen3", atoms, None),
        );
    }
    let learned = after_a_run("a100", 100_000, 1.3);
    add("a100, 300000 atoms, after a run of 100000 at 1.3", &learned, &asked("a100", 300_000, None));
    insta::assert_snapshot!(text);
}
