//! Health checks that users write in CEL, for kinds that have no condition `Ready`.

use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;

use ferroplane_cel::{self as cel, Environment, EvaluateError, Limits, Numbers, Program, Type};
use ferroplane_wire::Struct;
use ferroplane_wire::v1::Ready;
use serde_json::{Map, Value};

use super::input::Input;

/// Expressions by `group_version_Kind`.
pub(super) struct Checks {
    checks: BTreeMap<String, Check>,
    /// What all of them together may still cost.
    left: Cell<u64>,
}

/// An expression, which is compiled when it is first needed.
struct Check {
    expression: String,
    program: OnceCell<Result<Program, String>>,
}

impl Checks {
    /// The checks in the context that the input points to, and over them those of the input.
    pub(super) fn new(input: &Input, context: Option<&Struct>, cost: u64) -> Self {
        let mut expressions = BTreeMap::new();
        if let Some(path) = &input.customization_from
            && let Some(Ok(context)) = context.map(Struct::json)
        {
            expressions = find(context, path).unwrap_or_default();
        }
        // The step's own come last and win.
        expressions.extend(input.customization.clone());
        let check = |expression| Check { expression, program: OnceCell::new() };
        let checks = expressions.into_iter().map(|(kind, expression)| (kind, check(expression))).collect();
        Self { checks, left: Cell::new(cost) }
    }

    /// Whether they have cost all that they may.
    pub(super) fn are_exhausted(&self) -> bool {
        self.left.get() == 0
    }

    /// What the check for the kind of this object says, if there is one and it can say.
    pub(super) fn judge(&self, object: &Map<String, Value>, warnings: &mut Vec<String>) -> Option<Ready> {
        if self.checks.is_empty() {
            return None;
        }
        match self.checks.get(&key(object))?.holds(object, &self.left) {
            Ok(true) => Some(Ready::True),
            Ok(false) => Some(Ready::False),
            Err(problem) => {
                warnings.push(problem);
                None
            }
        }
    }
}

impl Check {
    fn holds(&self, object: &Map<String, Value>, left: &Cell<u64>) -> Result<bool, String> {
        let compiled = || {
            let compiled = compile(&self.expression);
            // Its regular expressions are compiled when it is evaluated, and cost about as much time as so much evaluation.
            let weight = compiled.as_ref().map_or(0, Program::pattern_weight);
            left.set(left.get().saturating_sub(weight));
            compiled
        };
        let program = self.program.get_or_init(compiled).as_ref().map_err(String::clone)?;
        let object = cel::Value::Map(cel::Map::Json(object, Numbers::Double));
        // The original has no bound; a user's expression must not hold up a worker of the plane.
        let limits = Limits { cost: Limits::PER_CALL.cost.min(left.get()) };
        let (outcome, cost) = program.evaluate_with([("object", object)], limits);
        // An expression may be ended by the work it does before its cost shows it; then nothing may be left
        // for others.
        let is_excessive = matches!(&outcome, Err(EvaluateError::Cancelled(_))) && limits.cost == left.get();
        left.set(if is_excessive { 0 } else { left.get().saturating_sub(cost) });
        let outcome = outcome.map_err(|error| format!("failed to eval the program: {error}"))?;
        Ok(outcome.value.as_bool() == Some(true))
    }
}

fn compile(expression: &str) -> Result<Program, String> {
    // The original uses plain cel-go, without what Kubernetes forbids, on a protobuf `Struct`, whose numbers
    // are all doubles.
    let environment = Environment::new()
        .variable("object", Type::Dyn)
        .numbers(Numbers::Double)
        .mixed_literals()
        .weighed_patterns();
    let program =
        environment.compile(expression).map_err(|error| format!("failed to compile query: {error}"))?;
    // Not even `dyn` will do: `IsExactType` in the original.
    if *program.result_type() != Type::Bool {
        return Err("celQuery does not return a bool type".to_owned());
    }
    Ok(program)
}

/// The name of an object's kind among the checks.
fn key(object: &Map<String, Value>) -> String {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    match api_version.split_once('/') {
        // Apimachinery gives an empty group, version and kind for a version that it cannot parse, and the key
        // joins them.
        Some((_, version)) if version.contains('/') => "__".to_owned(),
        Some((group, version)) => format!("{group}_{version}_{kind}"),
        None => format!("_{api_version}_{kind}"),
    }
}

/// The texts in the object at a path like `a.b[c.d]`.
fn find(context: &Map<String, Value>, path: &str) -> Option<BTreeMap<String, String>> {
    let path = keys(path);
    let (first, rest) = path.split_first()?;
    let found = rest.iter().try_fold(context.get(*first)?, |value, key| value.as_object()?.get(*key))?;
    let texts =
        found.as_object()?.iter().filter_map(|(kind, cel)| Some((kind.clone(), cel.as_str()?.to_owned())));
    Some(texts.collect())
}

/// The keys of a path. A key in brackets may have dots in it; brackets without a partner separate like dots.
fn keys(path: &str) -> Vec<&str> {
    let mut keys = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        let bracketed = rest.strip_prefix('[').and_then(|inside| {
            let end = inside.find(['[', ']']).filter(|end| *end > 0 && inside[*end..].starts_with(']'))?;
            Some((&inside[..end], &inside[end + 1..]))
        });
        let (key, after) = bracketed.unwrap_or_else(|| match rest.find(['.', '[', ']']) {
            Some(0) => ("", &rest[1..]),
            end => rest.split_at(end.unwrap_or(rest.len())),
        });
        keys.extend(Some(key).filter(|key| !key.is_empty()));
        rest = after;
    }
    keys
}
