//! The signatures of an image, where cosign puts them: in an artifact beside it, whose tag is made of the image's digest, or
//! as bundles that refer to the image (see [`super::bundles`]).
//!
//! What was fetched once is kept in the store, so that an image can be verified again while its registry is away.

use ferroplane_api::image::{Digest, Reference};
use tokio::task::spawn_blocking;

use super::exchange::Repository;
use super::pull::{Reporter, pin};
use super::{Error, Failure, Registry, bundles};
use crate::image::parse_stored;
use crate::manifest::{Descriptor, Document, MAX_DOCUMENT_BYTES, Manifest};
use crate::store::{self, Pin, Store};

/// How large a signed statement may be, and how many there may be for one image.
const MAX_PAYLOAD_BYTES: u64 = 128 << 10;
pub(super) const MAX_SIGNATURES: usize = 100;
/// The media type of a signed statement.
const PAYLOAD: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// The annotation with the signature of the statement, in base 64.
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
/// The annotations of signatures without keys.
const CERTIFICATE: &str = "dev.sigstore.cosign/certificate";
const CHAIN: &str = "dev.sigstore.cosign/chain";
const LOG_ENTRY: &str = "dev.sigstore.cosign/bundle";

/// A signature of an image, in one of the forms that cosign writes. Nothing of it is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageSignature {
    Statement(SignedStatement),
    /// A bundle of Sigstore, in JSON: a statement, its signature, and what it takes to verify that.
    Bundle(Vec<u8>),
    /// A DSSE envelope, in JSON: an attestation in the form before bundles (see [`super::attestations`]).
    Envelope(Vec<u8>),
}

/// A statement about an image, and a signature of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SignedStatement {
    pub payload: Vec<u8>,
    /// In base 64.
    pub signature: String,
    /// The certificate of the signer in PEM, if it signed without a key that others know.
    pub certificate: Option<String>,
    /// The certificates of those who issued that one, in PEM.
    pub chain: Option<String>,
    /// What a transparency log has signed, in JSON.
    pub log_entry: Option<String>,
}

impl Registry {
    /// The signatures of the image that a reference names by its digest. An image without any has none.
    ///
    /// Those that were fetched before count, unless they are asked for `anew`.
    pub async fn signatures(
        &self,
        reference: &Reference,
        store: &Store,
        anew: bool,
    ) -> Result<Vec<ImageSignature>, Error> {
        let found = self.in_time(self.find_signatures(reference, store, anew)).await;
        found.map_err(Error::new("read the signatures of", reference))
    }

    async fn find_signatures(
        &self,
        reference: &Reference,
        store: &Store,
        anew: bool,
    ) -> Result<Vec<ImageSignature>, Failure> {
        let Some(digest) = reference.digest() else { return Ok(Vec::new()) };
        let places = tag_of(reference, digest, ".sig").zip(tag_of(reference, digest, ""));
        let Some((beside, referrers)) = places else { return Ok(Vec::new()) };
        if !anew {
            let statements = read_stored(store, &beside).await?;
            let bundles = bundles::read_stored(store, &referrers).await?;
            if statements.is_some() || bundles.is_some() {
                return Ok([statements, bundles].into_iter().flatten().flatten().collect());
            }
        }
        let mut signatures = match self.fetch_beside(&beside, store, statements).await {
            // Kept while they are read.
            Ok(_pin) => read_stored(store, &beside).await?.unwrap_or_default(),
            Err(Failure::NotFound { .. }) => Vec::new(),
            Err(failure) => return Err(failure),
        };
        if let Some(_pin) = self.fetch_bundles(digest, &referrers, store).await? {
            signatures.extend(bundles::read_stored(store, &referrers).await?.unwrap_or_default());
        }
        Ok(signatures)
    }

    /// Bring an artifact beside an image into the store, with those of its layers that are selected.
    pub(super) async fn fetch_beside(
        &self,
        beside: &Reference,
        store: &Store,
        select: SelectLayers,
    ) -> Result<Pin, Failure> {
        let repository: Repository = self.pulling(beside).await?;
        let fetched = self.manifest(&repository, &beside.selector()).await?;
        let blobs = match &fetched.document {
            Document::Manifest(manifest) => select(manifest)?,
            Document::Index(_) => Vec::new(),
        };
        let pin = pin(store, &fetched, &blobs).await?;
        for blob in &blobs {
            self.fetch_blob(&repository, blob, store, &Reporter::default()).await?;
        }
        let (store, beside, descriptor) = (store.clone(), beside.clone(), fetched.descriptor);
        let kept = spawn_blocking(move || -> Result<Pin, Failure> {
            store.write(&fetched.content)?;
            store.record(&beside, &descriptor)?;
            Ok(pin)
        });
        kept.await?
    }
}

/// Which layers of an artifact are read.
pub(super) type SelectLayers = fn(&Manifest) -> Result<Vec<Descriptor>, Failure>;
/// Layers, and what is in them.
pub(super) type ReadLayers = Vec<(Descriptor, Vec<u8>)>;

/// A tag beside an image that is made of its digest: `.sig` has its signatures, `.att` its attestations, and without a suffix it lists
/// what refers to it.
pub(super) fn tag_of(reference: &Reference, digest: &Digest, suffix: &str) -> Option<Reference> {
    let tag = digest.to_string().replace(':', "-");
    format!("{}/{}:{tag}{suffix}", reference.registry(), reference.repository()).parse().ok()
}

/// The layers that are statements, if they are neither too many nor too large.
fn statements(manifest: &Manifest) -> Result<Vec<Descriptor>, Failure> {
    let statements: Vec<Descriptor> =
        manifest.layers.iter().filter(|layer| layer.media_type == PAYLOAD).cloned().collect();
    let largest = statements.iter().map(|layer| layer.size).max().unwrap_or_default();
    for (what, size, limit) in [
        ("a list of signatures", statements.len() as u64, MAX_SIGNATURES as u64),
        ("a signed statement", largest, MAX_PAYLOAD_BYTES),
    ] {
        if size > limit {
            return Err(Failure::TooLarge { what, size, limit });
        }
    }
    Ok(statements)
}

/// What was fetched before, if all of it is still there.
async fn read_stored(store: &Store, beside: &Reference) -> Result<Option<Vec<ImageSignature>>, Failure> {
    let layers = read_layers(store, beside, statements, MAX_PAYLOAD_BYTES).await?;
    let statement = |(layer, payload): (Descriptor, Vec<u8>)| {
        ImageSignature::Statement(signed_statement(payload, &layer))
    };
    Ok(layers.map(|layers| layers.into_iter().map(statement).collect()))
}

/// The selected layers of an artifact that was fetched before, if all of them are still there. None of them is larger than the limit.
pub(super) async fn read_layers(
    store: &Store,
    beside: &Reference,
    select: SelectLayers,
    limit: u64,
) -> Result<Option<ReadLayers>, Failure> {
    let (store, beside) = (store.clone(), beside.clone());
    let read = spawn_blocking(move || -> Result<Option<ReadLayers>, Failure> {
        let Some(descriptor) = store.recall(&beside)? else { return Ok(None) };
        let content = read_present(&store, &descriptor.digest, MAX_DOCUMENT_BYTES)?;
        let Some(content) = content else { return Ok(None) };
        let (_, Document::Manifest(manifest)) = parse_stored(&content)? else { return Ok(Some(Vec::new())) };
        let mut layers = Vec::new();
        for layer in select(&manifest)? {
            let Some(content) = read_present(&store, &layer.digest, limit)? else { return Ok(None) };
            layers.push((layer, content));
        }
        Ok(Some(layers))
    });
    read.await?
}

/// Content of the store, if it is still there.
pub(super) fn read_present(
    store: &Store,
    digest: &Digest,
    limit: u64,
) -> Result<Option<Vec<u8>>, store::Error> {
    match store.read_to_vec(digest, limit) {
        Err(error) if error.is_absent() => Ok(None),
        content => content.map(Some),
    }
}

/// A statement with what is written beside it.
fn signed_statement(payload: Vec<u8>, layer: &Descriptor) -> SignedStatement {
    let annotation = |name: &str| layer.annotations.get(name).filter(|text| !text.is_empty()).cloned();
    SignedStatement {
        payload,
        signature: annotation(SIGNATURE).unwrap_or_default(),
        certificate: annotation(CERTIFICATE),
        chain: annotation(CHAIN),
        log_entry: annotation(LOG_ENTRY),
    }
}
