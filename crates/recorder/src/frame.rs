//! Recordings in a segment, those together that were written together: much of one is also in the next.
//!
//! A segment begins with [`MAGIC`]. A frame is: length of what follows the checksum (4 bytes), checksum (4), length of the heads (4),
//! heads, bodies, compressed. Numbers are little-endian; the checksum is CRC-32.

use std::io;

use prost::Message as _;

use crate::format::{Bodies, Body, Head, Heads};

/// What a segment begins with: what it is, and in which version.
pub(crate) const MAGIC: &[u8; 16] = b"ferroplane-rec\x01\n";
/// The version of the format that is written, and where in the magic it is.
const VERSION: u8 = MAGIC[VERSION_AT];
const VERSION_AT: usize = 14;
const HEADER: usize = 8;
/// No body is larger, whatever it says of itself.
const LARGEST: usize = 512 << 20;

/// Refuses what a later release wrote, by its first bytes. What is no segment at all is none of a later release either.
pub(crate) fn check_version(start: &[u8]) -> io::Result<()> {
    let Some(start) = start.first_chunk::<{ MAGIC.len() }>() else { return Ok(()) };
    let version = start[VERSION_AT];
    let is_ours = MAGIC.iter().zip(start).enumerate().all(|(at, (ours, it))| at == VERSION_AT || ours == it);
    if !is_ours || version <= VERSION {
        return Ok(());
    }
    let why = format!(
        "it has version {version} of the format, this program knows {VERSION}; use a newer Ferroplane"
    );
    Err(io::Error::new(io::ErrorKind::InvalidData, why))
}

/// The bytes of recordings.
pub(crate) fn write(heads: Vec<Head>, bodies: Vec<Body>) -> Vec<u8> {
    let head = Heads { heads }.encode_to_vec();
    let body = lz4_flex::block::compress_prepend_size(&Bodies { bodies }.encode_to_vec());
    let mut frame = Vec::with_capacity(HEADER + 4 + head.len() + body.len());
    frame.extend_from_slice(&[0; HEADER]);
    frame.extend_from_slice(&length(head.len()).to_le_bytes());
    frame.extend_from_slice(&head);
    frame.extend_from_slice(&body);
    let checksum = crc32fast::hash(&frame[HEADER..]);
    let rest = length(frame.len() - HEADER);
    frame[..4].copy_from_slice(&rest.to_le_bytes());
    frame[4..HEADER].copy_from_slice(&checksum.to_le_bytes());
    frame
}

/// Whatever is too long for a length is too long for a segment, and is not kept.
fn length(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// Recordings that are whole. Their bodies are looked into when asked.
pub(crate) struct Frame<'a> {
    pub(crate) heads: Vec<Head>,
    bodies: &'a [u8],
    /// All of it, as it was written.
    pub(crate) bytes: &'a [u8],
}

impl Frame<'_> {
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
pub(crate) fn frames(segment: &[u8]) -> impl Iterator<Item = Frame<'_>> {
    let mut rest = segment.strip_prefix(MAGIC).unwrap_or_default();
    std::iter::from_fn(move || {
        let (frame, after) = next(rest)?;
        rest = after;
        Some(frame)
    })
}

fn next(whole: &[u8]) -> Option<(Frame<'_>, &[u8])> {
    let (length, rest) = number(whole)?;
    let (checksum, rest) = number(rest)?;
    let (content, after) = rest.split_at_checked(length as usize)?;
    if crc32fast::hash(content) != checksum {
        return None;
    }
    let (length, content) = number(content)?;
    let (heads, bodies) = content.split_at_checked(length as usize)?;
    let bytes = whole.strip_suffix(after)?;
    Some((Frame { heads: Heads::decode(heads).ok()?.heads, bodies, bytes }, after))
}

fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u32::from_le_bytes(*number), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(count: u64) -> Vec<u8> {
        let mut segment = MAGIC.to_vec();
        for id in 1..=count {
            let head = Head { id, name: "x".repeat(40), ..Head::default() };
            segment.extend(write(vec![head], vec![Body { is_written: true, ..Body::default() }]));
        }
        segment
    }

    fn ids(segment: &[u8]) -> Vec<u64> {
        let recordings = frames(segment).flat_map(Frame::into_recordings);
        recordings.filter(|(_, body)| body.is_written).map(|(head, _)| head.id).collect()
    }

    #[test]
    fn what_is_whole_is_found_wherever_a_segment_is_cut() {
        let whole = segment(3);
        assert_eq!(ids(&whole), [1, 2, 3]);
        let frame = (whole.len() - MAGIC.len()) / 3;
        for cut in 0..whole.len() {
            let expected = cut.saturating_sub(MAGIC.len()) / frame;
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
