//! Kills a process that writes, again and again, and reads what is left.
//!
//! Every writer counts in transactions: two counters that must always agree, a new entry in its journal, and an old entry
//! less. The parent kills the child after some acknowledgements, opens the store itself, and checks that everything
//! acknowledged is there, that at most the one transaction in flight is there as well, wholly, and that who watched before
//! can continue watching as if nothing had happened. `FERROPLANE_KILLS` says how often; `cargo xtask kill` does it for long.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use ferroplane_apiserver::store::{Entry, Expect, Options, Store, WatchError, Window};
use serde_json::Value;

use super::fixtures::{Contents, contents, delete, drain, put, replay};

const COUNTERS: &str = "example.org/counters";
const JOURNAL: &str = "example.org/journal";
const DIRECTORY: &str = "FERROPLANE_KILL_DIRECTORY";
const WRITERS: usize = 8;
/// How many journal entries each writer keeps.
const KEPT: u64 = 16;

/// A small window, so that compaction is killed as well.
fn open(directory: &Path) -> Store {
    let window = Window { events: 2000, bytes: 1 << 20, age: Duration::from_hours(1) };
    Store::open(directory, Options { window, ..Options::default() }).unwrap()
}

/// The process that is killed; nothing when it is run as a test.
#[test]
fn child() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = open(directory.as_ref());
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..WRITERS {
            writers.spawn(count(store.clone(), writer));
        }
        writers.join_all().await;
    });
}

/// Count on from where the store is, for ever.
async fn count(store: Store, writer: usize) {
    let (counters, journal) = (store.collection(COUNTERS), store.collection(JOURNAL));
    let [one, two] = ["one", "two"].map(|which| counters.key("here", &format!("{writer}-{which}")));
    let mut value = store.get(&one).map_or(0, |entry| value_of(&entry));
    loop {
        value += 1;
        let key = |value: u64| journal.key("here", &format!("{writer}-{value:08}"));
        let mut operations = vec![
            put(one.clone(), Expect::Any, value),
            put(key(value), Expect::Absent, value),
            put(two.clone(), Expect::Any, value),
        ];
        if value > KEPT {
            operations.push(delete(key(value - KEPT), Expect::Present));
        }
        let entries = store.submit(operations).await.unwrap();
        let mut out = std::io::stdout().lock();
        writeln!(out, "ack {writer} {value} {}", entries[1].revision()).unwrap();
        out.flush().unwrap();
    }
}

fn value_of(entry: &Entry) -> u64 {
    let object: Value = serde_json::from_slice(entry.bytes()).unwrap();
    object["value"].as_u64().unwrap()
}

/// What a writer was told last.
#[derive(Clone, Copy, Debug, Default)]
struct Acknowledged {
    value: u64,
    revision: u64,
}

/// Let a child write until it has acknowledged this many transactions, and kill it.
fn run_and_kill(directory: &Path, patience: usize, acknowledged: &mut BTreeMap<usize, Acknowledged>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "store::kill::child", "--nocapture"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut seen = 0;
    // What is in the pipe when the child is dead was acknowledged, too.
    for line in lines {
        let line = line.unwrap();
        let Some(rest) = line.strip_prefix("ack ") else { continue };
        let numbers: Vec<u64> = rest.split(' ').filter_map(|number| number.parse().ok()).collect();
        // The last line may have been cut off.
        let [writer, value, revision] = numbers[..] else { continue };
        let last = acknowledged.entry(usize::try_from(writer).unwrap()).or_default();
        assert!(value > last.value && revision > last.revision, "acknowledged {line} after {last:?}");
        *last = Acknowledged { value, revision };
        seen += 1;
        if seen == patience {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(seen >= patience, "the child ended by itself");
}

/// Who watched over all the kills.
#[derive(Default)]
struct Replicas {
    revision: u64,
    contents: [Contents; 2],
}

fn check(store: &Store, acknowledged: &mut BTreeMap<usize, Acknowledged>, replicas: &mut Replicas) {
    let (counters, journal) = (store.collection(COUNTERS), store.collection(JOURNAL));
    for (writer, last) in acknowledged {
        let [one, two] = ["one", "two"].map(|which| {
            store.get(&counters.key("here", &format!("{writer}-{which}"))).map(|entry| value_of(&entry))
        });
        assert_eq!(one, two, "half of a transaction of writer {writer}");
        let value = one.unwrap();
        assert!(value == last.value || value == last.value + 1, "writer {writer}: {value} after {last:?}");
        check_journal(store, *writer, value, *last);
        // What was in flight is there, and stays.
        let newest = store.get(&journal.key("here", &format!("{writer}-{value:08}"))).unwrap();
        *last = Acknowledged { value, revision: newest.revision() };
    }
    for (index, collection) in [&counters, &journal].into_iter().enumerate() {
        let now = contents(&store.snapshot(collection));
        let replica = &mut replicas.contents[index];
        match store.watch(collection, replicas.revision) {
            Ok(mut watcher) => drain(&mut watcher).unwrap().iter().for_each(|event| replay(replica, event)),
            Err(WatchError::TooOld { .. }) => replica.clone_from(&now),
            Err(error) => panic!("{error}"),
        }
        assert_eq!(*replica, now);
    }
    replicas.revision = store.revision();
}

/// The newest entries are there, each once, in order, and the one acknowledged last is at the revision that was told.
fn check_journal(store: &Store, writer: usize, value: u64, last: Acknowledged) {
    let snapshot = store.snapshot(&store.collection(JOURNAL));
    let prefix = format!("here/{writer}-");
    let entries: Vec<_> = snapshot.iter().filter(|entry| entry.key().path().starts_with(&prefix)).collect();
    let values: Vec<_> = entries.iter().map(|entry| value_of(entry)).collect();
    let expected: Vec<_> = (value.saturating_sub(KEPT) + 1..=value).collect();
    assert_eq!(values, expected, "the journal of writer {writer}");
    assert!(entries.is_sorted_by_key(|entry| entry.revision()));
    let acknowledged = entries.iter().find(|entry| value_of(entry) == last.value).unwrap();
    assert_eq!(acknowledged.revision(), last.revision);
}

#[test]
fn nothing_acknowledged_is_lost_when_the_process_is_killed() {
    let kills = std::env::var("FERROPLANE_KILLS").map_or(25, |kills| kills.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (mut acknowledged, mut replicas) = (BTreeMap::new(), Replicas::default());
    for kill in 0..kills {
        // Anything from the very first acknowledgement to some hundred.
        let patience = 1 + kill * 7919 % 311;
        run_and_kill(directory.path(), patience, &mut acknowledged);
        let store = open(directory.path());
        check(&store, &mut acknowledged, &mut replicas);
        runtime.block_on(store.close());
    }
}
