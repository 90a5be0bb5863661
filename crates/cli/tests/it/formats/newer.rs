//! What later releases wrote is refused with a message that says what to do, and not a byte of it is changed.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{PATIENCE, fixture, run};
use crate::plane::ferroplane;

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
fn check_refused(directory: &Path, (file, known): (&str, u8), bytes: &[u8], commands: &[&[&str]]) {
    let known = format!("this program knows {known}");
    for arguments in commands {
        let ran = run(directory, arguments);
        assert_eq!(ran.code, Some(1), "{arguments:?}: {ran:?}");
        for words in ["it has version 9 of the format", known.as_str(), "use a newer Ferroplane", file] {
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
    check_refused(copy.path(), ("data/store.db", 1), &bytes, &[up, &["backup", "another.db"]]);
    assert!(!copy.path().join("another.db").exists());
}

#[test]
fn newer_head_of_a_store_is_refused() {
    let copy = fixture::newest();
    let (head, bytes) = (copy.path().join("data/store.head"), b"FPLNHEA9 and whatever a later release notes");
    fs::write(head, bytes).unwrap();
    let store = fs::read(copy.path().join("data/store.db")).unwrap();
    let up = &["up", "--listen", "127.0.0.1:0", "--data-dir", "data"];
    check_refused(copy.path(), ("data/store.head", 1), bytes, &[up, &["backup", "another.db"]]);
    assert!(fs::read(copy.path().join("data/store.db")).unwrap() == store, "the store was changed");
    assert!(!copy.path().join("another.db").exists());
}

#[test]
fn newer_backup_is_refused() {
    let copy = fixture::newest();
    let bytes = age(&copy.path().join("backup.db"), USER_VERSION, &9u32.to_be_bytes());
    let store = fs::read(copy.path().join("data/store.db")).unwrap();
    check_refused(copy.path(), ("backup.db", 1), &bytes, &[&["restore", "backup.db", "--force"]]);
    assert!(fs::read(copy.path().join("data/store.db")).unwrap() == store, "the store was changed");
}

#[test]
fn newer_recordings_are_refused() {
    let copy = fixture::newest();
    let segment = "data/recordings/segment-000000000001";
    let bytes = age(&copy.path().join(segment), RECORDING_VERSION, &[9]);
    check_refused(copy.path(), (segment, 2), &bytes, &[&["replay", "list"], &["replay", "shop/one"]]);

    let bytes = age(&copy.path().join("one.recording"), RECORDING_VERSION, &[9]);
    let replay = &["replay", "--recordings", "one.recording"];
    check_refused(copy.path(), ("one.recording", 2), &bytes, &[replay]);
}

#[test]
fn plane_goes_without_recordings_and_response_cache_of_a_newer_release() {
    let copy = fixture::newest();
    let recordings = copy.path().join("data/recordings/segment-000000000001");
    let recorded = age(&recordings, RECORDING_VERSION, &[9]);
    let cache = "data/answers/segment-000000000001";
    fs::write(copy.path().join(cache), b"ferroplane-ans\x09\nwhatever that is").unwrap();
    let mut command = ferroplane(copy.path(), &["up", "--listen", "127.0.0.1:0", "--data-dir", "data"]);
    command.args(["--kubeconfig", "kubeconfig", "--log-format", "json"]);
    let said = said_until_ready(command, &copy.path().join("log"));
    for words in ["version 9 of the format", "this program knows 2;", "data/recordings/segment", cache] {
        assert!(said.contains(words), "{words:?} is not in {said}");
    }
    assert!(fs::read(recordings).unwrap() == recorded, "the recordings were changed");
    assert_eq!(fs::read(copy.path().join(cache)).unwrap(), b"ferroplane-ans\x09\nwhatever that is");
}

/// What a control plane says until it is ready. Then it is told to end.
fn said_until_ready(mut command: Command, log: &Path) -> String {
    let mut child = command.stderr(File::create(log).unwrap()).spawn().unwrap();
    let began = Instant::now();
    while !fs::read_to_string(log).unwrap().contains("the API server is ready") && began.elapsed() < PATIENCE
    {
        std::thread::sleep(Duration::from_millis(20));
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    child.wait().unwrap();
    fs::read_to_string(log).unwrap()
}
