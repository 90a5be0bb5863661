//! Packages: what stands in a `package.yaml`, and whether it may stand there; and how packages are images.
//!
//! Knows neither registries nor the Kubernetes API: text, directories and images in a store go in, objects and findings come out.
//!
//! # Invariants
//! * Text of any size and shape gives an answer in time that grows with its length. Nothing is read beyond [`MAX_BYTES`],
//!   [`MAX_OBJECTS`], [`MAX_VALUES`] and [`MAX_PARTS`].

mod contents;
pub mod image;
mod lint;
mod manifest;
pub mod signature;
mod source;

pub use contents::{
    MAX_BYTES, MAX_OBJECTS, MAX_PARTS, MAX_VALUES, PackageContents, UnreadablePackage, read_package,
};
pub use image::{OpenError, OpenedPackage, open};
pub use lint::{InvalidPackage, Lint, lint, validate};
pub use manifest::{InvalidDependency, PackageManifest};
pub use source::{PackageSource, SourceError, SourceOptions};
