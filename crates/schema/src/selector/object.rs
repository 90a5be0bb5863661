//! The `LabelSelector` object: `matchLabels` and `matchExpressions`.
//!
//! Follows apimachinery 0.36.4, `pkg/apis/meta/v1/helpers.go`, `pkg/apis/meta/v1/validation/validation.go`.

use ferroplane_golang::{json, strconv};
use serde_json::Value;

use super::labels::{LabelSelector, Operator, Requirement};
use crate::field::{BadValue, Error, Path};
use crate::{meta, names};

struct Expression<'s> {
    key: &'s str,
    operator: &'s str,
    values: Vec<&'s str>,
}

impl LabelSelector {
    /// Reads a selector that another object carries. Null selects nothing, an empty one everything.
    pub fn from_object(selector: &Value) -> Result<Self, String> {
        if selector.is_null() {
            return Ok(Self::nothing());
        }
        let mut requirements = Vec::new();
        for (key, value) in match_labels(selector) {
            requirements.push(Requirement::new(key, Operator::Equals, vec![value.to_owned()])?);
        }
        for Expression { key, operator, values } in match_expressions(selector) {
            let operator = match operator {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    return Err(format!("{} is not a valid label selector operator", strconv::quote(other)));
                }
            };
            requirements.push(Requirement::new(
                key,
                operator,
                values.into_iter().map(str::to_owned).collect(),
            )?);
        }
        // As Go's selectors are sorted when requirements are added, so that texts of them compare.
        requirements.sort_by(|one, other| one.key().cmp(other.key()));
        Ok(Self { requirements: Some(requirements) })
    }
}

/// What is wrong with a selector that another object carries.
pub fn validate(selector: &Value, path: &Path<'_>) -> Vec<Error> {
    let mut errors = Vec::new();
    meta::validate_labels(match_labels(selector), &path.child("matchLabels"), &mut errors);
    let expressions = path.child("matchExpressions");
    for (index, expression) in match_expressions(selector).into_iter().enumerate() {
        validate_expression(&expression, &expressions.index(index), &mut errors);
    }
    errors
}

fn validate_expression(expression: &Expression<'_>, path: &Path<'_>, errors: &mut Vec<Error>) {
    let values = path.child("values");
    match expression.operator {
        "In" | "NotIn" if expression.values.is_empty() => {
            errors.push(Error::required(&values, "must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if !expression.values.is_empty() => {
            let words = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(Error::forbidden(&values, words));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => {
            // The operator is a type of its own in Go, and those are shown as JSON.
            let shown = BadValue::Text(json::marshal(&Value::from(other)));
            errors.push(Error::invalid(&path.child("operator"), shown, "not a valid selector operator"));
        }
    }
    let key = path.child("key");
    errors.extend(
        names::qualified(expression.key)
            .into_iter()
            .map(|problem| Error::invalid(&key, expression.key, problem)),
    );
    for (index, value) in expression.values.iter().enumerate() {
        let path = values.index(index);
        errors.extend(
            names::label_value(value).into_iter().map(|problem| Error::invalid(&path, *value, problem)),
        );
    }
}

fn match_labels(selector: &Value) -> impl Iterator<Item = (&str, &str)> {
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    labels.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

fn match_expressions(selector: &Value) -> Vec<Expression<'_>> {
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    expressions.into_iter().flatten().map(Expression::read).collect()
}

impl<'s> Expression<'s> {
    fn read(expression: &'s Value) -> Self {
        let text = |name: &str| expression.get(name).and_then(Value::as_str).unwrap_or_default();
        let values = expression.get("values").and_then(Value::as_array);
        let values = values.into_iter().flatten().map(|value| value.as_str().unwrap_or_default());
        Self { key: text("key"), operator: text("operator"), values: values.collect() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn object_selects_by_labels_and_expressions() {
        let selector = json!({
            "matchLabels": {"a": "b"},
            "matchExpressions": [{"key": "c", "operator": "NotIn", "values": ["e", "d"]}],
        });
        let selector = LabelSelector::from_object(&selector).unwrap();
        assert_eq!(selector.to_string(), "a=b,c notin (d,e)");
        let object = json!({"metadata": {"labels": {"a": "b"}}});
        assert!(selector.matches_object(object.as_object().unwrap()));
        assert!(!LabelSelector::from_object(&Value::Null).unwrap().matches(|_| None));
    }
}
