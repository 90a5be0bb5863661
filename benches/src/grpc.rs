//! A function call over gRPC, against a bare echo of the same bytes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::{Buf, BufMut, Bytes};
use ferroplane_runner::grpc::{Client, Options};
use ferroplane_wire::v1::{Resource, RunFunctionRequest};
use ferroplane_wire::{State, methods};
use http::uri::PathAndQuery;
use nix::sys::resource::UsageWho;
use prost::Message as _;
use tokio::runtime::Runtime;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Request, Status};

use crate::measure::{Stopwatch, Times, pretty, ratio};
use crate::objects::{composed, to_struct, xr};

const CALLS: u32 = 3000;

pub(crate) fn run() {
    let runtime = Runtime::new().expect("there is a runtime");
    let request = request(14);
    let size = request.encoded_len();
    println!("request and answer of {size} bytes each, one call after the other over one connection\n");
    println!("| what | p50 | p99 | processor, both sides | against bare |\n|---|---|---|---|---|");
    let bytes = Bytes::from(request.encode_to_vec());
    // What a request observes has the number of what a response desires: an echo of one is the other.
    let (echo, address) = runtime.block_on(echo::start());
    let target = address.parse().expect("it is an address");
    let client = runtime.block_on(async { Client::new(target, Options::default()) }).expect("it is a client");
    // In turns, so that both see the same machine.
    let mut samples: BTreeMap<&str, (Vec<Duration>, Duration)> = BTreeMap::new();
    for _ in 0..3 {
        let bare = runtime.block_on(timed(CALLS, async || echo.call(bytes.clone()).await));
        let ours =
            runtime.block_on(timed(CALLS, async || drop(client.call(&request).await.expect("it answers"))));
        for (name, (times, processor)) in [("bare", bare), ("ours", ours)] {
            let entry = samples.entry(name).or_default();
            entry.0.extend(times);
            entry.1 += processor / 3;
        }
    }
    let mut report = |name: &str, label: &str, base: Option<Duration>| {
        let (times, processor) = samples.remove(name).expect("it was measured");
        let times = Times::from(times);
        let against = base.map_or_else(|| "1".to_owned(), |base| ratio(times.p50(), base));
        println!(
            "| {label} | {} | {} | {} | {against} |",
            pretty(times.p50()),
            pretty(times.p99()),
            pretty(processor / CALLS)
        );
        times.p50()
    };
    let bare = report("bare", "bare tonic echo of the bytes", None);
    report("ours", "function call", Some(bare));
}

pub(crate) async fn timed(calls: u32, call: impl AsyncFn()) -> (Vec<Duration>, Duration) {
    for _ in 0..100 {
        call().await;
    }
    let stopwatch = Stopwatch::start(UsageWho::RUSAGE_SELF);
    let mut times = Vec::new();
    for _ in 0..calls {
        let started = Instant::now();
        call().await;
        times.push(started.elapsed());
    }
    (times, stopwatch.read())
}

pub(crate) fn request(resources: usize) -> RunFunctionRequest {
    let resource = |value| Resource { resource: Some(to_struct(value)), ..Resource::default() };
    let resources = (0..resources).map(|number| (format!("resource-{number}"), resource(composed(number))));
    RunFunctionRequest {
        observed: Some(State::new(Some(resource(xr())), resources.collect())),
        ..RunFunctionRequest::default()
    }
}

/// Bytes there and back, with nothing of ours in between.
pub(crate) mod echo {
    use tonic::server::{NamedService, UnaryService};
    use tonic::transport::server::TcpIncoming;
    use tonic::transport::{Channel, Server, ServerTlsConfig};

    use super::{Bytes, PathAndQuery, Raw, Request, Status, methods};

    pub(super) struct Echo(Channel);

    impl Echo {
        pub(crate) async fn call(&self, bytes: Bytes) {
            let mut grpc = tonic::client::Grpc::new(self.0.clone()).max_decoding_message_size(usize::MAX);
            grpc.ready().await.expect("it is there");
            let path = PathAndQuery::from_static(methods::V1);
            drop(grpc.unary(Request::new(bytes), path, Raw).await.expect("it answers"));
        }
    }

    pub(super) async fn start() -> (Echo, String) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("there is a port");
        let address = listener.local_addr().expect("it is bound");
        tokio::spawn(serve(listener, None));
        let endpoint = Channel::from_shared(format!("http://{address}")).expect("it is an address");
        (Echo(endpoint.connect().await.expect("it listens")), address.to_string())
    }

    pub(crate) async fn serve(listener: tokio::net::TcpListener, tls: Option<ServerTlsConfig>) {
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let mut server = Server::builder();
        if let Some(tls) = tls {
            server = server.tls_config(tls).expect("the certificates are valid");
        }
        server.add_service(Service).serve_with_incoming(incoming).await.expect("it serves");
    }

    #[derive(Clone)]
    struct Service;

    impl NamedService for Service {
        const NAME: &'static str = "apiextensions.fn.proto.v1.FunctionRunnerService";
    }

    impl UnaryService<Bytes> for Service {
        type Response = Bytes;
        type Future = std::future::Ready<Result<tonic::Response<Bytes>, Status>>;

        fn call(&mut self, request: Request<Bytes>) -> Self::Future {
            std::future::ready(Ok(tonic::Response::new(request.into_inner())))
        }
    }

    impl tonic::codegen::Service<http::Request<tonic::body::Body>> for Service {
        type Response = http::Response<tonic::body::Body>;
        type Error = std::convert::Infallible;
        type Future = std::pin::Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

        fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
            std::task::Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
            Box::pin(async move {
                let mut grpc = tonic::server::Grpc::new(Raw);
                Ok(grpc.unary(Service, request).await)
            })
        }
    }
}

#[derive(Clone, Copy)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}
