//! Controllers at work on an API server: one in memory or, if the environment names it, a real one.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod actions;
mod alpha_functions;
mod claim;
mod comparison;
mod composed_usages;
mod composer_rights;
mod composites;
mod composition;
mod composition_rollout;
mod connection_details;
mod definition;
mod function_rollout;
mod grants;
mod install;
mod intercept;
mod masses;
mod operations;
mod package_runtime;
mod packages;
mod pipelines;
mod plans;
mod providers;
mod recorder;
mod rendered;
mod revision;
mod roles;
mod rollout;
mod simulation;
mod takeover;
mod tuning;
mod unsupported;
mod usage;
mod versions;
mod watch_operations;
