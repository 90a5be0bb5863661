//! The names of a `WatchOperation`'s operations, and what their functions are given.

use ferroplane_api::{Object, meta};
use ferroplane_wire::to_hex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The name of the requirement with the changed object.
pub const WATCHED_RESOURCE: &str = "ops.crossplane.io/watched-resource";
/// The name of the same requirement in the design. A template may use either.
const WATCHED_RESOURCE_CHANGED: &str = "ops.crossplane.io/watched-resource-changed";
/// The resource version of an object that was deleted.
pub const DELETED: &str = "ops.crossplane.io/synthetic-deleted";
const ANNOTATION: &str = "ops.crossplane.io/watched-resource-";

/// A placeholder for a deleted object: its identity, and when the deletion was noticed.
pub fn deleted_object(api_version: &str, kind: &str, namespace: &str, name: &str, now: &str) -> Object {
    let mut metadata = json!({"name": name, "resourceVersion": DELETED, "deletionTimestamp": now});
    if !namespace.is_empty() {
        metadata["namespace"] = namespace.into();
    }
    let object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
    object.as_object().cloned().unwrap_or_default()
}

/// How many digits of the hash Crossplane's names contain.
const DIGITS: usize = 7;
/// How many digits a name contains whose short form another operation has.
const MORE_DIGITS: usize = 20;

/// The name of the operation for this state of an object. It is Crossplane's, so that neither repeats the operations of the other.
pub fn watch_operation_name(watch: &str, object: &Object) -> String {
    named(watch, object, DIGITS)
}

/// The longer name, if that one is taken: seven digits are few.
pub fn longer_watch_operation_name(watch: &str, object: &Object) -> String {
    named(watch, object, MORE_DIGITS)
}

/// Whether an operation has a name that those of a `WatchOperation` get.
pub(super) fn is_name_for(watch: &str, operation: &str) -> bool {
    let hash = operation.strip_prefix(watch).and_then(|rest| rest.strip_prefix('-')).unwrap_or_default();
    let is_digit = |letter: u8| matches!(letter, b'0'..=b'9' | b'a'..=b'f');
    [DIGITS, MORE_DIGITS].contains(&hash.len()) && hash.bytes().all(is_digit)
}

fn named(watch: &str, object: &Object, digits: usize) -> String {
    let api_version = meta::api_version(object);
    let (group, version) = (meta::group(api_version), meta::version(api_version));
    let metadata =
        [meta::namespace(object), meta::name(object), meta::uid(object), meta::resource_version(object)];
    let mut text = format!("{group}/{version}, Kind={}/{}", meta::kind(object), metadata.join("/"));
    if let Some(deleted) =
        object.get("metadata").and_then(|metadata| metadata.get("deletionTimestamp")?.as_str())
    {
        text.push('/');
        text.push_str(deleted);
    }
    let hash = to_hex(&Sha256::digest(text.as_bytes()));
    format!("{watch}-{}", &hash[..digits])
}

/// Record the changed object in the annotations of an operation.
pub fn annotate_watched(operation: &mut Object, object: &Object) {
    for (field, value) in [
        ("apiversion", meta::api_version(object)),
        ("kind", meta::kind(object)),
        ("name", meta::name(object)),
        ("resourceversion", meta::resource_version(object)),
        ("namespace", meta::namespace(object)),
    ] {
        if !value.is_empty() {
            meta::set_annotation(operation, &format!("{ANNOTATION}{field}"), value);
        }
    }
}

/// A field of the object that an operation was created for. Empty if unknown.
pub(super) fn watched<'a>(operation: &'a Object, field: &str) -> &'a str {
    meta::annotation(operation, &format!("{ANNOTATION}{field}"))
}

/// The placeholder for the object of an operation, if that object no longer exists. `now` is when that was noticed, unless the operation
/// was created for the deletion.
pub fn deleted_object_of(operation: &Object, now: &str) -> Option<Object> {
    let said = |field: &str| watched(operation, field);
    if said("name").is_empty() {
        return None;
    }
    let created = operation.get("metadata").and_then(|metadata| metadata.get("creationTimestamp")?.as_str());
    let since = created.filter(|_| said("resourceversion") == DELETED).unwrap_or(now);
    Some(deleted_object(said("apiversion"), said("kind"), said("namespace"), said("name"), since))
}

/// Add the changed object to the requirements of every step of an operation. A step that has the requirement keeps its own.
pub fn require_watched(spec: &mut Object, object: &Object) {
    let mut required = json!({
        "requirementName": WATCHED_RESOURCE, "apiVersion": meta::api_version(object), "kind": meta::kind(object), "name": meta::name(object),
    });
    if !meta::namespace(object).is_empty() {
        required["namespace"] = meta::namespace(object).into();
    }
    for step in spec.get_mut("pipeline").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(step) = step.as_object_mut() else { continue };
        let list = meta::child(step, "requirements").entry("requiredResources").or_insert_with(|| json!([]));
        let Some(list) = list.as_array_mut() else { continue };
        let is_named = |name: &str, list: &[Value]| list.iter().any(|it| it["requirementName"] == name);
        if !is_named(WATCHED_RESOURCE, list) {
            list.push(required.clone());
        }
        // The placeholder under the name that the design uses.
        for own in list.iter_mut().filter(|it| it["requirementName"] == WATCHED_RESOURCE_CHANGED) {
            let mut named = required.clone();
            named["requirementName"] = WATCHED_RESOURCE_CHANGED.into();
            *own = named;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(resource_version: &str) -> Object {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {
            "name": "test-pod", "namespace": "default", "uid": "test-uid", "resourceVersion": resource_version,
        }});
        pod.as_object().unwrap().clone()
    }

    #[test]
    fn names_are_those_that_crossplane_gives() {
        assert_eq!(watch_operation_name("test-watch", &pod("123")), "test-watch-2ae9bd3");
        assert_eq!(watch_operation_name("test-watch", &pod("124")), "test-watch-a1051fc");
        let deleted = deleted_object("v1", "Pod", "default", "test-pod", "2023-01-01T00:00:00Z");
        assert_eq!(watch_operation_name("test-watch", &deleted), "test-watch-ef68891");
        let longer = longer_watch_operation_name("test-watch", &pod("123"));
        assert!(
            longer.starts_with("test-watch-2ae9bd3") && longer.len() == "test-watch-".len() + 20,
            "{longer}"
        );
    }

    #[test]
    fn names_of_operations_say_whose_they_are() {
        let longer = longer_watch_operation_name("test-watch", &pod("123"));
        for own in [watch_operation_name("test-watch", &pod("123")), longer] {
            assert!(is_name_for("test-watch", &own) && !is_name_for("test", &own), "{own}");
        }
        for rest in ["", "-", "-2ae9bd", "-2AE9BD3", "-1700000000", "-a-2ae9bd3", "2ae9bd3"] {
            let other = format!("test-watch{rest}");
            assert!(!is_name_for("test-watch", &other), "{other}");
        }
    }

    #[test]
    fn every_step_requires_what_was_changed_and_keeps_its_own() {
        let own = json!({"requirementName": "mine", "apiVersion": "v1", "kind": "Secret"});
        let mut spec = json!({"pipeline": [
            {"step": "a", "requirements": {"requiredResources": [own]}}, {"step": "b"},
            {"step": "c", "requirements": {"requiredResources": [{"requirementName": WATCHED_RESOURCE, "kind": "X"}]}},
        ]})
        .as_object()
        .unwrap()
        .clone();
        require_watched(&mut spec, &pod("1"));
        let required = json!({
            "requirementName": WATCHED_RESOURCE, "apiVersion": "v1", "kind": "Pod", "name": "test-pod", "namespace": "default",
        });
        assert_eq!(spec["pipeline"][0]["requirements"]["requiredResources"], json!([own, required]));
        assert_eq!(spec["pipeline"][1]["requirements"]["requiredResources"], json!([required]));
        assert_eq!(spec["pipeline"][2]["requirements"]["requiredResources"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn step_that_uses_the_name_of_the_design_is_given_what_was_changed_under_both() {
        let own = json!({"requirementName": WATCHED_RESOURCE_CHANGED, "apiVersion": "v1", "kind": "Pod", "name": "placeholder"});
        let spec = json!({"pipeline": [{"step": "a", "requirements": {"requiredResources": [own]}}]});
        let mut spec = spec.as_object().unwrap().clone();
        require_watched(&mut spec, &pod("1"));
        let required = spec["pipeline"][0]["requirements"]["requiredResources"].as_array().unwrap();
        let names: Vec<_> = required.iter().map(|it| (&it["requirementName"], &it["name"])).collect();
        let (design, shipped) = (json!(WATCHED_RESOURCE_CHANGED), json!(WATCHED_RESOURCE));
        let name = json!("test-pod");
        assert_eq!(names, [(&design, &name), (&shipped, &name)]);
    }

    #[test]
    fn annotations_say_what_was_changed() {
        let mut operation = Object::new();
        let node =
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "resourceVersion": "7"}});
        annotate_watched(&mut operation, node.as_object().unwrap());
        assert_eq!(meta::annotation(&operation, "ops.crossplane.io/watched-resource-resourceversion"), "7");
        assert_eq!(
            operation["metadata"]["annotations"].as_object().unwrap().len(),
            4,
            "there is no namespace"
        );
        let gone = deleted_object("v1", "Node", "", "n", "2026-01-01T00:00:00Z");
        assert_eq!(deleted_object_of(&operation, "2026-01-01T00:00:00Z"), Some(gone));
        assert_eq!(deleted_object_of(&Object::new(), "2026-01-01T00:00:00Z"), None);
    }

    #[test]
    fn operation_for_an_object_that_is_gone_says_which_one_it_was() {
        let mut operation = Object::new();
        meta::set_field(&mut operation, "creationTimestamp", "2023-01-01T00:00:00Z");
        let gone = deleted_object("v1", "Pod", "default", "p", "2023-01-01T00:00:00Z");
        annotate_watched(&mut operation, &gone);
        assert_eq!(deleted_object_of(&operation, "2026-01-01T00:00:00Z"), Some(gone));
    }
}
