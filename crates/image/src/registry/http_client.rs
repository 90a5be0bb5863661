//! HTTP with limits: one request, one answer, each in bounded time; bodies in bounded size.

use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Request, Response, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::timeout;

use super::connector::{ConnectError, Connector, TlsError};
use super::proxy::Proxies;
use super::{Failure, Timeouts};

/// How long a connection that nothing uses stays open.
const IDLE_CONNECTION: Duration = Duration::from_secs(20);

pub(super) type Outgoing = Request<Full<Bytes>>;

/// Sends requests, over connections that it keeps for a while.
pub(super) struct HttpClient {
    client: Client<Connector, Full<Bytes>>,
    connector: Connector,
    timeouts: Timeouts,
}

/// An answer whose body is still to come.
#[derive(Debug)]
pub(super) struct Answer {
    /// Who sent it, for messages.
    pub(super) host: String,
    pub(super) head: http::response::Parts,
    body: Incoming,
    idle: Duration,
}

impl HttpClient {
    pub(super) fn new(authorities: &[u8], proxies: Proxies, timeouts: Timeouts) -> Result<Self, TlsError> {
        let connector = Connector::new(authorities, proxies, timeouts.connect)?;
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_CONNECTION)
            .pool_timer(TokioTimer::new())
            .build(connector.clone());
        Ok(Self { client, connector, timeouts })
    }

    pub(super) async fn send(&self, request: Outgoing) -> Result<Answer, Failure> {
        let host = host(request.uri());
        // Sending a large body takes as long as it takes, within the time for the whole.
        let limit = self.timeouts.connect + self.timeouts.answer;
        let response = match timeout(limit, self.client.request(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) if error.is_connect() => {
                return Err(Failure::Unreachable { host, source: Box::new(error) });
            }
            Ok(Err(error)) => return Err(Failure::Broken { host, source: Box::new(error) }),
            Err(_) => {
                return Err(Failure::Slow { host, what: "to answer", seconds: limit.as_secs() });
            }
        };
        Ok(Answer::new(host, response, self.timeouts.idle))
    }

    pub(super) async fn speaks_plainly(&self, host: &str, port: u16) -> Result<bool, ConnectError> {
        self.connector.speaks_plainly(host, port).await
    }
}

impl Answer {
    fn new(host: String, response: Response<Incoming>, idle: Duration) -> Self {
        let (head, body) = response.into_parts();
        Self { host, head, body, idle }
    }

    pub(super) fn header(&self, name: impl http::header::AsHeaderName) -> Option<&str> {
        self.head.headers.get(name)?.to_str().ok()
    }

    pub(super) fn length(&self) -> Option<u64> {
        length(&self.head.headers)
    }

    /// The next piece of the body.
    pub(super) async fn next_chunk(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            match timeout(self.idle, self.body.frame()).await {
                Ok(None) => return Ok(None),
                Ok(Some(Ok(frame))) => {
                    // Trailers say nothing that we need.
                    if let Ok(chunk) = frame.into_data() {
                        return Ok(Some(chunk));
                    }
                }
                Ok(Some(Err(error))) => {
                    return Err(Failure::Broken { host: self.host.clone(), source: Box::new(error) });
                }
                Err(_) => {
                    let seconds = self.idle.as_secs();
                    return Err(Failure::Slow { host: self.host.clone(), what: "to send more", seconds });
                }
            }
        }
    }

    /// The whole body, if it is not larger than this.
    pub(super) async fn document(mut self, what: &'static str, limit: u64) -> Result<Vec<u8>, Failure> {
        if let Some(size) = self.length().filter(|size| *size > limit) {
            return Err(Failure::TooLarge { what, size, limit });
        }
        let mut content = Vec::new();
        while let Some(chunk) = self.next_chunk().await? {
            let size = (content.len() + chunk.len()) as u64;
            if size > limit {
                return Err(Failure::TooLarge { what, size, limit });
            }
            content.extend_from_slice(&chunk);
        }
        Ok(content)
    }

    /// As much of the body as fits: for messages.
    pub(super) async fn beginning(mut self, limit: usize) -> Vec<u8> {
        let mut content = Vec::new();
        while content.len() < limit {
            match self.next_chunk().await {
                Ok(Some(chunk)) => {
                    content.extend_from_slice(&chunk[..chunk.len().min(limit - content.len())]);
                }
                _ => break,
            }
        }
        content
    }
}

fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Host and port, for messages: without a path, whose query may have a signature in it.
pub(super) fn host(uri: &Uri) -> String {
    uri.authority().map(|authority| authority.as_str().to_owned()).unwrap_or_default()
}
