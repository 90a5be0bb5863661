//! Controllers at work on an API server in memory.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod composition;
mod ledger;
mod plane;
mod revision;
mod usage;
