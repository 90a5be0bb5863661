//! Tells whether anything changed of what a composite resource was composed from.

use std::sync::Arc;

use ferroplane_api::{Condition, Object};
use ferroplane_engine::composite::{remove_own_status, without_references};
use ferroplane_engine::{Layout, Requirement};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

/// Of everything that a run is made from.
pub(super) type Fingerprint = [u8; 32];

/// How the last reconcile of a composite resource ended.
#[derive(Debug, Clone, Default)]
pub(super) struct LastReconcile {
    /// What it was made from.
    pub(super) fingerprint: Fingerprint,
    /// The generation of the composite resource, with what we wrote ourselves. If it has another one, its user has changed it.
    pub(super) generation: i64,
    pub(super) composition: Arc<str>,
    pub(super) revision: Arc<str>,
    /// What steps asked for.
    pub(super) requirements: Arc<[Requirement]>,
    /// When to reconcile again, whatever happens.
    pub(super) requeue_at: Option<Instant>,
    /// How often in a row it failed.
    pub(super) failures: u32,
    /// How often in a row it changed what it was made from.
    pub(super) restlessness: u32,
    /// Whether to leave the composite resource alone until then, whatever happens.
    pub(super) is_resting: bool,
    /// Whether it failed because a function could not be reached.
    pub(super) is_function_missing: bool,
}

/// What a run is made from, apart from the composite resource itself.
#[derive(Debug, Default)]
pub(super) struct Basis {
    /// What was selected.
    pub(super) identity: Arc<str>,
    /// The versions of what it composes.
    pub(super) versions: Vec<u64>,
    /// How often what functions required had changed.
    pub(super) epochs: Vec<u64>,
}

impl Basis {
    /// The fingerprint of a run that is made from this, and from this composite resource.
    pub(super) fn fingerprint(&self, live: &Object) -> Fingerprint {
        let mut hash = Sha256::new();
        hash.update(content(live, |_| true));
        hash.update(&*self.identity);
        // Divided by a number that is no version: the last version must not count as the first epoch.
        for number in self.versions.iter().chain([&u64::MAX]).chain(&self.epochs) {
            hash.update(number.to_le_bytes());
        }
        hash.finalize().into()
    }
}

/// Of what functions may go by: everything but what the plane itself writes down.
pub(super) fn essence(composite: &Object, layout: Layout) -> Fingerprint {
    let mut composite = without_references(composite.clone(), layout);
    remove_own_status(&mut composite);
    content(&composite, |condition| {
        let kind = condition.get("type").and_then(Value::as_str).unwrap_or_default();
        !Condition::SYSTEM.contains(&kind)
    })
}

/// What an object says, apart from what changes with every write.
fn content(object: &Object, counts: impl Fn(&Value) -> bool) -> Fingerprint {
    let mut hash = Sha256::new();
    let mut add = |key: &str, value: &Value| {
        hash.update(key);
        // What neither a key nor JSON has in it: `a` with 12 must not look like `a1` with 2.
        hash.update([0]);
        hash.update(serde_json::to_vec(value).unwrap_or_default());
    };
    for (key, value) in object {
        match (key.as_str(), value) {
            ("metadata", Value::Object(metadata)) => {
                let said = metadata.iter().filter(|(key, _)| {
                    !["resourceVersion", "managedFields", "generation"].contains(&key.as_str())
                });
                said.for_each(|(key, value)| add(key, value));
            }
            ("status", Value::Object(status)) => {
                for (key, value) in status {
                    match value {
                        Value::Array(conditions) if key == "conditions" => {
                            conditions
                                .iter()
                                .filter(|condition| counts(condition))
                                .for_each(|condition| add(key, condition));
                        }
                        value => add(key, value),
                    }
                }
            }
            (key, value) => add(key, value),
        }
    }
    hash.finalize().into()
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
        let essence = |composite: &Object| essence(composite, Layout::Modern);
        let first = essence(&composite(json!([]), "Ready"));
        assert_eq!(essence(&composite(json!([{"name": "a"}]), "Synced")), first);
        assert_ne!(essence(&composite(json!([]), "DatabaseReady")), first);
    }
}
