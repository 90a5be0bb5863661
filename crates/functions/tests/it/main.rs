//! The built-in functions, as their callers see them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod templates;
