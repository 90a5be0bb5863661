//! The fields and columns that every composite resource and every claim has.

use ferroplane_api::{Object, Scope};
use serde_json::{Map, Value, json};

use crate::composite::OWN_STATUS;

/// What is in the `spec` of composite resources.
pub(crate) fn composite_spec(scope: Scope, update_policy: Option<&str>) -> Object {
    let mut fields = selection();
    if let (Some(policy), Some(field)) = (update_policy, fields.get_mut("compositionUpdatePolicy")) {
        field["default"] = policy.into();
    }
    let mut reference = json!({"apiVersion": text(), "kind": text(), "name": text()});
    // A namespaced composite resource composes only in its own namespace.
    if scope != Scope::Namespaced {
        reference["namespace"] = text();
    }
    let references = json!({
        "description": "What it is composed of.",
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        // The name is not required, as in Crossplane.
        "items": {"type": "object", "required": ["apiVersion", "kind"], "properties": reference},
    });
    fields.insert("resourceRefs".to_owned(), references);
    if scope == Scope::LegacyCluster {
        fields.insert("claimRef".to_owned(), object(&["apiVersion", "kind", "namespace", "name"]));
        fields.insert("writeConnectionSecretToRef".to_owned(), object(&["name", "namespace"]));
        return fields;
    }
    let machinery = json!({
        "description": "How it is composed.",
        "type": "object",
        "properties": fields,
    });
    Map::from_iter([("crossplane".to_owned(), machinery)])
}

/// What is in the `spec` of claims.
pub(crate) fn claim_spec(delete_policy: Option<&str>) -> Object {
    let mut fields = selection();
    let mut policy = json!({"type": "string", "enum": ["Background", "Foreground"]});
    if let Some(default) = delete_policy {
        policy["default"] = default.into();
    }
    fields.insert("compositeDeletePolicy".to_owned(), policy);
    fields.insert("resourceRef".to_owned(), object(&["apiVersion", "kind", "name"]));
    fields.insert("writeConnectionSecretToRef".to_owned(), object(&["name"]));
    fields
}

/// Which composition, and which revision of it.
fn selection() -> Object {
    let selector = json!({
        "type": "object",
        "required": ["matchLabels"],
        "properties": {"matchLabels": {"type": "object", "additionalProperties": text()}},
    });
    Map::from_iter([
        ("compositionRef".to_owned(), object(&["name"])),
        ("compositionSelector".to_owned(), selector.clone()),
        ("compositionRevisionRef".to_owned(), object(&["name"])),
        ("compositionRevisionSelector".to_owned(), selector),
        ("compositionUpdatePolicy".to_owned(), json!({"type": "string", "enum": ["Automatic", "Manual"]})),
    ])
}

/// What is in the `status` of composite resources.
pub(crate) fn composite_status(is_legacy: bool) -> Object {
    let mut fields = status(is_legacy);
    let asked = json!({"description": "The last request to look at it that was met.", "type": "string"});
    fields.insert("lastHandledReconcileAt".to_owned(), asked);
    fields.insert(OWN_STATUS.to_owned(), functions_that_ran());
    fields
}

/// Which functions composed it.
fn functions_that_ran() -> Value {
    let functions = json!({
        "description": "The functions that its resources were composed by, step by step.",
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "required": ["step", "function"],
            "properties": {
                "step": described("The step of the pipeline."),
                "function": described("The function that the step calls."),
                "revision": described("The revision of the function that ran."),
                "version": described("The version of that revision."),
            },
        },
    });
    json!({
        "description": "What Ferroplane says of its own work.",
        "type": "object",
        "properties": {"functions": functions},
    })
}

/// What is in the `status` of claims, and of composite resources, too.
pub(super) fn claim_status() -> Object {
    status(true)
}

fn status(is_legacy: bool) -> Object {
    let time = json!({"type": "string", "format": "date-time"});
    let conditions = json!({
        "description": "What is true of it right now, why, and since when.",
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "reason", "status", "type"],
            "properties": {
                "code": described("What failed, for programs: a code that never changes its meaning."),
                "lastTransitionTime": time,
                "message": text(),
                "observedGeneration": {"type": "integer", "format": "int64"},
                "reason": text(),
                "resource": described("What the Composition calls the composed resource that failed."),
                "status": text(),
                "step": described("The step of the pipeline that failed."),
                "type": text(),
            },
        },
    });
    let mut fields = Map::from_iter([("conditions".to_owned(), conditions)]);
    if is_legacy {
        let details = json!({"type": "object", "properties": {"lastPublishedTime": time}});
        let types = json!({"type": "array", "x-kubernetes-list-type": "set", "items": text()});
        fields.insert("connectionDetails".to_owned(), details);
        fields.insert("claimConditionTypes".to_owned(), types);
    }
    fields
}

pub(super) fn composite_columns(scope: Scope) -> Vec<Value> {
    let machinery = if scope == Scope::LegacyCluster { ".spec" } else { ".spec.crossplane" };
    let mut revision =
        column("COMPOSITIONREVISION", "string", &format!("{machinery}.compositionRevisionRef.name"));
    revision["priority"] = 1.into();
    vec![
        condition("SYNCED", "Synced"),
        condition("READY", "Ready"),
        column("COMPOSITION", "string", &format!("{machinery}.compositionRef.name")),
        revision,
        column("AGE", "date", ".metadata.creationTimestamp"),
    ]
}

pub(super) fn claim_columns() -> Vec<Value> {
    vec![
        condition("SYNCED", "Synced"),
        condition("READY", "Ready"),
        column("CONNECTION-SECRET", "string", ".spec.writeConnectionSecretToRef.name"),
        column("AGE", "date", ".metadata.creationTimestamp"),
    ]
}

fn text() -> Value {
    json!({"type": "string"})
}

fn described(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

/// An object of texts, none of which may be missing.
fn object(fields: &[&str]) -> Value {
    let properties: Object = fields.iter().map(|field| ((*field).to_owned(), text())).collect();
    json!({"type": "object", "required": fields, "properties": properties})
}

fn condition(name: &str, kind: &str) -> Value {
    column(name, "string", &format!(".status.conditions[?(@.type=='{kind}')].status"))
}

fn column(name: &str, kind: &str, path: &str) -> Value {
    json!({"name": name, "type": kind, "jsonPath": path})
}
