//! What one role's requests and locks can do to the rows of others, and to its own at odd moments.

use std::time::Duration;

use gromacs_submitter::store::{AddMode, Added};
use sqlx::Executor as _;

use super::{Queue, TABLES, a_life, count, new_row, refused};
use crate::postgres::as_role;
use crate::program::{Program, text};

#[tokio::test]
async fn nobody_but_the_submitter_holds_up_its_claims() {
    let queue = Queue::new().await;
    queue.alice.add(&new_row("chem")).await.expect("should add");
    let mut bob = queue.connect("bob").await;
    // What claims were locked by once.
    bob.execute("select pg_advisory_lock(hashtext('gromacs_to_tune claim'))").await.expect("should lock");
    queue.claim().await;
    bob.execute("begin").await.expect("should begin");
    let sentence = refused(&mut bob, "lock table gromacs_claim_lock in access exclusive mode").await;
    assert!(sentence.contains("permission denied"), "{sentence}");
}

#[tokio::test]
async fn nobody_else_holds_up_who_adds_rows() {
    let queue = Queue::new().await;
    let mut bob = queue.connect("bob").await;
    // What adding was locked by once, and the line of another role.
    bob.execute("select pg_advisory_lock(hashtext('gromacs_to_tune add'))").await.expect("should lock");
    bob.execute("begin; select gromacs_lock_adding()").await.expect("it is his own");
    let rows = [new_row("chem")];
    let added = queue.alice.add_all(&rows, AddMode::default());
    let (added, is_there) = tokio::time::timeout(Duration::from_secs(20), added)
        .await
        .expect("nobody waits")
        .expect("should add");
    assert!(is_there && matches!(added[..], [Added::Row(_)]), "{added:?}");
    let mut bob = queue.connect("bob").await;
    for statement in
        ["insert into gromacs_add_lock values ('alice')", "select from gromacs_add_lock for update"]
    {
        let sentence = refused(&mut bob, statement).await;
        assert!(sentence.contains("permission denied"), "{sentence}");
    }
}

#[tokio::test]
async fn two_commands_of_a_role_add_a_file_once() {
    let queue = Queue::new().await;
    let rows = [new_row("chem")];
    let (one, other) = tokio::join!(
        queue.alice.add_all(&rows, AddMode::default()),
        queue.alice.add_all(&rows, AddMode::default())
    );
    let added = [one.expect("should answer").1, other.expect("should answer").1];
    assert!(added.contains(&true) && added.contains(&false), "{added:?}");
}

#[tokio::test]
async fn a_cancel_wins_against_a_retry_that_was_not_carried_out() {
    let queue = Queue::new().await;
    queue.alice.add(&new_row("chem")).await.expect("should add");
    let claim = queue.claim().await;
    queue.fail(&claim).await;
    let mut alice = queue.connect("alice").await;
    let both = "update gromacs_to_tune set retry_requested = true, cancel_requested = true";
    alice.execute(both).await.expect("should ask");
    let asked = "gromacs_to_tune where retry_requested";
    assert_eq!(count(&mut alice, asked).await, 0);
    // What was cancelled once can be tried again, and that cancelled.
    for (request, retries) in [("retry", 1), ("cancel", 0), ("retry", 1)] {
        let statement = format!("update gromacs_to_tune set {request}_requested = true");
        alice.execute(sqlx::AssertSqlSafe(statement)).await.expect("should ask");
        assert_eq!(count(&mut alice, asked).await, retries, "{request}");
    }
}

#[tokio::test]
async fn a_retry_is_asked_for_when_there_is_something_to_try_again() {
    let queue = Queue::new().await;
    queue.alice.add(&new_row("chem")).await.expect("should add");
    let mut alice = queue.connect("alice").await;
    let retry = "update gromacs_to_tune set retry_requested = true";
    let sentence = refused(&mut alice, retry).await;
    assert!(
        sentence.contains("is queued, and only a row that failed or was cancelled can be tried again"),
        "{sentence}"
    );
    let claim = queue.claim().await;
    queue.fail(&claim).await;
    alice.execute(retry).await.expect("it has failed");
    // Said twice is said once.
    alice.execute(retry).await.expect("it is asked for already");
}

/// An admin, or a chemist of her own rows, from a CronJob: one row that others wait for must not keep thousands.
#[tokio::test]
async fn what_ended_long_ago_is_removed_but_for_what_a_row_waits_for() {
    let queue = Queue::new().await;
    let alice = Program::new(as_role(&queue.url, "alice"));
    alice.good(&["add", "old.tpr", "--namespace", "chem"]);
    let claim = queue.claim().await;
    let claim = a_life(&queue, claim).await;
    queue.fail(&claim).await;
    alice.good(&["add", "named.tpr", "--namespace", "chem"]);
    let claim = queue.claim().await;
    queue.fail(&claim).await;
    alice.good(&["add", "waits.tpr", "--namespace", "chem", "--after", "2"]);
    alice.good(&["add", "recent.tpr", "--namespace", "chem"]);
    queue.bob.add(&new_row("phys")).await.expect("should add");
    let admin = Program::new(queue.url.clone());
    admin
        .sql(
            "update gromacs_to_tune set state = 'cancelled', finish_time = now() - interval '1 day' where id = 4;
            update gromacs_to_tune set state = 'completed', finish_time = now() - interval '2 years' where id = 5",
        )
        .await;

    let prune = ["rm", "--ended-before", "365d"];
    let asked = alice.run(&prune);
    assert_eq!(asked.status.code(), Some(2));
    assert!(text(&asked.stderr).contains("this would remove 2 rows; say --yes"), "{}", text(&asked.stderr));
    let pruned = alice.run(&[&prune[..], &["--yes"]].concat());
    assert_eq!(pruned.status.code(), Some(1), "one stays");
    assert_eq!(text(&pruned.stdout), "row 1: removed\n");
    let why = "row 2: row 2 is failed, and row 3 waits for it: retry row 2, or change what row 3 comes after";
    assert!(text(&pruned.stderr).contains(why), "{}", text(&pruned.stderr));
    let mut connection = queue.connect("tester").await;
    for table in TABLES.into_iter().filter(|table| *table != "gromacs_to_tune") {
        let of_row = count(&mut connection, &format!("{table} where row_id = 1")).await;
        assert_eq!(of_row, i64::from(table == "gromacs_observation"), "{table}");
    }
    let left = |rows: serde_json::Value| -> Vec<i64> {
        rows.as_array().expect("a list").iter().filter_map(|row| row["id"].as_i64()).collect()
    };
    assert_eq!(left(admin.json(&["list"])), [2, 3, 4, 5], "hers alone");
    assert_eq!(admin.good(&[&prune[..], &["--owner", "bob", "--yes"]].concat()), "row 5: removed\n");
    // Another row has another number, and so another folder.
    alice.good(&["add", "old.tpr", "--namespace", "chem"]);
    assert_eq!(left(admin.json(&["list"])), [2, 3, 4, 6]);
    let misread = alice.run(&["rm", "--ended-before", "yesterday"]);
    assert_eq!(misread.status.code(), Some(2));
    assert!(text(&misread.stderr).contains("write for example 12h"), "{}", text(&misread.stderr));
}
