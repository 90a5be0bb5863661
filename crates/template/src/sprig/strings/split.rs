//! Splits text.
//!
//! Follows sprig 3.3.0, `strings.go`, and Go 1.26, `strings/strings.go` (`genSplit`, `explode`).

use memchr::memmem;

use super::super::arguments::{charge_items, int, no_strings, strings, text};
use super::decode;
use crate::{Context, Failure, Type, Value};

pub(super) fn split(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    numbered(ctx, text(args, 1), text(args, 0), -1)
}

pub(super) fn splitn(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    numbered(ctx, text(args, 2), text(args, 0), int(args, 1))
}

/// The parts by their number: `_0`, `_1` and so on.
fn numbered(ctx: &mut Context<'_>, text: &[u8], separator: &[u8], most: i64) -> Result<Value, Failure> {
    let parts = parts(ctx, text, separator, most)?;
    let entries = parts.into_iter().enumerate();
    let entries = entries.map(|(at, part)| (format!("_{at}").into(), Value::text(part))).collect();
    ctx.typed_map(&Type::String, entries)
}

pub(super) fn split_list(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let (separator, whole) = (text(args, 0), text(args, 1));
    // Nothing has no characters, but one part if it is split at something.
    if whole.is_empty() && separator.is_empty() {
        return strings(ctx, Vec::new());
    }
    let parts = parts(ctx, whole, separator, -1)?;
    if parts.is_empty() {
        return Ok(no_strings());
    }
    strings(ctx, parts.into_iter().map(Value::text).collect())
}

/// The parts between separators, at most so many unless the number is negative. Without a separator, the characters.
fn parts<'t>(
    ctx: &mut Context<'_>,
    text: &'t [u8],
    separator: &[u8],
    most: i64,
) -> Result<Vec<&'t [u8]>, Failure> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if most == 0 {
        return Ok(Vec::new());
    }
    let cuts = if separator.is_empty() { decode(text).count() } else { count(text, separator) + 1 };
    charge_items(ctx, cuts.min(most))?;
    let mut parts = Vec::new();
    let mut rest = text;
    if separator.is_empty() {
        for (_, length) in decode(text).take(most - 1) {
            let (part, after) = rest.split_at(length);
            parts.push(part);
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(rest);
        }
        return Ok(parts);
    }
    let mut end = 0;
    for start in matches(text, separator).take(most - 1) {
        parts.push(&text[end..start]);
        end = start + separator.len();
    }
    parts.push(&text[end..]);
    Ok(parts)
}

/// Where something first is in text.
pub(super) fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    memmem::find(text, wanted)
}

/// How often something is in text, without overlaps. Nothing is before every character and at the end.
pub(super) fn count(text: &[u8], wanted: &[u8]) -> usize {
    matches(text, wanted).count()
}

/// Where something is in text, without overlaps. Nothing is before every character and at the end.
pub(super) fn matches<'t>(text: &'t [u8], wanted: &'t [u8]) -> Box<dyn Iterator<Item = usize> + 't> {
    if !wanted.is_empty() {
        return Box::new(memmem::find_iter(text, wanted));
    }
    let ends = decode(text).scan(0, |at, (_, length)| {
        *at += length;
        Some(*at)
    });
    Box::new(std::iter::once(0).chain(ends))
}
