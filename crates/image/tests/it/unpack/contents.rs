//! What honest layers unpack to.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use ferroplane_image::unpack::{Error, Limits};

use super::{Surroundings, list, unpack};
use crate::raw_tar::{Block, RawTar};

fn tar() -> RawTar {
    RawTar::new()
}

/// Unpack layers, and give the paths that result to a check.
fn unpacked(layers: &[Vec<u8>], look: impl FnOnce(&Path, Vec<String>)) {
    let around = Surroundings::new();
    unpack(&around.root(), layers, Limits::default()).unwrap();
    look(&around.root(), list(&around.root()));
    around.check();
}

fn read(root: &Path, name: &str) -> String {
    fs::read_to_string(root.join(name)).unwrap()
}

#[test]
fn upper_layers_replace_what_is_below() {
    let lower = tar().file("a", "old").file("d/f", "old").symlink("l", "a").hard_link("h", "a").end();
    let upper = tar().file("a", "new").file("d", "a file now").directory("l").end();
    unpacked(&[lower, upper], |root, paths| {
        assert_eq!(paths, ["a", "d", "h", "l"]);
        assert_eq!((read(root, "a"), read(root, "d")), ("new".into(), "a file now".into()));
        assert_eq!(read(root, "h"), "old", "the other name of the file keeps its content");
        assert!(root.join("l").is_dir());
    });
}

#[test]
fn hard_links_share_a_file() {
    unpacked(&[tar().file("d/a", "x").end(), tar().hard_link("e/b", "/d/a").end()], |root, _| {
        let inode = |name: &str| fs::metadata(root.join(name)).unwrap().ino();
        assert_eq!(inode("d/a"), inode("e/b"));
    });
}

#[test]
fn whiteout_hides_files_and_directories_below() {
    let lower = || tar().file("a", "").file("d/f", "").file("d/e/g", "").file("k", "").end();
    unpacked(&[lower(), tar().file(".wh.a", "").file(".wh.d", "").end()], |_, paths| {
        assert_eq!(paths, ["k"]);
    });
    unpacked(&[lower(), tar().file("d/.wh.f", "").file("d/.wh.nothing", "").end()], |_, paths| {
        assert_eq!(paths, ["a", "d", "d/e", "d/e/g", "k"]);
    });
}

#[test]
fn whiteout_never_hides_what_its_own_layer_has() {
    let lower = || tar().file("a", "old").file("d/old", "").file("d/e/old", "").end();
    let before = tar()
        .file(".wh.a", "")
        .file("a", "new")
        .file("d/.wh..wh..opq", "")
        .file("d/new", "")
        .file("d/e/new", "")
        .end();
    let after = tar()
        .file("a", "new")
        .file(".wh.a", "")
        .file("d/new", "")
        .file("d/e/new", "")
        .file("d/.wh..wh..opq", "")
        .end();
    let named = tar()
        .file("a", "new")
        .file(".wh.a", "")
        .file("d/new", "")
        .file("d/e/new", "")
        .file(".wh.d", "")
        .end();
    for upper in [before, after, named] {
        unpacked(&[lower(), upper], |root, paths| {
            assert_eq!(paths, ["a", "d", "d/e", "d/e/new", "d/new"]);
            assert_eq!(read(root, "a"), "new");
        });
    }
}

#[test]
fn whiteouts_in_the_lowest_layer_hide_nothing() {
    let layer = tar().file("a", "").file(".wh.a", "").file("d/f", "").file("d/.wh..wh..opq", "").end();
    unpacked(&[layer], |_, paths| assert_eq!(paths, ["a", "d", "d/f"]));
}

#[test]
fn opaque_root_hides_everything_below() {
    unpacked(
        &[tar().file("a", "").file("d/f", "").end(), tar().file("b", "").file(".wh..wh..opq", "").end()],
        |_, paths| {
            assert_eq!(paths, ["b"]);
        },
    );
}

#[test]
fn times_and_modes_are_kept() {
    let file = Block { path: b"d/f", mode: 0o751, content: b"x", ..Block::default() };
    let lower =
        tar().block(&Block { path: b"d", flag: b'5', mode: 0o1750, ..Block::default() }).block(&file).end();
    let upper =
        tar().file("d/g", "").file("implicit/h", "").pax(&[("mtime", b"12.5")]).symlink("l", "d").end();
    unpacked(&[lower, upper], |root, _| {
        let look = |name: &str| {
            let metadata = fs::symlink_metadata(root.join(name)).unwrap();
            (metadata.permissions().mode() & 0o7777, metadata.mtime(), metadata.mtime_nsec())
        };
        assert_eq!(look("d/f"), (0o751, 0o1750, 0));
        assert_eq!(look("d"), (0o750, 0o1750, 0), "a file was added later");
        assert_eq!(look("implicit"), (0o755, 0, 0));
        assert_eq!((look("l").1, look("l").2), (12, 500_000_000));
    });
}

#[test]
fn impossible_times_are_no_error() {
    let block = |time: &'static [u8; 12]| Block { time, ..Block::default() };
    for time in [b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff", &[0xff; 12], b"77777777777\0"] {
        unpacked(&[tar().block(&block(time)).end()], |_, paths| assert_eq!(paths, ["f"]));
    }
    unpacked(&[tar().pax(&[("mtime", b"-1.5")]).file("f", "").end()], |root, _| {
        assert_eq!(fs::metadata(root.join("f")).unwrap().mtime(), 0);
    });
}

#[test]
fn names_are_bytes() {
    let layer = tar()
        .block(&Block { path: b"\xff\xfe", ..Block::default() })
        .file("Name", "upper")
        .file("name", "lower")
        .file("new\nline", "")
        .file(" ", "")
        .end();
    unpacked(&[layer], |root, paths| {
        assert_eq!(paths.len(), 5);
        assert!(root.join(std::ffi::OsStr::from_bytes(b"\xff\xfe")).exists());
        assert_eq!((read(root, "Name"), read(root, "name")), ("upper".into(), "lower".into()));
    });
}

#[test]
fn names_that_differ_in_case_are_different_files_in_all_layers() {
    let lower = tar().file("README", "upper").file("readme", "lower").file("Docs/a", "A").file("docs/a", "a");
    let upper =
        tar().file("Readme", "new").file(".wh.readme", "").file("DOCS/a", "").file("docs/.wh..wh..opq", "");
    unpacked(&[lower.end(), upper.end()], |root, paths| {
        assert_eq!(paths, ["DOCS", "DOCS/a", "Docs", "Docs/a", "README", "Readme", "docs"]);
        assert_eq!((read(root, "README"), read(root, "Readme")), ("upper".into(), "new".into()));
        assert_eq!(read(root, "Docs/a"), "A");
    });
}

/// Where case is ignored, the file would be written to the directory that the link names.
#[test]
fn link_does_not_stand_for_a_directory_whose_name_differs_in_case() {
    let around = Surroundings::new();
    let link = tar().symlink("Data", &around.outside("secrets")).end();
    let file = tar().file("data/sentinel", "overwritten").symlink("DATA", "data").end();
    unpack(&around.root(), &[link, file], Limits::default()).unwrap();
    assert_eq!(list(&around.root()), ["DATA", "Data", "data", "data/sentinel"]);
    around.check();
}

/// A directory that has the other name of the probe already looks as if the file system ignored case.
#[test]
fn file_system_that_ignores_case_is_refused() {
    let around = Surroundings::new();
    fs::write(around.root().join(".FERROPLANE-CASE"), "").unwrap();
    let layer = tar().file("README", "").file("readme", "").end();
    let error = unpack(&around.root(), &[layer], Limits::default()).unwrap_err();
    assert!(matches!(error, Error::IgnoresCase), "{error:?}");
    assert!(error.to_string().contains("a file system that ignores the case of names"), "{error}");
    assert_eq!(list(&around.root()), [".FERROPLANE-CASE"], "the probe is gone, and nothing was unpacked");
    around.check();
}
