//! Undoes the quotes and escapes of Go, in double or single quotes.
//!
//! Follows Go 1.26, `strconv/quote.go`; client-go 0.36.4, `util/jsonpath/parser.go`.

/// The text that a quoted one stands for. What is no text in it is replaced.
pub fn unquote(quoted: &str) -> Option<String> {
    unquote_bytes(quoted).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The bytes that a quoted text stands for: escapes can name any byte.
pub fn unquote_bytes(quoted: &str) -> Option<Vec<u8>> {
    let quote = quoted.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let inner = quoted.strip_prefix(quote)?.strip_suffix(quote)?;
    // More than one character in single quotes is fine here, unlike in Go's `Unquote`: JSONPath has
    // its own reader (`UnquoteExtend`) for such strings.
    if !inner.contains(['\\', quote]) {
        return Some(inner.as_bytes().to_vec());
    }
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c == quote {
            return None;
        }
        if c == '\\' {
            rest = escape(rest, quote, &mut bytes)?;
        } else {
            push(c, &mut bytes);
        }
    }
    Some(bytes)
}

/// The first character that a quoted text stands for, as a number, and what follows it. The opening quote is not part of
/// the text. An escape of a byte gives that number, whether it is a character or not.
pub fn unquote_char(text: &str, quote: char) -> Option<(u32, &str)> {
    let first = text.chars().next()?;
    let rest = &text[first.len_utf8()..];
    if first == quote {
        return None;
    }
    if first != '\\' {
        return Some((first.into(), rest));
    }
    let mut bytes = Vec::new();
    let tail = escape(rest, quote, &mut bytes)?;
    // A byte of an escape need not be a character: `\xff` is 255 here, and no text.
    let is_byte = rest.starts_with(|letter: char| letter == 'x' || letter.is_ascii_digit());
    let code = match bytes.as_slice() {
        [byte] if is_byte => u32::from(*byte),
        _ => std::str::from_utf8(&bytes).ok()?.chars().next()?.into(),
    };
    Some((code, tail))
}

fn push(c: char, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Reads what follows a backslash, and returns what follows that.
fn escape<'t>(rest: &'t str, quote: char, bytes: &mut Vec<u8>) -> Option<&'t str> {
    let c = rest.chars().next()?;
    let after = &rest[c.len_utf8()..];
    let plain = match c {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        '\\' => '\\',
        '\'' | '"' if c == quote => c,
        'x' | 'u' | 'U' => return hexadecimal(after, c, bytes),
        '0'..='7' => {
            // Go wants all three digits of an octal escape.
            let digits =
                rest.get(..3).filter(|digits| digits.bytes().all(|digit| (b'0'..=b'7').contains(&digit)))?;
            bytes.push(u8::from_str_radix(digits, 8).ok()?);
            return Some(&rest[3..]);
        }
        _ => return None,
    };
    push(plain, bytes);
    Some(after)
}

fn hexadecimal<'t>(rest: &'t str, kind: char, bytes: &mut Vec<u8>) -> Option<&'t str> {
    let length = match kind {
        'x' => 2,
        'u' => 4,
        _ => 8,
    };
    let digits = rest.get(..length).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
    let code = u32::from_str_radix(digits, 16).ok()?;
    match u8::try_from(code) {
        // `\x` names a byte and may break UTF-8; `\u` and `\U` name a character and cannot.
        Ok(byte) if kind == 'x' => bytes.push(byte),
        _ => push(char::from_u32(code)?, bytes),
    }
    Some(&rest[length..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_undone() {
        for (quoted, text) in [
            (r#""a'b""#, "a'b"),
            (r#"'a"b'"#, "a\"b"),
            (r#""\a\b\f\n\r\t\v\\\"""#, "\u{7}\u{8}\u{c}\n\r\t\u{b}\\\""),
            (r#""\x41\101\u00e9\U0001f680""#, "AA\u{e9}\u{1f680}"),
            (r#""\xc3\xa9""#, "\u{e9}"),
        ] {
            assert_eq!(unquote(quoted).as_deref(), Some(text), "{quoted}");
        }
        for quoted in
            ["", "a", "\"", r#""\'""#, r#"'\"'"#, r#""\x4""#, r#""\ud800""#, r#""\q""#, "'a'b'", "`a`"]
        {
            assert_eq!(unquote(quoted), None, "{quoted}");
        }
        assert_eq!(unquote_bytes(r#""\xff""#), Some(vec![0xff]));
    }

    #[test]
    fn characters_are_numbers() {
        for (text, code) in
            [("a'", 97), (r"\n'", 10), (r"\''", 39), (r"\xff'", 255), (r"\377'", 255), ("é'", 233)]
        {
            assert_eq!(unquote_char(text, '\''), Some((code, "'")), "{text}");
        }
        for text in ["", "'", r"\", r#"\"'"#, r"\400'", r"\ud800'"] {
            assert_eq!(unquote_char(text, '\''), None, "{text}");
        }
    }
}
