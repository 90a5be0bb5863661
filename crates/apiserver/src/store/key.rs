//! Names of things: collections, and keys in them.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::watch_cache::WatchCache;

/// A collection of objects, such as `apps/deployments`. Cheap to clone; a store has one of each name.
#[derive(Clone)]
pub struct Collection(Arc<Inner>);

struct Inner {
    name: Box<str>,
    index: usize,
    watch_cache: WatchCache,
}

impl Collection {
    pub(super) fn new(name: &str, index: usize, floor: u64) -> Self {
        Self(Arc::new(Inner { name: name.into(), index, watch_cache: WatchCache::new(floor) }))
    }

    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The key of an object here; the namespace is empty where there is none.
    pub fn key(&self, namespace: &str, name: &str) -> Key {
        Key {
            collection: self.clone(),
            path: path(namespace, name).into(),
            namespace_length: u32::try_from(namespace.len()).unwrap_or(u32::MAX),
        }
    }

    /// Where this collection stands in the state.
    pub(super) fn index(&self) -> usize {
        self.0.index
    }

    pub(super) fn watch_cache(&self) -> &WatchCache {
        &self.0.watch_cache
    }
}

impl PartialEq for Collection {
    fn eq(&self, other: &Self) -> bool {
        // A store has one of each name, so that identity is equality, and costs no comparison of text.
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Collection {}

impl fmt::Debug for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What names one object in a store.
#[derive(Clone)]
pub struct Key {
    collection: Collection,
    path: Box<str>,
    namespace_length: u32,
}

impl Key {
    pub fn collection(&self) -> &Collection {
        &self.collection
    }

    pub fn namespace(&self) -> &str {
        self.path.get(..self.namespace_length as usize).unwrap_or_default()
    }

    pub fn name(&self) -> &str {
        let start = if self.namespace_length == 0 { 0 } else { self.namespace_length as usize + 1 };
        self.path.get(start..).unwrap_or_default()
    }

    /// `namespace/name`, or `name`: unique in the collection, and what it is sorted by, as Kubernetes sorts.
    pub fn path(&self) -> &str {
        &self.path
    }

    fn order(&self) -> (usize, &str) {
        // By the index, and not by the name: keys are compared in every lookup of the tree.
        (self.collection.index(), &self.path)
    }
}

/// The path of an object in its collection.
pub(super) fn path<'a>(namespace: &str, name: &'a str) -> Cow<'a, str> {
    if namespace.is_empty() { Cow::Borrowed(name) } else { Cow::Owned(format!("{namespace}/{name}")) }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.order().hash(state);
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.collection.name(), self.path)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_give_back_what_they_were_made_of_and_sort_as_kubernetes_does() {
        let pods = Collection::new("pods", 0, 0);
        for (namespace, name) in [("", "a"), ("n", "a.b"), ("n-m", "x")] {
            let key = pods.key(namespace, name);
            assert_eq!((key.namespace(), key.name()), (namespace, name));
        }
        assert!(pods.key("a-b", "x") < pods.key("a", "x"), "`-` sorts before `/`");
    }
}
