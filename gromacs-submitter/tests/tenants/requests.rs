//! What one role's requests and locks can do to the rows of others, and to its own at odd moments.

use sqlx::Executor as _;

use super::{Queue, new_row, refused};

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
