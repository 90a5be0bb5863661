//! Decides which revisions a `Composition` has: one for every content that it ever had, the current one with the highest number.
//!
//! # Invariants
//! * Hash, name and labels are those of Crossplane, so that Compositions that it managed get no new revisions.
//! * An existing revision is never created again, and never renamed: when an old content comes back, its revision does.
//! * Labels of the composition never replace those that connect a revision to it.

use ferroplane_api::{Object, keys, meta};
use ferroplane_golang::yaml::to_yaml;
use ferroplane_wire::to_hex;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// How many digits of a hash fit in a label.
const LABEL_DIGITS: usize = 63;
/// How many digits of a hash the name of a revision contains.
const NAME_DIGITS: usize = 7;

/// The changes to the revisions of a composition.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Revisions {
    /// Revisions to update.
    pub update: Vec<Object>,
    /// A revision to create.
    pub create: Option<Object>,
}

/// A revision with the label of a composition or a package that something else controls.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("revision `{revision}` already belongs to {kind} `{name}`")]
pub struct Foreign {
    pub revision: String,
    pub kind: String,
    pub name: String,
}

impl Foreign {
    /// The error for a revision that the parent does not control. None if it does.
    pub(crate) fn of(revision: &Object, parent: &Object) -> Option<Self> {
        if meta::controller_uid(revision)? == meta::uid(parent) {
            return None;
        }
        let owner = meta::controller(revision);
        let text = |field: &str| owner.and_then(|owner| owner.get(field)?.as_str()).unwrap_or_default();
        let (kind, name) = (text("kind").to_owned(), text("name").to_owned());
        Some(Self { revision: meta::name(revision).to_owned(), kind, name })
    }
}

/// The changes, given all revisions with the label of the composition.
pub fn plan_revisions(composition: &Object, revisions: &[Object]) -> Result<Revisions, Foreign> {
    if let Some(foreign) = revisions.iter().find_map(|revision| Foreign::of(revision, composition)) {
        return Err(foreign);
    }
    let hash = composition_hash(composition);
    let label = &hash[..LABEL_DIGITS];
    let latest = revisions.iter().map(number).max().unwrap_or_default();
    let update = revisions.iter().filter_map(|revision| {
        let is_current = meta::label(revision, keys::COMPOSITION_HASH) == label;
        // Two can have the same number if a replica created one before it had seen the other.
        let is_overtaken =
            |other: &Object| meta::name(other) != meta::name(revision) && number(other) >= number(revision);
        let is_late = is_current && revisions.iter().any(is_overtaken);
        updated(revision, composition, is_late.then_some(latest + 1))
    });
    let exists = revisions.iter().any(|revision| meta::label(revision, keys::COMPOSITION_HASH) == label);
    let create = (!exists).then(|| new_revision(composition, &hash, latest + 1));
    Ok(Revisions { update: update.collect(), create })
}

/// The hash of a composition, in 64 digits.
pub fn composition_hash(composition: &Object) -> String {
    let metadata = |field: &str| match composition.get("metadata").and_then(|metadata| metadata.get(field)) {
        Some(entries) => to_yaml(entries),
        None => to_yaml(&Value::Null),
    };
    // Crossplane hashes the YAML of the three, null included. Any other form would revise everything on
    // migration.
    let mut hash = Sha256::new().chain_update(metadata("labels")).chain_update(metadata("annotations"));
    hash.update(to_yaml(&Value::Object(hashed_spec(composition))));
    to_hex(&hash.finalize())
}

fn number(revision: &Object) -> i64 {
    revision.get("spec").and_then(|spec| spec.get("revision")?.as_i64()).unwrap_or_default()
}

/// A revision as it should be. None if nothing is to change.
fn updated(revision: &Object, composition: &Object, number: Option<i64>) -> Option<Object> {
    // Owner references do not survive a backup.
    let is_owned = meta::controller_uid(revision).is_some();
    if is_owned && number.is_none() {
        return None;
    }
    let mut revision = revision.clone();
    if !is_owned {
        meta::set_controller(&mut revision, composition);
    }
    if let Some(number) = number {
        meta::child(&mut revision, "spec").insert("revision".to_owned(), number.into());
    }
    Some(revision)
}

fn new_revision(composition: &Object, hash: &str, number: i64) -> Object {
    let composition_name = meta::name(composition);
    let name = format!("{composition_name}-{}", &hash[..NAME_DIGITS]);
    let mut spec = spec(composition);
    spec.insert("revision".to_owned(), number.into());
    let mut revision = Map::from_iter([
        ("apiVersion".to_owned(), format!("{}/v1", keys::APIEXTENSIONS).into()),
        ("kind".to_owned(), "CompositionRevision".into()),
        ("spec".to_owned(), Value::Object(spec)),
    ]);
    meta::set_field(&mut revision, "name", &name);
    for field in ["labels", "annotations"] {
        if let Some(entries) = composition.get("metadata").and_then(|metadata| metadata.get(field)) {
            meta::child(&mut revision, "metadata").insert(field.to_owned(), entries.clone());
        }
    }
    meta::set_label(&mut revision, keys::COMPOSITION_NAME, composition_name);
    meta::set_label(&mut revision, keys::COMPOSITION_HASH, &hash[..LABEL_DIGITS]);
    meta::set_controller(&mut revision, composition);
    revision
}

/// The spec of a composition, with its mode made explicit.
fn spec(composition: &Object) -> Object {
    let mut spec = composition.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
    // The hash is of the object with defaults; an API server that does not default this field must not change it.
    if spec.get("mode").is_none_or(|mode| mode.is_null() || mode == "") {
        let lists_resources = spec.get("resources").is_some_and(|resources| !is_nothing(resources));
        let mode = if lists_resources { "Resources" } else { "Pipeline" };
        spec.insert("mode".to_owned(), mode.into());
    }
    spec
}

/// The spec as Crossplane serialises it: optional fields are left out if they are empty.
fn hashed_spec(composition: &Object) -> Object {
    let mut spec = spec(composition);
    // Go's `omitempty` drops empty lists, and null pointers only; the two lists name the fields of each sort.
    leave_out(&mut spec, &["pipeline"], &["writeConnectionSecretsToNamespace"]);
    // Crossplane no longer has the field, so that its own hashes do not include it.
    spec.remove("publishConnectionDetailsWithStoreConfigRef");
    for step in objects(&mut spec, "pipeline") {
        leave_out(step, &["credentials"], &["input", "requirements"]);
        for credential in objects(step, "credentials") {
            leave_out(credential, &[], &["secretRef"]);
        }
        if let Some(Value::Object(requirements)) = step.get_mut("requirements") {
            leave_out(requirements, &["requiredResources", "requiredSchemas"], &[]);
            for required in objects(requirements, "requiredResources") {
                leave_out(required, &["matchLabels"], &["namespace", "name"]);
            }
        }
    }
    spec
}

fn leave_out(object: &mut Object, if_empty: &[&str], if_null: &[&str]) {
    for field in if_empty {
        if object.get(*field).is_some_and(is_nothing) {
            object.remove(*field);
        }
    }
    for field in if_null {
        if object.get(*field).is_some_and(Value::is_null) {
            object.remove(*field);
        }
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        _ => false,
    }
}

fn objects<'o>(object: &'o mut Object, field: &str) -> impl Iterator<Item = &'o mut Object> {
    let items = object.get_mut(field).and_then(Value::as_array_mut);
    items.into_iter().flatten().filter_map(Value::as_object_mut)
}

#[cfg(test)]
mod tests;
