//! The API server as its clients see it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod abandoned;
mod audited;
mod cluster;
mod conversion;
mod deadlines;
mod definitions;
#[path = "../../../../tests/comparison/dice.rs"]
mod dice;
mod endpoints;
mod events;
mod gate;
mod heavy_definitions;
mod hook;
mod kube_rs;
mod namespaces;
mod objects;
#[path = "../../../../tests/comparison/oracle.rs"]
mod oracle;
mod overload;
mod owners;
mod pods;
mod rbac;
mod real;
mod refused_deletions;
mod rights;
mod services;
mod small_differences;
mod store;
mod watches;
mod webhooks;
