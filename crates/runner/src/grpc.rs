//! Calls functions that are served over gRPC, with or without TLS.

mod balance;
mod target;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ferroplane_wire::methods;
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use http::uri::PathAndQuery;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

pub use balance::Resolve;
pub use target::{BadTarget, Target};

use crate::error::{CallError, Fault, innermost};
use balance::Balanced;

/// How often a function that cannot be reached is tried again. Doubles up to [`SLOWEST_RETRY`].
const FIRST_RETRY: Duration = Duration::from_millis(2);
const SLOWEST_RETRY: Duration = Duration::from_millis(500);

/// How functions are called.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long one call may take, waiting for the function to come up included.
    pub timeout: Duration,
    pub max_request: usize,
    pub max_response: usize,
    /// Without it, plain text.
    pub tls: Option<Tls>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            timeout: Duration::from_mins(1),
            max_request: 32 << 20,
            max_response: 32 << 20,
            tls: None,
        }
    }
}

/// Who we are, and whom we trust. All in PEM.
#[derive(Clone)]
pub struct Tls {
    /// Signs the certificates of functions.
    pub ca: Vec<u8>,
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
}

impl std::fmt::Debug for Tls {
    /// Says nothing: one of the fields is a private key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// A function that is served somewhere. Connects when it is first called, and stays connected.
#[derive(Debug)]
pub struct Client {
    target: Target,
    channel: Channel,
    options: Options,
    /// Re-resolves the target's name while the client lives.
    balanced: Option<Balanced>,
    /// The function is known to serve only v1beta1.
    is_beta: AtomicBool,
}

impl Client {
    /// A client of the function at this target. Must be made inside a Tokio runtime.
    pub fn new(target: Target, options: Options) -> Result<Self, CallError> {
        Self::with_resolver(target, options, balance::system())
    }

    /// The same, with another way to turn names into addresses.
    pub fn with_resolver(target: Target, options: Options, resolve: Resolve) -> Result<Self, CallError> {
        let (channel, balanced) = if target.is_balanced() {
            let (channel, balanced) = Balanced::new(target.clone(), options.clone(), resolve);
            (channel, Some(balanced))
        } else {
            (endpoint(&target, target.host(), &options)?.connect_lazy(), None)
        };
        Ok(Self { target, channel, options, balanced, is_beta: AtomicBool::new(false) })
    }

    /// Call the function. Waits for it to come up.
    pub async fn call(&self, request: &RunFunctionRequest) -> Result<RunFunctionResponse, CallError> {
        let mut unreachable = None;
        let calling = self.call_when_ready(request, &mut unreachable);
        if let Ok(result) = tokio::time::timeout(self.options.timeout, calling).await {
            return result;
        }
        let (target, after) = (self.target.to_string(), self.options.timeout);
        Err(match unreachable {
            Some(reason) => CallError::Unreachable { target, waited: after, reason },
            None => CallError::Timeout { target, after },
        })
    }

    /// Nothing that was sent is ever sent again: only a connection that was not made is tried once more.
    async fn call_when_ready(
        &self,
        request: &RunFunctionRequest,
        unreachable: &mut Option<String>,
    ) -> Result<RunFunctionResponse, CallError> {
        let mut pause = FIRST_RETRY;
        loop {
            match self.call_either_version(request).await {
                Ok(response) => return Ok(response),
                Err(status) if !is_refused(&status) => return Err(self.fault().explain(&status)),
                Err(status) => *unreachable = Some(innermost(&status)),
            }
            if let Some(balanced) = &self.balanced {
                balanced.resolve_again();
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(SLOWEST_RETRY);
        }
    }

    async fn call_either_version(&self, request: &RunFunctionRequest) -> Result<RunFunctionResponse, Status> {
        if self.is_beta.load(Ordering::Relaxed) {
            return self.call_version(request, methods::V1BETA1).await;
        }
        let result = self.call_version(request, methods::V1).await;
        let Err(status) = &result else { return result };
        if status.code() != Code::Unimplemented {
            return result;
        }
        let response = self.call_version(request, methods::V1BETA1).await?;
        self.is_beta.store(true, Ordering::Relaxed);
        Ok(response)
    }

    async fn call_version(
        &self,
        request: &RunFunctionRequest,
        method: &'static str,
    ) -> Result<RunFunctionResponse, Status> {
        let mut grpc = tonic::client::Grpc::new(self.channel.clone())
            .max_encoding_message_size(self.options.max_request)
            .max_decoding_message_size(self.options.max_response);
        grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
        let mut request = Request::new(request.clone());
        request.set_timeout(self.options.timeout);
        let response =
            grpc.unary(request, PathAndQuery::from_static(method), ProstCodec::default()).await?;
        Ok(response.into_inner())
    }

    fn fault(&self) -> Fault<'_> {
        Fault {
            target: self.target.as_str(),
            is_tls: self.options.tls.is_some(),
            max_request: self.options.max_request,
            max_response: self.options.max_response,
        }
    }
}

/// Whether there was no connection to send anything over.
fn is_refused(status: &Status) -> bool {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(status);
    let mut is_connect = false;
    while let Some(error) = source {
        is_connect |= error.is::<tonic::ConnectError>();
        if error.downcast_ref::<std::io::Error>().is_some_and(|error| {
            use std::io::ErrorKind::{InvalidData, Other};
            // What TLS has to complain about does not go away by waiting.
            matches!(error.kind(), InvalidData | Other)
        }) {
            return false;
        }
        source = error.source();
    }
    is_connect
}

/// One address of a target. TLS and HTTP know it by the target's name all the same.
fn endpoint(target: &Target, address: &str, options: &Options) -> Result<Endpoint, CallError> {
    let fault = |error: tonic::transport::Error| CallError::Tls {
        target: target.to_string(),
        reason: innermost(&error),
    };
    let scheme = if options.tls.is_some() { "https" } else { "http" };
    let endpoint = Endpoint::from_shared(format!("{scheme}://{address}:{}", target.port()))
        .map_err(fault)?
        .connect_timeout(Duration::from_secs(10))
        .tcp_nodelay(true);
    let Some(tls) = &options.tls else { return Ok(endpoint) };
    let config = ClientTlsConfig::new()
        .domain_name(target.host())
        .ca_certificate(Certificate::from_pem(&tls.ca))
        .identity(Identity::from_pem(&tls.certificate, &tls.key));
    endpoint.tls_config(config).map_err(fault)
}
