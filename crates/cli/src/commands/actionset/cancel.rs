//! `ferroplane actionset cancel`: stop an ActionSet that runs.

use anyhow::bail;

use crate::Verdict;
use crate::actions::{ActionSets, state};
use crate::client::Access;
use crate::explain::ask;
use crate::terminal::Terminal;

/// Cancel a running ActionSet
///
/// The running phase fails, later phases do not begin, and deferred phases run. Completed work is not undone.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane actionset cancel backup-x7k2p --namespace shop")]
pub(crate) struct Cancel {
    /// The name of the ActionSet
    name: String,

    /// Namespace of the ActionSet [default: that of the kubeconfig]
    #[arg(short, long)]
    namespace: Option<String>,

    #[command(flatten)]
    access: Access,
}

impl Cancel {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        ask(terminal, async {
            let action_sets = ActionSets::connect(&self.access, self.namespace.as_deref())?;
            let action_set = action_sets.get("ActionSet", &self.name).await?;
            match state(&action_set) {
                ended @ ("complete" | "failed") => {
                    bail!("ActionSet `{}` is {ended}: there is nothing to stop", self.name)
                }
                _ => action_sets.cancel(&self.name).await,
            }
        })?;
        terminal.line(&format!("ActionSet `{}` is being cancelled", self.name));
        Ok(Verdict::Yes)
    }
}
