//! The header of an entry: one block, in the formats V7, ustar and GNU.

use super::{BLOCK, Error};

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Directory,
    Symlink,
    HardLink,
    /// A character or block device.
    Device,
    Fifo,
}

/// One block that was read as a header.
pub(super) struct Header<'a>(&'a [u8; BLOCK]);

const CHECKSUM: std::ops::Range<usize> = 148..156;

impl<'a> Header<'a> {
    /// Checks the sum, which old programs computed with signed bytes.
    pub(super) fn parse(block: &'a [u8; BLOCK]) -> Result<Self, Error> {
        let bytes =
            || block.iter().enumerate().map(|(at, byte)| if CHECKSUM.contains(&at) { b' ' } else { *byte });
        let unsigned: i64 = bytes().map(i64::from).sum();
        let signed: i64 = bytes().map(|byte| i64::from(byte.cast_signed())).sum();
        let stated = number(&block[CHECKSUM]).ok_or(Error::Checksum)?;
        if stated == unsigned || stated == signed { Ok(Self(block)) } else { Err(Error::Checksum) }
    }

    pub(super) fn type_flag(&self) -> u8 {
        self.0[156]
    }

    /// The name, with the prefix that only ustar has: GNU keeps times in its place.
    pub(super) fn path(&self) -> Vec<u8> {
        let name = text(&self.0[0..100]);
        let prefix = text(&self.0[345..500]);
        if &self.0[257..263] != b"ustar\0" || prefix.is_empty() {
            return name.to_vec();
        }
        [prefix, b"/", name].concat()
    }

    pub(super) fn link(&self) -> &'a [u8] {
        text(&self.0[157..257])
    }

    pub(super) fn size(&self) -> Result<u64, Error> {
        unsigned(&self.0[124..136], "size")
    }

    pub(super) fn mode(&self) -> Result<u32, Error> {
        let mode = unsigned(&self.0[100..108], "mode")?;
        u32::try_from(mode & 0o7777).map_err(|_| Error::Number { field: "mode" })
    }

    /// Times before 1970 are taken for 1970.
    pub(super) fn seconds(&self) -> Result<u64, Error> {
        let seconds = number(&self.0[136..148]).ok_or(Error::Number { field: "time" })?;
        Ok(u64::try_from(seconds).unwrap_or(0))
    }
}

fn unsigned(field: &[u8], name: &'static str) -> Result<u64, Error> {
    number(field).and_then(|number| u64::try_from(number).ok()).ok_or(Error::Number { field: name })
}

/// A number in octal digits, or in binary if the first bit is set.
fn number(field: &[u8]) -> Option<i64> {
    if field[0] & 0x80 != 0 {
        return binary(field);
    }
    let is_filler = |byte: &u8| matches!(byte, b' ' | 0);
    let start = field.iter().position(|byte| !is_filler(byte)).unwrap_or(field.len());
    let digits = &field[start..];
    let end = digits.iter().position(is_filler).unwrap_or(digits.len());
    let (digits, rest) = digits.split_at(end);
    if !rest.iter().all(is_filler) {
        return None;
    }
    digits.iter().try_fold(0_i64, |sum, digit| {
        let digit = matches!(digit, b'0'..=b'7').then(|| i64::from(digit - b'0'))?;
        sum.checked_mul(8)?.checked_add(digit)
    })
}

/// Two's complement, big-endian, with the marker in the first bit and the sign in the second.
fn binary(field: &[u8]) -> Option<i64> {
    let is_negative = field[0] & 0x40 != 0;
    let first = if is_negative { field[0] } else { field[0] & 0x7f };
    let start = if is_negative { i128::from(first.cast_signed()) } else { i128::from(first) };
    // Twelve bytes fit into sixteen.
    let value = field[1..].iter().fold(start, |sum, byte| (sum << 8) | i128::from(*byte));
    i64::try_from(value).ok()
}

/// The bytes up to the first zero.
fn text(field: &[u8]) -> &[u8] {
    field.iter().position(|byte| *byte == 0).map_or(field, |end| &field[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_octal_and_binary() {
        assert_eq!(number(b"0000644\0"), Some(0o644));
        assert_eq!(number(b"   644 \0"), Some(0o644));
        assert_eq!(number(b"\0\0\0\0\0\0\0\0"), Some(0));
        assert_eq!(number(b"0000648\0"), None);
        assert_eq!(number(b"64 4   \0"), None);
        assert_eq!(number(b"\x80\0\0\0\0\0\x01\0\0\0\0\0"), Some(1 << 40));
        assert_eq!(number(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe"), Some(-2));
        assert_eq!(number(b"\xbf\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), None);
    }
}
