//! What `docker save` writes: `manifest.json`, which lists images with the names of their configuration and layers.

use serde::Deserialize;

use super::files::Files;
use super::layout::copy;
use super::{Error, Selection, offered};
use crate::compression::Compression;
use crate::manifest::{MAX_DOCUMENT_BYTES, MAX_ENTRIES};
use crate::store::{Pin, Store};
use crate::{Descriptor, Digest, Hasher, ImageConfig, InvalidManifest, Manifest, media_type};

pub(super) const MANIFEST: &str = "manifest.json";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    #[serde(default)]
    layers: Vec<String>,
}

pub(super) fn import(
    files: &Files,
    store: &Store,
    selection: &Selection,
    pin: &mut Pin,
) -> Result<Descriptor, Error> {
    let saved = choose(read_manifest(files)?, selection.name)?;
    let content = files.read_to_vec(&saved.config, MAX_DOCUMENT_BYTES)?;
    // The file is all that vouches for itself: `docker save` states no digest but in names.
    check_name(&saved.config, saved.config.strip_prefix("sha256:"), &Hasher::digest(&content))?;
    let config = ImageConfig::parse(&content)
        .map_err(|source| Error::Document { name: saved.config.clone(), source })?;
    let (layers, described) = (saved.layers.len(), config.rootfs.diff_ids.len());
    // Zipped with the wrong number, layers would be checked against the digests of others.
    if layers != described {
        return Err(Error::Layers { layers, described });
    }
    if layers > MAX_ENTRIES {
        let source = InvalidManifest::TooMany { what: "image", found: layers, limit: MAX_ENTRIES };
        return Err(Error::Document { name: MANIFEST.to_owned(), source });
    }
    let mut descriptors = Vec::new();
    for (name, diff_id) in saved.layers.iter().zip(&config.rootfs.diff_ids) {
        descriptors.push(import_layer(files, store, name, diff_id, pin)?);
    }
    // Pinned before the next write: a collection of garbage in another process may run at any time.
    pin.add(&store.write(&content)?)?;
    let manifest = Manifest::new(Descriptor::of(media_type::OCI_CONFIG, &content), descriptors).to_bytes();
    pin.add(&store.write(&manifest)?)?;
    Ok(Descriptor::of(media_type::OCI_MANIFEST, &manifest))
}

/// The names of all images.
pub(super) fn names(files: &Files) -> Result<Vec<String>, Error> {
    Ok(read_manifest(files)?.into_iter().filter_map(|image| image.repo_tags?.into_iter().next()).collect())
}

fn read_manifest(files: &Files) -> Result<Vec<Saved>, Error> {
    let content = files.read_to_vec(MANIFEST, MAX_DOCUMENT_BYTES)?;
    serde_json::from_slice(&content).map_err(|source| Error::Json { name: MANIFEST.to_owned(), source })
}

fn choose(images: Vec<Saved>, name: Option<&str>) -> Result<Saved, Error> {
    let tags = |image: &Saved| image.repo_tags.clone().unwrap_or_default();
    let all = offered(images.iter().map(|image| tags(image).first().unwrap_or(&image.config).clone()));
    let is_meant = |image: &Saved| name.is_none_or(|name| tags(image).iter().any(|tag| tag == name));
    let mut found = images.into_iter().filter(is_meant);
    match (found.next(), found.next(), name) {
        // The only image is meant, whatever it is called, unless a name was given.
        (Some(only), None, _) => Ok(only),
        (None, _, Some(name)) => Err(Error::NotOffered { name: name.to_owned(), offered: all }),
        _ => Err(Error::Ambiguous { offered: all }),
    }
}

/// Layers are plain, so that they have the digest that the configuration states; compressed ones are checked when they are unpacked.
fn import_layer(
    files: &Files,
    store: &Store,
    name: &str,
    diff_id: &Digest,
    pin: &mut Pin,
) -> Result<Descriptor, Error> {
    let start = {
        let mut start = Vec::new();
        let read = std::io::Read::read_to_end(&mut std::io::Read::take(files.read(name)?, 4), &mut start);
        read.map_err(Error::io("read", std::path::Path::new(name)))?;
        start
    };
    // By content: the format has no media types, and tools write layers with and without compression under one name.
    let media_type = match Compression::of_content(&start) {
        Compression::None => media_type::OCI_LAYER,
        Compression::Gzip => media_type::OCI_LAYER_GZIP,
        Compression::Zstd => media_type::OCI_LAYER_ZSTD,
    };
    let mut content = files.read(name)?;
    let size = content.size;
    let mut blob = store.writer(size)?;
    copy(&mut content, &mut blob, name)?;
    let digest = blob.commit()?;
    pin.add(&digest)?;
    let stated = name.strip_suffix(".tar.gz").filter(|_| media_type == media_type::OCI_LAYER_GZIP);
    check_name(name, stated, &digest)?;
    if media_type == media_type::OCI_LAYER && digest != *diff_id {
        return Err(Error::DiffId { name: name.to_owned(), expected: diff_id.clone(), found: digest });
    }
    Ok(Descriptor::new(media_type, digest, size))
}

/// Crossplane's command line and ours name files by their digests. Then the names must be true: the format states no other digest of
/// what is compressed.
fn check_name(name: &str, stated: Option<&str>, found: &Digest) -> Result<(), Error> {
    let is_digest = |text: &&str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match stated.filter(is_digest) {
        Some(stated) if stated != found.hex() => {
            Err(Error::Named { name: name.to_owned(), found: found.clone() })
        }
        _ => Ok(()),
    }
}
