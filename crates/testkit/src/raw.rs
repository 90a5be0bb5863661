//! An HTTP/2 server for answers that no proper gRPC server would give.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{BufMut as _, Bytes, BytesMut};
use ferroplane_wire::service::{v1, v1beta1};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tower_service::Service;

use crate::background::Background;
use crate::tcp::bind;

/// An HTTP/2 server at the place of a function. Ends when it is dropped.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    _background: Background,
}

impl HttpServer {
    /// Answer calls of either version like this.
    pub fn start(answer: impl Fn(Request<()>) -> Response<Body> + Send + Sync + 'static) -> Self {
        let listener = bind("127.0.0.1:0").expect("there are free ports");
        let address = listener.local_addr().expect("it is bound");
        let background = Background::new();
        background.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("it does not block");
            let answer = Arc::new(answer);
            let routes = Server::builder()
                .add_service(Answering::<V1>(answer.clone(), PhantomData))
                .add_service(Answering::<V1Beta1>(answer, PhantomData));
            routes
                .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)))
                .await
                .expect("it serves");
        });
        Self { address, _background: background }
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        self.address.to_string()
    }
}

/// A gRPC answer of these bytes, without what has to come after it.
pub fn message(bytes: &[u8]) -> Full<Bytes> {
    let mut frame = BytesMut::with_capacity(5 + bytes.len());
    frame.put_u8(0);
    frame.put_u32(u32::try_from(bytes.len()).expect("gRPC knows no larger messages"));
    frame.put_slice(bytes);
    Full::new(frame.freeze())
}

/// A gRPC answer that starts with these headers, and ends in these trailers.
pub fn answer(
    headers: &[(&'static str, &str)],
    body: Full<Bytes>,
    trailers: &[(&'static str, &str)],
) -> Response<Body> {
    let trailers = map(trailers);
    let body = body.with_trailers(async move { Some(Ok(trailers)) });
    let mut response = Response::new(Body::new(body));
    *response.headers_mut() = map(headers);
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    response
}

fn map(headers: &[(&'static str, &str)]) -> HeaderMap {
    let header = |(name, value): &(&'static str, &str)| {
        (HeaderName::from_static(name), value.parse().expect("values are printable"))
    };
    headers.iter().map(header).collect()
}

type Answer = dyn Fn(Request<()>) -> Response<Body> + Send + Sync;

#[derive(Clone)]
struct V1;
#[derive(Clone)]
struct V1Beta1;

#[derive(Clone)]
struct Answering<V>(Arc<Answer>, PhantomData<V>);

impl NamedService for Answering<V1> {
    const NAME: &'static str = v1::SERVICE_NAME;
}

impl NamedService for Answering<V1Beta1> {
    const NAME: &'static str = v1beta1::SERVICE_NAME;
}

impl<V> Service<Request<Body>> for Answering<V> {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        ready(Ok((self.0)(request.map(|_| ()))))
    }
}
