//! Serves a program that is not a server as a function: gRPC with mutual TLS, and the program is run for every call. Pods of packages with
//! such a program run this in the image of the package. `docs/adr/0061-pods-run-servers-only.md` says why.
//!
//! # Invariants
//! * Only clients with a certificate of the authority are answered.
//! * A program ends with its call: when it has answered, when its time is up, when it writes too much, and when its caller has gone.
//! * No more than so many programs run at once. Further calls wait for as long as their callers do.

mod execution;

use std::convert::Infallible;
use std::ffi::OsString;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ferroplane_engine::{FunctionProtocol, chain};
use ferroplane_wire::methods;
use ferroplane_wire::service::{v1, v1beta1};
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tonic::body::Body;
use tonic::{Code, Status};
use tower_service::Service;
use tracing::{debug, warn};

use super::adapter::{AdaptedProgram, CallLimits};
use crate::error::CallError;
use crate::external::{CallContext, External};
use crate::grpc::Tls;
use execution::Executions;

/// How long a client has for the handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How often to ask whether a client is still there. The call of one that is not ends.
const PING: Duration = Duration::from_secs(30);
/// How many calls one connection may have under way.
const STREAMS: u32 = 256;
/// The largest request in bytes, with some room around what callers send at most.
const LARGEST: usize = 33 << 20;
/// How long calls have to end by themselves when the server ends. Less than the 30 seconds that pods have.
const LAST_ANSWERS: Duration = Duration::from_secs(25);
/// How much of an error is sent: it travels in a header, and those of HTTP/2 have a limit of 16 KiB, encoded.
const SENT_FIRST: usize = 1 << 10;
const SENT_LAST: usize = 3 << 10;

/// A program to serve.
#[derive(Debug, Clone)]
pub struct ServedProgram {
    /// Names it in errors and logs.
    pub name: String,
    /// The program and its arguments, behind a command that ends all that the program starts when it gets SIGTERM.
    pub command: Vec<OsString>,
    pub protocol: FunctionProtocol,
    /// How long a call may take, once the program runs.
    pub timeout: Duration,
    /// How many programs run at once.
    pub concurrency: usize,
}

/// Why a program cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeProgramError {
    #[error("cannot read the certificates of the server")]
    Pem(#[from] pem::Error),
    #[error("cannot use the certificates of the server")]
    Tls(#[from] rustls::Error),
    #[error("cannot verify clients by the certificate authority")]
    Authority(#[from] VerifierBuilderError),
}

/// Answer calls until the end is announced, and wait for the last answers.
///
/// This process should be a child subreaper, so that what a killed command leaves behind comes to it and is ended. It must not start
/// children for anything else, because they would be ended, too.
pub async fn serve_program(
    program: ServedProgram,
    listener: TcpListener,
    tls: &Tls,
    end: impl Future<Output = ()>,
) -> Result<(), ServeProgramError> {
    let acceptor = TlsAcceptor::from(Arc::new(config(tls)?));
    let functions = Functions::new(program);
    let connections = GracefulShutdown::new();
    let mut end = pin!(end);
    loop {
        tokio::select! {
            biased;
            () = &mut end => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let (acceptor, functions) = (acceptor.clone(), functions.clone());
                    tokio::spawn(speak(stream, acceptor, functions, connections.watcher()));
                }
                Err(error) => {
                    warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
        }
    }
    // New connections are refused from now on, so that callers look for another pod.
    drop(listener);
    // Programs that still run then end with this process.
    let _ = timeout(LAST_ANSWERS, connections.shutdown()).await;
    Ok(())
}

/// Mutual TLS, as servers on upstream's SDKs have it.
fn config(tls: &Tls) -> Result<ServerConfig, ServeProgramError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&tls.ca) {
        roots.add(certificate?)?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build()?;
    let certificates = CertificateDer::pem_slice_iter(&tls.certificate).collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(&tls.key)?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates, key)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

/// One connection, from the handshake to the last answer.
async fn speak(stream: TcpStream, acceptor: TlsAcceptor, functions: Functions, watcher: Watcher) {
    // Answers are awaited: nothing is gained by collecting them.
    let _ = stream.set_nodelay(true);
    let stream = match timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        // Probes connect and say nothing.
        Ok(Err(error)) => return debug!(%error, "a handshake failed"),
        Err(_) => return,
    };
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.timer(TokioTimer::new()).keep_alive_interval(PING).max_concurrent_streams(STREAMS);
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(functions));
    if let Err(error) = watcher.watch(connection).await {
        // The other end went away, or speaks no HTTP.
        debug!(%error, "a connection ended early");
    }
}

/// Both versions of the protocol.
#[derive(Clone)]
struct Functions {
    newest: v1::FunctionRunnerServiceServer<Caller>,
    beta: v1beta1::FunctionRunnerServiceServer<Caller>,
}

impl Functions {
    fn new(program: ServedProgram) -> Self {
        let ServedProgram { name, command, protocol, timeout, concurrency } = program;
        let external = External::new(Executions::new(command, concurrency).runner());
        let limits = CallLimits { time: Some(timeout), ..CallLimits::default() };
        let program = AdaptedProgram { image: name.clone(), name, protocol, has_network: false, limits };
        let caller = Arc::new(Caller { program, external });
        let newest = v1::FunctionRunnerServiceServer::from_arc(caller.clone());
        let beta = v1beta1::FunctionRunnerServiceServer::from_arc(caller);
        Self {
            newest: newest.max_decoding_message_size(LARGEST),
            beta: beta.max_decoding_message_size(LARGEST),
        }
    }
}

impl Service<Request<Incoming>> for Functions {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        // Any other path is unimplemented in both.
        match request.uri().path() {
            methods::V1BETA1 => self.beta.call(request),
            _ => self.newest.call(request),
        }
    }
}

/// Calls the program.
struct Caller {
    program: AdaptedProgram,
    external: External,
}

impl Caller {
    async fn run(
        &self,
        request: tonic::Request<RunFunctionRequest>,
    ) -> Result<tonic::Response<RunFunctionResponse>, Status> {
        // A pod does not know which step calls it. So its program never sees what no step desires, not even in the first step: what an
        // earlier step has dropped has to stay dropped.
        let answer = self.program.call(&self.external, request.get_ref(), CallContext::default()).await;
        answer.map(tonic::Response::new).map_err(|error| status(&error))
    }
}

#[tonic::async_trait]
impl v1::FunctionRunnerService for Caller {
    async fn run_function(
        &self,
        request: tonic::Request<RunFunctionRequest>,
    ) -> Result<tonic::Response<RunFunctionResponse>, Status> {
        self.run(request).await
    }
}

#[tonic::async_trait]
impl v1beta1::FunctionRunnerService for Caller {
    async fn run_function(
        &self,
        request: tonic::Request<RunFunctionRequest>,
    ) -> Result<tonic::Response<RunFunctionResponse>, Status> {
        self.run(request).await
    }
}

/// The status of a failed call, in the same words as where containers run the program.
fn status(error: &CallError) -> Status {
    let code = match error {
        CallError::Timeout { .. } => Code::DeadlineExceeded,
        CallError::ResponseTooLarge { .. } => Code::ResourceExhausted,
        CallError::BadAnswer { .. } => Code::Internal,
        // As Go has it for a function that returns an error. Nothing between us and the caller tries again on its own.
        _ => Code::Unknown,
    };
    Status::new(code, shortened(&chain(error)))
}

/// A text without its middle, if it is long: why a call failed is at its beginning, what the program said last at its end.
fn shortened(text: &str) -> String {
    if text.len() <= SENT_FIRST + SENT_LAST {
        return text.to_owned();
    }
    let first = &text[..text.floor_char_boundary(SENT_FIRST)];
    let last = &text[text.ceil_char_boundary(text.len() - SENT_LAST)..];
    format!("{first}\n…\n{last}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_errors_keep_their_beginning_and_their_end() {
        assert_eq!(shortened("short"), "short");
        let text = format!("it ended{}at last", "ä".repeat(10_000));
        let kept = shortened(&text);
        assert!(kept.len() < SENT_FIRST + SENT_LAST + 10, "{}", kept.len());
        assert!(kept.starts_with("it ended") && kept.ends_with("at last") && kept.contains("\n…\n"));
    }
}
