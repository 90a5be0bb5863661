//! Blocks of text with something binary in them.
//!
//! Follows Go 1.26, `encoding/pem/pem.go`.

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"\n-----END ";
const DASHES: &[u8] = b"-----";

/// What stands between two lines of dashes.
pub(super) struct Block {
    kind: Vec<u8>,
    has_headers: bool,
    pub(super) bytes: Vec<u8>,
}

impl Block {
    pub(super) fn is_certificate(&self) -> bool {
        self.kind == b"CERTIFICATE" && !self.has_headers
    }
}

/// The blocks of a text. What stands between them does not matter, and what is no block is passed over. When there are no
/// more, the rest is left.
pub(super) struct Blocks<'t>(pub(super) &'t [u8]);

impl Iterator for Blocks<'_> {
    type Item = Block;

    fn next(&mut self) -> Option<Block> {
        let mut rest = self.0;
        loop {
            // The last beginning before an end: earlier ones have none of their own.
            let end = find(rest, END)?;
            let after = end + END.len();
            let begin = rest[..end].windows(BEGIN.len()).rposition(|window| window == BEGIN);
            let begin = begin.filter(|begin| *begin == 0 || rest[begin - 1] == b'\n');
            if let Some(begin) = begin
                && let Some((block, left)) = read(&rest[begin + BEGIN.len()..], end - begin - BEGIN.len())
            {
                self.0 = left;
                return Some(block);
            }
            rest = &rest[after..];
        }
    }
}

/// Reads a block from its kind on, which has its end at a place. Gives back what follows.
fn read(text: &[u8], end: usize) -> Option<(Block, &[u8])> {
    let (line, mut body) = split_line(text);
    let kind = line.strip_suffix(DASHES)?;
    let mut has_headers = false;
    loop {
        let (line, next) = split_line(body);
        if !line.contains(&b':') {
            break;
        }
        has_headers = true;
        body = next;
    }
    let start = text.len() - body.len();
    // The line break before the end may be the one after the kind, if there is nothing between.
    if start > end + 1 || has_headers && start > end {
        return None;
    }
    let trailer = text[end + END.len()..].strip_prefix(kind)?.strip_prefix(DASHES)?;
    let (line, left) = split_line(trailer);
    if !line.is_empty() {
        return None;
    }
    let mut digits = text.get(start..end).unwrap_or_default().to_vec();
    digits.retain(|character| !matches!(character, b' ' | b'\t'));
    let bytes = ferroplane_golang::base64::decode(&digits).ok()?;
    Some((Block { kind: kind.to_vec(), has_headers, bytes }, left))
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

/// A line without what is blank at its end, and all after it.
fn split_line(text: &[u8]) -> (&[u8], &[u8]) {
    let (mut line, rest) = match text.iter().position(|character| *character == b'\n') {
        Some(end) => (text[..end].strip_suffix(b"\r").unwrap_or(&text[..end]), &text[end + 1..]),
        None => (text, &[][..]),
    };
    while let [start @ .., b' ' | b'\t'] = line {
        line = start;
    }
    (line, rest)
}
