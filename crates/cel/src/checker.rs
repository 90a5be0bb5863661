//! Finds out what every name means and which overloads are possible, and makes the program.
//!
//! Follows cel-go 0.29.2, `checker/checker.go`, `checker/types.go`.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use ferroplane_golang::regexp;
use ferroplane_golang::time::duration;

use super::ast::{Element, Expression, ExpressionId, ExpressionKind, Fold as Loop, MapEntry};
use super::cost;
use super::declarations::{Function, Overload, function, type_named};
use super::evaluate;
use super::library::format;
use super::library::regex::compile as compile_regex;
use super::program::{self, Attribute, Fold, ListItem, MapItem, ProgramNode, Qualifier, QualifierKey, Root};
use super::source::{Incomputable, Mistake, Position};
use super::time::Timestamp;
use super::types::{Substitutions, Type, more_general};
use super::value::Value;

/// What a program is made from, and how many places for names it needs.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) node: ProgramNode,
    pub(super) kind: Type,
    pub(super) places: usize,
    /// What compiling all constant patterns costs.
    pub(super) pattern_weight: u64,
    /// Which variables the expression looks at.
    pub(super) used: BTreeSet<usize>,
}

/// What was found out about the parts of an expression, for whoever has more questions about it.
#[derive(Debug, Default)]
pub(super) struct TypeFacts {
    kinds: HashMap<ExpressionId, Type>,
    calls: HashMap<ExpressionId, Call>,
    names: HashMap<ExpressionId, String>,
}

/// Which function is called, and which of its overloads are possible.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) function: &'static str,
    pub(super) overloads: Vec<&'static str>,
    /// Whether what stands before the name is an argument.
    pub(super) is_member: bool,
}

impl TypeFacts {
    pub(super) fn kind(&self, expression: &Expression) -> &Type {
        self.kinds.get(&expression.id).unwrap_or(&Type::Dyn)
    }

    pub(super) fn call(&self, expression: &Expression) -> Option<&Call> {
        self.calls.get(&expression.id)
    }

    /// The name with dots that a selection of fields turned out to be.
    pub(super) fn name(&self, expression: &Expression) -> Option<&str> {
        self.names.get(&expression.id).map(String::as_str)
    }
}

/// Why there is no program: mistakes in the source, or a constant that cannot be computed.
#[derive(Debug)]
pub(super) enum Refused {
    Mistakes(Vec<Mistake>),
    Constant(String, Incomputable),
}

pub(super) fn check(
    expression: &Expression,
    variables: &[(String, Type)],
    allow_mixed: bool,
    notes: Option<&mut TypeFacts>,
) -> Result<Checked, Refused> {
    let mut checker = Checker {
        variables,
        allow_mixed,
        used: RefCell::default(),
        locals: Vec::new(),
        places: 0,
        types: Substitutions::default(),
        mistakes: Vec::new(),
        constant: None,
        pattern_weight: 0,
        aggregates: Vec::new(),
        formats: 0,
        formatted: None,
        formatting: Vec::new(),
        notes,
    };
    let (node, kind) = checker.check(expression);
    if checker.mistakes.is_empty() {
        // These checks need the final types, and their messages would mislead beside a mistake that changed a
        // type.
        checker.check_aggregates();
        checker.mistakes.append(&mut checker.formatting);
    }
    if !checker.mistakes.is_empty() {
        return Err(Refused::Mistakes(checker.mistakes));
    }
    // Only now, because a later part of the expression may say what an earlier parameter stands for.
    let kind = checker.types.apply(&kind, true);
    if let Some(text) = checker.constant {
        let used = checker.used.take().into_iter().map(|number| variables[number].0.clone()).collect();
        return Err(Refused::Constant(text, Incomputable { result_type: kind, used }));
    }
    for kind in checker.notes.iter_mut().flat_map(|notes| notes.kinds.values_mut()) {
        *kind = checker.types.apply(kind, true);
    }
    let (places, pattern_weight) = (checker.places, checker.pattern_weight);
    Ok(Checked { node, kind, places, pattern_weight, used: checker.used.take() })
}

struct Checker<'e> {
    variables: &'e [(String, Type)],
    allow_mixed: bool,
    used: RefCell<BTreeSet<usize>>,
    locals: Vec<Local>,
    places: usize,
    types: Substitutions,
    mistakes: Vec<Mistake>,
    /// Why a constant could not be computed.
    constant: Option<String>,
    /// What compiling all constant patterns costs.
    pattern_weight: u64,
    /// Elements of lists, keys or values of maps, which must have one type.
    aggregates: Vec<Vec<(Position, Type)>>,
    /// How many calls of `format` we are in. What it prints may be of many types.
    formats: usize,
    /// The last list within a call of `format`, and the types of its elements.
    formatted: Option<(Position, Vec<(Position, Type)>)>,
    /// What is wrong with formats, which is only said if nothing else is.
    formatting: Vec<Mistake>,
    notes: Option<&'e mut TypeFacts>,
}

#[derive(Debug, Clone)]
struct Local {
    name: String,
    kind: Type,
    place: usize,
}

type Typed = (ProgramNode, Type);

impl Checker<'_> {
    fn check(&mut self, expression: &Expression) -> Typed {
        let (node, kind) = self.check_kind(expression);
        if let Some(notes) = &mut self.notes {
            notes.kinds.insert(expression.id, kind.clone());
        }
        (node, kind)
    }

    fn check_kind(&mut self, expression: &Expression) -> Typed {
        match &expression.kind {
            ExpressionKind::Literal(value) => (ProgramNode::Constant(value.clone()), literal_type(value)),
            ExpressionKind::Identifier(name) => self.identifier(expression.position, name),
            ExpressionKind::Select { operand, field, is_test } => {
                self.select(expression, operand, field, *is_test)
            }
            ExpressionKind::Call { function, target, arguments } => {
                self.call(expression, function, target.as_deref(), arguments)
            }
            ExpressionKind::List(elements) => self.list(expression.position, elements),
            ExpressionKind::Map(entries) => self.map(entries),
            ExpressionKind::Message(name) => self.undeclared(expression.position, name),
            ExpressionKind::Fold(fold) => self.fold(fold),
        }
    }

    fn wrong(&mut self, at: Position, message: impl Into<String>) -> Typed {
        self.mistakes.push(Mistake::new(at, message));
        // The node is never evaluated: a mistake keeps the program from being made.
        (ProgramNode::Constant(Value::Null), Type::Error)
    }

    fn undeclared(&mut self, at: Position, name: &str) -> Typed {
        self.wrong(at, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn identifier(&mut self, at: Position, name: &str) -> Typed {
        match self.lookup(name) {
            Some(found) => found,
            None => self.undeclared(at, name),
        }
    }

    /// A leading dot means that names from macros are not looked at.
    fn lookup(&self, name: &str) -> Option<Typed> {
        if let Some(local) = self.locals.iter().rev().find(|local| local.name == name) {
            return Some((
                ProgramNode::Attribute(Attribute::of(Root::Local(local.place))),
                local.kind.clone(),
            ));
        }
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some(number) = self.variables.iter().position(|(variable, _)| variable == name) {
            self.used.borrow_mut().insert(number);
            let node = ProgramNode::Attribute(Attribute::of(Root::Variable(number)));
            return Some((node, self.variables[number].1.clone()));
        }
        let (name, kind) = type_named(name)?;
        Some((ProgramNode::Constant(Value::Type(name)), Type::Type(Box::new(kind))))
    }

    fn select(&mut self, whole: &Expression, operand: &Expression, field: &str, is_test: bool) -> Typed {
        // `has(a.b)` asks for the field, even where `a.b` is the name of a variable or a type.
        if !is_test
            && let Some(name) = qualified_name(whole)
            // The longest name wins, as in cel-go: `google.protobuf.Timestamp` is one type, not a field of
            // `google`.
            && let Some(found) = self.lookup_qualified(&name)
        {
            if let Some(notes) = &mut self.notes {
                notes.names.insert(whole.id, name);
            }
            return found;
        }
        let (node, kind) = self.field(whole.position, operand, field);
        let mut attribute = attribute(node);
        let key = QualifierKey::Constant(Value::text(field.to_owned()));
        attribute.push(Arc::new(Qualifier { key, is_optional: false, is_test }));
        if is_test {
            return (ProgramNode::Presence(attribute), Type::Bool);
        }
        (ProgramNode::Attribute(attribute), kind)
    }

    /// A type whose name has dots, or a variable that was declared so.
    fn lookup_qualified(&self, name: &str) -> Option<Typed> {
        let first = name.split('.').next()?;
        // What a macro names hides dotted names that begin with it, or a loop variable could turn into a
        // type.
        if self.locals.iter().any(|local| local.name == first) {
            return None;
        }
        self.lookup(name)
    }

    /// The operand of a selection, and the type of its fields.
    fn field(&mut self, at: Position, operand: &Expression, name: &str) -> Typed {
        let (node, kind) = self.check(operand);
        let kind = self.types.apply(&kind, false);
        let (target, is_optional) = match kind {
            Type::Optional(value) => (*value, true),
            other => (other, false),
        };
        let result = match &target {
            Type::Map(_, value) => (**value).clone(),
            Type::Struct(of) => match of.fields.get(name) {
                Some(kind) => kind.clone(),
                None => self.wrong(at, format!("undefined field '{name}'")).1,
            },
            // Not `Error`: a path that goes on after a mistake is still checked where types are known again.
            Type::Dyn | Type::Error => Type::Dyn,
            Type::Message(message) => (message.field)(name).unwrap_or_else(|| {
                self.wrong(at, format!("undefined field '{name}'"));
                Type::Error
            }),
            Type::Parameter(_) => {
                // Selecting from something of unknown type decides that it is dynamic from here on.
                self.types.agree(&Type::Dyn, &target);
                Type::Dyn
            }
            _ => {
                self.wrong(at, format!("type '{target}' does not support field selection"));
                Type::Dyn
            }
        };
        (node, if is_optional { Type::optional(result) } else { result })
    }

    fn call(
        &mut self,
        whole: &Expression,
        name: &str,
        target: Option<&Expression>,
        arguments: &[Expression],
    ) -> Typed {
        let at = whole.position;
        // This operator takes the name of a field, not a value, so that no overload could be found for it.
        if name == "_?._" {
            self.note_call(whole, "_?._", vec!["select_optional_field"], false);
            return self.optional_select(at, arguments);
        }
        // A counter, not a flag: formats can be nested in the arguments of formats.
        let is_format = usize::from(name == "format");
        self.formats += is_format;
        // Arguments come before the target, as in cel-go: it is the order in which mistakes are found and
        // types are learnt.
        let mut checked: Vec<_> = arguments.iter().map(|argument| self.check(argument)).collect();
        if is_format == 1 {
            self.check_format(at, target, arguments);
        }
        // `math.abs(x)` looks like a call on something named `math`. A function of that full name goes first.
        let qualified =
            target.and_then(qualified_name).and_then(|prefix| function(&format!("{prefix}.{name}")));
        let found = match (target, qualified) {
            (None, _) => function(name.strip_prefix('.').unwrap_or(name)),
            (Some(_), Some(found)) => Some(found),
            (Some(target), None) => {
                checked.insert(0, self.check(target));
                function(name)
            }
        };
        self.formats -= is_format;
        let Some(found) = found else { return self.undeclared(at, name) };
        let is_member = target.is_some() && qualified.is_none();
        self.check_literal(found, is_member, arguments);
        let (nodes, types): (Vec<_>, Vec<_>) = checked.into_iter().unzip();
        let Some((overloads, result)) = self.resolve(at, found, is_member, &types, arguments) else {
            return (ProgramNode::Constant(Value::Null), Type::Error);
        };
        if self.notes.is_some() {
            let names = overloads.iter().map(|overload| overload.name).collect();
            self.note_call(whole, found.name, names, is_member);
        }
        // A single overload is settled now, which spares the search at every evaluation, and changes what the
        // call costs.
        let only = if let [only] = overloads[..] { Some(only) } else { None };
        (self.emit(found, only, nodes), result)
    }

    fn note_call(
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

    /// Patterns, times and durations that are written out are looked at now.
    fn check_literal(&mut self, function: &Function, is_member: bool, arguments: &[Expression]) {
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
    fn check_format(&mut self, at: Position, target: Option<&Expression>, arguments: &[Expression]) {
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

    fn optional_select(&mut self, at: Position, arguments: &[Expression]) -> Typed {
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
    fn resolve(
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

    fn emit(
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
                self.constant.get_or_insert(format!("invalid qualifier type: {}", evaluate::go_type(&value)));
                QualifierKey::Constant(Value::Null)
            }
            ProgramNode::Attribute(index) => QualifierKey::Attribute(index),
            other => QualifierKey::Computed(other),
        };
        attribute.push(Arc::new(Qualifier { key, is_optional, is_test: false }));
        ProgramNode::Attribute(attribute)
    }

    fn list(&mut self, at: Position, elements: &[Element]) -> Typed {
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
        let element = joined.unwrap_or_else(|| self.types.fresh());
        (constant_list(items), Type::list(element))
    }

    fn map(&mut self, entries: &[MapEntry]) -> Typed {
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

    fn check_aggregates(&mut self) {
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
        match evaluate::constant(&ProgramNode::Map(items)) {
            Ok(value) => ProgramNode::Constant(value),
            Err(text) => {
                self.constant.get_or_insert(text);
                ProgramNode::Constant(Value::Null)
            }
        }
    }

    fn fold(&mut self, fold: &Loop) -> Typed {
        let (range, range_type) = self.check(&fold.range);
        let (initial, accumulator_type) = self.check(&fold.initial);
        let range_type = self.types.apply(&range_type, false);
        let (first, second) = self.element_types(fold, &range_type);
        // Places are never used twice: what a name stands for may be evaluated later, within another loop.
        let place = self.places;
        self.places += 3;
        let outside = self.locals.len();
        let mut name = |name: &str, kind: Type, place: usize| {
            self.locals.push(Local { name: name.to_owned(), kind, place });
        };
        name(&fold.accumulator, accumulator_type.clone(), place);
        name(&fold.variable, first, place + 1);
        name(fold.second.as_deref().unwrap_or_default(), second, place + 2);
        let (condition, kind) = self.check(&fold.condition);
        self.assert(&fold.condition, &Type::Bool, &kind);
        // The condition is checked first: what it says about the accumulator's type holds for the step.
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

    fn assert(&mut self, expression: &Expression, wanted: &Type, found: &Type) {
        if !self.types.agree(wanted, found) {
            self.wrong(expression.position, format!("expected type '{wanted}' but found '{found}'"));
        }
    }
}

/// What a path can be continued on. The result of a test cannot be, so it is an operand like others.
fn attribute(node: ProgramNode) -> Attribute {
    match node {
        ProgramNode::Attribute(attribute) => attribute,
        other => Attribute::of(Root::Operand(Box::new(other))),
    }
}

fn literal_type(value: &Value<'_>) -> Type {
    match value {
        Value::Null => Type::Null,
        Value::Bool(_) => Type::Bool,
        Value::Int(_) => Type::Int,
        Value::Uint(_) => Type::Uint,
        Value::Double(_) => Type::Double,
        Value::String(_) => Type::String,
        Value::Bytes(_) => Type::Bytes,
        _ => Type::Dyn,
    }
}

/// The dotted name that an expression may be.
fn qualified_name(expression: &Expression) -> Option<String> {
    match &expression.kind {
        ExpressionKind::Identifier(name) => Some(name.clone()),
        ExpressionKind::Select { operand, field, is_test: false } => {
            Some(format!("{}.{field}", qualified_name(operand)?))
        }
        _ => None,
    }
}

fn is_qualifier(value: &Value<'_>) -> bool {
    value.is_number() || matches!(value, Value::Bool(_) | Value::String(_))
}

fn constant_list(items: Vec<ListItem>) -> ProgramNode {
    let is_constant = items.iter().all(|item| !item.is_optional && item.value.as_constant().is_some());
    if !is_constant {
        return ProgramNode::List(items);
    }
    let values = items.iter().filter_map(|item| item.value.as_constant().cloned()).collect();
    ProgramNode::Constant(Value::list(values))
}

/// A search in a list of constants costs nothing.
fn in_constant(overload: Option<&'static Overload>, sides: &mut Vec<ProgramNode>) -> Option<ProgramNode> {
    let Some(Value::List(list)) = sides.last()?.as_constant() else { return None };
    if overload?.name != "in_list" {
        return None;
    }
    if list.is_empty() {
        return Some(ProgramNode::Constant(Value::Bool(false)));
    }
    let list: Vec<_> = list.iter().collect();
    let is_simple =
        // Other elements keep the ordinary call, which costs as much as the list is long: cel-go has a set
        // for constants of primitive types only.
        list.iter().all(|value| value.is_number() || matches!(value, Value::Bool(_) | Value::String(_)));
    is_simple.then(|| ProgramNode::InConstant { element: Box::new(sides.swap_remove(0)), list })
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
