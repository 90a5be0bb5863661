//! What a Kubernetes API server does to an object. Pure: no I/O, no clock, no randomness.
//!
//! Knows nothing of our own kinds, of HTTP or of storage.
//!
//! Our own design: which module follows which package is said in each.

pub mod admission;
pub mod builtin;
pub mod field;
pub mod jsonpath;
pub mod meta;
pub mod names;
pub mod patch;
pub mod selector;
pub mod services;
pub mod status;
pub mod structural;
pub mod table;
mod webhook_address;
pub mod writes;
