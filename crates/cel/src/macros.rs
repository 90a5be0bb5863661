//! Macros: calls that become other expressions while they are read.
//!
//! Follows cel-go 0.29.2, `parser/macro.go`, `ext/comprehensions.go`, `ext/bindings.go`.

use super::ast::{Element, Expression, ExpressionKind, Fold};
use super::parser::{Parser, Stop};
use super::source::Position;
use super::value::Value;

/// Not a name that a source can write, so nothing can collide with it.
const ACCUMULATOR: &str = "@result";
const UNUSED: &str = "#unused";

type Parsed = Result<Expression, Stop>;

pub(super) fn expand_global(
    parser: &mut Parser<'_>,
    at: Position,
    function: &str,
    mut arguments: Vec<Expression>,
) -> Parsed {
    // With another number of arguments it is not a macro but a call, of an undeclared function.
    if function != "has" || arguments.len() != 1 {
        return parser.call(at, function, arguments);
    }
    let Some(argument) = arguments.pop() else { return Err(Stop) };
    let position = argument.position;
    match argument.kind {
        ExpressionKind::Select { operand, field, .. } => {
            parser.node(at, ExpressionKind::Select { operand, field, is_test: true })
        }
        _ => parser.wrong(position, "invalid argument to has() macro"),
    }
}

pub(super) fn expand_member(
    parser: &mut Parser<'_>,
    at: Position,
    function: &str,
    target: Expression,
    arguments: Vec<Expression>,
) -> Parsed {
    let mut expansion = Expansion { parser, at };
    match (function, arguments.len()) {
        // cel-go knows the second spelling only where there are two variables.
        ("all" | "exists" | "exists_one", 2) | ("all" | "exists" | "exists_one" | "existsOne", 3) => {
            expansion.quantifier(function, target, arguments)
        }
        ("map", 2 | 3) | ("transformList" | "transformMap" | "transformMapEntry", 3 | 4) => {
            expansion.transform(function, target, arguments)
        }
        ("filter", 2) => expansion.filter(target, arguments),
        ("optMap" | "optFlatMap", 2) => expansion.map_optional(function, target, arguments),
        ("sortBy", 2) => expansion.sort_by(target, arguments),
        ("bind", 3) if is_namespace(&target, "cel") => expansion.bind(arguments),
        ("greatest" | "least", _) if is_namespace(&target, "math") => {
            expansion.extreme(function, &target, arguments)
        }
        _ => {
            let target = Some(Box::new(target));
            parser.node(at, ExpressionKind::Call { function: function.to_owned(), target, arguments })
        }
    }
}

fn is_namespace(target: &Expression, name: &str) -> bool {
    matches!(&target.kind, ExpressionKind::Identifier(identifier) if identifier == name)
}

/// The names of one or two variables, the position of what is wrong, and why.
type Variables = Result<(String, Option<String>), (Position, String)>;

struct Expansion<'p, 's> {
    parser: &'p mut Parser<'s>,
    at: Position,
}

impl Expansion<'_, '_> {
    fn quantifier(&mut self, function: &str, range: Expression, mut arguments: Vec<Expression>) -> Parsed {
        let Some(predicate) = arguments.pop() else { return Err(Stop) };
        let variables = match variables(&arguments, "argument must be a simple name") {
            Ok(variables) => variables,
            Err((position, message)) => return self.parser.wrong(position, message),
        };
        let accumulator = self.accumulator()?;
        let (initial, condition, step, result) = match function {
            "all" => {
                let initial = self.literal(Value::Bool(true))?;
                let read = self.accumulator()?;
                // An error in one element must not end the loop: a later `false` still decides.
                let condition = self.call("@not_strictly_false", vec![read])?;
                let step = self.call("_&&_", vec![accumulator, predicate])?;
                (initial, condition, step, self.accumulator()?)
            }
            "exists" => {
                let initial = self.literal(Value::Bool(false))?;
                let read = self.accumulator()?;
                let not = self.call("!_", vec![read])?;
                let condition = self.call("@not_strictly_false", vec![not])?;
                let step = self.call("_||_", vec![accumulator, predicate])?;
                (initial, condition, step, self.accumulator()?)
            }
            _ => {
                let initial = self.literal(Value::Int(0))?;
                let condition = self.literal(Value::Bool(true))?;
                let one = self.literal(Value::Int(1))?;
                let more = self.call("_+_", vec![accumulator, one])?;
                let same = self.accumulator()?;
                let step = self.call("_?_:_", vec![predicate, more, same])?;
                let (count, one) = (self.accumulator()?, self.literal(Value::Int(1))?);
                (initial, condition, step, self.call("_==_", vec![count, one])?)
            }
        };
        self.fold(range, variables, initial, condition, step, result)
    }

    fn transform(&mut self, function: &str, range: Expression, mut arguments: Vec<Expression>) -> Parsed {
        let Some(transform) = arguments.pop() else { return Err(Stop) };
        let names = if function == "map" { 1 } else { 2 };
        let filter = if arguments.len() > names { arguments.pop() } else { None };
        let reason = if function == "map" {
            "argument is not an identifier"
        } else {
            "argument must be a simple name"
        };
        let variables = match variables(&arguments, reason) {
            Ok(variables) => variables,
            Err((position, message)) => return self.parser.wrong(position, message),
        };
        let accumulator = self.accumulator()?;
        let step = match function {
            "transformMap" => {
                let key = self.identifier(&variables.0)?;
                self.call("cel.@mapInsert", vec![accumulator, key, transform])?
            }
            "transformMapEntry" => self.call("cel.@mapInsert", vec![accumulator, transform])?,
            _ => {
                let list = self.list(vec![transform])?;
                self.call("_+_", vec![accumulator, list])?
            }
        };
        let step = self.guarded(filter, step)?;
        let is_map = function.starts_with("transformMap");
        let initial =
            if is_map { self.node(ExpressionKind::Map(Vec::new()))? } else { self.list(Vec::new())? };
        self.collect(range, variables, initial, step)
    }

    fn filter(&mut self, range: Expression, mut arguments: Vec<Expression>) -> Parsed {
        let predicate = arguments.pop();
        let variables = match variables(&arguments, "argument is not an identifier") {
            Ok(variables) => variables,
            Err((position, message)) => return self.parser.wrong(position, message),
        };
        let accumulator = self.accumulator()?;
        let Some(element) = arguments.pop() else { return Err(Stop) };
        let list = self.list(vec![element])?;
        let step = self.call("_+_", vec![accumulator, list])?;
        let step = self.guarded(predicate, step)?;
        let initial = self.list(Vec::new())?;
        self.collect(range, variables, initial, step)
    }

    fn map_optional(&mut self, function: &str, target: Expression, arguments: Vec<Expression>) -> Parsed {
        let [variable, transform] = <[Expression; 2]>::try_from(arguments).map_err(|_| Stop)?;
        let ExpressionKind::Identifier(name) = variable.kind else {
            let message = format!("{function}() variable name must be a simple identifier");
            return self.parser.wrong(variable.position, message);
        };
        // The target is evaluated twice, and nested `optMap` doubles it each time: the parser's limit on size
        // ends that.
        let copy = self.parser.copy(&target)?;
        let value = self.member_call("value", copy, Vec::new())?;
        let mut mapped = self.bound(name, value, transform)?;
        if function == "optMap" {
            mapped = self.call("optional.of", vec![mapped])?;
        }
        let condition = self.member_call("hasValue", target, Vec::new())?;
        let none = self.call("optional.none", Vec::new())?;
        self.call("_?_:_", vec![condition, mapped, none])
    }

    fn sort_by(&mut self, target: Expression, arguments: Vec<Expression>) -> Parsed {
        // The target is bound, because it is needed for the keys and for the sorting, and must be evaluated
        // once.
        const INPUT: &str = "@__sortBy_input__";
        if matches!(
            target.kind,
            ExpressionKind::Literal(_) | ExpressionKind::Map(_) | ExpressionKind::Message(_)
        ) {
            let message =
                "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
            return self.parser.wrong(target.position, message);
        }
        let input = self.identifier(INPUT)?;
        let keys = self.transform("map", input, arguments)?;
        let input = self.identifier(INPUT)?;
        let sorted = self.member_call("@sortByAssociatedKeys", input, vec![keys])?;
        self.bound(INPUT.to_owned(), target, sorted)
    }

    fn bind(&mut self, arguments: Vec<Expression>) -> Parsed {
        let [variable, value, result] = <[Expression; 3]>::try_from(arguments).map_err(|_| Stop)?;
        match variable.kind {
            ExpressionKind::Identifier(name) => self.bound(name, value, result),
            _ => self.parser.wrong(variable.position, "cel.bind() variable names must be simple identifiers"),
        }
    }

    /// `math.greatest` and `math.least`, which take any number of arguments.
    fn extreme(&mut self, function: &str, target: &Expression, mut arguments: Vec<Expression>) -> Parsed {
        let name = format!("math.{function}()");
        let implementation = if function == "greatest" { "math.@max" } else { "math.@min" };
        if arguments.is_empty() {
            return self.parser.wrong(target.position, format!("{name} requires at least one argument"));
        }
        if arguments.len() == 1 {
            if is_list_of_numbers(&arguments[0]) || is_maybe_number(&arguments[0]) {
                return self.call(implementation, arguments);
            }
            let position = arguments[0].position;
            return self.parser.wrong(position, format!("{name} invalid single argument value"));
        }
        if let Some(wrong) = arguments.iter().find(|argument| !is_maybe_number(argument)) {
            let message = format!("{name} simple literal arguments must be numeric");
            return self.parser.wrong(wrong.position, message);
        }
        if arguments.len() > 2 {
            arguments = vec![self.list(arguments)?];
        }
        self.call(implementation, arguments)
    }

    /// The step, or the accumulator as it is where the filter says no.
    fn guarded(&mut self, filter: Option<Expression>, step: Expression) -> Parsed {
        let Some(filter) = filter else { return Ok(step) };
        let same = self.accumulator()?;
        self.call("_?_:_", vec![filter, step, same])
    }

    fn collect(
        &mut self,
        range: Expression,
        variables: (String, Option<String>),
        initial: Expression,
        step: Expression,
    ) -> Parsed {
        let condition = self.literal(Value::Bool(true))?;
        let result = self.accumulator()?;
        self.fold(range, variables, initial, condition, step, result)
    }

    fn fold(
        &mut self,
        range: Expression,
        (variable, second): (String, Option<String>),
        initial: Expression,
        condition: Expression,
        step: Expression,
        result: Expression,
    ) -> Parsed {
        let accumulator = ACCUMULATOR.to_owned();
        let fold = Fold { range, variable, second, accumulator, initial, condition, step, result };
        self.node(ExpressionKind::Fold(Box::new(fold)))
    }

    /// A value under a name: a loop over nothing, whose accumulator is the value.
    fn bound(&mut self, name: String, value: Expression, result: Expression) -> Parsed {
        let range = self.list(Vec::new())?;
        let condition = self.literal(Value::Bool(false))?;
        let step = self.identifier(&name)?;
        let fold = Fold {
            range,
            variable: UNUSED.to_owned(),
            second: None,
            accumulator: name,
            initial: value,
            condition,
            step,
            result,
        };
        self.node(ExpressionKind::Fold(Box::new(fold)))
    }

    fn node(&mut self, kind: ExpressionKind) -> Parsed {
        self.parser.node(self.at, kind)
    }

    fn call(&mut self, function: &str, arguments: Vec<Expression>) -> Parsed {
        self.parser.call(self.at, function, arguments)
    }

    fn member_call(&mut self, function: &str, target: Expression, arguments: Vec<Expression>) -> Parsed {
        let target = Some(Box::new(target));
        self.node(ExpressionKind::Call { function: function.to_owned(), target, arguments })
    }

    fn literal(&mut self, value: Value<'static>) -> Parsed {
        self.node(ExpressionKind::Literal(value))
    }

    fn identifier(&mut self, name: &str) -> Parsed {
        self.node(ExpressionKind::Identifier(name.to_owned()))
    }

    fn accumulator(&mut self) -> Parsed {
        self.identifier(ACCUMULATOR)
    }

    fn list(&mut self, elements: Vec<Expression>) -> Parsed {
        let elements = elements.into_iter().map(|value| Element { value, is_optional: false }).collect();
        self.node(ExpressionKind::List(elements))
    }
}

/// The one or two names that stand before what is evaluated for each element.
fn variables(arguments: &[Expression], reason: &str) -> Variables {
    let mut names = Vec::with_capacity(2);
    for argument in arguments {
        match &argument.kind {
            ExpressionKind::Identifier(name) => names.push((argument.position, name.clone())),
            _ => return Err((argument.position, reason.to_owned())),
        }
    }
    if let [(_, first), (position, second)] = names.as_slice()
        && first == second
    {
        return Err((*position, format!("duplicate variable name: {first}")));
    }
    // The accumulator is named otherwise here, but cel-go refuses this name, so that the same sources are
    // accepted.
    if let Some((position, _)) = names.iter().find(|(_, name)| name == "__result__") {
        return Err((*position, "iteration variable overwrites accumulator variable".to_owned()));
    }
    let mut names = names.into_iter().map(|(_, name)| name);
    Ok((names.next().unwrap_or_default(), names.next()))
}

fn is_maybe_number(argument: &Expression) -> bool {
    match &argument.kind {
        ExpressionKind::Literal(value) => matches!(value, Value::Int(_) | Value::Uint(_) | Value::Double(_)),
        ExpressionKind::List(_) | ExpressionKind::Map(_) | ExpressionKind::Message(_) => false,
        _ => true,
    }
}

fn is_list_of_numbers(argument: &Expression) -> bool {
    match &argument.kind {
        ExpressionKind::List(elements) => {
            !elements.is_empty() && elements.iter().all(|element| is_maybe_number(&element.value))
        }
        _ => false,
    }
}
