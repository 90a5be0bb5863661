//! An ordered map of entries by path that is cloned in no time and then shares what stays the same.
//!
//! A B-tree whose nodes are shared until they are changed. Nodes know how many entries are below them, so that an entry's
//! place is found, and a range is counted, without walking over it.

use std::sync::Arc;

use super::entry::Entry;

/// How many children, or entries, a node has at most.
const WIDTH: usize = 32;
/// Below this a node is joined with a neighbour. A quarter, not half: what was just joined would be split again by the next
/// entry.
const NARROW: usize = WIDTH / 4;

/// Entries sorted by path.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    root: Option<Child>,
}

#[derive(Clone, Debug)]
enum Node {
    Leaf(Vec<Arc<Entry>>),
    Branch(Vec<Child>),
}

/// A node, and what its parent wants to know without looking into it.
#[derive(Clone, Debug)]
struct Child {
    node: Arc<Node>,
    /// The first entry below. Kept up to date, or it would keep an old one alive.
    first: Arc<Entry>,
    count: usize,
}

impl Tree {
    pub(super) fn len(&self) -> usize {
        self.root.as_ref().map_or(0, |root| root.count)
    }

    pub(super) fn get(&self, path: &str) -> Option<&Arc<Entry>> {
        let mut node = &*self.root.as_ref()?.node;
        loop {
            match node {
                Node::Leaf(entries) => return entries.get(find(entries, path).ok()?),
                Node::Branch(children) => node = &children[child_of(children, path)].node,
            }
        }
    }

    /// Put an entry at its path, and return what was there.
    pub(super) fn insert(&mut self, entry: Arc<Entry>) -> Option<Arc<Entry>> {
        let Some(root) = &mut self.root else {
            self.root = Some(Child::of(Node::Leaf(vec![entry])));
            return None;
        };
        let (replaced, split) = root.insert(entry);
        if let Some(split) = split {
            let children = vec![root.clone(), split];
            self.root = Some(Child::of(Node::Branch(children)));
        }
        replaced
    }

    /// Take out the entry at a path.
    pub(super) fn remove(&mut self, path: &str) -> Option<Arc<Entry>> {
        let root = self.root.as_mut()?;
        let removed = root.remove(path)?;
        if root.count == 0 {
            self.root = None;
        } else if let Node::Branch(children) = &*root.node
            && let [only] = &children[..]
        {
            self.root = Some(only.clone());
        }
        Some(removed)
    }

    /// How many entries have a path that is less than this.
    pub(super) fn rank(&self, path: &str) -> usize {
        let Some(root) = &self.root else { return 0 };
        let mut node = &*root.node;
        let mut rank = 0;
        loop {
            match node {
                Node::Leaf(entries) => return rank + find(entries, path).unwrap_or_else(|place| place),
                Node::Branch(children) => {
                    let index = child_of(children, path);
                    rank += children[..index].iter().map(|child| child.count).sum::<usize>();
                    node = &children[index].node;
                }
            }
        }
    }

    /// The entry at a place and those that follow it in its leaf. Empty after the end.
    pub(super) fn run_at(&self, rank: usize) -> &[Arc<Entry>] {
        let Some(root) = &self.root else { return &[] };
        if rank >= root.count {
            return &[];
        }
        let mut node = &*root.node;
        let mut rest = rank;
        loop {
            match node {
                Node::Leaf(entries) => return &entries[rest..],
                Node::Branch(children) => {
                    let mut index = 0;
                    while rest >= children[index].count {
                        rest -= children[index].count;
                        index += 1;
                    }
                    node = &children[index].node;
                }
            }
        }
    }
}

/// Where an entry is among entries, or would be.
fn find(entries: &[Arc<Entry>], path: &str) -> Result<usize, usize> {
    entries.binary_search_by(|entry| entry.key().path().cmp(path))
}

/// Which child a path is in, if it is anywhere.
fn child_of(children: &[Child], path: &str) -> usize {
    children.partition_point(|child| child.first.key().path() <= path).saturating_sub(1)
}

impl Child {
    /// A child of a node that is not empty.
    fn of(node: Node) -> Self {
        Self { first: node.first().clone(), count: node.count(), node: Arc::new(node) }
    }

    /// Insert below this child. If the node had to be split, its other half is returned.
    fn insert(&mut self, entry: Arc<Entry>) -> (Option<Arc<Entry>>, Option<Self>) {
        let node = Arc::make_mut(&mut self.node);
        let (replaced, split) = match node {
            Node::Leaf(entries) => match find(entries, entry.key().path()) {
                Ok(place) => (Some(std::mem::replace(&mut entries[place], entry)), None),
                Err(place) => (None, insert_at(entries, place, entry).map(Node::Leaf)),
            },
            Node::Branch(children) => {
                let index = child_of(children, entry.key().path());
                let (replaced, split) = children[index].insert(entry);
                let split = split.and_then(|split| insert_at(children, index + 1, split));
                (replaced, split.map(Node::Branch))
            }
        };
        self.first = node.first().clone();
        self.count = node.count();
        (replaced, split.map(Self::of))
    }

    /// Remove from below this child, which may be empty afterwards.
    fn remove(&mut self, path: &str) -> Option<Arc<Entry>> {
        let node = Arc::make_mut(&mut self.node);
        let removed = match node {
            Node::Leaf(entries) => entries.remove(find(entries, path).ok()?),
            Node::Branch(children) => {
                let index = child_of(children, path);
                let removed = children[index].remove(path)?;
                if children[index].count == 0 {
                    children.remove(index);
                } else if children[index].node.width() < NARROW {
                    join(children, index);
                }
                removed
            }
        };
        self.count = node.count();
        if self.count > 0 {
            self.first = node.first().clone();
        }
        Some(removed)
    }
}

impl Node {
    fn first(&self) -> &Arc<Entry> {
        match self {
            Self::Leaf(entries) => &entries[0],
            Self::Branch(children) => &children[0].first,
        }
    }

    fn count(&self) -> usize {
        match self {
            Self::Leaf(entries) => entries.len(),
            Self::Branch(children) => children.iter().map(|child| child.count).sum(),
        }
    }

    fn width(&self) -> usize {
        match self {
            Self::Leaf(entries) => entries.len(),
            Self::Branch(children) => children.len(),
        }
    }
}

/// Insert into a node's items. A full node is split first, and its second half returned.
fn insert_at<T>(items: &mut Vec<T>, place: usize, item: T) -> Option<Vec<T>> {
    if items.len() < WIDTH {
        items.insert(place, item);
        return None;
    }
    // Names that count upwards would leave every node half empty if it were always split in the middle.
    let middle = if place == items.len() { place } else { items.len() / 2 };
    let mut second = items.split_off(middle);
    if place >= middle {
        second.insert(place - middle, item);
    } else {
        items.insert(place, item);
    }
    Some(second)
}

/// Join a child with the one beside it, if both fit into one.
fn join(children: &mut Vec<Child>, index: usize) {
    let left = if index + 1 < children.len() { index } else { index.saturating_sub(1) };
    let Some(right) = children.get(left + 1) else { return };
    if children[left].node.width() + right.node.width() > WIDTH {
        return;
    }
    let right = Arc::unwrap_or_clone(children.remove(left + 1).node);
    match (Arc::make_mut(&mut children[left].node), right) {
        (Node::Leaf(entries), Node::Leaf(more)) => entries.extend(more),
        (Node::Branch(grandchildren), Node::Branch(more)) => grandchildren.extend(more),
        _ => unreachable!("all leaves are at the same depth"),
    }
    children[left].count = children[left].node.count();
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::json;

    use super::super::entry::Draft;
    use super::super::key::Collection;
    use super::*;

    fn entry(collection: &Collection, name: u16, revision: u64) -> Arc<Entry> {
        let name = format!("{name:04}");
        let draft = Draft::new(json!({"metadata": {}}).as_object().unwrap()).unwrap();
        Arc::new(Entry::written(collection.key("", &name), draft, revision))
    }

    fn revisions(tree: &Tree) -> Vec<u64> {
        let mut all = Vec::new();
        while all.len() < tree.len() {
            all.extend(tree.run_at(all.len()).iter().map(|entry| entry.revision()));
        }
        all
    }

    proptest! {
        #[test]
        fn tree_is_a_sorted_map_and_its_clones_stay_what_they_were(
            changes in prop::collection::vec((any::<bool>(), 0..400u16), 0..1500),
            clone_at in 0..1500usize,
            probe in 0..400u16,
        ) {
            let collection = Collection::new("c", 0, 0);
            let (mut tree, mut model) = (Tree::default(), BTreeMap::new());
            let mut kept = (tree.clone(), model.clone());
            for (index, (is_insert, name)) in changes.into_iter().enumerate() {
                let path = format!("{name:04}");
                if is_insert {
                    let before = tree.insert(entry(&collection, name, index as u64));
                    prop_assert_eq!(before.map(|entry| entry.revision()), model.insert(path, index as u64));
                } else {
                    let before = tree.remove(&path);
                    prop_assert_eq!(before.map(|entry| entry.revision()), model.remove(&path));
                }
                if index == clone_at {
                    kept = (tree.clone(), model.clone());
                }
            }
            for (tree, model) in [(&tree, &model), (&kept.0, &kept.1)] {
                let path = format!("{probe:04}");
                prop_assert_eq!(tree.len(), model.len());
                prop_assert_eq!(revisions(tree), model.values().copied().collect::<Vec<_>>());
                prop_assert_eq!(tree.get(&path).map(|entry| entry.revision()), model.get(&path).copied());
                prop_assert_eq!(tree.rank(&path), model.range(..path).count());
            }
        }
    }

    #[test]
    fn old_revisions_are_not_kept_alive_by_the_tree() {
        let collection = Collection::new("c", 0, 0);
        let mut tree = Tree::default();
        for name in 0..200 {
            tree.insert(entry(&collection, name, 1));
        }
        for name in 0..200 {
            let old = tree.insert(entry(&collection, name, 2)).unwrap();
            assert_eq!(Arc::strong_count(&old), 1);
        }
        for name in 0..200 {
            let old = tree.remove(&format!("{name:04}")).unwrap();
            assert_eq!(Arc::strong_count(&old), 1);
        }
    }
}
