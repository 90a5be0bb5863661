//! What Go calls a JSON value.

use serde_json::Value;

use crate::go_text;

/// The name of the type that a decoded value has in Go; none for null.
pub(crate) fn type_name(value: &Value) -> Option<&'static str> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(_) => "bool",
        Value::Number(number) if number.as_i64().is_some() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    })
}

/// Whether two values have the same type in Go.
pub(crate) fn is_same_type(one: &Value, other: &Value) -> bool {
    type_name(one) == type_name(other)
}

/// A list of values as `%v` prints it.
pub(crate) fn show_list<'v>(values: impl IntoIterator<Item = &'v Value>) -> String {
    let values: Vec<_> = values.into_iter().map(go_text::plain).collect();
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
        assert_eq!(show_list(&[json!("a b"), json!(null)]), "[a b <nil>]");
    }
}
