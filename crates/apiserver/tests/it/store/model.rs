//! Random operations, faults, restarts and compaction, compared with a model that is too simple to be wrong.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ferroplane_apiserver::store::{
    Expect, Health, Key, Operation, Options, Store, SubmitError, WatchError, Watcher, Window,
};
use proptest::prelude::*;

use super::disk::{Disk, Fault};
use super::fixtures::{Contents, contents, delete, drain, put, read, replay};

const COLLECTIONS: [&str; 2] = ["example.org/things", "example.org/others"];

/// One operation as it is generated: what it expects is made to fit the model, or not to.
#[derive(Clone, Debug)]
struct Intent {
    collection: usize,
    name: u8,
    /// What to put there, or nothing to delete it.
    value: Option<u8>,
    expect: Wish,
}

#[derive(Clone, Copy, Debug)]
enum Wish {
    Absent,
    Present,
    Any,
    /// The revision that is there before the submissions that are sent together, plus this.
    Revision(u64),
}

#[derive(Clone, Debug)]
enum Step {
    /// Submissions that are sent together; each is a transaction.
    Submit(Vec<Vec<Intent>>),
    Fail(Fault),
    Restart,
    /// Begin to watch from so many revisions ago.
    Watch(usize, u64),
    /// Look at the past.
    Look(usize, u64),
}

fn intent() -> impl Strategy<Value = Intent> {
    let expect = prop_oneof![
        2 => Just(Wish::Absent),
        2 => Just(Wish::Present),
        3 => Just(Wish::Any),
        2 => Just(Wish::Revision(0)),
        1 => Just(Wish::Revision(1)),
    ];
    let value = prop_oneof![3 => (0..3u8).prop_map(Some), 1 => Just(None)];
    (0..2usize, 0..6u8, value, expect).prop_map(|(collection, name, value, expect)| Intent {
        collection,
        name,
        value,
        expect,
    })
}

fn step(faults: bool) -> impl Strategy<Value = Step> {
    let transaction = prop::collection::vec(intent(), 1..4);
    let fault = prop_oneof![2 => Just(Fault::Full), 1 => Just(Fault::Lost), 1 => Just(Fault::Unknown)];
    prop_oneof![
        12 => prop::collection::vec(transaction, 1..5).prop_map(Step::Submit),
        u32::from(faults) => fault.prop_map(Step::Fail),
        1 => Just(Step::Restart),
        2 => (0..2usize, 0..30u64).prop_map(|(collection, ago)| Step::Watch(collection, ago)),
        2 => (0..2usize, 0..30u64).prop_map(|(collection, ago)| Step::Look(collection, ago)),
    ]
}

/// Where the store under test keeps things.
enum Home<'a> {
    Disk(Disk),
    Directory(&'a Path),
}

impl Home<'_> {
    fn open(&self, window: usize) -> Store {
        let window = Window { events: window, bytes: window * 100, age: Duration::from_hours(1) };
        let options = Options { window, ..Options::default() };
        match self {
            Home::Directory(path) => Store::open(path, options).unwrap(),
            Home::Disk(disk) => {
                let known = Arc::new(OnceLock::new());
                let store = Store::with_log(disk.log(known.clone()), options).unwrap();
                // The log holds the store, which holds the log; both are let go of when the store is closed.
                known.set(store.clone()).unwrap();
                store
            }
        }
    }
}

/// What the store must be, at every revision.
#[derive(Clone, Default)]
struct Model {
    revision: u64,
    current: [Contents; 2],
    past: BTreeMap<u64, [Contents; 2]>,
}

impl Model {
    fn key(store: &Store, intent: &Intent) -> (Key, String) {
        let key = store.collection(COLLECTIONS[intent.collection]).key("here", &intent.name.to_string());
        let path = key.path().to_owned();
        (key, path)
    }

    fn operation(&self, store: &Store, intent: &Intent) -> Operation {
        let (key, path) = Self::key(store, intent);
        let expect = match intent.expect {
            Wish::Absent => Expect::Absent,
            Wish::Present => Expect::Present,
            Wish::Any => Expect::Any,
            Wish::Revision(more) => {
                let current = self.current[intent.collection].get(&path);
                Expect::Revision(current.map_or(99_999, |(revision, _)| revision + more))
            }
        };
        match intent.value {
            Some(value) => put(key, expect, value),
            None => delete(key, expect),
        }
    }

    /// Do a transaction, if it may be done; otherwise say which operation may not.
    fn submit(&mut self, operations: &[(usize, Operation, Option<u8>)]) -> Result<Vec<(u64, String)>, usize> {
        let mut next = self.clone();
        let mut results = Vec::new();
        for (index, (collection, operation, value)) in operations.iter().enumerate() {
            let path = operation.key.path().to_owned();
            let current = next.current[*collection].get(&path).cloned();
            let is_met = match operation.expect {
                Expect::Absent => current.is_none(),
                Expect::Present => current.is_some(),
                Expect::Any => true,
                Expect::Revision(revision) => current.as_ref().is_some_and(|(found, _)| *found == revision),
            };
            if !is_met || value.is_none() && current.is_none() {
                return Err(index);
            }
            let text = |revision: u64, value: &str| {
                let labels = r#""labels":{"is":"thing"}"#;
                format!(
                    r#"{{"kind":"Thing","metadata":{{{labels},"resourceVersion":"{revision}"}},"value":{value}}}"#
                )
            };
            let revision = next.revision + 1;
            let Some(value) = value else {
                let (_, last) = current.unwrap();
                let (_, last) = last[..last.len() - 1].rsplit_once(':').unwrap();
                results.push((revision, text(revision, last)));
                next.current[*collection].remove(&path);
                next.note(revision);
                continue;
            };
            if let Some((found, same)) = current
                && same == text(found, &value.to_string())
            {
                results.push((found, same));
                continue;
            }
            let object = (revision, text(revision, &value.to_string()));
            next.current[*collection].insert(path, object.clone());
            next.note(revision);
            results.push(object);
        }
        *self = next;
        Ok(results)
    }

    fn note(&mut self, revision: u64) {
        self.revision = revision;
        self.past.insert(revision, self.current.clone());
    }

    fn at(&self, revision: u64) -> [Contents; 2] {
        self.past.range(..=revision).next_back().map(|(_, contents)| contents.clone()).unwrap_or_default()
    }
}

/// The store and its model, and some who watch.
struct StoreFixture<'a> {
    home: Home<'a>,
    window: usize,
    store: Store,
    model: Model,
    watchers: Vec<(usize, Watcher, Contents)>,
    /// What everyone was notified of each revision.
    told: BTreeMap<u64, String>,
}

impl<'a> StoreFixture<'a> {
    fn new(home: Home<'a>, window: usize) -> Self {
        let store = home.open(window);
        let (model, watchers, told) = (Model::default(), Vec::new(), BTreeMap::new());
        Self { home, window, store, model, watchers, told }
    }

    async fn perform(&mut self, step: Step) {
        match step {
            Step::Submit(transactions) => self.submit(&transactions).await,
            Step::Fail(fault) => {
                if let Home::Disk(disk) = &self.home {
                    disk.fail_next(fault);
                }
            }
            Step::Restart => self.restart().await,
            Step::Watch(collection, ago) => self.watch(collection, ago),
            Step::Look(collection, ago) => self.look(collection, ago),
        }
        self.check();
    }

    async fn submit(&mut self, transactions: &[Vec<Intent>]) {
        let prepare =
            |intent: &Intent| (intent.collection, self.model.operation(&self.store, intent), intent.value);
        let transactions: Vec<Vec<_>> =
            transactions.iter().map(|intents| intents.iter().map(prepare).collect()).collect();
        let operations = |transaction: &[(usize, Operation, _)]| {
            transaction.iter().map(|(_, operation, _)| operation.clone()).collect::<Vec<_>>()
        };
        // Polled in order, so that they are queued in order.
        let mut running = tokio::task::JoinSet::new();
        for (index, transaction) in transactions.iter().enumerate() {
            let (store, operations) = (self.store.clone(), operations(transaction));
            running.spawn(async move { (index, store.submit(operations).await) });
        }
        let results: BTreeMap<_, _> = running.join_all().await.into_iter().collect();
        let mut has_failed = false;
        for (index, result) in results {
            match result {
                Err(SubmitError::Full(_)) => {}
                Err(SubmitError::Unknown(_) | SubmitError::Failed(_)) => has_failed = true,
                Err(SubmitError::Closed | SubmitError::Unanswered) => panic!("nobody closed the store"),
                Ok(entries) => {
                    let entries = entries.iter().map(|entry| read(entry)).collect();
                    assert_eq!(self.model.submit(&transactions[index]), Ok(entries));
                    assert!(!has_failed, "acknowledged after a failure");
                }
                Err(SubmitError::Refused(refused)) => {
                    assert_eq!(self.model.submit(&transactions[index]), Err(refused.index));
                }
            }
        }
        if has_failed {
            assert!(matches!(self.store.health(), Health::Failed(_)));
            self.recover().await;
        }
    }

    /// Start again after nobody knew what was written.
    async fn recover(&mut self) {
        self.check();
        self.restart().await;
        let Home::Disk(disk) = &self.home else { panic!("a real disk failed") };
        for (collection, name) in COLLECTIONS.iter().enumerate() {
            let found = contents(&self.store.snapshot(&self.store.collection(name)));
            assert_eq!(found, disk.contents(name));
            self.model.current[collection] = found;
        }
        // What was written without anyone knowing shows now.
        let (before, now) = (self.model.revision, self.store.revision());
        assert!(now >= before);
        let unknown = self.model.past.split_off(&(before + 1));
        assert!(unknown.is_empty());
        self.model.note(now);
        if now > before + 1 {
            // What was between is not known to the model.
            self.watchers.clear();
            self.model.past.retain(|revision, _| *revision >= now);
        }
    }

    async fn restart(&mut self) {
        let home = std::mem::replace(&mut self.home, Home::Disk(Disk::default()));
        let placeholder = Store::in_memory(Options::default()).unwrap();
        std::mem::replace(&mut self.store, placeholder).close().await;
        self.store = home.open(self.window);
        self.home = home;
        // Watchers resume where they were, or are notified that they cannot.
        for (index, watcher, replica) in std::mem::take(&mut self.watchers) {
            let mut watcher = watcher;
            let collection = self.store.collection(COLLECTIONS[index]);
            match self.store.watch(&collection, watcher.progress()) {
                Ok(watcher) => self.watchers.push((index, watcher, replica)),
                Err(WatchError::TooOld { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn watch(&mut self, index: usize, ago: u64) {
        let revision = self.model.revision.saturating_sub(ago);
        let collection = self.store.collection(COLLECTIONS[index]);
        match self.store.watch(&collection, revision) {
            Ok(watcher) if self.is_known(revision) => {
                self.watchers.push((index, watcher, self.model.at(revision)[index].clone()));
            }
            Ok(_) | Err(WatchError::TooOld { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn look(&self, index: usize, ago: u64) {
        let revision = self.model.revision.saturating_sub(ago);
        let collection = self.store.collection(COLLECTIONS[index]);
        match self.store.snapshot_at(&collection, revision) {
            Ok(snapshot) if self.is_known(revision) => {
                assert_eq!(contents(&snapshot), self.model.at(revision)[index], "at {revision}");
            }
            Ok(_) | Err(WatchError::TooOld { .. }) => assert!(ago > 0, "the present is too old"),
            Err(error) => panic!("{error}"),
        }
    }

    fn is_known(&self, revision: u64) -> bool {
        revision == 0 && self.model.past.first_key_value().is_none_or(|(first, _)| *first == 1)
            || self.model.past.first_key_value().is_some_and(|(first, _)| *first <= revision)
    }

    /// What can be read is what the model says, and so is what everyone who watches makes of it.
    fn check(&mut self) {
        assert_eq!(self.store.revision(), self.model.revision);
        for (index, name) in COLLECTIONS.iter().enumerate() {
            let snapshot = self.store.snapshot(&self.store.collection(name));
            assert_eq!(contents(&snapshot), self.model.current[index]);
        }
        self.watchers.retain_mut(|(index, watcher, replica)| {
            let events = match drain(watcher) {
                Ok(events) => events,
                Err(error) => {
                    assert!(matches!(error, WatchError::TooOld { .. }));
                    return false;
                }
            };
            for event in events {
                let told = format!("{:?} {:?}", event.kind(), read(event.entry()));
                let before = self.told.entry(event.revision()).or_insert_with(|| told.clone());
                assert_eq!(*before, told, "two were told differently");
                replay(replica, &event);
            }
            assert_eq!(*replica, self.model.current[*index]);
            assert_eq!(watcher.progress(), self.model.revision);
            true
        });
    }
}

fn check(home: Home<'_>, window: usize, steps: Vec<Step>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut fixture = StoreFixture::new(home, window);
        for step in steps {
            fixture.perform(step).await;
        }
        fixture.store.close().await;
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn store_does_what_the_model_does_whatever_fails(
        window in 1..40usize,
        steps in prop::collection::vec(step(true), 1..60),
    ) {
        check(Home::Disk(Disk::default()), window, steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 25, ..ProptestConfig::default() })]

    #[test]
    fn store_on_a_real_disk_does_what_the_model_does(
        window in 1..40usize,
        steps in prop::collection::vec(step(false), 1..40),
    ) {
        let directory = tempfile::tempdir().unwrap();
        check(Home::Directory(directory.path()), window, steps);
    }
}
