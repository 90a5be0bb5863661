//! Addresses of the web, read as Go reads them.
//!
//! Follows k8s.io/apiserver 0.37.2, `pkg/cel/library/urls.go`; Go 1.26, `net/url/url.go`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::{Answer, Context, address};
use crate::fault::Fault;
use crate::object::LibraryObject;
use crate::value::{Key, Value};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    text: String,
    scheme: String,
    host: String,
    path: String,
    query: String,
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Url {
    /// Must be absolute: with a scheme, or a path that begins with a slash.
    fn parse(text: &str) -> Result<Self, String> {
        // A fragment is not told apart at first, so that what is wrong with it is found.
        Self::parse_part(text, text, true)?;
        let before_fragment = text.split('#').next().unwrap_or(text);
        Self::parse_part(text, before_fragment, false)
    }

    fn parse_part(text: &str, part: &str, is_request: bool) -> Result<Self, String> {
        let refused = |reason: &str| format!("parse {}: {reason}", go_quote(text));
        if part.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return Err(refused("net/url: invalid control character in URL"));
        }
        if part.is_empty() && is_request {
            return Err(refused("empty url"));
        }
        let (scheme, rest) = split_scheme(part).map_err(refused)?;
        let (mut rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut host = String::new();
        let scheme = scheme.to_ascii_lowercase();
        if !rest.starts_with('/') {
            if scheme.is_empty() && is_request && part != "*" {
                return Err(refused("invalid URI for request"));
            }
            let path = if scheme.is_empty() { rest } else { "" };
            return Ok(Self::new(text, scheme, host, path, query));
        }
        let has_authority = !scheme.is_empty() || !is_request && !rest.starts_with("///");
        if has_authority && let Some(after) = rest.strip_prefix("//") {
            let end = after.find('/').unwrap_or(after.len());
            host = authority(&scheme, &after[..end]).map_err(|reason| refused(&reason))?;
            rest = &after[end..];
        }
        unescape(rest, false).map_err(|reason| refused(&reason))?;
        Ok(Self::new(text, scheme, host, rest, query))
    }

    fn new(text: &str, scheme: String, host: String, path: &str, query: &str) -> Self {
        Self { text: text.to_owned(), scheme, host, path: path.to_owned(), query: query.to_owned() }
    }

    fn port(&self) -> &str {
        match self.host.rsplit_once(':') {
            Some((_, port)) if !port.contains(']') => port,
            _ => "",
        }
    }

    fn hostname(&self) -> &str {
        let host = match self.host.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => host,
            _ => &self.host,
        };
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }

    /// The path as it was written, unless something in it must be escaped.
    fn escaped_path(&self) -> String {
        let is_valid = self
            .path
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:@[]%/".contains(&byte));
        if is_valid {
            return self.path.clone();
        }
        let path = unescape(&self.path, false).unwrap_or_default();
        let mut escaped = String::new();
        for byte in path {
            match byte {
                _ if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte) => {
                    escaped.push(char::from(byte));
                }
                _ => escaped.push_str(&format!("%{byte:02X}")),
            }
        }
        escaped
    }

    /// Values by name. What cannot be read is left out.
    fn values(&self) -> Vec<(String, String)> {
        let text = |part: &str| String::from_utf8(unescape(part, true).ok()?).ok();
        // Since Go 1.17 a semicolon makes a pair invalid, and Kubernetes ignores the error.
        let pairs = self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
        pairs
            .filter_map(|pair| {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                Some((text(key)?, text(value)?))
            })
            .collect()
    }
}

/// Text in double quotes.
fn go_quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            _ if (character as u32) < 0x20 || character == '\u{7f}' => {
                quoted.push_str(&format!("\\x{:02x}", character as u32));
            }
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

fn split_scheme(text: &str) -> Result<(&str, &str), &'static str> {
    for (at, character) in text.char_indices() {
        match character {
            _ if character.is_ascii_alphabetic() => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return Err("missing protocol scheme"),
            ':' => return Ok((&text[..at], &text[at + 1..])),
            _ => return Ok(("", text)),
        }
    }
    Ok(("", text))
}

/// The host of what stands between the slashes.
fn authority(scheme: &str, text: &str) -> Result<String, String> {
    let (user, host) = match text.rsplit_once('@') {
        Some((user, host)) => (user, host),
        None => ("", text),
    };
    let is_user = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
    if !user.chars().all(is_user) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    unescape(user, false)?;
    let port = match host.rfind('[') {
        Some(0) => {
            let end = host.rfind(']').ok_or("missing ']' in host")?;
            &host[end + 1..]
        }
        Some(_) => return Err("invalid IP-literal".to_owned()),
        // For these schemes everything after the first colon must be a port; others, such as `postgresql`,
        // may list several hosts.
        None if matches!(scheme, "http" | "https") => host.find(':').map_or("", |at| &host[at..]),
        None => host.rfind(':').map_or("", |at| &host[at..]),
    };
    let is_port = port.is_empty()
        || port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    if !is_port {
        return Err(format!("invalid port {} after host", go_quote(port)));
    }
    if let Some(wrong) = host
        .chars()
        .find(|c| c.is_ascii() && !c.is_ascii_alphanumeric() && !"-_.~!$&'()*+,;=:[]<>\"%".contains(*c))
    {
        return Err(format!("invalid character {} in host name", go_quote(&wrong.to_string())));
    }
    // In a host, only what is not ASCII is escaped, and the percent sign itself.
    for (at, _) in host.match_indices('%') {
        let escape = host.get(at..at + 3).unwrap_or_default();
        if escape != "%25" && escape.get(1..).unwrap_or_default().starts_with(|c| ('0'..='7').contains(&c)) {
            return Err(format!("invalid URL escape {}", go_quote(escape)));
        }
    }
    let unescaped = String::from_utf8(unescape(host, false)?).map_err(|_| "invalid URL escape".to_owned())?;
    // Only an IPv6 address may be in brackets.
    if let Some(end) = unescaped.strip_prefix('[').and_then(|inner| inner.rfind(']')) {
        let (address, _) =
            address::parse(&unescaped[1..=end]).map_err(|reason| format!("invalid host: {reason}"))?;
        if address.is_ipv4() {
            return Err("invalid IP-literal".to_owned());
        }
    }
    Ok(unescaped)
}

fn unescape(text: &str, plus_is_space: bool) -> Result<Vec<u8>, String> {
    let bytes = text.as_bytes();
    let mut result = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'%' => {
                let digits = text.get(at + 1..at + 3);
                let value = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
                let is_hex = digits.is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
                let Some(value) = value.filter(|_| is_hex) else {
                    let shown: String = text[at..].chars().take(3).collect();
                    return Err(format!("invalid URL escape {}", go_quote(&shown)));
                };
                result.push(value);
                at += 3;
                continue;
            }
            b'+' if plus_is_space => result.push(b' '),
            byte => result.push(byte),
        }
        at += 1;
    }
    Ok(result)
}

/// What is wrong with an address, if anything.
pub(super) fn mistake(text: &str) -> Option<String> {
    Url::parse_part(text, text, true).err()
}

pub(super) fn url<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    let url = match values {
        [Value::String(text)] if context.function == "isURL" => {
            return Ok(Value::Bool(mistake(text.as_str()).is_none()));
        }
        [Value::String(text)] => {
            let parsed = Url::parse(text.as_str());
            let parsed = parsed.map_err(|reason| {
                Fault::new(format!("URL parse error during conversion from string: {reason}"))
            })?;
            return Ok(Value::Object(Arc::new(LibraryObject::Url(parsed))));
        }
        [Value::Object(object)] => match &**object {
            LibraryObject::Url(url) => url,
            _ => return Err(Fault::no_such_overload()),
        },
        _ => return Err(Fault::no_such_overload()),
    };
    match context.function {
        "getScheme" => context.text(url.scheme.clone()),
        "getHost" => context.text(url.host.clone()),
        "getHostname" => context.text(url.hostname().to_owned()),
        "getPort" => context.text(url.port().to_owned()),
        "getEscapedPath" => context.text(url.escaped_path()),
        _ => query(context, url),
    }
}

fn query<'v>(context: &Context<'_>, url: &Url) -> Answer<'v> {
    let mut lists: BTreeMap<String, Vec<Value<'v>>> = BTreeMap::new();
    context.meter.allocate(url.query.len().saturating_mul(16))?;
    for (key, value) in url.values() {
        lists.entry(key).or_default().push(Value::text(value));
    }
    let entries =
        lists.into_iter().filter_map(|(key, list)| Some((Key::new(Value::text(key))?, Value::list(list))));
    Ok(Value::map(entries.collect()))
}
