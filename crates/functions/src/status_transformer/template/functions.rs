//! The functions that templates of messages can call.

use std::borrow::Cow;
use std::cmp::Ordering;

use ferroplane_golang::fmt::{Any, Numbers, sprintf};
use ferroplane_golang::strconv::quote;

use super::evaluate::Value;

/// Each function, how many arguments it needs, and whether it takes more.
// Go has `call` and `js` as well. Captured texts are never functions, and messages never scripts.
const FUNCTIONS: [(&str, usize, bool); 17] = [
    ("and", 1, true),
    ("eq", 1, true),
    ("ge", 2, false),
    ("gt", 2, false),
    ("html", 0, true),
    ("index", 1, true),
    ("le", 2, false),
    ("len", 1, false),
    ("lt", 2, false),
    ("ne", 2, false),
    ("not", 1, false),
    ("or", 1, true),
    ("print", 0, true),
    ("printf", 1, true),
    ("println", 0, true),
    ("slice", 1, true),
    ("urlquery", 0, true),
];

/// Whether there is a function of this name.
pub(super) fn is_known(name: &str) -> bool {
    FUNCTIONS.iter().any(|(candidate, ..)| *candidate == name)
}

/// Whether a function takes this many arguments, of which so many were written behind it.
pub(super) fn check_arity(name: &str, count: usize, written: usize) -> Result<(), String> {
    match FUNCTIONS.iter().find(|(candidate, ..)| *candidate == name) {
        Some((_, least, true)) if count < *least => {
            // Go names what was written here, without the value from the pipeline, and the sum of both in the
            // other message (`evalCall`).
            Err(format!("wrong number of args for {name}: want at least {least} got {written}"))
        }
        Some((_, exact, false)) if count != *exact => {
            Err(format!("wrong number of args for {name}: want {exact} got {count}"))
        }
        _ => Ok(()),
    }
}

/// What the function makes of its arguments.
pub(super) fn call<'a>(name: &str, values: &[Value<'a>]) -> Result<Value<'a>, String> {
    match (name, values) {
        // The last one decides: those before it did not.
        ("and" | "or", [.., last]) => Ok(last.clone()),
        ("not", [value]) => Ok(Value::Boolean(!value.is_true())),
        ("eq", [first, others @ ..]) => equal(first, others).map(Value::Boolean),
        ("ne", [one, other]) => equal(one, std::slice::from_ref(other)).map(|equal| Value::Boolean(!equal)),
        ("lt", [one, other]) => less(one, other).map(Value::Boolean),
        // By negation, as in Go; there are no numbers that compare to nothing.
        ("ge", [one, other]) => less(one, other).map(|less| Value::Boolean(!less)),
        ("le", [one, other]) => at_most(one, other).map(Value::Boolean),
        ("gt", [one, other]) => at_most(one, other).map(|at_most| Value::Boolean(!at_most)),
        ("len", [value]) => length(value).map(Value::Integer),
        ("index", [item, indexes @ ..]) => index(item, indexes),
        ("slice", [item, indexes @ ..]) => slice(item, indexes),
        ("print", values) => Ok(owned(print(values))),
        ("println", values) => Ok(owned(print_line(values))),
        ("printf", [format, values @ ..]) => printf(format, values).map(owned),
        ("html", values) => Ok(owned(html(&argument_text(values)))),
        ("urlquery", values) => Ok(owned(url_query(&argument_text(values)))),
        _ => Err("it is not supported in messages".to_owned()),
    }
}

fn owned<'a>(text: String) -> Value<'a> {
    Value::Text(Cow::Owned(text))
}

fn equal(first: &Value<'_>, others: &[Value<'_>]) -> Result<bool, String> {
    if others.is_empty() {
        return Err("missing argument for comparison".to_owned());
    }
    for other in others {
        let is_equal = match (first, other) {
            (Value::Text(one), Value::Text(other)) => one == other,
            (Value::Boolean(one), Value::Boolean(other)) => one == other,
            (Value::Nothing, Value::Nothing) => true,
            // Go's `eq` never refuses a value that is not valid; `compare` below does.
            (Value::Nothing, _) | (_, Value::Nothing) => false,
            (Value::Groups(_), Value::Groups(_)) => {
                let (shown, kind) = (first.printed(), first.type_name());
                return Err(format!("non-comparable type {shown}: {kind}"));
            }
            _ => match (number(first), number(other)) {
                (Some(one), Some(other)) => one == other,
                _ => return Err(incompatible(first, other)),
            },
        };
        if is_equal {
            return Ok(true);
        }
    }
    Ok(false)
}

fn incompatible(one: &Value<'_>, other: &Value<'_>) -> String {
    format!("incompatible types for comparison: {} and {}", one.type_name(), other.type_name())
}

fn number(value: &Value<'_>) -> Option<i64> {
    match value {
        Value::Integer(number) => Some(*number),
        Value::Byte(number) => Some((*number).into()),
        _ => None,
    }
}

fn compare(one: &Value<'_>, other: &Value<'_>) -> Result<Ordering, String> {
    match (one, other) {
        (Value::Groups(_) | Value::Nothing, _)
        | (_, Value::Groups(_) | Value::Nothing)
        | (Value::Boolean(_), Value::Boolean(_)) => Err("invalid type for comparison".to_owned()),
        (Value::Text(one), Value::Text(other)) => Ok(one.cmp(other)),
        _ => match (number(one), number(other)) {
            (Some(one), Some(other)) => Ok(one.cmp(&other)),
            _ => Err(incompatible(one, other)),
        },
    }
}

fn less(one: &Value<'_>, other: &Value<'_>) -> Result<bool, String> {
    compare(one, other).map(Ordering::is_lt)
}

fn at_most(one: &Value<'_>, other: &Value<'_>) -> Result<bool, String> {
    compare(one, other).map(Ordering::is_le)
}

fn length(value: &Value<'_>) -> Result<i64, String> {
    let length = match value {
        // In bytes: Go's `len`.
        Value::Text(text) => text.len(),
        Value::Groups(groups) => groups.len(),
        Value::Nothing => return Err("reflect: call of reflect.Value.Type on zero Value".to_owned()),
        other => return Err(format!("len of type {}", other.type_name())),
    };
    Ok(i64::try_from(length).unwrap_or(i64::MAX))
}

fn index<'a>(item: &Value<'a>, indexes: &[Value<'a>]) -> Result<Value<'a>, String> {
    if matches!(item, Value::Nothing) {
        return Err("index of untyped nil".to_owned());
    }
    let mut item = item.clone();
    for index in indexes {
        item = match (&item, index) {
            (Value::Groups(groups), Value::Text(name)) => {
                // Unlike a field that is not there: `index` gives the zero value of the map's type.
                let text = groups.get(name.as_ref()).map_or("", String::as_str);
                Value::Text(Cow::Borrowed(text))
            }
            (Value::Groups(_), Value::Nothing) => {
                return Err("value is nil; should be of type string".to_owned());
            }
            (Value::Groups(_), other) => {
                return Err(format!("value has type {}; should be string", other.type_name()));
            }
            (Value::Text(text), index) => {
                // Go's `indexArg` lets the length itself pass, too, because `slice` needs it; then reflection
                // refuses it.
                let byte = text.as_bytes().get(position(index, text.len())?);
                Value::Byte(*byte.ok_or("reflect: string index out of range")?)
            }
            (other, _) => return Err(format!("can't index item of type {}", other.type_name())),
        };
    }
    Ok(item)
}

/// A position that is at most `last`.
fn position(index: &Value<'_>, last: usize) -> Result<usize, String> {
    let Some(number) = number(index) else {
        return Err(match index {
            Value::Nothing => "cannot index slice/array with nil".to_owned(),
            other => format!("cannot index slice/array with type {}", other.type_name()),
        });
    };
    let position = usize::try_from(number).ok().filter(|at| *at <= last);
    position.ok_or_else(|| format!("index out of range: {number}"))
}

fn slice<'a>(item: &Value<'a>, indexes: &[Value<'a>]) -> Result<Value<'a>, String> {
    let text = match item {
        Value::Nothing => return Err("slice of untyped nil".to_owned()),
        _ if indexes.len() > 3 => return Err(format!("too many slice indexes: {}", indexes.len())),
        Value::Text(_) if indexes.len() == 3 => return Err("cannot 3-index slice a string".to_owned()),
        Value::Text(text) => text,
        other => return Err(format!("can't slice item of type {}", other.type_name())),
    };
    let mut bounds = [0, text.len()];
    for (bound, index) in bounds.iter_mut().zip(indexes) {
        *bound = position(index, text.len())?;
    }
    let [from, to] = bounds;
    if from > to {
        return Err(format!("invalid slice index: {from} > {to}"));
    }
    // Half a letter cannot be sent: what is not text becomes what stands for that.
    Ok(owned(String::from_utf8_lossy(&text.as_bytes()[from..to]).into_owned()))
}

/// With space between two values of which neither is text.
fn print(values: &[Value<'_>]) -> String {
    let mut text = String::new();
    for (at, value) in values.iter().enumerate() {
        let is_text = |value: &Value<'_>| matches!(value, Value::Text(_));
        if at > 0 && !is_text(value) && !is_text(&values[at - 1]) {
            text.push(' ');
        }
        text.push_str(&value.printed());
    }
    text
}

fn print_line(values: &[Value<'_>]) -> String {
    let printed: Vec<_> = values.iter().map(Value::printed).collect();
    printed.join(" ") + "\n"
}

/// The usual verbs are written here, where whole numbers are of Go's type `int`; the others are left to `golang::fmt`.
fn printf(format: &Value<'_>, values: &[Value<'_>]) -> Result<String, String> {
    let Value::Text(format) = format else { return Err("the format is no text".to_owned()) };
    let mut text = String::new();
    let mut remaining = values.iter();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        match letters.next() {
            None => text.push_str("%!(NOVERB)"),
            Some('%') => text.push('%'),
            Some(verb @ ('s' | 'v' | 'q' | 'd')) => match remaining.next() {
                None => text.push_str(&format!("%!{verb}(MISSING)")),
                Some(value) => text.push_str(&formatted(verb, value)),
            },
            Some(_) => {
                let values: Vec<_> = values.iter().map(to_any).collect();
                // The whole format again, because such a verb may refer to any argument by its number.
                return sprintf(format, &values).map_err(|error| error.to_string());
            }
        }
    }
    let extra: Vec<_> = remaining.map(described).collect();
    if !extra.is_empty() {
        text.push_str(&format!("%!(EXTRA {})", extra.join(", ")));
    }
    Ok(text)
}

fn to_any<'v>(value: &'v Value<'_>) -> Any<'v> {
    match value {
        Value::Text(text) => Any::Text(Cow::Borrowed(text)),
        Value::Integer(number) => Any::Int(*number),
        Value::Byte(number) => Any::Int((*number).into()),
        Value::Boolean(truth) => Any::Bool(*truth),
        Value::Nothing => Any::Nil,
        Value::Groups(groups) => {
            let groups = groups.iter().map(|(name, text)| (name.clone(), text.as_str().into()));
            Any::Object(Cow::Owned(groups.collect()), Numbers::Integers)
        }
    }
}

fn described(value: &Value<'_>) -> String {
    match value {
        Value::Nothing => "<nil>".to_owned(),
        value => format!("{}={}", value.type_name(), value.printed()),
    }
}

fn formatted(verb: char, value: &Value<'_>) -> String {
    match (verb, value) {
        ('v', value) => value.printed().into_owned(),
        ('s' | 'd' | 'q', Value::Nothing) => format!("%!{verb}(<nil>)"),
        ('s', Value::Text(_) | Value::Groups(_)) | ('d', Value::Integer(_) | Value::Byte(_)) => {
            value.printed().into_owned()
        }
        ('q', Value::Text(text)) => quote(text),
        ('q', Value::Groups(groups)) => each(groups, quote),
        ('d', Value::Groups(groups)) => each(groups, |text| format!("%!d(string={text})")),
        (verb, value) => format!("%!{verb}({})", described(value)),
    }
}

fn each(groups: &super::Groups, write: impl Fn(&str) -> String) -> String {
    let pairs: Vec<_> =
        groups.iter().map(|(name, text)| format!("{}:{}", write(name), write(text))).collect();
    format!("map[{}]", pairs.join(" "))
}

/// One text is itself; anything else is printed.
fn argument_text(values: &[Value<'_>]) -> String {
    match values {
        [Value::Text(text)] => text.clone().into_owned(),
        values => {
            let shown = values.iter().map(|value| match value {
                Value::Nothing => Value::Text(Cow::Borrowed("<no value>")),
                value => value.clone(),
            });
            print(&shown.collect::<Vec<_>>())
        }
    }
}

fn html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            // Numbers, as Go's `HTMLEscape` writes them because they are shorter than `&quot;`.
            '"' => escaped.push_str("&#34;"),
            '\'' => escaped.push_str("&#39;"),
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\0' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

fn url_query(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' ' => escaped.push('+'),
            b'-' | b'_' | b'.' | b'~' => escaped.push(byte.into()),
            _ if byte.is_ascii_alphanumeric() => escaped.push(byte.into()),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}
