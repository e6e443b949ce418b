//! Why a request gets no answer.

/// One field of a request has a value that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct FieldError {
    /// Path of the field as it stands in the JSON (`nodes[2].allocatable.gpus`).
    pub field: String,
    /// What is wrong with it and what would be right, with the value in it.
    pub problem: String,
}

impl FieldError {
    /// An error about `field`.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }

    /// The same error about a field that lies below `parent`.
    #[must_use]
    pub fn within(self, parent: &str) -> Self {
        Self { field: format!("{parent}.{}", self.field), ..self }
    }
}

/// Why there is no ladder or prediction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TuneError {
    /// The request is wrong.
    #[error(transparent)]
    Invalid(#[from] FieldError),
    /// The request is right, but nothing can run within its limits on its nodes.
    #[error("{0}")]
    NothingFits(FieldError),
}

impl TuneError {
    /// The field to change.
    #[must_use]
    pub fn field(&self) -> &str {
        match self {
            Self::Invalid(error) | Self::NothingFits(error) => &error.field,
        }
    }
}

/// Checks that `value` is a number in `min..=max`. Written so that NaN is refused too.
pub(crate) fn within(field: &str, value: f64, min: f64, max: f64) -> Result<f64, FieldError> {
    if value >= min && value <= max {
        Ok(value)
    } else {
        Err(FieldError::new(field, format!("must be {min} to {max}, is {value}")))
    }
}

/// Checks that `value` is in `min..=max`.
pub(crate) fn count_within<T>(field: &str, value: T, min: T, max: T) -> Result<T, FieldError>
where
    T: PartialOrd + std::fmt::Display + Copy,
{
    if value >= min && value <= max {
        Ok(value)
    } else {
        Err(FieldError::new(field, format!("must be {min} to {max}, is {value}")))
    }
}
