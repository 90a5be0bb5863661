//! `ferroplane start`: the controllers on a cluster.

use std::path::PathBuf;

use crate::Verdict;
use crate::start::{self, Configuration, File, Options, Upstream};
use crate::terminal::Terminal;

/// Run the controllers on a Kubernetes cluster, in a pod of it or from outside
///
/// Installs the kinds it serves and the certificates it needs, answers the API server's questions as a webhook, and makes composite
/// resources what they should be. Of several replicas one leads; the others stand by, and take over when it ends. Runs until it is told
/// to end (SIGTERM, Ctrl-C): then it begins nothing new, finishes what is under way, and gives the lease back.
///
/// It takes the place of `crossplane core start`: the same Secrets, lease, webhook and flags. It refuses to start beside a
/// Crossplane that runs; `--dry-run` says what it would do to a cluster, and who works there, and changes nothing.
///
/// Every flag can be given by the environment, and most in a file (--config). A flag counts more than the environment, and that more
/// than the file. docs/start.md tells it all.
#[derive(Debug, clap::Args)]
#[command(after_help = "Try:
  ferroplane start --dry-run                                 what would happen to the cluster of your kubeconfig?
  ferroplane start --kubeconfig FILE --enable-webhooks=false controllers on this machine, for a cluster elsewhere
  kubectl -n crossplane-system get lease                     who leads?")]
pub(crate) struct Start {
    /// Say what would be done, and to what, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Options in a file of YAML: the names of flags, without dashes (`healthAddress: 0.0.0.0:8081`)
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
        let advice = self.upstream.advice()?;
        let configuration = Configuration::new(self.options.or(file.0))?;
        if self.dry_run {
            return start::dry_run(&configuration, terminal);
        }
        start::run(&configuration, &advice)
    }
}
