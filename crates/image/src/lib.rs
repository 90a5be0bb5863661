//! OCI images: references, a registry client, a content store, unpacking and building.
//!
//! Knows neither Kubernetes nor packages.
//!
//! An image is named by a [`Reference`], its content by a [`Digest`]. A manifest, a configuration and layers are blobs in a
//! [`Store`](store::Store); an [`Image`] is a manifest and a configuration that were read from there.
//!
//! # Invariants
//! * Nothing is used whose digest was not verified.
//! * Everything that a registry, a file or a program hands over is bounded before it is in memory or on the disk.

mod hasher;
mod image;
mod manifest;

pub mod archive;
pub mod auth;
pub mod build;
pub mod compression;
pub mod media_type;
pub mod platform;
pub mod registry;
pub mod store;
pub mod tar;
pub mod unpack;

pub use ferroplane_api::image::{Algorithm, Digest, InvalidDigest, InvalidReference, Reference};
pub use hasher::Hasher;
pub use image::{Image, LoadError};
pub use manifest::{
    Descriptor, Document, Execution, History, ImageConfig, Index, InvalidManifest, MAX_DOCUMENT_BYTES,
    MAX_ENTRIES, Manifest, RootFilesystem,
};
pub use platform::Platform;
