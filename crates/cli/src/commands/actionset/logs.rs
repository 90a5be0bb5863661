//! `ferroplane actionset logs`: the events about an ActionSet, and its phases.

use std::time::Duration;

use jiff::Timestamp;

use crate::Verdict;
use crate::actions::{ActionSets, phases};
use crate::client::Access;
use crate::duration;
use crate::explain::block_on;
use crate::terminal::{Terminal, until_unread};

/// Show the events, phases and outputs of an ActionSet
///
/// Prints the events about it, oldest first, and then every phase with its function, version, state and output. An API server keeps events for
/// about an hour.
///
/// Exit codes: 0 success; with --follow, 3 the ActionSet failed, or still runs after the timeout; 1 error
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane actionset logs backup-x7k2p --namespace shop
  ferroplane actionset logs backup-x7k2p --follow --timeout 1h")]
pub(crate) struct Logs {
    /// The name of the ActionSet
    name: String,

    /// Namespace of the ActionSet [default: that of the kubeconfig]
    #[arg(short, long)]
    namespace: Option<String>,

    /// Follow the ActionSet until it has ended
    #[arg(short, long)]
    follow: bool,

    /// How long to follow
    #[arg(long, default_value = "15m", value_parser = duration::parse, requires = "follow")]
    timeout: Duration,

    #[command(flatten)]
    access: Access,
}

impl Logs {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        block_on(async {
            let action_sets = ActionSets::connect(&self.access, self.namespace.as_deref())?;
            if self.follow {
                return tokio::select! {
                    verdict = action_sets.follow(&self.name, self.timeout, terminal) => verdict,
                    // It still runs, as far as is known.
                    () = until_unread() => Ok(Verdict::No),
                };
            }
            let read = async {
                let action_set = action_sets.get("ActionSet", &self.name).await?;
                let events = action_sets.events(&action_set).await?;
                anyhow::Ok((action_set, events))
            };
            let (action_set, events) = terminal.wait_for_server(read).await?;
            let now = Timestamp::now();
            let lines: String = events.iter().map(|event| event.line_with_age(now) + "\n").collect();
            terminal.text(&(lines + &phases(&action_set)))?;
            Ok(Verdict::Yes)
        })
    }
}
