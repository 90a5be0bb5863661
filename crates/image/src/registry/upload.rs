//! Sending a blob in pieces. An upload that breaks off continues from where the registry says that it is.
//!
//! # Invariants
//! * Only what the registry has confirmed counts as sent.
//! * A registry that does not know an upload any more gets a new one; attempts without progress are counted over all of them.

use std::sync::Arc;

use bytes::Bytes;
use ferroplane_api::image::Digest;
use http::header::{CONTENT_RANGE, CONTENT_TYPE, LOCATION, RANGE};
use http::{HeaderName, HeaderValue, Method, StatusCode, Uri};
use tokio::task::spawn_blocking;

use super::blobs::PROGRESS;
use super::exchange::{Ask, Repository, status_failure};
use super::http_client::Answer;
use super::push::{Push, absent};
use super::{Failure, Registry};
use crate::manifest::Descriptor;
use crate::store::{BlobReader, Store};

/// How much of a blob is sent at once.
const CHUNK: u64 = 4 << 20;
/// How large a registry may want the pieces to be.
const LARGEST_CHUNK: u64 = 64 << 20;
const SMALLEST: HeaderName = HeaderName::from_static("oci-chunk-min-length");

/// An upload that a registry has begun.
struct Upload {
    content: Arc<BlobReader>,
    /// Where the next piece goes.
    location: Uri,
    /// How much the registry has.
    sent: u64,
    /// How much is sent at once.
    chunk: u64,
}

impl Registry {
    /// Make sure that the registry has a blob, in as many attempts as it takes.
    pub(super) async fn push_blob(
        &self,
        repository: &Repository,
        blob: &Descriptor,
        push: &Push,
    ) -> Result<(), Failure> {
        let (mut upload, mut failures, mut furthest) = (None, 0, 0);
        while let Err(failure) = self.send(repository, blob, push, &mut upload).await {
            let sent = upload.as_ref().map_or(0, |upload: &Upload| upload.sent);
            if sent >= furthest + PROGRESS {
                (failures, furthest) = (0, sent);
            }
            self.options().retries.wait(&mut failures, failure).await?;
        }
        Ok(())
    }

    /// One attempt, which leaves behind how far the upload is.
    async fn send(
        &self,
        repository: &Repository,
        blob: &Descriptor,
        push: &Push,
        upload: &mut Option<Upload>,
    ) -> Result<(), Failure> {
        if let Some(begun) = upload {
            match self.resume(repository, begun, blob, push).await {
                // The registry dropped the upload, or has finished it already. A new one asks first whether the blob is there.
                Err(Failure::Status { status, .. }) if status.is_client_error() && !is_busy(status) => {}
                Err(Failure::Protocol { .. }) => {}
                done => return done,
            }
        }
        *upload = self.begin(repository, blob, push).await?;
        let Some(begun) = upload else {
            push.progress.report(blob, blob.size);
            return Ok(());
        };
        self.send_rest(repository, begun, blob, push).await
    }

    /// Begin an upload, unless the registry has the blob.
    async fn begin(
        &self,
        repository: &Repository,
        blob: &Descriptor,
        push: &Push,
    ) -> Result<Option<Upload>, Failure> {
        let uri = repository.uri(&format!("blobs/{}", blob.digest))?;
        let head = Ask::new(Method::HEAD, uri, "the request for a blob");
        if self.ask_any(repository, &head).await?.head.status == StatusCode::OK {
            return Ok(None);
        }
        let mount = push.mount_from.as_ref().map(|from| format!("?mount={}&from={from}", blob.digest));
        let uri = repository.uri(&format!("blobs/uploads/{}", mount.unwrap_or_default()))?;
        let begin = Ask::new(Method::POST, uri, "the start of an upload");
        let answer = self.ask(repository, &begin).await?;
        if answer.head.status == StatusCode::CREATED {
            return Ok(None);
        }
        let smallest = answer.header(SMALLEST).and_then(|bytes| bytes.parse::<u64>().ok());
        let chunk = CHUNK.max(smallest.unwrap_or_default()).min(LARGEST_CHUNK);
        let location = self.location(repository, &begin.uri, &answer)?;
        Ok(Some(Upload { content: open(&push.store, blob).await?, location, sent: 0, chunk }))
    }

    /// Ask how far an upload is, and send the rest.
    async fn resume(
        &self,
        repository: &Repository,
        upload: &mut Upload,
        blob: &Descriptor,
        push: &Push,
    ) -> Result<(), Failure> {
        let ask = Ask::get(upload.location.clone(), "the request for the state of an upload");
        let answer = self.ask(repository, &ask).await?;
        let position = answer.header(RANGE).and_then(position).filter(|position| *position <= blob.size);
        upload.sent = position
            .ok_or_else(|| Failure::Protocol { host: answer.host.clone(), what: "the state of an upload" })?;
        if answer.header(LOCATION).is_some() {
            upload.location = self.location(repository, &ask.uri, &answer)?;
        }
        self.send_rest(repository, upload, blob, push).await
    }

    async fn send_rest(
        &self,
        repository: &Repository,
        upload: &mut Upload,
        blob: &Descriptor,
        push: &Push,
    ) -> Result<(), Failure> {
        while upload.sent < blob.size {
            let chunk = read_chunk(upload, &blob.digest).await?;
            let end = upload.sent + chunk.len() as u64;
            let range = HeaderValue::from_str(&format!("{}-{}", upload.sent, end - 1));
            let mut ask = Ask::new(Method::PATCH, upload.location.clone(), "a part of a blob")
                .with(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"))
                .with(CONTENT_RANGE, range.expect("digits are printable"));
            ask.body = chunk;
            let answer = self.ask(repository, &ask).await?;
            upload.location = self.location(repository, &ask.uri, &answer)?;
            upload.sent = end;
            push.progress.report(blob, end);
        }
        self.finish(repository, &upload.location, blob).await
    }

    async fn finish(
        &self,
        repository: &Repository,
        location: &Uri,
        blob: &Descriptor,
    ) -> Result<(), Failure> {
        let separator = if location.query().is_some() { '&' } else { '?' };
        let host = repository.endpoint.registry.clone();
        let uri = format!("{location}{separator}digest={}", blob.digest).parse::<Uri>();
        let uri = uri.map_err(|_| Failure::Protocol { host, what: "the place for an upload" })?;
        let answer = self.ask(repository, &Ask::new(Method::PUT, uri, "the end of an upload")).await?;
        if answer.head.status == StatusCode::CREATED {
            return Ok(());
        }
        Err(status_failure("the end of an upload", answer).await)
    }

    /// Where the next part goes.
    fn location(&self, repository: &Repository, from: &Uri, answer: &Answer) -> Result<Uri, Failure> {
        let location = answer.header(LOCATION).ok_or_else(|| Failure::Protocol {
            host: answer.host.clone(),
            what: "the place for an upload",
        })?;
        self.redirected(&repository.endpoint, from, location)
    }
}

/// Whether a registry refuses for the moment only.
fn is_busy(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 425 | 429)
}

/// How much a registry has, of a range like `0-1023`.
fn position(range: &str) -> Option<u64> {
    let (start, end) = range.trim_start_matches("bytes=").split_once('-')?;
    let end: u64 = end.trim().parse().ok()?;
    match (start.trim(), end) {
        // Docker's registry says so of an upload without content.
        ("0", 0) => Some(0),
        ("0", end) => end.checked_add(1),
        _ => None,
    }
}

async fn open(store: &Store, blob: &Descriptor) -> Result<Arc<BlobReader>, Failure> {
    let (store, digest) = (store.clone(), blob.digest.clone());
    let opened = spawn_blocking(move || store.read(&digest).map_err(|error| absent(error, &digest)));
    Ok(Arc::new(opened.await??))
}

async fn read_chunk(upload: &Upload, digest: &Digest) -> Result<Bytes, Failure> {
    let (content, sent, chunk) = (upload.content.clone(), upload.sent, upload.chunk);
    match spawn_blocking(move || content.read_at(sent, chunk)).await? {
        Ok(chunk) if !chunk.is_empty() => Ok(chunk.into()),
        // It was verified when it was opened: it is shorter than its descriptor says.
        Ok(_) => Err(Failure::Incomplete { digest: digest.clone() }),
        Err(source) => Err(Failure::Unreadable { digest: digest.clone(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::position;

    #[test]
    fn position_is_behind_the_last_byte_that_the_registry_has() {
        for (range, expected) in [
            ("0-1023", Some(1024)),
            ("bytes=0-1023", Some(1024)),
            ("0-0", Some(0)),
            ("5-9", None),
            ("0-18446744073709551615", None),
            ("0", None),
            ("", None),
        ] {
            assert_eq!(position(range), expected, "{range}");
        }
    }
}
