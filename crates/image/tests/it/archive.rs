//! Images in files: layouts, tarballs, what `docker save` wrote, and archives that lie.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use ferroplane_image::archive::{Error, Imported, Selection, export_layout, export_tarball, import};
use ferroplane_image::build::build_index;
use ferroplane_image::{Hasher, Image, Platform};

use crate::raw_tar::{Block, RawTar};
use crate::roots::Fixture;
use crate::unpack::{chain, list};

fn import_from(fixture: &Fixture, path: &Path, name: Option<&str>) -> Result<Imported, Error> {
    import(path, &fixture.store, &Selection { name, platform: None })
}

/// The image is in the store and can be unpacked.
fn check(fixture: &Fixture, imported: &Imported) {
    let image = Image::load(&fixture.store, &imported.descriptor.digest).unwrap();
    let root = fixture.roots().get(&fixture.store, &image).unwrap();
    assert_eq!(list(root.path()), ["etc", "etc/file"]);
}

#[test]
fn layout_is_read_as_it_was_written() {
    let (from, to) = (Fixture::new(), Fixture::new());
    let (one, two) = (from.image("one"), from.image("two"));
    let descriptor = |image: &Image| {
        ferroplane_image::Descriptor::new(
            ferroplane_image::media_type::OCI_MANIFEST,
            image.digest.clone(),
            image.manifest.to_bytes().len() as u64,
        )
    };
    let images = [(descriptor(&one), Some("one")), (descriptor(&two), Some("two"))];
    export_layout(&from.store, &images, &from.path("layout")).unwrap();
    export_tarball(&from.store, &images, File::create(from.path("layout.tar")).unwrap()).unwrap();
    export_tarball(&from.store, &images, File::create(from.path("again.tar")).unwrap()).unwrap();
    assert_eq!(fs::read(from.path("layout.tar")).unwrap(), fs::read(from.path("again.tar")).unwrap());
    let mut gzip = flate2::write::GzEncoder::new(
        File::create(from.path("layout.tgz")).unwrap(),
        flate2::Compression::fast(),
    );
    gzip.write_all(&fs::read(from.path("layout.tar")).unwrap()).unwrap();
    gzip.finish().unwrap();

    for source in ["layout", "layout.tar", "layout.tgz"] {
        let imported = import_from(&to, &from.path(source), Some("two")).unwrap();
        assert_eq!(imported.descriptor.digest, two.digest, "{source}");
        check(&to, &imported);
        let error = import_from(&to, &from.path(source), None).unwrap_err();
        assert!(error.to_string().contains("the archive has one, two; name one"), "{error}");
        let error = import_from(&to, &from.path(source), Some("three")).unwrap_err();
        assert!(error.to_string().contains("cannot find image `three`: the archive has one, two"), "{error}");
    }
}

#[test]
fn platform_is_chosen_from_an_index() {
    let (from, to) = (Fixture::new(), Fixture::new());
    let image = |architecture: &str| {
        let builder = ferroplane_image::build::ImageBuilder::new(Platform::new("linux", architecture, None));
        builder.build(&from.store).unwrap()
    };
    let images = vec![image("amd64"), image("s390x")];
    let index = build_index(&from.store, images.clone(), std::collections::BTreeMap::new()).unwrap();
    export_layout(&from.store, &[(index.clone(), None)], &from.path("layout")).unwrap();
    let platform = Platform::new("linux", "s390x", None);
    let selection = Selection { name: None, platform: Some(&platform) };
    let imported = import(&from.path("layout"), &to.store, &selection).unwrap();
    assert_eq!(imported.descriptor.digest, images[1].digest);
    assert!(!to.store.contains(&images[0].digest));

    let imported = import_from(&to, &from.path("layout"), None).unwrap();
    assert_eq!(imported.descriptor.digest, index.digest);
    assert!(to.store.contains(&images[0].digest));

    let platform = Platform::new("linux", "riscv64", None);
    let selection = Selection { name: None, platform: Some(&platform) };
    let error = import(&from.path("layout"), &to.store, &selection).unwrap_err();
    assert!(chain(&error).contains("linux/amd64, linux/s390x"), "{}", chain(&error));
}

/// What `docker save` of Docker before 25 writes, with a layer that is a link to an equal one.
fn saved(layers: &[(&str, Vec<u8>)], diff_ids: &[String]) -> Vec<u8> {
    let ids: Vec<String> = diff_ids.iter().map(|id| format!("\"{id}\"")).collect();
    let config = format!(
        r#"{{"architecture":"amd64","os":"linux","config":{{}},"rootfs":{{"type":"layers","diff_ids":[{}]}}}}"#,
        ids.join(",")
    );
    let names: Vec<String> = layers.iter().map(|(name, _)| format!("\"{name}/layer.tar\"")).collect();
    let manifest =
        format!(r#"[{{"Config":"c.json","RepoTags":["name:tag"],"Layers":[{}]}}]"#, names.join(","));
    let mut tar = RawTar::new().file("c.json", &config);
    for (name, content) in layers {
        let path = format!("{name}/layer.tar");
        tar = tar.directory(name);
        tar = match content.as_slice() {
            b"link" => tar.symlink(&path, "../first/layer.tar"),
            content => tar.block(&Block { path: path.as_bytes(), content, ..Block::default() }),
        };
    }
    tar.file("manifest.json", &manifest).file("repositories", "{}").end()
}

fn import_bytes(fixture: &Fixture, bytes: &[u8]) -> Result<Imported, Error> {
    fs::write(fixture.path("archive"), bytes).unwrap();
    import_from(fixture, &fixture.path("archive"), None)
}

#[test]
fn what_docker_saved_is_imported() {
    let fixture = Fixture::new();
    let layer = RawTar::new().file("etc/file", "x").end();
    let id = Hasher::digest(&layer).to_string();
    let archive = saved(&[("first", layer.clone()), ("second", b"link".to_vec())], &[id.clone(), id.clone()]);
    check(&fixture, &import_bytes(&fixture, &archive).unwrap());
    assert!(import_from(&fixture, &fixture.path("archive"), Some("name:tag")).is_ok());
    let error = import_from(&fixture, &fixture.path("archive"), Some("other")).unwrap_err();
    assert!(error.to_string().contains("the archive has name:tag"), "{error}");

    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&layer).unwrap();
    check(&fixture, &import_bytes(&fixture, &saved(&[("first", gzip.finish().unwrap())], &[id])).unwrap());
}

#[test]
fn archives_that_lie_are_refused() {
    let fixture = Fixture::new();
    let layer = RawTar::new().file("etc/file", "x").end();
    let id = Hasher::digest(&layer).to_string();
    let other = Hasher::digest(b"other").to_string();
    let tar = RawTar::new;
    let blob = format!(
        r#"{{"schemaVersion":2,"manifests":[{{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"{other}","size":2}}]}}"#
    );
    let path = format!("blobs/sha256/{}", &other[7..]);
    let many = |link: &str| tar().symlink("index.json", link).symlink("a", "b").symlink("b", "a").end();
    for (archive, text) in [
        (saved(&[("first", layer.clone())], std::slice::from_ref(&other)), "cannot trust layer"),
        (saved(&[("first", layer.clone())], &[]), "it has 1 layers, and its configuration describes 0"),
        (saved(&[("second", b"link".to_vec())], std::slice::from_ref(&id)), "cannot find `second/layer.tar`"),
        (tar().file("manifest.json", "[]").end(), "the archive has none"),
        (tar().file("manifest.json", "{").end(), "the JSON of `manifest.json`"),
        (
            tar().file("manifest.json", r#"[{"Config":"../../etc/passwd"}]"#).end(),
            "cannot find `../../etc/passwd`",
        ),
        (tar().file("repositories", "{}").end(), "neither `index.json`"),
        (tar().end(), "neither `index.json`"),
        (b"no archive at all, but long enough to have one block of 512 bytes".repeat(10), "as an archive"),
        (tar().file("index.json", &blob).end(), "cannot find `blobs/sha256/"),
        (tar().file("index.json", &blob).pax(&[("path", path.as_bytes())]).file("b", "{}").end(), "sha256:"),
        (tar().file("index.json", "{").end(), "the JSON of `index.json`"),
        (
            tar()
                .file(
                    "index.json",
                    r#"{"schemaVersion":2,"manifests":[{"mediaType":"a","digest":"sha256:..","size":1}]}"#,
                )
                .end(),
            "the JSON",
        ),
        (tar().file("index.json", "").file("./index.json", "").end(), "two entries of the same name"),
        (many("a"), "neither `index.json`"),
        (many("../../../../etc/passwd"), "neither `index.json`"),
        (many("/etc/passwd"), "neither `index.json`"),
    ] {
        let error = import_bytes(&fixture, &archive).unwrap_err();
        assert!(chain(&error).contains(text), "{text}: {}", chain(&error));
    }
}

#[test]
fn links_in_a_layout_are_not_followed() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.path("layout/blobs")).unwrap();
    fs::write(fixture.path("secret"), r#"{"schemaVersion":2,"manifests":[]}"#).unwrap();
    symlink("../secret", fixture.path("layout/index.json")).unwrap();
    let error = import_from(&fixture, &fixture.path("layout"), None).unwrap_err();
    assert!(error.to_string().contains("neither `index.json`"), "{error}");

    // A pipe must not be waited for.
    fs::remove_file(fixture.path("layout/index.json")).unwrap();
    assert!(
        std::process::Command::new("mkfifo")
            .arg(fixture.path("layout/index.json"))
            .status()
            .unwrap()
            .success()
    );
    let error = import_from(&fixture, &fixture.path("layout"), None).unwrap_err();
    assert!(error.to_string().contains("neither `index.json`"), "{error}");
}
