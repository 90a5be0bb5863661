//! Backups, and what comes of them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use ferroplane_apiserver::store::{self, BackupError, Options, Store, WatchError};

use super::fixtures::{contents, draft, open, set, things, unset};

#[tokio::test]
async fn backup_of_a_running_store_can_be_restored() {
    let (home, away) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = away.path().join("backup.db");
    let store = open(home.path());
    set(&store, "one", 1).await;
    set(&store, "two", 1).await;
    unset(&store, "two").await;
    let saved = contents(&store.snapshot(&things(&store)));
    store.backup(&file).unwrap();
    set(&store, "one", 2).await;
    set(&store, "three", 1).await;
    let lost = store.revision();
    store.close().await;
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(away.path()).unwrap().count(), 1, "something was left behind");

    assert!(matches!(store::restore(&file, home.path(), false), Err(BackupError::NotEmpty(_))));
    store::restore(&file, home.path(), true).unwrap();
    let store = open(home.path());
    assert_eq!(contents(&store.snapshot(&things(&store))), saved);
    // Nobody is notified of a revision that was something else before.
    assert_eq!(store.revision(), 3 + 1_000_000);
    for revision in [0, 1, 3, lost, 1_000_002] {
        let refused = store.watch(&things(&store), revision).unwrap_err();
        assert_eq!(refused, WatchError::TooOld { revision, floor: 1_000_003 });
    }
    assert_eq!(set(&store, "four", 1).await.revision(), 1_000_004);
    store.close().await;
    // Nor after compaction and another start.
    let store = open(home.path());
    super::durability::until_only_remain(home.path(), 2).await;
    store.close().await;
    let store = open(home.path());
    assert!(store.watch(&things(&store), lost).is_err());
    assert_eq!(contents(&store.snapshot(&things(&store))).len(), 2);
    store.close().await;
}

#[tokio::test]
async fn backup_overwrites_nothing_and_says_what_is_missing() {
    let (home, away) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = away.path().join("precious");
    fs::write(&file, "precious").unwrap();
    let store = open(home.path());
    assert!(matches!(store.backup(&file), Err(BackupError::Exists(_))));
    assert_eq!(fs::read(&file).unwrap(), b"precious");
    store.close().await;
    assert!(matches!(store::backup(away.path(), &away.path().join("x")), Err(BackupError::NoStore(_))));
    let memory = Store::in_memory(Options::default()).unwrap();
    assert!(matches!(memory.backup(&away.path().join("x")), Err(BackupError::InMemory)));
}

#[tokio::test]
async fn damaged_backup_replaces_nothing() {
    let (home, away) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = away.path().join("backup.db");
    let store = open(home.path());
    for index in 0..100 {
        set(&store, &format!("{index}"), 1).await;
    }
    store.backup(&file).unwrap();
    let before = contents(&store.snapshot(&things(&store)));
    store.close().await;
    let mut bytes = fs::read(&file).unwrap();
    let end = bytes.len();
    bytes[end - 4096..].fill(0);
    fs::write(&file, bytes).unwrap();
    assert!(matches!(store::restore(&file, home.path(), true), Err(BackupError::Damaged { .. })));
    fs::write(&file, "nonsense").unwrap();
    assert!(matches!(store::restore(&file, home.path(), true), Err(BackupError::Open(_))));
    let store = open(home.path());
    assert_eq!(contents(&store.snapshot(&things(&store))), before);
    assert_eq!(store.revision(), 100);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backups_while_others_write_show_one_moment_each() {
    let (home, away) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(home.path());
    let writer = tokio::spawn({
        let store = store.clone();
        async move {
            for value in 0..300u32 {
                let put = |name: &str| {
                    let key = things(&store).key("here", name);
                    store::Operation {
                        key,
                        expect: store::Expect::Any,
                        change: store::Change::Put(draft(value)),
                    }
                };
                store.submit(vec![put("one"), put("two")]).await.unwrap();
            }
        }
    });
    for index in 0..5 {
        let (file, restored) =
            (away.path().join(index.to_string()), away.path().join(format!("restored-{index}")));
        store.backup(&file).unwrap();
        store::restore(&file, &restored, false).unwrap();
        let copy = open(&restored);
        let values: Vec<_> =
            copy.snapshot(&things(&copy)).iter().map(|entry| entry.bytes().clone()).collect();
        if let [one, two] = &values[..] {
            let value = |bytes: &[u8]| {
                String::from_utf8_lossy(bytes).rsplit_once(':').map(|(_, value)| value.to_owned())
            };
            assert_eq!(value(one), value(two));
        } else {
            assert!(values.is_empty());
        }
        copy.close().await;
    }
    writer.await.unwrap();
    store.close().await;
}

/// A backup of a store with one object, changed by somebody.
async fn changed_backup(directory: &std::path::Path, change: &str) -> std::path::PathBuf {
    let (home, file) = (directory.join("home"), directory.join("backup.db"));
    let store = open(&home);
    set(&store, "benign", 1).await;
    store.backup(&file).unwrap();
    store.close().await;
    rusqlite::Connection::open(&file).unwrap().execute_batch(change).unwrap();
    file
}

#[tokio::test]
async fn backup_that_would_run_something_is_refused() {
    let cases = [
        // Rewrites what is stored.
        (
            "CREATE TRIGGER evil AFTER UPDATE ON mark BEGIN UPDATE log SET object = replace(object, '1', '6'); END",
            "did not make its trigger `evil`;",
        ),
        // Never ends.
        (
            "CREATE TRIGGER slow AFTER UPDATE ON mark BEGIN INSERT INTO log SELECT max(revision) + 1, '', '', '', 0, '' FROM log,
             (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n); END",
            "did not make its trigger `slow`;",
        ),
        (
            "ALTER TABLE log RENAME TO rows; CREATE VIEW log AS SELECT * FROM rows",
            "did not make its view `log`;",
        ),
        ("CREATE INDEX log_names ON log (hex(name))", "did not make its index `log_names`;"),
        ("ALTER TABLE log ADD COLUMN more TEXT AS (hex(object))", "did not make its table `log`;"),
        ("DROP TABLE mark", "it lacks a table;"),
        ("CREATE TABLE a (b)", "did not make its table `a`;"),
    ];
    for (change, what) in cases {
        let directory = tempfile::tempdir().unwrap();
        let file = changed_backup(directory.path(), change).await;
        let restored = directory.path().join("restored");
        let error = store::restore(&file, &restored, false).unwrap_err().to_string();
        assert!(error.contains(what), "{change}: {error}");
        assert!(!restored.join("store.db").exists(), "{change}");
        let left: Vec<_> = fs::read_dir(&restored).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["store.lock"], "{change}");
        // Nor can it be put in the place of a store.
        fs::copy(&file, restored.join("store.db")).unwrap();
        let error = Store::open(&restored, Options::default()).unwrap_err().to_string();
        assert!(error.contains(what), "{change}: {error}");
    }
}

#[tokio::test]
async fn restored_store_is_made_anew() {
    let directory = tempfile::tempdir().unwrap();
    // What is in pages that are not used is not a row.
    let hidden = "CREATE TABLE a (b); INSERT INTO a VALUES ('hidden'); DROP TABLE a";
    let file = changed_backup(directory.path(), hidden).await;
    let restored = directory.path().join("restored of #1?");
    // Of a restore that was interrupted.
    fs::create_dir(&restored).unwrap();
    for left in ["received.7.partial", "store.db.7.partial"] {
        fs::write(restored.join(left), "x").unwrap();
    }
    store::restore(&file, &restored, false).unwrap();
    let mut names: Vec<_> = fs::read_dir(&restored)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["store.db", "store.lock"]);
    let bytes = fs::read(restored.join("store.db")).unwrap();
    assert!(!bytes.windows(6).any(|window| window == b"hidden"));
    let store = open(&restored);
    assert_eq!(contents(&store.snapshot(&things(&store))).len(), 1);
    store.close().await;
}
