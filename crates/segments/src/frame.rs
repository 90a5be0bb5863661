//! Content with its length and checksum.
//!
//! A frame is: length of the content (4 bytes), checksum of the content (4), content. Numbers are little-endian; the checksum is CRC-32.

/// How many bytes come before the content.
pub(crate) const HEAD: usize = 8;

/// The frame around content that is written by a function. Content that is too long for its length makes an unreadable frame: it is too
/// long for a segment, and refused when it is appended.
pub fn frame(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = vec![0; HEAD];
    write(&mut frame);
    let length = u32::try_from(frame.len() - HEAD).unwrap_or(u32::MAX);
    let checksum = crc32fast::hash(&frame[HEAD..]);
    frame[..4].copy_from_slice(&length.to_le_bytes());
    frame[4..HEAD].copy_from_slice(&checksum.to_le_bytes());
    frame
}

/// A frame that is what was written.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    pub content: &'a [u8],
    /// All of it.
    pub bytes: &'a [u8],
    /// Where in the segment it begins.
    pub offset: usize,
}

impl<'a> Frame<'a> {
    /// The frame that something begins with, and what comes after it.
    pub(crate) fn read(whole: &'a [u8], offset: usize) -> Option<(Self, &'a [u8])> {
        let (length, rest) = number(whole)?;
        let (checksum, rest) = number(rest)?;
        let (content, after) = rest.split_at_checked(length as usize)?;
        if crc32fast::hash(content) != checksum {
            return None;
        }
        let bytes = &whole[..HEAD + content.len()];
        Some((Self { content, bytes, offset }, after))
    }
}

/// Frames one after the other, the first of which is so far from the beginning of its segment.
pub(crate) fn frames(mut rest: &[u8], mut offset: usize) -> impl Iterator<Item = Frame<'_>> {
    std::iter::from_fn(move || {
        let (frame, after) = Frame::read(rest, offset)?;
        offset += frame.bytes.len();
        rest = after;
        Some(frame)
    })
}

fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u32::from_le_bytes(*number), rest))
}

#[cfg(test)]
mod tests {
    use crate::FileFormat;

    const FORMAT: FileFormat = FileFormat::new(*b"ferroplane-tst", 1);

    fn segment(count: u8) -> Vec<u8> {
        let mut segment = FORMAT.header().to_vec();
        for number in 1..=count {
            segment.extend(super::frame(|content| content.extend([number; 40])));
        }
        segment
    }

    fn found(segment: &[u8]) -> Vec<u8> {
        FORMAT.frames(segment).map(|frame| frame.content[0]).collect()
    }

    #[test]
    fn whole_frames_are_found_wherever_a_segment_is_cut() {
        let (whole, header) = (segment(3), FORMAT.header().len());
        assert_eq!(found(&whole), [1, 2, 3]);
        let frame = (whole.len() - header) / 3;
        for cut in 0..whole.len() {
            assert_eq!(found(&whole[..cut]).len(), cut.saturating_sub(header) / frame, "cut at {cut}");
        }
    }

    #[test]
    fn garbage_is_never_taken_for_a_frame() {
        let whole = segment(3);
        for place in 0..whole.len() {
            let mut garbled = whole.clone();
            garbled[place] ^= 0x55;
            let found = found(&garbled);
            assert!([1, 2, 3].starts_with(&found) && found.len() < 3, "changed at {place}: {found:?}");
        }
        assert!(found(b"").is_empty());
        assert!(found(&[0xff; 100]).is_empty());
    }

    #[test]
    fn offsets_lead_to_the_frames() {
        let segment = segment(3);
        for frame in FORMAT.frames(&segment) {
            assert_eq!(&segment[frame.offset..][..frame.bytes.len()], frame.bytes);
        }
    }

    #[test]
    fn earlier_version_is_read_only_where_its_frames_mean_the_same() {
        let segment = segment(2);
        let later = FileFormat::new(*b"ferroplane-tst", 3);
        assert!(!later.is_header_of(&segment) && later.frames(&segment).next().is_none());
        let later = later.reading_from(1);
        assert!(later.is_header_of(&segment));
        assert_eq!(later.frames(&segment).map(|frame| frame.content[0]).collect::<Vec<_>>(), [1, 2]);
        assert!(!later.reading_from(2).is_header_of(&segment));
    }

    #[test]
    fn only_a_later_version_is_refused() {
        let later = FileFormat::new(*b"ferroplane-tst", 2);
        assert!(FORMAT.check(&later.header()).is_err());
        assert_eq!(later.check(&FORMAT.header()), Ok(()));
        assert_eq!(FORMAT.check(&FileFormat::new(*b"ferroplane-xxx", 2).header()), Ok(()));
        assert_eq!(FORMAT.check(b"ferroplane-tst\x02?"), Ok(()));
        assert_eq!(FORMAT.check(b""), Ok(()));
    }
}
