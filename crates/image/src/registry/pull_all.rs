//! Pulling an image for all its platforms.

use std::collections::BTreeSet;

use ferroplane_api::image::{Digest, Reference};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::exchange::Repository;
use super::manifests::Fetched;
use super::pull::{check_layers, nested_index, pin};
use super::{Error, Failure, Pull, Registry};
use crate::manifest::{Descriptor, Document, MAX_DOCUMENT_BYTES};
use crate::media_type;
use crate::store::Pin;

/// An image or an index with all its images, whose content stays in the store for as long as this is there.
#[derive(Debug)]
pub struct PulledIndex {
    pub descriptor: Descriptor,
    pub pin: Pin,
}

impl Registry {
    /// Bring an image into the store, and if it is an index, the images for all platforms. Asks the registry whatever the policy is,
    /// and remembers what the reference leads to.
    pub async fn pull_all(&self, reference: &Reference, pull: &Pull) -> Result<PulledIndex, Error> {
        let limit = self.options().timeouts.total;
        let pulled = timeout(limit, self.pull_all_now(reference, pull)).await;
        pulled
            .unwrap_or(Err(Failure::Deadline { seconds: limit.as_secs() }))
            .map_err(Error::new("pull image", reference))
    }

    async fn pull_all_now(&self, reference: &Reference, pull: &Pull) -> Result<PulledIndex, Failure> {
        let repository = self.pulling(reference).await?;
        let first = self.manifest(&repository, &reference.selector()).await?;
        let images = self.images_of(&repository, &first).await?;
        let manifests: Vec<&Fetched> = std::iter::once(&first).chain(&images).collect();
        let blobs = self.all_blobs(&manifests)?;
        let pin = pin(&pull.store, &first, &with_manifests(&blobs, &images)).await?;
        self.fetch_blobs(&repository, &blobs, pull).await?;
        let (store, reference) = (pull.store.clone(), reference.clone());
        let finished = spawn_blocking(move || -> Result<PulledIndex, Failure> {
            // The index comes last: a caller that finds it finds the rest.
            for fetched in images.iter().chain([&first]) {
                let mut writer = store.resume(&fetched.descriptor)?;
                writer.restart()?;
                writer.append(&fetched.content)?;
                writer.commit()?;
            }
            store.record(&reference, &first.descriptor)?;
            Ok(PulledIndex { descriptor: first.descriptor, pin })
        });
        finished.await?
    }

    /// The manifests that an index names.
    async fn images_of(&self, repository: &Repository, first: &Fetched) -> Result<Vec<Fetched>, Failure> {
        let Document::Index(index) = &first.document else { return Ok(Vec::new()) };
        let mut images = Vec::new();
        let mut known: BTreeSet<&Digest> = BTreeSet::new();
        for entry in index.manifests.iter().filter(|entry| media_type::is_manifest(&entry.media_type)) {
            if !known.insert(&entry.digest) {
                continue;
            }
            if entry.size > MAX_DOCUMENT_BYTES {
                let (what, size, limit) = ("a manifest", entry.size, MAX_DOCUMENT_BYTES);
                return Err(Failure::TooLarge { what, size, limit });
            }
            images.push(self.manifest(repository, &entry.digest.to_string()).await?);
        }
        Ok(images)
    }

    /// What to fetch, each once, if it is not too much.
    fn all_blobs(&self, manifests: &[&Fetched]) -> Result<Vec<Descriptor>, Failure> {
        let mut known = BTreeSet::new();
        let mut all = Vec::new();
        for fetched in manifests {
            match &fetched.document {
                Document::Manifest(manifest) => {
                    check_layers(manifest)?;
                    let blobs = self.blobs(manifest)?;
                    all.extend(blobs.into_iter().filter(|blob| known.insert(blob.digest.clone())));
                }
                Document::Index(_) if std::ptr::eq(*fetched, manifests[0]) => {}
                Document::Index(_) => return Err(nested_index(fetched)),
            }
        }
        let size = all.iter().fold(0_u64, |size, blob| size.saturating_add(blob.size));
        let limit = self.options().max_image_bytes;
        if size > limit {
            return Err(Failure::TooLarge { what: "an image for all platforms", size, limit });
        }
        Ok(all)
    }
}

fn with_manifests(blobs: &[Descriptor], images: &[Fetched]) -> Vec<Descriptor> {
    blobs.iter().chain(images.iter().map(|image| &image.descriptor)).cloned().collect()
}
