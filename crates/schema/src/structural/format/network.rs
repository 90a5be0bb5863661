//! Addresses and names of hosts.
//!
//! Follows kube-openapi of 2026-03-17, `pkg/validation/strfmt/default.go`; Go 1.26, `net/ip.go`.

use std::net::Ipv6Addr;
use std::sync::LazyLock;

use regex::Regex;

static LETTER_OR_SYMBOL: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^[\p{S}\p{L}]$").expect("the expression is fixed"));
static LETTER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^\p{L}$").expect("the expression is fixed"));

fn is_of(class: &Regex, character: char) -> bool {
    class.is_match(character.encode_utf8(&mut [0; 4]))
}

fn is_name_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || is_of(&LETTER_OR_SYMBOL, character)
}

/// One label with at most one dash, behind its first character; or labels with dots and a top-level domain.
pub(super) fn is_hostname(text: &str) -> bool {
    text.len() <= 255
        && text.split('.').all(|part| part.len() <= 63)
        && (is_single_label(text) || is_qualified(text))
}

fn is_single_label(text: &str) -> bool {
    let mut characters = text.chars();
    if !characters.next().is_some_and(is_name_character) {
        return false;
    }
    let rest = characters.as_str();
    // The original's expression has `-?` once and not per character.
    let rest = rest.strip_prefix('-').unwrap_or(rest);
    rest.chars().count() <= 62 && rest.chars().all(is_name_character)
}

fn is_qualified(text: &str) -> bool {
    let Some((labels, domain)) = text.rsplit_once('.') else { return false };
    let is_letter = |character: char| character.is_ascii_alphabetic() || is_of(&LETTER, character);
    (2..=63).contains(&domain.chars().count())
        && domain.chars().all(is_letter)
        && labels.split('.').all(is_label)
}

fn is_label(text: &str) -> bool {
    let is_edge = |character: Option<char>| character.is_some_and(is_name_character);
    text.chars().count() <= 63
        && is_edge(text.chars().next())
        && is_edge(text.chars().next_back())
        && text.chars().all(|character| character == '-' || is_name_character(character))
}

/// An address with a dot in it, be it of the fourth version or the sixth. Leading zeros are tolerated.
pub(super) fn is_ipv4(text: &str) -> bool {
    text.contains('.')
        && match text.find(['.', ':']) {
            Some(first) if text.as_bytes()[first] == b'.' => sloppy_ipv4(text),
            _ => sloppy_ipv6(text),
        }
}

pub(super) fn is_ipv6(text: &str) -> bool {
    text.contains(':') && text.parse::<Ipv6Addr>().is_ok()
}

/// An address and the length of its prefix.
pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let most = if sloppy_ipv4(address) {
        32
    } else if sloppy_ipv6(address) {
        128
    } else {
        return false;
    };
    decimal(length).is_some_and(|length| length <= most)
}

fn decimal(text: &str) -> Option<u32> {
    // `big` in Go's parser of addresses, which stops counting there.
    const TOO_LARGE: u32 = 0xff_ffff;
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok().filter(|number| *number < TOO_LARGE))?
}

fn sloppy_ipv4(text: &str) -> bool {
    let parts: Vec<_> = text.split('.').collect();
    parts.len() == 4 && parts.iter().all(|part| decimal(part).is_some_and(|number| number <= 255))
}

fn sloppy_ipv6(text: &str) -> bool {
    let (head, tail, has_gap) = match text.split_once("::") {
        Some((head, tail)) => (head, tail, true),
        None => (text, "", false),
    };
    let (Some(before), Some(after)) = (count_groups(head, !has_gap), count_groups(tail, true)) else {
        return false;
    };
    // A gap stands for at least one group.
    if has_gap { before + after < 8 } else { before + after == 8 }
}

/// How many groups of sixteen bits there are, if they are all right.
fn count_groups(text: &str, may_end_in_ipv4: bool) -> Option<usize> {
    if text.is_empty() {
        return Some(0);
    }
    let groups: Vec<_> = text.split(':').collect();
    let mut count = 0;
    for (index, group) in groups.iter().enumerate() {
        let is_last = index + 1 == groups.len();
        if is_last && may_end_in_ipv4 && group.contains('.') {
            count += if sloppy_ipv4(group) { 2 } else { return None };
        } else if u32::from_str_radix(group, 16)
            .is_ok_and(|number| number <= 0xffff && !group.starts_with('+'))
        {
            count += 1;
        } else {
            return None;
        }
    }
    Some(count)
}

/// Six, eight or twenty bytes, in pairs of digits, in groups of four, or without separators.
pub(super) fn is_mac(text: &str) -> bool {
    let bytes = text.as_bytes();
    if matches!(bytes.len(), 12 | 16 | 40) && bytes.iter().all(u8::is_ascii_hexdigit) {
        return true;
    }
    if bytes.len() < 14 {
        return false;
    }
    let (group, separator) = match (bytes[2], bytes[4]) {
        (separator @ (b':' | b'-'), _) => (2, separator),
        (_, b'.') => (4, b'.'),
        _ => return false,
    };
    if !(bytes.len() + 1).is_multiple_of(group + 1) {
        return false;
    }
    let count = (bytes.len() + 1) / (group + 1) * group / 2;
    matches!(count, 6 | 8 | 20)
        && bytes.chunks(group + 1).all(|chunk| {
            chunk[..group].iter().all(u8::is_ascii_hexdigit)
                && chunk.get(group).is_none_or(|last| *last == separator)
        })
}
