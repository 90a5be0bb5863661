//! Writes an image from the store as `docker save` does.
//!
//! Layers stay as they are compressed, and are named by their digests, as Crossplane's command line writes them.
//!
//! # Invariants
//! * The same image gives the same bytes.

use std::io::Write;

use serde::Serialize;

use super::Error;
use super::docker::MANIFEST;
use crate::compression::Compression;
use crate::store::Store;
use crate::tar::{Member, Writer};
use crate::{Descriptor, Digest, Image, LoadError};

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Saved<'a> {
    config: String,
    repo_tags: Option<&'a [String]>,
    layers: Vec<String>,
}

/// Write an image, which may have names, as a tarball that `docker load` and Crossplane's command line read.
pub fn export_docker(
    store: &Store,
    image: &Digest,
    names: &[String],
    target: impl Write,
) -> Result<(), Error> {
    let image = Image::load(store, image).map_err(unusable)?;
    let config = &image.manifest.config;
    let layers: Vec<String> = image.manifest.layers.iter().map(layer_name).collect();
    let repo_tags = (!names.is_empty()).then_some(names);
    let saved = Saved { config: config.digest.to_string(), repo_tags, layers: layers.clone() };
    let manifest = serde_json::to_vec(&[saved]).expect("names are text");

    let failed = |source| Error::Io { action: "write", path: "the tarball".into(), source };
    let mut tarball = Writer::new(target);
    let member = Member::file(MANIFEST.as_bytes(), 0o644, manifest.len() as u64);
    tarball.add_file(member, manifest.as_slice()).map_err(failed)?;
    let mut written: Vec<&Digest> = Vec::new();
    let blobs = std::iter::once((config.digest.to_string(), config));
    for (name, blob) in blobs.chain(layers.into_iter().zip(&image.manifest.layers)) {
        // An image may have the same layer twice.
        if written.contains(&&blob.digest) {
            continue;
        }
        written.push(&blob.digest);
        let content = store.read(&blob.digest)?;
        let member = Member::file(name.as_bytes(), 0o644, content.size());
        tarball.add_file(member, content).map_err(failed)?;
    }
    tarball.finish().and_then(|mut target| target.flush()).map_err(failed)
}

fn layer_name(layer: &Descriptor) -> String {
    let extension = match Compression::of_media_type(&layer.media_type) {
        Some(Compression::Gzip) => "tar.gz",
        Some(Compression::Zstd) => "tar.zst",
        Some(Compression::None) | None => "tar",
    };
    format!("{}.{extension}", layer.digest.hex())
}

fn unusable(source: LoadError) -> Error {
    Error::Image(Box::new(source))
}
