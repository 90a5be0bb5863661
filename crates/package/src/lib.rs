//! Packages: what stands in a `package.yaml`, and whether it may stand there.
//!
//! Knows neither registries nor the Kubernetes API: text goes in, objects and findings come out.
//!
//! # Invariants
//! * Text of any size and shape gives an answer in time that grows with its length. Nothing is read beyond [`MAX_BYTES`] and
//!   [`MAX_OBJECTS`].

mod contents;
mod lint;
mod manifest;

pub use contents::{MAX_BYTES, MAX_OBJECTS, PackageContents, UnreadablePackage, read_package};
pub use lint::{InvalidPackage, Lint, lint, validate};
pub use manifest::{InvalidDependency, PackageManifest};
