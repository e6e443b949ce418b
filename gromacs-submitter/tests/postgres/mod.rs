//! A Postgres of the tests' own: started once per test program, on a Unix socket in a temporary folder, with a fresh
//! database for each test. Nothing is configured outside, and nothing is left behind.

#![allow(
    clippy::expect_used,
    clippy::panic,
    dead_code,
    reason = "a test that cannot start its server must say so loudly; not every program uses all of it"
)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use gromacs_submitter::store::Store;
use scavenger_local_postgres::Postgres;
use sqlx::{Connection as _, Executor as _, PgConnection};

/// Ends with this program.
static SERVER: OnceLock<Postgres> = OnceLock::new();
static DATABASES: AtomicU32 = AtomicU32::new(0);

/// What a test does first in a migrated database. Everybody may run simulations in namespace `lab`.
const TENANTS: &str = "insert into gromacs_tenant (database_role, namespace)
    values ('tester', 'lab'), ('worker', 'lab'), ('rich', 'lab'), ('poor', 'lab')";

/// Roles belong to the server: made once, after the first migration has made those that they are members of. `worker`
/// does what the submitter does and, as a chemist, adds the rows; `submitter` does the former alone.
const LOGINS: &str = "create role worker login in role gromacs_submitter, gromacs_chemist;
    create role submitter login in role gromacs_submitter;
    create role alice login in role gromacs_chemist;
    create role bob login in role gromacs_chemist;
    create role tuner login in role gromacs_tuner;
    create role dashboard login in role gromacs_reader;
    create role nobody login";

static LOGINS_MADE: tokio::sync::OnceCell<()> = tokio::sync::OnceCell::const_new();

/// A database with nothing in it, and its URL for the superuser.
pub async fn empty_database() -> String {
    let server = SERVER.get_or_init(|| {
        Postgres::start(&["fsync=off", "max_connections=100"]).expect("should start a Postgres")
    });
    let name = format!("test_{}", DATABASES.fetch_add(1, Ordering::Relaxed));
    let mut connection = PgConnection::connect(&server.url("postgres")).await.expect("should connect");
    let statement = format!("create database {name}");
    connection.execute(sqlx::AssertSqlSafe(statement)).await.expect("should create a database");
    server.url(&name)
}

/// A database with the newest schema, and its URL for the superuser.
pub async fn migrated_database() -> String {
    let url = empty_database().await;
    let admin = store(&url, "admin");
    admin.migrate().await.expect("should migrate from zero");
    LOGINS_MADE
        .get_or_init(|| async {
            admin.pool().execute(LOGINS).await.expect("should make roles to log in with");
        })
        .await;
    admin.close().await;
    url
}

/// A store on a database with the newest schema, as a role with no more rights than it needs, and its URL.
pub async fn migrated_store(holder: &str) -> (Store, String) {
    let url = migrated_database().await;
    let admin = store(&url, "admin");
    admin.pool().execute(TENANTS).await.expect("should add tenants");
    admin.close().await;
    let url = as_role(&url, "worker");
    (store(&url, holder), url)
}

/// The same database for another role.
pub fn as_role(url: &str, role: &str) -> String {
    let (_, rest) = url.split_once('@').expect("should be a URL with a user");
    format!("postgres://{role}@{rest}")
}

/// Another store on the same database.
pub fn store(url: &str, holder: &str) -> Store {
    let lease = Duration::from_secs(60);
    Store::new(url, holder.to_owned(), lease, 5, Duration::from_secs(10)).expect("should read the URL")
}
