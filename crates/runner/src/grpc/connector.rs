//! Connections that are made elsewhere: to a function that has no address, such as one in a network namespace of its own.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

type Connecting<T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send>>;

/// Makes connections to one function.
#[derive(Clone)]
pub struct Connector(Arc<dyn Fn() -> Connecting<TcpStream> + Send + Sync>);

impl Connector {
    pub fn new<F>(connect: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<TcpStream>> + Send + 'static,
    {
        Self(Arc::new(move || Box::pin(connect())))
    }

    pub(super) fn connect(&self) -> Connecting<TcpStream> {
        (self.0)()
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = Connecting<Self::Response>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let connecting = self.connect();
        Box::pin(async move {
            let stream = connecting.await?;
            stream.set_nodelay(true)?;
            Ok(TokioIo::new(stream))
        })
    }
}
