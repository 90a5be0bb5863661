//! Addresses of the web, read as Go reads them.
//!
//! Follows k8s.io/apiserver 0.37.2, `pkg/cel/library/urls.go`; Go 1.26, `net/url/url.go`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use ferroplane_golang::url;

use super::{Answer, Context};
use crate::fault::Fault;
use crate::object::LibraryObject;
use crate::value::{MapKey, Value};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    text: String,
    parts: url::Url,
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Url {
    /// Must be absolute: with a scheme, or a path that begins with a slash.
    fn parse(text: &str) -> Result<Self, String> {
        // Twice, as in Kubernetes: the first knows no fragments and is strict, the second knows them.
        url::parse_request(text)?;
        Ok(Self { text: text.to_owned(), parts: url::parse(text)? })
    }

    fn port(&self) -> &str {
        match self.parts.host.rsplit_once(':') {
            Some((_, port)) if !port.contains(']') => port,
            _ => "",
        }
    }

    fn hostname(&self) -> &str {
        let host = match self.parts.host.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => host,
            _ => &self.parts.host,
        };
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }

    /// The path as it was written, unless something in it must be escaped.
    fn escaped_path(&self) -> String {
        let path = &self.parts.path;
        // What Go's `validEncoded` lets pass. The shorter set below is what Go does not escape in a path.
        let is_valid =
            path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:@[]%/".contains(&byte));
        if is_valid {
            return path.clone();
        }
        url::escape(&url::unescape_path(path).unwrap_or_default(), b"-_.~$&+,/:;=@")
    }

    /// Values by name. What cannot be read is left out.
    fn values(&self) -> Vec<(String, String)> {
        let text = |part: &str| String::from_utf8(url::unescape_query(part).ok()?).ok();
        // Since Go 1.17 a semicolon makes a pair invalid, and Kubernetes ignores the error.
        let pairs = self.parts.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
        pairs
            .filter_map(|pair| {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                Some((text(key)?, text(value)?))
            })
            .collect()
    }
}

/// What is wrong with an address, if anything.
pub(super) fn mistake(text: &str) -> Option<String> {
    url::parse_request(text).err()
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
        "getScheme" => context.text(url.parts.scheme.clone()),
        "getHost" => context.text(url.parts.host.clone()),
        "getHostname" => context.text(url.hostname().to_owned()),
        "getPort" => context.text(url.port().to_owned()),
        "getEscapedPath" => context.text(url.escaped_path()),
        _ => query(context, url),
    }
}

fn query<'v>(context: &Context<'_>, url: &Url) -> Answer<'v> {
    let mut lists: BTreeMap<String, Vec<Value<'v>>> = BTreeMap::new();
    // A pair as short as `a&` becomes an entry with a list in it, which is many times larger.
    context.meter.allocate(url.parts.query.len().saturating_mul(16))?;
    for (key, value) in url.values() {
        lists.entry(key).or_default().push(Value::text(value));
    }
    let entries =
        lists.into_iter().filter_map(|(key, list)| Some((MapKey::new(Value::text(key))?, Value::list(list))));
    Ok(Value::map(entries.collect()))
}
