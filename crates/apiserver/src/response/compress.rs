//! Makes large answers smaller for clients that can read them so.

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, VARY};
use http::{HeaderMap, HeaderValue, Response};

use super::Body;

/// Smaller answers are sent sooner than they are compressed.
const WORTHWHILE: usize = 128 << 10;

/// Whether a client reads gzip.
pub(crate) fn is_welcome(headers: &HeaderMap) -> bool {
    let encodings = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|header| header.to_str().ok());
    encodings.flat_map(|header| header.split(',')).any(|encoding| {
        let mut parts = encoding.split(';').map(str::trim);
        parts.next() == Some("gzip") && parts.next().is_none_or(|quality| quality != "q=0")
    })
}

/// Compresses an answer if it is worth it. What comes as things happen stays as it is.
///
/// Keeps something until that is done, even if nothing waits for it any more: the place of the request.
pub(crate) async fn compress(response: Response<Body>, held: impl Send + 'static) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    let is_worthwhile = body.bytes() > WORTHWHILE && !parts.headers.contains_key(CONTENT_ENCODING);
    let pieces: Option<Box<dyn Iterator<Item = Bytes> + Send>> = match &body {
        Body::Chunks(chunks) if is_worthwhile => Some(Box::new(chunks.clone().into_iter())),
        Body::List(list) if is_worthwhile => Some(Box::new(list.clone())),
        _ => None,
    };
    let Some(pieces) = pieces else { return Response::from_parts(parts, body) };
    // Compressing a large list takes milliseconds, in which no other request should have to wait.
    let compressed = tokio::task::spawn_blocking(move || {
        let compressed = gzip(pieces);
        drop(held);
        compressed
    });
    let Ok(Ok(compressed)) = compressed.await else { return Response::from_parts(parts, body) };
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    Response::from_parts(parts, Body::from(Bytes::from(compressed)))
}

fn gzip(pieces: impl Iterator<Item = Bytes>) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    for piece in pieces {
        encoder.write_all(&piece)?;
    }
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn only_large_answers_are_compressed() {
        for (size, is_compressed) in [(1_000, false), (1_000_000, true)] {
            let response = compress(Response::new(Body::from(Bytes::from(vec![b' '; size]))), ()).await;
            assert_eq!(response.headers().contains_key(CONTENT_ENCODING), is_compressed);
            let bytes = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(bytes.len() < 10_000, is_compressed || size < 10_000);
        }
    }

    #[test]
    fn clients_say_what_they_read() {
        let reads = |text: &'static str| {
            is_welcome(&HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(text))]))
        };
        assert!(reads("gzip") && reads("deflate, gzip;q=1.0") && !reads("br") && !reads("gzip;q=0"));
    }
}
