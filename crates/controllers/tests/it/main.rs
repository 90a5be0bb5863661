//! Controllers at work on an API server in memory.

mod plane;
