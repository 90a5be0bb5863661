//! The plane's own fields of a composite resource: which composition it follows, what it composes, who keeps it.

use ferroplane_api::{Object, keys, meta};
use ferroplane_engine::{Layout, Plan, Preferences, Reference, Why, machinery, machinery_mut};
use ferroplane_schema::managed::owns;
use serde_json::{Value, json};

/// What was chosen for a composite resource.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) composition: String,
    pub(super) why: Why,
    pub(super) revision: String,
}

/// A composite resource with what was chosen for it: what functions get to see.
pub(super) fn draft(live: &Object, layout: Layout, chosen: &Chosen) -> Object {
    let mut draft = live.clone();
    if meta::label(live, keys::COMPOSITE).is_empty() {
        meta::set_label(&mut draft, keys::COMPOSITE, meta::name(live));
    }
    add_finalizer(&mut draft);
    let machinery = machinery_mut(&mut draft, layout);
    machinery.insert("compositionRef".to_owned(), json!({"name": chosen.composition}));
    machinery.insert("compositionRevisionRef".to_owned(), json!({"name": chosen.revision}));
    draft
}

/// What to apply so that a composite resource says what was chosen for it and what it refers to. What somebody else has
/// chosen is left to them.
pub(super) fn record(
    live: &Object,
    layout: Layout,
    chosen: &Chosen,
    references: Option<Value>,
    connection_secret: Option<Value>,
) -> Object {
    let before = Preferences::read(live, layout);
    let is_ours = |path: &[&str]| owns(live, keys::COMPOSITE_MANAGER, "", path);
    let field = |name: &'static str| match layout {
        Layout::Modern => vec!["spec", "crossplane", name],
        Layout::Legacy => vec!["spec", name],
    };
    let mut body = identity(live);
    meta::set_field(&mut body, "resourceVersion", meta::resource_version(live));
    // What is gone in the meantime must not come back.
    meta::set_field(&mut body, "uid", meta::uid(live));
    meta::child(&mut body, "metadata").insert("finalizers".to_owned(), json!([keys::COMPOSITE_FINALIZER]));
    let label = meta::label(live, keys::COMPOSITE);
    if label.is_empty() {
        meta::set_label(&mut body, keys::COMPOSITE, meta::name(live));
    } else if is_ours(&["metadata", "labels", keys::COMPOSITE]) {
        meta::set_label(&mut body, keys::COMPOSITE, label);
    }
    let machinery = machinery_mut(&mut body, layout);
    if chosen.why != Why::Named || is_ours(&field("compositionRef")) {
        machinery.insert("compositionRef".to_owned(), json!({"name": chosen.composition}));
    }
    if before.revision.as_ref() != Some(&chosen.revision) || is_ours(&field("compositionRevisionRef")) {
        machinery.insert("compositionRevisionRef".to_owned(), json!({"name": chosen.revision}));
    }
    if let Some(secret) = connection_secret {
        machinery.insert("writeConnectionSecretToRef".to_owned(), secret);
    }
    if let Some(references) = references {
        machinery.insert("resourceRefs".to_owned(), references);
    }
    body
}

/// The references of a plan, as they are written down.
pub(super) fn references(plan: &Plan) -> Value {
    plan.references.iter().map(reference).collect()
}

fn reference(reference: &Reference) -> Value {
    let Reference { api_version, kind, name, namespace } = reference;
    let mut json = json!({"apiVersion": api_version, "kind": kind, "name": name});
    if let Some(namespace) = namespace {
        json["namespace"] = namespace.as_str().into();
    }
    json
}

/// What a composite resource refers to, as it is written down, if anything is.
pub(super) fn recorded(composite: &Object, layout: Layout) -> Option<Value> {
    machinery(composite, layout)?.get("resourceRefs").cloned()
}

/// The same, read. Those without a name refer to nothing.
pub(super) fn referred(composite: &Object, layout: Layout) -> Vec<Reference> {
    let own = meta::namespace(composite);
    let references =
        machinery(composite, layout).and_then(|machinery| machinery.get("resourceRefs")?.as_array());
    let read = |reference: &Value| {
        let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default();
        let namespace = if own.is_empty() { text("namespace") } else { own };
        let reference = Reference {
            api_version: text("apiVersion").to_owned(),
            kind: text("kind").to_owned(),
            name: text("name").to_owned(),
            namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
        };
        (!reference.name.is_empty()).then_some(reference)
    };
    references.into_iter().flatten().filter_map(read).collect()
}

/// What an object is.
pub(super) fn identity(object: &Object) -> Object {
    let mut identity = Object::new();
    identity.insert("apiVersion".to_owned(), meta::api_version(object).into());
    identity.insert("kind".to_owned(), meta::kind(object).into());
    meta::set_field(&mut identity, "name", meta::name(object));
    meta::set_field(&mut identity, "namespace", meta::namespace(object));
    identity
}

/// Those who keep an object, without us.
pub(super) fn other_finalizers(object: &Object) -> Vec<Value> {
    let finalizers = object.get("metadata").and_then(|metadata| metadata.get("finalizers")?.as_array());
    let others =
        finalizers.into_iter().flatten().filter(|finalizer| **finalizer != keys::COMPOSITE_FINALIZER);
    others.cloned().collect()
}

pub(super) fn has_finalizer(object: &Object) -> bool {
    let finalizers = object.get("metadata").and_then(|metadata| metadata.get("finalizers")?.as_array());
    finalizers.into_iter().flatten().any(|finalizer| *finalizer == keys::COMPOSITE_FINALIZER)
}

fn add_finalizer(object: &mut Object) {
    if has_finalizer(object) {
        return;
    }
    let mut finalizers = other_finalizers(object);
    finalizers.push(keys::COMPOSITE_FINALIZER.into());
    meta::child(object, "metadata").insert("finalizers".to_owned(), Value::Array(finalizers));
}
