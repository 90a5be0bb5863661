//! How functions choose objects: by name or by labels, how many, and in which order.

mod labels;
mod order;

use std::sync::LazyLock;

pub(crate) use ferroplane_golang::json::JsonObject;
use ferroplane_wire::v1::resource_selector::Match;
use ferroplane_wire::v1::{MatchLabels, Resource, Resources, RunFunctionRequest};
use serde::Deserialize;
use serde_json::Map;

pub(crate) use labels::LabelMatcher;
pub(crate) use order::Naming;

/// An object that is not there reads as one without fields.
static EMPTY: LazyLock<JsonObject> = LazyLock::new(Map::new);

/// What to do about an object that was asked for by name and is not there.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Policy<'a> {
    resolution: Option<&'a str>,
}

impl Policy<'_> {
    pub(crate) fn is_optional(&self) -> bool {
        self.resolution == Some("Optional")
    }
}

/// An object by its name.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Reference<'a> {
    name: Option<&'a str>,
}

/// Which objects a source of them means.
#[derive(Debug)]
pub(crate) enum Choice<'s, Selector> {
    Named(&'s str),
    Labelled(&'s Selector),
    /// In an unknown way. It requires nothing.
    Unknown,
}

impl<'s, Selector> Choice<'s, Selector> {
    /// The choice of a source of this type, with these fields.
    pub(crate) fn of(
        kind: Option<&str>,
        reference: Option<&'s Reference<'_>>,
        selector: Option<&'s Selector>,
    ) -> Result<Self, &'static str> {
        match kind.unwrap_or_default() {
            "" | "Reference" => {
                let reference = reference.ok_or("type Reference needs a ref")?;
                Ok(Self::Named(reference.name.unwrap_or_default()))
            }
            "Selector" => selector.map(Self::Labelled).ok_or("type Selector needs a selector"),
            _ => Ok(Self::Unknown),
        }
    }

    /// What to ask for. Nothing if no label is left to choose by: that would choose everything.
    pub(crate) fn to_match<'a>(
        &self,
        matchers: impl Fn(&'s Selector) -> &'s [LabelMatcher<'a>],
        xr: &JsonObject,
    ) -> Result<Option<Match>, String>
    where
        'a: 's,
    {
        match self {
            Self::Named(name) => Ok(Some(Match::MatchName((*name).to_owned()))),
            Self::Labelled(selector) => {
                let labels = labels::resolve(matchers(selector), xr)?;
                Ok((!labels.is_empty()).then_some(Match::MatchLabels(MatchLabels { labels })))
            }
            Self::Unknown => Ok(None),
        }
    }
}

/// Put these objects in the order of the field at this path, or of their names.
pub(crate) fn sort(objects: &mut Vec<&JsonObject>, path: Option<&str>, naming: Naming) -> Result<(), String> {
    let path = path.filter(|path| !path.is_empty()).unwrap_or("metadata.name");
    order::sort(objects, path, naming)
}

/// The first of these objects, and no more of them than this.
pub(crate) fn first<'s, 'o>(objects: &'s [&'o JsonObject], most: Option<u64>) -> &'s [&'o JsonObject] {
    let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    &objects[..most.min(objects.len())]
}

/// Whether these are fewer than there have to be, and if so how many there have to be.
pub(crate) fn too_few(objects: &[&JsonObject], least: Option<u64>) -> Option<u64> {
    least.filter(|least| (objects.len() as u64) < *least)
}

/// The composite resource as it is observed.
pub(crate) fn composite(request: &RunFunctionRequest) -> Result<&JsonObject, String> {
    let composite = request.observed.as_ref().and_then(|observed| observed.composite());
    composite
        .map_or(Ok(&*EMPTY), object)
        .map_err(|error| format!("cannot get observed composite resource: {error}"))
}

/// The objects among these resources.
pub(crate) fn objects(resources: &Resources) -> Result<Vec<&JsonObject>, String> {
    resources.items.iter().map(object).collect()
}

fn object(resource: &Resource) -> Result<&JsonObject, String> {
    match &resource.resource {
        Some(resource) => resource.json().map_err(|error| error.to_string()),
        None => Ok(&EMPTY),
    }
}

#[cfg(test)]
pub(crate) mod tests;
