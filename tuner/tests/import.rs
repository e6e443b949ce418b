//! Measured runs of one's own in a real Postgres, by the program as a user calls it.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use scavenger_local_postgres::Postgres;
use scavenger_schema::simulation::MIGRATIONS;
use sqlx::{Connection as _, Executor as _, PgConnection};

const RUNS: &str = "atoms,ns_per_day,wall_seconds,ntmpi,ntomp,simd,precision\n\
    100000,12,300,16,1,AVX2_256,mixed\n100000,6.3,300,8,1,,\n";

fn import(runs: &str, more: &[&str]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_scavenger-tuner"))
        .args(["import", "-", "--label", "node.kubernetes.io/instance-type=hpc6a.48xlarge"])
        .args(more)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the tuner should start");
    child.stdin.take().expect("stdin is piped").write_all(runs.as_bytes()).expect("stdin should be read");
    child.wait_with_output().expect("the tuner should end")
}

fn succeeded(output: &Output, sentence: &str) {
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    assert!(stdout.contains(sentence), "{stdout}");
}

fn failed(output: &Output, code: i32, sentence: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(stderr.contains(sentence), "{stderr}");
    assert!(output.stdout.is_empty());
}

#[test]
fn what_the_bench_of_neighbours_prints_is_imported() {
    succeeded(&import(include_str!("../data/neighbours.csv"), &[]), "checked 18 runs");
}

#[tokio::test]
async fn runs_of_a_file_are_learned_from() {
    let postgres = Postgres::start(&["fsync=off"]).expect("should start a Postgres");
    let url = postgres.url("postgres");
    let as_role = |role: &str| url.replacen("tester@", &format!("{role}@"), 1);
    let mut admin = PgConnection::connect(&url).await.expect("should connect");

    succeeded(&import(RUNS, &[]), "checked 2 runs");
    failed(&import(RUNS, &["--database-url", &url]), 2, "nothing was imported");
    MIGRATIONS.run(&mut admin).await.expect("should migrate");
    admin
        .execute("create role alice login in role gromacs_chemist; create role lab login in role gromacs_submitter;")
        .await
        .expect("should create roles");
    // Whoever may not insert is told so, and nothing is there.
    failed(&import(RUNS, &["--database-url", &as_role("alice")]), 2, "permission denied");
    let lab = as_role("lab");
    succeeded(&import(RUNS, &["--database-url", &lab, "--dry-run"]), "would import 2 runs");
    let bad = format!("{RUNS}100000,1,300,14,1,,\n");
    failed(&import(&bad, &["--database-url", &lab]), 1, "line 4: layout: 14 ranks");
    let count = || "select count(*) from gromacs_observation where source = 'import' and owner = 'lab'";
    let rows: i64 = sqlx::query_scalar(count()).fetch_one(&mut admin).await.expect("should count");
    assert_eq!(rows, 0);
    succeeded(&import(RUNS, &["--database-url", &lab]), "imported 2 runs");
    let rows: i64 = sqlx::query_scalar(count()).fetch_one(&mut admin).await.expect("should count");
    assert_eq!(rows, 2);
    // As the submitter writes them: nothing for a build that is not known.
    let builds: Vec<Option<serde_json::Value>> =
        sqlx::query_scalar("select gromacs_build from gromacs_observation order by id")
            .fetch_all(&mut admin)
            .await
            .expect("should read");
    assert_eq!(builds, [Some(serde_json::json!({ "simd": "AVX2_256", "precision": "mixed" })), None]);

    // A ladder for such a node rests on them.
    let recommend = |more: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_scavenger-tuner"))
            .args(["recommend", "--atoms", "100000", "--max-configurations", "1"])
            .args(["--node", "16,64Gi,node.kubernetes.io/instance-type=hpc6a.48xlarge"])
            .args(more)
            .env_clear()
            .output()
            .expect("the tuner should start");
        String::from_utf8(output.stdout).expect("output should be text")
    };
    let speed = |table: &str| -> f64 {
        let row = table.lines().nth(1).expect("there is a configuration");
        row.split_whitespace().nth(4).expect("the fifth word is the speed").parse().expect("it is a number")
    };
    let (before, after) = (speed(&recommend(&[])), speed(&recommend(&["--database-url", &url])));
    assert!((after / 12.0 - 1.0).abs() < 0.15 && before > 1.4 * after, "{before} {after}");
}
