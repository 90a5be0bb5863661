//! What is said when a store cannot be opened, and that nothing is changed then.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use ferroplane_apiserver::store::{OpenError, Options, Store};

use super::fixtures::{open, set, unset};

/// A directory with a store that holds something.
async fn used() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    for name in ["one", "two"] {
        set(&store, name, 1).await;
    }
    store.close().await;
    let database = directory.path().join("store.db");
    (directory, database)
}

/// The whole chain of why a store cannot be opened.
fn complaint(directory: &Path) -> String {
    let error = Store::open(directory, Options::default()).unwrap_err();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text.replace(&*directory.to_string_lossy(), "DIRECTORY")
}

fn overwrite(database: &Path, at: usize, bytes: &[u8]) {
    let mut content = fs::read(database).unwrap();
    content[at..at + bytes.len()].copy_from_slice(bytes);
    fs::write(database, content).unwrap();
}

#[tokio::test]
async fn second_process_is_told_who_has_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let us = std::process::id();
    assert_eq!(
        complaint(directory.path()),
        format!("cannot use the data directory `DIRECTORY`: process {us} uses it")
    );
    store.close().await;
    open(directory.path()).close().await;
}

/// What another user has put there may be anything, and that user could change the store later.
#[test]
fn directory_of_another_user_is_refused_and_nothing_is_written_to_it() {
    const NOBODY: u32 = 65_534;
    let directory = tempfile::tempdir().unwrap();
    let us = fs::metadata(directory.path()).unwrap().uid();
    // Only root can give a directory away. Everybody else is refused one of root's.
    let theirs = if us == 0 {
        chown(directory.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        directory.path()
    } else {
        Path::new("/")
    };
    let expected = fs::metadata(theirs).unwrap().uid();
    let error = Store::open(theirs, Options::default()).unwrap_err();
    assert!(
        matches!(&error, OpenError::OtherOwner { owner, user, .. } if (*owner, *user) == (expected, us)),
        "{error}"
    );
    let said = format!("it belongs to user {expected}, and this program runs as user {us}");
    assert!(error.to_string().contains(&said), "{error}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn newer_store_is_refused_and_not_touched() {
    let (directory, database) = used().await;
    overwrite(&database, 60, &7u32.to_be_bytes());
    let before = fs::read(&database).unwrap();
    assert_eq!(
        complaint(directory.path()),
        "cannot open `DIRECTORY/store.db`: it has version 7 of the format, this program knows 1; use a newer Ferroplane"
    );
    assert_eq!(fs::read(&database).unwrap(), before);
}

#[tokio::test]
async fn database_of_another_application_is_refused_and_not_touched() {
    let (directory, database) = used().await;
    for application in [0u32, 42] {
        overwrite(&database, 68, &application.to_be_bytes());
        let before = fs::read(&database).unwrap();
        assert_eq!(
            complaint(directory.path()),
            "cannot open `DIRECTORY/store.db`: it is not a store of Ferroplane"
        );
        assert_eq!(fs::read(&database).unwrap(), before);
    }
}

#[tokio::test]
async fn damage_is_named_with_its_remedy() {
    const REMEDY: &str = "; restore a backup, or inspect the file with `sqlite3 FILE .recover`";
    let (directory, database) = used().await;
    let whole = fs::read(&database).unwrap();

    fs::write(&database, "not a database, but long enough to look at, as headers go: 72 bytes it needs")
        .unwrap();
    assert_eq!(
        complaint(directory.path()),
        format!("`DIRECTORY/store.db` is damaged (it is not an SQLite database){REMEDY}")
    );

    // Pages of zeros where there was content.
    fs::write(&database, &whole).unwrap();
    overwrite(&database, 4096, &vec![0; whole.len() - 4096]);
    let said = complaint(directory.path());
    assert!(said.starts_with("`DIRECTORY/store.db` is damaged (") && said.ends_with(REMEDY), "{said}");

    // A byte that SQLite does not check, but we do.
    let at = whole.windows(20).position(|window| window == br#""resourceVersion":"2"#).unwrap();
    fs::write(&database, &whole).unwrap();
    overwrite(&database, at + 19, b"3");
    assert_eq!(
        complaint(directory.path()),
        format!(
            "`DIRECTORY/store.db` is damaged (revision 2: its object has the resource version `3`){REMEDY}"
        )
    );

    // Half of the store.
    fs::remove_file(&database).unwrap();
    fs::write(directory.path().join("store.db-wal"), "something").unwrap();
    let said = complaint(directory.path());
    assert!(
        said.starts_with("`DIRECTORY/store.db` is damaged (it is empty or missing, but there is"),
        "{said}"
    );
}

#[tokio::test]
async fn directory_that_cannot_be_written_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let said = complaint(&file);
    assert!(said.starts_with("cannot use the data directory `DIRECTORY`: "), "{said}");
}

#[tokio::test]
async fn nobody_else_may_read_the_files() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("deep/data");
    let store = open(&directory);
    set(&store, "one", 1).await;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory), 0o700);
    let mut names = Vec::new();
    for file in fs::read_dir(&directory).unwrap() {
        let file = file.unwrap();
        assert_eq!(mode(&file.path()), 0o600, "{file:?}");
        names.push(file.file_name().into_string().unwrap());
    }
    names.sort();
    assert_eq!(names, ["store.db", "store.db-shm", "store.db-wal", "store.head", "store.lock"]);
    store.close().await;
}

#[tokio::test]
async fn revisions_are_not_given_out_again_when_everything_was_deleted_and_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    let store = super::durability::forgetful(directory.path());
    set(&store, "one", 1).await;
    let last = unset(&store, "one").await.revision();
    super::durability::until_only_remain(directory.path(), 0).await;
    store.close().await;
    let store = super::durability::forgetful(directory.path());
    assert_eq!(store.revision(), last);
    assert_eq!(set(&store, "one", 1).await.revision(), last + 1);
    store.close().await;
}

#[tokio::test]
async fn directory_that_others_can_write_to_is_refused() {
    let (directory, _) = used().await;
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let expected = "cannot use the data directory `DIRECTORY`: others can write to it (mode 0777); if everything in it is yours, make \
                    it private with `chmod 700`, otherwise choose another directory";
    assert_eq!(complaint(directory.path()), expected);
    // Reading is another matter: what is ours is made private.
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    open(directory.path()).close().await;
    assert_eq!(fs::metadata(directory.path()).unwrap().permissions().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn directory_of_somebody_else_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    // Only root can give a directory away.
    if std::os::unix::fs::chown(directory.path(), Some(12_345), None).is_err() {
        return;
    }
    let expected = "cannot use the data directory `DIRECTORY`: it belongs to user 12345, and this program runs as user 0; run it as \
                    that user, or choose a directory that is not there yet, which is then made for you";
    assert_eq!(complaint(directory.path()), expected);
}

#[tokio::test]
async fn links_in_the_place_of_our_files_are_not_followed() {
    for name in ["store.lock", "store.db", "store.db-wal", "store.head"] {
        let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let victim = elsewhere.path().join("precious");
        fs::write(&victim, "").unwrap();
        std::os::unix::fs::symlink(&victim, directory.path().join(name)).unwrap();
        let complaint = complaint(directory.path());
        assert!(
            complaint.starts_with(&format!("cannot use `DIRECTORY/{name}`: it is a symbolic link")),
            "{complaint}"
        );
        assert_eq!(fs::metadata(&victim).unwrap().len(), 0, "{name}");
    }
}
