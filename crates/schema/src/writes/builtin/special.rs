//! What some kinds do that no other does.
//!
//! Follows Kubernetes 1.36.4, `pkg/registry`.

mod ephemeral_containers;
mod events;
mod workloads;

use ferroplane_golang::json::JsonObject;
use serde_json::{Value, json};

use super::super::metadata_text;
use crate::builtin::autoscalers;
use crate::field::{Error, Path};
use crate::services;
use crate::structural::crd::{self, Definition};

pub(super) use ephemeral_containers::{check_ephemeral_containers, keep_all_but_ephemeral_containers};

/// Kinds with ways of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Special {
    None,
    Namespace,
    Definition,
    Event,
    Job,
    Node,
    Pod,
    /// Says who may decide what is written.
    Admission,
    Autoscaler,
    Service,
}

impl Special {
    pub(super) fn of(group: &str, kind: &str) -> Self {
        match (group, kind) {
            ("", "Namespace") => Self::Namespace,
            ("apiextensions.k8s.io", "CustomResourceDefinition") => Self::Definition,
            ("" | "events.k8s.io", "Event") => Self::Event,
            ("batch", "Job") => Self::Job,
            ("", "Node") => Self::Node,
            ("", "Pod") => Self::Pod,
            ("admissionregistration.k8s.io", _) => Self::Admission,
            ("autoscaling", "HorizontalPodAutoscaler") => Self::Autoscaler,
            ("", "Service") => Self::Service,
            _ => Self::None,
        }
    }

    /// Group and version of all forms that objects have, if there are several.
    pub(super) fn forms(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Event => &[("", "v1"), ("events.k8s.io", "v1")],
            Self::Autoscaler => &[("autoscaling", "v1"), ("autoscaling", "v2")],
            _ => &[],
        }
    }
}

pub(super) fn prepare_create(special: Special, object: &mut JsonObject) {
    match special {
        Special::Namespace => hold_namespace(object),
        Special::Definition => note_stored_version(object),
        Special::Job => workloads::select_own_pods(object),
        Special::Service => services::drop_unread(object),
        Special::Pod => workloads::await_a_node(object),
        Special::Event | Special::Admission | Special::Autoscaler | Special::Node | Special::None => {}
    }
}

/// Makes of an object in another version one of this version.
pub(super) fn convert(special: Special, object: &mut JsonObject, api_version: &str) {
    match special {
        Special::Event => events::convert(object, api_version),
        Special::Autoscaler => autoscalers::convert(object, api_version),
        _ => {}
    }
}

/// What reading an object into a form that all versions share, and writing it again, does to it.
pub(super) fn normalise(special: Special, object: &mut JsonObject, api_version: &str) {
    if special == Special::Autoscaler {
        // There and back: what v1 keeps in annotations is dropped by the way through v2, as Kubernetes'
        // internal version does it.
        if api_version == "autoscaling/v1" {
            autoscalers::convert(object, "autoscaling/v2");
        }
        autoscalers::drop_annotations(object);
        if api_version == "autoscaling/v1" {
            autoscalers::convert(object, api_version);
        }
    }
}

pub(super) fn prepare_update(special: Special, object: &mut JsonObject, old: &JsonObject) {
    match special {
        // Who may take the finalizers away does so by a subresource.
        Special::Namespace => {
            let finalizers = old.get("spec").and_then(|spec| spec.get("finalizers")).cloned();
            let spec = object.entry("spec").or_insert_with(|| json!({}));
            match (finalizers, spec) {
                (Some(finalizers), spec) => spec["finalizers"] = finalizers,
                (None, Value::Object(spec)) => drop(spec.remove("finalizers")),
                _ => {}
            }
        }
        Special::Definition => note_stored_version(object),
        Special::Service => {
            services::drop_for_type(object, old);
            services::drop_unread(object);
        }
        Special::Event
        | Special::Job
        | Special::Node
        | Special::Pod
        | Special::Admission
        | Special::Autoscaler
        | Special::None => {}
    }
}

/// What a client should be told about an object that is fine.
pub(super) fn warnings(special: Special, object: &JsonObject) -> Vec<String> {
    match special {
        Special::Admission => reserved_name(object).into_iter().collect(),
        Special::Service => services::warnings(object),
        _ => Vec::new(),
    }
}

fn reserved_name(object: &JsonObject) -> Option<String> {
    const RESERVED: &str = ".static.k8s.io";
    let is_reserved = metadata_text(object, "name").ends_with(RESERVED);
    let words = format!(
        "metadata.name: names ending with {RESERVED:?} are reserved for static manifest-based configurations and cannot be \
         managed via the API"
    );
    is_reserved.then_some(words)
}

/// A namespace stays until everything in it is gone.
fn hold_namespace(object: &mut JsonObject) {
    let spec = object.entry("spec").or_insert_with(|| json!({}));
    spec["finalizers"] = json!(["kubernetes"]);
    let status = object.entry("status").or_insert_with(|| json!({}));
    status["phase"] = "Active".into();
}

/// Objects may be stored in every version that ever was the one to be stored.
fn note_stored_version(object: &mut JsonObject) {
    let versions = object.get("spec").and_then(|spec| spec.get("versions")).and_then(Value::as_array);
    let stored = versions.into_iter().flatten().find(|version| version["storage"] == true);
    let Some(name) = stored.and_then(|version| version["name"].as_str()).map(str::to_owned) else { return };
    let status = object.entry("status").or_insert_with(|| json!({}));
    if !status["storedVersions"].is_array() {
        status["storedVersions"] = json!([]);
    }
    if let Some(versions) = status["storedVersions"].as_array_mut()
        && !versions.iter().any(|version| *version == name)
    {
        versions.push(name.into());
    }
}

/// What is wrong with a new object of a kind that has its own rules for everything.
pub(super) fn check(special: Special, object: &Value) -> Option<Vec<Error>> {
    (special == Special::Definition)
        .then(|| definition(object).map_or_else(|error| vec![error], |it| crd::validate(&it)))
}

/// What is wrong with a changed definition, if it is one.
pub(super) fn check_update(special: Special, object: &Value, old: &Value) -> Option<Vec<Error>> {
    (special == Special::Definition).then(|| match (definition(object), definition(old)) {
        (Ok(new), Ok(old)) => crd::validate_update(&new, &old),
        (Err(error), _) | (_, Err(error)) => vec![error],
    })
}

fn definition(object: &Value) -> Result<Definition, Error> {
    let empty = JsonObject::new();
    Definition::decode(object.as_object().unwrap_or(&empty))
        .map_err(|error| Error::invalid(&Path::new("spec"), &Value::Null, error.to_string()))
}
