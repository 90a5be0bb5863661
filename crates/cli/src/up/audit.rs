//! The audit log of `ferroplane up`: which flags it has, and how it is opened.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use ferroplane_apiserver::audit::{AuditLog, Policy, Settings};

/// What is logged, and how long it is kept. The names are those of kube-apiserver.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct AuditFlags {
    /// Audit log file; `-` is standard output [default: audit.log in the data directory]
    ///
    /// A line of JSON for each request that the audit policy selects, in the format of Kubernetes' audit events (audit.k8s.io/v1).
    /// Requests never wait for the log: if it cannot be written, lines are lost and counted.
    #[arg(long = "audit-log", visible_alias = "audit-log-path", value_name = "FILE")]
    file: Option<PathBuf>,

    /// Audit policy file (audit.k8s.io/v1 Policy) [default: all writes, reads of Secrets, and refused requests, without their bodies]
    #[arg(long = "audit-policy-file", value_name = "FILE")]
    policy_file: Option<PathBuf>,

    /// Maximum size of an audit log file in megabytes; a full one is renamed and a new one begins
    #[arg(long = "audit-log-maxsize", value_name = "MEGABYTES", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    maximum_size: u64,

    /// Number of full audit log files to keep; 0 keeps all
    #[arg(long = "audit-log-maxbackup", value_name = "NUMBER", default_value_t = 10)]
    maximum_backups: usize,

    /// Number of days to keep full audit log files; 0 does not limit their age
    #[arg(long = "audit-log-maxage", value_name = "DAYS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=36_500))]
    maximum_age: u64,
}

impl AuditFlags {
    /// Opens the log. None if there is no data directory and no file is named.
    pub(super) fn open(&self, data_dir: Option<&Path>) -> anyhow::Result<Option<AuditLog>> {
        let policy = self.policy()?;
        let usual = data_dir.map(|directory| directory.join("audit.log"));
        let Some(path) = self.file.clone().or(usual) else { return Ok(None) };
        let settings = Settings {
            policy,
            bytes: self.maximum_size << 20,
            files: Some(self.maximum_backups).filter(|number| *number > 0),
            age: Some(self.maximum_age).filter(|days| *days > 0).map(|days| Duration::from_hours(24 * days)),
            ..Settings::default()
        };
        let log = AuditLog::open(&path, &settings);
        log.map(Some).with_context(|| format!("cannot write the audit log `{}`", path.display()))
    }

    fn policy(&self) -> anyhow::Result<Policy> {
        let Some(file) = &self.policy_file else { return Ok(Policy::default()) };
        let text = std::fs::read_to_string(file);
        let text = text.with_context(|| format!("cannot read the audit policy `{}`", file.display()))?;
        text.parse().with_context(|| format!("cannot use the audit policy `{}`", file.display()))
    }
}
