//! A store whose files were damaged while nobody looked never opens with less than it had acknowledged.

use std::fs;
use std::path::Path;

use ferroplane_apiserver::store::{self, BackupError, Change, Draft, Expect, Operation, Options, Store};
use serde_json::json;

use super::fixtures::{Contents, THINGS, contents, open, set, things, unset};

const OBJECTS: usize = 40;

/// The files of a store as a process leaves them that is killed: the system has everything that was written.
struct Killed {
    database: Vec<u8>,
    ahead: Vec<u8>,
    head: Vec<u8>,
    /// What was acknowledged.
    contents: Contents,
}

/// Put an object that says what it is called, as all objects of an API server do.
async fn set_named(store: &Store, name: &str) {
    let object = json!({"metadata": {"name": name, "namespace": "here"}, "value": "x".repeat(200)});
    let change = Change::Put(Draft::new(object.as_object().unwrap()).unwrap());
    let key = things(store).key("here", name);
    store.submit(vec![Operation { key, expect: Expect::Any, change }]).await.unwrap();
}

impl Killed {
    /// A store that has acknowledged some objects, with what was written last only in the write-ahead log.
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = open(directory.path());
        for index in 0..OBJECTS {
            set_named(&store, &format!("thing-{index}")).await;
        }
        let killed = Self::copy(directory.path(), &store);
        store.close().await;
        killed
    }

    /// The same, of a process that has ended by itself: everything is in the database.
    async fn ended() -> Self {
        let killed = Self::new().await;
        let directory = killed.lay_out();
        open(directory.path()).close().await;
        assert!(!directory.path().join("store.db-wal").exists());
        let read = |name: &str| fs::read(directory.path().join(name)).unwrap();
        Self { database: read("store.db"), ahead: Vec::new(), head: read("store.head"), ..killed }
    }

    fn copy(directory: &Path, store: &Store) -> Self {
        let read = |name: &str| fs::read(directory.join(name)).unwrap();
        let contents = contents(&store.snapshot(&things(store)));
        Self { database: read("store.db"), ahead: read("store.db-wal"), head: read("store.head"), contents }
    }

    fn lay_out(&self) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &[u8]| fs::write(directory.path().join(name), content).unwrap();
        write("store.db", &self.database);
        write("store.db-wal", &self.ahead);
        write("store.head", &self.head);
        directory
    }

    /// Opens the files. Returns the objects, or why they cannot be obtained.
    async fn open(&self) -> Result<Contents, String> {
        let directory = self.lay_out();
        let store = Store::open(directory.path(), Options::default()).map_err(|error| error.to_string())?;
        let contents = contents(&store.snapshot(&things(&store)));
        store.close().await;
        Ok(contents)
    }

    async fn is_whole(&self) {
        assert_eq!(self.open().await.as_ref(), Ok(&self.contents));
    }

    async fn is_whole_or_refused(&self, what: &str) {
        if let Ok(contents) = self.open().await {
            assert_eq!(contents, self.contents, "{what}");
        }
    }

    /// What is left without a damaged row can be restored. A copy with that row is refused, and the store that is there stays.
    async fn is_salvaged_without(&self, path: &str) {
        let (directory, restored) = (self.lay_out(), tempfile::tempdir().unwrap());
        let copy = restored.path().join("copy.db");
        let said = store::restore(&directory.path().join("store.db"), restored.path(), true).unwrap_err();
        assert!(said.to_string().contains("revision 4: its object is"), "{said}");
        store::salvage(directory.path(), &copy).unwrap();
        store::restore(&copy, restored.path(), true).unwrap();
        let store = open(restored.path());
        let found = contents(&store.snapshot(&things(&store)));
        let mut wanted = self.contents.clone();
        wanted.remove(path);
        assert_eq!(found, wanted);
        store.close().await;
    }

    /// Whether a row says of itself that it is a deletion, or of another collection. Nothing else says which it is.
    fn has_row_of_elsewhere(&self) -> bool {
        let directory = self.lay_out();
        let connection = rusqlite::Connection::open(directory.path().join("store.db")).unwrap();
        let sql = "SELECT count(*) FROM log WHERE deleted <> 0 OR collection <> ?1";
        connection.query_row(sql, [THINGS], |row| row.get::<_, u64>(0)).unwrap() > 0
    }
}

/// How many bytes differ between the texts of objects that are the same otherwise: their names, revisions and lengths.
fn differences(found: &Contents, wanted: &Contents) -> Option<usize> {
    let named = |contents: &Contents| -> Vec<_> {
        contents.iter().map(|(path, (revision, text))| (path.clone(), *revision, text.len())).collect()
    };
    let texts = found.values().zip(wanted.values()).map(|((_, one), (_, other))| (one, other));
    let differing = |(one, other): (&String, &String)| {
        one.bytes().zip(other.bytes()).filter(|(one, other)| one != other).count()
    };
    (named(found) == named(wanted)).then(|| texts.map(differing).sum())
}

/// Places all over some bytes: many, but not all, which would take too long.
fn places(bytes: &[u8], count: usize) -> impl Iterator<Item = usize> {
    (0..bytes.len()).step_by((bytes.len() / count).max(1))
}

#[tokio::test]
async fn flipped_bit_in_the_write_ahead_log_never_loses_what_was_acknowledged() {
    let mut killed = Killed::new().await;
    assert_eq!(killed.contents.len(), OBJECTS);
    killed.is_whole().await;
    let ahead = killed.ahead.clone();
    // Every byte of the header and of the first frame's, and some of everything else.
    for at in (0..56).chain(places(&ahead, 150)) {
        killed.ahead[at] ^= 1 << (at % 8);
        killed.is_whole_or_refused(&format!("byte {at}")).await;
        killed.ahead.clone_from(&ahead);
    }
}

#[tokio::test]
async fn row_under_the_name_of_another_object_hides_nothing() {
    let mut killed = Killed::ended().await;
    killed.is_whole().await;
    let database = killed.database.clone();
    let row = [THINGS, "here", "thing-3", "{"].concat();
    let is_row = |at: &usize| database[*at..].starts_with(row.as_bytes());
    let mut refused = 0;
    // SQLite leaves copies of rows where pages were split.
    for at in (0..database.len()).filter(is_row) {
        // `thing-2`, and another namespace.
        for flipped in [at + row.len() - 2, at + THINGS.len()] {
            killed.database[flipped] ^= 1;
            match killed.open().await {
                Ok(contents) => assert_eq!(contents, killed.contents),
                Err(said) => {
                    let why = "is damaged (revision 4: its object is `here/thing-3`)";
                    assert!(said.contains(why), "{said}");
                    killed.is_salvaged_without("here/thing-3").await;
                    refused += 1;
                }
            }
            killed.database.clone_from(&database);
        }
    }
    assert_eq!(refused, 2);
}

#[tokio::test]
async fn flipped_bit_in_the_database_hides_nothing() {
    let mut killed = Killed::ended().await;
    let database = killed.database.clone();
    // Every byte of the header, and some of everything else.
    for at in (0..100).chain(places(&database, 250)) {
        // Letters stay letters, so that objects stay texts.
        killed.database[at] ^= 1 << (at % 7);
        if let Ok(found) = killed.open().await {
            // Pages have no checksums: the byte itself may be one of an object.
            let is_whole = differences(&found, &killed.contents).is_some_and(|bytes| bytes <= 1);
            assert!(is_whole || killed.has_row_of_elsewhere(), "byte {at}");
        }
        killed.database.clone_from(&database);
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
    let mut killed = Killed::copy(directory.path(), &store);
    store.close().await;
    killed.is_whole().await;
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
    killed.is_whole().await;
}

#[tokio::test]
async fn head_of_before_a_power_failure_is_no_obstacle() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    set(&store, "first", 1).await;
    let head = Killed::copy(directory.path(), &store).head;
    for index in 1..OBJECTS {
        set(&store, &format!("thing-{index}"), index).await;
    }
    let killed = Killed { head, ..Killed::copy(directory.path(), &store) };
    store.close().await;
    killed.is_whole().await;
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
    let killed = Killed::copy(directory.path(), &store);
    store.close().await;
    assert!(killed.contents.is_empty());
    killed.is_whole().await;
    open(directory.path()).close().await;
}
