//! What was granted can be seen, and nothing beside it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ferroplane_wasm::{Call, Directory, Error, Grants, Stillness};

use crate::code::command;
use crate::{answer, answer_to, call};

fn granted(grants: Grants, text: &str) -> Result<Vec<u8>, Error> {
    answer_to(text, Call { grants: Arc::new(grants), ..call(b"") })
}

fn directory(path: &Path, is_writable: bool) -> Grants {
    let directory = Directory { path: path.to_owned(), name: "/data".to_owned(), is_writable };
    Grants { directories: vec![directory], ..Grants::default() }
}

/// Opens a path of the granted directory, for reading or for creating, and answers with the error number, or with what is in it.
fn open(path: &str, is_created: bool) -> String {
    let (len, create, rights) = (path.len(), i32::from(is_created), if is_created { 66 } else { 2 });
    let body = format!(
        r#"(data (i32.const 100) "{path}")
        (func (export "_start") (local $error i32)
            (local.set $error (call $path_open (i32.const 3) (i32.const 1) (i32.const 100) (i32.const {len})
                (i32.const {create}) (i64.const {rights}) (i64.const 0) (i32.const 0) (i32.const 300)))
            (if (local.get $error) (then (call $errno (local.get $error)) (return)))
            (i32.store (i32.const 32) (i32.const 400))
            (i32.store (i32.const 36) (i32.const 100))
            (drop (call $fd_read (i32.load (i32.const 300)) (i32.const 32) (i32.const 1) (i32.const 40)))
            (drop (call $say (i32.const 1) (i32.const 400) (i32.load (i32.const 40)))))"#
    );
    command(&["path_open"], &body)
}

/// A directory with a file, and a secret beside it.
fn world() -> tempfile::TempDir {
    let world = tempfile::tempdir().unwrap();
    fs::create_dir(world.path().join("data")).unwrap();
    fs::write(world.path().join("data/file"), "granted").unwrap();
    fs::write(world.path().join("secret"), "secret").unwrap();
    symlink("../secret", world.path().join("data/relative")).unwrap();
    symlink(world.path().join("secret"), world.path().join("data/absolute")).unwrap();
    symlink("..", world.path().join("data/up")).unwrap();
    symlink("file", world.path().join("data/inside")).unwrap();
    world
}

#[test]
fn file_of_a_granted_directory_can_be_read() {
    let world = world();
    let grants = directory(&world.path().join("data"), false);

    assert_eq!(granted(grants.clone(), &open("file", false)).unwrap(), b"granted");
    assert_eq!(granted(grants, &open("./inside", false)).unwrap(), b"granted");
}

#[test]
fn no_path_leads_out_of_a_granted_directory() {
    let world = world();
    let secret = world.path().join("secret").display().to_string();
    for is_writable in [false, true] {
        for path in [
            "../secret",
            "./../secret",
            "x/../../secret",
            "relative",
            "absolute",
            "up/secret",
            "/etc/passwd",
            &secret,
        ] {
            let answer =
                granted(directory(&world.path().join("data"), is_writable), &open(path, false)).unwrap();
            let errno = String::from_utf8(answer).unwrap();
            assert!(errno.len() == 2 && errno != "00", "{path}: {errno}");
        }
    }
}

#[test]
fn directory_that_was_granted_for_reading_cannot_be_changed() {
    let world = world();
    let data = world.path().join("data");
    let unlink = r#"(data (i32.const 100) "file")
        (func (export "_start") (call $errno (call $path_unlink_file (i32.const 3) (i32.const 100) (i32.const 4))))"#;
    let rename = r#"(data (i32.const 100) "fileaway")
        (func (export "_start") (call $errno (call $path_rename (i32.const 3) (i32.const 100) (i32.const 4)
            (i32.const 3) (i32.const 104) (i32.const 4))))"#;
    let make = r#"(data (i32.const 100) "made")
        (func (export "_start") (call $errno (call $path_create_directory (i32.const 3) (i32.const 100) (i32.const 4))))"#;

    for code in [
        open("new", true),
        command(&["path_unlink_file"], unlink),
        command(&["path_rename"], rename),
        command(&["path_create_directory"], make),
    ] {
        assert_ne!(granted(directory(&data, false), &code).unwrap(), b"00");
    }
    assert_eq!(fs::read(data.join("file")).unwrap(), b"granted");
    assert!(!data.join("new").exists() && !data.join("made").exists());
    // The same code can change one that was granted for writing.
    assert_eq!(granted(directory(&data, true), &command(&["path_create_directory"], make)).unwrap(), b"00");
    assert!(data.join("made").is_dir());
}

#[test]
fn link_that_the_code_makes_itself_leads_nowhere() {
    let world = world();
    let body = r#"(data (i32.const 100) "../secretlinkd")
        (func (export "_start") (local $error i32)
            (drop (call $path_symlink (i32.const 100) (i32.const 9) (i32.const 3) (i32.const 109) (i32.const 5)))
            (call $errno (call $path_open (i32.const 3) (i32.const 1) (i32.const 109) (i32.const 5)
                (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 300))))"#;

    let answer =
        granted(directory(&world.path().join("data"), true), &command(&["path_symlink", "path_open"], body));

    assert_ne!(answer.unwrap(), b"00");
}

#[test]
fn directory_that_is_not_there_is_named() {
    let error = granted(directory(Path::new("/nonexistent/data"), false), &open("file", false)).unwrap_err();

    assert_eq!(error.to_string(), "cannot grant directory /nonexistent/data");
}

#[test]
fn granted_variables_are_the_whole_environment() {
    let body = r#"(func (export "_start")
        (drop (call $environ_sizes_get (i32.const 200) (i32.const 204)))
        (drop (call $environ_get (i32.const 300) (i32.const 400)))
        (drop (call $say (i32.const 1) (i32.const 400) (i32.load (i32.const 204)))))"#;
    let env = [("REGION", "eu"), ("TIER", "small")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let grants = Grants { env: env.into(), ..Grants::default() };

    let seen = granted(grants, &command(&["environ_sizes_get", "environ_get"], body)).unwrap();

    assert_eq!(seen, b"REGION=eu\0TIER=small\0");
}

/// Answers with the eight bytes of a clock.
fn clock(id: u32) -> String {
    let body = format!(
        r#"(func (export "_start")
            (drop (call $clock_time_get (i32.const {id}) (i64.const 1) (i32.const 200)))
            (drop (call $clock_time_get (i32.const {id}) (i64.const 1) (i32.const 208)))
            (drop (call $say (i32.const 1) (i32.const 200) (i32.const 16))))"#
    );
    command(&["clock_time_get"], &body)
}

fn numbers(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks(8).map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap())).collect()
}

#[test]
fn clock_that_was_not_granted_stands() {
    let stillness = Stillness { now: Duration::from_secs(1_700_000_000), seed: 0 };
    let seen = answer_to(&clock(0), Call { stillness, ..call(b"") }).unwrap();

    assert_eq!(numbers(&seen), [1_700_000_000_000_000_000; 2]);
    assert_eq!(numbers(&answer(&clock(1), b"").unwrap()), [0, 1_000_000]);
}

#[test]
fn granted_clock_is_that_of_the_machine() {
    let seen = granted(Grants { clock: true, ..Grants::default() }, &clock(0)).unwrap();

    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert!(now.saturating_sub(Duration::from_nanos(numbers(&seen)[0])) < Duration::from_mins(1));
}

/// Answers with sixteen random bytes.
fn random() -> String {
    let body = r#"(func (export "_start")
        (drop (call $random_get (i32.const 200) (i32.const 16)))
        (drop (call $say (i32.const 1) (i32.const 200) (i32.const 16))))"#;
    command(&["random_get"], body)
}

#[test]
fn randomness_that_was_not_granted_follows_from_the_seed() {
    let seeded = |seed| {
        let stillness = Stillness { seed, ..Stillness::default() };
        answer_to(&random(), Call { stillness, ..call(b"") }).unwrap()
    };

    assert_eq!(seeded(1), seeded(1));
    assert_ne!(seeded(1), seeded(2));
}

#[test]
fn granted_randomness_differs_from_call_to_call() {
    let grants = Grants { randomness: true, ..Grants::default() };

    assert_ne!(granted(grants.clone(), &random()).unwrap(), granted(grants, &random()).unwrap());
}
