//! `ferroplane start`: the controllers on a cluster.

use std::path::PathBuf;

use crate::Verdict;
use crate::start::{self, Configuration, File, Options, Upstream};
use crate::terminal::Terminal;

/// Run the controllers on a Kubernetes cluster
///
/// Installs its CRDs and certificates, serves admission webhooks, and reconciles composite resources and claims. It can run in a pod or
/// outside the cluster. One of several replicas leads; the others stand by. On SIGTERM or Ctrl-C it starts nothing new, finishes the
/// reconciles that are running, and releases the lease.
///
/// It replaces `crossplane core start`: it uses the same Secrets, lease, webhook and flags, and refuses to start beside a running
/// Crossplane. `--dry-run` shows what it would change on a cluster, and which control planes run there.
///
/// Most options can also be set by an environment variable (see each option) or in a file (--config). Flags win over the environment, and
/// the environment wins over the file. See docs/start.md.
#[derive(Debug, clap::Args)]
#[command(after_help = "Try:
  ferroplane start --dry-run              show what would change on the cluster
  ferroplane start --kubeconfig FILE --enable-webhooks=false
  kubectl -n crossplane-system get lease  show which replica leads")]
pub(crate) struct Start {
    /// Show what would be changed, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// YAML file with options, named like the flags in camel case (`healthAddress: 0.0.0.0:8081`)
    #[arg(long, value_name = "FILE", env = "FERROPLANE_CONFIG")]
    config: Option<PathBuf>,

    #[command(flatten)]
    options: Options,

    #[command(flatten)]
    upstream: Upstream,
}

impl Start {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let file = self.config.as_deref().map(File::read).transpose()?.unwrap_or_default();
        let options = self.options.or(file.0);
        let advice = [self.upstream.advice()?, options.advice()].concat();
        let configuration = Configuration::new(options)?;
        if self.dry_run {
            // A user who tries a start with the flags of a Crossplane wants to know now what becomes of them.
            for words in &advice {
                terminal.note(words);
            }
            return start::dry_run(&configuration, terminal);
        }
        start::run(&configuration, &advice)
    }
}
