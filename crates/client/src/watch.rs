//! The events of a watch, one line each.
//!
//! # Invariants
//! * Every watch ends: the server is asked to end it after some minutes, and if it does not, the watch ends by itself soon after. A
//!   connection that has fallen silent, with no server at its other end any more, looks like one on which nothing happens.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tracing::debug;

use crate::body_chunks::BodyChunks;
use crate::{Error, StatusError};

/// No event is longer than this.
const LONGEST_LINE: usize = 64 << 20;
/// How long a watch lasts at least, and how much longer at most, as in client-go.
const SHORTEST: u64 = 5 * 60;
const SPREAD: u64 = 5 * 60;
/// How much later than it was asked to the server may end a watch.
const GRACE: Duration = Duration::from_secs(30);

/// A watch that runs.
pub struct Watch {
    body: Body,
    /// What came and was not yet handed out, or dropped.
    chunks: BodyChunks,
    /// How much of it was handed out, and how much is known to contain no whole line.
    read: usize,
    searched: usize,
    /// When the server has had time enough to end it.
    deadline: Instant,
}

/// What happened, with the object as the server sent it.
#[derive(Debug)]
pub enum WatchEvent {
    /// The object was created or changed.
    Applied(Bytes),
    /// The object was deleted. This is its last state.
    Deleted(Bytes),
    /// Nothing happened, but everything up to this resource version has been sent.
    Bookmark(Bytes),
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl Watch {
    /// A watch that the server was asked to end after so many seconds.
    pub(crate) fn new(body: Body, seconds: u64) -> Self {
        let deadline = Instant::now() + Duration::from_secs(seconds) + GRACE;
        Self { body, chunks: BodyChunks::default(), read: 0, searched: 0, deadline }
    }

    /// The next event. None if the watch has ended: begin another one where this one was.
    pub async fn next(&mut self) -> Result<Option<WatchEvent>, Error> {
        loop {
            if let Some(event) = self.line()? {
                return Ok(Some(event));
            }
            let Ok(frame) = tokio::time::timeout_at(self.deadline, self.body.frame()).await else {
                debug!("the API server has not ended a watch in time; the connection may be dead");
                return Ok(None);
            };
            let Some(frame) = frame else { return Ok(None) };
            let Ok(data) = frame.map_err(|error| Error::Unreachable(error.into()))?.into_data() else {
                continue;
            };
            self.take(data)?;
        }
    }

    /// What the next line says, if it is there.
    fn line(&mut self) -> Result<Option<WatchEvent>, Error> {
        loop {
            let text = self.chunks.text();
            let Some(length) = text[self.searched..].iter().position(|byte| *byte == b'\n') else {
                self.searched = text.len();
                return Ok(None);
            };
            let start = std::mem::replace(&mut self.read, self.searched + length + 1);
            self.searched = self.read;
            let line = &text[start..self.read];
            if !line.iter().all(u8::is_ascii_whitespace) {
                return read(line, &self.chunks).map(Some);
            }
        }
    }

    fn take(&mut self, data: Bytes) -> Result<(), Error> {
        // Only when more data comes: dropping after each line would move the rest of the buffer for every
        // event.
        self.chunks.drop_front(self.read);
        self.searched -= std::mem::take(&mut self.read);
        self.chunks.push(data);
        if self.searched > LONGEST_LINE {
            return Err(Error::Unreachable("an event is too long".into()));
        }
        Ok(())
    }
}

/// After how many seconds a server is asked to end a watch.
pub(crate) fn lifetime(uri: &str) -> u64 {
    // Different for each watch, so that they do not all begin again at once, and no matter of chance, so that what happens can be repeated.
    let mut hasher = DefaultHasher::new();
    uri.hash(&mut hasher);
    SHORTEST + hasher.finish() % SPREAD
}

fn read(line: &[u8], chunks: &BodyChunks) -> Result<WatchEvent, Error> {
    let event: Line<'_> = serde_json::from_slice(line).map_err(Error::invalid_answer)?;
    let text = event.object.get();
    let object = chunks.part(chunks.range(text));
    match event.kind {
        "ADDED" | "MODIFIED" => Ok(WatchEvent::Applied(object)),
        "DELETED" => Ok(WatchEvent::Deleted(object)),
        "BOOKMARK" => Ok(WatchEvent::Bookmark(object)),
        // A watch answers 200 before it fails, so that the status code is in the event; 410 is the common
        // one.
        "ERROR" => Err(Error::Refused(StatusError::read(500, text.as_bytes()))),
        kind => Err(Error::Unreachable(format!("`{kind}` is not an event").into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_all(pieces: &[&str]) -> Vec<String> {
        let mut watch = Watch::new(Body::from(Vec::new()), SHORTEST);
        let mut told = Vec::new();
        for piece in pieces {
            watch.take(Bytes::copy_from_slice(piece.as_bytes())).unwrap();
            while let Some(event) = watch.line().unwrap() {
                told.push(match event {
                    WatchEvent::Applied(object) => format!("put {}", String::from_utf8_lossy(&object)),
                    WatchEvent::Deleted(object) => format!("gone {}", String::from_utf8_lossy(&object)),
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
