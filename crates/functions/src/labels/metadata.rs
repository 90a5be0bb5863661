//! A change to the labels or the annotations of a resource.

use serde_json::{Map, Value};

use super::pattern;
use super::syntax::Field;

/// What to remove, and then what to add.
#[derive(Debug)]
pub(super) struct Change {
    field: Field,
    remove: Vec<String>,
    add: Vec<Addition>,
}

#[derive(Debug)]
struct Addition {
    key: String,
    value: String,
    retains: bool,
}

impl Change {
    pub(super) fn new(field: Field, remove: &[&str]) -> Self {
        Self { field, remove: remove.iter().map(|&key| key.to_owned()).collect(), add: Vec::new() }
    }

    /// Add this, too. If it retains, what is there stays.
    pub(super) fn add(&mut self, key: &str, value: &str, retains: bool) -> Result<(), String> {
        self.field.check(key, value)?;
        self.add.push(Addition { key: key.to_owned(), value: value.to_owned(), retains });
        Ok(())
    }

    /// The resource after the change, if that is another one.
    pub(super) fn wanted(&self, resource: &Map<String, Value>) -> Result<Option<Map<String, Value>>, String> {
        if self.add.is_empty() && self.remove.is_empty() {
            return Ok(None);
        }
        let metadata = object(resource.get("metadata"), || "metadata".to_owned())?;
        let current = match metadata {
            Some(metadata) => object(metadata.get(self.field.name()), || format!("metadata.{}", self.field))?,
            None => None,
        };
        let mut wanted = current.cloned().unwrap_or_default();
        self.change(&mut wanted);
        // Compared after all removals and additions: what is removed and added again is no change.
        if current.map_or(wanted.is_empty(), |current| *current == wanted) {
            return Ok(None);
        }
        let mut resource = resource.clone();
        let mut metadata = metadata.cloned().unwrap_or_default();
        // An empty object would claim that there are none at all, which is not what was asked for.
        if wanted.is_empty() {
            metadata.remove(self.field.name());
        } else {
            metadata.insert(self.field.name().to_owned(), Value::Object(wanted));
        }
        resource.insert("metadata".to_owned(), Value::Object(metadata));
        Ok(Some(resource))
    }

    fn change(&self, entries: &mut Map<String, Value>) {
        entries.retain(|key, _| !self.remove.iter().any(|removed| pattern::matches(removed, key)));
        for addition in &self.add {
            if !(addition.retains && entries.contains_key(&addition.key)) {
                entries.insert(addition.key.clone(), Value::String(addition.value.clone()));
            }
        }
    }
}

/// Null is as good as nothing.
fn object(
    value: Option<&Value>,
    name: impl FnOnce() -> String,
) -> Result<Option<&Map<String, Value>>, String> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object)),
        Some(_) => Err(format!("{} is not an object", name())),
    }
}
