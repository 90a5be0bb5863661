//! The interface to registries. Controllers use nothing else of them; the process that starts controllers implements it.

use std::fmt;
use std::ops::Deref;

use ferroplane_package::PackageContents;
use ferroplane_package::signature::ImageSignature;
use futures_util::future::BoxFuture;
use tokio::sync::OwnedSemaphorePermit;

/// The answer of a registry, as a future.
pub type SourceAnswer<T> = BoxFuture<'static, Result<T, SourceError>>;

/// Where packages come from.
///
/// An implementation bounds what it reads in size and time, and verifies every digest.
pub trait PackageSource: fmt::Debug + Send + Sync {
    /// The digest that an image has now, with its algorithm. That of an index, if the image is for several platforms.
    fn resolve(&self, request: ImageRequest) -> SourceAnswer<String>;

    /// Fetch an image with its digest, unless it is stored already. May take as long as its registry takes.
    fn fetch(&self, request: ImageRequest) -> SourceAnswer<()>;

    /// Wait until the contents of the package in a fetched image may be in memory. Asks no registry. None if they are small, and wait for
    /// nothing.
    fn turn(&self, request: ImageRequest) -> SourceAnswer<Option<OwnedSemaphorePermit>>;

    /// The contents of the package in a fetched image, whose turn it is. Asks no registry.
    fn read(&self, request: ImageRequest, turn: Option<OwnedSemaphorePermit>) -> SourceAnswer<LoadedPackage>;

    /// The program of a fetched image. Asks no registry.
    fn program(&self, request: ImageRequest) -> SourceAnswer<ImageProgram>;

    /// The tags of the repository that an image is in.
    fn tags(&self, request: ImageRequest) -> SourceAnswer<Vec<String>>;

    /// The signatures of an image with its digest. Cached ones are used, unless they are requested `anew`.
    fn signatures(&self, request: ImageRequest, anew: bool) -> SourceAnswer<Vec<ImageSignature>>;

    /// The same for attestations beside the image. Those in bundles are among the signatures.
    fn attestations(&self, request: ImageRequest, anew: bool) -> SourceAnswer<Vec<ImageSignature>>;
}

/// The program of an image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageProgram {
    pub is_webassembly: bool,
    /// The entry point and its default arguments, as the image names them.
    pub entrypoint: Vec<String>,
    pub cmd: Vec<String>,
}

/// The contents of a package, while they are in memory.
#[derive(Debug)]
pub struct LoadedPackage {
    contents: PackageContents,
    /// Lets no other package of such a size into memory meanwhile.
    _turn: Option<OwnedSemaphorePermit>,
}

impl LoadedPackage {
    /// Contents, and the permit that others of their size have to wait for, if they have to.
    #[must_use]
    pub fn new(contents: PackageContents, turn: Option<OwnedSemaphorePermit>) -> Self {
        Self { contents, _turn: turn }
    }
}

impl Deref for LoadedPackage {
    type Target = PackageContents;

    fn deref(&self) -> &PackageContents {
        &self.contents
    }
}

/// A request for an image.
#[derive(Clone, PartialEq, Eq)]
pub struct ImageRequest {
    /// The reference, after it was rewritten.
    pub image: String,
    pub policy: PackagePullPolicy,
    /// The contents of pull secrets: of `.dockerconfigjson`, or of the older `.dockercfg`.
    pub pull_secrets: Vec<Vec<u8>>,
}

/// When a registry is asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PackagePullPolicy {
    Always,
    #[default]
    IfNotPresent,
    Never,
}

impl PackagePullPolicy {
    /// The policy of a package. As in Crossplane, any other text means `IfNotPresent`.
    pub(super) fn of(text: Option<&str>) -> Self {
        match text {
            Some("Always") => Self::Always,
            Some("Never") => Self::Never,
            _ => Self::IfNotPresent,
        }
    }
}

/// Why a registry returns no usable answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SourceError {
    /// The whole chain of causes. Without times: it becomes part of conditions.
    pub message: String,
    /// Whether the registry did not respond. The package itself may be valid.
    pub is_unreachable: bool,
    /// Whether it is about the contents of the package, which do not change.
    pub is_invalid: bool,
}

impl SourceError {
    /// The contents of a package cannot be read.
    pub fn invalid(message: String) -> Self {
        Self { message, is_unreachable: false, is_invalid: true }
    }
}

impl fmt::Debug for ImageRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the secrets.
        f.debug_struct("ImageRequest")
            .field("image", &self.image)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}
