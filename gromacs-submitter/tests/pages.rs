//! The SQL of the pages about the queue, on a real Postgres: each statement is run in the order of its page, as the one
//! whom the page speaks to. What a statement needs that no statement before it made is in [`BEFORE`].

mod postgres;

use postgres::{as_role, empty_database, store};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

const QUEUE: &str = include_str!("../../docs/queue.md");
const REPORT: &str = include_str!("../../docs/report.md");
const ROWS: &str = include_str!("../../docs/rows.md");

/// What an admin or the submitter does before the statement with this text.
const BEFORE: [(&str, &str); 12] = [
    // The page adds alice twice: first with what she needs, then with everything that can be set.
    ("insert into gromacs_tenant (\n    database_role", "delete from gromacs_tenant"),
    (
        "set retry_requested = true where id = 7",
        "update gromacs_to_tune set state = 'cancelled' where id = 7",
    ),
    // The two rows before it in the chain are kept from the removal by nothing but their state.
    (
        "delete from gromacs_to_tune where id = 7",
        "update gromacs_to_tune set state = 'completed', cancel_requested = false where id in (7, 8)",
    ),
    ("extended_nsteps = 100000000", EXTENDABLE),
    ("set priority = 10", ROW_7_AGAIN),
    ("set append = false", "update gromacs_to_tune set state = 'cancelled' where id = 7"),
    ("late_seconds > 0", "update gromacs_to_tune set deadline = now() - interval '1 hour' where id = 7"),
    ("select configuration, ", LADDER),
    ("from gromacs_attempt where row_id = 7", ATTEMPT),
    ("and outcome = 'failed'", FAILED),
    ("as core_hours", ENDED),
    (
        "where q.state = 'failed'",
        "update gromacs_to_tune set state = 'failed', reason = 'no such file' where id = 7",
    ),
];

/// The row that the page has removed, as alice adds it.
const ROW_7_AGAIN: &str = "alter table gromacs_to_tune alter column id restart with 7;
    set session authorization alice;
    insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path)
        values ('chem', 'simulations', 'water/topol.tpr');
    reset session authorization;
    alter table gromacs_to_tune alter column id restart with 100";

const EXTENDABLE: &str =
    "update gromacs_to_tune set state = 'completed', nsteps = 50000000, dt_ps = 0.002 where id = 7";

const LADDER: &str = "insert into gromacs_ladder (row_id, submission, configuration, cpu_millicores, memory_bytes, gpus, layout,
        ns_per_day_p10, ns_per_day_p50, ns_per_day_p90, efficiency, predicted_memory_bytes, hardware_class, fits_now,
        reason, model_version)
    values (7, 1, 1, 1000, 1048576, 0, '{}', 1, 2, 3, 1, 1048576, 'zen4', true, 'the largest that pays', '1')
    on conflict do nothing";

const ATTEMPT: &str = "insert into gromacs_attempt (row_id, submission, attempt, creation_time)
    values (7, 1, 1, now()) on conflict do nothing";

const FAILED: &str = "update gromacs_attempt set outcome = 'failed' where row_id = 7";

const ENDED: &str =
    "update gromacs_attempt set cpu_millicores = 1000, start_time = now() - interval '1 hour',
        end_time = now(), outcome = 'interrupted', lost_seconds = 60
    where row_id = 7";

/// What a site runs in a Postgres of its own before there is a schema.
const OWN_POSTGRES: [&str; 3] =
    ["gromacs_owner", "create role gromacs_submitter ", "create role gromacs_tuner "];

/// A statement of a page.
struct Statement {
    /// The page and the line on which the statement begins, for messages.
    place: String,
    sql: String,
}

/// The statements of a page: those of its sql blocks, and those between backticks in its tables.
fn statements(name: &str, page: &str) -> Vec<Statement> {
    let mut found: Vec<Statement> = Vec::new();
    let mut is_sql = false;
    let mut begun: Option<Statement> = None;
    for (line, number) in page.lines().zip(1..) {
        let place = format!("{name}:{number}");
        if line.trim_start().starts_with("```") {
            assert!(begun.is_none(), "{place}: the statement before has no semicolon");
            is_sql = line.trim_start() == "```sql";
        } else if is_sql {
            let statement = begun.get_or_insert_with(|| Statement { place, sql: String::new() });
            let code = line.split(" -- ").next().unwrap_or_default().trim_end();
            statement.sql.push_str(code);
            statement.sql.push('\n');
            if code.ends_with(';') {
                found.extend(begun.take());
            }
        } else if line.starts_with('|') {
            let code = line.split('`').skip(1).step_by(2).filter(|code| code.ends_with(';'));
            found.extend(code.map(|code| Statement { place: place.clone(), sql: code.to_owned() }));
        }
    }
    found
}

/// Runs a statement. One that asks must get an answer, and one that changes rows must find them.
async fn run(connection: &mut PgConnection, Statement { place, sql }: &Statement) {
    let begin = sql.trim_start();
    let statement = sqlx::raw_sql(AssertSqlSafe(sql.clone()));
    if begin.starts_with("select") || begin.contains(" returning ") || begin.contains("\nreturning ") {
        let rows = statement.fetch_all(connection).await;
        assert!(
            !rows.unwrap_or_else(|error| panic!("{place}: {error}\n{sql}")).is_empty(),
            "{place}: no row"
        );
    } else {
        let done = statement.execute(connection).await;
        let done = done.unwrap_or_else(|error| panic!("{place}: {error}\n{sql}"));
        let is_definition = ["create ", "grant "].iter().any(|word| begin.starts_with(word));
        assert!(is_definition || done.rows_affected() > 0, "{place}: it finds no row");
    }
}

/// Runs statements as alice, each after what it needs.
async fn run_all(url: &str, statements: &[Statement]) {
    let mut admin = PgConnection::connect(url).await.expect("should connect");
    // The first statements make her.
    let mut alice: Option<PgConnection> = None;
    for statement in statements {
        for (text, needed) in BEFORE {
            if statement.sql.contains(text) {
                sqlx::raw_sql(AssertSqlSafe(needed.to_owned()))
                    .execute(&mut admin)
                    .await
                    .unwrap_or_else(|error| panic!("before {}: {error}", statement.place));
            }
        }
        let of_admin = ["insert into gromacs_tenant", "create role ", "grant "];
        let is_admins = of_admin.iter().any(|text| statement.sql.contains(text));
        if is_admins {
            run(&mut admin, statement).await;
            continue;
        }
        let login = match alice.take() {
            Some(login) => login,
            None => PgConnection::connect(&as_role(url, "alice")).await.expect("should log in"),
        };
        run(alice.insert(login), statement).await;
    }
}

/// A new schema, made by a role; the first row gets the number that the pages speak of.
async fn migrate(url: &str, role: &str) {
    let owner = store(&as_role(url, role), "admin");
    owner.migrate().await.expect("should migrate from zero");
    let first = "alter table gromacs_to_tune alter column id restart with 7";
    sqlx::raw_sql(first).execute(owner.pool()).await.expect("should set the next number");
    owner.close().await;
}

#[tokio::test]
async fn the_statements_of_the_pages_run_in_their_order() {
    let server = empty_database().await;
    let (own, queue): (Vec<_>, Vec<_>) = statements("docs/queue.md", QUEUE)
        .into_iter()
        .partition(|statement| OWN_POSTGRES.iter().any(|text| statement.sql.contains(text)));
    assert_eq!((own.len(), queue.len() > 15), (4, true), "statements were not found");

    // A Postgres of one's own comes first: its roles are there before the migrations.
    let mut admin = PgConnection::connect(&server).await.expect("should connect");
    for statement in &own {
        run(&mut admin, statement).await;
    }
    let url = server.replace("/test_0", "/scavenger");
    assert_ne!(url, server, "the database has another name");
    migrate(&url, "gromacs_owner").await;
    run_all(&url, &queue).await;

    let mut rows = statements("docs/rows.md", ROWS);
    assert!(rows.len() > 9, "statements were not found");
    let report = statements("docs/report.md", REPORT);
    assert_eq!(report.len(), 2, "statements were not found");
    rows.extend(report);
    let url = empty_database().await;
    migrate(&url, "tester").await;
    let mut admin = PgConnection::connect(&url).await.expect("should connect");
    let tenant = "insert into gromacs_tenant (database_role, namespace) values ('alice', 'chem')";
    sqlx::raw_sql(tenant).execute(&mut admin).await.expect("should add a tenant");
    run_all(&url, &rows).await;
}
