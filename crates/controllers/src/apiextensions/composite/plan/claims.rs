//! Plans claims: the selections and the status that they get from their composite resources, and their copies of connection Secrets.
//!
//! Nothing of that goes back to the composite resource, so that claims are planned once, when everything else is settled.

use std::collections::{BTreeMap, BTreeSet};

use ferroplane_api::{Object, TypeRef, keys, meta};
use ferroplane_client::{Error, ObjectPath};
use ferroplane_engine::changes::{Change, Verdict};
use ferroplane_engine::{Counterpart, bind, chain, claim_status, is_ready};
use serde_json::{Value, json};

use super::super::controller::Controller;
use super::super::secrets;
use super::planned_cluster::{Key, merge};
use super::proposal::Proposals;
use super::{Planning, Progress, group_kind};
use crate::apiextensions::claim::{copied, details, own_data};

/// An object that changes because of a composite resource: its claim, or the claim's Secret.
#[derive(Debug)]
pub(super) struct Claimed {
    pub(super) composite: Key,
    /// Whether a file has it, so that it is listed with the files.
    pub(super) is_proposed: bool,
}

/// A claim and its composite resource, as planned.
struct Bound {
    claim: Object,
    composite: Object,
    /// The same, as they are now.
    before: (Option<Object>, Option<Object>),
}

impl Planning {
    /// Plan the claims of all composite resources that the change affects. Returns their objects.
    pub(super) async fn settle_claims(
        &self,
        proposals: &Proposals,
        progress: &mut BTreeMap<Key, Progress>,
    ) -> BTreeMap<Key, Claimed> {
        let proposed: BTreeSet<_> = proposals.objects.iter().map(|it| Key::of(&it.after)).collect();
        let mut claimed = BTreeMap::new();
        for composite in self.possibly_claimed(proposals) {
            let known = progress.get(&composite).and_then(|known| known.verdict.as_ref());
            if matches!(known, Some(Verdict::Refused { .. })) {
                continue;
            }
            match self.plan_claim(&composite).await {
                Ok(objects) => claimed.extend(objects.into_iter().map(|object| {
                    let is_proposed = proposed.contains(&object);
                    (object, Claimed { composite: composite.clone(), is_proposed })
                })),
                Err(reason) => {
                    let reason = format!("its claim cannot be planned: {reason}");
                    progress.entry(composite).or_default().verdict = Some(Verdict::Refused { reason });
                }
            }
        }
        claimed
    }

    /// The composite resources that are proposed or that change, and those whose objects do.
    fn possibly_claimed(&self, proposals: &Proposals) -> BTreeSet<Key> {
        let differences = self.planned.differences().into_iter();
        let changed = differences.filter_map(|(before, after)| {
            Change::between(before.as_ref(), after.as_ref())?;
            after.or(before)
        });
        let proposed = proposals.objects.iter().map(|it| it.after.clone());
        let keys = changed.chain(proposed).flat_map(|object| {
            let is_composite = self.composites.of_kind(&group_kind(&object)).is_some();
            let itself = is_composite.then(|| Key::of(&object));
            itself.into_iter().chain(self.composite_of(&object))
        });
        keys.collect()
    }

    /// Plan the claim of a composite resource, if it has one. Returns the objects that may change.
    async fn plan_claim(&self, composite: &Key) -> Result<Vec<Key>, String> {
        let kind = (composite.group.clone(), composite.kind.clone());
        let Some(controller) = self.composites.of_kind(&kind) else { return Ok(Vec::new()) };
        let Some(bound) = self.bound(&controller, composite).await? else { return Ok(Vec::new()) };
        let after = self.synchronised(&controller, &bound);
        let mut objects = vec![Key::of(&after)];
        self.planned.put(after);
        objects.extend(self.plan_copy(&bound).await?);
        Ok(objects)
    }

    /// A composite resource and its claim. None if no reconcile of a claim would change anything.
    async fn bound(&self, controller: &Controller, composite: &Key) -> Result<Option<Bound>, String> {
        let Key { namespace, name, .. } = composite;
        let path = ObjectPath { resource: &controller.kind.resource, namespace, name };
        let Some(composite) = self.planned.get(path).await.map_err(|error| unreadable(&error))? else {
            return Ok(None);
        };
        let Some(reference) = composite.get("spec").and_then(|spec| spec.get("claimRef")) else {
            return Ok(None);
        };
        let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default();
        let cluster = &self.composites.shared.context.cluster;
        let resource =
            cluster.resource(text("apiVersion"), text("kind")).await.map_err(|error| unreadable(&error))?;
        let Some(resource) = resource else { return Ok(None) };
        let claim_path = ObjectPath { resource: &resource, namespace: text("namespace"), name: text("name") };
        let Some(claim) = self.planned.get(claim_path).await.map_err(|error| unreadable(&error))? else {
            return Ok(None);
        };
        if is_left_alone(&claim) || !names(&claim, name) {
            return Ok(None);
        }
        let before = (
            self.planned.before(claim_path).await.map_err(|error| unreadable(&error))?,
            self.planned.before(path).await.map_err(|error| unreadable(&error))?,
        );
        Ok(Some(Bound { claim, composite, before }))
    }

    /// The claim after its reconcile.
    fn synchronised(&self, controller: &Controller, bound: &Bound) -> Object {
        let Bound { claim, composite, .. } = bound;
        let resource = &controller.kind.resource;
        let kind = TypeRef { api_version: resource.api_version.clone(), kind: resource.kind.clone() };
        let is_enforced = self.sources.of(controller).defaults.enforced.is_some();
        let name = meta::name(composite);
        let other = Counterpart { kind: &kind, name, present: Some(composite), is_enforced };
        let mut after = claim.clone();
        let finalizer = json!({"metadata": {"finalizers": [keys::CLAIM_FINALIZER]}});
        for changes in [bind(claim, other).claim, Some(finalizer)].into_iter().flatten() {
            if let Value::Object(changes) = changes {
                merge(&mut after, &changes);
            }
        }
        let status = claim_status(claim, Some(composite));
        after.insert("status".to_owned(), Value::Object(status));
        after
    }

    /// Plan the claim's copy of the connection Secret. Returns it if it changes.
    async fn plan_copy(&self, bound: &Bound) -> Result<Option<Key>, String> {
        let Bound { claim, composite, before } = bound;
        let Some(wanted) = details(claim, composite).filter(|_| is_ready(composite)) else {
            return Ok(None);
        };
        let resource = secrets::resource();
        let (namespace, name) = wanted.source();
        let from = ObjectPath { resource: &resource, namespace, name };
        let source = self.planned.get(from).await.map_err(|error| unreadable(&error))?;
        let was = before
            .0
            .as_ref()
            .zip(before.1.as_ref())
            .and_then(|(claim, composite)| details(claim, composite).filter(|_| is_ready(composite)));
        // As in a reconcile: details that were copied before are not read again until others are published.
        if was.as_ref() == Some(&wanted)
            && source == self.planned.before(from).await.map_err(|error| unreadable(&error))?
        {
            return Ok(None);
        }
        let data = own_data(composite, &wanted, source).map_err(|problem| problem.message)?;
        let to = ObjectPath { resource: &resource, namespace: meta::namespace(claim), name: &wanted.to };
        let present = self.planned.get(to).await.map_err(|error| unreadable(&error))?;
        let copy = copied(claim, &wanted.to, present, data).map_err(|problem| problem.message)?;
        let Some(secret) = copy else { return Ok(None) };
        let key = Key::of(&secret);
        self.planned.put(secret);
        Ok(Some(key))
    }
}

/// Whether a claim is not synchronised: while it is paused, and while it is being deleted.
pub(super) fn is_left_alone(claim: &Object) -> bool {
    meta::annotation(claim, keys::PAUSED) == "true" || meta::is_being_deleted(claim)
}

/// Whether a claim names this composite resource, or none yet.
fn names(claim: &Object, composite: &str) -> bool {
    let named = claim.get("spec").and_then(|spec| spec.get("resourceRef")?.get("name")?.as_str());
    named.is_none_or(|named| named == composite)
}

fn unreadable(error: &Error) -> String {
    format!("cannot read its objects: {}", chain(error))
}
