//! HTTP proxies: which one to use, and how to get through it.
//!
//! As in client-go, the `proxy-url` of a kubeconfig counts for its cluster; without one, `HTTPS_PROXY`, `HTTP_PROXY` and
//! `NO_PROXY` do, but never for a server on this machine.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::{HOST, PROXY_AUTHORIZATION};
use http::{HeaderValue, Request, Uri};
use hyper::client::conn::http1;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use super::connector::{Stream, bare, dial};
use super::{BoxError, EndpointError, tls};
use crate::Endpoint;

/// A proxy that connects to whatever it is asked to.
pub(super) struct Proxy {
    host: String,
    port: u16,
    /// None for a proxy that is spoken to without TLS.
    tls: Option<(TlsConnector, ServerName<'static>)>,
    authorization: Option<HeaderValue>,
}

impl Proxy {
    /// The proxy for an API server, if there is one.
    pub(super) fn find(endpoint: &Endpoint, server: &Uri) -> Result<Option<Self>, EndpointError> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        match &endpoint.proxy {
            Some(url) => {
                let found = Matcher::builder().all(url.as_str()).build().intercept(server);
                Self::new(&found.ok_or(EndpointError::Proxy)?).map(Some)
            }
            None => from_environment(server, variable).map(|found| Self::new(&found)).transpose(),
        }
    }

    fn new(found: &Intercept) -> Result<Self, EndpointError> {
        let is_tls = match found.uri().scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(EndpointError::Proxy),
        };
        let host = bare(found.uri().host().ok_or(EndpointError::Proxy)?).to_owned();
        let tls = if is_tls {
            let name = ServerName::try_from(host.clone()).map_err(EndpointError::Name)?;
            Some((TlsConnector::from(Arc::new(tls::proxy_config()?)), name))
        } else {
            None
        };
        let port = found.uri().port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        Ok(Self { host, port, tls, authorization: found.basic_auth().cloned() })
    }

    /// A connection to a server, through the proxy.
    pub(super) async fn connect(&self, host: &str, port: u16) -> Result<Box<dyn Stream>, BoxError> {
        let stream =
            dial(&self.host, self.port).await.map_err(|source| ProxyError::Unreachable { source })?;
        match &self.tls {
            None => self.tunnel(stream, host, port).await,
            Some((tls, name)) => self.tunnel(tls.connect(name.clone(), stream).await?, host, port).await,
        }
    }

    async fn tunnel(&self, stream: impl Stream, host: &str, port: u16) -> Result<Box<dyn Stream>, BoxError> {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection.with_upgrades());
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let authority = format!("{host}:{port}");
        let mut request = Request::connect(&authority).header(HOST, &authority);
        if let Some(authorization) = &self.authorization {
            request = request.header(PROXY_AUTHORIZATION, authorization);
        }
        let response = sender.send_request(request.body(String::new())?).await?;
        if !response.status().is_success() {
            return Err(ProxyError::Refused { code: response.status().as_u16() }.into());
        }
        Ok(Box::new(TokioIo::new(hyper::upgrade::on(response).await?)))
    }
}

/// Why there is no connection through the proxy.
#[derive(Debug, thiserror::Error)]
enum ProxyError {
    #[error("cannot reach the proxy")]
    Unreachable { source: std::io::Error },
    #[error("the proxy refuses the connection with status {code}")]
    Refused { code: u16 },
}

fn from_environment(server: &Uri, variable: impl Fn(&str) -> Option<String>) -> Option<Intercept> {
    // As in Go's `http.ProxyFromEnvironment`: a proxy elsewhere cannot reach our loopback.
    if server.host().is_none_or(is_this_machine) {
        return None;
    }
    // Upper case first, as in Go; most other programs look at lower case first.
    let first = |upper: &str| variable(upper).or_else(|| variable(&upper.to_lowercase())).unwrap_or_default();
    let matcher = Matcher::builder()
        .http(first("HTTP_PROXY"))
        .https(first("HTTPS_PROXY"))
        .no(first("NO_PROXY"))
        .build();
    matcher.intercept(server)
}

fn is_this_machine(host: &str) -> bool {
    let host = bare(host);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The proxy for a server with these variables.
    fn proxy(server: &str, variables: &[(&str, &str)]) -> Option<String> {
        let variable =
            |name: &str| variables.iter().find(|(its, _)| *its == name).map(|(_, value)| (*value).to_owned());
        from_environment(&server.parse().unwrap(), variable).map(|found| found.uri().to_string())
    }

    #[test]
    fn environment_names_the_proxy_of_a_scheme() {
        let both = [("HTTPS_PROXY", "http://secure:1"), ("http_proxy", "http://plain:2")];
        assert_eq!(proxy("https://api.example.org:6443", &both).as_deref(), Some("http://secure:1/"));
        assert_eq!(proxy("http://api.example.org", &both).as_deref(), Some("http://plain:2/"));
        assert_eq!(proxy("https://api.example.org", &both[1..]), None);
    }

    #[test]
    fn what_the_environment_excepts_is_reached_directly() {
        let with = |exceptions| [("HTTPS_PROXY", "http://proxy:1"), ("NO_PROXY", exceptions)];
        for (exceptions, server, is_proxied) in [
            ("example.org", "https://api.example.org", false),
            (".example.org", "https://api.example.org", false),
            ("example.com", "https://api.example.org", true),
            ("10.0.0.0/8", "https://10.1.2.3:6443", false),
            ("10.0.0.0/8", "https://11.1.2.3:6443", true),
            ("*", "https://api.example.org", false),
            // The exception is for the server, not for the proxy.
            ("proxy", "https://api.example.org", true),
        ] {
            assert_eq!(proxy(server, &with(exceptions)).is_some(), is_proxied, "{exceptions} {server}");
        }
    }

    #[test]
    fn server_on_this_machine_is_reached_directly() {
        let variables = [("HTTPS_PROXY", "http://proxy:1")];
        for server in ["https://localhost:6443", "https://127.0.0.1:6443", "https://[::1]:6443"] {
            assert_eq!(proxy(server, &variables), None, "{server}");
        }
    }

    #[test]
    fn proxy_of_another_protocol_is_refused() {
        let server = "https://api.example.org".parse().unwrap();
        for (url, is_usable) in [
            ("http://user:password@proxy:3128", true),
            ("https://proxy", true),
            ("socks5://proxy", false),
            ("", false),
        ] {
            let endpoint = Endpoint { proxy: Some(url.to_owned()), ..Endpoint::default() };
            assert_eq!(Proxy::find(&endpoint, &server).is_ok(), is_usable, "{url}");
        }
    }
}
