//! Addresses to listen on, as people write them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs as _};

use serde::{Deserialize as _, Deserializer};

/// Read an address to listen on. For `clap`.
///
/// `IP:PORT` and `HOST:PORT` are what they say, `:PORT` is every address of the machine, as in Go, and a port alone is one of 127.0.0.1.
pub(crate) fn parse(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let expected = || {
        format!(
            "expected an address such as 127.0.0.1:6443, localhost:6443, [::1]:6443 or :6443, got `{text}`"
        )
    };
    if let Ok(port) = text.parse::<u16>() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    let (host, port) = text.rsplit_once(':').ok_or_else(expected)?;
    let port = port.parse::<u16>().map_err(|_| expected())?;
    if host.is_empty() {
        return Ok((Ipv4Addr::UNSPECIFIED, port).into());
    }
    // Something else than an IPv6 address without its brackets.
    if host.contains(':') {
        return Err(expected());
    }
    resolve(host, port)
}

fn resolve(host: &str, port: u16) -> Result<SocketAddr, String> {
    let found =
        (host, port).to_socket_addrs().map_err(|error| format!("cannot look up `{host}`: {error}"))?;
    let found: Vec<_> = found.collect();
    // Most clients try IPv4 first, and `localhost` is both.
    let first = found.iter().find(|address| matches!(address.ip(), IpAddr::V4(_))).or(found.first());
    first.copied().ok_or_else(|| format!("`{host}` has no address"))
}

/// The same, for `serde`.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    text.map(|text| parse(&text)).transpose().map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        for (text, address) in [
            ("127.0.0.1:6443", "127.0.0.1:6443"),
            ("localhost:6443", "127.0.0.1:6443"),
            (":6443", "0.0.0.0:6443"),
            ("6443", "127.0.0.1:6443"),
            ("[::1]:0", "[::1]:0"),
        ] {
            assert_eq!(parse(text).map(|address| address.to_string()).as_deref(), Ok(address), "{text}");
        }
        for text in ["", "localhost", "localhost:", "localhost:x", "::1:6443", "127.0.0.1:99999", "a b:1"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
