//! The HTTP face of the model.

mod error;
mod metrics;
mod routes;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use scavenger_program::probes::{self, Probes};
use scavenger_program::server;
use scavenger_schema::tuning::{CALIBRATE_PATH, DroppedRuns, LADDER_PATH, MODEL_PATH, PREDICT_PATH};
use scavenger_tuner_model::Model;
use tokio::net::TcpListener;

pub use error::{ApiError, parse};
use metrics::Metrics;

/// What all requests share.
#[derive(Clone)]
pub struct Service(Arc<Inner>);

struct Inner {
    model: RwLock<Arc<Model>>,
    dropped: RwLock<Vec<DroppedRuns>>,
    metrics: Metrics,
    ready: AtomicBool,
    request_timeout: Duration,
    body_limit: usize,
}

impl Service {
    /// A service that answers with `model`, ready at once.
    #[must_use]
    pub fn new(model: Model, request_timeout: Duration, body_limit: usize) -> Self {
        let metrics = Metrics::new(&model);
        let model = RwLock::new(Arc::new(model));
        let dropped = RwLock::default();
        Self(Arc::new(Inner {
            model,
            dropped,
            metrics,
            ready: AtomicBool::new(true),
            request_timeout,
            body_limit,
        }))
    }

    /// The model in use.
    #[must_use]
    pub fn model(&self) -> Arc<Model> {
        // The lock only guards a pointer, so a panic elsewhere cannot have left it half written.
        Arc::clone(&self.0.model.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Answers with `model` from now on.
    pub fn set_model(&self, model: Model) {
        self.0.metrics.model(&model);
        *self.0.model.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(model);
    }

    /// Shows that these runs were read and not learned from.
    pub fn set_dropped(&self, dropped: Vec<DroppedRuns>) {
        self.0.metrics.dropped(&dropped);
        *self.0.dropped.write().unwrap_or_else(PoisonError::into_inner) = dropped;
    }

    fn dropped(&self) -> Vec<DroppedRuns> {
        self.0.dropped.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether `/readyz` says yes.
    pub fn set_ready(&self, ready: bool) {
        self.0.ready.store(ready, Ordering::Relaxed);
    }

    fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    fn request_timeout(&self) -> Duration {
        self.0.request_timeout
    }
}

impl Probes for Inner {
    fn alive(&self) -> Result<(), String> {
        Ok(())
    }

    fn ready(&self) -> Result<(), String> {
        if self.ready.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err("not ready: starting or stopping".to_owned())
    }

    fn metrics(&self) -> Result<String, fmt::Error> {
        self.metrics.encode()
    }
}

/// All routes.
pub fn router(service: &Service) -> Router {
    Router::new()
        .route(LADDER_PATH, post(routes::ladder))
        .route(PREDICT_PATH, post(routes::predict))
        .route(CALIBRATE_PATH, post(routes::calibrate))
        .route(MODEL_PATH, get(routes::model))
        .with_state(service.clone())
        .merge(probes::router(Arc::clone(&service.0)))
        .method_not_allowed_fallback(routes::method_not_allowed)
        .fallback(routes::not_found)
        .layer(DefaultBodyLimit::max(service.0.body_limit))
        .layer(from_fn_with_state(service.clone(), routes::observe))
}

/// Serves until `stop`, then finishes the requests that are open, but waits no longer than `grace` for them.
pub async fn serve(
    listener: TcpListener,
    service: &Service,
    stop: impl Future<Output = ()>,
    grace: Duration,
) {
    server::serve(listener, router(service), stop, grace).await;
}
