//! What a step says to `function-tag-manager`. A field that is not there is a mistake.

use std::collections::BTreeMap;

use ferroplane_wire::Struct;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::tags::Tags;
use crate::input::{objects, whole};

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ManagedTags<'a> {
    #[serde(rename = "apiVersion")]
    _api_version: Option<&'a str>,
    #[serde(rename = "kind")]
    _kind: Option<&'a str>,
    #[serde(rename = "metadata")]
    _metadata: Option<Map<String, Value>>,
    #[serde(borrow, deserialize_with = "objects")]
    pub(super) add_tags: Option<Vec<AddTag<'a>>>,
    #[serde(borrow, deserialize_with = "objects")]
    pub(super) ignore_tags: Option<Vec<TagKeys<'a>>>,
    #[serde(borrow, deserialize_with = "objects")]
    pub(super) remove_tags: Option<Vec<RemoveTag<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct AddTag<'a> {
    #[serde(rename = "type")]
    kind: Option<&'a str>,
    from_field_path: Option<&'a str>,
    #[serde(deserialize_with = "tags")]
    pub(super) tags: Option<Tags>,
    policy: Option<&'a str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct TagKeys<'a> {
    #[serde(rename = "type")]
    kind: Option<&'a str>,
    from_field_path: Option<&'a str>,
    #[serde(deserialize_with = "texts")]
    pub(super) keys: Vec<String>,
    policy: Option<&'a str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RemoveTag<'a> {
    #[serde(rename = "type")]
    kind: Option<&'a str>,
    from_field_path: Option<&'a str>,
    #[serde(deserialize_with = "texts")]
    pub(super) keys: Vec<String>,
}

/// Where tags, or their keys, come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin<'a> {
    Value,
    Composite(&'a str),
    Environment(&'a str),
    /// From nowhere: the type is unknown.
    Unknown,
}

impl<'a> ManagedTags<'a> {
    /// Read them, and see that what comes from a field says from which.
    pub(super) fn read(input: Option<&'a Struct>) -> Result<Self, String> {
        let input: Self = whole(input)?;
        input.check().map_err(|problem| format!("cannot get Function input: {problem}"))?;
        Ok(input)
    }

    fn check(&self) -> Result<(), String> {
        let [add, ignore, remove] = ["addTags", "ignoreTags", "removeTags"];
        check_paths(add, self.add_tags.iter().flatten().map(|entry| (entry.kind, entry.from_field_path)))?;
        check_paths(
            ignore,
            self.ignore_tags.iter().flatten().map(|entry| (entry.kind, entry.from_field_path)),
        )?;
        check_paths(
            remove,
            self.remove_tags.iter().flatten().map(|entry| (entry.kind, entry.from_field_path)),
        )
    }
}

/// The original would crash.
fn check_paths<'i>(
    list: &str,
    entries: impl Iterator<Item = (Option<&'i str>, Option<&'i str>)>,
) -> Result<(), String> {
    for (at, (kind, path)) in entries.enumerate() {
        if let (Some(kind @ ("FromCompositeFieldPath" | "FromEnvironmentFieldPath")), None) = (kind, path) {
            return Err(format!("{list}[{at}]: fromFieldPath is required with type {kind}"));
        }
    }
    Ok(())
}

fn origin<'a>(kind: Option<&'a str>, path: Option<&'a str>) -> Origin<'a> {
    let path = path.unwrap_or_default();
    match kind {
        None | Some("" | "FromValue") => Origin::Value,
        Some("FromCompositeFieldPath") => Origin::Composite(path),
        Some("FromEnvironmentFieldPath") => Origin::Environment(path),
        Some(_) => Origin::Unknown,
    }
}

/// Whether existing tags stay. An entry without a type has no policy either: so it is in the original.
fn retains(kind: Option<&str>, policy: Option<&str>) -> bool {
    kind.is_some_and(|kind| !kind.is_empty()) && policy == Some("Retain")
}

impl AddTag<'_> {
    pub(super) fn origin(&self) -> Origin<'_> {
        origin(self.kind, self.from_field_path)
    }

    pub(super) fn retains(&self) -> bool {
        retains(self.kind, self.policy)
    }
}

impl TagKeys<'_> {
    pub(super) fn origin(&self) -> Origin<'_> {
        origin(self.kind, self.from_field_path)
    }

    pub(super) fn retains(&self) -> bool {
        retains(self.kind, self.policy)
    }
}

impl RemoveTag<'_> {
    pub(super) fn origin(&self) -> Origin<'_> {
        origin(self.kind, self.from_field_path)
    }
}

fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let texts = Option::<Vec<Option<String>>>::deserialize(deserializer)?;
    Ok(texts.unwrap_or_default().into_iter().map(Option::unwrap_or_default).collect())
}

fn tags<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Tags>, D::Error> {
    let tags = Option::<BTreeMap<String, Option<String>>>::deserialize(deserializer)?;
    Ok(tags.map(|tags| tags.into_iter().map(|(key, tag)| (key, tag.unwrap_or_default())).collect()))
}
