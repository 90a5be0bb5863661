//! Schemas of types that every API has.
//!
//! Follows apimachinery 0.36.4, `pkg/apis/meta/v1/types.go`.

use serde_json::{Map, Value, json};

use super::Edition;

pub(super) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
pub(super) const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
pub(super) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
pub(super) const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
pub(super) const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";
const AUTOSCALING: &str = "io.k8s.api.autoscaling.v1.";

/// All of them, by name.
pub(super) fn schemas(edition: Edition, has_scale: bool) -> Map<String, Value> {
    let types = Types { edition };
    let mut schemas = Map::new();
    let mut put = |name: &str, schema: Value| schemas.insert(format!("{META}{name}"), schema);
    put("ObjectMeta", types.object_meta());
    put("ListMeta", types.list_meta());
    put("OwnerReference", Types::owner_reference());
    put("ManagedFieldsEntry", types.managed_fields());
    put("Status", types.status());
    put("StatusDetails", types.status_details());
    put("StatusCause", json!({"type": "object", "properties": texts(&["field", "message", "reason"])}));
    put("DeleteOptions", types.delete_options());
    put("Preconditions", json!({"type": "object", "properties": texts(&["resourceVersion", "uid"])}));
    put("ShardInfo", json!({"type": "object", "properties": {"selector": text()}, "required": ["selector"]}));
    put("FieldsV1", json!({"type": "object"}));
    put("Patch", json!({"type": "object"}));
    put("Time", json!({"type": "string", "format": "date-time"}));
    if has_scale {
        schemas.extend(types.scale());
    }
    schemas
}

fn texts(names: &[&str]) -> Value {
    names.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect()
}

fn with_default(mut schema: Value, default: Value) -> Value {
    schema["default"] = default;
    schema
}

/// A text that is always there.
fn text() -> Value {
    with_default(json!({"type": "string"}), json!(""))
}

struct Types {
    edition: Edition,
}

impl Types {
    fn reference(&self, name: &str) -> Value {
        self.edition.wrapped_reference(&format!("{META}{name}"))
    }

    fn item(&self, name: &str) -> Value {
        with_default(self.reference(name), json!({}))
    }

    fn object_meta(&self) -> Value {
        let mut properties =
            texts(&["generateName", "name", "namespace", "resourceVersion", "selfLink", "uid"]);
        let map = json!({"type": "object", "additionalProperties": text()});
        let number = json!({"type": "integer", "format": "int64"});
        for (name, schema) in [
            ("annotations", map.clone()),
            ("labels", map),
            ("creationTimestamp", self.reference("Time")),
            ("deletionTimestamp", self.reference("Time")),
            ("deletionGracePeriodSeconds", number.clone()),
            ("generation", number),
            (
                "finalizers",
                json!({
                    "type": "array", "items": text(), "x-kubernetes-list-type": "set",
                    "x-kubernetes-patch-strategy": "merge",
                }),
            ),
            (
                "managedFields",
                json!({
                    "type": "array", "items": self.item("ManagedFieldsEntry"), "x-kubernetes-list-type": "atomic",
                }),
            ),
            (
                "ownerReferences",
                json!({
                    "type": "array", "items": self.item("OwnerReference"), "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["uid"], "x-kubernetes-patch-merge-key": "uid",
                    "x-kubernetes-patch-strategy": "merge",
                }),
            ),
        ] {
            properties[name] = schema;
        }
        json!({"type": "object", "properties": properties})
    }

    fn list_meta(&self) -> Value {
        let mut properties = texts(&["continue", "resourceVersion", "selfLink"]);
        properties["remainingItemCount"] = json!({"type": "integer", "format": "int64"});
        properties["shardInfo"] = self.reference("ShardInfo");
        json!({"type": "object", "properties": properties})
    }

    fn owner_reference() -> Value {
        let required = ["apiVersion", "kind", "name", "uid"];
        let mut properties: Value = required.iter().map(|name| ((*name).to_owned(), text())).collect();
        properties["blockOwnerDeletion"] = json!({"type": "boolean"});
        properties["controller"] = json!({"type": "boolean"});
        json!({
            "type": "object", "properties": properties, "required": required, "x-kubernetes-map-type": "atomic",
        })
    }

    fn managed_fields(&self) -> Value {
        let mut properties = texts(&["apiVersion", "fieldsType", "manager", "operation", "subresource"]);
        properties["fieldsV1"] = self.reference("FieldsV1");
        properties["time"] = self.reference("Time");
        json!({"type": "object", "properties": properties})
    }

    fn status(&self) -> Value {
        let mut properties = texts(&["apiVersion", "kind", "message", "reason", "status"]);
        properties["code"] = json!({"type": "integer", "format": "int32"});
        properties["details"] = self.reference("StatusDetails");
        properties["metadata"] = self.item("ListMeta");
        json!({
            "type": "object", "properties": properties,
            "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Status"}],
        })
    }

    fn status_details(&self) -> Value {
        let mut properties = texts(&["group", "kind", "name", "uid"]);
        properties["retryAfterSeconds"] = json!({"type": "integer", "format": "int32"});
        properties["causes"] =
            json!({"type": "array", "items": self.item("StatusCause"), "x-kubernetes-list-type": "atomic"});
        json!({"type": "object", "properties": properties})
    }

    fn delete_options(&self) -> Value {
        let mut properties = texts(&["apiVersion", "kind", "propagationPolicy"]);
        properties["dryRun"] = json!({"type": "array", "items": text(), "x-kubernetes-list-type": "atomic"});
        properties["gracePeriodSeconds"] = json!({"type": "integer", "format": "int64"});
        properties["ignoreStoreReadErrorWithClusterBreakingPotential"] = json!({"type": "boolean"});
        properties["orphanDependents"] = json!({"type": "boolean"});
        properties["preconditions"] = self.reference("Preconditions");
        json!({
            "type": "object", "properties": properties,
            "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "DeleteOptions"}],
        })
    }

    fn scale(&self) -> Map<String, Value> {
        let part = |name: &str| self.edition.wrapped_reference(&format!("{AUTOSCALING}{name}"));
        let replicas = with_default(json!({"type": "integer", "format": "int32"}), json!(0));
        let mut properties = texts(&["apiVersion", "kind"]);
        properties["metadata"] = self.item("ObjectMeta");
        properties["spec"] = with_default(part("ScaleSpec"), json!({}));
        properties["status"] = with_default(part("ScaleStatus"), json!({}));
        Map::from_iter([
            (
                SCALE.to_owned(),
                json!({
                    "type": "object", "properties": properties,
                    "x-kubernetes-group-version-kind": [{"group": "autoscaling", "version": "v1", "kind": "Scale"}],
                }),
            ),
            (
                format!("{AUTOSCALING}ScaleSpec"),
                json!({"type": "object", "properties": {"replicas": replicas.clone()}}),
            ),
            (
                format!("{AUTOSCALING}ScaleStatus"),
                json!({
                    "type": "object", "properties": {"replicas": replicas, "selector": {"type": "string"}},
                    "required": ["replicas"],
                }),
            ),
        ])
    }
}
