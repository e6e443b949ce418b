//! The Python package, with a real Postgres: its tests, its types, its form, and its notebook.
//!
//! Runs as part of `cargo xtask test`, which installs what the package needs and says where its Python is in
//! `SCAVENGER_PACKAGE_PYTHON`.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

mod postgres;

/// The folder of the package.
const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../python");

/// Python with what the tests of the package need; none if nobody says where it is.
fn python() -> Option<OsString> {
    let python = env::var_os("SCAVENGER_PACKAGE_PYTHON");
    if python.is_none() {
        assert!(
            env::var_os("SCAVENGER_E2E").is_none(),
            "SCAVENGER_PACKAGE_PYTHON should be set where SCAVENGER_E2E is"
        );
        eprintln!("SKIPPED: SCAVENGER_PACKAGE_PYTHON is not set; `cargo xtask test` runs this");
    }
    python
}

/// Runs a module of Python in the folder of the package, which stays as it is.
fn run(python: &OsString, arguments: &[&str], database: Option<&str>) {
    let caches = tempfile::tempdir().expect("a folder should be made");
    let mut command = Command::new(python);
    command.arg("-m").args(arguments).current_dir(PACKAGE);
    command.env("PYTHONPATH", Path::new(PACKAGE).join("src")).env("PYTHONDONTWRITEBYTECODE", "1");
    // Jupyter and matplotlib keep what they like below this.
    command.env("HOME", caches.path()).env("MYPY_CACHE_DIR", caches.path()).env("RUFF_NO_CACHE", "true");
    if let Some(url) = database {
        command.env("GROMACS_QUEUE_TEST_DATABASE", url);
        command.env("GROMACS_QUEUE_TEST_SUBMITTER", env!("CARGO_BIN_EXE_gromacs-submitter"));
    }
    let output = command.output().expect("Python should run");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?} ended with {}:\n{stdout}{stderr}", output.status);
    println!("{stdout}");
}

#[tokio::test]
async fn the_package_passes_its_tests() {
    let Some(python) = python() else { return };
    let url = postgres::migrated_database().await;
    let admin = postgres::store(&url, "admin");
    let tenants =
        "insert into gromacs_tenant (database_role, namespace) values ('alice', 'lab'), ('bob', 'lab')";
    sqlx::query(tenants).execute(admin.pool()).await.expect("tenants should be added");
    // Nobody may be connected to what others are copied from.
    admin.close().await;
    run(&python, &["pytest", "--quiet"], Some(&url));
}

#[test]
fn the_package_has_types_and_form() {
    let Some(python) = python() else { return };
    run(&python, &["mypy"], None);
    run(&python, &["ruff", "check"], None);
    run(&python, &["ruff", "format", "--check"], None);
}
