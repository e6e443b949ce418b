//! What is written beside a row's steps, on a real Postgres: progress of followed rows, ends of logs, removals.

mod postgres;
mod rows;

use std::time::Duration;

use gromacs_submitter::advance::{AttemptRecord, Earlier, Refused, with_failure};
use gromacs_submitter::store::{Changes, Claim, ClaimOptions, NewRow, Progress, Store};
use gromacs_submitter::view::{AttemptView, NodeView};
use jiff::{SignedDuration, Timestamp};
use postgres::{as_role, migrated_store, store};
use scavenger_schema::simulation::{PrivateState, RowStatus, State};
use scavenger_vocabulary::{Outcome, Reason};

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("should be a time")
}

async fn add(store: &Store) -> i64 {
    let new = NewRow {
        namespace: "lab".to_owned(),
        persistent_volume_claim: "data".to_owned(),
        tpr_path: "x.tpr".to_owned(),
        ..NewRow::default()
    };
    store.add(&new).await.expect("should add")
}

async fn claim(store: &Store) -> Vec<Claim> {
    let options = ClaimOptions { limit: 100, except: Vec::new(), max_waiting: 1000, early: false };
    store.claim(&options).await.expect("should claim")
}

/// Number and UUID of a row.
type Row = (i64, String);

/// Rows in state running, given back.
async fn running(store: &Store, count: usize) -> Vec<Row> {
    for _ in 0..count {
        add(store).await;
    }
    let mut rows = Vec::new();
    for claim in claim(store).await {
        let status = RowStatus {
            state: State::Running,
            attempt: 2,
            next_attempt_time: Timestamp::MAX.into(),
            ..claim.row.status.clone()
        };
        let changes = Changes { releases: true, ..Changes::default() };
        store.record(&claim, &status, &changes).await.expect("should record");
        rows.push((claim.row.id, claim.row.uuid));
    }
    rows.sort_unstable();
    rows
}

fn progress((row, uuid): &Row, attempt: i32, step: i64) -> Progress {
    let (row, uuid) = (*row, uuid.clone());
    let (step, ns_per_day, time) = (Some(step), Some(40.0), Some(now()));
    Progress { row, uuid, submission: 1, attempt, step, ns_per_day, time }
}

async fn step_of(store: &Store, row: i64) -> Option<i64> {
    sqlx::query_scalar("select step from gromacs_to_tune where id = $1")
        .bind(row)
        .fetch_one(store.pool())
        .await
        .expect("should read")
}

#[tokio::test]
async fn progress_of_many_rows_is_one_statement_and_old_attempts_are_left_alone() {
    let (first, _) = migrated_store("first").await;
    let rows = running(&first, 3).await;
    let news = [
        progress(&rows[0], 2, 100),
        progress(&rows[1], 1, 7),
        progress(&rows[2], 2, 300),
        progress(&(99, rows[0].1.clone()), 2, 1),
    ];
    let mut answers = first.write_progress(&news).await.expect("should write");
    answers.sort_unstable();
    assert_eq!(
        answers,
        [(rows[0].0, true), (rows[1].0, false), (rows[2].0, true)],
        "attempt 1 of the second is over"
    );
    assert_eq!(step_of(&first, rows[0].0).await, Some(100));
    assert_eq!(step_of(&first, rows[1].0).await, None);
    // A sign of life without news takes nothing back.
    let silent = Progress { step: None, ns_per_day: None, time: None, ..progress(&rows[0], 2, 0) };
    assert_eq!(first.write_progress(&[silent]).await.expect("should write"), [(rows[0].0, true)]);
    assert_eq!(step_of(&first, rows[0].0).await, Some(100));
}

#[tokio::test]
async fn progress_of_a_row_that_a_restored_backup_does_not_know_is_nobodys() {
    let (first, url) = migrated_store("first").await;
    let admin = store(&as_role(&url, "tester"), "admin");
    let lost = running(&first, 1).await;
    // What was added since the backup is gone, and its numbers are given again.
    sqlx::query("truncate gromacs_to_tune restart identity cascade")
        .execute(admin.pool())
        .await
        .expect("should restore");
    let rows = running(&first, 1).await;
    assert_eq!(rows[0].0, lost[0].0);
    assert_ne!(rows[0].1, lost[0].1);
    assert_eq!(first.write_progress(&[progress(&lost[0], 2, 100)]).await.expect("should write"), []);
    assert_eq!(step_of(&first, rows[0].0).await, None);
    let answers = first.write_progress(&[progress(&rows[0], 2, 7)]).await.expect("should write");
    assert_eq!(answers, [(rows[0].0, true)]);
    assert_eq!(step_of(&first, rows[0].0).await, Some(7));
}

#[tokio::test]
async fn one_submitter_follows_a_row_until_it_is_silent() {
    let (first, url) = migrated_store("first").await;
    let second = store(&url, "second");
    let rows = running(&first, 1).await;
    assert!(!second.is_followed_elsewhere(rows[0].0).await.expect("should ask"));
    first.write_progress(&[progress(&rows[0], 2, 100)]).await.expect("should write");
    assert!(second.is_followed_elsewhere(rows[0].0).await.expect("should ask"));
    assert!(!first.is_followed_elsewhere(rows[0].0).await.expect("should ask"));
    assert_eq!(
        second.write_progress(&[progress(&rows[0], 2, 90)]).await.expect("should write"),
        [(rows[0].0, false)]
    );
    assert_eq!(step_of(&first, rows[0].0).await, Some(100));
    // It ends in good order, or without a word.
    first.follow_no_more().await.expect("should let go");
    assert_eq!(
        second.write_progress(&[progress(&rows[0], 2, 110)]).await.expect("should write"),
        [(rows[0].0, true)]
    );
    sqlx::query("update gromacs_to_tune set followed_until = now() - interval '1 second'")
        .execute(first.pool())
        .await
        .expect("should set");
    assert_eq!(
        first.write_progress(&[progress(&rows[0], 2, 120)]).await.expect("should write"),
        [(rows[0].0, true)]
    );
}

#[tokio::test]
async fn a_row_that_is_being_written_is_left_for_the_next_time() {
    let (first, url) = migrated_store("first").await;
    let second = store(&url, "second");
    let rows = running(&first, 2).await;
    let mut transaction = second.pool().begin().await.expect("should begin");
    sqlx::query("select from gromacs_to_tune where id = $1 for update")
        .bind(rows[0].0)
        .execute(&mut *transaction)
        .await
        .expect("should lock");
    let news = [progress(&rows[0], 2, 1), progress(&rows[1], 2, 2)];
    let answers = tokio::time::timeout(Duration::from_secs(20), first.write_progress(&news))
        .await
        .expect("should not wait for the lock")
        .expect("should write");
    assert_eq!(answers, [(rows[1].0, true)]);
    transaction.rollback().await.expect("should roll back");
    assert_eq!(first.write_progress(&news[..1]).await.expect("should write"), [(rows[0].0, true)]);
}

#[tokio::test]
async fn rows_are_claimed_once_more_when_their_jobs_are_to_be_removed() {
    let (store, _) = migrated_store("a").await;
    add(&store).await;
    let releases = Changes { releases: true, ..Changes::default() };
    let first = claim(&store).await.remove(0);
    // Two centuries from now, by the database's clock.
    let keep = Duration::from_secs(200 * 365 * 86400);
    let status = with_failure(&first.row, "no such file".to_owned(), keep, now());
    store.record(&first, &status, &releases).await.expect("should record");
    assert!(claim(&store).await.is_empty(), "not yet");
    sqlx::query("update gromacs_to_tune set job_expiry_time = now(), next_attempt_time = now()")
        .execute(store.pool())
        .await
        .expect("should set");
    let due = claim(&store).await.remove(0);
    assert_eq!(due.row.status.state, State::Failed);
    let status = RowStatus { job_expiry_time: None, ..due.row.status.clone() };
    store.record(&due, &status, &releases).await.expect("should record");
    assert!(claim(&store).await.is_empty(), "removed");
}

fn attempt(number: i32, outcome: Outcome, seconds: i64) -> AttemptView {
    AttemptView {
        number,
        rung: None,
        is_superseded: false,
        cpu_millicores: Some(1000),
        memory_bytes: Some(64 << 20),
        gpus: Some(0),
        node: None,
        args: Vec::new(),
        creation_time: now(),
        start_time: Some(now()),
        end_time: Some(now() + SignedDuration::from_secs(seconds)),
        outcome: Some(outcome),
        reason: None,
        message: None,
        lost_seconds: None,
    }
}

#[tokio::test]
async fn how_the_newest_submissions_ended_is_known() {
    let (store, _) = migrated_store("a").await;
    let id = add(&store).await;
    let mut claim = claim(&store).await.remove(0);
    let log = || Some("Received the INT signal, stopping within 100 steps".to_owned());
    let record = |view, log_end| AttemptRecord { log_end, ..AttemptRecord::of(&view) };
    let submissions = [
        // Reached its end, and went on for longer.
        vec![record(attempt(1, Outcome::Completed, 5), None)],
        // Ended on its own, after it was interrupted.
        vec![
            record(attempt(1, Outcome::Interrupted, 700), None),
            record(attempt(2, Outcome::Completed, 3), log()),
        ],
        vec![record(attempt(1, Outcome::Completed, 4), log())],
        vec![record(attempt(1, Outcome::Failed, 8), log())],
    ];
    let short = |seconds| Earlier { is_short: true, seconds };
    let other = |seconds| Earlier { is_short: false, seconds };
    let expected = [
        vec![other(5.0)],
        vec![short(703.0), other(5.0)],
        vec![short(4.0), short(703.0)],
        vec![other(8.0), short(4.0)],
    ];
    assert_eq!(store.earlier(id, 1).await.expect("should read"), []);
    for ((attempts, expected), submission) in submissions.into_iter().zip(expected).zip(2..) {
        let status = RowStatus { submission, ..claim.row.status.clone() };
        let changes = Changes { attempts, ..Changes::default() };
        claim = store.record(&claim, &status, &changes).await.expect("should record");
        assert_eq!(store.earlier(id, submission).await.expect("should read"), expected, "{submission}");
    }
    assert_eq!(store.earlier(id, 2).await.expect("should read"), [other(5.0)], "not what came after");
    assert_eq!(store.earlier(id + 1, 9).await.expect("should read"), [], "not another row's");
}

/// What decides whose fault it was: where attempts failed, what they said, and whether they had computed.
#[tokio::test]
async fn where_attempts_failed_is_known_with_what_they_said() {
    let (store, _) = migrated_store("a").await;
    let id = add(&store).await;
    let mut claim = claim(&store).await.remove(0);
    let node = NodeView {
        name: "gpu-3".to_owned(),
        labels: [("kubernetes.io/arch".to_owned(), "amd64".to_owned())].into(),
        cpu_millicores: Some(8000),
        requested_millicores: None,
    };
    let failed = |node: Option<&NodeView>| AttemptView {
        rung: Some(1),
        node: node.cloned(),
        message: Some("pod x exited with code 139".to_owned()),
        ..attempt(1, Outcome::Failed, 5)
    };
    let computed = AttemptRecord {
        first_step: Some(0),
        last_step: Some(100),
        log_end: Some("CUDA error".to_owned()),
        ..AttemptRecord::of(&failed(Some(&node)))
    };
    let stood =
        AttemptRecord { first_step: Some(100), last_step: Some(100), ..AttemptRecord::of(&failed(None)) };
    let interrupted = AttemptRecord::of(&attempt(1, Outcome::Interrupted, 5));
    for (attempt, submission) in [(computed, 2), (stood, 3), (interrupted, 4)] {
        let ladder = Some(vec![rows::rung(1, 2000)]);
        let refused = Some(Refused { rung: 1, words: "CUDA error".to_owned() });
        let status = RowStatus { submission, ..claim.row.status.clone() };
        let changes = Changes { attempts: vec![attempt], ladder, refused, ..Changes::default() };
        claim = store.record(&claim, &status, &changes).await.expect("should record");
    }
    let failures = store.failures(id).await.expect("should read");
    let told: Vec<_> =
        failures.iter().map(|it| (it.submission, it.node.as_deref(), it.made_a_step)).collect();
    assert_eq!(told, [(2, None, false), (1, Some("gpu-3"), true)], "the newest first");
    let first = &failures[1];
    assert_eq!(first.node_labels.as_ref().map(|labels| &labels.0), Some(&node.labels));
    assert_eq!(first.message.as_deref(), Some("pod x exited with code 139"));
    assert_eq!((first.log_end.as_deref(), first.image.as_deref()), (Some("CUDA error"), None));
    assert_eq!(store.failures(id + 1).await.expect("should read"), [], "not another row's");
    // What mdrun refused has the node that it refused it on.
    let refusals = store.refusals(id).await.expect("should read");
    let nodes: Vec<_> = refusals.iter().map(|refusal| refusal.node.as_deref()).collect();
    assert_eq!(nodes, [Some("gpu-3"), None, None]);
}

#[tokio::test]
async fn the_end_of_a_log_and_the_highest_peak_stay() {
    let (store, _) = migrated_store("a").await;
    let id = add(&store).await;
    let claim = claim(&store).await.remove(0);
    let view = AttemptView { reason: Some(Reason::OOMKilled), ..attempt(1, Outcome::Failed, 0) };
    let failed = AttemptRecord {
        peak_memory_bytes: Some(64 << 20),
        log_end: Some("Fatal error:\nno memory".to_owned()),
        ..AttemptRecord::of(&view)
    };
    let status = RowStatus {
        state: State::Queued,
        submission: 2,
        private: PrivateState { outgrown_memory_bytes: Some(64 << 20), ..claim.row.status.private.clone() },
        ..claim.row.status.clone()
    };
    let changes = Changes { attempts: vec![failed, AttemptRecord::of(&view)], ..Changes::default() };
    let written = store.record(&claim, &status, &changes).await.expect("should record");
    assert_eq!(written.row.status, status);
    let story = store.show(id).await.expect("should read").expect("should be there");
    let attempt = &story["attempts"][0];
    assert_eq!(attempt["log_end"], "Fatal error:\nno memory");
    assert_eq!(attempt["peak_memory_bytes"], 64 << 20);
}

/// The beginning of a log is read until mdrun says where it starts, and again at the end.
#[tokio::test]
async fn that_a_checkpoint_was_replaced_stands_in_the_history_once() {
    let (store, _) = migrated_store("first").await;
    let id = add(&store).await;
    let line = "goes on from state_prev.cpt at step 20: state.cpt is missing; 10 steps are computed again";
    let claims = claim(&store).await;
    let claim = claims.first().expect("should claim it");
    let changes = Changes { went_back: Some(line.to_owned()), ..Changes::default() };
    for _ in 0..2 {
        store.record(claim, &claim.row.status, &changes).await.expect("should record");
    }
    let events: Vec<String> = sqlx::query_scalar(
        "select message from gromacs_event where row_id = $1 and message like 'goes on from %'",
    )
    .bind(id)
    .fetch_all(store.pool())
    .await
    .expect("should read");
    assert_eq!(events, [line]);
}
