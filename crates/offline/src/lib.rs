//! What can be decided about manifests without an API server: `render`, `validate` and `replay` as a library, for Blueprints, too.
//!
//! Everything is read from files, and functions are the only other programs that are called. The decisions are the
//! engine's and the schemas', the same as on a control plane; this crate reads what they need and describes what they
//! decided. It never prints: the command line does.

pub mod blueprints;
mod file_name;
pub mod functions;
pub mod manifest;
pub mod render;
pub mod replay;
pub mod table;
pub mod times;
pub mod validate;
