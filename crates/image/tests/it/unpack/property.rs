//! Whatever entries come: nothing outside of the root is created, changed or read, and the root can be deleted.

use std::fs;
use std::path::Path;

use ferroplane_image::unpack::Limits;
use proptest::collection::vec;
use proptest::prelude::*;

use super::{Surroundings, unpack};
use crate::raw_tar::{Block, RawTar};

/// Parts that make trouble together.
fn part() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        4 => prop_oneof![Just("a"), Just("b"), Just("c")],
        1 => prop_oneof![Just(".."), Just("."), Just(""), Just("sentinel"), Just("secrets")],
        1 => prop_oneof![Just(".wh.a"), Just(".wh..wh..opq"), Just(".wh..."), Just(".wh.sentinel")],
    ]
}

fn path() -> impl Strategy<Value = String> {
    (any::<bool>(), vec(part(), 1..5))
        .prop_map(|(is_absolute, parts)| format!("{}{}", if is_absolute { "/" } else { "" }, parts.join("/")))
}

/// Places to link to. `OUTSIDE` becomes the directory around the root.
fn target() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => path(),
        1 => prop_oneof![
            Just("OUTSIDE".to_owned()), Just("OUTSIDE/secrets".to_owned()), Just("OUTSIDE/sentinel".to_owned()),
            Just("../..".to_owned()), Just("../../secrets".to_owned()), Just("/".to_owned()), Just(".".to_owned()),
        ],
    ]
}

fn entry() -> impl Strategy<Value = (u8, String, String, u32)> {
    let kind = prop_oneof![3 => Just(b'0'), 3 => Just(b'5'), 4 => Just(b'2'), 3 => Just(b'1'), 1 => Just(b'3'), 1 => Just(b'6')];
    (kind, path(), target(), 0_u32..0o10000)
}

fn layers() -> impl Strategy<Value = Vec<Vec<(u8, String, String, u32)>>> {
    vec(vec(entry(), 1..12), 1..4)
}

fn archive(entries: &[(u8, String, String, u32)], outside: &str) -> Vec<u8> {
    let mut tar = RawTar::new();
    for (flag, path, target, mode) in entries {
        let link = target.replace("OUTSIDE", outside);
        let content: &[u8] = if *flag == b'0' { b"overwritten" } else { b"" };
        tar = tar.pax(&[("path", path.as_bytes()), ("linkpath", link.as_bytes())]);
        tar = tar.block(&Block {
            path: b"x",
            flag: *flag,
            mode: *mode,
            link: b"x",
            content,
            ..Block::default()
        });
    }
    tar.end()
}

/// Files that say what only the outside says were read from there.
fn contains(path: &Path, text: &str) -> bool {
    let metadata = fs::symlink_metadata(path).unwrap();
    if metadata.is_dir() {
        return fs::read_dir(path).unwrap().any(|entry| contains(&entry.unwrap().path(), text));
    }
    metadata.is_file() && fs::read_to_string(path).unwrap().contains(text)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_outside_is_touched(layers in layers()) {
        let around = Surroundings::new();
        let outside = around.outside("");
        let archives: Vec<_> = layers.iter().map(|layer| archive(layer, outside.trim_end_matches('/'))).collect();
        let _ = unpack(&around.root(), &archives, Limits::default());
        prop_assert!(!contains(&around.root(), super::SENTINEL));
        around.check();
    }

    #[test]
    fn any_bytes_are_a_layer_or_an_error(bytes in vec(any::<u8>(), 0..2000)) {
        let around = Surroundings::new();
        let _ = unpack(&around.root(), &[bytes], Limits::default());
        around.check();
    }

    /// A single changed byte is noticed or harmless.
    #[test]
    fn damaged_layers_are_a_layer_or_an_error(layers in layers(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let around = Surroundings::new();
        let outside = around.outside("");
        let archives: Vec<_> = layers.iter().map(|layer| {
            let mut archive = archive(layer, outside.trim_end_matches('/'));
            let at = at.index(archive.len());
            archive[at] = byte;
            archive
        }).collect();
        let _ = unpack(&around.root(), &archives, Limits::default());
        around.check();
    }
}
