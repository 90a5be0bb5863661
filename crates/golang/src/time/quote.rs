//! Quotes of the package `time`, which are not those of `strconv`.
//!
//! Follows Go 1.26, `time/format.go`.

/// The text in double quotes. What is not printable ASCII is written byte by byte, because `time` does not know which
/// characters can be printed.
pub(super) fn quote(text: &str) -> String {
    quote_bytes(text.as_bytes())
}

/// The same of text that need not be UTF-8.
pub(super) fn quote_bytes(text: &[u8]) -> String {
    let mut quoted = String::from('"');
    for byte in text {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(*byte)]),
            b' '..=0x7f => quoted.push(char::from(*byte)),
            _ => quoted += &format!("\\x{byte:02x}"),
        }
    }
    quoted.push('"');
    quoted
}
