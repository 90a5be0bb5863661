//! Owners of fields that have other names in other versions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ferroplane_golang::json::JsonObject;
use ferroplane_ownership::merge::shape::Shapes;
use ferroplane_ownership::{self as ownership, ApplyError, Convert, Request, Version, VersionedKind};
use serde_json::{Value, json};

const NAMES: [(&str, &str); 2] = [("v1", "size"), ("v2", "length")];

/// What is called `size` in one version is called `length` in the other.
#[derive(Debug)]
struct Renaming;

impl Convert for Renaming {
    fn convert(&self, object: &JsonObject, api_version: &str) -> Result<JsonObject, String> {
        let mut object = object.clone();
        object.insert("apiVersion".to_owned(), api_version.into());
        let Some(Value::Object(spec)) = object.get_mut("spec") else { return Ok(object) };
        let value = NAMES.iter().find_map(|(_, name)| spec.remove(*name));
        let (_, name) =
            NAMES.iter().find(|(version, _)| api_version.ends_with(version)).ok_or("no such version")?;
        if let Some(value) = value {
            spec.insert((*name).to_owned(), value);
        }
        Ok(object)
    }
}

fn kind() -> VersionedKind {
    let versions = NAMES.map(|(version, name)| {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            name: {"type": "integer"}, "color": {"type": "string"},
        }}}});
        let shapes = Arc::new(Shapes::of_custom_resource(Some(&schema)).unwrap());
        Version { api_version: format!("example.org/{version}"), shapes }
    });
    VersionedKind { name: "Thing".to_owned(), versions: versions.into() }
}

fn object(version: &str, spec: &Value) -> JsonObject {
    let object = json!({
        "apiVersion": format!("example.org/{version}"), "kind": "Thing", "metadata": {"name": "a"}, "spec": spec,
    });
    object.as_object().unwrap().clone()
}

/// Applies a configuration to an object, which is converted to its version first.
fn apply(
    live: Option<&JsonObject>,
    manager: &str,
    version: &str,
    spec: &Value,
) -> Result<JsonObject, ApplyError> {
    let api_version = format!("example.org/{version}");
    let request = Request {
        manager,
        api_version: &api_version,
        subresource: "",
        time: "2026-01-01T00:00:00Z",
        reset_fields: None,
        converter: Some(&Renaming),
    };
    let live = live.map(|live| Renaming.convert(live, &api_version).unwrap());
    let (kind, applied) = (kind(), object(version, spec));
    let plan = ownership::apply(live.as_ref(), &applied, &kind, &request, false)?;
    let mut object = plan.perform(live.unwrap_or_default());
    object["metadata"]["uid"] = "uid".into();
    Ok(object)
}

#[test]
fn conflict_is_found_under_the_name_of_the_owner() {
    let live = apply(None, "one", "v1", &json!({"size": 1})).unwrap();
    let refused = apply(Some(&live), "two", "v2", &json!({"length": 2})).unwrap_err();
    assert_eq!(refused.to_string(), "Apply failed with 1 conflict: conflict with \"one\": .spec.size");
    assert!(apply(Some(&live), "two", "v2", &json!({"length": 1})).is_ok());
}

#[test]
fn what_is_no_longer_applied_goes_under_its_other_name() {
    let live = apply(None, "one", "v1", &json!({"size": 1, "color": "red"})).unwrap();
    let live = apply(Some(&live), "two", "v1", &json!({"color": "red"})).unwrap();
    let live = apply(Some(&live), "one", "v2", &json!({})).unwrap();
    assert_eq!(live["spec"], json!({"color": "red"}));
}

#[test]
fn what_another_version_owns_stays() {
    let live = apply(None, "one", "v1", &json!({"size": 1})).unwrap();
    let live = apply(Some(&live), "two", "v2", &json!({"length": 1})).unwrap();
    let live = apply(Some(&live), "one", "v1", &json!({})).unwrap();
    assert_eq!(live["spec"], json!({"size": 1}));
}

/// A webhook that is down.
#[derive(Debug, Default)]
struct Down(AtomicUsize);

impl Convert for Down {
    fn convert(&self, _: &JsonObject, _: &str) -> Result<JsonObject, String> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Err("no answer".to_owned())
    }
}

#[test]
fn failed_conversion_is_not_tried_again_for_the_next_owner() {
    let live = apply(None, "one", "v1", &json!({"size": 1})).unwrap();
    let live = apply(Some(&live), "two", "v1", &json!({"size": 1})).unwrap();
    let live = Renaming.convert(&live, "example.org/v2").unwrap();
    let down = Down::default();
    let request = Request {
        manager: "three",
        api_version: "example.org/v2",
        subresource: "",
        time: "2026-01-01T00:00:00Z",
        reset_fields: None,
        converter: Some(&down),
    };
    let (kind, applied) = (kind(), object("v2", &json!({"length": 1})));
    let failed = ownership::apply(Some(&live), &applied, &kind, &request, false).unwrap_err();
    assert_eq!(failed.to_string(), "no answer");
    assert_eq!(down.0.into_inner(), 1);
}
