//! Reconciles a claim: finds its composite resource, binds the two, and copies spec and status between them.

use std::sync::Arc;

use bytes::Bytes;
use ferroplane_api::{Cause, Object, keys, meta};
use ferroplane_client::Subresource;
use ferroplane_engine::{Counterpart, bind, bound_elsewhere, claimed_name, is_ready};
use ferroplane_ownership::holds;
use serde_json::{Value, json};

use super::controller::{Controller, Name, Reservation};
use super::settle::{ClaimOutcome, ClaimProblem};
use crate::runtime::cause::cause_of_writes;
use crate::runtime::finalizers;
use crate::runtime::queue::Next;
use crate::takeover::take_over;

/// The reason of events about binding the composite resource.
pub(super) const BIND: &str = "BindCompositeResource";
/// How many names are tried for a composite resource.
const NAMES: u32 = 10;

/// A claim that is being reconciled. Each write updates it with the response.
pub(super) struct Case {
    pub(super) claim: Object,
    pub(super) composite: Option<Object>,
}

impl Controller {
    pub(super) async fn reconcile(self: Arc<Self>, name: Name) -> Next {
        let held = self.claims.get_by_key(&name);
        let Some(claim) = held.and_then(|held| self.claims.to_object(&held)) else {
            self.propagated.forget(&name);
            return Next::Rest;
        };
        let written_for = cause_of_writes(&claim);
        let mut case = Case { claim, composite: None };
        let work = async {
            let result = self.sync(&mut case).await;
            self.settle(&case, result).await
        };
        written_for.scope(work).await
    }

    /// Each line must hold before the next may happen.
    async fn sync(&self, case: &mut Case) -> Result<ClaimOutcome, ClaimProblem> {
        if meta::annotation(&case.claim, keys::PAUSED) == "true" {
            return Ok(ClaimOutcome::Paused);
        }
        let mut reservation = None;
        if let Some(name) = composite_name(&case.claim) {
            reservation = Some(self.reserve(name)?);
            case.composite = self.find(name).await?;
        }
        if meta::is_being_deleted(&case.claim) {
            // A composite resource of another claim stays, and does not keep this one from being deleted.
            let _ = refuse_another(case);
            return self.let_go(case).await;
        }
        refuse_another(case)?;
        let reservation = match reservation {
            Some(reservation) => reservation,
            None => self.free_name(&case.claim).await?,
        };
        self.bind(case, reservation.composite()).await?;
        // Not before: another claim could bind a composite resource of this name meanwhile.
        drop(reservation);
        let composite = case.composite.as_ref();
        let Some(composite) = composite.filter(|composite| is_ready(composite)) else {
            return Ok(ClaimOutcome::Waiting);
        };
        self.propagate(&case.claim, composite).await.map(ClaimOutcome::Available)
    }

    /// The composite resource of this name, if it exists.
    async fn find(&self, name: &str) -> Result<Option<Object>, ClaimProblem> {
        if let Some(composite) = self.composites.object("", name) {
            return Ok(Some(composite));
        }
        // The cache may not have it yet if it was just created.
        let found = self.context.cluster.get_object(self.composite_path(name)).await;
        found.map_err(ClaimProblem::doing(BIND, "read the composite resource"))
    }

    /// Bind claim and composite resource, and copy their fields.
    async fn bind(&self, case: &mut Case, name: &str) -> Result<(), ClaimProblem> {
        let was_bound = case.composite.as_ref().is_some_and(has_claim);
        let present = case.composite.as_ref();
        let is_enforced = self.is_enforced();
        let other = Counterpart { kind: &self.type_ref, name, present, is_enforced };
        let binding = bind(&case.claim, other);
        // The claim first: a crash between the two writes would otherwise leave a composite resource without a
        // reference.
        self.change_claim(case, binding.claim).await?;
        self.apply(case, name, binding.composite).await?;
        if !was_bound {
            self.recorder.normal(&case.claim, BIND, format!("Bound the composite resource {name}"));
        }
        Ok(())
    }

    /// A name that no other composite resource has.
    async fn free_name(&self, claim: &Object) -> Result<Reservation<'_>, ClaimProblem> {
        for attempt in 0..NAMES {
            let name = claimed_name(claim, attempt);
            let reservation = self.reserve(&name)?;
            let taken = self.context.cluster.get(self.composite_path(&name)).await;
            if taken.map_err(ClaimProblem::doing(BIND, "check whether a generated name is free"))?.is_none() {
                return Ok(reservation);
            }
        }
        let message = "cannot find a name for the composite resource: all generated names are taken";
        Err(ClaimProblem::new(BIND, Cause::CompositeResourceNameTaken, message).requeued())
    }

    /// Write the changes of the claim, with its finalizer. Nothing is sent if it has both already.
    async fn change_claim(&self, case: &mut Case, changes: Option<Value>) -> Result<(), ClaimProblem> {
        let claim = &case.claim;
        if changes.is_none() && finalizers::has(claim, keys::CLAIM_FINALIZER) {
            return Ok(());
        }
        let mut patch = changes.unwrap_or_else(|| json!({}));
        patch["metadata"]["resourceVersion"] = meta::resource_version(claim).into();
        if !finalizers::has(claim, keys::CLAIM_FINALIZER) {
            patch["metadata"]["finalizers"] = finalizers::with(claim, keys::CLAIM_FINALIZER);
        }
        let target = self.path(meta::namespace(claim), meta::name(claim));
        let written = self.context.cluster.merge(target, Subresource::None, &patch).await;
        let written = written.map_err(ClaimProblem::doing(BIND, "update the claim"))?;
        self.take_in(case, &written);
        Ok(())
    }

    async fn apply(&self, case: &mut Case, name: &str, mut wanted: Object) -> Result<(), ClaimProblem> {
        if case.composite.as_ref().is_some_and(|present| holds(&wanted, present, keys::CLAIM_MANAGER, "")) {
            return Ok(());
        }
        let target = self.composite_path(name);
        if let Some(present) = &case.composite {
            let is_ours = |manager: &str| manager == keys::CLAIM_MANAGER;
            let taken_over = take_over(&self.context.cluster, target, present, is_ours).await;
            taken_over.map_err(ClaimProblem::doing(BIND, "take over the composite resource"))?;
            if !has_claim(present) {
                // It is bound only as it was read: it may have been given to another claim since.
                meta::set_field(&mut wanted, "resourceVersion", meta::resource_version(present));
            }
        }
        let applied =
            self.context.cluster.apply(target, Subresource::None, keys::CLAIM_MANAGER, &wanted).await;
        let applied = applied.map_err(ClaimProblem::doing(BIND, "apply the composite resource"))?;
        self.composites.insert_written(&applied);
        case.composite = serde_json::from_slice(&applied).ok();
        Ok(())
    }

    /// Continue with the claim as the API server returned it.
    pub(super) fn take_in(&self, case: &mut Case, written: &Bytes) {
        self.claims.insert_written(written);
        if let Ok(claim) = serde_json::from_slice(written) {
            case.claim = claim;
        }
    }
}

/// Refuse a composite resource that is bound to another claim: it must not be changed, deleted or copied from.
fn refuse_another(case: &mut Case) -> Result<(), ClaimProblem> {
    let Some(composite) = &case.composite else { return Ok(()) };
    let Some(other) = bound_elsewhere(&case.claim, composite) else { return Ok(()) };
    let name = meta::name(composite);
    let message = format!("cannot bind the composite resource `{name}`: it is bound to the claim `{other}`");
    case.composite = None;
    // Requeued, because the deletion of the composite resource wakes the other claim only.
    Err(ClaimProblem::new(BIND, Cause::CompositeResourceBound, message).requeued())
}

fn has_claim(composite: &Object) -> bool {
    composite.get("spec").and_then(|spec| spec.get("claimRef")).is_some_and(Value::is_object)
}

/// The name of the composite resource that a claim names, if it names one.
fn composite_name(claim: &Object) -> Option<&str> {
    let name = claim.get("spec")?.get("resourceRef")?.get("name")?.as_str()?;
    (!name.is_empty()).then_some(name)
}
