//! Several processes with one store, some of which are killed.
//!
//! A test starts this program again, told by a variable what to do.

use std::env;
use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use ferroplane_image::store::{Limits, Store};
use ferroplane_image::{Descriptor, Hasher};

use super::LAYER;

const DIRECTORY: &str = "FERROPLANE_TEST_STORE";
const LIMITS: Limits = Limits { max_bytes: 2 << 20, max_blob_bytes: 1 << 20 };
/// Written again and again, by everybody.
const BLOBS: u8 = 40;
const BLOB_BYTES: usize = 100_000;

fn content(number: u8) -> Vec<u8> {
    vec![number; BLOB_BYTES]
}

fn start(directory: &std::path::Path) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "store::processes::child_writes_and_reads", "--nocapture"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Does nothing unless another test starts it.
#[test]
fn child_writes_and_reads() {
    let Some(directory) = env::var_os(DIRECTORY) else { return };
    let store = Store::open(directory, LIMITS).unwrap();
    for round in 0..3 {
        for step in 0..BLOBS {
            let number = (step.wrapping_mul(7).wrapping_add(round)) % BLOBS;
            let descriptor = Descriptor::of(LAYER, &content(number));
            match store.read_to_vec(&descriptor.digest, LIMITS.max_bytes) {
                Ok(found) => assert_eq!(found, content(number)),
                Err(error) => {
                    assert!(error.is_absent(), "{error}");
                    let mut writer = store.resume(&descriptor).unwrap();
                    let start = usize::try_from(writer.written()).unwrap();
                    for piece in content(number)[start..].chunks(9999) {
                        writer.write_all(piece).unwrap();
                    }
                    writer.commit().unwrap();
                }
            }
        }
    }
}

#[test]
fn processes_that_share_a_store_see_only_whole_content_within_the_limit() {
    let directory = tempfile::tempdir().unwrap();
    let children: Vec<Child> = (0..3).map(|_| start(directory.path())).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    check(directory.path());
}

#[test]
fn store_is_sound_after_processes_were_killed() {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..8 {
        let mut child = start(directory.path());
        // Not long enough to finish; where it is caught is up to the machine.
        thread::sleep(Duration::from_millis(15 + 10 * round));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let mut last = start(directory.path());
    assert!(last.wait().unwrap().success());
    check(directory.path());
}

fn check(directory: &std::path::Path) {
    let store = Store::open(directory, LIMITS).unwrap();
    let usage = store.usage().unwrap();
    assert!(usage.blobs > 0 && usage.bytes <= LIMITS.max_bytes, "{usage:?}");
    for number in 0..BLOBS {
        let digest = Hasher::digest(&content(number));
        if store.contains(&digest) {
            store.read(&digest).unwrap();
        }
    }
    assert_eq!(store.collect(0).unwrap().bytes, 0, "nothing that was abandoned stays");
    assert_eq!(std::fs::read_dir(directory.join("pins")).unwrap().count(), 0);
}
