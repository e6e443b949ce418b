//! A submitter is killed (SIGKILL) before and after every write of a row's life, to Postgres and to the API server, and
//! another one takes over: the row ends as if nothing had happened, with the same history, never with two ScavengerJobs
//! at a time, and no measurement is there twice.
//!
//! Postgres, tuner, submitters and the API server are real; the operator, the pool's room and the pods are played, so
//! that a life always goes the same way and a life with a kill can be compared with one without.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use axum::response::IntoResponse;
use futures::future::{BoxFuture, FutureExt};
use kube::ResourceExt;
use scavenger_e2e::{
    World,
    faults::{Fate, OPERATOR, Proxy, follow},
    local::{Postgres, Submitter, Tuner, queue},
    played::{Logs, PlayedJob},
    repetitions,
    sql_proxy::{Hold, SqlProxy},
    world::{OPERATORS, run_within, until},
};
use scavenger_schema::{
    names,
    scavenger_job::{ScavengerJob, ScavengerJobSpec},
};
use scavenger_vocabulary::{Reason, WaitingReason};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// What mdrun writes: from the first step to where it is stopped, and from there to the end.
const FIRST_LOG: &str = include_str!("../../gromacs-submitter/tests/fixtures/mdrun-terminated.txt");
const SECOND_LOG: &str = include_str!("../../gromacs-submitter/tests/fixtures/mdrun-continued.txt");
const FAILED_LOG: &str = include_str!("../../gromacs-submitter/tests/fixtures/mdrun-no-file.txt");

/// How mdrun refuses to start, each under its heading.
const REFUSALS: &str = include_str!("../../gromacs-submitter/tests/fixtures/mdrun-refusals.txt");

/// What the inspection of its .tpr file finds.
const INSPECTION: &str = include_str!("../../gromacs-submitter/tests/fixtures/inspection-2022.txt");

/// What is known of a row without an inspection; the same.
const KNOWN: &str = "atoms, nsteps, init_step, dt_ps, cutoff_nm, constraints, bonded_interactions, inspected,
    fallback_after_seconds";
const KNOWN_VALUES: &str = "2652, 4000, 0, 0.002, 0.9, 2652, 0, '{\"run-input\": \"run-1-2.tpr\"}', 1";

/// A row of 100 ns that is as well known, and what mdrun writes of it: at this speed it takes days.
const LONG_VALUES: &str = "2652, 50000000, 0, 0.002, 0.9, 2652, 0, '{\"run-input\": \"run-1-2.tpr\"}', 1";
const LONG_START: &str = "starting mdrun 'Water'\n50000000 steps, 100000.0 ps.\nstep 0\r\
                          step 1000, remaining wall clock time: 400000 s          \r";
const LONG_GOES_ON: &str = "starting mdrun 'Water'\n50000000 steps, 100000.0 ps (continuing from step 1200,      2.4 ps).\n\
                            step 1200\rstep 2000, remaining wall clock time: 100000 s          \r";
const LONG_END: &str = "starting mdrun 'Water'\n50000000 steps, 100000.0 ps (continuing from step 1200,      2.4 ps).\n\
                        step 1200\rstep 50000000, remaining wall clock time:     0 s          \n\
                        Writing final coordinates.\n\n               Core t (s)   Wall t (s)        (%)\n       \
                        Time:   100000.000   100000.000      100.0\n                 (ns/day)    (hour/ns)\n\
                        Performance:       86.400        0.278\n";

/// A log that is being written: what stands before `end`, and before mdrun says that it was told to stop.
fn so_far<'a>(log: &'a str, end: &str) -> &'a str {
    log.split(end).next().unwrap_or(log)
}

/// Everything but the row's own submitter.
struct Stage {
    world: &'static World,
    postgres: Postgres,
    tuner: Tuner,
    api: Proxy,
    sql: SqlProxy,
    logs: Logs,
}

impl Stage {
    async fn new(world: &'static World) -> Result<Self> {
        let postgres = queue(world).await?;
        let sql = SqlProxy::start(postgres.socket()).await?;
        let (api, logs) = (Proxy::start_as(names::SUBMITTER).await?, Logs::default());
        let played = logs.clone();
        api.answer(move |uri| {
            if uri.path().ends_with("/scavengerpools/default") {
                return Some(axum::Json(pool()).into_response());
            }
            played.answer(uri)
        });
        Ok(Self { world, postgres, tuner: Tuner::start(None).await?, api, sql, logs })
    }

    async fn submitter(&self) -> Result<Submitter> {
        // Progress is written, and what is left of a row removed, while the test waits for it.
        let soon = ["--progress-interval=300ms", "--keep-jobs=100ms"];
        Submitter::start_with(&self.sql.url(), self.tuner.address(), &self.api, &soon).await
    }

    /// Inserts a row and returns its number.
    async fn insert(&self, columns: &str, values: &str) -> Result<i64> {
        let insert = format!(
            "insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path, {columns})
            values ('{}', 'data', 'water/topol.tpr', {values}) returning id",
            self.world.namespace
        );
        Ok(self.postgres.sql(&insert).await?.parse()?)
    }

    /// Waits until this is so of a row.
    async fn row_is(&self, id: i64, condition: &str) -> Result<()> {
        let question = format!("select count(*) from gromacs_to_tune where id = {id} and {condition}");
        until(&format!("row {id}: {condition}"), || async {
            Ok((self.postgres.number(&question).await? == 1).then_some(()))
        })
        .await
    }

    /// Waits until progress is written down by the one who follows the log.
    async fn progresses(&self, id: i64, attempt: i32, first_step: i64) -> Result<()> {
        let followed = format!(
            "state = 'running' and attempt = {attempt} and first_step = {first_step} and follower is not null"
        );
        self.row_is(id, &followed).await
    }

    async fn made(&self, name: &str) -> Result<PlayedJob> {
        PlayedJob::made(self.world, name, &self.logs).await
    }

    /// Waits for something that a row does when its first attempt has run for a while: an hour ago its progress was first
    /// seen. A submitter that looks at the row just then writes what it has read, so it is said again. The last time may
    /// come late, when the next attempt runs already, and that has not run for an hour.
    async fn while_it_has_run_for_an_hour(
        &self,
        id: i64,
        does: impl Future<Output = Result<()>>,
    ) -> Result<()> {
        let hour_ago = format!(
            "update gromacs_to_tune set submitter_state = jsonb_set(submitter_state, '{{progress_from_time}}',
                    to_jsonb((submitter_state ->> 'progress_from_time')::timestamptz - interval '1 hour')),
                next_attempt_time = now(), wakes = wakes + 1
            where id = {id} and state = 'running' and attempt = 1
                and (submitter_state ->> 'progress_from_time')::timestamptz > now() - interval '30 minutes'"
        );
        let hurry = async {
            let mut every = tokio::time::interval(Duration::from_millis(300));
            loop {
                every.tick().await;
                self.postgres.sql(&hour_ago).await?;
                self.postgres.sql("notify gromacs_to_tune").await?;
            }
        };
        tokio::select! {
            done = does => done,
            hurried = hurry => hurried,
        }
    }

    /// Waits until nothing of a row that has ended is left in the cluster.
    async fn leaves(&self, id: i64, jobs: impl IntoIterator<Item = PlayedJob>) -> Result<()> {
        let removes = async {
            for job in jobs {
                job.is_deleted().await?;
            }
            self.row_is(id, "job_expiry_time is null").await
        };
        // Nobody is told when the time has come; a submitter looks every 10 s, and whenever something is inserted.
        let hurry = async {
            let mut every = tokio::time::interval(Duration::from_millis(300));
            loop {
                every.tick().await;
                self.postgres.sql("notify gromacs_to_tune").await?;
            }
        };
        tokio::select! {
            removed = removes => removed,
            hurried = hurry => hurried,
        }
    }

    /// An hour passes that the test does not wait for: the leases of a submitter that is dead end, and every row is due.
    /// That they end by themselves is another test's business (submitters.rs).
    async fn hour_passes(&self) -> Result<()> {
        let passed = "update gromacs_to_tune set lease_until = lease_until - interval '1 hour',
            followed_until = followed_until - interval '1 hour',
            next_attempt_time = next_attempt_time - interval '1 hour'";
        self.postgres.sql(passed).await?;
        Ok(())
    }
}

/// One node with room for everything, as the operator would write it down just now.
#[expect(clippy::disallowed_methods, reason = "the stamp of a measurement is a time by the clock")]
fn pool() -> Value {
    let room = json!({ "cpu": "2", "memory": "8Gi", "pods": "100" });
    json!({
        "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerPool", "metadata": { "name": "default" },
        "spec": { "pendingTimeout": "1s", "limits": { "minInterruptionAfter": "1s" } },
        "status": {
            "updateTime": jiff::Timestamp::now(), "nodes": 1, "allocatable": room, "free": room,
            "nodeShapes": [{ "count": 1, "labels": {}, "allocatable": room, "largestFree": room }],
        },
    })
}

/// One way through the states, from the row's insertion to where nothing is left of it.
struct Story {
    name: &'static str,
    live: for<'a> fn(&'a Stage, i64) -> BoxFuture<'a, Result<()>>,
    columns: &'static str,
    values: &'static str,
    /// How it ends: state, submissions, attempts, observations.
    end: (&'static str, usize, usize, usize),
}

fn stories() -> Vec<Story> {
    vec![
        Story {
            name: "interrupted",
            live: |stage, id| is_interrupted(stage, id).boxed(),
            columns: "priority",
            values: "0",
            // The attempt that was interrupted was seen for too short a time.
            end: ("completed", 1, 2, 1),
        },
        Story {
            name: "killed for memory",
            live: |stage, id| runs_out_of_memory(stage, id).boxed(),
            columns: KNOWN,
            values: KNOWN_VALUES,
            // The kill is one: it tells of the memory.
            end: ("completed", 2, 2, 1),
        },
        Story {
            name: "refused by mdrun",
            live: |stage, id| is_refused(stage, id).boxed(),
            columns: KNOWN,
            values: KNOWN_VALUES,
            end: ("completed", 3, 4, 1),
        },
        Story {
            name: "fails",
            live: |stage, id| fails(stage, id).boxed(),
            columns: KNOWN,
            values: KNOWN_VALUES,
            end: ("failed", 1, 1, 0),
        },
        Story {
            name: "cancelled",
            live: |stage, id| is_cancelled(stage, id).boxed(),
            columns: KNOWN,
            values: KNOWN_VALUES,
            end: ("cancelled", 1, 1, 0),
        },
        Story {
            name: "grows",
            live: |stage, id| grows(stage, id).boxed(),
            columns: KNOWN,
            values: LONG_VALUES,
            end: ("completed", 1, 2, 1),
        },
        Story {
            name: "held while it grows",
            live: |stage, id| is_held_while_it_grows(stage, id).boxed(),
            columns: KNOWN,
            values: LONG_VALUES,
            end: ("cancelled", 1, 1, 0),
        },
    ]
}

/// Its file is read; the largest configuration never fits, so it falls back; it runs, is interrupted, goes on with the
/// larger one, since there is room for it now, and completes.
async fn is_interrupted(stage: &Stage, id: i64) -> Result<()> {
    let mut inspection = stage.made(&format!("gromacs-{id}-inspect")).await?;
    inspection.runs("").await?;
    inspection.completes(INSPECTION, None).await?;
    inspection.is_deleted().await?;
    let mut job = stage.made(&format!("gromacs-{id}-1")).await?;
    job.waits(WaitingReason::NeverFits, "no node is as large as this").await?;
    job.is_replaced(2).await?;
    job.runs(so_far(FIRST_LOG, "Received the TERM")).await?;
    stage.progresses(id, 1, 0).await?;
    job.is_interrupted(Reason::EvictionByEvictionAPI, WaitingReason::BackingOff).await?;
    job.is_replaced(3).await?;
    job.runs(so_far(SECOND_LOG, "Writing final")).await?;
    stage.progresses(id, 2, 1120).await?;
    job.completes("", Some(SECOND_LOG)).await?;
    stage.leaves(id, [job]).await
}

/// It is killed for lack of memory, and goes on in a second submission with more; at its end its log is gone, so that
/// the checkpoint has to be read.
async fn runs_out_of_memory(stage: &Stage, id: i64) -> Result<()> {
    let mut first = stage.made(&format!("gromacs-{id}-1")).await?;
    first.runs(so_far(FIRST_LOG, "Received the TERM")).await?;
    stage.progresses(id, 1, 0).await?;
    first.fails(Reason::OOMKilled, "container main was killed for lack of memory", FIRST_LOG).await?;
    first.is_deleted().await?;
    let mut second = stage.made(&format!("gromacs-{id}-2")).await?;
    second.runs(so_far(SECOND_LOG, "Writing final")).await?;
    stage.progresses(id, 1, 1120).await?;
    second.completes("", None).await?;
    let mut verification = stage.made(&format!("gromacs-{id}-2-verify")).await?;
    verification.runs("").await?;
    verification.completes("verification=1\nstep=4000\n", None).await?;
    stage.leaves(id, [second, verification]).await
}

/// mdrun refuses the largest configuration, and runs with the next one in a second submission. After an interruption it
/// finds that it cannot lock its log, and goes on in new files, in a third.
async fn is_refused(stage: &Stage, id: i64) -> Result<()> {
    let spec = |number: usize| async move {
        let name = format!("gromacs-{id}-{number}");
        anyhow::Ok(stage.world.api::<ScavengerJob>().get(&name).await?.spec)
    };
    let mut first = stage.made(&format!("gromacs-{id}-1")).await?;
    let largest = spec(1).await?;
    let (_, refusal) = REFUSALS.split_once("=== a large prime\n").context("it is in the file")?;
    let refusal = so_far(refusal, "=== ");
    first.runs("").await?;
    // It may end before anybody has seen it run; here it is always seen.
    stage.row_is(id, "state = 'running' and attempt = 1 and peak_memory_bytes is not null").await?;
    first.fails(Reason::ContainerFailed, "container main exited with code 1", refusal).await?;
    first.is_deleted().await?;
    let mut second = stage.made(&format!("gromacs-{id}-2")).await?;
    let smaller = spec(2).await?;
    let cpu = |spec: &ScavengerJobSpec| spec.resources.requests["cpu"].milli();
    ensure!(cpu(&smaller)? < cpu(&largest)?, "{:?} after {:?}", smaller.resources, largest.resources);
    ensure!(!smaller.args.iter().any(|argument| argument == "-noappend"), "{:?}", smaller.args);
    second.runs(so_far(FIRST_LOG, "Received the TERM")).await?;
    stage.progresses(id, 1, 0).await?;
    second.is_interrupted(Reason::EvictionByEvictionAPI, WaitingReason::BackingOff).await?;
    stage.row_is(id, "state = 'interrupted' and interruptions = 1").await?;
    second.runs("").await?;
    stage.row_is(id, "state = 'running' and attempt = 2 and peak_memory_bytes is not null").await?;
    let lock = "Program:     gmx mdrun, version 2022.5\nSystem I/O error:\nFile locking is not supported on this system. \
                Use mdrun -noappend to restart.\n\n";
    second.fails(Reason::ContainerFailed, "container main exited with code 1", lock).await?;
    second.is_deleted().await?;
    let mut third = stage.made(&format!("gromacs-{id}-3")).await?;
    let new_files = spec(3).await?;
    ensure!(new_files.resources == smaller.resources, "{:?}", new_files.resources);
    ensure!(new_files.args.iter().any(|argument| argument == "-noappend"), "{:?}", new_files.args);
    third.runs(so_far(SECOND_LOG, "Writing final")).await?;
    stage.progresses(id, 1, 1120).await?;
    third.completes("", Some(SECOND_LOG)).await?;
    stage.leaves(id, [third]).await
}

/// There is no room for it until its patience ends; then it falls back, runs and fails.
async fn fails(stage: &Stage, id: i64) -> Result<()> {
    let mut job = stage.made(&format!("gromacs-{id}-1")).await?;
    job.waits(WaitingReason::NoCapacity, "the nodes are full").await?;
    job.is_replaced(2).await?;
    job.runs(so_far(FIRST_LOG, "Received the TERM")).await?;
    stage.progresses(id, 1, 0).await?;
    job.fails(Reason::ContainerFailed, "container main exited with code 1", FAILED_LOG).await?;
    stage.leaves(id, [job]).await
}

/// Its owner has had enough of it while it runs.
async fn is_cancelled(stage: &Stage, id: i64) -> Result<()> {
    let mut job = stage.made(&format!("gromacs-{id}-1")).await?;
    job.runs(so_far(FIRST_LOG, "Received the TERM")).await?;
    stage.progresses(id, 1, 0).await?;
    cancel(stage, id, job).await
}

async fn cancel(stage: &Stage, id: i64, job: PlayedJob) -> Result<()> {
    let cancel = format!("update gromacs_to_tune set cancel_requested = true where id = {id}");
    stage.postgres.sql(&cancel).await?;
    job.is_deleted().await?;
    stage.row_is(id, "state = 'cancelled'").await?;
    // Ten minutes pass that the test does not wait for; then it is swept.
    let sweeps = format!("update gromacs_to_tune set job_expiry_time = now() where id = {id}");
    stage.postgres.sql(&sweeps).await?;
    stage.leaves(id, std::iter::empty()).await
}

/// It falls back to the smallest configuration and runs, until the submitter suspends it.
async fn is_suspended_to_grow(stage: &Stage, id: i64) -> Result<PlayedJob> {
    let mut job = stage.made(&format!("gromacs-{id}-1")).await?;
    for generation in [2, 3] {
        job.waits(WaitingReason::NeverFits, "no node is as large as this").await?;
        job.is_replaced(generation).await?;
    }
    job.runs(LONG_START).await?;
    stage.while_it_has_run_for_an_hour(id, job.is_suspended()).await?;
    Ok(job)
}

/// A person holds it while it is stopped to grow: nobody resumes it. That person cancels it.
async fn is_held_while_it_grows(stage: &Stage, id: i64) -> Result<()> {
    let mut job = is_suspended_to_grow(stage, id).await?;
    job.is_held().await?;
    job.is_interrupted(Reason::Suspended, WaitingReason::Suspended).await?;
    let stays = "state = 'interrupted' and configuration = 3 and next_configuration is null and submitter_state ->> 'grown_from' is null";
    stage.row_is(id, stays).await?;
    job.is_suspended().await?;
    cancel(stage, id, job).await
}

/// It falls back to the smallest configuration and runs. There is room for the largest one by then, so it is stopped, goes
/// on with that, and completes.
async fn grows(stage: &Stage, id: i64) -> Result<()> {
    let mut job = is_suspended_to_grow(stage, id).await?;
    job.is_interrupted(Reason::Suspended, WaitingReason::Suspended).await?;
    job.is_replaced(5).await?;
    // It may run at once, and was then never seen to wait: here it always is.
    stage
        .row_is(id, "state = 'interrupted' and configuration = 1 and submitter_state -> 'grown_from' = '3'")
        .await?;
    job.runs(LONG_GOES_ON).await?;
    stage.progresses(id, 2, 1200).await?;
    job.completes("", Some(LONG_END)).await?;
    stage.leaves(id, [job]).await
}

/// A write, told apart from those of the same kind by how many came before it. Not by its number among all: how often a
/// row is claimed and woken is a matter of the clock.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    kind: String,
    occurrence: usize,
}

/// Counts writes, and says where the world stops.
#[derive(Clone, Default)]
struct Counter {
    counted: Arc<Mutex<Counted>>,
}

#[derive(Default)]
struct Counted {
    points: Vec<Point>,
    stop: Option<(Point, Hold)>,
}

impl Counter {
    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, kind: String) -> Option<Hold> {
        let mut counted = self.counted();
        let occurrence = 1 + counted.points.iter().filter(|point| point.kind == kind).count();
        let point = Point { kind, occurrence };
        counted.points.push(point.clone());
        let stop = counted.stop.as_ref().filter(|(stop, _)| *stop == point)?.1;
        // There is only one.
        counted.stop = None;
        Some(stop)
    }
}

/// What is left of a row, and how it came to that.
struct End {
    row: Value,
    attempts: Value,
    ladder: Value,
    observations: Value,
    events: Value,
    /// For each ScavengerJob how many there were of that name and how often its spec was written.
    jobs: BTreeMap<String, (usize, i64)>,
}

impl End {
    /// Where it is not like another one.
    fn unlike(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        for (what, one, other) in [
            ("row", &self.row, &other.row),
            ("attempts", &self.attempts, &other.attempts),
            ("ladder", &self.ladder, &other.ladder),
            ("observations", &self.observations, &other.observations),
            ("events", &self.events, &other.events),
            ("jobs", &json!(self.jobs), &json!(other.jobs)),
        ] {
            compare(what, one, other, &mut found);
        }
        found
    }
}

fn compare(path: &str, one: &Value, other: &Value, found: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            for name in one.keys().chain(other.keys()).collect::<BTreeSet<_>>() {
                let of = |object: &serde_json::Map<_, _>| object.get(name).cloned().unwrap_or_default();
                compare(&format!("{path}.{name}"), &of(one), &of(other), found);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (number, (one, other)) in one.iter().zip(other).enumerate() {
                compare(&format!("{path}[{number}]"), one, other, found);
            }
        }
        _ if one != other => found.push(format!("{path} is {one} instead of {other}")),
        _ => {}
    }
}

/// Removes what no two lives share: the number of the row, times by the clock, and whether the tuner was asked again: a row that
/// runs by the time that somebody looks is not asked about.
async fn end_of(stage: &Stage, id: i64, witness: &Witness) -> Result<End> {
    let nameless = |text: &str| text.replace(&format!("gromacs-{id}"), "gromacs-ROW");
    let read = |select: String| async move {
        let rows: Vec<Value> = stage.postgres.rows(&select).await?;
        anyhow::Ok(serde_json::from_str(&nameless(&json!(rows).to_string()))?)
    };
    // What an attempt measured that was interrupted depends on the clock.
    let interrupted = "exists (select from gromacs_attempt i where i.row_id = o.row_id
        and i.submission = o.submission and i.attempt = o.attempt and i.outcome = 'interrupted')";
    Ok(End {
        row: read(format!(
            "select to_jsonb(q) - '{{id,uuid,job_uid,creation_time,state_time,finish_time,progress_time,lease_holder,lease_until,
                next_attempt_time,wakes,follower,followed_until}}'::text[] || jsonb_build_object('submitter_state',
                    q.submitter_state - '{{progress_from_step,progress_from_time,attempt_seen_time,interruption_time,
                        ladder_interruptions}}'::text[]) as row,
                q.lease_holder is null as is_given_back, q.finish_time is not null as has_ended
            from gromacs_to_tune q where id = {id}"
        ))
        .await?,
        attempts: read(format!(
            "select to_jsonb(a) - '{{row_id,end_time,restart_seconds}}'::text[] || jsonb_build_object(
                'end_time', a.end_time is not null,
                'ns_per_day', case when a.outcome = 'interrupted' then -1 else a.ns_per_day end) as attempt
            from gromacs_attempt a where row_id = {id} order by submission, attempt"
        ))
        .await?,
        ladder: read(format!(
            // Whether the tuner explores another layout of the same resources is a matter of chance, and moves the others.
            "select to_jsonb(l) - '{{row_id,creation_time,place,reason}}'::text[] as of_ladder
            from gromacs_ladder l where row_id = {id} and not exists (
                select from gromacs_ladder first where first.row_id = l.row_id and first.submission = l.submission
                and first.configuration < l.configuration and (first.cpu_millicores, first.memory_bytes, first.gpus)
                    = (l.cpu_millicores, l.memory_bytes, l.gpus))
            order by submission, configuration"
        ))
        .await?,
        observations: read(format!(
            // What other pods request beside it is not the row's.
            "select to_jsonb(o) - '{{id,row_id,observation_time,node_requested_millicores}}'::text[]
                || case when {interrupted} then '{{\"ns_per_day\": -1, \"wall_seconds\": -1}}' else '{{}}' end::jsonb
                as observation
            from gromacs_observation o where row_id = {id} order by submission, attempt"
        ))
        .await?,
        events: read(format!(
            // How long there was no room depends on the clock, and so does whether the capacity after an interruption is
            // known at the first look.
            "select state, submission, configuration, case
                when state = 'interrupted' and configuration = lag(configuration) over (order by id) then 'interrupted'
                else regexp_replace(message, 'for [0-9]+ s', 'for some s') end as message
            from gromacs_event where row_id = {id} order by id"
        ))
        .await?,
        jobs: witness.saw(id),
    })
}

/// Sees every ScavengerJob of the namespace, all the time.
#[derive(Clone, Default)]
struct Witness {
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    /// Simulations that are there, by the name without the submission.
    there: BTreeMap<String, BTreeSet<String>>,
    /// UIDs and the last generation of each name.
    jobs: BTreeMap<String, (BTreeSet<String>, i64)>,
    wrong: Vec<String>,
}

impl Witness {
    fn start(world: &World, watches: &mut JoinSet<()>) -> Self {
        let witness = Self::default();
        let noted = witness.clone();
        follow(watches, &world.client, &world.namespace, move |job: &ScavengerJob, gone| {
            noted.seen.lock().unwrap_or_else(PoisonError::into_inner).job(job, gone);
        });
        witness
    }

    fn saw(&self, id: i64) -> BTreeMap<String, (usize, i64)> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let own = format!("gromacs-{id}-");
        let of_row = seen.jobs.iter().filter(|(name, _)| name.starts_with(&own));
        of_row
            .map(|(name, (uids, generation))| (name.replace(&own, "gromacs-ROW-"), (uids.len(), *generation)))
            .collect()
    }

    fn is_content(&self) -> Result<()> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        ensure!(seen.wrong.is_empty(), "{}", seen.wrong.join("; "));
        Ok(())
    }
}

impl Seen {
    fn job(&mut self, job: &ScavengerJob, gone: bool) {
        let name = job.name_any();
        let known = self.jobs.entry(name.clone()).or_default();
        known.0.insert(job.uid().unwrap_or_default());
        // The API server counts a deletion as a change, too.
        if job.metadata.deletion_timestamp.is_none() {
            known.1 = known.1.max(job.metadata.generation.unwrap_or(0));
        }
        // gromacs-ROW-SUBMISSION; the others are probes.
        let Some((row, _)) = name.rsplit_once('-').filter(|(_, last)| last.parse::<u32>().is_ok()) else {
            return;
        };
        let there = self.there.entry(row.to_owned()).or_default();
        if gone {
            there.remove(&name);
        } else {
            there.insert(name);
        }
        if there.len() > 1 {
            self.wrong.push(format!("these were there at the same time: {there:?}"));
        }
    }
}

/// A life, and what was written in it.
struct Lived {
    end: End,
    points: Vec<Point>,
    /// True if the submitter was killed.
    killed: bool,
}

/// Lets a row live, and kills the submitter at one point of that.
async fn live(stage: &Stage, story: &Story, stop: Option<(Point, Hold)>) -> Result<Lived> {
    let mut watches = JoinSet::new();
    let witness = Witness::start(stage.world, &mut watches);
    let id = stage.insert(story.columns, story.values).await?;
    let counter = Counter::default();
    counter.counted().stop = stop;
    let counts = counter.clone();
    stage.sql.judge(move |what| counts.count(what.to_owned()));
    let counts = counter.clone();
    let row = format!("gromacs-{id}");
    stage.api.judge(move |write| {
        let what = write.path.rsplit_once("/scavengerjobs").map_or(&*write.path, |(_, name)| name);
        let hold = counts.count(format!("{} {}", write.method, what.replace(&row, "gromacs-ROW")));
        hold.map_or(Fate::Pass, |hold| if hold == Hold::Before { Fate::HoldBefore } else { Fate::HoldAfter })
    });
    let mut held = pin!(async {
        tokio::select! {
            held = stage.api.held() => held,
            held = stage.sql.held() => held,
        }
    });
    // It waits from here on, before anything can be held.
    ensure!(futures::poll!(&mut held).is_pending(), "something was held before anybody wrote");
    let first = stage.submitter().await?;
    let mut life = pin!((story.live)(stage, id));
    let (last, killed) = tokio::select! {
        lived = &mut life => {
            lived?;
            (first, false)
        }
        held = held => {
            held?;
            first.kill().await?;
            stage.sql.is_left().await?;
            stage.hour_passes().await?;
            let next = stage.submitter().await?;
            life.await?;
            (next, true)
        }
    };
    // Whatever it still has to do for this row, as a record of its own last look, is done.
    stage.row_is(id, "lease_holder is null").await?;
    last.kill().await?;
    stage.sql.is_left().await?;
    witness.is_content()?;
    let end = end_of(stage, id, &witness).await?;
    let left = stage.world.api::<ScavengerJob>().list(&Default::default()).await?;
    ensure!(
        left.items.is_empty(),
        "left over: {:?}",
        left.iter().map(ResourceExt::name_any).collect::<Vec<_>>()
    );
    stage.postgres.sql(&format!("delete from gromacs_to_tune where id = {id}")).await?;
    let points = counter.counted().points.clone();
    Ok(Lived { end, points, killed })
}

/// A life that nobody disturbs ends as it should, so that there is something to compare with.
fn is_sound(story: &Story, end: &End) -> Result<()> {
    let length = |list: &Value| list.as_array().map_or(0, Vec::len);
    let (state, submissions, attempts, observations) = story.end;
    ensure!(end.row[0]["row"]["state"] == state, "{}", end.row);
    ensure!(
        end.row[0]["row"]["submission"] == submissions && end.row[0]["is_given_back"] == true,
        "{}",
        end.row
    );
    ensure!(length(&end.attempts) == attempts, "{}", end.attempts);
    ensure!(length(&end.observations) == observations, "{}", end.observations);
    ensure!(end.jobs.values().all(|(made, _)| *made == 1), "{:?}", end.jobs);
    Ok(())
}

/// Every point; or the first of each kind of write to Postgres that no story before had, and of each kind of write to the
/// API server, which there are few of.
fn chosen(story: &Story, points: &[Point], known: &mut BTreeSet<String>) -> Vec<Point> {
    let all = repetitions(1) > 1;
    let mut is_new = |point: &&Point| {
        let is_api =
            ["POST ", "PUT ", "PATCH ", "DELETE "].iter().any(|method| point.kind.starts_with(method));
        known.insert(if is_api { format!("{}: {}", story.name, point.kind) } else { point.kind.clone() })
    };
    points.iter().filter(|point| is_new(point) || all).cloned().collect()
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn killed_at_any_write_the_row_ends_as_if_it_had_not_been() {
    let limit = Duration::from_secs(if repetitions(1) > 1 { 2 * 3600 } else { 1200 });
    run_within(limit, "kills", |world| async move {
        if std::env::var_os(OPERATOR).is_none() {
            eprintln!("skipped kills: {OPERATOR} is not set; `cargo xtask test` sets it");
            ensure!(std::env::var_os("CI").is_none(), "{OPERATOR} is not set");
            return Ok(());
        }
        world.operators(0).await?;
        let result = every_kill(world).await;
        // As it was, whatever became of the test.
        let restored = world.operators(OPERATORS).await;
        result.and(restored)
    });
}

async fn every_kill(world: &'static World) -> Result<()> {
    let mut stage = Stage::new(world).await?;
    let mut known = BTreeSet::new();
    let mut wrong = Vec::new();
    for story in stories() {
        let began = Instant::now();
        let undisturbed = live(&stage, &story, None).await.with_context(|| story.name)?;
        is_sound(&story, &undisturbed.end).with_context(|| story.name)?;
        let took = began.elapsed();
        let mut kills = 0;
        let chosen = chosen(&story, &undisturbed.points, &mut known);
        // Before and after each; of a few, before the one and after the next.
        let all = repetitions(1) > 1;
        let both = chosen.iter().flat_map(|point| [(point, Hold::Before), (point, Hold::After)]);
        let in_turn = both.enumerate().filter(|(number, _)| all || matches!(number % 4, 0 | 3));
        for (point, hold) in in_turn.map(|(_, kill)| kill) {
            let context = || format!("{}, killed {hold:?} {point:?}", story.name);
            let lived = live(&stage, &story, Some((point.clone(), hold))).await.with_context(context)?;
            // A later one of its kind may not come; the first always does.
            ensure!(lived.killed || point.occurrence > 1, "{}: it never came", context());
            kills += usize::from(lived.killed);
            let unlike = lived.end.unlike(&undisturbed.end);
            if !unlike.is_empty() {
                let unlike = format!("{}: {}", context(), unlike.join("; "));
                eprintln!("{unlike}");
                wrong.push(unlike);
            }
        }
        println!(
            "{}: a life of {} writes in {:.1} s; killed {kills} times at {} of them",
            story.name,
            undisturbed.points.len(),
            took.as_secs_f64(),
            chosen.len()
        );
    }
    ensure!(wrong.is_empty(), "it ended otherwise:\n{}", wrong.join("\n"));
    stage.postgres.down()
}
