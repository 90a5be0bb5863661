//! Finds out what every name means and which overloads are possible, and makes the program.
//!
//! Follows cel-go 0.29.2, `checker/checker.go`, `checker/types.go`.

mod aggregates;
mod calls;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::ast::{Expression, ExpressionId, ExpressionKind};
use super::declarations::{function, type_named};
use super::program::{Attribute, ProgramNode, Qualifier, QualifierKey, Root};
use super::source::{Incomputable, Mistake, Position};
use super::types::{Substitutions, Type};
use super::value::Value;
use calls::qualified_name;

/// What a program is made from, and how many places for names it needs.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) node: ProgramNode,
    pub(super) kind: Type,
    pub(super) places: usize,
    /// What compiling all constant patterns costs.
    pub(super) pattern_weight: u64,
    /// Which variables the expression reads.
    pub(super) used: BTreeSet<usize>,
}

/// Types and references of the parts of an expression, for the estimate and the program.
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
        used: BTreeSet::new(),
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
        let used = checker.used.into_iter().map(|number| variables[number].0.clone()).collect();
        return Err(Refused::Constant(text, Incomputable { result_type: kind, used }));
    }
    for kind in checker.notes.iter_mut().flat_map(|notes| notes.kinds.values_mut()) {
        *kind = checker.types.apply(kind, true);
    }
    let (places, pattern_weight) = (checker.places, checker.pattern_weight);
    Ok(Checked { node, kind, places, pattern_weight, used: checker.used })
}

struct Checker<'e> {
    variables: &'e [(String, Type)],
    allow_mixed: bool,
    used: BTreeSet<usize>,
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

    /// A leading dot means that names from macros are not checked.
    fn lookup(&mut self, name: &str) -> Option<Typed> {
        if let Some(local) = self.locals.iter().rev().find(|local| local.name == name) {
            return Some((
                ProgramNode::Attribute(Attribute::of(Root::Local(local.place))),
                local.kind.clone(),
            ));
        }
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some(number) = self.variables.iter().position(|(variable, _)| variable == name) {
            self.used.insert(number);
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
    fn lookup_qualified(&mut self, name: &str) -> Option<Typed> {
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
            // Not `Error`: a path that continues after a mistake is still checked where types are known again.
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
