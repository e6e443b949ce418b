//! Ends that are none: more memory, the pool's limits, and what is left to remove.

use super::*;

fn out_of_memory(rung: i32) -> Scene {
    let job =
        JobView { attempts: vec![attempt(2, rung, Some(Outcome::Failed))], ..failed_job(Reason::OOMKilled) };
    Scene::with_job(submitted(), job)
}

#[test]
fn killed_for_lack_of_memory_it_goes_on_with_more() {
    let mut scene = out_of_memory(2)
        .read("starting mdrun 'W'\n4000 steps, 8.0 ps (continuing from step 100, 0.2 ps).\n\rstep 400\r");
    let step = scene.go();
    assert_eq!((step.status.state, step.status.submission), (State::Queued, 2));
    assert_eq!(step.status.private.outgrown_memory_bytes, Some(300 << 20));
    assert_eq!(
        reason(&step),
        "mdrun was killed for using more than its 300 MiB of memory; goes on with more"
    );
    assert_eq!((step.status.step, step.status.job_expiry_time), (Some(400), None));
    let record = &step.attempts[0];
    assert_eq!(
        (record.view.number, record.peak_memory_bytes, record.last_step),
        (2, Some(300 << 20), Some(400))
    );
    assert!(record.log_end.is_some());

    // One ScavengerJob at a time: the one before must be gone with its pods.
    scene.log = Log::NotRead;
    scene.previous = scene.job.take();
    assert_eq!(scene.step().action, Action::DeleteJob { submission: 1, uid: "uid-1".to_owned() });
    scene.previous = None;
    assert_eq!(scene.go().status.state, State::Tuning);
    let (status, larger) =
        with_ladder(&scene.row, ladder(), scene.pool.as_ref(), &[]).expect("should be a ladder");
    assert_eq!(larger.iter().map(|rung| rung.memory_bytes >> 20).collect::<Vec<_>>(), [600, 600, 600]);
    assert!(larger[0].reason.contains("600 MiB of memory instead of 300"), "{}", larger[0].reason);
    assert!(status.reason.is_some_and(|reason| reason.contains("with more than 300 MiB of memory")));
}

#[test]
fn an_earlier_kill_with_more_is_not_forgotten() {
    let mut scene = out_of_memory(1);
    scene.row.status.private.outgrown_memory_bytes = Some(900 << 20);
    assert_eq!(scene.go().status.private.outgrown_memory_bytes, Some(900 << 20));
}

#[test]
fn more_memory_ends_where_nodes_and_limits_end() {
    // A node has 4 GiB.
    let mut row = submitted();
    let memory = |row: &GromacsToTune, pool: &PoolView| {
        with_ladder(row, ladder(), Some(pool), &[])
            .map(|(_, ladder)| ladder.iter().map(|rung| rung.memory_bytes >> 20).max())
    };
    row.status.private.outgrown_memory_bytes = Some(3 << 30);
    assert_eq!(memory(&row, &pool()), Ok(Some(4096)));
    row.max_memory_bytes = Some(3500 << 20);
    assert_eq!(memory(&row, &pool()), Ok(Some(3500)));
    let mut limited = pool();
    limited.limits.max_memory_bytes = Some(3200 << 20);
    assert_eq!(memory(&row, &limited), Ok(Some(3200)));
    row.status.private.outgrown_memory_bytes = Some(3500 << 20);
    assert_eq!(
        memory(&row, &pool()),
        Err(NoConfiguration::Ever(
            "mdrun was killed with 3500 MiB of memory, and no configuration has more: nodes, max_memory_bytes and the \
             pool's limits allow 3500 MiB; allow more, and retry"
                .to_owned()
        ))
    );
    // However it grows, it comes to an end.
    row.max_memory_bytes = None;
    row.status.private.outgrown_memory_bytes = Some(300 << 20);
    let mut kills = 0;
    while let Ok(Some(mib)) = memory(&row, &pool()) {
        assert!(
            mib << 20 > row.status.private.outgrown_memory_bytes.unwrap_or(0),
            "each has more than the one before"
        );
        row.status.private.outgrown_memory_bytes = Some(mib << 20);
        kills += 1;
    }
    assert_eq!(kills, 4, "600, 1200, 2400 and 4096 MiB");
}

#[test]
fn configurations_get_more_memory_as_they_are_expected_to_use_more() {
    let mut row = submitted();
    row.status.private.outgrown_memory_bytes = Some(300 << 20);
    let mut proposed = ladder();
    for (rung, mib) in proposed.iter_mut().zip([200, 100, 50]) {
        rung.predicted_memory_bytes = mib << 20;
        rung.memory_bytes = 256 << 20;
    }
    let killed = |rung: &LadderRung, predicted_mib: i64| Kill {
        layout: rung.layout,
        memory_bytes: 300 << 20,
        predicted_memory_bytes: predicted_mib << 20,
    };
    let memory = |kills: &[Kill]| {
        let (_, ladder) =
            with_ladder(&row, proposed.clone(), Some(&pool()), kills).expect("should be a ladder");
        ladder.iter().map(|rung| rung.memory_bytes >> 20).collect::<Vec<_>>()
    };
    // The second was killed with 300 MiB: the first is expected to need twice, the third half of that.
    let second = proposed[1].clone();
    assert_eq!(memory(&[killed(&second, 100)]), [1200, 600, 300]);
    assert_eq!(memory(&[killed(&second, 50)]), [1200, 600, 300], "the tuner has learned since");
    let gone =
        LadderRung { layout: sqlx::types::Json(scavenger_schema::tuning::Layout::cpu(7, 1)), ..second };
    assert_eq!(memory(&[killed(&gone, 50)]), [2400, 1200, 600], "it is not proposed any more");
    assert_eq!(memory(&[]), [600, 600, 600], "nobody knows which it was");
}

#[test]
fn a_larger_configuration_of_the_tuner_is_kept_as_it_is() {
    let mut row = submitted();
    row.status.private.outgrown_memory_bytes = Some(300 << 20);
    let mut proposed = ladder();
    proposed[0].memory_bytes = 2 << 30;
    let (_, larger) = with_ladder(&row, proposed.clone(), Some(&pool()), &[]).expect("should be a ladder");
    assert_eq!((larger[0].memory_bytes, &larger[0].reason), (2 << 30, &proposed[0].reason));
}

#[test]
fn what_can_not_save_in_time_is_left_out() {
    let mut proposed = ladder();
    // 4 s for a step, 50 steps until it can stop.
    proposed[2].ns_per_day_p10 = 0.043;
    let (_, kept) =
        with_ladder(&submitted(), proposed.clone(), Some(&pool()), &[]).expect("should be a ladder");
    assert_eq!(
        kept.iter().map(|rung| (rung.rung, rung.cpu_millicores)).collect::<Vec<_>>(),
        [(1, 2000), (2, 1000)]
    );
    let mut strict = pool();
    strict.limits.max_grace_seconds = 5;
    assert_eq!(
        with_ladder(&submitted(), proposed, Some(&strict), &[]).map(|_| ()),
        Err(NoConfiguration::Ever(
            "mdrun needs 6 s for its last checkpoint after SIGTERM, but the ScavengerPool allows 5 \
             (limits.maxTerminationGracePeriodSeconds): ask an admin to raise it, and retry"
                .to_owned()
        ))
    );
}

#[test]
fn a_stretch_that_the_pool_does_not_take_fails_before_anything_is_asked() {
    for (seconds, is_taken) in [(59, false), (60, true), (7200, true), (7201, false)] {
        let mut row = row();
        row.status.state = State::Tuning;
        row.interruption_after_seconds = seconds;
        let step = Scene::of(row).step();
        assert_eq!(matches!(step.action, Action::AskTuner(_)), is_taken, "{seconds}");
        if !is_taken {
            assert_eq!(step.status.state, State::Failed);
            assert!(reason(&step).contains("the ScavengerPool allows 60 to 7200"), "{}", reason(&step));
        }
    }
}

#[test]
fn what_is_left_is_removed_after_a_day_and_only_then() {
    let mut scene = Scene::with_job(submitted(), completed_job()).read(CONTINUED);
    let step = scene.go();
    assert_eq!(step.status.state, State::Completed);
    let day = SignedDuration::from_secs(24 * 3600);
    assert_eq!(step.status.job_expiry_time.map(|time| time.to_jiff()), Some(now() + day));
    scene.log = Log::NotRead;
    scene.after(24 * 3600 - 1);
    assert_eq!(scene.step().action, Action::Settle);
    scene.after(1);
    assert_eq!(scene.step().action, Action::DeleteJob { submission: 1, uid: "uid-1".to_owned() });
    // Somebody else's of that name stays, and what goes already is not deleted again.
    let job = scene.job.take().expect("should be there");
    for gone in [Some(JobView { ours: false, ..job.clone() }), Some(JobView { deleting: true, ..job }), None]
    {
        scene.job = gone;
        scene.probe = Some(failed_job(Reason::ContainerFailed));
        assert_eq!(scene.step().action, Action::DeleteProbe(Probe::Verification));
        scene.probe = None;
        let step = scene.step();
        assert_eq!((step.action, step.status.job_expiry_time), (Action::Settle, None));
        assert_eq!(step.status.state, State::Completed);
    }
}

#[test]
fn a_failed_inspection_is_removed_too_and_a_retry_needs_no_removal() {
    let mut row = row();
    row.status.state = State::Inspecting;
    let mut scene = Scene::of(row).read("there is no file /data/x.tpr on the volume\n");
    scene.probe = Some(failed_job(Reason::ContainerFailed));
    assert!(scene.go().status.job_expiry_time.is_some());
    scene.after(24 * 3600);
    assert_eq!(scene.step().action, Action::DeleteProbe(Probe::Inspection));
    scene.row.retry_requested = true;
    let step = scene.step();
    assert_eq!((step.status.state, step.status.job_expiry_time), (State::Queued, None));
}

#[test]
fn what_can_not_be_removed_does_not_hide_why_the_row_ended() {
    let mut row = submitted();
    row.status = with_failure(&row, "disk full".to_owned(), KEEP_JOBS, now());
    let status = with_backoff(&row, "Kubernetes is away".to_owned(), 0.0, now());
    assert_eq!((status.reason.as_deref(), status.failures), (Some("disk full"), 1));
}

#[test]
fn memory_is_remembered_for_the_attempt_that_used_it() {
    let running = JobView { attempts: vec![attempt(1, 1, None)], has_run: true, ..job(Phase::Running, 1) };
    let mut scene = Scene::with_job(submitted(), running);
    for (seen, peak) in [(Some(20), Some(20)), (Some(30), Some(30)), (None, Some(30)), (Some(25), Some(30))] {
        scene.memory_bytes = seen;
        assert_eq!(scene.go().status.peak_memory_bytes, peak);
    }
    scene.job = Some(completed_job());
    let step = scene.read(CONTINUED).go();
    assert_eq!(step.attempts[0].peak_memory_bytes, Some(30));
    assert_eq!(step.observations[0].peak_memory_bytes, Some(30));

    // The next attempt starts again.
    let mut row = submitted();
    (row.status.attempt, row.status.peak_memory_bytes) = (1, Some(30));
    let next = JobView { attempts: vec![attempt(2, 1, None)], has_run: true, ..job(Phase::Running, 1) };
    assert_eq!(Scene::with_job(row, next).go().status.peak_memory_bytes, None);
}

#[test]
fn what_is_followed_is_looked_at_less_often() {
    let running = JobView { attempts: vec![attempt(1, 1, None)], has_run: true, ..job(Phase::Running, 1) };
    let mut scene = Scene::with_job(submitted(), running).read(TERMINATED);
    let due = |scene: &Scene| (scene.step().status.next_attempt_time.to_jiff() - now()).get_seconds();
    assert_eq!(due(&scene), 5);
    scene.is_followed = true;
    assert_eq!(due(&scene), 30);
    scene.log = Log::NotRead;
    assert_eq!(due(&scene), 5, "until it is known where it started");
}

#[test]
fn a_crash_says_what_mdrun_warned_of() {
    let message =
        "ContainerFailed: pod gromacs-7-1-1-0-x exited with code 139: :-) GROMACS - gmx mdrun (-:\nmore";
    let job = JobView { message: Some(message.to_owned()), ..failed_job(Reason::ContainerFailed) };
    let warned = "starting mdrun 'W'\n\nstep 0: One or more water molecules can not be settled.\n";
    assert_eq!(
        reason(&Scene::with_job(submitted(), job.clone()).read(warned).step()),
        "mdrun failed: step 0: One or more water molecules can not be settled. (ContainerFailed: pod gromacs-7-1-1-0-x \
         exited with code 139); the forces in water/topol.tpr are too large at the start; minimise the energy, or equilibrate \
         with a shorter time step, and add the result"
    );
    let silent = JobView { message: Some("ContainerFailed: pod x exited with code 3".to_owned()), ..job };
    let step = Scene::with_job(submitted(), silent).step();
    assert_eq!(step.status.state, State::Queued, "nobody knows whose fault that is");
    assert!(reason(&step).starts_with("ContainerFailed: pod x exited with code 3; tries again at"));
}

/// mdrun said that it is complete, and the probe that was to read the checkpoint fails.
#[test]
fn a_probe_that_fails_fails_no_row_that_is_complete() {
    let continued = Log::Read { facts: mdrun_log::parse(CONTINUED), text: CONTINUED.to_owned() };
    for (job_log, measured) in [(continued, Some(2880)), (Log::Gone, None)] {
        let mut scene = Scene::with_job(submitted(), completed_job()).read("no such image\n");
        (scene.row.status.private.verifying, scene.row.status.step) = (true, Some(4000));
        scene.probe = Some(failed_job(Reason::ContainerFailed));
        scene.job_log = job_log;
        let step = scene.go();
        assert_eq!((step.status.state, step.status.step), (State::Completed, Some(4000)), "{step:?}");
        let found = step.observations.first().and_then(|it| it.measured);
        assert_eq!(found.map(|it| it.steps), measured);
    }
    // Without a word of mdrun nobody knows.
    let mut scene = Scene::with_job(submitted(), completed_job());
    scene.row.status.private.verifying = true;
    scene.probe = Some(failed_job(Reason::ContainerFailed));
    scene.log = Log::Gone;
    let step = scene.step();
    assert_eq!(step.status.state, State::Failed);
    assert!(reason(&step).starts_with("reading the checkpoint failed"), "{}", reason(&step));
}

#[test]
fn a_probe_of_the_submission_before_is_removed() {
    let mut row = submitted();
    (row.status.state, row.status.submission) = (State::Queued, 3);
    let mut scene = Scene::of(row);
    scene.previous_probe = Some(JobView { ours: false, ..job(Phase::Completed, 1) });
    assert_eq!(scene.step().action, Action::Record, "another row's is left alone");
    // First what may still run in the folder.
    scene.previous = Some(job(Phase::Completed, 1));
    scene.previous_probe = Some(JobView { uid: "probe".to_owned(), ..job(Phase::Completed, 1) });
    assert_eq!(scene.step().action, Action::DeleteJob { submission: 2, uid: "uid-1".to_owned() });
    scene.previous = None;
    assert_eq!(scene.step().action, Action::DeleteVerification { submission: 2, uid: "probe".to_owned() });
    // The row does not wait until it is gone.
    scene.previous_probe = scene.previous_probe.map(|probe| JobView { deleting: true, ..probe });
    assert_eq!(scene.go().status.state, State::Tuning);
}

#[test]
fn nothing_has_ended_later_than_now() {
    let after = |seconds| now() + SignedDuration::from_secs(seconds);
    for (operator, ended) in [(Some(after(-60)), after(-60)), (Some(after(10_800)), now()), (None, now())] {
        for (job, log) in [(completed_job(), CONTINUED), (failed_job(Reason::InvalidSpec), "")] {
            let step = Scene::with_job(submitted(), JobView { finish_time: operator, ..job }).read(log).go();
            assert_eq!(step.status.finish_time, Some(ended.into()), "{:?}", step.status.state);
        }
    }
}
