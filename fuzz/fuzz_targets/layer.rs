//! Any bytes are a layer or an error. Nothing appears beside the root, and the root can be deleted.
#![no_main]

use std::fs;

use ferroplane_image::Hasher;
use ferroplane_image::compression::Compression;
use ferroplane_image::unpack::{Limits, Unpacker};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((choice, content)) = data.split_first() else { return };
    let compression = [Compression::None, Compression::None, Compression::Gzip, Compression::Zstd][usize::from(choice % 4)];
    let around = tempfile::tempdir().expect("there is room");
    let root = around.path().join("root");
    fs::create_dir(&root).expect("there is room");
    let limits = Limits { bytes: 1 << 20, ..Limits::default() };
    let mut unpacker = Unpacker::new(&root, limits).expect("the directory is there");
    let expected = Hasher::digest(content);
    // The same layer on top of itself: what was made by the first is below the second.
    for _ in 0..2 {
        if unpacker.layer(content, compression, &expected).is_err() {
            break;
        }
    }
    let beside = fs::read_dir(around.path()).expect("it is there").count();
    assert_eq!(beside, 1);
    fs::remove_dir_all(&root).expect("it can be deleted");
});
