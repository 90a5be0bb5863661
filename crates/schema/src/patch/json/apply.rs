//! Carries operations out, and says in the words of the API server what keeps one from it.
//!
//! Follows evanphx/json-patch 4.13.0, `patch.go`.

use std::io;

use ferroplane_cancellation::milestone;
use serde_json::Value;

use super::pointer::{self, PointerTarget};
use super::{MAX_COPIED_BYTES, MAX_MOVED_ITEMS, Operation};
use crate::patch::Error;

const MISSING: &str = "missing value";
const FAILED: &str = "test failed";
const NO_PATH: &str = "operation missing path field: missing value";
const NO_FROM: &str = "operation, missing from field: missing value";

type ApplyResult = Result<(), String>;

/// What the operations of one patch have used up.
#[derive(Debug, Default)]
pub(super) struct Usage {
    copied: usize,
    moved: usize,
}

impl Operation {
    pub(super) fn apply(self, document: &mut Value, usage: &mut Usage) -> Result<(), Error> {
        milestone();
        let outcome = match self.kind.as_str() {
            "add" => self.add(document, usage),
            "remove" => self.remove(document, usage),
            "replace" => self.replace(document),
            "move" => self.relocate(document, usage),
            "test" => self.test(document),
            "copy" => self.copy(document, usage),
            kind => Err(format!("Unexpected kind: {kind}")),
        };
        outcome.map_err(Error::NotApplicable)?;
        // Checked after each operation, which is bounded by the length of one list.
        if usage.moved > MAX_MOVED_ITEMS {
            let words = format!("The operations of a JSON patch may move list items {MAX_MOVED_ITEMS} times");
            return Err(Error::TooLarge(words));
        }
        Ok(())
    }

    fn add(self, document: &mut Value, usage: &mut Usage) -> ApplyResult {
        // Whatever is wrong with the path, it is said to be missing.
        let path =
            self.path.get(MISSING).map_err(|_| format!("add operation failed to decode path: {MISSING}"))?;
        let place = pointer::find(document, path).ok_or_else(|| {
            format!("add operation does not apply: doc is missing path: \"{path}\": {MISSING}")
        })?;
        let value = self.value.unwrap_or(Value::Null);
        place.insert(value, usage).map_err(|error| format!("error in add for path: '{path}': {error}"))
    }

    fn remove(self, document: &mut Value, usage: &mut Usage) -> ApplyResult {
        let path = self
            .path
            .get(MISSING)
            .map_err(|_| format!("remove operation failed to decode path: {MISSING}"))?;
        let place = pointer::find(document, path).ok_or_else(|| {
            format!("remove operation does not apply: doc is missing path: \"{path}\": {MISSING}")
        })?;
        let removed = place.remove(usage);
        removed.map(drop).map_err(|error| format!("error in remove for path: '{path}': {error}"))
    }

    fn replace(self, document: &mut Value) -> ApplyResult {
        let path = self.path.get(NO_PATH);
        let path = path.map_err(|error| format!("replace operation failed to decode path: {error}"))?;
        let value = self.value.unwrap_or(Value::Null);
        if path.is_empty() {
            if !value.is_object() && !value.is_array() {
                // The odd ending is Go's: the original wraps an error that is nil there.
                return Err("replace operation value must be object or array: %!w(<nil>)".to_owned());
            }
            *document = value;
            return Ok(());
        }
        let place = pointer::find(document, path).ok_or_else(|| {
            format!("replace operation does not apply: doc is missing path: {path}: {MISSING}")
        })?;
        place
            .replace(value)
            .map_err(|()| format!("replace operation does not apply: doc is missing key: {path}: {MISSING}"))
    }

    fn relocate(self, document: &mut Value, usage: &mut Usage) -> ApplyResult {
        let from = self.from.get(NO_FROM);
        let from = from.map_err(|error| format!("move operation failed to decode from: {error}"))?;
        let place = pointer::find(document, from).ok_or_else(|| {
            format!("move operation does not apply: doc is missing from path: {from}: {MISSING}")
        })?;
        // Kubernetes names the last part of the pointer here, and the whole one everywhere else.
        let key = place.key.clone();
        let removed = place.remove(usage);
        let value = removed.map_err(|error| format!("error in move for path: '{key}': {error}"))?;
        let path = self.path.get(NO_PATH);
        let path = path.map_err(|error| format!("move operation failed to decode path: {error}"))?;
        let place = pointer::find(document, path).ok_or_else(|| {
            format!("move operation does not apply: doc is missing destination path: {path}: {MISSING}")
        })?;
        place.insert(value, usage).map_err(|error| format!("error in move for path: '{path}': {error}"))
    }

    fn test(self, document: &mut Value) -> ApplyResult {
        let path = self.path.get(NO_PATH);
        let path = path.map_err(|error| format!("test operation failed to decode path: {error}"))?;
        let failed = || format!("testing value {path} failed: {FAILED}");
        if path.is_empty() {
            let is_met = self.value.as_ref().is_some_and(|value| document == value);
            return if is_met { Ok(()) } else { Err(failed()) };
        }
        let place = pointer::find(document, path)
            .ok_or_else(|| format!("test operation does not apply: is missing path: {path}: {MISSING}"))?;
        let found = place.get().map_err(|error| format!("error in test for path: '{path}': {error}"))?;
        // What is not there is null, and so is an expectation that is not there.
        let is_met = found.unwrap_or(&Value::Null) == self.value.as_ref().unwrap_or(&Value::Null);
        if is_met { Ok(()) } else { Err(failed()) }
    }

    fn copy(self, document: &mut Value, usage: &mut Usage) -> ApplyResult {
        let from = self.from.get(NO_FROM);
        let from = from.map_err(|error| format!("copy operation failed to decode from: {error}"))?;
        let place = pointer::find(document, from).ok_or_else(|| {
            format!("copy operation does not apply: doc is missing from path: {from}: {MISSING}")
        })?;
        let found = place.get().map_err(|error| format!("error in copy for from: '{from}': {error}"))?;
        // Counted before cloning: a patch at its limit must not allocate first.
        let copied = usage.copied.saturating_add(found.map_or(0, size));
        let value = (copied <= MAX_COPIED_BYTES).then(|| found.cloned().unwrap_or(Value::Null));
        let path = self.path.get(NO_PATH);
        // The destination is checked before the size, so that the more helpful mistake is reported.
        let path = path.map_err(|_| format!("copy operation failed to decode path: {MISSING}"))?;
        let place = pointer::find(document, path).ok_or_else(|| {
            format!("copy operation does not apply: doc is missing destination path: {path}: {MISSING}")
        })?;
        usage.copied = copied;
        let value = value.ok_or_else(|| {
            format!(
                "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the limit \
                 {MAX_COPIED_BYTES}"
            )
        })?;
        place.insert(value, usage).map_err(|error| format!("error while adding value during copy: {error}"))
    }
}

impl<'v> PointerTarget<'v> {
    /// What is there; a field that is not there is no mistake, but an item is.
    fn get(self) -> Result<Option<&'v Value>, String> {
        match self.container {
            Value::Object(fields) => Ok(fields.get(&self.key)),
            Value::Array(items) => {
                let index = pointer::existing(&self.key, items.len())?;
                Ok(items.get(index))
            }
            _ => Ok(None),
        }
    }

    fn insert(self, value: Value, usage: &mut Usage) -> ApplyResult {
        match self.container {
            Value::Object(fields) => {
                fields.insert(self.key, value);
            }
            Value::Array(items) if self.key == "-" => items.push(value),
            Value::Array(items) => {
                let index = pointer::vacant(&self.key, items.len())?;
                usage.moved += items.len() - index;
                items.insert(index, value);
            }
            _ => {}
        }
        Ok(())
    }

    fn replace(self, value: Value) -> Result<(), ()> {
        match self.container {
            Value::Object(fields) => {
                fields.insert(self.key, value);
            }
            Value::Array(items) => {
                let index = pointer::existing(&self.key, items.len()).map_err(drop)?;
                let item = items.get_mut(index).ok_or(())?;
                *item = value;
            }
            _ => {}
        }
        Ok(())
    }

    fn remove(self, usage: &mut Usage) -> Result<Value, String> {
        match self.container {
            Value::Object(fields) => fields
                .remove(&self.key)
                .ok_or_else(|| format!("Unable to remove nonexistent key: {}: {MISSING}", self.key)),
            Value::Array(items) => {
                let index = pointer::existing(&self.key, items.len())?;
                usage.moved += items.len() - index;
                Ok(items.remove(index))
            }
            _ => Ok(Value::Null),
        }
    }
}

/// The length of a value as JSON.
fn size(value: &Value) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}
