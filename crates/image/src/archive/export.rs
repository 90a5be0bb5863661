//! Writes images from the store as OCI layouts.
//!
//! # Invariants
//! * The same images give the same bytes.
//! * `index.json` comes last: a directory that was written halfway has no image.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use super::layout::{INDEX, blob_name};
use super::{Error, NAME};
use crate::manifest::MAX_DOCUMENT_BYTES;
use crate::store::Store;
use crate::tar::{Member, Writer};
use crate::{Descriptor, Digest, Document, Index, media_type};

const LAYOUT: &str = "oci-layout";
const LAYOUT_CONTENT: &[u8] = br#"{"imageLayoutVersion":"1.0.0"}"#;

/// Write images to a directory, which is created if need be. Each may have a name.
pub fn export_layout(
    store: &Store,
    images: &[(Descriptor, Option<&str>)],
    directory: &Path,
) -> Result<(), Error> {
    for digest in &blobs(store, images)? {
        let path = directory.join(blob_name(digest));
        let parent = path.parent().unwrap_or(directory);
        fs::create_dir_all(parent).map_err(Error::io("create", parent))?;
        let mut content = store.read(digest)?;
        write(&path, |file| io::copy(&mut content, file).map(|_| ()))?;
    }
    write(&directory.join(LAYOUT), |file| file.write_all(LAYOUT_CONTENT))?;
    write(&directory.join(INDEX), |file| file.write_all(&index(images)))
}

/// Write images as a tarball. Each may have a name.
pub fn export_tarball(
    store: &Store,
    images: &[(Descriptor, Option<&str>)],
    target: impl Write,
) -> Result<(), Error> {
    let failed = |source| Error::Io { action: "write", path: "the tarball".into(), source };
    let mut tarball = Writer::new(target);
    let mut add = |name: &str, content: &[u8]| {
        tarball.add_file(Member::file(name.as_bytes(), 0o644, content.len() as u64), content).map_err(failed)
    };
    add(LAYOUT, LAYOUT_CONTENT)?;
    add(INDEX, &index(images))?;
    for digest in &blobs(store, images)? {
        let content = store.read(digest)?;
        let name = blob_name(digest);
        tarball.add_file(Member::file(name.as_bytes(), 0o644, content.size()), content).map_err(failed)?;
    }
    tarball.finish().and_then(|mut target| target.flush()).map_err(failed)
}

fn index(images: &[(Descriptor, Option<&str>)]) -> Vec<u8> {
    let named = images.iter().map(|(descriptor, name)| {
        let mut descriptor = descriptor.clone();
        if let Some(name) = name {
            descriptor.annotations.insert(NAME.to_owned(), (*name).to_owned());
        }
        descriptor
    });
    Index::new(named.collect()).to_bytes()
}

/// All content of the images, in an order that is always the same.
fn blobs(store: &Store, images: &[(Descriptor, Option<&str>)]) -> Result<BTreeSet<Digest>, Error> {
    let mut found = BTreeSet::new();
    let mut pending: Vec<Descriptor> = images.iter().map(|(descriptor, _)| descriptor.clone()).collect();
    while let Some(descriptor) = pending.pop() {
        if !found.insert(descriptor.digest.clone()) {
            continue;
        }
        if !media_type::is_manifest(&descriptor.media_type) && !media_type::is_index(&descriptor.media_type) {
            continue;
        }
        let content = store.read_to_vec(&descriptor.digest, MAX_DOCUMENT_BYTES)?;
        let document = Document::parse(&descriptor.media_type, &content);
        match document.map_err(|source| Error::Document { name: descriptor.digest.to_string(), source })? {
            Document::Index(index) => pending.extend(index.manifests),
            Document::Manifest(manifest) => {
                pending.extend(manifest.layers.into_iter().chain([manifest.config]));
            }
        }
    }
    Ok(found)
}

/// Write a file that is there completely or not at all.
fn write(path: &Path, content: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), Error> {
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory).map_err(Error::io("create", directory))?;
    let mut file =
        tempfile::NamedTempFile::new_in(directory).map_err(Error::io("create a file in", directory))?;
    content(file.as_file_mut()).map_err(Error::io("write", path))?;
    file.persist(path).map_err(|error| Error::io("write", path)(error.error)).map(|_| ())
}
