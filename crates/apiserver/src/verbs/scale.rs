//! The scale of an object: how many replicas it wants and has, as an object of its own.

use std::sync::LazyLock;

use ferroplane_golang::json::JsonObject;
use ferroplane_ownership as ownership;
use ferroplane_schema::builtin::{self, Scope};
use ferroplane_schema::field::{Error, Path};
use ferroplane_schema::status::{Resource, Status};
use ferroplane_schema::structural::Scale as Paths;
use ferroplane_schema::writes::{self, Builtin, Circumstances, Endpoint, Part, Proposal, Write, Written};
use serde_json::{Map, Value, json};

use super::beside_others::beside_others;
use super::view::View;
use super::write::ObjectLocation;
use crate::admission::Admission;

static BEHAVIOUR: LazyLock<Builtin> = LazyLock::new(|| {
    let row = builtin::Resource {
        group: "autoscaling",
        version: "v1",
        kind: "Scale",
        plural: "scales",
        singular: "scale",
        scope: Scope::Namespaced,
        verbs: Vec::new(),
        short_names: Vec::new(),
        categories: Vec::new(),
        storage: ("autoscaling", "v1"),
        subresources: Vec::new(),
    };
    Builtin::new(&row).expect("the tables have the kind, and a test scales")
});

/// The scale of an object in a version that has one.
pub(crate) fn scale_of(view: &View, object: &JsonObject) -> Result<Value, Status> {
    let Some(paths) = &view.version().scale else {
        return Err(Status::internal("the kind has no scale"));
    };
    let replicas = |path: &str| find(object, path).and_then(Value::as_i64).unwrap_or_default();
    let mut metadata = Map::new();
    for name in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.get("metadata").and_then(|metadata| metadata.get(name)) {
            metadata.insert(name.to_owned(), value.clone());
        }
    }
    let owners = translation(view, paths)
        .to_subresource(object.get("metadata").and_then(|metadata| metadata.get("managedFields")))
        .map_err(|error| Status::internal(&error))?;
    if let Some(owners) = owners {
        metadata.insert("managedFields".to_owned(), owners);
    }
    let mut status = Map::new();
    status.insert("replicas".to_owned(), replicas(&paths.status_replicas).into());
    if let Some(selector) = selector(object, paths) {
        status.insert("selector".to_owned(), selector.into());
    }
    let mut spec = Map::new();
    let wanted = replicas(&paths.spec_replicas);
    if wanted != 0 {
        spec.insert("replicas".to_owned(), wanted.into());
    }
    Ok(json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status,
    }))
}

/// What a write to the scale makes of the object.
pub(super) async fn write(
    location: &ObjectLocation,
    admission: &Admission<'_>,
    write: Write<'_>,
    live: Option<&Value>,
    circumstances: &Circumstances<'_>,
) -> Result<Written, Status> {
    let Some(Value::Object(object)) = live else {
        return Err(Status::not_found(&location.view.resource.identity, &location.name));
    };
    let scale = scale_of(&location.view, object)?;
    let endpoint = Endpoint {
        behaviour: &*BEHAVIOUR,
        resource: &location.view.resource.identity,
        part: Part::Scale,
        namespace: &location.namespace,
        name: &location.name,
    };
    // The scale is written as if it were an object of its own, and then the object that it is a part of: webhooks see a Scale, as
    // with kube-apiserver, and the object is validated all the same.
    let proposal = writes::propose(&endpoint, write, Some(&scale), circumstances)?;
    let proposal = admission.mutate(location, proposal, Some(&scale)).await?;
    let mut scaled = writes::settle(&endpoint, proposal, Some(&scale), circumstances)?;
    admission.validate(location, &mut scaled, Some(&scale)).await?;
    let object = with_scale(&location.view, object.clone(), &scaled.object)?;
    let proposal = Proposal::of(object, scaled.warnings);
    let endpoint = Endpoint { part: Part::Whole, ..location.endpoint() };
    let settle = || writes::settle(&endpoint, proposal, live, circumstances);
    beside_others(location.checking_effort(0), settle)
}

fn with_scale(view: &View, mut object: JsonObject, scale: &JsonObject) -> Result<JsonObject, Status> {
    let Some(paths) = &view.version().scale else {
        return Err(Status::internal("the kind has no scale"));
    };
    let wanted = scale.get("spec").and_then(|spec| spec.get("replicas")).and_then(Value::as_i64);
    if wanted.is_some_and(|wanted| wanted < 0) {
        return Err(negative(view, super::metadata_text(&object, "name"), wanted.unwrap_or_default()));
    }
    put(&mut object, &paths.spec_replicas, wanted.unwrap_or_default().into());
    let owners = |object: &JsonObject| {
        object.get("metadata").and_then(|metadata| metadata.get("managedFields")).cloned()
    };
    let merged = translation(view, paths)
        .to_parent(owners(&object).as_ref(), owners(scale).as_ref())
        .map_err(|error| Status::internal(&error))?;
    if let (Some(Value::Object(metadata)), Some(merged)) = (object.get_mut("metadata"), merged) {
        metadata.insert("managedFields".to_owned(), merged);
    }
    Ok(object)
}

/// What says that there cannot be less than nothing.
fn negative(view: &View, name: &str, wanted: i64) -> Status {
    let (root, words, kind) = if view.is_custom() {
        let kind = Resource::new(&view.resource.group, &view.resource.names.kind);
        (".spec", "should be a non-negative integer", kind)
    } else {
        ("spec", "must be greater than or equal to 0", Resource::new("autoscaling", "Scale"))
    };
    let error = Error::invalid(&Path::new(root).child("replicas"), wanted, words);
    Status::invalid(&kind, name, &[error])
}

fn translation(view: &View, paths: &Paths) -> ownership::Scale {
    let steps = |path: &str| steps(path).map(str::to_owned).collect::<Vec<_>>();
    let versions = view.resource.versions.iter().map(|version| {
        let path = version.scale.as_ref().map(|paths| steps(&paths.spec_replicas));
        (version.behaviour.api_version().to_owned(), path)
    });
    let api_version = view.version().behaviour.api_version().to_owned();
    let mut replicas: std::collections::BTreeMap<_, _> = versions.collect();
    replicas.insert(api_version.clone(), Some(steps(&paths.spec_replicas)));
    ownership::Scale { api_version, replicas }
}

fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.trim_start_matches('.').split('.')
}

fn find<'o>(object: &'o JsonObject, path: &str) -> Option<&'o Value> {
    let mut steps = steps(path);
    let first = object.get(steps.next()?)?;
    steps.try_fold(first, |value, step| value.get(step))
}

fn put(object: &mut JsonObject, path: &str, value: Value) {
    let mut steps = steps(path).peekable();
    let mut fields = object;
    while let Some(step) = steps.next() {
        if steps.peek().is_none() {
            fields.insert(step.to_owned(), value);
            return;
        }
        let next = fields.entry(step).or_insert_with(|| json!({}));
        let Value::Object(next) = next else { return };
        fields = next;
    }
}

/// The selector as text: custom resources have it as such, others as an object.
fn selector(object: &JsonObject, paths: &Paths) -> Option<String> {
    if let Some(path) = &paths.label_selector
        && let Some(text) = find(object, path).and_then(Value::as_str)
    {
        return Some(text.to_owned());
    }
    let labels = find(object, ".spec.selector.matchLabels")?.as_object()?;
    let pairs = labels.iter().filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
    Some(pairs.collect::<Vec<_>>().join(","))
}
