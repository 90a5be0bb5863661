//! Evaluates a program. Recursion is bounded by the depth of the expression, and every step is counted.
//!
//! Follows cel-go 0.29.2, `interpreter/interpretable.go`, `interpreter/attributes.go`.

use std::collections::BTreeMap;

use ferroplane_cancellation::checkpoint;

use super::cost;
use super::declarations::Overload;
use super::fault::{EvaluateError, Fault};
use super::library::{Context, Regexes};
use super::meter::Meter;
use super::program::{Attribute, Call, Fold, ListItem, MapItem, ProgramNode, Qualifier, QualifierKey, Root};
use super::types::Type;
use super::value::{List, Map, MapKey, Value, lossless_int};

/// A value, or an error that may still be absorbed.
type Outcome<'v> = Result<Value<'v>, Fault>;
/// The outer error ends the evaluation.
type Step<T> = Result<T, Fault>;

/// What is given to an evaluation, and what it counts.
pub(super) struct Machine<'p, 'v> {
    pub(super) names: &'p [Box<str>],
    pub(super) variables: Vec<Option<Value<'v>>>,
    pub(super) places: Vec<LocalSlot<'p, 'v>>,
    pub(super) meter: Meter,
    pub(super) regexes: Regexes,
}

/// What a name that a macro introduced stands for.
#[derive(Debug, Clone, Default)]
pub(super) enum LocalSlot<'p, 'v> {
    #[default]
    Empty,
    /// Not evaluated yet.
    Lazy(&'p ProgramNode),
    Ready(Outcome<'v>),
}

/// The value of a node that has only constants in it.
pub(super) fn constant(node: &ProgramNode) -> Result<Value<'static>, String> {
    let mut machine = Machine {
        names: &[],
        variables: Vec::new(),
        places: Vec::new(),
        // Constants are not charged to anybody; their size is bounded by that of the source.
        meter: Meter::new(u64::MAX),
        regexes: Regexes::default(),
    };
    match machine.evaluate(node) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(fault)) | Err(fault) => Err(EvaluateError::from(fault).to_string()),
    }
}

/// Tells what ends the evaluation from what may be absorbed.
fn settle<T>(result: Result<T, Fault>) -> Step<Result<T, Fault>> {
    match result {
        Err(Fault::Cancelled(reason)) => Err(Fault::Cancelled(reason)),
        other => Ok(other),
    }
}

impl<'p, 'v> Machine<'p, 'v> {
    pub(super) fn evaluate(&mut self, node: &'p ProgramNode) -> Step<Outcome<'v>> {
        // The meter bounds the work but not the time: the caller may have gone long before the limit is
        // reached.
        checkpoint();
        match node {
            ProgramNode::Constant(value) => Ok(Ok(value.clone())),
            ProgramNode::Attribute(attribute) => self.attribute(attribute),
            ProgramNode::Presence(attribute) => self.presence(attribute),
            ProgramNode::And(sides) => self.logical(sides, false),
            ProgramNode::Or(sides) => self.logical(sides, true),
            ProgramNode::Equal { sides, is_negated } => self.equality(sides, *is_negated),
            ProgramNode::InConstant { element, list } => self.in_constant(element, list),
            ProgramNode::Call(call) => self.call(call),
            ProgramNode::OptionalOr { sides, is_value } => self.optional_or(sides, *is_value),
            ProgramNode::List(items) => self.list(items),
            ProgramNode::Map(items) => self.map(items),
            ProgramNode::Fold(fold) => self.fold(fold),
        }
    }

    fn attribute(&mut self, attribute: &'p Attribute) -> Step<Outcome<'v>> {
        let outcome = self.resolve(attribute)?;
        // A condition costs what its parts cost.
        if !matches!(attribute.root, Root::Condition(_)) {
            self.meter.charge(cost::IDENTIFIER)?;
        }
        // Every value of the JSON comes by here before anything is done with it.
        Ok(match outcome {
            Ok(Value::Invalid(reason)) => Err(Fault::new(&*reason)),
            outcome => outcome,
        })
    }

    fn presence(&mut self, attribute: &'p Attribute) -> Step<Outcome<'v>> {
        let outcome = self.resolve(attribute)?;
        // cel-go takes back one for every presence test, but never charged it for a condition, so that
        // `has((a ? b : c).d)` costs one less than its parts.
        if matches!(attribute.root, Root::Condition(_)) {
            self.meter.refund(cost::IDENTIFIER);
        }
        Ok(outcome.map(|value| match value {
            Value::Optional(value) => Value::Bool(value.is_some()),
            other => other,
        }))
    }

    fn resolve(&mut self, attribute: &'p Attribute) -> Step<Outcome<'v>> {
        let root = match &attribute.root {
            Root::Variable(number) => self.variable(*number),
            Root::Local(place) => self.local(*place)?,
            Root::Operand(node) => self.evaluate(node)?,
            Root::Condition(parts) => {
                return match self.evaluate(&parts.0)? {
                    Ok(Value::Bool(true)) => self.resolve(&parts.1),
                    Ok(Value::Bool(false)) => self.resolve(&parts.2),
                    Ok(_) => Ok(Err(Fault::no_such_overload())),
                    Err(fault) => Ok(Err(fault)),
                };
            }
        };
        match root {
            Ok(value) if !attribute.qualifiers.is_empty() => self.qualified(value, &attribute.qualifiers),
            other => Ok(other),
        }
    }

    fn variable(&self, number: usize) -> Outcome<'v> {
        let missing = || Fault::new(format!("no such attribute(s): {}", self.names[number]));
        self.variables[number].clone().ok_or_else(missing)
    }

    fn local(&mut self, place: usize) -> Step<Outcome<'v>> {
        // A value under a name is evaluated at its first use, and not at all if nothing uses it: `cel.bind(x,
        // 1/0, true)` is fine.
        if let LocalSlot::Lazy(node) = self.places[place] {
            let outcome = self.evaluate(node)?;
            self.places[place] = LocalSlot::Ready(outcome);
        }
        match &self.places[place] {
            LocalSlot::Ready(outcome) => Ok(outcome.clone()),
            _ => Ok(Err(Fault::text("no such attribute(s)"))),
        }
    }

    /// Follows a path. Once a part of it is optional, what is missing after it makes the whole missing.
    fn qualified(&mut self, value: Value<'v>, path: &'p [std::sync::Arc<Qualifier>]) -> Step<Outcome<'v>> {
        let (mut value, mut is_optional) = match value {
            // The rest of the path is neither followed nor charged.
            Value::Optional(None) => return Ok(Ok(Value::Optional(None))),
            Value::Optional(Some(inner)) => ((*inner).clone(), true),
            other => (other, false),
        };
        for qualifier in path {
            is_optional |= qualifier.is_optional;
            let key = self.key(&qualifier.key)?;
            let found = key.and_then(|key| find(&value, &key, is_optional || qualifier.is_test));
            // Optional steps are observed only where something was found, so that only those cost.
            if !is_optional || matches!(found, Ok(Some(_))) {
                self.meter.charge(cost::IDENTIFIER)?;
            }
            value = match found {
                Err(fault) => return Ok(Err(fault)),
                Ok(None) if is_optional => return Ok(Ok(Value::Optional(None))),
                Ok(found) if qualifier.is_test && !is_optional => Value::Bool(found.is_some()),
                Ok(found) => found.unwrap_or_default(),
            };
        }
        Ok(Ok(if is_optional { Value::some(value) } else { value }))
    }

    fn key(&mut self, key: &'p QualifierKey) -> Step<Outcome<'v>> {
        let key = match key {
            QualifierKey::Constant(value) => return Ok(Ok(value.clone())),
            QualifierKey::Attribute(attribute) => self.resolve(attribute)?,
            QualifierKey::Computed(node) => self.evaluate(node)?,
        };
        Ok(key.and_then(|key| match key {
            Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::String(_) => Ok(key),
            other => Err(Fault::new(format!("invalid qualifier type: {}", native_type(&other)))),
        }))
    }

    /// And, or. Either side may decide alone, whatever is wrong with the other.
    fn logical(&mut self, [left, right]: &'p [ProgramNode; 2], decisive: bool) -> Step<Outcome<'v>> {
        let mut fault = None;
        for side in [left, right] {
            match self.evaluate(side)? {
                Ok(Value::Bool(value)) if value == decisive => return Ok(Ok(Value::Bool(decisive))),
                Ok(Value::Bool(_)) => {}
                Ok(_) => {
                    fault.get_or_insert(Fault::no_such_overload());
                }
                Err(error) => {
                    // If neither side decides, the error of the left one is returned.
                    fault.get_or_insert(error);
                }
            }
        }
        Ok(fault.map_or(Ok(Value::Bool(!decisive)), Err))
    }

    fn equality(&mut self, [left, right]: &'p [ProgramNode; 2], is_negated: bool) -> Step<Outcome<'v>> {
        // Both sides are evaluated and charged even if the left one fails.
        let (left, right) = (self.evaluate(left)?, self.evaluate(right)?);
        // Charged before comparing, so that an expression at its limit does not do the work first.
        self.meter.charge(cost::of_equality(&left, &right, is_negated))?;
        match (left, right) {
            (Ok(left), Ok(right)) => Ok(Ok(Value::Bool(left.equals(&right, &self.meter)? != is_negated))),
            (Err(fault), _) | (_, Err(fault)) => Ok(Err(fault)),
        }
    }

    fn in_constant(&mut self, element: &'p ProgramNode, list: &'p [Value<'static>]) -> Step<Outcome<'v>> {
        let element = match self.evaluate(element)? {
            Ok(element) => element,
            Err(fault) => return Ok(Err(fault)),
        };
        for candidate in list {
            if element.equals(candidate, &self.meter)? {
                return Ok(Ok(Value::Bool(true)));
            }
        }
        Ok(Ok(Value::Bool(false)))
    }

    fn optional_or(&mut self, [left, right]: &'p [ProgramNode; 2], is_value: bool) -> Step<Outcome<'v>> {
        // No cost of its own: cel-go evaluates these two functions outside of its calls.
        match self.evaluate(left)? {
            Ok(Value::Optional(Some(value))) if is_value => Ok(Ok((*value).clone())),
            Ok(Value::Optional(Some(value))) => Ok(Ok(Value::Optional(Some(value)))),
            Ok(Value::Optional(None)) => self.evaluate(right),
            Ok(_) => Ok(Err(Fault::no_such_overload())),
            Err(fault) => Ok(Err(fault)),
        }
    }

    fn call(&mut self, call: &'p Call) -> Step<Outcome<'v>> {
        let function = call.function;
        let count = call.arguments.len();
        // With one or two arguments and one implementation, all are evaluated even if the first is wrong.
        let is_eager = count <= 2
            // Variadic functions stop at the first error in cel-go; `format` is one, and so are calls whose
            // pattern was compiled beforehand.
            && function.name != "format"
            && call.regex.is_none()
            && (function.is_one || call.overload.is_some() || function.overloads.len() == 1);
        let mut arguments: Vec<Outcome<'v>> = Vec::with_capacity(count);
        for (index, argument) in call.arguments.iter().enumerate() {
            let outcome = if index == 0 && call.takes_accumulator {
                self.take_accumulator(argument)?
            } else {
                self.evaluate(argument)?
            };
            // A call whose last argument was not reached is not counted.
            if !is_eager
                && index + 1 < count
                && let Err(fault) = outcome
            {
                return Ok(Err(fault));
            }
            arguments.push(outcome);
        }
        // The one function that takes an error for an argument: loops of `all` and `exists` continue past errors
        // with it.
        if function.name == "@not_strictly_false" {
            self.meter.charge(1)?;
            return Ok(Ok(Value::Bool(!matches!(arguments[0], Ok(Value::Bool(false))))));
        }
        let is_late = cost::needs_result(function.name);
        if !is_late {
            self.meter.charge(cost::of_call(call, &arguments, None, &self.meter)?)?;
        }
        if let Some(Err(fault)) = arguments.iter().find(|argument| argument.is_err()) {
            let fault = fault.clone();
            if is_late {
                self.meter.charge(cost::of_call(call, &arguments, None, &self.meter)?)?;
            }
            return Ok(Err(fault));
        }
        let outcome = self.apply(call, &mut arguments)?;
        if is_late {
            self.meter.charge(cost::of_call(call, &arguments, Some(&outcome), &self.meter)?)?;
        }
        Ok(outcome)
    }

    /// The accumulator itself instead of a copy, so that it can be changed in place.
    fn take_accumulator(&mut self, argument: &'p ProgramNode) -> Step<Outcome<'v>> {
        let ProgramNode::Attribute(Attribute { root: Root::Local(place), .. }) = argument else {
            return self.evaluate(argument);
        };
        // Makes a lazy accumulator ready, so that there is something to take.
        self.local(*place).map(drop)?;
        self.meter.charge(cost::IDENTIFIER)?;
        match std::mem::take(&mut self.places[*place]) {
            LocalSlot::Ready(outcome) => Ok(outcome),
            _ => Ok(Err(Fault::text("no such attribute(s)"))),
        }
    }

    fn apply(&mut self, call: &'p Call, arguments: &mut [Outcome<'v>]) -> Step<Outcome<'v>> {
        let function = call.function;
        let mut values: Vec<Value<'v>> =
            arguments.iter_mut().map(|argument| take(argument, function.name)).collect();
        let mut overload = call.overload;
        // Values are read again even where types were checked, because a dynamic argument may be of any type.
        // A call with a constant pattern is left out: its implementation takes strings and refuses the rest.
        if !function.is_one && call.regex.is_none() {
            let fits = |overload: &&'static Overload| fits(overload, &values);
            overload = match call.overload {
                Some(only) => Some(only).filter(fits),
                None => function.overloads.iter().find(fits),
            };
            if overload.is_none() {
                let types: Vec<_> = values.iter().map(Value::type_name).collect();
                let message = format!("no such overload: {}({})", function.name, types.join(", "));
                return Ok(Err(Fault::new(message)));
            }
        }
        let context = Context {
            function: function.name,
            overload: overload.map_or("", |overload| overload.name),
            meter: &self.meter,
            regex: call.regex.as_ref(),
            regexes: &self.regexes,
        };
        settle((function.implementation)(&context, &mut values))
    }

    fn list(&mut self, items: &'p [ListItem]) -> Step<Outcome<'v>> {
        let mut values = Vec::with_capacity(items.len());
        let mut fault = None;
        for item in items {
            let outcome = self.evaluate(&item.value)?;
            match (outcome, item.is_optional) {
                (Err(error), _) => fault = Some(error),
                (Ok(Value::Optional(value)), true) => values.extend(value.map(|value| (*value).clone())),
                (Ok(value), true) => {
                    let shown = super::json::show(&value, &self.meter)?;
                    let text = "cannot initialize optional list element from non-optional value";
                    fault = Some(Fault::new(format!("{text} {shown}")));
                }
                (Ok(value), false) => values.push(value),
            }
            if fault.is_some() {
                break;
            }
        }
        // Charged even if an element failed: making the list was begun.
        self.meter.charge(cost::LIST)?;
        if let Some(fault) = fault {
            return Ok(Err(fault));
        }
        self.meter.allocate(values.len() * size_of::<Value<'_>>())?;
        Ok(Ok(Value::list(values)))
    }

    fn map(&mut self, items: &'p [MapItem]) -> Step<Outcome<'v>> {
        let entries = self.entries(items)?;
        self.meter.charge(cost::MAP)?;
        self.meter.allocate(items.len() * 2 * size_of::<Value<'_>>())?;
        Ok(entries.map(Value::map))
    }

    fn entries(&mut self, items: &'p [MapItem]) -> Step<Result<BTreeMap<MapKey<'v>, Value<'v>>, Fault>> {
        let mut entries = BTreeMap::new();
        for item in items {
            let key = match self.evaluate(&item.key)? {
                Ok(key) => key,
                Err(fault) => return Ok(Err(fault)),
            };
            let value = match self.evaluate(&item.value)? {
                Ok(value) => value,
                Err(fault) => return Ok(Err(fault)),
            };
            let name = key.type_name();
            let Some(key) = MapKey::new(key) else {
                return Ok(Err(Fault::new(format!("unsupported key type: {name}"))));
            };
            match value {
                Value::Optional(Some(value)) if item.is_optional => {
                    entries.insert(key, (*value).clone());
                }
                Value::Optional(None) if item.is_optional => {
                    // An absent optional also removes an entry that was written earlier under the same key,
                    // as in cel-go.
                    entries.remove(&key);
                }
                value if item.is_optional => {
                    let shown = super::json::show(&value, &self.meter)?;
                    let text = format!(
                        "cannot initialize optional entry '{}' from non-optional value {shown}",
                        super::json::show(key.value(), &self.meter)?
                    );
                    return Ok(Err(Fault::new(text)));
                }
                value => {
                    entries.insert(key, value);
                }
            }
        }
        Ok(Ok(entries))
    }

    fn fold(&mut self, fold: &'p Fold) -> Step<Outcome<'v>> {
        let range = match self.evaluate(&fold.range)? {
            Ok(range) => range,
            Err(fault) => return Ok(Err(fault)),
        };
        // The initial value of a bound name may be expensive and unused; that of a loop is a constant.
        self.places[fold.place] = LocalSlot::Lazy(&fold.initial);
        let looped = match &range {
            Value::List(list) => {
                for (index, value) in list.iter().enumerate() {
                    let index = Value::Int(i64::try_from(index).unwrap_or(i64::MAX));
                    let (first, second) = if fold.has_second { (index, value) } else { (value, Value::Null) };
                    if !self.turn(fold, first, second)? {
                        break;
                    }
                }
                Ok(())
            }
            Value::Map(map) => {
                // All entries are copied before the first turn, and turns that never happen would not pay for
                // that.
                self.meter.work(map.len() as u64)?;
                for (key, value) in map.entries() {
                    if !self.turn(fold, key, value)? {
                        break;
                    }
                }
                Ok(())
            }
            other if fold.has_second => {
                Err(Fault::new(format!("unsupported comprehension range type: {}", go_type(other))))
            }
            other => Err(Fault::new(format!("got '{}', expected iterable type", go_type(other)))),
        };
        let outcome = match looped {
            Ok(()) => self.evaluate(&fold.result)?,
            Err(fault) => Err(fault),
        };
        // Drops what the loop held on to, which for large lists is most of the memory.
        for place in &mut self.places[fold.place..fold.place + 3] {
            *place = LocalSlot::Empty;
        }
        Ok(outcome)
    }

    /// One turn of a loop. Says whether there shall be another.
    fn turn(&mut self, fold: &'p Fold, first: Value<'v>, second: Value<'v>) -> Step<bool> {
        self.places[fold.place + 1] = LocalSlot::Ready(Ok(first));
        self.places[fold.place + 2] = LocalSlot::Ready(Ok(second));
        // Only a plain `false` ends a loop; an error in the condition does not.
        if let Ok(Value::Bool(false)) = self.evaluate(&fold.condition)? {
            return Ok(false);
        }
        let outcome = self.evaluate(&fold.step)?;
        self.places[fold.place] = LocalSlot::Ready(outcome);
        Ok(true)
    }
}

/// Takes an argument, unless its size will be asked for later.
fn take<'v>(argument: &mut Outcome<'v>, function: &str) -> Value<'v> {
    match argument {
        Ok(value) if cost::needs_result(function) => value.clone(),
        Ok(value) => std::mem::take(value),
        Err(_) => Value::Null,
    }
}

/// Whether the overload takes these values. Of a list, only the first element is checked.
fn fits(overload: &Overload, values: &[Value<'_>]) -> bool {
    // Tells by itself what it can flatten.
    if overload.name == "list_flatten" {
        return values.len() == 1;
    }
    overload.arguments.len() == values.len()
        && overload.arguments.iter().zip(values).all(|(kind, value)| is_of_type(value, kind))
}

fn is_of_type(value: &Value<'_>, kind: &Type) -> bool {
    match (kind, value) {
        (Type::List(element), Value::List(list)) => {
            // An empty list is of any type.
            list.get(0).is_none_or(|first| is_of_type(&first, element))
        }
        (Type::Map(key_type, value_type), Value::Map(map)) => map
            .first()
            .is_none_or(|(key, value)| is_of_type(&key, key_type) && is_of_type(&value, value_type)),
        (Type::Dyn | Type::Parameter(_), _)
        | (Type::Struct(_), Value::Map(_))
        | (Type::Null, Value::Null)
        | (Type::Bool, Value::Bool(_))
        | (Type::Int, Value::Int(_))
        | (Type::Uint, Value::Uint(_))
        | (Type::Double, Value::Double(_))
        | (Type::String, Value::String(_))
        | (Type::Bytes, Value::Bytes(_))
        | (Type::Timestamp, Value::Timestamp(_))
        | (Type::Duration, Value::Duration(_))
        | (Type::Optional(_), Value::Optional(_))
        | (Type::Type(_), Value::Type(_)) => true,
        (Type::Opaque(name), Value::Object(object)) => object.type_name() == *name,
        (Type::Message(kind), Value::Message(message)) => message.type_name() == kind.name,
        _ => false,
    }
}

/// What is under a key of a map or at an index of a list. Nothing is only fine if that may be.
fn find<'v>(value: &Value<'v>, key: &Value<'v>, may_miss: bool) -> Result<Option<Value<'v>>, Fault> {
    let missing = |reason: &str| {
        if may_miss {
            return Ok(None);
        }
        Err(Fault::new(format!("{reason}: {}", super::json::show_key(key))))
    };
    match value {
        Value::Map(map) => map.get(key).map_or_else(|| missing("no such key"), |found| Ok(Some(found))),
        Value::Message(message) => message.find(key, may_miss),
        Value::List(list) => {
            let index = index(key)?;
            let found = usize::try_from(index).ok().and_then(|index| list.get(index));
            found.map_or_else(|| missing("index out of bounds"), |found| Ok(Some(found)))
        }
        // Selecting from a number or a text is "no such key", not a type error, as in cel-go.
        _ => missing("no such key"),
    }
}

fn index(key: &Value<'_>) -> Result<i64, Fault> {
    let unsupported =
        || Fault::new(format!("unsupported index value {} in list", super::json::show_key(key)));
    match key {
        Value::Int(index) => Ok(*index),
        Value::Uint(index) => i64::try_from(*index).map_err(|_| unsupported()),
        Value::Double(index) => lossless_int(*index).ok_or_else(unsupported),
        other => Err(Fault::new(format!("unsupported index type '{}' in list", other.type_name()))),
    }
}

/// The name that messages have for a type of value that is not wrapped yet. Values that come from JSON are Go's own
/// types in Kubernetes until something converts them.
fn native_type(value: &Value<'_>) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::List(List::Json(..) | List::Shaped(..)) => "[]interface {}",
        Value::Map(Map::Json(..) | Map::Shaped(..)) => "map[string]interface {}",
        other => go_type(other),
    }
}

/// What messages call a type of value.
pub(super) fn go_type(value: &Value<'_>) -> &'static str {
    match value {
        Value::Null => "types.Null",
        Value::Bool(_) => "types.Bool",
        Value::Int(_) => "types.Int",
        Value::Uint(_) => "types.Uint",
        Value::Double(_) => "types.Double",
        Value::String(_) => "types.String",
        Value::Bytes(_) => "types.Bytes",
        Value::List(_) => "*types.baseList",
        Value::Map(_) => "*types.baseMap",
        Value::Timestamp(_) => "types.Timestamp",
        Value::Duration(_) => "types.Duration",
        Value::Type(_) => "*types.Type",
        Value::Optional(_) => "*types.Optional",
        Value::Object(object) => object.go_type(),
        Value::Message(_) => "*types.protoObj",
        Value::Invalid(_) => "*types.Err",
    }
}
