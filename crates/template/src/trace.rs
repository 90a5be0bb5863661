//! Which part of a text printed which part of its output.
//!
//! Our own design: Go's templates do not remember it.

use crate::node::Position;

/// Which part of a text printed which part of its output. What a function makes of the output of a template, as with
/// `include`, comes from the action that calls the function.
#[derive(Debug, Default)]
pub struct Trace {
    pieces: Vec<Piece>,
}

/// A part of the output that was printed in one go.
#[derive(Debug)]
struct Piece {
    offset: usize,
    position: Position,
    /// It stands in the text as it was printed.
    is_copied: bool,
}

impl Trace {
    /// So many pieces are remembered. A trace is for people, who do not read more, and it must not outgrow the output.
    const LIMIT: usize = 100_000;

    pub(crate) fn add(&mut self, offset: usize, position: Position, is_copied: bool) {
        if self.pieces.len() < Self::LIMIT {
            self.pieces.push(Piece { offset, position, is_copied });
        }
    }

    /// The position in the text, in bytes, that printed the byte of the output at this offset. Nothing if nothing was printed
    /// up to there.
    pub fn position(&self, offset: usize) -> Option<usize> {
        let after = self.pieces.partition_point(|piece| piece.offset <= offset);
        let piece = self.pieces.get(after.checked_sub(1)?)?;
        let within = if piece.is_copied { offset - piece.offset } else { 0 };
        Some(piece.position as usize + within)
    }

    /// Where the output was copied from the text: the offset in the output, and the position in the text.
    pub fn copies(&self) -> impl Iterator<Item = (usize, usize)> {
        let copies = self.pieces.iter().filter(|piece| piece.is_copied);
        copies.map(|piece| (piece.offset, piece.position as usize))
    }
}
