//! A store whose files were damaged while nobody looked never opens with less than it had acknowledged.

use std::fs;
use std::path::Path;

use ferroplane_apiserver::store::{self, BackupError, Options, Store};

use super::fixtures::{open, set, things, unset};

const OBJECTS: usize = 40;

/// The files of a store as a process leaves them that is killed: the system has everything that was written.
struct Killed {
    database: Vec<u8>,
    ahead: Vec<u8>,
    head: Vec<u8>,
}

impl Killed {
    /// A store that has acknowledged some objects, with what was written last only in the write-ahead log.
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = open(directory.path());
        for index in 0..OBJECTS {
            set(&store, &format!("thing-{index}"), "x".repeat(200)).await;
        }
        let killed = Self::copy(directory.path());
        store.close().await;
        killed
    }

    fn copy(directory: &Path) -> Self {
        let read = |name: &str| fs::read(directory.join(name)).unwrap();
        Self { database: read("store.db"), ahead: read("store.db-wal"), head: read("store.head") }
    }

    fn lay_out(&self) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &[u8]| fs::write(directory.path().join(name), content).unwrap();
        write("store.db", &self.database);
        write("store.db-wal", &self.ahead);
        write("store.head", &self.head);
        directory
    }

    /// Opens the files. Returns how many objects there are, or why they cannot be obtained.
    async fn open(&self) -> Result<usize, String> {
        let directory = self.lay_out();
        let store = Store::open(directory.path(), Options::default()).map_err(|error| error.to_string())?;
        let count = store.snapshot(&things(&store)).len();
        store.close().await;
        Ok(count)
    }

    async fn is_whole_or_refused(&self, what: &str) {
        if let Ok(count) = self.open().await {
            assert_eq!(count, OBJECTS, "{what}");
        }
    }
}

/// Places all over some bytes: many, but not all, which would take too long.
fn places(bytes: &[u8], count: usize) -> impl Iterator<Item = usize> {
    (0..bytes.len()).step_by((bytes.len() / count).max(1))
}

#[tokio::test]
async fn flipped_bit_in_the_write_ahead_log_never_loses_what_was_acknowledged() {
    let mut killed = Killed::new().await;
    assert_eq!(killed.open().await, Ok(OBJECTS));
    let ahead = killed.ahead.clone();
    // Every byte of the header and of the first frame's, and some of everything else.
    for at in (0..56).chain(places(&ahead, 150)) {
        killed.ahead[at] ^= 1 << (at % 8);
        killed.is_whole_or_refused(&format!("byte {at}")).await;
        killed.ahead.clone_from(&ahead);
    }
}

#[tokio::test]
async fn flipped_bit_after_a_part_has_moved_into_the_database_never_loses_what_was_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    for index in 0..OBJECTS {
        set(&store, &format!("thing-{index}"), "x".repeat(200)).await;
        if index == OBJECTS / 2 {
            let connection = rusqlite::Connection::open(directory.path().join("store.db")).unwrap();
            connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
        }
    }
    let mut killed = Killed::copy(directory.path());
    store.close().await;
    assert_eq!(killed.open().await, Ok(OBJECTS));
    let ahead = killed.ahead.clone();
    for at in places(&ahead, 100) {
        killed.ahead[at] ^= 4;
        killed.is_whole_or_refused(&format!("byte {at}")).await;
        killed.ahead.clone_from(&ahead);
    }
}

#[tokio::test]
async fn cut_write_ahead_log_never_loses_what_was_acknowledged() {
    let mut killed = Killed::new().await;
    let ahead = killed.ahead.clone();
    for length in places(&ahead, 60) {
        killed.ahead.truncate(length);
        let said = killed.open().await.unwrap_err();
        assert!(said.contains("may have lost acknowledged writes"), "{length} bytes: {said}");
        killed.ahead.clone_from(&ahead);
    }
}

#[tokio::test]
async fn cut_database_is_never_taken_for_a_new_one() {
    let mut killed = Killed::new().await;
    let database = killed.database.clone();
    for length in places(&database, 20) {
        killed.database.truncate(length);
        killed.is_whole_or_refused(&format!("{length} bytes")).await;
        killed.database.clone_from(&database);
    }
    killed.database.clear();
    killed.ahead.clear();
    let said = killed.open().await.unwrap_err();
    assert!(said.contains("is empty or missing, but revision 40 was acknowledged"), "{said}");
    let directory = killed.lay_out();
    fs::remove_file(directory.path().join("store.head")).unwrap();
    open(directory.path()).close().await;
}

#[tokio::test]
async fn tail_that_nobody_was_told_of_may_be_torn() {
    let mut killed = Killed::new().await;
    let frame = killed.ahead[killed.ahead.len() - 4120..].to_vec();
    // A frame that does not continue from the last one, and half of one.
    killed.ahead.extend_from_slice(&frame);
    killed.ahead.extend_from_slice(&frame[..2000]);
    assert_eq!(killed.open().await, Ok(OBJECTS));
}

#[tokio::test]
async fn head_of_before_a_power_failure_is_no_obstacle() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    set(&store, "first", 1).await;
    let head = Killed::copy(directory.path()).head;
    for index in 1..OBJECTS {
        set(&store, &format!("thing-{index}"), index).await;
    }
    let killed = Killed { head, ..Killed::copy(directory.path()) };
    store.close().await;
    assert_eq!(killed.open().await, Ok(OBJECTS));
    // A transaction that others follow is not torn by a power failure, whatever the head knows.
    let mut damaged = killed;
    let middle = damaged.ahead.len() / 2;
    damaged.ahead[middle] ^= 1;
    let said = damaged.open().await.unwrap_err();
    assert!(said.contains("a transaction is damaged that others follow"), "{said}");
}

#[tokio::test]
async fn store_of_a_program_that_noted_no_head_opens_and_gets_one() {
    let killed = Killed::new().await;
    let directory = killed.lay_out();
    fs::remove_file(directory.path().join("store.head")).unwrap();
    let store = open(directory.path());
    assert_eq!(store.snapshot(&things(&store)).len(), OBJECTS);
    store.close().await;
    assert_eq!(fs::read(directory.path().join("store.head")).unwrap(), killed.head);
}

#[tokio::test]
async fn refused_store_is_left_as_it_is_and_what_is_left_of_it_can_be_kept() {
    let mut killed = Killed::new().await;
    let middle = killed.ahead.len() / 2;
    killed.ahead[middle] ^= 1;
    let directory = killed.lay_out();
    for _ in 0..2 {
        let said = Store::open(directory.path(), Options::default()).unwrap_err().to_string();
        assert!(said.contains("ferroplane backup --salvage"), "{said}");
        assert_eq!(fs::read(directory.path().join("store.db-wal")).unwrap(), killed.ahead);
    }
    let copy = directory.path().join("copy.db");
    let refused = store::backup(directory.path(), &copy);
    assert!(matches!(refused, Err(BackupError::Open(_))), "{refused:?}");
    store::salvage(directory.path(), &copy).unwrap();
    assert_eq!(fs::read(directory.path().join("store.db-wal")).unwrap(), killed.ahead);
    store::restore(&copy, directory.path(), true).unwrap();
    let store = open(directory.path());
    let left = store.snapshot(&things(&store)).len();
    assert!(left > 0 && left < OBJECTS, "{left}");
    assert!(store.revision() > 1_000_000, "no revision is given out twice");
    store.close().await;
}

#[tokio::test]
async fn backup_of_a_stopped_store_that_lost_its_last_write_is_refused() {
    let mut killed = Killed::new().await;
    let last = killed.ahead.len() - 100;
    killed.ahead[last] ^= 1;
    let directory = killed.lay_out();
    let refused = store::backup(directory.path(), &directory.path().join("copy.db"));
    let said = refused.unwrap_err().to_string();
    assert!(said.contains("its newest revision is 39, but 40 was acknowledged"), "{said}");
    assert!(!directory.path().join("copy.db").exists());
}

#[tokio::test]
async fn store_opens_after_everything_was_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    let store = super::durability::forgetful(directory.path());
    for index in 0..OBJECTS {
        set(&store, "same", index).await;
    }
    unset(&store, "same").await;
    super::durability::until_only_remain(directory.path(), 0).await;
    let killed = Killed::copy(directory.path());
    store.close().await;
    assert_eq!(killed.open().await, Ok(0));
    open(directory.path()).close().await;
}
