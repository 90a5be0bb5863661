//! Checks that a value fits its shape, and says where it does not.
//!
//! Follows structured-merge-diff 6.3.3, `typed/validate.go`.

use std::fmt;

use ferroplane_cancellation::checkpoint;
use ferroplane_golang::fmt::{go_syntax, plain, type_name};
use ferroplane_golang::json::JsonObject;
use serde_json::Value;

use super::list::{check_item, compare_items, item_element, sorted_positions};
use super::path::Element;
use super::shape::{Cursor, Form, ListShape, MapShape, ScalarShape};

/// What is wrong with a value, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub path: String,
    pub message: String,
}

/// What is wrong with a value. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl Problem {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { path: String::new(), message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => formatter.write_str(&self.message),
            path => write!(formatter, "{path}: {}", self.message),
        }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [problem] = self.0.as_slice() {
            return problem.fmt(formatter);
        }
        formatter.write_str("errors:")?;
        self.0.iter().try_for_each(|problem| write!(formatter, "\n  {problem}"))
    }
}

impl std::error::Error for Problems {}

/// Whether lists may contain what they should contain only once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicates {
    Allowed,
    Refused,
}

/// Checks an object.
pub fn validate(object: &JsonObject, cursor: Cursor<'_>, duplicates: Duplicates) -> Result<(), Problems> {
    let mut walk = ValueValidator { duplicates, problems: Vec::new() };
    if let Form::Map(map) = cursor.form(cursor.forms()) {
        walk.map(object, map, cursor);
    }
    if walk.problems.is_empty() { Ok(()) } else { Err(Problems(walk.problems)) }
}

struct ValueValidator {
    duplicates: Duplicates,
    problems: Vec<Problem>,
}

impl ValueValidator {
    fn value(&mut self, value: &Value, cursor: Cursor<'_>) {
        checkpoint();
        if value.is_null() || cursor.takes_anything() {
            return;
        }
        match cursor.form(cursor.deduce(value)) {
            Form::Map(map) => match value {
                Value::Object(object) => self.map(object, map, cursor),
                other => self.complain(format!("expected map, got &{{{}}}", plain(other))),
            },
            Form::Scalar(scalar) => self.problems.extend(check_scalar(scalar, value, "")),
            Form::List(list) => match value {
                Value::Array(items) => self.list(items, list, cursor),
                other => self.complain(format!("expected list, got &{{{}}}", plain(other))),
            },
            Form::None => self.complain("schema error: invalid atom: inlined"),
        }
    }

    fn map(&mut self, object: &JsonObject, map: &MapShape, cursor: Cursor<'_>) {
        for (name, value) in object {
            let known = self.problems.len();
            let (field, _) = cursor.field(map, name);
            if let Some(field) = field {
                self.value(value, field);
            } else {
                self.complain("field not declared in schema");
            }
            self.prefix(known, || Element::field(name.as_str()).to_string());
            // Upstream stops at the first undeclared field of a map, and continues after any other mistake.
            if field.is_none() {
                return;
            }
        }
    }

    fn list(&mut self, items: &[Value], list: &ListShape, cursor: Cursor<'_>) {
        let element_cursor = cursor.at(list.element);
        if matches!(list.items, super::shape::Items::Atomic) {
            // Nothing can be wrong below, and large lists of plain values need not be visited.
            if element_cursor.takes_anything() {
                return;
            }
            for (index, item) in items.iter().enumerate() {
                let known = self.problems.len();
                self.value(item, element_cursor);
                self.prefix(known, || format!("[{index}]"));
            }
            return;
        }
        let repeated = match self.duplicates {
            Duplicates::Refused => repeated_items(items, list),
            Duplicates::Allowed => Vec::new(),
        };
        for (index, item) in items.iter().enumerate() {
            if let Err(reason) = check_item(list, cursor, item) {
                // A list with an item that has no name is not checked further.
                return self.complain(format!("element {index}: {reason}"));
            }
            let element = || item_element(list, cursor, item).unwrap_or(Element::Unnamed);
            if repeated.binary_search(&index).is_ok() {
                self.complain(format!("duplicate entries for key {}", element()));
            }
            let known = self.problems.len();
            self.value(item, element_cursor);
            self.prefix(known, || element().to_string());
        }
    }

    fn complain(&mut self, message: impl Into<String>) {
        self.problems.push(Problem::new(message));
    }

    fn prefix(&mut self, known: usize, step: impl Fn() -> String) {
        prefix(&mut self.problems[known..], step);
    }
}

/// Where items are that are the same as one before them, in order.
fn repeated_items(items: &[Value], list: &ListShape) -> Vec<usize> {
    if items.len() < 2 {
        return Vec::new();
    }
    let positions = sorted_positions(list, items);
    let is_same =
        |pair: &&[u32]| compare_items(list, &items[pair[0] as usize], &items[pair[1] as usize]).is_eq();
    let mut repeated: Vec<_> = positions.windows(2).filter(is_same).map(|pair| pair[1] as usize).collect();
    repeated.sort_unstable();
    repeated
}

/// Puts a step before the paths of problems.
pub(super) fn prefix(problems: &mut [Problem], step: impl Fn() -> String) {
    if !problems.is_empty() {
        let step = step();
        for problem in problems {
            problem.path.insert_str(0, &step);
        }
    }
}

/// What is wrong with a scalar, if anything.
pub(super) fn check_scalar(scalar: ScalarShape, value: &Value, prefix: &str) -> Option<Problem> {
    let message = match (scalar, value) {
        (_, Value::Null)
        | (ScalarShape::Numeric, Value::Number(_))
        | (ScalarShape::Text, Value::String(_))
        | (ScalarShape::Boolean, Value::Bool(_))
        | (ScalarShape::Untyped, Value::Number(_) | Value::String(_) | Value::Bool(_)) => return None,
        (ScalarShape::Numeric, other) => {
            format!("{prefix}expected numeric (int or float), got {}", type_name(other).unwrap_or("<nil>"))
        }
        (ScalarShape::Text, other) => {
            format!("{prefix}expected string, got &value.valueUnstructured{{Value:{}}}", go_syntax(other))
        }
        (ScalarShape::Boolean, other) => format!("{prefix}expected boolean, got &{{{}}}", plain(other)),
        (ScalarShape::Untyped, other) => {
            format!("{prefix}expected any scalar, got &{{{}}}", plain(other))
        }
    };
    Some(Problem::new(message))
}
