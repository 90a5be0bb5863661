//! What an expression can cost at most, judged by its types and by how large a schema lets values become.
//!
//! A definition whose rules could cost too much is refused by this. The numbers are those of Kubernetes, with all
//! their peculiarities, because whether a definition is accepted depends on them. Nothing is evaluated.
//!
//! Follows cel-go 0.29.2, `checker/cost.go`.

mod calls;
mod range;
mod route;

use std::collections::{BTreeMap, HashMap};

use super::ast::{Element, Expression, ExpressionId, ExpressionKind, Fold, MapEntry};
use super::checker::{Call, TypeFacts};
use super::types::Type;
use super::value::Value;
use range::Range;
use route::Route;

/// How large values can be that fit a schema.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extent {
    /// How many characters, items or entries. None for other values, and for unknown ones.
    pub most: u64,
    /// Of an object, by the names that expressions give its fields.
    pub fields: BTreeMap<String, Extent>,
    /// Of the items of a list, or the values of a map.
    pub element: Option<Box<Extent>>,
    /// Whether this is a map.
    pub has_keys: bool,
}

impl Extent {
    fn find(&self, route: &Route) -> Option<u64> {
        let mut here = self;
        for step in route.steps() {
            here = match &*step {
                // A list and a map may share the step, because an extent has one kind of element.
                "@items" | "@values" => here.element.as_deref()?,
                // Of keys, no length is known.
                "@keys" if here.has_keys => &NOTHING,
                "@keys" => return None,
                name => here.fields.get(name)?,
            };
        }
        Some(here.most)
    }
}

static NOTHING: Extent = Extent { most: 0, fields: BTreeMap::new(), element: None, has_keys: false };

/// What the expression costs at most.
pub(super) fn estimate(expression: &Expression, notes: &TypeFacts, extent: &Extent) -> u64 {
    let mut estimator = Estimator {
        notes,
        extent,
        routes: HashMap::new(),
        locals: HashMap::new(),
        sizes: HashMap::new(),
        entries: HashMap::new(),
    };
    estimator.cost(expression).most
}

/// Sizes of what is in a list or a map.
#[derive(Debug, Clone, Copy)]
struct Entries {
    is_list: bool,
    key: Range,
    value: Range,
}

impl Entries {
    fn union(self, other: Self) -> Self {
        let (key, value) = (self.key.union(other.key), self.value.union(other.value));
        Self { is_list: self.is_list, key, value }
    }
}

/// What a name from a macro stands for.
struct Local {
    route: Route,
    size: Option<Range>,
    entries: Option<Entries>,
}

struct Estimator<'e> {
    notes: &'e TypeFacts,
    extent: &'e Extent,
    routes: HashMap<ExpressionId, Route>,
    locals: HashMap<&'e str, Vec<Local>>,
    sizes: HashMap<ExpressionId, Range>,
    entries: HashMap<ExpressionId, Entries>,
}

/// An argument, and what is known of it when it is checked.
struct Operand<'e> {
    expression: &'e Expression,
    kind: &'e Type,
    route: Route,
    size: Option<Range>,
}

const IDENTIFIER: Range = Range::fixed(1);
const LIST: Range = Range::fixed(10);
const MAP: Range = Range::fixed(30);

impl<'e> Estimator<'e> {
    fn cost(&mut self, expression: &'e Expression) -> Range {
        match &expression.kind {
            ExpressionKind::Literal(_) | ExpressionKind::Message(_) => Range::default(),
            ExpressionKind::Identifier(name) => {
                self.identifier(expression, name.strip_prefix('.').unwrap_or(name))
            }
            ExpressionKind::Select { operand, field, is_test } => {
                self.select(expression, operand, field, *is_test)
            }
            ExpressionKind::Call { target, arguments, .. } => {
                self.call(expression, target.as_deref(), arguments)
            }
            ExpressionKind::List(elements) => self.list(expression, elements),
            ExpressionKind::Map(entries) => self.map(expression, entries),
            ExpressionKind::Fold(fold) if is_binding(fold) => self.binding(expression, fold),
            ExpressionKind::Fold(fold) => self.fold(expression, fold),
        }
    }

    fn identifier(&mut self, expression: &Expression, name: &str) -> Range {
        let route = self.local(name).map_or_else(|| Route::of(name), |local| local.route.clone());
        self.routes.insert(expression.id, route);
        IDENTIFIER
    }

    fn select(
        &mut self,
        expression: &Expression,
        operand: &'e Expression,
        field: &str,
        is_test: bool,
    ) -> Range {
        if let Some(name) = self.notes.name(expression) {
            return self.identifier(expression, name);
        }
        let cost = self.cost(operand);
        // Presence tests are free in Kubernetes (`PresenceTestHasCost(false)`), and have no route.
        if is_test {
            return cost;
        }
        let route = self.route(operand).to(field);
        self.routes.insert(expression.id, route);
        match self.notes.kind(operand) {
            // Fields of dynamic values are free in the estimate, though they cost when evaluated.
            Type::Map(..) | Type::Struct(_) | Type::Message(_) => cost.plus(IDENTIFIER),
            _ => cost,
        }
    }

    fn call(
        &mut self,
        expression: &'e Expression,
        target: Option<&'e Expression>,
        arguments: &'e [Expression],
    ) -> Range {
        let Some(call) = self.notes.call(expression) else { return Range::default() };
        // `dyn` changes no value, so the size of its argument must not be forgotten.
        if let ("dyn", [argument]) = (call.function, arguments) {
            let cost = self.cost(argument);
            self.copy_sizes(expression, argument);
            return cost.plus(Range::fixed(1));
        }
        let mut costs = Vec::with_capacity(arguments.len());
        let mut operands = Vec::with_capacity(arguments.len());
        for argument in arguments {
            costs.push(self.cost(argument));
            operands.push(self.operand(argument));
        }
        let target = target.filter(|_| call.is_member);
        // The target comes after the arguments: sizes are looked up through routes that share storage, so
        // that the order of visits changes the estimate (see `Route`).
        let before = target.map_or_else(Range::default, |target| self.cost(target));
        let target = target.map(|target| self.operand(target));
        let (mut cost, mut size): (_, Option<Range>) = (Range::NONE, None);
        for overload in &call.overloads {
            let (own, result) =
                self.of_overload(expression, call, overload, target.as_ref(), &operands, &costs);
            cost = cost.union(own);
            size = match (size, result) {
                (Some(size), Some(result)) => Some(size.union(result)),
                (size, result) => size.or(result),
            };
            // Within the loop, as in cel-go: the last overload that is possible decides the route.
            if let Some((step, container)) = indexed(overload, arguments) {
                size = self.entries_of(container).map(|entries| entries.value);
                let route = self.route(container).to(step);
                self.routes.insert(expression.id, route);
            }
            size = size.or_else(|| self.size(expression));
        }
        if let Some(size) = size {
            self.sizes.insert(expression.id, size);
        }
        before.plus(cost)
    }

    fn of_overload(
        &mut self,
        expression: &'e Expression,
        call: &Call,
        overload: &str,
        target: Option<&Operand<'e>>,
        operands: &[Operand<'e>],
        costs: &[Range],
    ) -> (Range, Option<Range>) {
        let all = costs.iter().fold(Range::default(), |sum, cost| sum.plus(*cost));
        let sized = calls::Sized { extent: self.extent, target, arguments: operands };
        if let Some((cost, size)) = sized.of_library(call.function, overload) {
            return (cost.plus(all), size);
        }
        match (overload, operands, costs) {
            ("logical_and" | "logical_or", _, [one, other]) => {
                // At least the first side is evaluated, and at most both.
                (Range { least: one.least, most: one.most.saturating_add(other.most) }, None)
            }
            ("conditional", [_, yes, no], [condition, if_yes, if_no]) => {
                let size = yes.known().union(no.known());
                self.unite_entries(expression, yes.expression, no.expression);
                (condition.plus(if_yes.union(*if_no)), Some(size))
            }
            ("add_string" | "add_bytes" | "add_list", [one, other], _) => {
                let size = one.known().plus(other.known());
                self.unite_entries(expression, one.expression, other.expression);
                // Lists are joined without copying in cel-go, texts are not.
                let cost = if overload == "add_list" { Range::fixed(1) } else { size.traversed() };
                (cost.plus(all), Some(size))
            }
            _ => {
                let (cost, size) = sized.of_standard(overload);
                (cost.plus(all), size)
            }
        }
    }

    fn unite_entries(&mut self, expression: &Expression, one: &Expression, other: &Expression) {
        if let (Some(one), Some(other)) = (self.entries_of(one), self.entries_of(other)) {
            self.entries.insert(expression.id, one.union(other));
        }
    }

    fn list(&mut self, expression: &Expression, elements: &'e [Element]) -> Range {
        let (mut cost, mut size) = (LIST, start(elements.is_empty()));
        for element in elements {
            cost = cost.plus(self.cost(&element.value));
            size = size.union(self.known_size(&element.value));
        }
        self.entries.insert(expression.id, Entries { is_list: true, key: Range::fixed(1), value: size });
        cost
    }

    fn map(&mut self, expression: &Expression, entries: &'e [MapEntry]) -> Range {
        let (mut cost, mut key, mut value) = (MAP, start(entries.is_empty()), start(entries.is_empty()));
        for entry in entries {
            cost = cost.plus(self.cost(&entry.key)).plus(self.cost(&entry.value));
            key = key.union(self.known_size(&entry.key));
            value = value.union(self.known_size(&entry.value));
        }
        self.entries.insert(expression.id, Entries { is_list: false, key, value });
        cost
    }

    /// A value under a name.
    fn binding(&mut self, expression: &Expression, fold: &'e Fold) -> Range {
        let before = self.cost(&fold.range).plus(self.cost(&fold.initial));
        self.bind(&fold.accumulator, &fold.initial);
        let cost = before.plus(self.cost(&fold.result));
        self.unbind(&fold.accumulator);
        self.copy_sizes(expression, &fold.result);
        cost
    }

    fn fold(&mut self, expression: &Expression, fold: &'e Fold) -> Range {
        let before = self.cost(&fold.range).plus(self.cost(&fold.initial));
        self.bind(&fold.accumulator, &fold.initial);
        self.bind_elements(fold);
        let turn = self.cost(&fold.condition).plus(self.cost(&fold.step));
        self.unbind(&fold.variable);
        if let Some(second) = &fold.second {
            self.unbind(second);
        }
        let after = self.cost(&fold.result);
        self.unbind(&fold.accumulator);
        // Asked for only now, after the body was visited, as cel-go does; the sharing of routes makes a
        // difference.
        let count = self.known_size(&fold.range);
        match &fold.initial.kind {
            ExpressionKind::Literal(_) => {
                if let Some(size) = self.size(&fold.initial) {
                    self.sizes.insert(expression.id, size);
                }
            }
            ExpressionKind::List(_) | ExpressionKind::Map(_) => {
                self.sizes.insert(expression.id, count);
                if let Some(entries) = self.entries_of(&fold.step) {
                    self.entries.insert(expression.id, entries);
                }
            }
            _ => {}
        }
        before.plus(after).plus(count.times(turn))
    }

    fn bind_elements(&mut self, fold: &'e Fold) {
        let entries = self.entries_of(&fold.range);
        let is_list = entries
            .map_or_else(|| matches!(self.notes.kind(&fold.range), Type::List(_)), |entries| entries.is_list);
        let (key, value) = (entries.map(|entries| entries.key), entries.map(|entries| entries.value));
        let mut name = |name: &'e str, step: &str, size: Option<Range>| {
            let route = self.route(&fold.range).to(step);
            self.locals.entry(name).or_default().push(Local { route, size, entries: None });
        };
        match (&fold.second, is_list) {
            (None, true) => name(&fold.variable, "@items", value),
            (None, false) => name(&fold.variable, "@keys", key),
            (Some(second), true) => {
                name(&fold.variable, "@indices", key);
                name(second, "@items", value);
            }
            (Some(second), false) => {
                name(&fold.variable, "@keys", key);
                name(second, "@values", value);
            }
        }
    }

    fn bind(&mut self, name: &'e str, value: &'e Expression) {
        let (route, entries, size) = (self.route(value), self.entries_of(value), self.size(value));
        self.locals.entry(name).or_default().push(Local { route, size, entries });
    }

    fn unbind(&mut self, name: &str) {
        if let Some(stack) = self.locals.get_mut(name) {
            stack.pop();
        }
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.get(name)?.last()
    }

    fn local_of(&self, expression: &Expression) -> Option<&Local> {
        match &expression.kind {
            ExpressionKind::Identifier(name) => self.local(name.strip_prefix('.').unwrap_or(name)),
            _ => None,
        }
    }

    fn route(&self, expression: &Expression) -> Route {
        let own = self.local_of(expression).map(|local| &local.route);
        own.or_else(|| self.routes.get(&expression.id)).cloned().unwrap_or_default()
    }

    fn operand(&mut self, expression: &'e Expression) -> Operand<'e> {
        let (route, size) = (self.route(expression), self.size(expression));
        Operand { expression, kind: self.notes.kind(expression), route, size }
    }

    fn known_size(&mut self, expression: &Expression) -> Range {
        self.size(expression).unwrap_or(Range::UNKNOWN)
    }

    fn size(&mut self, expression: &Expression) -> Option<Range> {
        if let Some(size) = self.sizes.get(&expression.id) {
            return Some(*size);
        }
        if let Some(size) = written_size(expression) {
            return Some(Range::fixed(size));
        }
        // Remembered, so that later changes of shared routes no longer matter to this expression.
        if let Some(size) = found(self.extent, &self.route(expression)) {
            self.sizes.insert(expression.id, size);
            return Some(size);
        }
        if is_scalar(self.notes.kind(expression)) {
            return Some(Range::fixed(1));
        }
        self.local_of(expression)?.size
    }

    fn entries_of(&self, expression: &Expression) -> Option<Entries> {
        let own = self.entries.get(&expression.id).copied();
        own.or_else(|| self.local_of(expression)?.entries)
    }

    fn copy_sizes(&mut self, to: &Expression, from: &Expression) {
        if let Some(size) = self.size(from) {
            self.sizes.insert(to.id, size);
        }
        if let Some(entries) = self.entries_of(from) {
            self.entries.insert(to.id, entries);
        }
    }
}

impl Operand<'_> {
    fn known(&self) -> Range {
        self.size.unwrap_or(Range::UNKNOWN)
    }
}

fn found(extent: &Extent, route: &Route) -> Option<Range> {
    if route.is_empty() { None } else { extent.find(route).map(Range::up_to) }
}

fn start(is_empty: bool) -> Range {
    // `NONE` only makes sense once something is united with it; its bounds are the wrong way round.
    if is_empty { Range::default() } else { Range::NONE }
}

/// The step that an index takes, and into what.
fn indexed<'e>(overload: &str, arguments: &'e [Expression]) -> Option<(&'static str, &'e Expression)> {
    let step = match overload {
        "index_list" => "@items",
        "index_map" => "@values",
        _ => return None,
    };
    Some((step, arguments.first()?))
}

/// A loop over nothing whose accumulator is a value.
fn is_binding(fold: &Fold) -> bool {
    // How `cel.bind` and `optMap` are expanded (`Expansion::bound` in macros.rs): there is no turn to
    // multiply by.
    matches!(&fold.range.kind, ExpressionKind::List(elements) if elements.is_empty())
        && matches!(&fold.condition.kind, ExpressionKind::Literal(Value::Bool(false)))
}

fn written_size(expression: &Expression) -> Option<u64> {
    Some(match &expression.kind {
        ExpressionKind::Literal(Value::String(text)) => text.as_str().chars().count() as u64,
        ExpressionKind::Literal(Value::Bytes(bytes)) => bytes.len() as u64,
        ExpressionKind::Literal(_) => 1,
        ExpressionKind::List(elements) => elements.len() as u64,
        ExpressionKind::Map(entries) => entries.len() as u64,
        _ => return None,
    })
}

fn is_scalar(kind: &Type) -> bool {
    match kind {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Optional(value) => is_scalar(value),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Environment;

    fn estimate(source: &str, kind: Type) -> u64 {
        let element = Extent { most: 40, ..Extent::default() };
        let extent = Extent { most: 1000, element: Some(Box::new(element)), ..Extent::default() };
        Environment::new().variable("self", kind).estimate(source, &extent).unwrap().1
    }

    #[test]
    fn searching_a_list_costs_as_much_whatever_is_searched_for() {
        let texts = || Type::List(Box::new(Type::String));
        assert_eq!(estimate("self.includes('a')", texts()), estimate("self.indexOf('a')", texts()));
        assert_eq!(estimate("self.includes('a')", texts()), 5001);
        // Of what is in a list of unknown type, the length is not known either.
        assert_eq!(estimate("self.includes('a')", Type::Dyn), 1001);
    }
}
