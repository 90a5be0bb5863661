//! What a Kubernetes API server does to an object. Pure: no I/O, no clock, no randomness.
//!
//! Knows nothing of our own kinds, of HTTP or of storage.

pub mod cel;
pub mod go_regexp;
