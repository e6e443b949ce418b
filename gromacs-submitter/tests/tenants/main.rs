//! Who may what, on a real Postgres: every test speaks as the roles that people and programs have.

#![allow(clippy::too_many_lines, reason = "a story is told in one piece")]

mod calibrations;
mod cards;
mod ensembles;
mod limits;
mod migrations;
#[path = "../postgres/mod.rs"]
mod postgres;
#[path = "../program/mod.rs"]
mod program;
mod requests;
#[path = "../rows/mod.rs"]
mod rows;

use gromacs_submitter::advance::{Measurement, Observation, with_failure};
use gromacs_submitter::probe::parse_inspection;
use gromacs_submitter::store::{
    AddMode, Added, Answer, Change, Changes, Claim, ClaimOptions, NewRow, Removal, RowFilter, Store,
    StoreError, Tenant,
};
use postgres::{as_role, migrated_database, store};
use program::{Program, text};
use rows::{any, rung};
use scavenger_schema::simulation::{RowStatus, State};
use sqlx::{Connection as _, Executor as _, PgConnection};

const ANSWER: &str = include_str!("../fixtures/inspection-2022.txt");

/// A queue with two tenants: alice in `chem`, bob in `phys`.
#[derive(Clone)]
struct Queue {
    url: String,
    admin: Store,
    submitter: Store,
    alice: Store,
    bob: Store,
}

impl Queue {
    async fn new() -> Self {
        let url = migrated_database().await;
        let queue = Self {
            admin: store(&url, "admin"),
            submitter: store(&as_role(&url, "submitter"), "submitter"),
            alice: store(&as_role(&url, "alice"), "alice"),
            bob: store(&as_role(&url, "bob"), "bob"),
            url,
        };
        for (role, namespace) in [("alice", "chem"), ("bob", "phys")] {
            let change = queue.admin.add_tenant(&tenant(role, namespace), false).await;
            assert_eq!(change.expect("should add a tenant"), Change::Added);
        }
        queue
    }

    /// A connection of a role, for plain SQL.
    async fn connect(&self, role: &str) -> PgConnection {
        PgConnection::connect(&as_role(&self.url, role)).await.expect("should log in")
    }

    /// Claims the only row that is due.
    async fn claim(&self) -> Claim {
        let mut claims = self.submitter.claim(&any(10)).await.expect("should claim");
        assert_eq!(claims.len(), 1, "should find a row that is due");
        claims.remove(0)
    }

    /// Takes alice's new row to its end.
    async fn fail(&self, claim: &Claim) {
        let status = with_failure(
            &claim.row,
            "no such file".to_owned(),
            std::time::Duration::MAX,
            jiff::Timestamp::UNIX_EPOCH,
        );
        let releases = Changes { releases: true, ..Changes::default() };
        self.submitter.record(claim, &status, &releases).await.expect("should record");
    }
}

fn tenant(role: &str, namespace: &str) -> Tenant {
    Tenant { database_role: role.to_owned(), namespace: namespace.to_owned(), ..Tenant::default() }
}

fn new_row(namespace: &str) -> NewRow {
    NewRow {
        namespace: namespace.to_owned(),
        persistent_volume_claim: "data".to_owned(),
        tpr_path: "x.tpr".to_owned(),
        ..NewRow::default()
    }
}

/// What is due beside a row that is worked on.
fn others(claim: &Claim) -> ClaimOptions {
    ClaimOptions { except: vec![claim.row.id], ..any(10) }
}

/// Runs a statement that must be refused; returns the sentence.
async fn refused(connection: &mut PgConnection, statement: &'static str) -> String {
    let error = connection.execute(statement).await.expect_err(statement);
    StoreError::from(error).to_string()
}

async fn count(connection: &mut PgConnection, from: &str) -> i64 {
    let statement = sqlx::AssertSqlSafe(format!("select count(*) from {from}"));
    sqlx::query_scalar(statement).fetch_one(connection).await.expect(from)
}

const TABLES: [&str; 5] =
    ["gromacs_to_tune", "gromacs_ladder", "gromacs_attempt", "gromacs_event", "gromacs_observation"];

/// Writes one line into each dependent table of a row, as the submitter does.
async fn a_life(queue: &Queue, claim: Claim) -> Claim {
    let mut status = RowStatus { state: State::Tuning, ..claim.row.status.clone() };
    let changes = Changes { inspection: parse_inspection(ANSWER).ok(), ..Changes::default() };
    let claim = queue.submitter.record(&claim, &status, &changes).await.expect("should inspect");
    status.state = State::Submitted;
    status.rung = Some(1);
    let changes = Changes { ladder: Some(vec![rung(1, 1000)]), ..Changes::default() };
    let claim = queue.submitter.record(&claim, &status, &changes).await.expect("should tune");
    // Twice: the second replaces the first.
    let claim = queue.submitter.record(&claim, &status, &changes).await.expect("should tune again");
    status.state = State::Running;
    let observation = Observation {
        attempt: 1,
        system: claim.row.system.description().expect("should have atoms"),
        rung: 1,
        place: None,
        measured: Some(Measurement { ns_per_day: 41.5, steps: 4000, wall_seconds: 60.0 }),
        peak_memory_bytes: None,
        killed_for_memory: false,
    };
    let changes = Changes { observations: vec![observation], ..Changes::default() };
    let claim = queue.submitter.record(&claim, &status, &changes).await.expect("should observe");
    sqlx::query(
        "insert into gromacs_attempt (row_id, submission, attempt, creation_time) values ($1, 1, 1, now())",
    )
    .bind(claim.row.id)
    .execute(queue.submitter.pool())
    .await
    .expect("should write down an attempt");
    claim
}

#[tokio::test]
async fn the_submitters_role_is_enough_for_a_whole_life() {
    let queue = Queue::new().await;
    let id = queue.alice.add(&new_row("chem")).await.expect("should add");
    queue.submitter.check_schema().await.expect("should see the version");
    queue.submitter.queue_id().await.expect("should have an identity");
    queue.submitter.listen().await.expect("should listen");
    let claim = queue.claim().await;
    let mut claim = a_life(&queue, claim).await;
    queue.submitter.wake(&[id]).await.expect("should wake");
    queue.submitter.next_due(std::time::Duration::ZERO).await.expect("should ask");
    assert_eq!(queue.submitter.namespaces().await.expect("should ask"), ["chem"]);
    assert_eq!(queue.submitter.ladder(id, 1).await.expect("should read"), [rung(1, 1000)]);
    assert_eq!(queue.submitter.count_by_state().await.expect("should count").len(), 1);
    claim.row.status.state = State::Running;
    queue.fail(&claim).await;
    assert!(queue.alice.request_retry(&[id]).await.expect("should ask").len() == 1);
    let claim = queue.claim().await;
    let status = RowStatus { state: State::Queued, submission: 2, ..claim.row.status.clone() };
    let changes = Changes { clears_requests: true, releases: true, ..Changes::default() };
    queue.submitter.record(&claim, &status, &changes).await.expect("should take the request back");
    queue.submitter.release_all().await.expect("should release");
    let story = queue.alice.show(id).await.expect("should ask").expect("should be hers");
    assert_eq!(story["events"].as_array().map(Vec::len), Some(7), "{:#}", story["events"]);
    assert!(story.to_string().contains("retry requested by alice"), "{story:#}");
}

#[tokio::test]
async fn the_submitters_role_may_nothing_else() {
    let queue = Queue::new().await;
    queue.alice.add(&new_row("chem")).await.expect("should add");
    let mut submitter = queue.connect("submitter").await;
    for statement in [
        "insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path) values ('chem', 'd', 'x.tpr')",
        "delete from gromacs_to_tune",
        "truncate gromacs_to_tune",
        "insert into gromacs_tenant (database_role, namespace) values ('submitter', 'chem')",
        "update gromacs_tenant set max_rows_in_work = 1",
        "update gromacs_event set message = 'x'",
        "delete from gromacs_event",
        "delete from gromacs_observation",
        "update gromacs_queue_identity set queue_id = 'x'",
        "delete from _sqlx_migrations",
        "alter table gromacs_to_tune disable row level security",
        "alter table gromacs_to_tune disable trigger gromacs_refuse_change",
        "drop table gromacs_event",
        "create role mallory",
        "set role tester",
    ] {
        let sentence = refused(&mut submitter, statement).await;
        assert!(sentence.contains("permission denied") || sentence.contains("must be owner"), "{sentence}");
    }
    for statement in [
        "update gromacs_to_tune set owner = 'bob'",
        "update gromacs_to_tune set namespace = 'phys'",
        "update gromacs_to_tune set uuid = gen_random_uuid()",
        "update gromacs_to_tune set (owner, namespace) = ('bob', 'phys')",
    ] {
        let sentence = refused(&mut submitter, statement).await;
        assert!(sentence.contains("never change"), "{sentence}");
    }
}

#[tokio::test]
async fn nobody_sees_or_touches_what_is_anothers() {
    let queue = Queue::new().await;
    let id = queue.alice.add(&new_row("chem")).await.expect("should add");
    let claim = queue.claim().await;
    a_life(&queue, claim).await;
    let (mut alice, mut bob) = (queue.connect("alice").await, queue.connect("bob").await);
    for table in TABLES.iter().chain(&["gromacs_queue", "gromacs_tenant where namespace = 'chem'"]) {
        assert!(count(&mut alice, table).await > 0, "alice should see hers in {table}");
        assert_eq!(count(&mut bob, table).await, 0, "bob sees alice's in {table}");
    }
    let cancelled = queue.bob.request_cancel(&[id]).await.expect("should ask");
    assert!(cancelled.is_empty(), "bob cancelled alice's row");
    assert!(queue.bob.show(id).await.expect("should ask").is_none());
    for statement in ["update gromacs_to_tune set cancel_requested = true", "delete from gromacs_to_tune"] {
        let done = bob.execute(statement).await.expect("should find no row");
        assert_eq!(done.rows_affected(), 0, "{statement}");
    }
    // A function of one's own in a condition is called only with what one may see.
    bob.execute(
        "create function pg_temp.leak(what text) returns boolean cost 0.0001 language plpgsql
            as $$ begin raise exception 'leaked %', what; end $$",
    )
    .await
    .expect("should make a function");
    for table in ["gromacs_to_tune", "gromacs_queue"] {
        count(&mut bob, &format!("{table} where pg_temp.leak(tpr_path)")).await;
    }
    // Whatever role was set since, somebody stays who they logged in as.
    for role in ["set role gromacs_chemist", "reset role", "set session authorization default"] {
        bob.execute(role).await.expect(role);
        assert_eq!(count(&mut bob, "gromacs_to_tune").await, 0, "after {role}");
    }
    let sentence = refused(&mut bob, "set session authorization alice").await;
    assert!(sentence.contains("permission denied"), "{sentence}");
    // Rights, not luck: nothing is visible to a role without any.
    let mut nobody = queue.connect("nobody").await;
    for table in TABLES.iter().chain(&["gromacs_queue", "gromacs_tenant", "gromacs_queue_identity"]) {
        let statement = sqlx::AssertSqlSafe(format!("select from {table}"));
        nobody.execute(statement).await.expect_err(table);
    }
    let mut tuner = queue.connect("tuner").await;
    assert_eq!(count(&mut tuner, "gromacs_observation").await, 1);
    for statement in ["select from gromacs_to_tune", "delete from gromacs_observation"] {
        refused(&mut tuner, statement).await;
    }
    let mut dashboard = queue.connect("dashboard").await;
    assert_eq!(count(&mut dashboard, "gromacs_queue").await, 1);
    refused(&mut dashboard, "update gromacs_to_tune set cancel_requested = true").await;
}

#[tokio::test]
async fn a_notification_says_nothing_about_anybody() {
    let queue = Queue::new().await;
    let mut listener = queue.bob.listen().await.expect("should listen");
    queue.alice.add(&new_row("chem")).await.expect("should add");
    let heard = tokio::time::timeout(std::time::Duration::from_secs(10), listener.recv())
        .await
        .expect("should hear something")
        .expect("should listen");
    assert_eq!(heard.payload(), "");
}

#[tokio::test]
async fn chemists_write_only_what_is_theirs() {
    let queue = Queue::new().await;
    let id = queue.alice.add(&new_row("chem")).await.expect("should add");
    let mut alice = queue.connect("alice").await;
    for statement in [
        "insert into gromacs_to_tune (owner, namespace, persistent_volume_claim, tpr_path) values ('bob', 'phys', 'd', 'x.tpr')",
        "insert into gromacs_to_tune (owner, namespace, persistent_volume_claim, tpr_path) values ('alice', 'chem', 'd', 'x.tpr')",
        "insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path, state) values ('chem', 'd', 'x.tpr', 'completed')",
        "insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path, service_account) values ('chem', 'd', 'x.tpr', 'root')",
        "insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path, inspected) values ('chem', 'd', 'x.tpr', '{}')",
        "insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path, cancel_requested) values ('chem', 'd', 'x.tpr', true)",
        "insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path, uuid) values ('chem', 'd', 'x.tpr', gen_random_uuid())",
        "update gromacs_to_tune set uuid = gen_random_uuid()",
        "update gromacs_to_tune set owner = 'bob'",
        "update gromacs_to_tune set state = 'completed'",
        "update gromacs_to_tune set namespace = 'phys'",
        "update gromacs_to_tune set uuid = gen_random_uuid()",
        "update gromacs_to_tune set pinned_image = 'evil'",
        "update gromacs_to_tune set tpr_path = 'other.tpr'",
        "update gromacs_to_tune set submitter_state = '{}'",
        "update gromacs_to_tune set run_as_user = 1",
        "update gromacs_to_tune set priority = 1000, state = 'queued'",
        "update gromacs_submitter_seen set max_waiting = 1000000",
        "insert into gromacs_state_count (state, rows) values ('queued', 1)",
        "update gromacs_to_tune set cancel_requested = true, lease_until = 'infinity'",
        "insert into gromacs_ladder select * from gromacs_ladder",
        "insert into gromacs_event (row_id, state, submission) values (1, 'queued', 1)",
        "insert into gromacs_attempt (row_id, submission, attempt, creation_time) values (1, 1, 1, now())",
        "insert into gromacs_observation (owner, source, atoms, system, cpu_millicores, gpus, layout, hardware_class, node_labels, ns_per_day, steps, wall_seconds) values ('alice', 'import', 1, '{}', 1, 0, '{}', 'x', '{}', 1, 1, 1)",
        "update gromacs_ladder set configuration = 1",
        "delete from gromacs_event",
        "delete from gromacs_observation",
        "update gromacs_queue set state = 'completed'",
        "insert into gromacs_tenant (database_role, namespace) values ('alice', 'phys')",
        "update gromacs_tenant set max_cpu_millicores = null",
        "truncate gromacs_to_tune",
        "alter table gromacs_to_tune disable trigger all",
        "select nextval('gromacs_to_tune_id_seq')",
        "select queue_id from gromacs_queue_identity",
    ] {
        let sentence = refused(&mut alice, statement).await;
        assert!(
            sentence.contains("permission denied")
                || sentence.contains("must be owner")
                || sentence.contains("cannot update view"),
            "{statement}: {sentence}"
        );
    }
    // The history is written with other rights than hers: by nothing of her own.
    alice
        .execute(
            "create temp table t (id bigint, state text, submission int, configuration int, reason text)",
        )
        .await
        .expect("should make a table");
    let trigger = "create trigger t after insert on t for each row execute function gromacs_record_event()";
    let sentence = refused(&mut alice, trigger).await;
    assert!(sentence.contains("permission denied for function"), "{sentence}");
    // Nor does she put anything of hers in the place of what it calls.
    alice
        .execute(
            "create temp table gromacs_event (row_id bigint, state text, submission int, configuration int, message text);
            create temp table gromacs_tenant (database_role text, namespace text);
            insert into gromacs_tenant values ('alice', 'phys');
            create function pg_temp.now() returns timestamptz language sql as $$ select 'infinity'::timestamptz $$;
            set search_path = pg_temp, public, pg_catalog;",
        )
        .await
        .expect("should make tables");
    let sentence = refused(
        &mut alice,
        "insert into public.gromacs_to_tune (namespace, persistent_volume_claim, tpr_path) values ('phys', 'd', 'x.tpr')",
    )
    .await;
    assert!(sentence.contains("\"phys\" is not one of yours (chem)"), "{sentence}");
    alice.execute("update gromacs_to_tune set cancel_requested = true").await.expect("should ask");
    let (events, due): (i64, bool) = sqlx::query_as(
        "select (select count(*) from gromacs_event where row_id = $1 and message = 'cancel requested by alice'),
            next_attempt_time <= now() from gromacs_to_tune where id = $1",
    )
    .bind(id)
    .fetch_one(queue.admin.pool())
    .await
    .expect("should read");
    assert_eq!((events, due), (1, true));
}

#[tokio::test]
async fn only_rows_that_ended_can_be_deleted() {
    let queue = Queue::new().await;
    let id = queue.alice.add(&new_row("chem")).await.expect("should add");
    let claim = queue.claim().await;
    let mut alice = queue.connect("alice").await;
    let sentence = refused(&mut alice, "delete from gromacs_to_tune").await;
    assert!(sentence.starts_with(&format!("row {id} is queued; only completed")), "{sentence}");
    let claim = a_life(&queue, claim).await;
    let sentence = refused(&mut alice, "delete from gromacs_to_tune").await;
    assert!(sentence.contains("is running"), "{sentence}");
    queue.fail(&claim).await;
    let mut bob = queue.connect("bob").await;
    assert_eq!(bob.execute("delete from gromacs_to_tune").await.expect("finds none").rows_affected(), 0);
    assert_eq!(alice.execute("delete from gromacs_to_tune").await.expect("should delete").rows_affected(), 1);
    let mut admin = queue.connect("tester").await;
    for table in TABLES {
        let left = i64::from(table == "gromacs_observation");
        assert_eq!(count(&mut admin, table).await, left, "what was measured outlives the row: {table}");
    }
}

#[tokio::test]
async fn a_row_that_somebody_holds_holds_up_nobody() {
    let queue = Queue::new().await;
    for _ in 0..3 {
        queue.alice.add(&new_row("chem")).await.expect("should add");
    }
    // She forgets to commit.
    let mut alice = queue.connect("alice").await;
    alice
        .execute("begin; update gromacs_to_tune set cancel_requested = true where id = 1")
        .await
        .expect("should ask");
    let claims = queue.submitter.claim(&any(1)).await.expect("should claim");
    assert_eq!(claims.iter().map(|claim| claim.row.id).collect::<Vec<_>>(), [2]);
    alice
        .execute("update gromacs_to_tune set cancel_requested = true where id = 2")
        .await
        .expect("should ask");
    let begun = std::time::Instant::now();
    let status = RowStatus { state: State::Inspecting, ..claims[0].row.status.clone() };
    let error = queue
        .submitter
        .record(&claims[0], &status, &Changes::default())
        .await
        .expect_err("should not wait forever");
    assert!(matches!(error, StoreError::Query(_)), "{error}");
    assert!(begun.elapsed() < std::time::Duration::from_secs(30), "{:?}", begun.elapsed());
    alice.execute("commit").await.expect("should commit");
    queue
        .submitter
        .record(&claims[0], &status, &Changes::default())
        .await
        .expect("should write the next time");
}

#[tokio::test]
async fn sentences_name_what_is_wrong_and_what_to_do() {
    let queue = Queue::new().await;
    let foreign = queue.alice.add(&new_row("phys")).await.expect_err("should refuse");
    assert_eq!(
        foreign.to_string(),
        "namespace \"phys\" is not one of yours (chem); ask the admin to add it to gromacs_tenant (rule gromacs_to_tune_namespace_allowed)"
    );
    let error = queue.alice.add_tenant(&tenant("alice", "phys"), false).await.expect_err("should refuse");
    assert!(matches!(error, StoreError::Forbid(_)), "{error}");
    assert!(error.to_string().contains("tenants and tables belong to the admin"), "{error}");
    let error = queue.alice.remove_tenant("alice", "chem", true, false).await.expect_err("should refuse");
    assert!(matches!(error, StoreError::Forbid(_)), "{error}");
    // Without the trigger, the policy and the foreign key still hold.
    queue
        .admin
        .pool()
        .execute("alter table gromacs_to_tune disable trigger gromacs_before_insert")
        .await
        .expect("should disable");
    let row = "(namespace, persistent_volume_claim, tpr_path, run_as_user, interruption_after_seconds";
    let insert = format!("insert into gromacs_to_tune {row}) values ('phys', 'd', 'x.tpr', 1000, 600)");
    let error = queue.alice.pool().execute(sqlx::AssertSqlSafe(insert)).await.expect_err("should refuse");
    let error = StoreError::from(error).to_string();
    assert!(error.contains("namespace is not one of yours"), "{error}");
    let insert = format!(
        "insert into gromacs_to_tune {row}, owner) values ('phys', 'd', 'x.tpr', 1000, 600, 'alice')"
    );
    let error = queue.admin.pool().execute(sqlx::AssertSqlSafe(insert)).await.expect_err("should refuse");
    let error = StoreError::from(error).to_string();
    assert!(error.contains("must be those of a tenant"), "{error}");
}

#[tokio::test]
async fn tenants_come_and_go() {
    let queue = Queue::new().await;
    let error = queue.admin.add_tenant(&tenant("mallory", "chem"), false).await.expect_err("should refuse");
    assert!(error.to_string().contains("create role \"mallory\" login"), "{error}");
    for (bad, field) in [
        (Tenant { namespace: "A b".to_owned(), ..tenant("alice", "x") }, "namespace"),
        (Tenant { service_account: Some("A".to_owned()), ..tenant("alice", "x") }, "service_account"),
        (Tenant { image: Some("a b".to_owned()), ..tenant("alice", "x") }, "image"),
        (Tenant { image_patterns: vec![String::new()], ..tenant("alice", "x") }, "image_patterns"),
        (Tenant { run_as_user: Some(0), ..tenant("alice", "x") }, "run_as_user"),
        (Tenant { run_as_group: Some(0), ..tenant("alice", "x") }, "run_as_group"),
        (Tenant { max_cpu_millicores: Some(1), ..tenant("alice", "x") }, "max_cpu_millicores"),
        (Tenant { max_memory_bytes: Some(1), ..tenant("alice", "x") }, "max_memory_bytes"),
        (Tenant { max_gpus: Some(-1), ..tenant("alice", "x") }, "max_gpus"),
        (Tenant { max_put_bytes: Some(0), ..tenant("alice", "x") }, "max_put_bytes"),
        (Tenant { max_rows_in_work: Some(-1), ..tenant("alice", "x") }, "max_rows_in_work"),
        (Tenant { min_cpu_millicores: Some(-1), ..tenant("alice", "x") }, "min_cpu_millicores"),
        (Tenant { min_ns_per_day: Some(-0.5), ..tenant("alice", "x") }, "min_ns_per_day"),
        (
            Tenant {
                min_interruption_after_seconds: Some(20),
                max_interruption_after_seconds: Some(10),
                ..tenant("alice", "x")
            },
            "min_interruption_after_seconds",
        ),
        (tenant(&"a".repeat(64), "x"), "database_role"),
    ] {
        let error = queue.admin.add_tenant(&bad, false).await.expect_err(field);
        assert!(error.to_string().starts_with(field), "{error}");
    }
    // A name that only quoting makes harmless; nobody is a chemist before being a tenant.
    let mut admin = queue.connect("tester").await;
    let name = "al'ice\"; drop table gromacs_event; --";
    admin
        .execute(r#"create role "al'ice""; drop table gromacs_event; --" login"#)
        .await
        .expect("should make a role");
    let member = "select pg_has_role($1, 'gromacs_chemist', 'member')";
    for (dry_run, is_member) in [(true, false), (false, true)] {
        assert_eq!(
            queue.admin.add_tenant(&tenant(name, "chem"), dry_run).await.expect("should add"),
            Change::Added
        );
        let found: bool =
            sqlx::query_scalar(member).bind(name).fetch_one(&mut admin).await.expect("should ask");
        assert_eq!(found, is_member);
    }
    assert_eq!(count(&mut admin, "gromacs_event").await, 0);

    queue.alice.add(&new_row("chem")).await.expect("should add");
    let remove = |delete_rows, dry_run| queue.admin.remove_tenant("alice", "chem", delete_rows, dry_run);
    assert_eq!(remove(true, false).await.expect("should ask"), Removal::InWork(1));
    let claim = queue.claim().await;
    queue.fail(&claim).await;
    assert_eq!(remove(false, false).await.expect("should ask"), Removal::HasRows(1));
    assert_eq!(remove(true, true).await.expect("should try"), Removal::Removed(1));
    assert_eq!(queue.admin.tenants().await.expect("should list")[1]["ended"], 1, "nothing was removed yet");
    assert_eq!(remove(true, false).await.expect("should remove"), Removal::Removed(1));
    assert_eq!(remove(true, false).await.expect("should ask"), Removal::Absent);
    let error = queue.alice.add(&new_row("chem")).await.expect_err("should refuse");
    assert!(error.to_string().contains("is not one of yours (there are none)"), "{error}");
    // Whoever is nobody's tenant any more still sees no more than before.
    assert!(queue.alice.list(&RowFilter::default()).await.expect("should list").is_empty());
    sqlx::query("drop role \"al'ice\"\"; drop table gromacs_event; --\"")
        .execute(&mut admin)
        .await
        .expect("should drop the role");
}

#[tokio::test]
async fn the_admins_verbs_tell_what_they_do() {
    let queue = Queue::new().await;
    let admin = Program::new(queue.url.clone());
    let add = ["tenant", "add", "alice", "bio", "--max-gpus", "0", "--allow-image", "registry.example/lab/*"];
    let said = |words: &str| format!("tenant alice in namespace bio: {words}\n");
    assert_eq!(admin.good(&[&add[..], &["--dry-run"]].concat()), said("would be added"));
    assert_eq!(admin.good(&add), said("added"));
    assert_eq!(admin.good(&add), said("unchanged"));
    let changed = admin.json(&["tenant", "add", "alice", "bio", "--max-rows-in-work", "1"]);
    assert_eq!(changed["change"], "changed");
    assert_eq!(changed["tenant"]["max_gpus"], serde_json::Value::Null, "it is made as described");
    let table = admin.good(&["tenant", "list"]);
    assert_eq!(table.lines().count(), 4, "{table}");
    assert!(table.contains("at most 1 row in work"), "{table}");
    assert_eq!(admin.json(&["tenant", "list"])[0]["namespace"], "bio");

    let alice = Program::new(as_role(&queue.url, "alice"));
    assert_eq!(alice.json(&["tenant", "list"]).as_array().map(Vec::len), Some(2), "she sees her own");
    let output = alice.run(&add);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("belong to the admin"), "{}", text(&output.stderr));
    alice.good(&["add", "a.tpr", "--namespace", "bio"]);
    let output = alice.run(&["add", "a.tpr", "--namespace", "phys"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("is not one of yours (bio, chem)"), "{}", text(&output.stderr));

    let remove = ["tenant", "remove", "alice", "bio"];
    let output = admin.run(&remove);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("has 1 row that has not ended"), "{}", text(&output.stderr));
    admin.sql("update gromacs_to_tune set state = 'failed'").await;
    let output = admin.run(&remove);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("--delete-rows"), "{}", text(&output.stderr));
    let would = admin.good(&[&remove[..], &["--delete-rows", "--dry-run"]].concat());
    assert_eq!(would, said("would be removed, with 1 row"));
    assert_eq!(admin.good(&[&remove[..], &["--delete-rows"]].concat()), said("removed, with 1 row"));
    assert_eq!(admin.good(&remove), said("there is none"));
    let output = admin.run(&["tenant", "add", "mallory", "bio"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("there is no database role \"mallory\""),
        "{}",
        text(&output.stderr)
    );
}

#[tokio::test]
async fn every_text_is_refused_or_stays_what_it_is() {
    let queue = Queue::new().await;
    let long = "a".repeat(10_000);
    let texts = [
        "'; drop table gromacs_event; --",
        "\"); delete from gromacs_to_tune; --",
        "$(id)",
        "`id`",
        "a b",
        "../../etc/passwd",
        "/etc/passwd",
        "a\nb",
        "a\tb",
        "a\u{1b}[2Jb",
        "\u{202e}abc",
        "%s%n",
        "$$",
        "\\",
        "{{.}}",
        "",
        " ",
        long.as_str(),
    ];
    let mut accepted = 0;
    for column in ["namespace", "persistent_volume_claim", "tpr_path", "image", "gromacs_version"] {
        for text in texts {
            let value = if column == "tpr_path" { format!("{text}.tpr") } else { text.to_owned() };
            let columns: Vec<&str> = ["namespace", "persistent_volume_claim", "tpr_path"]
                .into_iter()
                .filter(|other| *other != column)
                .collect();
            let statement = format!(
                "insert into gromacs_to_tune ({}, {column}) values ({}, $1) returning id",
                columns.join(", "),
                columns
                    .iter()
                    .map(|other| match *other {
                        "namespace" => "'chem'",
                        "tpr_path" => "'x.tpr'",
                        _ => "'d'",
                    })
                    .collect::<Vec<_>>()
                    .join(", ")
            );
            let inserted: Result<i64, sqlx::Error> = sqlx::query_scalar(sqlx::AssertSqlSafe(statement))
                .bind(&value)
                .fetch_one(queue.alice.pool())
                .await;
            let id = match inserted {
                Ok(id) => id,
                Err(error) => {
                    let error = StoreError::from(error);
                    assert!(matches!(error, StoreError::BreakRule(_)), "{column} {value:?}: {error}");
                    assert!(error.to_string().len() < 2000, "{error}");
                    continue;
                }
            };
            accepted += 1;
            assert_ne!(column, "namespace", "{value:?}");
            assert!(value.len() <= 1024, "{column} {value:?}");
            // What becomes part of a path cannot lead out of the volume.
            let path = column == "tpr_path" || column == "persistent_volume_claim";
            assert!(
                !path || !(value.starts_with('/') || value.split('/').any(|part| part == "..")),
                "{value:?}"
            );
            let stored: String = sqlx::query_scalar(sqlx::AssertSqlSafe(format!(
                "select {column} from gromacs_to_tune where id = $1"
            )))
            .bind(id)
            .fetch_one(queue.submitter.pool())
            .await
            .expect("should read");
            assert_eq!(stored, value);
        }
    }
    assert!(accepted > 10, "{accepted}");
    let claims = queue.submitter.claim(&any(1000)).await.expect("should read them all");
    assert_eq!(claims.len(), accepted);
    assert_eq!(queue.alice.list(&RowFilter::default()).await.expect("should list").len(), accepted);
}

#[tokio::test]
async fn no_value_makes_the_queue_unreadable() {
    let queue = Queue::new().await;
    let mut alice = queue.connect("alice").await;
    for value in [
        "box_nm) values ('{{1},{2},{3}}'",
        "pme_grid) values ('{{32},{32},{32}}'",
        "box_nm) values ('[5:7]={1,2,3}'",
    ] {
        let statement = format!("insert into gromacs_to_tune ({value}, 'chem', 'd', 'x.tpr')");
        let statement =
            statement.replace(") values", ", namespace, persistent_volume_claim, tpr_path) values");
        let error = alice.execute(sqlx::AssertSqlSafe(statement.clone())).await.expect_err(&statement);
        assert!(StoreError::from(error).to_string().contains("must be three"), "{statement}");
    }
    alice
        .execute(
            "insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path, nsteps, init_step, dt_ps,
                box_nm, cutoff_nm)
            values ('chem', 'd', 'x.tpr', 9223372036854775807, 9223372036854775807, 1, '{1,2,3}', 5e-324)",
        )
        .await
        .expect("should insert");
    alice
        .execute(
            "insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path, nsteps, dt_ps)
            values ('chem', 'd', 'x.tpr', 1, 5e-324)",
        )
        .await
        .expect("should insert");
    for claim in queue.submitter.claim(&any(10)).await.expect("should read them") {
        let status = RowStatus {
            state: State::Running,
            step: Some(0),
            ns_per_day: Some(1e-300),
            progress_time: Some(jiff::Timestamp::UNIX_EPOCH.into()),
            ..claim.row.status.clone()
        };
        queue.submitter.record(&claim, &status, &Changes::default()).await.expect("should record");
    }
    let list = queue.admin.list(&RowFilter::default()).await.expect("should list");
    assert_eq!(list[0]["last_step"].as_i64(), Some(i64::MAX));
    assert_eq!(list.len(), 2);
    assert!(list.iter().all(|row| row["expected_finish_time"].is_string()), "{list:#?}");
}
