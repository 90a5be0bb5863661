//! Images in files: OCI layouts, as directories and as tarballs, and what `docker save` writes, old and new.
//!
//! Importing copies one image from there into the store; exporting writes images from the store as an OCI layout, or one as
//! `docker save` does.
//!
//! # Invariants
//! * Nothing of an archive is written outside of the store, and nothing beside a layout is read: names in archives are looked up in
//!   a table, links in layouts are not followed.
//! * What is imported has the digest that the archive states for it. What `docker save` states no digest for gets one.

mod docker;
mod docker_export;
mod export;
mod files;
mod layout;

use std::io;
use std::path::{Path, PathBuf};

pub use docker_export::export_docker;
pub use export::{export_layout, export_tarball};

use crate::store::{self, Pin, Store};
use crate::{Descriptor, Digest, InvalidManifest, LoadError, Platform, platform, tar};
use files::Files;

/// How the name of an image is written in an index.
pub(crate) const NAME: &str = "org.opencontainers.image.ref.name";
/// How Docker and containerd write the whole reference.
pub(crate) const FULL_NAME: &str = "io.containerd.image.name";

/// Which image of an archive is meant.
#[derive(Debug, Clone, Default)]
pub struct Selection<'a> {
    /// Its name or tag as it is written in the archive. Without one there has to be one image only.
    pub name: Option<&'a str>,
    /// For which platform, if the image is an index. Without one the index is imported with all its images.
    pub platform: Option<&'a Platform>,
}

/// An image that was imported. Its content stays in the store at least as long as this.
#[derive(Debug)]
pub struct Imported {
    pub descriptor: Descriptor,
    pub pin: Pin,
}

/// Why an image cannot be imported or exported.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {action} `{}`", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot read `{}` as an archive", path.display())]
    Archive { path: PathBuf, source: tar::Error },
    #[error("cannot read `{}` as an archive: {reason}", path.display())]
    Table { path: PathBuf, reason: &'static str },
    #[error(
        "cannot find an image in `{}`: it has neither `index.json` (OCI) nor `manifest.json` (docker save, since Docker 1.10)",
        path.display()
    )]
    NoImage { path: PathBuf },
    #[error("cannot find `{name}` in the archive")]
    Missing { name: String },
    #[error("cannot use `{name}` of the archive: it has {size} bytes, and at most {limit} are allowed")]
    TooLarge { name: String, size: u64, limit: u64 },
    #[error("cannot read `{name}` of the archive")]
    Document { name: String, source: InvalidManifest },
    #[error("cannot read the JSON of `{name}` of the archive")]
    Json { name: String, source: serde_json::Error },
    #[error("cannot choose an image: the archive has {offered}; name one of them")]
    Ambiguous { offered: String },
    #[error("cannot find image `{name}`: the archive has {offered}")]
    NotOffered { name: String, offered: String },
    #[error("cannot choose an image for a platform")]
    Platform(#[from] platform::Error),
    #[error("cannot use image {digest}: its index is nested more than {limit} deep")]
    TooDeep { digest: Digest, limit: usize },
    #[error("cannot use the image: it has {layers} layers, and its configuration describes {described}")]
    Layers { layers: usize, described: usize },
    #[error(
        "cannot trust layer `{name}`: its content is {found}, and the image's configuration says {expected}"
    )]
    DiffId { name: String, expected: Digest, found: Digest },
    #[error("cannot trust `{name}` of the archive: it is named by a digest, and its content is {found}")]
    Named { name: String, found: Digest },
    #[error(transparent)]
    Image(Box<LoadError>),
    #[error("cannot write to the store, or read from it")]
    Store(#[from] store::Error),
}

impl Error {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

/// Import an image from a directory or a file.
pub fn import(source: &Path, store: &Store, selection: &Selection) -> Result<Imported, Error> {
    let files = Files::open(source, store)?;
    let mut pin = store.pin()?;
    // Newer versions of Docker write both, and refer from one to the other.
    let descriptor = if files.contains(layout::INDEX) {
        layout::import(&files, store, selection, &mut pin)?
    } else if files.contains(docker::MANIFEST) {
        docker::import(&files, store, selection, &mut pin)?
    } else {
        return Err(Error::NoImage { path: source.to_owned() });
    };
    Ok(Imported { descriptor, pin })
}

/// The names of the images in a directory or a file, in their order. Those without a name are left out.
pub fn list_names(source: &Path, store: &Store) -> Result<Vec<String>, Error> {
    let files = Files::open(source, store)?;
    if files.contains(layout::INDEX) { layout::names(&files) } else { docker::names(&files) }
}

/// Some names for a message, sorted.
fn offered(names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<String> = names.collect();
    names.sort();
    let count = names.len();
    names.truncate(10);
    match count {
        0 => "none".to_owned(),
        1..=10 => names.join(", "),
        _ => format!("{}, and {} more", names.join(", "), count - 10),
    }
}
