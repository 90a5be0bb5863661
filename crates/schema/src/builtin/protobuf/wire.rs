//! The wire format of protobuf: fields by number, with values of four lengths. Knows no types.
//!
//! Our own design: the wire format is that of <https://protobuf.dev/programming-guides/encoding>.

use super::Error;

/// A value as it is on the wire.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'b> {
    Varint(u64),
    Fixed64(u64),
    Fixed32,
    Bytes(&'b [u8]),
}

/// Reads fields one after the other.
#[derive(Debug)]
pub(super) struct Reader<'b> {
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next field, nothing at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Value<'b>)>, Error> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0).ok_or(Error::Tag(tag))?;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| Error::Truncated)?;
                Value::Bytes(self.take(length)?)
            }
            5 => {
                // No field of Kubernetes has this form, but unknown ones must be passed over.
                self.array::<4>()?;
                Value::Fixed32
            }
            _ => return Err(Error::Tag(tag)),
        };
        Ok(Some((number, value)))
    }

    /// A number of up to 64 bits, seven to a byte, the lowest first.
    pub(super) fn varint(&mut self) -> Result<u64, Error> {
        let mut number = 0;
        for shift in (0..70).step_by(7) {
            let [byte] = self.array()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for only one more bit.
            if shift == 63 && bits > 1 {
                return Err(Error::Overflow);
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Error::Overflow)
    }

    pub(super) fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    fn take(&mut self, length: usize) -> Result<&'b [u8], Error> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Error::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Error::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }
}
