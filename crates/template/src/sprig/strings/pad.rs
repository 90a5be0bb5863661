//! Adds something to text.
//!
//! Follows sprig 3.3.0, `strings.go`, Go 1.26, `strings/strings.go`, and goutils 1.1.1, `wordutils.go`.

use super::super::arguments::{int, text};
use super::split::{count, find, matches};
use crate::{Context, Failure, Value};

pub(super) fn repeat(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    Ok(Value::text(repeated(ctx, text(args, 1), int(args, 0))?))
}

fn repeated(ctx: &mut Context<'_>, text: &[u8], count: i64) -> Result<Vec<u8>, Failure> {
    let count = repetitions(count)?;
    ctx.charge(text.len().saturating_mul(count))?;
    // Nothing is charged for repeating nothing, and the count may be anything.
    Ok(if text.is_empty() { Vec::new() } else { text.repeat(count) })
}

fn repetitions(count: i64) -> Result<usize, Failure> {
    usize::try_from(count).map_err(|_| Failure::new("strings: negative Repeat count"))
}

pub(super) fn indent(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    indented(ctx, "", args)
}

pub(super) fn nindent(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    indented(ctx, "\n", args)
}

/// Spaces before every line, also before one that is empty.
fn indented(ctx: &mut Context<'_>, before: &str, args: &[Value]) -> Result<Value, Failure> {
    let text = text(args, 1);
    let width = repetitions(int(args, 0))?;
    // Before the lines are counted, so that an absurd width fails at once.
    ctx.charge(width)?;
    let lines = memchr::memchr_iter(b'\n', text).count() + 1;
    let length = lines.saturating_mul(width).saturating_add(text.len() + before.len());
    ctx.charge(length)?;
    let indented = ctx.write_text(|out| {
        out.reserve(length);
        out.extend_from_slice(before.as_bytes());
        let mut begin = 0;
        // After the last line break there is a line, too, even if it is empty.
        for end in memchr::memchr_iter(b'\n', text).map(|at| at + 1).chain([text.len()]) {
            out.resize(out.len() + width, b' ');
            out.extend_from_slice(&text[begin..end]);
            begin = end;
        }
    });
    Ok(Value::String(indented))
}

pub(super) fn replace(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let [old, new, whole] = [0, 1, 2].map(|at| text(args, at));
    let count = count(whole, old);
    // The text itself is returned, so that nothing is charged for it.
    if count == 0 || old == new {
        return Ok(args[2].clone());
    }
    ctx.charge(whole.len().saturating_add(count.saturating_mul(new.len())))?;
    let mut replaced = Vec::new();
    let mut end = 0;
    for start in matches(whole, old) {
        replaced.extend_from_slice(&whole[end..start]);
        replaced.extend_from_slice(new);
        end = start + old.len();
    }
    replaced.extend_from_slice(&whole[end..]);
    Ok(Value::text(replaced))
}

pub(super) fn wrap(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    Ok(Value::text(wrapped(ctx, text(args, 1), int(args, 0), b"", false)?))
}

pub(super) fn wrap_with(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    Ok(Value::text(wrapped(ctx, text(args, 2), int(args, 0), text(args, 1), true)?))
}

/// Breaks lines at spaces so that none is longer than the width, except for words that are, unless they are cut as well.
fn wrapped(
    ctx: &mut Context<'_>,
    text: &[u8],
    width: i64,
    line_break: &[u8],
    cuts_words: bool,
) -> Result<Vec<u8>, Failure> {
    let line_break = if line_break.is_empty() { b"\n" } else { line_break };
    let width = usize::try_from(width).unwrap_or_default().max(1);
    let mut wrapped = Vec::new();
    let mut rest = text;
    while rest.len() > width {
        if let Some(after) = rest.strip_prefix(b" ") {
            rest = after;
            continue;
        }
        // The space after the line may be the one to break at.
        let space = rest[..=width].iter().rposition(|byte| *byte == b' ');
        let (line, after) = match space {
            Some(at) => (&rest[..at], &rest[at + 1..]),
            None if cuts_words => rest.split_at(width),
            None => match find(&rest[width..], b" ") {
                Some(at) => (&rest[..width + at], &rest[width + at + 1..]),
                None => break,
            },
        };
        ctx.charge(line.len() + line_break.len())?;
        wrapped.extend_from_slice(line);
        wrapped.extend_from_slice(line_break);
        rest = after;
    }
    wrapped.extend_from_slice(rest);
    Ok(wrapped)
}
