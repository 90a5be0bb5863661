//! What later releases wrote is refused with a message that says what to do, and not a byte of it is changed.

use std::fs;
use std::path::Path;

use super::{fixture, run};

/// Where a `SQLite` database has its `user_version`.
const USER_VERSION: usize = 60;
/// Where a segment of recordings has its version.
const RECORDING_VERSION: usize = 14;

/// Makes a file one of a later version, and returns what it is then.
fn age(file: &Path, at: usize, version: &[u8]) -> Vec<u8> {
    let mut bytes = fs::read(file).unwrap();
    bytes[at..at + version.len()].copy_from_slice(version);
    fs::write(file, &bytes).unwrap();
    bytes
}

/// Checks that commands refuse a file that has a later version, and leave it as it is.
fn check_refused(directory: &Path, file: &str, bytes: &[u8], commands: &[&[&str]]) {
    for arguments in commands {
        let ran = run(directory, arguments);
        assert_eq!(ran.code, Some(1), "{arguments:?}: {ran:?}");
        let words = ["it has version 9 of the format", "this program knows 1", "use a newer Ferroplane"];
        for words in words.into_iter().chain([file]) {
            assert!(ran.stderr.contains(words), "{arguments:?}: {words:?} is not in {}", ran.stderr);
        }
        assert!(fs::read(directory.join(file)).unwrap() == bytes, "{arguments:?} changed `{file}`");
    }
}

#[test]
fn newer_store_is_refused() {
    let copy = fixture::newest();
    let bytes = age(&copy.path().join("data/store.db"), USER_VERSION, &9u32.to_be_bytes());
    let up = &["up", "--listen", "127.0.0.1:0", "--data-dir", "data"];
    check_refused(copy.path(), "data/store.db", &bytes, &[up, &["backup", "another.db"]]);
    assert!(!copy.path().join("another.db").exists());
}

#[test]
fn newer_backup_is_refused() {
    let copy = fixture::newest();
    let bytes = age(&copy.path().join("backup.db"), USER_VERSION, &9u32.to_be_bytes());
    let store = fs::read(copy.path().join("data/store.db")).unwrap();
    check_refused(copy.path(), "backup.db", &bytes, &[&["restore", "backup.db", "--force"]]);
    assert!(fs::read(copy.path().join("data/store.db")).unwrap() == store, "the store was changed");
}

#[test]
fn newer_recordings_are_refused() {
    let copy = fixture::newest();
    let up = &["up", "--listen", "127.0.0.1:0", "--data-dir", "data"];
    let segment = "data/recordings/segment-000000000001";
    let bytes = age(&copy.path().join(segment), RECORDING_VERSION, &[9]);
    check_refused(copy.path(), segment, &bytes, &[up, &["replay", "list"], &["replay", "shop/one"]]);

    let bytes = age(&copy.path().join("one.recording"), RECORDING_VERSION, &[9]);
    let replay = &["replay", "--recordings", "one.recording"];
    check_refused(copy.path(), "one.recording", &bytes, &[replay]);
}
