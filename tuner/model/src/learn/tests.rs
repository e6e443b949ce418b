use super::features::release;
use super::*;
use crate::hardware::{CpuClass, GpuClass};
use crate::ladder::fixtures::water;
use crate::model::{Job, Model};
use crate::performance::{GpuPlacement, Placement};

fn place(cores: f64) -> Placement {
    Placement { nodes: 1.0, ranks: 1.0, threads: cores, npme: 0.0, cores, smt: 1.0, busy: 1.0, gpu: None }
}

fn run(atoms: u64, cores: f64, site: &str, value: f64) -> Residual {
    let job = Job::new(&water(atoms), None).expect("water should be accepted");
    let place = place(cores);
    let cpu = CpuClass::by_key("zen3").expect("Zen 3 should be in the table");
    let step = Model::prior().step_time(&job, cpu, &place);
    let origin = Origin::new(cpu.key, cpu.sigma, 0, Site::new(site, "2024"), &job);
    let features = Features::new(origin, &place, &step);
    Residual { features, owner: 1, value, count: 1.0, noise: 0.0, components: Components::default() }
}

/// A run on one A100 beside 16 cores of `cpu`; `resident` has all work on the GPU, else update and PME are on the host.
fn gpu_run(atoms: u64, cpu: &'static str, resident: bool, value: f64) -> Residual {
    let job = Job::new(&water(atoms), None).expect("water should be accepted");
    let class = GpuClass::by_key("a100").expect("A100 should be in the table");
    let gpu = GpuPlacement { class, count: 1.0, pme: resident, bonded: resident, update: resident };
    let place = Placement { gpu: Some(gpu), ..place(16.0) };
    let host = CpuClass::by_key(cpu).expect("the processor should be in the table");
    let step = Model::prior().step_time(&job, host, &place);
    let origin = Origin::new(class.key, class.sigma, 1, Site::new("here", "2024"), &job).beside(host.key);
    Residual {
        features: Features::new(origin, &place, &step),
        owner: 1,
        value,
        count: 1.0,
        noise: 0.0,
        components: Components::default(),
    }
}

#[test]
fn a_slow_host_is_no_slow_gpu() {
    let shift = |known: Residual, asked: &Residual| Knowledge::new(&[known]).ask(&asked.features, None).0;
    let slow_host = || gpu_run(300_000, "zen3", false, 0.5);
    let (resident, beside) = (gpu_run(900_000, "zen3", true, 0.0), gpu_run(900_000, "zen3", false, 0.0));
    let (of_gpu, of_host) = (shift(slow_host(), &resident), shift(slow_host(), &beside));
    assert!(of_host > 0.3 && of_gpu < 0.5 * of_host, "{of_gpu} {of_host}");
    // Another processor beside the same GPU is another host.
    let elsewhere = shift(slow_host(), &gpu_run(900_000, "sapphirerapids", false, 0.0));
    assert!(elsewhere < 0.8 * of_host, "{elsewhere} {of_host}");
    // And a slow GPU is one beside any of them.
    let slow_gpu = gpu_run(900_000, "zen3", true, 0.5);
    let other = shift(slow_gpu, &gpu_run(900_000, "sapphirerapids", true, 0.0));
    assert!(other > 0.25, "{other}");
}

#[test]
fn without_measurements_the_class_is_all() {
    let (mean, sigma) = Knowledge::default().ask(&run(30_000, 8.0, "here", 0.0).features, None);
    assert_eq!(mean, 0.0);
    assert!((0.2..0.4).contains(&sigma), "{sigma}");
}

#[test]
fn classes_of_many_designs_are_not_narrowed() {
    let zen3 = run(30_000, 8.0, "here", 0.0).features;
    let part = Features { stratum: Stratum::PartOfNode, ..zen3 };
    for known in Known::ALL {
        assert!(zen3.widening(known) < 1.0);
        assert!(part.widening(known) >= 1.0, "nobody is sure of the clock of a part of a node");
        for class in ["unknown", "amd64", "amd64-avx2", "arm64"] {
            let origin = Origin { class, ..zen3.origin };
            assert_eq!(Features { origin, ..zen3 }.widening(known), 1.0);
            assert!(Features { origin, ..part }.widening(known) >= 1.0);
        }
    }
}

#[test]
fn a_run_on_the_spot_moves_and_narrows() {
    let knowledge = Knowledge::new(&[run(30_000, 8.0, "here", 0.2)]);
    let before = Knowledge::default().ask(&run(60_000, 8.0, "here", 0.0).features, None);
    let here = knowledge.ask(&run(60_000, 8.0, "here", 0.0).features, None);
    let same = knowledge.ask(&run(30_000, 8.0, "here", 0.0).features, None);
    let there = knowledge.ask(&run(60_000, 8.0, "there", 0.0).features, None);
    assert!(0.13 < here.0 && here.0 < same.0 && same.0 < 0.2, "{here:?} {same:?}");
    assert!(same.1 < here.1 && here.1 < there.1 && there.1 < before.1, "{same:?} {here:?} {there:?}");
    assert!(0.0 < there.0 && there.0 < here.0);
}

#[test]
fn the_median_alone_is_that_of_the_interval() {
    let knowledge = Knowledge::new(&[run(30_000, 8.0, "here", 0.2), run(90_000, 16.0, "here", -0.1)]);
    let asked = run(50_000, 4.0, "here", 0.0).features;
    let about = knowledge.about(asked.origin(), None);
    let seconds = about.seconds(&asked.step.parts, asked.step.boost, &place(4.0));
    let mean = (seconds / asked.step.total).ln();
    assert!((mean - about.ask(&asked).0).abs() < 1e-12);
}

#[test]
fn one_absurd_run_among_many_hardly_counts() {
    let mut runs: Vec<Residual> = (1..=12).map(|n| run(10_000 * n, 8.0, "here", 0.1)).collect();
    let asked = run(55_000, 8.0, "here", 0.0).features;
    let before = Knowledge::new(&runs).ask(&asked, None).0;
    runs.push(run(52_000, 8.0, "here", 40.0));
    let after = Knowledge::new(&runs).ask(&asked, None).0;
    assert!((after - before).abs() < 0.1, "{before} {after}");
}

#[test]
fn one_absurd_repetition_hardly_counts() {
    let mut runs = vec![run(30_000, 8.0, "here", 0.1); 12];
    let asked = run(30_000, 8.0, "here", 0.0).features;
    let before = Knowledge::new(&runs).ask(&asked, None).0;
    runs.push(run(30_000, 8.0, "here", 4.6));
    let after = Knowledge::new(&runs).ask(&asked, None).0;
    assert!((after - before).abs() < 0.01, "{before} {after}");
}

#[test]
fn owners_that_use_two_releases_do_not_make_the_older_one_new() {
    let on_build = |n: u64, build: &str, value: f64| {
        let mut residual = run(10_000 + 3000 * n, 8.0, "here", value);
        residual.features.origin.site = Site::new("here", build);
        residual
    };
    let mixed = |last: &str| -> Vec<Residual> {
        let mut runs: Vec<Residual> =
            (0..20).flat_map(|n| [on_build(n, "2022.5-Debian", 0.3), on_build(n, "2024.4", -0.2)]).collect();
        runs.push(on_build(50, last, if last == "2024.4" { -0.2 } else { 0.3 }));
        runs
    };
    for last in ["2022.5-Debian", "2024.4"] {
        let knowledge = Knowledge::new(&mixed(last));
        let newest = knowledge.classes[0].kept[0].features.origin.site;
        assert_eq!(newest, Site::new("here", "2024.4"), "after {last}");
    }
    assert_eq!(release("2022.5-Debian_2022.5_2"), (2022, 5));
    assert_eq!(release("VERSION 5.1"), (5, 1));
    assert_eq!(release(""), (0, 0));
}

#[test]
fn more_runs_than_are_kept_are_no_harm() {
    let runs: Vec<Residual> =
        (0..2000).map(|n| run(1000 + 37 * n, f64::from((n % 64) as u32 + 1), "here", 0.2)).collect();
    let knowledge = Knowledge::new(&runs);
    assert_eq!(knowledge.runs(), MOST_RUNS);
    let (mean, sigma) = knowledge.ask(&run(40_000, 16.0, "here", 0.0).features, None);
    assert!((mean - 0.2).abs() < 0.05 && sigma < 0.17, "{mean} {sigma}");
}

#[test]
fn a_system_is_answered_from_its_own_old_runs_among_many_of_others() {
    let own = |n: u64| run(77_000, f64::from(n as u32 + 1), "here", 0.3);
    let others = (0..2000).map(|n| run(1000 + 101 * n, f64::from((n % 64) as u32 + 1), "here", -0.1));
    let runs: Vec<Residual> = (0..10).map(own).chain(others).collect();
    let knowledge = Knowledge::new(&runs);
    let is_own = |residual: &&Residual| residual.features.origin.ln_atoms == own(0).features.origin.ln_atoms;
    assert_eq!(knowledge.classes[0].kept.iter().filter(is_own).count(), 0, "its runs are too old to be kept");
    let (mean, sigma) = knowledge.ask(&run(77_000, 16.0, "here", 0.0).features, None);
    let (of_others, unsure) = knowledge.ask(&run(78_000, 16.0, "here", 0.0).features, None);
    assert!(mean > 0.2 && of_others < -0.05, "{mean} {of_others}");
    assert!(sigma < 0.8 * unsure, "{sigma} {unsure}");
}

#[test]
fn of_other_systems_the_nearest_are_asked_first() {
    let own = run(50_000, 8.0, "here", 0.0);
    // In no order, so that those that are kept have all sizes.
    let others = (0..2000).map(|n| run(2250 + 500 * (n * 777 % 2000), 16.0, "here", 0.1));
    let runs: Vec<Residual> = [own].into_iter().chain(others).collect();
    let knowledge = Knowledge::new(&runs);
    let class = &knowledge.classes[0];
    let origin = own.features.origin;
    let near = class.near(&class.by_system[&origin.system], &origin, None);
    assert_eq!(near.origins.len(), MOST_NEAR);
    let far = |origin: &Origin| (origin.ln_atoms - 50_000_f64.ln()).abs();
    let kept = class.kept.iter().map(|kept| far(&kept.features.origin));
    let farther = kept.filter(|distance| near.origins.iter().all(|origin| far(origin) < *distance)).count();
    assert_eq!(farther, MOST_RUNS - (MOST_NEAR - 1), "the others are farther in atoms");
}

#[test]
fn a_run_bound_by_pairs_teaches_little_of_a_layout_bound_by_overhead() {
    // By how much a run on one core moves what is asked, and which part of its uncertainty is left.
    let taught = |asked: Residual, by_part: bool| {
        let with = |mut residual: Residual| {
            residual.features.origin.learning.by_part = by_part;
            residual
        };
        let (known, asked) = (with(run(15_000, 1.0, "here", 0.3)), with(asked).features);
        let (moved, left) = Knowledge::new(&[known]).ask(&asked, None);
        (moved, left / Knowledge::default().ask(&asked, None).1)
    };
    let (pairs, overhead) = (run(15_000, 2.0, "here", 0.0), run(15_000, 128.0, "here", 0.0));
    let share = |residual: &Residual| residual.features.step.overhead_share();
    assert!(share(&pairs) < 0.1 && share(&overhead) > 0.8, "{} {}", share(&pairs), share(&overhead));
    let (of_pairs, of_overhead) = (taught(pairs, true), taught(overhead, true));
    assert!(of_pairs.0 > 0.25 && of_overhead.0 < 0.6 * of_pairs.0, "{of_pairs:?} {of_overhead:?}");
    assert!(of_pairs.1 < 0.5 && of_overhead.1 > 0.9, "{of_pairs:?} {of_overhead:?}");
    // A model of one factor on the whole step is sure of what no run has shown.
    let of_whole = taught(overhead, false);
    assert!(of_whole.0 > of_overhead.0 && of_whole.1 < 0.75, "{of_whole:?} {of_overhead:?}");
}

#[test]
fn one_owner_cannot_move_the_others_by_more_than_the_bound() {
    let others: Vec<Residual> = (0..20)
        .map(|n| Residual {
            owner: n % 2,
            ..run(10_000 + 5000 * n, f64::from(n as u32 % 8 + 1), "here", 0.1)
        })
        .collect();
    for (value, count) in [(5.0, 1), (5.0, 30), (-5.0, 30), (-5.0, 2000)] {
        let mut runs = others.clone();
        let own =
            |n: u64| Residual { owner: 9, ..run(9000 + 50 * n, f64::from(n as u32 % 16 + 1), "here", value) };
        runs.extend((0..count).map(own));
        let (before, after) = (Knowledge::new(&others), Knowledge::new(&runs));
        for atoms in [5000, 20_000, 100_000, 1_000_000] {
            for cores in [1.0, 4.0, 32.0] {
                let asked = run(atoms, cores, "here", 0.0).features;
                let (before, after) = (before.ask(&asked, None), after.ask(&asked, None));
                assert!((after.0 - before.0).abs() < OWNER_BOUND, "{value} {count}: {before:?} {after:?}");
                assert!(after.1 > 0.5 * before.1, "{value} {count}: {before:?} {after:?}");
            }
        }
    }
}

#[test]
fn of_two_owners_who_contradict_each_other_each_is_answered_from_what_they_saw() {
    let of = |owner: u64, count: u64, value: f64| {
        (0..count).map(move |n| Residual {
            owner,
            ..run(10_000 + 5000 * n, f64::from(n as u32 % 8 + 1), "here", value)
        })
    };
    let (one, other): (Vec<Residual>, Vec<Residual>) = (of(1, 20, 0.1).collect(), of(2, 30, -1.1).collect());
    let both: Vec<Residual> = one.iter().chain(&other).copied().collect();
    let knows = Knowledge::new;
    for (owner, own) in [(1, &one), (2, &other)] {
        for atoms in [5000, 20_000, 100_000, 1_000_000] {
            for cores in [1.0, 4.0, 32.0] {
                let asked = run(atoms, cores, "here", 0.0).features;
                let before = knows(own).ask(&asked, Some(owner));
                let after = knows(&both).ask(&asked, Some(owner));
                assert!((after.0 - before.0).abs() < OWNER_BOUND, "{owner}: {before:?} {after:?}");
                assert!(after.1 > 0.5 * before.1, "{owner}: {before:?} {after:?}");
            }
        }
    }
    // Who has no runs is told what lies between.
    let asked = run(50_000, 4.0, "here", 0.0).features;
    let middle = knows(&both).ask(&asked, Some(3));
    assert_eq!(middle, knows(&both).ask(&asked, None));
    assert!((-0.9..-0.1).contains(&middle.0), "{middle:?}");
}

#[test]
fn a_newer_build_is_believed_more_with_every_run() {
    let on_build = |atoms: u64, build: &str, value: f64| {
        let mut residual = run(atoms, 8.0, "here", value);
        residual.features.origin.site = Site::new("here", build);
        residual
    };
    let mut runs: Vec<Residual> = (0..40).map(|n| on_build(10_000 + 1000 * n, "2022", 0.3)).collect();
    let asked = on_build(300_000, "2024", 0.0).features;
    let mut last = Knowledge::new(&runs).ask(&asked, None).0;
    assert!(last > 0.1, "{last}");
    for n in 0..8 {
        runs.push(on_build(12_000 + 7000 * n, "2024", -0.2));
        let now = Knowledge::new(&runs).ask(&asked, None).0;
        assert!(now < last, "{now} {last}");
        last = now;
    }
    assert!(last < 0.0, "{last}");
    // Where there are too many runs, those of the old build go first.
    runs.extend((0..100).map(|n| on_build(20_000 + 1000 * n, "2024", -0.2)));
    let old = Site::new("here", "2022");
    let knowledge = Knowledge::new(&runs);
    assert!(knowledge.classes[0].kept.iter().all(|kept| kept.features.origin.site != old));
}

#[test]
fn the_same_runs_give_the_same_knowledge() {
    let runs: Vec<Residual> =
        (0..300).map(|n| Residual { owner: n % 7, ..run(1000 + 91 * n, 4.0, "here", 0.1) }).collect();
    assert_eq!(Knowledge::new(&runs), Knowledge::new(&runs.clone()));
}

#[test]
fn a_table_tells_which_part_was_slow() {
    let at = |component: Component| Component::ALL.iter().position(|one| *one == component).expect("is one");
    let alone = run(60_000, 8.0, "here", 0.2);
    let mut pairs = alone;
    pairs.components[at(Component::Force)] = Some(0.35);
    pairs.components[at(Component::Fft)] = Some(0.0);
    let mut grid = alone;
    grid.components[at(Component::Force)] = Some(0.0);
    grid.components[at(Component::Fft)] = Some(0.9);
    // A run whose grid is most of its work.
    let mut water = water(60_000);
    water.pme.as_mut().expect("water has PME").grid = [256; 3];
    let job = Job::new(&water, None).expect("it should be accepted");
    let cpu = CpuClass::by_key("zen3").expect("Zen 3 should be in the table");
    let step = Model::prior().step_time(&job, cpu, &place(8.0));
    let origin = Origin::new(cpu.key, cpu.sigma, 0, Site::new("here", "2024"), &job);
    let asked = Features::new(origin, &place(8.0), &step);
    let says = |known: Residual| Knowledge::new(&[known]).ask(&asked, None).0;
    let (of_pairs, of_both, of_grid) = (says(pairs), says(alone), says(grid));
    assert!(of_pairs < of_both - 0.02 && of_both < of_grid - 0.1, "{of_pairs} {of_both} {of_grid}");
}
