//! Recordings that were written together, as a frame of a segment: much of one is also in the next.
//!
//! The content of a frame is: length of the heads (4 bytes, little-endian), heads, bodies, compressed.

use ferroplane_segments::{FileFormat, frame};
use prost::Message as _;

use crate::format::{Bodies, Body, Head, Heads};

/// What segments of recordings are, and in which version.
///
/// Version 2 has what version 1 had, and fields without which a run means something else: that it is of an operation, that it was only
/// tried, and which grants it had. A program that does not know them would replay an operation as a composite resource, and take what was
/// tried for what was done. So it has to refuse them, while all that it wrote is read here.
pub(crate) const FORMAT: FileFormat = FileFormat::new(*b"ferroplane-rec", 2).reading_from(1);
/// No body is larger, whatever it says of itself.
const LARGEST: usize = 512 << 20;

/// The frame of recordings.
pub(crate) fn write(heads: Vec<Head>, bodies: Vec<Body>) -> Vec<u8> {
    let head = Heads { heads }.encode_to_vec();
    let body = lz4_flex::block::compress_prepend_size(&Bodies { bodies }.encode_to_vec());
    frame(|content| {
        content.reserve(4 + head.len() + body.len());
        // Whatever is too long for a length is too long for a segment, and is not kept.
        let length = u32::try_from(head.len()).unwrap_or(u32::MAX);
        content.extend_from_slice(&length.to_le_bytes());
        content.extend_from_slice(&head);
        content.extend_from_slice(&body);
    })
}

/// Recordings that are whole. Their bodies are looked into when asked.
pub(crate) struct Batch<'a> {
    pub(crate) heads: Vec<Head>,
    bodies: &'a [u8],
    /// The whole frame, as it was written.
    pub(crate) bytes: &'a [u8],
}

impl<'a> Batch<'a> {
    fn read(frame: ferroplane_segments::Frame<'a>) -> Option<Self> {
        let (length, content) = frame.content.split_first_chunk()?;
        let (heads, bodies) = content.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        Some(Self { heads: Heads::decode(heads).ok()?.heads, bodies, bytes: frame.bytes })
    }

    pub(crate) fn has(&self, id: u64) -> bool {
        self.heads.iter().any(|head| head.id == id)
    }

    /// Each with its body. Nothing if they are not what was written.
    pub(crate) fn into_recordings(self) -> impl Iterator<Item = (Head, Body)> {
        let bodies = self.bodies().filter(|bodies| bodies.len() == self.heads.len()).unwrap_or_default();
        self.heads.into_iter().zip(bodies)
    }

    fn bodies(&self) -> Option<Vec<Body>> {
        let (size, _) = self.bodies.split_first_chunk()?;
        let size = u32::from_le_bytes(*size) as usize;
        // What is compressed is at most 255 times smaller: more is a lie, and not believed with memory.
        if size > LARGEST || size > self.bodies.len().saturating_mul(255) {
            return None;
        }
        let bytes = lz4_flex::block::decompress_size_prepended(self.bodies).ok()?;
        Some(Bodies::decode(bytes.as_slice()).ok()?.bodies)
    }
}

/// The recordings of a segment until its end, or until something is not what was written.
pub(crate) fn batches(segment: &[u8]) -> impl Iterator<Item = Batch<'_>> {
    FORMAT.frames(segment).map_while(Batch::read)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(count: u64) -> Vec<u8> {
        let mut segment = FORMAT.header().to_vec();
        for id in 1..=count {
            let head = Head { id, name: "x".repeat(40), ..Head::default() };
            segment.extend(write(vec![head], vec![Body { is_written: true, ..Body::default() }]));
        }
        segment
    }

    fn ids(segment: &[u8]) -> Vec<u64> {
        let recordings = batches(segment).flat_map(Batch::into_recordings);
        recordings.filter(|(_, body)| body.is_written).map(|(head, _)| head.id).collect()
    }

    #[test]
    fn what_is_whole_is_found_wherever_a_segment_is_cut() {
        let whole = segment(3);
        let header = FORMAT.header().len();
        assert_eq!(ids(&whole), [1, 2, 3]);
        let frame = (whole.len() - header) / 3;
        for cut in 0..whole.len() {
            let expected = cut.saturating_sub(header) / frame;
            assert_eq!(ids(&whole[..cut]).len(), expected, "cut at {cut}");
        }
    }

    #[test]
    fn garbage_is_never_taken_for_a_recording() {
        let whole = segment(3);
        for place in 0..whole.len() {
            let mut garbled = whole.clone();
            garbled[place] ^= 0x55;
            let found = ids(&garbled);
            assert!([1, 2, 3].starts_with(&found) && found.len() < 3, "changed at {place}: {found:?}");
        }
        assert!(ids(b"").is_empty());
        assert!(ids(&[0xff; 100]).is_empty());
    }
}
