//! The attestations of an image in the form before bundles: DSSE envelopes in an artifact beside it, whose tag is made of the image's
//! digest. Those in bundles are found with signatures (see [`super::bundles`]).
//!
//! What was fetched once is kept in the store, so that an image can be verified again while its registry is away.

use ferroplane_api::image::Reference;

use super::signatures::{ImageSignature, MAX_SIGNATURES, read_layers, tag_of};
use super::{Error, Failure, Registry};
use crate::manifest::{Descriptor, Manifest};
use crate::store::Store;

/// The media type of an envelope.
const ENVELOPE: &str = "application/vnd.dsse.envelope.v1+json";
/// How large an envelope may be that counts. A larger one is left out, so that a long bill of materials hides nothing else.
const MAX_ENVELOPE_BYTES: u64 = 1 << 20;

impl Registry {
    /// The envelopes beside the image that a reference names by its digest. An image without any has none.
    ///
    /// Those that were fetched before count, unless they are asked for `anew`.
    pub async fn attestations(
        &self,
        reference: &Reference,
        store: &Store,
        anew: bool,
    ) -> Result<Vec<ImageSignature>, Error> {
        let found = self.in_time(self.find_attestations(reference, store, anew)).await;
        found.map_err(Error::new("read the attestations of", reference))
    }

    async fn find_attestations(
        &self,
        reference: &Reference,
        store: &Store,
        anew: bool,
    ) -> Result<Vec<ImageSignature>, Failure> {
        let beside = reference.digest().and_then(|digest| tag_of(reference, digest, ".att"));
        let Some(beside) = beside else { return Ok(Vec::new()) };
        if !anew && let Some(known) = read_stored(store, &beside).await? {
            return Ok(known);
        }
        match self.fetch_beside(&beside, store, envelopes).await {
            // Kept while they are read.
            Ok(_pin) => Ok(read_stored(store, &beside).await?.unwrap_or_default()),
            Err(Failure::NotFound { .. }) => Ok(Vec::new()),
            Err(failure) => Err(failure),
        }
    }
}

/// The layers that are envelopes, if they are not too many.
fn envelopes(manifest: &Manifest) -> Result<Vec<Descriptor>, Failure> {
    let is_envelope = |layer: &&Descriptor| layer.media_type == ENVELOPE && layer.size <= MAX_ENVELOPE_BYTES;
    let envelopes: Vec<Descriptor> = manifest.layers.iter().filter(is_envelope).cloned().collect();
    if envelopes.len() > MAX_SIGNATURES {
        let (what, size) = ("a list of attestations", envelopes.len() as u64);
        return Err(Failure::TooLarge { what, size, limit: MAX_SIGNATURES as u64 });
    }
    Ok(envelopes)
}

async fn read_stored(store: &Store, beside: &Reference) -> Result<Option<Vec<ImageSignature>>, Failure> {
    let layers = read_layers(store, beside, envelopes, MAX_ENVELOPE_BYTES).await?;
    let envelope = |(_, content): (Descriptor, Vec<u8>)| ImageSignature::Envelope(content);
    Ok(layers.map(|layers| layers.into_iter().map(envelope).collect()))
}
