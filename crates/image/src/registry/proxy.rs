//! HTTP proxies for registries: which one to use, and how to get through it.
//!
//! As in Go's `http.ProxyFromEnvironment`, `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` count, but never for a registry on this machine.

use std::fmt;
use std::io;
use std::sync::Arc;

use http::header::{HOST, PROXY_AUTHORIZATION};
use http::{HeaderValue, Request, Uri};
use hyper::client::conn::http1;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::connector::{ConnectError, Stream, bare, dial};
use super::endpoint::is_loopback;

/// Which proxy leads to which registry. By default none does.
#[derive(Clone, Default)]
pub struct Proxies(Option<Arc<Matcher>>);

/// A proxy for one connection.
pub(super) struct Proxy(Intercept);

impl Proxies {
    /// What the variables of this process say.
    pub fn from_environment() -> Self {
        Self::from_variables(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    /// What these variables say.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        // Upper case first, as in Go; most other programs look at lower case first.
        let first = |upper: &str| variable(upper).or_else(|| variable(&upper.to_lowercase()));
        let (http, https) = (first("HTTP_PROXY"), first("HTTPS_PROXY"));
        if http.is_none() && https.is_none() {
            return Self::default();
        }
        let matcher = Matcher::builder()
            .http(http.unwrap_or_default())
            .https(https.unwrap_or_default())
            .no(first("NO_PROXY").unwrap_or_default())
            .build();
        Self(Some(Arc::new(matcher)))
    }

    /// The proxy that leads there, if one does.
    pub(super) fn find(&self, server: &Uri) -> Option<Proxy> {
        // A proxy elsewhere cannot reach our loopback.
        if server.host().is_none_or(is_loopback) {
            return None;
        }
        self.0.as_ref()?.intercept(server).map(Proxy)
    }
}

impl fmt::Debug for Proxies {
    /// Leaves out addresses: they may have a password in them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Proxies").field(&self.0.is_some()).finish()
    }
}

impl Proxy {
    /// A connection to a server, through the proxy.
    pub(super) async fn connect(
        &self,
        tls: &TlsConnector,
        host: &str,
        port: u16,
    ) -> Result<Box<dyn Stream>, ConnectError> {
        let uri = self.0.uri();
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(ConnectError::ProxyProtocol),
        };
        let proxy = uri.host().ok_or(ConnectError::ProxyProtocol)?;
        let stream = dial(proxy, uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 })).await;
        let stream = stream.map_err(unreachable)?;
        if !is_tls {
            return self.tunnel(stream, host, port).await;
        }
        let name = ServerName::try_from(bare(proxy).to_owned()).map_err(ConnectError::Name)?;
        let stream = tls.connect(name, stream).await.map_err(ConnectError::Proxy)?;
        self.tunnel(stream, host, port).await
    }

    async fn tunnel(
        &self,
        stream: impl Stream + 'static,
        host: &str,
        port: u16,
    ) -> Result<Box<dyn Stream>, ConnectError> {
        let authority = format!("{host}:{port}");
        let mut request = Request::connect(&authority).header(HOST, &authority);
        if let Some(authorization) = self.0.basic_auth().cloned() {
            request = request.header(PROXY_AUTHORIZATION, secret(authorization));
        }
        let request = request.body(String::new()).map_err(broken)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        tokio::spawn(connection.with_upgrades());
        let response = sender.send_request(request).await.map_err(broken)?;
        if !response.status().is_success() {
            return Err(ConnectError::ProxyRefused(response.status().as_u16()));
        }
        let upgraded = hyper::upgrade::on(response).await.map_err(broken)?;
        Ok(Box::new(TokioIo::new(upgraded)))
    }
}

/// Never printed with the request.
fn secret(mut authorization: HeaderValue) -> HeaderValue {
    authorization.set_sensitive(true);
    authorization
}

fn unreachable(error: ConnectError) -> ConnectError {
    match error {
        ConnectError::Dial(cause) => ConnectError::Proxy(cause),
        other => other,
    }
}

fn broken(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ConnectError {
    ConnectError::Proxy(io::Error::other(error))
}

/// What a connection that needs no proxy is made of.
pub(super) async fn direct(host: &str, port: u16) -> Result<Box<dyn Stream>, ConnectError> {
    let stream: TcpStream = dial(host, port).await?;
    Ok(Box::new(stream))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(server: &str, variables: &[(&str, &str)]) -> Option<String> {
        let variable =
            |name: &str| variables.iter().find(|(its, _)| *its == name).map(|(_, value)| (*value).to_owned());
        let found = Proxies::from_variables(variable).find(&server.parse().unwrap());
        found.map(|proxy| proxy.0.uri().to_string())
    }

    #[test]
    fn variables_name_the_proxy_of_a_scheme_and_its_exceptions() {
        let variables = [
            ("HTTPS_PROXY", "http://secure:1"),
            ("http_proxy", "http://plain:2"),
            ("NO_PROXY", ".example.com"),
        ];
        assert_eq!(proxy("https://registry.example.org", &variables).as_deref(), Some("http://secure:1/"));
        assert_eq!(proxy("http://registry.example.org:5000", &variables).as_deref(), Some("http://plain:2/"));
        assert_eq!(proxy("https://registry.example.com", &variables), None);
        assert_eq!(proxy("https://registry.example.org", &variables[2..]), None);
    }

    #[test]
    fn registry_on_this_machine_is_reached_directly() {
        let variables = [("HTTPS_PROXY", "http://proxy:1")];
        for server in ["https://localhost:5000", "https://127.0.0.1:5000", "https://[::1]:5000"] {
            assert_eq!(proxy(server, &variables), None, "{server}");
        }
    }

    #[test]
    fn passwords_of_proxies_are_not_printed() {
        let proxies = Proxies::from_variables(|_| Some("http://alice:sesame@proxy:1".to_owned()));
        assert!(!format!("{proxies:?}").contains("sesame"));
    }
}
