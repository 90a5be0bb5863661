//! Packages as images: what is written, and what survives a file of `docker save`.

use std::path::Path;

use ferroplane_image::archive::{Selection, export_docker, import};
use ferroplane_image::build::{ImageBuilder, Layer};
use ferroplane_image::{Descriptor, Image, Platform};
use ferroplane_package::image::{ANNOTATION, annotate, write};
use ferroplane_package::open;

use crate::fixture::Fixture;
use crate::source::{COMPOSITION, CONFIGURATION, directory, read};

const EXAMPLE: (&str, &str) = ("examples/a.yaml", "apiVersion: example.org/v1\nkind: Application\n");

/// A package with examples, in the store.
pub(crate) fn package(fixture: &Fixture) -> Descriptor {
    let source = directory(&[("crossplane.yaml", CONFIGURATION), ("c.yaml", COMPOSITION), EXAMPLE]);
    write(&fixture.store, &read(source.path(), &[]).unwrap(), None).unwrap()
}

/// The file that `ferroplane xpkg build` writes.
pub(crate) fn file(fixture: &Fixture, image: &Descriptor) -> Vec<u8> {
    let mut file = Vec::new();
    export_docker(&fixture.store, &image.digest, &[], &mut file).unwrap();
    file
}

fn annotations(image: &Image) -> Vec<Option<&str>> {
    image.manifest.layers.iter().map(|layer| layer.annotations.get(ANNOTATION).map(String::as_str)).collect()
}

fn import_file(fixture: &Fixture, path: &Path) -> Descriptor {
    import(path, &fixture.store, &Selection::default()).unwrap().descriptor
}

#[test]
fn same_source_gives_the_same_bytes() {
    let (one, two) = (Fixture::new(), Fixture::new());
    let (first, second) = (package(&one), package(&two));
    assert_eq!(first, second);
    assert_eq!(file(&one, &first), file(&two, &second));
}

#[test]
fn annotations_survive_a_file_of_docker_save() {
    let (here, there) = (Fixture::new(), Fixture::new());
    let written = package(&here);
    assert_eq!(
        annotations(&Image::load(&here.store, &written.digest).unwrap()),
        [Some("base"), Some("upbound")]
    );
    let path = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(path.path(), file(&here, &written)).unwrap();
    let imported = import_file(&there, path.path());
    assert_eq!(annotations(&Image::load(&there.store, &imported.digest).unwrap()), [None, None]);
    let annotated = annotate(&there.store, &imported.digest).unwrap();
    assert_eq!(annotated.digest, written.digest);
    assert_eq!(annotate(&there.store, &annotated.digest).unwrap().digest, written.digest);
    let opened = open(&there.store, &annotated.digest).unwrap();
    assert_eq!(opened, open(&here.store, &written.digest).unwrap());
    assert_eq!(opened.contents.objects.len(), 1);
    // Who knows no annotations finds the file, too.
    assert_eq!(open(&there.store, &imported.digest).unwrap().contents, opened.contents);
}

#[test]
fn program_stays_below_the_package() {
    let fixture = Fixture::new();
    let mut layer = Layer::new();
    layer.add_bytes(b"#!/bin/sh\n".to_vec(), "/function", true).unwrap();
    let mut runtime = ImageBuilder::new(Platform::new("linux", "arm64", Some("v8")));
    runtime.execution.entrypoint = Some(vec!["/function".to_owned()]);
    runtime.layers.push(layer);
    let runtime = runtime.build(&fixture.store).unwrap();
    let runtime = Image::load(&fixture.store, &runtime.digest).unwrap();
    let function = "apiVersion: meta.pkg.crossplane.io/v1\nkind: Function\nmetadata: {name: f}\n";
    let source = directory(&[("crossplane.yaml", function)]);
    let source = read(source.path(), &[]).unwrap();
    let written = write(&fixture.store, &source, Some(runtime.clone())).unwrap();
    let image = Image::load(&fixture.store, &written.digest).unwrap();
    assert_eq!(image.manifest.layers[0], runtime.manifest.layers[0]);
    assert_eq!(annotations(&image), [None, Some("base")]);
    assert_eq!(image.config.variant.as_deref(), Some("v8"));
    assert_eq!(
        image.config.config.as_ref().unwrap().entrypoint.as_deref(),
        Some(&["/function".to_owned()][..])
    );
    // A package is the program of the next one: what it brought does not count any more.
    let again = write(&fixture.store, &source, Some(image)).unwrap();
    let again = Image::load(&fixture.store, &again.digest).unwrap();
    assert_eq!(annotations(&again), [None, None, Some("base")]);
    assert_eq!(open(&fixture.store, &again.digest).unwrap().contents, source.contents);
}
