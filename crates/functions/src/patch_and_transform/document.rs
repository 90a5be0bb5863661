//! An object that patches read from and write to.

use std::borrow::Cow;

use ferroplane_golang::fmt::{Any, Numbers};
use ferroplane_golang::json::marshal_any;
use ferroplane_wire::{Struct, StructError};
use serde_json::{Map, Value};

use super::prepare::Target;
use crate::cost_budget::CostBudget;
use crate::fieldpath::{Error, MergeOptions};

/// How much patches may write in one call: bytes of text, and about as much for everything around it. It is far
/// more than a message can carry; it bounds what a few short patches can multiply to.
const MAX_WRITTEN: usize = 64 * 1024 * 1024;

/// An object. It is copied when it is first written to.
#[derive(Debug)]
pub(super) struct Document<'a> {
    pub(super) object: Cow<'a, Map<String, Value>>,
    /// Objects come with floats only; the first patch to one makes its whole numbers integers.
    pub(super) numbers: Numbers,
}

/// What patches may still do.
#[derive(Debug)]
pub(super) struct Budget<'a> {
    /// How much they may write.
    written: usize,
    /// What their expressions may cost.
    pub(super) costs: &'a CostBudget,
}

impl<'a> Budget<'a> {
    pub(super) fn new(costs: &'a CostBudget) -> Self {
        Self { written: MAX_WRITTEN, costs }
    }

    fn spend(&mut self, amount: usize) -> Result<(), Error> {
        self.written = self.written.checked_sub(amount).ok_or_else(|| {
            Error::new(format!("patches write more than {} MiB", MAX_WRITTEN / 1024 / 1024))
        })?;
        Ok(())
    }
}

impl<'a> Document<'a> {
    /// What came over the wire. Nothing is an empty object.
    pub(super) fn of(object: Option<&'a Struct>) -> Result<Self, StructError> {
        let object = match object {
            Some(object) => Cow::Borrowed(object.json()?),
            None => Cow::Owned(Map::new()),
        };
        Ok(Self { object, numbers: Numbers::Floats })
    }

    /// A copy of what an input says.
    pub(super) fn new(object: Map<String, Value>) -> Self {
        Self { object: Cow::Owned(object), numbers: Numbers::Integers }
    }

    /// Put a value where a patch wants it.
    pub(super) fn put(
        &mut self,
        target: &Target,
        value: Value,
        merge: Option<MergeOptions>,
        budget: &mut Budget<'_>,
    ) -> Result<(), Error> {
        if target.has_wildcards {
            return self.put_many(target, &value, merge, budget);
        }
        let put = |document: &mut Self| {
            let path = target.path.as_ref().map_err(Clone::clone)?;
            // Before the value is put: a path to index 1024 in every element of a large list is a short
            // patch.
            budget.spend(weight(&value) + path.reach())?;
            document.put_one(path, value, merge)?;
            document.settle()
        };
        put(self).map_err(|error| error.wrap("cannot patch to object"))
    }

    fn put_many(
        &mut self,
        target: &Target,
        value: &Value,
        merge: Option<MergeOptions>,
        budget: &mut Budget<'_>,
    ) -> Result<(), Error> {
        let path = target.path.as_ref().map_err(Clone::clone)?;
        let paths = path.expand(&self.object)?;
        if paths.is_empty() {
            return Err(Error::new(format!("cannot expand ToFieldPath {}", path.text())));
        }
        let weight = weight(value);
        for path in &paths {
            budget.spend(weight + path.reach())?;
            self.put_one(path, value.clone(), merge)?;
        }
        self.settle()
    }

    fn put_one(
        &mut self,
        path: &crate::fieldpath::Path,
        value: Value,
        merge: Option<MergeOptions>,
    ) -> Result<(), Error> {
        let object = self.object.to_mut();
        match merge {
            None => path.set(object, value),
            Some(options) => path.merge(object, self.numbers, value, options),
        }
    }

    /// After a patch the original reads the object anew, which makes numbers whole and needs a kind.
    fn settle(&mut self) -> Result<(), Error> {
        self.numbers = Numbers::Integers;
        check_kind(&self.object).map_err(Error::new)
    }

    /// Set a field of the metadata. Empty text removes it; metadata that is not an object stays as it is.
    pub(super) fn set_metadata(&mut self, name: &str, value: &str) {
        let object = self.object.to_mut();
        if value.is_empty() {
            if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
                metadata.remove(name);
            }
            return;
        }
        let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(metadata) = metadata {
            metadata.insert(name.to_owned(), Value::String(value.to_owned()));
        }
    }

    pub(super) fn set_text(&mut self, name: &str, value: &str) {
        self.object.to_mut().insert(name.to_owned(), Value::String(value.to_owned()));
    }
}

/// The text of a field, or none.
pub(super) fn text<'a>(object: &'a Map<String, Value>, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The text of a field of the metadata, or none.
pub(super) fn metadata<'a>(object: &'a Map<String, Value>, name: &str) -> &'a str {
    object.get("metadata").and_then(Value::as_object).map_or("", |metadata| text(metadata, name))
}

/// Whether an object has a kind. With an API version that is none it counts as without.
pub(super) fn has_kind(object: &Map<String, Value>) -> bool {
    !text(object, "kind").is_empty() && text(object, "apiVersion").matches('/').count() < 2
}

fn check_kind(object: &Map<String, Value>) -> Result<(), String> {
    if has_kind(object) {
        return Ok(());
    }
    let object = marshal_any(&Any::Object(Cow::Borrowed(object), Numbers::Integers)).unwrap_or_default();
    Err(format!("Object 'Kind' is missing in '{object}'"))
}

/// About how many bytes a value takes.
fn weight(value: &Value) -> usize {
    const NODE: usize = 32;
    NODE + match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(object) => object.iter().map(|(key, value)| key.len() + weight(value)).sum(),
        _ => 0,
    }
}
