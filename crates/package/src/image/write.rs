//! Writes packages as images, and readies images for registries.
//!
//! Follows crossplane-runtime 2.4.0, `pkg/xpkg/build.go` and `pkg/xpkg/layers.go`. Annotations of layers get lost in files of
//! `docker save`, which `.xpkg` files are; so they are written to the labels of the configuration, too, and [`annotate`] brings
//! them back.

use std::collections::{BTreeMap, HashSet};

use ferroplane_image::build::{self, ImageBuilder, Layer};
use ferroplane_image::store::{self, Store};
use ferroplane_image::{Descriptor, Digest, Image, LoadError, Manifest, Platform, media_type};

use super::{ANNOTATION, BASE, EXAMPLES, EXAMPLES_FILE, STREAM_FILE};
use crate::source::PackageSource;

/// Why a package cannot be written as an image.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("cannot build the image of the package")]
    Build(#[from] build::Error),
    #[error("cannot read the image of the package")]
    Image(#[from] LoadError),
    #[error("cannot write the image of the package to the store")]
    Store(#[from] store::Error),
}

/// For which platform a package is that has no program in it: the one that every reader of an index looks for.
pub fn platform_without_runtime() -> Platform {
    Platform::new("linux", "amd64", None)
}

/// Write a package to the store as an image, on top of the image of its program if it has one. The same source and the same program
/// give the same image.
pub fn write(
    store: &Store,
    source: &PackageSource,
    runtime: Option<Image>,
) -> Result<Descriptor, WriteError> {
    let mut builder = match runtime {
        Some(runtime) => ImageBuilder::on(without_package(runtime)),
        None => ImageBuilder::new(platform_without_runtime()),
    };
    let mut package = Layer::new().annotate(ANNOTATION, BASE);
    package.add_bytes(source.stream().into_bytes(), STREAM_FILE, false)?;
    builder.layers.push(package);
    if let Some(examples) = &source.examples {
        let mut layer = Layer::new().annotate(ANNOTATION, EXAMPLES);
        layer.add_bytes(examples.clone().into_bytes(), EXAMPLES_FILE, false)?;
        builder.layers.push(layer);
    }
    builder.labelled_annotation = Some(ANNOTATION.to_owned());
    Ok(builder.build(store)?)
}

/// The image with the annotations on its layers that the labels of its configuration tell. One that has them stays what it is.
pub fn annotate(store: &Store, image: &Digest) -> Result<Descriptor, WriteError> {
    let image = Image::load(store, image)?;
    let labels = image.config.config.as_ref().and_then(|config| config.labels.as_ref());
    let mut manifest = image.manifest.clone();
    let mut known = HashSet::new();
    // A program that was a package itself may have the same layer further below: the highest counts.
    for layer in manifest.layers.iter_mut().rev() {
        if !known.insert(layer.digest.clone()) {
            continue;
        }
        let label = labels.and_then(|labels| labels.get(&format!("{ANNOTATION}:{}", layer.digest)));
        if let Some(annotation) = label {
            layer.annotations.insert(ANNOTATION.to_owned(), annotation.clone());
        }
    }
    let config = &image.config;
    let platform = Some(Platform::new(&config.os, &config.architecture, config.variant.as_deref()));
    // What says the same in other bytes would be another image.
    if manifest == image.manifest {
        let (media_type, size) = (own_media_type(&manifest), store.read(&image.digest)?.size());
        return Ok(Descriptor { platform, ..Descriptor::new(&media_type, image.digest, size) });
    }
    let content = manifest.to_bytes();
    store.write(&content)?;
    Ok(Descriptor { platform, ..Descriptor::of(&own_media_type(&manifest), &content) })
}

fn own_media_type(manifest: &Manifest) -> String {
    manifest.media_type.clone().unwrap_or_else(|| media_type::OCI_MANIFEST.to_owned())
}

/// The image of a program that was a package itself, without what says so: a package has one layer with its objects.
fn without_package(mut image: Image) -> Image {
    for layer in &mut image.manifest.layers {
        layer.annotations.remove(ANNOTATION);
    }
    let labels = image.config.config.as_mut().and_then(|config| config.labels.as_mut());
    if let Some(labels) = labels {
        let prefix = format!("{ANNOTATION}:");
        let kept: BTreeMap<_, _> =
            std::mem::take(labels).into_iter().filter(|(label, _)| !label.starts_with(&prefix)).collect();
        *labels = kept;
    }
    image
}
