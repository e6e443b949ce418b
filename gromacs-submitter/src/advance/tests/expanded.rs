//! An expanded ensemble, for which GROMACS may write no checkpoint.

use super::*;

fn inspected(answer: &str, options: &[&str]) -> Step {
    let mut row = row();
    row.status.state = State::Inspecting;
    row.mdrun_options = options.iter().map(|word| (*word).to_owned()).collect();
    let mut done = attempt(1, 1, Some(Outcome::Completed));
    let expanded = ANSWER.replace("free-energy=no", "free-energy=expanded");
    done.message = Some(format!("{}\n{answer}\n", expanded.replace("integrator=md\n", "integrator=md-vv\n")));
    let mut scene = Scene::of(row);
    scene.probe = Some(JobView { attempts: vec![done], ..job(Phase::Completed, 1) });
    scene.go()
}

#[test]
fn one_that_could_not_go_on_is_refused_before_it_computes() {
    assert_eq!(inspected("", &[]).status.state, State::Tuning);
    for (answer, options, named) in [
        ("legacy-simulator=annealing", &[][..], "simulated annealing"),
        ("update-obstacles=frozen-atoms", &[][..], "freeze groups"),
        ("", &["-ei", "sam.edi"][..], "essential dynamics (-ei)"),
    ] {
        let step = inspected(answer, options);
        assert_eq!(step.status.state, State::Failed, "{named}");
        assert!(
            reason(&step).starts_with("GROMACS cannot go on from a checkpoint of an expanded ensemble with")
        );
        assert!(reason(&step).contains(named), "{}", reason(&step));
    }
}
