//! Where a function is served.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// As DNS has it.
const LONGEST_NAME: usize = 253;

/// Where a function is served: `host:port`, or `dns:///host:port` for every address of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    text: String,
    host: String,
    port: u16,
    is_dns: bool,
}

/// Text that is not a target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the address of a function: expected `host:port` or `dns:///host:port`")]
pub struct BadTarget(String);

impl Target {
    /// The host as URIs want it: an IPv6 address has its brackets.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Whether it is on this machine, whatever a name server says.
    pub fn is_loopback(&self) -> bool {
        let host = self.host.trim_matches(['[', ']']);
        host.eq_ignore_ascii_case("localhost")
            || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
    }

    /// Whether calls are spread over all addresses of the name. An address has only itself, and this machine
    /// is one place under whatever addresses.
    pub(crate) fn is_balanced(&self) -> bool {
        let host = self.host.trim_matches(['[', ']']);
        self.is_dns && host.parse::<IpAddr>().is_err() && host != "localhost"
    }
}

impl FromStr for Target {
    type Err = BadTarget;

    fn from_str(text: &str) -> Result<Self, BadTarget> {
        let bad = || BadTarget(text.to_owned());
        let (address, is_dns) = match text.strip_prefix("dns:") {
            // `dns:host`, `dns:/host` and `dns:///host` all mean the default resolver in gRPC; an authority
            // between the slashes is not supported.
            Some(rest) => (rest.trim_start_matches('/'), true),
            None => (text.strip_prefix("passthrough:///").unwrap_or(text), false),
        };
        let (host, port) = address.rsplit_once(':').ok_or_else(bad)?;
        let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(bad)?;
        if !is_name(host) && !is_bracketed(host) {
            return Err(bad());
        }
        Ok(Self { text: text.to_owned(), host: host.to_owned(), port, is_dns })
    }
}

fn is_name(host: &str) -> bool {
    (1..=LONGEST_NAME).contains(&host.len())
        && host.chars().all(|letter| letter.is_ascii_alphanumeric() || "-._".contains(letter))
}

fn is_bracketed(host: &str) -> bool {
    let inside = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    inside.is_some_and(|address| address.parse::<Ipv6Addr>().is_ok())
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_on_this_machine_are_known() {
        let is_loopback = |text: &str| text.parse::<Target>().unwrap().is_loopback();
        for text in ["localhost:1", "LOCALHOST:1", "127.8.8.8:1", "dns:///[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(is_loopback(text), "{text}");
        }
        for text in ["fn.ns:1", "localhost.example.org:1", "10.0.0.1:1", "0.0.0.0:1", "dns:///fn:1"] {
            assert!(!is_loopback(text), "{text}");
        }
    }

    #[test]
    fn addresses_and_names_are_told_apart() {
        for (text, host, is_balanced) in [
            ("localhost:9443", "localhost", false),
            ("dns:///fn.ns:9443", "fn.ns", true),
            ("dns:fn.ns:9443", "fn.ns", true),
            ("fn.ns:9443", "fn.ns", false),
            ("dns:///127.0.0.1:9443", "127.0.0.1", false),
            ("[::1]:9443", "[::1]", false),
            ("dns:///[::1]:9443", "[::1]", false),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!(
                (target.host(), target.port(), target.is_balanced()),
                (host, 9443, is_balanced),
                "{text}"
            );
        }
    }

    #[test]
    fn other_text_is_refused() {
        let endless = format!("{}:1", "a".repeat(300));
        for text in [
            "",
            &endless,
            "localhost",
            "localhost:",
            ":9443",
            "http://localhost:9443",
            "a b:1",
            "localhost:99999",
            "localhost:0",
            "::1:1",
            "[name]:1",
            "[::1:1",
            "a{b}:1",
            "ä:1",
            "dns://8.8.8.8/name:1",
        ] {
            assert_eq!(text.parse::<Target>().unwrap_err(), BadTarget(text.to_owned()));
        }
    }
}
