//! Reads what clients send, as long as they send it at a useful rate.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use ferroplane_schema::builtin;
use ferroplane_schema::status::Status;
use ferroplane_schema::writes::{self, Body};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::flow_control::BodyReservation;
use crate::negotiate::BodyForm;

/// The most that a request may carry; kube-apiserver's limit, twice that of a stored object.
pub(super) const MAX_BODY: usize = 3 * 1024 * 1024;

/// How much of a body that is too large is read and thrown away. A client that is still sending does not listen, and over HTTP/2
/// takes the end of the stream for a failure instead of reading the answer.
const MAX_DRAINED: usize = 32 * 1024 * 1024;

/// How long a body may take that does not come at once. A client that has lost its network needs a moment to send again.
const GRACE: Duration = Duration::from_secs(5);

/// How many bytes a second have to come after that: a line of the last century. A client that sends less wants to keep us waiting.
const LEAST_RATE: u64 = 4 << 10;

/// How long any body may take. Leaves enough of the deadline of a request to do what it asks for.
const LONGEST: Duration = Duration::from_secs(45);

/// All of a body, unless it is too large, comes too slowly or takes memory that others need. One without a reservation comes from
/// this process.
pub(super) async fn collect<B>(body: B, reserved: Option<&BodyReservation>) -> Result<Bytes, Status>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut body = pin!(body);
    let (mut collected, mut size) = (Vec::new(), 0);
    let began_at = Instant::now();
    while let Some(frame) = next_frame(&mut body, began_at, size).await? {
        let frame = frame.map_err(|error| {
            Status::bad_request(&format!("cannot read the body of the request: {}", error.into()))
        })?;
        let Ok(data) = frame.into_data() else { continue };
        size += data.len();
        if size <= MAX_BODY {
            if let Some(reserved) = reserved {
                reserved.grow(size)?;
            }
            collected.push(data);
        } else {
            collected.clear();
        }
        if size > MAX_DRAINED {
            break;
        }
    }
    if size > MAX_BODY {
        return Err(Status::request_too_large(&format!("limit is {MAX_BODY}")));
    }
    Ok(match collected.as_slice() {
        // Most are one piece.
        [only] => only.clone(),
        pieces => Bytes::from(pieces.concat()),
    })
}

type NextFrame<B> =
    Option<Result<http_body::Frame<<B as http_body::Body>::Data>, <B as http_body::Body>::Error>>;

/// The next piece of a body of which so many bytes have come, or the refusal of a client that is too slow.
async fn next_frame<B: http_body::Body>(
    body: &mut std::pin::Pin<&mut B>,
    began_at: Instant,
    size: usize,
) -> Result<NextFrame<B>, Status> {
    let paid = Duration::from_secs(size as u64 / LEAST_RATE);
    let limit = LONGEST.min(GRACE + paid);
    timeout_at(began_at + limit, body.frame()).await.map_err(|_| {
        let words = format!(
            "the body of the request came too slowly: {size} bytes in {} seconds; at least {LEAST_RATE} bytes per second \
             have to come after the first {} seconds, and all of them within {} seconds",
            began_at.elapsed().as_secs(),
            GRACE.as_secs(),
            LONGEST.as_secs(),
        );
        Status { code: 408, ..Status::timeout(&words, 1) }
    })
}

/// An object that was sent.
pub(super) fn object<'b>(form: BodyForm, text: &'b Bytes, kind: &str) -> Result<Body<'b>, Status> {
    read(form, text, kind).map_err(|why| {
        let shown = writes::shown(text);
        Status::bad_request(&format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({shown})"
        ))
    })
}

/// What was sent, or why it cannot be read.
pub(super) fn read<'b>(form: BodyForm, text: &'b Bytes, kind: &str) -> Result<Body<'b>, String> {
    match form {
        BodyForm::Json => {
            Body::json(text).map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))
        }
        BodyForm::Yaml => yaml(text),
        BodyForm::Protobuf => protobuf(text, kind),
    }
}

pub(super) fn unknown_kind(kind: &str, api_version: &str) -> String {
    format!(
        "no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"pkg/runtime/scheme.go:111\""
    )
}

/// An object of one of Kubernetes' own kinds. What it is, its envelope says.
fn protobuf<'b>(text: &'b Bytes, kind: &str) -> Result<Body<'b>, String> {
    let decoded = builtin::protobuf::open(text).map_err(|error| error.to_string())?;
    let name = if decoded.kind.is_empty() { kind } else { &decoded.kind };
    let (group, version) = decoded.api_version.split_once('/').unwrap_or(("", &decoded.api_version));
    let known = builtin::kind(group, version, name);
    let known = known.ok_or_else(|| unknown_kind(name, &decoded.api_version))?;
    let value = decoded.object(known).map_err(|error| error.to_string())?;
    Ok(Body { value, complaints: Vec::new(), text })
}

/// A configuration that is applied. JSON is YAML, and reads faster as what it is.
pub(super) fn configuration(text: &Bytes) -> Result<Body<'_>, Status> {
    let is_json = text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    if is_json && let Ok(body) = Body::json(text) {
        return Ok(body);
    }
    yaml(text).map_err(|error| Status::bad_request(&format!("error decoding YAML: {error}")))
}

fn yaml(text: &Bytes) -> Result<Body<'_>, String> {
    let utf8 = std::str::from_utf8(text).map_err(|error| error.to_string())?;
    let value: Value = serde_saphyr::from_str(utf8).map_err(|error| error.to_string())?;
    Ok(Body { value, complaints: Vec::new(), text })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;

    use http_body::Frame;
    use http_body_util::StreamBody;

    use super::*;

    const PIECE: usize = 64 * 1024;

    /// What is said of a body of so many bytes, and how many of them were read.
    async fn collected(size: usize) -> (Result<usize, u16>, usize) {
        let read = Cell::new(0);
        let pieces = futures_util::stream::iter((0..size / PIECE).map(|_| {
            read.set(read.get() + PIECE);
            Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b' '; PIECE])))
        }));
        let collected = collect(StreamBody::new(pieces), None).await;
        (collected.map(|bytes| bytes.len()).map_err(|status| status.code), read.get())
    }

    #[tokio::test]
    async fn body_that_is_too_large_is_read_to_its_end_and_refused() {
        assert_eq!(collected(MAX_BODY).await, (Ok(MAX_BODY), MAX_BODY));
        assert_eq!(collected(MAX_BODY + PIECE).await, (Err(413), MAX_BODY + PIECE));
        // There is an end to it: a client that sends without one is cut off.
        assert_eq!(collected(10 * MAX_DRAINED).await, (Err(413), MAX_DRAINED + PIECE));
    }

    /// How long a body is read that comes in pieces of this size, one a second, and the code that ends it.
    async fn read_slowly(piece: usize) -> (u16, u64) {
        let pieces = futures_util::stream::unfold((), |()| async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Some((Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b' '; piece]))), ()))
        });
        let began_at = Instant::now();
        let refused = collect(StreamBody::new(pieces), None).await.unwrap_err();
        (refused.code, began_at.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn body_that_comes_too_slowly_is_given_up() {
        assert_eq!(read_slowly(1).await, (408, 5));
        // What is sent buys time, up to an end.
        assert_eq!(read_slowly(3 << 10).await, (408, 17));
        assert_eq!(read_slowly(16 << 10).await, (408, 45));
    }
}
