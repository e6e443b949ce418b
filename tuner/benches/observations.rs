//! How soon a measured run is used, with 1,000,000 of them in the database.

#![allow(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a bench prints, and fails where it cannot go on"
)]

use std::time::{Duration, Instant};

use scavenger_local_postgres::Postgres;
use scavenger_schema::simulation::MIGRATIONS;
use scavenger_schema::tuning::Layout;
use scavenger_tuner::http::Service;
use scavenger_tuner::observations::{Source, follow};
use scavenger_tuner_model::Model;
use scavenger_tuner_model::ladder::fixtures::water;
use sqlx::types::Json;
use sqlx::{Connection as _, PgConnection};

const RUNS: i32 = 1_000_000;

/// Inserts `count` runs of 50 owners on 8 classes of hardware.
async fn insert(connection: &mut PgConnection, count: i32) {
    sqlx::query(
        "insert into gromacs_observation (owner, source, atoms, system, cpu_millicores, gpus, layout,
            hardware_class, node_labels, gromacs_version, ns_per_day, steps, wall_seconds)
        select 'owner ' || n % 50, 'import', 10000, jsonb_set($1, '{atoms}', to_jsonb(10000 + n % 977)), 1000, 0, $2,
            (array['zen', 'zen2', 'zen3', 'zen4', 'haswell', 'broadwell', 'icelake-sp', 'cascadelake'])[n % 8 + 1],
            '{\"node.kubernetes.io/instance-type\": \"hpc6a.48xlarge\"}', null, 10 + n % 7, 50000, 60
        from generate_series(1, $3) as n",
    )
    .bind(serde_json::to_value(water(10_000)).expect("should serialise"))
    .bind(Json(Layout::cpu(1, 1)))
    .bind(count)
    .execute(connection)
    .await
    .expect("should insert observations");
}

/// Waits until the service's model is another one than `version`.
async fn until_another(service: &Service, version: &str) {
    while service.model().version() == version {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let postgres = Postgres::start(&["fsync=off"]).expect("should start a Postgres");
    let url = postgres.url("postgres");
    let mut connection = PgConnection::connect(&url).await.expect("should connect");
    MIGRATIONS.run(&mut connection).await.expect("should migrate from zero");
    insert(&mut connection, RUNS).await;
    sqlx::query("analyze gromacs_observation").execute(&mut connection).await.expect("should analyse");

    let source = Source::new(&url).expect("the URL should be right");
    let start = Instant::now();
    let archive = source.read().await.expect("should read");
    println!("reading {RUNS} runs for the first time: {:?}, {} count", start.elapsed(), archive.runs().len());
    let start = Instant::now();
    let model = Model::prior().learn(&archive.runs());
    println!("a model from those that count: {:?} (aim 5 s)", start.elapsed());

    let service = Service::new(Model::prior(), Duration::from_secs(5), 1 << 20);
    let following = tokio::spawn(follow(service.clone(), source, Duration::from_secs(3600)));
    until_another(&service, Model::prior().version()).await;
    assert_eq!(service.model().version(), model.version(), "both read the same");
    for _ in 0..5 {
        let before = service.model().version().to_owned();
        let start = Instant::now();
        insert(&mut connection, 1).await;
        until_another(&service, &before).await;
        println!("a new run is used after {:?} (aim 1 s)", start.elapsed());
    }
    following.abort();
}
