//! Packages as images in the store: reading them, and writing them ([`mod@write`]).
//!
//! A package is an image. The layer with the annotation `io.crossplane.xpkg: base` holds `package.yaml`; an image without such a layer
//! is read as a file system of all its layers. Follows crossplane-runtime 2.4.0, `ExtractPackageYAML` in `pkg/xpkg/client.go`, but
//! refuses what that leaves to the order of entries: several annotated layers, and several files `package.yaml`.
//!
//! # Invariants
//! * Nothing is unpacked to the disk. No more than [`MAX_BYTES`] of an image are in memory as text.
//! * What is read has the digest of the image, of the layer, and of the layer's content.

mod layers;
mod write;

use ferroplane_image::store::{self, Store};
use ferroplane_image::unpack::InspectError;
use ferroplane_image::{Descriptor, Digest, Hasher, Image, LoadError};

use crate::contents::{MAX_BYTES, PackageContents, UnreadablePackage, read_package};

pub use write::{WriteError, annotate, platform_without_runtime, write};

/// The annotation of layers. In labels of configurations it stands before the digest of a layer: `io.crossplane.xpkg:sha256:…`.
pub const ANNOTATION: &str = "io.crossplane.xpkg";
/// The value of the annotation on the layer that holds [`STREAM_FILE`].
pub const BASE: &str = "base";
/// The value of the annotation on the layer that holds [`EXAMPLES_FILE`].
pub const EXAMPLES: &str = "upbound";
/// The file that holds the manifest of a package and its objects.
pub const STREAM_FILE: &str = "package.yaml";
/// The file that holds its examples.
pub const EXAMPLES_FILE: &str = ".up/examples.yaml";

/// A package that was read from an image.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenedPackage {
    /// The digest of the manifest of the image. For one of several platforms it is not the digest of the index.
    pub image: Digest,
    /// The digest of `package.yaml`: images for several platforms usually have the same.
    pub stream: Digest,
    pub contents: PackageContents,
}

/// Why an image cannot be read as a package.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot read the image of the package")]
    Image(#[from] LoadError),
    #[error("cannot read layer {layer} of the package")]
    Layer { layer: Digest, source: InspectError },
    #[error("the image is not a package: it has no file `{STREAM_FILE}`")]
    Missing,
    #[error(
        "the package is ambiguous: {count} of its layers have the annotation `{ANNOTATION}: {BASE}`, and one is allowed"
    )]
    Layers { count: usize },
    #[error("the package is ambiguous: layer {layer} holds more than one file `{STREAM_FILE}`")]
    Files { layer: Digest },
    #[error("cannot use `{path}` of the package: it is not a regular file")]
    NotAFile { path: String },
    #[error("cannot use `{path}` of the package: its name has the part `..`")]
    ParentDirectory { path: String },
    #[error("cannot read {STREAM_FILE}: it is not UTF-8 text")]
    Encoding,
    #[error("cannot read {STREAM_FILE}")]
    Unreadable(#[from] UnreadablePackage),
}

impl OpenError {
    /// Whether content is missing in the store, so that pulling the image again may help.
    pub fn is_absent(&self) -> bool {
        let absent = |error: &store::Error| error.is_absent();
        match self {
            Self::Image(LoadError::Store { source, .. })
            | Self::Layer { source: InspectError::Store(source), .. } => absent(source),
            _ => false,
        }
    }
}

/// Read the package in an image whose manifest, configuration and layers are in the store. Blocks on the disk.
///
/// `image` is the digest of a manifest, as [`Pulled`](ferroplane_image::registry::Pulled) has it in `image.digest`; of an index
/// choose the image for a platform first. What the package may bring is for [`validate`](crate::validate) and
/// [`lint`](crate::lint()) to say.
pub fn open(store: &Store, image: &Digest) -> Result<OpenedPackage, OpenError> {
    let text = read_stream(store, image)?;
    let stream = Hasher::digest(text.as_bytes());
    Ok(OpenedPackage { image: image.clone(), stream, contents: read_package(&text)? })
}

/// Whether a layer contains `package.yaml`: if the program of a package is not to run, the others need not be pulled.
pub fn is_base(layer: &Descriptor) -> bool {
    layer.annotations.get(ANNOTATION).is_some_and(|annotation| annotation == BASE)
}

/// The text of `package.yaml`, not validated yet.
pub fn read_stream(store: &Store, image: &Digest) -> Result<String, OpenError> {
    let image = Image::load(store, image)?;
    let content = layers::find(store, &image)?.ok_or(OpenError::Missing)?;
    if content.len() > MAX_BYTES {
        return Err(UnreadablePackage::TooLong.into());
    }
    String::from_utf8(content).map_err(|_| OpenError::Encoding)
}
