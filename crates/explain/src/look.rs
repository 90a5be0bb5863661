//! Reads objects: their role, their conditions, their references.

use ferroplane_api::{Object, PackageKind, keys, meta};
use ferroplane_engine::Reference;
use ferroplane_engine::composite::Machinery;
use ferroplane_engine::intercept::ACTIVE;
use ferroplane_engine::operation::{CRON_LABEL, WATCH_LABEL, applied_action_sets};
use serde_json::Value;

use crate::id::Id;
use crate::packages::{self, PACKAGES};
use crate::snapshot::{List, Snapshot};

const ACTION_SETS: &str = "cr.kanister.io/v1alpha1";

/// What an object is to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Claim,
    Composite,
    Definition,
    Composition,
    CompositionRevision,
    /// A Function, a Provider or a Configuration.
    Package,
    /// A pipeline that runs once.
    Operation,
    /// A `CronOperation` or a `WatchOperation`.
    OperationMaker,
    /// Actions of Blueprints that run once.
    ActionSet,
    /// Another kind of ours, whose controller says in a condition whether an object can be used.
    Own,
    /// Nothing acts on it, and its kind has no conditions in which it could say so.
    Unsupported,
    /// Whatever was composed, and everything else.
    Other,
}

/// One condition of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Condition<'a> {
    pub(crate) kind: &'a str,
    pub(crate) status: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
    pub(crate) since: &'a str,
    pub(crate) generation: i64,
    /// The code of what failed, with the step and the resource if there are any. A Crossplane writes none of them.
    pub(crate) code: &'a str,
    pub(crate) step: &'a str,
    pub(crate) resource: &'a str,
}

impl<'a> Condition<'a> {
    pub(crate) fn is_true(&self) -> bool {
        self.status == "True"
    }

    /// Its message, or its reason.
    pub(crate) fn words(&self) -> &'a str {
        if self.message.is_empty() { self.reason } else { self.message }
    }
}

/// The text at a path, or nothing.
pub(crate) fn text_at<'a>(object: &'a Object, path: &[&str]) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// Whatever is at a path.
pub(crate) fn at<'a>(object: &'a Object, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(object.get(*first)?, |value, key| value.get(*key))
}

pub(crate) fn conditions(object: &Object) -> impl Iterator<Item = Condition<'_>> {
    let list = at(object, &["status", "conditions"]).and_then(Value::as_array);
    list.into_iter().flatten().map(|condition| {
        let text = |field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default();
        Condition {
            kind: text("type"),
            status: text("status"),
            reason: text("reason"),
            message: text("message"),
            since: text("lastTransitionTime"),
            generation: condition.get("observedGeneration").and_then(Value::as_i64).unwrap_or_default(),
            code: text("code"),
            step: text("step"),
            resource: text("resource"),
        }
    })
}

pub(crate) fn condition<'a>(object: &'a Object, kind: &str) -> Option<Condition<'a>> {
    conditions(object).find(|condition| condition.kind == kind)
}

/// What says that it could be made what it should be.
pub(crate) fn synced(object: &Object) -> Option<Condition<'_>> {
    // Packages have the second one in its place.
    condition(object, "Synced").or_else(|| condition(object, "Installed"))
}

/// What says that it can be used. Kinds have different words for it.
pub(crate) fn ready(object: &Object) -> Option<Condition<'_>> {
    let words = [
        "Ready",
        "Available",
        "Healthy",
        "RevisionHealthy",
        "Established",
        "Succeeded",
        "Scheduling",
        "Watching",
        "ValidPipeline",
        "Complete",
    ];
    // In this order: a kind that has several says with the first whether it can be used, and with the others why.
    words.into_iter().chain(own_word(object)).find_map(|word| condition(object, word))
}

/// The word of a single kind of ours. Elsewhere it can mean something else: KEDA calls what is scaled to zero not `Active`.
fn own_word(object: &Object) -> Option<&'static str> {
    match (meta::group(meta::api_version(object)), meta::kind(object)) {
        (keys::PKG, "Lock") => Some("Resolved"),
        (keys::ROLLOUT, "FunctionIntercept") => Some(ACTIVE),
        _ => None,
    }
}

/// What keeps an object that is being deleted.
pub(crate) fn finalizers(object: &Object) -> impl Iterator<Item = &str> {
    at(object, &["metadata", "finalizers"])
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

pub(crate) fn deleted_at(object: &Object) -> &str {
    text_at(object, &["metadata", "deletionTimestamp"])
}

pub(crate) fn created_at(object: &Object) -> &str {
    text_at(object, &["metadata", "creationTimestamp"])
}

/// Whether it is a revision of a package that was replaced, or was never activated.
pub(crate) fn is_inactive(object: &Object) -> bool {
    text_at(object, &["spec", "desiredState"]) == "Inactive"
}

pub(crate) fn is_paused(object: &Object) -> bool {
    meta::annotation(object, keys::PAUSED) == "true"
}

/// All definitions.
pub(crate) fn definitions() -> List {
    cluster_list("apiextensions.crossplane.io/v2", "CompositeResourceDefinition")
}

/// All compositions.
pub(crate) fn compositions() -> List {
    cluster_list("apiextensions.crossplane.io/v1", "Composition")
}

/// All rollouts of functions.
pub(crate) fn rollouts() -> List {
    cluster_list("rollout.ferroplane.io/v1alpha1", "FunctionRollout")
}

/// All usages, of all kinds: those of the older group protect objects, too.
pub(crate) fn usages() -> [List; 3] {
    [
        ("protection.crossplane.io/v1beta1", "Usage"),
        ("protection.crossplane.io/v1beta1", "ClusterUsage"),
        ("apiextensions.crossplane.io/v1beta1", "Usage"),
    ]
    .map(|(api_version, kind)| cluster_list(api_version, kind))
}

/// The revisions of a package or a composition.
pub(crate) fn revisions_of(object: &Object) -> Option<List> {
    let (api_version, kind, label) = match (meta::group(meta::api_version(object)), meta::kind(object)) {
        (keys::APIEXTENSIONS, "Composition") => {
            ("apiextensions.crossplane.io/v1", "CompositionRevision", keys::COMPOSITION_NAME)
        }
        (keys::PKG, kind) => (PACKAGES, PackageKind::of(kind)?.revision(), keys::PACKAGE),
        _ => return None,
    };
    let label = Some((label.to_owned(), meta::name(object).to_owned()));
    Some(List { label, ..cluster_list(api_version, kind) })
}

/// The operations that a `CronOperation` or a `WatchOperation` has made.
pub(crate) fn operations_of(object: &Object) -> Option<List> {
    let label = match (meta::group(meta::api_version(object)), meta::kind(object)) {
        (keys::OPS, "CronOperation") => CRON_LABEL,
        (keys::OPS, "WatchOperation") => WATCH_LABEL,
        _ => return None,
    };
    let label = Some((label.to_owned(), meta::name(object).to_owned()));
    Some(List { label, ..cluster_list("ops.crossplane.io/v1alpha1", "Operation") })
}

pub(crate) fn cluster_list(api_version: &str, kind: &str) -> List {
    List { api_version: api_version.to_owned(), kind: kind.to_owned(), namespace: String::new(), label: None }
}

/// The function that a step calls.
pub(crate) fn function(name: &str) -> Id {
    Id::new(PACKAGES, PackageKind::Function.name(), "", name)
}

pub(crate) fn composition(name: &str) -> Id {
    Id::new("apiextensions.crossplane.io/v1", "Composition", "", name)
}

/// The kind's own definition.
pub(crate) fn custom_kind(definition: &Object, names: &str) -> Id {
    let plural = text_at(definition, &["spec", names, "plural"]);
    let name = format!("{plural}.{}", text_at(definition, &["spec", "group"]));
    Id::new("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", &name)
}

/// The definition of a kind, if it is a composite resource or a claim.
pub(crate) fn definition_of<'a>(snapshot: &'a Snapshot, id: &Id) -> Option<(&'a Object, Role)> {
    snapshot.list(&definitions()).find_map(|definition| {
        if text_at(definition, &["spec", "group"]) != id.group() {
            return None;
        }
        let is = |names: &str| text_at(definition, &["spec", names, "kind"]) == id.kind;
        let role = if is("names") { Role::Composite } else { Role::Claim };
        (is("names") || is("claimNames")).then_some((definition, role))
    })
}

pub(crate) fn role(snapshot: &Snapshot, id: &Id, object: &Object) -> Role {
    match (id.group(), id.kind.as_str()) {
        (keys::APIEXTENSIONS, "CompositeResourceDefinition") => Role::Definition,
        (keys::APIEXTENSIONS, "Composition") => Role::Composition,
        (keys::APIEXTENSIONS, "CompositionRevision") => Role::CompositionRevision,
        (keys::PKG, kind) if PackageKind::of(kind).is_some() => Role::Package,
        (keys::OPS, "Operation") => Role::Operation,
        (keys::OPS, "CronOperation" | "WatchOperation") => Role::OperationMaker,
        (keys::KANISTER, "ActionSet") => Role::ActionSet,
        (keys::PROTECTION, "Usage" | "ClusterUsage")
        | (keys::APIEXTENSIONS, "Usage" | "ManagedResourceDefinition" | "ManagedResourceActivationPolicy")
        | (keys::ROLLOUT, "FunctionRollout" | "FunctionIntercept") => Role::Own,
        (group, kind) if snapshot.home().leaves_alone(group, kind) => Role::Unsupported,
        _ => match definition_of(snapshot, id) {
            Some((_, role)) => role,
            None => role_by_content(object),
        },
    }
}

/// What an object is by what it holds. A user who may not read definitions can still tell.
fn role_by_content(object: &Object) -> Role {
    let has = |field: &str| at(object, &["spec", field]).is_some_and(|value| !value.is_null());
    if at(object, &["spec", "crossplane", "compositionRef"]).is_some() {
        return Role::Composite;
    }
    match (has("compositionRef"), has("resourceRefs") || has("claimRef"), has("resourceRef")) {
        (false, ..) => Role::Other,
        // A claim refers to one object, and a composite resource to all that it composes.
        (true, false, true) => Role::Claim,
        (true, ..) => Role::Composite,
    }
}

/// What belongs to an object, one level down.
pub(crate) fn children(snapshot: &Snapshot, id: &Id, object: &Object) -> Vec<Id> {
    match role(snapshot, id, object) {
        Role::Composite => {
            // Guessed by what it holds: the definition, which says the layout, may not be readable.
            let references = Machinery::guess(object).references().into_iter();
            references.map(|reference| composed(&reference)).collect()
        }
        Role::Claim => at(object, &["spec", "resourceRef"]).and_then(claimed).into_iter().collect(),
        Role::Definition => {
            let claim = at(object, &["spec", "claimNames"]).map(|_| custom_kind(object, "claimNames"));
            std::iter::once(custom_kind(object, "names")).chain(claim).collect()
        }
        Role::Composition => {
            let list = revisions_of(object);
            list.into_iter().flat_map(|list| snapshot.list(&list).map(Id::of).collect::<Vec<_>>()).collect()
        }
        Role::Package => packages::children(snapshot, object),
        Role::OperationMaker => {
            let list = operations_of(object);
            list.into_iter().flat_map(|list| snapshot.list(&list).map(Id::of).collect::<Vec<_>>()).collect()
        }
        Role::Operation => {
            let action_sets = applied_action_sets(object).into_iter();
            action_sets.map(|it| Id::new(ACTION_SETS, "ActionSet", &it.namespace, &it.name)).collect()
        }
        Role::CompositionRevision | Role::ActionSet | Role::Own | Role::Unsupported | Role::Other => {
            Vec::new()
        }
    }
}

fn composed(reference: &Reference) -> Id {
    let Reference { api_version, kind, name, namespace } = reference;
    Id::new(api_version, kind, namespace.as_deref().unwrap_or_default(), name)
}

/// The composite resource that a claim refers to.
fn claimed(reference: &Value) -> Option<Id> {
    let text = |field: &str| reference.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    Some(Id::new(text("apiVersion")?, text("kind")?, "", text("name")?))
}

/// The revision that a composite resource follows, and what it is called.
pub(crate) fn revision_of<'a>(snapshot: &'a Snapshot, composite: &Object) -> Option<&'a Object> {
    snapshot.object(&revision_id(composite)?)
}

pub(crate) fn revision_id(composite: &Object) -> Option<Id> {
    let name = Machinery::guess(composite).revision()?;
    Some(Id::new("apiextensions.crossplane.io/v1", "CompositionRevision", "", name))
}

/// The namespace and the name of the Secret that holds a credential of a step.
pub(crate) fn credential_of<'a>(
    composition: &'a Object,
    step: &str,
    name: &str,
) -> Option<(&'a str, &'a str)> {
    let steps = at(composition, &["spec", "pipeline"])?.as_array()?;
    let step = steps.iter().find(|it| it.get("step").is_some_and(|it| it == step))?;
    let credentials = step.get("credentials")?.as_array()?;
    let credential = credentials.iter().find(|it| it.get("name").is_some_and(|it| it == name))?;
    let text = |field: &str| credential.get("secretRef")?.get(field)?.as_str();
    Some((text("namespace").unwrap_or_default(), text("name")?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn role_is_known_without_definitions() {
        let composed = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "a"}]);
        let cases = [
            (json!({"crossplane": {"compositionRef": {"name": "c"}}}), Role::Composite),
            (json!({"compositionRef": {"name": "c"}, "resourceRefs": composed}), Role::Composite),
            (json!({"compositionRef": {"name": "c"}, "claimRef": {"name": "shop"}}), Role::Composite),
            (json!({"compositionRef": {"name": "c"}, "resourceRef": {"name": "shop-x"}}), Role::Claim),
            // Plenty of kinds refer to some resource.
            (json!({"resourceRef": {"name": "a"}}), Role::Other),
            (json!({"region": "eu"}), Role::Other),
        ];
        for (spec, wanted) in cases {
            let object = json!({"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec});
            let Value::Object(object) = object else { unreachable!() };
            assert_eq!(role(&Snapshot::default(), &Id::of(&object), &object), wanted, "{object:?}");
        }
    }
}
