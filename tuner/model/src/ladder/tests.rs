use proptest::prelude::*;
use scavenger_schema::tuning::{Build, MIB, Rung};

use super::candidates::{core_counts, price};
use super::fixtures::{labelled, node, request, water};
use super::lines::is_dominated;
use super::*;
use crate::layout::check;
use crate::system::System;

const INSTANCE: &str = "node.kubernetes.io/instance-type";

fn ladder(request: &LadderRequest) -> Vec<Rung> {
    build(&Model::prior(), request).expect("the request should have a ladder").rungs
}

fn millicores(rungs: &[Rung]) -> Vec<u32> {
    rungs.iter().map(|rung| rung.resources.cpu_millicores).collect()
}

fn zen3(cores: u32, memory_gib: u64) -> NodeShape {
    labelled(&node(cores * 1000, memory_gib), &[(INSTANCE, "hpc6a.48xlarge")], 0)
}

#[test]
fn a_small_node_yields_two_cores_one_and_a_half() {
    for atoms in [3_000, 10_000, 30_000] {
        assert_eq!(millicores(&ladder(&request(water(atoms), vec![node(2000, 4)]))), [2000, 1000, 500]);
    }
}

#[test]
fn the_first_rung_follows_allocatable_and_not_what_is_free() {
    let mut small = node(2000, 4);
    small.largest_free = Some(Resources { cpu_millicores: 1400, memory_bytes: 2 << 30, gpus: 0 });
    let rungs = ladder(&request(water(10_000), vec![small]));
    assert_eq!(millicores(&rungs), [2000, 1000, 500]);
    assert_eq!(rungs.iter().map(|rung| rung.fits_now).collect::<Vec<_>>(), [false, true, true]);
}

#[test]
fn parts_of_a_core_beyond_a_half_are_left_alone() {
    assert_eq!(millicores(&ladder(&request(water(10_000), vec![node(1930, 4)]))), [1000, 500]);
    assert_eq!(millicores(&ladder(&request(water(10_000), vec![node(700, 4)]))), [500]);
}

#[test]
fn a_small_system_starts_at_its_knee_and_not_at_the_largest_machine() {
    let first = |atoms| ladder(&request(water(atoms), vec![zen3(96, 384)]))[0].resources.cpu_millicores;
    assert!(first(3_000) < 40_000, "{}", first(3_000));
    assert_eq!(first(2_000_000), 96_000);
}

#[test]
fn fourteen_cores_are_used_without_fourteen_ranks() {
    let rungs = ladder(&request(water(300_000), vec![zen3(14, 64)]));
    assert_eq!(rungs[0].resources.cpu_millicores, 14_000);
    assert_ne!(rungs[0].layout.ntmpi, 14);
}

#[test]
fn nodes_that_keep_a_core_for_the_system_are_used_nearly_whole() {
    for (cores, nearly) in [(31, 30), (47, 45), (127, 126), (191, 189)] {
        let rungs = ladder(&request(water(3_000_000), vec![zen3(cores, 384)]));
        let first = rungs[0].resources.cpu_millicores;
        assert!(first == cores * 1000 || first == nearly * 1000, "{cores}: {first}");
        assert!(first <= 128_000 || rungs[0].layout.ntmpi > 1);
        let nodes = [zen3(cores, 384)];
        let kinds = kinds_of(&nodes);
        assert!(core_counts(&kinds, cores).contains(&nearly), "{cores}");
    }
    let nodes = [zen3(96, 384)];
    let kinds = kinds_of(&nodes);
    assert!(core_counts(&kinds, 96).len() < 40, "each count costs time");
}

#[test]
fn cores_with_two_threads_are_not_divided() {
    let threads = |instance| labelled(&zen3(31, 128), &[(INSTANCE, instance)], 0);
    let odd = |nodes: &[NodeShape]| -> Vec<u32> {
        core_counts(&kinds_of(nodes), 31).into_iter().filter(|cores| cores % 2 == 1).collect()
    };
    let (two, one) = (threads("m5.8xlarge"), threads("hpc6a.48xlarge"));
    assert_eq!(odd(std::slice::from_ref(&two)), [1, 31], "one thread, and the whole of a node");
    assert!(core_counts(&kinds_of(std::slice::from_ref(&two)), 31).contains(&30));
    assert_eq!(odd(std::slice::from_ref(&one)), [1, 3, 5, 9, 31]);
    assert_eq!(odd(&[one, two]), [1, 3, 5, 9, 31], "where it may run on whole cores");
}

#[test]
fn limits_bound_every_rung() {
    let mut limited = request(water(1_000_000), vec![zen3(64, 256)]);
    limited.limits.max_cpu_millicores = Some(12_500);
    limited.limits.max_memory_bytes = Some(3 << 30);
    limited.limits.max_configurations = 3;
    let rungs = ladder(&limited);
    assert_eq!(rungs[0].resources.cpu_millicores, 12_000);
    assert_eq!(rungs.len(), 3);
    assert!(rungs.iter().all(|rung| rung.resources.memory_bytes <= 3 << 30));
}

#[test]
fn one_gpu_comes_before_the_cores_that_it_replaces() {
    let gpu_node = labelled(
        &zen3(64, 256),
        &[(INSTANCE, "hpc6a.48xlarge"), ("nvidia.com/gpu.product", "NVIDIA-A100")],
        4,
    );
    let both = request(water(500_000), vec![gpu_node, zen3(64, 256)]);
    let rungs = ladder(&both);
    assert_eq!(rungs[0].resources.gpus, 1);
    assert_eq!(rungs[0].hardware_class, "zen3+a100");
    assert!(rungs.iter().any(|rung| rung.resources.gpus == 0));
    let mut without = both;
    without.limits.max_gpus = Some(0);
    assert!(ladder(&without).iter().all(|rung| rung.resources.gpus == 0));
}

/// A node with a GPU, and one of 128 hardware threads without.
fn gpu_node_and_large_node() -> Vec<NodeShape> {
    let gpu_node = labelled(
        &zen3(20, 256),
        &[(INSTANCE, "hpc6a.48xlarge"), ("nvidia.com/gpu.product", "NVIDIA-A100")],
        1,
    );
    vec![gpu_node, labelled(&node(128_000, 512), &[(INSTANCE, "c6a.32xlarge")], 0)]
}

#[test]
fn a_gpu_leaves_out_no_configuration_without_one() {
    let rungs = ladder(&request(water(100_000), gpu_node_and_large_node()));
    let best = |gpus: u32| {
        let mut of_kind = rungs.iter().filter(|rung| rung.resources.gpus == gpus);
        of_kind.next().unwrap_or_else(|| panic!("no configuration with {gpus} GPUs"))
    };
    let (with, without) = (best(1), best(0));
    assert!(with.ns_per_day.p50 > without.ns_per_day.p50);
    assert!(without.resources.cpu_millicores >= 32_000, "{without:?}");
    // The largest on the node of 128 threads is left when the GPU is busy: not a tenth of what it could be.
    assert!(without.ns_per_day.p50 > 0.25 * with.ns_per_day.p50, "{without:?} {with:?}");
}

#[test]
fn the_price_of_a_gpu_leaves_out_no_configuration() {
    let mut request = request(water(100_000), gpu_node_and_large_node());
    let without_gpus = |request: &LadderRequest| -> Vec<u32> {
        // What is for one kind of node alone gives way to the others.
        let is_meant = |rung: &Rung| rung.resources.gpus == 0 && rung.node_labels.is_empty();
        millicores(&ladder(request).into_iter().filter(is_meant).collect::<Vec<_>>())
    };
    let mut seen = Vec::new();
    for price in [0.0, 10.0, 1e6] {
        request.limits.weights.gpu = price;
        let rungs = ladder(&request);
        assert!(rungs.iter().any(|rung| rung.resources.gpus > 0), "{price}");
        seen.push(without_gpus(&request));
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[1], seen[2]);
}

#[test]
fn each_kind_of_node_keeps_its_own_line() {
    let slow = labelled(&node(32_000, 64), &[(INSTANCE, "m6g.8xlarge")], 0);
    let fast = labelled(&node(96_000, 384), &[(INSTANCE, "m7a.24xlarge")], 0);
    let rungs = ladder(&request(water(1_000_000), vec![fast, slow]));
    let most = |class: &str| {
        let of_class = rungs.iter().filter(|rung| rung.hardware_class == class);
        of_class.map(|rung| rung.resources.cpu_millicores).max()
    };
    assert_eq!((most("zen4"), most("neoverse-n1")), (Some(96_000), Some(32_000)));
}

/// The configurations for nodes with this label alone, or for any node.
fn line<'r>(rungs: &'r [Rung], label: Option<&str>) -> Vec<&'r Rung> {
    let value = |rung: &Rung| rung.node_labels.values().next().cloned();
    rungs.iter().filter(|rung| value(rung).as_deref() == label).collect()
}

#[test]
fn a_fast_kind_with_small_nodes_keeps_its_own_line() {
    let slow = labelled(&node(128_000, 256), &[(INSTANCE, "m6g.metal")], 0);
    let fast = labelled(&node(32_000, 128), &[(INSTANCE, "m7a.8xlarge")], 0);
    let rungs = ladder(&request(water(1_000_000), vec![slow, fast]));
    assert!(rungs.len() <= 12, "{}", rungs.len());
    let (anywhere, on_fast) = (line(&rungs, None), line(&rungs, Some("m7a.8xlarge")));
    assert_eq!(anywhere.len() + on_fast.len(), rungs.len());
    let cores = |rungs: &[&Rung]| -> Vec<u32> {
        rungs.iter().map(|rung| rung.resources.cpu_millicores / 1000).collect()
    };
    assert_eq!((cores(&anywhere)[0], cores(&on_fast)[0]), (128, 32));
    assert!(
        on_fast.len() >= 3 && cores(&on_fast).last().is_some_and(|least| *least <= 8),
        "{:?}",
        cores(&on_fast)
    );
    assert_eq!(
        rungs.last().map(|rung| (rung.resources.cpu_millicores, rung.node_labels.len())),
        Some((500, 0))
    );
    assert!(anywhere.iter().all(|rung| rung.hardware_class == "neoverse-n1"));
    for rung in &on_fast {
        assert_eq!(rung.hardware_class, "zen4");
        assert!(rung.on_hardware.is_empty() && rung.fits_now);
        assert!(rung.reason.contains("for nodes with node.kubernetes.io/instance-type=m7a.8xlarge alone, "));
    }
    for line in [anywhere, on_fast] {
        for pair in line.windows(2) {
            let share = pair[1].ns_per_day.p50 / pair[0].ns_per_day.p50;
            // From 3 cores the next step is to 1.
            let sizes_allow = pair[0].resources.cpu_millicores > 3000;
            assert!(
                share <= 0.6 && (share >= 0.35 || !sizes_allow),
                "{share} from {:?} to {:?}",
                pair[0],
                pair[1]
            );
        }
    }
}

#[test]
fn a_fast_gpu_beside_a_slow_one_keeps_its_own_line() {
    let with = |product: &str, cores: u32| {
        labelled(&node(cores * 1000, 128), &[("nvidia.com/gpu.product", product)], 1)
    };
    let rungs =
        ladder(&request(water(500_000), vec![with("Tesla-T4", 64), with("NVIDIA-A100-SXM4-40GB", 16)]));
    let on_fast = line(&rungs, Some("NVIDIA-A100-SXM4-40GB"));
    assert!(!on_fast.is_empty() && on_fast.iter().all(|rung| rung.hardware_class.ends_with("+a100")));
    assert_eq!(rungs[0], *on_fast[0]);
    assert!(line(&rungs, None).iter().any(|rung| rung.resources.gpus == 1));
}

#[test]
fn what_is_for_one_kind_gives_way_to_what_may_run_anywhere() {
    let slow = labelled(&node(128_000, 256), &[(INSTANCE, "m6g.metal")], 0);
    let fast = labelled(&node(32_000, 128), &[(INSTANCE, "m7a.8xlarge")], 0);
    let mut asked = request(water(1_000_000), vec![slow.clone(), fast]);
    let anywhere = ladder(&request(asked.system.clone(), vec![slow]));
    for most in [1, 2, 4, 6] {
        asked.limits.max_configurations = most;
        let rungs = ladder(&asked);
        assert!(rungs.len() <= most as usize);
        assert!(line(&rungs, None)[0].resources.cpu_millicores == anywhere[0].resources.cpu_millicores);
        assert_eq!(line(&rungs, Some("m7a.8xlarge")).len(), 0, "{most} are too few for two lines");
    }
}

#[test]
fn the_label_is_one_that_no_other_kind_has_and_most_nodes_of_this_one_do() {
    let arch = ("kubernetes.io/arch", "amd64");
    let of = |count: u32, cores: u32, labels: &[(&str, &str)]| NodeShape {
        count,
        ..labelled(&node(cores * 1000, 64), labels, 0)
    };
    let large = of(2, 32, &[arch, (INSTANCE, "m7a.8xlarge")]);
    let small = of(7, 16, &[arch, (INSTANCE, "m7a.4xlarge")]);
    let other = of(1, 64, &[arch, (INSTANCE, "m5a.16xlarge")]);
    let mut all = request(water(1_000_000), vec![large.clone(), small, other.clone()]);
    all.limits.max_configurations = 20;
    let rungs = ladder(&all);
    let sizes = |label| millicores(&line(&rungs, Some(label)).into_iter().cloned().collect::<Vec<_>>());
    let of_few = sizes("m7a.8xlarge");
    assert!(
        of_few[0] == 32_000 && of_few.iter().all(|cpu| *cpu > 16_000),
        "what the smaller ones cannot hold"
    );
    let of_most = sizes("m7a.4xlarge");
    assert!(of_most.len() > 2 && of_most.iter().all(|cpu| *cpu <= 16_000), "{of_most:?}");
    // Capacity on nodes of other kinds is none for it.
    let none = Resources { cpu_millicores: 0, memory_bytes: 0, gpus: 0 };
    let busy = NodeShape { largest_free: Some(none), ..large };
    let rungs = ladder(&request(water(1_000_000), vec![busy, other]));
    assert!(line(&rungs, Some("m7a.8xlarge")).iter().all(|rung| !rung.fits_now));
    assert!(line(&rungs, None).iter().all(|rung| rung.fits_now));
}

#[test]
fn where_no_label_distinguishes_the_kinds_nothing_is_bound() {
    let nfd = |family: &str, model: &str, more: &[(&str, &str)]| {
        let own = [
            ("feature.node.kubernetes.io/cpu-model.vendor_id", "AMD"),
            ("feature.node.kubernetes.io/cpu-model.family", family),
            ("feature.node.kubernetes.io/cpu-model.id", model),
        ];
        labelled(&node(32_000, 64), &[&own[..], more].concat(), 0)
    };
    // Naples and Genoa: the family or the model tells.
    let differ = ladder(&request(water(1_000_000), vec![nfd("23", "1", &[]), nfd("25", "17", &[])]));
    assert!(!line(&differ, Some("17")).is_empty(), "{differ:?}");
    // Hardware threads are a label too, but none that stands for a kind.
    let threads = [("feature.node.kubernetes.io/cpu-hardware_multithreading", "true")];
    let cores = [("feature.node.kubernetes.io/cpu-hardware_multithreading", "false")];
    let same = vec![nfd("25", "17", &threads), nfd("25", "17", &cores)];
    assert!(ladder(&request(water(1_000_000), same)).iter().all(|rung| rung.node_labels.is_empty()));
}

#[test]
fn efficiency_is_parallel_efficiency_on_the_same_hardware() {
    let mut request = request(water(100_000), gpu_node_and_large_node());
    request.limits.max_configurations = 12;
    let rungs = ladder(&request);
    let anywhere = |rung: &&Rung| rung.resources.gpus == 0 && rung.node_labels.is_empty();
    let on_zen3: Vec<&Rung> =
        rungs.iter().filter(anywhere).filter(|rung| rung.hardware_class == "zen3").collect();
    let per_core = |rung: &Rung| rung.ns_per_day.p50 / f64::from(rung.resources.cpu_millicores);
    for pair in on_zen3.windows(2) {
        // Beside busy neighbours the clock depends on the cores that are asked for in another way.
        let relative = |of: &dyn Fn(&Rung) -> f64| of(pair[0]) / of(pair[1]);
        let (alone, served) = (relative(&|rung| rung.efficiency), relative(&per_core));
        assert!(0.8 * served < alone && alone < 1.1 * served, "{alone} {served}");
    }
    // What the GPU costs plays no part.
    request.limits.weights.gpu = 1e-3;
    for (cheap, rung) in ladder(&request).iter().zip(&rungs) {
        if cheap.resources == rung.resources && cheap.node_labels == rung.node_labels {
            assert_eq!(cheap.efficiency, rung.efficiency);
        }
    }
}

#[test]
fn twelve_configurations_are_the_most_unless_more_are_asked_for() {
    let types =
        ["m5.24xlarge", "m6g.16xlarge", "m7a.48xlarge", "hpc6a.48xlarge", "m7i.48xlarge", "c5a.24xlarge"];
    let nodes: Vec<NodeShape> = types
        .iter()
        .zip([4000, 8000, 16_000, 32_000, 64_000, 128_000])
        .map(|(name, cpu)| labelled(&node(cpu, 512), &[(INSTANCE, name)], 0))
        .collect();
    let rungs = ladder(&request(water(3_000_000), nodes));
    assert!((6..=12).contains(&rungs.len()), "{}", rungs.len());
    assert!(rungs.last().is_some_and(|rung| rung.resources.cpu_millicores <= 4000));
}

#[test]
fn runs_that_keep_off_the_gpu_get_none() {
    let gpu_node = labelled(&zen3(16, 64), &[("nvidia.com/gpu.product", "NVIDIA-A100")], 1);
    let mut kept_off = request(water(500_000), vec![gpu_node]);
    kept_off.system.gpu_offload.nonbonded = false;
    assert!(ladder(&kept_off).iter().all(|rung| rung.resources.gpus == 0));
}

#[test]
fn a_rung_is_predicted_for_the_slowest_node_that_can_hold_it() {
    let slow = labelled(&node(8000, 64), &[(INSTANCE, "m6g.2xlarge")], 0);
    let fast = labelled(&node(32_000, 64), &[(INSTANCE, "m7a.8xlarge")], 0);
    let rungs = ladder(&request(water(300_000), vec![fast, slow]));
    for rung in rungs.iter().filter(|rung| rung.node_labels.is_empty()) {
        let expected = if rung.resources.cpu_millicores > 8000 { "zen4" } else { "neoverse-n1" };
        assert_eq!(rung.hardware_class, expected, "{}", rung.resources.cpu_millicores);
    }
}

#[test]
fn a_system_that_no_node_can_hold_is_refused_with_the_figures() {
    let error = build(&Model::prior(), &request(water(50_000_000), vec![node(64_000, 4)]))
        .expect_err("50 million atoms should not fit into 4 GiB");
    assert!(matches!(error, TuneError::NothingFits(_)));
    assert_eq!(error.field(), "nodes");
    let mut limited = request(water(500_000), vec![node(64_000, 64)]);
    limited.limits.max_memory_bytes = Some(100 * MIB);
    let error = build(&Model::prior(), &limited).expect_err("500,000 atoms should not fit into 100 MiB");
    assert_eq!(error.field(), "limits.maxMemoryBytes");
    let cordoned = request(water(3000), vec![node(0, 0)]);
    assert_eq!(build(&Model::prior(), &cordoned).expect_err("nothing is offered").field(), "nodes");
}

#[test]
fn unknown_hardware_is_said() {
    let reply =
        build(&Model::prior(), &request(water(3000), vec![node(2000, 4)])).expect("should have a ladder");
    assert!(reply.notes[0].contains("unknown"), "{:?}", reply.notes);
}

/// Labels of hardware classes, one of them of none.
const LABELS: [&str; 6] =
    ["hpc6a.48xlarge", "m6g.metal", "m7i.metal", "c5a.large", "something.else", "m5a.large"];

prop_compose! {
    fn any_node()(
        cores in 0_u32..200,
        rest in 0_u32..1000,
        memory_gib in 1_u64..64,
        label in prop::sample::select(&LABELS[..]),
        gpus in prop_oneof![3 => Just(0_u32), 1 => 1_u32..8],
        product in prop::sample::select(&["NVIDIA-A100-SXM4-40GB", "Tesla-T4", "other"][..]),
        free in prop::option::of((0_u32..200_000, 0_u64..(64 << 30))),
    ) -> NodeShape {
        let labels = [(INSTANCE, label), ("nvidia.com/gpu.product", product)];
        NodeShape {
            largest_free: free.map(|(cpu_millicores, memory_bytes)| Resources {
                cpu_millicores, memory_bytes, gpus
            }),
            ..labelled(&node(cores * 1000 + rest, memory_gib), &labels, gpus)
        }
    }
}

prop_compose! {
    fn any_request()(
        log_atoms in 2.0_f64..7.0,
        nodes in prop::collection::vec(any_node(), 1..5),
        max_cpu in prop::option::of(500_u32..150_000),
        max_configurations in 1_u32..12,
        min_efficiency in 0.3_f64..1.0,
        max_gpus in prop::option::of(0_u32..3),
        pme in any::<bool>(),
    ) -> LadderRequest {
        let mut system = water(10_f64.powf(log_atoms) as u64);
        if !pme {
            system.pme = None;
        }
        let limits = Limits {
            max_cpu_millicores: max_cpu, max_configurations, min_efficiency, max_gpus, ..Limits::default()
        };
        LadderRequest { system, limits, gromacs_version: None, build: Build::default(), nodes, explore: None }
    }
}

/// True if both are for the same kind of node alone.
fn is_for_the_same(one: &Candidate, rung: &Rung) -> bool {
    let class = one.slowest.class(one.layout.gpus);
    one.bound.is_some() && !rung.node_labels.is_empty() && class == rung.hardware_class
}

/// The rule for the first configuration of all once more, slowly and from its definition.
fn pays_and_is_not_dominated(request: &LadderRequest, rung: &Rung) -> bool {
    let job = Job::new(&request.system, None, &request.build).expect("the system should be right");
    let (model, kinds) = (Model::prior(), kinds_of(&request.nodes));
    let question = Question::new(&model, &job, &request.limits, &kinds);
    let all = candidates(&question);
    let asks = |one: &&Candidate| {
        (one.resources.cpu_millicores, one.resources.gpus, one.bound.is_some())
            == (rung.resources.cpu_millicores, rung.resources.gpus, !rung.node_labels.is_empty())
            && (one.speed / rung.ns_per_day.p50 - 1.0).abs() < 1e-9
    };
    let one = all.iter().find(asks).expect("configurations are candidates");
    let of_kind = |other: &&Candidate| {
        (other.slowest.cpu.key, other.resources.gpus) == (one.slowest.cpu.key, one.resources.gpus)
            && other.slowest.gpu.map(|gpu| gpu.key) == one.slowest.gpu.map(|gpu| gpu.key)
    };
    let best = all.iter().filter(of_kind).map(Candidate::value).fold(0.0, f64::max);
    !is_dominated(one, &all) && one.value() >= request.limits.min_efficiency * best * 0.97
}

proptest! {
    #[test]
    fn every_ladder_keeps_the_rules(request in any_request()) {
        let model = Model::prior();
        let Ok(reply) = build(&model, &request) else {
            let job = Job::new(&request.system, None, &request.build).expect("the system should be right");
            let kinds = kinds_of(&request.nodes);
            prop_assert!(candidates(&Question::new(&model, &job, &request.limits, &kinds)).is_empty());
            return Ok(());
        };
        let rungs = reply.rungs;
        prop_assert!(!rungs.is_empty() && rungs.len() <= request.limits.max_configurations as usize);

        prop_assert!(rungs.iter().all(|rung| pays_and_is_not_dominated(&request, rung)));
        prop_assert!(rungs.iter().any(|rung| rung.node_labels.is_empty()), "nobody waits for one kind alone");
        let system = System::check(&request.system).expect("the system should be right");
        for rung in &rungs {
            let asked = rung.resources;
            prop_assert!(asked.cpu_millicores == 500 || asked.cpu_millicores % 1000 == 0);
            prop_assert_eq!(asked.cpu_millicores.div_ceil(1000), rung.layout.threads());
            prop_assert_eq!(asked.memory_bytes % MIB, 0);
            prop_assert!(asked.memory_bytes > rung.memory_bytes);
            prop_assert_eq!(asked.gpus, rung.layout.gpus);
            prop_assert!(asked.gpus <= 1);
            prop_assert!(request.limits.max_cpu_millicores.is_none_or(|most| asked.cpu_millicores <= most));
            prop_assert!(request.limits.max_gpus.is_none_or(|most| asked.gpus <= most));
            prop_assert!(request.nodes.iter().any(|node| asked.fits_in(&node.allocatable)));
            let fits = request.nodes.iter().filter(|node| node.has(&rung.node_labels))
                .any(|n| asked.fits_in(&n.largest_free.unwrap_or(n.allocatable)));
            prop_assert_eq!(rung.fits_now, fits);
            let gpu = request.nodes.iter().filter(|node| node.allocatable.gpus > 0)
                .map(|node| crate::hardware::gpu_from_labels(&node.labels))
                .max_by(|a, b| a.memory_gib.total_cmp(&b.memory_gib));
            prop_assert_eq!(check(&system, &rung.layout, gpu), Ok(()));
            let speed = rung.ns_per_day;
            prop_assert!(0.0 < speed.p10 && speed.p10 <= speed.p50 && speed.p50 <= speed.p90);
            prop_assert!(speed.p90.is_finite());
            prop_assert!(0.0 < rung.efficiency && rung.efficiency <= 1.0);
        }
        for pair in rungs.windows(2) {
            prop_assert!(pair[1].ns_per_day.p50 <= pair[0].ns_per_day.p50);
        }
        let mut classes: Vec<&str> = rungs.iter().map(|rung| rung.hardware_class.as_str()).collect();
        classes.sort_unstable();
        classes.dedup();
        for class in classes {
            let line: Vec<&Rung> = rungs.iter().filter(|rung| rung.hardware_class == class).collect();
            for pair in line.windows(2) {
                let (above, below) = (pair[0], pair[1]);
                // Hardware threads or not is no part of the name of a class.
                if request.nodes.len() > 1 {
                    continue;
                }
                let share = below.ns_per_day.p50 / above.ns_per_day.p50;
                prop_assert!(share <= 0.6 + 1e-9, "{}", share);
                prop_assert!(below.resources.fits_in(&above.resources));
                let weights = &request.limits.weights;
                prop_assert!(price(&below.resources, weights) < price(&above.resources, weights));
            }
        }
    }

    #[test]
    fn no_rung_is_dominated(request in any_request()) {
        let model = Model::prior();
        let Ok(reply) = build(&model, &request) else { return Ok(()) };
        let job = Job::new(&request.system, None, &request.build).expect("the system should be right");
        let kinds = kinds_of(&request.nodes);
        let others = candidates(&Question::new(&model, &job, &request.limits, &kinds));
        for rung in &reply.rungs {
            let dominated = others.iter().find(|other| {
                other.resources != rung.resources
                    && (other.bound.is_none() || is_for_the_same(other, rung))
                    && other.resources.fits_in(&rung.resources)
                    && other.speed > rung.ns_per_day.p50
            });
            prop_assert_eq!(dominated, None, "{:?}", rung);
        }
    }

    #[test]
    fn no_step_is_longer_than_the_sizes_demand(request in any_request()) {
        // One kind of node, and no limit on the number of configurations, which counts more than the steps.
        let limits = Limits { max_configurations: bounds::MAX_CONFIGURATIONS.max, ..request.limits.clone() };
        let nodes = request.nodes[..1].to_vec();
        let request = LadderRequest { nodes, limits, ..request };
        let model = Model::prior();
        let Ok(reply) = build(&model, &request) else { return Ok(()) };
        let job = Job::new(&request.system, None, &request.build).expect("the system should be right");
        let kinds = kinds_of(&request.nodes);
        let all = candidates(&Question::new(&model, &job, &request.limits, &kinds));
        for gpus in [0, 1] {
            let of_kind = || all.iter().filter(|one| one.resources.gpus == gpus);
            let candidate = |rung: &Rung| {
                let cpu = rung.resources.cpu_millicores;
                of_kind().find(|one| one.resources.cpu_millicores == cpu).expect("it is a candidate")
            };
            let best = of_kind().map(Candidate::value).fold(0.0, f64::max);
            let line: Vec<&Candidate> =
                reply.rungs.iter().filter(|rung| rung.resources.gpus == gpus).map(candidate).collect();
            for pair in line.windows(2) {
                let (above, below) = (pair[0], pair[1]);
                // What clearly pays, needs no more memory and lies within a step would have been taken.
                let is_missed = |one: &&Candidate| {
                    let (share, least) = (one.speed / above.speed, request.limits.min_efficiency * best);
                    (0.35..=0.6).contains(&share)
                        && one.resources.cpu_millicores < above.resources.cpu_millicores
                        && one.resources.memory_bytes <= above.resources.memory_bytes
                        && one.value() > 1.1 * least
                        && !is_dominated(one, &all)
                };
                if below.speed < 0.35 * above.speed {
                    prop_assert_eq!(of_kind().find(is_missed), None, "{:?} {:?}", above, below);
                }
            }
        }
    }

    #[test]
    fn the_same_question_has_the_same_answer(request in any_request()) {
        let model = Model::prior();
        let once = build(&model, &request);
        prop_assert_eq!(&once, &build(&model, &request));
        // Nor does it matter in which order the nodes are listed.
        let mut turned = request;
        turned.nodes.reverse();
        let plain = |reply: Result<LadderReply, TuneError>| {
            reply.ok().map(|r| r.rungs.iter().map(|g| (g.resources, g.layout, g.fits_now)).collect::<Vec<_>>())
        };
        prop_assert_eq!(plain(once), plain(build(&model, &turned)));
    }
}
