//! The `ResourceList` of KRM functions, which kustomize and kpt run.
//!
//! It is the list of the alpha design, with these differences: connection details are left out, since these functions are made to
//! print what they work on; resources without a name get one, since most of these functions expect it; and what has no annotation
//! is named by its kind and its name.

use ferroplane_wire::StructError;
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use serde_json::{Value, json};

use super::ExchangeError;
use super::items::Item;
use super::list::{self, Sent};

const API_VERSIONS: [&str; 3] =
    ["config.kubernetes.io/v1", "config.kubernetes.io/v1beta1", "config.kubernetes.io/v1alpha1"];

pub(super) fn encode(request: &RunFunctionRequest, sees_unwanted: bool) -> Result<Value, StructError> {
    let sent = named(Sent::of(request, sees_unwanted)?);
    let items = std::iter::once(sent.composite).chain(sent.composed.into_values());
    let items = items.enumerate().map(|(index, item)| with_index(item, index));
    list::envelope(API_VERSIONS[0], request, &items.collect::<Vec<_>>())
}

pub(super) fn decode(
    request: &RunFunctionRequest,
    sees_unwanted: bool,
    answer: Value,
) -> Result<RunFunctionResponse, ExchangeError> {
    let sent = named(Sent::of(request, sees_unwanted)?);
    list::read(request, &sent, answer, &API_VERSIONS, &|item| made_up_name(item))
}

/// The same, where everything has a name.
fn named(mut sent: Sent) -> Sent {
    for (name, item) in &mut sent.composed {
        if let Some(metadata) = item.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.entry("name").or_insert_with(|| name.clone().into());
        }
    }
    sent
}

/// Some of these functions sort by what says in which file something was.
fn with_index(mut item: Item, index: usize) -> Item {
    let annotations = item.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
        annotations.insert("internal.config.kubernetes.io/index".to_owned(), json!(index.to_string()));
        annotations.insert("internal.config.kubernetes.io/path".to_owned(), json!("resources.yaml"));
    }
    item
}

/// What a resource is called that a function made: the same as long as its kind and name are.
fn made_up_name(item: &Item) -> Result<String, String> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let name = text(item.get("metadata").and_then(|metadata| metadata.get("name")));
    if name.is_empty() {
        return Err(
            "it has neither a name nor an annotation that says which composed resource it is".to_owned()
        );
    }
    let namespace = text(item.get("metadata").and_then(|metadata| metadata.get("namespace")));
    let parts = [text(item.get("kind")).to_lowercase(), namespace, name];
    Ok(parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-"))
}
