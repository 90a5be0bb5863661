//! Takes something away from text.
//!
//! Follows sprig 3.3.0, `strings.go`, Go 1.26, `strings/strings.go`, and goutils 1.1.1, `stringutils.go`.

use std::collections::HashSet;

use super::super::arguments::{int, text};
use super::decode;
use crate::{Context, Failure, Value};

pub(super) fn trim(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    Ok(Value::text(trimmed(text(args, 0), char::is_whitespace)))
}

pub(super) fn trim_all(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    // Looking a character up in a long text for each of many would take long.
    let cut: HashSet<char> = decode(text(args, 0)).map(|(character, _)| character).collect();
    Ok(Value::text(trimmed(text(args, 1), |character| cut.contains(&character))))
}

/// The text without such characters at both ends.
fn trimmed(text: &[u8], is_cut: impl Fn(char) -> bool) -> &[u8] {
    let start: usize =
        decode(text).take_while(|(character, _)| is_cut(*character)).map(|(_, length)| length).sum();
    let mut rest = &text[start..];
    while let Some((character, length)) = last(rest).filter(|(character, _)| is_cut(*character)) {
        debug_assert!(length <= rest.len(), "{character} is longer than the text");
        rest = &rest[..rest.len() - length];
    }
    rest
}

/// The last character and its length.
fn last(text: &[u8]) -> Option<(char, usize)> {
    (1..=text.len().min(4))
        .find_map(|length| {
            let character = str::from_utf8(&text[text.len() - length..]).ok()?.chars().next()?;
            Some((character, length))
        })
        .or_else(|| text.last().map(|_| (char::REPLACEMENT_CHARACTER, 1)))
}

pub(super) fn trim_prefix(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let whole = text(args, 1);
    Ok(Value::text(whole.strip_prefix(text(args, 0)).unwrap_or(whole)))
}

pub(super) fn trim_suffix(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let whole = text(args, 1);
    Ok(Value::text(whole.strip_suffix(text(args, 0)).unwrap_or(whole)))
}

/// So many bytes from the beginning, or from the end if the number is negative.
pub(super) fn trunc(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let (count, whole) = (int(args, 0), text(args, 1));
    let size = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if size >= whole.len() {
        return Ok(args[1].clone());
    }
    Ok(Value::text(if count < 0 { &whole[whole.len() - size..] } else { &whole[..size] }))
}

pub(super) fn substr(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let (start, end, whole) = (int(args, 0), int(args, 1), text(args, 2));
    let length = i64::try_from(whole.len()).unwrap_or(i64::MAX);
    if start < 0 {
        if end < 0 {
            return Err(Failure::new(format!("runtime error: slice bounds out of range [:{end}]")));
        }
        // A negative start means the beginning, but then the end is not brought within the text: sprig cuts
        // without looking.
        let cut = usize::try_from(end).ok().and_then(|end| whole.get(..end));
        return cut.map(Value::text).ok_or_else(|| {
            Failure::new(format!("runtime error: slice bounds out of range [:{end}] with length {length}"))
        });
    }
    let end = if end < 0 || end > length { length } else { end };
    let bounds = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    let cut = bounds.and_then(|(start, end)| whole.get(start..end));
    cut.map(Value::text)
        .ok_or_else(|| Failure::new(format!("runtime error: slice bounds out of range [{start}:{end}]")))
}

pub(super) fn abbrev(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let width = int(args, 0);
    if width < 4 {
        return Ok(args[1].clone());
    }
    Ok(Value::text(abbreviated(text(args, 1), 0, width)))
}

pub(super) fn abbrevboth(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let (left, right) = (int(args, 0), int(args, 1));
    if right < 4 || left > 0 && right < 7 {
        return Ok(args[2].clone());
    }
    Ok(Value::text(abbreviated(text(args, 2), left, right)))
}

/// At most so many bytes, with dots for what is missing. The byte at the offset is among those that are left.
fn abbreviated(text: &[u8], offset: i64, width: i64) -> Vec<u8> {
    const DOTS: &[u8] = b"...";
    let Some(width) = usize::try_from(width).ok().filter(|width| *width < text.len()) else {
        return text.to_vec();
    };
    // A width of less than four is excluded by the callers.
    let kept = width.saturating_sub(DOTS.len());
    let offset = usize::try_from(offset).unwrap_or_default().min(text.len()).min(text.len() - kept);
    // Dots in front would take as much room as what they stand for.
    if offset <= 4 {
        return [&text[..kept], DOTS].concat();
    }
    if offset + kept < text.len() {
        return [DOTS, &abbreviated(&text[offset..], 0, i64::try_from(kept).unwrap_or(i64::MAX))].concat();
    }
    [DOTS, &text[text.len() - kept..]].concat()
}
