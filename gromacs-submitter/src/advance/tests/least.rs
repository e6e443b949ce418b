//! The least that a row runs with.

use super::*;

/// The cores of what is left of 2, 1 and 0.5 cores with 60, 40 and 20 ns/day, or why nothing is.
fn left(min_cpu_millicores: Option<i32>, min_ns_per_day: Option<f64>) -> Result<Vec<i32>, NoConfiguration> {
    let row = GromacsToTune { min_cpu_millicores, min_ns_per_day, ..submitted() };
    let mut ladder = ladder();
    for (rung, speed) in ladder.iter_mut().zip([60.0, 40.0, 20.0]) {
        rung.ns_per_day_p50 = speed;
    }
    let (_, left) = with_ladder(&row, ladder, Some(&pool()), &[])?;
    assert!(left.iter().zip(1..).all(|(rung, number)| rung.rung == number), "numbered from 1");
    Ok(left.iter().map(|rung| rung.cpu_millicores).collect())
}

#[test]
fn the_ladder_ends_at_the_least_that_the_row_runs_with() {
    let all = left(None, None).expect("should be a ladder");
    assert_eq!(all.len(), 3);
    assert_eq!(left(Some(0), Some(0.0)), Ok(all.clone()), "0 is none");
    assert_eq!(left(Some(all[1]), None), Ok(all[..2].to_vec()));
    assert_eq!(left(Some(all[1] + 1), None), Ok(all[..1].to_vec()));
    assert_eq!(left(None, Some(40.0)), Ok(all[..2].to_vec()));
    assert_eq!(left(Some(all[1]), Some(50.0)), Ok(all[..1].to_vec()));
}

#[test]
fn a_row_that_wants_more_than_there_is_waits_and_says_what_to_lower() {
    let now = |reason: &str| Err(NoConfiguration::Now(reason.to_owned()));
    assert_eq!(
        left(Some(16_000), None),
        now(
            "no configuration that nodes and mdrun allow has 16 cores (min_cpu_millicores), the largest has 2 cores; the \
             row waits for other nodes; to run on these, cancel it, lower min_cpu_millicores, and retry"
        )
    );
    assert_eq!(
        left(Some(1000), Some(500.0)),
        now(
            "no configuration of at least 1 core is predicted to do 500 ns/day (min_ns_per_day), the fastest of all does \
             60.0; the row waits for other nodes; to run on these, cancel it, lower min_ns_per_day, and retry"
        )
    );
}

#[test]
fn what_is_less_is_named_with_the_reason() {
    let row = GromacsToTune { min_cpu_millicores: Some(1000), min_ns_per_day: Some(50.0), ..submitted() };
    let (status, _) = with_ladder(&row, ladder(), Some(&pool()), &[]).expect("should be a ladder");
    let said = "the tuner proposes 1 configuration; the largest is tried first; not 1 core: slower than min_ns_per_day; not \
                0.5 cores: fewer cores than min_cpu_millicores";
    assert_eq!(status.reason.as_deref(), Some(said));
}

#[test]
fn limits_below_the_minimum_leave_nothing_to_wait_for() {
    let least = GromacsToTune { min_cpu_millicores: Some(4000), ..submitted() };
    let own = GromacsToTune { max_cpu_millicores: Some(2000), ..least.clone() };
    let mut limited = pool();
    limited.limits.max_cpu_millicores = Some(2000);
    for (row, pool) in [(own, pool()), (least, limited)] {
        assert_eq!(
            with_ladder(&row, ladder(), Some(&pool), &[]).map(|_| ()),
            Err(NoConfiguration::Ever(
                "min_cpu_millicores is 4000, but max_cpu_millicores and the pool's limits allow 2000: lower \
                 min_cpu_millicores, and retry"
                    .to_owned()
            ))
        );
    }
}

#[test]
fn the_smallest_that_is_left_waits_for_room() {
    let row = GromacsToTune { min_cpu_millicores: Some(2000), ..submitted() };
    let (status, ladder) = with_ladder(&row, ladder(), Some(&pool()), &[]).expect("should be a ladder");
    let mut scene = Scene::with_job(
        GromacsToTune { status: RowStatus { job_uid: Some("uid-1".to_owned()), ..status }, ..row },
        waits(1, WaitingReason::NoCapacity),
    );
    scene.ladder = ladder;
    scene.go();
    scene.after(3600);
    let step = scene.go();
    assert_eq!((step.action.clone(), step.status.next_rung), (Action::Settle, None));
    assert!(reason(&step).ends_with("there is no smaller configuration"), "{}", reason(&step));
}
