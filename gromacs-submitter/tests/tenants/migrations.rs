//! What migrations leave behind: everything is protected, and no superuser is needed.

use gromacs_submitter::store::{ClaimOptions, RowFilter, Store, Tenant};
use scavenger_schema::simulation::{LadderSettings, MIGRATIONS};
use sqlx::Executor as _;

use super::postgres::{as_role, empty_database, migrated_database, store};
use super::{Queue, a_life, any, count, new_row, refused, tenant};

/// Whatever a later migration adds must be protected, too.
#[tokio::test]
async fn everything_is_behind_a_policy() {
    let queue = Queue::new().await;
    let ask = |statement: &'static str| {
        let admin = queue.admin.clone();
        async move {
            let found: Vec<String> =
                sqlx::query_scalar(statement).fetch_all(admin.pool()).await.expect("should ask");
            found
        }
    };
    let open =
        ask("select relname::text from pg_class where relname like 'gromacs\\_%' and relkind in ('r', 'p')
            and (not relrowsecurity
                or not exists (select from pg_policy where polrelid = pg_class.oid))");
    assert_eq!(open.await, Vec::<String>::new(), "tables without row level security");
    let views =
        ask("select relname::text from pg_class where relname like 'gromacs\\_%' and relkind in ('v', 'm')
            and not coalesce('security_invoker=true' = any(reloptions), false)");
    assert_eq!(views.await, Vec::<String>::new(), "views that see more than who looks");
    let functions = ask("select proname::text from pg_proc where proname like 'gromacs\\_%' and (
            has_function_privilege('nobody', oid, 'execute')
            or not exists (select from unnest(proconfig) setting
                where setting ~ '^search_path=pg_catalog, .*, pg_temp$'))");
    assert_eq!(
        functions.await,
        Vec::<String>::new(),
        "functions that anybody may use, or that look anywhere"
    );
    let rights = ask(
        "select table_name || '.' || privilege_type from information_schema.role_table_grants
        where table_name like 'gromacs\\_%' and (grantee = 'PUBLIC' or grantee = 'gromacs_chemist'
            and privilege_type <> 'SELECT' and (table_name, privilege_type) <> ('gromacs_to_tune', 'DELETE'))",
    );
    assert_eq!(rights.await, Vec::<String>::new(), "rights that nobody should have");
    // The submitter sees and writes everything that it did before there were roles.
    let kept =
        ask("select c.relname || '.' || a.attname from pg_class c join pg_attribute a on a.attrelid = c.oid
        where c.relname in ('gromacs_to_tune', 'gromacs_attempt', 'gromacs_ladder') and a.attnum > 0
            and not a.attisdropped
            and not (has_column_privilege('submitter', c.oid, a.attnum, 'select')
                and has_column_privilege('submitter', c.oid, a.attnum, 'update'))");
    assert_eq!(kept.await, Vec::<String>::new(), "columns that the submitter cannot write");
}

/// A managed Postgres gives nobody a superuser.
#[tokio::test]
async fn an_owner_who_is_no_superuser_is_enough() {
    migrated_database().await;
    let url = empty_database().await;
    let database = url.rsplit('/').next().expect("should name a database");
    let superuser = store(&url, "superuser");
    for statement in [
        "create role keeper login createrole".to_owned(),
        format!("alter database {database} owner to keeper"),
    ] {
        superuser.pool().execute(sqlx::AssertSqlSafe(statement)).await.expect("should prepare");
    }
    let queue = Queue {
        admin: store(&as_role(&url, "keeper"), "admin"),
        submitter: store(&as_role(&url, "submitter"), "submitter"),
        alice: store(&as_role(&url, "alice"), "alice"),
        bob: store(&as_role(&url, "bob"), "bob"),
        url: as_role(&url, "keeper"),
    };
    queue.admin.migrate().await.expect("should migrate");
    queue.admin.pool().execute("create role dave login").await.expect("should make a role");
    for role in ["alice", "dave"] {
        queue.admin.add_tenant(&tenant(role, "chem"), false).await.expect("should add a tenant");
    }
    let dave = store(&as_role(&url, "dave"), "dave");
    dave.add(&new_row("chem")).await.expect("should add");
    let claim = queue.claim().await;
    let claim = a_life(&queue, claim).await;
    queue.fail(&claim).await;
    assert!(queue.alice.list(&RowFilter::default()).await.expect("should list").is_empty());
    let deleted = dave.pool().execute("delete from gromacs_to_tune").await.expect("should delete");
    assert_eq!(deleted.rows_affected(), 1);
    let mut keeper = queue.connect("keeper").await;
    assert_eq!(count(&mut keeper, "gromacs_event").await, 0);
    assert_eq!(count(&mut keeper, "gromacs_observation").await, 1);
}

#[tokio::test]
async fn databases_of_one_server_migrate_at_the_same_time() {
    let urls = [empty_database().await, empty_database().await, empty_database().await];
    let migrate = |url: &String| {
        let admin = store(url, "admin");
        tokio::spawn(async move { admin.migrate().await })
    };
    let running: Vec<_> = urls.iter().map(migrate).collect();
    for result in running {
        result.await.expect("should not panic").expect("should migrate");
    }
}

/// Going back one version: its `migrate` finds migrations that it does not know.
#[tokio::test]
async fn a_database_that_a_newer_version_has_migrated_is_left_as_it_is() {
    let url = empty_database().await;
    let admin = store(&url, "admin");
    let newest = admin.migrate().await.expect("should migrate");
    let newer = "insert into _sqlx_migrations (version, description, success, checksum, execution_time)
        values (9999, 'of a version to come', true, '', 0)";
    admin.pool().execute(newer).await.expect("should play a newer version");
    assert_eq!(admin.migrate().await.expect("should go back"), 9999);
    admin.check_schema().await.expect("should be new enough");
    assert!(admin.missing_migrations().await.expect("should read").is_empty());
    // What it does know must not have changed since.
    let edited = format!("update _sqlx_migrations set checksum = 'other' where version = {newest}");
    admin.pool().execute(sqlx::AssertSqlSafe(edited)).await.expect("should play an edited migration");
    assert!(admin.migrate().await.is_err());
}

/// A tenant of before, as the program of then wrote it.
const TENANT: &str = "insert into gromacs_tenant (database_role, namespace) values ('alice', 'chem')";

/// A database as it was at that migration, with alice's tenant: its address, and the stores of the admin and of alice.
async fn migrated_to(version: i64) -> (String, Store, Store) {
    migrated_database().await;
    let url = empty_database().await;
    let (admin, alice) = (store(&url, "admin"), store(&as_role(&url, "alice"), "alice"));
    MIGRATIONS.run_to(version, admin.pool()).await.expect("should migrate as far as before");
    admin.pool().execute(TENANT).await.expect("should add a tenant");
    (url, admin, alice)
}

/// Rows of before have no minimum, and programs of before work with tenants that have one.
#[tokio::test]
async fn the_minimum_of_a_tenant_counts_for_later_rows() {
    let (_, admin, alice) = migrated_to(3).await;
    alice.add(&new_row("chem")).await.expect("should add");
    admin.migrate().await.expect("should migrate");
    alice.add(&new_row("chem")).await.expect("should add");
    let change = Tenant { min_cpu_millicores: Some(2000), ..tenant("alice", "chem") };
    admin.add_tenant(&change, false).await.expect("should change");
    alice.add(&new_row("chem")).await.expect("should add");
    let before = format!("{TENANT} on conflict (database_role, namespace) do update set max_gpus = 0");
    admin.pool().execute(sqlx::AssertSqlSafe(before)).await.expect("should change what it knows");
    alice.add(&new_row("chem")).await.expect("should add");
    let found: Vec<Option<i32>> =
        sqlx::query_scalar("select min_cpu_millicores from gromacs_to_tune order by id")
            .fetch_all(alice.pool())
            .await
            .expect("should read");
    assert_eq!(found, [None, None, Some(2000), Some(2000)]);
}

/// Rows that had ended before there was a webhook are not reported, and a report is nobody's but the submitter's.
#[tokio::test]
async fn reports_of_ends_begin_with_the_webhook() {
    migrated_database().await;
    let url = empty_database().await;
    let admin = store(&url, "admin");
    MIGRATIONS.run_to(2, admin.pool()).await.expect("should migrate as far as before");
    let queue = Queue {
        submitter: store(&as_role(&url, "submitter"), "submitter"),
        alice: store(&as_role(&url, "alice"), "alice"),
        bob: store(&as_role(&url, "bob"), "bob"),
        admin,
        url,
    };
    queue.admin.pool().execute(TENANT).await.expect("should add a tenant");
    queue.alice.add(&new_row("chem")).await.expect("should add");
    // The submitter of then does it; this one reads columns that are not there yet.
    let failed = "update gromacs_to_tune set state = 'failed', reason = 'no such file', finish_time = now()";
    queue.admin.pool().execute(failed).await.expect("should fail");
    queue.admin.migrate().await.expect("should migrate");

    queue.alice.add(&new_row("chem")).await.expect("should add");
    let claim = queue.claim().await;
    let reporting = Queue { submitter: queue.submitter.clone().that_reports_ends(), ..queue };
    reporting.fail(&claim).await;
    let mut submitter = reporting.connect("submitter").await;
    assert_eq!(count(&mut submitter, "gromacs_end_report where row_id = 2").await, 1);
    assert_eq!(count(&mut submitter, "gromacs_end_report").await, 1);
    let mut alice = reporting.connect("alice").await;
    refused(&mut alice, "select from gromacs_end_report").await;
    // A submitter of the release before knows nothing of reports, and works on.
    reporting.alice.add(&new_row("chem")).await.expect("should add");
    let older = store(&as_role(&reporting.url, "submitter"), "older");
    let older = Queue { submitter: older, ..reporting };
    let claim = older.claim().await;
    older.fail(&claim).await;
    assert_eq!(count(&mut submitter, "gromacs_end_report").await, 1);
    let deleted = alice.execute("delete from gromacs_to_tune").await.expect("should delete");
    assert_eq!(deleted.rows_affected(), 3, "a report holds no row");
    assert_eq!(count(&mut submitter, "gromacs_end_report").await, 0);
}

/// Rows and tenants of before say nothing about configurations, and a submitter of before keeps no answers.
#[tokio::test]
async fn rows_of_before_leave_the_choice_of_configurations_open() {
    let (url, admin, alice) = migrated_to(7).await;
    alice.add(&new_row("chem")).await.expect("should add");
    admin.migrate().await.expect("should migrate");
    let submitter = store(&as_role(&url, "submitter"), "submitter");
    let claim = submitter.claim(&any(1)).await.expect("should claim").remove(0);
    assert_eq!(claim.row.ladder_settings, LadderSettings::default());
    let of_tenant = submitter.ladder_settings("alice", "chem").await.expect("should read");
    assert_eq!(of_tenant, LadderSettings::default());
    let story = alice.show(claim.row.id).await.expect("should show").expect("should be there");
    assert_eq!(story["tuner_answers"], serde_json::json!([]));
}

/// Rows that wait in the cluster when the migration comes are blocked only once somebody has looked at them, and the claim
/// knows what it knew.
#[tokio::test]
async fn rows_of_before_count_as_waiting_until_somebody_has_looked() {
    let (url, admin, alice) = migrated_to(7).await;
    let submitter = store(&as_role(&url, "submitter"), "submitter");
    for insert in [
        "insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path) values ('chem', 'data', 'a.tpr')",
        "insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path) values ('chem', 'data', 'b.tpr')",
    ] {
        alice.pool().execute(insert).await.expect("should add");
    }
    let submitted = "update gromacs_to_tune set state = 'submitted', next_attempt_time = now() + interval '1 hour' where id = 1";
    admin.pool().execute(submitted).await.expect("should play the submitter of then");
    let rung = "insert into gromacs_ladder (row_id, submission, rung, cpu_millicores, memory_bytes, gpus, layout,
            ns_per_day_p10, ns_per_day_p50, ns_per_day_p90, efficiency, predicted_memory_bytes, hardware_class, fits_now,
            reason, model_version)
        values (1, 1, 1, 1000, 1, 0, '{\"ntmpi\": 1, \"ntomp\": 1, \"npme\": 0, \"nb\": \"cpu\"}', 1, 2, 3, 1, 1, 'x', true, 'x', '1')";
    admin.pool().execute(rung).await.expect("should play the submitter of then");
    admin.migrate().await.expect("should migrate");
    let one = ClaimOptions { max_waiting: 1, ..any(10) };
    assert!(submitter.claim(&one).await.expect("should claim").is_empty(), "one waits already");
    let ladder = submitter.ladder(1, 1).await.expect("should read what was there");
    assert!(!ladder[0].is_bound(), "{ladder:?}");
    admin
        .pool()
        .execute("update gromacs_to_tune set blocked = true where id = 1")
        .await
        .expect("should look");
    let claims = submitter.claim(&one).await.expect("should claim");
    assert_eq!(claims.iter().map(|claim| claim.row.id).collect::<Vec<_>>(), [2]);
}

/// Rows of before are of one simulation, and inserts of before make such rows.
#[tokio::test]
async fn rows_of_before_are_of_one_simulation() {
    let (url, admin, alice) = migrated_to(7).await;
    let insert = "insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path) values ('chem', 'data', 'a.tpr')";
    alice.pool().execute(insert).await.expect("should add");
    admin.migrate().await.expect("should migrate");
    alice.pool().execute(insert).await.expect("should add as before");
    let several = "insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path, multidir)
        values ('chem', 'data', 'ens/topol.tpr', '{sim0,sim1}')";
    alice.pool().execute(several).await.expect("should add several");
    let claims = store(&as_role(&url, "submitter"), "submitter").claim(&any(10)).await.expect("should claim");
    let mut found: Vec<(i64, u32)> =
        claims.iter().map(|claim| (claim.row.id, claim.row.simulations())).collect();
    found.sort_unstable();
    assert_eq!(found, [(1, 1), (2, 1), (3, 2)]);
    let change = "update gromacs_to_tune set multidir = '{sim0,sim2}' where id = 3";
    assert!(alice.pool().execute(change).await.is_err(), "a row keeps its folders");
}

/// Rows that run when the migration comes have measured no restart, and show in the view as they did; what submitters of
/// before write is still good.
#[tokio::test]
async fn rows_of_before_have_measured_no_restart() {
    let (url, admin, alice) = migrated_to(13).await;
    let insert = "insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path) values ('chem', 'data', 'a.tpr')";
    alice.pool().execute(insert).await.expect("should add");
    let runs = "update gromacs_to_tune set state = 'running', start_time = now() - interval '1 hour', attempt = 1, step = 10";
    admin.pool().execute(runs).await.expect("should play the submitter of then");
    let attempt = "insert into gromacs_attempt (row_id, submission, attempt, creation_time, start_time)
        values (1, 1, 1, now(), now() - interval '1 hour')";
    admin.pool().execute(attempt).await.expect("should play the submitter of then");
    let view = "select to_jsonb(q) - 'wall_seconds' - 'run_seconds' from gromacs_queue q";
    let before: serde_json::Value =
        sqlx::query_scalar(view).fetch_one(alice.pool()).await.expect("should read");
    admin.migrate().await.expect("should migrate");
    let mut after: serde_json::Value =
        sqlx::query_scalar(view).fetch_one(alice.pool()).await.expect("should read");
    let new = ["deadline", "late_seconds", "simulations"]
        .map(|column| after.as_object_mut().and_then(|row| row.remove(column)).expect("should be a column"));
    assert_eq!(new, [serde_json::Value::Null, serde_json::Value::Null, 1.into()]);
    assert_eq!(after, before, "those who read what was there read on");
    let submitter = store(&as_role(&url, "submitter"), "submitter");
    let claim = submitter.claim(&any(1)).await.expect("should claim").remove(0);
    assert_eq!(claim.row.status.attempt_seen_time, None);
    assert_eq!(submitter.restart_seconds(&claim.row).await.expect("should ask"), None);
    let of_before = "update gromacs_attempt set end_time = now(), outcome = 'interrupted' where row_id = 1";
    submitter.pool().execute(of_before).await.expect("should write as before");
}
