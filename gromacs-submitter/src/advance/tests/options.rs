//! Further options of mdrun.

use super::*;

#[test]
fn options_that_a_row_cannot_set_fail_it_before_anything_is_made() {
    let mut row = row();
    row.mdrun_options = vec!["-maxh".to_owned(), "1".to_owned()];
    let mut scene = Scene::of(row);
    let step = scene.go();
    assert_eq!(step.status.state, State::Failed);
    assert!(
        reason(&step).contains("\"-maxh\" cannot be set for a row; these can: -awh"),
        "{}",
        reason(&step)
    );
    assert!(reason(&step).ends_with("(gromacs-submitter edit), and retry"), "{}", reason(&step));
}

#[test]
fn several_simulations_are_not_pinned_to_the_same_cores() {
    let mut row = row();
    row.mdrun_options = vec!["-pin".to_owned(), "on".to_owned()];
    assert_eq!(Scene::of(row.clone()).go().status.state, State::Inspecting);
    row.multidir = ["sim0", "sim1"].map(ToOwned::to_owned).to_vec();
    let step = Scene::of(row).go();
    assert_eq!(step.status.state, State::Failed);
    assert!(reason(&step).contains("-pin on cannot be set for a row of several"), "{}", reason(&step));
}

#[test]
fn what_was_measured_with_options_is_the_rows_own() {
    for (options, learned) in [(vec![], 1), (vec!["-reprod".to_owned()], 0)] {
        let mut scene = Scene::with_job(submitted(), completed_job()).read(CONTINUED);
        scene.row.mdrun_options = options;
        let step = scene.go();
        assert_eq!(step.status.ns_per_day, Some(29.768));
        assert_eq!(step.observations.len(), learned);
    }
}
