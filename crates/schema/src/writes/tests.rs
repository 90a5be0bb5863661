//! Writes to a custom resource, as clients see them.

use std::sync::Arc;

use ferroplane_ownership::merge::shape::Shapes;
use ferroplane_ownership::{Version, VersionedKind};
use serde_json::{Value, json};

use super::*;
use crate::structural::{CustomResource, Props, Schema};

/// A server with one kind and at most one object.
struct Server {
    custom: Custom,
    resource: Resource,
    live: Option<Value>,
    writes: u64,
}

impl Server {
    fn new() -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "size": {"type": "integer", "minimum": 1},
                        "color": {"type": "string", "default": "red"},
                        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                    },
                },
                "status": {"type": "object", "properties": {"phase": {"type": "string", "maxLength": 5}}},
            },
        });
        let custom = CustomResource {
            group: "example.org".into(),
            version: "v1".into(),
            kind: "Widget".into(),
            is_namespaced: true,
            preserves_unknown_fields: false,
            scale: None,
            schema: Schema::compile(&Props::decode(&schema).unwrap()),
        };
        let shapes = Arc::new(Shapes::of_custom_resource(Some(&schema)).unwrap());
        let versions = vec![Version { api_version: "example.org/v1".into(), shapes }];
        let custom = Custom::new(custom, VersionedKind { name: "Widget".into(), versions }, true);
        Self { custom, resource: Resource::new("example.org", "widgets"), live: None, writes: 0 }
    }

    fn send(&mut self, part: Part, name: &str, write: Write<'_>, manager: &str) -> Result<Written, Status> {
        let endpoint =
            Endpoint { behaviour: &self.custom, resource: &self.resource, part, namespace: "default", name };
        let circumstances = Circumstances {
            manager,
            time: "2026-01-01T00:00:00Z",
            uid: "u-1",
            random: "abcde",
            field_validation: FieldValidation::Strict,
            converter: None,
        };
        let proposal = propose(&endpoint, write, self.live.as_ref(), &circumstances)?;
        let written = settle(&endpoint, proposal, self.live.as_ref(), &circumstances)?;
        if !written.changes_nothing {
            self.writes += 1;
            let mut object = written.object.clone();
            metadata_mut(&mut object).insert("resourceVersion".into(), self.writes.to_string().into());
            self.live = Some(Value::Object(object));
        }
        Ok(written)
    }

    fn create(&mut self, object: &Value) -> Result<Written, Status> {
        let text = object.to_string();
        self.send(Part::Whole, "", Write::Create(Body::json(text.as_bytes()).unwrap()), "maker")
    }

    fn update(&mut self, part: Part, object: &Value) -> Result<Written, Status> {
        let text = object.to_string();
        self.send(part, "w", Write::Update(Body::json(text.as_bytes()).unwrap()), "updater")
    }

    fn apply(&mut self, manager: &str, is_forced: bool, object: &Value) -> Result<Written, Status> {
        let text = object.to_string();
        let configuration = Body::json(text.as_bytes()).unwrap();
        self.send(Part::Whole, "w", Write::Apply { configuration, is_forced }, manager)
    }

    fn live(&self) -> Value {
        self.live.clone().unwrap()
    }
}

fn widget(spec: &Value) -> Value {
    json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec})
}

#[test]
fn created_object_has_what_the_server_sets() {
    let mut server = Server::new();
    let mut object = widget(&json!({"size": 1}));
    object["status"] = json!({"phase": "Up"});
    object["metadata"]["uid"] = json!("mine");
    let written = server.create(&object).unwrap();
    let object = Value::Object(written.object);
    assert!(written.is_created);
    assert_eq!(object["metadata"]["uid"], "u-1");
    assert_eq!(object["metadata"]["generation"], 1);
    assert_eq!(object["metadata"]["namespace"], "default");
    assert_eq!(object["spec"]["color"], "red");
    assert_eq!(object.get("status"), None);
    assert_eq!(
        object["metadata"]["managedFields"][0]["fieldsV1"],
        json!({"f:spec": {".": {}, "f:color": {}, "f:size": {}}})
    );
}

#[test]
fn name_is_generated() {
    let mut object = widget(&json!({}));
    object["metadata"] = json!({"generateName": "w-"});
    let written = Server::new().create(&object).unwrap();
    assert_eq!(written.object["metadata"]["name"], "w-abcde");
}

#[test]
fn unknown_field_is_refused_if_validation_is_strict() {
    let status = Server::new().create(&widget(&json!({"bogus": 1}))).unwrap_err();
    assert_eq!(status.code, 400);
    assert_eq!(
        status.message,
        r#"Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "spec.bogus""#
    );
}

#[test]
fn invalid_object_is_refused_with_causes() {
    let status = Server::new().create(&widget(&json!({"size": 0}))).unwrap_err();
    assert_eq!((status.code, &*status.reason), (422, "Invalid"));
    assert_eq!(status.details.unwrap().causes[0].field, "spec.size");
}

#[test]
fn update_without_resource_version_is_refused() {
    let mut server = Server::new();
    server.create(&widget(&json!({"size": 1}))).unwrap();
    let status = server.update(Part::Whole, &widget(&json!({"size": 2}))).unwrap_err();
    assert_eq!(status.code, 422);
    assert!(
        status
            .message
            .contains("metadata.resourceVersion: Invalid value: 0: must be specified for an update")
    );
}

#[test]
fn update_of_an_older_object_conflicts() {
    let mut server = Server::new();
    server.create(&widget(&json!({"size": 1}))).unwrap();
    let mut object = server.live();
    object["spec"]["size"] = json!(2);
    server.update(Part::Whole, &object).unwrap();
    assert_eq!(server.update(Part::Whole, &object).unwrap_err().code, 409);
}

#[test]
fn update_counts_a_generation_and_cannot_touch_the_status() {
    let mut server = Server::new();
    server.create(&widget(&json!({"size": 1}))).unwrap();
    let mut object = server.live();
    object["spec"]["size"] = json!(2);
    object["status"] = json!({"phase": "Up"});
    let written = server.update(Part::Whole, &object).unwrap();
    assert_eq!(written.object["metadata"]["generation"], 2);
    assert_eq!(written.object.get("status"), None);
}

#[test]
fn write_of_the_status_changes_nothing_else() {
    let mut server = Server::new();
    server.create(&widget(&json!({"size": 1}))).unwrap();
    let mut object = server.live();
    object["spec"]["size"] = json!(2);
    object["metadata"]["labels"] = json!({"a": "b"});
    object["status"] = json!({"phase": "Up"});
    let written = server.update(Part::Status, &object).unwrap();
    assert_eq!(written.object["spec"]["size"], 1);
    assert_eq!(written.object["status"], json!({"phase": "Up"}));
    assert_eq!(written.object["metadata"]["generation"], 1);
    assert_eq!(written.object["metadata"].get("labels"), None);
    let entry = &written.object["metadata"]["managedFields"][1];
    assert_eq!(entry["subresource"], "status");
    assert_eq!(entry["fieldsV1"], json!({"f:status": {".": {}, "f:phase": {}}}));
}

#[test]
fn status_must_be_valid_too() {
    let mut server = Server::new();
    server.create(&widget(&json!({"size": 1}))).unwrap();
    let mut object = server.live();
    object["status"] = json!({"phase": "Running"});
    let status = server.update(Part::Status, &object).unwrap_err();
    assert_eq!(status.details.unwrap().causes[0].field, "status.phase");
}

#[test]
fn write_that_changes_nothing_says_so() {
    let mut server = Server::new();
    server.create(&widget(&json!({"size": 1}))).unwrap();
    let object = server.live();
    assert!(server.update(Part::Whole, &object).unwrap().changes_nothing);
    let patch = Write::MergePatch(r#"{"spec":{"size":1}}"#);
    assert!(server.send(Part::Whole, "w", patch, "patcher").unwrap().changes_nothing);
}

#[test]
fn patch_of_what_is_not_there_is_refused() {
    let status = Server::new().send(Part::Whole, "w", Write::MergePatch("{}"), "patcher").unwrap_err();
    assert_eq!(status.message, r#"widgets.example.org "w" not found"#);
}

#[test]
fn applying_creates_shares_conflicts_and_takes_by_force() {
    let mut server = Server::new();
    assert!(server.apply("one", false, &widget(&json!({"size": 1, "tags": ["a"]}))).unwrap().is_created);
    assert!(!server.apply("two", false, &widget(&json!({"size": 1, "tags": ["b"]}))).unwrap().is_created);
    assert_eq!(server.live()["spec"]["tags"], json!(["a", "b"]));
    let status = server.apply("two", false, &widget(&json!({"size": 2}))).unwrap_err();
    assert_eq!(status.message, r#"Apply failed with 1 conflict: conflict with "one": .spec.size"#);
    let written = server.apply("two", true, &widget(&json!({"size": 2}))).unwrap();
    assert_eq!(written.object["spec"], json!({"color": "red", "size": 2, "tags": ["a"]}));
    assert!(server.apply("two", true, &widget(&json!({"size": 2}))).unwrap().changes_nothing);
}

#[test]
fn object_that_is_being_deleted_ends_with_its_last_finalizer() {
    let mut server = Server::new();
    let mut object = widget(&json!({}));
    object["metadata"]["finalizers"] = json!(["example.org/keep"]);
    server.create(&object).unwrap();
    let mut live = server.live();
    live["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    live["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    server.live = Some(live);
    let written =
        server.send(Part::Whole, "w", Write::MergePatch(r#"{"metadata":{"finalizers":null}}"#), "x").unwrap();
    assert!(written.ends_deletion());
}

/// What becomes of a new object that is sent to a kind.
fn sent_to(behaviour: &dyn Behaviour, object: &Value) -> Result<Written, Status> {
    let resource = Resource::new("", "things");
    let endpoint =
        Endpoint { behaviour, resource: &resource, part: Part::Whole, namespace: "default", name: "" };
    let circumstances = Circumstances {
        manager: "m",
        time: "2026-01-01T00:00:00Z",
        uid: "u-1",
        random: "abcde",
        field_validation: FieldValidation::Strict,
        converter: None,
    };
    let text = object.to_string();
    let write = Write::Create(Body::json(text.as_bytes()).unwrap());
    settle(&endpoint, propose(&endpoint, write, None, &circumstances)?, None, &circumstances)
}

#[test]
fn object_of_one_of_kubernetes_own_kinds_need_not_say_what_it_is() {
    let nameless = json!({"metadata": {"name": "a"}});
    let row = crate::builtin::resources().iter().find(|row| row.kind == "ConfigMap").unwrap();
    let map = Builtin::new(row).unwrap();
    assert_eq!(sent_to(&map, &nameless).unwrap().object["kind"], "ConfigMap");
    let other = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
    let refused = sent_to(&map, &other).unwrap_err();
    assert!(refused.message.contains("no kind \"Secret\" is registered"), "{}", refused.message);
    let refused = sent_to(&Server::new().custom, &nameless).unwrap_err();
    assert!(refused.message.contains("Object 'Kind' is missing"), "{}", refused.message);
}
