//! The way to a function: connections that are made when they are first needed.

use std::time::Duration;

use http::Uri;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use super::balance::{Balanced, Resolve};
use super::connector::Connector;
use super::explain::innermost;
use super::{Options, Target};
use crate::error::CallError;

/// How long it may take to make a connection. Less if the whole call has less: it should get to know why.
const SLOWEST_CONNECT: Duration = Duration::from_secs(10);
/// For how long a connection may be silent before the operating system asks whether anybody is there.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// How long all metadata of an answer may be, and with it the message of an error.
const MAX_METADATA: u32 = 256 << 10;

/// How connections to a function are made.
#[derive(Debug, Clone)]
pub(super) enum ConnectMethod {
    /// To an address, or to those of a name.
    Address(Resolve),
    /// By a foreign connector.
    Connector(Connector),
}

/// The way to a function.
#[derive(Debug)]
pub(super) struct Route {
    channel: Channel,
    /// Re-resolves the target's name while the route is in use.
    balanced: Option<Balanced>,
}

impl Route {
    /// Needs a Tokio runtime, and ends with it.
    pub(super) fn new(target: &Target, endpoint: &Endpoint, options: &Options, way: &ConnectMethod) -> Self {
        match way {
            ConnectMethod::Connector(connector) => {
                let channel = endpoint.connect_with_connector_lazy(connector.clone());
                Self { channel, balanced: None }
            }
            ConnectMethod::Address(_) if !target.is_balanced() => {
                Self { channel: endpoint.connect_lazy(), balanced: None }
            }
            ConnectMethod::Address(resolve) => {
                let (channel, balanced) = Balanced::new(target.clone(), options.clone(), resolve.clone());
                Self { channel, balanced: Some(balanced) }
            }
        }
    }

    pub(super) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Something could not be reached: perhaps it moved.
    pub(super) fn resolve_again(&self) {
        if let Some(balanced) = &self.balanced {
            balanced.resolve_again();
        }
    }

    /// Why there is nothing to connect to, if so.
    pub(super) fn dead_end(&self) -> Option<String> {
        self.balanced.as_ref()?.dead_end()
    }
}

/// One address of a target. TLS and HTTP know it by the target's name all the same.
pub(super) fn endpoint(target: &Target, address: &str, options: &Options) -> Result<Endpoint, CallError> {
    let patience = SLOWEST_CONNECT.min(options.timeout / 2);
    let scheme = if options.tls.is_some() { "https" } else { "http" };
    let uri = |host: &str| {
        let uri = format!("{scheme}://{host}:{}", target.port());
        uri.parse::<Uri>().expect("a target has only what a URI may have")
    };
    let endpoint = Endpoint::from(uri(address))
        // An address stands in the URI, but certificates and the `:authority` are for the name.
        .origin(uri(target.host()))
        .connect_timeout(patience)
        .tcp_keepalive(Some(KEEPALIVE))
        .tcp_nodelay(true)
        .http2_max_header_list_size(MAX_METADATA);
    let Some(tls) = &options.tls else { return Ok(endpoint) };
    let config = ClientTlsConfig::new()
        .domain_name(target.host().trim_matches(['[', ']']))
        .ca_certificate(Certificate::from_pem(&tls.ca))
        .identity(Identity::from_pem(&tls.certificate, &tls.key))
        .timeout(patience);
    endpoint
        .tls_config(config)
        .map_err(|error| CallError::Tls { target: target.to_string(), reason: innermost(&error) })
}
