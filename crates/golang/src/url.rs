//! Addresses, as Go's `net/url` takes them apart.
//!
//! Follows Go 1.26, `net/url/url.go`.

/// The scheme, which may be empty, and what follows; nothing if a scheme should be there.
pub fn split_scheme(text: &str) -> Option<(&str, &str)> {
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            // Go calls this "missing protocol scheme". Any other odd first character means that
            // there is no scheme.
            b':' if index == 0 => return None,
            b':' => return Some((&text[..index], &text[index + 1..])),
            _ => break,
        }
    }
    Some(("", text))
}
