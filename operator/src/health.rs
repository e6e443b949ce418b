//! /healthz (the loop turns, and every watch of the leader is heard of), /readyz and /metrics.
//!
//! A leader is ready once every watch has delivered its first list, and while none only fails. A standby watches nothing and is ready while it could
//! lead: the API server answers, and the Lease was read. A standby that is never ready would block every rollout.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use jiff::Timestamp;

use crate::{controller::Health, metrics::Metrics};

/// The loop turns at least every 5 s; a plan of a very large cluster takes 2 s.
const MAX_IDLE_SECONDS: i64 = 60;

#[derive(Clone)]
struct Shared {
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    max_watch_age: Duration,
}

/// Routes of the operator's HTTP port.
pub(crate) fn router(health: Arc<Health>, metrics: Arc<Metrics>, max_watch_age: Duration) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(render))
        .with_state(Shared { health, metrics, max_watch_age })
}

#[expect(clippy::disallowed_methods, reason = "the edge: asked from outside how old the last turn is")]
async fn healthz(State(shared): State<Shared>) -> impl IntoResponse {
    let idle = shared.health.idle_seconds(Timestamp::now());
    if idle > MAX_IDLE_SECONDS {
        return (StatusCode::SERVICE_UNAVAILABLE, format!("the loop has not turned for {idle} s\n"));
    }
    match shared.health.progress.overdue(shared.max_watch_age) {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some((watched, age)) => (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("nothing was heard on the watch of {} for {} s\n", watched.name(), age.as_secs()),
        ),
    }
}

async fn readyz(State(shared): State<Shared>) -> impl IntoResponse {
    if shared.health.is_ready() {
        (StatusCode::OK, "ok\n")
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "the Lease was not read, or, as the leader, a list has not arrived or a watch fails\n",
        )
    }
}

async fn render(State(shared): State<Shared>) -> impl IntoResponse {
    shared.metrics.watches(&shared.health.progress);
    match shared.metrics.render() {
        Ok(text) => (
            StatusCode::OK,
            [(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")],
            text,
        ),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, [(header::CONTENT_TYPE, "text/plain")], String::new()),
    }
}
