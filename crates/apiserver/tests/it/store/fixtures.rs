//! What the tests of the store need: objects, operations, a faithful watcher.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ferroplane_apiserver::store::{
    Change, Collection, Draft, Entry, Event, EventKind, Expect, Key, Operation, Options, Snapshot, Store,
    WatchError, Watcher,
};
use serde_json::{Value, json};

/// Where everything is that is not about collections.
pub(crate) const THINGS: &str = "example.org/things";

pub(crate) fn open(directory: &Path) -> Store {
    Store::open(directory, Options::default()).unwrap()
}

pub(crate) fn draft(value: impl Into<Value>) -> Draft {
    let object = json!({"kind": "Thing", "metadata": {"labels": {"is": "thing"}}, "value": value.into()});
    Draft::new(object.as_object().unwrap()).unwrap()
}

pub(crate) fn put(key: Key, expect: Expect, value: impl Into<Value>) -> Operation {
    Operation { key, expect, change: Change::Put(draft(value)) }
}

pub(crate) fn delete(key: Key, expect: Expect) -> Operation {
    Operation { key, expect, change: Change::Delete }
}

/// Put something that need not be new.
pub(crate) async fn set(store: &Store, name: &str, value: impl Into<Value>) -> Arc<Entry> {
    let key = store.collection(THINGS).key("here", name);
    store.submit(vec![put(key, Expect::Any, value)]).await.unwrap().remove(0)
}

/// Delete something that must be there.
pub(crate) async fn unset(store: &Store, name: &str) -> Arc<Entry> {
    let key = store.collection(THINGS).key("here", name);
    store.submit(vec![delete(key, Expect::Present)]).await.unwrap().remove(0)
}

/// What can be read of an object: its path, its revision and its whole text.
pub(crate) type Contents = BTreeMap<String, (u64, String)>;

pub(crate) fn contents(snapshot: &Snapshot) -> Contents {
    snapshot.iter().map(|entry| (entry.key().path().to_owned(), read(entry))).collect()
}

pub(crate) fn read(entry: &Entry) -> (u64, String) {
    (entry.revision(), String::from_utf8(entry.bytes().to_vec()).unwrap())
}

/// Do to a replica what an event says, and check that the event fits it.
pub(crate) fn replay(replica: &mut Contents, event: &Event) {
    let path = event.entry().key().path().to_owned();
    let before = replica.get(&path).cloned();
    assert_eq!(event.previous().map(|previous| read(previous)), before, "{path}");
    match event.kind() {
        EventKind::Added => assert_eq!(before, None, "{path} was there"),
        EventKind::Modified | EventKind::Deleted => assert_ne!(before, None, "{path} was not there"),
    }
    match event.kind() {
        EventKind::Deleted => replica.remove(&path),
        EventKind::Added | EventKind::Modified => replica.insert(path, read(event.entry())),
    };
}

/// Everything a watcher has not seen yet, unless it has fallen behind too far.
pub(crate) fn drain(watcher: &mut Watcher) -> Result<Vec<Arc<Event>>, WatchError> {
    let mut all = Vec::new();
    loop {
        let events = watcher.take()?;
        if events.is_empty() {
            return Ok(all);
        }
        all.extend(events);
    }
}

pub(crate) fn things(store: &Store) -> Collection {
    store.collection(THINGS)
}
