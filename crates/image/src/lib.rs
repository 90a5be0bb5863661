//! OCI images: references, a registry client, a content store, unpacking and building.
//!
//! Knows neither Kubernetes nor packages.

pub mod compression;
pub mod tar;
pub mod unpack;
