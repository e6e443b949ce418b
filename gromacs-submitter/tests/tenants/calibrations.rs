//! Rows of kind calibration: what they must say, what they must not, and what becomes of them.

use gromacs_submitter::store::{Changes, StoreError};
use scavenger_schema::simulation::{Kind, RowStatus, State};
use sqlx::{Executor as _, PgConnection};

use super::{Queue, a_life, refused};

const COLUMNS: &str =
    "kind, namespace, persistent_volume_claim, nsteps, benchmark_atoms, benchmark_ranks, benchmark_threads";
const VALUES: &str = "'calibration', 'chem', 'data', 1200, 11664, 2, 4";

/// Inserts a calibration, with more columns.
async fn insert(connection: &mut PgConnection, columns: &str, values: &str) -> Result<i64, String> {
    let statement =
        format!("insert into gromacs_to_tune ({COLUMNS}{columns}) values ({VALUES}{values}) returning id");
    let row = sqlx::query_scalar(sqlx::AssertSqlSafe(statement)).fetch_one(connection).await;
    row.map_err(|error| StoreError::from(error).to_string())
}

#[tokio::test]
async fn a_chemist_says_what_to_run_and_the_table_does_the_rest() {
    let queue = Queue::new().await;
    let mut alice = queue.connect("alice").await;
    let labels = (", benchmark_node_labels", r#", '{"kubernetes.io/arch": "amd64"}'"#);
    let id = insert(&mut alice, labels.0, labels.1).await.expect("should add");
    let claim = queue.claim().await;
    assert_eq!((claim.row.id, claim.row.kind), (id, Kind::Calibration));
    assert_eq!(claim.row.tpr_path, format!("calibration-{id}/water.tpr"));
    let benchmark = claim.row.benchmark().expect("should be a benchmark");
    assert_eq!((benchmark.water.cells, benchmark.steps, benchmark.reset_step()), ([2, 3, 3], 1200, 600));
    assert_eq!((benchmark.layout.ntmpi, benchmark.layout.ntomp, benchmark.layout.npme), (2, 4, 0));
    assert_eq!(benchmark.node_labels["kubernetes.io/arch"], "amd64");

    let claim = a_life(&queue, claim).await;
    let source: String = sqlx::query_scalar("select source from gromacs_observation")
        .fetch_one(&mut alice)
        .await
        .expect("should see her own");
    assert_eq!(source, "calibration");
    let story = queue.alice.show(id).await.expect("should ask").expect("should be hers");
    assert_eq!(
        (&story["row"]["kind"], &story["simulation"]["benchmark_atoms"]),
        (&"calibration".into(), &11_664.into())
    );
    let status = RowStatus { state: State::Completed, ..claim.row.status.clone() };
    queue.submitter.record(&claim, &status, &Changes::default()).await.expect("should end");
}

#[tokio::test]
async fn a_simulation_stays_what_it_was() {
    let queue = Queue::new().await;
    queue.alice.add(&super::new_row("chem")).await.expect("should add");
    let claim = queue.claim().await;
    assert_eq!((claim.row.kind, claim.row.benchmark()), (Kind::Simulation, None));
    let mut alice = queue.connect("alice").await;
    let sentence = refused(
        &mut alice,
        "insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path, benchmark_ranks)
        values ('chem', 'data', 'x.tpr', 1)",
    )
    .await;
    assert!(sentence.starts_with("only a calibration has benchmark_ columns"), "{sentence}");
}

#[tokio::test]
async fn what_a_calibration_can_not_be_is_refused_with_a_sentence() {
    let queue = Queue::new().await;
    queue
        .admin
        .pool()
        .execute("update gromacs_tenant set max_cpu_millicores = 8000, max_gpus = 0")
        .await
        .expect("limits");
    let mut alice = queue.connect("alice").await;
    for (columns, values, sentence) in [
        (", tpr_path", ", 'x.tpr'", "a calibration makes its own run input; leave tpr_path out"),
        (", atoms", ", 3000", "a calibration finds out itself what it runs"),
        (", gromacs_version", ", '2024.1'", "a calibration finds out itself what it runs"),
        (", benchmark_pme_ranks", ", 2", "benchmark_pme_ranks must be between 0 and half of benchmark_ranks"),
        (", benchmark_gpus", ", 1", "the benchmark takes 1 GPU, but namespace chem allows at most 0"),
        (", benchmark_node_labels", ", '[]'", "benchmark_node_labels must be an object"),
        (", benchmark_node_labels", r#", '{"a": 1}'"#, "benchmark_node_labels must be an object"),
        (", benchmark_node_labels", r#", '{"a": {"b": "c"}}'"#, "benchmark_node_labels must be an object"),
        (", benchmark_node_labels", r#", '{"a": null}'"#, "benchmark_node_labels must be an object"),
        (", benchmark_node_labels", r#", '{"$(X)": "c"}'"#, "benchmark_node_labels must be an object"),
        (", benchmark_node_labels", r#", '{"a": "b\nc"}'"#, "benchmark_node_labels must be an object"),
        (
            ", benchmark_node_labels",
            ", (select jsonb_object_agg('l' || n, '') from generate_series(1, 33) n)",
            "benchmark_node_labels must be an object",
        ),
    ] {
        let error = insert(&mut alice, columns, values).await.expect_err(values);
        assert!(error.starts_with(sentence), "{columns}{values}: {error}");
    }
    for (spoilt, sentence) in [
        (
            "null, 11664, 2, 4",
            "a calibration needs benchmark_atoms, benchmark_ranks, benchmark_threads and nsteps",
        ),
        ("199, 11664, 2, 4", "nsteps of a calibration must be between 200 and 200000000"),
        ("1200, null, 2, 4", "a calibration needs"),
        ("1200, 5183, 2, 4", "benchmark_atoms must be between"),
        ("1200, 11664, null, 4", "a calibration needs"),
        ("1200, 11664, 0, 4", "benchmark_ranks must be between"),
        ("1200, 11664, 2, 0", "benchmark_threads must be between"),
        ("1200, 11664, 2, 5", "the benchmark takes 10 cores, but namespace chem allows at most 8"),
        ("1200, 11664, 2147483647, 2147483647", "the benchmark takes 4611686014132420609 cores"),
    ] {
        let statement = format!(
            "insert into gromacs_to_tune ({COLUMNS}) values ('calibration', 'chem', 'data', {spoilt})"
        );
        let error = alice.execute(sqlx::AssertSqlSafe(statement)).await.expect_err(spoilt);
        let error = StoreError::from(error).to_string();
        assert!(error.starts_with(sentence), "{spoilt}: {error}");
    }
    let statement = format!(
        "insert into gromacs_to_tune ({COLUMNS}) values ('calibration', 'phys', 'data', 1200, 11664, 1, 1)"
    );
    let error = alice.execute(sqlx::AssertSqlSafe(statement)).await.expect_err("not hers");
    let error = StoreError::from(error).to_string();
    assert!(error.starts_with("namespace \"phys\" is not one of yours (chem)"), "{error}");
    for statement in
        ["update gromacs_to_tune set kind = 'simulation'", "update gromacs_to_tune set benchmark_ranks = 1"]
    {
        let sentence = refused(&mut alice, statement).await;
        assert!(sentence.contains("permission denied"), "{sentence}");
    }
}
