//! All live objects, in memory, and what they are found by.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasher as _;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::entry::Entry;
use super::key::{Collection, Key};
use super::metadata::Uid;
use super::tree::Tree;
use super::watch_cache::Event;

/// The state at one revision.
#[derive(Debug, Default)]
pub(super) struct State {
    revision: u64,
    /// What every collection's history began with when the store was opened.
    floor: u64,
    collections: HashMap<Box<str>, Collection>,
    trees: Vec<Tree>,
    uids: Uids,
    dependents: BTreeSet<Dependent>,
}

impl State {
    pub(super) fn new(revision: u64, floor: u64) -> Self {
        Self { revision, floor, ..Self::default() }
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) fn find_collection(&self, name: &str) -> Option<&Collection> {
        self.collections.get(name)
    }

    pub(super) fn collection(&mut self, name: &str) -> Collection {
        if let Some(collection) = self.collections.get(name) {
            return collection.clone();
        }
        let collection = Collection::new(name, self.trees.len(), self.floor);
        self.trees.push(Tree::default());
        self.collections.insert(name.into(), collection.clone());
        collection
    }

    pub(super) fn collections(&self) -> impl Iterator<Item = &Collection> {
        self.collections.values()
    }

    pub(super) fn tree(&self, collection: &Collection) -> &Tree {
        &self.trees[collection.index()]
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Arc<Entry>> {
        self.tree(key.collection()).get(key.path())
    }

    pub(super) fn by_uid(&self, uid: &Uid) -> Option<&Arc<Entry>> {
        self.uids.get(uid)
    }

    pub(super) fn dependents<'a>(&'a self, owner: &'a Uid) -> impl Iterator<Item = &'a Arc<Entry>> {
        let first = Dependent { owner: owner.clone(), entry: None };
        let range = self.dependents.range(first..);
        range
            .take_while(move |dependent| dependent.owner == *owner)
            .filter_map(|dependent| dependent.entry.as_ref())
    }

    /// Let something have happened.
    pub(super) fn apply(&mut self, event: &Event) {
        let entry = event.entry();
        self.revision = self.revision.max(entry.revision());
        let tree = &mut self.trees[entry.key().collection().index()];
        let before =
            if entry.is_deleted() { tree.remove(entry.key().path()) } else { tree.insert(entry.clone()) };
        if let Some(before) = before {
            self.uids.remove(&before);
            for dependent in Dependent::of(&before) {
                self.dependents.remove(&dependent);
            }
        }
        if !entry.is_deleted() {
            self.uids.insert(entry);
            self.dependents.extend(Dependent::of(entry));
        }
    }
}

/// Entries by their uid, one pointer each.
#[derive(Debug, Default)]
struct Uids {
    // A table of pointers, because an entry knows its uid: a map would keep every uid a second time.
    table: HashTable<Arc<Entry>>,
    hasher: DefaultHashBuilder,
}

impl Uids {
    fn get(&self, uid: &Uid) -> Option<&Arc<Entry>> {
        self.table.find(self.hasher.hash_one(uid), |entry| entry.metadata().uid == *uid)
    }

    fn insert(&mut self, entry: &Arc<Entry>) {
        let uid = &entry.metadata().uid;
        if uid.is_empty() {
            return;
        }
        let Self { table, hasher } = self;
        table.insert_unique(hasher.hash_one(uid), entry.clone(), |entry| {
            hasher.hash_one(&entry.metadata().uid)
        });
    }

    fn remove(&mut self, entry: &Arc<Entry>) {
        let hash = self.hasher.hash_one(&entry.metadata().uid);
        // By identity, in case that two objects claim the same uid: the other one stays.
        if let Ok(found) = self.table.find_entry(hash, |other| Arc::ptr_eq(other, entry)) {
            found.remove();
        }
    }
}

/// That an object has an owner. Sorted by owner, then by key; one without an entry comes before all of its owner.
#[derive(Debug)]
struct Dependent {
    owner: Uid,
    entry: Option<Arc<Entry>>,
}

impl Dependent {
    fn of(entry: &Arc<Entry>) -> impl Iterator<Item = Self> {
        let owners = entry.metadata().owners.iter();
        owners.map(|owner| Self { owner: owner.clone(), entry: Some(entry.clone()) })
    }

    fn order(&self) -> (&Uid, Option<&Key>) {
        (&self.owner, self.entry.as_ref().map(|entry| entry.key()))
    }
}

impl PartialEq for Dependent {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Dependent {}

impl PartialOrd for Dependent {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Dependent {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}
