//! A minimisation: no checkpoint, no speed, and from the beginning after each interruption.

use std::collections::BTreeMap;

use sqlx::types::Json;

use super::*;
use crate::fixtures::{manifest_settings, terms};
use crate::manifest::simulation_job;

fn minimisation() -> GromacsToTune {
    let found = BTreeMap::from([("integrator".to_owned(), "steep".to_owned())]);
    GromacsToTune { inspected: Some(Json(found)), ..submitted() }
}

fn ran(outcome: Option<Outcome>, phase: Phase) -> JobView {
    JobView { attempts: vec![attempt(1, 1, outcome)], has_run: true, ..job(phase, 1) }
}

const BEGUN: &str = "   Number of steps    =         4000\n\
                     Step=  900, Dmax= 1.0e-02 nm, Epot= -9.9e+03 Fmax= 8.5e+02, atom= 103\n";

#[test]
fn it_ends_where_its_log_says_or_with_exit_code_0() {
    let mut scene = Scene::with_job(minimisation(), ran(None, Phase::Running)).read(BEGUN);
    scene.after(60);
    let step = scene.go();
    assert_eq!((step.status.step, step.status.ns_per_day), (Some(900), None), "it has no ns per day");
    scene.job = Some(completed_job());
    let converged = Scene { log: Log::NotRead, ..Scene::with_job(scene.row.clone(), completed_job()) }
        .read(&format!("{BEGUN}writing lowest energy coordinates.\n"))
        .step();
    assert_eq!((converged.status.state, converged.status.step), (State::Completed, Some(900)));
    assert_eq!(converged.observations, [], "it teaches no speed");
    let log_gone = Scene { log: Log::Gone, ..Scene::with_job(scene.row, completed_job()) }.step();
    assert_eq!(log_gone.status.state, State::Completed, "there is no checkpoint to read");
}

#[test]
fn it_begins_again_after_an_interruption_and_nothing_is_called_lost() {
    let mut scene = Scene::with_job(minimisation(), ran(None, Phase::Running)).read(BEGUN);
    scene.after(3600);
    scene.go();
    scene.job = Some(ran(Some(Outcome::Interrupted), Phase::Interrupted));
    scene.log = Log::NotRead;
    scene.go();
    assert_eq!(scene.row.status.private.checkpoint_step, None);
    let again = JobView {
        attempts: vec![attempt(1, 1, Some(Outcome::Interrupted)), attempt(2, 1, None)],
        ..ran(None, Phase::Running)
    };
    let mut scene =
        Scene::with_job(scene.row, again).read("   Number of steps    =  4000\nStep=  1, Epot= 1\n");
    let step = scene.go();
    assert_eq!((step.status.state, step.status.first_step), (State::Running, Some(0)), "{:?}", reason(&step));
}

#[test]
fn its_pod_promises_no_checkpoint_and_is_stopped_at_once() {
    let spec = simulation_job(&minimisation(), &ladder()[0], &manifest_settings(), &terms()).spec;
    assert_eq!(spec.command, ["gmx", "-nobackup", "mdrun"]);
    assert!(!spec.args.iter().any(|argument| argument == "-cpi" || argument == "-cpt"), "{:?}", spec.args);
    assert_eq!((spec.checkpoint, spec.termination_grace_period_seconds), (None, 1));
}

#[test]
fn one_that_may_take_longer_than_a_day_is_refused() {
    let with_hours = |hours: [f64; 3]| {
        let mut rungs = ladder();
        for (rung, hours) in rungs.iter_mut().zip(hours) {
            rung.hours_to_finish = Some(hours);
        }
        with_ladder(&minimisation(), rungs, Some(&pool()), &[])
    };
    let (_, kept) = with_hours([10.0, 20.0, 40.0]).expect("two should be short enough");
    assert_eq!(kept.len(), 2);
    let refused = with_hours([48.0, 96.0, 200.0]).expect_err("should be too long");
    let NoConfiguration::Ever(refusal) = refused else { panic!("{refused:?}") };
    assert!(refusal.contains("48 h") && refusal.contains("at most 2000 steps"), "{refusal}");
}

#[test]
fn it_starts_from_no_checkpoint() {
    let mut row = row();
    row.checkpoint_path = Some("old.cpt".to_owned());
    row.status.state = State::Inspecting;
    let mut done = attempt(1, 1, Some(Outcome::Completed));
    done.message = Some(ANSWER.replace("integrator=md", "integrator=l-bfgs"));
    let mut scene = Scene::of(row);
    scene.probe = Some(JobView { attempts: vec![done], ..job(Phase::Completed, 1) });
    let step = scene.step();
    assert_eq!(step.status.state, State::Failed);
    assert!(reason(&step).contains("without checkpoint_path"), "{}", reason(&step));
}
