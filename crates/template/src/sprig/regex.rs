//! Regular expressions.
//!
//! An expression is compiled at each call, so that its weight is what a call costs. Text that is not UTF-8 is read with
//! replacement characters.
//!
//! Follows sprig 3.3.0, `regex.go`, and Go 1.26, `regexp/regexp.go` (`ReplaceAll`, `expand`, `Split`).

use std::ops::Range;

use ferroplane_golang::fmt::to_text as lossy;
use ferroplane_golang::regexp::{Expression, quote_meta};
use ferroplane_golang::strconv::quote_bytes;

use super::arguments::{characters, charge_items, int, no_strings, strings, text};
use super::function;
use crate::{Context, Failure, Function, Type, Value};

use Type::{Bool, Int, String};

pub(super) const FUNCTIONS: &[Function] = &[
    function("regexMatch", &[String, String], Bool, |ctx, args| match is_match(ctx, args) {
        // sprig ignores a mistake in the expression. The end of the budget is none, and must end the execution.
        Err(Failure::Message(_)) => Ok(Value::Bool(false)),
        result => result,
    }),
    function("mustRegexMatch", &[String, String], Bool, is_match),
    function("regexFind", &[String, String], String, |ctx, args| find(ctx, args, panicking)),
    function("mustRegexFind", &[String, String], String, |ctx, args| find(ctx, args, plain)),
    function("regexFindAll", &[String, String, Int], Type::List(&String), |ctx, args| {
        find_all(ctx, args, panicking)
    }),
    function("mustRegexFindAll", &[String, String, Int], Type::List(&String), |ctx, args| {
        find_all(ctx, args, plain)
    }),
    function("regexReplaceAll", &[String, String, String], String, |ctx, args| {
        replace(ctx, args, panicking, expand)
    }),
    function("mustRegexReplaceAll", &[String, String, String], String, |ctx, args| {
        replace(ctx, args, plain, expand)
    }),
    function("regexReplaceAllLiteral", &[String, String, String], String, |ctx, args| {
        replace(ctx, args, panicking, literal)
    }),
    function("mustRegexReplaceAllLiteral", &[String, String, String], String, |ctx, args| {
        replace(ctx, args, plain, literal)
    }),
    function("regexSplit", &[String, String, Int], Type::List(&String), |ctx, args| {
        split(ctx, args, panicking)
    }),
    function("mustRegexSplit", &[String, String, Int], Type::List(&String), |ctx, args| {
        split(ctx, args, plain)
    }),
    function("regexQuoteMeta", &[String], String, |_, args| Ok(Value::text(quote_meta(text(args, 0))))),
];

/// The message of a mistake in an expression.
type Blame = fn(&[u8], std::string::String) -> Failure;

/// As Go's `Compile` returns it.
fn plain(_: &[u8], error: std::string::String) -> Failure {
    Failure::new(error)
}

/// As Go's `MustCompile` panics.
#[expect(clippy::needless_pass_by_value, reason = "the other one needs it")]
fn panicking(pattern: &[u8], error: std::string::String) -> Failure {
    let is_special = |letter: char| {
        matches!(letter, '`' | '\u{7f}' | '\u{feff}') || letter.is_ascii_control() && letter != '\t'
    };
    let quoted = match str::from_utf8(pattern) {
        Ok(pattern) if !pattern.contains(is_special) => format!("`{pattern}`"),
        _ => quote_bytes(pattern),
    };
    Failure::new(format!("regexp: Compile({quoted}): {error}"))
}

/// The heaviest expression that a template may use: about a megabyte and some milliseconds.
const MAX_WEIGHT: u64 = 100_000;

/// The expression that is the first argument. Steps are counted for reading it and for searching the second argument.
fn compile(ctx: &mut Context<'_>, args: &[Value], blame: Blame) -> Result<Expression, Failure> {
    let pattern = characters(args, 0);
    if let Err(error) = str::from_utf8(text(args, 0)) {
        // Go shows the pattern from the first byte on that is wrong.
        let rest = lossy(&text(args, 0)[error.valid_up_to()..]);
        let problem = format!("error parsing regexp: invalid UTF-8: `{rest}`");
        return Err(blame(text(args, 0), problem));
    }
    let expression = Expression::bounded(&pattern, MAX_WEIGHT)
        .map_err(|error| blame(pattern.as_bytes(), error.to_string()))?;
    let (weight, length) = (expression.weight(), text(args, 1).len() as u64);
    // A search can come to every state of the expression at every byte of the text.
    ctx.step(1 + weight / 8 + length / 64 + weight.saturating_mul(length) / 4096)?;
    Ok(expression)
}

fn is_match(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    Ok(Value::Bool(compile(ctx, args, plain)?.is_match(&characters(args, 1))))
}

fn find(ctx: &mut Context<'_>, args: &[Value], blame: Blame) -> Result<Value, Failure> {
    let expression = compile(ctx, args, blame)?;
    Ok(Value::text(expression.find(&characters(args, 1)).unwrap_or_default()))
}

fn find_all(ctx: &mut Context<'_>, args: &[Value], blame: Blame) -> Result<Value, Failure> {
    let expression = compile(ctx, args, blame)?;
    let text = characters(args, 1);
    let limit = limit(ctx, &text, int(args, 2))?;
    let mut found = Vec::new();
    let mut matches = expression.find_each(&text);
    while found.len() < limit {
        step_for_search(ctx, &expression, text.len())?;
        let Some(place) = matches.next() else { break };
        found.push(&text[place]);
    }
    if found.is_empty() {
        return Ok(no_strings());
    }
    charge_items(ctx, found.len())?;
    strings(ctx, found.into_iter().map(Value::text).collect())
}

/// Count the search for one more match. An expression such as `.*[^A-Z]|[A-Z]` makes each search read the text to its end, so that
/// all searches together take quadratic time. Most continue where the last one ended, and a text may have very many matches, so that
/// the steps of one search are bounded: they end a call without a clock in time, and have the clock of the others asked often enough.
fn step_for_search(ctx: &mut Context<'_>, expression: &Expression, length: usize) -> Result<(), Failure> {
    let length = length as u64;
    let whole_text = expression.weight().saturating_mul(length) / 4096;
    ctx.step(whole_text.min(16.max(length / 16_384)))?;
    Ok(())
}

/// How many matches are wanted; all of them if the number is negative. They could be as many as the text has characters, so
/// that their places are paid for before.
fn limit(ctx: &mut Context<'_>, text: &str, wanted: i64) -> Result<usize, Failure> {
    let most = usize::try_from(wanted).unwrap_or(usize::MAX).min(text.len() + 1);
    ctx.charge(most.saturating_mul(size_of::<&str>()))?;
    Ok(most)
}

fn replace(
    ctx: &mut Context<'_>,
    args: &[Value],
    blame: Blame,
    replacement: fn(&Match<'_>, &str, &mut std::string::String),
) -> Result<Value, Failure> {
    let expression = compile(ctx, args, blame)?;
    let (text, template) = (characters(args, 1), characters(args, 2));
    let mut replaced = std::string::String::new();
    let (mut end, mut charged) = (0, 0);
    // One match after the other, so that only what is written takes memory.
    let mut matches = expression.captures_each(&text);
    loop {
        step_for_search(ctx, &expression, text.len())?;
        let Some(places) = matches.next() else { break };
        let Some(place) = places[0].clone() else { continue };
        replaced.push_str(&text[end..place.start]);
        replacement(
            &Match { expression: &expression, text: &text, places: &places },
            &template,
            &mut replaced,
        );
        end = place.end;
        ctx.charge(replaced.len() - charged)?;
        charged = replaced.len();
    }
    replaced.push_str(&text[end..]);
    Ok(Value::text(replaced))
}

/// What an expression found, with the places of its groups.
struct Match<'m> {
    expression: &'m Expression,
    text: &'m str,
    places: &'m [Option<Range<usize>>],
}

fn literal(_: &Match<'_>, template: &str, out: &mut std::string::String) {
    out.push_str(template);
}

/// Writes a template in which `$1`, `${1}`, `$name` and `${name}` stand for groups. Groups that do not exist are empty.
fn expand(found: &Match<'_>, template: &str, out: &mut std::string::String) {
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        let Some((name, after)) = reference(after) else {
            // A sign that refers to nothing is just that.
            out.push('$');
            rest = after;
            continue;
        };
        let place = match number(name) {
            Some(number) => found.places.get(number).cloned().flatten(),
            None => found.named(name),
        };
        out.push_str(place.map_or("", |place| &found.text[place]));
        rest = after;
    }
    out.push_str(rest);
}

/// The name after a dollar sign, with or without braces, and what follows.
fn reference(text: &str) -> Option<(&str, &str)> {
    let inside = text.strip_prefix('{');
    let name = inside.unwrap_or(text);
    let is_part = |letter: char| {
        ferroplane_golang::unicode::is_letter(letter)
            || ferroplane_golang::unicode::is_digit(letter)
            || letter == '_'
    };
    let end = name.find(|letter| !is_part(letter)).unwrap_or(name.len());
    let (name, after) = name.split_at(end);
    let after = if inside.is_some() { after.strip_prefix('}')? } else { after };
    (!name.is_empty()).then_some((name, after))
}

/// A name that is the number of a group: without zeros in front, and not larger than any expression could have.
fn number(name: &str) -> Option<usize> {
    let is_number =
        name.bytes().all(|byte| byte.is_ascii_digit()) && !(name.len() > 1 && name.starts_with('0'));
    name.parse().ok().filter(|number| is_number && *number < 1_000_000_000)
}

impl Match<'_> {
    /// Where the first group with this name is that took part.
    fn named(&self, name: &str) -> Option<Range<usize>> {
        let groups = self.expression.group_names().iter().zip(self.places.iter().skip(1));
        groups.filter(|(other, _)| *other == name).find_map(|(_, place)| place.clone())
    }
}

fn split(ctx: &mut Context<'_>, args: &[Value], blame: Blame) -> Result<Value, Failure> {
    let expression = compile(ctx, args, blame)?;
    let text = characters(args, 1);
    let wanted = int(args, 2);
    if wanted == 0 {
        return Ok(no_strings());
    }
    if text.is_empty() && !characters(args, 0).is_empty() {
        return strings(ctx, vec![Value::text("")]);
    }
    let limit = limit(ctx, &text, wanted)?;
    let (mut parts, mut begin, mut end) = (Vec::new(), 0, 0);
    let mut matches = expression.find_each(&text).take(limit);
    loop {
        step_for_search(ctx, &expression, text.len())?;
        let Some(Range { start, end: after }) = matches.next() else { break };
        if usize::try_from(wanted).is_ok_and(|wanted| parts.len() + 1 == wanted) {
            break;
        }
        end = start;
        // A match of nothing at the very beginning splits nothing off, as in Go.
        if after != 0 {
            parts.push(&text[begin..end]);
        }
        begin = after;
    }
    if end != text.len() {
        parts.push(&text[begin..]);
    }
    charge_items(ctx, parts.len())?;
    strings(ctx, parts.into_iter().map(Value::text).collect())
}
