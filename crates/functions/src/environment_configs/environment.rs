//! Merges data into an environment: configurations win over what was there, which wins over the defaults.

use ferroplane_golang::strconv::quote;
use serde_json::{Map, Value};

use super::CONTEXT_KEY;
use super::sources::Config;
use crate::fieldpath::Path;
use crate::selection::JsonObject;

/// The data of all of these. Of two that set the same field, the later one wins.
pub(super) fn merge(configs: &[Config<'_>]) -> Result<JsonObject, String> {
    let mut merged = Map::new();
    // In the order of the sources. The original groups them by path in a map of Go, whose order is random.
    for config in configs {
        let data = match config.target {
            Some(path) => data_at(path, config.object)?,
            None => data(config.object)?,
        };
        merge_over(&mut merged, data);
    }
    Ok(merged)
}

fn data(config: &JsonObject) -> Result<JsonObject, String> {
    let problem = match config.get("data") {
        Some(Value::Object(data)) => return Ok(data.clone()),
        // Go finds the field and decodes null into an empty map, while a field that is missing is an error.
        Some(Value::Null) => return Ok(Map::new()),
        Some(_) => "data: not an object",
        None => "data: no such field",
    };
    Err(format!("cannot get data from environment config {}: {problem}", quote(name(config))))
}

/// The data, whatever it is, at a path of its own.
fn data_at(path: &str, config: &JsonObject) -> Result<JsonObject, String> {
    // Unlike without a path, nothing need be there: the original sets null.
    let data = config.get("data").cloned().unwrap_or_default();
    let mut object = Map::new();
    let set = Path::parse(path).and_then(|path| path.set(&mut object, data));
    set.map(|()| object).map_err(|_| {
        format!("cannot get data from environment config {} into path {}", name(config), quote(path))
    })
}

fn name(config: &JsonObject) -> &str {
    config.get("metadata").and_then(|metadata| metadata.get("name")?.as_str()).unwrap_or_default()
}

/// The environment: this data over the environment so far, and the result of that over the defaults.
pub(super) fn complete(
    data: JsonObject,
    context: Option<&JsonObject>,
    defaults: Option<&JsonObject>,
) -> JsonObject {
    let mut environment = data;
    if let Some(Value::Object(so_far)) = context.and_then(|context| context.get(CONTEXT_KEY)) {
        // Before the defaults. A comment in the original promises the opposite order, but its code does this.
        merge_under(&mut environment, so_far);
    }
    if let Some(defaults) = defaults {
        merge_under(&mut environment, defaults);
    }
    if !has_kind(&environment) {
        environment.insert("apiVersion".to_owned(), "internal.crossplane.io/v1alpha1".into());
        environment.insert("kind".to_owned(), "Environment".into());
    }
    environment
}

/// Whether the environment says what it is. A version that cannot be one says nothing at all.
fn has_kind(environment: &JsonObject) -> bool {
    let text = |field| environment.get(field).and_then(Value::as_str).unwrap_or_default();
    match text("apiVersion") {
        // Apimachinery parses both as an empty group and version.
        "" | "/" => !text("kind").is_empty(),
        version => version.matches('/').count() <= 1,
    }
}

/// Of fields that both have, the source's win.
fn merge_over(target: &mut JsonObject, source: JsonObject) {
    for (field, value) in source {
        match (target.get_mut(&field), value) {
            (Some(Value::Object(target)), Value::Object(source)) => merge_over(target, source),
            (_, value) => {
                target.insert(field, value);
            }
        }
    }
}

/// Of fields that both have, the target's stay.
fn merge_under(target: &mut JsonObject, base: &JsonObject) {
    for (field, value) in base {
        match (target.get_mut(field), value) {
            (Some(Value::Object(target)), Value::Object(base)) => merge_under(target, base),
            (Some(_), _) => {}
            (None, value) => {
                target.insert(field.clone(), value.clone());
            }
        }
    }
}
