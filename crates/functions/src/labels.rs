//! `function-labels`: puts labels and annotations on desired resources, and takes them off.
//!
//! Unlike tags, every kind has labels and annotations. Rules are followed one after the other; each says which
//! resources it is for, what to remove and what to add, in this order. Values are given or come from a field of
//! the composite resource.
//!
//! # Invariants
//! * A resource that no rule changes is passed on as it came.
//! * What Kubernetes would refuse as a label is refused here, with the name of the rule and of the label.

mod metadata;
mod pattern;
mod settings;
mod syntax;

use std::collections::BTreeMap;

use ferroplane_wire::v1::{Resource, RunFunctionRequest, RunFunctionResponse};
use ferroplane_wire::{State, Struct};
use serde_json::{Map, Value};

use crate::fieldpath::Path;
use crate::{input, response};
use metadata::Change;
use settings::{Entry, Labels, Rule};
use syntax::Field;

/// Follow all rules.
pub(crate) fn run(request: &RunFunctionRequest) -> RunFunctionResponse {
    let mut response = response::to(request);
    match follow(request) {
        Ok(Some(desired)) => {
            response.desired = Some(desired);
            response
        }
        Ok(None) => response,
        Err(problem) => response::fatal(response, problem),
    }
}

/// The desired state with its labels and annotations in order, if that changes anything.
fn follow(request: &RunFunctionRequest) -> Result<Option<State>, String> {
    let input: Labels<'_> = input::whole(request.input.as_ref())?;
    let nothing = Map::new();
    let composite = composite(request)?.unwrap_or(&nothing);
    let Some(desired) = &request.desired else { return Ok(None) };
    let mut labelled = BTreeMap::new();
    for (at, rule) in input.rules.iter().flatten().enumerate() {
        // Once for all resources, and even if there are none, so that a mistake in a rule shows at once.
        let changes = changes(rule, composite).map_err(|problem| format!("rules[{at}]: {problem}"))?;
        for (name, resource) in desired.resources() {
            // What earlier rules made of it, so that a later rule can remove what an earlier one added.
            let resource = labelled.get(name).unwrap_or(resource);
            let wanted = apply(rule, &changes, name, resource);
            let wanted = wanted.map_err(|problem| format!("cannot label resource {name:?}: {problem}"))?;
            if let Some(wanted) = wanted {
                let resource = Resource { resource: Some(wanted), ..resource.clone() };
                labelled.insert(name.clone(), resource);
            }
        }
    }
    // The answer then shares the state of the request, which needs no encoding.
    if labelled.is_empty() {
        return Ok(None);
    }
    let (composite, mut resources) = desired.clone().into_parts();
    resources.extend(labelled);
    Ok(Some(State::new(composite, resources)))
}

fn composite(request: &RunFunctionRequest) -> Result<Option<&Map<String, Value>>, String> {
    let composite = request.observed.as_ref().and_then(|observed| observed.composite());
    let json = composite.and_then(|composite| composite.resource.as_ref()).map(Struct::json).transpose();
    json.map_err(|error| format!("cannot get observed composite resource: {error}"))
}

/// What a rule does to the labels and the annotations of a resource it is for.
fn changes(rule: &Rule<'_>, composite: &Map<String, Value>) -> Result<[Change; 2], String> {
    let change = |field: Field, entries: Option<&[Entry<'_>]>, remove: Option<&[&str]>| {
        let mut change = Change::new(field, remove.unwrap_or_default());
        for (at, entry) in entries.unwrap_or_default().iter().enumerate() {
            add(&mut change, entry, composite).map_err(|problem| format!("{field}[{at}]: {problem}"))?;
        }
        Ok::<_, String>(change)
    };
    Ok([
        change(Field::Labels, rule.labels.as_deref(), rule.remove_labels.as_deref())?,
        change(Field::Annotations, rule.annotations.as_deref(), rule.remove_annotations.as_deref())?,
    ])
}

fn add(change: &mut Change, entry: &Entry<'_>, composite: &Map<String, Value>) -> Result<(), String> {
    let retains = entry.retains()?;
    match (entry.key, entry.value, entry.from_field_path) {
        (_, Some(_), Some(_)) => Err("value and fromFieldPath exclude each other".to_owned()),
        (_, None, None) => Err("value or fromFieldPath is required".to_owned()),
        (None, Some(_), None) => Err("key is required with value".to_owned()),
        (Some(key), Some(value), None) => change.add(key, value, retains),
        (key, None, Some(path)) => {
            let path = Path::parse(path).map_err(|error| format!("fromFieldPath: {error}"))?;
            let value = match path.get(composite) {
                // Null is as good as absent, as in the inputs of all functions.
                Ok(Value::Null) if !entry.is_required() => return Ok(()),
                Err(error) if error.is_not_found() && !entry.is_required() => return Ok(()),
                found => found.map_err(|error| format!("fromFieldPath: {error}"))?,
            };
            match key {
                Some(key) => change.add(key, &text(value, path.text())?, retains),
                None => add_all(change, value, path.text(), retains),
            }
        }
    }
}

/// All that is in an object, except what belongs to Crossplane: each resource has its own of that.
fn add_all(change: &mut Change, value: &Value, path: &str, retains: bool) -> Result<(), String> {
    let Value::Object(fields) = value else {
        return Err(format!("key is required: {path} is not an object of labels or annotations"));
    };
    let is_owned =
        |key: &str| key.split_once('/').is_some_and(|(domain, _)| syntax::is_of_crossplane(domain));
    for (key, value) in fields.iter().filter(|(key, _)| !is_owned(key)) {
        change.add(key, &text(value, &format!("{path}.{key}"))?, retains)?;
    }
    Ok(())
}

/// Text as it is, and what is obviously the same as text.
fn text(value: &Value, path: &str) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(truth) => Ok(truth.to_string()),
        Value::Number(number) => {
            // Numbers of a protobuf `Struct` are doubles, and `3.0` is not what the user wrote.
            Ok(ferroplane_golang::json::integer(number).map_or(number.to_string(), |it| it.to_string()))
        }
        _ => Err(format!("{path} is not text, a number or a boolean")),
    }
}

/// The resource after the rule, if the rule is for it and changes it.
fn apply(
    rule: &Rule<'_>,
    changes: &[Change],
    name: &str,
    resource: &Resource,
) -> Result<Option<Struct>, String> {
    let Some(resource) = &resource.resource else { return Ok(None) };
    let json = resource.json().map_err(|error| error.to_string())?;
    if !rule.is_for(name, json) {
        return Ok(None);
    }
    let mut wanted = None;
    for change in changes {
        if let Some(changed) = change.wanted(wanted.as_ref().unwrap_or(json))? {
            wanted = Some(changed);
        }
    }
    wanted.map(Struct::try_from).transpose().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
