//! Runs the real binary, and looks at what it prints and how it exits.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should not")]

mod bad_input;
mod clients;
mod commands;
mod demo;
mod examples;
mod functions;
mod kill;
mod kubectl;
mod manifests;
mod peers;
mod plane;
mod render;
mod sandbox;
mod telemetry;
mod up;
mod validate;
mod versions;
mod why;
