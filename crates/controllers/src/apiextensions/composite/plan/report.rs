//! Says what a plan came to, to somebody who may not read everything.

use std::collections::BTreeMap;

use ferroplane_api::{Object, meta};
use ferroplane_client::ApiClient;
use ferroplane_engine::changes::{
    Action, Change, ChangePlan, CompositePlan, ObjectName, ObjectVersion, Verdict, arrange, substitute,
};
use sha2::{Digest as _, Sha256};

use super::access::Access;
use super::planned_cluster::Key;
use super::proposal::Proposals;
use super::redact::redact;
use super::{Planning, Progress, group_kind};

/// Stands for what only the API server knows, once an object exists.
const ASSIGNED: &str = "(assigned when created)";
/// Stands for the end of a name that follows from the UID of an owner that does not exist yet.
const GENERATED: &str = "(generated)";

/// What changes, by the composite resource that it is told of. What belongs to none is told apart.
#[derive(Default)]
struct Attributed {
    by_composite: BTreeMap<Key, Vec<Change>>,
    others: Vec<Change>,
}

impl Planning {
    /// What the plan came to.
    pub(super) async fn report(
        &self,
        proposals: &Proposals,
        mut progress: BTreeMap<Key, Progress>,
        caller: &ApiClient,
    ) -> ChangePlan {
        let differences = self.planned.differences();
        let replacements = unknown_before(&differences);
        let mut changes = self.attribute(&differences);
        // A name that follows from the UID of a dry run is another one in the next plan, and nothing has it yet.
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

    fn attribute(&self, differences: &[(Option<Object>, Option<Object>)]) -> Attributed {
        let mut attributed = Attributed::default();
        for (before, after) in differences {
            let Some(mut change) = Change::between(before.as_ref(), after.as_ref()) else { continue };
            let Some(object) = after.as_ref().or(before.as_ref()) else { continue };
            let controller = self.composites.of_kind(&group_kind(object));
            if let Some(controller) = &controller {
                redact(&mut change, &controller.sensitive, before.as_ref(), after.as_ref());
            }
            // A composite resource that is composed is told of by itself, unless it comes or goes.
            let is_own = controller.is_some() && change.action == Action::Update;
            let composer = self.composite_of(object).filter(|_| !is_own);
            match composer.or_else(|| controller.is_some().then(|| Key::of(object))) {
                Some(key) => attributed.by_composite.entry(key).or_default().push(change),
                None => attributed.others.push(change),
            }
        }
        attributed
    }

    /// What becomes of a composite resource. None if it is gone with the one that composed it.
    fn composite_plan(
        &self,
        key: &Key,
        known: Progress,
        mut changes: Vec<Change>,
        proposals: &Proposals,
    ) -> Option<CompositePlan> {
        let controller = self.composites.of_kind(&(key.group.clone(), key.kind.clone()))?;
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
            // What was foreseen by then may be wrong.
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

/// Only what whoever asks may read.
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

/// What is not known before an object exists, and what stands for it: its UID, and names that follow from the UID of its owner.
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
        let is_of_new_owner = meta::controller_uid(object).is_some_and(|uid| uids.contains_key(uid));
        let prefix = meta::generate_name(object);
        if is_of_new_owner && !prefix.is_empty() {
            unknown.insert(meta::name(object).to_owned(), format!("{prefix}{GENERATED}"));
        }
        if let Some(claim) = created.iter().find(|claim| is_claimed_by(object, claim)) {
            unknown.insert(meta::name(object).to_owned(), format!("{}-{GENERATED}", meta::name(claim)));
        }
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
