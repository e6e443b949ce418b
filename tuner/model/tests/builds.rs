//! What a build for other vector instructions costs, as it was measured.

use scavenger_schema::tuning::{Build, Layout, PredictRequest};
use scavenger_tuner_model::Model;
use scavenger_tuner_model::hardware::{CpuClass, Simd};
use scavenger_tuner_model::ladder::fixtures::{labelled, node, water};

const INSTANCE: &str = "node.kubernetes.io/instance-type";

/// Speed with one build over that with another, each measured on one machine with one system and one split.
const MEASURED: [(&str, &str, &str, &[f64]); 9] = [
    ("c5.x", "AVX_512", "AVX2_256", &[1.17, 1.14, 1.15]),
    ("c6i.x", "AVX_512", "AVX2_256", &[1.13, 1.01, 1.23]),
    ("c7i.x", "AVX_512", "AVX2_256", &[1.16]),
    ("c8i.x", "AVX_512", "AVX2_256", &[1.14]),
    ("c7a.x", "AVX_512", "AVX2_256", &[1.06]),
    ("c8a.x", "AVX_512", "AVX2_256", &[1.23, 1.22]),
    ("c7g.x", "ARM_SVE", "ARM_NEON_ASIMD", &[0.99]),
    ("c8g.x", "ARM_SVE", "ARM_NEON_ASIMD", &[0.90]),
    ("c9g.x", "ARM_SVE", "ARM_NEON_ASIMD", &[0.84]),
];
/// How far the prediction may be from the middle of what was measured. Systems on one machine differ by more.
const MISS: f64 = 0.1;

fn asked(instance: &str, simd: &str) -> PredictRequest {
    PredictRequest {
        system: water(100_000),
        layout: Layout::cpu(16, 1),
        node: labelled(&node(16_000, 64), &[(INSTANCE, instance)], 0),
        cpu_millicores: None,
        gromacs_version: Some("2024.4".to_owned()),
        build: Build { simd: Some(simd.to_owned()), ..Build::default() },
    }
}

#[test]
fn builds_differ_as_they_were_measured() {
    let speed = |instance: &str, simd: &str| {
        Model::prior().answer(&asked(instance, simd)).expect("the layout should run").ns_per_day.p50
    };
    for (instance, one, other, measured) in MEASURED {
        let predicted = speed(instance, one) / speed(instance, other);
        let mut sorted = measured.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted[sorted.len() / 2];
        assert!((predicted / middle).ln().abs() < MISS, "{instance}: {predicted} for {middle}");
    }
}

#[test]
fn pairs_with_narrow_instructions_take_as_long_as_on_zen_2() {
    let zen2 = CpuClass::by_key("zen2").expect("Zen 2 should be in the table");
    let ratio = zen2.pair_cycles_with(Some(Simd::Sse)) / zen2.pair_cycles_with(Some(Simd::Avx2));
    assert!((ratio / 1.85).ln().abs() < 0.02, "{ratio}");
}

#[test]
fn the_interval_is_wider_for_a_build_that_is_not_the_processors_own() {
    let width = |simd: &str| {
        let speed = Model::prior().answer(&asked("c6i.x", simd)).expect("the layout should run").ns_per_day;
        speed.p90 / speed.p50
    };
    let own = width("AVX_512");
    assert!(own < width("AVX2_256") && width("AVX2_256") < width("SSE4.1"), "{own}");
}
