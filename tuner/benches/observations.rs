//! How soon measured runs are used, with 1,000,000 of them in the database: from the commit of a run to the first answer
//! over HTTP that rests on it, and from the start of a tuner to its first answer that rests on all of them.
//!
//! Beside the time on the clock stands that of the processor, of this program without Postgres: the machine may have other
//! work.

#![allow(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a bench prints, and fails where it cannot go on"
)]

use std::time::{Duration, Instant};

use axum::body::{Body, to_bytes};
use axum::http::Request;
use nix::time::{ClockId, clock_gettime};
use scavenger_local_postgres::Postgres;
use scavenger_schema::simulation::MIGRATIONS;
use scavenger_schema::tuning::{LadderReply, Layout};
use scavenger_tuner::http::{Service, router};
use scavenger_tuner::observations::{Source, follow};
use scavenger_tuner_model::Model;
use scavenger_tuner_model::ladder::fixtures::{node, request, water};
use sqlx::types::Json;
use sqlx::{Connection as _, PgConnection};
use tower::ServiceExt as _;

const RUNS: i32 = 1_000_000;
/// Runs that are added one by one.
const NEW_RUNS: usize = 9;

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

/// When something began, on the clock and for this program's threads.
struct Began(Instant, Duration);

impl Began {
    fn now() -> Self {
        Self(Instant::now(), processor_time())
    }

    /// What has passed since.
    fn passed(&self) -> (Duration, Duration) {
        (self.0.elapsed(), processor_time().saturating_sub(self.1))
    }
}

fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("Linux should have this clock").into()
}

/// The version of the model that answers a request over HTTP.
async fn answered_by(service: &Service) -> String {
    let asked = request(water(10_000), vec![node(16_000, 64)]);
    let body = serde_json::to_string(&asked).expect("should serialise");
    let request =
        Request::post("/v1/ladder").header("content-type", "application/json").body(Body::from(body));
    let request = request.expect("the request should be right");
    let response = router(service).oneshot(request).await.expect("the router should always answer");
    let body = to_bytes(response.into_body(), 1 << 20).await.expect("the body should be read");
    let reply: LadderReply = serde_json::from_slice(&body).expect("there should be a ladder");
    reply.model_version
}

/// Asks until the answer rests on another model than `version`.
async fn until_another(service: &Service, version: &str) {
    while answered_by(service).await == version {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    // `cargo test --benches` only wants to know that it starts.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let postgres = Postgres::start(&["fsync=off"]).expect("should start a Postgres");
    let url = postgres.url("postgres");
    let mut connection = PgConnection::connect(&url).await.expect("should connect");
    MIGRATIONS.run(&mut connection).await.expect("should migrate from zero");
    insert(&mut connection, RUNS).await;
    sqlx::query("analyze gromacs_observation").execute(&mut connection).await.expect("should analyse");

    let source = Source::new(&url).expect("the URL should be right");
    let began = Began::now();
    let runs = source.read().await.expect("should read");
    let model = Model::prior().learn(&runs.usable);
    let (clock, busy) = began.passed();
    println!(
        "to read all {RUNS} runs and learn from the {} that count: {clock:.2?}, {busy:.2?} of the processor",
        runs.usable.len()
    );

    let service = Service::new(Model::prior(), Duration::from_secs(5), 1 << 20);
    let began = Began::now();
    let following = tokio::spawn(follow(service.clone(), source, Duration::from_secs(3600)));
    until_another(&service, Model::prior().version()).await;
    let (clock, busy) = began.passed();
    println!(
        "from the start to the first answer that rests on them (aim 5 s): {clock:.2?}, {busy:.2?} of the processor"
    );
    assert_eq!(service.model().version(), model.version(), "both read the same");

    let mut waits: Vec<(Duration, Duration)> = Vec::new();
    for _ in 0..NEW_RUNS {
        let before = service.model().version().to_owned();
        insert(&mut connection, 1).await;
        let began = Began::now();
        until_another(&service, &before).await;
        waits.push(began.passed());
    }
    following.abort();
    waits.sort();
    let ((middle, busy), (longest, _)) = (waits[NEW_RUNS / 2], waits[NEW_RUNS - 1]);
    println!(
        "from the commit of a new run to the first answer that rests on it (aim 5 s): {middle:.2?} in the middle, \
         {busy:.2?} of the processor, {longest:.2?} at most of {NEW_RUNS}"
    );
}
