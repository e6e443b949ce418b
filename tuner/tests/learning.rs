//! Learning from a real Postgres, started here on a Unix socket in a temporary folder.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use scavenger_local_postgres::Postgres;
use scavenger_schema::simulation::MIGRATIONS;
use scavenger_schema::tuning::{LadderReply, Layout, ModelReply};
use scavenger_tuner::http::{Service, router};
use scavenger_tuner::observations::{Source, follow};
use scavenger_tuner_model::ladder::fixtures::{node, request, water};
use scavenger_tuner_model::{Model, ladder};
use sqlx::types::Json;
use sqlx::{Connection as _, PgConnection};
use tower::ServiceExt as _;

async fn insert(connection: &mut PgConnection, atoms: i64, system: serde_json::Value, ns_per_day: f64) {
    sqlx::query(
        "insert into gromacs_observation (owner, source, atoms, system, cpu_millicores, gpus, layout,
            hardware_class, node_labels, gromacs_version, ns_per_day, steps, wall_seconds, node_cpu_millicores)
        values ('chemist', 'import', $1, $2, 1000, 0, $3, 'unknown', '{}', null, $4, 50000, 60, 2000)",
    )
    .bind(atoms)
    .bind(system)
    .bind(Json(Layout::cpu(1, 1)))
    .bind(ns_per_day)
    .execute(connection)
    .await
    .expect("should insert an observation");
}

async fn get(service: &Service, path: &str) -> (u16, String) {
    let request = Request::get(path).body(Body::empty()).expect("the request should be right");
    let response = router(service).oneshot(request).await.expect("the router should always answer");
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), 1 << 20).await.expect("the body should be read");
    (status, String::from_utf8(body.to_vec()).expect("the body should be text"))
}

async fn model(service: &Service) -> ModelReply {
    serde_json::from_str(&get(service, "/v1/model").await.1).expect("the reply should have its type")
}

/// Waits for a condition on the model, at most 20 s.
async fn until(service: &Service, wanted: impl Fn(&ModelReply) -> bool) -> ModelReply {
    for _ in 0..200 {
        let reply = model(service).await;
        if wanted(&reply) {
            return reply;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the model did not become as wanted: {:?}", model(service).await);
}

fn one_core(reply: &LadderReply) -> f64 {
    let rung = reply.rungs.iter().find(|rung| rung.resources.cpu_millicores == 1000);
    rung.expect("there should be a rung of one core").ns_per_day.p50
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn measured_runs_change_the_answers() {
    let postgres = Postgres::start(&["fsync=off"]).expect("should start a Postgres");
    let url = postgres.url("postgres");
    let mut connection = PgConnection::connect(&url).await.expect("should connect");
    let service = Service::new(Model::prior(), Duration::from_secs(5), 1 << 20);
    service.set_ready(false);
    let source = Source::new(&url).expect("the URL should be right");
    let following = tokio::spawn(follow(service.clone(), source, Duration::from_millis(100)));

    // Before the tables are made the tuner is ready with what it knows by itself.
    for _ in 0..100 {
        if get(&service, "/readyz").await.0 == 200 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(get(&service, "/readyz").await.0, 200);
    let asked = request(water(10_000), vec![node(2000, 4)]);
    let before = ladder::build(&service.model(), &asked).expect("there should be a ladder");

    MIGRATIONS.run(&mut connection).await.expect("should migrate from zero");
    let system = serde_json::to_value(water(10_000)).expect("should serialise");
    let measured = one_core(&before) * 0.5;
    insert(&mut connection, 10_000, system, measured).await;
    // What cannot be read is skipped.
    insert(&mut connection, 10_000, serde_json::json!({"atoms": "many"}), 1.0).await;
    let learned = until(&service, |model| model.runs > 0).await;
    let class = learned.classes.iter().find(|class| class.runs == 1).expect("the run should be shown");
    assert_eq!((learned.runs, class.class.as_str(), class.kind.as_str()), (1, "unknown", "cpu"));
    let residual = class.residual.as_ref().expect("its residual should be shown");
    assert!((residual.median_ratio - 2.0).abs() < 0.2, "{learned:?}");

    let after = ladder::build(&service.model(), &asked).expect("there should be a ladder");
    assert_ne!(before.model_version, after.model_version);
    assert!((one_core(&after) / measured - 1.0).abs() < 0.15, "{} for {measured}", one_core(&after));

    // However many rows of a system say nothing of their nodes, what says something counts.
    sqlx::query(
        "insert into gromacs_observation (owner, source, atoms, system, cpu_millicores, gpus, layout,
            hardware_class, node_labels, gromacs_version, ns_per_day, steps, wall_seconds)
        select 'chemist', 'import', 10000, $1, 1000, 0, $2, 'zen3',
            case when n = 0 then '{\"node.kubernetes.io/instance-type\": \"hpc6a.48xlarge\"}' else '{}' end::jsonb,
            null, 10, 50000, 60 from generate_series(0, 250) as n order by n",
    )
    .bind(serde_json::to_value(water(10_000)).expect("should serialise"))
    .bind(Json(Layout::cpu(1, 1)))
    .execute(&mut connection)
    .await
    .expect("should insert observations");
    let learned = until(&service, |model| model.runs == 2).await;
    assert!(learned.classes.iter().any(|class| class.class == "zen3" && class.runs == 1), "{learned:?}");
    let dropped = |of: &str| {
        let reason = learned.dropped.iter().find(|dropped| dropped.reason.contains(of));
        reason.map(|dropped| dropped.runs)
    };
    assert_eq!((dropped("several kinds"), dropped("cannot be read")), (Some(250), Some(1)), "{learned:?}");
    sqlx::query("delete from gromacs_observation where hardware_class = 'zen3'")
        .execute(&mut connection)
        .await
        .expect("should delete observations");
    until(&service, |model| model.runs == 1).await;

    // Two replicas that read the same rows agree.
    let other = Service::new(Model::prior(), Duration::from_secs(5), 1 << 20);
    let source = Source::new(&url).expect("the URL should be right");
    let following_too = tokio::spawn(follow(other.clone(), source, Duration::from_millis(100)));
    until(&other, |model| model.runs > 0).await;
    let theirs = ladder::build(&other.model(), &asked).expect("there should be a ladder");
    assert_eq!(theirs, after);

    // A replica that hardly ever looks is told of new runs.
    let told = Service::new(Model::prior(), Duration::from_secs(5), 1 << 20);
    let source = Source::new(&url).expect("the URL should be right");
    let listening = tokio::spawn(follow(told.clone(), source, Duration::from_secs(3600)));
    until(&told, |model| model.runs == 1).await;
    let system = serde_json::to_value(water(20_000)).expect("should serialise");
    insert(&mut connection, 20_000, system, measured * 0.5).await;
    until(&told, |model| model.runs == 2).await;
    until(&service, |model| model.runs == 2).await;
    listening.abort();
    let after = ladder::build(&service.model(), &asked).expect("there should be a ladder");
    assert_eq!(after, ladder::build(&told.model(), &asked).expect("there should be a ladder"));

    // A database that is gone changes nothing.
    drop(connection);
    drop(postgres);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(ladder::build(&service.model(), &asked).expect("there should be a ladder"), after);
    following.abort();
    following_too.abort();
}

/// A run that was killed for its memory raises what is asked for the system, and says nothing of its speed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_for_memory_is_learned_from() {
    let postgres = Postgres::start(&["fsync=off"]).expect("should start a Postgres");
    let url = postgres.url("postgres");
    let mut connection = PgConnection::connect(&url).await.expect("should connect");
    MIGRATIONS.run(&mut connection).await.expect("should migrate from zero");
    let asked = request(water(1_000_000), vec![node(2000, 64)]);
    let one_core = |service: &Service| {
        let reply = ladder::build(&service.model(), &asked).expect("there should be a ladder");
        let rung = reply.rungs.into_iter().find(|rung| rung.resources.cpu_millicores == 1000);
        rung.expect("there should be a rung of one core")
    };
    let service = Service::new(Model::prior(), Duration::from_secs(5), 1 << 20);
    let before = one_core(&service);
    let limit = before.resources.memory_bytes;
    let system = serde_json::to_value(water(1_000_000)).expect("should serialise");
    // One that was killed, and two whose speed is not learned from.
    sqlx::query(
        "insert into gromacs_observation (owner, source, atoms, system, cpu_millicores, gpus, layout, hardware_class,
            node_labels, ns_per_day, steps, wall_seconds, peak_memory_bytes, killed_for_memory)
        values ('a', 'simulation', 1000000, $1, 1000, 0, $2, null, '{}', null, null, null, $3, true),
            ('a', 'simulation', 1000000, $1, 1000, 0, $2, null, '{}', 1, 50000, 60, null, false),
            ('a', 'simulation', 1000000, $1, 1000, 0, $2, 'unknown', '{}', 1, 50000, 1, null, false)",
    )
    .bind(system)
    .bind(Json(Layout::cpu(1, 1)))
    .bind(i64::try_from(limit).expect("it should be small"))
    .execute(&mut connection)
    .await
    .expect("should insert observations");
    let source = Source::new(&url).expect("the URL should be right");
    let following = tokio::spawn(follow(service.clone(), source, Duration::from_millis(100)));
    let learned = until(&service, |model| !model.dropped.is_empty()).await;
    let dropped: Vec<(&str, u64)> =
        learned.dropped.iter().map(|dropped| (dropped.kind.as_str(), dropped.runs)).collect();
    assert_eq!((learned.runs, dropped), (0, vec![("short", 1), ("several_kinds", 1)]));
    let after = one_core(&service);
    let ratio = after.resources.memory_bytes as f64 / limit as f64;
    assert!((ratio - 1.25 * 2.0_f64.sqrt()).abs() < 0.05, "{ratio}");
    assert_eq!(after.ns_per_day, before.ns_per_day);
    let metrics = get(&service, "/metrics").await.1;
    for line in ["{reason=\"short\"} 1", "{reason=\"several_kinds\"} 1"] {
        assert!(metrics.contains(&format!("scavenger_tuner_dropped_runs{line}")), "{metrics}");
    }
    following.abort();
}

/// A run that cannot be used is counted by its reason, and shown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_layout_is_no_contradiction_of_a_system() {
    let postgres = Postgres::start(&["fsync=off"]).expect("should start a Postgres");
    let url = postgres.url("postgres");
    let mut connection = PgConnection::connect(&url).await.expect("should connect");
    MIGRATIONS.run(&mut connection).await.expect("should migrate from zero");
    let mut dense = water(10_000);
    dense.box_nm = Some([1.0; 3]);
    let mut without_buffer = water(10_000);
    without_buffer.rlist_nm = Some(0.5 * without_buffer.cutoff_nm);
    let fourteen_ranks = Layout::cpu(14, 1);
    for (system, layout) in [
        (water(10_000), Layout::cpu(1, 1)),
        (water(10_000), fourteen_ranks),
        (water(10_000), Layout { npme: 8, ..fourteen_ranks }),
        (dense, Layout::cpu(1, 1)),
        (without_buffer, fourteen_ranks),
    ] {
        sqlx::query(
            "insert into gromacs_observation (owner, source, atoms, system, cpu_millicores, gpus, layout,
                hardware_class, node_labels, gromacs_version, ns_per_day, steps, wall_seconds)
            values ('chemist', 'import', 10000, $1, 14000, 0, $2, 'unknown', '{}', null, 5, 50000, 60)",
        )
        .bind(Json(system))
        .bind(Json(layout))
        .execute(&mut connection)
        .await
        .expect("should insert an observation");
    }
    let service = Service::new(Model::prior(), Duration::from_secs(5), 1 << 20);
    let source = Source::new(&url).expect("the URL should be right");
    let following = tokio::spawn(follow(service.clone(), source, Duration::from_millis(100)));
    let learned = until(&service, |model| model.runs > 0).await;
    let dropped: Vec<(&str, &str, u64)> = learned
        .dropped
        .iter()
        .map(|dropped| (dropped.kind.as_str(), dropped.reason.as_str(), dropped.runs))
        .collect();
    assert_eq!(
        dropped,
        [
            (
                "inconsistent",
                "box and atoms of its system, or its pair list and cut-off, contradict each other",
                2
            ),
            ("refused", "the tuner takes its layout for one that mdrun refuses", 2),
        ]
    );
    assert_eq!(learned.runs, 1);
    let metrics = get(&service, "/metrics").await.1;
    for line in ["{reason=\"inconsistent\"} 2", "{reason=\"refused\"} 2"] {
        assert!(metrics.contains(&format!("scavenger_tuner_dropped_runs{line}")), "{metrics}");
    }
    following.abort();
}
