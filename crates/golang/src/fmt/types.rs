//! What Go calls the types of JSON values.
//!
//! Follows Go 1.26, `reflect/type.go`.

use serde_json::Value;

use super::{Any, Numbers, plain};

/// The name of the type that a decoded value has in Go, as `%T` writes it; none for null.
pub fn type_name(value: &Value) -> Option<&'static str> {
    // `%T` of nil is `<nil>`, which is not a type: callers compare types, and two nulls must be equal
    // without a name.
    (!value.is_null()).then(|| Any::of(value, Numbers::AsWritten).type_name())
}

/// Whether two values have the same type in Go.
pub fn is_same_type(one: &Value, other: &Value) -> bool {
    type_name(one) == type_name(other)
}

/// A list of values as `%v` prints it.
pub fn plain_list<'v>(values: impl IntoIterator<Item = &'v Value>) -> String {
    let values: Vec<_> = values.into_iter().map(plain).collect();
    format!("[{}]", values.join(" "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn types_are_those_of_go() {
        assert_eq!(type_name(&json!(1.0)), Some("float64"));
        assert!(!is_same_type(&json!(1), &json!(1.5)));
        assert_eq!(plain_list(&[json!("a b"), json!(null)]), "[a b <nil>]");
    }
}
