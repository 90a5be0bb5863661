//! The signatures of an image, where cosign puts them: in an artifact beside it, whose tag is made of the image's digest.
//!
//! What was fetched once is kept in the store, so that an image can be verified again while its registry is away.

use ferroplane_api::image::{Digest, Reference};
use tokio::task::spawn_blocking;

use super::exchange::Repository;
use super::pull::{Reporter, pin};
use super::{Error, Failure, Registry};
use crate::image::parse_stored;
use crate::manifest::{Descriptor, Document, MAX_DOCUMENT_BYTES, Manifest};
use crate::store::{Pin, Store};

/// How large a signed statement may be, and how many there may be for one image.
const MAX_PAYLOAD_BYTES: u64 = 128 << 10;
const MAX_SIGNATURES: usize = 100;
/// The media type of a signed statement.
const PAYLOAD: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// The annotation with the signature of the statement, in base 64.
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";

/// A statement about an image, and a signature of it. Nothing of it is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageSignature {
    pub payload: Vec<u8>,
    /// In base 64.
    pub signature: String,
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
        let found = self.find_signatures(reference, store, anew).await;
        found.map_err(Error::new("read the signatures of", reference))
    }

    async fn find_signatures(
        &self,
        reference: &Reference,
        store: &Store,
        anew: bool,
    ) -> Result<Vec<ImageSignature>, Failure> {
        let Some(beside) = reference.digest().and_then(|digest| place_of_signatures(reference, digest))
        else {
            return Ok(Vec::new());
        };
        if !anew && let Some(known) = read_stored(store, &beside).await? {
            return Ok(known);
        }
        match self.fetch_signatures(&beside, store).await {
            // Kept while they are read.
            Ok(_pin) => Ok(read_stored(store, &beside).await?.unwrap_or_default()),
            Err(Failure::NotFound { .. }) => Ok(Vec::new()),
            Err(failure) => Err(failure),
        }
    }

    /// Bring the artifact with the signatures into the store.
    async fn fetch_signatures(&self, beside: &Reference, store: &Store) -> Result<Pin, Failure> {
        let repository: Repository = self.pulling(beside).await?;
        let fetched = self.manifest(&repository, &beside.selector()).await?;
        let blobs = match &fetched.document {
            Document::Manifest(manifest) => statements(manifest)?,
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

/// Where the signatures of an image are: beside it, under a tag that is made of its digest.
fn place_of_signatures(reference: &Reference, digest: &Digest) -> Option<Reference> {
    let tag = digest.to_string().replace(':', "-");
    format!("{}/{}:{tag}.sig", reference.registry(), reference.repository()).parse().ok()
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
    let (store, beside) = (store.clone(), beside.clone());
    let read = spawn_blocking(move || -> Result<Option<Vec<ImageSignature>>, Failure> {
        let Some(descriptor) = store.recall(&beside)? else { return Ok(None) };
        let read = |digest: &Digest, limit| match store.read_to_vec(digest, limit) {
            Err(error) if error.is_absent() => Ok(None),
            content => content.map(Some),
        };
        let Some(content) = read(&descriptor.digest, MAX_DOCUMENT_BYTES)? else { return Ok(None) };
        let (_, Document::Manifest(manifest)) = parse_stored(&content)? else { return Ok(Some(Vec::new())) };
        let mut signatures = Vec::new();
        for layer in statements(&manifest)? {
            let Some(payload) = read(&layer.digest, MAX_PAYLOAD_BYTES)? else { return Ok(None) };
            let signature = layer.annotations.get(SIGNATURE).cloned().unwrap_or_default();
            signatures.push(ImageSignature { payload, signature });
        }
        Ok(Some(signatures))
    });
    read.await?
}
