//! Images that we build: the same bytes every time, and what others expect in them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use ferroplane_image::build::{ImageBuilder, Layer, build_index};
use ferroplane_image::{Descriptor, Execution, Image, Index, Platform};

use crate::roots::Fixture;
use crate::unpack::{chain, list};

/// A directory as a build leaves it, with the rights and in the order that a machine happens to give.
fn source(directory: &Path, names: &[&str], mode: u32) {
    for name in names {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, name).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    symlink("a", directory.join("link")).unwrap();
}

fn build(fixture: &Fixture, source: &Path) -> Descriptor {
    let mut layer = Layer::new().annotate("io.crossplane.xpkg", "base");
    layer.add_directory(source, "app").unwrap();
    layer.add_bytes(b"#!/bin/sh\n".to_vec(), "/bin/run", true).unwrap();
    let mut builder = ImageBuilder::new(Platform::new("linux", "arm64", Some("v8")));
    builder.execution = Execution {
        user: Some("2000".to_owned()),
        env: Some(vec!["A=b".to_owned()]),
        entrypoint: Some(vec!["/bin/run".to_owned()]),
        cmd: Some(vec!["--help".to_owned()]),
        working_dir: Some("/app".to_owned()),
        labels: Some(BTreeMap::from([("l".to_owned(), "v".to_owned())])),
        ..Execution::default()
    };
    builder.layers.push(layer);
    builder.build(&fixture.store).unwrap()
}

#[test]
fn same_files_give_the_same_image() {
    let (one, two) = (Fixture::new(), Fixture::new());
    source(&one.path("s"), &["a", "b/c", "b/d", "e"], 0o644);
    source(&two.path("s"), &["e", "b/d", "b/c", "a"], 0o600);
    let descriptor = build(&one, &one.path("s"));
    assert_eq!(descriptor, build(&two, &two.path("s")));
    // Written down, so that another machine, or another version of a library, is noticed.
    assert_eq!(
        descriptor.digest.to_string(),
        "sha256:4792c7317e0a6f4db28ff3ddb1c0ece9a898ec9978e5aea30d8a53efc994c65e"
    );
}

#[test]
fn image_has_what_it_was_given() {
    let fixture = Fixture::new();
    source(&fixture.path("s"), &["a", "b/c"], 0o755);
    let descriptor = build(&fixture, &fixture.path("s"));
    assert_eq!(descriptor.platform.as_ref().unwrap().to_string(), "linux/arm64/v8");
    let image = Image::load(&fixture.store, &descriptor.digest).unwrap();
    assert_eq!(image.manifest.layers[0].annotations["io.crossplane.xpkg"], "base");
    assert_eq!((image.config.os.as_str(), image.config.variant.as_deref()), ("linux", Some("v8")));
    let execution = image.config.config.as_ref().unwrap();
    assert_eq!(execution.user.as_deref(), Some("2000"));
    assert_eq!(execution.labels.as_ref().unwrap()["l"], "v");

    let root = fixture.roots().get(&fixture.store, &image).unwrap();
    assert_eq!(list(root.path()), ["app", "app/a", "app/b", "app/b/c", "app/link", "bin", "bin/run"]);
    let mode = |name: &str| fs::metadata(root.path().join(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("app/a"), mode("bin/run"), mode("app")), (0o755, 0o755, 0o755));
    assert_eq!(fs::read_link(root.path().join("app/link")).unwrap().to_str(), Some("a"));
}

#[test]
fn layers_go_on_top_of_another_image() {
    let fixture = Fixture::new();
    let mut builder = ImageBuilder::on(fixture.image("below"));
    let mut layer = Layer::new();
    layer.add_bytes(b"above".to_vec(), "etc/other", false).unwrap();
    builder.layers.push(layer);
    let descriptor = builder.build(&fixture.store).unwrap();
    let image = Image::load(&fixture.store, &descriptor.digest).unwrap();
    let root = fixture.roots().get(&fixture.store, &image).unwrap();
    assert_eq!(list(root.path()), ["etc", "etc/file", "etc/other"]);
}

#[test]
fn index_offers_a_platform_each() {
    let fixture = Fixture::new();
    let image = |architecture: &str| {
        ImageBuilder::new(Platform::new("linux", architecture, None)).build(&fixture.store).unwrap()
    };
    let descriptor =
        build_index(&fixture.store, vec![image("amd64"), image("s390x")], BTreeMap::new()).unwrap();
    let content = fixture.store.read_to_vec(&descriptor.digest, 10_000).unwrap();
    let index: Index = serde_json::from_slice(&content).unwrap();
    let chosen = Platform::new("linux", "s390x", None).choose(&index).unwrap();
    assert_eq!(chosen.digest, index.manifests[1].digest);
}

#[test]
fn what_cannot_be_in_a_layer_is_refused() {
    let fixture = Fixture::new();
    let mut layer = Layer::new();
    for name in ["", "/", "a/../b", "a/.wh.b", ".wh..wh..opq"] {
        let error = layer.add_bytes(Vec::new(), name, false).unwrap_err();
        assert!(chain(&error).contains("its name is empty"), "{}", chain(&error));
    }
    layer.add_bytes(Vec::new(), "a", false).unwrap();
    assert!(
        layer
            .add_bytes(Vec::new(), "a", false)
            .unwrap_err()
            .to_string()
            .contains("there is a file of that name")
    );
    assert!(
        layer
            .add_bytes(Vec::new(), "a/b", false)
            .unwrap_err()
            .to_string()
            .contains("there is a file of that name")
    );
    assert!(
        layer.add_file(fixture.directory.path(), "d").unwrap_err().to_string().contains("neither a file")
    );
    assert!(layer.add_file(Path::new("/dev/null"), "d").unwrap_err().to_string().contains("neither a file"));
    assert!(layer.add_file(&fixture.path("missing"), "d").unwrap_err().to_string().contains("cannot read"));
}
