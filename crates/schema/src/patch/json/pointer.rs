//! Finds the place that an operation is about.
//!
//! Follows evanphx/json-patch 4.13.0, `patch.go`.

use ferroplane_golang::strconv;
use serde_json::Value;

/// A place in a list or an object: the container, and a key or an index in it that need not exist.
pub(super) struct PointerTarget<'v> {
    pub(super) container: &'v mut Value,
    pub(super) key: String,
}

/// Follows a pointer up to its last part. None if there is no such container.
pub(super) fn find<'v>(document: &'v mut Value, pointer: &str) -> Option<PointerTarget<'v>> {
    // What stands before the first slash is ignored, as the original ignores it.
    let (_, path) = pointer.split_once('/')?;
    let (parents, last) = match path.rsplit_once('/') {
        Some((parents, last)) => (Some(parents), last),
        None => (None, path),
    };
    let mut container = document;
    for part in parents.into_iter().flat_map(|parents| parents.split('/')) {
        container = step(container, &decode(part))?;
    }
    let is_container = container.is_object() || container.is_array();
    is_container.then(|| PointerTarget { container, key: decode(last) })
}

fn step<'v>(container: &'v mut Value, key: &str) -> Option<&'v mut Value> {
    match container {
        Value::Object(fields) => fields.get_mut(key),
        Value::Array(items) => {
            let index = existing(key, items.len()).ok()?;
            items.get_mut(index)
        }
        _ => None,
    }
}

/// Undoes the escapes of a pointer, both in one pass.
fn decode(part: &str) -> String {
    let mut decoded = String::with_capacity(part.len());
    let mut rest = part;
    while let Some(position) = rest.find('~') {
        let (before, after) = rest.split_at(position);
        decoded.push_str(before);
        let (character, length) = match after.as_bytes().get(1) {
            Some(b'0') => ('~', 2),
            Some(b'1') => ('/', 2),
            _ => ('~', 1),
        };
        decoded.push(character);
        rest = &after[length..];
    }
    decoded.push_str(rest);
    decoded
}

/// The index of an item that exists; negative ones count from the end.
pub(super) fn existing(key: &str, length: usize) -> Result<usize, String> {
    within(number(key)?, length)
}

/// The index at which an item may be put in.
pub(super) fn vacant(key: &str, length: usize) -> Result<usize, String> {
    let index =
        number(key).map_err(|error| format!("value was not a proper array index: '{key}': {error}"))?;
    within(index, length + 1)
}

fn within(index: i64, limit: usize) -> Result<usize, String> {
    let invalid = || format!("Unable to access invalid index: {index}: invalid index referenced");
    // `SupportNegativeIndices` of the original, which the API server leaves on.
    let absolute = if index < 0 { index.saturating_add_unsigned(limit as u64) } else { index };
    let absolute = usize::try_from(absolute).map_err(|_| invalid())?;
    if absolute < limit { Ok(absolute) } else { Err(invalid()) }
}

/// A number as Go reads it.
fn number(key: &str) -> Result<i64, String> {
    let failure = |why: &str| format!("strconv.Atoi: parsing {}: {why}", strconv::quote(key));
    let digits = key.strip_prefix(['+', '-']).unwrap_or(key);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(failure("invalid syntax"));
    }
    key.parse().map_err(|_| failure("value out of range"))
}
