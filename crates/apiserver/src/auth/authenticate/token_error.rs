//! Why a token identifies no user.

use ferroplane_golang::strconv::quote;

use super::service_account::BoundKind;
use crate::auth::rbac::quote_list;

/// Why a token identifies no user. The texts are those of Kubernetes, which `TokenReview` returns. Other clients only learn that the
/// token was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum TokenError {
    /// It is not one of ours, or not signed by us.
    #[error("invalid bearer token")]
    Invalid,
    #[error("invalid signature, no keys found")]
    UnknownKey,
    #[error("invalid signature")]
    Signature,
    #[error(
        "token audiences {} is invalid for the target audiences {}",
        quote_list(meant),
        quote_list(wanted)
    )]
    Audience { meant: Vec<String>, wanted: Vec<String> },
    #[error("service account token is not valid yet")]
    NotValidYet,
    #[error("service account token has expired")]
    Expired,
    #[error("service account token is issued in the future")]
    IssuedInFuture,
    #[error("serviceaccounts {} not found", quote(.0))]
    NoServiceAccount(String),
    #[error("service account {namespace}/{name} has been deleted")]
    ServiceAccountDeleted { namespace: String, name: String },
    /// Something else that it is bound to is gone.
    #[error("service account token has been invalidated")]
    Invalidated,
    #[error("{} UID ({found}) does not match{} claim ({claimed})", kind.words().0, claim(*kind))]
    Uid { kind: BoundKind, found: String, claimed: String },
}

/// How the claim is called that names an object of a kind.
fn claim(kind: BoundKind) -> String {
    match kind {
        BoundKind::ServiceAccount => String::new(),
        other => format!(" service account {} ref", other.words().1),
    }
}
