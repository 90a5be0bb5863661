//! Answers: bytes that are there already, or that come as things happen.

mod compress;
mod counted;
mod object_list;

use std::collections::{HashSet, VecDeque};
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use ferroplane_schema::status::Status;
use futures_core::Stream;
use futures_util::StreamExt as _;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WARNING, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Response, StatusCode};
use http_body::{Frame, SizeHint};
use serde_json::Value;

use crate::negotiate::Form;
pub(crate) use compress::{compress, is_welcome as is_compression_welcome};
use counted::CountedBody;
pub(crate) use counted::count;
pub(crate) use object_list::ObjectList;

/// The size of what is sent at a time of a large body: one buffer for all would be copied whenever it grows.
pub(crate) const PIECE: usize = 64 * 1024;

/// The body of an answer.
pub enum Body {
    /// Chunks that are sent one after the other. They are shared with the store, not copied.
    Chunks(VecDeque<Bytes>),
    /// Objects of the store, joined while they are sent.
    List(ObjectList),
    /// One of the others that is complete, and counts until it has been sent.
    Counted(Box<CountedBody>),
    /// What comes as things happen.
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

impl Body {
    pub(crate) fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self::Stream(Box::pin(stream))
    }
}

impl Body {
    /// Keeps something until the body has been sent, or is given up.
    pub(crate) fn holding(self, held: impl Send + 'static) -> Self {
        match self {
            // What is complete needs no place while its client reads it: it counts by its memory instead.
            Self::Chunks(_) | Self::List(_) | Self::Counted(_) => self,
            Self::Stream(stream) => Self::stream(stream.inspect(move |_| {
                let _ = &held;
            })),
        }
    }

    /// How many bytes are left of it. None of what comes as things happen are there yet.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Chunks(chunks) => chunks.iter().map(Bytes::len).sum(),
            Self::List(list) => list.left(),
            Self::Counted(body) => body.left(),
            Self::Stream(_) => 0,
        }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Chunks([bytes].into())
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chunks(chunks) => write!(formatter, "Body({} chunks)", chunks.len()),
            Self::List(_) | Self::Counted(_) => write!(formatter, "Body({} bytes)", self.bytes()),
            Self::Stream(_) => formatter.write_str("Body(stream)"),
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Chunks(chunks) => Poll::Ready(chunks.pop_front().map(|chunk| Ok(Frame::data(chunk)))),
            Self::List(list) => Poll::Ready(list.next().map(|piece| Ok(Frame::data(piece)))),
            Self::Counted(body) => {
                body.poll_piece(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
            }
            Self::Stream(stream) => {
                stream.as_mut().poll_next(context).map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Chunks(chunks) => chunks.is_empty(),
            Self::List(list) => list.left() == 0,
            Self::Counted(body) => body.is_over(),
            Self::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Stream(_) => SizeHint::default(),
            _ => SizeHint::with_exact(self.bytes() as u64),
        }
    }
}

/// An answer with a body of some type.
pub(crate) fn of_type(code: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// A document in the form that the client wants.
pub(crate) fn document(code: StatusCode, form: Form, value: &Value) -> Response<Body> {
    let text = match form {
        Form::Json => {
            let mut text = value.to_string();
            text.push('\n');
            text
        }
        // Whatever has become JSON can be written as YAML.
        Form::Yaml => serde_saphyr::to_string(value).unwrap_or_default(),
    };
    of_type(code, form.media_type(), Bytes::from(text))
}

/// JSON that is there as bytes.
pub(crate) fn json(code: StatusCode, bytes: impl Into<Body>) -> Response<Body> {
    of_type(code, Form::Json.media_type(), bytes)
}

pub(crate) fn text(code: StatusCode, text: impl Into<String>) -> Response<Body> {
    let mut response = of_type(code, "text/plain; charset=utf-8", Bytes::from(text.into()));
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// What an unknown path gets, as from a real server.
pub(crate) fn page_not_found() -> Response<Body> {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// How something ended.
pub(crate) fn status(status: &Status, form: Form) -> Response<Body> {
    let fallback = if status.is_success { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    let code = StatusCode::from_u16(status.code).unwrap_or(fallback);
    let mut response = document(code, form, &status.to_json());
    let wait = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    if wait > 0 {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait));
    }
    warn(&mut response, &status.warnings);
    if !status.is_success {
        // The log tells it, too.
        response.extensions_mut().insert(Arc::new(status.clone()));
    }
    response
}

/// How many characters all warnings of an answer may have before each is cut, and what is left of each then. Proxies and
/// clients refuse answers with large headers.
const MAX_WARNINGS: usize = 4 * 1024;
const MAX_CUT_WARNING: usize = 256;

/// What of warnings is sent: each once and, if they are long, the beginnings of the first ones.
///
/// Follows k8s.io/apiserver 0.36.4, `pkg/endpoints/filters/warning.go`.
fn cut_warnings(warnings: &[String]) -> Vec<String> {
    let mut seen = HashSet::new();
    let unique: Vec<_> = warnings.iter().filter(|warning| seen.insert(*warning)).collect();
    let total: usize = unique.iter().map(|warning| warning.chars().count()).sum();
    if total <= MAX_WARNINGS {
        return unique.into_iter().cloned().collect();
    }
    let (mut cut, mut sent) = (Vec::new(), 0);
    for warning in unique {
        if sent >= MAX_WARNINGS {
            break;
        }
        let text: String = warning.chars().take(MAX_CUT_WARNING).collect();
        sent += text.chars().count();
        cut.push(text);
    }
    cut
}

/// Adds warnings, which clients show to their users.
pub(crate) fn warn(response: &mut Response<Body>, warnings: &[String]) {
    for warning in cut_warnings(warnings) {
        // Header values have no line breaks and no control characters.
        let text: String = warning.chars().filter(|character| !character.is_control()).collect();
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            response.headers_mut().append(WARNING, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_warnings_are_cut_and_none_is_sent_twice() {
        let texts = |lengths: &[usize]| -> Vec<String> {
            let indexed = lengths.iter().enumerate();
            indexed.map(|(index, length)| format!("{index:x}").repeat(*length)).collect()
        };
        let lengths = |warnings: &[String]| -> Vec<usize> {
            cut_warnings(warnings).iter().map(|warning| warning.chars().count()).collect()
        };
        assert_eq!(lengths(&texts(&[1000, 3000])), [1000, 3000]);
        assert_eq!(lengths(&texts(&[1000, 3000, 97])), [256, 256, 97]);
        assert_eq!(lengths(&texts(&[30_000])), [256]);
        assert_eq!(lengths(&texts(&[300; 16])).len(), 16);
        let many: Vec<_> = (0..100).map(|index| format!("{index}{}", "x".repeat(300))).collect();
        assert_eq!(lengths(&many), [256; 16]);
        let same = "same".to_owned();
        assert_eq!(cut_warnings(&[same.clone(), same.clone()]), [same]);
    }
}
