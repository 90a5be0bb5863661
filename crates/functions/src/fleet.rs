//! What functions for operations share: which objects they are about, whether these are healthy, and how one of them is changed.
//!
//! An operation observes nothing. Its functions ask for objects in a first call and decide in a second one, which brings them.

mod changes;
mod health;

use std::collections::BTreeMap;
use std::fmt;

use ferroplane_api::keys::PAUSED;
use ferroplane_wire::v1::resource_selector::Match;
use ferroplane_wire::v1::{MatchLabels, Requirements, ResourceSelector, RunFunctionRequest};
use serde::Deserialize;
use serde_json::Value;

use crate::fieldpath::Path;
use crate::input;
use crate::selection::{self, JsonObject};

pub(crate) use changes::Changes;
pub(crate) use health::unhealthy_because;

/// How many objects a message lists.
const MOST_LISTED: usize = 5;

/// Which objects a function is about.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ObjectSelector<'a> {
    api_version: Option<&'a str>,
    kind: Option<&'a str>,
    namespace: Option<&'a str>,
    #[serde(borrow, deserialize_with = "input::object")]
    selector: Option<LabelSelector<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct LabelSelector<'a> {
    #[serde(borrow)]
    match_labels: Option<BTreeMap<&'a str, &'a str>>,
}

impl ObjectSelector<'_> {
    /// What is wrong with it, as the field of this name.
    pub(crate) fn check(&self, field: &str) -> Result<(), String> {
        for (name, value) in [("apiVersion", self.api_version), ("kind", self.kind)] {
            if value.is_none_or(str::is_empty) {
                return Err(invalid(&format!("{field}.{name}"), "is required"));
            }
        }
        Ok(())
    }

    pub(crate) fn kind(&self) -> &str {
        self.kind.unwrap_or_default()
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.filter(|namespace| !namespace.is_empty())
    }

    /// What to ask for. Without labels, all objects of the kind.
    pub(crate) fn to_requirement(&self) -> ResourceSelector {
        let labels = self.selector.as_ref().and_then(|selector| selector.match_labels.as_ref());
        let labels =
            labels.into_iter().flatten().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        ResourceSelector {
            api_version: self.api_version.unwrap_or_default().to_owned(),
            kind: self.kind().to_owned(),
            namespace: self.namespace().map(str::to_owned),
            r#match: Some(Match::MatchLabels(MatchLabels { labels: labels.collect() })),
        }
    }
}

/// What a function asks for, by the name under which it finds it.
pub(crate) fn requirements(
    selectors: impl IntoIterator<Item = (&'static str, ResourceSelector)>,
) -> Requirements {
    let resources = selectors.into_iter().map(|(name, selector)| (name.to_owned(), selector)).collect();
    Requirements { resources, ..Requirements::default() }
}

/// The objects that were brought under this name, in the order of their names. None if this is the first call.
pub(crate) fn brought<'r>(
    request: &'r RunFunctionRequest,
    name: &str,
) -> Result<Option<Vec<&'r JsonObject>>, String> {
    let Some(resources) = request.required_resources.get(name) else { return Ok(None) };
    let objects = selection::objects(resources);
    let mut objects =
        objects.map_err(|error| format!("cannot read the objects that are required as {name}: {error}"))?;
    // The API server promises no order, and what a function decides must not depend on one.
    objects.sort_by(|one, other| {
        let by_namespace = namespace_of(one).cmp(namespace_of(other));
        by_namespace.then_with(|| name_of(one).cmp(name_of(other)))
    });
    Ok(Some(objects))
}

/// A field that a function changes. It is applied, so that it must be one that can be applied by itself.
pub(crate) fn changed_field(field: &str, text: Option<&str>) -> Result<Path, String> {
    let text = text.filter(|text| !text.is_empty()).ok_or_else(|| invalid(field, "is required"))?;
    let path = read_field(field, text)?;
    if path.leads_into_list() {
        return Err(invalid(field, "leads into a list, which can only be applied as a whole"));
    }
    let segments: Vec<_> = path.fields().collect();
    match segments[..] {
        // To apply all of `metadata` or `spec` would take every field of it from its owner.
        ["apiVersion" | "kind" | "status", ..] | ["metadata" | "spec"] => {
            Err(invalid(field, &format!("cannot be {text}, which is not for operations to change")))
        }
        ["metadata", part, ..] if part != "labels" && part != "annotations" => Err(invalid(
            field,
            &format!("cannot be {text}: of the metadata, only labels and annotations can be changed"),
        )),
        _ => Ok(path),
    }
}

/// A field that a function reads.
pub(crate) fn read_field(field: &str, text: &str) -> Result<Path, String> {
    Path::parse(text).map_err(|error| invalid(field, &error.to_string()))
}

/// What a function says of a mistake in its input. `validate` finds the field in it.
pub(crate) fn invalid(field: &str, problem: &str) -> String {
    format!("invalid Function input: {field}: {problem}")
}

pub(crate) fn text<'o>(object: &'o JsonObject, path: &[&str]) -> &'o str {
    value(object, path).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn value<'o>(object: &'o JsonObject, path: &[&str]) -> Option<&'o Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(object.get(*first)?, |value, field| value.get(*field))
}

pub(crate) fn name_of(object: &JsonObject) -> &str {
    text(object, &["metadata", "name"])
}

pub(crate) fn namespace_of(object: &JsonObject) -> &str {
    text(object, &["metadata", "namespace"])
}

pub(crate) fn is_paused(object: &JsonObject) -> bool {
    text(object, &["metadata", "annotations", PAUSED]) == "true"
}

pub(crate) fn is_being_deleted(object: &JsonObject) -> bool {
    !text(object, &["metadata", "deletionTimestamp"]).is_empty()
}

/// An object as messages call it.
pub(crate) fn called(object: &JsonObject) -> String {
    match namespace_of(object) {
        "" => name_of(object).to_owned(),
        namespace => format!("{namespace}/{}", name_of(object)),
    }
}

/// The first few of many things, and how many there are besides.
pub(crate) fn listed<T: fmt::Display>(things: &[T]) -> String {
    let shown = things.iter().take(MOST_LISTED).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match things.len().saturating_sub(MOST_LISTED) {
        0 => shown,
        rest => format!("{shown} and {rest} more"),
    }
}

#[cfg(test)]
pub(crate) mod tests;
