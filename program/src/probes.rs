//! `/healthz`, `/readyz` and `/metrics`.

use std::{fmt, sync::Arc};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};

use crate::metrics::CONTENT_TYPE;

/// What a program answers when it is asked from outside.
pub trait Probes: Send + Sync + 'static {
    /// Whether the process works; if not, why the kubelet is to start it again.
    ///
    /// # Errors
    /// A line about what is wrong.
    fn alive(&self) -> Result<(), String>;

    /// Whether it can do its work now.
    ///
    /// # Errors
    /// A line about what is missing.
    fn ready(&self) -> Result<(), String>;

    /// Its metrics, as OpenMetrics text.
    ///
    /// # Errors
    /// If they cannot be written as text.
    fn metrics(&self) -> Result<String, fmt::Error>;
}

/// The three paths.
pub fn router<P: Probes>(probes: Arc<P>) -> Router {
    Router::new()
        .route("/healthz", get(alive::<P>))
        .route("/readyz", get(ready::<P>))
        .route("/metrics", get(metrics::<P>))
        .with_state(probes)
}

async fn alive<P: Probes>(State(probes): State<Arc<P>>) -> (StatusCode, String) {
    answer(probes.alive())
}

async fn ready<P: Probes>(State(probes): State<Arc<P>>) -> (StatusCode, String) {
    answer(probes.ready())
}

fn answer(is_well: Result<(), String>) -> (StatusCode, String) {
    match is_well {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, why + "\n"),
    }
}

async fn metrics<P: Probes>(State(probes): State<Arc<P>>) -> Response {
    match probes.metrics() {
        Ok(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "the metrics cannot be written as text");
            (StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written as text\n").into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, http::Request};
    use tower::ServiceExt as _;

    use super::*;

    struct Ill;

    impl Probes for Ill {
        fn alive(&self) -> Result<(), String> {
            Ok(())
        }

        fn ready(&self) -> Result<(), String> {
            Err("the database does not answer".to_owned())
        }

        fn metrics(&self) -> Result<String, fmt::Error> {
            Ok("# EOF\n".to_owned())
        }
    }

    async fn get(path: &str) -> (StatusCode, Option<String>, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = router(Arc::new(Ill)).oneshot(request).await.unwrap();
        let content_type = response.headers().get(header::CONTENT_TYPE);
        let content_type = content_type.map(|value| value.to_str().unwrap().to_owned());
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), 1 << 10).await.unwrap();
        (status, content_type, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn each_path_has_its_own_answer() {
        let (status, _, body) = get("/healthz").await;
        assert_eq!((status, body.as_str()), (StatusCode::OK, "ok\n"));
        let (status, _, body) = get("/readyz").await;
        assert_eq!(
            (status, body.as_str()),
            (StatusCode::SERVICE_UNAVAILABLE, "the database does not answer\n")
        );
        let (status, content_type, body) = get("/metrics").await;
        assert_eq!((status, body.as_str()), (StatusCode::OK, "# EOF\n"));
        assert_eq!(content_type.as_deref(), Some(CONTENT_TYPE), "Prometheus chooses its parser by it");
    }
}
