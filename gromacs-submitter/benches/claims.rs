//! What a claim costs, next to single-row updates of the same rows of the same Postgres in the same run, with a small
//! and with a large backlog, of one owner and of ten: `cargo bench -p gromacs-submitter`.
//!
//! Ends with an error if a claim costs more the more rows are queued.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program that measures"
)]
#![allow(missing_docs, reason = "a program")]

#[path = "../tests/postgres/mod.rs"]
mod postgres;

use std::time::{Duration, Instant};

use gromacs_submitter::store::{ClaimOptions, Store};
use postgres::{as_role, migrated_database, store};
use sqlx::Executor as _;

/// Rows that are queued.
const BACKLOGS: [i64; 2] = [1_000, 1_000_000];

/// Owners that share them.
const OWNERS: [i64; 2] = [1, 10];

/// Rows that one claim takes: a submitter with one free hand, and one that has just started.
const SIZES: [usize; 2] = [1, 16];

/// Everything is measured in turn, so many times, so that whatever else the machine does slows all of it.
const ROUNDS: usize = 25;

/// Single-row updates in a round, and claims of each size.
const UPDATES: usize = 40;
const CLAIMS: usize = 2;

/// Most that a claim may cost with the large backlog, as a multiple of what it costs with the small one: the trees of
/// the indexes are one or two levels higher, and the rows do not all lie in the processor's cache.
const GROWTH: f64 = 3.0;

struct Cost {
    update: Duration,
    /// By the number of rows, as the submitter's role.
    claims: [Duration; SIZES.len()],
    /// Of most rows, as a role that no policy binds.
    without_policies: Duration,
}

#[tokio::main]
async fn main() {
    println!(
        "backlog    owners  update    claim of 1             claim of 16               without policies"
    );
    let mut grown = Vec::new();
    for owners in OWNERS {
        let mut before: Option<Cost> = None;
        for backlog in BACKLOGS {
            let cost = measure(backlog, owners).await;
            println!(
                "{backlog:<9}  {owners:<6}  {:>5.2} ms  {}  {}  {:>5.2} ms",
                milliseconds(cost.update),
                rate(&cost, 0),
                rate(&cost, 1),
                milliseconds(cost.without_policies)
            );
            if let Some(small) = before.replace(cost) {
                let large = before.as_ref().expect("was just set");
                for (index, size) in SIZES.iter().enumerate() {
                    let growth = large.claims[index].as_secs_f64() / small.claims[index].as_secs_f64();
                    if growth > GROWTH {
                        grown.push(format!(
                            "a claim of {size} with {owners} owners costs {growth:.1} times as much"
                        ));
                    }
                }
            }
        }
    }
    println!("per cent: rows claimed in a second, of rows updated one by one in a second");
    assert!(grown.is_empty(), "with {} rows instead of {}: {}", BACKLOGS[1], BACKLOGS[0], grown.join("; "));
}

/// A claim of [`SIZES`] `index`, and its rows against single updates.
fn rate(cost: &Cost, index: usize) -> String {
    let rows = u32::try_from(SIZES[index]).expect("should be few");
    let per_row = cost.claims[index] / rows;
    format!(
        "{:>5.2} ms, {:>6.0} rows/s ({:>3.0}%)",
        milliseconds(cost.claims[index]),
        1.0 / per_row.as_secs_f64(),
        100.0 * cost.update.as_secs_f64() / per_row.as_secs_f64()
    )
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

async fn measure(backlog: i64, owners: i64) -> Cost {
    let url = migrated_database().await;
    let admin = store(&url, "admin");
    let mut load = admin.pool().acquire().await.expect("should connect");
    // Without the triggers, which would write a history of a million lines.
    load.execute("set session_replication_role = replica").await.expect("should switch triggers off");
    for statement in [
        "insert into gromacs_tenant (database_role, namespace, max_rows_in_work)
            select 'owner-' || n, 'lab', 1000000 from generate_series(1, $2) n where $1 > 0",
        "insert into gromacs_to_tune (owner, namespace, persistent_volume_claim, tpr_path, priority, run_as_user,
                interruption_after_seconds)
            select 'owner-' || 1 + n % $2, 'lab', 'data', n || '.tpr', n % 7, 1000, 600
            from generate_series(1, $1) n",
    ] {
        sqlx::query(statement).bind(backlog).bind(owners).execute(&mut *load).await.expect("should insert");
    }
    load.execute("set session_replication_role = origin").await.expect("should switch triggers on");
    load.execute("vacuum analyze gromacs_to_tune").await.expect("should analyse");
    drop(load);

    let submitter = store(&as_role(&url, "submitter"), "submitter");
    let (mut updates, mut without_policies) = (Vec::new(), Vec::new());
    let mut claims = SIZES.map(|_| Vec::new());
    for round in 0..ROUNDS {
        updates.push(update_single_rows(&submitter, backlog, round).await);
        for (times, size) in claims.iter_mut().zip(SIZES) {
            for _ in 0..CLAIMS {
                times.push(claim(&submitter, &admin, size).await);
            }
        }
        without_policies.push(claim(&admin, &admin, SIZES[1]).await);
    }
    submitter.close().await;
    admin.close().await;
    Cost { update: median(updates), claims: claims.map(median), without_policies: median(without_policies) }
}

/// The same columns that a claim writes, each row in a transaction of its own. Returns what one costs.
async fn update_single_rows(submitter: &Store, backlog: i64, round: usize) -> Duration {
    let count = i64::try_from(UPDATES).expect("should be few");
    let first = i64::try_from(round).expect("should be few") * count % (backlog - count);
    let begun = Instant::now();
    for id in first..first + count {
        sqlx::query("update gromacs_to_tune set lease_holder = $2, lease_until = now() where id = $1")
            .bind(backlog - id)
            .bind("bench")
            .execute(submitter.pool())
            .await
            .expect("should update");
    }
    let each = begun.elapsed() / u32::try_from(UPDATES).expect("should be few");
    sqlx::query(
        "update gromacs_to_tune set lease_holder = null, lease_until = null where lease_holder = 'bench'
            and id between $1 and $2",
    )
    .bind(backlog - first - count)
    .bind(backlog - first)
    .execute(submitter.pool())
    .await
    .expect("should undo it");
    each
}

async fn claim(store: &Store, admin: &Store, size: usize) -> Duration {
    let options = ClaimOptions { limit: size, except: Vec::new(), max_waiting: 20, early: false };
    let begun = Instant::now();
    let claims = store.claim(&options).await.expect("should claim");
    let time = begun.elapsed();
    assert_eq!(claims.len(), size, "should find rows");
    // They are done at once, and others come, so that the next claim finds as many rows and as much room as this one.
    let rows: Vec<i64> = claims.iter().map(|claim| claim.row.id).collect();
    for statement in [
        "update gromacs_to_tune set state = 'completed', lease_holder = null, lease_until = null
            where id = any($1)",
        "insert into gromacs_to_tune (owner, namespace, persistent_volume_claim, tpr_path, priority)
            select owner, namespace, persistent_volume_claim, tpr_path, priority from gromacs_to_tune
            where id = any($1)",
    ] {
        sqlx::query(statement).bind(&rows).execute(admin.pool()).await.expect("should go on");
    }
    time
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
