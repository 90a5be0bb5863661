//! Transforms: one value in, another out.

mod convert;
mod number;
mod text;

use std::borrow::Cow;

use ferroplane_golang::fmt::{Any, Numbers};
use ferroplane_golang::regexp::{self, Expression};
use ferroplane_golang::strconv::quote;
use serde_json::{Map, Value};

use super::input;
use super::release::Release;
use super::validate;
use crate::cost_budget::CostBudget;

use convert::Convert;
use text::Text;

/// A transform, ready to run.
#[derive(Debug)]
pub(super) enum Transform {
    Multiply(i64),
    ClampMin(i64),
    ClampMax(i64),
    Map(Map<String, Value>),
    Match(Match),
    Text(Text),
    Convert(Convert),
    /// It cannot run, whatever it is given.
    Broken(String),
}

#[derive(Debug)]
pub(super) struct Match {
    patterns: Vec<(Pattern, Option<Value>)>,
    fallback: Fallback,
}

#[derive(Debug)]
enum Pattern {
    Literal(String),
    Expression { pattern: String, expression: Result<Expression, regexp::Error> },
    Broken(String),
}

#[derive(Debug)]
enum Fallback {
    Value(Option<Value>),
    Input,
    Both,
}

impl Transform {
    /// Make a transform ready. One that cannot run says so when it is used.
    pub(super) fn new(transform: input::Transform, release: Release) -> Self {
        let input::Transform { kind, math, map, matching, string, convert } = transform;
        let made = match kind.as_str() {
            "math" => math.as_ref().map(from_math),
            "map" => map.map(Self::Map),
            "match" => matching.map(|matching| Self::Match(Match::from(matching))),
            "string" => string.map(|string| Text::new(string, release).map_or_else(Self::Broken, Self::Text)),
            "convert" => convert.map(|convert| match validate::convert(&convert) {
                Ok(()) => Self::Convert(Convert::from(convert)),
                Err(invalid) => Self::Broken(invalid.to_string()),
            }),
            unknown => return Self::Broken(format!("transform type {unknown} is not supported")),
        };
        match made {
            None => Self::Broken(format!("given transform type {kind} requires configuration")),
            Some(Self::Broken(problem)) => {
                Self::Broken(format!("{kind} transform could not resolve: {problem}"))
            }
            Some(transform) => transform,
        }
    }
}

fn from_math(math: &input::Math) -> Transform {
    if let Err(invalid) = validate::math(math) {
        return Transform::Broken(invalid.to_string());
    }
    match math.kind.as_str() {
        "Multiply" => Transform::Multiply(math.multiply.unwrap_or_default()),
        "ClampMin" => Transform::ClampMin(math.clamp_min.unwrap_or_default()),
        _ => Transform::ClampMax(math.clamp_max.unwrap_or_default()),
    }
}

impl From<input::Match> for Match {
    fn from(matching: input::Match) -> Self {
        let fallback = match (matching.fallback_to.as_str(), matching.fallback_value) {
            ("Input", None) => Fallback::Input,
            ("Input", Some(_)) => Fallback::Both,
            (_, value) => Fallback::Value(value),
        };
        let with_result = |mut pattern: input::Pattern| {
            let result = pattern.result.take();
            (Pattern::from(pattern), result)
        };
        Self { patterns: matching.patterns.into_iter().map(with_result).collect(), fallback }
    }
}

impl From<input::Pattern> for Pattern {
    fn from(pattern: input::Pattern) -> Self {
        match (pattern.kind.as_str(), pattern.literal, pattern.regexp) {
            ("literal", Some(literal), _) => Self::Literal(literal),
            ("literal", None, _) => Self::Broken("literal is required by type literal".to_owned()),
            ("regexp", _, Some(pattern)) => {
                Self::Expression { expression: Expression::new(&pattern), pattern }
            }
            ("regexp", _, None) => Self::Broken("regexp is required by type regexp".to_owned()),
            (unknown, ..) => Self::Broken(format!("unsupported pattern type '{unknown}'")),
        }
    }
}

impl Transform {
    /// The expressions that it compiles when it is used, and how they are written.
    pub(super) fn expressions(&self) -> Vec<(&str, &Expression)> {
        match self {
            Self::Match(matching) => {
                matching.patterns.iter().filter_map(|(pattern, _)| pattern.expression()).collect()
            }
            Self::Text(text) => text.expression().into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// What becomes of the value.
    pub(super) fn resolve<'v>(&'v self, value: Any<'v>, costs: &CostBudget) -> Result<Any<'v>, String> {
        let (kind, resolved) = match self {
            Self::Multiply(factor) => ("math", number::multiply(&value, *factor)),
            Self::ClampMin(least) => ("math", number::clamp(value, *least, |whole, least| whole < least)),
            Self::ClampMax(most) => ("math", number::clamp(value, *most, |whole, most| whole > most)),
            Self::Map(pairs) => ("map", look_up(pairs, &value)),
            Self::Match(matching) => ("match", matching.resolve(value, costs)),
            Self::Text(text) => ("string", text.resolve(value, costs)),
            Self::Convert(convert) => ("convert", convert.resolve(value)),
            Self::Broken(problem) => return Err(problem.clone()),
        };
        resolved.map_err(|problem| format!("{kind} transform could not resolve: {problem}"))
    }
}

/// Counts what it costs to match the expression, which is written so.
fn spend_match(costs: &CostBudget, expression: &Expression, pattern: &str, text: &str) -> Result<(), String> {
    let spent = costs.spend_match(expression, text.len());
    spent.map_err(|problem| format!("regexp {}: {problem}", quote(pattern)))
}

/// The numbers of a map are floats: it is read by Go's own decoder.
fn look_up<'v>(pairs: &'v Map<String, Value>, key: &Any<'_>) -> Result<Any<'v>, String> {
    let key = match key {
        Any::Text(key) => Cow::Borrowed(key.as_ref()),
        Any::Bytes(bytes) => String::from_utf8_lossy(bytes),
        other => return Err(format!("type {} is not supported for map transform", other.type_name())),
    };
    match pairs.get(key.as_ref()) {
        None => Err(format!("key {key} is not found in map")),
        // Go's map holds raw JSON, and null decodes into an empty one.
        Some(Value::Null) => {
            Err(format!("value for key {key} is not valid JSON: unexpected end of JSON input"))
        }
        Some(value) => Ok(Any::of(value, Numbers::Floats)),
    }
}

impl Match {
    fn resolve<'v>(&'v self, value: Any<'v>, costs: &CostBudget) -> Result<Any<'v>, String> {
        let result = |value: &'v Option<Value>| {
            value.as_ref().map_or(Any::Nil, |value| Any::of(value, Numbers::Floats))
        };
        for (at, (pattern, outcome)) in self.patterns.iter().enumerate() {
            let is_match = pattern
                .matches(&value, costs)
                .map_err(|problem| format!("cannot match pattern at index {at}: {problem}"))?;
            if is_match {
                return Ok(result(outcome));
            }
        }
        match &self.fallback {
            Fallback::Value(fallback) => Ok(result(fallback)),
            Fallback::Input => Ok(value),
            Fallback::Both => {
                Err("cannot set both a fallback value and the fallback to input flag".to_owned())
            }
        }
    }
}

impl Pattern {
    fn expression(&self) -> Option<(&str, &Expression)> {
        match self {
            Self::Expression { pattern, expression: Ok(expression) } => Some((pattern.as_str(), expression)),
            _ => None,
        }
    }

    fn matches(&self, value: &Any<'_>, costs: &CostBudget) -> Result<bool, String> {
        let unsupported = |kind: &str| Err(format!("unsupported input type '{kind}'"));
        match (self, value) {
            (Self::Broken(problem), _) => Err(problem.clone()),
            (Self::Literal(literal), Any::Text(text)) => Ok(literal.as_str() == text),
            // A literal is valid UTF-8, which these bytes are not.
            (Self::Literal(_), Any::Bytes(_)) => Ok(false),
            (Self::Expression { expression: Err(error), .. }, _) => {
                Err(format!("cannot compile regexp: {error}"))
            }
            (Self::Expression { expression: Ok(expression), pattern }, Any::Text(text)) => {
                spend_match(costs, expression, pattern, text)?;
                Ok(expression.is_match(text))
            }
            (Self::Expression { expression: Ok(expression), pattern }, Any::Bytes(bytes)) => {
                let text = String::from_utf8_lossy(bytes);
                spend_match(costs, expression, pattern, &text)?;
                Ok(expression.is_match(&text))
            }
            (Self::Expression { .. }, Any::Nil) => unsupported("null"),
            _ => unsupported(value.type_name()),
        }
    }
}
