//! Which rows a claim takes, against a second statement of the same rule; what it reads; whom it holds up.

mod postgres;
mod rows;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use gromacs_submitter::store::{ClaimOptions, NewRow, Store};
use postgres::{as_role, migrated_database, migrated_store, store};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use rows::any;
use sqlx::Row as _;

/// Databases' worth of rows that are compared.
const CASES: u64 = 40;

const STATES: [&str; 9] = [
    "queued",
    "queued",
    "queued",
    "inspecting",
    "submitted",
    "running",
    "interrupted",
    "completed",
    "failed",
];

/// A row as far as claims look at it.
#[derive(Debug)]
struct Waiting {
    id: i64,
    owner: String,
    namespace: String,
    priority: i32,
    state: &'static str,
    /// It waits for something of its own.
    blocked: bool,
    /// Seconds until it is due; no two rows have the same.
    due_in: i64,
    failures: i32,
    /// Whose lease it is, and whether it holds.
    lease: Option<(&'static str, bool)>,
    cancel_requested: bool,
    retry_requested: bool,
    /// Seconds until its ScavengerJob is removed; no two rows have the same.
    expires_in: Option<i64>,
}

impl Waiting {
    fn random(id: i64, random: &mut SmallRng) -> Self {
        let state = STATES[random.random_range(0..STATES.len())];
        let ended = matches!(state, "completed" | "failed");
        let sign = if random.random_bool(0.7) { -1 } else { 1 };
        Self {
            id,
            owner: format!("owner-{}", random.random_range(0..3)),
            namespace: format!("lab-{}", random.random_range(0..2)),
            priority: random.random_range(0..3),
            state,
            blocked: matches!(state, "inspecting" | "submitted" | "interrupted") && random.random_bool(0.4),
            due_in: sign * (1000 + id),
            failures: i32::from(random.random_bool(0.2)),
            lease: random
                .random_bool(0.3)
                .then(|| (if random.random_bool(0.5) { "a" } else { "b" }, random.random_bool(0.5))),
            cancel_requested: random.random_bool(0.1),
            retry_requested: state == "failed" && random.random_bool(0.5),
            expires_in: (ended && random.random_bool(0.5)).then(|| sign * (1000 + id)),
        }
    }

    fn is_queued(&self) -> bool {
        self.state == "queued"
    }

    fn is_due(&self, early: bool) -> bool {
        self.due_in <= 0 || (early && self.failures == 0)
    }

    /// Nobody works on it.
    fn is_free(&self, busy: &[i64]) -> bool {
        !busy.contains(&self.id) && self.lease.is_none_or(|(holder, holds)| holder == "a" || !holds)
    }

    /// It takes one of its owner's places in the cluster, or soon will.
    fn is_in_work(&self, busy: &[i64]) -> bool {
        match self.state {
            "queued" => self.lease.is_some_and(|(_, holds)| holds) && !self.is_free(busy),
            state => !matches!(state, "completed" | "failed"),
        }
    }
}

/// The rule once more, row by row.
fn expected(
    rows: &[Waiting],
    limits: &BTreeMap<(String, String), i64>,
    busy: &[i64],
    options: &ClaimOptions,
) -> Vec<i64> {
    let mut taken: Vec<i64> = Vec::new();
    let add = |taken: &mut Vec<i64>, mut found: Vec<(i64, i64)>| {
        found.sort_unstable();
        taken.extend(found.into_iter().map(|(_, id)| id));
        taken.truncate(options.limit);
    };
    let free = || rows.iter().filter(|row| row.is_free(busy));

    let asked = |row: &&Waiting| options.early || row.due_in <= 0;
    let has_ended = |row: &&Waiting| matches!(row.state, "completed" | "failed");
    let cancels = free().filter(asked).filter(|row| row.cancel_requested && !has_ended(row));
    add(&mut taken, cancels.map(|row| (0, row.id)).collect());
    add(&mut taken, free().filter(asked).filter(|row| row.retry_requested).map(|row| (0, row.id)).collect());

    let mut active: Vec<(i64, i64)> = free()
        .filter(|row| {
            row.is_due(options.early)
                && matches!(row.state, "inspecting" | "submitted" | "running" | "interrupted")
                && !taken.contains(&row.id)
        })
        .map(|row| (row.due_in, row.id))
        .collect();
    active.sort_unstable();
    let left = options.limit - taken.len();
    // A quarter, or one of two, is for new rows.
    let share = if left >= 2 { (left / 4).max(1) } else { 0 };
    let later = active.split_off(active.len().min(left - share));
    add(&mut taken, active);

    let mut queued: Vec<&Waiting> = free()
        .filter(|row| row.is_queued() && row.is_due(options.early) && !taken.contains(&row.id))
        .collect();
    queued.sort_by_key(|row| (-row.priority, row.id));
    let mut turns = Vec::new();
    let (mut of_owner, mut of_tenant) = (BTreeMap::new(), BTreeMap::new());
    for row in queued {
        let waits = |other: &&Waiting| other.owner == row.owner && other.is_in_work(busy);
        let waiting: Vec<&Waiting> =
            rows.iter().filter(waits).filter(|other| other.state != "running").collect();
        let count = waiting.iter().filter(|other| !other.blocked).count();
        let waiting = count.max(waiting.len().saturating_sub(9 * options.max_waiting));
        let tenant = (row.owner.clone(), row.namespace.clone());
        let in_work = rows.iter().filter(waits).filter(|other| other.namespace == row.namespace).count();
        let begun: &mut usize = of_tenant.entry(tenant.clone()).or_default();
        if limits.get(&tenant).is_some_and(|most| i64::try_from(in_work + *begun).expect("few") >= *most) {
            continue;
        }
        *begun += 1;
        let turn: &mut usize = of_owner.entry(&row.owner).or_insert(waiting);
        *turn += 1;
        if *turn <= options.max_waiting {
            turns.push((i64::try_from(*turn).expect("few"), row.id));
        }
    }
    add(&mut taken, turns);
    add(&mut taken, later);

    let ended = free().filter(|row| {
        row.is_due(options.early) && row.expires_in.is_some_and(|time| time <= 0) && !taken.contains(&row.id)
    });
    let expired = ended.map(|row| (row.expires_in.unwrap_or_default(), row.id)).collect();
    add(&mut taken, expired);
    taken
}

async fn insert(admin: &Store, rows: &[Waiting], limits: &BTreeMap<(String, String), i64>) {
    let mut connection = admin.pool().acquire().await.expect("should connect");
    // Without the triggers, which would set what the rows are to begin with.
    for statement in
        ["set session_replication_role = replica", "truncate gromacs_to_tune, gromacs_tenant cascade"]
    {
        sqlx::query(statement).execute(&mut *connection).await.expect("should prepare");
    }
    for owner in 0..3 {
        for namespace in 0..2 {
            let tenant = (format!("owner-{owner}"), format!("lab-{namespace}"));
            sqlx::query(
                "insert into gromacs_tenant (database_role, namespace, max_rows_in_work) values ($1, $2, $3)",
            )
            .bind(&tenant.0)
            .bind(&tenant.1)
            .bind(limits.get(&tenant).and_then(|most| i32::try_from(*most).ok()))
            .execute(&mut *connection)
            .await
            .expect("should insert");
        }
    }
    for row in rows {
        sqlx::query(
            "insert into gromacs_to_tune (id, owner, namespace, persistent_volume_claim, tpr_path, run_as_user,
                interruption_after_seconds, priority, state, next_attempt_time, failures, lease_holder, lease_until,
                cancel_requested, retry_requested, job_expiry_time, blocked)
            overriding system value values ($1, $2, $3, 'data', 'x.tpr', 1000, 600, $4, $5,
                now() + make_interval(secs => $6), $7, $8, now() + make_interval(secs => $9), $10, $11,
                now() + make_interval(secs => $12), $13)",
        )
        .bind(row.id)
        .bind(&row.owner)
        .bind(&row.namespace)
        .bind(row.priority)
        .bind(row.state)
        .bind(row.due_in as f64)
        .bind(row.failures)
        .bind(row.lease.map(|(holder, _)| holder))
        .bind(row.lease.map(|(_, holds)| if holds { 1000.0 } else { -1000.0 }))
        .bind(row.cancel_requested)
        .bind(row.retry_requested)
        .bind(row.expires_in.map(|seconds| seconds as f64))
        .bind(row.blocked)
        .execute(&mut *connection)
        .await
        .expect("should insert");
    }
    sqlx::query("set session_replication_role = origin").execute(&mut *connection).await.expect("should end");
}

#[tokio::test]
async fn a_claim_takes_what_the_rule_says() {
    let (submitter, url) = migrated_store("a").await;
    let admin = store(&as_role(&url, "tester"), "admin");
    let mut kinds = BTreeSet::new();
    for seed in 0..CASES {
        let mut random = SmallRng::seed_from_u64(seed);
        let count = random.random_range(1..60);
        let rows: Vec<Waiting> = (1..=count).map(|id| Waiting::random(id, &mut random)).collect();
        let mut limits = BTreeMap::new();
        for tenant in rows.iter().map(|row| (row.owner.clone(), row.namespace.clone())) {
            if random.random_bool(0.1) {
                limits.insert(tenant, random.random_range(0..8));
            }
        }
        let own = rows.iter().filter(|row| row.lease == Some(("a", true)));
        let busy: Vec<i64> = own.map(|row| row.id).filter(|_| random.random_bool(0.5)).collect();
        let options = ClaimOptions {
            limit: if random.random_bool(0.3) { 1 } else { random.random_range(1..40) },
            except: busy.clone(),
            max_waiting: random.random_range(0..12),
            early: random.random_bool(0.3),
        };
        insert(&admin, &rows, &limits).await;
        let mut would: Vec<i64> = submitter
            .would_claim(&options)
            .await
            .expect("should ask")
            .iter()
            .map(|claim| claim.row.id)
            .collect();
        let claims = submitter.claim(&options).await.expect("should claim");
        let claimed: BTreeSet<i64> = claims.iter().map(|claim| claim.row.id).collect();
        let expected = expected(&rows, &limits, &busy, &options);
        let of = |id: &i64| rows.iter().find(|row| row.id == *id).expect("should be one of them");
        assert_eq!(
            claimed,
            expected.iter().copied().collect(),
            "seed {seed}, {options:?}, {limits:?}, {rows:#?}"
        );
        let goes_on = |id: &i64| !matches!(of(id).state, "completed" | "failed") || of(id).retry_requested;
        would.extend(claimed.iter().filter(|id| !goes_on(id)));
        assert_eq!(
            would.into_iter().collect::<BTreeSet<_>>(),
            claimed,
            "seed {seed}: the dry run tells the same"
        );
        kinds.extend(expected.iter().map(|id| of(id).state));
    }
    assert_eq!(kinds, STATES.into_iter().collect(), "rows of every kind should have been taken");
}

/// Rows in work that nobody keeps up with, an old cancel behind them all, and a new row.
#[tokio::test]
async fn neither_requests_nor_new_rows_wait_behind_rows_in_work() {
    let (submitter, url) = migrated_store("a").await;
    let admin = store(&as_role(&url, "tester"), "admin");
    let rows: Vec<Waiting> = (1..=60)
        .map(|id| Waiting {
            id,
            owner: "owner-0".to_owned(),
            namespace: "lab-0".to_owned(),
            priority: 0,
            state: if id == 60 { "queued" } else { "running" },
            blocked: false,
            // The one that is to be cancelled has only just become due.
            due_in: if id >= 59 { -1 } else { -1000 - id },
            failures: 0,
            lease: None,
            cancel_requested: id == 59,
            retry_requested: false,
            expires_in: None,
        })
        .collect();
    insert(&admin, &rows, &BTreeMap::new()).await;
    let options = ClaimOptions { limit: 4, except: Vec::new(), max_waiting: 20, early: false };
    let claims = submitter.claim(&options).await.expect("should claim");
    let claimed: BTreeSet<i64> = claims.iter().map(|claim| claim.row.id).collect();
    assert_eq!(claimed, [57, 58, 59, 60].into());
}

#[tokio::test]
async fn a_row_that_is_held_is_not_begun_until_it_is_released() {
    let (submitter, _) = migrated_store("a").await;
    for (name, held) in [("a.tpr", Some(true)), ("b.tpr", None)] {
        let row = NewRow {
            namespace: "lab".to_owned(),
            persistent_volume_claim: "data".to_owned(),
            tpr_path: name.to_owned(),
            held,
            ..NewRow::default()
        };
        submitter.add(&row).await.expect("should add");
    }
    let early = ClaimOptions { early: true, ..any(10) };
    let ids = |claims: Vec<gromacs_submitter::store::Claim>| -> Vec<i64> {
        claims.iter().map(|claim| claim.row.id).collect()
    };
    assert_eq!(ids(submitter.claim(&early).await.expect("should claim")), [2]);
    sqlx::query("update gromacs_to_tune set held = false where id = 1")
        .execute(submitter.pool())
        .await
        .expect("should release");
    let busy = ClaimOptions { except: vec![2], ..any(10) };
    assert_eq!(ids(submitter.claim(&busy).await.expect("should claim")), [1]);
}

/// What a plan thinks of the rows is what there was when it was made.
#[tokio::test]
async fn a_claim_never_reads_the_backlog() {
    const ROWS: i64 = 20_000;
    let (submitter, url) = migrated_store("a").await;
    let mut connection = submitter.pool().acquire().await.expect("should connect");
    let claim = "select id from gromacs_claim('a', 60, '{}', 4, false, 1000)";
    // Planned while there is nothing.
    for _ in 0..10 {
        let found = sqlx::query(claim).fetch_all(&mut *connection).await.expect("should claim");
        assert!(found.is_empty());
    }
    let admin = store(&as_role(&url, "tester"), "admin");
    sqlx::query(
        "insert into gromacs_to_tune (owner, namespace, persistent_volume_claim, tpr_path, priority)
        select case when n % 4 = 0 then 'poor' else 'rich' end, 'lab', 'data', n || '.tpr', n % 7
        from generate_series(1, $1) n",
    )
    .bind(ROWS)
    .execute(admin.pool())
    .await
    .expect("should insert");
    for statement in [claim, "select id from gromacs_claim('a', 60, '{}', 1, true, 1000)"] {
        let mut transaction = sqlx::Connection::begin(&mut *connection).await.expect("should begin");
        let found = sqlx::query(statement).fetch_all(&mut *transaction).await.expect("should claim");
        assert!(!found.is_empty());
        let read = sqlx::query(
            "select coalesce(seq_tup_read, 0), coalesce(idx_tup_fetch, 0) from pg_stat_xact_user_tables
            where relname = 'gromacs_to_tune'",
        )
        .fetch_one(&mut *transaction)
        .await
        .expect("should ask");
        let (by_reading, by_index): (i64, i64) = (read.get(0), read.get(1));
        assert!(by_index > 0 && by_reading + by_index < 100, "{statement}: {by_reading} and {by_index} rows");
        transaction.rollback().await.expect("should end");
    }
}

/// A submitter that takes as many rows of an owner as may wait, and dies, leaves their leases behind.
#[tokio::test]
async fn rows_of_a_submitter_that_is_gone_do_not_hold_up_their_owner() {
    let (gone, url) = migrated_store("gone").await;
    for number in 0..8 {
        let row = NewRow {
            namespace: "lab".to_owned(),
            persistent_volume_claim: "data".to_owned(),
            tpr_path: format!("{number}.tpr"),
            ..NewRow::default()
        };
        gone.add(&row).await.expect("should add");
    }
    let four = ClaimOptions { max_waiting: 4, ..any(100) };
    let ids = |claims: Vec<gromacs_submitter::store::Claim>| -> HashSet<i64> {
        claims.iter().map(|claim| claim.row.id).collect()
    };
    let left = ids(gone.claim(&four).await.expect("should claim"));
    assert_eq!(left.len(), 4);
    let next = store(&url, "next");
    assert!(next.claim(&four).await.expect("should claim").is_empty(), "four wait");
    // The time of a lease.
    sqlx::query(
        "update gromacs_to_tune set lease_until = now() - interval '1 second' where lease_holder = 'gone'",
    )
    .execute(gone.pool())
    .await
    .expect("should end the leases");
    assert_eq!(ids(next.claim(&four).await.expect("should claim")), left);
}

/// Files on a volume that nobody provides: they wait for it, and what can run goes on.
#[tokio::test]
async fn rows_that_wait_for_something_of_their_own_do_not_hold_up_their_owner() {
    let (submitter, url) = migrated_store("a").await;
    let admin = store(&as_role(&url, "tester"), "admin");
    let rows = |waiting: i64, blocked: bool| -> Vec<Waiting> {
        let row = |id: i64| Waiting {
            id,
            owner: "owner-0".to_owned(),
            namespace: "lab-0".to_owned(),
            priority: 0,
            state: if id <= waiting { "submitted" } else { "queued" },
            blocked: blocked && id <= waiting,
            due_in: if id <= waiting { 1000 + id } else { -id },
            failures: 0,
            lease: None,
            cancel_requested: false,
            retry_requested: false,
            expires_in: None,
        };
        (1..=waiting + 1).map(row).collect()
    };
    submitter.is_alive(4).await.expect("should be seen");
    // Four may wait; ten times as many that are blocked are too many objects in the cluster.
    for (waiting, blocked, begins, words) in [
        (4, false, false, "4 rows of owner-0 wait in the cluster"),
        (4, true, true, ""),
        (39, true, true, ""),
        (40, true, false, "40 rows of owner-0 wait in the cluster, most of them for something of their own"),
    ] {
        insert(&admin, &rows(waiting, blocked), &BTreeMap::new()).await;
        let why: Option<String> = sqlx::query_scalar("select gromacs_turn('owner-0', 'lab-0')")
            .fetch_one(submitter.pool())
            .await
            .expect("should say why");
        let why = why.unwrap_or_default();
        assert_eq!(why.is_empty(), begins, "{waiting} {blocked}: {why}");
        assert!(why.starts_with(words), "{waiting} {blocked}: {why}");
        let four = ClaimOptions { max_waiting: 4, ..any(100) };
        let claimed = submitter.claim(&four).await.expect("should claim");
        assert_eq!(claimed.len(), usize::from(begins), "{waiting} {blocked}");
    }
}

/// As a newer submitter may have added them after its migration.
#[tokio::test]
async fn a_row_of_an_unknown_kind_holds_up_no_other() {
    let url = migrated_database().await;
    let (admin, submitter) = (store(&url, "admin"), store(&as_role(&url, "worker"), "a"));
    let tenant = "insert into gromacs_tenant (database_role, namespace) values ('worker', 'lab')";
    sqlx::query(tenant).execute(admin.pool()).await.expect("should add a tenant");
    let row = |tpr_path: &str| NewRow {
        namespace: "lab".to_owned(),
        persistent_volume_claim: "data".to_owned(),
        tpr_path: tpr_path.to_owned(),
        ..NewRow::default()
    };
    let unknown = submitter.add(&row("ensemble.tpr")).await.expect("should add");
    let known = submitter.add(&row("x.tpr")).await.expect("should add");
    for statement in [
        "alter table gromacs_to_tune drop constraint gromacs_to_tune_kind_valid",
        "update gromacs_to_tune set kind = 'ensemble' where tpr_path = 'ensemble.tpr'",
    ] {
        sqlx::query(statement).execute(admin.pool()).await.expect("should change it");
    }
    assert!(unknown < known, "it is the first in line");
    let claimed = submitter.claim(&any(10)).await.expect("should claim");
    assert_eq!(claimed.iter().map(|claim| claim.row.id).collect::<Vec<_>>(), [known]);
}
