//! What can go wrong while an expression is evaluated.
//!
//! Follows cel-go 0.29.2, `common/types/err.go`.

use std::borrow::Cow;

/// An error that an expression may still absorb, or the end of the evaluation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    Error(Cow<'static, str>),
    /// A limit is exceeded. Nothing absorbs this.
    Cancelled(&'static str),
}

impl Fault {
    pub(super) fn text(text: &'static str) -> Self {
        Self::Error(Cow::Borrowed(text))
    }

    pub(super) fn new(text: impl Into<String>) -> Self {
        Self::Error(Cow::Owned(text.into()))
    }

    pub(super) fn no_such_overload() -> Self {
        Self::text("no such overload")
    }
}

/// Why there is no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluateError {
    /// The expression does not make sense for these values.
    #[error("{0}")]
    Failed(String),
    /// The expression costs more than it may.
    #[error("operation cancelled: {0}")]
    Cancelled(&'static str),
}

impl From<Fault> for EvaluateError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Error(text) => Self::Failed(text.into_owned()),
            Fault::Cancelled(reason) => Self::Cancelled(reason),
        }
    }
}
