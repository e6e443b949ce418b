//! Benchmarks as rows of a real Postgres, by the program as a user calls it.

use std::process::{Command, Output, Stdio};

use scavenger_local_postgres::Postgres;
use scavenger_schema::simulation::MIGRATIONS;
use scavenger_schema::tuning::{CalibrationReply, LadderReply, Layout};
use serde_json::Value;
use sqlx::types::Json;
use sqlx::{Connection as _, Executor as _, PgConnection};

const NODE: &str = "8,32Gi,kubernetes.io/arch=amd64";

/// One row of the queue.
#[derive(Debug, sqlx::FromRow)]
struct Row {
    owner: String,
    namespace: String,
    persistent_volume_claim: String,
    image: Option<String>,
    priority: i32,
    nsteps: i64,
    benchmark_atoms: i32,
    benchmark_ranks: i32,
    benchmark_threads: i32,
    benchmark_pme_ranks: i32,
    benchmark_gpus: i32,
    benchmark_node_labels: Json<Value>,
}

fn calibrate(url: &str, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_scavenger-tuner"))
        .args(["calibrate", "--node", NODE, "--database-url", url])
        .args(more)
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .expect("the tuner should start")
}

/// The same URL for somebody else.
fn as_role(url: &str, role: &str) -> String {
    url.replacen("tester@", &format!("{role}@"), 1)
}

async fn rows(connection: &mut PgConnection) -> Vec<Row> {
    sqlx::query_as("select * from gromacs_to_tune where kind = 'calibration' order by id")
        .fetch_all(connection)
        .await
        .expect("should read the rows")
}

/// The program failed with this exit code and sentence, and printed no data.
fn failed(output: &Output, code: i32, sentence: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(stderr.contains(sentence), "{sentence:?} is not in: {stderr}");
    assert!(output.stdout.is_empty());
}

#[tokio::test]
async fn benchmarks_become_rows_of_whoever_connects() {
    let postgres = Postgres::start(&["fsync=off"]).expect("should start a Postgres");
    let url = postgres.url("postgres");
    let mut admin = PgConnection::connect(&url).await.expect("should connect");
    let (chemist, tuner) = (as_role(&url, "alice"), as_role(&url, "tuner"));
    let target = ["--namespace", "chem", "--pvc", "data"];

    // Nobody migrated yet.
    failed(&calibrate(&url, &target), 2, "cannot read gromacs_observation");
    MIGRATIONS.run(&mut admin).await.expect("should migrate");
    admin
        .execute(
            "create role alice login in role gromacs_chemist;
            create role tuner login in role gromacs_tuner;
            insert into gromacs_tenant (database_role, namespace, image, max_cpu_millicores)
                values ('alice', 'chem', 'gromacs:1', 8000), ('alice', 'small', null, 1000)",
        )
        .await
        .expect("should make a tenant");

    // Without a namespace nothing is written, and with --dry-run nothing stays.
    let output = calibrate(&chemist, &["--output", "json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = calibrate(&chemist, &[&target[..], &["--dry-run"]].concat());
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(table.contains("\nwould add ") && !table.contains("   row "), "{table}");
    assert!(rows(&mut admin).await.is_empty());

    let output = calibrate(
        &chemist,
        &[&target[..], &["--output", "json", "--max-cores=4", "--priority=7", "--max-benchmarks=2"]].concat(),
    );
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let reply: CalibrationReply = serde_json::from_slice(&output.stdout).expect("stdout should be the reply");
    let printed: Value = serde_json::from_slice(&output.stdout).expect("stdout should be JSON");
    let rows_made = rows(&mut admin).await;
    assert_eq!(printed["rows"].as_array().map(Vec::len), Some(rows_made.len()));
    assert_eq!(rows_made.len(), reply.benchmarks.len());
    for (row, benchmark) in rows_made.iter().zip(&reply.benchmarks) {
        assert_eq!((row.owner.as_str(), row.namespace.as_str()), ("alice", "chem"));
        assert_eq!((row.persistent_volume_claim.as_str(), row.priority), ("data", 7));
        assert_eq!(row.image.as_deref(), Some("gromacs:1"), "the tenant's");
        assert_eq!(
            (row.nsteps, i64::from(row.benchmark_atoms)),
            (benchmark.system.nsteps, i64::try_from(benchmark.system.atoms).expect("should be small"))
        );
        let count = |number: i32| u32::try_from(number).expect("should be a count");
        let layout = Layout {
            npme: count(row.benchmark_pme_ranks),
            ..Layout::water(
                count(row.benchmark_ranks),
                count(row.benchmark_threads),
                count(row.benchmark_gpus),
            )
        };
        assert_eq!(layout, benchmark.layout);
        assert_eq!(row.benchmark_node_labels.0, serde_json::json!({ "kubernetes.io/arch": "amd64" }));
    }

    // What is measured narrows the next proposal, and what is recommended.
    let known = ["--atoms", "30000", "--node", NODE, "--database-url", &chemist, "--output", "json"];
    let ladder = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_scavenger-tuner"))
            .arg("recommend")
            .args(arguments)
            .env_clear()
            .output()
            .expect("the tuner should start");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<LadderReply>(&output.stdout).expect("stdout should be a ladder")
    };
    let unmeasured = ladder(&known);
    let offline = ladder(&[&known[..4], &known[6..]].concat());
    assert_eq!(unmeasured.rungs, offline.rungs, "nothing to learn from");
    let first = &reply.benchmarks[0];
    sqlx::query(
        "insert into gromacs_observation (owner, source, atoms, system, cpu_millicores, gpus, layout,
            hardware_class, node_labels, ns_per_day, steps, wall_seconds)
        values ('alice', 'calibration', $1, $2, $3, 0, $4, 'unknown', $5, $6, 1000, 30)",
    )
    .bind(i64::try_from(first.system.atoms).expect("should be small"))
    .bind(Json(&first.system))
    .bind(i32::try_from(first.resources.cpu_millicores).expect("should be small"))
    .bind(Json(first.layout))
    .bind(&rows_made[0].benchmark_node_labels)
    .bind(first.ns_per_day.p50 / 1.5)
    .execute(&mut admin)
    .await
    .expect("should record a run");
    let output = calibrate(&chemist, &["--output", "json"]);
    let next: CalibrationReply = serde_json::from_slice(&output.stdout).expect("stdout should be the reply");
    assert!(next.half_width < 0.9 * reply.half_width, "{} after {}", next.half_width, reply.half_width);
    let measured = ladder(&known);
    assert!(measured.rungs[0].ns_per_day.p50 < unmeasured.rungs[0].ns_per_day.p50);

    // What is refused leaves nothing behind, not even the rows before it.
    let before = rows(&mut admin).await.len();
    failed(
        &calibrate(&chemist, &["--namespace", "phys", "--pvc", "data"]),
        1,
        "nothing was added: namespace \"phys\" is not one of yours (chem, small)",
    );
    failed(
        &calibrate(&chemist, &["--namespace", "small", "--pvc", "data"]),
        1,
        "cores, but namespace small allows at most 1 (rule gromacs_to_tune_benchmark_cores_allowed); --max-cores bounds it",
    );
    failed(
        &calibrate(&chemist, &["--namespace", "chem", "--pvc", "Data!"]),
        1,
        "persistent_volume_claim must be the name of a PersistentVolumeClaim",
    );
    failed(&calibrate(&tuner, &target), 2, "connect as a member of gromacs_chemist");
    failed(&calibrate(&as_role(&url, "nobody"), &target), 2, "cannot read gromacs_observation");
    assert_eq!(rows(&mut admin).await.len(), before);

    neighbours_begin_when_the_first_is_completed(&mut admin, &chemist, &target).await;
}

/// The largest on half of the node, then as many copies as the node has cores for.
async fn neighbours_begin_when_the_first_is_completed(
    admin: &mut PgConnection,
    chemist: &str,
    target: &[&str],
) {
    let output = calibrate(
        chemist,
        &[target, &["--output", "json", "--neighbours", "--max-benchmarks=1", "--max-atoms=20000"]].concat(),
    );
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed: Value = serde_json::from_slice(&output.stdout).expect("stdout should be JSON");
    let cores =
        printed["benchmarks"][0]["resources"]["cpuMillicores"].as_i64().expect("should be a number") / 1000;
    let copies = printed["neighbours"]["copies"].as_i64().expect("should be a number");
    assert!(cores <= 4 && copies == 8 / cores, "{printed}");
    let after: Vec<(i64, Vec<i64>, i32)> = sqlx::query_as(
        "select id, after, benchmark_ranks * benchmark_threads from gromacs_to_tune where cardinality(after) > 0 order by id",
    )
    .fetch_all(admin)
    .await
    .expect("should read the rows");
    let alone = printed["rows"][0].as_i64().expect("should be a number");
    assert_eq!(i64::try_from(after.len()).ok(), Some(copies));
    for (place, (id, after, threads)) in after.iter().enumerate() {
        assert_eq!(printed["neighbours"]["rows"][place].as_i64(), Some(*id));
        assert_eq!((after.as_slice(), i64::from(*threads)), (&[alone][..], cores));
    }
}
