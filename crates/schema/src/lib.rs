//! What a Kubernetes API server does to an object. Pure: no I/O, no clock, no randomness.
//!
//! Knows nothing of our own kinds, of HTTP or of storage.

pub mod admission;
pub mod builtin;
mod calendar;
pub mod cel;
pub mod field;
mod go_base64;
pub mod go_regexp;
pub mod go_text;
mod go_value;
pub mod jsonpath;
pub mod managed;
pub mod merge;
pub mod meta;
pub mod names;
pub mod patch;
pub mod quantity;
pub mod selector;
pub mod services;
pub mod status;
pub mod structural;
pub mod table;
mod webhook_address;
pub mod writes;
