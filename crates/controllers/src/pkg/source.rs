//! The door to registries. Controllers know nothing else of them; whoever starts controllers opens it.

use std::fmt;
use std::sync::Arc;

use ferroplane_package::PackageContents;
use ferroplane_package::signature::ImageSignature;
use futures_util::future::BoxFuture;

/// What a registry answers, in its own time.
pub type SourceAnswer<T> = BoxFuture<'static, Result<T, SourceError>>;

/// Where packages come from.
///
/// An implementation bounds what it reads in size and time, and verifies every digest.
pub trait PackageSource: fmt::Debug + Send + Sync {
    /// The digest that an image has now, with its algorithm. That of an index, if the image is for several platforms.
    fn resolve(&self, request: ImageRequest) -> SourceAnswer<String>;

    /// Bring an image here, unless it is here. It is named by its digest. May take as long as its registry takes.
    fn fetch(&self, request: ImageRequest) -> SourceAnswer<()>;

    /// What is in the package that an image holds which was fetched. Asks no registry.
    fn read(&self, request: ImageRequest) -> SourceAnswer<Arc<PackageContents>>;

    /// Whether the program of an image that was fetched says of itself that it is WebAssembly. Asks no registry.
    fn is_webassembly(&self, request: ImageRequest) -> SourceAnswer<bool>;

    /// The tags of the repository that an image is in.
    fn tags(&self, request: ImageRequest) -> SourceAnswer<Vec<String>>;

    /// The signatures of an image that is named by its digest. Those that were fetched before count, unless they are asked for
    /// `anew`.
    fn signatures(&self, request: ImageRequest, anew: bool) -> SourceAnswer<Vec<ImageSignature>>;
}

/// An image that is asked for.
#[derive(Clone, PartialEq, Eq)]
pub struct ImageRequest {
    /// The reference, after it was rewritten.
    pub image: String,
    pub policy: PackagePullPolicy,
    /// What stands in the pull secrets: the contents of `.dockerconfigjson`, or of the older `.dockercfg`.
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
    /// The policy that a package names. As in Crossplane, any other text means `IfNotPresent`.
    pub(super) fn of(text: Option<&str>) -> Self {
        match text {
            Some("Always") => Self::Always,
            Some("Never") => Self::Never,
            _ => Self::IfNotPresent,
        }
    }
}

/// Why a registry gives no answer that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SourceError {
    /// The whole chain of causes. No times: it stands in conditions.
    pub message: String,
    /// Whether nobody answered. The package itself may be in order.
    pub is_unreachable: bool,
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
