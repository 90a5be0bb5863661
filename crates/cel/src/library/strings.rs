//! Strings: searching, cutting and joining. Positions are counted in characters.
//!
//! Follows cel-go 0.29.2, `ext/strings.go`.

use super::{Answer, Context, lists};
use crate::fault::Fault;
use crate::value::Value;

pub(super) fn search<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    let [Value::String(text), Value::String(part)] = values else { return Err(Fault::no_such_overload()) };
    let (text, part) = (text.as_str(), part.as_str());
    context.meter.work(text.len() as u64 / 64 + 1)?;
    Ok(Value::Bool(match context.function {
        "contains" => text.contains(part),
        "startsWith" => text.starts_with(part),
        _ => text.ends_with(part),
    }))
}

fn out_of_range(index: i64) -> Fault {
    Fault::new(format!("index out of range: {index}"))
}

/// Functions that make another string of one.
pub(super) fn part<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    let Some(Value::String(text)) = values.first() else { return Err(Fault::no_such_overload()) };
    let text = text.as_str();
    let part = match (context.function, &values[1..]) {
        ("lowerAscii", _) => text.to_ascii_lowercase(),
        ("upperAscii", _) => text.to_ascii_uppercase(),
        ("trim", _) => text.trim_matches(is_go_space).to_owned(),
        ("strings.quote", _) => quote(text),
        ("charAt", [Value::Int(index)]) => {
            let at = byte_offset(text, *index)?;
            text[at..].chars().next().map(String::from).unwrap_or_default()
        }
        ("substring", [Value::Int(start)]) => text[byte_offset(text, *start)?..].to_owned(),
        ("substring", [Value::Int(start), Value::Int(end)]) => {
            if start > end {
                return Err(Fault::new(format!("invalid substring range. start: {start}, end: {end}")));
            }
            let (start, end) = (byte_offset(text, *start)?, byte_offset(text, *end)?);
            text[start..end].to_owned()
        }
        _ => return Err(Fault::no_such_overload()),
    };
    context.text(part)
}

/// What counts as space at the ends of a string.
fn is_go_space(character: char) -> bool {
    // Rust and Go agree here: both go by Unicode's property `White_Space`.
    character.is_whitespace()
}

fn byte_offset(text: &str, index: i64) -> Result<usize, Fault> {
    let count = usize::try_from(index).map_err(|_| out_of_range(index))?;
    let offsets = text.char_indices().map(|(offset, _)| offset);
    offsets.chain([text.len()]).nth(count).ok_or_else(|| out_of_range(index))
}

fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match "\x07\x08\x0c\n\r\t\x0b\\\"".find(character) {
            Some(at) => quoted.extend(['\\', char::from(b"abfnrtv\\\""[at])]),
            None => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

/// The first or last place of a string in a string, or of an element in a list.
pub(super) fn index_of<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    if let Some(Value::List(_)) = values.first() {
        return lists::index_of(context, values);
    }
    let (text, part, offset) = match values {
        [Value::String(text), Value::String(part)] => (text.as_str(), part.as_str(), None),
        [Value::String(text), Value::String(part), Value::Int(offset)] => {
            (text.as_str(), part.as_str(), Some(*offset))
        }
        _ => return Err(Fault::no_such_overload()),
    };
    context.meter.work(text.len() as u64 / 16 + 1)?;
    let found = if context.function == "indexOf" {
        index(text, part, offset.unwrap_or(0))?
    } else {
        last_index(text, part, offset)?
    };
    Ok(Value::Int(found.map_or(-1, |index| i64::try_from(index).unwrap_or(i64::MAX))))
}

fn index(text: &str, part: &str, offset: i64) -> Result<Option<usize>, Fault> {
    let start = usize::try_from(offset).map_err(|_| out_of_range(offset))?;
    let length = text.chars().count();
    if part.is_empty() {
        return Ok(Some(start.min(length)));
    }
    if start >= length {
        return Ok(None);
    }
    let at = byte_offset(text, offset)?;
    Ok(text[at..].find(part).map(|found| text[..at + found].chars().count()))
}

fn last_index(text: &str, part: &str, offset: Option<i64>) -> Result<Option<usize>, Fault> {
    let length = text.chars().count();
    let Some(offset) = offset else {
        return Ok(text.rfind(part).map(|found| text[..found].chars().count()));
    };
    let last = usize::try_from(offset).map_err(|_| out_of_range(offset))?;
    if part.is_empty() {
        return Ok(Some(last.min(length)));
    }
    if last >= length {
        return Ok(None);
    }
    // The match may begin no later than the offset, so it ends that much later.
    let end = byte_offset(text, offset)? + part.len();
    let end =
        (end.min(text.len())..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(text.len());
    let found = text[..end].rfind(part).map(|found| text[..found].chars().count());
    Ok(found.filter(|found| *found <= last))
}

pub(super) fn replace<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    let (text, old, new, limit) = match values {
        [Value::String(text), Value::String(old), Value::String(new)] => (text, old, new, -1),
        [Value::String(text), Value::String(old), Value::String(new), Value::Int(limit)] => {
            (text, old, new, *limit)
        }
        _ => return Err(Fault::no_such_overload()),
    };
    let (text, old, new) = (text.as_str(), old.as_str(), new.as_str());
    let count = usize::try_from(limit).unwrap_or(usize::MAX);
    context.meter.work(text.len() as u64 / 16 + 1)?;
    // The size of the result is known before it is made, because `replace` can multiply a text.
    let found = if old.is_empty() { text.len() + 1 } else { text.matches(old).count() };
    let added = found.min(count).saturating_mul(new.len());
    context.meter.allocate(text.len().saturating_add(added))?;
    Ok(Value::text(text.replacen(old, new, count)))
}

pub(super) fn split<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    let (text, separator, limit) = match values {
        [Value::String(text), Value::String(separator)] => (text, separator, -1),
        [Value::String(text), Value::String(separator), Value::Int(limit)] => (text, separator, *limit),
        _ => return Err(Fault::no_such_overload()),
    };
    let (text, separator) = (text.as_str(), separator.as_str());
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let pieces = if separator.is_empty() { text.len() } else { text.matches(separator).count() + 1 };
    // About what a string value takes besides its bytes.
    context.meter.allocate(text.len() + pieces.min(limit).saturating_mul(32))?;
    let parts: Vec<&str> = match limit {
        0 => Vec::new(),
        _ if separator.is_empty() => split_characters(text, limit),
        _ => text.splitn(limit, separator).collect(),
    };
    context.list(parts.into_iter().map(Value::text).collect())
}

/// An empty separator splits between characters.
fn split_characters(text: &str, limit: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        if parts.len() + 1 == limit {
            parts.push(rest);
            break;
        }
        let (first, after) = rest.split_at(character.len_utf8());
        parts.push(first);
        rest = after;
    }
    parts
}

pub(super) fn join<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    let (list, separator) = match values {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(separator)] => (list, separator.as_str()),
        _ => return Err(Fault::no_such_overload()),
    };
    let mut joined = String::new();
    for (index, element) in list.iter().enumerate() {
        let Some(text) = element.as_str() else {
            let shown = crate::json::show(&element, context.meter)?;
            return Err(Fault::new(format!("join: invalid input: {shown}")));
        };
        context.meter.allocate(text.len() + separator.len())?;
        if index > 0 {
            joined.push_str(separator);
        }
        joined.push_str(text);
    }
    Ok(Value::text(joined))
}
