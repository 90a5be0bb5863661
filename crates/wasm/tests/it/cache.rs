//! Compiled code on disk is used again, and only if we wrote it.

use std::fs::{self, FileTimes, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ferroplane_wasm::{Error, Options, Runtime};

use crate::code::{command, echo, echo_component};
use crate::{block_on, call, options, wat};

fn runtime(cache: &Path) -> Result<Runtime, Error> {
    Runtime::new(Options { workers: 1, cache: Some(cache.to_owned()), ..options() })
}

fn echoes(cache: &Path) {
    let runtime = runtime(cache).unwrap();
    for code in [echo(), echo_component()] {
        let program = runtime.compile(&wat(&code)).unwrap();
        assert_eq!(block_on(program.call(call(b"hello"))).unwrap(), b"hello");
    }
}

fn files(cache: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let paths = fs::read_dir(cache).unwrap().map(|entry| entry.unwrap().path());
    let mut files = paths
        .filter(|path| !path.ends_with("key"))
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect::<Vec<_>>();
    files.sort();
    files
}

#[test]
fn code_is_kept_and_read_back() {
    let directory = tempfile::tempdir().unwrap();
    let cache = directory.path().join("cache");

    echoes(&cache);
    let (first, written) = (files(&cache), modified(&cache));
    echoes(&cache);

    assert_eq!(first.len(), 2);
    assert_eq!(files(&cache), first);
    assert_eq!(modified(&cache), written, "nothing was compiled again");
    assert_eq!(fs::metadata(&cache).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(cache.join("key")).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn code_that_was_kept_is_found_without_compiling_it() {
    let directory = tempfile::tempdir().unwrap();
    let cache = directory.path().join("cache");
    for code in [wat(&echo()), wat(&echo_component())] {
        let first = runtime(&cache).unwrap();
        assert!(first.find(&code).unwrap().is_none(), "it was never compiled");
        first.compile(&code).unwrap();

        let program = runtime(&cache).unwrap().find(&code).unwrap().expect("it was kept");
        assert_eq!(block_on(program.call(call(b"hello"))).unwrap(), b"hello");
    }
}

fn modified(cache: &Path) -> Vec<SystemTime> {
    files(cache).iter().map(|(path, _)| fs::metadata(path).unwrap().modified().unwrap()).collect()
}

#[test]
fn damaged_and_foreign_files_are_compiled_again() {
    let directory = tempfile::tempdir().unwrap();
    let (ours, theirs) = (directory.path().join("ours"), directory.path().join("theirs"));
    echoes(&ours);
    echoes(&theirs);
    let good = files(&ours);

    for damage in [|_: &[u8]| Vec::new(), |bytes: &[u8]| bytes[..100].to_vec(), |bytes: &[u8]| flipped(bytes)]
    {
        for (path, bytes) in &good {
            fs::write(path, damage(bytes)).unwrap();
        }
        echoes(&ours);
    }
    // What another key sealed, and what was sealed for other code.
    for ((path, _), (_, foreign)) in good.iter().zip(files(&theirs)) {
        fs::write(path, foreign).unwrap();
    }
    echoes(&ours);
    let [(first, one), (second, other)] = &files(&ours)[..] else { panic!("two programs were kept") };
    fs::write(first, other).unwrap();
    fs::write(second, one).unwrap();
    echoes(&ours);
}

fn flipped(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    bytes
}

#[test]
fn directory_that_others_can_use_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    for mode in [0o755, 0o770, 0o777, 0o701] {
        let cache = directory.path().join(format!("{mode:o}"));
        fs::create_dir(&cache).unwrap();
        fs::set_permissions(&cache, Permissions::from_mode(mode)).unwrap();

        assert!(matches!(runtime(&cache).unwrap_err(), Error::Cache { .. }), "{mode:o}");
    }
}

#[test]
fn key_that_others_can_read_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let cache = directory.path().join("cache");
    echoes(&cache);
    fs::set_permissions(cache.join("key"), Permissions::from_mode(0o644)).unwrap();

    assert!(matches!(runtime(&cache).unwrap_err(), Error::Cache { .. }));
}

/// As a process leaves it that is killed, or whose disk is full, while it writes the key.
#[test]
fn key_that_was_not_written_to_its_end_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let cache = directory.path().join("cache");
    echoes(&cache);
    for length in [0, 1, 31] {
        fs::OpenOptions::new().write(true).open(cache.join("key")).unwrap().set_len(length).unwrap();

        echoes(&cache);
        let (written, key) = (modified(&cache), fs::read(cache.join("key")).unwrap());
        echoes(&cache);

        assert_eq!(key.len(), 32);
        assert_eq!(fs::read(cache.join("key")).unwrap(), key, "it stays");
        assert_eq!(modified(&cache), written, "nothing was compiled again");
        assert_eq!(files(&cache).len(), 2, "nothing is left beside it");
    }
}

#[test]
fn processes_that_start_at_once_get_the_same_key() {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..10 {
        let cache = directory.path().join(round.to_string());
        std::thread::scope(|scope| {
            let started: Vec<_> = (0..4).map(|_| scope.spawn(|| runtime(&cache).map(drop))).collect();
            for start in started {
                start.join().unwrap().unwrap();
            }
        });
        assert_eq!(fs::read(cache.join("key")).unwrap().len(), 32);
        assert!(files(&cache).is_empty(), "nothing is left beside it");
    }
}

#[test]
fn files_that_were_not_used_for_longest_are_deleted_beyond_the_limit() {
    let directory = tempfile::tempdir().unwrap();
    let cache = directory.path().join("cache");
    echoes(&cache);
    let used: Vec<_> = files(&cache).into_iter().map(|(path, _)| path).collect();
    let unused = cache.join("unused.native");
    // It takes no room on the disk.
    fs::File::create_new(&unused).unwrap().set_len(1 << 30).unwrap();
    // Written first, and used last.
    for path in &used {
        set_age(path, 2);
    }
    set_age(&unused, 1);
    echoes(&cache);

    runtime(&cache).unwrap().compile(&wat(&command(&[], r#"(func (export "_start"))"#))).unwrap();

    assert!(!unused.exists());
    assert!(used.iter().all(|path| path.exists()), "they were used since");
}

fn set_age(path: &Path, days: u64) {
    let time = SystemTime::now() - Duration::from_secs(days * 24 * 60 * 60);
    let times = FileTimes::new().set_accessed(time).set_modified(time);
    fs::OpenOptions::new().write(true).open(path).unwrap().set_times(times).unwrap();
}

#[test]
fn link_and_file_are_no_cache() {
    let directory = tempfile::tempdir().unwrap();
    let (real, link, file) =
        (directory.path().join("real"), directory.path().join("link"), directory.path().join("file"));
    echoes(&real);
    symlink(&real, &link).unwrap();
    fs::write(&file, "").unwrap();

    for path in [link, file] {
        assert!(matches!(runtime(&path).unwrap_err(), Error::Cache { .. }), "{}", path.display());
    }
}
