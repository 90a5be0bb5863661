//! Layers that try to get out, to get big, or to be understood in two ways. Each is refused for the right reason, or is harmless.

mod archives;

use std::fs;

use ferroplane_image::unpack::Limits;

use super::{Surroundings, chain, list, unpack};
use crate::raw_tar::{Block, RawTar};

/// What becomes of a layer.
enum Expected {
    /// The chain of causes has this text.
    Refused(&'static str),
    /// These paths are in the root.
    Unpacked(&'static [&'static str]),
}
use Expected::{Refused, Unpacked};

struct Case {
    name: &'static str,
    layers: Vec<Vec<u8>>,
    expected: Expected,
}

fn case(name: &'static str, layers: impl IntoIterator<Item = Vec<u8>>, expected: Expected) -> Case {
    Case { name, layers: layers.into_iter().collect(), expected }
}

fn check(cases: impl Fn(&Surroundings) -> Vec<Case>) {
    let count = cases(&Surroundings::new()).len();
    for at in 0..count {
        let around = Surroundings::new();
        let Case { name, layers, expected } = cases(&around).swap_remove(at);
        match (unpack(&around.root(), &layers, Limits::default()), expected) {
            (Ok(_), Unpacked(paths)) => assert_eq!(list(&around.root()), paths, "{name}"),
            (Err(error), Refused(text)) => assert!(chain(&error).contains(text), "{name}: {}", chain(&error)),
            (Ok(_), Refused(_)) => panic!("{name}: is unpacked: {:?}", list(&around.root())),
            (Err(error), Unpacked(_)) => panic!("{name}: {}", chain(&error)),
        }
        around.check();
    }
}

fn tar() -> RawTar {
    RawTar::new()
}

#[test]
fn names_do_not_leave_the_root() {
    let long = "d/".repeat(3000);
    let deep = "d/".repeat(129);
    check(|around| {
        vec![
            case("parent", [tar().file("../escape", "").end()], Refused("the part `..`")),
            case("parent in the middle", [tar().file("a/../../escape", "").end()], Refused("the part `..`")),
            case("parent that stays inside", [tar().file("a/../b", "").end()], Refused("the part `..`")),
            case("parent as a directory", [tar().directory("../").end()], Refused("the part `..`")),
            case("parent at the end", [tar().directory("a/..").end()], Refused("the part `..`")),
            case(
                "parent in an extended header",
                [tar().pax(&[("path", b"../e")]).file("e", "").end()],
                Refused("`..`"),
            ),
            case(
                "parent in a long name",
                [tar()
                    .block(&Block { flag: b'L', content: b"../escape\0", ..Block::default() })
                    .file("e", "")
                    .end()],
                Refused("the part `..`"),
            ),
            case("absolute", [tar().file("/a", "").end()], Unpacked(&["a"])),
            case("many slashes", [tar().file("//.//a///./b", "").end()], Unpacked(&["a", "a/b"])),
            case(
                "absolute path of a file that is there",
                [tar()
                    .pax(&[("path", format!("{}/x/../..", around.outside("sentinel")).as_bytes())])
                    .file("e", "")
                    .end()],
                Refused("the part `..`"),
            ),
            case("file as the root", [tar().file(".", "").end()], Refused("replace the root")),
            case("link as the root", [tar().symlink("/", "/etc").end()], Refused("replace the root")),
            case(
                "hard link as the root",
                [tar().file("a", "").hard_link("./", "a").end()],
                Refused("replace the root"),
            ),
            case("no name", [tar().file("", "").end()], Refused("its name is empty")),
            case(
                "zero in a name",
                [tar().pax(&[("path", b"a\0b")]).file("e", "").end()],
                Refused("malformed"),
            ),
            case(
                "long part",
                [tar().pax(&[("path", &[b'n'; 256])]).file("e", "").end()],
                Refused("256 bytes; 255"),
            ),
            case(
                "long name",
                [tar().pax(&[("path", long.as_bytes())]).directory("e").end()],
                Refused("6000 bytes; 4095"),
            ),
            case(
                "deep name",
                [tar().pax(&[("path", deep.as_bytes())]).directory("e").end()],
                Refused("129 parts; 128"),
            ),
            case(
                "name that ends as a directory's",
                [tar().file("a/", "").file("a/b", "").end()],
                Unpacked(&["a", "a/b"]),
            ),
        ]
    });
}

#[test]
fn links_redirect_nothing() {
    check(|around| {
        let secrets = around.outside("secrets");
        let sentinel = around.outside("secrets/sentinel");
        vec![
            case(
                "absolute link",
                [tar().symlink("a", &secrets).file("a/e", "").end()],
                Refused("through the link `a`"),
            ),
            case(
                "relative link",
                [tar().symlink("a", "../../secrets").file("a/e", "").end()],
                Refused("through the link"),
            ),
            case(
                "link to the parent",
                [tar().symlink("a", "..").file("a/e", "").end()],
                Refused("through the link `a`"),
            ),
            case(
                "link to here",
                [tar().symlink("a", ".").file("a/e", "").end()],
                Refused("through the link `a`"),
            ),
            case(
                "link in a directory",
                [tar().directory("d").symlink("d/a", "../../..").file("d/a/e", "").end()],
                Refused("through the link `d/a`"),
            ),
            case(
                "directory becomes a link",
                [tar().directory("d").file("d/f", "").symlink("d", &secrets).file("d/e", "").end()],
                Refused("through the link `d`"),
            ),
            case(
                "directory of a layer below becomes a link",
                [tar().file("d/f", "").end(), tar().symlink("d", &secrets).file("d/e", "").end()],
                Refused("through the link `d`"),
            ),
            case(
                "link becomes a directory",
                [tar().symlink("a", &secrets).directory("a").file("a/e", "").end()],
                Unpacked(&["a", "a/e"]),
            ),
            case(
                "file in the place of a link",
                [tar().symlink("a", &sentinel).file("a", "x").end()],
                Unpacked(&["a"]),
            ),
            case(
                "hard link to a link, then a file",
                [tar().symlink("a", &sentinel).hard_link("b", "a").file("b", "x").end()],
                Unpacked(&["a", "b"]),
            ),
        ]
    });
}

#[test]
fn hard_links_lead_to_files_of_the_image() {
    check(|around| {
        let secrets = around.outside("secrets");
        let sentinel = around.outside("secrets/sentinel");
        vec![
            case(
                "hard link to the parent",
                [tar().hard_link("a", "../sentinel").end()],
                Refused("its link is"),
            ),
            case("absolute hard link", [tar().hard_link("a", &sentinel).end()], Refused("does not exist")),
            case(
                "hard link through a link",
                [tar().symlink("a", &secrets).hard_link("b", "a/sentinel").end()],
                Refused("through the link `a`"),
            ),
            case(
                "hard link through a link of a layer below",
                [tar().symlink("a", "../../secrets").end(), tar().hard_link("b", "a/sentinel").end()],
                Refused("leave the root"),
            ),
            case(
                "hard link to nothing",
                [tar().hard_link("a", "b").end()],
                Refused("`b`, which does not exist"),
            ),
            case(
                "hard link to a directory",
                [tar().directory("d").hard_link("a", "d").end()],
                Refused("neither a file"),
            ),
            case("hard link to the root", [tar().hard_link("a", "/").end()], Refused("its link is")),
            case(
                "hard link to itself",
                [tar().file("a", "").hard_link("a", "a").end()],
                Refused("to itself"),
            ),
            case(
                "hard link to what it replaces",
                [tar().file("d/a", "").hard_link("d", "d/a").end()],
                Refused("to what it replaces"),
            ),
            case("empty hard link", [tar().hard_link("a", "").end()], Refused("its link is")),
            case("empty link", [tar().symlink("a", "").end()], Refused("its link is empty")),
            case(
                "long link",
                [tar().pax(&[("linkpath", &[b'l'; 5000])]).symlink("a", "").end()],
                Refused("its link is"),
            ),
            case(
                "file on the way",
                [tar().file("a", "").file("a/b", "").end()],
                Refused("`a`, which is not a directory"),
            ),
        ]
    });
}

#[test]
fn links_of_layers_below_stay_inside() {
    let deep = "d/".repeat(100);
    check(|around| {
        let secrets = around.outside("secrets");
        vec![
            case(
                "up",
                [tar().symlink("a", "..").end(), tar().file("a/e", "").end()],
                Refused("leave the root"),
            ),
            case(
                "up, after going down",
                [tar().directory("d").symlink("a", "d/../../x").end(), tar().file("a/e", "").end()],
                Refused("leave the root"),
            ),
            case(
                "loop",
                [tar().symlink("a", "b").symlink("b", "a").end(), tar().file("a/e", "").end()],
                Refused("40 links"),
            ),
            case(
                "to itself",
                [tar().symlink("a", "a").end(), tar().file("a/e", "").end()],
                Refused("40 links"),
            ),
            case(
                "to a file",
                [tar().file("f", "").symlink("a", "f").end(), tar().file("a/e", "").end()],
                Refused("not a directory"),
            ),
            case(
                "deeper and deeper",
                [
                    tar().pax(&[("path", deep.as_bytes())]).directory("e").symlink("a", &deep[..98]).end(),
                    tar().pax(&[("path", format!("a/{deep}").as_bytes())]).directory("e").end(),
                ],
                Refused("parts; 128"),
            ),
            case(
                "link to what is a link as well",
                [
                    tar().directory("usr/lib").symlink("lib", "usr/lib").symlink("lib64", "/lib").end(),
                    tar().file("lib64/e", "").end(),
                ],
                Unpacked(&["lib", "lib64", "usr", "usr/lib", "usr/lib/e"]),
            ),
            case(
                "whiteout",
                [tar().symlink("a", "../../secrets").end(), tar().file("a/.wh.sentinel", "").end()],
                Refused("leave the root"),
            ),
            case(
                "opaque directory",
                [tar().symlink("a", "../../secrets").end(), tar().file("a/.wh..wh..opq", "").end()],
                Refused("leave the root"),
            ),
            case(
                "whiteout, absolute",
                [tar().symlink("a", &secrets).end(), tar().file("a/.wh.sentinel", "").end()],
                Unpacked(&["a"]),
            ),
            case(
                "opaque, absolute",
                [tar().symlink("a", &secrets).end(), tar().file("a/.wh..wh..opq", "").end()],
                Unpacked(&["a"]),
            ),
        ]
    });
}

#[test]
fn whiteouts_name_a_file_in_their_directory() {
    check(|_| {
        vec![
            case("nothing", [tar().file(".wh.", "").end()], Refused("names no file")),
            case("here", [tar().file("a/.wh..", "").end()], Refused("names no file")),
            case("parent", [tar().file("a/.wh...", "").end()], Refused("names no file")),
            case("above", [tar().file("../.wh.sentinel", "").end()], Refused("the part `..`")),
            case("directory", [tar().file("a/.wh.b/c", "").end()], Refused("names no file")),
            case(
                "through its own link",
                [tar().file("f", "").end(), tar().symlink("a", "..").file("a/.wh.x", "").end()],
                Refused("through"),
            ),
            case(
                "of what is not there",
                [tar().file("f", "").end(), tar().file("a/.wh.x", "").end()],
                Unpacked(&["f"]),
            ),
            case(
                "notes of an old driver",
                [tar().directory(".wh..wh.plnk").file("f", "").end()],
                Unpacked(&["f"]),
            ),
        ]
    });
}

#[test]
fn nothing_is_made_that_gives_rights_or_blocks() {
    let special = |flag: u8| Block { path: b"d", flag, mode: 0o666, ..Block::default() };
    let with_mode = |flag: u8, path: &'static [u8], mode: u32| Block { path, flag, mode, ..Block::default() };
    check(|_| {
        vec![
            case("character device", [tar().block(&special(b'3')).end()], Unpacked(&[])),
            case("block device", [tar().block(&special(b'4')).end()], Unpacked(&[])),
            case("pipe", [tar().block(&special(b'6')).end()], Unpacked(&[])),
            case(
                "device in the place of a file",
                [tar().file("d", "").end(), tar().block(&special(b'3')).end()],
                Unpacked(&[]),
            ),
            // The modes are checked after each case.
            case("setuid", [tar().block(&with_mode(b'0', b"f", 0o4755)).end()], Unpacked(&["f"])),
            case("setgid and sticky", [tar().block(&with_mode(b'5', b"d", 0o3777)).end()], Unpacked(&["d"])),
            case(
                "no rights at all",
                [tar().block(&with_mode(b'5', b"d", 0)).block(&with_mode(b'0', b"d/f", 0)).end()],
                Unpacked(&["d", "d/f"]),
            ),
            case(
                "root without rights",
                [tar().block(&with_mode(b'5', b"./", 0)).file("f", "").end()],
                Unpacked(&["f"]),
            ),
            case(
                "bits of a file type",
                [tar().block(&with_mode(b'0', b"f", 0o120_644)).end()],
                Unpacked(&["f"]),
            ),
            case(
                "capabilities",
                [tar()
                    .pax(&[("SCHILY.xattr.security.capability", b"\x01\0\0\x02\xff\xff\xff\xff")])
                    .file("f", "")
                    .end()],
                Unpacked(&["f"]),
            ),
        ]
    });
}

#[test]
fn links_are_kept_as_they_are_written() {
    let around = Surroundings::new();
    let layer = tar().symlink("a", "../../secrets/sentinel").symlink("b", "/etc/passwd").end();
    unpack(&around.root(), &[layer], Limits::default()).unwrap();
    assert_eq!(fs::read_link(around.root().join("a")).unwrap().to_str(), Some("../../secrets/sentinel"));
    assert_eq!(fs::read_link(around.root().join("b")).unwrap().to_str(), Some("/etc/passwd"));
    around.check();
}
