//! JSON patches (RFC 6902), with the liberties of the API server: an index may count from the end, and `replace` may
//! name a field that is not there.
//!
//! Follows evanphx/json-patch 4.13.0, `patch.go`.

mod apply;
mod pointer;

use ferroplane_golang::{fmt, strconv};
use serde_json::{Map, Value};

use super::Error;
use apply::Usage;

/// How many operations a patch may have.
// The limit of the API server (`maxJSONPatchOperations` in patch.go).
pub const MAX_OPERATIONS: usize = 10_000;
/// How many bytes of JSON the `copy` operations of one patch may copy.
// Copies can double an object with each operation; the API server bounds them by the size of a request.
pub const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// How often the operations of one patch may move an item of a list. No real patch comes near, but ten thousand
/// insertions at the front of a long list take minutes.
const MAX_MOVED_ITEMS: usize = 50_000_000;

/// A list of operations.
#[derive(Debug, Clone, PartialEq)]
pub struct Patch {
    operations: Vec<Operation>,
}

#[derive(Debug, Clone, PartialEq)]
struct Operation {
    kind: String,
    path: Text,
    from: Text,
    value: Option<Value>,
}

/// A field that should be text.
#[derive(Debug, Clone, PartialEq)]
enum Text {
    Missing,
    Wrong(String),
    Is(String),
}

impl Patch {
    /// Reads the operations. Whether each makes sense is found out when it is applied.
    pub fn decode(patch: Value) -> Result<Self, Error> {
        let operations = match patch {
            Value::Null => Vec::new(),
            Value::Array(operations) => operations,
            other => return Err(wrong(&other, "jsonpatch.Patch")),
        };
        if operations.len() > MAX_OPERATIONS {
            return Err(Error::TooLarge(format!(
                "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                operations.len()
            )));
        }
        let operations = operations.into_iter().map(Operation::decode).collect::<Result<_, _>>()?;
        Ok(Self { operations })
    }

    /// Checks strictly, as a server does unless unknown fields are to be ignored: returns which fields of operations are unknown, and
    /// refuses those of the wrong type.
    pub fn check(patch: &Value) -> Result<Vec<String>, Error> {
        let wrong = |found: &Value, place: &str| {
            let found = describe(found);
            Error::Malformed(format!("error decoding patch: json: cannot unmarshal {found} into Go {place}"))
        };
        let operations = match patch {
            Value::Null => return Ok(Vec::new()),
            Value::Array(operations) => operations,
            other => return Err(wrong(other, "value of type []handlers.jsonPatchOp")),
        };
        let mut unknown = Vec::new();
        for (index, operation) in operations.iter().enumerate().filter(|(_, operation)| !operation.is_null())
        {
            let fields = operation.as_object();
            let fields = fields.ok_or_else(|| wrong(operation, "value of type handlers.jsonPatchOp"))?;
            for (name, field) in fields {
                match (name.as_str(), field) {
                    ("value", _) | ("op" | "path" | "from", Value::String(_) | Value::Null) => {}
                    ("op" | "path" | "from", other) => {
                        return Err(wrong(other, &format!("struct field jsonPatchOp.{name} of type string")));
                    }
                    _ => {
                        let place = strconv::quote(&format!("[{index}].{name}"));
                        unknown.push(format!("json patch unknown field {place}"));
                    }
                }
            }
        }
        Ok(unknown)
    }

    /// Applies the operations one after the other.
    pub fn apply(self, mut document: Value) -> Result<Value, Error> {
        let mut usage = Usage::default();
        for operation in self.operations {
            operation.apply(&mut document, &mut usage)?;
        }
        Ok(document)
    }
}

impl Operation {
    fn decode(operation: Value) -> Result<Self, Error> {
        let mut fields = match operation {
            Value::Null => Map::new(),
            Value::Object(fields) => fields,
            other => return Err(wrong(&other, "jsonpatch.Operation")),
        };
        let kind = match fields.remove("op") {
            Some(Value::String(kind)) => kind,
            // The word that evanphx/json-patch reports for an operation that does not say what it is.
            _ => "unknown".to_owned(),
        };
        let path = Text::from(fields.remove("path"));
        let from = Text::from(fields.remove("from"));
        Ok(Self { kind, path, from, value: fields.remove("value") })
    }
}

impl From<Option<Value>> for Text {
    fn from(value: Option<Value>) -> Self {
        match value {
            None | Some(Value::Null) => Self::Missing,
            Some(Value::String(text)) => Self::Is(text),
            Some(other) => Self::Wrong(format!(
                "json: cannot unmarshal {} into Go value of type string",
                describe(&other)
            )),
        }
    }
}

impl Text {
    /// The text, or why there is none; `missing` says so of a field that is not there.
    fn get(&self, missing: &str) -> Result<&str, String> {
        match self {
            Self::Is(text) => Ok(text),
            Self::Missing => Err(missing.to_owned()),
            Self::Wrong(reason) => Err(reason.clone()),
        }
    }
}

fn wrong(value: &Value, wanted: &str) -> Error {
    Error::Malformed(format!("json: cannot unmarshal {} into Go value of type {wanted}", describe(value)))
}

/// What the decoder of Go calls a value.
pub(crate) fn describe(value: &Value) -> &'static str {
    match value {
        Value::Number(_) => "number",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        other => fmt::type_name(other).unwrap_or("null"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(document: Value, patch: Value) -> Result<Value, String> {
        let patch = Patch::decode(patch).map_err(|error| error.to_string())?;
        patch.apply(document).map_err(|error| error.to_string())
    }

    #[test]
    fn operations_are_applied_in_order() {
        let patch = json!([
            {"op": "test", "path": "/a", "value": [1, 2]},
            {"op": "add", "path": "/a/1", "value": 3},
            {"op": "copy", "from": "/a", "path": "/b~1c"},
            {"op": "move", "from": "/a/-1", "path": "/a/0"},
        ]);
        assert_eq!(patched(json!({"a": [1, 2]}), patch).unwrap(), json!({"a": [2, 1, 3], "b/c": [1, 3, 2]}));
    }

    #[test]
    fn operation_that_does_not_apply_is_explained() {
        let failure = |operation: Value| patched(json!({"a": [1]}), json!([operation])).unwrap_err();
        assert_eq!(
            failure(json!({"op": "remove", "path": "/b"})),
            "error in remove for path: '/b': Unable to remove nonexistent key: b: missing value"
        );
        assert_eq!(
            failure(json!({"op": "add", "path": "/a/7", "value": 1})),
            "error in add for path: '/a/7': Unable to access invalid index: 7: invalid index referenced"
        );
        assert_eq!(
            failure(json!({"op": "test", "path": "/a/0", "value": 2})),
            "testing value /a/0 failed: test failed"
        );
    }

    #[test]
    fn fields_that_mean_nothing_are_named() {
        let patch = json!([{"op": "add", "path": "/a", "foo": 1}, null]);
        assert_eq!(Patch::check(&patch).unwrap(), ["json patch unknown field \"[0].foo\""]);
        let error = Patch::check(&json!([{"op": 1}])).unwrap_err();
        let expected = "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type \
                        string";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn copies_cannot_grow_without_bound() {
        let doubling = json!({"op": "copy", "from": "/a", "path": "/a/-"});
        let patch = Value::Array(vec![doubling; 100]);
        let error = patched(json!({"a": ["x".repeat(1000)]}), patch).unwrap_err();
        assert!(error.starts_with("Unable to complete the copy"), "{error}");
    }

    #[test]
    fn too_many_operations_are_refused() {
        let patch = Value::Array(vec![json!({"op": "test", "path": "", "value": {}}); MAX_OPERATIONS + 1]);
        let words = "The allowed maximum operations in a JSON patch is 10000, got 10001";
        assert_eq!(Patch::decode(patch).unwrap_err(), Error::TooLarge(words.to_owned()));
    }

    #[test]
    fn insertions_at_the_front_of_a_long_list_end() {
        let patch = Value::Array(vec![json!({"op": "add", "path": "/0", "value": 1}); MAX_OPERATIONS]);
        let list = Value::Array(vec![Value::Null; 50_000]);
        assert!(matches!(Patch::decode(patch).unwrap().apply(list), Err(Error::TooLarge(_))));
    }
}
