//! Runs the real binary, and looks at what it prints and how it exits.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should not")]

mod alpha_functions;
mod audit;
mod bad_input;
mod clients;
mod commands;
mod corpus;
mod demo;
mod deploy;
mod examples;
mod formats;
mod functions;
mod kill;
mod kubectl;
mod manifests;
mod mistakes;
mod peers;
mod plane;
mod programs;
mod render;
mod replay;
mod sandbox;
mod scenarios;
mod simulate;
mod start;
mod telemetry;
mod templates;
mod tenancy;
mod tenants;
mod up;
mod validate;
mod versions;
mod warnings;
mod who_can;
mod why;
