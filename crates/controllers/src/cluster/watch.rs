//! What happens to objects, as the API server tells it, one line each.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Error, Refusal};

/// No event is longer than this.
const LONGEST_LINE: usize = 64 << 20;

/// A watch that runs.
pub(crate) struct Watch {
    body: Body,
    /// What came that is not yet a line.
    rest: BytesMut,
    /// Lines that came and were not yet handed out.
    lines: Bytes,
}

/// Something that happened.
#[derive(Debug)]
pub(crate) enum WatchEvent {
    /// It is there now, and says this.
    Put(Bytes),
    /// It is gone. This is what it said last.
    Gone(Bytes),
    /// Nothing, but everything before has been told.
    Bookmark(Bytes),
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl Watch {
    pub(super) fn new(body: Body) -> Self {
        Self { body, rest: BytesMut::new(), lines: Bytes::new() }
    }

    /// The next thing that happens. None if the server has ended the watch.
    pub(crate) async fn next(&mut self) -> Result<Option<WatchEvent>, Error> {
        loop {
            if let Some(line) = self.line() {
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return read(&line).map(Some);
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            let Ok(data) = frame.map_err(|error| Error::Unreachable(error.into()))?.into_data() else {
                continue;
            };
            self.take(&data)?;
        }
    }

    fn line(&mut self) -> Option<Bytes> {
        let end = self.lines.iter().position(|byte| *byte == b'\n')?;
        let line = self.lines.split_to(end + 1);
        Some(line)
    }

    /// Keep what came. As long as lines come whole, nothing is copied.
    fn take(&mut self, data: &Bytes) -> Result<(), Error> {
        let left = std::mem::take(&mut self.lines);
        self.rest.extend_from_slice(&left);
        let Some(end) = data.iter().rposition(|byte| *byte == b'\n') else {
            self.rest.extend_from_slice(data);
            if self.rest.len() > LONGEST_LINE {
                return Err(Error::Unreachable("an event is too long".into()));
            }
            return Ok(());
        };
        if self.rest.is_empty() {
            self.rest.extend_from_slice(&data[end + 1..]);
            self.lines = data.slice(..=end);
        } else {
            let mut lines = std::mem::take(&mut self.rest);
            lines.extend_from_slice(&data[..=end]);
            self.lines = lines.freeze();
            self.rest.extend_from_slice(&data[end + 1..]);
        }
        Ok(())
    }
}

fn read(line: &Bytes) -> Result<WatchEvent, Error> {
    let event: Line<'_> = serde_json::from_slice(line).map_err(Error::garbled)?;
    let text = event.object.get();
    let object = line.slice_ref(text.as_bytes());
    match event.kind {
        "ADDED" | "MODIFIED" => Ok(WatchEvent::Put(object)),
        "DELETED" => Ok(WatchEvent::Gone(object)),
        "BOOKMARK" => Ok(WatchEvent::Bookmark(object)),
        "ERROR" => Err(Error::Refused(Refusal::read(500, text.as_bytes()))),
        kind => Err(Error::Unreachable(format!("`{kind}` is no event").into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_all(pieces: &[&str]) -> Vec<String> {
        let mut watch = Watch::new(Body::from(Vec::new()));
        let mut told = Vec::new();
        for piece in pieces {
            watch.take(&Bytes::copy_from_slice(piece.as_bytes())).unwrap();
            while let Some(line) = watch.line() {
                told.push(match read(&line).unwrap() {
                    WatchEvent::Put(object) => format!("put {}", String::from_utf8_lossy(&object)),
                    WatchEvent::Gone(object) => format!("gone {}", String::from_utf8_lossy(&object)),
                    WatchEvent::Bookmark(_) => "bookmark".to_owned(),
                });
            }
        }
        assert!(watch.next().await.unwrap().is_none());
        told
    }

    #[tokio::test]
    async fn events_are_read_however_they_are_cut() {
        let text = "{\"type\":\"ADDED\",\"object\":{\"a\":1}}\n{\"type\":\"DELETED\",\"object\":{\"b\":2}}\n";
        let whole = ["put {\"a\":1}", "gone {\"b\":2}"];
        assert_eq!(read_all(&[text]).await, whole);
        for cut in 1..text.len() {
            assert_eq!(read_all(&[&text[..cut], &text[cut..]]).await, whole, "cut at {cut}");
        }
    }
}
