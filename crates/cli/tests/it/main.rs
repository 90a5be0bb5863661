//! Runs the real binary, and looks at what it prints and how it exits.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should not")]

mod bad_input;
mod commands;
mod examples;
mod functions;
mod kill;
mod peers;
mod render;
mod sandbox;
mod validate;
mod versions;
