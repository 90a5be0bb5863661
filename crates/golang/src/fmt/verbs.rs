//! `Sprintf`: a format with its verbs, flags, widths and indexes, and values to put there.
//!
//! Follows Go 1.26, `fmt/print.go`, `fmt/format.go`.

use std::borrow::Cow;
use std::fmt;
use std::str;

use serde_json::Value;

use super::value::to_text;
use super::{Any, MAX_LENGTH, Numbers, Operand, Shape, TooLong};
use crate::strconv::{can_backquote, format_float, is_print, quote_with};

/// Wider or more precise than this is no number to Go, either.
const TOO_LARGE: i64 = 1_000_000;

/// Deeper than this nothing is printed: values can contain themselves, and our stack does not grow.
const MAX_DEPTH: usize = 200;

/// Why values are not printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The text would be longer than the limit.
    TooLong,
    /// A value contains itself, or is nested very deeply.
    TooDeep,
    /// Whoever counts the items wants no more of them.
    Stopped,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => f.write_str("the text is too long"),
            Self::Stopped => f.write_str("the value has too many items"),
            Self::TooDeep => write!(f, "the value is nested deeper than {MAX_DEPTH}"),
        }
    }
}

/// How much may be printed.
pub struct Limits<'l> {
    pub bytes: usize,
    /// Is called for every item of a list or map. It returns whether to go on.
    pub count_item: &'l mut dyn FnMut() -> bool,
}

impl fmt::Debug for Limits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limits").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

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
    // No document is that long, because whoever reads them has a limit of their own.
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

impl<'l> Printer<'l> {
    fn new(limits: Limits<'l>) -> Self {
        let flags = Flags::default();
        Self { out: Vec::new(), limits, depth: 0, refusal: None, flags, is_complaining: false }
    }

    fn finish(self) -> Result<Vec<u8>, Refusal> {
        self.refusal.map_or(Ok(self.out), Err)
    }

    fn push(&mut self, text: &str) {
        self.push_bytes(text.as_bytes());
    }

    fn push_bytes(&mut self, text: &[u8]) {
        if self.out.len() + text.len() > self.limits.bytes {
            // The refusal stays, and printing goes on without output: a width of a million in a
            // long format must not cost memory, and no caller between has to pass an error on.
            self.refusal = Some(Refusal::TooLong);
        }
        if self.refusal.is_none() {
            self.out.extend_from_slice(text);
        }
    }

    fn print_all(&mut self, format: &[u8], values: &[&dyn Operand]) {
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
        // A negative precision is as bad as one that is no number; a negative width is not.
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

    fn print_value(&mut self, value: &dyn Operand, verb: char) {
        match (value.shape(), verb) {
            (Shape::Nil, 'T' | 'v') => self.pad("<nil>"),
            (Shape::Nil, _) => self.push(&format!("%!{verb}(<nil>)")),
            (_, 'T') => self.print_text(value.type_name().as_bytes()),
            // Addresses are not the same twice; ours always are.
            (Shape::NilList | Shape::NilMap, 'p') => self.push(if self.flags.sharp { "0" } else { "0x0" }),
            (Shape::List | Shape::Map | Shape::Bytes(_), 'p') => {
                self.push(if self.flags.sharp { "c000000000" } else { "0xc000000000" });
            }
            (_, 'p') => self.bad_verb(value, verb),
            // `%w` is for errors in `Errorf`. Go complains about a list or map as a whole
            // (`handleMethods`); any other unknown verb is complained about for each item.
            (Shape::List | Shape::Map | Shape::NilList | Shape::NilMap | Shape::Struct, 'w') => {
                self.bad_verb(value, verb);
            }
            _ => self.print_kind(value, verb),
        }
    }

    fn print_kind(&mut self, value: &dyn Operand, verb: char) {
        match value.shape() {
            Shape::Nil => self.push("<nil>"),
            Shape::Bool(truth) if matches!(verb, 't' | 'v') => self.pad(if truth { "true" } else { "false" }),
            Shape::Integer(whole) if "vdboOxXcqU".contains(verb) => self.print_integer(whole, verb),
            Shape::Unsigned(whole) if "vdboOxXcqU".contains(verb) => self.print_unsigned(whole, verb),
            Shape::WireFloat(float) if verb == 'd' && is_whole(float) => {
                #[expect(clippy::cast_possible_truncation, reason = "it is whole and small enough")]
                self.print_integer(float as i64, verb);
            }
            Shape::Float(float) | Shape::WireFloat(float) if "vbgGxXfFeE".contains(verb) => {
                self.print_float(float, verb);
            }
            Shape::Complex(parts) if "vbgGxXfFeE".contains(verb) => self.print_complex(parts, verb),
            Shape::Text(text) if "vsxXq".contains(verb) => self.print_string(text, verb),
            Shape::Bytes(bytes) => self.print_bytes(bytes, verb),
            Shape::Stringer(text, whole) => self.print_stringer(value, &text, whole, verb),
            Shape::NilList | Shape::NilMap if self.flags.is_go_syntax => {
                self.push(&value.type_name());
                self.push("(nil)");
            }
            Shape::NilList => self.push("[]"),
            Shape::NilMap => self.push("map[]"),
            Shape::List | Shape::Map | Shape::Struct => self.print_items(value, verb),
            _ => self.bad_verb(value, verb),
        }
    }

    fn print_items(&mut self, value: &dyn Operand, verb: char) {
        if self.depth == MAX_DEPTH {
            self.refusal = Some(Refusal::TooDeep);
        }
        let has_names = value.shape() != Shape::Struct || self.flags.has_names || self.flags.is_go_syntax;
        let (opening, separator, closing) = match value.shape() {
            _ if self.flags.is_go_syntax => ("{", ", ", "}"),
            Shape::Map => ("map[", " ", "]"),
            Shape::Struct => ("{", " ", "}"),
            _ => ("[", " ", "]"),
        };
        if self.flags.is_go_syntax {
            self.push(&value.type_name());
        }
        self.push(opening);
        self.depth += 1;
        let is_map = value.shape() == Shape::Map;
        let mut is_first = true;
        value.visit(&mut |key, item| {
            if !(self.limits.count_item)() {
                self.refusal = Some(Refusal::Stopped);
                return false;
            }
            self.push(if is_first { "" } else { separator });
            is_first = false;
            if let Some(key) = key.filter(|_| has_names) {
                if is_map {
                    self.print_kind(&Key(key), verb);
                } else {
                    self.push_bytes(key);
                }
                self.push(":");
            }
            self.print_item(item, verb);
            self.refusal.is_none()
        });
        self.depth -= 1;
        self.push(closing);
    }

    fn print_item(&mut self, item: &dyn Operand, verb: char) {
        if self.refusal.is_some() {
            return;
        }
        match item.shape() {
            Shape::Nil if self.flags.is_go_syntax => self.push("interface {}(nil)"),
            _ => self.print_kind(item, verb),
        }
    }

    /// The flags still count: Go pads even what it complains about.
    fn bad_verb(&mut self, value: &dyn Operand, verb: char) {
        let was_complaining = std::mem::replace(&mut self.is_complaining, true);
        self.push(&format!("%!{verb}({}=", value.type_name()));
        self.print_kind(value, 'v');
        self.push(")");
        self.is_complaining = was_complaining;
    }

    fn print_stringer(&mut self, value: &dyn Operand, text: &[u8], whole: Option<i64>, verb: char) {
        match whole {
            Some(whole) if self.is_complaining || self.flags.is_go_syntax => self.print_integer(whole, verb),
            Some(whole) if "dboOcU".contains(verb) => self.print_integer(whole, verb),
            _ if "vsxXq".contains(verb) => self.print_string(text, verb),
            _ => self.bad_verb(value, verb),
        }
    }

    fn print_bytes(&mut self, bytes: &[u8], verb: char) {
        if "sxXq".contains(verb) {
            return self.print_string(bytes, verb);
        }
        let (opening, separator, closing) =
            if self.flags.is_go_syntax { ("[]byte{", ", ", "}") } else { ("[", " ", "]") };
        self.push(opening);
        for (at, byte) in bytes.iter().enumerate() {
            if at > 0 {
                self.push(separator);
            }
            self.print_kind(&Byte(*byte), verb);
        }
        self.push(closing);
    }

    fn print_complex(&mut self, [real, imaginary]: [f64; 2], verb: char) {
        let plus = self.flags.plus;
        self.push("(");
        self.print_float(real, verb);
        self.flags.plus = true;
        self.print_float(imaginary, verb);
        self.flags.plus = plus;
        self.push("i)");
    }

    fn pad(&mut self, text: &str) {
        self.pad_bytes(text.as_bytes());
    }

    fn pad_bytes(&mut self, text: &[u8]) {
        let missing = match self.flags.width {
            // Counting letters is linear in the text, so it is left out where no width asks for it.
            None | Some(0) => 0,
            Some(width) => width.saturating_sub(letters(text).count()),
        };
        if !self.flags.minus {
            self.push_padding(missing);
        }
        self.push_bytes(text);
        if self.flags.minus {
            self.push_padding(missing);
        }
    }

    /// Zeros stand only on the left.
    fn push_padding(&mut self, count: usize) {
        let letter = if self.flags.zero && !self.flags.minus { "0" } else { " " };
        if count > 0 {
            self.push(&letter.repeat(count));
        }
    }

    fn pad_with_spaces(&mut self, text: &str) {
        let zero = std::mem::take(&mut self.flags.zero);
        self.pad(text);
        self.flags.zero = zero;
    }

    fn print_text(&mut self, text: &[u8]) {
        self.pad_bytes(self.truncated(text));
    }

    fn truncated<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        let Some(precision) = self.flags.precision else { return text };
        &text[..letters(text).take(precision).sum()]
    }

    fn print_string(&mut self, text: &[u8], verb: char) {
        match verb {
            'x' | 'X' => self.print_hexadecimal(text, verb),
            'q' => self.print_quoted(text),
            'v' if self.flags.is_go_syntax => self.print_quoted(text),
            _ => self.print_text(text),
        }
    }

    fn print_quoted(&mut self, text: &[u8]) {
        let text = self.truncated(text);
        match std::str::from_utf8(text) {
            Ok(text) if self.flags.sharp && can_backquote(text) => self.pad(&format!("`{text}`")),
            _ => self.pad(&quote_with(text, '"', self.flags.plus)),
        }
    }

    fn print_hexadecimal(&mut self, bytes: &[u8], verb: char) {
        // A precision counts bytes here, and letters in every other verb for text.
        let bytes =
            &bytes[..self.flags.precision.map_or(bytes.len(), |precision| precision.min(bytes.len()))];
        let prefix = match (self.flags.sharp, verb) {
            (false, _) => "",
            (true, 'x') => "0x",
            (true, _) => "0X",
        };
        let mut text = String::with_capacity(bytes.len() * 2);
        for (at, byte) in bytes.iter().enumerate() {
            if self.flags.space && at > 0 {
                text.push(' ');
            }
            if at == 0 || self.flags.space {
                text.push_str(prefix);
            }
            text.push_str(&if verb == 'x' { format!("{byte:02x}") } else { format!("{byte:02X}") });
        }
        self.pad(&text);
    }

    fn print_integer(&mut self, whole: i64, verb: char) {
        match verb {
            'c' => self.pad(&to_letter(whole).to_string()),
            'q' => self.pad(&quote_with(to_letter(whole).to_string().as_bytes(), '\'', self.flags.plus)),
            'U' => self.print_code_point(whole),
            // Most numbers are printed without any flag.
            'v' | 'd' if self.flags == Flags::default() => self.push(&whole.to_string()),
            _ => self.print_digits(whole < 0, whole.unsigned_abs(), verb),
        }
    }

    fn print_unsigned(&mut self, whole: u64, verb: char) {
        if verb == 'v' && self.flags.is_go_syntax {
            self.flags.sharp = true;
            self.print_digits(false, whole, 'x');
            self.flags.sharp = false;
        } else if "cqU".contains(verb) {
            // What is too large for a character is none, however large it is.
            self.print_integer(i64::try_from(whole).unwrap_or(i64::MAX), verb);
        } else {
            self.print_digits(false, whole, verb);
        }
    }

    fn print_digits(&mut self, is_negative: bool, size: u64, verb: char) {
        let Flags { sharp, zero, plus, minus, space, width, precision, .. } = self.flags;
        if precision == Some(0) && size == 0 {
            // C prints nothing for a zero without digits, and so does Go, but for the width.
            return self.pad_with_spaces(&" ".repeat(width.unwrap_or(0)));
        }
        let mut digits = match verb {
            'b' => format!("{size:b}"),
            'o' | 'O' => format!("{size:o}"),
            'x' => format!("{size:x}"),
            'X' => format!("{size:X}"),
            _ => size.to_string(),
        };
        let sign = match (is_negative, plus, space) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (.., true) => " ",
            _ => "",
        };
        // Zeros are asked for by precision, or by width, which then counts the sign.
        let wanted = match (precision, width) {
            (Some(precision), _) => precision,
            (None, Some(width)) if zero && !minus => width - usize::from(!sign.is_empty()).min(width),
            _ => 0,
        };
        if digits.len() < wanted {
            digits.insert_str(0, &"0".repeat(wanted - digits.len()));
        }
        let prefix = match verb {
            'b' if sharp => "0b",
            'o' if sharp && !digits.starts_with('0') => "0",
            'O' if sharp && !digits.starts_with('0') => "0o0",
            'O' => "0o",
            'x' if sharp => "0x",
            'X' if sharp => "0X",
            _ => "",
        };
        self.pad_with_spaces(&format!("{sign}{prefix}{digits}"));
    }

    fn print_code_point(&mut self, whole: i64) {
        let digits = format!("{whole:X}");
        let wanted = self.flags.precision.unwrap_or(0).max(4);
        // Zeros are added by hand, because the standard library takes 16 bits of width and panics at more.
        let mut text = format!("U+{}{digits}", "0".repeat(wanted.saturating_sub(digits.len())));
        let letter = u32::try_from(whole).ok().and_then(char::from_u32);
        if let Some(letter) = letter.filter(|letter| self.flags.sharp && is_print(*letter)) {
            text.push_str(&format!(" '{letter}'"));
        }
        self.pad_with_spaces(&text);
    }

    fn print_float(&mut self, float: f64, verb: char) {
        let (format, default) = match verb {
            'v' => ('g', None),
            'f' | 'F' => ('f', Some(6)),
            'e' | 'E' => (verb, Some(6)),
            _ => (verb, None),
        };
        let precision = self.flags.precision.or(default);
        let text = format_float(float, format, precision);
        // The sign is taken off, because the zeros of `%+08f` stand between sign and digits.
        let (mut sign, body) = match text.strip_prefix(['+', '-']) {
            Some(body) => (&text[..1], body.to_owned()),
            None => ("+", text.clone()),
        };
        if self.flags.space && sign == "+" && !self.flags.plus {
            sign = " ";
        }
        if !float.is_finite() {
            // Infinity always shows its sign, and what is no number only if asked.
            let shows_sign = self.flags.space || self.flags.plus || !float.is_nan();
            return self.pad_with_spaces(&if shows_sign { format!("{sign}{body}") } else { body });
        }
        let body = if self.flags.sharp && verb != 'b' { with_point(&body, format, precision) } else { body };
        if !self.flags.plus && sign == "+" {
            return self.pad(&body);
        }
        match self.flags.width {
            Some(width) if self.flags.zero && !self.flags.minus && width > body.len() + 1 => {
                self.push(sign);
                self.push_padding(width - body.len() - 1);
                self.push(&body);
            }
            _ => self.pad(&format!("{sign}{body}")),
        }
    }
}

/// `#` keeps the point and the zeros behind it that would be left out.
fn with_point(body: &str, format: char, precision: Option<usize>) -> String {
    let is_hexadecimal = matches!(format, 'x' | 'X');
    let wanted = if matches!(format, 'g' | 'G' | 'x') { precision.unwrap_or(6) } else { 0 };
    let exponent: &[char] = if is_hexadecimal { &['p', 'P'] } else { &['e', 'E'] };
    let (number, tail) = body.split_at(body.find(exponent).unwrap_or(body.len()));
    let significant =
        number.chars().filter(|letter| *letter != '.').skip_while(|letter| *letter == '0').count();
    let mut missing = wanted.saturating_sub(significant);
    let mut text = number.to_owned();
    if !number.contains('.') {
        // The zero before the point is no significant digit, yet it counts once, as in Go's
        // `fmtFloat`.
        if number == "0" {
            missing = missing.saturating_sub(1);
        }
        text.push('.');
    }
    text.extend(std::iter::repeat_n('0', missing));
    text.push_str(tail);
    text
}

/// How long each letter is, in bytes. What is no text is one letter a byte.
fn letters(text: &[u8]) -> impl Iterator<Item = usize> {
    text.utf8_chunks()
        .flat_map(|chunk| chunk.valid().chars().map(char::len_utf8).chain(chunk.invalid().iter().map(|_| 1)))
}

/// The letter at this place and its length. A byte that is no text is the replacement character.
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

/// A key of a map.
struct Key<'k>(&'k [u8]);

impl Operand for Key<'_> {
    fn type_name(&self) -> Cow<'_, str> {
        Cow::Borrowed("string")
    }

    fn shape(&self) -> Shape<'_> {
        Shape::Text(self.0)
    }
}

/// An element of `[]byte`.
struct Byte(u8);

impl Operand for Byte {
    fn type_name(&self) -> Cow<'_, str> {
        Cow::Borrowed("uint8")
    }

    fn shape(&self) -> Shape<'_> {
        Shape::Unsigned(self.0.into())
    }
}

fn to_letter(whole: i64) -> char {
    u32::try_from(whole).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Whether a float is an integer that a float holds exactly.
fn is_whole(float: f64) -> bool {
    // 2^53: past it, neighbouring integers are the same float, and printing digits would invent
    // some.
    const LIMIT: f64 = 9_007_199_254_740_992.0;
    float.fract() == 0.0 && float.abs() <= LIMIT
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn print(format: &str, values: &[Value]) -> String {
        let values: Vec<_> = values.iter().map(|value| Any::of(value, Numbers::Integers)).collect();
        sprintf(format, &values).unwrap()
    }

    fn print_one(format: &str, value: impl Into<Value>) -> String {
        print(format, &[value.into()])
    }

    #[test]
    fn values_are_written_as_their_verbs_ask() {
        assert_eq!(print("%s-%d-%t", &[json!("a"), json!(5), json!(true)]), "a-5-true");
        assert_eq!(print_one("%v", json!({"b": [1, "x", null], "a": 1.5})), "map[a:1.5 b:[1 x <nil>]]");
        assert_eq!(print_one("%q", "a\"b"), r#""a\"b""#);
        assert_eq!(print_one("%x", "hi"), "6869");
        assert_eq!(print_one("%X", 255), "FF");
        assert_eq!(print_one("%5.2f|", 2.71234), " 2.71|");
        assert_eq!(print_one("%v", json!(null)), "<nil>");
        assert_eq!(print_one("%T", json!([])), "[]interface {}");
        assert_eq!(print_one("100%%", json!("x")), "100%%!(EXTRA string=x)");
        assert_eq!(
            print_one("%#v", json!({"a": [null, "b", 1]})),
            r#"map[string]interface {}{"a":[]interface {}{interface {}(nil), "b", 1}}"#
        );
    }

    #[test]
    fn widths_and_flags_are_honoured() {
        assert_eq!(print_one("%05d", -42), "-0042");
        assert_eq!(print_one("%-5d|", 42), "42   |");
        assert_eq!(print_one("%+d", 42), "+42");
        assert_eq!(print_one("%.3d", 7), "007");
        assert_eq!(print_one("%#x", 255), "0xff");
        assert_eq!(print_one("%05s", "ab"), "000ab");
        assert_eq!(print_one("%.2s", "héllo"), "hé");
        assert_eq!(print_one("%+06.1f", 2.5), "+002.5");
        assert_eq!(print("%*d", &[json!(5), json!(42)]), "   42");
        assert_eq!(print("%[2]s %[1]s", &[json!("a"), json!("b")]), "b a");
        assert_eq!(print_one("% x", "abc"), "61 62 63");
        assert_eq!(print_one("%#q", "a"), "`a`");
        assert_eq!(print_one("%U", 0x1F600), "U+1F600");
        assert_eq!(print_one("%c", 65), "A");
        assert_eq!(print_one("%#.3g", 1.5), "1.50");
    }

    #[test]
    fn what_does_not_go_together_is_said_in_place() {
        assert_eq!(print_one("%d", "x"), "%!d(string=x)");
        assert_eq!(print_one("%s", 5), "%!s(int64=5)");
        assert_eq!(print_one("%5d", "a"), "%!d(string=    a)");
        assert_eq!(print_one("%s", json!(null)), "%!s(<nil>)");
        assert_eq!(print_one("%d", json!(["a"])), "[%!d(string=a)]");
        assert_eq!(print_one("%s %s", "a"), "a %!s(MISSING)");
        assert_eq!(print_one("a", json!(null)), "a%!(EXTRA <nil>)");
        assert_eq!(print("%s", &[json!("a"), json!(1), json!("b")]), "a%!(EXTRA int64=1, string=b)");
        assert_eq!(print_one("%", "a"), "%!(NOVERB)%!(EXTRA string=a)");
        assert_eq!(print_one("%[3]d", 1), "%!d(BADINDEX)");
        assert_eq!(print_one("%[x]d", 1), "%!d(BADINDEX)");
        assert_eq!(print("%*d", &[json!("a"), json!(1)]), "%!(BADWIDTH)1");
        assert_eq!(print_one("%!", "a"), "%!!(string=a)");
        assert_eq!(print_one("%w", json!({"a": 1})), "%!w(map[string]interface {}=map[a:1])");
    }

    #[test]
    fn numbers_over_the_wire_are_floats() {
        let million = json!(1_000_000);
        let value = [Any::of(&million, Numbers::Floats)];
        assert_eq!(sprintf("%v", &value).unwrap(), "1e+06");
        assert_eq!(sprintf("%d", &value).unwrap(), "1000000");
    }

    #[test]
    fn bytes_that_are_no_text_pass_through() {
        let bytes = || [Any::Bytes(vec![b'a', 0xff, b'b'])];
        assert_eq!(sprintf_any("%4s", &bytes()), Ok(Any::Bytes(vec![b' ', b'a', 0xff, b'b'])));
        assert_eq!(sprintf_any("%.2v", &bytes()), Ok(Any::Bytes(vec![b'a', 0xff])));
        assert_eq!(sprintf("%q", &bytes()).unwrap(), r#""a\xffb""#);
        assert_eq!(sprintf("%x", &bytes()).unwrap(), "61ff62");
    }

    #[test]
    fn no_width_or_precision_is_too_large_for_any_verb() {
        let values = [Any::text("a".to_owned()), Any::Int(7), Any::Float(2.5), Any::Nil];
        for verb in "vdsqxXeEgGtcUbopTwfFO".chars() {
            for format in [format!("%.70000{verb}"), format!("%70000{verb}"), format!("%#+0.70000{verb}")] {
                for value in &values {
                    assert!(sprintf(&format, std::slice::from_ref(value)).is_ok(), "{format}");
                }
            }
        }
        assert_eq!(print_one("%.70000U", 0x1F600).len(), 70_002);
        assert_eq!(print_one("%.6U", 0x1F600), "U+01F600");
        assert_eq!(print_one("%U", -1), "U+FFFFFFFFFFFFFFFF");
    }

    #[test]
    fn endless_text_is_refused() {
        let format = "%1000000d".repeat(20);
        let values = vec![Any::Int(1); 20];
        assert_eq!(sprintf(&format, &values), Err(TooLong));
    }

    proptest! {
        #[test]
        fn any_format_gives_some_text(format in "([a-z%\\[\\]0-9.*+# -]|%[vdsqxXeEgGtcUbopTw]){0,12}", text in ".*", number: i64, float: f64) {
            let values = [Any::text(text), Any::Int(number), Any::Float(float), Any::Nil];
            let _ = sprintf(&format, &values);
        }
    }
}
