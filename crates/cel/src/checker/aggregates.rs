//! Lists, maps, and the macros that go through them.
//!
//! Follows cel-go 0.29.2, `checker/checker.go` (`checkCreateList`, `checkCreateMap`, `checkComprehension`).

use super::{Checker, Local, Typed};
use crate::ast::{Element, Fold as Loop, MapEntry};
use crate::evaluate;
use crate::program::{Attribute, Fold, ListItem, MapItem, ProgramNode, Root};
use crate::source::Position;
use crate::types::{Type, more_general};
use crate::value::Value;

impl Checker<'_> {
    pub(super) fn list(&mut self, at: Position, elements: &[Element]) -> Typed {
        let mut items = Vec::with_capacity(elements.len());
        let mut joined: Option<Type> = None;
        let mut types = Vec::with_capacity(elements.len());
        for element in elements {
            let (node, kind) = self.check(&element.value);
            let kind = self.unwrapped(element.value.position, kind, element.is_optional);
            types.push((element.value.position, kind.clone()));
            joined = Some(self.join(joined, kind));
            items.push(ListItem { value: node, is_optional: element.is_optional });
        }
        if self.formats > 0 {
            self.formatted = Some((at, types.clone()));
        }
        self.remember(types);
        // An empty list fits every type, so that its elements stay open until something decides them.
        let element = joined.unwrap_or_else(|| self.types.fresh());
        (constant_list(items), Type::list(element))
    }

    pub(super) fn map(&mut self, entries: &[MapEntry]) -> Typed {
        let mut items = Vec::with_capacity(entries.len());
        let (mut key_type, mut value_type): (Option<Type>, Option<Type>) = (None, None);
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for entry in entries {
            let (key, kind) = self.check(&entry.key);
            keys.push((entry.key.position, kind.clone()));
            key_type = Some(self.join(key_type, kind));
            let (value, kind) = self.check(&entry.value);
            let kind = self.unwrapped(entry.value.position, kind, entry.is_optional);
            values.push((entry.value.position, kind.clone()));
            value_type = Some(self.join(value_type, kind));
            items.push(MapItem { key, value, is_optional: entry.is_optional });
        }
        self.remember(keys);
        self.remember(values);
        let key = key_type.unwrap_or_else(|| self.types.fresh());
        let value = value_type.unwrap_or_else(|| self.types.fresh());
        (self.constant_map(items), Type::map(key, value))
    }

    /// What an optional element contributes if it is there.
    fn unwrapped(&mut self, at: Position, kind: Type, is_optional: bool) -> Type {
        if !is_optional {
            return kind;
        }
        match kind {
            Type::Optional(value) => *value,
            Type::Dyn => Type::Dyn,
            other => {
                let wanted = Type::optional(other.clone());
                self.wrong(at, format!("expected type '{wanted}' but found '{other}'"));
                other
            }
        }
    }

    fn join(&mut self, before: Option<Type>, kind: Type) -> Type {
        match before {
            None => kind,
            Some(before) if self.types.agree(&before, &kind) => more_general(before, kind),
            Some(_) => Type::Dyn,
        }
    }

    fn remember(&mut self, types: Vec<(Position, Type)>) {
        // Kubernetes demands literals of one type (`HomogeneousAggregateLiterals`), except for what is
        // formatted.
        if !self.allow_mixed && self.formats == 0 && types.len() > 1 {
            self.aggregates.push(types);
        }
    }

    pub(super) fn check_aggregates(&mut self) {
        for aggregate in std::mem::take(&mut self.aggregates) {
            let mut types = aggregate.into_iter().map(|(at, kind)| (at, self.types.apply(&kind, true)));
            let Some((_, first)) = types.next() else { continue };
            let different = types.find(|(_, kind)| *kind != first);
            if let Some((at, kind)) = different {
                self.wrong(at, format!("expected type '{first}' but found '{kind}'"));
            }
        }
    }

    fn constant_map(&mut self, items: Vec<MapItem>) -> ProgramNode {
        let is_constant = items.iter().all(|item| {
            !item.is_optional && item.key.as_constant().is_some() && item.value.as_constant().is_some()
        });
        if !is_constant {
            return ProgramNode::Map(items);
        }
        // Unlike a list, a map can fail though everything in it is constant: not every type can be a key.
        match evaluate::constant(&ProgramNode::Map(items)) {
            Ok(value) => ProgramNode::Constant(value),
            Err(text) => {
                self.constant.get_or_insert(text);
                ProgramNode::Constant(Value::Null)
            }
        }
    }

    pub(super) fn fold(&mut self, fold: &Loop) -> Typed {
        let (range, range_type) = self.check(&fold.range);
        let (initial, accumulator_type) = self.check(&fold.initial);
        let range_type = self.types.apply(&range_type, false);
        let (first, second) = self.element_types(fold, &range_type);
        // Places are never used twice: what a name stands for may be evaluated later, within another loop.
        let place = self.places;
        // Three even if there is no second name: the evaluator empties the places of a loop in one go.
        self.places += 3;
        let outside = self.locals.len();
        let mut name = |name: &str, kind: Type, place: usize| {
            self.locals.push(Local { name: name.to_owned(), kind, place });
        };
        name(&fold.accumulator, accumulator_type.clone(), place);
        name(&fold.variable, first, place + 1);
        // No identifier is empty, so that nothing finds this local where there is no second name.
        name(fold.second.as_deref().unwrap_or_default(), second, place + 2);
        let (condition, kind) = self.check(&fold.condition);
        self.assert(&fold.condition, &Type::Bool, &kind);
        // The condition is checked first: its type of the accumulator holds for the step.
        let (mut step, kind) = self.check(&fold.step);
        self.assert(&fold.step, &accumulator_type, &kind);
        // Without this, a list of n elements built by `map` would be copied n times.
        take_accumulator(&mut step, place);
        // The result sees the accumulator, but no longer the elements. Their places stay reserved.
        self.locals[outside + 1].name.clear();
        self.locals[outside + 2].name.clear();
        let (result, kind) = self.check(&fold.result);
        self.locals.truncate(outside);
        let has_second = fold.second.is_some();
        let fold = Fold { range, place, has_second, initial, condition, step, result };
        (ProgramNode::Fold(Box::new(fold)), self.types.apply(&kind, false))
    }

    fn element_types(&mut self, fold: &Loop, range: &Type) -> (Type, Type) {
        let has_second = fold.second.is_some();
        match range {
            Type::List(element) if has_second => (Type::Int, (**element).clone()),
            Type::List(element) => ((**element).clone(), Type::Dyn),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Dyn | Type::Error | Type::Parameter(_) => {
                self.types.agree(&Type::Dyn, range);
                (Type::Dyn, Type::Dyn)
            }
            _ => {
                let message = format!(
                    "expression of type '{range}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.wrong(fold.range.position, message);
                (Type::Error, Type::Error)
            }
        }
    }
}

fn constant_list(items: Vec<ListItem>) -> ProgramNode {
    let is_constant = items.iter().all(|item| !item.is_optional && item.value.as_constant().is_some());
    if !is_constant {
        return ProgramNode::List(items);
    }
    let values = items.iter().filter_map(|item| item.value.as_constant().cloned()).collect();
    ProgramNode::Constant(Value::list(values))
}

/// Lets what is appended in every turn go to the end of the same list, instead of a copy.
fn take_accumulator(step: &mut ProgramNode, place: usize) {
    match step {
        ProgramNode::Call(call) if matches!(call.function.name, "_+_" | "cel.@mapInsert") => {
            call.takes_accumulator = matches!(
                &call.arguments[0],
                ProgramNode::Attribute(Attribute { root: Root::Local(found), qualifiers })
                    if *found == place && qualifiers.is_empty()
            );
        }
        ProgramNode::Attribute(Attribute { root: Root::Condition(parts), .. }) => {
            // With a filter, the step is a condition whose first branch appends; the second one returns the
            // accumulator as it is.
            if let Root::Operand(node) = &mut parts.1.root {
                take_accumulator(node, place);
            }
        }
        _ => {}
    }
}
