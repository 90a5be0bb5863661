//! Pushing an image or an index from the store.

use bytes::Bytes;
use ferroplane_api::image::{Digest, Reference};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::exchange::Repository;
use super::pull::Reporter;
use super::{Error, Failure, Progress, Registry};
use crate::image::parse_stored;
use crate::manifest::{Descriptor, Document, MAX_DOCUMENT_BYTES, Manifest};
use crate::store::{self, Store};

/// What to push from where.
#[derive(Debug, Clone)]
pub struct Push {
    pub store: Store,
    /// A repository of the same registry that may have the content already.
    pub mount_from: Option<String>,
    pub(super) progress: Reporter,
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
        // Last: a caller that finds it finds all that it names.
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
            self.push_blob(repository, blob, push).await?;
        }
        Ok(())
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

pub(super) fn absent(error: store::Error, digest: &Digest) -> Failure {
    if error.is_absent() { Failure::Incomplete { digest: digest.clone() } } else { error.into() }
}
