//! How long answers and learning take. Aims: a ladder over 50 node shapes in 1 ms, 2000 ladders per second on one
//! core, a model from 1,000,000 runs in 5 s.

#![allow(missing_docs, reason = "the macro makes an undocumented function")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use nix::time::{ClockId, clock_gettime};
use scavenger_schema::tuning::{Build, LadderRequest, Layout, NodeShape, PredictRequest};
use scavenger_tuner_model::ladder::fixtures::{labelled, node, request, water};
use scavenger_tuner_model::model::Observation;
use scavenger_tuner_model::{Model, ladder};

const INSTANCES: [&str; 8] = ["c5a.x", "c6a.x", "c6g.x", "c6i.x", "c7a.x", "c7g.x", "c7i.x", "m5a.x"];

/// Shapes of eight classes and many sizes, some with GPUs.
fn shapes(count: u32) -> Vec<NodeShape> {
    (0..count)
        .map(|n| {
            let instance = INSTANCES[n as usize % INSTANCES.len()];
            let labels = [
                ("node.kubernetes.io/instance-type", instance),
                ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB"),
            ];
            labelled(&node((n % 64 + 1) * 2000, 256), &labels, u32::from(n % 5 == 0) * 4)
        })
        .collect()
}

fn runs(count: u32) -> Vec<Observation> {
    (0..count)
        .map(|n| {
            let cores = n % 32 + 1;
            let instance = INSTANCES[n as usize % INSTANCES.len()];
            let run = PredictRequest {
                system: water(10_000 + 1000 * u64::from(n % 977)),
                layout: Layout::cpu(1, cores),
                node: labelled(&node(0, 0), &[("node.kubernetes.io/instance-type", instance)], 0),
                cpu_millicores: None,
                gromacs_version: None,
                build: Build::default(),
            };
            Observation::new(&run, None, 10.0 + f64::from(n % 7)).expect("the run should be accepted")
        })
        .collect()
}

/// Largest time of 99 in 100 ladders: on the clock, and of the processor alone, which leaves out the slices that other
/// programs on the machine got.
fn p99(requests: &[LadderRequest], model: &Model) -> (Duration, Duration) {
    let processor = || {
        let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux should have this clock");
        Duration::from(now)
    };
    let (mut clock, mut busy): (Vec<Duration>, Vec<Duration>) = requests
        .iter()
        .map(|request| {
            let (start, before) = (Instant::now(), processor());
            black_box(ladder::build(model, black_box(request))).expect("there should be a ladder");
            (start.elapsed(), processor().saturating_sub(before))
        })
        .unzip();
    let of = |times: &mut Vec<Duration>| {
        times.sort();
        times[times.len() * 99 / 100]
    };
    (of(&mut clock), of(&mut busy))
}

fn benches(criterion: &mut Criterion) {
    let model = Model::prior();
    let learned = model.learn(&runs(40_000));
    for (name, shapes) in [("1 shape", shapes(1)), ("50 shapes", shapes(50))] {
        let request = request(water(300_000), shapes.clone());
        criterion.bench_function(&format!("ladder, {name}"), |bench| {
            bench.iter(|| ladder::build(&model, black_box(&request)));
        });
        criterion.bench_function(&format!("ladder, {name}, learned"), |bench| {
            bench.iter(|| ladder::build(&learned, black_box(&request)));
        });
        let same = vec![request; 4000];
        // Each system of the runs once, asked about for the first time.
        let each: Vec<LadderRequest> = (0..977)
            .map(|n| {
                scavenger_tuner_model::ladder::fixtures::request(water(10_000 + 1000 * n), shapes.clone())
            })
            .collect();
        let fresh = learned.clone();
        for (what, model, requests) in [
            ("", &model, &same),
            (", learned", &learned, &same),
            (", learned, each system for the first time", &fresh, &each),
        ] {
            let (clock, busy) = p99(requests, model);
            println!(
                "99th percentile, {name}{what}: {busy:?} of the processor (aim 1 ms), {clock:?} on the clock"
            );
        }
    }
    let many = runs(1_000_000);
    let start = Instant::now();
    black_box(model.learn(&many));
    println!("a model from 1,000,000 runs: {:?} on the clock (aim 5 s)", start.elapsed());
    let mut group = criterion.benchmark_group("learn");
    group.sample_size(10);
    group.bench_function("1,000,000 runs", |bench| bench.iter(|| model.learn(black_box(&many))));
    group.finish();
}

criterion_group! {
    name = ladders;
    config = Criterion::default().measurement_time(Duration::from_secs(3)).warm_up_time(Duration::from_secs(1));
    targets = benches
}
criterion_main!(ladders);
