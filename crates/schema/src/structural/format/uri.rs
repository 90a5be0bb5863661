//! Addresses of requests, as Go reads them.
//!
//! Follows Go 1.26, `net/url/url.go`.

use ferroplane_golang::url::split_scheme;

/// Whether a request could be sent there.
pub(in crate::structural) fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return false;
    }
    // What `OPTIONS` may be asked for; `ParseRequestURI` takes it.
    if text == "*" {
        return true;
    }
    let Some((scheme, rest)) = split_scheme(text) else { return false };
    let rest = rest.split_once('?').map_or(rest, |(path, _)| path);
    if !rest.starts_with('/') {
        return !scheme.is_empty();
    }
    let path = match rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
        Some(after) => {
            let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));
            if !is_authority(authority, &scheme.to_ascii_lowercase()) {
                return false;
            }
            path
        }
        None => rest,
    };
    has_good_escapes(path)
}

fn is_authority(text: &str, scheme: &str) -> bool {
    // At the last `@`, as Go splits it.
    let (user, host) = text.rsplit_once('@').map_or((None, text), |(user, host)| (Some(user), host));
    is_host(host, scheme) && user.is_none_or(|user| user.bytes().all(is_user_byte) && has_good_escapes(user))
}

fn is_user_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte)
}

fn is_host(text: &str, scheme: &str) -> bool {
    if text.starts_with('[') {
        let Some(end) = text.rfind(']') else { return false };
        let (inside, port) = (&text[1..end], &text[end + 1..]);
        let (address, zone) =
            inside.split_once("%25").map_or((inside, None), |(address, zone)| (address, Some(zone)));
        return is_port(port)
            && is_bracketed(address)
            && zone.is_none_or(|zone| !zone.is_empty() && is_zone(zone));
    }
    let (name, port) = text.rfind(':').map_or((text, ""), |colon| text.split_at(colon));
    // Only for the web is it known that a name has no colons.
    let may_have_colons = !matches!(scheme, "http" | "https");
    is_port(port) && (may_have_colons || !name.contains(':')) && is_host_text(name)
}

/// Only addresses of the sixth version stand in brackets.
fn is_bracketed(address: &str) -> bool {
    is_host_text(address) && address.parse::<std::net::Ipv6Addr>().is_ok()
}

fn is_port(text: &str) -> bool {
    text.is_empty()
        || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_host_byte(byte: u8) -> bool {
    byte >= 0x80 || byte.is_ascii_alphanumeric() || b"!$&'()*+,;=:[]<>\"-_.~".contains(&byte)
}

/// In hosts, only bytes beyond ASCII may be escaped.
fn is_host_text(text: &str) -> bool {
    escapes(text, is_host_byte, |byte| byte >= 0x80 || byte == b'%')
}

fn is_zone(text: &str) -> bool {
    escapes(text, is_host_byte, |byte| byte == b'%' || byte == b' ' || is_host_byte(byte))
}

fn has_good_escapes(text: &str) -> bool {
    escapes(text, |_| true, |_| true)
}

/// Whether all bytes may be there, and all escapes are well formed and may be there.
fn escapes(text: &str, plain: fn(u8) -> bool, escaped: fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    let mut index = 0;
    while index < bytes.len() {
        if bytes[index] == b'%' {
            let digits =
                text.get(index + 1..index + 3).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
            let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) else {
                return false;
            };
            if !escaped(byte) {
                return false;
            }
            index += 3;
        } else if plain(bytes[index]) {
            index += 1;
        } else {
            return false;
        }
    }
    true
}
