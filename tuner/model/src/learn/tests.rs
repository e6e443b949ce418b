use super::*;

/// A run of water on a class that is off by 0.15.
fn run(atoms: u64, build: &str, value: f64) -> Residual {
    let origin = Origin { class: "zen3", sigma: 0.15, gpus: 0, build: hash(build.as_bytes()), system: atoms };
    Residual { origin, is_doubtful: false, value }
}

fn on_cpus(atoms: u64, value: f64) -> Residual {
    run(atoms, "2024", value)
}

fn ask(residuals: &[Residual], asked: &Residual) -> About {
    Knowledge::new(residuals).about(&asked.origin)
}

#[test]
fn without_measurements_the_class_is_all() {
    let about = ask(&[], &on_cpus(30_000, 0.0));
    assert_eq!((about.known, about.shift), (Known::Nothing, 0.0));
    assert!((0.15..0.25).contains(&about.sigma), "{about:?}");
}

#[test]
fn a_run_on_the_spot_moves_and_narrows() {
    let runs = [on_cpus(30_000, 0.2)];
    let before = ask(&[], &on_cpus(30_000, 0.0));
    let (same, other) = (ask(&runs, &on_cpus(30_000, 0.0)), ask(&runs, &on_cpus(60_000, 0.0)));
    assert_eq!((same.known, other.known), (Known::System, Known::Class));
    assert!((0.15..0.2).contains(&same.shift) && (0.1..0.14).contains(&other.shift), "{same:?} {other:?}");
    assert!(same.sigma < other.sigma && other.sigma < before.sigma, "{same:?} {other:?} {before:?}");
    // Every further system tells more of the next one.
    let two = ask(&[runs[0], on_cpus(90_000, 0.2)], &on_cpus(60_000, 0.0));
    assert!(two.shift > other.shift && two.sigma < other.sigma, "{two:?} {other:?}");
    let supposed = Knowledge::new(&runs).supposing(1).about(&on_cpus(60_000, 0.0).origin);
    assert_eq!(supposed.sigma, two.sigma);
}

#[test]
fn what_is_less_known_follows_a_run_more() {
    let mut runs = [on_cpus(30_000, 0.5), on_cpus(60_000, 0.0)];
    let known = ask(&runs[..1], &runs[1]).shift;
    for run in &mut runs {
        run.origin.sigma = 0.55;
    }
    assert!(ask(&runs[..1], &runs[1]).shift > 1.5 * known);
}

#[test]
fn runs_of_the_same_build_come_first() {
    let runs = [run(30_000, "2022", 0.5), run(30_000, "2024", 0.1)];
    let asked = |atoms: u64, build: &str| ask(&runs, &run(atoms, build, 0.0));
    assert!(asked(60_000, "2024").shift < 0.1 && asked(60_000, "2022").shift > 0.2);
    // A build that never ran is answered from the others, and as another system would be.
    let unknown = asked(30_000, "2025");
    assert_eq!(unknown.known, Known::Class);
    assert!((0.1..0.2).contains(&unknown.shift), "{unknown:?}");
}

#[test]
fn gpus_say_nothing_of_cores_nor_of_another_number_of_them() {
    let beside = |gpus: u32, value: f64| {
        let on_cpus = on_cpus(30_000, value);
        Residual { origin: Origin { gpus, ..on_cpus.origin }, ..on_cpus }
    };
    for other in [0, 2] {
        assert_eq!(ask(&[beside(1, 0.4)], &beside(other, 0.0)).known, Known::Nothing);
    }
}

#[test]
fn a_mistake_moves_nothing() {
    // QM/MM makes a step a thousand times as long: no speed of this hardware, and no reason to believe it.
    let runs = [on_cpus(30_000, 1000.0_f64.ln())];
    for atoms in [30_000, 60_000] {
        assert_eq!(ask(&runs, &on_cpus(atoms, 0.0)), ask(&[], &on_cpus(atoms, 0.0)));
    }
}

#[test]
fn doubtful_runs_teach_their_own_system_alone() {
    let mut odd = on_cpus(30_000, 0.8);
    odd.is_doubtful = true;
    assert!(ask(&[odd], &odd).shift > 0.6);
    assert_eq!(ask(&[odd], &on_cpus(60_000, 0.0)), ask(&[], &on_cpus(60_000, 0.0)));
}

#[test]
fn a_system_counts_once_however_often_it_ran() {
    let often = std::iter::repeat_n(on_cpus(10_000, 2.0), 200);
    let runs: Vec<Residual> = often.chain([on_cpus(20_000, 0.1), on_cpus(30_000, 0.12)]).collect();
    assert!(ask(&runs, &on_cpus(77_777, 0.0)).shift < 0.13);
}

#[test]
fn one_absurd_repetition_hardly_counts() {
    let mut runs = vec![on_cpus(30_000, 0.1); 12];
    runs.push(on_cpus(30_000, 3.0));
    assert_eq!(ask(&runs, &runs[0]), ask(&runs[..12], &runs[0]));
}
