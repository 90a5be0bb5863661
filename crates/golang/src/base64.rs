//! Base64 as Go reads and writes it: line breaks do not matter, bits that belong to no byte do not either, and a mistake is reported with
//! its position.
//!
//! Follows Go 1.26, `encoding/base64/base64.go`.

/// The bytes of the standard alphabet, or the place of what is wrong: Go's `StdEncoding`.
pub fn decode(text: &[u8]) -> Result<Vec<u8>, usize> {
    decode_with(text, *b"+/")
}

/// Text in the standard alphabet, with padding: Go's `StdEncoding`.
pub fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let digit = (bits >> (18 - 6 * at) & 63) as usize;
            text.push(if at <= chunk.len() { char::from(DIGITS[digit]) } else { '=' });
        }
    }
    text
}

/// The same of the alphabet for addresses and file names: Go's `URLEncoding`.
pub fn decode_url(text: &[u8]) -> Result<Vec<u8>, usize> {
    decode_with(text, *b"-_")
}

/// With an alphabet that ends in these two.
fn decode_with(text: &[u8], last: [u8; 2]) -> Result<Vec<u8>, usize> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let mut digits = [0; 4];
    let mut count = 0;
    for (at, character) in text.iter().enumerate() {
        if is_break(*character) {
            continue;
        }
        if let Some(digit) = digit(*character, last) {
            digits[count] = digit;
            count += 1;
            if count == 4 {
                append(&mut bytes, digits, 3);
                count = 0;
            }
            continue;
        }
        if *character != b'=' || count < 2 {
            return Err(at);
        }
        check_end(text, at, 4 - count)?;
        // `digits` still holds what the last full group left there.
        digits[count..].fill(0);
        append(&mut bytes, digits, count - 1);
        return Ok(bytes);
    }
    // Line breaks count for this place, too: Go subtracts digits from the length of all the text.
    // What was begun must be finished.
    if count == 0 { Ok(bytes) } else { Err(text.len() - count) }
}

/// What stands after the first sign of padding: another one if two are wanted, and nothing else.
fn check_end(text: &[u8], first: usize, wanted: usize) -> Result<(), usize> {
    let mut rest = (first + 1..text.len()).filter(|at| !is_break(text[*at]));
    let mut next = rest.next();
    if wanted == 2 {
        match next {
            None => return Err(text.len()),
            // Go blames the byte before the wrong one here (`decodeQuantum` in base64.go), and the
            // place is part of the message that users know.
            Some(at) if text[at] != b'=' => return Err(at - 1),
            Some(_) => next = rest.next(),
        }
    }
    next.map_or(Ok(()), Err)
}

fn append(bytes: &mut Vec<u8>, digits: [u8; 4], count: usize) {
    let bits = digits.iter().fold(0, |bits: u32, digit| bits << 6 | u32::from(*digit));
    bytes.extend(&bits.to_be_bytes()[1..=count]);
}

fn is_break(character: u8) -> bool {
    matches!(character, b'\r' | b'\n')
}

fn digit(character: u8, last: [u8; 2]) -> Option<u8> {
    Some(match character {
        b'A'..=b'Z' => character - b'A',
        b'a'..=b'z' => character - b'a' + 26,
        b'0'..=b'9' => character - b'0' + 52,
        _ if character == last[0] => 62,
        _ if character == last[1] => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_decoded_or_its_first_mistake_is_found() {
        for (text, wanted) in [
            ("", Ok("")),
            ("YWJj", Ok("abc")),
            ("YW\nI=\r\n", Ok("ab")),
            ("YQ==", Ok("a")),
            ("YR==", Ok("a")),
            ("YQ", Err(0)),
            ("YWJjYQ", Err(4)),
            ("YQ=", Err(3)),
            ("YQ=a", Err(2)),
            ("YQ==Y", Err(4)),
            ("YWI=YQ", Err(4)),
            ("Y!==", Err(1)),
            ("=", Err(0)),
            ("Y===", Err(1)),
        ] {
            let wanted = wanted.map(|text| text.as_bytes().to_vec());
            assert_eq!(decode(text.as_bytes()), wanted, "{text:?}");
            assert_eq!(decode_url(text.as_bytes()), wanted, "{text:?}");
        }
        assert_eq!((decode(b"+/+/"), decode(b"ab-_")), (Ok(vec![0xfb, 0xff, 0xbf]), Err(2)));
        assert_eq!((decode_url(b"-_-_"), decode_url(b"ab+/")), (Ok(vec![0xfb, 0xff, 0xbf]), Err(2)));
    }
}
