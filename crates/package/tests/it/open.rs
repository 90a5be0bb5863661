//! Reading a package from the layers of an image.

use ferroplane_image::tar::{EntryKind, Member, Writer};
use ferroplane_image::{Hasher, media_type};
use ferroplane_package::{MAX_BYTES, MAX_OBJECTS, open};

use crate::fixture::{FUNCTION, Fixture, RawLayer};

fn package(text: &str) -> RawLayer {
    RawLayer::of(&[("package.yaml", text.as_bytes())])
}

/// An error with all its causes.
fn refusal(fixture: &Fixture, layers: &[RawLayer]) -> String {
    let error = open(&fixture.store, &fixture.image(layers)).unwrap_err();
    let mut text = error.to_string();
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(&error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[test]
fn annotated_layer_counts_and_the_others_do_not() {
    let fixture = Fixture::new();
    let image = fixture.image(&[
        package("what stands in a layer of the program"),
        package(FUNCTION).base(),
        RawLayer { annotation: Some("upbound"), ..RawLayer::of(&[(".up/examples.yaml", b"a: b\n")]) },
        package("what stands in a layer above"),
    ]);
    let opened = open(&fixture.store, &image).unwrap();
    assert_eq!((opened.contents.manifests.len(), opened.contents.objects.len()), (1, 1));
    assert_eq!(opened.image, image);
    assert_eq!(opened.stream, Hasher::digest(FUNCTION.as_bytes()));
}

#[test]
fn without_annotations_the_file_system_of_all_layers_counts() {
    let fixture = Fixture::new();
    let other = RawLayer::of(&[("app/main", b"#!")]);
    for layers in [
        vec![package(FUNCTION), other.clone()],
        vec![package("replaced"), package(FUNCTION), other.clone()],
        vec![RawLayer::of(&[("./deep/package.yaml", FUNCTION.as_bytes())]), other.clone()],
        // The name of a file that was removed above one that was not.
        vec![package(FUNCTION), RawLayer::of(&[("x/.wh.package.yaml", b"")])],
    ] {
        assert_eq!(open(&fixture.store, &fixture.image(&layers)).unwrap().contents.manifests.len(), 1);
    }
    for removed in [".wh.package.yaml", ".wh..wh..opq"] {
        let layers = [package(FUNCTION), RawLayer::of(&[(removed, b"")])];
        assert_eq!(refusal(&fixture, &layers), "the image is not a package: it has no file `package.yaml`");
    }
    let replaced = [RawLayer::of(&[("d/package.yaml", FUNCTION.as_bytes())]), RawLayer::of(&[("d", b"")])];
    assert!(refusal(&fixture, &replaced).contains("not a package"));
}

#[test]
fn what_readers_could_understand_differently_is_refused() {
    let fixture = Fixture::new();
    let two = RawLayer::of(&[("package.yaml", b"a: b"), ("sub/package.yaml", FUNCTION.as_bytes())]);
    assert!(refusal(&fixture, &[two.base()]).contains("more than one file `package.yaml`"));
    let layers = [package(FUNCTION).base(), package("a: b").base()];
    assert!(refusal(&fixture, &layers).contains("2 of its layers have the annotation"));
    for kind in [EntryKind::Symlink, EntryKind::HardLink] {
        let link = RawLayer::link("package.yaml", "../../../etc/passwd", kind).base();
        assert_eq!(
            refusal(&fixture, &[link]),
            "cannot use `package.yaml` of the package: it is not a regular file"
        );
    }
    for outside in ["../package.yaml", "a/../../etc/passwd"] {
        let layer = RawLayer::of(&[("package.yaml", FUNCTION.as_bytes()), (outside, b"x")]).base();
        assert_eq!(
            refusal(&fixture, &[layer]),
            format!("cannot use `{outside}` of the package: its name has the part `..`")
        );
    }
}

#[test]
fn what_is_not_what_it_says_is_refused() {
    let fixture = Fixture::new();
    let lying = RawLayer { diff_id: Some(Hasher::digest(b"something else")), ..package(FUNCTION).base() };
    assert!(refusal(&fixture, &[lying]).contains("cannot trust the layer"));
    let foreign = RawLayer { media_type: "application/vnd.example.layer", ..package(FUNCTION).base() };
    assert!(refusal(&fixture, &[foreign]).contains("cannot unpack a layer of type"));
    let garbled = RawLayer { media_type: media_type::OCI_LAYER_GZIP, ..package(FUNCTION).base() };
    assert!(refusal(&fixture, &[garbled]).contains("cannot read the layer as an archive"));
    assert!(refusal(&fixture, &[package("\u{1}").base()]).starts_with("cannot read package.yaml"));
    let bytes = RawLayer::of(&[("package.yaml", &[0xff, 0xfe, 0x00])]).base();
    assert_eq!(refusal(&fixture, &[bytes]), "cannot read package.yaml: it is not UTF-8 text");
    let secret = package("apiVersion: v1\nkind: Secret\n").base();
    assert_eq!(
        refusal(&fixture, &[secret]),
        "cannot read package.yaml: no package may bring Secret of v1 (line 1)"
    );
}

#[test]
fn endless_packages_are_refused() {
    let fixture = Fixture::new();
    let many =
        "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n".repeat(MAX_OBJECTS + 1);
    assert!(refusal(&fixture, &[package(&many).base()]).contains("more than 10000 objects"));
    // More than a package may have, and hardly anything when it is compressed.
    let mut archive = Writer::new(Vec::new());
    let size = MAX_BYTES as u64 + (2 << 20);
    archive
        .add_file(
            Member::file(b"package.yaml", 0o644, size),
            std::io::Read::take(std::io::repeat(b'#'), size),
        )
        .unwrap();
    let bomb = RawLayer::archive(archive.finish().unwrap()).base();
    assert!(refusal(&fixture, &[bomb]).contains("unpack to more than"));
}
