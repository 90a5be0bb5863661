//! Requirements on labels.
//!
//! Follows apimachinery 0.36.4, `pkg/labels/selector.go`.

use std::fmt;

use serde_json::{Map, Value};

use super::parse;
use crate::field::{self, Error, Path};
use crate::names;

/// All requirements must be met. Without any, everything is selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelSelector {
    /// None selects nothing at all.
    pub(super) requirements: Option<Vec<Requirement>>,
}

/// What one label must be like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    pub(super) key: String,
    pub(super) operator: Operator,
    pub(super) values: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    In,
    NotIn,
    Equals,
    DoubleEquals,
    NotEquals,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

impl LabelSelector {
    /// Selects everything.
    pub fn everything() -> Self {
        Self { requirements: Some(Vec::new()) }
    }

    /// Selects nothing.
    pub fn nothing() -> Self {
        Self { requirements: None }
    }

    /// Reads the text of a query. The error is in the words of the API server.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut requirements = parse::parse(text)?;
        // Stable, so that requirements on one key keep their order; Go's sort keeps it for up to twelve of them.
        requirements.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(Self { requirements: Some(requirements) })
    }

    /// Whether everything is selected.
    pub fn is_empty(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    pub fn requirements(&self) -> &[Requirement] {
        self.requirements.as_deref().unwrap_or_default()
    }

    /// Whether labels meet the requirements.
    pub fn matches<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        let Some(requirements) = &self.requirements else { return false };
        requirements.iter().all(|requirement| requirement.matches(label(&requirement.key)))
    }

    /// Whether the labels of an object meet the requirements.
    pub fn matches_object(&self, object: &Map<String, Value>) -> bool {
        let labels = object.get("metadata").and_then(|metadata| metadata.get("labels"));
        self.matches(|key| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str))
    }
}

impl Requirement {
    /// Checks what a requirement must be like.
    pub(super) fn new(key: &str, operator: Operator, values: Vec<String>) -> Result<Self, String> {
        let mut errors = Vec::new();
        let (key_path, values_path) = (Path::new("key"), Path::new("values"));
        errors.extend(key_error(key, &key_path));
        let list = || shown(&values);
        let count = values.len();
        match operator {
            Operator::In | Operator::NotIn if count == 0 => {
                let words = "for 'in', 'notin' operators, values set can't be empty";
                errors.push(Error::invalid(&values_path, list(), words));
            }
            Operator::Equals | Operator::DoubleEquals | Operator::NotEquals if count != 1 => {
                let words = "exact-match compatibility requires one single value";
                errors.push(Error::invalid(&values_path, list(), words));
            }
            Operator::Exists | Operator::DoesNotExist if count != 0 => {
                let words = "values set must be empty for exists and does not exist";
                errors.push(Error::invalid(&values_path, list(), words));
            }
            Operator::GreaterThan | Operator::LessThan => {
                if count != 1 {
                    let words = "for 'Gt', 'Lt' operators, exactly one value is required";
                    errors.push(Error::invalid(&values_path, list(), words));
                }
                for (index, value) in values.iter().enumerate().filter(|(_, value)| integer(value).is_none())
                {
                    let words = "for 'Gt', 'Lt' operators, the value must be an integer";
                    errors.push(Error::invalid(&values_path.index(index), value, words));
                }
            }
            _ => {}
        }
        for (index, value) in values.iter().enumerate() {
            let problems = names::label_value(value);
            if !problems.is_empty() {
                errors.push(Error::invalid(&values_path.index(index).key(key), value, problems.join("; ")));
            }
        }
        if errors.is_empty() {
            return Ok(Self { key: key.to_owned(), operator, values });
        }
        Err(field::aggregate(&errors))
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn operator(&self) -> Operator {
        self.operator
    }

    pub fn values(&self) -> &[String] {
        &self.values
    }

    fn matches(&self, label: Option<&str>) -> bool {
        let is_listed = |label: &str| self.values.iter().any(|value| value == label);
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => label.is_some_and(is_listed),
            // A label that is not there is not one of the values either.
            Operator::NotIn | Operator::NotEquals => !label.is_some_and(is_listed),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::GreaterThan => self.compares(label, |label, value| label > value),
            Operator::LessThan => self.compares(label, |label, value| label < value),
        }
    }

    fn compares(&self, label: Option<&str>, holds: fn(i64, i64) -> bool) -> bool {
        let [value] = self.values.as_slice() else { return false };
        // A label that is not a number does not match, and is no mistake: other objects chose it.
        label.and_then(integer).zip(integer(value)).is_some_and(|(label, value)| holds(label, value))
    }
}

/// What is wrong with the key of a label.
pub(super) fn key_error(key: &str, path: &Path<'_>) -> Option<Error> {
    let problems = names::qualified(key);
    (!problems.is_empty()).then(|| Error::invalid(path, key, problems.join("; ")))
}

fn integer(text: &str) -> Option<i64> {
    text.parse().ok()
}

/// A list as errors show it: an empty one is null.
fn shown(values: &[String]) -> Value {
    if values.is_empty() { Value::Null } else { values.into() }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements().iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, after) = match self.operator {
            Operator::Equals => ("=", ""),
            Operator::DoubleEquals => ("==", ""),
            Operator::NotEquals => ("!=", ""),
            Operator::GreaterThan => (">", ""),
            Operator::LessThan => ("<", ""),
            Operator::In => (" in (", ")"),
            Operator::NotIn => (" notin (", ")"),
            Operator::Exists => return f.write_str(&self.key),
            Operator::DoesNotExist => return write!(f, "!{}", self.key),
        };
        let mut values: Vec<_> = self.values.iter().map(String::as_str).collect();
        values.sort_unstable();
        write!(f, "{}{before}{}{after}", self.key, values.join(","))
    }
}
