//! From bodies to requests, and from errors to replies.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use scavenger_schema::strict::Object;
use scavenger_schema::tuning::{ErrorCode, ErrorReply};
use scavenger_tuner_model::TuneError;
use scavenger_tuner_model::error::Fault;
use serde::de::{DeserializeOwned, IgnoredAny};

/// Every reply that is neither 2xx nor from /readyz.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .reply.error)]
pub struct ApiError {
    /// Status of the reply.
    pub status: StatusCode,
    /// Its body.
    pub reply: ErrorReply,
}

impl ApiError {
    /// An error without a field.
    pub fn new(status: StatusCode, code: ErrorCode, error: impl Into<String>) -> Self {
        Self { status, reply: ErrorReply { code, error: error.into(), field: None } }
    }
}

impl From<ErrorReply> for ApiError {
    /// A body that could not be read: 422 if a field of it is to blame, 400 if it is no JSON.
    fn from(reply: ErrorReply) -> Self {
        let status =
            if reply.field.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::BAD_REQUEST };
        Self { status, reply }
    }
}

impl From<TuneError> for ApiError {
    fn from(error: TuneError) -> Self {
        let code = match &error {
            TuneError::Invalid(error) => match error.fault {
                Fault::Value => ErrorCode::Invalid,
                Fault::Combination => ErrorCode::Inconsistent,
            },
            TuneError::NothingFits(_) => ErrorCode::NothingFits,
        };
        let reply = ErrorReply { code, error: error.to_string(), field: Some(error.field().to_owned()) };
        Self { status: StatusCode::UNPROCESSABLE_ENTITY, reply }
    }
}

impl From<BytesRejection> for ApiError {
    fn from(rejection: BytesRejection) -> Self {
        let status = rejection.status();
        let error = if status == StatusCode::PAYLOAD_TOO_LARGE {
            "the body is larger than this service reads".to_owned()
        } else {
            rejection.body_text()
        };
        Self::new(status, ErrorCode::Invalid, error)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, Json(self.reply)).into_response()
    }
}

/// A body that says it is JSON, as a `T`.
pub(super) struct Asked<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Asked<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        if !says_json(request.headers()) {
            let error = "the header Content-Type must be application/json";
            return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, ErrorCode::Invalid, error));
        }
        let body = Bytes::from_request(request, state).await?;
        Ok(Self(parse(&body)?))
    }
}

/// True for `application/json`, with whatever parameters: JSON is UTF-8 always.
fn says_json(headers: &HeaderMap) -> bool {
    let said = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = said.split(';').next().unwrap_or_default();
    media_type.trim().eq_ignore_ascii_case("application/json")
}

/// Reads a request; the error names the field.
pub fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ErrorReply> {
    // Following the path to each value takes time, and few requests need it.
    if let Ok(value) = serde_json::from_slice::<Object<T>>(body) {
        return Ok(value.0);
    }
    let mut json = serde_json::Deserializer::from_slice(body);
    let value: Object<T> = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let message = error.into_inner().to_string();
        // What is JSON all the same is wrong in a field, even if serde_json calls it syntax: 1e999, or one element too
        // many.
        let field = is_json(body).then(|| field_of(&path, &message));
        let error = match &field {
            Some(field) => format!("{field}: {message}"),
            None => format!("the body is not valid JSON: {message}"),
        };
        ErrorReply { code: ErrorCode::Invalid, error, field }
    })?;
    json.end().map_err(|error| ErrorReply {
        code: ErrorCode::Invalid,
        error: format!("the body is not valid JSON: {error}"),
        field: None,
    })?;
    Ok(value.0)
}

fn is_json(body: &[u8]) -> bool {
    std::str::from_utf8(body).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

/// The path as far as serde knows it, and the field that it only mentions.
fn field_of(path: &str, message: &str) -> String {
    let path = if path == "." { "" } else { path };
    let mentioned = ["missing field `", "duplicate field `"]
        .iter()
        .find_map(|prefix| message.strip_prefix(prefix)?.split_once('`'));
    match mentioned {
        Some((name, _)) if path.is_empty() => name.to_owned(),
        Some((name, _)) => format!("{path}.{name}"),
        None if path.is_empty() => "body".to_owned(),
        None => path.to_owned(),
    }
}
