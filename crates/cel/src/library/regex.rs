//! Regular expressions.
//!
//! Follows k8s.io/apiserver 0.37.2, `pkg/cel/library/regex.go`.

use std::cell::RefCell;
use std::collections::HashMap;

use ferroplane_golang::regexp::{Error, Expression};

use super::{Answer, Context};
use crate::fault::Fault;
use crate::matching_cost;
use crate::value::Value;

/// How heavy an expression may be: about 1 MiB when it is compiled.
const HEAVIEST: u64 = 100_000;
/// The most that the search for one more match in a text costs.
const NEXT_SEARCH: u64 = 20;
/// How many expressions are kept.
const KEPT: usize = 64;

/// Expressions that were made while evaluating.
#[derive(Debug, Default)]
pub(crate) struct Regexes(RefCell<HashMap<String, Expression>>);

pub(crate) fn compile(pattern: &str) -> Result<Expression, Error> {
    Expression::bounded(pattern, HEAVIEST)
}

pub(super) fn search<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    let (text, pattern) = match &*values {
        [Value::String(text), Value::String(pattern), ..] => (text.as_str(), pattern.as_str()),
        [Value::String(_), ..] => return Err(Fault::no_such_overload()),
        _ if context.regex.is_some() => return Err(Fault::no_such_overload()),
        _ => return Err(Fault::new(format!("no such overload: {}", context.function))),
    };
    let expression = match context.regex {
        Some(expression) => expression.clone(),
        None => make(context, pattern)?,
    };
    // Fewer bytes to a step than a plain search has, because matching does more with every byte.
    context.meter.work(text.len() as u64 / 8 + 1)?;
    context.meter.weigh(matching_cost(expression.weight(), text.len()))?;
    match (context.function, values.get(2)) {
        ("matches", _) => Ok(Value::Bool(expression.is_match(text))),
        ("find", _) => context.text(expression.find(text).unwrap_or_default().to_owned()),
        (_, limit) => {
            let limit = match limit {
                // A negative limit is none.
                Some(Value::Int(limit)) => usize::try_from(*limit).unwrap_or(usize::MAX),
                _ => usize::MAX,
            };
            context.meter.allocate(text.len())?;
            let mut found = Vec::new();
            for place in expression.find_each(text).take(limit) {
                // An expression such as `.*[^A-Z]|[A-Z]` makes each search read the text to its end. That is rare, so that less is counted.
                let most = matching_cost(expression.weight(), text.len() - place.end);
                context.meter.weigh(most.min(NEXT_SEARCH))?;
                found.push(Value::text(&text[place]));
            }
            context.list(found)
        }
    }
}

fn make(context: &Context<'_>, pattern: &str) -> Result<Expression, Fault> {
    let mut made = context.regexes.0.borrow_mut();
    if let Some(expression) = made.get(pattern) {
        return Ok(expression.clone());
    }
    // Asked before compiling, which is far more expensive than matching and not seen by the cost.
    context.meter.make_regex()?;
    let expression = compile(pattern).map_err(|error| {
        let prefix = if context.function == "matches" { "" } else { "Illegal regex: " };
        Fault::new(format!("{prefix}{error}"))
    })?;
    if made.len() >= KEPT {
        // Dropping all is crude but bounded; an expression with so many computed patterns is about to hit the
        // limit of the meter anyway.
        made.clear();
    }
    // It is compiled when it is first matched, which takes about as much time as so much evaluation.
    context.meter.weigh(expression.weight())?;
    made.insert(pattern.to_owned(), expression.clone());
    Ok(expression)
}
