//! What a claim costs, next to single-row updates of the same rows of the same Postgres in the same run, and what it
//! costs to add files, with a small and with a large backlog, of one owner and of ten: `cargo bench -p
//! gromacs-submitter --bench claims`.
//!
//! Beside the time that passes stands the processor time of the server's sessions, which a busy machine hardly changes.
//! The server does not wait for its disk, which would hide what a claim costs beside an update; with the large backlog
//! both are measured once more as on a server that does (`fsync`).
//!
//! Ends with an error if a claim, or adding a file, costs more the more rows are queued.

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

use gromacs_submitter::store::{AddMode, Added, ClaimOptions, NewRow, Store};
use postgres::{as_role, migrated_database, store};
use sqlx::Executor as _;

/// Rows that are queued.
const BACKLOGS: [i64; 2] = [1_000, 1_000_000];

/// Owners that share them.
const OWNERS: [i64; 2] = [1, 10];

/// Rows that one claim takes: a submitter with one free hand, and one that has just started.
const SIZES: [usize; 2] = [1, 16];

/// Files in one `add`: one, and those of a chemist's project.
const FILES: [usize; 2] = [1, 500];

/// Everything is measured in turn, so many times, so that whatever else the machine does slows all of it.
const ROUNDS: usize = 25;
const DURABLE_ROUNDS: usize = 5;

/// Single-row updates in a row, and claims of a row each: what waits for an owner at most.
const UPDATES: usize = 20;
const MAX_WAITING: usize = 20;

/// Most that a claim may cost with the large backlog, as a multiple of what it costs with the small one: the trees of
/// the indexes are one or two levels higher, and the rows do not all lie in the processor's cache.
const GROWTH: f64 = 3.0;

/// What one of them took.
#[derive(Debug, Clone, Copy)]
struct Spent {
    passed: Duration,
    /// Processor time of the server's sessions.
    worked: Duration,
}

struct Cost {
    update: Spent,
    /// By the number of rows, as the submitter's role.
    claims: [Spent; SIZES.len()],
    /// By the number of files, as a chemist.
    adds: [Spent; FILES.len()],
}

#[tokio::main]
async fn main() {
    println!(
        "backlog     owners          update      claim of 1          claim of 16         add 1       add 500"
    );
    let mut grown = Vec::new();
    for owners in OWNERS {
        let mut before: Option<Cost> = None;
        for backlog in BACKLOGS {
            let queue = Queue::new(backlog, owners).await;
            let cost = queue.measure(ROUNDS).await;
            print(&backlog.to_string(), owners, &cost);
            if let Some(small) = &before {
                grown.extend(growth(small, &cost, owners));
                queue.set_fsync("on").await;
                print("with fsync", owners, &queue.measure(DURABLE_ROUNDS).await);
                queue.set_fsync("off").await;
            }
            queue.close().await;
            before = Some(cost);
        }
    }
    println!("per cent: rows claimed in a second, of rows updated one by one in a second");
    assert!(grown.is_empty(), "with {} rows instead of {}: {}", BACKLOGS[1], BACKLOGS[0], grown.join("; "));
}

/// What costs more with more rows.
fn growth(small: &Cost, large: &Cost, owners: i64) -> Vec<String> {
    let claims = SIZES.iter().zip(small.claims.iter().zip(&large.claims));
    let adds = FILES.iter().zip(small.adds.iter().zip(&large.adds));
    claims
        .map(|(size, costs)| (format!("a claim of {size}"), costs))
        .chain(adds.map(|(files, costs)| (format!("adding {files}"), costs)))
        .filter_map(|(what, (small, large))| {
            // Of the processor's time: it does not depend on who else was busy when.
            let growth = large.worked.as_secs_f64() / small.worked.as_secs_f64();
            (growth > GROWTH).then(|| format!("{what} with {owners} owners costs {growth:.1} times as much"))
        })
        .collect()
}

fn print(what: &str, owners: i64, cost: &Cost) {
    type Part = fn(&Spent) -> Duration;
    let parts: [(&str, Part); 2] = [("passed", |spent| spent.passed), ("worked", |spent| spent.worked)];
    for (name, part) in parts {
        let update = part(&cost.update);
        print!("{what:<11} {owners:<6}  {name}  {:>7.3} ms", milliseconds(update));
        for (claim, size) in cost.claims.iter().zip(SIZES) {
            let claim = part(claim);
            let rate = 100.0 * update.as_secs_f64() * size as f64 / claim.as_secs_f64();
            print!("  {:>7.3} ms ({rate:>4.0}%)", milliseconds(claim));
        }
        for add in &cost.adds {
            print!("  {:>7.2} ms", milliseconds(part(add)));
        }
        println!();
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// A database with a backlog, and whoever works on it.
struct Queue {
    backlog: i64,
    admin: Store,
    submitter: Store,
    chemist: Store,
}

impl Queue {
    async fn new(backlog: i64, owners: i64) -> Self {
        let url = migrated_database().await;
        let admin = store(&url, "admin");
        let mut load = admin.pool().acquire().await.expect("should connect");
        // Without the triggers, which would write a history of a million lines.
        load.execute("set session_replication_role = replica").await.expect("should switch triggers off");
        for statement in [
            "insert into gromacs_tenant (database_role, namespace, max_rows_in_work)
                select case n when 0 then 'alice' else 'owner-' || n end, 'lab', 1000000
                from generate_series(0, $2 - 1) n where $1 > 0",
            "insert into gromacs_to_tune (owner, namespace, persistent_volume_claim, tpr_path, priority, run_as_user,
                    interruption_after_seconds)
                select case n % $2 when 0 then 'alice' else 'owner-' || n % $2 end, 'lab', 'data',
                    'water/run-' || n || '/topol.tpr', n % 7, 1000, 600
                from generate_series(1, $1) n",
        ] {
            sqlx::query(statement).bind(backlog).bind(owners).execute(&mut *load).await.expect("should insert");
        }
        load.execute("set session_replication_role = origin").await.expect("should switch triggers on");
        load.execute("vacuum analyze gromacs_to_tune").await.expect("should analyse");
        drop(load);
        let submitter = store(&as_role(&url, "submitter"), "submitter");
        let chemist = store(&as_role(&url, "alice"), "alice");
        Self { backlog, admin, submitter, chemist }
    }

    async fn close(self) {
        self.submitter.close().await;
        self.chemist.close().await;
        self.admin.close().await;
    }

    /// Whether the server waits for its disk at each commit, from now on.
    async fn set_fsync(&self, fsync: &'static str) {
        let set = if fsync == "on" { "alter system set fsync = on" } else { "alter system set fsync = off" };
        for statement in ["checkpoint", set, "select pg_reload_conf()"] {
            self.admin.pool().execute(statement).await.expect("should set");
        }
        let shows = || sqlx::query_scalar("show fsync").fetch_one(self.admin.pool());
        while shows().await.is_ok_and(|shown: String| shown != fsync) {
            tokio::task::yield_now().await;
        }
    }

    async fn measure(&self, rounds: usize) -> Cost {
        let mut updates = Vec::new();
        let mut claims = SIZES.map(|_| Vec::new());
        let mut adds = FILES.map(|_| Vec::new());
        for round in 0..rounds {
            updates.push(self.update_single_rows(round).await);
            for (times, size) in claims.iter_mut().zip(SIZES) {
                times.push(self.claim(size).await);
            }
            for (times, files) in adds.iter_mut().zip(FILES) {
                times.push(self.add(files).await);
            }
        }
        Cost {
            update: median(&updates),
            claims: claims.map(|times| median(&times)),
            adds: adds.map(|times| median(&times)),
        }
    }

    async fn begin(&self) -> (Instant, Duration) {
        let worked = self.worked().await;
        (Instant::now(), worked)
    }

    async fn spent(&self, (instant, worked): (Instant, Duration), count: usize) -> Spent {
        let passed = instant.elapsed();
        let count = u32::try_from(count).expect("should be few");
        Spent { passed: passed / count, worked: (self.worked().await - worked) / count }
    }

    /// Processor time that the sessions of submitter and chemist have used.
    async fn worked(&self) -> Duration {
        let sessions: Vec<i32> =
            sqlx::query_scalar("select pid from pg_stat_activity where usename in ('submitter', 'alice')")
                .fetch_all(self.admin.pool())
                .await
                .expect("should list the sessions");
        let nanoseconds = |session: &i32| -> u64 {
            let times = std::fs::read_to_string(format!("/proc/{session}/schedstat"));
            let times = times.expect("should be Linux, and count scheduler statistics");
            times.split_whitespace().next().and_then(|time| time.parse().ok()).expect("should be a number")
        };
        Duration::from_nanos(sessions.iter().map(nanoseconds).sum())
    }

    /// The same columns that a claim writes, each row in a transaction of its own. Returns what one costs.
    async fn update_single_rows(&self, round: usize) -> Spent {
        let count = i64::try_from(UPDATES).expect("should be few");
        let first = i64::try_from(round).expect("should be few") * count % (self.backlog - count);
        let begun = self.begin().await;
        for id in first..first + count {
            sqlx::query("update gromacs_to_tune set lease_holder = $2, lease_until = now() where id = $1")
                .bind(self.backlog - id)
                .bind("bench")
                .execute(self.submitter.pool())
                .await
                .expect("should update");
        }
        let each = self.spent(begun, UPDATES).await;
        sqlx::query(
            "update gromacs_to_tune set lease_holder = null, lease_until = null where lease_holder = 'bench'
                and id between $1 and $2",
        )
        .bind(self.backlog - first - count)
        .bind(self.backlog - first)
        .execute(self.submitter.pool())
        .await
        .expect("should undo it");
        each
    }

    /// One claim after the other, as long as there is room for an owner's rows. Returns what one costs.
    async fn claim(&self, size: usize) -> Spent {
        let count = MAX_WAITING / size;
        let mut options =
            ClaimOptions { limit: size, except: Vec::new(), max_waiting: MAX_WAITING, early: false };
        let begun = self.begin().await;
        for _ in 0..count {
            let claims = self.submitter.claim(&options).await.expect("should claim");
            assert_eq!(claims.len(), size, "should find rows");
            options.except.extend(claims.iter().map(|claim| claim.row.id));
        }
        let each = self.spent(begun, count).await;
        // They are done at once, and others come, so that the next claim finds as many rows and as much room.
        for statement in [
            "update gromacs_to_tune set state = 'completed', lease_holder = null, lease_until = null
                where id = any($1)",
            "insert into gromacs_to_tune (owner, namespace, persistent_volume_claim, tpr_path, priority)
                select owner, namespace, persistent_volume_claim, tpr_path, priority from gromacs_to_tune
                where id = any($1)",
        ] {
            sqlx::query(statement)
                .bind(&options.except)
                .execute(self.admin.pool())
                .await
                .expect("should go on");
        }
        each
    }

    /// Files that have no row yet, as `add --dry-run` does: everything but the commit.
    async fn add(&self, files: usize) -> Spent {
        let row = |number| NewRow {
            namespace: "lab".to_owned(),
            persistent_volume_claim: "data".to_owned(),
            tpr_path: format!("water/new-{number}/topol.tpr"),
            ..NewRow::default()
        };
        let rows: Vec<NewRow> = (0..files).map(row).collect();
        let mode = AddMode { dry_run: true, ..AddMode::default() };
        let begun = self.begin().await;
        let (fates, _) = self.chemist.add_all(&rows, mode).await.expect("should add");
        let time = self.spent(begun, 1).await;
        assert!(fates.iter().all(|fate| matches!(fate, Added::Row(_))), "should be new");
        time
    }
}

/// Of each by itself.
fn median(times: &[Spent]) -> Spent {
    let middle = |part: fn(&Spent) -> Duration| {
        let mut times: Vec<Duration> = times.iter().map(part).collect();
        times.sort_unstable();
        times[times.len() / 2]
    };
    Spent { passed: middle(|spent| spent.passed), worked: middle(|spent| spent.worked) }
}
