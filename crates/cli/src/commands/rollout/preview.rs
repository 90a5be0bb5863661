//! `ferroplane rollout preview`: how a new revision differs, before anything of it is applied.

use std::time::Duration;

use anyhow::bail;
use ferroplane_api::{FunctionRolloutStatus, Object, RolloutState};
use serde_json::Value;

use crate::Verdict;
use crate::client::Access;
use crate::explain::block_on;
use crate::rollouts::{Rollouts, status};
use crate::terminal::Terminal;

/// How often a rollout is read until all have been tried.
const INTERVAL: Duration = Duration::from_millis(200);

/// Show how a new revision differs, before it is applied
///
/// It waits until the revision has been tried for all composite resources. The FunctionRollout needs `preview: true`.
///
/// Exit codes: 0 the differences are allowed; 3 the rollout refuses some; 1 error
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane rollout preview own")]
pub(crate) struct Preview {
    /// The name of the FunctionRollout
    name: String,

    #[command(flatten)]
    access: Access,
}

impl Preview {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let tried = async {
            let rollouts = Rollouts::connect(&self.access)?;
            loop {
                let rollout = rollouts.get(&self.name).await?;
                if status(&rollout).state != RolloutState::Previewing {
                    return Ok(rollout);
                }
                tokio::time::sleep(INTERVAL).await;
            }
        };
        let rollout = block_on(terminal.wait("trying the revision for all composite resources", tried))?;
        let status = status(&rollout);
        if !is_previewed(&rollout) {
            bail!(
                "FunctionRollout `{}` does not preview revisions: set `preview: true` in its spec",
                self.name
            );
        }
        if status.differences.is_empty() {
            bail!("no revision has been tried for FunctionRollout `{}` yet", self.name);
        }
        let text = terminal.wrapped(&lines(&status));
        terminal.text(&text)?;
        if is_refused(&status) {
            terminal.failure(&status.message);
            return Ok(Verdict::No);
        }
        Ok(Verdict::Yes)
    }
}

fn is_previewed(rollout: &Object) -> bool {
    rollout.get("spec").and_then(|spec| spec.get("preview")).and_then(Value::as_bool) == Some(true)
}

/// Whether the revision that was tried last was refused. Policies say whether a rollout is then undone or paused.
fn is_refused(status: &FunctionRolloutStatus) -> bool {
    let is_rejected = status.rejected.is_some() && status.rejected == status.candidate;
    is_rejected || matches!(status.state, RolloutState::RollingBack | RolloutState::RolledBack)
}

/// How many differ in which way, and some of them in words.
fn lines(status: &FunctionRolloutStatus) -> String {
    let counts = status.differences.iter().map(|(difference, count)| format!("{difference:17}{count}\n"));
    counts.chain(status.examples.iter().map(|example| format!("{example}\n"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_counted_and_shown() {
        let status = FunctionRolloutStatus {
            differences: [("Changed".to_owned(), 2), ("Equal".to_owned(), 7)].into(),
            examples: vec!["Site blog: changes `a`".to_owned()],
            ..FunctionRolloutStatus::default()
        };
        assert_eq!(lines(&status), "Changed          2\nEqual            7\nSite blog: changes `a`\n");
    }
}
