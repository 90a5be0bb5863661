//! Collects what a command prints: all lines with phase output, and the last of its other lines.
//!
//! # Invariants
//! * However much a command prints, little more than twice [`Printed::MOST`] is held.
//! * If phase output had to be dropped, there is no text: a caller would not notice that a part is missing.

use ferroplane_engine::action::OUTPUT_MARKER;

/// How many bytes at the end are kept in any case, for users.
const TAIL: usize = 64 << 10;

/// What a command has printed so far.
#[derive(Debug, Default)]
pub(super) struct Printed {
    text: Vec<u8>,
    has_lost: bool,
}

impl Printed {
    /// The most bytes that are kept of a command that prints a lot.
    pub(super) const MOST: usize = 1 << 20;

    pub(super) fn add(&mut self, text: &[u8]) {
        self.text.extend_from_slice(text);
        if self.text.len() > 2 * Self::MOST {
            self.shrink();
        }
    }

    /// The text, of which lines without phase output are dropped if it is long. None if phase output had to be dropped.
    pub(super) fn into_text(self) -> Option<String> {
        (!self.has_lost).then(|| String::from_utf8_lossy(&self.text).into_owned())
    }

    /// Drop everything except phase output and the end.
    fn shrink(&mut self) {
        let tail = self.text.len().saturating_sub(TAIL);
        let (mut kept, mut begin) = (Vec::new(), 0);
        for line in self.text.split_inclusive(|byte| *byte == b'\n') {
            let end = begin + line.len();
            // The last line may be incomplete, with the beginning of a marker: it is part of the tail.
            let start = marker(line).map_or(tail.clamp(begin, end), |at| begin + at);
            kept.extend_from_slice(&self.text[start..end]);
            begin = end;
        }
        if kept.len() > Self::MOST {
            self.has_lost = true;
            kept.drain(..kept.len() - TAIL);
        }
        self.text = kept;
    }
}

/// The position of the first marker in a line.
fn marker(line: &[u8]) -> Option<usize> {
    line.windows(OUTPUT_MARKER.len()).position(|window| window == OUTPUT_MARKER.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "###Phase-output###:{\"key\":\"k\",\"value\":\"v\"}\n";

    /// What is kept of these, each of them in pieces of an odd size.
    fn kept(texts: &[&str]) -> Option<String> {
        let mut printed = Printed::default();
        for piece in texts.iter().flat_map(|text| text.as_bytes().chunks(1021)) {
            printed.add(piece);
        }
        assert!(printed.text.len() <= 2 * Printed::MOST);
        printed.into_text()
    }

    #[test]
    fn output_is_kept_wherever_it_is() {
        let noise = "noise\n".repeat(500_000);
        let text = kept(&["begin\n", OUTPUT, &noise, OUTPUT, &noise, OUTPUT, "end\n"]).unwrap();
        assert_eq!(text.matches(OUTPUT).count(), 3);
        assert!(text.ends_with("noise\n###Phase-output###:{\"key\":\"k\",\"value\":\"v\"}\nend\n"));
        assert!(!text.contains("begin"));
    }

    #[test]
    fn output_behind_a_long_line_is_kept() {
        let bar = "#".repeat(3 << 20);
        let text = kept(&[&bar, OUTPUT, &bar]).unwrap();
        assert_eq!(text.matches(OUTPUT).count(), 1);
    }

    #[test]
    fn short_text_is_kept_as_it_is() {
        assert_eq!(kept(&["a\n", OUTPUT]).unwrap(), format!("a\n{OUTPUT}"));
    }

    #[test]
    fn output_that_has_to_be_left_out_leaves_no_text() {
        assert_eq!(kept(&[&OUTPUT.repeat(100_000)]), None);
    }
}
