//! The fields and columns that every composite resource and every claim has.

use ferroplane_api::{Object, Scope};
use serde_json::{Map, Value, json};

use crate::composite::OWN_STATUS;

/// The fields in the `spec` of composite resources.
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
        "description": "References to the composed resources.",
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
        "description": "Composition settings: the Composition, its revision, and the composed resources.",
        "type": "object",
        "properties": fields,
    });
    Map::from_iter([("crossplane".to_owned(), machinery)])
}

/// The fields in the `spec` of claims.
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

/// The fields that select a composition and a revision.
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

/// The fields in the `status` of composite resources.
pub(crate) fn composite_status(is_legacy: bool) -> Object {
    let mut fields = status(is_legacy);
    let requested = described(
        "Value of the annotation crossplane.io/reconcile-requested-at that the controller last acted on.",
    );
    fields.insert("lastHandledReconcileAt".to_owned(), requested);
    fields.insert(OWN_STATUS.to_owned(), functions_that_ran());
    fields
}

/// The field with the functions that composed the resource.
fn functions_that_ran() -> Value {
    let functions = json!({
        "description": "Functions that composed the resources, one for each step of the pipeline.",
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "required": ["step", "function"],
            "properties": {
                "step": described("Name of the step."),
                "function": described("Name of the function that the step calls."),
                "revision": described("Name of the function revision that ran."),
                "version": described("Version of the function revision."),
            },
        },
    });
    json!({
        "description": "Details that only Ferroplane reports.",
        "type": "object",
        "properties": {"functions": functions},
    })
}

/// The fields in the `status` of claims, and of composite resources, too.
pub(super) fn claim_status() -> Object {
    status(true)
}

fn status(is_legacy: bool) -> Object {
    let time = json!({"type": "string", "format": "date-time"});
    let conditions = json!({
        "description": "Current conditions of the object, one per type.",
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "reason", "status", "type"],
            "properties": {
                "code": described(
                    "Stable code of the cause of a failure, for programs. The meaning of a code never changes.",
                ),
                "lastTransitionTime": time,
                "message": text(),
                "observedGeneration": {"type": "integer", "format": "int64"},
                "reason": text(),
                "resource": described("Name of the composed resource that failed, as the Composition has it."),
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

/// The schema of an object with text fields, all of them required.
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
