//! Controllers at work on an API server in memory.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod composites;
mod composition;
mod definition;
mod ledger;
mod pipelines;
mod plane;
mod revision;
mod sites;
mod usage;
