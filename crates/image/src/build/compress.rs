//! Compresses the layers of images that came uncompressed, such as those of `docker save`: registries keep what they are sent.

use std::io::{self, BufWriter};

use super::Error;
use super::layer::gzip;
use crate::compression::Compression;
use crate::store::{Pin, Store};
use crate::{Descriptor, Image, media_type};

/// The same image with compressed layers. One whose layers are compressed stays what it is.
pub fn compress_layers(store: &Store, mut image: Image, pin: &mut Pin) -> Result<Image, Error> {
    let mut has_changed = false;
    for layer in &mut image.manifest.layers {
        if Compression::of_media_type(&layer.media_type) == Some(Compression::None) {
            let compressed = compress(store, layer)?;
            pin.add(&compressed.digest)?;
            *layer = compressed;
            has_changed = true;
        }
    }
    if has_changed {
        image.digest = store.write(&image.manifest.to_bytes())?;
        pin.add(&image.digest)?;
    }
    Ok(image)
}

fn compress(store: &Store, layer: &Descriptor) -> Result<Descriptor, Error> {
    let mut content = store.read(&layer.digest)?;
    // What cannot be compressed grows by a few bytes for each block.
    let blob = store.writer(layer.size + layer.size / 1000 + (1 << 16))?;
    let mut target = BufWriter::with_capacity(1 << 16, gzip(blob));
    io::copy(&mut content, &mut target).map_err(Error::Layer)?;
    let target = target.into_inner().map_err(|error| Error::Layer(error.into_error()))?;
    let (blob, size) = target.finish().map_err(Error::Layer)?.into_parts();
    let digest = blob.commit()?;
    let annotations = layer.annotations.clone();
    Ok(Descriptor { annotations, ..Descriptor::new(media_type::OCI_LAYER_GZIP, digest, size) })
}
