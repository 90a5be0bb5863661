//! What the templates printed, and what becomes of it.

use std::collections::BTreeMap;

use bytes::Bytes;
use ferroplane_golang::strconv::quote;
use ferroplane_golang::time::rfc3339;
use ferroplane_golang::yaml::{DocumentError, Documents};
use ferroplane_golang::{base64, json};
use ferroplane_wire::v1::{
    Condition, MatchLabels, Ready, Requirements, Resource, ResourceSelector, Resources, RunFunctionRequest,
    RunFunctionResponse, Status, Target, resource_selector,
};
use ferroplane_wire::{State, Struct};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::release::Release;
use crate::response;

/// The annotation that names a composed resource.
pub(super) const RESOURCE_NAME: &str = "gotemplating.fn.crossplane.io/composition-resource-name";
const READY: &str = "gotemplating.fn.crossplane.io/ready";
/// The documents of this version say something about the composite resource.
pub(super) const META: &str = "meta.gotemplating.fn.crossplane.io/v1alpha1";
/// Where extra resources are in the context.
pub(super) const EXTRA_RESOURCES: &str = "apiextensions.crossplane.io/extra-resources";
/// So much of a bad line is shown.
const SHOWN: usize = 80;

type Object = Map<String, Value>;

/// An object that the templates printed.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) object: Object,
    /// The line of the output in which it begins, from one.
    pub(super) line: usize,
}

/// Why an output cannot be used, and the line of it that is to blame.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) message: String,
    pub(super) line: Option<usize>,
}

impl From<String> for Fault {
    fn from(message: String) -> Self {
        Self { message, line: None }
    }
}

/// The objects that a text consists of.
pub(super) fn read(text: &str, release: Release) -> Result<Vec<Document>, Fault> {
    let mut found = Vec::new();
    for document in Documents::new(text) {
        let document = document.map_err(|error| {
            let message =
                format!("cannot decode manifest: {}", described(&error, text, found.len(), release));
            Fault { message, line: Some(error.line + error.line_in_document.unwrap_or(1) - 1) }
        })?;
        let line = document.line;
        let fault = |message| Fault { message, line: Some(line) };
        match document.value {
            Value::Null => {}
            Value::Object(object) => {
                found.push(Document { object: checked(object, release).map_err(fault)?, line });
            }
            other => {
                let kind = kind_of(&other);
                return Err(fault(format!(
                    "cannot decode manifest: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
                )));
            }
        }
    }
    Ok(found)
}

/// What is wrong with a document, and where.
fn described(error: &DocumentError, text: &str, before: usize, release: Release) -> String {
    let Some(at) = error.line_in_document.filter(|_| release.shows_bad_lines()) else {
        return error.message.clone();
    };
    // The original counts from the separator, and is often wrong by some lines; this is where it is.
    let line = error.line + at - 1;
    let near = text.lines().nth(line - 1).unwrap_or_default().trim();
    let shown: String = near.chars().take(SHOWN).collect();
    let dots = if shown.len() < near.len() { "..." } else { "" };
    let (document, reason) = (before + 1, &error.reason);
    format!(
        "error converting YAML to JSON: yaml: line {line} (document {document}, line {at}) near: '{shown}{dots}': {reason}"
    )
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        _ => "number",
    }
}

fn checked(object: Object, release: Release) -> Result<Object, String> {
    if text(&object, "kind").is_empty() {
        let body = json::marshal(&Value::Object(object));
        return Err(format!(
            "cannot decode manifest: error unmarshaling JSON: while decoding JSON: Object 'Kind' is missing in '{body}'"
        ));
    }
    match annotation_fault(&object).filter(|_| release.checks_annotations()) {
        None => Ok(object),
        Some(fault) => {
            let name =
                annotations(&object).and_then(|all| all.get(RESOURCE_NAME)).map_or("<nil>".to_owned(), shown);
            Err(format!("invalid annotations in resource '{} resource-name={name}': {fault}", kind(&object)))
        }
    }
}

fn text<'o>(object: &'o Object, field: &str) -> &'o str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn annotations(object: &Object) -> Option<&Object> {
    object.get("metadata")?.get("annotations")?.as_object()
}

fn annotation_fault(object: &Object) -> Option<String> {
    const FAULT: &str = ".metadata.annotations accessor error:";
    let no_map = |value: &Value| {
        let (value, type_name) = (shown(value), go_type(value));
        format!("{FAULT} {value} is of the type {type_name}, expected map[string]interface{{}}")
    };
    let metadata = object.get("metadata")?;
    let annotations = match metadata {
        Value::Null => return None,
        Value::Object(metadata) => metadata.get("annotations")?,
        other => return Some(no_map(other)),
    };
    let Some(annotations) = annotations.as_object() else { return Some(no_map(annotations)) };
    let (key, value) = annotations.iter().find(|(_, value)| !value.is_string())?;
    let (key, value, type_name) = (quote(key), shown(value), go_type(value));
    Some(format!(
        "{FAULT} contains non-string value in the map under key {key}: {value} is of the type {type_name}, expected string"
    ))
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Group, version and kind as Go prints them.
fn kind(object: &Object) -> String {
    let (group, version) =
        text(object, "apiVersion").split_once('/').unwrap_or(("", text(object, "apiVersion")));
    format!("{group}/{version}, Kind={}", text(object, "kind"))
}

/// An annotation, if all of them are text.
fn annotation<'o>(object: &'o Object, key: &str) -> Option<&'o str> {
    let all = annotations(object)?;
    all.values().all(Value::is_string).then(|| all.get(key)?.as_str())?
}

fn remove_annotation(object: &mut Object, key: &str) {
    let all = object.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
    if let Some(all) = all.and_then(Value::as_object_mut) {
        all.remove(key);
    }
}

/// What the documents add up to.
struct Composition<'r> {
    request: &'r RunFunctionRequest,
    release: Release,
    /// The composite resource, as it is observed.
    xr: &'r Object,
    desired_xr: Object,
    details: BTreeMap<String, Bytes>,
    ready: i32,
    desired: BTreeMap<String, Resource>,
    requirements: Requirements,
}

/// Makes desired resources and the rest of the answer from the documents.
pub(super) fn apply(
    documents: Vec<Document>,
    request: &RunFunctionRequest,
    release: Release,
    response: &mut RunFunctionResponse,
) -> Result<(), Fault> {
    let nothing = Object::new();
    let mut composition = Composition::observe(request, release, &nothing)?;
    for Document { object, line } in documents {
        composition.take(object, response).map_err(|message| Fault { message, line: Some(line) })?;
    }
    Ok(composition.answer(response)?)
}

impl<'r> Composition<'r> {
    fn observe(
        request: &'r RunFunctionRequest,
        release: Release,
        nothing: &'r Object,
    ) -> Result<Self, String> {
        let object = |state: Option<&'r State>, which: &str| {
            let resource = state.and_then(State::composite).and_then(|xr| xr.resource.as_ref());
            let json = resource.map(Struct::json).transpose();
            json.map_err(|error| format!("cannot get {which} composite resource: {error}"))
        };
        let (desired, observed) = (request.desired.as_ref(), request.observed.as_ref());
        let desired_xr = object(desired, "desired")?.cloned().unwrap_or_default();
        let composite = desired.and_then(State::composite);
        Ok(Self {
            request,
            release,
            xr: object(observed, "observed")?.unwrap_or(nothing),
            desired_xr,
            details: composite.map(|xr| xr.connection_details.clone()).unwrap_or_default(),
            // The original forgets what earlier steps say of it.
            ready: Ready::Unspecified.into(),
            desired: desired.map(|state| state.resources().clone()).unwrap_or_default(),
            requirements: Requirements::default(),
        })
    }

    fn take(&mut self, mut object: Object, response: &mut RunFunctionResponse) -> Result<(), String> {
        let is_meta = text(&object, "apiVersion") == META;
        let name = annotation(&object, RESOURCE_NAME).map(str::to_owned);
        let is_xr = ["apiVersion", "kind"].iter().all(|field| text(&object, field) == text(self.xr, field))
            // A composite resource may compose others of its own kind; the name tells them apart.
            && !(name.is_some() && self.release.composes_its_own_kind());
        let may_be_ready = !is_meta && (!is_xr || self.release.tells_readiness_of_the_composite());
        let ready = if may_be_ready { ready(&object)? } else { None };
        if is_xr {
            self.ready = ready.map_or(self.ready, Into::into);
            return self.set_status(&object);
        }
        if is_meta {
            return self.take_meta(&object, response);
        }
        let Some(name) = name else {
            let kind = quote(text(&object, "kind"));
            return Err(format!("{kind} template is missing required {} annotation", quote(RESOURCE_NAME)));
        };
        remove_annotation(&mut object, READY);
        remove_annotation(&mut object, RESOURCE_NAME);
        let resource = Struct::try_from(object).map_err(|error| error.to_string())?;
        let ready = ready.unwrap_or(Ready::Unspecified).into();
        self.desired.insert(name, Resource { resource: Some(resource), ready, ..Resource::default() });
        Ok(())
    }

    fn set_status(&mut self, object: &Object) -> Result<(), String> {
        let of = |object: &Object, which: &str| match object.get("status") {
            None => Ok(None),
            Some(Value::Null) => Ok(Some(Object::new())),
            Some(Value::Object(status)) => Ok(Some(status.clone())),
            Some(other) => Err(format!(
                "cannot get {which} composite status: cannot unmarshal value from JSON: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                kind_of(other)
            )),
        };
        let (old, new) = (of(&self.desired_xr, "desired")?, of(object, "templated")?);
        if old.is_none() && new.is_none() && self.release.leaves_out_an_empty_status() {
            return Ok(());
        }
        let mut status = old.unwrap_or_default();
        merge(&mut status, new.unwrap_or_default());
        self.desired_xr.insert("status".to_owned(), Value::Object(status));
        Ok(())
    }

    fn take_meta(&mut self, object: &Object, response: &mut RunFunctionResponse) -> Result<(), String> {
        let kind = text(object, "kind");
        if !self.release.has_kind(kind) {
            let (kind, version, kinds) = (quote(kind), quote(META), self.release.kinds());
            return Err(format!("invalid kind {kind} for apiVersion {version} - {kinds}"));
        }
        match kind {
            "CompositeConnectionDetails" => self.add_details(object),
            "ClaimConditions" => return add_conditions(object, response),
            "Context" => return self.set_context(object, response),
            _ => return self.require(object),
        }
        Ok(())
    }

    fn add_details(&mut self, object: &Object) {
        let data = object.get("data").and_then(Value::as_object);
        // One value that is not text makes the original see none of them.
        let Some(data) = data.filter(|data| data.values().all(Value::is_string)) else { return };
        for (key, value) in data {
            let text = value.as_str().unwrap_or_default().as_bytes();
            // What is no base64 counts up to the place where it is wrong.
            let bytes = base64::decode(text)
                .or_else(|at| base64::decode(&text[..at.min(text.len()) / 4 * 4]))
                .unwrap_or_default();
            self.details.insert(key.clone(), bytes.into());
        }
    }

    fn set_context(&self, object: &Object, response: &mut RunFunctionResponse) -> Result<(), String> {
        let data: Object =
            field(object, "data").map_err(|error| format!("cannot get Contexts from input: {error}"))?;
        let context = shared_context(self.request, response)
            .map_err(|error| format!("cannot merge Context: {error}"))?;
        let mut context = context.cloned().unwrap_or_default();
        merge(&mut context, data);
        // All of the context is set, not only what is new, as the original does.
        for (key, value) in context {
            response::set_context(response, &key, value)
                .map_err(|error| format!("cannot convert value to structpb.Value: {error}"))?;
        }
        Ok(())
    }

    fn require(&mut self, object: &Object) -> Result<(), String> {
        let wanted: BTreeMap<String, Nullable<Requirement>> = field(object, "requirements")
            .map_err(|error| format!("cannot get extra resources requirements: {error}"))?;
        for (name, Nullable(requirement)) in wanted {
            if self.requirements.extra_resources.contains_key(&name) {
                return Err(format!("duplicate extra resource key {}", quote(&name)));
            }
            let is_anywhere = requirement.namespace.0.is_empty();
            let selector = requirement.into_selector(self.release);
            if self.release.knows_required_resources() {
                self.requirements.resources.insert(name.clone(), selector.clone());
            }
            if is_anywhere || !self.release.knows_required_resources() {
                self.requirements.extra_resources.insert(name, selector);
            }
        }
        Ok(())
    }

    fn answer(mut self, response: &mut RunFunctionResponse) -> Result<(), String> {
        for resource in self.desired.values_mut() {
            if !response::is_plain(resource) {
                response::make_plain(resource);
            }
        }
        let resource = Struct::try_from(std::mem::take(&mut self.desired_xr))
            .map_err(|error| format!("cannot set desired composite resource: {error}"))?;
        let composite =
            Resource { resource: Some(resource), connection_details: self.details, ready: self.ready };
        response.desired = Some(State::new(Some(composite), self.desired));
        if !self.requirements.extra_resources.is_empty() || !self.requirements.resources.is_empty() {
            response.requirements = Some(self.requirements);
        }
        if self.release.knows_required_resources() {
            keep_in_context(self.request, &self.request.extra_resources, response)?;
            // Last, because it replaces what the line before has put there if the request has no context: what is
            // required includes what is asked for as extra (`require`).
            keep_in_context(self.request, &self.request.required_resources, response)?;
        }
        Ok(())
    }
}

fn ready(object: &Object) -> Result<Option<Ready>, String> {
    Ok(match annotation(object, READY) {
        None => None,
        Some("True") => Some(Ready::True),
        Some("False") => Some(Ready::False),
        Some("Unspecified") => Some(Ready::Unspecified),
        Some(other) => {
            return Err(format!(
                "invalid function input: invalid {} annotation value {}: must be True, False, or Unspecified",
                quote(READY),
                quote(other)
            ));
        }
    })
}

/// Puts the one into the other. Maps are merged; everything else is replaced, by what is empty, too.
fn merge(into: &mut Object, from: Object) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(into)), Value::Object(from)) => merge(into, from),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

fn field<T: Default + for<'de> Deserialize<'de>>(object: &Object, name: &str) -> Result<T, String> {
    let value = object.get(name).ok_or_else(|| format!("{name}: no such field"))?;
    let read =
        Nullable::deserialize(value).map_err(|error| format!("cannot unmarshal value from JSON: {error}"))?;
    Ok(read.0)
}

/// A value that may be null, as every value in Go's JSON: then it is what it is without the field.
#[derive(Debug, Default)]
struct Nullable<T>(T);

impl<'de, T: Default + Deserialize<'de>> Deserialize<'de> for Nullable<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Option::deserialize(deserializer)?.unwrap_or_default()))
    }
}

type Text = Nullable<String>;

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Requirement {
    api_version: Text,
    kind: Text,
    match_labels: Option<BTreeMap<String, Text>>,
    match_name: Text,
    namespace: Text,
}

impl Requirement {
    fn into_selector(self, release: Release) -> ResourceSelector {
        let selector = ResourceSelector {
            api_version: self.api_version.0,
            kind: self.kind.0,
            ..ResourceSelector::default()
        };
        let Nullable(match_name) = self.match_name;
        if match_name.is_empty() {
            let labels = self.match_labels.unwrap_or_default().into_iter();
            let labels = MatchLabels { labels: labels.map(|(key, Nullable(value))| (key, value)).collect() };
            // The original forgets the namespace here.
            return ResourceSelector {
                r#match: Some(resource_selector::Match::MatchLabels(labels)),
                ..selector
            };
        }
        ResourceSelector {
            r#match: Some(resource_selector::Match::MatchName(match_name)),
            namespace: Some(self.namespace.0)
                .filter(|namespace| !namespace.is_empty() && release.knows_required_resources()),
            ..selector
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TargetedCondition {
    r#type: Text,
    status: Text,
    reason: Text,
    message: Text,
    target: Text,
    /// These two have no effect, but have to be what they say.
    #[serde(rename = "lastTransitionTime")]
    _last_transition_time: Option<Time>,
    #[serde(rename = "observedGeneration")]
    _observed_generation: Option<i64>,
}

/// A time as Kubernetes writes it.
#[derive(Debug)]
struct Time;

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        rfc3339::parse(&text).map(|_| Self).map_err(serde::de::Error::custom)
    }
}

fn add_conditions(object: &Object, response: &mut RunFunctionResponse) -> Result<(), String> {
    let conditions: Vec<Nullable<TargetedCondition>> =
        field(object, "conditions").map_err(|error| format!("cannot get Conditions from input: {error}"))?;
    for Nullable(condition) in conditions {
        if ["Ready", "Synced", "Healthy"].contains(&&*condition.r#type.0) {
            let name = condition.r#type.0;
            return Err(format!("cannot set ClaimCondition type: {name} is a reserved Crossplane Condition"));
        }
        let status = match &*condition.status.0 {
            "True" => Status::ConditionTrue,
            "False" => Status::ConditionFalse,
            _ => Status::ConditionUnknown,
        };
        let target = match &*condition.target.0 {
            "CompositeAndClaim" => Target::CompositeAndClaim,
            _ => Target::Composite,
        };
        response.conditions.push(Condition {
            r#type: condition.r#type.0,
            status: status.into(),
            reason: condition.reason.0,
            message: Some(condition.message.0).filter(|message| !message.is_empty()),
            target: Some(target.into()),
        });
    }
    Ok(())
}

/// The context that documents change. In the original, request and response share it, unless the request has none: what
/// one document sets is there for the next one.
fn shared_context<'r>(
    request: &'r RunFunctionRequest,
    response: &'r RunFunctionResponse,
) -> Result<Option<&'r Object>, String> {
    let read = |context: &'r Struct| context.json().map_err(|error| error.to_string());
    let of_request = request.context.as_ref().map(read).transpose()?;
    match of_request {
        Some(context) if !context.is_empty() => response.context.as_ref().map(read).transpose(),
        _ => Ok(None),
    }
}

/// Later steps find extra resources in the context.
fn keep_in_context(
    request: &RunFunctionRequest,
    brought: &BTreeMap<String, Resources>,
    response: &mut RunFunctionResponse,
) -> Result<(), String> {
    if brought.is_empty() {
        return Ok(());
    }
    let wrong = |error: String| format!("cannot get merge extra resources to content: {error}");
    let context = shared_context(request, response).map_err(wrong)?;
    let before = context.and_then(|context| context.get(EXTRA_RESOURCES)).and_then(Value::as_object);
    let mut kept = before.cloned().unwrap_or_default();
    for (name, resources) in brought {
        let items = resources.items.iter().map(|item| kept_resource(item).map_err(wrong));
        let items: Vec<_> = items.collect::<Result<_, String>>()?;
        let entries = (!items.is_empty()).then(|| ("items".to_owned(), Value::Array(items)));
        kept.insert(name.clone(), Value::Object(entries.into_iter().collect()));
    }
    response::set_context(response, EXTRA_RESOURCES, Value::Object(kept))
        .map_err(|error| wrong(error.to_string()))
}

/// A resource as Go writes the message of the protocol: fields with the names of the protocol, enums as numbers, and nothing that
/// is empty.
fn kept_resource(resource: &Resource) -> Result<Value, String> {
    let Resource { resource, connection_details, ready } = resource;
    let mut kept = Object::new();
    if let Some(object) = resource {
        let object = object.json().map_err(|error| error.to_string())?;
        kept.insert("resource".to_owned(), Value::Object(object.clone()));
    }
    if !connection_details.is_empty() {
        let details = connection_details.iter();
        let details = details.map(|(key, detail)| (key.clone(), Value::String(base64::encode(detail))));
        kept.insert("connection_details".to_owned(), Value::Object(details.collect()));
    }
    if *ready != 0 {
        kept.insert("ready".to_owned(), Value::from(*ready));
    }
    Ok(Value::Object(kept))
}
