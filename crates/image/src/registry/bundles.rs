//! The bundles of Sigstore that refer to an image: the form in which cosign 3 stores signatures.
//!
//! Registries list what refers to an image (OCI distribution specification 1.1). Where one cannot, clients keep the list in an
//! index under a tag that is made of the digest.

use ferroplane_api::image::{Digest, Reference};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use tokio::task::spawn_blocking;

use super::exchange::{Ask, Repository};
use super::manifests::Fetched;
use super::pull::{Reporter, pin};
use super::signatures::{ImageSignature, MAX_SIGNATURES, read_present};
use super::{Failure, Registry};
use crate::image::parse_stored;
use crate::manifest::{Descriptor, Document, Index, MAX_DOCUMENT_BYTES, Manifest};
use crate::media_type::{self, OCI_INDEX};
use crate::store::{Pin, Store};

/// How large a bundle may be that is fetched. Those with signatures take some kilobytes; larger ones are attestations with
/// long bills of materials.
const MAX_BUNDLE_BYTES: u64 = 1 << 20;
/// How the media types of bundles begin, whatever their version is.
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle";

/// What refers to an image with bundles: manifests, and the bundles in them.
#[derive(Debug, Default)]
struct Referrers {
    manifests: Vec<Fetched>,
    bundles: Vec<Descriptor>,
}

impl Registry {
    /// Bring the bundles that refer to an image into the store, if there are any. They are recorded under the tag for lists of
    /// referrers, also if it was the registry that listed them.
    pub(super) async fn fetch_bundles(
        &self,
        image: &Digest,
        place: &Reference,
        store: &Store,
    ) -> Result<Option<Pin>, Failure> {
        let repository = self.pulling(place).await?;
        let entries = self.list_referrers(&repository, image, place).await?;
        let found = self.fetch_referrers(&repository, &entries).await?;
        if found.bundles.is_empty() {
            return Ok(None);
        }
        let manifests = found.manifests.iter().map(|manifest| manifest.descriptor.clone());
        let index = Index::new(manifests.clone().collect());
        let content = index.to_bytes();
        let descriptor = Descriptor::of(OCI_INDEX, &content);
        let list = Fetched { descriptor, document: Document::Index(index), content };
        let everything: Vec<Descriptor> = manifests.chain(found.bundles.iter().cloned()).collect();
        let pin = pin(store, &list, &everything).await?;
        for bundle in &found.bundles {
            self.fetch_blob(&repository, bundle, store, &Reporter::default()).await?;
        }
        let (store, place) = (store.clone(), place.clone());
        let kept = spawn_blocking(move || -> Result<Pin, Failure> {
            for manifest in &found.manifests {
                store.write(&manifest.content)?;
            }
            store.write(&list.content)?;
            store.record(&place, &list.descriptor)?;
            Ok(pin)
        });
        kept.await?.map(Some)
    }

    /// What refers to an image and may be a bundle.
    async fn list_referrers(
        &self,
        repository: &Repository,
        image: &Digest,
        place: &Reference,
    ) -> Result<Vec<Descriptor>, Failure> {
        let document = match self.ask_for_referrers(repository, image).await? {
            Some(document) => document,
            None => match self.manifest(repository, &place.selector()).await {
                Ok(fetched) => fetched.document,
                Err(Failure::NotFound { .. }) => return Ok(Vec::new()),
                Err(failure) => return Err(failure),
            },
        };
        let Document::Index(index) = document else { return Ok(Vec::new()) };
        let may_be_bundle = |entry: &Descriptor| {
            media_type::is_manifest(&entry.media_type)
                && entry.artifact_type.as_deref().is_none_or(|kind| kind.starts_with(BUNDLE))
        };
        let entries: Vec<Descriptor> = index.manifests.into_iter().filter(may_be_bundle).collect();
        if entries.len() > MAX_SIGNATURES {
            let (what, size) = ("a list of referrers", entries.len() as u64);
            return Err(Failure::TooLarge { what, size, limit: MAX_SIGNATURES as u64 });
        }
        Ok(entries)
    }

    /// The list of referrers, if the registry keeps one.
    async fn ask_for_referrers(
        &self,
        repository: &Repository,
        image: &Digest,
    ) -> Result<Option<Document>, Failure> {
        let uri = repository.uri(&format!("referrers/{image}"))?;
        let ask =
            Ask::get(uri, "the request for referrers").with(ACCEPT, HeaderValue::from_static(OCI_INDEX));
        let answer = match self.options().retries.run(|| self.ask(repository, &ask)).await {
            Ok(answer) => answer,
            Err(Failure::Status { status, .. }) if is_unknown(status) => return Ok(None),
            // Some refuse what they do not know. Whether access is refused altogether shows when the tag is asked for.
            Err(Failure::Unauthorized { .. }) => return Ok(None),
            Err(failure) => return Err(failure),
        };
        let is_list = answer.header(CONTENT_TYPE).is_some_and(|sent| sent.starts_with(OCI_INDEX));
        if !is_list {
            return Ok(None);
        }
        let content = answer.document("a list of referrers", MAX_DOCUMENT_BYTES).await?;
        Ok(Some(Document::parse(OCI_INDEX, &content)?))
    }

    /// The manifests that have bundles. One that is listed and gone is left out.
    async fn fetch_referrers(
        &self,
        repository: &Repository,
        entries: &[Descriptor],
    ) -> Result<Referrers, Failure> {
        let mut found = Referrers::default();
        for entry in entries {
            let fetched = match self.manifest(repository, &entry.digest.to_string()).await {
                Ok(fetched) => fetched,
                Err(Failure::NotFound { .. }) => continue,
                Err(failure) => return Err(failure),
            };
            let Document::Manifest(manifest) = &fetched.document else { continue };
            if let Some(bundle) = bundle_of(manifest).cloned() {
                found.bundles.push(bundle);
                found.manifests.push(fetched);
            }
        }
        Ok(found)
    }
}

/// Whether a status says that a registry does not know what referrers are.
fn is_unknown(status: StatusCode) -> bool {
    [
        StatusCode::BAD_REQUEST,
        StatusCode::NOT_FOUND,
        StatusCode::METHOD_NOT_ALLOWED,
        StatusCode::NOT_ACCEPTABLE,
        StatusCode::NOT_IMPLEMENTED,
    ]
    .contains(&status)
}

/// The layer that is the bundle. One that is too large is none.
fn bundle_of(manifest: &Manifest) -> Option<&Descriptor> {
    let bundle = manifest.layers.iter().find(|layer| layer.media_type.starts_with(BUNDLE));
    bundle.filter(|bundle| bundle.size <= MAX_BUNDLE_BYTES)
}

/// What was fetched before, if all of it is still there.
pub(super) async fn read_stored(
    store: &Store,
    place: &Reference,
) -> Result<Option<Vec<ImageSignature>>, Failure> {
    let (store, place) = (store.clone(), place.clone());
    let read = spawn_blocking(move || -> Result<Option<Vec<ImageSignature>>, Failure> {
        let Some(descriptor) = store.recall(&place)? else { return Ok(None) };
        let content = read_present(&store, &descriptor.digest, MAX_DOCUMENT_BYTES)?;
        let Some(content) = content else { return Ok(None) };
        let (_, Document::Index(index)) = parse_stored(&content)? else { return Ok(None) };
        let mut signatures = Vec::new();
        for entry in &index.manifests {
            let content = read_present(&store, &entry.digest, MAX_DOCUMENT_BYTES)?;
            let Some(content) = content else { return Ok(None) };
            let (_, Document::Manifest(manifest)) = parse_stored(&content)? else { continue };
            let Some(layer) = bundle_of(&manifest) else { continue };
            let bundle = read_present(&store, &layer.digest, MAX_BUNDLE_BYTES)?;
            let Some(bundle) = bundle else { return Ok(None) };
            signatures.push(ImageSignature::Bundle(bundle));
        }
        Ok(Some(signatures))
    });
    read.await?
}
