//! Rows of several simulations.

use super::*;

fn of_two() -> GromacsToTune {
    GromacsToTune { multidir: vec!["sim0".to_owned(), "sim1".to_owned()], ..submitted() }
}

#[test]
fn what_several_measured_teaches_the_tuner_nothing() {
    let mut scene = Scene::with_job(of_two(), completed_job()).read(CONTINUED);
    let step = scene.go();
    assert_eq!((step.status.state, step.status.ns_per_day), (State::Completed, Some(29.768)));
    assert!(step.observations.is_empty(), "{:?}", step.observations);
    assert!(step.attempts[0].measured.is_some(), "the row's own record has it");
}

#[test]
fn several_minimisations_are_rows_of_their_own() {
    let mut row = of_two();
    row.status.state = State::Inspecting;
    let mut done = attempt(1, 1, Some(Outcome::Completed));
    done.message = Some(ANSWER.replace("integrator=md", "integrator=steep"));
    let mut scene = Scene::of(row);
    scene.probe = Some(JobView { attempts: vec![done], ..job(Phase::Completed, 1) });
    let step = scene.step();
    assert_eq!(step.status.state, State::Failed);
    assert!(reason(&step).contains("add each file of multidir as a row of its own"), "{}", reason(&step));
}

#[test]
fn a_failure_names_the_simulation() {
    let mut row = of_two();
    row.status.attempt = 1;
    row.status.first_step = Some(0);
    row.status.step = Some(500);
    let mut failed = attempt(1, 1, Some(Outcome::Failed));
    failed.message = None;
    let job = JobView {
        attempts: vec![failed],
        failure_reason: Some(Reason::ContainerFailed),
        ..job(Phase::Failed, 1)
    };
    let log = "starting mdrun '2 simulations'\n4000 steps, 2 simulations \nstep 500\n\nFatal error:\n\
               Too many LINCS warnings (1001)\n\n\nsimulation sim1 ended with exit code 1\n";
    let step = Scene::with_job(row, job).read(log).go();
    assert_eq!(step.status.state, State::Failed);
    let said = reason(&step);
    assert!(said.starts_with("mdrun failed in sim1: Too many LINCS warnings (1001)"), "{said}");
}

#[test]
fn a_lost_checkpoint_of_one_needs_a_person() {
    let log = "\nFatal error:\nsim1: state.cpt is missing or damaged, but a checkpoint had reached step 300\n\n\
               simulation sim1 ended with exit code 12\n";
    let job = JobView {
        attempts: vec![attempt(1, 1, Some(Outcome::Failed))],
        failure_reason: Some(Reason::ContainerFailed),
        ..job(Phase::Failed, 1)
    };
    let step = Scene::with_job(of_two(), job).read(log).go();
    assert_eq!(step.status.state, State::Failed);
    assert!(
        reason(&step)
            .contains("put it back as water/gromacs-7/SIMULATION/state.cpt, or move the checkpoints, logs"),
        "{}",
        reason(&step)
    );
}
