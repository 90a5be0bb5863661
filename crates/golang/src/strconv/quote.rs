//! Quotes and escapes.
//!
//! Follows Go 1.26, `strconv/quote.go`.

use super::is_print;

/// Text in double quotes, as the verb `%q` writes it.
pub fn quote(text: &str) -> String {
    quote_bytes(text.as_bytes())
}

/// Text that need not be UTF-8 in double quotes.
pub fn quote_bytes(text: &[u8]) -> String {
    quote_with(text, '"', false)
}

/// Text in these quotes. Only ASCII if asked to.
pub(crate) fn quote_with(text: &[u8], mark: char, is_ascii: bool) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push(mark);
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && *byte != b'\\' && char::from(*byte) != mark;
    // Most texts have nothing to escape.
    if let (true, Ok(text)) = (text.iter().all(is_plain), str::from_utf8(text)) {
        quoted.push_str(text);
        quoted.push(mark);
        return quoted;
    }
    for chunk in text.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if letter == mark {
                quoted.push('\\');
                quoted.push(mark);
            } else {
                push_escaped(&mut quoted, letter, is_ascii);
            }
        }
        for byte in chunk.invalid() {
            quoted.push_str(&format!("\\x{byte:02x}"));
        }
    }
    quoted.push(mark);
    quoted
}

fn push_escaped(out: &mut String, letter: char, is_ascii: bool) {
    match letter {
        '\\' => out.push_str("\\\\"),
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{b}' => out.push_str("\\v"),
        _ if is_print(letter) && (letter.is_ascii() || !is_ascii) => out.push(letter),
        '\0'..='\u{7f}' => out.push_str(&format!("\\x{:02x}", u32::from(letter))),
        _ if u32::from(letter) < 0x1_0000 => out.push_str(&format!("\\u{:04x}", u32::from(letter))),
        _ => out.push_str(&format!("\\U{:08x}", u32::from(letter))),
    }
}

/// Whether the text can stand between backquotes as it is.
pub(crate) fn can_backquote(text: &str) -> bool {
    text.chars().all(|letter| match letter {
        '\t' => true,
        '`' | '\u{feff}' => false,
        _ => !letter.is_ascii_control(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_escapes_what_cannot_be_printed() {
        assert_eq!(quote("a\"b\\c\n\u{1}\u{7f}"), r#""a\"b\\c\n\x01\x7f""#);
        assert_eq!(quote("é\u{301}'\u{200b}\u{feff}\u{10ffff}"), "\"é\u{301}'\\u200b\\ufeff\\U0010ffff\"");
        assert_eq!(quote_with("é'\"".as_bytes(), '\'', true), r#"'\u00e9\'"'"#);
        assert_eq!(quote("a\"b\\\n\u{1}é\u{2028}🚀\u{ad}"), r#""a\"b\\\n\x01é\u2028🚀\u00ad""#);
    }
}
