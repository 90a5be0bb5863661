//! Distinguished encoding rules: as much of them as keys and certificates need.
//!
//! Our own design: writes and reads the few types of ITU-T X.690 by hand, where Go has reflection in `encoding/asn1`.

use num_bigint::BigUint;

pub(super) const INTEGER: u8 = 0x02;
pub(super) const BITS: u8 = 0x03;
pub(super) const OCTETS: u8 = 0x04;
pub(super) const NULL: u8 = 0x05;
pub(super) const OBJECT: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// What is tagged as the field of a structure with this number.
pub(super) const fn field(number: u8) -> u8 {
    0xa0 | number
}

/// A value with its tag and length.
pub(super) fn write(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut out = vec![tag];
    if let Ok(short) = u8::try_from(length)
        && short < 0x80
    {
        out.push(short);
    } else {
        let bytes = length.to_be_bytes();
        let bytes = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
        out.push(0x80 | u8::try_from(bytes.len()).unwrap_or_default());
        out.extend_from_slice(bytes);
    }
    out.extend_from_slice(content);
    out
}

/// Values one after the other.
pub(super) fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    write(SEQUENCE, &parts.concat())
}

pub(super) fn integer(number: &BigUint) -> Vec<u8> {
    let mut bytes = number.to_bytes_be();
    // The first bit is the sign.
    if bytes.first().is_some_and(|first| first & 0x80 != 0) {
        bytes.insert(0, 0);
    }
    write(INTEGER, &bytes)
}

/// Whole bytes as a string of bits.
pub(super) fn bits(bytes: &[u8]) -> Vec<u8> {
    write(BITS, &[&[0], bytes].concat())
}

/// Reads values one after the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'d>(pub(super) &'d [u8]);

impl<'d> Reader<'d> {
    pub(super) fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// The content of the next value, if it has this tag.
    pub(super) fn read(&mut self, tag: u8) -> Option<&'d [u8]> {
        (self.peek()? == tag).then_some(())?;
        Some(self.next()?.1)
    }

    /// The values in the next value, if it is a sequence.
    pub(super) fn sequence(&mut self) -> Option<Reader<'d>> {
        self.read(SEQUENCE).map(Reader)
    }

    /// The next value, with its tag and length and without.
    pub(super) fn next(&mut self) -> Option<(&'d [u8], &'d [u8])> {
        let (first, rest) = self.0.get(1..)?.split_first()?;
        let (length, rest) = if first & 0x80 == 0 {
            (usize::from(*first), rest)
        } else {
            let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            // More than four bytes of length are more than there can be.
            let length = (length.len() <= 4)
                .then(|| length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))?;
            (length, rest)
        };
        let (content, after) = rest.split_at_checked(length)?;
        let whole = &self.0[..self.0.len() - after.len()];
        self.0 = after;
        Some((whole, content))
    }

    /// The next value, if it is an integer that is not negative.
    pub(super) fn integer(&mut self) -> Option<BigUint> {
        let bytes = self.read(INTEGER)?;
        bytes.first().filter(|first| **first & 0x80 == 0)?;
        Some(BigUint::from_bytes_be(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        for length in [0, 1, 127, 128, 255, 256, 70_000] {
            let content = vec![7; length];
            let written = write(OCTETS, &content);
            let mut reader = Reader(&written);
            assert_eq!(reader.read(OCTETS), Some(&content[..]));
            assert_eq!(reader.peek(), None);
        }
        let number = BigUint::from(0x80_u32);
        assert_eq!(integer(&number), [INTEGER, 2, 0, 0x80]);
        assert_eq!(Reader(&integer(&number)).integer(), Some(number));
    }

    #[test]
    fn garbage_is_no_value() {
        for garbage in
            [&[][..], &[2], &[2, 5, 1], &[2, 0x85, 1, 1, 1, 1, 1], &[2, 0x84, 255, 255, 255, 255], &[2, 0x80]]
        {
            assert_eq!(Reader(garbage).integer(), None, "{garbage:?}");
        }
    }
}
