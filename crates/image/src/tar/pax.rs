//! Extended headers: records of the form `LENGTH KEY=VALUE\n`.

use super::{Error, Timestamp};

/// What an extended header says about the next entry, as far as it matters. Owners and extended attributes do not.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) time: Option<Timestamp>,
}

impl Records {
    pub(super) fn parse(mut text: &[u8]) -> Result<Self, Error> {
        let mut records = Self::default();
        while !text.is_empty() {
            let (key, value, rest) = record(text).ok_or(Error::Extension)?;
            text = rest;
            records.take(key, value)?;
        }
        Ok(records)
    }

    /// The first value that is given for all entries, where readers differ in whether it counts.
    pub(super) fn override_of_all(&self) -> Option<&'static str> {
        let given =
            [("name", self.path.is_some()), ("link", self.link.is_some()), ("size", self.size.is_some())];
        given.into_iter().find_map(|(name, is_given)| is_given.then_some(name))
    }

    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        match key {
            b"path" => set(&mut self.path, name(value)?, "name"),
            b"linkpath" => set(&mut self.link, name(value)?, "link"),
            b"size" => set(&mut self.size, decimal(value).ok_or(Error::Extension)?, "size"),
            b"mtime" => set(&mut self.time, timestamp(value).ok_or(Error::Extension)?, "time"),
            _ if key.starts_with(b"GNU.sparse.") => Err(Error::Sparse),
            _ => Ok(()),
        }
    }
}

fn set<T>(field: &mut Option<T>, value: T, what: &'static str) -> Result<(), Error> {
    if field.replace(value).is_some() { Err(Error::Ambiguous { what }) } else { Ok(()) }
}

/// A name that is not empty and has no zero, at which other readers would end it.
fn name(value: &[u8]) -> Result<Vec<u8>, Error> {
    if value.is_empty() || value.contains(&0) { Err(Error::Extension) } else { Ok(value.to_vec()) }
}

/// The key and the value of the first record, and the text after it.
fn record(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    // No length within the limit of an extended header has as many digits.
    let space = text.iter().take(20).position(|byte| *byte == b' ')?;
    let length = usize::try_from(decimal(&text[..space])?).ok()?;
    let (record, rest) = text.split_at_checked(length)?;
    let (body, end) = record.get(space + 1..)?.split_last_chunk::<1>()?;
    let equals = body.iter().position(|byte| *byte == b'=')?;
    let (key, value) = (&body[..equals], &body[equals + 1..]);
    (end == b"\n" && !key.is_empty() && !key.contains(&0)).then_some((key, value, rest))
}

fn decimal(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(digits).ok()?.parse().ok()).flatten()
}

/// Seconds with a fraction of any length. Times before 1970 are taken for 1970.
fn timestamp(value: &[u8]) -> Option<Timestamp> {
    let mut parts = value.strip_prefix(b"-").unwrap_or(value).splitn(2, |byte| *byte == b'.');
    let seconds = decimal(parts.next()?)?;
    let nanoseconds = match parts.next() {
        None | Some([]) => 0,
        Some(digits) => fraction(digits)?,
    };
    Some(if value.starts_with(b"-") { Timestamp::default() } else { Timestamp { seconds, nanoseconds } })
}

fn fraction(digits: &[u8]) -> Option<u32> {
    digits.iter().all(u8::is_ascii_digit).then_some(())?;
    let digits = digits.iter().copied().chain(std::iter::repeat(b'0')).take(9);
    Some(digits.fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read() {
        let records = Records::parse(b"11 path=ab\n19 mtime=12.0345678\n11 size=10\n20 SCHILY.xattr.a=b=\n");
        assert!(matches!(records, Err(Error::Extension)), "the second length is wrong");
        let records = Records::parse(b"11 path=ab\n20 mtime=12.0345678\n11 size=10\n").unwrap();
        assert_eq!(records.path.unwrap(), b"ab");
        assert_eq!(records.size, Some(10));
        assert_eq!(records.time, Some(Timestamp { seconds: 12, nanoseconds: 34_567_800 }));
    }

    #[test]
    fn malformed_records_are_refused() {
        for text in [
            &b"path=ab\n"[..],
            b"11 path=ab",
            b"12 path=ab\n",
            b"9 path=a\0\n",
            b"8 path=\n",
            b"5 =a\n",
            b"0 a=b\n",
            b"6 pat\n",
            b"999999999999999999999999 a=b\n",
            b"11 size=-1\n",
            b"12 mtime=1.x\n",
            b"-6 a=b\n",
            b"1 ",
        ] {
            assert!(Records::parse(text).is_err(), "{}", text.escape_ascii());
        }
    }
}
