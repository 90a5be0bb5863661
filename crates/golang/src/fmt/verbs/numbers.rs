//! Prints numbers.
//!
//! Follows Go 1.26, `fmt/format.go` (`fmtInteger`, `fmtUnicode`, `fmtFloat`).

use super::{Flags, Printer};
use crate::strconv::{format_float, is_print, quote_with};

impl Printer<'_> {
    pub(super) fn print_integer(&mut self, whole: i64, verb: char) {
        match verb {
            'c' => self.pad(&to_letter(whole).to_string()),
            'q' => self.pad(&quote_with(to_letter(whole).to_string().as_bytes(), '\'', self.flags.plus)),
            'U' => self.print_code_point(whole),
            // Most numbers are printed without any flag.
            'v' | 'd' if self.flags == Flags::default() => self.push(&whole.to_string()),
            _ => self.print_digits(whole < 0, whole.unsigned_abs(), verb),
        }
    }

    pub(super) fn print_unsigned(&mut self, whole: u64, verb: char) {
        if verb == 'v' && self.flags.is_go_syntax {
            self.flags.sharp = true;
            self.print_digits(false, whole, 'x');
            // It was false: `%#v` has turned it into `is_go_syntax`.
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

    pub(super) fn print_float(&mut self, float: f64, verb: char) {
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

    pub(super) fn print_complex(&mut self, [real, imaginary]: [f64; 2], verb: char) {
        let plus = self.flags.plus;
        self.push("(");
        self.print_float(real, verb);
        // The imaginary part always shows its sign, because it is what joins it to the real one.
        self.flags.plus = true;
        self.print_float(imaginary, verb);
        self.flags.plus = plus;
        self.push("i)");
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

fn to_letter(whole: i64) -> char {
    u32::try_from(whole).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}
