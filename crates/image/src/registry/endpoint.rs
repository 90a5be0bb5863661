//! Where the API of a registry is, and where its redirects may lead.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::PoisonError;

use http::Uri;
use http::uri::{Authority, Scheme};

use super::connector::bare;
use super::{Failure, Registry};

/// Docker's registry, whose API is at another host than its images are named by.
const ALIASES: [(&str, &str); 1] = [("docker.io", "registry-1.docker.io")];

/// Where the API of a registry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// As references name it.
    pub(super) registry: String,
    scheme: Scheme,
    authority: Authority,
}

impl Registry {
    /// Where the API of a registry is. What is on the loopback is asked once whether it speaks TLS.
    pub(super) async fn endpoint(&self, registry: &str) -> Result<Endpoint, Failure> {
        let endpoints = &self.inner.endpoints;
        if let Some(known) = endpoints.lock().unwrap_or_else(PoisonError::into_inner).get(registry) {
            return Ok(known.clone());
        }
        let host = ALIASES.iter().find(|(name, _)| *name == registry).map_or(registry, |(_, host)| host);
        let malformed = |_| Failure::Protocol { host: registry.to_owned(), what: "the name" };
        let authority: Authority = host.parse().map_err(malformed)?;
        let is_plain = self.is_listed_as_plain(registry) || self.is_plain_loopback(&authority).await?;
        let scheme = if is_plain { Scheme::HTTP } else { Scheme::HTTPS };
        let endpoint = Endpoint { registry: registry.to_owned(), scheme, authority };
        let mut known = endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(registry.to_owned(), endpoint.clone());
        Ok(endpoint)
    }

    pub(super) fn is_listed_as_plain(&self, registry: &str) -> bool {
        self.options().plain_http.iter().any(|listed| listed.eq_ignore_ascii_case(registry))
    }

    async fn is_plain_loopback(&self, authority: &Authority) -> Result<bool, Failure> {
        if !is_loopback(authority.host()) {
            return Ok(false);
        }
        let port = authority.port_u16().unwrap_or(443);
        self.inner
            .http
            .speaks_plainly(authority.host(), port)
            .await
            .map_err(|error| Failure::Unreachable { host: authority.to_string(), source: Box::new(error) })
    }

    /// Where a redirect leads, if it may lead there.
    pub(super) fn redirected(&self, endpoint: &Endpoint, from: &Uri, to: &str) -> Result<Uri, Failure> {
        let refuse = |problem| Failure::Redirect { host: super::http_client::host(from), problem };
        let target = resolve(from, to).ok_or_else(|| refuse("to something that is not an address"))?;
        let Some(authority) = target.authority() else {
            return Err(refuse("to an address without a host"));
        };
        if endpoint.is_origin_of(&target) {
            return Ok(target);
        }
        if authority.as_str().contains('@') {
            return Err(refuse("to an address with a password in it"));
        }
        let is_local = is_loopback(endpoint.authority.host());
        if target.scheme() != Some(&Scheme::HTTPS) {
            let may_be_plain = self.is_listed_as_plain(authority.as_str())
                || (is_local && is_loopback(authority.host()) && target.scheme() == Some(&Scheme::HTTP));
            return if may_be_plain {
                Ok(target)
            } else {
                Err(refuse("to plain HTTP, which is not allowed"))
            };
        }
        // A remote registry must not lead us to servers on this machine or in its network.
        if !is_local && is_internal(authority.host()) {
            return Err(refuse("to an address of this machine or its link"));
        }
        Ok(target)
    }
}

impl Endpoint {
    pub(super) fn is_plain(&self) -> bool {
        self.scheme == Scheme::HTTP
    }

    pub(super) fn is_local(&self) -> bool {
        is_loopback(self.authority.host())
    }

    /// Whether an address is at the host of the registry, whatever the port.
    pub(super) fn has_host_of(&self, uri: &Uri) -> bool {
        uri.host().is_some_and(|host| host.eq_ignore_ascii_case(self.authority.host()))
    }

    /// The address of a path of the API.
    pub(super) fn uri(&self, path_and_query: &str) -> Result<Uri, Failure> {
        Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(path_and_query)
            .build()
            .map_err(|_| Failure::Protocol { host: self.registry.clone(), what: "an address" })
    }

    pub(super) fn is_origin_of(&self, uri: &Uri) -> bool {
        let port = |scheme: Option<&Scheme>, port: Option<u16>| {
            port.unwrap_or(if scheme == Some(&Scheme::HTTP) { 80 } else { 443 })
        };
        uri.scheme() == Some(&self.scheme)
            && self.has_host_of(uri)
            && port(uri.scheme(), uri.port_u16()) == port(Some(&self.scheme), self.authority.port_u16())
            && !uri.authority().is_some_and(|authority| authority.as_str().contains('@'))
    }
}

/// The address that a `Location` means.
pub(super) fn resolve(from: &Uri, location: &str) -> Option<Uri> {
    let origin = format!("{}://{}", from.scheme_str()?, from.authority()?);
    // Fragments are for readers of pages.
    let location = location.split('#').next()?;
    let absolute = if location.contains("://") {
        location.to_owned()
    } else if location.starts_with("//") {
        format!("{}:{location}", from.scheme_str()?)
    } else if location.starts_with('/') {
        format!("{origin}{location}")
    } else {
        let directory = from.path().rsplit_once('/').map_or("", |(directory, _)| directory);
        format!("{origin}{directory}/{location}")
    };
    absolute.parse().ok()
}

pub(super) fn is_loopback(host: &str) -> bool {
    let host = bare(host);
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// Addresses that mean something else on every machine.
pub(super) fn is_internal(host: &str) -> bool {
    let Ok(address) = bare(host).parse::<IpAddr>() else { return is_loopback(host) };
    match address.to_canonical() {
        IpAddr::V4(address) => {
            address.is_loopback() || address.is_link_local() || address == Ipv4Addr::UNSPECIFIED
        }
        IpAddr::V6(address) => {
            address.is_loopback() || address.is_unicast_link_local() || address.is_unspecified()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Options;

    fn endpoint(scheme: &str, authority: &str) -> Endpoint {
        Endpoint {
            registry: authority.to_owned(),
            scheme: scheme.parse().unwrap(),
            authority: authority.parse().unwrap(),
        }
    }

    fn redirected(origin: &Endpoint, to: &str) -> Result<String, String> {
        let plain_http = vec!["plain.example.org:5000".to_owned()];
        let registry = Registry::new(Options { plain_http, ..Options::default() }).unwrap();
        let from = origin.uri("/v2/name/blobs/x").unwrap();
        let target = registry.redirected(origin, &from, to);
        target.map(|target| target.to_string()).map_err(|failure| failure.to_string())
    }

    #[test]
    fn redirects_lead_to_other_hosts_with_tls() {
        let origin = endpoint("https", "registry.example.org");
        for (to, expected) in [
            ("https://cdn.example.org/x?sig=1", "https://cdn.example.org/x?sig=1"),
            ("//cdn.example.org/x", "https://cdn.example.org/x"),
            ("/elsewhere", "https://registry.example.org/elsewhere"),
            ("y", "https://registry.example.org/v2/name/blobs/y"),
            ("http://plain.example.org:5000/x", "http://plain.example.org:5000/x"),
        ] {
            assert_eq!(redirected(&origin, to).as_deref(), Ok(expected), "{to}");
        }
    }

    #[test]
    fn redirects_lead_neither_to_plain_http_nor_into_this_machine() {
        let origin = endpoint("https", "registry.example.org");
        for to in [
            "http://cdn.example.org/x",
            "http://registry.example.org/x",
            "http://127.0.0.1:8080/x",
            "https://127.0.0.1/x",
            "https://localhost/x",
            "https://[::1]/x",
            "https://[::ffff:127.0.0.1]/x",
            "https://169.254.169.254/latest",
            "https://[fe80::1]/x",
            "https://user:password@cdn.example.org/x",
            "ftp://cdn.example.org/x",
            "file:///etc/passwd",
            "",
            "https://",
        ] {
            let refused = redirected(&origin, to);
            assert!(refused.is_err() || to.is_empty(), "{to}: {refused:?}");
        }
        let local = endpoint("http", "127.0.0.1:5000");
        assert!(redirected(&local, "http://127.0.0.1:6000/x").is_ok());
        assert!(redirected(&local, "http://cdn.example.org/x").is_err());
    }

    #[test]
    fn token_server_of_a_remote_registry_is_not_in_this_machine() {
        let registry = Registry::new(Options::default()).unwrap();
        let may_be_asked = |origin: &Endpoint, realm: &str| registry.token_server(origin, realm).is_ok();
        let remote = endpoint("https", "registry.example.org");
        assert!(may_be_asked(&remote, "https://auth.example.org/token"));
        for realm in [
            "https://127.0.0.1/token",
            "https://localhost:8443/token",
            "https://169.254.169.254/",
            "https://[::1]/",
        ] {
            assert!(!may_be_asked(&remote, realm), "{realm}");
        }
        assert!(may_be_asked(&endpoint("https", "127.0.0.1:5000"), "https://127.0.0.1:5001/token"));
        assert!(may_be_asked(&endpoint("https", "169.254.1.1:5000"), "https://169.254.1.1:5001/token"));
    }

    #[test]
    fn origin_is_scheme_host_and_port() {
        let origin = endpoint("https", "registry.example.org");
        for (uri, is_origin) in [
            ("https://registry.example.org/x", true),
            ("https://registry.example.org:443/x", true),
            ("https://registry.example.org:444/x", false),
            ("http://registry.example.org/x", false),
            ("https://registry.example.org.evil.example/x", false),
            ("https://registry.example.org@evil.example/x", false),
        ] {
            assert_eq!(origin.is_origin_of(&uri.parse().unwrap()), is_origin, "{uri}");
        }
    }
}
