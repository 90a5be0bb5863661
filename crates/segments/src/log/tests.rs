//! What is kept, what is dropped, and who may write.

use super::*;
use crate::frame;

const FORMAT: FileFormat = FileFormat::new(*b"ferroplane-tst", 1);
const SMALL: Limits = Limits { bytes: 4000, segments: 8 };

fn open(directory: &Path) -> SegmentLog {
    SegmentLog::open(directory, FORMAT, SMALL).unwrap()
}

fn numbered(number: u8) -> Vec<u8> {
    frame(|content| content.extend([number; 100]))
}

/// The first bytes of the frames that are left.
fn left(log: &SegmentLog) -> Vec<u8> {
    log.segments()
        .flat_map(|(_, bytes)| FORMAT.frames(&bytes).map(|frame| frame.content[0]).collect::<Vec<_>>())
        .collect()
}

fn size_of(directory: &Path) -> u64 {
    segment_files(directory, FORMAT).unwrap().iter().map(|(_, path)| path.metadata().unwrap().len()).sum()
}

#[test]
fn there_is_a_bound_and_the_newest_stay() {
    let directory = tempfile::tempdir().unwrap();
    let mut log = open(directory.path());
    let mut memory = SegmentLog::in_memory(FORMAT, SMALL);
    for number in 1..200 {
        log.append(&numbered(number)).unwrap();
        memory.append(&numbered(number)).unwrap();
        assert!(size_of(directory.path()) <= 4000 && log.len() <= 4000 && memory.len() <= 4000);
    }
    assert_eq!(left(&log).last(), Some(&199));
    assert_eq!(left(&memory), left(&log));
    assert!(size_of(directory.path()) > 3000);
    assert!(log.append(&vec![0; 501]).is_err());
    log.append(&numbered(200)).unwrap();
    assert_eq!(left(&log).last(), Some(&200));
}

#[test]
fn frame_is_read_by_its_position_until_its_segment_is_dropped() {
    let directory = tempfile::tempdir().unwrap();
    for mut log in [open(directory.path()), SegmentLog::in_memory(FORMAT, SMALL)] {
        let positions: Vec<_> =
            (1..100).map(|number| (number, log.append(&numbered(number)).unwrap())).collect();
        for (number, position) in positions {
            let is_there = position.segment >= log.first_segment();
            assert_eq!(log.read(position), is_there.then(|| vec![number; 100]), "{number}");
        }
    }
}

#[test]
fn restarts_do_not_cost_what_was_kept() {
    let directory = tempfile::tempdir().unwrap();
    let large = Limits { bytes: 1 << 20, segments: 8 };
    for number in 1..=20 {
        let mut log = SegmentLog::open(directory.path(), FORMAT, large).unwrap();
        assert_eq!(left(&log).len(), usize::from(number) - 1);
        log.append(&numbered(number)).unwrap();
    }
    assert_eq!(segment_files(directory.path(), FORMAT).unwrap().len(), 20);
    // Whoever has less room from now on keeps less.
    let log = SegmentLog::open(directory.path(), FORMAT, Limits { bytes: 1000, segments: 8 }).unwrap();
    assert!(size_of(directory.path()) <= 1000);
    assert_eq!(left(&log).last(), Some(&20));
}

#[test]
fn nobody_else_can_read_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("log");
    open(&directory).append(&numbered(1)).unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory), 0o700);
    for entry in directory.read_dir().unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
}

#[test]
fn whatever_lies_there_does_no_harm() {
    let directory = tempfile::tempdir().unwrap();
    for (name, content) in [("segment-000000000001", &b"garbage"[..]), ("segment-x", b""), ("other", b"")] {
        std::fs::write(directory.path().join(name), content).unwrap();
    }
    let mut log = open(directory.path());
    assert!(left(&log).is_empty());
    log.append(&numbered(1)).unwrap();
    drop(log);
    assert_eq!(left(&open(directory.path())), [1]);
}

#[test]
fn segment_that_could_not_be_begun_does_not_block_the_next_one() {
    let directory = tempfile::tempdir().unwrap();
    let mut log = open(directory.path());
    // As if beginning the segment had failed after its file was made.
    std::fs::write(directory.path().join("segment-000000000001"), b"").unwrap();
    assert!(log.append(&numbered(1)).is_err());
    log.append(&numbered(2)).unwrap();
    assert_eq!(left(&log), [2]);
}

#[test]
fn second_process_is_told_who_has_it_until_the_first_ends() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path());
    let error = SegmentLog::open(directory.path(), FORMAT, SMALL).unwrap_err();
    let us = std::process::id();
    assert_eq!(
        error.to_string(),
        format!("cannot use `{}`: process {us} uses it", directory.path().display())
    );
    drop(log);
    open(directory.path());
}

#[test]
fn later_version_is_refused_and_not_touched() {
    let directory = tempfile::tempdir().unwrap();
    open(directory.path()).append(&numbered(1)).unwrap();
    let path = directory.path().join("segment-000000000002");
    let later = [&FileFormat::new(*b"ferroplane-tst", 2).header()[..], b"whatever that is"].concat();
    std::fs::write(&path, &later).unwrap();
    // Not even if there is no room for it.
    for bytes in [1 << 20, 0] {
        let error = SegmentLog::open(directory.path(), FORMAT, Limits { bytes, segments: 8 }).unwrap_err();
        let OpenError::LaterVersion { path: named, source } = error else { panic!("{error:?}") };
        assert_eq!((named, source), (path.clone(), LaterVersion { version: 2, known: 1 }));
        assert_eq!(std::fs::read(&path).unwrap(), later);
    }
}
