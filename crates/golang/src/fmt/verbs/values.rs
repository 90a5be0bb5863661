//! Prints a value with a verb, whatever kind of value it is.
//!
//! Follows Go 1.26, `fmt/print.go` (`printArg`, `printValue`, `badVerb`).

use std::borrow::Cow;

use super::limits::MAX_DEPTH;
use super::{Printer, Refusal};
use crate::fmt::{Operand, Shape};

impl Printer<'_> {
    pub(super) fn print_value(&mut self, value: &dyn Operand, verb: char) {
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
                match key.shape() {
                    Shape::Text(name) if !is_map => self.push_bytes(name),
                    // Keys of maps are values to Go and take the verb, so that `%q` quotes them; names of
                    // fields do not.
                    _ => self.print_item(key, verb),
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
            // Go's `handleMethods` asks for `String` in neither case, and prints the integer that is below
            // it.
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

/// Whether a float is an integer that a float holds exactly.
fn is_whole(float: f64) -> bool {
    // 2^53: past it, neighbouring integers are the same float, and printing digits would invent
    // some.
    const LIMIT: f64 = 9_007_199_254_740_992.0;
    float.fract() == 0.0 && float.abs() <= LIMIT
}
