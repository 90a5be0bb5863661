//! `ferroplane rollout pause`: move no further composite resources.

use serde_json::json;

use crate::Verdict;
use crate::client::Access;
use crate::explain::ask;
use crate::rollouts::Rollouts;
use crate::terminal::Terminal;

/// Pause a rollout: move no further composite resources
///
/// It sets `spec.paused`. Those that have been moved stay, and go back if the revision fails. Where the FunctionRollout is kept in a repository, set the
/// field there.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane rollout pause own")]
pub(crate) struct Pause {
    /// The name of the FunctionRollout
    name: String,

    #[command(flatten)]
    access: Access,
}

impl Pause {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let change = json!({"spec": {"paused": true}});
        ask(terminal, async { Rollouts::connect(&self.access)?.change(&self.name, &change).await })?;
        terminal.line(&format!("FunctionRollout `{}` paused", self.name));
        Ok(Verdict::Yes)
    }
}
