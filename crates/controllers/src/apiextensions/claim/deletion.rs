//! Deletes a claim: its composite resource is deleted first, or in the background.

use ferroplane_api::{keys, meta};
use ferroplane_client::Propagation;
use serde_json::Value;

use super::controller::Controller;
use super::reconcile::Case;
use super::settle::{ClaimOutcome, ClaimProblem};
use crate::runtime::finalizers;

/// The reason of events about deleting the composite resource.
pub(super) const DELETE: &str = "DeleteCompositeResource";

impl Controller {
    pub(super) async fn let_go(&self, case: &mut Case) -> Result<ClaimOutcome, ClaimProblem> {
        if !finalizers::has(&case.claim, keys::CLAIM_FINALIZER) {
            return Ok(ClaimOutcome::Gone);
        }
        let policy = case.claim.get("spec").and_then(|spec| spec.get("compositeDeletePolicy"));
        let waits = policy.and_then(Value::as_str) == Some("Foreground");
        self.delete_composite(case, waits).await?;
        // Its deletion event reconciles the claim again.
        if waits && case.composite.is_some() {
            return Ok(ClaimOutcome::Deleting);
        }
        self.recorder.normal(&case.claim, DELETE, "Deleted the composite resource");
        let (namespace, name) = (meta::namespace(&case.claim).to_owned(), meta::name(&case.claim).to_owned());
        let path = self.path(&namespace, &name);
        let released =
            finalizers::remove(&self.context.cluster, path, &case.claim, keys::CLAIM_FINALIZER).await;
        if let Some(written) = released.map_err(ClaimProblem::doing(DELETE, "remove the finalizer"))? {
            self.take_in(case, &written);
        }
        Ok(ClaimOutcome::Gone)
    }

    async fn delete_composite(&self, case: &Case, waits: bool) -> Result<(), ClaimProblem> {
        let Some(composite) = case.composite.as_ref().filter(|it| !meta::is_being_deleted(it)) else {
            return Ok(());
        };
        let propagation = if waits { Propagation::Foreground } else { Propagation::Background };
        let path = self.composite_path(meta::name(composite));
        let deleted = self.context.cluster.delete(path, Some(meta::uid(composite)), propagation).await;
        deleted.map_err(ClaimProblem::doing(DELETE, "delete the composite resource"))
    }
}
