//! What manifests say about functions, without calling them.

pub mod used;
