//! The outline of a certificate: whether its parts are there, and are what they should be.
//!
//! Keys and the contents of extensions are not checked.
//!
//! Follows Go 1.26, `crypto/x509/parser.go`.

use std::borrow::Cow;
use std::collections::HashSet;

use ferroplane_cel::Timestamp;

const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
const BITS: u8 = 0x03;
const BYTES: u8 = 0x04;
const IDENTIFIER: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;

type Checked<T = ()> = Result<T, Cow<'static, str>>;

/// What is wrong with a certificate.
pub(super) fn check(der: &[u8]) -> Checked {
    let mut whole = Reader(der);
    let mut certificate = whole.sequence("malformed certificate")?;
    let mut body = certificate.sequence("malformed tbs certificate")?;
    let version = check_version(&mut body)?;
    let serial = body.integer().ok_or("malformed serial number")?;
    if serial.first().is_some_and(|first| first & 0x80 != 0) {
        return Err("negative serial number".into());
    }
    let mut algorithm = body.sequence("malformed signature algorithm identifier")?;
    // Read here though it comes later in the file: Go compares the two before it reads the rest.
    let outer = certificate.sequence("malformed algorithm identifier")?;
    if outer.0 != algorithm.0 {
        return Err("inner and outer signature algorithm identifiers don't match".into());
    }
    check_algorithm(&mut algorithm)?;
    check_name(body.sequence("malformed issuer")?)?;
    check_validity(body.sequence("malformed validity")?)?;
    check_name(body.sequence("malformed issuer")?)?;
    let mut key = body.sequence("malformed spki")?;
    check_algorithm(&mut key.sequence("malformed public key algorithm identifier")?)?;
    key.bits().ok_or("malformed subjectPublicKey")?;
    check_rest(&mut body, version)?;
    certificate.bits().ok_or("malformed signature")?;
    if whole.0.is_empty() { Ok(()) } else { Err("trailing data".into()) }
}

fn check_version(body: &mut Reader<'_>) -> Checked<u8> {
    const MALFORMED: &str = "malformed version";
    let Some(version) = body.optional(0xa0).map_err(|()| MALFORMED)? else { return Ok(0) };
    let mut version = Reader(version);
    let number = version.integer().filter(|_| version.0.is_empty()).ok_or(MALFORMED)?;
    match number {
        [version @ 0..=2] => Ok(*version),
        [first, ..] if first & 0x80 != 0 || number.len() > 8 => Err(MALFORMED.into()),
        _ => Err("invalid version".into()),
    }
}

fn check_algorithm(algorithm: &mut Reader<'_>) -> Checked {
    algorithm.identifier().ok_or("malformed OID")?;
    if algorithm.0.is_empty() || algorithm.any().is_some() {
        Ok(())
    } else {
        Err("malformed parameters".into())
    }
}

fn check_name(mut name: Reader<'_>) -> Checked {
    const INVALID: &str = "invalid RDNSequence";
    while !name.0.is_empty() {
        let mut set = Reader(name.read(SET).ok_or(INVALID)?);
        while !set.0.is_empty() {
            let mut attribute = set.sequence("invalid RDNSequence: invalid attribute")?;
            attribute.identifier().ok_or("invalid RDNSequence: invalid attribute type")?;
            let (tag, value) = attribute.any().ok_or("invalid RDNSequence: invalid attribute value")?;
            check_text(tag, value)
                .map_err(|problem| format!("invalid RDNSequence: invalid attribute value: {problem}"))?;
        }
    }
    Ok(())
}

/// Texts come in several encodings.
fn check_text(tag: u8, value: &[u8]) -> Checked {
    let (is_valid, problem) = match tag {
        0x14 => (true, ""),
        0x13 => (value.iter().all(|byte| is_printable(*byte)), "invalid PrintableString"),
        0x0c => (std::str::from_utf8(value).is_ok(), "invalid UTF-8 string"),
        0x1e => (is_wide(value), "invalid BMPString"),
        0x16 => (value.is_ascii(), "invalid IA5String"),
        0x12 => (value.iter().all(|byte| byte.is_ascii_digit() || *byte == b' '), "invalid NumericString"),
        _ => return Err(format!("unsupported string type: {tag}").into()),
    };
    if is_valid { Ok(()) } else { Err(problem.into()) }
}

/// Wildcards and ampersands are not allowed, but common.
fn is_printable(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b" '()*+,-./:=?&".contains(&byte)
}

/// Characters of two bytes, without pairs that stand for others.
fn is_wide(value: &[u8]) -> bool {
    let value = value.strip_suffix(&[0, 0]).filter(|_| value.len().is_multiple_of(2)).unwrap_or(value);
    let is_character = |pair: &[u8]| {
        let point = u16::from_be_bytes([pair[0], pair[1]]);
        !matches!(point, 0xfffe | 0xffff | 0xfdd0..=0xfdef | 0xd800..=0xdfff)
    };
    value.len().is_multiple_of(2) && value.chunks_exact(2).all(is_character)
}

fn check_validity(mut validity: Reader<'_>) -> Checked {
    for _ in 0..2 {
        match validity.0.first() {
            Some(&UTC_TIME) => validity.time(UTC_TIME).ok_or("malformed UTCTime")?,
            Some(&TIME) => validity.time(TIME).ok_or("malformed GeneralizedTime")?,
            _ => return Err("unsupported time format".into()),
        }
    }
    Ok(())
}

/// What newer versions have.
fn check_rest(body: &mut Reader<'_>, version: u8) -> Checked {
    if version == 0 {
        return Ok(());
    }
    body.optional(0x81).map_err(|()| "malformed issuerUniqueID")?;
    body.optional(0x82).map_err(|()| "malformed subjectUniqueID")?;
    if version < 2 {
        return Ok(());
    }
    let Some(extensions) = body.optional(0xa3).map_err(|()| "malformed extensions")? else { return Ok(()) };
    let mut extensions = Reader(extensions).sequence("malformed extensions")?;
    let mut seen = HashSet::new();
    while !extensions.0.is_empty() {
        let mut extension = extensions.sequence("malformed extension")?;
        let identifier = extension.identifier().ok_or("malformed extension OID field")?;
        if extension.0.first() == Some(&BOOLEAN) {
            let flag = extension.read(BOOLEAN).filter(|flag| matches!(flag, [0 | 0xff]));
            flag.ok_or("malformed extension critical field")?;
        }
        extension.read(BYTES).ok_or("malformed extension value field")?;
        if !seen.insert(identifier) {
            return Err("certificate contains duplicate extension".into());
        }
    }
    Ok(())
}

/// Reads what is encoded by DER.
#[derive(Clone, Copy)]
struct Reader<'d>(&'d [u8]);

impl<'d> Reader<'d> {
    /// The next element: its tag, and what is in it.
    fn any(&mut self) -> Option<(u8, &'d [u8])> {
        let [tag, length, rest @ ..] = self.0 else { return None };
        // Tags that do not fit into a byte are not used.
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (length, rest) = match length {
            0..=0x7f => (usize::from(*length), rest),
            0x81..=0x84 => {
                let (digits, rest) = rest.split_at_checked(usize::from(length - 0x80))?;
                let length = digits.iter().fold(0_usize, |length, digit| length << 8 | usize::from(*digit));
                // The shortest form is the only one.
                if digits.first() == Some(&0) || length < 0x80 {
                    return None;
                }
                (length, rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, content))
    }

    fn read(&mut self, tag: u8) -> Option<&'d [u8]> {
        let before = self.0;
        match self.any() {
            Some((found, content)) if found == tag => Some(content),
            _ => {
                self.0 = before;
                None
            }
        }
    }

    fn optional(&mut self, tag: u8) -> Result<Option<&'d [u8]>, ()> {
        if self.0.first() == Some(&tag) { self.read(tag).map(Some).ok_or(()) } else { Ok(None) }
    }

    fn sequence(&mut self, problem: &'static str) -> Checked<Self> {
        self.read(SEQUENCE).map(Self).ok_or(Cow::Borrowed(problem))
    }

    fn integer(&mut self) -> Option<&'d [u8]> {
        let digits = self.read(INTEGER)?;
        match digits {
            // DER has one way to write a number: no byte that only repeats the sign.
            [] | [0, 0..0x80, ..] | [0xff, 0x80..=0xff, ..] => None,
            _ => Some(digits),
        }
    }

    fn identifier(&mut self) -> Option<&'d [u8]> {
        let bytes = self.read(IDENTIFIER)?;
        // Each number ends with a byte without its highest bit, and begins with no empty one.
        let is_complete = bytes.last().is_some_and(|last| last & 0x80 == 0);
        let starts_empty = |window: &[u8]| window[0] & 0x80 == 0 && window[1] == 0x80;
        let has_empty = bytes.first() == Some(&0x80) || bytes.windows(2).any(starts_empty);
        (is_complete && !has_empty).then_some(bytes)
    }

    fn bits(&mut self) -> Option<()> {
        let [unused, bits @ ..] = self.read(BITS)? else { return None };
        let is_clear = |last: &u8| last & ((1 << unused) - 1) == 0;
        let fits = *unused < 8 && bits.last().map_or(*unused == 0, is_clear);
        fits.then_some(())
    }

    /// A time of the world, to the second. Times with two digits for the year may leave out the seconds.
    fn time(&mut self, tag: u8) -> Option<()> {
        let text = std::str::from_utf8(self.read(tag)?).ok()?.strip_suffix('Z')?;
        let is_short = tag == UTC_TIME;
        let century = match text.as_bytes().first()? {
            _ if !is_short => "",
            // Two digits mean 1950 to 2049 (RFC 5280).
            b'5'..=b'9' => "19",
            _ => "20",
        };
        let seconds = if is_short && text.len() == 10 { "00" } else { "" };
        let text = format!("{century}{text}{seconds}");
        let is_number = text.len() == 14 && text.bytes().all(|byte| byte.is_ascii_digit());
        let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
        let date = format!("{}-{}-{}", part(0, 4), part(4, 6), part(6, 8));
        let time = format!("{date}T{}:{}:{}Z", part(8, 10), part(10, 12), part(12, 14));
        (is_number && Timestamp::parse(&time).is_some()).then_some(())
    }
}
