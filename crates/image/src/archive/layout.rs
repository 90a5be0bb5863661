//! OCI layouts: `index.json` and `blobs/ALGORITHM/HEX`.

use std::io::Write as _;

use super::files::Files;
use super::{Error, FULL_NAME, NAME, Selection, offered};
use crate::manifest::MAX_DOCUMENT_BYTES;
use crate::store::{self, Pin, Store};
use crate::{Descriptor, Digest, Document, Index, media_type};

pub(super) const INDEX: &str = "index.json";

/// How deep indexes may be in indexes. Tools write one in `index.json`.
const MAX_DEPTH: usize = 4;

pub(super) fn blob_name(digest: &Digest) -> String {
    format!("blobs/{}/{}", digest.algorithm().name(), digest.hex())
}

pub(super) fn import(
    files: &Files,
    store: &Store,
    selection: &Selection,
    pin: &mut Pin,
) -> Result<Descriptor, Error> {
    let index = read_index(files)?;
    let descriptor = choose(&index, selection.name)?;
    let mut import = Import { files, store, pin };
    let descriptor = import.choose_platform(descriptor, selection, 0)?;
    import.document(&descriptor, 0)?;
    Ok(descriptor)
}

/// The names of all images.
pub(super) fn names(files: &Files) -> Result<Vec<String>, Error> {
    let index = read_index(files)?;
    let name = |entry: &Descriptor| {
        entry.annotations.get(FULL_NAME).or_else(|| entry.annotations.get(NAME)).cloned()
    };
    Ok(index.manifests.iter().filter(|entry| is_image(&entry.media_type)).filter_map(name).collect())
}

fn read_index(files: &Files) -> Result<Index, Error> {
    let content = files.read_to_vec(INDEX, MAX_DOCUMENT_BYTES)?;
    serde_json::from_slice(&content).map_err(|source| Error::Json { name: INDEX.to_owned(), source })
}

/// The image of a name, or the only one.
fn choose(index: &Index, name: Option<&str>) -> Result<Descriptor, Error> {
    let images = || index.manifests.iter().filter(|entry| is_image(&entry.media_type));
    let names = |entry: &Descriptor| {
        [NAME, FULL_NAME]
            .into_iter()
            .filter_map(|key| entry.annotations.get(key).cloned())
            .collect::<Vec<_>>()
    };
    let all =
        || offered(images().map(|entry| names(entry).pop().unwrap_or_else(|| entry.digest.to_string())));
    let mut found =
        images().filter(|entry| name.is_none_or(|name| names(entry).iter().any(|found| found == name)));
    match (found.next(), found.next(), name) {
        (Some(only), None, _) => Ok(only.clone()),
        (None, _, Some(name)) => Err(Error::NotOffered { name: name.to_owned(), offered: all() }),
        _ => Err(Error::Ambiguous { offered: all() }),
    }
}

fn is_image(media_type: &str) -> bool {
    media_type::is_manifest(media_type) || media_type::is_index(media_type)
}

struct Import<'a> {
    files: &'a Files,
    store: &'a Store,
    pin: &'a mut Pin,
}

impl Import<'_> {
    /// Follow indexes to the image of the platform, if one is asked for.
    fn choose_platform(
        &mut self,
        descriptor: Descriptor,
        selection: &Selection,
        depth: usize,
    ) -> Result<Descriptor, Error> {
        let Some(platform) = selection.platform.filter(|_| media_type::is_index(&descriptor.media_type))
        else {
            return Ok(descriptor);
        };
        check_depth(&descriptor, depth)?;
        match self.read_document(&descriptor)? {
            Document::Index(index) => {
                let chosen = platform.choose(&index)?.clone();
                self.choose_platform(chosen, selection, depth + 1)
            }
            Document::Manifest(_) => Ok(descriptor),
        }
    }

    /// Import a manifest or an index with all that it refers to, which comes first: who finds a manifest finds its layers.
    fn document(&mut self, descriptor: &Descriptor, depth: usize) -> Result<(), Error> {
        check_depth(descriptor, depth)?;
        match self.read_document(descriptor)? {
            Document::Index(index) => {
                for entry in index.manifests.iter().filter(|entry| is_image(&entry.media_type)) {
                    self.document(entry, depth + 1)?;
                }
            }
            Document::Manifest(manifest) => {
                for blob in std::iter::once(&manifest.config).chain(&manifest.layers) {
                    self.blob(blob)?;
                }
            }
        }
        self.blob(descriptor)
    }

    fn read_document(&self, descriptor: &Descriptor) -> Result<Document, Error> {
        let name = blob_name(&descriptor.digest);
        let content = self.files.read_to_vec(&name, MAX_DOCUMENT_BYTES)?;
        // Its content is not used before its digest is verified.
        let found = crate::Hasher::digest_by(descriptor.digest.algorithm(), &content);
        if found != descriptor.digest {
            return Err(store::Error::Mismatch { expected: descriptor.digest.clone(), actual: found }.into());
        }
        Document::parse(&descriptor.media_type, &content).map_err(|source| Error::Document { name, source })
    }

    fn blob(&mut self, descriptor: &Descriptor) -> Result<(), Error> {
        self.pin.add(&descriptor.digest)?;
        if self.store.contains(&descriptor.digest) {
            return Ok(());
        }
        let name = blob_name(&descriptor.digest);
        let mut content = self.files.read(&name)?;
        let mut blob = self.store.resume(descriptor)?;
        blob.restart()?;
        copy(&mut content, &mut blob, &name)?;
        blob.commit()?;
        Ok(())
    }
}

fn check_depth(descriptor: &Descriptor, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(Error::TooDeep { digest: descriptor.digest.clone(), limit: MAX_DEPTH });
    }
    Ok(())
}

/// Copy a file of an archive into the store.
pub(super) fn copy(
    content: &mut super::files::Content,
    blob: &mut store::BlobWriter,
    name: &str,
) -> Result<(), Error> {
    let failed = Error::io("copy to the store", std::path::Path::new(name));
    std::io::copy(content, blob).and_then(|_| blob.flush()).map_err(failed)
}
