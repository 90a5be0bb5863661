//! What is kept, and what is not.

use serde_json::json;
use sha2::Digest as _;

use super::*;

fn recording(recorder: &Recorder, trouble: &str) -> RecordingBuilder {
    let composite = json!({"kind": "App", "metadata": {"name": "shop"}});
    let mut recording = recorder.begin(composite.as_object().unwrap(), 1);
    recording.trouble(trouble);
    recording
}

/// Text that does not become shorter when it is compressed.
fn noise(length: usize) -> String {
    let digest = |number: usize| ferroplane_wire::to_hex(&sha2::Sha256::digest(number.to_le_bytes()));
    (0..length / 64).map(digest).collect()
}

fn metrics(recorder: &Recorder) -> String {
    let mut page = Exposition::default();
    recorder.write_metrics(&mut page);
    page.into_text()
}

#[test]
fn what_waits_is_kept_when_it_stops() {
    let directory = tempfile::tempdir().unwrap();
    for round in 1..=3 {
        let recorder = Recorder::open(directory.path(), 1 << 20, &[]).unwrap();
        for _ in 0..100 {
            recorder.keep(recording(&recorder, "no"));
        }
        recorder.stop();
        recorder.stop();
        assert_eq!(recorder.archive().heads().unwrap().len(), 100 * round);
        assert!(metrics(&recorder).contains("ferroplane_recorder_recordings_total 100\n"));
    }
    let ids: Vec<_> =
        Archive::open(directory.path()).unwrap().heads().unwrap().iter().map(|it| it.id).collect();
    assert_eq!(ids, (1..=300).collect::<Vec<_>>());
}

#[test]
fn nobody_waits_for_a_recorder_that_is_behind() {
    let recorder = Recorder::in_memory(1 << 20, &[]).unwrap();
    let keeper = recorder.0.as_ref().unwrap().keeper.clone();
    let state = keeper.state.lock().unwrap();
    let asked = u64::try_from(WAITING + TOGETHER + 10).unwrap();
    for _ in 0..2 * asked {
        recorder.keep(recording(&recorder, "no"));
    }
    drop(state);
    recorder.stop();
    let counts = &keeper.counts;
    let (kept, dropped) = (counts.kept.load(Ordering::Relaxed), counts.crowded_out.load(Ordering::Relaxed));
    assert_eq!(kept + dropped, 2 * asked);
    assert!(dropped > 0 && kept >= WAITING as u64, "{kept} kept, {dropped} dropped");
    assert_eq!(counts.waiting.load(Ordering::Relaxed), 0);
}

#[test]
fn what_is_too_large_is_counted_and_hurts_nobody_else() {
    let recorder = Recorder::in_memory(1 << 20, &[]).unwrap();
    recorder.keep(recording(&recorder, "no"));
    recorder.keep(recording(&recorder, &noise(200 << 10)));
    recorder.keep(recording(&recorder, "no"));
    recorder.stop();
    assert!(metrics(&recorder).contains("dropped_total{reason=\"failed\"} 1\n"), "{}", metrics(&recorder));
    assert_eq!(recorder.archive().heads().unwrap().len(), 2);
}

#[test]
fn one_that_is_off_costs_and_says_nothing() {
    let recorder = Recorder::off();
    recorder.keep(recording(&recorder, "no"));
    assert_eq!(metrics(&recorder), "");
    assert!(recorder.archive().heads().unwrap().is_empty());
}

#[test]
fn placeholders_stay_the_same_over_restarts() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    let key = read_key(&path).unwrap();
    assert_eq!(read_key(&path).unwrap(), key);
    std::fs::write(&path, "garbage").unwrap();
    assert_ne!(read_key(&path).unwrap(), key);
}

#[test]
fn second_process_keeps_recordings_in_memory_until_the_first_ends() {
    let directory = tempfile::tempdir().unwrap();
    let first = Recorder::open(directory.path(), 1 << 20, &[]).unwrap();
    let second = Recorder::open(directory.path(), 1 << 20, &[]).unwrap();
    let keep = |recorder: &Recorder| {
        recorder.0.as_ref().unwrap().keeper.keep(vec![*recording(recorder, "no").into_noted().unwrap()]);
    };
    keep(&first);
    keep(&second);
    let heads = || Archive::open(directory.path()).unwrap().heads().unwrap();
    assert_eq!((heads().len(), second.archive().heads().unwrap().len()), (1, 1));
    drop(first);
    keep(&second);
    assert_eq!(heads().iter().map(|head| head.id).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn recordings_of_a_later_release_are_refused_and_not_touched() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("segment-000000000001");
    std::fs::write(&path, b"ferroplane-rec\x03\nwhatever that is").unwrap();
    // Not even if there is no room for them.
    let error = Recorder::open(directory.path(), 8, &[]).unwrap_err();
    assert!(error.is_of_later_version(), "{error:?}");
    assert!(Archive::open(directory.path()).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"ferroplane-rec\x03\nwhatever that is");
}

#[test]
fn recordings_of_version_1_are_read_beside_newer_ones() {
    let directory = tempfile::tempdir().unwrap();
    let keep = || {
        let recorder = Recorder::open(directory.path(), 1 << 20, &[]).unwrap();
        recorder.keep(recording(&recorder, "no"));
        recorder.stop();
    };
    keep();
    let path = directory.path().join("segment-000000000001");
    let mut bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes[..16], *b"ferroplane-rec\x02\n");
    bytes[14] = 1;
    std::fs::write(&path, &bytes).unwrap();
    keep();
    let ids = |archive: &Archive| archive.heads().unwrap().iter().map(|head| head.id).collect::<Vec<_>>();
    let archive = Archive::open(directory.path()).unwrap();
    assert_eq!(ids(&archive), [1, 2]);
    let exported = directory.path().join("exported");
    std::fs::write(&exported, archive.export_all().unwrap()).unwrap();
    assert_eq!(ids(&Archive::open(&exported).unwrap()), [1, 2]);
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "what an earlier release wrote was changed");
}
