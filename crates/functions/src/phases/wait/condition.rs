//! A condition: a template that prints `true` when it holds.

use std::sync::LazyLock;

use ferroplane_api::Object;
use ferroplane_engine::action::Phase;
use ferroplane_golang::fmt::Numbers;
use ferroplane_schema::jsonpath::JsonPath;
use ferroplane_template::{
    Budget, Callee, Context, Failure as TemplateFailure, Function, Functions, Heap, MissingKey, Options,
    Templates, Type, Value, sprig,
};

use super::Wait;
use crate::phases::moves::Failure;

/// What a condition may cost. It is checked whenever an object changes.
const BUDGET: Budget = Budget { steps: 100_000, memory: 16 << 20, output: 64 << 10, depth: 100 };

static SPRIG: LazyLock<Functions> = LazyLock::new(sprig::functions);
static KUBECTL: LazyLock<Functions> = LazyLock::new(|| Functions::builtin().with(KUBECTL_FUNCTIONS));

/// The functions that `kubectl` adds to those that Go's templates always have.
const KUBECTL_FUNCTIONS: &[Function] = &[
    Function {
        name: "exists",
        parameters: &[Type::Any],
        rest: Some(Type::Any),
        result: Type::Bool,
        callee: Callee::Values(exists),
    },
    Function {
        name: "base64decode",
        parameters: &[Type::String],
        rest: None,
        result: Type::String,
        callee: Callee::Values(base64decode),
    },
];

/// A condition that was read.
#[derive(Debug)]
pub(super) enum Condition {
    /// Text and paths in turn, which become one template.
    Paths { field: String, parts: Vec<Part> },
    /// A template over the object.
    Template(Templates),
}

#[derive(Debug)]
pub(super) enum Part {
    Text(String),
    Path(JsonPath),
}

impl Condition {
    pub(super) fn parse(field: &str, text: &str, version: Wait) -> Result<Self, Failure> {
        if version == Wait::V2 {
            // WaitV2 evaluates as `kubectl get -o go-template` does, with its functions and the object as data.
            let templates = Templates::parse("condition", text, &Options::default(), &KUBECTL);
            let invalid = |error| Failure::argument(field, format!("the template cannot be parsed: {error}"));
            return templates.map(Self::Template).map_err(invalid);
        }
        let parts = parts(text).map_err(|problem| Failure::argument(field, problem))?;
        Ok(Self::Paths { field: field.to_owned(), parts })
    }

    /// Whether it holds for an object, or why that is unknown.
    pub(super) fn holds(&self, object: &Object, phase: &Phase<'_>) -> Result<bool, String> {
        let heap = Heap::new();
        let json = serde_json::Value::Object(object.clone());
        let output = match self {
            Self::Template(templates) => {
                let data = Value::from_json(&heap, &json, Numbers::Floats);
                templates.execute(data, &heap, &mut phase.scope.host(), BUDGET)
            }
            Self::Paths { field, parts } => {
                let text = filled(parts, &json)?;
                // As Kanister renders: a field that is not there yet is an error, and the phase waits.
                let options = Options { missing_key: MissingKey::Error, ..Options::default() };
                let templates =
                    Templates::parse(field, &text, &options, &SPRIG).map_err(|error| error.to_string())?;
                templates.execute(Value::Nil, &heap, &mut phase.scope.host(), BUDGET)
            }
        };
        let output = output.map_err(|error| error.to_string())?;
        // Exactly that word, as in Kanister; templates often print a line feed around it.
        Ok(output.trim_ascii() == b"true")
    }
}

/// The text with what the paths lead to.
fn filled(parts: &[Part], object: &serde_json::Value) -> Result<String, String> {
    let mut text = String::new();
    for part in parts {
        match part {
            Part::Text(plain) => text.push_str(plain),
            Part::Path(path) => {
                let found = path.find_strictly(object)?;
                let found: Vec<_> = found.iter().flatten().map(ToString::to_string).collect();
                text.push_str(&found.join(" "));
            }
        }
    }
    Ok(text)
}

/// Cuts a condition into text and paths. A path begins with a brace and, after spaces, a dollar sign and a dot: `{ $.status.phase }`. Braces
/// of templates do not begin paths, although `{{$.x}}` looks alike.
fn parts(text: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        let (before, found) = rest.split_at(start);
        plain.push_str(before);
        // Two at once, so that the second brace is not taken for the beginning of a path.
        let doubled = found.starts_with("{{");
        let inner = found[1..].trim_start();
        if doubled || !inner.starts_with("$.") && !inner.starts_with("$[") {
            let taken = if doubled { 2 } else { 1 };
            plain.push_str(&found[..taken]);
            rest = &found[taken..];
            continue;
        }
        let end = closing(found).ok_or_else(|| "a path is not closed with a brace".to_owned())?;
        let path = found[1..end].trim();
        let path = JsonPath::parse(path)
            .map_err(|problem| format!("the path `{{{path}}}` cannot be parsed: {problem}"))?;
        parts.push(Part::Text(std::mem::take(&mut plain)));
        parts.push(Part::Path(path));
        rest = &found[end + 1..];
    }
    plain.push_str(rest);
    parts.push(Part::Text(plain));
    Ok(parts)
}

/// Where the brace is closed that a text begins with. Braces in quotes of a filter do not count.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    for (index, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            (None, '}') => return Some(index),
            _ => {}
        }
    }
    None
}

/// Whether keys lead somewhere in maps and lists.
#[expect(clippy::unnecessary_wraps, reason = "all functions of templates have one signature")]
fn exists(_: &mut Context<'_>, arguments: &[Value]) -> Result<Value, TemplateFailure> {
    let mut here = arguments[0].clone();
    for key in &arguments[1..] {
        let next = match (&here, key) {
            (Value::Map(map), Value::String(key)) => map.get(key),
            (Value::List(list), Value::Int(index)) => {
                usize::try_from(*index).ok().and_then(|index| list.get(index).cloned())
            }
            _ => None,
        };
        let Some(next) = next else { return Ok(Value::Bool(false)) };
        here = next;
    }
    Ok(Value::Bool(true))
}

fn base64decode(_: &mut Context<'_>, arguments: &[Value]) -> Result<Value, TemplateFailure> {
    let Value::String(text) = &arguments[0] else { return Ok(Value::text("")) };
    let decoded = ferroplane_golang::base64::decode(text);
    let decoded =
        decoded.map_err(|at| TemplateFailure::new(format!("illegal base64 data at input byte {at}")))?;
    Ok(Value::text(decoded.as_slice()))
}
