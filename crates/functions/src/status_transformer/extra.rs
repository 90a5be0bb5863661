//! Finds the resources that `function-extra-resources` has put into the context of the pipeline.

use ferroplane_wire::Struct;
use serde_json::{Map, Value};

const KEY: &str = "apiextensions.crossplane.io/extra-resources";

/// A resource and the name that matchers know it by.
#[derive(Debug)]
pub(super) struct ExtraResource<'a> {
    pub(super) name: String,
    pub(super) resource: &'a Map<String, Value>,
}

/// All of them.
pub(super) fn load(context: Option<&Struct>) -> Result<Vec<ExtraResource<'_>>, String> {
    let cannot = |problem: String| format!("cannot load extra-resources: {problem}");
    let Some(context) = context else { return Ok(Vec::new()) };
    let context = context.json().map_err(|error| cannot(error.to_string()))?;
    let Some(by_name) = context.get(KEY) else { return Ok(Vec::new()) };
    let Value::Object(by_name) = by_name else {
        return Err(cannot(format!("unexpected extra-resources type: {}", type_of(by_name))));
    };
    let mut loaded = Vec::new();
    // In the order of the names; the original goes through a map of Go in any order.
    for (into, resources) in by_name {
        let unexpected = format!("unexpected extra-resources value type for {into}");
        let Value::Array(resources) = resources else {
            return Err(cannot(format!("{unexpected}: {}", type_of(resources))));
        };
        for (at, resource) in resources.iter().enumerate() {
            let Value::Object(resource) = resource else {
                return Err(cannot(format!("{unexpected} [{at}]: {}", type_of(resource))));
            };
            loaded.push(ExtraResource { name: name(into, resource), resource });
        }
    }
    Ok(loaded)
}

/// `extra-resource.<into>.<group>.<kind>.<namespace>.<name>`
fn name(into: &str, resource: &Map<String, Value>) -> String {
    let text = |value: Option<&'_ Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let (group, kind) = group_kind(resource);
    let metadata = resource.get("metadata");
    let [namespace, name] = ["namespace", "name"].map(|field| text(metadata.and_then(|it| it.get(field))));
    ["extra-resource", into, group, kind, &namespace, &name].join(".")
}

/// The group and the kind. Neither is known if the version has too many parts.
pub(crate) fn group_kind(resource: &Map<String, Value>) -> (&str, &str) {
    let text = |field| resource.get(field).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    match version.split_once('/') {
        None => ("", kind),
        // `Unstructured.GroupVersionKind` drops the kind along with a version that it cannot parse.
        Some((_, rest)) if rest.contains('/') => ("", ""),
        Some((group, _)) => (group, kind),
    }
}

/// The Go type a value in the context has, as the verb `%T` writes it. Every number is a float there.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
