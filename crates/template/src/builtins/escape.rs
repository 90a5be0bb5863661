//! Text for HTML, JavaScript and queries of URLs.
//!
//! Follows Go 1.26, `text/template/funcs.go` (`HTMLEscape`, `JSEscape`), `net/url/url.go` (`QueryEscape`).

use ferroplane_golang::strconv::is_print;

pub(super) fn html(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        match byte {
            0 => out.extend_from_slice("\u{fffd}".as_bytes()),
            b'"' => out.extend_from_slice(b"&#34;"),
            b'\'' => out.extend_from_slice(b"&#39;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            other => out.push(*other),
        }
    }
    out
}

pub(super) fn js(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        for letter in chunk.valid().chars() {
            push_js(&mut out, letter);
        }
        // Every byte that is not text is a replacement character to Go, whose bytes it copies from the text.
        out.extend_from_slice(chunk.invalid());
    }
    out
}

fn push_js(out: &mut Vec<u8>, letter: char) {
    match letter {
        '\\' => out.extend_from_slice(b"\\\\"),
        '\'' => out.extend_from_slice(b"\\'"),
        '"' => out.extend_from_slice(b"\\\""),
        '<' | '>' | '&' | '=' | '\0'..='\x1f' => {
            out.extend_from_slice(format!("\\u{:04X}", u32::from(letter)).as_bytes());
        }
        _ if letter.is_ascii() || is_print(letter) => {
            out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
        }
        _ => out.extend_from_slice(format!("\\u{:04X}", u32::from(letter)).as_bytes()),
    }
}

pub(super) fn url_query(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(*byte),
            b' ' => out.push(b'+'),
            other => out.extend_from_slice(format!("%{other:02X}").as_bytes()),
        }
    }
    out
}
