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

/// Writes text that need not be UTF-8 in double quotes behind what is there.
pub fn push_quoted(out: &mut Vec<u8>, text: &[u8]) {
    if !is_plain(text, '"') {
        return out.extend_from_slice(quote_bytes(text).as_bytes());
    }
    out.reserve(text.len() + 2);
    out.push(b'"');
    out.extend_from_slice(text);
    out.push(b'"');
}

/// Whether nothing in a text has to be escaped between these quotes.
fn is_plain(text: &[u8], mark: char) -> bool {
    text.iter().all(|byte| matches!(byte, b' '..=b'~') && *byte != b'\\' && char::from(*byte) != mark)
}

/// Text in these quotes. Only ASCII if asked to.
pub(crate) fn quote_with(text: &[u8], mark: char, is_ascii: bool) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push(mark);
    // Most texts have nothing to escape.
    if let (true, Ok(text)) = (is_plain(text, mark), str::from_utf8(text)) {
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
    fn text_is_quoted_the_same_behind_other_text() {
        for text in ["", "plain", "a\"b", "a\\b", "a\nb", "é"] {
            let mut out = b"before ".to_vec();
            push_quoted(&mut out, text.as_bytes());
            assert_eq!(out, format!("before {}", quote(text)).into_bytes());
        }
    }

    #[test]
    fn quoted_text_escapes_what_cannot_be_printed() {
        assert_eq!(quote("a\"b\\c\n\u{1}\u{7f}"), r#""a\"b\\c\n\x01\x7f""#);
        assert_eq!(quote("é\u{301}'\u{200b}\u{feff}\u{10ffff}"), "\"é\u{301}'\\u200b\\ufeff\\U0010ffff\"");
        assert_eq!(quote_with("é'\"".as_bytes(), '\'', true), r#"'\u00e9\'"'"#);
        assert_eq!(quote("a\"b\\\n\u{1}é\u{2028}🚀\u{ad}"), r#""a\"b\\\n\x01é\u2028🚀\u00ad""#);
    }
}
