//! The body of an answer, in the chunks in which it came. A server in this process sends each object as a chunk of its own,
//! which is the one of its store: keeping such a chunk costs no memory.

use std::ops::Range;

use bytes::Bytes;

/// Text in chunks, and as a whole.
#[derive(Debug, Default)]
pub(crate) struct BodyChunks {
    text: Vec<u8>,
    /// Where each chunk begins.
    chunks: Vec<(usize, Bytes)>,
}

impl BodyChunks {
    pub(crate) fn push(&mut self, chunk: Bytes) {
        let start = self.text.len();
        self.text.extend_from_slice(&chunk);
        self.chunks.push((start, chunk));
    }

    /// Everything that came and was not dropped.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Drop the beginning, up to here.
    pub(crate) fn drop_front(&mut self, end: usize) {
        self.text.drain(..end);
        self.chunks.retain_mut(|(start, _)| match start.checked_sub(end) {
            Some(moved) => {
                *start = moved;
                true
            }
            None => false,
        });
    }

    /// Where a part of the text is.
    pub(crate) fn range(&self, part: &str) -> Range<usize> {
        // serde borrows `part` from `text`, so that its address tells where it is. A part of anything else
        // gives a range that `part()` refuses by its bounds check.
        let start = (part.as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize);
        start..start.wrapping_add(part.len())
    }

    /// A part of the text, to be kept: the chunk that it came as, or else a copy, because a larger chunk would live
    /// as long as any part of it.
    pub(crate) fn part(&self, range: Range<usize>) -> Bytes {
        let text = &self.text[range.clone()];
        let found = self.chunks.binary_search_by_key(&range.start, |(start, _)| *start);
        match found.map(|index| &self.chunks[index].1) {
            Ok(chunk) if chunk == text => chunk.clone(),
            _ => Bytes::copy_from_slice(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(texts: &[&'static str]) -> BodyChunks {
        let mut chunks = BodyChunks::default();
        for text in texts {
            chunks.push(Bytes::from_static(text.as_bytes()));
        }
        chunks
    }

    fn is_shared(chunks: &BodyChunks, part: &str, with: &'static str) -> bool {
        let text = std::str::from_utf8(chunks.text()).unwrap();
        let start = text.find(part).unwrap();
        let kept = chunks.part(chunks.range(&text[start..start + part.len()]));
        assert_eq!(kept, part);
        kept.as_ptr() == with.as_ptr()
    }

    #[test]
    fn a_part_that_came_as_a_chunk_is_that_chunk() {
        let object = "{\"a\":1}";
        let mut all = chunks(&["{\"object\":", object, "}\n{\"object\":", "{}"]);
        assert!(is_shared(&all, object, object));
        all.drop_front(3);
        assert!(is_shared(&all, object, object));
    }

    #[test]
    fn a_part_that_did_not_is_a_copy() {
        let whole = "{\"object\":{\"a\":1}}";
        assert!(!is_shared(&chunks(&[whole]), "{\"a\":1}", &whole[10..]));
        let cut = "{\"a\"";
        assert!(!is_shared(&chunks(&["{\"object\":", cut, ":1}}"]), "{\"a\":1}", cut));
    }
}
