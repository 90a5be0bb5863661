//! An image in the store: its manifest and its configuration, checked against each other.

use ferroplane_api::image::Digest;

use crate::manifest::{Descriptor, Document, ImageConfig, InvalidManifest, MAX_DOCUMENT_BYTES, Manifest};
use crate::media_type;
use crate::store::{self, Store};

/// An image whose layers are in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The digest of the manifest.
    pub digest: Digest,
    pub manifest: Manifest,
    pub config: ImageConfig,
}

/// Why an image in the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("cannot read image {digest} from the store")]
    Store { digest: Digest, source: store::Error },
    #[error("cannot use image {digest}")]
    Invalid { digest: Digest, source: InvalidManifest },
    #[error("cannot use image {digest}: it has {layers} layers, and its configuration describes {described}")]
    Layers { digest: Digest, layers: usize, described: usize },
    #[error("cannot use image {digest}: it is an index; choose one of its images by platform first")]
    IsIndex { digest: Digest },
}

impl Image {
    /// Read an image whose manifest has this digest.
    pub fn load(store: &Store, digest: &Digest) -> Result<Self, LoadError> {
        let read = |blob: &Digest| {
            store
                .read_to_vec(blob, MAX_DOCUMENT_BYTES)
                .map_err(|source| LoadError::Store { digest: digest.clone(), source })
        };
        let content = read(digest)?;
        let manifest = match parse_stored(&content) {
            Ok((_, Document::Manifest(manifest))) => *manifest,
            Ok((_, Document::Index(_))) => return Err(LoadError::IsIndex { digest: digest.clone() }),
            Err(source) => return Err(LoadError::Invalid { digest: digest.clone(), source }),
        };
        let config = ImageConfig::parse(&read(&manifest.config.digest)?)
            .map_err(|source| LoadError::Invalid { digest: digest.clone(), source })?;
        Self::assemble(digest.clone(), manifest, config)
    }

    /// Put an image together. Refuses one whose configuration is about other layers.
    pub fn assemble(digest: Digest, manifest: Manifest, config: ImageConfig) -> Result<Self, LoadError> {
        let (layers, described) = (manifest.layers.len(), config.rootfs.diff_ids.len());
        // `layers` pairs both lists, and would leave out what has no counterpart without a word.
        if media_type::is_config(&manifest.config.media_type) && layers != described {
            return Err(LoadError::Layers { digest, layers, described });
        }
        Ok(Self { digest, manifest, config })
    }

    /// The layers of the file system, the lowest first, each with the digest of what it unpacks to. An artifact that is not a file
    /// system has none.
    pub fn layers(&self) -> impl Iterator<Item = (&Descriptor, &Digest)> {
        self.manifest.layers.iter().zip(&self.config.rootfs.diff_ids)
    }
}

/// A stored document says of itself what media type it has, or shows it by its fields.
pub(crate) fn parse_stored(content: &[u8]) -> Result<(String, Document), InvalidManifest> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Head {
        media_type: Option<String>,
        manifests: Option<serde::de::IgnoredAny>,
    }
    let head: Head = serde_json::from_slice(content)
        .map_err(|source| InvalidManifest::Json { what: "manifest", source })?;
    let media_type = match (&head.media_type, head.manifests) {
        (Some(media_type), _) => media_type,
        (None, Some(_)) => media_type::OCI_INDEX,
        (None, None) => media_type::OCI_MANIFEST,
    };
    Ok((media_type.to_owned(), Document::parse(media_type, content)?))
}
