//! From errors to replies.

use axum::Json;
use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use scavenger_schema::tuning::{ErrorCode, ErrorReply};
use scavenger_tuner_model::TuneError;
use serde::de::DeserializeOwned;
use serde_json::error::Category;

/// Every reply that is not 2xx.
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
        let code = match error {
            TuneError::Invalid(_) => ErrorCode::Invalid,
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

/// Reads a request; the error names the field.
pub fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ErrorReply> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        let message = inner.to_string();
        // A number such as 1e999 is a matter of the field, although serde_json calls it syntax.
        let about_field = inner.classify() == Category::Data || message.starts_with("number out of range");
        let field = about_field.then(|| field_of(&path, &message));
        let error = match &field {
            Some(field) => format!("{field}: {message}"),
            None => format!("the body is no valid JSON: {message}"),
        };
        ErrorReply { code: ErrorCode::Invalid, error, field }
    })?;
    json.end().map_err(|error| ErrorReply {
        code: ErrorCode::Invalid,
        error: format!("the body is no valid JSON: {error}"),
        field: None,
    })?;
    Ok(value)
}

/// The path as far as serde knows it, and the missing field that it only mentions.
fn field_of(path: &str, message: &str) -> String {
    let path = if path == "." { "" } else { path };
    let missing = message.strip_prefix("missing field `").and_then(|rest| rest.split_once('`'));
    match missing {
        Some((name, _)) if path.is_empty() => name.to_owned(),
        Some((name, _)) => format!("{path}.{name}"),
        None if path.is_empty() => "body".to_owned(),
        None => path.to_owned(),
    }
}
