//! Evaluates paths.
//!
//! Follows client-go 0.36.4, `util/jsonpath/jsonpath.go`.

use std::borrow::Cow;
use std::fmt;

use ferroplane_golang::fmt::{plain, type_name};
use ferroplane_golang::json;
use serde_json::Value;

use super::{MAX_VALUES, PathNode, Slice, compare};

/// What a path leads to.
#[derive(Debug, Clone, PartialEq)]
pub enum Found<'v> {
    /// A value of the object.
    Json(&'v Value),
    /// A text, a number or a truth of the path itself.
    Literal(Value),
    /// A byte of a text: what is in a text if one looks inside.
    Byte(u8),
}

impl Found<'_> {
    /// The value, unless it is a byte.
    pub fn as_json(&self) -> Option<&Value> {
        match self {
            Self::Json(value) => Some(value),
            Self::Literal(value) => Some(value),
            Self::Byte(_) => None,
        }
    }

    fn is_null(&self) -> bool {
        self.as_json().is_some_and(Value::is_null)
    }

    fn type_name(&self) -> &'static str {
        match self {
            Self::Byte(_) => "uint8",
            Self::Literal(Value::Number(number)) if number.is_i64() => "int",
            Self::Literal(value) => type_name(value).unwrap_or("<nil>"),
            Self::Json(value) => type_name(value).unwrap_or("<nil>"),
        }
    }

    fn show(&self) -> Cow<'_, str> {
        match self {
            Self::Byte(byte) => byte.to_string().into(),
            Self::Json(value) => plain(value).into(),
            Self::Literal(value) => plain(value).into(),
        }
    }
}

/// As it is printed in a column.
impl fmt::Display for Found<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_json() {
            Some(Value::Null) => f.write_str("null"),
            Some(value @ (Value::Array(_) | Value::Object(_))) => f.write_str(&json::marshal(value)),
            _ => f.write_str(&self.show()),
        }
    }
}

type FindResult<'v> = Result<Vec<Found<'v>>, String>;

/// The results of every part of a template.
pub(super) fn find<'v>(
    parts: &[PathNode],
    value: &'v Value,
    allows_missing: bool,
) -> Result<Vec<Vec<Found<'v>>>, String> {
    let mut walk = PathEvaluator { allows_missing, left: MAX_VALUES };
    parts.iter().map(|part| walk.step(vec![Found::Json(value)], part)).collect()
}

struct PathEvaluator {
    allows_missing: bool,
    /// How many values may still be passed on.
    left: usize,
}

impl PathEvaluator {
    fn nodes<'v>(&mut self, mut input: Vec<Found<'v>>, nodes: &[PathNode]) -> FindResult<'v> {
        for node in nodes {
            input = self.step(input, node)?;
        }
        Ok(input)
    }

    fn step<'v>(&mut self, input: Vec<Found<'v>>, node: &PathNode) -> FindResult<'v> {
        let count = input.len();
        let output = match node {
            PathNode::List(nodes) => self.nodes(input, nodes)?,
            // Once, however many values there are; numbers and truths come once for each (`walk` and
            // `evalInt` of client-go).
            PathNode::Text(text) => vec![Found::Literal(Value::from(text.as_str()))],
            PathNode::Integer(number) => vec![Found::Literal(Value::from(*number)); count],
            PathNode::Float(number) => vec![Found::Literal(Value::from(*number)); count],
            PathNode::Truth(truth) => vec![Found::Literal(Value::from(*truth)); count],
            PathNode::Field(name) => self.field(&input, name)?,
            PathNode::Slice(slice) => items(&input, *slice)?,
            PathNode::Wildcard => input.iter().flat_map(inside).collect(),
            PathNode::Recursive => self.recursive(input)?,
            PathNode::Filter { left, operator, right } => self.filter(&input, left, operator, right)?,
            PathNode::Union(parts) => {
                let mut output = Vec::new();
                for part in parts {
                    output.extend(self.nodes(input.clone(), part)?);
                    self.spend(count)?;
                }
                output
            }
            PathNode::Identifier(name) if name == "end" => {
                return Err("not in range, nothing to end".to_owned());
            }
            PathNode::Identifier(name) => return Err(format!("unrecognized identifier {name}")),
        };
        // One more than there are, so that steps that lead nowhere cost something, too.
        self.spend(output.len() + 1)?;
        Ok(output)
    }

    fn spend(&mut self, count: usize) -> Result<(), String> {
        self.left = self.left.checked_sub(count).ok_or("path leads to too many values")?;
        Ok(())
    }

    fn field<'v>(&self, input: &[Found<'v>], name: &str) -> FindResult<'v> {
        let found: Vec<_> = input
            .iter()
            .filter_map(|value| match value {
                Found::Json(value) => value.as_object()?.get(name).map(Found::Json),
                _ => None,
            })
            .collect();
        if found.is_empty() && !input.is_empty() && !self.allows_missing {
            return Err(format!("{name} is not found"));
        }
        Ok(found)
    }

    /// All values that have something inside, from the outermost inwards.
    fn recursive<'v>(&mut self, input: Vec<Found<'v>>) -> FindResult<'v> {
        let mut output = Vec::new();
        // A stack instead of recursion, because objects may be nested as deep as JSON can be.
        let mut pending: Vec<_> = input.into_iter().rev().collect();
        while let Some(value) = pending.pop() {
            let inside = inside(&value);
            self.spend(inside.len() + 1)?;
            if !inside.is_empty() {
                output.push(value);
                pending.extend(inside.into_iter().rev());
            }
        }
        Ok(output)
    }

    fn filter<'v>(
        &mut self,
        input: &[Found<'v>],
        left: &[PathNode],
        operator: &str,
        right: &[PathNode],
    ) -> FindResult<'v> {
        let mut output = Vec::new();
        for value in input {
            let Found::Json(Value::Array(items)) = value else {
                let shown = value.show();
                return Err(format!("{shown} is not array or slice and cannot be filtered"));
            };
            for item in items {
                self.spend(1)?;
                if self.passes(item, left, operator, right)? {
                    output.push(Found::Json(item));
                }
            }
        }
        Ok(output)
    }

    fn passes(
        &mut self,
        item: &Value,
        left: &[PathNode],
        operator: &str,
        right: &[PathNode],
    ) -> Result<bool, String> {
        let item = || vec![Found::Json(item)];
        if operator == "exists" {
            return self.exists(item(), left);
        }
        let Some(one) = only(self.nodes(item(), left)?)? else { return Ok(false) };
        let Some(other) = only(self.nodes(item(), right)?)? else { return Ok(false) };
        compare::holds(&one, operator, &other)
    }

    /// Whether anything is left, even of what went wrong.
    fn exists(&mut self, mut input: Vec<Found<'_>>, nodes: &[PathNode]) -> Result<bool, String> {
        for node in nodes {
            let before = input.len();
            let is_field = matches!(node, PathNode::Field(_));
            input = match self.step(input, node) {
                Ok(output) => output,
                Err(_) if self.left == 0 => return Err("path leads to too many values".to_owned()),
                // A step that goes wrong leaves what it was given, only a field leaves nothing.
                Err(_) => return Ok(!is_field && before > 0),
            };
        }
        Ok(!input.is_empty())
    }
}

fn only(mut found: Vec<Found<'_>>) -> Result<Option<Found<'_>>, String> {
    if found.len() > 1 {
        return Err("can only compare one element at a time".to_owned());
    }
    Ok(found.pop())
}

/// What is inside a value. Inside a text are its bytes.
fn inside<'v>(value: &Found<'v>) -> Vec<Found<'v>> {
    match value {
        Found::Json(Value::Object(fields)) => fields.values().map(Found::Json).collect(),
        Found::Json(Value::Array(items)) => items.iter().map(Found::Json).collect(),
        other => {
            other.as_json().and_then(Value::as_str).unwrap_or_default().bytes().map(Found::Byte).collect()
        }
    }
}

fn items<'v>(input: &[Found<'v>], slice: Slice) -> FindResult<'v> {
    let mut output = Vec::new();
    for value in input.iter().filter(|value| !value.is_null()) {
        let Found::Json(Value::Array(items)) = value else {
            return Err(format!("{} is not array or slice", value.type_name()));
        };
        let Some((start, end)) = bounds(slice, items.len())? else { return Ok(output) };
        let step = match slice.step {
            Some(..=0) => return Err("step must be > 0".to_owned()),
            step => usize::try_from(step.unwrap_or(1)).unwrap_or(usize::MAX),
        };
        output.extend(items.get(start..end).into_iter().flatten().step_by(step).map(Found::Json));
    }
    Ok(output)
}

/// Where a slice of a list of this length begins and ends; none if it is meant to be empty.
fn bounds(slice: Slice, length: usize) -> Result<Option<(usize, usize)>, String> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let from_end = |index: i64| if index < 0 { index.saturating_add(length) } else { index };
    let start = from_end(slice.start.unwrap_or(0));
    let end = match slice.end {
        None => length,
        Some(0) if slice.is_end_derived => length,
        Some(end) => from_end(end),
    };
    if start == end {
        return Ok(None);
    }
    let outside = |index: i64| format!("array index out of bounds: index {index}, length {length}");
    if start >= length || start < 0 {
        return Err(outside(start));
    }
    if end > length || end < 0 {
        return Err(outside(end - 1));
    }
    if start > end {
        return Err(format!("starting index {start} is greater than ending index {end}"));
    }
    Ok(usize::try_from(start).ok().zip(usize::try_from(end).ok()))
}
