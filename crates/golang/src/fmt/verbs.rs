//! `Sprintf`: a format with its verbs, flags, widths and indexes, and values to put there.
//!
//! [`mod@format`] reads the format, [`values`] finds out how a value is printed, [`text`] and [`numbers`] print it.
//!
//! Follows Go 1.26, `fmt/print.go`, `fmt/format.go`.

mod format;
mod limits;
mod numbers;
mod text;
mod values;

use std::borrow::Cow;

use serde_json::Value;

use super::value::to_text;
use super::{Any, MAX_LENGTH, Numbers, Operand, Shape, TooLong};

pub use limits::{Limits, Refusal};

/// What Go's `Sprintf` makes of the format and the values.
pub fn print_formatted(
    format: &[u8],
    values: &[&dyn Operand],
    limits: Limits<'_>,
) -> Result<Vec<u8>, Refusal> {
    let mut printer = Printer::new(limits);
    printer.print_all(format, values);
    printer.finish()
}

/// What Go's `Sprint` makes of the values. Spaces stand between values that are no text.
pub fn print_all(values: &[&dyn Operand], limits: Limits<'_>) -> Result<Vec<u8>, Refusal> {
    let mut printer = Printer::new(limits);
    let mut was_text = false;
    for (at, value) in values.iter().enumerate() {
        let is_text = matches!(value.shape(), Shape::Text(_));
        // Go adds a space only where neither of the two is text, in `Sprint` alone.
        if at > 0 && !is_text && !was_text {
            printer.push(" ");
        }
        printer.print_value(*value, 'v');
        was_text = is_text;
    }
    printer.finish()
}

/// What Go's `Sprintln` makes of the values.
pub fn print_lines(values: &[&dyn Operand], limits: Limits<'_>) -> Result<Vec<u8>, Refusal> {
    let mut printer = Printer::new(limits);
    for (at, value) in values.iter().enumerate() {
        printer.push(if at > 0 { " " } else { "" });
        printer.print_value(*value, 'v');
    }
    printer.push("\n");
    printer.finish()
}

/// What Go's `Sprintf` makes of the format and the values. What is no text in it is replaced.
pub fn sprintf(format: &str, values: &[Any<'_>]) -> Result<String, TooLong> {
    Ok(match sprintf_any(format, values)? {
        Any::Text(text) => text.into_owned(),
        Any::Bytes(bytes) => to_text(&bytes),
        _ => String::new(),
    })
}

/// What Go's `Sprintf` makes of the format and the values: text, or bytes if one of the values is bytes.
pub fn sprintf_any(format: &str, values: &[Any<'_>]) -> Result<Any<'static>, TooLong> {
    let values: Vec<_> = values.iter().map(|value| -> &dyn Operand { value }).collect();
    let limits = Limits { bytes: MAX_LENGTH, count_item: &mut || true };
    print_formatted(format.as_bytes(), &values, limits).map(Any::bytes).map_err(|_| TooLong)
}

/// The value as the verb `%v` writes it. Text stays as it is.
pub fn sprint<'v>(value: &'v Any<'_>) -> Result<Cow<'v, [u8]>, TooLong> {
    match value {
        Any::Text(text) => Ok(Cow::Borrowed(text.as_bytes())),
        Any::Bytes(bytes) => Ok(Cow::Borrowed(bytes)),
        _ => {
            let limits = Limits { bytes: MAX_LENGTH, count_item: &mut || true };
            print_all(&[value], limits).map(Cow::Owned).map_err(|_| TooLong)
        }
    }
}

/// A value of a document as the verb `%v` writes it: maps and lists without quotes or commas.
pub fn plain(value: &Value) -> String {
    print_document(value, "%v")
}

/// A value of a document as the verb `%#v` writes it where it is part of another one: in Go's own syntax.
pub fn go_syntax(value: &Value) -> String {
    if value.is_null() { "interface {}(nil)".to_owned() } else { print_document(value, "%#v") }
}

fn print_document(value: &Value, format: &str) -> String {
    // No document is that long, because a caller that reads them has a limit of their own.
    sprintf(format, &[Any::of(value, Numbers::AsWritten)]).unwrap_or_else(|_| "...".to_owned())
}

struct Printer<'l> {
    out: Vec<u8>,
    limits: Limits<'l>,
    depth: usize,
    refusal: Option<Refusal>,
    flags: Flags,
    /// While it complains about a verb, methods are not asked.
    is_complaining: bool,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are flags, each one a letter of the format")]
struct Flags {
    sharp: bool,
    /// `%#v`: the value in Go's own syntax.
    is_go_syntax: bool,
    /// `%+v`: with the names of fields.
    has_names: bool,
    zero: bool,
    plus: bool,
    minus: bool,
    space: bool,
    width: Option<usize>,
    precision: Option<usize>,
}

impl<'l> Printer<'l> {
    fn new(limits: Limits<'l>) -> Self {
        let flags = Flags::default();
        // Most of what is printed fits, so that it need not grow while it is printed.
        let out = Vec::with_capacity(64);
        Self { out, limits, depth: 0, refusal: None, flags, is_complaining: false }
    }

    fn finish(self) -> Result<Vec<u8>, Refusal> {
        self.refusal.map_or(Ok(self.out), Err)
    }

    fn push(&mut self, text: &str) {
        self.push_bytes(text.as_bytes());
    }

    fn push_bytes(&mut self, text: &[u8]) {
        if self.out.len() + text.len() > self.limits.bytes {
            // The refusal stays, and printing continues without output: a width of a million in a
            // long format must not cost memory, and no caller between has to pass an error on.
            self.refusal = Some(Refusal::TooLong);
        }
        if self.refusal.is_none() {
            self.out.extend_from_slice(text);
        }
    }
}

#[cfg(test)]
mod tests;
