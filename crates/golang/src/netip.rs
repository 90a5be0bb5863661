//! Why something is not an address of the internet, in the words of Go. Whether it is one, the standard library knows.
//!
//! Follows Go 1.26, `net/netip/netip.go`.

use std::net::IpAddr;

use crate::strconv::quote;

/// The address and its zone, if it has one.
pub fn parse(text: &str) -> Result<(IpAddr, Option<&str>), String> {
    let refused = |(reason, at): (&str, &str)| {
        let place = if at.is_empty() { String::new() } else { format!(" (at {})", quote(at)) };
        format!("ParseAddr({}): {reason}{place}", quote(text))
    };
    // Checked by hand for the reason, then parsed by the standard library for the value: the library gives no
    // reason that Go would give.
    check(text).map_err(refused)?;
    let (address, zone) = match text.split_once('%') {
        Some((address, zone)) => (address, Some(zone)),
        None => (text, None),
    };
    let address = address.parse().map_err(|_| refused(("unable to parse IP", "")))?;
    Ok((address, zone))
}

/// What is wrong, and what is left of the text where it is noticed.
type Wrong<'t> = (&'static str, &'t str);

fn check(text: &str) -> Result<(), Wrong<'_>> {
    // The first such character decides for Go which kind of address it is.
    match text.chars().find(|c| matches!(c, '.' | ':' | '%')) {
        Some('.') => check_ipv4(text),
        Some(':') => check_ipv6(text),
        Some(_) => Err(("missing IPv6 address", "")),
        None => Err(("unable to parse IP", "")),
    }
}

fn check_ipv4(text: &str) -> Result<(), Wrong<'_>> {
    const EMPTY: &str = "IPv4 field must have at least one digit";
    let (mut value, mut digits, mut fields) = (0, 0, 0);
    for (at, character) in text.char_indices() {
        match character {
            '0'..='9' if digits == 1 && value == 0 => {
                return Err(("IPv4 field has octet with leading zero", ""));
            }
            '0'..='9' => {
                value = value * 10 + (character as u32 - '0' as u32);
                digits += 1;
                if value > 255 {
                    return Err(("IPv4 field has value >255", ""));
                }
            }
            // A point at the end is found here and not after the loop, as in Go, which decides what the
            // message shows.
            '.' if digits == 0 || at + 1 == text.len() => return Err((EMPTY, &text[at..])),
            '.' if fields == 3 => return Err(("IPv4 address too long", "")),
            '.' => (value, digits, fields) = (0, 0, fields + 1),
            _ => return Err(("unexpected character", &text[at..])),
        }
    }
    if fields < 3 { Err(("IPv4 address too short", "")) } else { Ok(()) }
}

fn check_ipv6(text: &str) -> Result<(), Wrong<'_>> {
    let (mut rest, zone) = text.split_once('%').map_or((text, None), |(rest, zone)| (rest, Some(zone)));
    if zone == Some("") {
        return Err(("zone must be a non-empty string", ""));
    }
    let mut has_ellipsis = false;
    if let Some(after) = rest.strip_prefix("::") {
        has_ellipsis = true;
        rest = after;
    }
    let mut groups = 0;
    while !rest.is_empty() && groups < 8 {
        let digits = rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len());
        match digits {
            0 => return Err(("each colon-separated field must have at least one digit", rest)),
            1..=4 => {}
            _ => return Err(("each group must have 4 or less digits", rest)),
        }
        if rest[digits..].starts_with('.') {
            return check_embedded(rest, groups, has_ellipsis);
        }
        groups += 1;
        rest = &rest[digits..];
        if rest.is_empty() {
            break;
        }
        let Some(after) = rest.strip_prefix(':') else {
            return Err(("unexpected character, want colon", rest));
        };
        if after.is_empty() {
            return Err(("colon must be followed by more characters", rest));
        }
        rest = after;
        if let Some(after) = rest.strip_prefix(':') {
            if has_ellipsis {
                return Err(("multiple :: in address", rest));
            }
            has_ellipsis = true;
            rest = after;
        }
    }
    match (rest.is_empty(), groups < 8, has_ellipsis) {
        (false, ..) => Err(("trailing garbage after address", rest)),
        (true, true, false) => Err(("address string too short", "")),
        (true, false, true) => Err(("the :: must expand to at least one field of zeros", "")),
        _ => Ok(()),
    }
}

/// An IPv4 address in place of the last two groups.
fn check_embedded(rest: &str, groups: usize, has_ellipsis: bool) -> Result<(), Wrong<'_>> {
    // The checks come in Go's order, which decides which of several mistakes is reported.
    if !has_ellipsis && groups != 6 {
        return Err(("embedded IPv4 address must replace the final 2 fields of the address", rest));
    }
    if groups + 2 > 8 {
        return Err(("too many hex fields to fit an embedded IPv4 at the end of the address", rest));
    }
    check_ipv4(rest)?;
    match (groups + 2 < 8, has_ellipsis) {
        (true, false) => Err(("address string too short", "")),
        (false, true) => Err(("the :: must expand to at least one field of zeros", "")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_quoted_as_go_quotes_it() {
        assert_eq!(
            parse("1.2.3.\u{1}\u{ad}").unwrap_err(),
            r#"ParseAddr("1.2.3.\x01\u00ad"): unexpected character (at "\x01\u00ad")"#
        );
        assert_eq!(parse("fe80::1%en0"), Ok(("fe80::1".parse().unwrap(), Some("en0"))));
    }
}
