//! Prints text: padded, quoted, cut off, or in hexadecimal.
//!
//! Follows Go 1.26, `fmt/format.go` (`pad`, `fmtS`, `fmtQ`, `fmtSbx`).

use super::Printer;
use crate::strconv::{can_backquote, quote_with};

impl Printer<'_> {
    pub(super) fn pad(&mut self, text: &str) {
        self.pad_bytes(text.as_bytes());
    }

    fn pad_bytes(&mut self, text: &[u8]) {
        let missing = match self.flags.width {
            // Counting letters is linear in the text, so it is left out where no width asks for it.
            None | Some(0) => 0,
            Some(width) => width.saturating_sub(letters(text).count()),
        };
        if !self.flags.minus {
            self.push_padding(missing);
        }
        self.push_bytes(text);
        if self.flags.minus {
            self.push_padding(missing);
        }
    }

    /// Zeros stand only on the left.
    pub(super) fn push_padding(&mut self, count: usize) {
        let letter = if self.flags.zero && !self.flags.minus { "0" } else { " " };
        if count > 0 {
            self.push(&letter.repeat(count));
        }
    }

    pub(super) fn pad_with_spaces(&mut self, text: &str) {
        // Zeros were added as digits, after the sign. Go fills what is left of the width with spaces, too.
        let zero = std::mem::take(&mut self.flags.zero);
        self.pad(text);
        self.flags.zero = zero;
    }

    pub(super) fn print_text(&mut self, text: &[u8]) {
        self.pad_bytes(self.truncated(text));
    }

    fn truncated<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        let Some(precision) = self.flags.precision else { return text };
        &text[..letters(text).take(precision).sum()]
    }

    pub(super) fn print_string(&mut self, text: &[u8], verb: char) {
        match verb {
            'x' | 'X' => self.print_hexadecimal(text, verb),
            'q' => self.print_quoted(text),
            'v' if self.flags.is_go_syntax => self.print_quoted(text),
            _ => self.print_text(text),
        }
    }

    fn print_quoted(&mut self, text: &[u8]) {
        let text = self.truncated(text);
        match std::str::from_utf8(text) {
            Ok(text) if self.flags.sharp && can_backquote(text) => self.pad(&format!("`{text}`")),
            _ => self.pad(&quote_with(text, '"', self.flags.plus)),
        }
    }

    fn print_hexadecimal(&mut self, bytes: &[u8], verb: char) {
        // A precision counts bytes here, and letters in every other verb for text.
        let bytes =
            &bytes[..self.flags.precision.map_or(bytes.len(), |precision| precision.min(bytes.len()))];
        let prefix = match (self.flags.sharp, verb) {
            (false, _) => "",
            (true, 'x') => "0x",
            (true, _) => "0X",
        };
        let mut text = String::with_capacity(bytes.len() * 2);
        for (at, byte) in bytes.iter().enumerate() {
            if self.flags.space && at > 0 {
                text.push(' ');
            }
            if at == 0 || self.flags.space {
                text.push_str(prefix);
            }
            text.push_str(&if verb == 'x' { format!("{byte:02x}") } else { format!("{byte:02X}") });
        }
        self.pad(&text);
    }
}

/// How long each letter is, in bytes. What is no text is one letter a byte.
fn letters(text: &[u8]) -> impl Iterator<Item = usize> {
    text.utf8_chunks()
        .flat_map(|chunk| chunk.valid().chars().map(char::len_utf8).chain(chunk.invalid().iter().map(|_| 1)))
}
