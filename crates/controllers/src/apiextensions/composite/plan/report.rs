//! Reports a plan, without objects that its client may not read.

use std::collections::BTreeMap;
use std::sync::Arc;

use ferroplane_api::{Object, meta};
use ferroplane_client::ApiClient;
use ferroplane_engine::changes::{
    Action, Change, ChangePlan, CompositePlan, ObjectName, ObjectVersion, Verdict, arrange, substitute,
};
use sha2::{Digest as _, Sha256};

use super::super::controller::Controller;
use super::super::redact::redact;
use super::access::Access;
use super::claims::Claimed;
use super::planned_cluster::Key;
use super::proposal::Proposals;
use super::{Planning, Progress, group_kind};

/// A placeholder for values that the API server assigns when it creates an object.
const ASSIGNED: &str = "(assigned when created)";
/// A placeholder for the suffix of a name that is derived from the UID of a planned owner.
const GENERATED: &str = "(generated)";

/// The changes, by the composite resource that they are listed with. Others are listed separately.
#[derive(Default)]
struct Attributed {
    by_composite: BTreeMap<Key, Vec<Change>>,
    others: Vec<Change>,
}

impl Planning {
    /// Report a plan.
    pub(super) async fn report(
        &self,
        proposals: &Proposals,
        mut progress: BTreeMap<Key, Progress>,
        claimed: &BTreeMap<Key, Claimed>,
        caller: &ApiClient,
    ) -> ChangePlan {
        let differences = self.planned.differences();
        let replacements = unknown_before(&differences);
        let mut changes = self.attribute(&differences, claimed);
        // A name that is derived from the UID of a dry run differs in the next plan, and no object has it yet.
        let is_made_up = |key: &Key| replacements.contains_key(&key.name);
        let (versions, digest) = self.planned.basis(is_made_up);
        let mut basis = Sha256::new().chain_update(&digest);
        let considered = self.composites.all().iter().map(|controller| controller.informer.len()).sum();
        let mut plan = ChangePlan { considered, ..ChangePlan::default() };
        let mut access = Access::of(caller);
        for change in std::mem::take(&mut changes.others) {
            plan.proposed.push(known_before(change, &replacements));
        }
        plan.proposed = arrange(std::mem::take(&mut plan.proposed));
        for key in changes.by_composite.keys() {
            progress.entry(key.clone()).or_default();
        }
        for (key, known) in progress {
            if !is_made_up(&key) {
                basis.update(format!("{key:?} {}\n", known.identity));
            }
            let changes = changes.by_composite.remove(&key).unwrap_or_default();
            let Some(composite) = self.composite_plan(&key, known, changes, proposals) else { continue };
            if access.may_get(&composite.composite).await {
                plan.composites.push(shown(composite, &replacements, &mut access).await);
            } else {
                plan.hidden += 1;
            }
        }
        for (object, resource_version) in versions {
            if access.may_get(&object).await {
                plan.versions.push(ObjectVersion { object, resource_version });
            }
        }
        plan.basis = ferroplane_wire::to_hex(&basis.finalize());
        plan
    }

    fn attribute(
        &self,
        differences: &[(Option<Object>, Option<Object>)],
        claimed: &BTreeMap<Key, Claimed>,
    ) -> Attributed {
        let mut attributed = Attributed::default();
        for (before, after) in differences {
            let Some(mut change) = Change::between(before.as_ref(), after.as_ref()) else { continue };
            let Some(object) = after.as_ref().or(before.as_ref()) else { continue };
            let controller = self.composites.of_kind(&group_kind(object));
            let claimed = claimed.get(&Key::of(object));
            // A claim has the schema of its composite resource.
            let schema = controller.clone().or_else(|| self.controller_of(&claimed?.composite));
            if let Some(schema) = &schema {
                redact(&mut change, &schema.sensitive, before.as_ref(), after.as_ref());
            }
            // A nested composite resource has a plan of its own, unless it is created or deleted.
            let is_own = controller.is_some() && change.action == Action::Update;
            let composer = self.composite_of(object).filter(|_| !is_own);
            let itself = || controller.is_some().then(|| Key::of(object));
            let listed = claimed.filter(|it| !it.is_proposed).map(|it| it.composite.clone());
            match composer.or_else(itself).or(listed) {
                Some(key) => attributed.by_composite.entry(key).or_default().push(change),
                None => attributed.others.push(change),
            }
        }
        attributed
    }

    fn controller_of(&self, composite: &Key) -> Option<Arc<Controller>> {
        self.composites.of_kind(&(composite.group.clone(), composite.kind.clone()))
    }

    /// The plan of a composite resource. None if it is deleted together with its composer.
    fn composite_plan(
        &self,
        key: &Key,
        known: Progress,
        mut changes: Vec<Change>,
        proposals: &Proposals,
    ) -> Option<CompositePlan> {
        let controller = self.controller_of(key)?;
        if self.planned.is_removed(key) && changes.is_empty() {
            return None;
        }
        for (resource, (object, reason)) in known.refused {
            let refused = Some(reason);
            let (action, replaces, fields) = (Action::Update, None, Vec::new());
            changes.push(Change { action, object, resource, replaces, fields, refused });
        }
        let unknowable = proposals.unknowable.get(&controller.kind.definition);
        let unknowable = unknowable.map(|reason| Verdict::Refused { reason: reason.clone() });
        let is_changed = if changes.is_empty() { Verdict::Unchanged } else { Verdict::Changed };
        let composite = ObjectName {
            api_version: controller.kind.resource.api_version.clone(),
            kind: key.kind.clone(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        };
        let verdict = unknowable.or(known.verdict).unwrap_or(is_changed);
        if matches!(verdict, Verdict::Refused { .. }) {
            // Changes that were planned before the failure may be wrong.
            changes.clear();
        }
        Some(CompositePlan {
            composite,
            verdict,
            revision: known.revision,
            changes: arrange(changes),
            hidden: 0,
        })
    }
}

/// The changes that the client may read.
async fn shown(
    mut plan: CompositePlan,
    replacements: &BTreeMap<String, String>,
    access: &mut Access<'_>,
) -> CompositePlan {
    let name = &mut plan.composite.name;
    if let Some(replacement) = replacements.get(name) {
        name.clone_from(replacement);
    }
    for change in std::mem::take(&mut plan.changes) {
        if access.may_get(&change.object).await {
            plan.changes.push(known_before(change, replacements));
        } else {
            plan.hidden += 1;
        }
    }
    plan
}

/// Values that are unknown before an object exists, and their placeholders: its UID, and names that are derived from the UID of its
/// owner.
fn unknown_before(differences: &[(Option<Object>, Option<Object>)]) -> BTreeMap<String, String> {
    let created = |(before, after): &(Option<Object>, Option<Object>)| {
        let after = after.clone()?;
        let is_new = before.as_ref().is_none_or(|before| meta::uid(before) != meta::uid(&after));
        is_new.then_some(after)
    };
    let created: Vec<_> = differences.iter().filter_map(created).collect();
    let uids: BTreeMap<String, String> =
        created.iter().map(|object| (meta::uid(object).to_owned(), ASSIGNED.to_owned())).collect();
    let mut unknown = uids.clone();
    for object in &created {
        if let Some(claim) = created.iter().find(|claim| is_claimed_by(object, claim)) {
            unknown.insert(meta::name(object).to_owned(), format!("{}-{GENERATED}", meta::name(claim)));
        }
    }
    for object in &created {
        let is_of_new_owner = meta::controller_uid(object).is_some_and(|uid| uids.contains_key(uid));
        let prefix = meta::generate_name(object);
        if !is_of_new_owner || prefix.is_empty() {
            continue;
        }
        // The name of an owner may be generated, too.
        let owner = prefix.strip_suffix('-').and_then(|owner| unknown.get(owner));
        let known = owner.map_or_else(|| prefix.to_owned(), |owner| format!("{owner}-"));
        unknown.insert(meta::name(object).to_owned(), format!("{known}{GENERATED}"));
        unknown.insert(prefix.to_owned(), known);
    }
    unknown.remove("");
    unknown
}

fn is_claimed_by(composite: &Object, claim: &Object) -> bool {
    let Some(reference) = composite.get("spec").and_then(|spec| spec.get("claimRef")) else { return false };
    reference["kind"] == meta::kind(claim)
        && reference["namespace"] == meta::namespace(claim)
        && reference["name"] == meta::name(claim)
}

fn known_before(mut change: Change, replacements: &BTreeMap<String, String>) -> Change {
    if let Some(name) = replacements.get(&change.object.name) {
        change.object.name.clone_from(name);
    }
    for field in &mut change.fields {
        if let Some(after) = &mut field.after {
            substitute(after, replacements);
        }
    }
    change
}
