//! Artefacts in registries: each layer is a file, or an archive of files.

use std::collections::BTreeMap;
use std::io::{BufReader, Read as _};

use ferroplane_image::compression::Compression;
use ferroplane_image::registry::{Pull, Pulled, Registry};
use ferroplane_image::store::{self, Store};
use ferroplane_image::tar::{EntryKind, Reader};
use ferroplane_image::{Descriptor, Reference};
use std::sync::Arc;

use crate::files::Files;
use crate::{Error, Limits};

/// The name of a layer that is a file.
const TITLE: &str = "org.opencontainers.image.title";
/// Says that a layer with a name is an archive nevertheless. ORAS writes it for directories.
const IS_UNPACKED: &str = "io.deis.oras.content.unpack";
/// What the name of an entry begins with that removes another one, of a lower layer.
const WHITEOUT: &str = ".wh.";
const OPAQUE: &str = ".wh..wh..opq";

/// The files in a directory of an artefact.
pub(crate) async fn fetch(
    registry: &Registry,
    reference: &Reference,
    directory: &str,
    limits: Limits,
) -> Result<BTreeMap<String, String>, Error> {
    let place = tempfile::tempdir()?;
    let room = store::Limits { max_bytes: limits.transfer * 2, max_blob_bytes: limits.transfer };
    let store = Store::open(place.path().join("content"), room)
        .map_err(|error| Error::from(std::io::Error::other(ferroplane_engine::chain(&error))))?;
    let pulled = registry.pull(reference, &Pull::into(&store)).await;
    let pulled = pulled.map_err(|error| Error::Registry(Arc::new(error)))?;
    let directory = directory.to_owned();
    let reading = tokio::task::spawn_blocking(move || {
        let read = read(&pulled, &store, &directory, limits);
        drop((pulled, store, place));
        read
    });
    reading.await.unwrap_or(Err(Error::Ended))
}

fn read(
    pulled: &Pulled,
    store: &Store,
    directory: &str,
    limits: Limits,
) -> Result<BTreeMap<String, String>, Error> {
    let mut files = Files::new(directory, limits);
    for layer in &pulled.image.manifest.layers {
        let unreadable = |reason: String| Error::Layer { digest: layer.digest.to_string(), reason };
        let content =
            store.read(&layer.digest).map_err(|error| unreadable(ferroplane_engine::chain(&error)))?;
        let Some(name) = file_name(layer) else {
            let compression = Compression::of_media_type(&layer.media_type).unwrap_or(Compression::None);
            let archive = compression.reader(BufReader::new(content));
            // A small archive can unpack to very much.
            unpack(archive.take(limits.transfer), &mut files).map_err(|problem| match problem {
                Problem::Archive(reason) => unreadable(reason),
                Problem::Files(error) => error,
            })?;
            continue;
        };
        let Some(name) = files.wanted(name.as_bytes()) else { continue };
        files.check_room(layer.size)?;
        let mut text = Vec::new();
        let read = content.take(limits.bytes + 1).read_to_end(&mut text);
        read.map_err(|error| unreadable(error.to_string()))?;
        files.add(name, text)?;
    }
    files.finish()
}

/// The name of the file that a layer is, unless it is an archive.
fn file_name(layer: &Descriptor) -> Option<&String> {
    let is_archive = layer.annotations.get(IS_UNPACKED).is_some_and(|value| value == "true");
    layer.annotations.get(TITLE).filter(|_| !is_archive)
}

enum Problem {
    Archive(String),
    Files(Error),
}

/// Puts the files of an archive over those that are there.
fn unpack(archive: impl std::io::Read, files: &mut Files<'_>) -> Result<(), Problem> {
    let broken = |error: &dyn std::fmt::Display| Problem::Archive(error.to_string());
    // What is removed is removed from the layers below, wherever in the archive that stands.
    let mut upper = files.empty();
    let mut reader = Reader::new(BufReader::new(archive));
    while let Some(entry) = reader.next_entry().map_err(|error| broken(&error))? {
        if let Some(removed) = removed(&entry.path) {
            files.remove_outer(&removed);
            continue;
        }
        // Links lead elsewhere, and what is no file has no text.
        let Some(path) = files.wanted(&entry.path).filter(|_| entry.kind == EntryKind::File) else {
            continue;
        };
        upper.check_room(entry.size).map_err(Problem::Files)?;
        let mut content = Vec::new();
        reader.read_to_end(&mut content).map_err(|error| broken(&error))?;
        upper.add(path, content).map_err(Problem::Files)?;
    }
    files.cover_with(upper).map_err(Problem::Files)
}

/// What an entry removes of the layers below: a file or a directory.
fn removed(path: &[u8]) -> Option<String> {
    let path = std::str::from_utf8(path).ok()?;
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    if name == OPAQUE {
        return Some(directory.to_owned());
    }
    let name = name.strip_prefix(WHITEOUT)?;
    Some(if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") })
}
