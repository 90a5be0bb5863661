//! The operations that a `CronOperation` or `WatchOperation` creates from its template.

use ferroplane_api::{Object, keys, meta};
use serde_json::Value;

use super::cron::cron_operation_name;
use super::watch::{annotate_watched, require_watched};

/// On operations: the name of the `CronOperation` that made them.
pub const CRON_LABEL: &str = "ops.crossplane.io/cronoperation";
/// On operations: the name of the `WatchOperation` that made them.
pub const WATCH_LABEL: &str = "ops.crossplane.io/watchoperation";

/// What made an operation, as `CronOperation/NAME`. Nothing if a user did.
pub fn operation_parent(operation: &Object) -> String {
    let labels = [("CronOperation", CRON_LABEL), ("WatchOperation", WATCH_LABEL)];
    let found = labels.into_iter().find(|(_, label)| !meta::label(operation, label).is_empty());
    found.map(|(kind, label)| format!("{kind}/{}", meta::label(operation, label))).unwrap_or_default()
}

/// The operation of a `CronOperation` for a time, in seconds since 1970.
pub fn operation_of_cron(cron: &Object, due: i64) -> Object {
    from_template(cron, CRON_LABEL, &cron_operation_name(meta::name(cron), due))
}

/// The operation of a `WatchOperation` for a changed object, with this name.
pub fn operation_of_watch(watch: &Object, object: &Object, name: &str) -> Object {
    let mut operation = from_template(watch, WATCH_LABEL, name);
    annotate_watched(&mut operation, object);
    require_watched(meta::child(&mut operation, "spec"), object);
    operation
}

fn from_template(parent: &Object, label: &str, name: &str) -> Object {
    let template = parent.get("spec").and_then(|spec| spec.get("operationTemplate"));
    let part = |field: &str| template.and_then(|template| template.get(field)).cloned().unwrap_or_default();
    let mut operation = Object::new();
    operation.insert("apiVersion".to_owned(), format!("{}/v1alpha1", keys::OPS).into());
    operation.insert("kind".to_owned(), "Operation".into());
    let metadata = part("metadata");
    for field in ["labels", "annotations"] {
        if let Some(values) = metadata.get(field).and_then(Value::as_object) {
            meta::child(&mut operation, "metadata").insert(field.to_owned(), values.clone().into());
        }
    }
    meta::set_field(&mut operation, "name", name);
    meta::set_label(&mut operation, label, meta::name(parent));
    meta::set_controller(&mut operation, parent);
    operation.insert("spec".to_owned(), part("spec"));
    operation
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parent(kind: &str) -> Object {
        let parent = json!({
            "apiVersion": "ops.crossplane.io/v1alpha1", "kind": kind, "metadata": {"name": "p", "uid": "u"},
            "spec": {"operationTemplate": {
                "metadata": {"labels": {"team": "a"}, "annotations": {"k": "v"}, "name": "ignored"},
                "spec": {"mode": "Pipeline", "pipeline": [{"step": "s"}]},
            }},
        });
        parent.as_object().unwrap().clone()
    }

    #[test]
    fn operation_is_what_the_template_says_and_belongs_to_its_parent() {
        let operation = operation_of_cron(&parent("CronOperation"), 1_609_459_200);
        assert_eq!(
            Value::Object(operation),
            json!({
                "apiVersion": "ops.crossplane.io/v1alpha1", "kind": "Operation",
                "metadata": {
                    "name": "p-1609459200",
                    "labels": {"team": "a", "ops.crossplane.io/cronoperation": "p"}, "annotations": {"k": "v"},
                    "ownerReferences": [{
                        "apiVersion": "ops.crossplane.io/v1alpha1", "kind": "CronOperation", "name": "p", "uid": "u",
                        "controller": true, "blockOwnerDeletion": true,
                    }],
                },
                "spec": {"mode": "Pipeline", "pipeline": [{"step": "s"}]},
            })
        );
    }

    #[test]
    fn parent_of_an_operation_is_known_by_its_label() {
        let made = operation_of_cron(&parent("CronOperation"), 0);
        assert_eq!(operation_parent(&made), "CronOperation/p");
        assert_eq!(operation_parent(&parent("Operation")), "");
    }

    #[test]
    fn operation_for_a_change_requires_what_was_changed() {
        let node =
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "resourceVersion": "7"}});
        let operation = operation_of_watch(&parent("WatchOperation"), node.as_object().unwrap(), "p-1");
        let required = &operation["spec"]["pipeline"][0]["requirements"]["requiredResources"][0];
        assert_eq!((&required["kind"], &required["name"]), (&json!("Node"), &json!("n")));
        assert_eq!(required.get("namespace"), None, "it has none");
        assert_eq!(meta::annotation(&operation, "ops.crossplane.io/watched-resource-namespace"), "");
        assert_eq!(operation_parent(&operation), "WatchOperation/p");
        assert_eq!(meta::annotation(&operation, "ops.crossplane.io/watched-resource-name"), "n");
        assert_eq!(meta::annotation(&operation, "k"), "v");
    }
}
