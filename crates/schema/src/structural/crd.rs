//! `CustomResourceDefinition`: its defaults, and what is wrong with it in Kubernetes' words.
//!
//! Kubernetes reads an internal form in which what all versions have in common stands at the top. Errors have the
//! paths of that form, so we make it too.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/apis/apiextensions/v1/defaults.go`.

mod approval;
mod budget;
mod bundle;
mod certificate;
mod check;
mod check_schema;
mod conversion;
mod defaults;
mod definition;
mod parts;
mod pem;
mod strictness;

use serde_json::{Map, Value, json};

pub use check::{validate, validate_update};
pub use definition::{Column, DefinedVersion, Definition, Names, Subresources};

/// Puts in what a definition need not say.
pub fn default(definition: &mut Map<String, Value>) {
    let Value::Object(spec) = definition.entry("spec").or_insert_with(|| json!({})) else { return };
    default_spec(spec);
    let storage = spec.get("versions").and_then(Value::as_array).into_iter().flatten();
    let storage =
        storage.filter(|version| version["storage"] == json!(true)).map(|it| it["name"].clone()).next();
    let status = definition.entry("status").or_insert_with(|| json!({}));
    if let (Some(storage), Value::Object(status)) = (storage, status) {
        let is_empty = |stored: &Value| stored.as_array().is_none_or(Vec::is_empty);
        if status.get("storedVersions").is_none_or(is_empty) {
            status.insert("storedVersions".to_owned(), json!([storage]));
        }
    }
}

fn default_spec(spec: &mut Map<String, Value>) {
    if let Value::Object(names) = spec.entry("names").or_insert_with(|| json!({})) {
        let text = |name: &str| names.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (kind, singular, list_kind) = (text("kind"), text("singular"), text("listKind"));
        if singular.is_empty() && !kind.is_empty() {
            names.insert("singular".to_owned(), Value::from(kind.to_lowercase()));
        }
        if list_kind.is_empty() && !kind.is_empty() {
            names.insert("listKind".to_owned(), Value::from(format!("{kind}List")));
        }
    }
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
    }
    if let Some(Value::Object(service)) =
        spec.get_mut("conversion").and_then(|it| it.pointer_mut("/webhook/clientConfig/service"))
        && service.get("port").is_none_or(Value::is_null)
    {
        service.insert("port".to_owned(), json!(443));
    }
}
