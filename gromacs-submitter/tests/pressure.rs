//! A database that is short of connections, or that answers with serialization failures: an error at once, nothing lost,
//! and the next try succeeds.

mod postgres;
mod rows;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use gromacs_submitter::store::{Changes, NewRow, Store, StoreError};
use postgres::{as_role, migrated_store, store};
use rows::any;
use scavenger_schema::simulation::{RowStatus, State};
use sqlx::Executor as _;

fn rows(count: usize) -> Vec<NewRow> {
    (0..count)
        .map(|number| NewRow {
            namespace: "lab".to_owned(),
            persistent_volume_claim: "data".to_owned(),
            tpr_path: format!("{number}.tpr"),
            ..NewRow::default()
        })
        .collect()
}

#[tokio::test]
async fn a_pool_without_a_free_connection_is_an_error_in_time() {
    let (admin, url) = migrated_store("a").await;
    admin.add_all(&rows(1), Default::default()).await.expect("should add");
    let lease = Duration::from_secs(60);
    let store = Store::new(&url, "b".to_owned(), lease, 1, Duration::from_millis(300)).expect("should open");
    let taken = store.pool().acquire().await.expect("should have one");
    let began = Instant::now();
    let error = store.claim(&any(1)).await.expect_err("should find no connection");
    assert!(matches!(error, StoreError::Query(sqlx::Error::PoolTimedOut)), "{error}");
    assert!(began.elapsed() < Duration::from_secs(10), "it does not wait forever");
    drop(taken);
    assert_eq!(store.claim(&any(1)).await.expect("should claim").len(), 1, "the next try succeeds");
}

fn is_serialization_failure(error: &StoreError) -> bool {
    let StoreError::Query(error) = error else { return false };
    error.as_database_error().and_then(|error| error.code()).is_some_and(|code| code == "40001")
}

/// Claims and ends rows until none is left; returns them, and how often the database said no.
async fn work(store: Store) -> (Vec<i64>, usize) {
    let (mut done, mut failures) = (Vec::new(), 0);
    loop {
        let claims = match store.claim(&any(3)).await {
            Ok(claims) => claims,
            Err(error) => {
                assert!(is_serialization_failure(&error), "{error}");
                failures += 1;
                continue;
            }
        };
        if claims.is_empty() {
            return (done, failures);
        }
        for claim in claims {
            let status = RowStatus { state: State::Completed, ..claim.row.status.clone() };
            let changes = Changes { releases: true, ..Changes::default() };
            loop {
                let same = [claim.row.id];
                // Whoever watches the cluster writes the same rows at the same time.
                let (written, woken) =
                    tokio::join!(store.record(&claim, &status, &changes), store.wake(&same));
                failures += usize::from(woken.is_err());
                match written {
                    Ok(_) => break,
                    Err(error) => {
                        assert!(is_serialization_failure(&error), "{error}");
                        failures += 1;
                    }
                }
            }
            done.push(claim.row.id);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn serialization_failures_lose_and_repeat_nothing() {
    const ROWS: usize = 150;
    let (admin, url) = migrated_store("admin").await;
    admin.add_all(&rows(ROWS), Default::default()).await.expect("should add");
    let strict = "do $$ begin execute format('alter database %I set default_transaction_isolation = %L',
        current_database(), 'serializable'); end $$";
    let owner = store(&as_role(&url, "tester"), "owner");
    owner.pool().execute(strict).await.expect("should set");
    let workers = ["a", "b", "c"].map(|holder| tokio::spawn(work(store(&url, holder))));
    let (mut all, mut failures) = (Vec::new(), 0);
    for worker in workers {
        let (done, failed) = worker.await.expect("should end");
        all.extend(done);
        failures += failed;
    }
    println!("{failures} serialization failures on the way");
    assert!(failures > 0, "the database should have refused something");
    assert_eq!(all.len(), ROWS, "each row was claimed once");
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), ROWS);
    let left = admin.claim(&any(ROWS)).await.expect("should claim");
    assert!(left.is_empty(), "{left:?}");
}
