//! What a server sends, in the pieces in which it came. A server in this process sends objects as pieces of their own, which
//! are those of its store: whoever holds on to one costs no memory.

use bytes::Bytes;

/// Text in pieces, and as a whole.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    text: Vec<u8>,
    /// Where each begins.
    pieces: Vec<(usize, Bytes)>,
}

impl Pieces {
    pub(super) fn push(&mut self, piece: Bytes) {
        let start = self.text.len();
        self.text.extend_from_slice(&piece);
        self.pieces.push((start, piece));
    }

    /// Everything that came and was not forgotten.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Forget the beginning, up to here.
    pub(super) fn forget(&mut self, end: usize) {
        self.text.drain(..end);
        self.pieces.retain_mut(|(start, _)| match start.checked_sub(end) {
            Some(moved) => {
                *start = moved;
                true
            }
            None => false,
        });
    }

    /// A part of the text, to be held on to: the piece that it came as, or else a copy, because a larger piece would live
    /// as long as any part of it.
    pub(crate) fn part(&self, part: &str) -> Bytes {
        let start = (part.as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize);
        let found = self.pieces.binary_search_by_key(&start, |(start, _)| *start);
        match found.map(|index| &self.pieces[index].1) {
            Ok(piece) if *piece == *part => piece.clone(),
            _ => Bytes::copy_from_slice(part.as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(texts: &[&'static str]) -> Pieces {
        let mut pieces = Pieces::default();
        for text in texts {
            pieces.push(Bytes::from_static(text.as_bytes()));
        }
        pieces
    }

    fn is_shared(pieces: &Pieces, part: &str, with: &'static str) -> bool {
        let text = std::str::from_utf8(pieces.text()).unwrap();
        let start = text.find(part).unwrap();
        let held = pieces.part(&text[start..start + part.len()]);
        assert_eq!(held, part);
        held.as_ptr() == with.as_ptr()
    }

    #[test]
    fn a_part_that_came_as_a_piece_is_that_piece() {
        let object = "{\"a\":1}";
        let mut all = pieces(&["{\"object\":", object, "}\n{\"object\":", "{}"]);
        assert!(is_shared(&all, object, object));
        all.forget(3);
        assert!(is_shared(&all, object, object));
    }

    #[test]
    fn a_part_that_did_not_is_a_copy() {
        let whole = "{\"object\":{\"a\":1}}";
        assert!(!is_shared(&pieces(&[whole]), "{\"a\":1}", &whole[10..]));
        let cut = "{\"a\"";
        assert!(!is_shared(&pieces(&["{\"object\":", cut, ":1}}"]), "{\"a\":1}", cut));
    }
}
