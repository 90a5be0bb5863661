//! Changes of objects, as the desired state of an operation has them: each object with the fields that are to be applied.

use std::collections::BTreeMap;

use ferroplane_wire::v1::{Resource, RunFunctionRequest};
use ferroplane_wire::{State, Struct};
use serde_json::{Map, Value};

use super::{called, name_of, namespace_of, text};
use crate::fieldpath::Path;
use crate::selection::JsonObject;

/// What earlier steps want, and what this one adds.
#[derive(Debug)]
pub(crate) struct Changes {
    composite: Option<Resource>,
    resources: BTreeMap<String, Resource>,
}

impl Changes {
    pub(crate) fn after(request: &RunFunctionRequest) -> Self {
        let (composite, resources) = request.desired.clone().unwrap_or_default().into_parts();
        Self { composite, resources }
    }

    /// Have a field of an object set. What earlier steps want of the same object stays.
    pub(crate) fn set(&mut self, object: &JsonObject, field: &Path, value: Value) -> Result<(), String> {
        let resource = self.resources.entry(key(object)).or_default();
        let wanted = resource.resource.take().map_or_else(|| Ok(identity(object)), Struct::into_json);
        let mut wanted = wanted.map_err(|error| problem(object, &error))?;
        field.set(&mut wanted, value).map_err(|error| problem(object, &error))?;
        resource.resource = Some(Struct::try_from(wanted).map_err(|error| problem(object, &error))?);
        Ok(())
    }

    pub(crate) fn into_state(self) -> State {
        State::new(self.composite, self.resources)
    }
}

fn problem(object: &JsonObject, error: &impl ToString) -> String {
    format!("cannot change {} {}: {}", text(object, &["kind"]), called(object), error.to_string())
}

/// The name of an object in the pipeline. The same object has the same one in every step.
fn key(object: &JsonObject) -> String {
    // Without the version: two steps that read an object in two versions change the same object.
    let group = text(object, &["apiVersion"]).rsplit_once('/').map_or("", |(group, _)| group);
    format!("{}.{group}/{}", text(object, &["kind"]), called(object))
}

fn identity(object: &JsonObject) -> JsonObject {
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), name_of(object).into());
    if !namespace_of(object).is_empty() {
        metadata.insert("namespace".to_owned(), namespace_of(object).into());
    }
    let mut identity = Map::new();
    for field in ["apiVersion", "kind"] {
        identity.insert(field.to_owned(), text(object, &[field]).into());
    }
    identity.insert("metadata".to_owned(), metadata.into());
    identity
}
