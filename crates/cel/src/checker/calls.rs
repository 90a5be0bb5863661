//! Calls: which overloads are possible, and what the program does in their place.
//!
//! Follows cel-go 0.29.2, `checker/checker.go` (`resolveOverload`), `interpreter/planner.go`, `cel/validator.go`.

use std::sync::Arc;

use ferroplane_golang::regexp;
use ferroplane_golang::time::duration;

use super::{Call, Checker, Typed, attribute};
use crate::ast::{Expression, ExpressionKind};
use crate::cost;
use crate::declarations::{Function, Overload};
use crate::evaluate;
use crate::library::format;
use crate::library::regex::compile as compile_regex;
use crate::program::{self, Attribute, ProgramNode, Qualifier, QualifierKey, Root};
use crate::source::{Mistake, Position};
use crate::time::Timestamp;
use crate::types::{Substitutions, Type};
use crate::value::Value;

impl Checker<'_> {
    pub(super) fn note_call(
        &mut self,
        expression: &Expression,
        function: &'static str,
        overloads: Vec<&'static str>,
        is_member: bool,
    ) {
        if let Some(notes) = &mut self.notes {
            notes.calls.insert(expression.id, Call { function, overloads, is_member });
        }
    }

    /// Patterns, times and durations that are written out are checked now.
    pub(super) fn check_literal(&mut self, function: &Function, is_member: bool, arguments: &[Expression]) {
        // Written as a function, `matches` has the text first and the pattern second.
        let index = usize::from(function.name == "matches" && !is_member);
        let Some(Expression { kind: ExpressionKind::Literal(literal), position, .. }) = arguments.get(index)
        else {
            return;
        };
        let is_fine = match (function.name, literal) {
            ("duration", Value::String(text)) => duration::parse(text.as_str()).is_ok(),
            ("timestamp", Value::String(text)) => Timestamp::parse(text.as_str()).is_some(),
            ("timestamp", Value::Int(seconds)) => Timestamp::new(*seconds, 0, 0).is_some(),
            ("matches", Value::String(text)) => compile_regex(text.as_str()).is_ok(),
            _ => true,
        };
        if !is_fine {
            self.wrong(*position, format!("invalid {} argument", function.name));
        }
    }

    /// A format that is written out must fit the values that are.
    pub(super) fn check_format(
        &mut self,
        at: Position,
        target: Option<&Expression>,
        arguments: &[Expression],
    ) {
        let Some(Expression { kind: ExpressionKind::Literal(Value::String(pattern)), .. }) = target else {
            return;
        };
        // The position tells whether the last list that was seen is the argument itself, or one within it.
        let [Expression { kind: ExpressionKind::List(_), position, .. }] = arguments else { return };
        let Some((_, types)) = self.formatted.take().filter(|(found, _)| found == position) else { return };
        let types: Vec<_> = types.into_iter().map(|(at, kind)| (at, self.types.apply(&kind, true))).collect();
        if let Err((place, message)) = format::check(pattern.as_str(), &types) {
            self.formatting.push(Mistake::new(place.unwrap_or(at), message));
        }
    }

    pub(super) fn optional_select(&mut self, at: Position, arguments: &[Expression]) -> Typed {
        let [operand, field] = arguments else {
            return self.wrong(at, "unsupported optional field selection");
        };
        let ExpressionKind::Literal(field) = &field.kind else {
            return self.wrong(at, "unsupported optional field selection");
        };
        let (node, kind) = self.field(at, operand, field.as_str().unwrap_or_default());
        let mut attribute = attribute(node);
        let key = QualifierKey::Constant(field.clone());
        attribute.push(Arc::new(Qualifier { key, is_optional: true, is_test: false }));
        // Optionals do not nest here: `a.?b.?c` is one optional value.
        let kind = if matches!(kind, Type::Optional(_)) { kind } else { Type::optional(kind) };
        (ProgramNode::Attribute(attribute), kind)
    }

    /// The overloads that fit, and the type of the result.
    pub(super) fn resolve(
        &mut self,
        at: Position,
        function: &'static Function,
        is_member: bool,
        types: &[Type],
        arguments: &[Expression],
    ) -> Option<(Vec<&'static Overload>, Type)> {
        // cel-go has its own rule for these, with other words for what is wrong.
        if matches!(function.name, "_&&_" | "_||_") {
            let kind = self.resolve_logical(types, arguments)?;
            return Some((function.overloads.iter().collect(), kind));
        }
        let mut fitting = Vec::new();
        let mut result: Option<Type> = None;
        for overload in function.overloads.iter().filter(|overload| overload.is_member == is_member) {
            let fresh: Vec<_> = overload.parameters.iter().map(|name| (*name, self.types.fresh())).collect();
            let wanted: Vec<_> =
                overload.arguments.iter().map(|kind| Substitutions::instantiate(kind, &fresh)).collect();
            if !self.types.agree_all(types, &wanted) {
                continue;
            }
            fitting.push(overload);
            let kind = self.types.apply(&Substitutions::instantiate(&overload.result, &fresh), false);
            result = Some(match result {
                // Several overloads fit where an argument is dynamic; if their results differ, only
                // evaluation can tell.
                Some(before) if before != kind => Type::Dyn,
                _ => kind,
            });
        }
        if result.is_none() {
            let types: Vec<_> = types.iter().map(|kind| self.types.apply(kind, true)).collect();
            self.no_matching_overload(at, function, is_member, &types);
        }
        Some((fitting, result?))
    }

    fn resolve_logical(&mut self, types: &[Type], arguments: &[Expression]) -> Option<Type> {
        let before = self.mistakes.len();
        for (kind, argument) in types.iter().zip(arguments) {
            if !self.types.agree(kind, &Type::Bool) {
                self.wrong(argument.position, format!("expected type 'bool' but found '{kind}'"));
            }
        }
        (self.mistakes.len() == before).then_some(Type::Bool)
    }

    fn no_matching_overload(&mut self, at: Position, function: &Function, is_member: bool, types: &[Type]) {
        let mut shown: Vec<_> = types.iter().map(Type::to_string).collect();
        let target = if is_member { format!("{}.", shown.remove(0)) } else { String::new() };
        let signature = format!("{target}({})", shown.join(", "));
        self.wrong(
            at,
            format!("found no matching overload for '{}' applied to '{signature}'", function.name),
        );
    }

    pub(super) fn emit(
        &mut self,
        function: &'static Function,
        overload: Option<&'static Overload>,
        mut nodes: Vec<ProgramNode>,
    ) -> ProgramNode {
        if nodes.len() == 2
            && let Some(node) = self.emit_binary(function.name, overload, &mut nodes)
        {
            return node;
        }
        // A condition is an attribute rather than a call, so that fields can be selected from whichever
        // branch is taken, and only that one is evaluated.
        if function.name == "_?_:_" && nodes.len() == 3 {
            let no = nodes.pop().map(ProgramNode::into_attribute);
            let yes = nodes.pop().map(ProgramNode::into_attribute);
            if let (Some(no), Some(yes), Some(condition)) = (no, yes, nodes.pop()) {
                return ProgramNode::Attribute(Attribute::of(Root::Condition(Box::new((
                    condition, yes, no,
                )))));
            }
            return ProgramNode::Constant(Value::Null);
        }
        let regex = self.constant_regex(function.name, &nodes);
        let call = program::Call { function, overload, arguments: nodes, regex, takes_accumulator: false };
        self.folded(call)
    }

    fn constant_regex(&mut self, function: &str, nodes: &[ProgramNode]) -> Option<regexp::Expression> {
        if !cost::has_pattern(function) {
            return None;
        }
        match compile_regex(nodes.get(1)?.as_constant()?.as_str()?) {
            Ok(regex) => {
                self.pattern_weight = self.pattern_weight.saturating_add(regex.weight());
                Some(regex)
            }
            Err(error) => {
                // The first reason wins, as cel-go plans constants in order and stops there.
                self.constant.get_or_insert(error.to_string());
                None
            }
        }
    }

    /// Operators that are more than a call. Takes the operands if so.
    fn emit_binary(
        &mut self,
        name: &str,
        overload: Option<&'static Overload>,
        nodes: &mut Vec<ProgramNode>,
    ) -> Option<ProgramNode> {
        // Returns nothing where the list is no constant, and leaves the operands to the ordinary call.
        if name == "@in" {
            return in_constant(overload, nodes);
        }
        if !matches!(name, "_&&_" | "_||_" | "_==_" | "_!=_" | "or" | "orValue" | "_[_]" | "_[?_]") {
            return None;
        }
        let sides = <[ProgramNode; 2]>::try_from(std::mem::take(nodes)).ok()?;
        Some(match name {
            "_[_]" | "_[?_]" => self.index(sides, name == "_[?_]"),
            "_&&_" => ProgramNode::And(Box::new(sides)),
            "_||_" => ProgramNode::Or(Box::new(sides)),
            "or" | "orValue" => {
                ProgramNode::OptionalOr { sides: Box::new(sides), is_value: name == "orValue" }
            }
            _ => ProgramNode::Equal { sides: Box::new(sides), is_negated: name == "_!=_" },
        })
    }

    /// A conversion of a constant is a constant.
    fn folded(&mut self, call: program::Call) -> ProgramNode {
        // Only these are folded, because folding is visible: a constant costs nothing when evaluated.
        const CONVERSIONS: [&str; 10] =
            ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"];
        let is_constant = call.arguments.iter().all(|argument| argument.as_constant().is_some());
        if !CONVERSIONS.contains(&call.function.name) || call.arguments.len() != 1 || !is_constant {
            return ProgramNode::Call(Box::new(call));
        }
        match evaluate::constant(&ProgramNode::Call(Box::new(call))) {
            Ok(value) => ProgramNode::Constant(value),
            Err(text) => {
                self.constant.get_or_insert(text);
                ProgramNode::Constant(Value::Null)
            }
        }
    }

    fn index(&mut self, [operand, index]: [ProgramNode; 2], is_optional: bool) -> ProgramNode {
        let mut attribute = attribute(operand);
        let key = match index {
            ProgramNode::Constant(value) if is_qualifier(&value) => QualifierKey::Constant(value),
            ProgramNode::Constant(value) => {
                // Not a mistake in the source: cel-go finds this only when it plans the program.
                self.constant.get_or_insert(format!("invalid qualifier type: {}", evaluate::go_type(&value)));
                QualifierKey::Constant(Value::Null)
            }
            ProgramNode::Attribute(index) => QualifierKey::Attribute(index),
            other => QualifierKey::Computed(other),
        };
        attribute.push(Arc::new(Qualifier { key, is_optional, is_test: false }));
        ProgramNode::Attribute(attribute)
    }
}

/// A search in a list of constants costs nothing.
fn in_constant(overload: Option<&'static Overload>, sides: &mut Vec<ProgramNode>) -> Option<ProgramNode> {
    let Some(Value::List(list)) = sides.last()?.as_constant() else { return None };
    if overload?.name != "in_list" {
        return None;
    }
    if list.is_empty() {
        // The element is not even evaluated, so that an error in it goes unnoticed, as in cel-go.
        return Some(ProgramNode::Constant(Value::Bool(false)));
    }
    let list: Vec<_> = list.iter().collect();
    let is_simple =
        // Other elements keep the ordinary call, which costs as much as the list is long: cel-go has a set
        // for constants of primitive types only.
        list.iter().all(|value| value.is_number() || matches!(value, Value::Bool(_) | Value::String(_)));
    is_simple.then(|| ProgramNode::InConstant { element: Box::new(sides.swap_remove(0)), list })
}

fn is_qualifier(value: &Value<'_>) -> bool {
    value.is_number() || matches!(value, Value::Bool(_) | Value::String(_))
}

/// The dotted name that an expression may be.
pub(super) fn qualified_name(expression: &Expression) -> Option<String> {
    match &expression.kind {
        ExpressionKind::Identifier(name) => Some(name.clone()),
        ExpressionKind::Select { operand, field, is_test: false } => {
            Some(format!("{}.{field}", qualified_name(operand)?))
        }
        _ => None,
    }
}
