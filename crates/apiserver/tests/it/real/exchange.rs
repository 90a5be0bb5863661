//! A request as it is sent, and its answer as it is read.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};

/// Somebody who answers.
pub(super) trait Server {
    async fn ask(&self, request: Request<Full<Bytes>>) -> Answer;

    /// Forgets everything that was before a resource version.
    async fn forget(&self, version: &str);

    /// The token of somebody who may do everything.
    fn master(&self) -> String;
}

/// An answer, read whole.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) headers: http::HeaderMap,
    pub(super) body: Bytes,
}

impl Answer {
    pub(super) async fn read<B>(response: Response<B>) -> Self
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: std::fmt::Debug,
    {
        let (parts, body) = response.into_parts();
        // A server that panics hangs up in the middle.
        let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        Self { code: parts.status.as_u16(), headers: parts.headers, body }
    }
}
