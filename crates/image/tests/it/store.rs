//! The content store: what it refuses, what it keeps, and what a crash or a second process leaves.

mod processes;

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use ferroplane_image::store::{Error, Limits, Store};
use ferroplane_image::{Algorithm, Descriptor, Digest, Hasher};
use tempfile::TempDir;

const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

fn limited(max_bytes: u64) -> (TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path().join("store"), Limits { max_bytes, max_blob_bytes: max_bytes });
    (directory, store.unwrap())
}

fn path(store: &Store, digest: &Digest) -> PathBuf {
    store.directory().join("blobs").join(digest.algorithm().name()).join(digest.hex())
}

/// Let content be used so many minutes ago.
fn age(store: &Store, digest: &Digest, minutes: u64) {
    let file = fs::File::open(path(store, digest)).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(60 * minutes)).unwrap();
}

fn partial_files(store: &Store) -> usize {
    fs::read_dir(store.directory().join("partial")).unwrap().count()
}

#[test]
fn content_is_read_as_it_was_written() {
    let (_directory, store) = limited(1000);
    let digest = store.write(b"content").unwrap();
    assert_eq!(digest, Hasher::digest(b"content"));
    let mut content = String::new();
    store.read(&digest).unwrap().read_to_string(&mut content).unwrap();
    assert_eq!(content, "content");
    assert_eq!(partial_files(&store), 0);
}

#[test]
fn store_is_private() {
    let (_directory, store) = limited(1000);
    let digest = store.write(b"content").unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o077;
    assert_eq!(mode(store.directory()), 0);
    assert_eq!(mode(&path(&store, &digest)), 0);
}

#[test]
fn content_with_another_digest_or_size_is_refused() {
    let (_directory, store) = limited(1000);
    let expected = Descriptor::of(LAYER, b"expected");
    let mut writer = store.resume(&expected).unwrap();
    writer.write_all(b"tampered").unwrap();
    assert!(matches!(writer.commit(), Err(Error::Mismatch { .. })));
    let mut writer = store.resume(&expected).unwrap();
    assert_eq!(writer.written(), 0, "content with the wrong digest is not resumed");
    writer.write_all(b"expect").unwrap();
    assert!(matches!(writer.commit(), Err(Error::Size { expected: 8, actual: 6, .. })));
    let mut writer = store.resume(&expected).unwrap();
    assert!(writer.write_all(b"expected and more").is_err());
    assert!(!store.contains(&expected.digest));
}

#[test]
fn digests_of_both_algorithms_are_verified() {
    let (_directory, store) = limited(1000);
    let digest = Hasher::digest_by(Algorithm::Sha512, b"content");
    let mut writer = store.resume(&Descriptor::new(LAYER, digest.clone(), 7)).unwrap();
    writer.write_all(b"content").unwrap();
    assert_eq!(writer.commit().unwrap(), digest);
    assert_eq!(store.read_to_vec(&digest, 10).unwrap(), b"content");
}

#[test]
fn damaged_content_is_detected_and_removed() {
    let (_directory, store) = limited(1000);
    for damage in [&b"Content"[..], b"conten", b"", b"content "] {
        let digest = store.write(b"content").unwrap();
        fs::write(path(&store, &digest), damage).unwrap();
        assert!(matches!(store.read(&digest), Err(Error::Corrupt { .. })), "{damage:?}");
        assert!(matches!(store.read(&digest), Err(Error::Missing { .. })), "{damage:?}");
    }
}

#[test]
fn document_that_is_too_large_is_not_read() {
    let (_directory, store) = limited(1000);
    let digest = store.write(&[0; 100]).unwrap();
    assert!(matches!(store.read_to_vec(&digest, 99), Err(Error::TooLarge { size: 100, limit: 99 })));
}

#[test]
fn interrupted_content_goes_on_where_it_stopped() {
    let (_directory, store) = limited(1000);
    let descriptor = Descriptor::of(LAYER, b"first and second");
    let mut writer = store.resume(&descriptor).unwrap();
    writer.write_all(b"first and ").unwrap();
    drop(writer);
    let mut writer = store.resume(&descriptor).unwrap();
    assert_eq!(writer.written(), 10);
    writer.write_all(b"second").unwrap();
    assert_eq!(writer.commit().unwrap(), descriptor.digest);
    assert_eq!(partial_files(&store), 0);
}

#[test]
fn two_writers_of_the_same_content_do_not_meet() {
    let (_directory, store) = limited(1000);
    let descriptor = Descriptor::of(LAYER, b"content");
    let mut first = store.resume(&descriptor).unwrap();
    let mut second = store.resume(&descriptor).unwrap();
    first.write_all(b"cont").unwrap();
    second.write_all(b"content").unwrap();
    second.commit().unwrap();
    first.write_all(b"ent").unwrap();
    first.commit().unwrap();
    assert_eq!(store.read_to_vec(&descriptor.digest, 10).unwrap(), b"content");
    assert_eq!((store.usage().unwrap().blobs, partial_files(&store)), (1, 0));
}

#[test]
fn least_recently_used_content_goes_first() {
    let (_directory, store) = limited(300);
    let blobs: Vec<Digest> = (0..3).map(|byte| store.write(&[byte; 100]).unwrap()).collect();
    for (digest, minutes) in blobs.iter().zip([30, 20, 10]) {
        age(&store, digest, minutes);
    }
    store.read(&blobs[0]).unwrap();
    store.write(&[9; 100]).unwrap();
    let left: Vec<bool> = blobs.iter().map(|digest| store.contains(digest)).collect();
    assert_eq!(left, [true, false, true]);
    assert_eq!(store.usage().unwrap().bytes, 300);
}

#[test]
fn pinned_content_and_roots_stay() {
    let (_directory, store) = limited(200);
    let (pinned, root) = (store.write(&[1; 100]).unwrap(), store.write(&[2; 100]).unwrap());
    let mut pin = store.pin().unwrap();
    pin.add(&pinned).unwrap();
    store.keep("../package", std::slice::from_ref(&root)).unwrap();
    assert!(matches!(store.write(&[3; 100]), Err(Error::Full { needed: 100, used: 200, limit: 200 })));
    assert!(store.contains(&pinned) && store.contains(&root));
    store.release("../package").unwrap();
    store.write(&[3; 100]).unwrap();
    assert!(store.contains(&pinned) && !store.contains(&root));
    drop(pin);
    assert_eq!(store.collect(0).unwrap().bytes, 0);
}

#[test]
fn room_for_what_is_being_written_is_taken() {
    let (_directory, store) = limited(100);
    let writer = store.resume(&Descriptor::of(LAYER, &[0; 60])).unwrap();
    assert!(matches!(store.writer(60), Err(Error::Full { .. })));
    drop(writer);
    // Nobody writes it any more: it makes room.
    store.writer(60).unwrap();
}

#[test]
fn content_over_the_limit_of_a_blob_is_refused_before_it_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path(), Limits { max_bytes: 1000, max_blob_bytes: 10 }).unwrap();
    assert!(matches!(store.resume(&Descriptor::of(LAYER, &[0; 11])), Err(Error::TooLarge { .. })));
    assert!(store.writer(11).unwrap().write_all(&[0; 11]).is_err());
    assert_eq!(partial_files(&store), 0);
}

#[test]
fn reference_leads_to_what_it_led_to_while_that_is_there() {
    let (_directory, store) = limited(1000);
    let reference = "registry.example.org/name:v1".parse().unwrap();
    assert_eq!(store.recall(&reference).unwrap(), None);
    let descriptor = Descriptor::of(LAYER, b"content");
    store.record(&reference, &descriptor).unwrap();
    assert_eq!(store.recall(&reference).unwrap(), None, "its content is not there yet");
    store.write(b"content").unwrap();
    assert_eq!(store.recall(&reference).unwrap(), Some(descriptor));
    store.collect(0).unwrap();
    assert_eq!(store.recall(&reference).unwrap(), None);
    assert_eq!(fs::read_dir(store.directory().join("references")).unwrap().count(), 0);
}

#[test]
fn store_of_a_later_release_is_refused() {
    let (_directory, store) = limited(1000);
    fs::write(store.directory().join("version"), "2\n").unwrap();
    let error = Store::open(store.directory(), Limits::default()).unwrap_err();
    assert!(matches!(error, Error::Version { .. }), "{error}");
}
