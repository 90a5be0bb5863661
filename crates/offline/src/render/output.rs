//! Prints the result: the composite resource, composed resources, deletions, results and conditions.

use anyhow::Context as _;
use ferroplane_api::{Object, meta};
use serde_json::{Value, json};

use super::Rendered;
use super::templates::{TemplateSteps, resource_name};
use crate::manifest::yaml;

/// As what to print.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    #[default]
    Yaml,
    Json,
}

/// How to print what was rendered.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct PrintOptions {
    pub format: Format,
    /// Print the composite resource with the metadata and spec it came with.
    pub is_full: bool,
    /// Print what functions had to say.
    pub has_results: bool,
    /// Print the context as the last function left it.
    pub has_context: bool,
    /// Print what would be deleted.
    pub has_deletions: bool,
    /// Print above each document which line of a template printed it. Only in YAML, which has comments.
    pub has_sources: bool,
}

/// When everything happens that is rendered, so that rendering twice gives the same.
pub(super) const NOW: &str = "2024-01-01T00:00:00Z";

/// Everything there is to show, in order. The composite resource is printed over what it came as, if that is asked for.
pub(super) fn print(
    rendered: Rendered,
    xr: &Object,
    sources: Option<&TemplateSteps>,
    options: PrintOptions,
) -> anyhow::Result<Vec<u8>> {
    let documents = documents(rendered, xr, options)?;
    match options.format {
        Format::Yaml => {
            let mut text = String::new();
            for document in &documents {
                text.push_str("---\n");
                for source in sources.map(|sources| sources_of(sources, xr, document)).unwrap_or_default() {
                    text.push_str(&format!("# {source}\n"));
                }
                text.push_str(&yaml::print(document)?);
            }
            Ok(text.into_bytes())
        }
        Format::Json => {
            let mut list = json!({"apiVersion": "v1", "kind": "List"});
            // Moved, not copied: it can be large.
            list["items"] = Value::Array(documents);
            let mut text = serde_json::to_vec_pretty(&list)?;
            text.push(b'\n');
            Ok(text)
        }
    }
}

/// Which lines of templates printed a document, if it is the composite resource or a composed one.
fn sources_of(sources: &TemplateSteps, xr: &Object, document: &Value) -> Vec<String> {
    let Some(object) = document.as_object() else { return Vec::new() };
    let is_xr = [meta::api_version(object), meta::kind(object), meta::name(object)]
        == [meta::api_version(xr), meta::kind(xr), meta::name(xr)];
    match resource_name(object) {
        "" if is_xr => sources.sources(xr, None),
        "" => Vec::new(),
        name => sources.sources(xr, Some(name)),
    }
}

fn documents(rendered: Rendered, xr: &Object, options: PrintOptions) -> anyhow::Result<Vec<Value>> {
    let mut xr = if options.is_full { merged(xr.clone(), &rendered.xr) } else { rendered.xr };
    pin_times(&mut xr);
    let mut documents = vec![Value::Object(xr)];

    let mut composed = rendered.composed;
    // As upstream prints them, so that both outputs can be compared line by line.
    composed.sort_by(|one, other| resource_name(one).cmp(resource_name(other)));
    composed.iter_mut().for_each(pin_times);
    documents.extend(composed.into_iter().map(Value::Object));

    if options.has_deletions {
        documents.extend(rendered.deleted.iter().map(|(name, object)| deletion(name, object)));
    }
    if options.has_results {
        documents.extend(rendered.events.iter().map(|event| {
            json!({
                "apiVersion": "render.crossplane.io/v1beta1", "kind": "Result",
                "severity": event.kind.as_str(), "reason": event.reason, "message": event.detailed(),
            })
        }));
    }
    if options.has_context
        && let Some(context) = &rendered.context
    {
        let fields = context.json().context("cannot print the context")?;
        documents
            .push(json!({"apiVersion": "render.crossplane.io/v1beta1", "kind": "Context", "fields": fields}));
    }
    Ok(documents)
}

fn deletion(name: &str, object: &Object) -> Value {
    let mut reference = json!({
        "apiVersion": meta::api_version(object), "kind": meta::kind(object), "name": meta::name(object)
    });
    if !meta::namespace(object).is_empty() {
        reference["namespace"] = meta::namespace(object).into();
    }
    json!({
        "apiVersion": "render.ferroplane.io/v1beta1", "kind": "Deletion",
        "resourceName": name, "resourceRef": reference,
    })
}

/// The times of conditions are those of rendering, which would only be noise in a diff.
fn pin_times(object: &mut Object) {
    let conditions = object.get_mut("status").and_then(|status| status.get_mut("conditions"));
    for condition in conditions.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(condition) = condition.as_object_mut() {
            condition.insert("lastTransitionTime".to_owned(), NOW.into());
        }
    }
}

/// `over` laid over `base`: objects are merged, everything else that is not empty wins.
fn merged(mut base: Object, over: &Object) -> Object {
    for (key, value) in over {
        match (base.get_mut(key), value) {
            (Some(Value::Object(below)), Value::Object(above)) => {
                *below = merged(std::mem::take(below), above);
            }
            (Some(_), above) if is_empty(above) => {}
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
    base
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(truth) => !truth,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(object) => object.is_empty(),
    }
}
