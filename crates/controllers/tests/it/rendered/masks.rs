//! The facts in which a plane and `render` differ by nature, each with its reason. Everything else is compared.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// In requests, before the plane has written anything to the composite resource.
pub(super) const FIRST: &[&str] = &[
    // The plane keeps the composite resource until what it composes is gone. Nothing keeps what is read from a file.
    "observed.composite.resource.metadata.finalizers",
    // Compositions in files have no revisions.
    "observed.composite.resource.spec.crossplane.compositionRevisionRef",
    "observed.composite.resource.spec.compositionRevisionRef",
    // A digest of the request, these fields included.
    "meta.tag",
];

/// In requests, once there is nothing left to write: nothing.
pub(super) const SETTLED: &[&str] = &[];

/// A value without these fields.
pub(super) fn without(value: &Value, masked: &[&str]) -> Value {
    let mut value = value.clone();
    for path in masked {
        let (parents, field) = path.rsplit_once('.').expect("every path has a parent");
        let holder = parents.split('.').try_fold(&mut value, |value, key| value.get_mut(key));
        if let Some(Value::Object(holder)) = holder {
            holder.remove(field);
        }
    }
    value
}

/// Events, each once and in no order: the plane counts those that say the same, and writes several at a time. Their timestamps have only
/// seconds. The order in which they are recorded is that of the engine, which both have.
pub(super) fn events(events: &[String]) -> Value {
    let masked = [
        // Compositions in files have no revisions.
        "Uses CompositionRevision",
        // What is rendered is written nowhere, connection details included.
        "PublishConnectionSecret",
    ];
    let is_compared = |event: &&String| !masked.iter().any(|words| event.contains(words));
    json!(events.iter().filter(is_compared).collect::<BTreeSet<_>>())
}

/// The events of a first rendering that the plane has too. Once it has created something it asks functions again before it tells
/// anybody, and what was not ready for want of being there may be ready then.
pub(super) fn first_events(events: Vec<String>) -> Vec<String> {
    events.into_iter().filter(|event| !event.contains("is not yet ready")).collect()
}

/// The status of a composite resource.
pub(super) fn status(xr: &Value) -> Value {
    let mut status = xr["status"].clone();
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        // What `render` applies has no generation, and what it says is dated when it is rendered.
        for field in ["observedGeneration", "lastTransitionTime"] {
            condition.as_object_mut().map(|condition| condition.remove(field));
        }
    }
    let masked = [
        // Only our definitions have a field for it, and what is rendered is compared with what Crossplane renders.
        "lastHandledReconcileAt",
        // The same.
        "ferroplane",
        // When connection details were written, which `render` does not do.
        "connectionDetails",
    ];
    if let Some(status) = status.as_object_mut() {
        status.retain(|field, _| !masked.contains(&field.as_str()));
    }
    status
}
