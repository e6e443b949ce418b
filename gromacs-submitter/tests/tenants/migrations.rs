//! What migrations leave behind: everything is protected, and no superuser is needed.

use gromacs_submitter::store::{NewRow, RowFilter, Store, Tenant};
use scavenger_schema::simulation::MIGRATIONS;
use sqlx::Executor as _;
use sqlx::migrate::Migrator;

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

/// Tables of before the first release are not migrated: nothing is changed, and one sentence says what to do.
#[tokio::test]
async fn a_database_of_before_is_left_as_it_is() {
    let url = empty_database().await;
    let admin = store(&url, "admin");
    let before = "create table _sqlx_migrations (version bigint primary key, description text not null,
            installed_on timestamptz not null default now(), success boolean not null, checksum bytea not null,
            execution_time bigint not null);
        insert into _sqlx_migrations (version, description, success, checksum, execution_time)
            select number, 'of before', true, '', 0 from generate_series(1, 17) number;
        create table gromacs_to_tune (id bigint)";
    admin.pool().execute(before).await.expect("should play a program of before");
    for error in [
        admin.migrate().await.map(|_| ()),
        admin.missing_migrations().await.map(|_| ()),
        admin.check_schema().await,
    ] {
        let sentence = error.expect_err("should refuse").to_string();
        assert!(sentence.contains("version 17") && sentence.contains("add --from"), "{sentence}");
    }
    let tables = "select count(*) from pg_class where relname like 'gromacs%'";
    let found: i64 = sqlx::query_scalar(tables).fetch_one(admin.pool()).await.expect("should count");
    assert_eq!(found, 1);
}

/// A submitter without a webhook leaves no reports, and a report is nobody's but the submitter's.
#[tokio::test]
async fn reports_of_ends_begin_with_the_webhook() {
    let queue = Queue::new().await;
    for reports in [false, true] {
        queue.alice.add(&new_row("chem")).await.expect("should add");
        let submitter =
            if reports { queue.submitter.clone().that_reports_ends() } else { queue.submitter.clone() };
        let claim = submitter.claim(&any(1)).await.expect("should claim").remove(0);
        let failing = Queue { submitter, ..queue.clone() };
        failing.fail(&claim).await;
        let mut submitter = queue.connect("submitter").await;
        assert_eq!(count(&mut submitter, "gromacs_end_report").await, i64::from(reports));
    }
    let mut alice = queue.connect("alice").await;
    refused(&mut alice, "select from gromacs_end_report").await;
    let deleted = alice.execute("delete from gromacs_to_tune").await.expect("should delete");
    assert_eq!(deleted.rows_affected(), 2, "a report holds no row");
    let mut submitter = queue.connect("submitter").await;
    assert_eq!(count(&mut submitter, "gromacs_end_report").await, 0);
}

/// Makes alice a tenant in namespace chem with the columns that every version has.
async fn add_tenant_as_before(admin: &Store) {
    for statement in [
        "insert into gromacs_tenant (database_role, namespace) values ('alice', 'chem')",
        "grant gromacs_chemist to alice",
    ] {
        admin.pool().execute(statement).await.expect("should add a tenant");
    }
}

/// Tenants were there before the limit of `put` was, and have none.
#[tokio::test]
async fn tenants_have_no_limit_of_put_after_its_migration() {
    migrated_database().await;
    let url = empty_database().await;
    let admin = store(&url, "admin");
    let first = MIGRATIONS.iter().filter(|migration| migration.version < 20).cloned().collect();
    Migrator::with_migrations(first).run(admin.pool()).await.expect("should migrate to the version before");
    add_tenant_as_before(&admin).await;
    admin.migrate().await.expect("should migrate");
    let alice = store(&as_role(&url, "alice"), "alice");
    let limit = || async {
        let found = alice.destination("chem").await.expect("should ask");
        found.map(|destination| destination.max_put_bytes)
    };
    assert_eq!(limit().await, Some(None));
    // A program of the version before writes the tenant without the column, and takes nothing away.
    let limited = Tenant { max_put_bytes: Some(1000), ..tenant("alice", "chem") };
    admin.add_tenant(&limited, false).await.expect("should change");
    let before = "insert into gromacs_tenant (database_role, namespace, max_gpus) values ('alice', 'chem', 1)
        on conflict (database_role, namespace) do update set max_gpus = excluded.max_gpus";
    admin.pool().execute(before).await.expect("should change");
    assert_eq!(limit().await, Some(Some(1000)));
    assert_eq!(alice.destination("phys").await.expect("should ask"), None, "none of hers");
}

/// Rows that come after others were there before `after_any` was.
#[tokio::test]
async fn rows_that_wait_are_waiting_after_the_migration_of_after_any() {
    migrated_database().await;
    let url = empty_database().await;
    let admin = store(&url, "admin");
    let first = MIGRATIONS.iter().filter(|migration| migration.version < 19).cloned().collect();
    Migrator::with_migrations(first).run(admin.pool()).await.expect("should migrate to the version before");
    // As a program of that version adds a tenant: it knows no later columns.
    add_tenant_as_before(&admin).await;
    let alice = store(&as_role(&url, "alice"), "alice");
    let row = alice.add(&new_row("chem")).await.expect("should add");
    let next = NewRow { after: Some(vec![row]), tpr_path: "next.tpr".to_owned(), ..new_row("chem") };
    let next = alice.add(&next).await.expect("should add");
    admin.migrate().await.expect("should migrate");
    let waits = |row: i64| {
        let admin = admin.clone();
        async move {
            let asked = "select waits_for_rows from gromacs_to_tune where id = $1";
            let found: bool =
                sqlx::query_scalar(asked).bind(row).fetch_one(admin.pool()).await.expect("should be there");
            found
        }
    };
    assert!(waits(next).await);
    // Programs of the version before ask with two arguments.
    let before = "select gromacs_waits_for(id, after) from gromacs_to_tune where id = $1";
    let reason: Option<String> =
        sqlx::query_scalar(before).bind(next).fetch_one(alice.pool()).await.expect("should answer");
    assert_eq!(reason, Some(format!("waits for row {row} (queued)")));
    let any_end = NewRow { after_any: Some(vec![next]), tpr_path: "last.tpr".to_owned(), ..new_row("chem") };
    let last = alice.add(&any_end).await.expect("should add");
    for (ended, state) in [(row, "completed"), (next, "failed")] {
        let statement = format!("update gromacs_to_tune set state = '{state}' where id = {ended}");
        admin.pool().execute(sqlx::AssertSqlSafe(statement)).await.expect("should end");
    }
    assert!(!waits(next).await && !waits(last).await);
}

/// Rows that were there keep their user, and the rule for new ones is the same after it has become a function.
#[tokio::test]
async fn the_user_of_rows_stays_after_the_migration_of_its_rule() {
    migrated_database().await;
    let url = empty_database().await;
    let admin = store(&url, "admin");
    let first = MIGRATIONS.iter().filter(|migration| migration.version < 22).cloned().collect();
    Migrator::with_migrations(first).run(admin.pool()).await.expect("should migrate to the version before");
    add_tenant_as_before(&admin).await;
    let alice = store(&as_role(&url, "alice"), "alice");
    for user in [None, Some(2001)] {
        let row = NewRow { run_as_user: user, ..new_row("chem") };
        alice.add(&row).await.expect("should add");
    }
    admin.migrate().await.expect("should migrate");
    let row = NewRow { run_as_user: None, ..new_row("chem") };
    alice.add(&row).await.expect("should add");
    let users: Vec<i64> = sqlx::query_scalar("select run_as_user from gromacs_to_tune order by id")
        .fetch_all(alice.pool())
        .await
        .expect("should read");
    assert_eq!(users, [1000, 2001, 1000]);
}

/// Rows that were there go on with thread-MPI, and only simulations have another engine.
#[tokio::test]
async fn rows_keep_their_engine_after_its_migration() {
    migrated_database().await;
    let url = empty_database().await;
    let admin = store(&url, "admin");
    let first = MIGRATIONS.iter().filter(|migration| migration.version < 23).cloned().collect();
    Migrator::with_migrations(first).run(admin.pool()).await.expect("should migrate to the version before");
    add_tenant_as_before(&admin).await;
    let alice = store(&as_role(&url, "alice"), "alice");
    alice.add(&new_row("chem")).await.expect("should add");
    admin.migrate().await.expect("should migrate");
    // As a program of the version before adds a row: it knows no engine.
    alice.add(&NewRow { tpr_path: "next.tpr".to_owned(), ..new_row("chem") }).await.expect("should add");
    let with = |engine: &str, row: NewRow| NewRow { engine: Some(engine.to_owned()), ..row };
    alice
        .add(&with("mpi", NewRow { tpr_path: "last.tpr".to_owned(), ..new_row("chem") }))
        .await
        .expect("should add");
    let engines: Vec<String> = sqlx::query_scalar("select engine from gromacs_to_tune order by id")
        .fetch_all(alice.pool())
        .await
        .expect("should read");
    assert_eq!(engines, ["thread-mpi", "thread-mpi", "mpi"]);
    let command = NewRow {
        tpr_path: String::new(),
        command: Some(vec!["true".to_owned()]),
        image: Some("image".to_owned()),
        cpu_millicores: Some(100),
        memory_bytes: Some(1 << 24),
        ..new_row("chem")
    };
    for (row, words) in [
        (with("openmpi", new_row("chem")), "engine must be thread-mpi or mpi"),
        (with("mpi", command), "only a simulation has an engine; leave it out"),
    ] {
        let error = alice.add(&row).await.expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
    }
}

/// Rows that were there have no settings of their own, and what makes their file stays.
#[tokio::test]
async fn files_are_made_as_before_after_the_migration_of_their_settings() {
    migrated_database().await;
    let url = empty_database().await;
    let admin = store(&url, "admin");
    let first = MIGRATIONS.iter().filter(|migration| migration.version < 24).cloned().collect();
    Migrator::with_migrations(first).run(admin.pool()).await.expect("should migrate to the version before");
    add_tenant_as_before(&admin).await;
    let alice = store(&as_role(&url, "alice"), "alice");
    let words = ["-f", "a.mdp", "-c", "a.gro", "-p", "a.top"].map(ToOwned::to_owned).to_vec();
    let row = NewRow { grompp_options: Some(words.clone()), ..new_row("chem") };
    let row = alice.add(&row).await.expect("should add");
    admin.migrate().await.expect("should migrate");
    let asked = "select mdp_options::text, grompp_options, inspect_again from gromacs_to_tune where id = $1";
    let found: (String, Vec<String>, bool) =
        sqlx::query_as(asked).bind(row).fetch_one(alice.pool()).await.expect("should read");
    assert_eq!(found, ("{}".to_owned(), words, false));
}
