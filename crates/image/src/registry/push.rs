//! Pushing an image or an index from the store.

use std::io::Read as _;

use bytes::Bytes;
use ferroplane_api::image::{Digest, Reference};
use http::header::{CONTENT_RANGE, CONTENT_TYPE, LOCATION};
use http::{HeaderName, HeaderValue, Method, StatusCode, Uri};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::exchange::{Ask, Repository, status_failure};
use super::http_client::Answer;
use super::pull::Reporter;
use super::{Error, Failure, Progress, Registry};
use crate::image::parse_stored;
use crate::manifest::{Descriptor, Document, MAX_DOCUMENT_BYTES, Manifest};
use crate::store::{self, BlobReader, Store};

/// How much of a blob is sent at once.
const CHUNK: u64 = 4 << 20;
/// How large a registry may want the pieces to be.
const LARGEST_CHUNK: u64 = 64 << 20;
const SMALLEST: HeaderName = HeaderName::from_static("oci-chunk-min-length");

/// What to push from where.
#[derive(Debug, Clone)]
pub struct Push {
    pub store: Store,
    /// A repository of the same registry that may have the content already.
    pub mount_from: Option<String>,
    progress: Reporter,
}

/// A manifest or an index in the store.
struct Stored {
    descriptor: Descriptor,
    document: Document,
    content: Bytes,
}

impl Push {
    pub fn from(store: &Store) -> Self {
        Self { store: store.clone(), mount_from: None, progress: Reporter::default() }
    }

    #[must_use]
    pub fn mounting_from(self, repository: &str) -> Self {
        Self { mount_from: Some(repository.to_owned()), ..self }
    }

    /// Call this for every piece of a blob that was sent, and once for every blob that is there already.
    #[must_use]
    pub fn with_progress(self, report: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        Self { progress: Reporter::to(report), ..self }
    }
}

impl Registry {
    /// Put the image or index with this digest where the reference says. Content that is there already is not sent.
    pub async fn push(
        &self,
        reference: &Reference,
        digest: &Digest,
        push: &Push,
    ) -> Result<Descriptor, Error> {
        let limit = self.options().timeouts.total;
        let pushed = timeout(limit, self.push_now(reference, digest, push)).await;
        pushed
            .unwrap_or(Err(Failure::Deadline { seconds: limit.as_secs() }))
            .map_err(Error::new("push image", reference))
    }

    async fn push_now(
        &self,
        reference: &Reference,
        digest: &Digest,
        push: &Push,
    ) -> Result<Descriptor, Failure> {
        if let Some(expected) = reference.digest().filter(|expected| *expected != digest) {
            let (host, expected) = (reference.registry().to_owned(), expected.clone());
            return Err(Failure::Mismatch { host, expected, actual: digest.clone() });
        }
        let repository = self.pushing(reference, push.mount_from.as_deref()).await?;
        let top = read_stored(&push.store, digest).await?;
        match &top.document {
            Document::Manifest(manifest) => self.push_blobs(&repository, manifest, push).await?,
            Document::Index(index) => {
                for entry in &index.manifests {
                    self.push_entry(&repository, entry, push).await?;
                }
            }
        }
        let selector = reference.tag().map_or_else(|| reference.selector(), str::to_owned);
        // Last: whoever finds it finds all that it names.
        self.put_manifest(&repository, &selector, &top.descriptor, &top.content).await?;
        Ok(top.descriptor)
    }

    /// An image of an index.
    async fn push_entry(
        &self,
        repository: &Repository,
        entry: &Descriptor,
        push: &Push,
    ) -> Result<(), Failure> {
        let stored = read_stored(&push.store, &entry.digest).await?;
        let Document::Manifest(manifest) = &stored.document else {
            return Err(Failure::Load(crate::LoadError::IsIndex { digest: entry.digest.clone() }));
        };
        self.push_blobs(repository, manifest, push).await?;
        let selector = entry.digest.to_string();
        self.put_manifest(repository, &selector, &stored.descriptor, &stored.content).await
    }

    async fn push_blobs(
        &self,
        repository: &Repository,
        manifest: &Manifest,
        push: &Push,
    ) -> Result<(), Failure> {
        for blob in std::iter::once(&manifest.config).chain(&manifest.layers) {
            let attempt = || self.push_blob(repository, blob, push);
            self.options().retries.run(attempt).await?;
        }
        Ok(())
    }

    /// One attempt; what was sent of a blob before is sent again.
    async fn push_blob(
        &self,
        repository: &Repository,
        blob: &Descriptor,
        push: &Push,
    ) -> Result<(), Failure> {
        let uri = repository.uri(&format!("blobs/{}", blob.digest))?;
        let head = Ask::new(Method::HEAD, uri, "the question for a blob");
        if self.ask_any(repository, &head).await?.head.status == StatusCode::OK {
            push.progress.report(blob, blob.size);
            return Ok(());
        }
        let mount = push.mount_from.as_ref().map(|from| format!("?mount={}&from={from}", blob.digest));
        let uri = repository.uri(&format!("blobs/uploads/{}", mount.unwrap_or_default()))?;
        let begin = Ask::new(Method::POST, uri, "the start of an upload");
        let answer = self.ask(repository, &begin).await?;
        if answer.head.status == StatusCode::CREATED {
            push.progress.report(blob, blob.size);
            return Ok(());
        }
        self.upload(repository, &begin.uri, answer, blob, push).await
    }

    async fn upload(
        &self,
        repository: &Repository,
        begun_at: &Uri,
        answer: Answer,
        blob: &Descriptor,
        push: &Push,
    ) -> Result<(), Failure> {
        let smallest = answer.header(SMALLEST).and_then(|bytes| bytes.parse::<u64>().ok());
        let size = CHUNK.max(smallest.unwrap_or_default()).min(LARGEST_CHUNK);
        let mut location = self.location(repository, begun_at, &answer)?;
        let mut reader = open(&push.store, &blob.digest).await?;
        let mut sent = 0;
        while sent < blob.size {
            let (back, chunk) = read_chunk(reader, &blob.digest, size).await?;
            reader = back;
            let last = sent + chunk.len() as u64;
            let range = HeaderValue::from_str(&format!("{sent}-{}", last.saturating_sub(1)));
            let mut ask = Ask::new(Method::PATCH, location.clone(), "a part of a blob")
                .with(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"))
                .with(CONTENT_RANGE, range.expect("digits are printable"));
            ask.body = chunk;
            let answer = self.ask(repository, &ask).await?;
            location = self.location(repository, &location, &answer)?;
            sent = last;
            push.progress.report(blob, sent);
        }
        self.finish_upload(repository, &location, blob).await
    }

    async fn finish_upload(
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

async fn read_stored(store: &Store, digest: &Digest) -> Result<Stored, Failure> {
    let (store, digest) = (store.clone(), digest.clone());
    let read = spawn_blocking(move || -> Result<Stored, Failure> {
        let content =
            store.read_to_vec(&digest, MAX_DOCUMENT_BYTES).map_err(|error| absent(error, &digest))?;
        let (media_type, document) = parse_stored(&content)?;
        let descriptor = Descriptor::new(&media_type, digest, content.len() as u64);
        Ok(Stored { descriptor, document, content: content.into() })
    });
    read.await?
}

async fn open(store: &Store, digest: &Digest) -> Result<BlobReader, Failure> {
    let (store, digest) = (store.clone(), digest.clone());
    spawn_blocking(move || store.read(&digest).map_err(|error| absent(error, &digest))).await?
}

fn absent(error: store::Error, digest: &Digest) -> Failure {
    if error.is_absent() { Failure::Incomplete { digest: digest.clone() } } else { error.into() }
}

async fn read_chunk(
    mut reader: BlobReader,
    digest: &Digest,
    size: u64,
) -> Result<(BlobReader, Bytes), Failure> {
    let read = spawn_blocking(move || {
        let mut chunk = Vec::new();
        let read = reader.by_ref().take(size).read_to_end(&mut chunk);
        (reader, read.map(|_| Bytes::from(chunk)))
    });
    let (reader, chunk) = read.await?;
    match chunk {
        Ok(chunk) if !chunk.is_empty() => Ok((reader, chunk)),
        // It was verified when it was opened: it is shorter than its descriptor says.
        Ok(_) => Err(Failure::Incomplete { digest: digest.clone() }),
        Err(source) => Err(Failure::Unreadable { digest: digest.clone(), source }),
    }
}
