//! What owners of fields can rely on when they apply, update and take over.

use std::sync::Arc;

use ferroplane_golang::json::JsonObject;
use ferroplane_ownership::merge::shape::Shapes;
use ferroplane_ownership::{
    self as ownership, ApplyError, Request, ResetFields, Version, VersionedKind,
    reset_for_custom_resource_status,
};
use serde_json::{Value, json};

const VERSION: &str = "example.org/v1";

fn kind_of(spec: &Value) -> VersionedKind {
    let schema = json!({"type": "object", "properties": {
        "spec": spec,
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}}
    }});
    let shapes = Shapes::of_custom_resource(Some(&schema)).expect("the schema is structural");
    let version = Version { api_version: VERSION.to_owned(), shapes: Arc::new(shapes) };
    VersionedKind { name: "Widget".to_owned(), versions: vec![version] }
}

fn kind() -> VersionedKind {
    kind_of(&json!({"type": "object", "properties": {
        "size": {"type": "integer"},
        "color": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "steps": {"type": "array", "items": {"type": "string"}},
        "items": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "properties": {"name": {"type": "string"}, "value": {"type": "integer"}}}
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
    }}))
}

#[expect(clippy::needless_pass_by_value, reason = "it reads better in tests")]
fn object(spec: Value) -> JsonObject {
    let object = json!({"apiVersion": VERSION, "kind": "Widget", "metadata": {"name": "w"}, "spec": spec});
    object.as_object().cloned().expect("it is an object")
}

/// An object that is written to, second by second.
struct ObjectFixture {
    kind: VersionedKind,
    live: Option<JsonObject>,
    second: usize,
}

impl ObjectFixture {
    fn new(kind: VersionedKind) -> Self {
        Self { kind, live: None, second: 0 }
    }

    fn tick(&mut self) -> String {
        self.second += 1;
        format!("2026-01-01T00:00:{:02}Z", self.second)
    }

    fn apply(&mut self, manager: &str, spec: Value) -> Result<bool, ApplyError> {
        self.apply_object(manager, &object(spec), false)
    }

    fn force(&mut self, manager: &str, spec: Value) {
        self.apply_object(manager, &object(spec), true).expect("force takes everything");
    }

    /// Says whether anything changed.
    fn apply_object(&mut self, manager: &str, applied: &JsonObject, force: bool) -> Result<bool, ApplyError> {
        let time = self.tick();
        let request = Request {
            manager,
            api_version: VERSION,
            subresource: "",
            time: &time,
            reset_fields: None,
            converter: None,
        };
        let plan = ownership::apply(self.live.as_ref(), applied, &self.kind, &request, force)?;
        let is_changed = !plan.changes_nothing();
        let mut object = plan.perform(self.live.take().unwrap_or_default());
        object["metadata"]["uid"] = "uid".into();
        self.live = Some(object);
        Ok(is_changed)
    }

    fn write(
        &mut self,
        manager: &str,
        subresource: &str,
        reset: Option<&ResetFields>,
        change: impl FnOnce(&mut JsonObject),
    ) {
        let time = self.tick();
        let request = Request {
            manager,
            api_version: VERSION,
            subresource,
            time: &time,
            reset_fields: reset,
            converter: None,
        };
        let mut new = self.live.clone().unwrap_or_else(|| object(json!({})));
        change(&mut new);
        let updated = ownership::update(self.live.as_ref(), new, &self.kind, &request);
        assert_eq!(updated.problem, None);
        let mut object = updated.object;
        object["metadata"]["uid"] = "uid".into();
        self.live = Some(object);
    }

    fn update(&mut self, manager: &str, change: impl FnOnce(&mut JsonObject)) {
        self.write(manager, "", None, change);
    }

    fn spec(&self) -> &Value {
        &self.live.as_ref().expect("there is an object")["spec"]
    }

    fn entry(&self, manager: &str) -> Option<&Value> {
        let entries = self.live.as_ref()?["metadata"]["managedFields"].as_array()?;
        entries.iter().find(|entry| entry["manager"] == manager)
    }

    fn owned(&self, manager: &str) -> Value {
        self.entry(manager).map_or(Value::Null, |entry| entry["fieldsV1"]["f:spec"].clone())
    }
}

#[test]
fn managers_own_items_of_the_same_lists() {
    let mut fixture = ObjectFixture::new(kind());
    fixture.apply("m1", json!({"size": 3, "items": [{"name": "a", "value": 1}], "tags": ["t1"]})).unwrap();
    fixture.force("m2", json!({"size": 4, "items": [{"name": "b"}], "tags": ["t2"]}));
    assert_eq!(
        *fixture.spec(),
        json!({"size": 4, "items": [{"name": "a", "value": 1}, {"name": "b"}], "tags": ["t1", "t2"]})
    );
    assert_eq!(
        fixture.owned("m1"),
        json!({"f:items": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:value": {}}}, "f:tags": {"v:\"t1\"": {}}})
    );

    fixture.apply("m1", json!({"size": 4})).unwrap();
    assert_eq!(*fixture.spec(), json!({"size": 4, "items": [{"name": "b"}], "tags": ["t2"]}));
    fixture.apply("m2", json!({"items": [{"name": "b"}]})).unwrap();
    assert_eq!(*fixture.spec(), json!({"size": 4, "items": [{"name": "b"}]}));
}

#[test]
fn conflict_names_the_owner_and_the_field() {
    let mut fixture = ObjectFixture::new(kind());
    fixture.apply("m1", json!({"size": 3})).unwrap();
    let error = fixture.apply("m2", json!({"size": 4})).unwrap_err();
    assert_eq!(error.to_string(), r#"Apply failed with 1 conflict: conflict with "m1": .spec.size"#);
    assert_eq!(error.code(), 409);
    let causes = error.causes();
    assert_eq!(causes.len(), 1);
    assert_eq!(causes[0].reason, "FieldManagerConflict");
    assert_eq!(
        (causes[0].message.as_str(), causes[0].field.as_str()),
        (r#"conflict with "m1""#, ".spec.size")
    );
}

#[test]
fn conflicts_are_listed_by_owner() {
    let mut fixture = ObjectFixture::new(kind());
    fixture.apply("m1", json!({"size": 3, "items": [{"name": "a", "value": 1}]})).unwrap();
    fixture.update("editor", |object| object["spec"]["color"] = "red".into());
    let spec = json!({"size": 4, "color": "blue", "items": [{"name": "a", "value": 2}]});
    let error = fixture.apply("m2", spec).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 3 conflicts: conflicts with \"editor\" using example.org/v1:\n- .spec.color\n\
         conflicts with \"m1\":\n- .spec.size\n- .spec.items[name=\"a\"].value"
    );
}

#[test]
fn equal_values_are_owned_together() {
    let mut fixture = ObjectFixture::new(kind());
    fixture.apply("m1", json!({"size": 3})).unwrap();
    assert!(fixture.apply("m2", json!({"size": 3})).unwrap());
    assert_eq!(fixture.owned("m1"), fixture.owned("m2"));
    fixture.apply("m1", json!({})).unwrap();
    assert_eq!(*fixture.spec(), json!({"size": 3}));
}

#[test]
fn applying_the_same_again_changes_nothing() {
    let mut fixture = ObjectFixture::new(kind());
    let spec = json!({"size": 3, "items": [{"name": "a"}], "tags": ["t"], "free": {"x": {"y": [1]}}});
    fixture.apply("m1", spec.clone()).unwrap();
    let before = fixture.live.clone();
    assert!(!fixture.apply("m1", spec).unwrap());
    assert_eq!(fixture.live, before);
    assert_eq!(fixture.entry("m1").unwrap()["time"], "2026-01-01T00:00:01Z");
}

#[test]
fn update_without_a_change_keeps_the_times() {
    let mut fixture = ObjectFixture::new(kind());
    fixture.update("creator", |object| object["spec"] = json!({"size": 3}));
    let before = fixture.live.clone();
    fixture.update("creator", |_| ());
    fixture.update("other", |_| ());
    assert_eq!(fixture.live, before);
}

#[test]
fn what_was_there_before_the_first_apply_has_an_owner() {
    let mut fixture = ObjectFixture::new(kind());
    fixture.live = Some(object(json!({"size": 3, "color": "red"})));
    let error = fixture.apply("m1", json!({"size": 4})).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"Apply failed with 1 conflict: conflict with "before-first-apply" using example.org/v1: .spec.size"#
    );
    fixture.apply("m1", json!({"size": 3})).unwrap();
    let owned = json!({".": {}, "f:color": {}, "f:size": {}});
    assert_eq!(fixture.owned("before-first-apply"), owned);
}

#[test]
fn untracked_object_stays_untracked_until_it_is_applied() {
    let mut fixture = ObjectFixture::new(kind());
    let mut live = object(json!({"size": 3}));
    live["metadata"]["uid"] = "uid".into();
    fixture.live = Some(live);
    fixture.update("editor", |object| object["spec"]["size"] = 4.into());
    assert!(fixture.entry("editor").is_none());
}

#[test]
fn owners_can_be_forgotten() {
    for reset in [json!([]), json!([{}])] {
        let mut fixture = ObjectFixture::new(kind());
        fixture.apply("m1", json!({"size": 3})).unwrap();
        fixture.update("editor", |object| object["metadata"]["managedFields"] = reset);
        assert!(fixture.live.unwrap()["metadata"].get("managedFields").is_none());
    }
}

#[test]
fn owners_that_make_no_sense_are_those_of_the_live_object() {
    let mut fixture = ObjectFixture::new(kind());
    fixture.apply("m1", json!({"size": 3})).unwrap();
    let before = fixture.live.clone();
    for nonsense in [json!("?"), json!([1]), json!([{"manager": "x", "operation": "Steal"}]), Value::Null] {
        fixture.update("editor", |object| object["metadata"]["managedFields"] = nonsense);
        assert_eq!(fixture.live, before);
    }
}

#[test]
fn status_is_owned_apart() {
    let mut fixture = ObjectFixture::new(kind());
    fixture.update("creator", |object| object["spec"] = json!({"size": 3}));
    let reset = reset_for_custom_resource_status([VERSION]);
    fixture.write("controller", "status", Some(&reset), |object| {
        object.insert("status".to_owned(), json!({"phase": "Ready"}));
        object["spec"]["size"] = 4.into();
    });
    let entry = fixture.entry("controller").unwrap();
    assert_eq!(entry["subresource"], "status");
    assert_eq!(entry["fieldsV1"], json!({"f:status": {".": {}, "f:phase": {}}}));
}

#[test]
fn oldest_of_many_updates_become_one_entry() {
    let mut fixture = ObjectFixture::new(kind());
    for number in 0..14 {
        fixture.update(&format!("u{number:02}"), |object| {
            object["spec"]["free"][format!("f{number:02}")] = number.into();
        });
    }
    let managed = fixture.live.as_ref().unwrap()["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(managed.len(), 10);
    let old = fixture.entry("ancient-changes").unwrap();
    assert_eq!(old["time"], "2026-01-01T00:00:05Z");
    assert_eq!(old["fieldsV1"]["f:spec"]["f:free"].as_object().unwrap().len(), 6);
}

#[test]
fn duplicates_are_refused_in_configurations_but_not_in_live_objects() {
    let mut fixture = ObjectFixture::new(kind());
    let error = fixture.apply("m1", json!({"tags": ["a", "a"]})).unwrap_err();
    assert_eq!(
        error.to_string(),
        "failed to create typed patch object (/w; example.org/v1, Kind=Widget): \
         .spec.tags: duplicate entries for key [=\"a\"]"
    );
    fixture.update("editor", |object| object["spec"] = json!({"tags": ["a", "a"]}));
    fixture.apply("m1", json!({"tags": ["b"]})).unwrap();
    assert_eq!(*fixture.spec(), json!({"tags": ["a", "a", "b"]}));
}

#[test]
fn configurations_have_to_fit() {
    let mut fixture = ObjectFixture::new(kind());
    for (spec, complaint) in [
        (json!({"size": "x"}), ".spec.size: expected numeric (int or float), got string"),
        (json!({"color": 1}), ".spec.color: expected string, got &value.valueUnstructured{Value:1}"),
        (json!({"items": {}}), ".spec.items: expected list, got &{map[]}"),
        (json!({"other": 1}), ".spec.other: field not declared in schema"),
        (
            json!({"items": [{"value": 1}]}),
            ".spec.items: element 0: associative list with keys has an element that omits all key fields [\"name\"] (and doesn't have default values for any key fields)",
        ),
    ] {
        let error = fixture.apply("m1", spec).unwrap_err();
        let expected =
            format!("failed to create typed patch object (/w; example.org/v1, Kind=Widget): {complaint}");
        assert_eq!(error.to_string(), expected);
    }
    let mut other = object(json!({}));
    other["kind"] = "Gadget".into();
    let error = fixture.apply_object("m1", &other, false).unwrap_err();
    assert_eq!(error, ApplyError::BadRequest("invalid object type: example.org/v1, Kind=Gadget".to_owned()));
}

#[test]
fn list_that_became_one_piece_is_owned_as_one() {
    let mut fixture = ObjectFixture::new(kind());
    fixture.apply("m1", json!({"tags": ["a"]})).unwrap();
    fixture.apply("m2", json!({"tags": ["b"]})).unwrap();
    fixture.kind = kind_of(&json!({"type": "object", "properties": {
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"}
    }}));
    let error = fixture.apply("m1", json!({"tags": ["a"]})).unwrap_err();
    assert_eq!(error.to_string(), r#"Apply failed with 1 conflict: conflict with "m2": .spec.tags"#);
    fixture.apply("m1", json!({"tags": ["a", "b"]})).unwrap();
    assert_eq!(fixture.owned("m1"), json!({"f:tags": {}}));
    assert_eq!(fixture.owned("m2"), json!({"f:tags": {}}));
}

#[test]
fn kubectl_takes_over_what_it_applied_on_the_client() {
    let mut fixture = ObjectFixture::new(kind());
    let note = "kubectl.kubernetes.io/last-applied-configuration";
    fixture.update("kubectl-client-side-apply", |live| {
        live["spec"] = json!({"size": 3, "color": "red"});
        let applied = Value::Object(object(json!({"size": 3, "color": "red"}))).to_string();
        live["metadata"]["annotations"] = json!({ note: applied });
    });
    fixture.update("editor", |object| object["spec"]["color"] = "blue".into());
    let error = fixture.apply("kubectl", json!({"size": 4, "color": "green"})).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"Apply failed with 1 conflict: conflict with "editor" using example.org/v1: .spec.color"#
    );
    fixture.apply("kubectl", json!({"size": 4})).unwrap();
    let annotation = fixture.live.as_ref().unwrap()["metadata"]["annotations"][note].as_str().unwrap();
    let expected = Value::Object(object(json!({"size": 4}))).to_string();
    assert_eq!(annotation, format!("{expected}\n"));
}

#[test]
fn times_alone_are_no_change() {
    let mut fixture = ObjectFixture::new(kind());
    fixture.update("creator", |object| object["spec"] = json!({"size": 3}));
    let old = fixture.live.clone().unwrap();
    let mut new = old.clone();
    new["metadata"]["managedFields"][0]["time"] = "2027-01-01T00:00:00Z".into();
    ownership::keep_times(&old, &mut new);
    assert_eq!(new, old);
    new["metadata"]["managedFields"][0]["time"] = "2027-01-01T00:00:00Z".into();
    new["spec"]["size"] = 4.into();
    ownership::keep_times(&old, &mut new);
    assert_eq!(new["metadata"]["managedFields"][0]["time"], "2027-01-01T00:00:00Z");
}

#[test]
fn too_deep_objects_are_refused() {
    let mut deep = json!(1);
    for _ in 0..400 {
        deep = json!({ "x": deep });
    }
    let mut fixture = ObjectFixture::new(kind());
    assert!(fixture.apply("m1", json!({ "free": deep.clone() })).is_err());
    let request = Request {
        manager: "m",
        api_version: VERSION,
        subresource: "",
        time: "2026-01-01T00:00:00Z",
        reset_fields: None,
        converter: None,
    };
    let updated = ownership::update(None, object(json!({ "free": deep })), &fixture.kind, &request);
    assert!(updated.problem.is_some());
}
