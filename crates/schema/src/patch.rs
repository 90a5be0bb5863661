//! Patches: what becomes of an object when a client sends a change instead of the whole.
//!
//! [`json`] is RFC 6902, [`merge`] is RFC 7386, and [`strategic`] is Kubernetes' own, which knows from a table of
//! [`facts`] which lists are merged by which key. All three take the object and the patch apart and put them together
//! again, so what does not change is not copied.
//!
//! Follows k8s.io/apiserver 0.36.4, `pkg/endpoints/handlers/patch.go`.
//!
//! # Invariants
//! * No patch takes more than about linear time, nor makes an object much larger than itself and the object together.
//! * The error of a patch that does not apply has the words and the status of a Kubernetes API server.

mod error;
pub mod facts;
pub mod json;
pub mod merge;
pub mod strategic;

pub use error::Error;

/// Values nested deeper than this are refused. Parsers refuse them much earlier.
const MAX_DEPTH: usize = 200;
