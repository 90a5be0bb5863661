//! The tools of others read what we build, and we unpack what they build.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use ferroplane_image::archive::{Selection, export_layout, export_tarball, import};
use ferroplane_image::build::{ImageBuilder, Layer};
use ferroplane_image::{Image, Platform};
use ferroplane_testkit::skip;

use crate::roots::Fixture;

/// Whether the tools are there. If somebody insists, they have to be.
fn are_there(tools: &[&str]) -> bool {
    let missing = tools.iter().find(|tool| Command::new(tool).arg("--version").output().is_err());
    let Some(tool) = missing else { return true };
    assert!(std::env::var_os("FERROPLANE_REQUIRE_PEERS").is_none(), "{tool} is not there");
    skip(&format!("{tool} is not installed; `cargo xtask test` installs it"));
    false
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A place of an image as skopeo and umoci want it.
fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// All that counts of a tree: type, mode, time, content or target, by path.
fn tree(root: &Path) -> BTreeMap<PathBuf, (u32, i64, Vec<u8>)> {
    fn visit(root: &Path, path: &Path, found: &mut BTreeMap<PathBuf, (u32, i64, Vec<u8>)>) {
        let metadata = fs::symlink_metadata(path).unwrap();
        let content = if metadata.is_symlink() {
            fs::read_link(path).unwrap().into_os_string().into_encoded_bytes()
        } else if metadata.is_file() {
            fs::read(path).unwrap()
        } else {
            for entry in fs::read_dir(path).unwrap() {
                visit(root, &entry.unwrap().path(), found);
            }
            Vec::new()
        };
        // We drop the bits that give rights.
        let mode = metadata.mode() & !0o7000;
        found.insert(path.strip_prefix(root).unwrap().to_owned(), (mode, metadata.mtime(), content));
    }
    let mut found = BTreeMap::new();
    visit(root, root, &mut found);
    // Nobody says what the root itself is like.
    found.remove(Path::new(""));
    found
}

fn unpack_with_umoci(fixture: &Fixture, layout: &Path, bundle: &str) -> PathBuf {
    let image = format!("{}:latest", text(layout));
    run("umoci", &["unpack", "--rootless", "--image", &image, text(&fixture.path(bundle))]);
    fixture.path(bundle).join("rootfs")
}

/// Import an image from a place, and unpack it.
fn unpacked(source: &Path) -> BTreeMap<PathBuf, (u32, i64, Vec<u8>)> {
    let fixture = Fixture::new();
    let platform = Platform::host();
    let imported =
        import(source, &fixture.store, &Selection { name: None, platform: Some(&platform) }).unwrap();
    let image = Image::load(&fixture.store, &imported.descriptor.digest).unwrap();
    let root = fixture.roots().get(&fixture.store, &image).unwrap();
    tree(root.path())
}

/// A layout of two layers, with whiteouts, made by umoci.
fn build_with_umoci(fixture: &Fixture) -> PathBuf {
    let layout = fixture.path("umoci");
    let image = format!("{}:latest", text(&layout));
    run("umoci", &["init", "--layout", text(&layout)]);
    run("umoci", &["new", "--image", &image]);
    let root = unpack_with_umoci(fixture, &layout, "lower");
    for name in
        ["etc/keep", "etc/remove", "gone/deep/er", "usr/lib/library", &"long/".repeat(30), "ünïcode \n"]
    {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(root.join(name.trim_end_matches('/')), name).unwrap();
    }
    symlink("usr/lib", root.join("lib")).unwrap();
    symlink("/nowhere/at/all", root.join("dangling")).unwrap();
    fs::hard_link(root.join("etc/keep"), root.join("etc/linked")).unwrap();
    fs::set_permissions(root.join("etc/keep"), fs::Permissions::from_mode(0o4751)).unwrap();
    run("umoci", &["repack", "--image", &image, text(&fixture.path("lower"))]);
    let root = unpack_with_umoci(fixture, &layout, "upper");
    fs::remove_dir_all(root.join("gone")).unwrap();
    fs::remove_file(root.join("etc/remove")).unwrap();
    fs::remove_file(root.join("lib")).unwrap();
    fs::create_dir(root.join("lib")).unwrap();
    fs::write(root.join("lib/new"), "new").unwrap();
    run("umoci", &["repack", "--image", &image, text(&fixture.path("upper"))]);
    layout
}

#[test]
fn what_umoci_builds_is_unpacked_as_umoci_does() {
    if !are_there(&["umoci"]) {
        return;
    }
    let fixture = Fixture::new();
    let layout = build_with_umoci(&fixture);
    let theirs = tree(&unpack_with_umoci(&fixture, &layout, "all"));
    assert!(theirs.len() > 30 && !theirs.contains_key(Path::new("gone")));
    assert_eq!(unpacked(&layout), theirs);
}

/// umoci 0.4 leaves out the zeros after the last file of such a layer.
#[test]
fn what_umoci_inserts_is_unpacked() {
    if !are_there(&["umoci"]) {
        return;
    }
    let fixture = Fixture::new();
    let layout = build_with_umoci(&fixture);
    fs::write(fixture.path("inserted"), "some text").unwrap();
    let image = format!("{}:latest", text(&layout));
    run(
        "umoci",
        &["insert", "--rootless", "--image", &image, text(&fixture.path("inserted")), "/etc/inserted"],
    );
    let ours = unpacked(&layout);
    assert_eq!(ours[Path::new("etc/inserted")].2, b"some text");
}

#[test]
fn what_skopeo_writes_is_read() {
    if !are_there(&["umoci", "skopeo"]) {
        return;
    }
    let fixture = Fixture::new();
    let layout = build_with_umoci(&fixture);
    let from = format!("oci:{}:latest", text(&layout));
    let theirs = unpacked(&layout);
    let archive = format!("docker-archive:{}:name:tag", text(&fixture.path("docker.tar")));
    run("skopeo", &["--insecure-policy", "copy", &from, &archive]);
    assert_eq!(unpacked(&fixture.path("docker.tar")), theirs);
    let archive = format!("oci-archive:{}:latest", text(&fixture.path("oci.tar")));
    run("skopeo", &["--insecure-policy", "copy", &from, &archive]);
    assert_eq!(unpacked(&fixture.path("oci.tar")), theirs);
    for format in ["zstd", "gzip"] {
        let copy = format!("oci:{}:latest", text(&fixture.path(format)));
        run(
            "skopeo",
            &["--insecure-policy", "copy", "--dest-compress-format", format, "--dest-compress", &from, &copy],
        );
        assert_eq!(unpacked(&fixture.path(format)), theirs, "{format}");
    }
}

#[test]
fn what_we_build_is_read_by_others() {
    if !are_there(&["umoci", "skopeo"]) {
        return;
    }
    let fixture = Fixture::new();
    let mut layer = Layer::new();
    layer.add_bytes(b"#!/bin/sh\n".to_vec(), "bin/run", true).unwrap();
    layer.add_bytes(b"x".to_vec(), &format!("{}end", "long/".repeat(40)), false).unwrap();
    layer.add_symlink("../bin/run", "usr/run").unwrap();
    layer.add_symlink(&"up/".repeat(50), "usr/far").unwrap();
    layer.add_bytes(vec![7; 3 << 20], "large", false).unwrap();
    let mut builder = ImageBuilder::new(Platform::host());
    builder.execution.entrypoint = Some(vec!["/bin/run".to_owned()]);
    builder.layers.push(layer.annotate("io.crossplane.xpkg", "base"));
    let descriptor = builder.build(&fixture.store).unwrap();
    let images = [(descriptor.clone(), Some("latest"))];
    export_layout(&fixture.store, &images, &fixture.path("ours")).unwrap();
    export_tarball(&fixture.store, &images, fs::File::create(fixture.path("ours.tar")).unwrap()).unwrap();

    let output = Command::new("skopeo")
        .args(["inspect", "--raw"])
        .arg(format!("oci:{}:latest", text(&fixture.path("ours"))))
        .output()
        .unwrap();
    assert_eq!(ferroplane_image::Hasher::digest(&output.stdout), descriptor.digest);
    let archive = format!("oci-archive:{}:latest", text(&fixture.path("ours.tar")));
    let copy = format!("oci:{}:latest", text(&fixture.path("copy")));
    run("skopeo", &["--insecure-policy", "copy", &archive, &copy]);

    let image = Image::load(&fixture.store, &descriptor.digest).unwrap();
    let root = fixture.roots().get(&fixture.store, &image).unwrap();
    assert_eq!(tree(&unpack_with_umoci(&fixture, &fixture.path("copy"), "bundle")), tree(root.path()));
}
