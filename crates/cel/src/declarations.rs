//! The functions of the environment, read from the table beside this file.
//!
//! Follows cel-go 0.29.2, `common/stdlib/standard.go`; k8s.io/apiserver 0.37.2, `pkg/cel/library`.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::library::{self, Implementation};
use super::types::{Parameter, Type};

#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: &'static str,
    /// Overloads share one implementation, which reads the first argument itself.
    pub(super) is_one: bool,
    pub(super) overloads: Vec<Overload>,
    pub(super) implementation: Implementation,
}

#[derive(Debug)]
pub(super) struct Overload {
    pub(super) name: &'static str,
    pub(super) is_member: bool,
    pub(super) arguments: Vec<Type>,
    pub(super) result: Type,
    /// The names that stand for any type, in order.
    pub(super) parameters: Vec<&'static str>,
}

static FUNCTIONS: LazyLock<HashMap<&'static str, Function>> = LazyLock::new(read);

pub(super) fn function(name: &str) -> Option<&'static Function> {
    FUNCTIONS.get(name)
}

/// The types that can be named in an expression.
pub(super) fn type_named(name: &str) -> Option<(&'static str, Type)> {
    Some(match name {
        "bool" => ("bool", Type::Bool),
        "bytes" => ("bytes", Type::Bytes),
        "double" => ("double", Type::Double),
        "int" => ("int", Type::Int),
        "uint" => ("uint", Type::Uint),
        "string" => ("string", Type::String),
        "list" => ("list", Type::list(Type::Dyn)),
        "map" => ("map", Type::map(Type::Dyn, Type::Dyn)),
        "null_type" => ("null_type", Type::Null),
        "type" => ("type", Type::Type(Box::new(Type::Dyn))),
        "optional_type" => ("optional_type", Type::optional(Type::Dyn)),
        "google.protobuf.Timestamp" => ("google.protobuf.Timestamp", Type::Timestamp),
        "google.protobuf.Duration" => ("google.protobuf.Duration", Type::Duration),
        "net.IP" => ("net.IP", Type::Opaque("net.IP")),
        "net.CIDR" => ("net.CIDR", Type::Opaque("net.CIDR")),
        _ => return None,
    })
}

fn read() -> HashMap<&'static str, Function> {
    let mut functions: Vec<Function> = Vec::new();
    for line in include_str!("functions.txt").lines().filter(|line| !line.starts_with('#')) {
        if let Some(line) = line.strip_prefix("  ") {
            let last = functions.last_mut().expect("overloads follow their function");
            last.overloads.push(overload(line).expect("the table is well formed"));
        } else if let Some((kind, name)) = line.split_once(' ') {
            // The table and the code are checked against each other at first use, so that any test that
            // evaluates anything finds a gap.
            let implementation = library::implementation(name).expect("every function is implemented");
            functions.push(Function { name, is_one: kind == "one", overloads: Vec::new(), implementation });
        }
    }
    functions.into_iter().map(|function| (function.name, function)).collect()
}

fn overload(line: &'static str) -> Option<Overload> {
    let (name, signature) = line.split_once(' ')?;
    let (arguments, result) = signature.split_once(" -> ")?;
    let is_member = arguments.starts_with('.');
    let arguments = arguments.trim_start_matches('.').strip_prefix('(')?.strip_suffix(')')?;
    let arguments: Vec<_> = split(arguments).into_iter().map(read_type).collect();
    let result = read_type(result);
    let mut parameters = Vec::new();
    for argument in arguments.iter().chain([&result]) {
        collect(argument, &mut parameters);
    }
    // Fresh parameters are numbered in this order, and their numbers show in messages (`_var1`).
    parameters.sort_unstable();
    Some(Overload { name, is_member, arguments, result, parameters })
}

/// The parts between the commas that are not in brackets.
fn split(text: &'static str) -> Vec<&'static str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if !text.is_empty() {
        parts.push(text[start..].trim());
    }
    parts
}

fn read_type(text: &'static str) -> Type {
    let (name, inner) = text.split_once('(').unwrap_or((text, ""));
    let mut parts = split(inner.strip_suffix(')').unwrap_or(inner)).into_iter().map(read_type);
    let mut part = || parts.next().unwrap_or(Type::Dyn);
    match name {
        "dyn" => Type::Dyn,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "list" => Type::list(part()),
        "map" => Type::map(part(), part()),
        "optional_type" => Type::optional(part()),
        "type" => Type::Type(Box::new(part())),
        "A" | "B" | "K" | "V" | "T" => Type::Parameter(Parameter::Named(name)),
        _ if name.starts_with("kubernetes.") => Type::Opaque(name),
        _ => type_named(name).expect("the table names known types").1,
    }
}

fn collect(kind: &Type, parameters: &mut Vec<&'static str>) {
    match kind {
        Type::Parameter(Parameter::Named(name)) if !parameters.contains(name) => parameters.push(name),
        Type::List(part) | Type::Optional(part) | Type::Type(part) => collect(part, parameters),
        Type::Map(key, value) => {
            collect(key, parameters);
            collect(value, parameters);
        }
        _ => {}
    }
}
