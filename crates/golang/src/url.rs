//! Addresses, as Go's `net/url` takes them apart.
//!
//! Follows Go 1.26, `net/url/url.go`.

use crate::netip;
use crate::strconv::{quote, quote_bytes};

/// What an address consists of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Url {
    /// In lower case. Empty for a relative address.
    pub scheme: String,
    pub user: Option<User>,
    /// With its port, and without escapes.
    pub host: String,
    /// What follows the scheme if that is not a slash, as in `mailto:a@b`.
    pub opaque: String,
    /// As it was written. Empty if the address has a scheme and no slash behind it.
    pub path: String,
    /// As it was written.
    pub query: String,
    /// Without escapes.
    pub fragment: String,
}

/// Who logs in, without escapes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    name: Vec<u8>,
    password: Option<Vec<u8>>,
}

impl std::fmt::Display for User {
    /// Escapes what must be escaped, and shows the password, as Go's `Userinfo.String` does.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&escape(&self.name, b"-_.~$&+,;="))?;
        match &self.password {
            Some(password) => write!(f, ":{}", escape(password, b"-_.~$&+,;=")),
            None => Ok(()),
        }
    }
}

/// Go's `Parse`: any address, or what Go says is wrong with it.
pub fn parse(text: &str) -> Result<Url, String> {
    let (address, fragment) = text.split_once('#').unwrap_or((text, ""));
    // Go names the address without its fragment here, and with it below.
    let mut url = read(address, false).map_err(|reason| refused(address, &reason))?;
    url.fragment = to_text(&unescape(fragment, Part::Other).map_err(|reason| refused(text, &reason))?);
    Ok(url)
}

/// Go's `ParseRequestURI`: an address that has a scheme or begins with a slash. It has no fragment; what looks like one
/// belongs to the path or the query.
pub fn parse_request(text: &str) -> Result<Url, String> {
    read(text, true).map_err(|reason| refused(text, &reason))
}

/// A path without its escapes.
pub fn unescape_path(text: &str) -> Result<Vec<u8>, String> {
    unescape(text, Part::Other)
}

/// A name or value of a query without its escapes.
pub fn unescape_query(text: &str) -> Result<Vec<u8>, String> {
    unescape(text, Part::Query)
}

/// Text in which every byte is escaped that is not a letter, no digit and none of these.
pub fn escape(text: &[u8], kept: &[u8]) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text {
        if byte.is_ascii_alphanumeric() || kept.contains(byte) {
            escaped.push(char::from(*byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

fn refused(text: &str, reason: &str) -> String {
    format!("parse {}: {reason}", quote(text))
}

fn to_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn read(text: &str, is_request: bool) -> Result<Url, String> {
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() && is_request {
        return Err("empty url".to_owned());
    }
    // What `OPTIONS` may be asked for.
    if text == "*" {
        return Ok(Url { path: "*".to_owned(), ..Url::default() });
    }
    let (scheme, rest) = split_scheme(text).ok_or("missing protocol scheme")?;
    let (mut rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut url = Url { scheme: scheme.to_lowercase(), query: query.to_owned(), ..Url::default() };
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            rest.clone_into(&mut url.opaque);
            return Ok(url);
        }
        if is_request {
            return Err("invalid URI for request".to_owned());
        }
        // Such as `cache_object:a`, which looks like a scheme and is none.
        if rest.split('/').next().is_some_and(|first| first.contains(':')) {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    // Three slashes without a scheme are a path to Go.
    let may_have_authority = !url.scheme.is_empty() || !is_request && !rest.starts_with("///");
    if let Some(after) = rest.strip_prefix("//").filter(|_| may_have_authority) {
        let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));
        (url.user, url.host) = read_authority(authority, &url.scheme)?;
        rest = path;
    }
    // Only to refuse what has wrong escapes: callers get the path as it was written.
    unescape(rest, Part::Other)?;
    rest.clone_into(&mut url.path);
    Ok(url)
}

/// The scheme, which may be empty, and what follows; nothing if a scheme should be there.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            // Any other odd first character means that there is no scheme.
            b':' if index == 0 => return None,
            b':' => return Some((&text[..index], &text[index + 1..])),
            _ => break,
        }
    }
    Some(("", text))
}

/// What stands between the slashes and the path.
fn read_authority(text: &str, scheme: &str) -> Result<(Option<User>, String), String> {
    // At the last `@`, because passwords have some, too. The host is checked first, as in Go.
    let (user, host) = text.rsplit_once('@').map_or((None, text), |(user, host)| (Some(user), host));
    let host = read_host(host, scheme)?;
    let user = user.map(|user| {
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
        if !user.bytes().all(is_fine) {
            return Err("net/url: invalid userinfo".to_owned());
        }
        let (name, password) = user.split_once(':').map_or((user, None), |(name, it)| (name, Some(it)));
        let name = unescape(name, Part::Other)?;
        Ok(User { name, password: password.map(|it| unescape(it, Part::Other)).transpose()? })
    });
    Ok((user.transpose()?, host))
}

fn read_host(text: &str, scheme: &str) -> Result<String, String> {
    match text.rfind('[') {
        Some(0) => return read_literal(text),
        Some(_) => return Err("invalid IP-literal".to_owned()),
        None => {}
    }
    // For the web, everything after the first colon must be a port; other schemes, such as `postgresql`, may list
    // several hosts.
    let is_strict = matches!(scheme, "http" | "https");
    let colon = if is_strict { text.find(':') } else { text.rfind(':') };
    check_port(colon.map_or("", |at| &text[at..]))?;
    Ok(to_text(&unescape(text, Part::Host)?))
}

/// An IPv6 address in brackets, perhaps with a zone and a port.
fn read_literal(text: &str) -> Result<String, String> {
    let end = text.rfind(']').ok_or("missing ']' in host")?;
    let (inside, port) = (&text[1..end], &text[end + 1..]);
    check_port(port)?;
    // An escaped percent sign begins the zone, which may be escaped in other ways than a host.
    let (host, zone) = inside.split_at(inside.find("%25").unwrap_or(inside.len()));
    let mut address = to_text(&unescape(host, Part::Host)?);
    address.push_str(&to_text(&unescape(zone, Part::Zone)?));
    let parsed = netip::parse(&address).map_err(|reason| format!("invalid host: {reason}"))?;
    if parsed.0.is_ipv4() {
        return Err("invalid IP-literal".to_owned());
    }
    Ok(format!("[{address}]{port}"))
}

fn check_port(text: &str) -> Result<(), String> {
    let is_port = text.is_empty()
        || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    if is_port { Ok(()) } else { Err(format!("invalid port {} after host", quote(text))) }
}

/// A part of an address, which has its own rules for escapes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Host,
    Zone,
    /// Where a plus sign is a space.
    Query,
    Other,
}

impl Part {
    /// Whether this byte may be written with an escape.
    fn may_escape(self, byte: u8) -> bool {
        match self {
            // Only what is not ASCII, and the percent sign before a zone.
            Self::Host => byte >= 0x80 || byte == b'%',
            // Only what could stand there without an escape, and the space that Windows has in its zones.
            Self::Zone => byte == b'%' || byte == b' ' || is_host_byte(byte),
            Self::Query | Self::Other => true,
        }
    }

    fn is_host(self) -> bool {
        matches!(self, Self::Host | Self::Zone)
    }
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!$&'()*+,;=:[]<>\"-_.~".contains(&byte)
}

fn unescape(text: &str, part: Part) -> Result<Vec<u8>, String> {
    let bytes = text.as_bytes();
    let mut unescaped = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'%' => {
                // By bytes, as Go cuts it: what is shown may end within a letter.
                let shown = &bytes[at..bytes.len().min(at + 3)];
                let byte = hexadecimal(shown).filter(|byte| part.may_escape(*byte));
                unescaped.push(byte.ok_or_else(|| format!("invalid URL escape {}", quote_bytes(shown)))?);
                at += 3;
                continue;
            }
            b'+' if part == Part::Query => unescaped.push(b' '),
            byte if part.is_host() && byte.is_ascii() && !is_host_byte(byte) => {
                return Err(format!("invalid character {} in host name", quote_bytes(&[byte])));
            }
            byte => unescaped.push(byte),
        }
        at += 1;
    }
    Ok(unescaped)
}

/// The byte that `%xx` stands for.
fn hexadecimal(escape: &[u8]) -> Option<u8> {
    let [_, high, low] = escape else { return None };
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(high)? << 4 | digit(low)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Go 1.26 says.
    #[test]
    fn what_is_wrong_is_told_as_in_go() {
        for (text, reason) in [
            ("https://a/%zz", r#"parse "https://a/%zz": invalid URL escape "%zz""#),
            ("https://a%41/", r#"parse "https://a%41/": invalid URL escape "%41""#),
            ("https://u%zz@a/", r#"parse "https://u%zz@a/": invalid URL escape "%zz""#),
            ("https://a/b#%zz", r#"parse "https://a/b#%zz": invalid URL escape "%zz""#),
            ("https://a/%4\u{e9}", "parse \"https://a/%4\u{e9}\": invalid URL escape \"%4\\xc3\""),
            ("https://a/%", r#"parse "https://a/%": invalid URL escape "%""#),
            ("https://[::1/", r#"parse "https://[::1/": missing ']' in host"#),
            ("https://[::1]x/#f", r#"parse "https://[::1]x/": invalid port "x" after host"#),
            ("https://[1.2.3.4]/", r#"parse "https://[1.2.3.4]/": invalid IP-literal"#),
            ("https://[fe80::1%en0]/", r#"parse "https://[fe80::1%en0]/": invalid URL escape "%en""#),
            ("https://a:b:80/", r#"parse "https://a:b:80/": invalid port ":b:80" after host"#),
            ("https://a|b/", r#"parse "https://a|b/": invalid character "|" in host name"#),
            ("https://u ser@a/x", r#"parse "https://u ser@a/x": net/url: invalid userinfo"#),
            ("https://a/\u{7f}", r#"parse "https://a/\x7f": net/url: invalid control character in URL"#),
            (":x", r#"parse ":x": missing protocol scheme"#),
            ("1a:b", r#"parse "1a:b": first path segment in URL cannot contain colon"#),
        ] {
            assert_eq!(parse(text).unwrap_err(), reason, "{text}");
        }
        for text in ["", "a", "//a%zz", "a%zz"] {
            assert!(parse_request(text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_are_taken_apart() {
        let url = parse("HTTPS://u%40:p!@a.b:80/c%20d?e=%zz#f%21").unwrap();
        assert_eq!((url.scheme.as_str(), url.host.as_str()), ("https", "a.b:80"));
        assert_eq!((url.path.as_str(), url.query.as_str()), ("/c%20d", "e=%zz"));
        assert_eq!((url.fragment.as_str(), url.user.unwrap().to_string().as_str()), ("f!", "u%40:p%21"));
        assert_eq!(parse("https://[fe80::1%25en0]:7/").unwrap().host, "[fe80::1%en0]:7");
        assert_eq!(parse("https:///x").unwrap().host, "");
        assert_eq!(parse("https:a%zz").unwrap().path, "");
        assert_eq!(parse("x/y:z").unwrap().path, "x/y:z");
        assert_eq!(parse("https://a<b/").unwrap().host, "a<b");
        assert_eq!(parse("postgres://a:b,c:80/").unwrap().host, "a:b,c:80");
        for text in ["*", "/a#%41", "a:b", "https://a/b?c"] {
            assert!(parse_request(text).is_ok(), "{text}");
        }
    }
}
