//! Controllers at work on an API server in memory.

mod composition;
mod ledger;
mod plane;
