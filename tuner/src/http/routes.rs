//! Handlers.

use std::time::Instant;

use axum::Json;
use axum::extract::{MatchedPath, Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use scavenger_schema::tuning::{
    CalibrationReply, CalibrationRequest, ErrorCode, LadderReply, LadderRequest, ModelReply, PredictReply,
    PredictRequest,
};
use scavenger_tuner_model::{calibrate, description, ladder};

use super::Service;
use super::error::{ApiError, Asked};

pub(super) async fn ladder(
    State(service): State<Service>,
    Asked(request): Asked<LadderRequest>,
) -> Result<Json<LadderReply>, ApiError> {
    let reply = ladder::build(&service.model(), &request)?;
    service.metrics().ladder(reply.rungs.len());
    tracing::debug!(atoms = request.system.atoms, rungs = reply.rungs.len(), "ladder");
    Ok(Json(reply))
}

pub(super) async fn predict(
    State(service): State<Service>,
    Asked(request): Asked<PredictRequest>,
) -> Result<Json<PredictReply>, ApiError> {
    Ok(Json(service.model().answer(&request)?))
}

pub(super) async fn calibrate(
    State(service): State<Service>,
    Asked(request): Asked<CalibrationRequest>,
) -> Result<Json<CalibrationReply>, ApiError> {
    // It fits what would be known after each of many benchmarks: too long for a thread that answers others.
    let model = service.model();
    let proposal = tokio::task::spawn_blocking(move || calibrate::propose(&model, &request)).await;
    let proposal = proposal.map_err(|error| {
        tracing::error!(%error, "cannot propose benchmarks");
        let error = "the benchmarks cannot be proposed";
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, ErrorCode::Unavailable, error)
    })?;
    Ok(Json(proposal?))
}

pub(super) async fn model(State(service): State<Service>) -> Json<ModelReply> {
    let model = service.model();
    Json(ModelReply {
        model_version: model.version().to_owned(),
        runs: model.runs(),
        classes: description::classes(&model),
        dropped: service.dropped(),
    })
}

pub(super) async fn not_found() -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, ErrorCode::Invalid, "there is nothing at this path")
}

pub(super) async fn method_not_allowed() -> ApiError {
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        ErrorCode::Invalid,
        "this path has another method, see the header Allow",
    )
}

/// Bounds the time of a request, counts it and logs failures.
pub(super) async fn observe(
    State(service): State<Service>,
    matched: Option<MatchedPath>,
    request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    // Paths that do not exist are one label, so that a scanner cannot grow the metrics.
    let path = matched.map_or_else(|| "other".to_owned(), |path| path.as_str().to_owned());
    let response = match tokio::time::timeout(service.request_timeout(), next.run(request)).await {
        Ok(response) => response,
        Err(_) => ApiError::new(
            StatusCode::REQUEST_TIMEOUT,
            ErrorCode::Unavailable,
            format!("the request took longer than {:?}", service.request_timeout()),
        )
        .into_response(),
    };
    let status = response.status();
    service.metrics().request(path.clone(), status.as_u16(), started.elapsed());
    if status.is_server_error() {
        tracing::error!(path, status = status.as_u16(), "request failed");
    } else if status.is_client_error() {
        tracing::info!(path, status = status.as_u16(), "request refused");
    }
    response
}
