//! Keys and certificates as text.
//!
//! Follows Go 1.26, `encoding/pem/pem.go`.

use ferroplane_golang::base64;

/// Bytes of a type, in lines of 64 characters.
pub(super) fn encode(kind: &str, bytes: &[u8]) -> String {
    let text = base64::encode(bytes);
    let mut out = format!("-----BEGIN {kind}-----\n");
    for line in text.as_bytes().chunks(64) {
        out.extend(line.iter().copied().map(char::from));
        out.push('\n');
    }
    out + &format!("-----END {kind}-----\n")
}

/// The first block of a text: its type and bytes.
pub(super) fn decode(text: &str) -> Option<(&str, Vec<u8>)> {
    let (_, rest) = text.split_once("-----BEGIN ")?;
    let (kind, rest) = rest.split_once("-----")?;
    let (body, _) = rest.split_once(&format!("-----END {kind}-----"))?;
    // Headers stand before the bytes, and are of no interest.
    let lines = body.lines().filter(|line| !line.contains(':'));
    let text: String =
        lines.flat_map(|line| line.chars()).filter(|letter| !letter.is_ascii_whitespace()).collect();
    Some((kind, base64::decode(text.as_bytes()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_can_be_decoded() {
        let bytes: Vec<u8> = (0..100).collect();
        let text = encode("A KEY", &bytes);
        assert!(text.lines().all(|line| line.len() <= 64));
        assert_eq!(decode(&format!("before\n{text}after")), Some(("A KEY", bytes)));
        assert_eq!(decode("-----BEGIN A-----\nYQ==\n-----END B-----\n"), None);
        assert_eq!(decode(""), None);
    }
}
