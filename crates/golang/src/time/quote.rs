//! Quotes of the package `time`, which are not those of `strconv`.
//!
//! Follows Go 1.26, `time/format.go`.

/// The text in double quotes. What is not printable ASCII is written byte by byte, because `time` does not know which
/// characters can be printed.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            ' '..='\u{7f}' => quoted.push(c),
            _ => c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| quoted += &format!("\\x{byte:02x}")),
        }
    }
    quoted.push('"');
    quoted
}
