//! The built-in functions, as their callers see them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[allow(dead_code, reason = "it is part of several test programs, and not each needs all of it")]
#[path = "../../../../tests/comparison/oracle.rs"]
mod oracle;
mod templates;
mod yaml;
