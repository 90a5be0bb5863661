//! Transforms that make text.

use std::borrow::Cow;

use ::base64::Engine as _;
use ::base64::engine::general_purpose::STANDARD;
use ferroplane_golang::base64;
use ferroplane_golang::fmt::{Any, MAX_LENGTH, Numbers, TooLong, sprint, sprintf_any, to_text};
use ferroplane_golang::json::marshal_any;
use ferroplane_golang::regexp::{self, Expression};
use ferroplane_golang::strconv::quote;
use serde_json::Value;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

use super::super::input;
use super::super::release::Release;
use super::spend_match;
use crate::cost_budget::CostBudget;

#[derive(Debug)]
pub(in super::super) enum Text {
    Format(String),
    Convert(String),
    TrimPrefix(String),
    TrimSuffix(String),
    Expression { pattern: String, expression: Result<Expression, regexp::Error>, group: i64 },
    Join(String),
    Replace { search: String, replacement: String },
}

impl Text {
    pub(super) fn new(string: input::StringTransform, release: Release) -> Result<Self, String> {
        let kind = string.kind;
        let made = match kind.as_str() {
            unknown @ ("Join" | "Replace") if !release.joins_and_replaces() => {
                return Err(unsupported(unknown));
            }
            "Format" => string.format.map(Self::Format).ok_or("fmt"),
            "Convert" => string.convert.map(Self::Convert).ok_or("convert"),
            "TrimPrefix" => string.trim.map(Self::TrimPrefix).ok_or("trim"),
            "TrimSuffix" => string.trim.map(Self::TrimSuffix).ok_or("trim"),
            "Join" => string.join.map(Self::Join).ok_or("join"),
            "Regexp" => string
                .regexp
                .map(|(pattern, group)| Self::Expression {
                    expression: Expression::new(&pattern),
                    pattern,
                    group: group.unwrap_or(0),
                })
                .ok_or("regexp"),
            "Replace" => string
                .replace
                .map(|(search, replacement)| Self::Replace { search, replacement })
                .ok_or("replace"),
            unknown => return Err(unsupported(unknown)),
        };
        made.map_err(|missing| format!("string transform of type {kind} {missing} is not set"))
    }

    /// The expression that it compiles when it is used, and how it is written.
    pub(super) fn expression(&self) -> Option<(&str, &Expression)> {
        match self {
            Self::Expression { pattern, expression: Ok(expression), .. } => {
                Some((pattern.as_str(), expression))
            }
            _ => None,
        }
    }

    pub(super) fn resolve<'v>(&self, value: Any<'v>, costs: &CostBudget) -> Result<Any<'v>, String> {
        let too_long = |problem: TooLong| problem.to_string();
        Ok(match self {
            Self::Format(format) => sprintf_any(format, &[value]).map_err(too_long)?,
            Self::Convert(conversion) => convert(conversion, &value)?,
            Self::TrimPrefix(prefix) => {
                let text = sprint(&value).map_err(too_long)?;
                Any::bytes(text.strip_prefix(prefix.as_bytes()).unwrap_or(&text).to_owned())
            }
            Self::TrimSuffix(suffix) => {
                let text = sprint(&value).map_err(too_long)?;
                Any::bytes(text.strip_suffix(suffix.as_bytes()).unwrap_or(&text).to_owned())
            }
            Self::Expression { pattern, expression, group } => {
                let expression =
                    expression.as_ref().map_err(|error| format!("could not compile regexp: {error}"))?;
                let text = text(&value)?;
                spend_match(costs, expression, pattern, &text)?;
                let found = usize::try_from(*group).ok().and_then(|group| expression.group(&text, group));
                let found = found
                    .ok_or_else(|| format!("regexp {} had no matches for group {group}", quote(pattern)))?;
                Any::text(found.to_owned())
            }
            Self::Join(separator) => join(&value, separator)?,
            Self::Replace { search, replacement } => {
                let bytes = sprint(&value).map_err(too_long)?;
                match std::str::from_utf8(&bytes) {
                    Ok(text) => Any::text(replace(text, search, replacement)?),
                    Err(_) => Any::bytes(replace_bytes(&bytes, search, replacement)?),
                }
            }
        })
    }
}

fn unsupported(kind: &str) -> String {
    format!("type {kind} is not supported for string transform type")
}

/// The value printed. What is no text in it is replaced.
fn text<'v>(value: &'v Any<'_>) -> Result<Cow<'v, str>, String> {
    Ok(match sprint(value).map_err(|problem| problem.to_string())? {
        Cow::Borrowed(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => Cow::Owned(to_text(bytes)),
        },
        Cow::Owned(bytes) => Cow::Owned(to_text(&bytes)),
    })
}

/// Only the last byte of the last separator is dropped, however long it is: so it is in the original.
fn join(value: &Any<'_>, separator: &str) -> Result<Any<'static>, String> {
    let (items, numbers) = match value {
        Any::Array(items, numbers) => (items, numbers),
        Any::NilArray => return Ok(Any::text(String::new())),
        _ => return Err("could not parse input array".to_owned()),
    };
    let mut joined = Vec::new();
    for item in items.iter() {
        let item = Any::of(item, *numbers);
        joined.extend_from_slice(&sprint(&item).map_err(|problem| problem.to_string())?);
        joined.extend_from_slice(separator.as_bytes());
        // In the loop, because each item may be long and there may be many.
        check_length(joined.len())?;
    }
    if !separator.is_empty() {
        joined.pop();
    }
    Ok(Any::bytes(joined))
}

fn replace(text: &str, search: &str, replacement: &str) -> Result<String, String> {
    let grows = replacement.len().saturating_sub(search.len());
    if grows > 0 {
        // Nothing to search for is found before every letter, and at the end.
        check_length(text.len().saturating_add(text.matches(search).count().saturating_mul(grows)))?;
    }
    Ok(text.replace(search, replacement))
}

/// The same, for what is no text.
fn replace_bytes(mut bytes: &[u8], search: &str, replacement: &str) -> Result<Vec<u8>, String> {
    let mut replaced = Vec::with_capacity(bytes.len());
    while let Some((first, rest)) = bytes.split_first() {
        if let Some(rest) = bytes.strip_prefix(search.as_bytes()).filter(|_| !search.is_empty()) {
            replaced.extend_from_slice(replacement.as_bytes());
            bytes = rest;
        } else {
            replaced.push(*first);
            bytes = rest;
        }
        check_length(replaced.len())?;
    }
    Ok(replaced)
}

fn check_length(length: usize) -> Result<(), String> {
    if length > MAX_LENGTH { Err(TooLong.to_string()) } else { Ok(()) }
}

fn convert<'v>(conversion: &str, value: &Any<'v>) -> Result<Any<'v>, String> {
    let text = || text(value);
    let bytes = || sprint(value).map_err(|problem| problem.to_string());
    let converted = match conversion {
        "ToUpper" => text()?.chars().map(to_upper).collect(),
        "ToLower" => text()?.chars().map(to_lower).collect(),
        "ToJson" => marshal_any(value).map_err(|problem| format!("cannot marshal to JSON: {problem}"))?,
        "ToBase64" => STANDARD.encode(bytes()?),
        "FromBase64" => return Ok(Any::bytes(decode_base64(&bytes()?)?)),
        "ToSha1" => hash::<Sha1>(value)?,
        "ToSha256" => hash::<Sha256>(value)?,
        "ToSha512" => hash::<Sha512>(value)?,
        "ToAdler32" => {
            let content =
                content(value).map_err(|problem| format!("unable to generate Adler checksum: {problem}"))?;
            adler32(&content).to_string()
        }
        unknown => return Err(format!("type {unknown} is not supported for string convert")),
    };
    check_length(converted.len())?;
    Ok(Any::text(converted))
}

/// What is hashed: text as it is, anything else as JSON.
fn content<'v>(value: &'v Any<'_>) -> Result<Cow<'v, [u8]>, String> {
    match value {
        Any::Text(text) => Ok(Cow::Borrowed(text.as_bytes())),
        Any::Bytes(bytes) => Ok(Cow::Borrowed(bytes)),
        _ => marshal_any(value)
            .map(|json| Cow::Owned(json.into_bytes()))
            .map_err(|problem| format!("cannot marshal to JSON: {problem}")),
    }
}

fn hash<D: Digest>(value: &Any<'_>) -> Result<String, String> {
    let content = content(value).map_err(|problem| format!("cannot generate hash: {problem}"))?;
    Ok(ferroplane_wire::to_hex(&D::digest(&content)))
}

fn adler32(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65521;
    let (mut low, mut high) = (1_u32, 0_u32);
    for byte in bytes {
        low = (low + u32::from(*byte)) % MODULUS;
        high = (high + low) % MODULUS;
    }
    high << 16 | low
}

/// An error names the byte, as Go counts it.
fn decode_base64(text: &[u8]) -> Result<Vec<u8>, String> {
    base64::decode(text)
        .map_err(|at| format!("string is not valid base64: illegal base64 data at input byte {at}"))
}

/// The capital of a letter, if it is one letter: Go never makes two of one.
fn to_upper(letter: char) -> char {
    let mut upper = letter.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(capital), None) => capital,
        _ => match letter {
            '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' => shifted(letter, 8),
            '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => shifted(letter, 9),
            _ => letter,
        },
    }
}

fn to_lower(letter: char) -> char {
    // Rust lowers this letter to two characters; Go's `unicode.ToLower` gives one.
    if letter == '\u{130}' {
        return 'i';
    }
    letter.to_lowercase().next().unwrap_or(letter)
}

fn shifted(letter: char, by: u32) -> char {
    char::from_u32(u32::from(letter) + by).unwrap_or(letter)
}

/// The value a JSON text describes, with the types Go's own decoder gives.
pub(super) fn typed(value: Value) -> Any<'static> {
    match value {
        Value::Array(items) => Any::Array(Cow::Owned(items), Numbers::Floats),
        Value::Object(object) => Any::Object(Cow::Owned(object), Numbers::Floats),
        _ => Any::Nil,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_as_go_reads_it() {
        for (text, wanted) in [
            ("YWI=", Ok("ab")),
            ("YW\nI=\r\n", Ok("ab")),
            // Bits after the last byte do not matter.
            ("YWJ=", Ok("ab")),
            ("YQ=a", Err(2)),
            ("YQ==Y", Err(4)),
            ("YWJjYQ", Err(4)),
        ] {
            let wanted = wanted.map(|text: &str| text.as_bytes().to_vec()).map_err(|at: usize| {
                format!("string is not valid base64: illegal base64 data at input byte {at}")
            });
            assert_eq!(decode_base64(text.as_bytes()), wanted, "{text:?}");
        }
    }
}
