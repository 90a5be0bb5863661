//! Pulling an image into the store.

use std::collections::BTreeSet;
use std::sync::Arc;

use ferroplane_api::image::{Digest, Reference};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::blobs::blocking;
use super::exchange::Repository;
use super::manifests::Fetched;
use super::{Error, Failure, Registry};
use crate::manifest::{Descriptor, Document, InvalidManifest, MAX_DOCUMENT_BYTES, Manifest};
use crate::store::{Pin, Store};
use crate::{Image, LoadError, Platform, media_type};

/// What to pull where.
#[derive(Clone)]
pub struct Pull {
    pub store: Store,
    pub platform: Platform,
    pub policy: PullPolicy,
    progress: Reporter,
}

/// When to ask the registry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PullPolicy {
    /// Every time; content that is there is not fetched again.
    Always,
    /// If the store does not have what the reference led to last.
    #[default]
    IfNotPresent,
    Never,
}

/// How far a blob is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    pub digest: Digest,
    pub received: u64,
    pub size: u64,
}

/// An image, whose content stays in the store for as long as this is there.
#[derive(Debug)]
pub struct Pulled {
    pub image: Image,
    pub pin: Pin,
}

/// Reports the progress of blobs.
#[derive(Clone, Default)]
pub(super) struct Reporter(Option<Arc<dyn Fn(Progress) + Send + Sync>>);

impl Pull {
    /// Pull for the platform that this program runs on, if the image is not there yet.
    pub fn into(store: &Store) -> Self {
        let (platform, policy) = (Platform::host(), PullPolicy::default());
        Self { store: store.clone(), platform, policy, progress: Reporter::default() }
    }

    #[must_use]
    pub fn with_policy(self, policy: PullPolicy) -> Self {
        Self { policy, ..self }
    }

    #[must_use]
    pub fn with_platform(self, platform: Platform) -> Self {
        Self { platform, ..self }
    }

    /// Call this for every piece of a blob that comes, and once for every blob that is there already.
    #[must_use]
    pub fn with_progress(self, report: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        Self { progress: Reporter::to(report), ..self }
    }
}

impl std::fmt::Debug for Reporter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Reporter").finish_non_exhaustive()
    }
}

impl Reporter {
    pub(super) fn to(report: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(report)))
    }

    pub(super) fn report(&self, descriptor: &Descriptor, received: u64) {
        if let Some(report) = &self.0 {
            report(Progress { digest: descriptor.digest.clone(), received, size: descriptor.size });
        }
    }
}

impl Registry {
    /// Bring an image into the store: its manifest, its configuration, and its layers.
    pub async fn pull(&self, reference: &Reference, pull: &Pull) -> Result<Pulled, Error> {
        let limit = self.options().timeouts.total;
        let pulled = timeout(limit, self.pull_now(reference, pull)).await;
        pulled
            .unwrap_or(Err(Failure::Deadline { seconds: limit.as_secs() }))
            .map_err(Error::new("pull image", reference))
    }

    /// Bring an image into the store without the layers that are not wanted, or with all if none is. Asks the registry whatever the
    /// policy is, and does not remember what the reference leads to: the image is not complete.
    pub async fn pull_layers(
        &self,
        reference: &Reference,
        pull: &Pull,
        is_wanted: impl Fn(&Descriptor) -> bool + Send + Sync,
    ) -> Result<Pulled, Error> {
        let limit = self.options().timeouts.total;
        let pulled = timeout(limit, self.pull_layers_now(reference, pull, is_wanted)).await;
        pulled
            .unwrap_or(Err(Failure::Deadline { seconds: limit.as_secs() }))
            .map_err(Error::new("pull image", reference))
    }

    async fn pull_layers_now(
        &self,
        reference: &Reference,
        pull: &Pull,
        is_wanted: impl Fn(&Descriptor) -> bool + Send + Sync,
    ) -> Result<Pulled, Failure> {
        let repository = self.pulling(reference).await?;
        let chosen = self.choose(&repository, reference, pull).await?;
        let Document::Manifest(manifest) = &chosen.document else { return Err(nested_index(&chosen)) };
        check_layers(manifest)?;
        let mut blobs = self.blobs(manifest)?;
        if manifest.layers.iter().any(&is_wanted) {
            // By digest: the same layer may be there twice, once with an annotation.
            let mut wanted: BTreeSet<&Digest> =
                manifest.layers.iter().filter(|layer| is_wanted(layer)).map(|layer| &layer.digest).collect();
            wanted.insert(&manifest.config.digest);
            blobs.retain(|blob| wanted.contains(&blob.digest));
        }
        let pin = pin(&pull.store, &chosen, &blobs).await?;
        self.fetch_blobs(&repository, &blobs, pull).await?;
        finish(None, pull, chosen, pin).await
    }

    /// Fetch blobs, some at a time.
    pub(super) async fn fetch_blobs(
        &self,
        repository: &Repository,
        blobs: &[Descriptor],
        pull: &Pull,
    ) -> Result<(), Failure> {
        let fetch = |blob| self.fetch_blob(repository, blob, &pull.store, &pull.progress);
        // Made before they are a stream: a stream that makes them cannot be sent to another thread.
        let transfers: Vec<_> = blobs.iter().map(fetch).collect();
        stream::iter(transfers)
            .buffer_unordered(self.options().parallel_blobs.max(1))
            .try_collect::<()>()
            .await
    }

    async fn pull_now(&self, reference: &Reference, pull: &Pull) -> Result<Pulled, Failure> {
        if pull.policy != PullPolicy::Always
            && let Some(pulled) = find_stored(reference, pull).await?
        {
            return Ok(pulled);
        }
        if pull.policy == PullPolicy::Never {
            return Err(Failure::NotPresent);
        }
        let repository = self.pulling(reference).await?;
        let chosen = self.choose(&repository, reference, pull).await?;
        let Document::Manifest(manifest) = &chosen.document else { return Err(nested_index(&chosen)) };
        check_layers(manifest)?;
        let blobs = self.blobs(manifest)?;
        let pin = pin(&pull.store, &chosen, &blobs).await?;
        self.fetch_blobs(&repository, &blobs, pull).await?;
        finish(Some(reference), pull, chosen, pin).await
    }

    /// The manifest of the image for the platform.
    async fn choose(
        &self,
        repository: &Repository,
        reference: &Reference,
        pull: &Pull,
    ) -> Result<Fetched, Failure> {
        let first = self.manifest(repository, &reference.selector()).await?;
        let Document::Index(index) = &first.document else { return Ok(first) };
        let entry = pull.platform.choose(index)?;
        if entry.size > MAX_DOCUMENT_BYTES {
            let (what, size, limit) = ("a manifest", entry.size, MAX_DOCUMENT_BYTES);
            return Err(Failure::TooLarge { what, size, limit });
        }
        let chosen = self.manifest(repository, &entry.digest.to_string()).await?;
        let (expected, actual) = (entry.size, chosen.descriptor.size);
        if expected != actual {
            let host = repository.endpoint.registry.clone();
            return Err(Failure::Length { host, what: "a manifest", expected, actual });
        }
        Ok(chosen)
    }

    /// What to fetch, each once, if it is not too much.
    pub(super) fn blobs(&self, manifest: &Manifest) -> Result<Vec<Descriptor>, Failure> {
        let mut known = BTreeSet::new();
        let all = std::iter::once(&manifest.config).chain(&manifest.layers);
        let blobs: Vec<Descriptor> = all.filter(|blob| known.insert(&blob.digest)).cloned().collect();
        let size = blobs.iter().fold(0_u64, |size, blob| size.saturating_add(blob.size));
        for (what, size, limit) in [
            ("an image", size, self.options().max_image_bytes),
            ("a configuration", manifest.config.size, MAX_DOCUMENT_BYTES),
        ] {
            if size > limit {
                return Err(Failure::TooLarge { what, size, limit });
            }
        }
        Ok(blobs)
    }
}

/// The image that the reference led to last, if all of it is there.
async fn find_stored(reference: &Reference, pull: &Pull) -> Result<Option<Pulled>, Failure> {
    let (store, reference, platform) = (pull.store.clone(), reference.clone(), pull.platform.clone());
    let found = spawn_blocking(move || -> Result<Option<Pulled>, Failure> {
        let Some(descriptor) = store.recall(&reference)? else { return Ok(None) };
        let Some(descriptor) = of_platform(&store, descriptor, &platform)? else { return Ok(None) };
        let mut pin = store.pin()?;
        pin.add(&descriptor.digest)?;
        let image = match Image::load(&store, &descriptor.digest) {
            Ok(image) => image,
            Err(LoadError::Store { source, .. }) if source.is_absent() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        for blob in std::iter::once(&image.manifest.config).chain(&image.manifest.layers) {
            pin.add(&blob.digest)?;
            if !store.contains(&blob.digest) {
                return Ok(None);
            }
        }
        let runs_here = descriptor.platform.as_ref().is_none_or(|its| *its == platform);
        Ok(runs_here.then_some(Pulled { image, pin }))
    });
    found.await?
}

/// The image for a platform, of an index that was pulled for all of them.
fn of_platform(
    store: &Store,
    descriptor: Descriptor,
    platform: &Platform,
) -> Result<Option<Descriptor>, Failure> {
    if !media_type::is_index(&descriptor.media_type) {
        return Ok(Some(descriptor));
    }
    let content = match store.read_to_vec(&descriptor.digest, MAX_DOCUMENT_BYTES) {
        Err(error) if error.is_absent() => return Ok(None),
        content => content?,
    };
    match Document::parse(&descriptor.media_type, &content)? {
        Document::Index(index) => {
            let entry = platform.choose(&index)?;
            Ok(Some(Descriptor { platform: None, ..entry.clone() }))
        }
        Document::Manifest(_) => Ok(Some(descriptor)),
    }
}

/// Layers of a file system must be of a kind that can be unpacked; artifacts have what they like.
pub(super) fn check_layers(manifest: &Manifest) -> Result<(), Failure> {
    if !media_type::is_config(&manifest.config.media_type) {
        return Ok(());
    }
    match manifest.layers.iter().find(|layer| !media_type::is_layer(&layer.media_type)) {
        Some(layer) => Err(Failure::Manifest(InvalidManifest::MediaType {
            found: layer.media_type.chars().take(100).collect(),
            expected: media_type::LAYERS.join(", "),
        })),
        None => Ok(()),
    }
}

pub(super) fn nested_index(fetched: &Fetched) -> Failure {
    Failure::Load(LoadError::IsIndex { digest: fetched.descriptor.digest.clone() })
}

/// Before anything is fetched: what is there already must stay until the rest has come.
pub(super) async fn pin(store: &Store, chosen: &Fetched, blobs: &[Descriptor]) -> Result<Pin, Failure> {
    let mut digests: Vec<Digest> = blobs.iter().map(|blob| blob.digest.clone()).collect();
    digests.push(chosen.descriptor.digest.clone());
    let store = store.clone();
    blocking(move || {
        let mut pin = store.pin()?;
        digests.iter().try_for_each(|digest| pin.add(digest))?;
        Ok(pin)
    })
    .await
}

/// The manifest comes last: a caller that finds it finds the rest.
async fn finish(
    reference: Option<&Reference>,
    pull: &Pull,
    chosen: Fetched,
    pin: Pin,
) -> Result<Pulled, Failure> {
    let (store, reference, platform) = (pull.store.clone(), reference.cloned(), pull.platform.clone());
    let finished = spawn_blocking(move || -> Result<Pulled, Failure> {
        let Fetched { mut descriptor, content, .. } = chosen;
        let mut writer = store.resume(&descriptor)?;
        writer.restart()?;
        writer.append(&content)?;
        writer.commit()?;
        let image = Image::load(&store, &descriptor.digest)?;
        descriptor.platform = Some(platform);
        if let Some(reference) = reference {
            store.record(&reference, &descriptor)?;
        }
        Ok(Pulled { image, pin })
    });
    finished.await?
}

impl std::fmt::Debug for Pull {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut formatter = formatter.debug_struct("Pull");
        formatter.field("platform", &self.platform).field("policy", &self.policy).finish_non_exhaustive()
    }
}
