//! Why a request gets no answer.

use scavenger_schema::bounds::Bounds;

use crate::layout::Refusal;

/// Whether a field's value is wrong whatever the other fields are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is outside its bounds.
    Value,
    /// It does not go together with other fields.
    Combination,
}

/// One field of a request has a value that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct FieldError {
    /// Path of the field as it stands in the JSON (`nodes[2].allocatable.gpus`).
    pub field: String,
    /// What is wrong with it and what would be right, with the value in it.
    pub problem: String,
    /// What kind of mistake it is.
    pub fault: Fault,
}

/// The field of a layout that mdrun refuses.
const LAYOUT: &str = "layout";

impl FieldError {
    /// An error about the value of `field`.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into(), fault: Fault::Value }
    }

    /// An error about `field` together with others.
    pub fn combination(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { fault: Fault::Combination, ..Self::new(field, problem) }
    }

    /// The error about a layout that mdrun refuses for the system.
    #[must_use]
    pub fn refused(refusal: Refusal) -> Self {
        Self::combination(LAYOUT, refusal.to_string())
    }

    /// True if it is [`Self::refused`]: other fields contradict each other, too.
    #[must_use]
    pub fn is_refused_layout(&self) -> bool {
        self.fault == Fault::Combination && self.field == LAYOUT
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

/// Checks that `value` is within `bounds`.
pub(crate) fn within<T>(field: &str, value: T, bounds: Bounds<T>) -> Result<T, FieldError>
where
    T: PartialOrd + std::fmt::Display + Copy,
{
    if bounds.contain(&value) {
        Ok(value)
    } else {
        let Bounds { min, max } = bounds;
        Err(FieldError::new(field, format!("must be {min} to {max}, is {value}")))
    }
}

/// Checks that `text` has as many characters as `bounds` allow.
pub(crate) fn length_within(field: &str, text: &str, bounds: Bounds<usize>) -> Result<(), FieldError> {
    let length = text.chars().count();
    if bounds.contain(&length) {
        Ok(())
    } else {
        let Bounds { min, max } = bounds;
        Err(FieldError::new(field, format!("must have {min} to {max} characters, has {length}")))
    }
}
