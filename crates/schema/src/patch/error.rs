//! Why a patch could not be applied, and what a server answers then.
//!
//! Follows k8s.io/apiserver 0.36.4, `pkg/endpoints/handlers/patch.go`.

use crate::status::{Resource, Status};

/// Why a patch could not be applied. The text is that of the API server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The patch is invalid.
    #[error("{0}")]
    Malformed(String),
    /// The patch makes sense, but not for this object.
    #[error("{0}")]
    NotApplicable(String),
    /// The patch is larger than a server puts up with.
    #[error("{0}")]
    TooLarge(String),
    /// What an API server does not foresee.
    #[error("{0}")]
    Internal(String),
}

impl Error {
    /// What the API server answers. It keeps the reason why a patch does not apply to itself.
    pub fn to_status(&self) -> Status {
        match self {
            Self::Malformed(text) => Status::bad_request(text),
            Self::NotApplicable(text) => Status::generic(422, "", &Resource::default(), "", text),
            Self::TooLarge(text) => Status::request_too_large(text),
            Self::Internal(text) => Status::unexpected(text),
        }
    }

    pub(super) fn too_deep() -> Self {
        Self::Malformed("exceeded max depth".to_owned())
    }
}
