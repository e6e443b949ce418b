use super::*;
use crate::ladder::fixtures::{labelled, node, water};
use scavenger_schema::tuning::{
    Build, Device, Interval, PredictRequest, Resources, SystemDescription, VdwModifier,
};

fn request() -> PredictRequest {
    PredictRequest {
        system: water(30_000),
        layout: Layout::cpu(1, 2),
        node: node(2000, 4),
        cpu_millicores: None,
        gromacs_version: None,
        build: Build::default(),
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
    let learned = model.learn(&[run_of(&request, measured)]);
    assert_ne!(learned.version(), model.version());
    assert_eq!(learned.runs(), 1);
    assert_eq!(learned.residual("unknown", false).map(|class| class.runs), Some(1));
    let after = learned.answer(&request).expect("the layout should run").ns_per_day;
    assert!((after.p50 / measured - 1.0).abs() < 0.1, "{after:?} {measured}");
    assert!(after.p90 / after.p50 < 1.35, "{after:?}");
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
    let run = run_of(&request, before.ns_per_day.p50).with_peak_memory(&request.layout, measured);
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
    let learned = model.learn(&[run_of(&four, before.p50 / 2.0)]);
    assert_eq!(ask(&learned, &one), ask(&model, &one));
    let after = ask(&learned, &four);
    assert!((after.p50 / before.p50 - 0.5).abs() < 0.1, "{before:?} {after:?}");
    assert!(before.p90 / before.p50 > 4.0 && after.p90 / after.p50 < 1.5, "{before:?} {after:?}");
}

#[test]
fn a_gpu_of_an_unknown_product_says_nothing_of_an_unknown_cpu() {
    let on_cpu = PredictRequest { system: water(100_000), node: node(16_000, 64), ..request() };
    let on_gpu = PredictRequest {
        layout: Layout::water(1, 8, 1),
        node: labelled(&node(16_000, 64), &[("nvidia.com/gpu.product", "Something-New")], 1),
        ..on_cpu.clone()
    };
    let (prior, model) = (Model::prior(), Model::prior().learn(&[measured(&on_gpu, 0.5)]));
    let ask = |model: &Model, request: &PredictRequest| {
        model.answer(request).expect("the layout should run").ns_per_day
    };
    assert_eq!(ask(&model, &on_cpu), ask(&prior, &on_cpu));
    assert!(ask(&model, &on_gpu).p50 < 0.7 * ask(&prior, &on_gpu).p50);
    let classes = crate::description::classes(&model);
    let with_runs: Vec<_> = classes.iter().filter(|class| class.runs > 0).collect();
    assert_eq!(with_runs.len(), 1);
    assert_eq!((with_runs[0].class.as_str(), with_runs[0].kind.as_str()), ("unknown", "gpu"));
}

#[test]
fn half_a_core_that_was_as_fast_as_predicted_teaches_nothing() {
    let model = Model::prior();
    let half = PredictRequest { layout: Layout::cpu(1, 1), cpu_millicores: Some(500), ..request() };
    let speed = model.answer(&half).expect("the layout should run").ns_per_day.p50;
    let after = model.learn(&[run_of(&half, speed)]).answer(&half).expect("the layout should run");
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
    let learned = model.learn(&[measured(&request, 1.0)]);
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
    let (unknown, known) = (width(&request()), width(&known));
    assert!(known < 1.8 && unknown > 1.3 * known, "{known} {unknown}");
}

#[test]
fn old_releases_keep_off_the_gpu_what_they_do_not_know() {
    let mut raw = water(30_000);
    raw.gpu_offload.update = true;
    raw.bonded_interactions = None;
    let of = |version| {
        let job = Job::new(&raw, version, &Build::default());
        let allowed = job.expect("water should be accepted").system.gpu_offload;
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
    assert_eq!(field(|r| r.cpu_millicores = Some(1500)), "cpuMillicores");
    assert_eq!(field(|r| r.node.allocatable.gpus = 1_000_000), "node.allocatable.gpus");
    assert_eq!(field(|r| r.system.atoms = 0), "system.atoms");
}

/// A node of Zen 4, and a request for two of its cores with a build for `simd` in `precision`.
fn built(simd: &str, precision: &str) -> PredictRequest {
    let mut request = request();
    request.node = labelled(&node(16_000, 64), &[("node.kubernetes.io/instance-type", "c7a.4xlarge")], 0);
    request.build.simd = Some(simd.to_owned());
    request.build.precision = Some(precision.to_owned());
    request
}

#[test]
fn vector_instructions_and_precision_decide_the_speed() {
    let speed = |request: &PredictRequest| {
        Model::prior().answer(request).expect("the layout should run").ns_per_day.p50
    };
    let own = speed(&built("AVX_512", "mixed"));
    let unknown = PredictRequest { build: Build::default(), ..built("", "") };
    assert_eq!(own, speed(&unknown), "a build that is not known is one for the processor");
    assert_eq!(own, speed(&built("tomorrow", "mixed")));
    let narrow = own / speed(&built("SSE4.1", "mixed"));
    assert!((1.5..4.0).contains(&narrow), "{narrow}");
    let double = own / speed(&built("AVX_512", "double"));
    assert!((1.5..2.2).contains(&double), "{double}");
}

#[test]
fn a_run_says_more_of_its_own_build_than_of_another() {
    let request = built("AVX_512", "mixed");
    let learned = Model::prior().learn(&[measured(&request, 0.8)]);
    let width = |request: &PredictRequest| {
        let Interval { p10, p90, .. } = learned.answer(request).expect("the layout should run").ns_per_day;
        p90 / p10
    };
    let mut other = request.clone();
    other.build.gpu_backend = Some("CUDA".to_owned());
    assert!(width(&request) < width(&other), "{} {}", width(&request), width(&other));
    other.build = Build { mpi: Some("MPI".to_owned()), ..request.build.clone() };
    assert!(width(&request) < width(&other));
}

/// A run of `request` at that speed.
fn run_of(request: &PredictRequest, ns_per_day: f64) -> Observation {
    Observation::new(request, None, ns_per_day).expect("the run should be accepted")
}

/// A run of `request` at `share` of the speed that is predicted for it.
fn measured(request: &PredictRequest, share: f64) -> Observation {
    let before = Model::prior().answer(request).expect("the layout should run");
    run_of(request, before.ns_per_day.p50 * share)
}

#[test]
fn a_build_without_gpus_gets_none() {
    let gpu_node = labelled(&node(16_000, 64), &[("nvidia.com/gpu.product", "NVIDIA-A100")], 1);
    let mut asked = crate::ladder::fixtures::request(water(100_000), vec![gpu_node]);
    asked.gromacs_version = Some("2024.4".to_owned());
    let gpus = |asked: &scavenger_schema::tuning::LadderRequest| {
        let reply = crate::ladder::build(&Model::prior(), asked).expect("there should be a ladder");
        reply.rungs.iter().filter(|rung| rung.resources.gpus > 0).count()
    };
    assert!(gpus(&asked) > 0);
    asked.build.gpu_backend = Some("disabled".to_owned());
    assert_eq!(gpus(&asked), 0);
    asked.build.gpu_backend = Some("CUDA".to_owned());
    assert!(gpus(&asked) > 0);
    asked.build.precision = Some("double".to_owned());
    assert_eq!(gpus(&asked), 0, "there is no double precision on GPUs");
}

#[test]
fn a_droplet_is_learned_as_it_is_predicted() {
    let mut droplet = PredictRequest { system: water(100_000), node: node(16_000, 64), ..request() };
    droplet.layout = Layout::cpu(16, 1);
    // A slab of water with as much vacuum above it, and a droplet.
    for box_nm in [[10.0, 10.0, 20.1], [40.0, 40.0, 40.0]] {
        droplet.system.box_nm = Some(box_nm);
        for build in [Build::default(), built("AVX2_256", "double").build] {
            droplet.build = build;
            let before = Model::prior().answer(&droplet).expect("the layout should run");
            let run = measured(&droplet, 1.0).with_peak_memory(&droplet.layout, before.memory_bytes);
            assert!(run.memory_residual.expect("it was measured").abs() < 1e-6);
            let learned = Model::prior().learn(&[run]);
            let after = learned.answer(&droplet).expect("the layout should run");
            let ratio = after.ns_per_day.p50 / before.ns_per_day.p50;
            assert!((ratio - 1.0).abs() < 1e-6, "{box_nm:?} {ratio}");
        }
    }
}

/// Water of so many atoms on 16 cores of a known processor, `spoil`ed.
fn on_zen3(atoms: u64, spoil: impl FnOnce(&mut SystemDescription)) -> PredictRequest {
    let labels = [("node.kubernetes.io/instance-type", "hpc6a.48xlarge")];
    let mut asked = PredictRequest {
        system: water(atoms),
        layout: Layout::cpu(1, 16),
        node: labelled(&node(96_000, 384), &labels, 0),
        ..request()
    };
    spoil(&mut asked.system);
    asked
}

/// Half-width of the interval of `asked`.
fn width(model: &Model, asked: &PredictRequest) -> f64 {
    let speed = model.answer(asked).expect("the layout should run").ns_per_day;
    speed.p90 / speed.p50
}

/// The same after a run of it at such a share of what was predicted.
fn width_after(asked: &PredictRequest, share: f64) -> f64 {
    width(&Model::prior().learn(&[measured(asked, share)]), asked)
}

#[test]
fn its_own_runs_take_the_doubt_of_a_system_away() {
    let plain = on_zen3(100_000, |_| {});
    for doubtful in [
        on_zen3(100_000, |system| {
            system.settings.free_energy = true;
            system.settings.perturbed_atoms = Some(2000);
        }),
        on_zen3(3000, |_| {}),
        on_zen3(100_000, |system| system.settings.vdw_modifier = VdwModifier::PotentialSwitch),
    ] {
        let (before, usual) = (width(&Model::prior(), &doubtful), width(&Model::prior(), &plain));
        assert!(before > usual, "{before} {usual}");
        // Off by what the doubt allows.
        let (one, usual) = (width_after(&doubtful, 0.8), width_after(&plain, 0.8));
        assert!(one < 1.1 * usual && one < before, "{before}: {one} {usual}");
    }
    let notes = |model: &Model| model.answer(&on_zen3(3000, |_| {})).expect("the layout should run").notes;
    assert_eq!(notes(&Model::prior()).len(), 1);
    let learned = Model::prior().learn(&[measured(&on_zen3(3000, |_| {}), 0.8)]);
    assert_eq!(notes(&learned), Vec::<String>::new(), "its interval is not wider any more");
}

#[test]
fn a_doubtful_run_teaches_others_nothing() {
    let asked = on_zen3(60_000, |_| {});
    let moved = |run: Observation| {
        let speed = |model: &Model| model.answer(&asked).expect("the layout should run").ns_per_day.p50;
        (speed(&Model::prior()) / speed(&Model::prior().learn(&[run]))).ln()
    };
    let plain = moved(measured(&on_zen3(100_000, |_| {}), 0.7));
    for doubtful in [
        on_zen3(3000, |_| {}),
        on_zen3(100_000, |system| {
            system.settings.free_energy = true;
            system.settings.perturbed_atoms = Some(2000);
        }),
        on_zen3(100_000, |system| system.settings.unmodelled = true),
    ] {
        assert_eq!(moved(measured(&doubtful, 0.7)), 0.0);
        assert!(plain > 0.1, "{plain}");
    }
}

#[test]
fn what_is_written_makes_no_other_system() {
    let asked = |bytes: f64| {
        let mut asked = request();
        asked.system.settings.output_bytes_per_step = bytes;
        asked
    };
    let (none, some) = (asked(0.0), asked(16.0));
    let answer =
        |model: &Model, request: &PredictRequest| model.answer(request).expect("the layout should run");
    let before = answer(&Model::prior(), &none);
    let run = measured(&none, 0.6).with_peak_memory(&none.layout, 2 * before.memory_bytes);
    let learned = Model::prior().learn(&[run]);
    let (own, other) = (answer(&learned, &none), answer(&learned, &some));
    assert_eq!(own.memory_bytes, other.memory_bytes);
    let ratio = |a: f64, b: f64| (a / b - 1.0).abs();
    assert!(ratio(own.ns_per_day.p50, other.ns_per_day.p50) < 1e-3, "{own:?} {other:?}");
    assert!(ratio(own.ns_per_day.p90, other.ns_per_day.p90) < 1e-3, "{own:?} {other:?}");
    // What each step writes it takes time for all the same, and repetitions with and without it are two runs.
    let much = asked(1e5);
    let learned = Model::prior().learn(&[measured(&none, 0.6), measured(&much, 0.6)]);
    for one in [&none, &much] {
        let expected = 0.6 * answer(&Model::prior(), one).ns_per_day.p50;
        let after = answer(&learned, one).ns_per_day.p50;
        assert!(ratio(after, expected) < 0.05, "{after} {expected}");
    }
}

#[test]
fn rare_output_is_no_doubt_and_output_at_each_step_is_one() {
    let width = |bytes: f64| {
        let mut asked = PredictRequest {
            layout: Layout::cpu(1, 16),
            node: node(16_000, 64),
            system: water(20_000),
            ..request()
        };
        asked.system.settings.output_bytes_per_step = bytes;
        let speed = Model::prior().answer(&asked).expect("the layout should run").ns_per_day;
        speed.p90 / speed.p10
    };
    // nstxout-compressed = 5000: some 4 bytes per atom and frame.
    let (none, rare, each_step) = (width(0.0), width(16.0), width(24.0 * 20_000.0));
    assert!((rare / none - 1.0).abs() < 1e-3, "{rare} {none}");
    assert!(each_step > 1.2 * none, "{each_step} {none}");
}

#[test]
fn a_run_on_an_idle_node_says_that_a_busy_one_is_slower() {
    let asked = PredictRequest { layout: Layout::cpu(8, 1), ..on_zen3(100_000, |_| {}) };
    let speed = |requested: Option<u32>| {
        let run = Observation::new(&asked, requested, 20.0).expect("the run should be accepted");
        let learned = Model::prior().learn(&[run]);
        learned.answer(&asked).expect("the layout should run").ns_per_day.p50
    };
    let (alone, unknown, full) = (speed(Some(8000)), speed(None), speed(Some(96_000)));
    assert!(alone < 0.98 * unknown && unknown < 0.98 * full, "{alone} {unknown} {full}");
}
