//! What is there after the store was closed and opened again, and what is no longer there.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ferroplane_apiserver::store::{
    EventKind, Expect, Health, Options, Store, SubmitError, WatchError, Window,
};
use rusqlite::Connection;

use super::disk::{Disk, Fault};
use super::fixtures::{THINGS, contents, drain, open, put, set, things, unset};

/// A store that remembers nothing of the past.
pub(crate) fn forgetful(directory: &Path) -> Store {
    Store::open(directory, no_past()).unwrap()
}

fn no_past() -> Options {
    let window = Window { events: 0, bytes: 0, age: Duration::ZERO };
    Options { window, ..Options::default() }
}

/// Wait until the log has no more than this many rows.
pub(crate) async fn until_only_remain(directory: &Path, rows: u64) {
    let database = Connection::open(directory.join("store.db")).unwrap();
    loop {
        let found: u64 = database.query_row("SELECT count(*) FROM log", [], |row| row.get(0)).unwrap();
        if found <= rows {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn everything_is_there_after_a_restart_and_watches_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    set(&store, "one", 1).await;
    set(&store, "two", 2).await;
    let seen = store.revision();
    set(&store, "one", 3).await;
    unset(&store, "two").await;
    let before = contents(&store.snapshot(&things(&store)));
    store.close().await;

    let store = open(directory.path());
    assert_eq!(contents(&store.snapshot(&things(&store))), before);
    assert_eq!(store.revision(), 4);
    let mut watcher = store.watch(&things(&store), seen).unwrap();
    let events = drain(&mut watcher).unwrap();
    let kinds: Vec<_> = events.iter().map(|event| (event.revision(), event.kind())).collect();
    assert_eq!(kinds, [(3, EventKind::Modified), (4, EventKind::Deleted)]);
    assert_eq!(set(&store, "three", 1).await.revision(), 5);
    assert_eq!(store.watch(&things(&store), 6).unwrap_err(), WatchError::TooNew { revision: 6, current: 5 });
    store.close().await;
}

#[tokio::test]
async fn superseded_rows_are_forgotten_in_idle_moments_and_current_ones_never() {
    let directory = tempfile::tempdir().unwrap();
    let store = forgetful(directory.path());
    for value in 0..50 {
        set(&store, "one", value).await;
        set(&store, "two", value).await;
    }
    unset(&store, "two").await;
    let before = contents(&store.snapshot(&things(&store)));
    until_only_remain(directory.path(), 1).await;
    store.close().await;

    let store = open(directory.path());
    assert_eq!(contents(&store.snapshot(&things(&store))), before);
    let floor = store.revision();
    let too_old = WatchError::TooOld { revision: floor - 1, floor };
    assert_eq!(store.watch(&things(&store), floor - 1).unwrap_err(), too_old);
    assert_eq!(store.snapshot_at(&things(&store), floor - 1).unwrap_err(), too_old);
    store.watch(&things(&store), floor).unwrap();
    store.close().await;
}

#[tokio::test]
async fn write_ahead_log_does_not_grow_without_end() {
    let directory = tempfile::tempdir().unwrap();
    let store = forgetful(directory.path());
    let large = "x".repeat(1 << 20);
    for round in 0..60 {
        set(&store, "one", format!("{round}{large}")).await;
    }
    let size = |name: &str| std::fs::metadata(directory.path().join(name)).unwrap().len();
    assert!(size("store.db-wal") < 40 << 20, "{}", size("store.db-wal"));
    assert!(size("store.db") < 40 << 20, "{}", size("store.db"));
    store.close().await;
}

#[tokio::test]
async fn write_that_could_not_be_acknowledged_is_shown_as_a_restart_would_show_it() {
    let disk = Disk::default();
    let open = || Store::with_log(disk.log(Arc::default()), Options::default()).unwrap();
    let store = open();
    set(&store, "one", 1).await;
    disk.fail_next(Fault::Unacknowledged);
    let key = things(&store).key("here", "two");
    let error = store.submit(vec![put(key.clone(), Expect::Absent, 2)]).await.unwrap_err();
    assert!(matches!(error, SubmitError::Unknown(_)), "{error:?}");
    assert!(matches!(store.health(), Health::Full(_)), "{:?}", store.health());
    assert!(store.get(&key).is_some());
    assert_eq!(contents(&store.snapshot(&things(&store))), disk.contents(THINGS));
    set(&store, "three", 3).await;
    assert!(matches!(store.health(), Health::Fine), "{:?}", store.health());
    let before = contents(&store.snapshot(&things(&store)));
    store.close().await;

    let store = open();
    assert_eq!(contents(&store.snapshot(&things(&store))), before);
    store.close().await;
}

#[tokio::test]
async fn rows_are_forgotten_once_even_if_that_could_not_be_acknowledged() {
    let disk = Disk::default();
    let store = Store::with_log(disk.log(Arc::default()), no_past()).unwrap();
    let key = things(&store).key("here", "one");
    for value in 0..10 {
        disk.fail_next(Fault::Unacknowledged);
        // The idle store may have met the fault already. The disk notices what is forgotten twice.
        let _ = store.submit(vec![put(key.clone(), Expect::Any, value)]).await;
    }
    set(&store, "one", 10).await;
    assert!(matches!(store.health(), Health::Fine), "{:?}", store.health());
    store.close().await;
}
