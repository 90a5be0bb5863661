//! Function servers that do as they are told.

use std::future::{Future, ready};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ferroplane_wire::service::{v1, v1beta1};
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status};

use crate::background::Background;
use crate::pki::{Leaf, Pki};
use crate::tcp::bind;

/// A function server. Ends when it is dropped, with all its connections.
#[derive(Debug)]
pub struct FunctionServer {
    address: SocketAddr,
    calls: Arc<AtomicUsize>,
    background: Background,
}

/// Which versions of the protocol are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Versions {
    Both,
    OnlyNewest,
    OnlyBeta,
    Neither,
}

const LARGEST: usize = 256 << 20;

type Answering = Pin<Box<dyn Future<Output = Result<RunFunctionResponse, Status>> + Send>>;

#[derive(Clone)]
struct Scripted {
    answer: Arc<dyn Fn(RunFunctionRequest) -> Answering + Send + Sync>,
    calls: Arc<AtomicUsize>,
}

impl Scripted {
    async fn run(
        &self,
        request: Request<RunFunctionRequest>,
    ) -> Result<Response<RunFunctionResponse>, Status> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        (self.answer)(request.into_inner()).await.map(Response::new)
    }
}

#[tonic::async_trait]
impl v1::FunctionRunnerService for Scripted {
    async fn run_function(
        &self,
        request: Request<RunFunctionRequest>,
    ) -> Result<Response<RunFunctionResponse>, Status> {
        self.run(request).await
    }
}

#[tonic::async_trait]
impl v1beta1::FunctionRunnerService for Scripted {
    async fn run_function(
        &self,
        request: Request<RunFunctionRequest>,
    ) -> Result<Response<RunFunctionResponse>, Status> {
        self.run(request).await
    }
}

impl FunctionServer {
    /// Serve both versions in plain text on a port of its own.
    pub async fn start(
        answer: impl Fn(RunFunctionRequest) -> Result<RunFunctionResponse, Status> + Send + Sync + 'static,
    ) -> Self {
        Self::serve("127.0.0.1:0", Versions::Both, None, answer).await
    }

    /// Serve both versions in plain text, and take your time to answer.
    pub async fn start_async<F>(answer: impl Fn(RunFunctionRequest) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<RunFunctionResponse, Status>> + Send + 'static,
    {
        Self::serve_async("127.0.0.1:0", Versions::Both, None, answer).await
    }

    /// Serve these versions at this address, and with TLS only to those who have a certificate of `tls`.
    pub async fn serve(
        address: &str,
        versions: Versions,
        tls: Option<(&Pki, Leaf)>,
        answer: impl Fn(RunFunctionRequest) -> Result<RunFunctionResponse, Status> + Send + Sync + 'static,
    ) -> Self {
        Self::serve_async(address, versions, tls, move |request| ready(answer(request))).await
    }

    /// The same, and take your time to answer.
    pub async fn serve_async<F>(
        address: &str,
        versions: Versions,
        tls: Option<(&Pki, Leaf)>,
        answer: impl Fn(RunFunctionRequest) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<RunFunctionResponse, Status>> + Send + 'static,
    {
        let tls = tls.map(|(pki, leaf)| {
            let identity = Identity::from_pem(leaf.certificate, leaf.key);
            ServerTlsConfig::new().identity(identity).client_ca_root(Certificate::from_pem(pki.ca()))
        });
        Self::serve_configured(address, versions, tls, answer).await
    }

    /// Serve with the certificates in a directory, as functions on upstream's SDKs have them: `tls.crt`, `tls.key` and `ca.crt`.
    pub async fn serve_from<F>(
        address: &str,
        directory: &Path,
        answer: impl Fn(RunFunctionRequest) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<RunFunctionResponse, Status>> + Send + 'static,
    {
        let read = |name: &str| std::fs::read(directory.join(name)).expect("there are certificates");
        let identity = Identity::from_pem(read("tls.crt"), read("tls.key"));
        let tls =
            ServerTlsConfig::new().identity(identity).client_ca_root(Certificate::from_pem(read("ca.crt")));
        Self::serve_configured(address, Versions::Both, Some(tls), answer).await
    }

    async fn serve_configured<F>(
        address: &str,
        versions: Versions,
        tls: Option<ServerTlsConfig>,
        answer: impl Fn(RunFunctionRequest) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<RunFunctionResponse, Status>> + Send + 'static,
    {
        let listener = listen(address).await;
        let address = listener.local_addr().expect("it is bound");
        let calls = Arc::new(AtomicUsize::new(0));
        let answer = move |request| -> Answering { Box::pin(answer(request)) };
        let scripted = Scripted { answer: Arc::new(answer), calls: calls.clone() };
        let mut server = Server::builder();
        if let Some(config) = tls {
            server = server.tls_config(config).expect("the certificates are valid");
        }
        let newest =
            v1::FunctionRunnerServiceServer::new(scripted.clone()).max_decoding_message_size(LARGEST);
        let beta = v1beta1::FunctionRunnerServiceServer::new(scripted).max_decoding_message_size(LARGEST);
        let routes = match versions {
            Versions::Both => server.add_service(newest).add_service(beta),
            Versions::OnlyNewest => server.add_service(newest),
            Versions::OnlyBeta => server.add_service(beta),
            Versions::Neither => server.add_routes(tonic::service::Routes::default()),
        };
        let background = Background::new();
        background.spawn(async move {
            let listener = TcpListener::from_std(listener).expect("it does not block");
            routes
                .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)))
                .await
                .expect("it serves");
        });
        Self { address, calls, background }
    }

    /// End, and wait until all connections are closed.
    pub async fn stop(self) {
        self.background.stop().await;
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
        self.calls.load(Ordering::SeqCst)
    }
}

/// A server that was dropped may need a moment to let go of its address.
async fn listen(address: &str) -> std::net::TcpListener {
    for _ in 0..1000 {
        match bind(address) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            listener => return listener.expect("the address is one of this machine"),
        }
    }
    panic!("somebody else listens on {address}")
}
