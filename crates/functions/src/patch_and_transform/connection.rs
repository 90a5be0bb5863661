//! Connection details: what composed resources give to the composite resource, and the secret that keeps it.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ferroplane_golang::fmt::{Any, Numbers};
use ferroplane_golang::json::marshal_any;
use ferroplane_wire::v1::Resource;
use serde_json::{Map, Value};

use super::document::{Budget, Document, metadata, text};
use super::patch::From;
use super::prepare::{ConnectionDetail, DetailSource, Patch, SecretReference};
use crate::fieldpath::Path;

/// Bytes by name, as the protocol has them.
pub(super) type Details = BTreeMap<String, bytes::Bytes>;

/// Add what the observed resource has of these details. What is not there yet may come later.
pub(super) fn extract(
    observed: &Resource,
    object: &Map<String, Value>,
    wanted: &[ConnectionDetail],
    details: &mut Details,
) {
    for detail in wanted {
        let value = match &detail.from {
            DetailSource::Value(value) => Some(value.clone().into()),
            // What is empty may still be written.
            DetailSource::SecretKey(key) => {
                observed.connection_details.get(key).filter(|value| !value.is_empty()).cloned()
            }
            DetailSource::Field(path) => path.as_ref().ok().and_then(|path| field(object, path)),
        };
        if let Some(value) = value {
            details.insert(detail.name.clone(), value);
        }
    }
}

/// Text as it is, anything else as JSON.
fn field(object: &Map<String, Value>, path: &Path) -> Option<bytes::Bytes> {
    match path.get(object).ok()? {
        Value::String(text) => Some(text.clone().into()),
        value => marshal_any(&Any::of(value, Numbers::Floats)).ok().map(bytes::Bytes::from),
    }
}

/// Composite resources of the newer kind have no connection details of their own.
pub(super) fn is_supported_by(xr: &Map<String, Value>) -> bool {
    // The layout is all that a function can see of the definition.
    xr.get("spec").and_then(|spec| spec.get("crossplane")).is_none()
}

/// A secret with these details.
pub(super) fn secret(
    xr: &Map<String, Value>,
    details: &Details,
    reference: Option<&SecretReference>,
    budget: &mut Budget<'_>,
) -> Result<Map<String, Value>, String> {
    let (name, namespace) = locate(xr, reference, budget)
        .map_err(|problem| format!("cannot generate connection secret reference: {problem}"))?;
    let data = details.iter().map(|(key, value)| (key.clone(), Value::String(STANDARD.encode(value))));
    let mut secret = Document::new(Map::new());
    secret.set_text("apiVersion", "v1");
    secret.set_text("kind", "Secret");
    secret.set_text("type", "connection.crossplane.io/v1alpha1");
    secret.set_metadata("name", &name);
    secret.set_metadata("namespace", &namespace);
    let mut secret = secret.object.into_owned();
    secret.insert("data".to_owned(), Value::Object(data.collect()));
    Ok(secret)
}

/// The composite resource's own wish comes first, then the input's, then a name made of the resource's.
fn locate(
    xr: &Map<String, Value>,
    reference: Option<&SecretReference>,
    budget: &mut Budget<'_>,
) -> Result<(String, String), String> {
    let named = reference.filter(|reference| !reference.name.is_empty() || !reference.namespace.is_empty());
    let (name, namespace) = if let Some(location) = written(xr) {
        location
    } else if let Some(reference) = named {
        (reference.name.clone(), reference.namespace.clone())
    } else {
        (format!("{}-connection", metadata(xr, "name")), metadata(xr, "namespace").to_owned())
    };
    match reference {
        Some(reference) if !reference.patches.is_empty() => {
            patched(xr, name, namespace, &reference.patches, budget)
                .map_err(|problem| format!("cannot apply connection secret patches: {problem}"))
        }
        _ => Ok((name, namespace)),
    }
}

/// What the composite resource says in `spec.writeConnectionSecretToRef`, if it is a reference.
fn written(xr: &Map<String, Value>) -> Option<(String, String)> {
    let field = |reference: &Map<String, Value>, name| match reference.get(name) {
        None | Some(Value::Null) => Some(String::new()),
        Some(Value::String(text)) => Some(text.clone()),
        Some(_) => None,
    };
    match xr.get("spec")?.get("writeConnectionSecretToRef")? {
        // Null is a reference without a name, and wins over the input's like any other.
        Value::Null => Some(Default::default()),
        Value::Object(reference) => Some((field(reference, "name")?, field(reference, "namespace")?)),
        _ => None,
    }
}

fn patched(
    xr: &Map<String, Value>,
    name: String,
    namespace: String,
    patches: &[Patch],
    budget: &mut Budget<'_>,
) -> Result<(String, String), String> {
    let mut reference = Document::new(Map::new());
    reference.set_text("apiVersion", "v1");
    reference.set_text("kind", "SecretReference");
    reference.set_text("name", &name);
    reference.set_text("namespace", &namespace);
    let from = From { object: xr, numbers: Numbers::Floats };
    for (at, patch) in patches.iter().enumerate() {
        let kind = patch.kind.as_str();
        if !matches!(kind, "FromCompositeFieldPath" | "CombineFromComposite") {
            return Err(format!("unsupported patch type {kind} at index {at}"));
        }
        match patch.apply(from, &mut reference, budget) {
            // Any error of an optional patch is passed over here, not only a missing field: so it is in the
            // original.
            Err(error) if !(patch.is_optional && kind == "FromCompositeFieldPath") => {
                return Err(format!("cannot apply patch type {kind} at index {at}: {error}"));
            }
            _ => {}
        }
    }
    let is_text = |field: &str| reference.object.get(field).is_some_and(Value::is_string);
    let now = |field: &str, before: String| {
        if is_text(field) { text(&reference.object, field).to_owned() } else { before }
    };
    Ok((now("name", name), now("namespace", namespace)))
}
