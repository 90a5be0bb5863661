//! Detects whether any input of a composite resource has changed.

use std::sync::Arc;

use ferroplane_api::{Condition, Object};
use ferroplane_engine::composite::OWN_STATUS;
use ferroplane_engine::{Layout, Requirement};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

/// A hash of all inputs of a run.
pub(super) type Fingerprint = [u8; 32];

/// How the last reconcile of a composite resource ended.
#[derive(Debug, Clone, Default)]
pub(super) struct LastReconcile {
    /// The inputs of the run.
    pub(super) fingerprint: Fingerprint,
    /// The generation of the composite resource after our own writes. If it has another one, a user has changed it.
    pub(super) generation: i64,
    pub(super) composition: Arc<str>,
    pub(super) revision: Arc<str>,
    /// The requirements of steps.
    pub(super) requirements: Arc<[Requirement]>,
    /// When to reconcile again, even if nothing changes.
    pub(super) requeue_at: Option<Instant>,
    /// How many reconciles in a row failed.
    pub(super) failures: u32,
    /// How many reconciles in a row changed their own inputs.
    pub(super) restlessness: u32,
    /// Whether the composite resource is not reconciled until then, even if something changes.
    pub(super) is_resting: bool,
    /// Whether it failed because a function could not be called.
    pub(super) is_function_missing: bool,
}

/// The inputs of a run, apart from the composite resource itself.
#[derive(Debug, Default)]
pub(super) struct Basis {
    /// Identifies the selection.
    pub(super) identity: Arc<str>,
    /// The versions of composed resources.
    pub(super) versions: Vec<u64>,
    /// The epochs of requirements.
    pub(super) epochs: Vec<u64>,
}

impl Basis {
    /// The fingerprint of these inputs, with this composite resource.
    pub(super) fn fingerprint(&self, live: &Object) -> Fingerprint {
        let mut hash = Sha256::new();
        hash.update(content(live));
        hash.update(&*self.identity);
        // Separated by a number that is no version: the last version must not be hashed like the first epoch.
        for number in self.versions.iter().chain([&u64::MAX]).chain(&self.epochs) {
            hash.update(number.to_le_bytes());
        }
        hash.finalize().into()
    }
}

/// Metadata that changes with every write, or that only the plane sets.
const BOOKKEEPING: [&str; 3] = ["resourceVersion", "managedFields", "generation"];

/// A hash of an object without the metadata that changes with every write.
fn content(object: &Object) -> Fingerprint {
    // One buffer for all of it: to hash and allocate each part separately would take twice as long.
    let mut text = Vec::with_capacity(TYPICAL_CONTENT);
    let mut add = |key: &str, value: &Value| {
        text.extend_from_slice(key.as_bytes());
        // A byte that is in neither a key nor JSON: `a` with 12 must not be hashed like `a1` with 2.
        text.push(0);
        // Writing JSON to memory cannot fail.
        let _ = serde_json::to_writer(&mut text, value);
    };
    for (key, value) in object {
        match (key.as_str(), value) {
            ("metadata", Value::Object(metadata)) => {
                for (key, value) in said(metadata, &BOOKKEEPING) {
                    add(key, value);
                }
            }
            ("status", Value::Object(status)) => {
                for (key, value) in status {
                    match value {
                        Value::Array(conditions) if key == "conditions" => {
                            for condition in conditions {
                                add(key, condition);
                            }
                        }
                        value => add(key, value),
                    }
                }
            }
            (key, value) => add(key, value),
        }
    }
    Sha256::digest(text).into()
}

/// The size of most composite resources, in bytes.
const TYPICAL_CONTENT: usize = 2 << 10;

/// Whether two versions are the same to functions: in everything that the plane does not record itself.
pub(super) fn is_same_to_functions(one: &Object, other: &Object, layout: Layout) -> bool {
    let parts = |part: &str| [one, other].map(|object| child(object, part));
    let [metadata, other_metadata] = parts("metadata");
    let [status, other_status] = parts("status");
    let [spec, other_spec] = parts("spec");
    is_same_but(Some(one), Some(other), &["metadata", "spec", "status"])
        && is_same_but(metadata, other_metadata, &BOOKKEEPING)
        && is_same_but(status, other_status, &["conditions", OWN_STATUS])
        && conditions_of(status).eq(conditions_of(other_status))
        && match layout {
            Layout::Legacy => is_same_but(spec, other_spec, &["resourceRefs"]),
            Layout::Modern => {
                let [machinery, other_machinery] =
                    [spec, other_spec].map(|spec| spec.and_then(|spec| child(spec, "crossplane")));
                is_same_but(spec, other_spec, &["crossplane"])
                    && is_same_but(machinery, other_machinery, &["resourceRefs"])
            }
        }
}

/// An object that is part of another. A missing one counts as an empty one.
fn child<'o>(object: &'o Object, field: &str) -> Option<&'o Object> {
    object.get(field).and_then(Value::as_object)
}

fn is_same_but(one: Option<&Object>, other: Option<&Object>, ignored: &[&str]) -> bool {
    let [one, other] = [one, other].map(|object| object.into_iter().flat_map(|object| said(object, ignored)));
    one.eq(other)
}

fn said<'o>(object: &'o Object, ignored: &[&str]) -> impl Iterator<Item = (&'o String, &'o Value)> {
    object.iter().filter(|(key, _)| !ignored.contains(&key.as_str()))
}

/// The conditions that functions have set.
fn conditions_of(status: Option<&Object>) -> impl Iterator<Item = &Value> {
    let conditions = status.and_then(|status| status.get("conditions")?.as_array());
    conditions.into_iter().flatten().filter(|condition| {
        let kind = condition.get("type").and_then(Value::as_str).unwrap_or_default();
        !Condition::SYSTEM.contains(&kind)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(json: &Value) -> Object {
        json.as_object().unwrap().clone()
    }

    #[test]
    fn fingerprint_changes_with_everything_a_run_is_made_from_and_with_nothing_else() {
        let live = json!({"metadata": {"name": "blog", "resourceVersion": "1"}, "spec": {"color": "red"}});
        let basis = |identity: &str, version: u64, epoch: u64| Basis {
            identity: identity.into(),
            versions: vec![version],
            epochs: vec![epoch],
        };
        let first = basis("a", 1, 1).fingerprint(&object(&live));
        for other in [basis("b", 1, 1), basis("a", 2, 1), basis("a", 1, 2)] {
            assert_ne!(other.fingerprint(&object(&live)), first);
        }
        let mut changed = live.clone();
        changed["metadata"]["resourceVersion"] = json!("2");
        assert_eq!(basis("a", 1, 1).fingerprint(&object(&changed)), first);
        changed["spec"]["color"] = json!("blue");
        assert_ne!(basis("a", 1, 1).fingerprint(&object(&changed)), first);
    }

    #[test]
    fn fingerprint_tells_names_from_values() {
        let of = |status: Value| Basis::default().fingerprint(&object(&json!({"status": status})));
        assert_ne!(of(json!({"port": 12})), of(json!({"port1": 2})));
    }

    #[test]
    fn what_the_plane_writes_down_is_nothing_that_functions_go_by() {
        let condition = |kind: &str| json!({"type": kind, "status": "True"});
        let composite = |references: Value, kind: &str| {
            object(&json!({
                "spec": {"crossplane": {"resourceRefs": references}},
                "status": {"conditions": [condition(kind)], "ferroplane": {"functions": references}},
            }))
        };
        let is_same = |one: &Object, other: &Object| is_same_to_functions(one, other, Layout::Modern);
        let first = composite(json!([]), "Ready");
        assert!(is_same(&composite(json!([{"name": "a"}]), "Synced"), &first));
        assert!(!is_same(&composite(json!([]), "DatabaseReady"), &first));
    }

    #[test]
    fn functions_go_by_everything_else() {
        let composite = json!({
            "metadata": {"name": "blog", "labels": {"a": "b"}, "generation": 1, "resourceVersion": "5"},
            "spec": {"color": "red", "crossplane": {"compositionRef": {"name": "blogs"}}},
            "status": {"address": "x"},
        });
        let is_same = |pointer: &str, value: Value, layout: Layout| {
            let mut other = composite.clone();
            *other.pointer_mut(pointer).unwrap() = value;
            is_same_to_functions(&object(&composite), &object(&other), layout)
        };
        for layout in [Layout::Modern, Layout::Legacy] {
            assert!(is_same("/metadata/generation", json!(2), layout));
            assert!(is_same("/metadata/resourceVersion", json!("6"), layout));
            for changed in [
                "/metadata/labels/a",
                "/spec/color",
                "/spec/crossplane/compositionRef/name",
                "/status/address",
            ] {
                assert!(!is_same(changed, json!("other"), layout), "{changed}");
            }
        }
        // An object that was never composed has none of the fields that the plane records.
        let (bare, empty) =
            (json!({"spec": {}}), json!({"spec": {"crossplane": {"resourceRefs": []}}, "status": {}}));
        assert!(is_same_to_functions(&object(&bare), &object(&empty), Layout::Modern));
    }
}
