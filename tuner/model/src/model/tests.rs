use super::*;
use crate::ladder::fixtures::{node, water};
use scavenger_schema::tuning::{Device, PredictRequest, Resources};

fn request() -> PredictRequest {
    PredictRequest {
        system: water(30_000),
        layout: Layout::cpu(1, 2),
        node: node(2000, 4),
        cpu_millicores: None,
        gromacs_version: None,
        owner: None,
    }
}

#[test]
fn predicts_an_interval_around_the_median() {
    let reply = Model::prior().answer(&request()).expect("two threads should run on two cores");
    let speed = reply.ns_per_day;
    assert!(0.0 < speed.p10 && speed.p10 < speed.p50 && speed.p50 < speed.p90);
    assert_eq!(reply.hardware_class, "unknown");
    assert_eq!(reply.resources.cpu_millicores, 2000);
}

#[test]
fn runs_on_the_cluster_move_and_narrow_its_predictions() {
    let model = Model::prior();
    let request = request();
    let before = model.answer(&request).expect("the layout should run");
    let measured = before.ns_per_day.p50 * 0.6;
    let mut other = request.system.clone();
    other.atoms = 60_000;
    let other_before = model
        .answer(&PredictRequest { system: other.clone(), ..request.clone() })
        .expect("the layout should run");
    let run = Observation::local(
        &request.system,
        None,
        &request.layout,
        &before.resources,
        &request.node.labels,
        measured,
        "chemist",
    )
    .expect("the run should be accepted");
    let learned = model.learn(&[run]);
    assert_ne!(learned.version(), model.version());
    assert_eq!(learned.classes()[0].runs, 1);
    let after = learned.answer(&request).expect("the layout should run").ns_per_day;
    assert!((after.p50 / measured - 1.0).abs() < 0.1, "{after:?} {measured}");
    assert!(after.p90 / after.p50 < 1.25, "{after:?}");
    let after = learned
        .answer(&PredictRequest { system: other, ..request })
        .expect("the layout should run")
        .ns_per_day;
    assert!((after.p50 / (0.6 * other_before.ns_per_day.p50) - 1.0).abs() < 0.15, "{after:?}");
}

#[test]
fn a_measured_peak_raises_the_request_for_that_system_alone() {
    let model = Model::prior();
    let request = request();
    let before = model.answer(&request).expect("the layout should run");
    let measured = before.memory_bytes * 2;
    let run = Observation::local(
        &request.system,
        None,
        &request.layout,
        &before.resources,
        &request.node.labels,
        before.ns_per_day.p50,
        "chemist",
    )
    .expect("the run should be accepted")
    .with_peak_memory(&request.layout, measured);
    let learned = model.learn(&[run]);
    let after = learned.answer(&request).expect("the layout should run").resources.memory_bytes;
    assert!(after >= measured && after < measured * 3 / 2, "{after} {measured}");
    let other = PredictRequest { system: water(60_000), ..request };
    let of = |model: &Model| model.answer(&other).expect("the layout should run").resources.memory_bytes;
    assert_eq!(of(&learned), of(&model));
}

#[test]
fn several_gpus_that_were_measured_are_known_and_say_nothing_of_one() {
    let mut one = request();
    one.system = water(500_000);
    one.node.allocatable = Resources { cpu_millicores: 16_000, memory_bytes: 64 << 30, gpus: 4 };
    one.node.labels.insert("nvidia.com/gpu.product".into(), "NVIDIA-A100".into());
    one.layout = Layout { ..Layout::water(1, 4, 1) };
    let four =
        PredictRequest { layout: Layout { pme: Device::Cpu, ..Layout::water(4, 4, 4) }, ..one.clone() };
    let model = Model::prior();
    let ask = |model: &Model, request: &PredictRequest| {
        model.answer(request).expect("the layout should run").ns_per_day
    };
    let before = ask(&model, &four);
    let resources = model.answer(&four).expect("the layout should run").resources;
    let labels = &four.node.labels;
    let run = Observation::local(&four.system, None, &four.layout, &resources, labels, before.p50 / 2.0, "a")
        .expect("the run should be accepted");
    let learned = model.learn(&[run]);
    assert_eq!(ask(&learned, &one), ask(&model, &one));
    let after = ask(&learned, &four);
    assert!((after.p50 / before.p50 - 0.5).abs() < 0.1, "{before:?} {after:?}");
    assert!(before.p90 / before.p50 > 4.0 && after.p90 / after.p50 < 1.5, "{before:?} {after:?}");
}

#[test]
fn half_a_core_that_was_as_fast_as_predicted_teaches_nothing() {
    let model = Model::prior();
    let half = PredictRequest { layout: Layout::cpu(1, 1), cpu_millicores: Some(500), ..request() };
    let before = model.answer(&half).expect("the layout should run");
    let labels = &half.node.labels;
    let speed = before.ns_per_day.p50;
    let run = Observation::local(&half.system, None, &half.layout, &before.resources, labels, speed, "a")
        .expect("the run should be accepted");
    let after = model.learn(&[run]).answer(&half).expect("the layout should run");
    assert!((after.ns_per_day.p50 / speed - 1.0).abs() < 1e-9);
}

#[test]
fn whether_cpus_are_threads_makes_the_interval_wider_until_it_is_measured() {
    let mut request = request();
    request.node.labels.insert("kubernetes.io/arch".into(), "amd64".into());
    let mut told = request.clone();
    told.node.labels.insert("feature.node.kubernetes.io/cpu-hardware_multithreading".into(), "false".into());
    let width = |model: &Model, request: &PredictRequest| {
        let speed = model.answer(request).expect("the layout should run").ns_per_day;
        speed.p90 / speed.p50
    };
    let model = Model::prior();
    assert!(width(&model, &request) > 1.05 * width(&model, &told));
    let before = model.answer(&request).expect("the layout should run");
    let labels = &request.node.labels;
    let speed = before.ns_per_day.p50;
    let run =
        Observation::local(&request.system, None, &request.layout, &before.resources, labels, speed, "a")
            .expect("the run should be accepted");
    let learned = model.learn(&[run]);
    assert_eq!(width(&learned, &request), width(&learned, &told));
}

#[test]
fn unknown_hardware_is_less_certain() {
    let mut known = request();
    known.node.labels.insert("node.kubernetes.io/instance-type".into(), "m6i.large".into());
    let model = Model::prior();
    let width = |request: &PredictRequest| {
        let speed = model.answer(request).expect("the layout should run").ns_per_day;
        speed.p90 / speed.p50
    };
    assert!(width(&request()) > 1.8);
    assert!(width(&known) < 1.6);
}

#[test]
fn old_releases_are_slower() {
    let mut old = request();
    old.gromacs_version = Some("2016.4".to_owned());
    let model = Model::prior();
    let speed =
        |request: &PredictRequest| model.answer(request).expect("the layout should run").ns_per_day.p50;
    assert!(speed(&old) < speed(&request()));
}

#[test]
fn old_releases_keep_off_the_gpu_what_they_do_not_know() {
    let mut raw = water(30_000);
    raw.gpu_offload.update = true;
    raw.bonded_interactions = None;
    let of = |version| {
        let allowed = Job::new(&raw, version).expect("water should be accepted").system.gpu_offload;
        [allowed.nonbonded, allowed.pme, allowed.bonded, allowed.update]
    };
    assert_eq!(of(None), [true; 4]);
    assert_eq!(of(Some("2024.1")), [true; 4]);
    assert_eq!(of(Some("2019.6")), [true, true, true, false]);
    assert_eq!(of(Some("2018.8")), [true, true, false, false]);
    assert_eq!(of(Some("2016.4")), [true, false, false, false]);
}

#[test]
fn refuses_what_mdrun_or_the_node_would_refuse() {
    let model = Model::prior();
    let field = |spoil: fn(&mut PredictRequest)| {
        let mut request = request();
        spoil(&mut request);
        model.answer(&request).expect_err("the spoilt request should be refused").field().to_owned()
    };
    assert_eq!(field(|r| r.layout.npme = 1), "layout");
    assert_eq!(field(|r| r.layout.ntomp = 4), "node.allocatable");
    assert_eq!(field(|r| r.layout.ntmpi = 5000), "layout");
    assert_eq!(field(|r| r.layout.ntmpi = u32::MAX), "layout.ntmpi");
    assert_eq!(field(|r| r.layout.ntomp = 0), "layout.ntomp");
    assert_eq!(field(|r| r.gromacs_version = Some("x".repeat(101))), "gromacsVersion");
    assert_eq!(field(|r| r.owner = Some("x".repeat(64))), "owner");
    assert_eq!(field(|r| r.owner = Some(String::new())), "owner");
    assert_eq!(field(|r| r.cpu_millicores = Some(1500)), "cpuMillicores");
    assert_eq!(field(|r| r.node.allocatable.gpus = 1_000_000), "node.allocatable.gpus");
    assert_eq!(field(|r| r.system.atoms = 0), "system.atoms");
}
