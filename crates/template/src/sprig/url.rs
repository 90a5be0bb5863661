//! Addresses: taken apart and put together.
//!
//! Follows sprig 3.3.0, `url.go`, and Go 1.26, `net/url/url.go` (`String`).

use std::collections::BTreeMap;
use std::fmt::Display;

use ferroplane_golang::fmt::to_text as lossy;
use ferroplane_golang::url::{self, escape, unescape_path};

use super::arguments::{NIL_POINTER, characters, map};
use super::{function, reflection};
use crate::{Context, Failure, Function, Map, Type, Value};

use Type::String;

pub(super) const FUNCTIONS: &[Function] = &[
    function("urlParse", &[String], Type::MAP, url_parse),
    function("urlJoin", &[Type::MAP], String, url_join),
];

fn url_parse(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let refused = |error: std::string::String| Failure::new(format!("unable to parse url: {error}"));
    let url = url::parse(&characters(args, 0)).map_err(refused)?;
    let path = unescape_path(&url.path).unwrap_or_default();
    let user = url.user.as_ref().map(ToString::to_string).unwrap_or_default();
    let parts = [
        ("scheme", Value::text(url.scheme.as_str())),
        ("host", Value::text(url.host.as_str())),
        ("hostname", Value::text(hostname(&url.host))),
        ("path", Value::text(path)),
        ("query", Value::text(url.query.as_str())),
        ("opaque", Value::text(url.opaque.as_str())),
        ("fragment", Value::text(url.fragment.as_str())),
        ("userinfo", Value::text(user)),
    ];
    ctx.map(BTreeMap::from(parts.map(|(name, part)| (name.into(), part))))
}

/// A host without its port, and without brackets.
fn hostname(host: &str) -> &str {
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let host = match host.rsplit_once(':') {
        // A colon inside of brackets belongs to the address.
        Some((host, port)) if is_port(port) && !port.contains(']') => host,
        _ => host,
    };
    host.strip_prefix('[').and_then(|inside| inside.strip_suffix(']')).unwrap_or(host)
}

fn url_join(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let parts = map(args, 0)?;
    let part = |name: &str| part(parts, name);
    let [scheme, host, path, query, opaque, fragment] =
        [part("scheme")?, part("host")?, part("path")?, part("query")?, part("opaque")?, part("fragment")?];
    let userinfo = part("userinfo")?;
    let user = if userinfo.is_empty() { None } else { read_user(&userinfo)? };
    let mut out = std::string::String::new();
    if !scheme.is_empty() {
        out = format!("{}:", lossy(&scheme));
    }
    if opaque.is_empty() {
        push_location(&mut out, !scheme.is_empty(), user.as_ref(), &host, &path);
    } else {
        out.push_str(&lossy(&opaque));
    }
    if !query.is_empty() {
        out.push_str(&format!("?{}", lossy(&query)));
    }
    if !fragment.is_empty() {
        // Each part of an address has its own set of bytes that Go leaves as they are (`shouldEscape`).
        out.push_str(&format!("#{}", escape(&fragment, b"-_.~$&+,/:;=?@!()*")));
    }
    Ok(Value::text(out))
}

fn part(parts: &Map, name: &str) -> Result<Vec<u8>, Failure> {
    match parts.get(name.as_bytes()) {
        None => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(text.to_vec()),
        Some(Value::Nil) => Err(Failure::new(NIL_POINTER)),
        Some(other) => {
            let kind = reflection::kind(&other);
            Err(Failure::new(format!("unable to parse {name} key, must be of type string, but {kind} found")))
        }
    }
}

fn read_user(userinfo: &[u8]) -> Result<Option<url::User>, Failure> {
    let refused =
        |error: std::string::String| Failure::new(format!("unable to parse userinfo in dict: {error}"));
    // sprig lets the parser for whole addresses read it, so that its messages are about an address.
    Ok(url::parse(&format!("proto://{}@host", lossy(userinfo))).map_err(refused)?.user)
}

/// User, host and path.
fn push_location(
    out: &mut std::string::String,
    has_scheme: bool,
    user: Option<&impl Display>,
    host: &[u8],
    path: &[u8],
) {
    if has_scheme || !host.is_empty() || user.is_some() {
        if !host.is_empty() || !path.is_empty() || user.is_some() {
            out.push_str("//");
        }
        if let Some(user) = user {
            out.push_str(&format!("{user}@"));
        }
        out.push_str(&escape(host, b"-_.~!$&'()*+,;=:[]<>\""));
    }
    // `OPTIONS *` has this path, and Go does not escape it.
    let path = if path == b"*" { "*".to_owned() } else { escape(path, b"-_.~$&+,/:;=@") };
    if !path.is_empty() && !path.starts_with('/') && !host.is_empty() {
        out.push('/');
    }
    // A colon in the first part would make it a scheme.
    if out.is_empty() && path.split('/').next().is_some_and(|first| first.contains(':')) {
        out.push_str("./");
    }
    out.push_str(&path);
}
