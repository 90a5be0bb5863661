//! Tags, and what is to become of them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::input::{AddTag, Origin, RemoveTag, TagKeys};
use crate::fieldpath::Path;

pub(super) type Tags = BTreeMap<String, String>;

/// Something in a value was not what it should have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flawed;

/// The tags in a value, as far as they go: what is not text becomes empty text, as in the original.
pub(super) fn read(value: &Value) -> (Option<Tags>, Result<(), Flawed>) {
    let fields = match value {
        Value::Null => return (None, Ok(())),
        Value::Object(fields) => fields,
        _ => return (None, Err(Flawed)),
    };
    let is_sound = fields.values().all(|tag| matches!(tag, Value::String(_) | Value::Null));
    let tags = fields.iter().map(|(key, tag)| (key.clone(), tag.as_str().unwrap_or_default().to_owned()));
    (Some(tags.collect()), if is_sound { Ok(()) } else { Err(Flawed) })
}

/// The list of keys in a value put over the keys that were there. What is not text leaves them as they were.
fn read_keys(value: &Value, keys: &mut Vec<String>) -> Result<(), Flawed> {
    let items = match value {
        Value::Null => {
            keys.clear();
            return Ok(());
        }
        Value::Array(items) => items,
        _ => return Err(Flawed),
    };
    keys.resize(items.len(), String::new());
    let mut result = Ok(());
    for (key, item) in keys.iter_mut().zip(items) {
        match item {
            Value::String(text) => key.clone_from(text),
            // Go's decoder leaves an item as it was where it reads null.
            Value::Null => {}
            _ => result = Err(Flawed),
        }
    }
    result
}

/// The tags as they stand in a resource. That there never were any is null: so the original writes it.
pub(super) fn to_json(tags: Option<Tags>) -> Value {
    tags.map_or(Value::Null, |tags| {
        Value::Object(tags.into_iter().map(|(key, tag)| (key, Value::String(tag))).collect())
    })
}

/// Tags to bring in.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Update {
    /// These count for more than what is there.
    replace: Option<Tags>,
    /// What is there counts for more than these.
    retain: Option<Tags>,
}

impl Update {
    pub(super) fn apply(&self, tags: &mut Option<Tags>) {
        // Before `replace`, which wins over both.
        fill(tags, self.retain.as_ref());
        if let Some(replace) = &self.replace {
            let tags = tags.get_or_insert_default();
            tags.extend(replace.iter().map(|(key, tag)| (key.clone(), tag.clone())));
        }
    }

    /// The first to name a tag decides its value.
    fn add(&mut self, tags: Option<&Tags>, retains: bool) {
        fill(if retains { &mut self.retain } else { &mut self.replace }, tags);
    }
}

/// Add the tags that are missing or empty.
fn fill(into: &mut Option<Tags>, tags: Option<&Tags>) {
    let Some(tags) = tags else { return };
    let into = into.get_or_insert_default();
    for (key, tag) in tags {
        // An empty tag counts as missing: the original merges with mergo, which fills empty values.
        if into.get(key).is_none_or(String::is_empty) {
            into.insert(key.clone(), tag.clone());
        }
    }
}

/// Where tags and keys are looked up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sources<'a> {
    pub(super) composite: &'a Map<String, Value>,
    pub(super) environment: &'a Map<String, Value>,
}

impl Sources<'_> {
    /// The tags to add to every resource.
    pub(super) fn add(&self, entries: &[AddTag<'_>]) -> Update {
        let mut update = Update::default();
        for entry in entries {
            let read = match entry.origin() {
                Origin::Value => {
                    update.add(entry.tags.as_ref(), entry.retains());
                    continue;
                }
                Origin::Composite(path) => get(self.composite, path).map_or((None, Err(Flawed)), read),
                Origin::Environment(path) => match get(self.environment, path).map(read) {
                    Some((tags, Ok(()))) => (tags, Ok(())),
                    _ => continue,
                },
                Origin::Unknown => continue,
            };
            update.add(read.0.as_ref(), entry.retains());
        }
        update
    }

    /// The tags that the observed resource has and that are to stay as they are. Nothing if it has no tags.
    pub(super) fn ignore(&self, entries: &[TagKeys<'_>], observed: &Map<String, Value>) -> Option<Update> {
        let (observed, Ok(())) = read(get(observed, "status.atProvider.tags")?) else { return None };
        let observed = observed.unwrap_or_default();
        let mut update = Update::default();
        for entry in entries {
            let mut keys = Vec::new();
            match entry.origin() {
                Origin::Value => keys.clone_from(&entry.keys),
                Origin::Composite(path) => {
                    let _ = get(self.composite, path).map(|value| read_keys(value, &mut keys));
                }
                Origin::Environment(path) => {
                    if get(self.environment, path).map(|value| read_keys(value, &mut keys)) != Some(Ok(())) {
                        continue;
                    }
                }
                Origin::Unknown => {}
            }
            let tags = keys.into_iter().filter_map(|key| observed.get(&key).cloned().map(|tag| (key, tag)));
            update.add(Some(&tags.collect()), entry.retains());
        }
        Some(update)
    }

    /// The keys of the tags to remove. Of several lists from fields the last one counts: so it is in the original.
    pub(super) fn remove(&self, entries: &[RemoveTag<'_>]) -> Vec<String> {
        let (mut keys, mut from_fields) = (Vec::new(), Vec::new());
        for entry in entries {
            let value = match entry.origin() {
                Origin::Value => {
                    keys.extend(entry.keys.iter().cloned());
                    None
                }
                Origin::Composite(path) => get(self.composite, path),
                Origin::Environment(path) => get(self.environment, path),
                Origin::Unknown => None,
            };
            let _ = value.map(|value| read_keys(value, &mut from_fields));
        }
        keys.append(&mut from_fields);
        keys
    }
}

/// What is at a path. A path that is none leads nowhere.
fn get<'a>(object: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    Path::parse(path).ok()?.get(object).ok()
}
