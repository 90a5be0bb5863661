//! Shared by the commands of `ferroplane xpkg`: registries, the cache of images, files.

pub(crate) mod bundle;
pub(crate) mod files;
pub(crate) mod install;
pub(crate) mod package_files;
pub(crate) mod registry;
pub(crate) mod resolve;
pub(crate) mod runtime;
pub(crate) mod templates;
pub(crate) mod transfer;
