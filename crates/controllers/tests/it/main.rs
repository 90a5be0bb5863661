//! Controllers at work on an API server: one in memory or, if the environment names it, a real one.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod claim;
mod comparison;
mod composites;
mod composition;
mod definition;
mod ground;
mod ledger;
mod masses;
mod pipelines;
mod plane;
mod recorder;
mod revision;
mod roles;
mod simulation;
mod sites;
mod takeover;
mod usage;
mod versions;
