//! Synchronises a claim and its composite resource.
//!
//! The spec goes from the claim to the composite resource; selections and the status go back. Each field has one direction, so that
//! neither object keeps changing the other.

use ferroplane_api::{Condition, Object, Scope, Status, TypeRef, keys, meta, set_condition};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::definition::machinery;
use crate::settle::{conditions_in, conditions_to_json};

/// Fields that both claims and composite resources have, and that users set on the claim.
const PROPAGATED: [&str; 4] =
    ["compositionRef", "compositionSelector", "compositionUpdatePolicy", "compositionRevisionSelector"];
const REVISION: &str = "compositionRevisionRef";
/// The length of the suffix of a generated name: that of Kubernetes.
const SUFFIX: usize = 5;
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// The longest value of a label.
const MAX_NAME: usize = 63;

/// The composite resource of a claim, which may not exist yet.
#[derive(Debug, Clone, Copy)]
pub struct Counterpart<'a> {
    pub kind: &'a TypeRef,
    pub name: &'a str,
    /// The object, if it exists.
    pub present: Option<&'a Object>,
    /// Whether the definition enforces a composition, whatever the claim names.
    pub is_enforced: bool,
}

/// The state that both objects should have.
#[derive(Debug, Clone, PartialEq)]
pub struct Binding {
    /// The merge patch for the claim. None if nothing is to change.
    pub claim: Option<Value>,
    /// The composite resource to apply.
    pub composite: Object,
}

/// Bind a claim and a composite resource.
pub fn bind(claim: &Object, other: Counterpart<'_>) -> Binding {
    Binding { claim: changes(claim, other), composite: composite(claim, other) }
}

/// The claim that a composite resource belongs to, if it is another one.
pub fn bound_elsewhere(claim: &Object, composite: &Object) -> Option<String> {
    let other = composite.get("spec")?.get("claimRef")?.as_object()?;
    let text = |field: &str| other.get(field).and_then(Value::as_str).unwrap_or_default();
    // The version of the reference does not identify the claim: one claim can be read in several versions.
    let is_this = text("namespace") == meta::namespace(claim)
        && text("name") == meta::name(claim)
        && text("kind") == meta::kind(claim)
        && meta::group(text("apiVersion")) == meta::group(meta::api_version(claim));
    (!is_this).then(|| format!("{}/{}", text("namespace"), text("name")))
}

/// The name of the composite resource of a claim that names none. `attempt` counts the names that were taken. The same claim always gets
/// the same names.
pub fn claimed_name(claim: &Object, attempt: u32) -> String {
    let seed = format!("{} {attempt}", meta::uid(claim));
    // Derived rather than random, so that a claim whose reconcile was interrupted uses the same name again and
    // cannot leave an XR behind.
    let hash = Sha256::digest(seed);
    let suffix = hash.iter().take(SUFFIX).map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()]));
    let mut name = format!("{}-", meta::name(claim));
    // The name becomes the value of a label of everything that is composed.
    name.truncate(name.floor_char_boundary(MAX_NAME - SUFFIX));
    name.extend(suffix);
    name
}

/// The status of a claim: that of its composite resource, with conditions of its own.
pub fn claim_status(claim: &Object, composite: Option<&Object>) -> Object {
    let of = |object: Option<&Object>| object.and_then(|object| object.get("status")?.as_object().cloned());
    let present = of(Some(claim)).unwrap_or_default();
    // A composite resource without a status removes nothing from the claim's.
    let mut status = of(composite).unwrap_or_else(|| present.clone());
    // The plane's own fields differ between the two objects, so that they are never copied.
    let machinery = machinery::composite_status(true);
    let is_own = |field: &str| machinery.contains_key(field);
    status.retain(|field, _| !is_own(field));
    let own = present.into_iter().filter(|(field, _)| is_own(field));
    status.extend(own);
    status
}

/// Set conditions in a status: ours, and those that functions set for the claim.
pub fn set_claim_conditions(
    status: &mut Object,
    composite: Option<&Object>,
    ours: Vec<Condition>,
    generation: i64,
    now: &str,
) {
    let mut conditions = status.get("conditions").map(conditions_in).unwrap_or_default();
    let handed_on = composite.map(handed_on).unwrap_or_default();
    // Those of functions keep the time that they have on the composite resource.
    let ours = ours.into_iter().map(|ours| Condition { last_transition_time: now.to_owned(), ..ours });
    // Ours come last: a function cannot pass off its own `Ready` as the claim's.
    for condition in handed_on.into_iter().chain(ours) {
        set_condition(&mut conditions, Condition { observed_generation: generation, ..condition });
    }
    status.insert("conditions".to_owned(), Value::Array(conditions_to_json(&conditions)));
}

/// Whether the condition `Ready` of an object is true.
pub fn is_ready(object: &Object) -> bool {
    let conditions = object.get("status").and_then(|status| status.get("conditions"));
    let conditions = conditions.map(conditions_in).unwrap_or_default();
    conditions.iter().any(|condition| condition.kind == "Ready" && condition.status == Status::True)
}

/// The conditions that functions set for the claim.
fn handed_on(composite: &Object) -> Vec<Condition> {
    let status = composite.get("status");
    let kinds = status.and_then(|status| status.get("claimConditionTypes")?.as_array());
    let conditions =
        status.and_then(|status| status.get("conditions")).map(conditions_in).unwrap_or_default();
    let is_meant = |kind: &str| kinds.into_iter().flatten().any(|meant| meant == kind);
    // `Ready` and `Synced` of a claim are about the claim, whatever a function lists.
    conditions.into_iter().filter(|condition| !condition.is_system() && is_meant(&condition.kind)).collect()
}

/// The changes to the claim: the reference to its composite resource, and what was selected for that.
fn changes(claim: &Object, other: Counterpart<'_>) -> Option<Value> {
    let mut spec = Map::new();
    let mut put = |field: &str, value: Value| {
        // Only differences go into the patch, so that an unchanged claim is not written.
        if self::field(claim, field) != Some(&value) {
            spec.insert(field.to_owned(), value);
        }
    };
    let TypeRef { api_version, kind } = other.kind;
    put("resourceRef", json!({"apiVersion": api_version, "kind": kind, "name": other.name}));
    for (field, value) in
        other.present.map(|present| chosen(claim, present, other.is_enforced)).unwrap_or_default()
    {
        put(field, value);
    }
    let external_name = other.present.map(|present| meta::annotation(present, keys::EXTERNAL_NAME));
    let external_name = external_name.filter(|name| !name.is_empty());
    let external_name = external_name.filter(|name| *name != meta::annotation(claim, keys::EXTERNAL_NAME));
    let mut changes = Map::new();
    if !spec.is_empty() {
        changes.insert("spec".to_owned(), Value::Object(spec));
    }
    if let Some(name) = external_name {
        changes.insert("metadata".to_owned(), json!({"annotations": {keys::EXTERNAL_NAME: name}}));
    }
    (!changes.is_empty()).then_some(Value::Object(changes))
}

/// Fields that are selected for the composite resource, and that the claim cannot choose.
fn chosen(claim: &Object, composite: &Object, is_enforced: bool) -> Vec<(&'static str, Value)> {
    let is_automatic =
        field(composite, "compositionUpdatePolicy").and_then(Value::as_str) == Some("Automatic");
    let is_open = |name: &str| field(claim, name).is_none();
    let candidates = [
        ("compositionRef", is_enforced || is_open("compositionRef")),
        ("compositionRevisionSelector", is_open("compositionRevisionSelector")),
        // With a manual policy the user names the revision in the claim, and it goes the other way.
        (REVISION, is_automatic),
    ];
    let chosen = candidates.into_iter().filter(|(_, goes_back)| *goes_back);
    chosen.filter_map(|(name, _)| Some((name, field(composite, name)?.clone()))).collect()
}

/// The composite resource that the claim specifies.
fn composite(claim: &Object, other: Counterpart<'_>) -> Object {
    let TypeRef { api_version, kind } = other.kind;
    let mut composite = Map::from_iter([
        ("apiVersion".to_owned(), api_version.as_str().into()),
        ("kind".to_owned(), kind.as_str().into()),
    ]);
    meta::set_field(&mut composite, "name", other.name);
    for (key, value) in entries(claim, "labels") {
        meta::set_label(&mut composite, key, value);
    }
    meta::set_label(&mut composite, keys::CLAIM_NAME, meta::name(claim));
    meta::set_label(&mut composite, keys::CLAIM_NAMESPACE, meta::namespace(claim));
    for (key, value) in entries(claim, "annotations") {
        meta::set_annotation(&mut composite, key, value);
    }
    // An existing composite resource is not renamed.
    let external_name = other.present.map(|present| meta::annotation(present, keys::EXTERNAL_NAME));
    if let Some(name) = external_name.filter(|name| !name.is_empty()) {
        meta::set_annotation(&mut composite, keys::EXTERNAL_NAME, name);
    }
    let mut spec = wishes(claim, other);
    let reference = json!({
        "apiVersion": meta::api_version(claim), "kind": meta::kind(claim),
        "namespace": meta::namespace(claim), "name": meta::name(claim),
    });
    spec.insert("claimRef".to_owned(), reference);
    composite.insert("spec".to_owned(), Value::Object(spec));
    composite
}

/// The spec of the claim, without fields that only claims have, and without those that only the plane sets.
fn wishes(claim: &Object, other: Counterpart<'_>) -> Object {
    // The composite resource's policy decides once it exists: a default of the definition may have filled it
    // in.
    let policy = match other.present {
        Some(present) => field(present, "compositionUpdatePolicy"),
        None => field(claim, "compositionUpdatePolicy"),
    };
    let is_manual = policy.and_then(Value::as_str) == Some("Manual");
    let machinery: Object = machinery::claim_spec(None)
        .into_iter()
        .chain(machinery::composite_spec(Scope::LegacyCluster, None))
        .collect();
    let is_wish = |field: &str| match field {
        "compositionRef" => !other.is_enforced,
        REVISION => is_manual,
        _ => PROPAGATED.contains(&field) || !machinery.contains_key(field),
    };
    let mut spec = claim.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
    spec.retain(|field, _| is_wish(field));
    spec
}

/// Labels or annotations, without those that are about the claim alone.
fn entries<'c>(claim: &'c Object, of: &str) -> impl Iterator<Item = (&'c str, &'c str)> {
    let entries = claim.get("metadata").and_then(|metadata| metadata.get(of)?.as_object());
    let entries =
        entries.into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
    entries.filter(|(key, _)| {
        let owner = key.split_once('/').map_or("", |(owner, _)| owner);
        // Crossplane drops these (`object.go` of its claim controller), such as `kubectl`'s last applied
        // configuration, which is about the claim alone.
        !owner.ends_with("kubernetes.io") && !owner.ends_with("k8s.io")
    })
}

fn field<'o>(object: &'o Object, name: &str) -> Option<&'o Value> {
    object.get("spec")?.get(name).filter(|value| !value.is_null())
}

#[cfg(test)]
mod tests;
