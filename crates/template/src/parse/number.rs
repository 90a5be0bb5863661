//! Numbers in templates: integers of all bases, floats, characters and complex ones.
//!
//! Follows Go 1.26, `text/template/parse/node.go` (`newNumber`), `internal/strconv/atoi.go`, `internal/strconv/atof.go`.

use ferroplane_golang::strconv::{parse_float, parse_int, parse_uint, quote, unquote_char};

use crate::lex::Kind;
use crate::node::Number;

pub(super) fn parse(text: &str, kind: Kind) -> Result<Number, String> {
    match kind {
        Kind::CharConstant => character(text),
        Kind::Complex => complex(text),
        _ => plain(text),
    }
}

fn character(text: &str) -> Result<Number, String> {
    let (code, tail) = unquote_char(&text[1..], '\'').ok_or("invalid syntax")?;
    if tail != "'" {
        return Err(format!("malformed character constant: {text}"));
    }
    Ok(Number {
        text: text.to_owned(),
        integer: Some(i64::from(code)),
        unsigned: Some(u64::from(code)),
        float: Some(f64::from(code)),
        complex: None,
    })
}

fn complex(text: &str) -> Result<Number, String> {
    // The sign between the parts is the last one that is not part of an exponent.
    let is_sign = |at: &usize| {
        let before = text[..*at].bytes().next_back().unwrap_or(b'e');
        !matches!(before, b'e' | b'E' | b'p' | b'P')
    };
    let middle = text.rmatch_indices(['+', '-']).map(|(at, _)| at).find(is_sign).unwrap_or(0);
    let (real, imaginary) = text.split_at(middle);
    let parse = |part: &str| parse_float(part).ok_or("syntax error scanning complex number");
    let parts = [parse(real)?, parse(imaginary.trim_end_matches('i'))?];
    Ok(simplified(text, parts))
}

/// A complex number without an imaginary part is any other number, too.
fn simplified(text: &str, parts: [f64; 2]) -> Number {
    let mut number = Number { text: text.to_owned(), complex: Some(parts), ..Number::default() };
    if parts[1] == 0.0 {
        number.float = Some(parts[0]);
        number.integer = whole(parts[0]);
        number.unsigned = whole_unsigned(parts[0]);
    }
    number
}

fn plain(text: &str) -> Result<Number, String> {
    if let Some(imaginary) = text.strip_suffix('i').and_then(parse_float) {
        return Ok(simplified(text, [0.0, imaginary]));
    }
    let mut number = Number {
        text: text.to_owned(),
        unsigned: parse_uint(text),
        integer: parse_int(text),
        ..Number::default()
    };
    if number.integer == Some(0) {
        // In case of -0.
        number.unsigned = Some(0);
    }
    #[expect(clippy::cast_precision_loss, reason = "Go converts, too")]
    if let Some(integer) = number.integer {
        number.float = Some(integer as f64);
    } else if let Some(unsigned) = number.unsigned {
        number.float = Some(unsigned as f64);
    } else if let Some(float) = parse_float(text) {
        // Only an integer that fits neither type comes here without a sign of being a float.
        if !text.contains(['.', 'e', 'E', 'p', 'P']) {
            return Err(format!("integer overflow: {}", quote(text)));
        }
        number.float = Some(float);
        number.integer = whole(float);
        number.unsigned = whole_unsigned(float);
    }
    if number.float.is_none() {
        return Err(format!("illegal number syntax: {}", quote(text)));
    }
    Ok(number)
}

/// The float as an integer, if it is one.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "it is compared afterwards")]
#[expect(clippy::float_cmp, reason = "it is equal or no integer")]
fn whole(float: f64) -> Option<i64> {
    // 2^63 itself becomes the largest integer here and the smallest in Go, which is not equal to it.
    let is_within = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&float);
    (is_within && float as i64 as f64 == float).then_some(float as i64)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "it is compared afterwards")]
#[expect(clippy::cast_sign_loss, clippy::float_cmp, reason = "it is equal or no integer")]
fn whole_unsigned(float: f64) -> Option<u64> {
    let is_within = (0.0..18_446_744_073_709_551_616.0).contains(&float);
    (is_within && float as u64 as f64 == float).then_some(float as u64)
}
