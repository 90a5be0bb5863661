//! The `ResourceList` of the alpha design of composition functions.

use std::collections::BTreeMap;

use ferroplane_wire::v1::{
    Resource, ResponseMeta, Result as FunctionResult, RunFunctionRequest, RunFunctionResponse, Severity,
    Target,
};
use ferroplane_wire::{State, Struct, StructError};
use serde_json::{Map, Value, json};

use super::ExchangeError;
use super::items::{self, Item};

/// The design writes the first, and answers with the second.
const API_VERSIONS: [&str; 2] =
    ["fn.apiextensions.crossplane.io/v1", "fn.apiextensions.crossplane.io/v1alpha1"];
/// For how long an answer holds, since a list cannot say. The alpha release called functions about that often.
const TTL_SECONDS: i64 = 60;

/// The items that a program is given, and what they were made of.
pub(super) struct Sent {
    pub(super) composite: Item,
    pub(super) composed: BTreeMap<String, Item>,
}

impl Sent {
    pub(super) fn of(request: &RunFunctionRequest, sees_unwanted: bool) -> Result<Self, StructError> {
        let observed = request.observed.as_ref();
        let composite = observed.and_then(|state| state.composite()?.resource.as_ref());
        let composite = composite.map(Struct::json).transpose()?.cloned().unwrap_or_default();
        let desired = request.desired.as_ref();
        let composite = items::composite_item(&composite, desired.and_then(State::composite));
        let mut composed = BTreeMap::new();
        for (name, resource) in desired.into_iter().flat_map(State::resources) {
            let wanted = object(resource)?.cloned().unwrap_or_default();
            let exists = observed.and_then(|state| state.resources().get(name));
            let exists = exists.map(object).transpose()?.flatten();
            composed.insert(name.clone(), items::wanted_item(name, &wanted, resource.ready, exists));
        }
        for (name, resource) in observed.into_iter().flat_map(State::resources).filter(|_| sees_unwanted) {
            if let (false, Some(object)) = (composed.contains_key(name), object(resource)?) {
                composed.insert(name.clone(), items::unwanted_item(name, object));
            }
        }
        Ok(Self { composite, composed })
    }

    /// The kind of the composite resource, as errors say it.
    fn kind(&self) -> String {
        items::describe(&self.composite)
    }
}

pub(super) fn encode(request: &RunFunctionRequest, sees_unwanted: bool) -> Result<Value, StructError> {
    let sent = Sent::of(request, sees_unwanted)?;
    let connection = connection_items(request);
    let items = std::iter::once(sent.composite).chain(sent.composed.into_values()).chain(connection);
    envelope(API_VERSIONS[0], request, &items.collect::<Vec<_>>())
}

pub(super) fn envelope(
    api_version: &str,
    request: &RunFunctionRequest,
    items: &[Item],
) -> Result<Value, StructError> {
    let mut list = json!({"apiVersion": api_version, "kind": "ResourceList", "items": items});
    if let Some(config) = &request.input {
        list["functionConfig"] = Value::Object(config.json()?.clone());
    }
    Ok(list)
}

/// What is known of how to connect to composed resources, and what earlier steps tell users of the composite resource.
fn connection_items(request: &RunFunctionRequest) -> Vec<Item> {
    let mut connection = Vec::new();
    for (name, resource) in request.observed.iter().flat_map(State::resources) {
        if !resource.connection_details.is_empty() {
            connection.push(items::connection_item(Some(name), &resource.connection_details));
        }
    }
    let desired = request.desired.as_ref().and_then(State::composite);
    if let Some(desired) = desired.filter(|desired| !desired.connection_details.is_empty()) {
        connection.push(items::connection_item(None, &desired.connection_details));
    }
    connection
}

pub(super) fn decode(
    request: &RunFunctionRequest,
    sees_unwanted: bool,
    answer: Value,
) -> Result<RunFunctionResponse, ExchangeError> {
    let sent = Sent::of(request, sees_unwanted)?;
    let unnamed = |_: &Item| {
        Err(format!("it has no annotation `{}`, which says which composed resource it is", items::NAME))
    };
    read(request, &sent, answer, &API_VERSIONS, &unnamed)
}

/// What a list means. `name` names items without a name of their own.
pub(super) fn read(
    request: &RunFunctionRequest,
    sent: &Sent,
    answer: Value,
    api_versions: &[&str],
    name: &dyn Fn(&Item) -> Result<String, String>,
) -> Result<RunFunctionResponse, ExchangeError> {
    let results = results(&answer)?;
    let mut returned = Returned::default();
    for (index, item) in items_of(answer, api_versions)?.into_iter().enumerate() {
        returned.take(item, sent, request, name).map_err(|problem| ExchangeError::Item { index, problem })?;
    }
    // A list that brings nothing but bad news need not be complete: nothing is done with it.
    let is_fatal = results.iter().any(|result| result.severity == i32::from(Severity::Fatal));
    let earlier = request.desired.as_ref();
    let desired = if returned.has_composite {
        State::new(returned.take_composite(), returned.composed)
    } else if is_fatal {
        earlier.cloned().unwrap_or_default()
    } else {
        return Err(ExchangeError::NoComposite { kind: sent.kind() });
    };
    let tag = request.meta.as_ref().map(|meta| meta.tag.clone()).unwrap_or_default();
    let ttl = Some(prost_types::Duration { seconds: TTL_SECONDS, nanos: 0 });
    Ok(RunFunctionResponse {
        meta: Some(ResponseMeta { tag, ttl }),
        desired: Some(desired),
        context: request.context.clone(),
        results,
        ..RunFunctionResponse::default()
    })
}

/// What was in a list.
#[derive(Default)]
struct Returned {
    has_composite: bool,
    composite: Option<Resource>,
    composed: BTreeMap<String, Resource>,
    connection: Option<BTreeMap<String, bytes::Bytes>>,
}

impl Returned {
    fn take(
        &mut self,
        item: Item,
        sent: &Sent,
        request: &RunFunctionRequest,
        name: &dyn Fn(&Item) -> Result<String, String>,
    ) -> Result<(), String> {
        let earlier = request.desired.as_ref();
        let what = items::describe(&item);
        let of = |problem: String| format!("{what}: {problem}");
        match items::annotation(&item, items::TYPE) {
            Some(items::COMPOSITE) => {
                if std::mem::replace(&mut self.has_composite, true) {
                    return Err(of("there is a second composite resource".to_owned()));
                }
                check_same(&item, &sent.composite).map_err(of)?;
                let composite =
                    items::composite_resource(item, earlier.and_then(State::composite)).map_err(of)?;
                self.composite = composite;
            }
            Some(items::CONNECTION) => {
                // Those of composed resources are there to be read.
                if items::annotation(&item, items::NAME).is_none() {
                    self.connection = Some(items::connection_details(&item).map_err(of)?);
                }
            }
            None | Some(items::COMPOSED) => {
                let name = match items::annotation(&item, items::NAME) {
                    Some("") | None => name(&item).map_err(of)?,
                    Some(name) => name.to_owned(),
                };
                let before = earlier.and_then(|state| state.resources().get(&name));
                let resource =
                    items::composed_resource(item, sent.composed.get(&name), before).map_err(of)?;
                if self.composed.insert(name.clone(), resource).is_some() {
                    return Err(of(format!("composed resource `{name}` is returned twice")));
                }
            }
            Some(other) => {
                let types = [items::COMPOSITE, items::COMPOSED, items::CONNECTION].join("`, `");
                return Err(of(format!(
                    "annotation `{}`: expected one of `{types}`, got `{other}`",
                    items::TYPE
                )));
            }
        }
        Ok(())
    }

    /// The composite resource with the connection details that were returned. Without any, those of earlier steps stay.
    fn take_composite(&mut self) -> Option<Resource> {
        let composite = self.composite.take();
        let Some(details) = self.connection.take() else { return composite };
        let mut composite = composite.unwrap_or_default();
        composite.connection_details = details;
        composite.resource.get_or_insert_with(Struct::default);
        Some(composite)
    }
}

fn check_same(item: &Item, sent: &Item) -> Result<(), String> {
    for field in ["apiVersion", "kind"] {
        if item.get(field) != sent.get(field) {
            return Err(format!("its {field} is not that of the composite resource"));
        }
    }
    Ok(())
}

fn items_of(answer: Value, api_versions: &[&str]) -> Result<Vec<Item>, ExchangeError> {
    let not = |problem: String| ExchangeError::NotAList(problem);
    let Value::Object(mut list) = answer else { return Err(not("expected an object".to_owned())) };
    let text = |field: &str| list.get(field).and_then(Value::as_str).unwrap_or_default();
    if text("kind") != "ResourceList" || !api_versions.contains(&text("apiVersion")) {
        let (kind, version) = (text("kind"), text("apiVersion"));
        let expected = api_versions.join("` or `");
        return Err(not(format!(
            "it is of kind `{kind}` and version `{version}`, expected version `{expected}`"
        )));
    }
    let items = match list.remove("items") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(items)) => items,
        Some(_) => return Err(not("items is not a list".to_owned())),
    };
    let to_item = |(index, item): (usize, Value)| match item {
        Value::Object(item) => check_item(item).map_err(|problem| ExchangeError::Item { index, problem }),
        _ => Err(ExchangeError::Item { index, problem: "it is not an object".to_owned() }),
    };
    items.into_iter().enumerate().map(to_item).collect()
}

fn check_item(item: Item) -> Result<Item, String> {
    for field in ["apiVersion", "kind"] {
        if item.get(field).and_then(Value::as_str).is_none_or(str::is_empty) {
            return Err(format!("it has no {field}"));
        }
    }
    match item.get("metadata") {
        None | Some(Value::Null | Value::Object(_)) => Ok(item),
        Some(_) => Err("its metadata is not an object".to_owned()),
    }
}

/// What a list says about itself.
pub(super) fn results(answer: &Value) -> Result<Vec<FunctionResult>, ExchangeError> {
    let results = match answer.get("results") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(results)) => results,
        // The first drafts of KRM functions have the list one level deeper.
        Some(Value::Object(results)) => match results.get("items").and_then(Value::as_array) {
            Some(items) => items,
            None => return Ok(Vec::new()),
        },
        Some(_) => return Err(ExchangeError::NotAList("results is not a list".to_owned())),
    };
    let read = |(index, result): (usize, &Value)| {
        result_of(result).map_err(|problem| ExchangeError::Result { index, problem })
    };
    results.iter().enumerate().map(read).collect()
}

fn result_of(result: &Value) -> Result<FunctionResult, String> {
    let result = result.as_object().ok_or("it is not an object")?;
    let text = |field: &str| result.get(field).and_then(Value::as_str).unwrap_or_default();
    let severity = match text("severity").to_ascii_lowercase().as_str() {
        "error" | "fatal" => Severity::Fatal,
        "warning" => Severity::Warning,
        "" | "info" | "normal" => Severity::Normal,
        other => return Err(format!("severity: expected Error, Warning or Normal, got `{other}`")),
    };
    let message = match about(result) {
        Some(about) => format!("{about}: {}", text("message")),
        None => text("message").to_owned(),
    };
    let target = Some(Target::Composite.into());
    Ok(FunctionResult { severity: severity.into(), message, reason: None, target })
}

/// What a result of a KRM function is about.
fn about(result: &Map<String, Value>) -> Option<String> {
    let reference = result.get("resourceRef")?;
    let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default();
    let field = result.get("field").and_then(|field| field.get("path")?.as_str());
    let subject = format!("{} `{}`", text("kind"), text("name"));
    Some(field.map_or_else(|| subject.clone(), |field| format!("{subject} {field}")))
}

fn object(resource: &Resource) -> Result<Option<&Item>, StructError> {
    resource.resource.as_ref().map(Struct::json).transpose()
}
