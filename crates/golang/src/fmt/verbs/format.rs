//! Reads a format: flags, widths, precisions, indexes and verbs.
//!
//! Follows Go 1.26, `fmt/print.go` (`doPrintf`).

use std::str;

use super::{Flags, Printer};
use crate::fmt::{Operand, Shape};

/// Wider or more precise than this is not a number to Go, either.
const TOO_LARGE: i64 = 1_000_000;

/// Where in the format and in the values we are.
struct Cursor<'f> {
    format: &'f [u8],
    at: usize,
    value: usize,
    count: usize,
    /// Some value was asked for by its number: then it is fine to leave others out.
    is_reordered: bool,
    is_good_index: bool,
}

impl Cursor<'_> {
    fn peek(&self) -> Option<u8> {
        self.format.get(self.at).copied()
    }

    /// Digits, if there are any. Too many of them swallow the rest of the format.
    fn number(&mut self) -> Option<usize> {
        let (number, end) = number_at(&self.format[self.at..]);
        self.at += end;
        number
    }

    /// An index in brackets, like `[2]`. Whether there was one, good or bad.
    fn index(&mut self) -> bool {
        if self.peek() != Some(b'[') {
            return false;
        }
        self.is_reordered = true;
        let (index, length) = index_at(&self.format[self.at..]);
        self.at += length;
        match index {
            Some(index) if (1..=self.count).contains(&index) => self.value = index - 1,
            _ => self.is_good_index = false,
        }
        // A number that is out of range was still an index; anything else was none.
        index.is_some()
    }

    /// The next value as a width or precision, for `*`.
    fn number_from(&mut self, values: &[&dyn Operand]) -> Option<i64> {
        let value = values.get(self.value)?;
        self.value += 1;
        let number = match value.shape() {
            Shape::Integer(number) | Shape::Stringer(_, Some(number)) => number,
            Shape::Unsigned(number) => i64::try_from(number).ok()?,
            _ => return None,
        };
        (-TOO_LARGE..=TOO_LARGE).contains(&number).then_some(number)
    }
}

fn number_at(bytes: &[u8]) -> (Option<usize>, usize) {
    let mut number = None;
    for (at, byte) in bytes.iter().enumerate() {
        if !byte.is_ascii_digit() {
            return (number, at);
        }
        // The check comes before the next digit is added, as in Go's `parsenum`: seven digits may
        // pass, and nothing can overflow.
        if number.is_some_and(|number: usize| number > 1_000_000) {
            return (None, bytes.len());
        }
        number = Some(number.unwrap_or(0) * 10 + usize::from(byte - b'0'));
    }
    (number, bytes.len())
}

/// The number in brackets, and how many bytes that took: one if there is no closing bracket.
fn index_at(bytes: &[u8]) -> (Option<usize>, usize) {
    // Without a bracket that closes, Go skips only the one that opens, so that the rest is read as
    // flags, width and verb.
    let Some(end) = bytes.iter().position(|byte| *byte == b']').filter(|_| bytes.len() >= 3) else {
        return (None, 1);
    };
    let (number, length) = number_at(&bytes[1..end]);
    (number.filter(|_| length == end - 1), end + 1)
}

impl Printer<'_> {
    pub(super) fn print_all(&mut self, format: &[u8], values: &[&dyn Operand]) {
        let count = values.len();
        let mut cursor = Cursor { format, at: 0, value: 0, count, is_reordered: false, is_good_index: true };
        while cursor.at < format.len() && self.refusal.is_none() {
            let rest = &format[cursor.at..];
            let Some(plain) = rest.iter().position(|byte| *byte == b'%') else {
                self.push_bytes(rest);
                break;
            };
            self.push_bytes(&rest[..plain]);
            cursor.at += plain + 1;
            self.print_verb(&mut cursor, values);
        }
        // Go complains about values that no verb used, unless the format picks values by number.
        if !cursor.is_reordered && cursor.value < count {
            self.print_extra(&values[cursor.value..]);
        }
    }

    fn print_verb(&mut self, cursor: &mut Cursor<'_>, values: &[&dyn Operand]) {
        cursor.is_good_index = true;
        self.flags = Flags::default();
        self.read_flags(cursor);
        let mut is_after_index = cursor.index();
        is_after_index = self.read_width(cursor, values, is_after_index);
        is_after_index = self.read_precision(cursor, values, is_after_index);
        if !is_after_index {
            cursor.index();
        }
        let Some((verb, length)) = letter_at(cursor.format, cursor.at) else {
            return self.push("%!(NOVERB)");
        };
        cursor.at += length;
        // `%%` takes no value, and Go lets it have flags and widths that it ignores.
        if verb == '%' {
            self.push("%");
        } else if !cursor.is_good_index {
            self.push(&format!("%!{verb}(BADINDEX)"));
        } else if let Some(value) = values.get(cursor.value).copied() {
            if matches!(verb, 'v' | 'w') {
                // For these verbs `#` and `+` change the syntax, and no longer what they mean for
                // numbers inside: `%#v` of 1 is not `0x1`.
                self.flags.is_go_syntax = std::mem::take(&mut self.flags.sharp);
                self.flags.has_names = std::mem::take(&mut self.flags.plus);
            }
            self.print_value(value, verb);
            cursor.value += 1;
        } else {
            self.push(&format!("%!{verb}(MISSING)"));
        }
    }

    fn read_flags(&mut self, cursor: &mut Cursor<'_>) {
        while let Some(letter) = cursor.peek() {
            match letter {
                b'#' => self.flags.sharp = true,
                b'0' => self.flags.zero = true,
                b'+' => self.flags.plus = true,
                b'-' => self.flags.minus = true,
                b' ' => self.flags.space = true,
                _ => return,
            }
            cursor.at += 1;
        }
    }

    fn read_width(&mut self, cursor: &mut Cursor<'_>, values: &[&dyn Operand], is_after_index: bool) -> bool {
        if cursor.peek() != Some(b'*') {
            self.flags.width = cursor.number();
            // `%[3]2d` is a mistake to Go: an index must stand directly before the verb or a star.
            if is_after_index && self.flags.width.is_some() {
                cursor.is_good_index = false;
            }
            return is_after_index;
        }
        cursor.at += 1;
        let width = cursor.number_from(values);
        if width.is_none() {
            self.push("%!(BADWIDTH)");
        }
        if width.is_some_and(|width| width < 0) {
            // A negative width from a value means "to the left", and zeros never stand on the
            // right.
            self.flags.minus = true;
            self.flags.zero = false;
        }
        self.flags.width = width.and_then(|width| usize::try_from(width.unsigned_abs()).ok());
        false
    }

    fn read_precision(
        &mut self,
        cursor: &mut Cursor<'_>,
        values: &[&dyn Operand],
        is_after_index: bool,
    ) -> bool {
        // A point at the very end is taken for the verb, as in Go, which looks for a precision only
        // if something follows.
        if cursor.peek() != Some(b'.') || cursor.at + 1 >= cursor.format.len() {
            return is_after_index;
        }
        cursor.at += 1;
        if is_after_index {
            cursor.is_good_index = false;
        }
        let is_after_index = cursor.index();
        if cursor.peek() != Some(b'*') {
            self.flags.precision = Some(cursor.number().unwrap_or(0));
            return is_after_index;
        }
        cursor.at += 1;
        // A negative precision is as bad as one that is not a number; a negative width is not.
        self.flags.precision = cursor.number_from(values).and_then(|number| usize::try_from(number).ok());
        if self.flags.precision.is_none() {
            self.push("%!(BADPREC)");
        }
        false
    }

    fn print_extra(&mut self, values: &[&dyn Operand]) {
        self.flags = Flags::default();
        self.push("%!(EXTRA ");
        for (at, value) in values.iter().enumerate() {
            if at > 0 {
                self.push(", ");
            }
            if value.shape() == Shape::Nil {
                self.push("<nil>");
            } else {
                self.push(&value.type_name());
                self.push("=");
                self.print_value(*value, 'v');
            }
        }
        self.push(")");
    }
}

/// The letter at this place and its length. A byte that is not text is the replacement character.
fn letter_at(text: &[u8], at: usize) -> Option<(char, usize)> {
    let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
    let window = &rest[..rest.len().min(4)];
    let valid = match str::from_utf8(window) {
        Ok(valid) => valid,
        Err(error) => str::from_utf8(&window[..error.valid_up_to()]).unwrap_or_default(),
    };
    let letter = valid.chars().next();
    Some(letter.map_or((char::REPLACEMENT_CHARACTER, 1), |letter| (letter, letter.len_utf8())))
}
