//! Caches that earlier releases wrote are read: one fixture for each version of the format.
//!
//! `cargo test -p ferroplane-runner --lib -- make_fixture --ignored` makes one of the version that is written today, in
//! `tests/fixtures/response_cache`. Time stands still in it, so that its answers hold for ever.

use std::fs;
use std::path::{Path, PathBuf};

use ferroplane_segments::Limits;
use ferroplane_wire::v1::{ResponseMeta, Result as Said, RunFunctionResponse};
use tempfile::TempDir;

use super::ResponseCache;

/// When fixtures were written, in milliseconds since 1970.
const WRITTEN_AT: u64 = 1_800_000_000_000;
/// The version of the format that is written today.
const VERSION: u32 = 2;

fn directory(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/response_cache/v{version}"))
}

/// A cache in a directory in which every response begins a segment, and that has room for two.
fn open(directory: &Path) -> ResponseCache {
    ResponseCache::open_with(directory, Limits { bytes: 210, segments: 3 }, || WRITTEN_AT).unwrap()
}

fn response(message: &str) -> RunFunctionResponse {
    let ttl = Some(prost_types::Duration { seconds: 60, nanos: 0 });
    RunFunctionResponse {
        meta: Some(ResponseMeta { ttl, ..ResponseMeta::default() }),
        results: vec![Said { message: message.to_owned(), ..Said::default() }],
        ..RunFunctionResponse::default()
    }
}

/// Writes to a cache what every fixture has: of three segments, the first is dropped.
fn fill(directory: &Path) {
    let cache = open(directory);
    for name in ["first", "second", "third"] {
        cache.put("function-1", name, &response(name));
    }
}

/// A copy of all files of a directory, whatever they are called.
fn copy(from: &Path) -> TempDir {
    let copy = TempDir::new().unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    copy
}

#[test]
fn responses_of_every_version_are_found() {
    for version in 1..=VERSION {
        let copy = copy(&directory(version));
        // Found again when it is opened a second time, too.
        for _ in 0..2 {
            let cache = open(copy.path());
            let found = ["first", "second", "third"].map(|name| cache.get("function-1", name));
            assert_eq!(found, [None, Some(response("second")), Some(response("third"))], "version {version}");
        }
    }
}

#[test]
fn format_does_not_change_without_a_new_version() {
    let written = TempDir::new().unwrap();
    fill(written.path());
    let files = |directory: &Path| {
        let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
        let files = files.filter(|file| file.file_name() != "lock");
        let mut files: Vec<_> =
            files.map(|file| (file.file_name(), fs::read(file.path()).unwrap())).collect();
        files.sort();
        files
    };
    assert!(
        files(written.path()) == files(&directory(VERSION)),
        "other bytes are written than the fixture has"
    );
}

#[test]
#[ignore = "makes a new fixture in the source tree, for a new version of the format"]
fn make_fixture() {
    assert!(!directory(VERSION).exists(), "there is one of version {VERSION} already");
    fill(&directory(VERSION));
    fs::remove_file(directory(VERSION).join("lock")).unwrap();
}
