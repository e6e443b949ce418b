//! A row that comes after others.

use super::*;

#[test]
fn a_missing_file_of_a_chain_says_what_to_make_it_of() {
    let missing = "there is no file /data/water/topol.tpr on the volume";
    for (after, expected) in [
        (vec![], format!("reading water/topol.tpr failed: {missing}; put it there, and retry")),
        (
            vec![5],
            format!(
                "reading water/topol.tpr failed: {missing}; make it of what row 5 computed (gmx grompp, or gromacs-submitter edit --grompp), and retry"
            ),
        ),
        (
            vec![5, 6],
            format!(
                "reading water/topol.tpr failed: {missing}; make it of what rows 5, 6 computed (gmx grompp, or gromacs-submitter edit --grompp), and retry"
            ),
        ),
    ] {
        let mut row = row();
        row.status.state = State::Inspecting;
        row.after = after;
        let mut scene = Scene::of(row).read(&format!("{missing}\n"));
        scene.probe =
            Some(JobView { failure_reason: Some(Reason::ContainerFailed), ..job(Phase::Failed, 1) });
        assert_eq!(scene.go().status.reason, Some(expected));
        assert_eq!(scene.row.status.state, State::Failed);
    }
    let mut row = row();
    row.status.state = State::Inspecting;
    row.after = vec![5];
    let mut scene = Scene::of(row).read("Fatal error:\nsomething else\n");
    scene.probe = Some(JobView { failure_reason: Some(Reason::ContainerFailed), ..job(Phase::Failed, 1) });
    assert!(!scene.go().status.reason.unwrap_or_default().contains("grompp"));
}
