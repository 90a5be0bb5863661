//! Where a webhook is, and whom to trust when talking to it.

use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ferroplane_golang::path;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;

use super::trust::Trust;
use crate::builtin::SERVICES;
use crate::store::Store;

/// Where a webhook is.
#[derive(Debug)]
pub(super) struct Destination {
    location: Location,
    /// Certificates in PEM; nothing for those that the machine trusts.
    authority: Option<String>,
    /// Made when it is first needed.
    tls: OnceLock<Result<Arc<ClientConfig>, Error>>,
}

#[derive(Debug)]
enum Location {
    Url(String),
    Service { namespace: String, name: String, port: u16, path: String },
    Nowhere,
}

/// Why there is no way to a webhook, in the words of Kubernetes where it has any.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(super) enum Error {
    #[error("webhook configuration must have either service or URL")]
    Nowhere,
    #[error("Unparsable URL: {0}")]
    Url(String),
    #[error("the URL of a webhook must begin with https")]
    NotHttps,
    #[error("the URL of a webhook must have a host")]
    NoHost,
    #[error("service \"{0}\" not found")]
    NoService(String),
    #[error("{0}")]
    UnreadableService(String),
    #[error("no service port {port} found for service \"{service}\"")]
    NoPort { service: String, port: u16 },
    #[error("no endpoints available for service \"{0}\"")]
    NoEndpoints(String),
    #[error("unable to load root certificates: unable to parse bytes as PEM block")]
    Roots,
    #[error("{0}")]
    Tls(rustls::Error),
}

/// How to get there.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Route {
    /// What the certificate must be for.
    pub(super) host: String,
    pub(super) port: u16,
    /// As it stands in the request: with the port if it is not the usual one.
    pub(super) authority: String,
    pub(super) path: String,
    /// Whom to connect to, if that is not the host. A webhook in this process needs no address, so that to lack one is an
    /// error only for those that connect.
    pub(super) address: Result<Option<(String, u16)>, Error>,
}

impl Destination {
    pub(super) fn read(configuration: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let service = &configuration["service"];
        let location = if service.is_object() {
            let port = service["port"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or(443);
            let (namespace, name) = (text(&service["namespace"]), text(&service["name"]));
            Location::Service { namespace, name, port, path: text(&service["path"]) }
        } else {
            configuration["url"].as_str().map_or(Location::Nowhere, |url| Location::Url(url.to_owned()))
        };
        let bundle = configuration["caBundle"].as_str().filter(|bundle| !bundle.is_empty());
        let authority = bundle.map(|bundle| {
            // Validated when it was stored. An invalid bundle trusts no certificate, rather than all that the
            // machine trusts.
            let pem = STANDARD.decode(bundle).unwrap_or_default();
            String::from_utf8_lossy(&pem).into_owned()
        });
        Self { location, authority, tls: OnceLock::new() }
    }

    /// How to get there, as things are now.
    pub(super) fn route(&self, store: &Store) -> Result<Route, Error> {
        match &self.location {
            Location::Nowhere => Err(Error::Nowhere),
            Location::Url(url) => route_of_url(url),
            Location::Service { namespace, name, port, path } => {
                let host = format!("{name}.{namespace}.svc");
                let path = clean(path);
                let address = address_of_service(store, namespace, name, *port);
                Ok(Route { authority: format!("{host}:{port}"), host, port: *port, path, address })
            }
        }
    }

    /// How to speak TLS there.
    pub(super) fn tls(&self) -> Result<Arc<ClientConfig>, Error> {
        self.tls.get_or_init(|| configure(self.authority.as_deref()).map(Arc::new)).clone()
    }
}

fn route_of_url(url: &str) -> Result<Route, Error> {
    let uri = url.parse::<http::Uri>().map_err(|error| Error::Url(error.to_string()))?;
    if uri.scheme_str() != Some("https") {
        return Err(Error::NotHttps);
    }
    let authority = uri.authority().ok_or(Error::NoHost)?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    let path = clean(&percent_decode_str(uri.path()).decode_utf8_lossy());
    let port = authority.port_u16().unwrap_or(443);
    Ok(Route { host, port, authority: authority.as_str().to_owned(), path, address: Ok(None) })
}

/// What Go leaves as it is in a path.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b'/')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// The path as it is sent. Kubernetes' client joins it with its own, which cleans it; many configurations have two slashes where
/// an address and a path were put together, and work with that.
fn clean(path: &str) -> String {
    utf8_percent_encode(&path::clean(&format!("/{path}")), PLAIN).to_string()
}

/// Where a service really is: its own address leads nowhere, as nothing carries it out.
fn address_of_service(
    store: &Store,
    namespace: &str,
    name: &str,
    port: u16,
) -> Result<Option<(String, u16)>, Error> {
    let entry = store.get(&store.collection(SERVICES).key(namespace, name));
    let entry = entry.ok_or_else(|| Error::NoService(name.to_owned()))?;
    let service = serde_json::from_slice::<Value>(entry.bytes());
    let service = service.map_err(|error| Error::UnreadableService(error.to_string()))?;
    let spec = &service["spec"];
    if spec["type"] == "ExternalName" {
        return Ok(Some((spec["externalName"].as_str().unwrap_or_default().to_owned(), port)));
    }
    let known = spec["ports"].as_array().into_iter().flatten().find(|known| known["port"] == port);
    let known = known.ok_or_else(|| Error::NoPort { service: name.to_owned(), port })?;
    let port_name = known["name"].as_str().unwrap_or_default();
    let found = in_slices(store, namespace, name, port_name);
    // Clients of old write only the second: nothing here makes slices of it, as Kubernetes' controller would.
    let found = found.or_else(|| in_endpoints(store, namespace, name, port_name));
    found.map(Some).ok_or_else(|| Error::NoEndpoints(name.to_owned()))
}

/// The first address of a service that is ready, from the slices of its endpoints.
fn in_slices(store: &Store, namespace: &str, name: &str, port_name: &str) -> Option<(String, u16)> {
    let snapshot = store.snapshot(&store.collection("discovery.k8s.io/endpointslices"));
    let mut slices = snapshot.range(Some(namespace), None);
    slices.by_ref().find_map(|slice| {
        if slice.metadata().labels.get("kubernetes.io/service-name") != Some(name) {
            return None;
        }
        let slice: Value = serde_json::from_slice(slice.bytes()).ok()?;
        let port = port_named(&slice["ports"], port_name)?;
        let mut ready = slice["endpoints"].as_array()?.iter().filter(|it| it["conditions"]["ready"] != false);
        let address = ready.find_map(|endpoint| endpoint["addresses"].get(0)?.as_str())?;
        Some((address.to_owned(), port))
    })
}

/// The same from the object that there was before there were slices.
fn in_endpoints(store: &Store, namespace: &str, name: &str, port_name: &str) -> Option<(String, u16)> {
    let entry = store.get(&store.collection("/endpoints").key(namespace, name))?;
    let endpoints: Value = serde_json::from_slice(entry.bytes()).ok()?;
    endpoints["subsets"].as_array()?.iter().find_map(|subset| {
        let address = subset["addresses"].get(0)?["ip"].as_str()?;
        Some((address.to_owned(), port_named(&subset["ports"], port_name)?))
    })
}

fn port_named(ports: &Value, name: &str) -> Option<u16> {
    let port = ports.as_array()?.iter().find(|port| port["name"].as_str().unwrap_or_default() == name)?;
    u16::try_from(port["port"].as_u64()?).ok()
}

fn configure(authority: Option<&str>) -> Result<ClientConfig, Error> {
    let trusted = match authority {
        Some(pem) => CertificateDer::pem_slice_iter(pem.as_bytes()).filter_map(Result::ok).collect(),
        None => rustls_native_certs::load_native_certs().certs,
    };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let trust = Trust::new(trusted, Arc::clone(&provider))?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(Error::Tls)?;
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(trust));
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_of_a_url_is_sent_as_kubernetes_sends_it() {
        let cases = [
            ("", "/"),
            ("/", "/"),
            ("//validate", "/validate"),
            ("/a//b/", "/a/b"),
            ("/a/./../b", "/b"),
            ("/a%2F%2Fb", "/a/b"),
            ("/a%20b", "/a%20b"),
            ("/a:b;c=d@e", "/a:b;c=d@e"),
        ];
        for (given, sent) in cases {
            let route = route_of_url(&format!("https://127.0.0.1:9443{given}")).unwrap();
            assert_eq!(route.path, sent, "{given}");
        }
    }
}
