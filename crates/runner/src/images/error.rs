//! Why an image cannot be run.

use std::path::PathBuf;

use ferroplane_certificates::SignError;
use ferroplane_image::registry::{self, TlsError};
use ferroplane_image::unpack::RootsError;
use ferroplane_image::{InvalidReference, LoadError, archive, auth, build, store};
use ferroplane_sandbox::SpecError;
use tokio::task::JoinError;

use crate::error::CallError;

/// Why an image cannot be run. Its message is followed by its sources.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error("cannot parse the reference")]
    Reference(#[from] InvalidReference),
    #[error(transparent)]
    Credentials(#[from] auth::Error),
    #[error("cannot make TLS connections to registries")]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Pull(#[from] registry::Error),
    #[error(transparent)]
    Import(#[from] archive::Error),
    #[error("cannot make an image of the directory")]
    Build(#[from] build::Error),
    #[error("cannot use the content store")]
    Store(#[from] store::Error),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Unpack(#[from] RootsError),
    #[error(transparent)]
    Runtime(#[from] ferroplane_sandbox::Error),
    #[error("{source}{said}")]
    Serve { said: String, source: ferroplane_sandbox::Error },
    #[error("cannot create certificates for the program")]
    Certificates(#[from] SignError),
    #[error("cannot write the certificates of the program")]
    CertificateFiles(#[source] std::io::Error),
    #[error("there is no free port for the program")]
    NoPort(#[source] std::io::Error),
    #[error("cannot call the program")]
    Client(#[source] CallError),
    #[error("cannot use `config.json` of the directory")]
    Config(#[from] SpecError),
    #[error(
        "cannot find an image in `{}`: expected an OCI layout, a tarball of `docker save`, or a directory that is a root file system \
         with a program `function` at its top or a `config.json` that names its `Entrypoint`",
        path.display()
    )]
    NoImage { path: PathBuf },
    #[error("cannot run its WebAssembly")]
    #[cfg(feature = "wasm")]
    Code(#[from] ferroplane_wasm::Error),
    #[error(
        "cannot compile its WebAssembly within {}s: give the step a longer `timeout`; compiled code is kept for the next call",
        .timeout.as_secs_f64()
    )]
    #[cfg(feature = "wasm")]
    SlowCode { timeout: std::time::Duration },
    #[error(
        "cannot call its program: its annotation `ferroplane.io/protocol` is `{protocol}`; expected RunFunction, ResourceList or KRM"
    )]
    Protocol { protocol: String },
    #[error(transparent)]
    Grant(#[from] InvalidGrant),
    #[error("its program is WebAssembly, which has no network: leave out `network`")]
    NetworkForCode,
    #[error(
        "its program is WebAssembly, which this build of ferroplane cannot run: build one with \
         `cargo build --release --features wasm`"
    )]
    NoCode,
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error(
        "cannot serve the package: its image has no `Entrypoint`, and its `package.yaml` names no other image"
    )]
    NoServer,
    #[error(
        "cannot serve the package: its `package.yaml` names the image `{image}`, which is a package again"
    )]
    PackageInPackage { image: String },
    #[error(
        "cannot run the package: its image has no program, and the image `{image}` that its `package.yaml` names was not \
         verified; build the package with its program in it"
    )]
    OtherImage { image: String },
    #[error("cannot finish work in the background")]
    Background(#[source] JoinError),
}

/// A Function grants its code something that does not exist, or that no Function can grant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot grant `{grant}` to WebAssembly: expected clock, random, connect=ADDRESS:PORT or env=NAME=VALUE"
)]
pub struct InvalidGrant {
    pub(super) grant: String,
}

impl ImageError {
    /// The same, for a caller that called the image.
    pub fn for_call(&self, image: &str) -> CallError {
        CallError::Image { image: image.to_owned(), reason: ferroplane_engine::chain(self) }
    }
}
