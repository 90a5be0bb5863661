//! The client on an API server in memory.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod exec;
mod informer;
mod list;
mod server;
mod silence;
mod transport;
