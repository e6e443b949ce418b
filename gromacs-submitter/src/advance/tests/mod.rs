//! Stories of one row, told step by step with plain values.

mod blocked;
mod calibration;
mod chain;
mod checkpoint;
mod chooser;
mod command;
mod deadline;
mod ending;
mod expanded;
mod extension;
mod faults;
mod growth;
mod least;
mod minimisation;
mod multidir;
mod namesake;
mod needs;
mod no_locks;
mod nodes;
mod observation;
mod options;
mod refused;
mod renewal;
mod restart;
mod short;
mod start;
mod waiting_better;

use jiff::{SignedDuration, Timestamp};
use scavenger_schema::simulation::{Kind, LadderRung, RowStatus, System};
use scavenger_vocabulary::{Outcome, Phase, Reason, WaitingReason};

use super::*;
use crate::faults::Failure;
use crate::fixtures::{attempt, job, ladder, now, pool, row, submitted};
use crate::manifest::Probe;
use crate::mdrun_log;
use crate::quota::QuotaRoom;
use crate::view::{AttemptView, JobView, PoolView};

const ANSWER: &str = include_str!("../../../tests/fixtures/inspection-2022.txt");
const CONTINUED: &str = include_str!("../../../tests/fixtures/mdrun-continued.txt");
const TERMINATED: &str = include_str!("../../../tests/fixtures/mdrun-terminated.txt");

const KEEP_JOBS: Duration = Duration::from_secs(24 * 3600);

/// What a test lets [`advance`] see.
struct Scene {
    row: GromacsToTune,
    ladder: Vec<LadderRung>,
    probe: Option<JobView>,
    job: Option<JobView>,
    previous: Option<JobView>,
    previous_probe: Option<JobView>,
    pool: Option<PoolView>,
    quota: Option<QuotaRoom>,
    log: Log,
    job_log: Log,
    is_followed: bool,
    follows_logs: bool,
    memory_bytes: Option<i64>,
    room_is_taken: bool,
    restart_seconds: Option<i32>,
    earlier: Vec<Earlier>,
    failures: Vec<Failure>,
    now: Timestamp,
}

impl Scene {
    fn of(row: GromacsToTune) -> Self {
        Self {
            row,
            ladder: ladder(),
            probe: None,
            job: None,
            previous: None,
            previous_probe: None,
            pool: Some(pool()),
            quota: None,
            log: Log::NotRead,
            job_log: Log::NotRead,
            is_followed: false,
            follows_logs: true,
            memory_bytes: None,
            room_is_taken: false,
            restart_seconds: None,
            earlier: Vec::new(),
            failures: Vec::new(),
            now: now(),
        }
    }

    fn with_job(row: GromacsToTune, job: JobView) -> Self {
        Self { job: Some(job), ..Self::of(row) }
    }

    fn read(mut self, text: &str) -> Self {
        self.log = Log::Read { facts: mdrun_log::parse(text), text: text.to_owned() };
        self
    }

    fn step(&self) -> Step {
        let settings = Settings {
            fallback_after: Duration::from_secs(600),
            progress_interval: Duration::from_secs(5),
            keep_jobs: KEEP_JOBS,
            follows_logs: self.follows_logs,
        };
        let seen = self.seen(needs(&self.row, self.now));
        advance(&Input { row: &self.row, seen: &seen, settings: &settings, now: self.now })
    }

    /// What is seen by a look that reads what the state asks for, and nothing else.
    fn seen(&self, needs: Needs) -> Seen {
        let objects = Seen {
            needs,
            ladder: self.ladder.iter().filter(|_| needs.ladder).cloned().collect(),
            probe: self.probe.clone().filter(|_| needs.probe.is_some()),
            job: self.job.clone().filter(|_| needs.job),
            previous: self.previous.clone().filter(|_| needs.previous),
            previous_probe: self.previous_probe.clone().filter(|_| needs.previous),
            ..Seen::default()
        };
        let details = details(&self.row, &objects);
        let runs = matches!(details.log, Some(LogToRead::OfRunning { .. }));
        let is_read = |log: &Log, asked: bool| if asked { log.clone() } else { Log::NotRead };
        Seen {
            pool: self.pool.clone().filter(|_| details.pool),
            quota: self.quota.clone().filter(|_| details.quota),
            log: is_read(&self.log, details.log.is_some()),
            job_log: is_read(&self.job_log, details.job_log),
            image: details.image.then(|| "gromacs@sha256:0123".to_owned()),
            is_followed: self.is_followed && runs,
            memory_bytes: self.memory_bytes.filter(|_| runs),
            room_is_taken: self.room_is_taken,
            restart_seconds: self.restart_seconds.filter(|_| details.restart),
            earlier: self.earlier.iter().copied().filter(|_| details.earlier).collect(),
            failures: self.failures.iter().filter(|_| details.failures).cloned().collect(),
            ..objects
        }
    }

    /// The step, its status written to the row.
    fn go(&mut self) -> Step {
        let step = self.step();
        assert!(matches!(step.action, Action::Record | Action::Settle), "{:?} writes no row", step.action);
        self.row.status = step.status.clone();
        step
    }

    /// Time goes by, and the operator keeps writing down what room there is.
    fn after(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
        if let Some(pool) = &mut self.pool {
            pool.update_time = Some(self.now);
        }
    }
}

fn waits(rung: i32, reason: WaitingReason) -> JobView {
    JobView { waiting_reason: Some(reason), ..job(Phase::Waiting, rung) }
}

fn completed_job() -> JobView {
    JobView {
        attempts: vec![attempt(1, 1, Some(Outcome::Completed))],
        has_run: true,
        ..job(Phase::Completed, 1)
    }
}

fn failed_job(reason: Reason) -> JobView {
    JobView {
        failure_reason: Some(reason),
        attempts: vec![attempt(1, 1, Some(Outcome::Failed))],
        ..job(Phase::Failed, 1)
    }
}

fn reason(step: &Step) -> &str {
    step.status.reason.as_deref().unwrap_or_default()
}

#[test]
fn from_queued_to_submitted() {
    let mut scene = Scene::of(row());
    scene.row.system.atoms = None;
    assert_eq!(scene.go().status.state, State::Inspecting);
    assert_eq!(scene.step().action, Action::CreateProbe(Probe::Inspection));

    scene.probe = Some(job(Phase::Running, 1));
    assert_eq!(scene.go().action, Action::Settle);

    let mut done = attempt(1, 1, Some(Outcome::Completed));
    done.message = Some(ANSWER.to_owned());
    scene.probe = Some(JobView { attempts: vec![done], ..job(Phase::Completed, 1) });
    let step = scene.go();
    assert_eq!(step.status.state, State::Tuning);
    let inspection = step.inspection.expect("should have found the system");
    assert_eq!(inspection.system.atoms, Some(2652));
    assert_eq!(inspection.image.as_deref(), Some("gromacs@sha256:0123"), "this and no other goes on");
    scene.row.system = inspection.system;
    scene.row.inspected = Some(sqlx::types::Json(inspection.values));

    assert_eq!(scene.step().action, Action::DeleteProbe(Probe::Inspection));
    scene.probe = None;
    assert!(matches!(scene.step().action, Action::AskTuner(_)));
    scene.row.status =
        with_ladder(&scene.row, ladder(), scene.pool.as_ref(), &[]).expect("should be a ladder").0;
    assert_eq!(scene.step().action, Action::CreateJob(1));

    scene.job = Some(waits(1, WaitingReason::BehindInQueue));
    let step = scene.go();
    assert_eq!((step.status.state, step.status.job_uid.as_deref()), (State::Submitted, Some("uid-1")));
    assert_eq!(scene.go().status, step.status, "looking again changes nothing");
}

#[test]
fn the_answer_is_found_in_the_log_when_the_status_has_none() {
    let mut row = row();
    row.status.state = State::Inspecting;
    let mut scene = Scene::of(row).read(ANSWER);
    scene.probe = Some(JobView { attempts: vec![attempt(1, 1, None)], ..job(Phase::Completed, 1) });
    assert_eq!(scene.step().status.state, State::Tuning);
}

#[test]
fn a_file_that_can_not_be_read_fails_the_row_with_a_sentence() {
    let newer = include_str!("../../../tests/fixtures/dump-newer.txt");
    for (text, expected) in [
        (
            newer,
            "reading water/topol.tpr failed: reading tpx file (newer.tpr) version 143 with version 127 program; \
             the image's GROMACS is older than the one that wrote the file: name a newer image",
        ),
        ("there is no file /data/x.tpr on the volume\n", "there is no file /data/x.tpr on the volume"),
    ] {
        let mut row = row();
        row.status.state = State::Inspecting;
        let mut scene = Scene::of(row).read(text);
        scene.probe = Some(failed_job(Reason::ContainerFailed));
        let step = scene.go();
        assert_eq!(step.status.state, State::Failed);
        assert!(reason(&step).contains(expected), "{}", reason(&step));
        assert_eq!(scene.step().action, Action::Settle, "final");
    }
    let mut row = row();
    row.status.state = State::Inspecting;
    let mut scene = Scene::of(row);
    let missing = Some("PersistentVolumeClaim data does not exist".to_owned());
    scene.probe = Some(JobView { message: missing, ..failed_job(Reason::ReferenceMissing) });
    assert!(reason(&scene.step()).ends_with("PersistentVolumeClaim data does not exist; make it, and retry"));
}

#[test]
fn a_bad_answer_is_not_hidden_by_the_log() {
    let mut row = row();
    row.status.state = State::Inspecting;
    let mut scene = Scene::of(row);
    let mut done = attempt(1, 1, Some(Outcome::Completed));
    done.message = Some(ANSWER.replace("nsteps=4000", "nsteps=-1"));
    scene.probe = Some(JobView { attempts: vec![done], ..job(Phase::Completed, 1) });
    assert!(reason(&scene.step()).contains("never end"), "{}", reason(&scene.step()));
}

#[test]
fn objects_of_others_are_left_alone() {
    let mut inspecting = row();
    inspecting.status.state = State::Inspecting;
    let mut scene = Scene::of(inspecting);
    scene.probe = Some(JobView { ours: false, ..job(Phase::Completed, 1) });
    assert_eq!(scene.step().status.state, State::Failed);

    let scene = Scene::with_job(submitted(), JobView { ours: false, ..job(Phase::Running, 1) });
    let step = scene.step();
    assert_eq!(step.status.state, State::Failed);
    assert!(
        reason(&step).starts_with("ScavengerJob gromacs-7-1 in namespace lab is in the way: "),
        "{}",
        reason(&step)
    );
}

#[test]
fn without_nodes_it_waits() {
    let mut row = row();
    row.status.state = State::Tuning;
    for pool in [None, Some(PoolView { nodes: Vec::new(), ..pool() })] {
        let mut scene = Scene::of(row.clone());
        scene.pool = pool;
        let step = scene.step();
        assert_eq!((step.action, step.status.state), (Action::Settle, State::Tuning));
    }
}

#[test]
fn never_fits_falls_back_at_once_and_only_when_judged() {
    let mut scene = Scene::with_job(submitted(), waits(1, WaitingReason::NeverFits));
    let step = scene.go();
    assert_eq!((step.action, step.status.next_rung, step.status.rung), (Action::Record, Some(2), Some(1)));
    // The intention is written; now it is done. A crash here repeats this step.
    let replace = Action::ReplaceJob { rung: 2, resumes: false, resource_version: "42".to_owned() };
    assert_eq!(scene.step().action, replace);
    // Replaced; the status still speaks of the spec before.
    scene.job = Some(JobView { judged: false, ..waits(2, WaitingReason::NeverFits) });
    let step = scene.go();
    assert_eq!((step.status.rung, step.status.next_rung), (Some(2), None));
    let step = scene.go();
    assert_eq!((step.action, step.status.next_rung), (Action::Settle, None));
}

#[test]
fn no_room_falls_back_after_a_while() {
    for reason in [WaitingReason::NoCapacity, WaitingReason::Unscheduled, WaitingReason::TenantLimit] {
        let mut scene = Scene::with_job(submitted(), waits(1, reason));
        assert_eq!(scene.go().status.next_rung, None);
        scene.after(599);
        let step = scene.go();
        assert_eq!(step.status.next_rung, None);
        assert_eq!(step.status.next_attempt_time.to_jiff(), scene.now + SignedDuration::from_secs(1));
        scene.after(1);
        assert_eq!(scene.go().status.next_rung, Some(2), "{reason}");
    }
}

#[test]
fn waiting_in_line_is_no_reason_to_shrink() {
    for reason in [
        WaitingReason::BehindInQueue,
        WaitingReason::BackingOff,
        WaitingReason::Paused,
        WaitingReason::Suspended,
        WaitingReason::NodeUnreachable,
        WaitingReason::NamespaceTerminating,
        WaitingReason::QuotaExceeded,
    ] {
        let mut scene = Scene::with_job(submitted(), waits(1, reason));
        for _ in 0..10 {
            scene.after(10_000);
            let step = scene.go();
            assert_eq!((step.action, step.status.next_rung), (Action::Settle, None), "{reason}");
        }
    }
}

#[test]
fn the_clock_stands_still_in_between_and_starts_again_after_an_interruption() {
    let mut scene = Scene::with_job(submitted(), waits(1, WaitingReason::NoCapacity));
    scene.go();
    scene.after(400);
    scene.job = Some(waits(1, WaitingReason::BehindInQueue));
    scene.go();
    scene.after(10_000);
    scene.job = Some(waits(1, WaitingReason::NoCapacity));
    scene.go();
    scene.after(150);
    assert_eq!(scene.go().status.next_rung, None, "550 s without room");

    let interrupted = JobView {
        attempts: vec![attempt(1, 1, Some(Outcome::Interrupted))],
        has_run: true,
        phase: Phase::Interrupted,
        ..waits(1, WaitingReason::NoCapacity)
    };
    scene.job = Some(interrupted);
    // Long enough that waiting pays.
    scene.row.system.nsteps = Some(400_000_000);
    scene.after(60);
    let step = scene.go();
    assert_eq!((step.status.state, step.status.interruptions), (State::Interrupted, 1));
    assert_eq!(step.status.next_rung, None, "the clock started again");
    scene.after(600);
    assert_eq!(scene.go().status.next_rung, Some(2));
}

#[test]
fn patience_is_longer_than_the_operators() {
    let mut row = submitted();
    row.fallback_after_seconds = Some(5);
    let mut scene = Scene::with_job(row, waits(1, WaitingReason::Unscheduled));
    scene.go();
    scene.after(60);
    assert_eq!(scene.go().status.next_rung, None, "pendingTimeout is 60 s");
    scene.after(1);
    assert_eq!(scene.go().status.next_rung, Some(2));
}

#[test]
fn after_the_smallest_it_starts_over_with_growing_delay() {
    let mut row = submitted();
    row.status.rung = Some(3);
    let mut scene = Scene::with_job(row, waits(3, WaitingReason::NeverFits));
    for delay in [60, 120, 240] {
        let step = scene.go();
        assert_eq!((&step.action, step.status.next_rung), (&Action::Settle, None));
        assert!(reason(&step).contains("over again from the largest at"), "{}", reason(&step));
        scene.after(delay - 1);
        assert_eq!(scene.go().status.next_rung, None);
        scene.after(1);
        assert_eq!(scene.go().status.next_rung, Some(1));
        scene.job = Some(waits(1, WaitingReason::BehindInQueue));
        assert_eq!(scene.go().status.rung, Some(1));
        scene.row.status.rung = Some(3);
        scene.job = Some(waits(3, WaitingReason::NeverFits));
    }
    assert_eq!(scene.row.status.private.laps, 3);
}

#[test]
fn a_job_that_just_started_is_not_replaced() {
    let mut row = submitted();
    row.status.next_rung = Some(2);
    for phase in [Phase::Starting, Phase::Running] {
        let scene = Scene::with_job(row.clone(), job(phase, 1));
        let step = scene.step();
        assert!(matches!(step.action, Action::Settle), "{phase:?}: {:?}", step.action);
    }
    let running = Scene::with_job(row, job(Phase::Running, 1)).step();
    assert_eq!((running.status.next_rung, running.status.rung), (None, Some(1)));
}

#[test]
fn a_replacement_that_runs_at_once_is_still_told() {
    for phase in [Phase::Starting, Phase::Running, Phase::Completed] {
        let mut scene = Scene::with_job(submitted(), waits(1, WaitingReason::NeverFits));
        let why = reason(&scene.go()).to_owned();
        assert!(why.contains("falls back to configuration 2 of 3"), "{why}");
        // Nobody looked between the replacement and the start: the operator was quick, or the submitter was killed.
        let attempts = vec![attempt(1, 2, (phase == Phase::Completed).then_some(Outcome::Completed))];
        scene.job = Some(JobView { attempts, has_run: phase != Phase::Starting, ..job(phase, 2) });
        let step = scene.go();
        assert_eq!((&step.action, step.status.state), (&Action::Record, State::Submitted), "{phase:?}");
        assert_eq!((step.status.rung, step.status.next_rung), (Some(2), None));
        assert_eq!(reason(&step), why);
        let next = scene.step();
        assert_eq!(next.status.state == State::Running, phase == Phase::Running, "{next:?}");
        assert_eq!(next.status.attempt, 1, "{phase:?}");
    }
}

#[test]
fn an_interruption_is_counted_once_and_the_attempt_recorded() {
    let running = JobView { attempts: vec![attempt(1, 1, None)], has_run: true, ..job(Phase::Running, 1) };
    let mut scene = Scene::with_job(submitted(), running).read(TERMINATED);
    let step = scene.go();
    assert_eq!(
        (step.status.state, step.status.step, step.status.first_step),
        (State::Running, Some(1120), Some(0))
    );
    assert_eq!((step.attempts.len(), step.attempts[0].first_step), (1, Some(0)));
    assert_eq!(scene.go().attempts, Vec::new(), "known");

    scene.log = Log::NotRead;
    let ended = attempt(1, 1, Some(Outcome::Interrupted));
    scene.job = Some(JobView {
        attempts: vec![ended],
        has_run: true,
        phase: Phase::Interrupted,
        ..waits(1, WaitingReason::BackingOff)
    });
    let step = scene.go();
    assert_eq!((step.status.state, step.status.interruptions), (State::Interrupted, 1));
    assert_eq!((step.attempts[0].first_step, step.attempts[0].last_step), (Some(0), Some(1120)));
    assert_eq!(step.observations, [], "it was too short");
    let step = scene.go();
    assert_eq!((step.status.interruptions, step.attempts.len()), (1, 0));

    // The next attempt starts from its checkpoint, on another configuration. What this one lost is known by now.
    let measured = AttemptView { lost_seconds: Some(4), ..attempt(1, 1, Some(Outcome::Interrupted)) };
    scene.job = Some(JobView {
        attempts: vec![measured, attempt(2, 2, None)],
        has_run: true,
        ..job(Phase::Running, 2)
    });
    let mut scene = scene
        .read("starting mdrun 'W'\n4000 steps, 8.0 ps (continuing from step 1100, 2.2 ps).\n\rstep 1100\r");
    let step = scene.go();
    assert_eq!((step.status.attempt, step.status.first_step, step.status.rung), (2, Some(1100), Some(2)));
    assert_eq!((step.attempts[0].view.rung, step.attempts[0].first_step), (Some(2), Some(1100)));
    assert_eq!((step.attempts.len(), step.lost), (1, vec![(1, 4)]));
}

#[test]
fn an_attempt_that_was_interrupted_has_measured_how_fast_it_was() {
    let hours_ahead = Some(now() + SignedDuration::from_hours(3));
    let ran = AttemptView { start_time: hours_ahead, ..attempt(1, 2, None) };
    let running = JobView { attempts: vec![ran], has_run: true, ..job(Phase::Running, 2) };
    let started = "starting mdrun 'W'\n400000 steps, 800.0 ps (continuing from step 1000, 2.0 ps).\n";
    let text = "starting mdrun 'W'\n400000 steps, 800.0 ps (continuing from step 1000, 2.0 ps).\n\
                \rstep 11000, will finish Sat Nov 21 10:00:00 2026\r";
    let interrupted = attempt(1, 2, Some(Outcome::Interrupted));
    for (seconds, follows_logs, measured) in [
        // 10,000 steps of 2 fs in 200 s are 8.64 ns a day.
        (200, true, Some(Measurement { ns_per_day: 8.64, steps: 10_000, wall_seconds: 200.0 })),
        // Start-up would weigh too much.
        (119, true, None),
        // When it had come so far nobody knows.
        (200, false, None),
    ] {
        let mut scene = Scene::with_job(submitted(), running.clone()).read(text);
        scene.follows_logs = follows_logs;
        scene.row.system.nsteps = Some(400_000);
        // It was first seen before its first step, and the kubelet's clock is of no matter.
        scene.log = Log::Read { facts: mdrun_log::parse(started), text: started.to_owned() };
        scene.go();
        scene = scene.read(text);
        scene.after(seconds);
        scene.go();
        // Nobody looked for a while, and the log went with the pod.
        scene.after(30);
        scene.log = Log::NotRead;
        scene.job = Some(JobView {
            attempts: vec![interrupted.clone()],
            has_run: true,
            phase: Phase::Interrupted,
            ..waits(2, WaitingReason::BackingOff)
        });
        let step = scene.go();
        let observed =
            step.observations.first().map(|it| (it.attempt, it.rung, it.measured.expect("a speed")));
        assert_eq!(observed, measured.map(|measured| (1, 2, measured)));
        assert_eq!(step.attempts[0].measured, measured);
        assert_eq!(scene.step().observations, [], "told once");
    }
}

#[test]
fn speed_is_estimated_while_it_runs() {
    let running = JobView { attempts: vec![attempt(1, 1, None)], ..job(Phase::Running, 1) };
    let text = "starting mdrun 'W'\n4000 steps, 8.0 ps.\n\rstep 2000, remaining wall clock time:    40 s \r";
    let step = Scene::with_job(submitted(), running).read(text).step();
    // 2000 steps of 2 fs in 40 s are 4 ps in 40 s: 8.64 ns a day.
    assert!(
        step.status.ns_per_day.is_some_and(|speed| (speed - 8.64).abs() < 1e-9),
        "{:?}",
        step.status.ns_per_day
    );
    assert_eq!(step.status.next_attempt_time.to_jiff(), now() + SignedDuration::from_secs(5));

    // With more than 5 minutes to go mdrun names a date: then the steps tell that were seen to be done, 2000 in 60 s.
    let running = JobView { attempts: vec![attempt(1, 1, None)], ..job(Phase::Running, 1) };
    let started = "starting mdrun 'W'\n400000 steps, 800.0 ps.\n";
    let mut scene = Scene::with_job(submitted(), running)
        .read(&format!("{started}\rstep 500, will finish Sat Nov 21 10:00:00 2026\r"));
    scene.row.system.nsteps = Some(400_000);
    scene.after(1000);
    assert_eq!(scene.go().status.ns_per_day, None, "since when it computes, only a kubelet knows");
    scene = scene.read(&format!("{started}\rstep 2500, will finish Sat Nov 21 10:00:00 2026\r"));
    scene.after(60);
    let speed = scene.step().status.ns_per_day;
    assert!(speed.is_some_and(|speed| (speed - 5.76).abs() < 1e-9), "{speed:?}");
}

#[test]
fn completed_means_that_the_last_step_was_reached() {
    let mut scene = Scene::with_job(submitted(), completed_job()).read(CONTINUED);
    let step = scene.go();
    assert_eq!((step.status.state, step.status.step), (State::Completed, Some(4000)));
    assert_eq!(step.status.ns_per_day, Some(29.768));
    assert_eq!((step.attempts[0].first_step, step.attempts[0].last_step), (Some(1120), Some(4000)));
    let observation = &step.observations[0];
    assert_eq!(
        (observation.measured.map(|it| it.steps), observation.rung, observation.attempt),
        (Some(2880), 1, 1)
    );
    assert_eq!(scene.step().action, Action::Settle);
    assert_eq!(scene.step().status.state, State::Completed);
}

#[test]
fn a_run_with_nothing_left_to_do_measures_nothing() {
    let again = include_str!("../../../tests/fixtures/mdrun-again.txt");
    let step = Scene::with_job(submitted(), completed_job()).read(again).step();
    assert_eq!((step.status.state, step.observations), (State::Completed, Vec::new()));
    assert_eq!(step.attempts[0].measured, None);
}

#[test]
fn success_before_the_last_step_goes_on_from_the_checkpoint() {
    let mut scene = Scene::with_job(submitted(), completed_job()).read(TERMINATED);
    let step = scene.go();
    assert_eq!((step.status.state, step.status.submission), (State::Queued, 2));
    assert!(reason(&step).contains("step 1120 of 4000"), "{}", reason(&step));
    assert_eq!(
        step.observations[0].measured.map(|it| it.ns_per_day),
        Some(31.422),
        "mdrun's own account of what it did"
    );
    assert_eq!((step.status.job_uid, step.status.attempt), (None, 0));
    // The one before must be gone first.
    scene.job = None;
    scene.previous = Some(completed_job());
    assert_eq!(scene.step().action, Action::DeleteJob { submission: 1, uid: "uid-1".to_owned() });
    scene.previous = Some(JobView { deleting: true, ..completed_job() });
    assert_eq!(scene.go().action, Action::Settle);
    scene.previous = None;
    assert_eq!(scene.go().status.state, State::Tuning);
}

#[test]
fn success_without_any_progress_fails() {
    let text = "starting mdrun 'W'\n4000 steps, 8.0 ps (continuing from step 1120, 2.2 ps).\n\rstep 1120\n";
    let step = Scene::with_job(submitted(), completed_job()).read(text).step();
    assert_eq!(step.status.state, State::Failed);
    assert!(reason(&step).contains("gets no further"), "{}", reason(&step));
}

const END_OF_MD_LOG: &str = "verification=1\nstep=4000\nperformance=41.5\ntime=60";

/// The probe has read a checkpoint at the last step, and md.log.
fn md_log_was_read(scene: &mut Scene) -> Step {
    let mut done = attempt(1, 1, Some(Outcome::Completed));
    done.message = Some(END_OF_MD_LOG.to_owned());
    scene.probe = Some(JobView { attempts: vec![done], ..job(Phase::Completed, 1) });
    scene.log = Log::Gone;
    scene.go()
}

#[test]
fn when_the_log_is_gone_md_log_tells_how_fast_it_was() {
    let mut scene = Scene::with_job(submitted(), completed_job());
    // Its log was followed until the pod went.
    (scene.row.status.attempt, scene.row.status.first_step) = (1, Some(0));
    scene.log = Log::Gone;
    assert!(scene.go().status.private.verifying);
    let step = md_log_was_read(&mut scene);
    assert_eq!((step.status.state, step.status.ns_per_day), (State::Completed, Some(41.5)));
    let measured = step.observations[0].measured.expect("md.log tells the speed");
    assert_eq!((measured.steps, measured.wall_seconds), (4000, 60.0));
}

#[test]
fn when_the_log_is_gone_the_checkpoint_tells() {
    for (answer, state) in
        [("verification=1\nstep=4000", State::Completed), ("verification=1\nstep=3999", State::Queued)]
    {
        let mut scene = Scene::with_job(submitted(), completed_job());
        scene.log = Log::Gone;
        assert!(scene.go().status.private.verifying);
        assert_eq!(scene.step().action, Action::CreateProbe(Probe::Verification));
        scene.probe = Some(job(Phase::Starting, 1));
        assert_eq!(scene.go().action, Action::Settle);
        let mut done = attempt(1, 1, Some(Outcome::Completed));
        done.message = Some(answer.to_owned());
        scene.probe = Some(JobView { attempts: vec![done], ..job(Phase::Completed, 1) });
        let step = scene.go();
        assert_eq!((step.status.state, step.status.private.verifying), (state, false), "{answer}");
        assert_eq!(step.observations, [], "never a guess");
    }
}

#[test]
fn failures_say_what_gromacs_said() {
    let text = "Program: gmx mdrun\n\nFatal error:\nToo many LINCS warnings (1000)\n\nFor more information";
    let step = Scene::with_job(submitted(), failed_job(Reason::ContainerFailed)).read(text).step();
    assert_eq!(step.status.state, State::Failed);
    assert!(reason(&step).starts_with(
        "mdrun failed: Too many LINCS warnings (1000); the forces in water/topol.tpr are too large"
    ));
    assert_eq!(step.attempts.len(), 1);

    let log_end = step.attempts[0].log_end.as_deref().unwrap_or_default();
    assert!(log_end.starts_with("Program: gmx mdrun\nFatal error:"), "{log_end}");

    let step = Scene::with_job(submitted(), failed_job(Reason::InvalidSpec)).step();
    assert_eq!(reason(&step), "the operator's sentence");
}

#[test]
fn a_job_deleted_by_somebody_else_is_not_made_again() {
    let scene = Scene::of(submitted());
    let step = scene.step();
    assert_eq!(step.status.state, State::Failed);
    assert!(reason(&step).contains("deleted by somebody else"), "{}", reason(&step));
    let deleting = JobView { deleting: true, ..job(Phase::Running, 1) };
    assert_eq!(Scene::with_job(submitted(), deleting).step().action, Action::Settle);
}

#[test]
fn a_cancelled_row_is_cleaned_up_in_every_state() {
    let cancel = |state: State| {
        let mut row = submitted();
        row.cancel_requested = true;
        row.status.state = state;
        row
    };
    assert_eq!(Scene::of(cancel(State::Queued)).step().status.state, State::Cancelled);
    for state in [State::Inspecting, State::Tuning] {
        let mut scene = Scene::of(cancel(state));
        scene.probe = Some(job(Phase::Running, 1));
        assert_eq!(scene.step().action, Action::DeleteProbe(Probe::Inspection), "{state}");
        scene.probe = Some(JobView { deleting: true, ..job(Phase::Running, 1) });
        assert_eq!(scene.go().action, Action::Settle, "{state}");
        scene.probe = None;
        assert_eq!(scene.go().status.state, State::Cancelled, "{state}");
    }
    for state in [State::Submitted, State::Running, State::Interrupted] {
        let mut scene = Scene::with_job(cancel(state), job(Phase::Running, 1));
        assert_eq!(
            scene.step().action,
            Action::DeleteJob { submission: 1, uid: "uid-1".to_owned() },
            "{state}"
        );
        scene.job = Some(JobView { deleting: true, ..job(Phase::Running, 1) });
        assert_eq!(scene.go().status.state, state, "until its pods are gone");
        scene.job = None;
        assert_eq!(scene.go().status.state, State::Cancelled, "{state}");
    }
    let late = Scene::with_job(cancel(State::Running), completed_job()).read(CONTINUED);
    assert_eq!(late.step().status.state, State::Completed, "too late to cancel");
}

#[test]
fn a_retry_makes_the_next_submission_and_never_looks_back() {
    let mut row = submitted();
    row.status = with_failure(&row, "disk full".to_owned(), KEEP_JOBS, now());
    row.status.interruptions = 2;
    assert_eq!(Scene::of(row.clone()).step().action, Action::Settle);
    row.retry_requested = true;
    row.cancel_requested = true;
    let step = Scene::of(row).step();
    assert_eq!(
        (&step.action, step.status.state, step.status.submission),
        (&Action::Record, State::Queued, 2)
    );
    assert!(step.clears_requests);
    assert_eq!((step.status.interruptions, step.status.rung, step.status.finish_time), (2, None, None));
}

#[test]
fn delays_grow_and_end_at_five_minutes() {
    assert_eq!(backoff(1, 0.0), Duration::from_secs(2));
    assert_eq!(backoff(2, 0.0), Duration::from_secs(4));
    assert_eq!(backoff(2, 1.0), Duration::from_secs(2));
    assert_eq!(backoff(i32::MAX, 0.0), Duration::from_secs(300));
    let status = with_backoff(&submitted(), "the tuner is down".to_owned(), 0.0, now());
    assert_eq!((status.failures, status.state), (1, State::Submitted));
    assert_eq!(status.next_attempt_time.to_jiff(), now() + SignedDuration::from_secs(2));
}
