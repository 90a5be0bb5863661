//! `ferroplane rollout promote`: have all composite resources call the new revision.

use anyhow::Context as _;
use ferroplane_api::{PROMOTE_ANNOTATION, REQUESTED_AT_ANNOTATION, UNDO_ANNOTATION};
use jiff::Timestamp;
use serde_json::json;

use crate::Verdict;
use crate::client::Access;
use crate::explain::ask;
use crate::rollouts::{Rollouts, status};
use crate::terminal::Terminal;

/// Move all composite resources to the new revision at once
///
/// It skips the remaining waves and gates. A revision that was rolled back can be promoted, too, as long as it is the newest.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane rollout promote own")]
pub(crate) struct Promote {
    /// The name of the FunctionRollout
    name: String,

    #[command(flatten)]
    access: Access,
}

impl Promote {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let revision = ask(terminal, async {
            let rollouts = Rollouts::connect(&self.access)?;
            let status = status(&rollouts.get(&self.name).await?);
            let revision = status.candidate.or(status.rejected);
            let revision = revision.with_context(|| {
                format!(
                    "FunctionRollout `{}` has no revision to promote: none is being rolled out",
                    self.name
                )
            })?;
            // The same may have been requested before.
            let now = Timestamp::now().to_string();
            let annotations = json!({
                PROMOTE_ANNOTATION: revision, UNDO_ANNOTATION: null, REQUESTED_AT_ANNOTATION: now,
            });
            rollouts.change(&self.name, &json!({"metadata": {"annotations": annotations}})).await?;
            Ok(revision)
        })?;
        terminal.line(&format!("FunctionRollout `{}` promotes `{revision}`", self.name));
        Ok(Verdict::Yes)
    }
}
