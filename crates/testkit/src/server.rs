//! Function servers that do as they are told.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ferroplane_wire::service::{v1, v1beta1};
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status};

use crate::pki::{Leaf, Pki};

/// A function server. Ends when it is dropped.
#[derive(Debug)]
pub struct FunctionServer {
    address: SocketAddr,
    calls: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

/// Which versions of the protocol are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Versions {
    Both,
    OnlyBeta,
    Neither,
}

const LARGEST: usize = 256 << 20;

type Answer = dyn Fn(RunFunctionRequest) -> Result<RunFunctionResponse, Status> + Send + Sync;

#[derive(Clone)]
struct Scripted {
    answer: Arc<Answer>,
    calls: Arc<AtomicUsize>,
}

impl Scripted {
    fn run(&self, request: Request<RunFunctionRequest>) -> Result<Response<RunFunctionResponse>, Status> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        (self.answer)(request.into_inner()).map(Response::new)
    }
}

#[tonic::async_trait]
impl v1::FunctionRunnerService for Scripted {
    async fn run_function(
        &self,
        request: Request<RunFunctionRequest>,
    ) -> Result<Response<RunFunctionResponse>, Status> {
        self.run(request)
    }
}

#[tonic::async_trait]
impl v1beta1::FunctionRunnerService for Scripted {
    async fn run_function(
        &self,
        request: Request<RunFunctionRequest>,
    ) -> Result<Response<RunFunctionResponse>, Status> {
        self.run(request)
    }
}

impl FunctionServer {
    /// Serve both versions in plain text on a port of its own.
    pub async fn start(
        answer: impl Fn(RunFunctionRequest) -> Result<RunFunctionResponse, Status> + Send + Sync + 'static,
    ) -> Self {
        Self::serve("127.0.0.1:0", Versions::Both, None, answer).await
    }

    /// Serve these versions at this address, and with TLS only to those who have a certificate of `tls`.
    pub async fn serve(
        address: &str,
        versions: Versions,
        tls: Option<(&Pki, Leaf)>,
        answer: impl Fn(RunFunctionRequest) -> Result<RunFunctionResponse, Status> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).await.expect("the address is free");
        let address = listener.local_addr().expect("it is bound");
        let calls = Arc::new(AtomicUsize::new(0));
        let scripted = Scripted { answer: Arc::new(answer), calls: calls.clone() };
        let mut server = Server::builder();
        if let Some((pki, leaf)) = tls {
            let config = ServerTlsConfig::new()
                .identity(Identity::from_pem(leaf.certificate, leaf.key))
                .client_ca_root(Certificate::from_pem(pki.ca()));
            server = server.tls_config(config).expect("the certificates are valid");
        }
        let newest = v1::FunctionRunnerServiceServer::new(scripted.clone()).max_decoding_message_size(LARGEST);
        let beta = v1beta1::FunctionRunnerServiceServer::new(scripted).max_decoding_message_size(LARGEST);
        let routes = match versions {
            Versions::Both => server.add_service(newest).add_service(beta),
            Versions::OnlyBeta => server.add_service(beta),
            Versions::Neither => server.add_routes(tonic::service::Routes::default()),
        };
        let task = tokio::spawn(async move {
            routes.serve_with_incoming(TcpListenerStream::new(listener)).await.expect("it serves");
        });
        Self { address, calls, task }
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// How often it was called.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

impl Drop for FunctionServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}
