//! Merging a value with what is there, as the merge options of patch policies ask.
//!
//! The rules are those of the library Crossplane merges with, including where they surprise: a value is
//! *empty*, and gives way even when values are kept, if it is null, false, zero, or has no length.

use ferroplane_golang::fmt::{Any, Numbers};
use serde_json::{Map, Value};

use super::{Error, Path, integer};

/// How a value is merged with what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct MergeOptions {
    /// Values that are there win.
    pub(crate) keep_map_values: bool,
    /// Arrays are appended to, not replaced. At the path itself, items that are there are not added again.
    pub(crate) append_slice: bool,
    /// All numbers of the value are floats. Otherwise, whole ones are integers.
    pub(crate) has_floats: bool,
}

impl Path {
    /// Merge a value with what is here. What is missing or null is simply set. `numbers` says what the whole numbers
    /// of the object are.
    pub(crate) fn merge(
        &self,
        object: &mut Map<String, Value>,
        numbers: Numbers,
        value: Value,
        options: MergeOptions,
    ) -> Result<(), Error> {
        let there = match self.get(object) {
            Ok(there) => there.clone(),
            Err(error) if error.is_not_found() => Value::Null,
            Err(error) => return Err(error),
        };
        let merged = merge_values(there, numbers, value, options)
            .map_err(|problem| Error::new(format!("failed to merge values: {problem}")))?;
        self.set(object, merged)
    }
}

fn merge_values(
    there: Value,
    numbers: Numbers,
    mut value: Value,
    options: MergeOptions,
) -> Result<Value, String> {
    if there.is_null() || value.is_null() {
        return Ok(value);
    }
    if let (Value::Array(items), Value::Array(new)) = (&there, &mut value)
        && options.append_slice
    {
        let types = (numbers, if options.has_floats { Numbers::Floats } else { Numbers::Integers });
        // Quadratic, as the original is; the budget for patches bounds both lists.
        new.retain(|item| !items.iter().any(|other| is_same(other, item, types)));
        // The original ends up with no array at all when there is nothing to append to nothing.
        if items.is_empty() && new.is_empty() {
            return Ok(Value::Null);
        }
    }
    // The value itself is merged as a field is, so treat it as one.
    let mut wrapped = Map::from_iter([(String::new(), there)]);
    merge_field(&mut wrapped, numbers, "", value, options)?;
    Ok(wrapped.remove("").unwrap_or_default())
}

fn merge_objects(
    there: &mut Map<String, Value>,
    numbers: Numbers,
    new: Map<String, Value>,
    options: MergeOptions,
) -> Result<(), String> {
    new.into_iter().try_for_each(|(key, value)| merge_field(there, numbers, &key, value, options))
}

fn merge_field(
    there: &mut Map<String, Value>,
    numbers: Numbers,
    key: &str,
    new: Value,
    options: MergeOptions,
) -> Result<(), String> {
    let Some(old) = there.get_mut(key) else {
        // Null is only ever written over something else if values are not kept.
        if !(new.is_null() && options.keep_map_values) {
            there.insert(key.to_owned(), new);
        }
        return Ok(());
    };
    match (&mut *old, new) {
        (old, Value::Null) => {
            if !options.keep_map_values {
                *old = Value::Null;
            }
        }
        (Value::Object(old), Value::Object(new)) => merge_objects(old, numbers, new, options)?,
        // Below the path itself items are appended even if they are there: only the top is deduplicated.
        (Value::Array(items), Value::Array(new)) if options.append_slice => items.extend(new),
        (old, Value::Array(_)) if options.append_slice && !old.is_null() => {
            return Err(format!(
                "cannot append two slices with different type ([]interface {{}}, {})",
                Any::of(old, numbers).type_name()
            ));
        }
        (old, new) => {
            if !options.keep_map_values || is_empty(old) {
                *old = new;
            }
        }
    }
    Ok(())
}

/// Whether Go would call them deeply equal: an integer is never equal to a float.
fn is_same(there: &Value, new: &Value, types: (Numbers, Numbers)) -> bool {
    match (there, new) {
        (Value::Number(_), Value::Number(_)) => Any::of(there, types.0) == Any::of(new, types.1),
        (Value::Array(there), Value::Array(new)) => {
            there.len() == new.len() && there.iter().zip(new).all(|(there, new)| is_same(there, new, types))
        }
        (Value::Object(there), Value::Object(new)) => {
            there.len() == new.len()
                && there
                    .iter()
                    .zip(new)
                    .all(|(there, new)| there.0 == new.0 && is_same(there.1, new.1, types))
        }
        _ => there == new,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(truth) => !truth,
        Value::Number(number) => integer(number) == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(object) => object.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::object;
    use super::*;

    const KEEP: MergeOptions = MergeOptions { keep_map_values: true, append_slice: false, has_floats: false };
    const KEEP_APPEND: MergeOptions = MergeOptions { append_slice: true, ..KEEP };
    const FORCE: MergeOptions = MergeOptions { keep_map_values: false, ..KEEP };
    const FORCE_APPEND: MergeOptions = MergeOptions { append_slice: true, ..FORCE };

    fn merge(there: impl Into<Value>, value: Value, options: MergeOptions) -> Result<Value, String> {
        let mut target = object(json!({"a": there.into()}));
        let merged = Path::parse("a").unwrap().merge(&mut target, Numbers::Integers, value, options);
        merged.map(|()| target.remove("a").unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn kept_values_win_unless_they_are_empty() {
        let there = json!({"kept": 1, "empty": "", "zero": 0, "list": [1], "deep": {"kept": true}});
        let value =
            json!({"kept": 2, "empty": "x", "zero": 3, "list": [2], "deep": {"kept": 0, "new": 1}, "new": 4});
        let merged = json!({
            "kept": 1, "empty": "x", "zero": 3, "list": [1], "deep": {"kept": true, "new": 1}, "new": 4
        });
        assert_eq!(merge(there, value, KEEP), Ok(merged));
        assert_eq!(merge(json!("there"), json!("new"), KEEP), Ok(json!("there")));
        assert_eq!(merge(json!({"a": 1}), json!({"a": null, "b": null}), KEEP), Ok(json!({"a": 1})));
        assert_eq!(merge(json!({"a": 1}), json!("text"), KEEP), Ok(json!({"a": 1})));
    }

    #[test]
    fn forced_values_win_but_fields_that_are_not_named_stay() {
        let there = json!({"a": 1, "stays": 2, "list": [1], "deep": {"x": 1, "y": 2}});
        let value = json!({"a": null, "list": [2], "deep": {"x": ""}, "new": null});
        let merged = json!({"a": null, "stays": 2, "list": [2], "deep": {"x": "", "y": 2}, "new": null});
        assert_eq!(merge(there, value, FORCE), Ok(merged));
        assert_eq!(merge(json!({"a": 1}), json!([1]), FORCE), Ok(json!([1])));
    }

    #[test]
    fn arrays_are_appended_without_repeating_what_is_there() {
        assert_eq!(merge(json!([1, 2]), json!([2.0, 3, 3]), FORCE_APPEND), Ok(json!([1, 2, 3, 3])));
        assert_eq!(merge(json!([{"a": 1}]), json!([{"a": 1}]), KEEP_APPEND), Ok(json!([{"a": 1}])));
        assert_eq!(merge(json!([]), json!([1]), KEEP_APPEND), Ok(json!([1])));
        assert_eq!(merge(json!([]), json!([]), KEEP_APPEND), Ok(json!(null)));
    }

    #[test]
    fn numbers_of_another_type_are_other_numbers() {
        let mut target = object(json!({"a": [1, 0.5]}));
        let path = Path::parse("a").unwrap();
        path.merge(&mut target, Numbers::Floats, json!([1, 0.5]), FORCE_APPEND).unwrap();
        assert_eq!(Value::Object(target), json!({"a": [1, 0.5, 1]}));
    }

    #[test]
    fn arrays_deeper_down_are_appended_as_they_are() {
        let merged = merge(json!({"l": [1], "n": null}), json!({"l": [1, 2], "n": [3]}), FORCE_APPEND);
        assert_eq!(merged, Ok(json!({"l": [1, 1, 2], "n": [3]})));
    }

    #[test]
    fn appending_to_what_is_no_array_is_an_error() {
        let error =
            "failed to merge values: cannot append two slices with different type ([]interface {}, string)";
        assert_eq!(merge(json!("text"), json!([1]), FORCE_APPEND), Err(error.into()));
    }

    #[test]
    fn null_and_missing_are_replaced() {
        assert_eq!(merge(json!(null), json!({"a": 1}), KEEP), Ok(json!({"a": 1})));
        assert_eq!(merge(json!({"a": 1}), json!(null), KEEP), Ok(json!(null)));
        let mut target = Map::new();
        Path::parse("x.y").unwrap().merge(&mut target, Numbers::Integers, json!([1]), KEEP_APPEND).unwrap();
        assert_eq!(Value::Object(target), json!({"x": {"y": [1]}}));
    }
}
