//! Sets of fields, as tries.
//!
//! Follows structured-merge-diff 6.3.3, `fieldpath/set.go`, `fieldpath/pathelementmap.go`.
//!
//! # Invariants
//! * The nodes of a level are sorted and different.
//! * A node is a member, or has members below it.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use ferroplane_cancellation::checkpoint;

use super::path::Element;

/// A set of paths.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Set<'a> {
    pub(super) nodes: Vec<SetNode<'a>>,
}

/// A step that is the last of a path in the set, or on the way to one, or both.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SetNode<'a> {
    pub(super) element: Element<'a>,
    pub(super) is_member: bool,
    pub(super) below: Set<'a>,
}

impl<'a> SetNode<'a> {
    pub(super) fn is_needed(&self) -> bool {
        self.is_member || !self.below.is_empty()
    }

    /// Adds the paths of a node of the same element. Says whether there were new ones.
    fn absorb(&mut self, other: SetNode<'a>) -> bool {
        let is_new = other.is_member && !self.is_member;
        self.is_member |= other.is_member;
        self.below.unite(other.below) || is_new
    }
}

impl<'a> Set<'a> {
    /// A set of paths through named fields.
    pub fn of_fields(paths: &[&[&'a str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let path: Vec<_> = path.iter().map(|name| Element::Field(Cow::Borrowed(*name))).collect();
            set.insert(&path);
        }
        set
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Whether all paths have one step.
    pub(crate) fn is_flat(&self) -> bool {
        self.nodes.iter().all(|node| node.below.is_empty())
    }

    /// How many paths there are.
    pub fn len(&self) -> usize {
        self.nodes.iter().map(|node| usize::from(node.is_member) + node.below.len()).sum()
    }

    /// Adds a path, without those that lead to it. The empty path stands for the whole object, which has no owner.
    pub fn insert(&mut self, path: &[Element<'a>]) {
        let Some((first, rest)) = path.split_first() else { return };
        let index = self.position_or_insert(first);
        match rest {
            [] => self.nodes[index].is_member = true,
            _ => self.nodes[index].below.insert(rest),
        }
    }

    fn position_or_insert(&mut self, element: &Element<'a>) -> usize {
        // Walks visit fields in order, so that most paths belong to the last node or behind it.
        let last = self.nodes.last().map_or(Ordering::Less, |node| node.element.compare(element));
        let position = match last {
            Ordering::Equal => return self.nodes.len() - 1,
            Ordering::Less => Err(self.nodes.len()),
            Ordering::Greater => self.position(element),
        };
        position.unwrap_or_else(|index| {
            let node = SetNode { element: element.clone(), is_member: false, below: Set::default() };
            self.nodes.insert(index, node);
            index
        })
    }

    fn position(&self, element: &Element<'_>) -> Result<usize, usize> {
        self.nodes.binary_search_by(|node| node.element.compare(element))
    }

    pub(super) fn node(&self, element: &Element<'_>) -> Option<&SetNode<'a>> {
        self.position(element).ok().map(|index| &self.nodes[index])
    }

    /// Whether the path itself is in the set.
    pub fn contains(&self, path: &[Element<'_>]) -> bool {
        match path {
            [] => false,
            [last] => self.node(last).is_some_and(|node| node.is_member),
            [first, rest @ ..] => self.node(first).is_some_and(|node| node.below.contains(rest)),
        }
    }

    /// Whether every path of the other set is in this one.
    pub fn contains_all(&self, other: &Set<'_>) -> bool {
        checkpoint();
        let mut nodes = self.nodes.iter();
        other.nodes.iter().all(|wanted| {
            // The iterator is not reset: both levels are sorted, so that one pass is enough.
            let found = nodes.find(|node| node.element.compare(&wanted.element).is_ge());
            found.is_some_and(|node| {
                node.element.compare(&wanted.element).is_eq()
                    && (node.is_member || !wanted.is_member)
                    && node.below.contains_all(&wanted.below)
            })
        })
    }

    /// Adds the paths of another set. Says whether there were new ones.
    pub fn unite(&mut self, other: Set<'a>) -> bool {
        if self.is_empty() {
            self.nodes = other.nodes;
            return !self.is_empty();
        }
        // A few nodes are cheaper to insert one by one; for many, each insertion would move the tail again.
        if other.nodes.len() > 8 {
            return self.interleave(other);
        }
        let mut is_changed = false;
        for node in other.nodes {
            let index = self.position_or_insert(&node.element);
            is_changed |= self.nodes[index].absorb(node);
        }
        is_changed
    }

    /// Adds the paths of another set in one pass, however many there are.
    fn interleave(&mut self, other: Set<'a>) -> bool {
        let mut is_changed = false;
        let mut others = other.nodes.into_iter().peekable();
        let own = std::mem::take(&mut self.nodes);
        self.nodes.reserve(own.len() + others.len());
        for mut node in own {
            while let Some(before) = others.next_if(|other| other.element.compare(&node.element).is_lt()) {
                self.nodes.push(before);
                is_changed = true;
            }
            if let Some(same) = others.next_if(|other| other.element == node.element) {
                is_changed |= node.absorb(same);
            }
            self.nodes.push(node);
        }
        is_changed |= others.len() > 0;
        self.nodes.extend(others);
        is_changed
    }

    /// The paths that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Set<'_>) -> Set<'a> {
        checkpoint();
        let mut nodes = Vec::new();
        let mut others = other.nodes.iter().peekable();
        for node in &self.nodes {
            if let Some(other) = seek(&mut others, &node.element) {
                let both = SetNode {
                    element: node.element.clone(),
                    is_member: node.is_member && other.is_member,
                    below: node.below.intersection(&other.below),
                };
                if both.is_needed() {
                    nodes.push(both);
                }
            }
        }
        Set { nodes }
    }

    /// Removes the paths of another set, but not what lies below them. Says whether there were any.
    pub fn subtract(&mut self, other: &Set<'_>) -> bool {
        checkpoint();
        if other.is_empty() {
            return false;
        }
        let mut is_changed = false;
        let mut others = other.nodes.iter().peekable();
        self.nodes.retain_mut(|node| {
            let Some(other) = seek(&mut others, &node.element) else { return true };
            is_changed |= node.is_member && other.is_member;
            node.is_member &= !other.is_member;
            is_changed |= node.below.subtract(&other.below);
            node.is_needed()
        });
        is_changed
    }

    /// Removes the paths of another set, and all that lies below them.
    pub fn subtract_trees(&mut self, other: &Set<'_>) {
        checkpoint();
        let mut others = other.nodes.iter().peekable();
        self.nodes.retain_mut(|node| {
            let Some(other) = seek(&mut others, &node.element) else { return true };
            if other.is_member {
                return false;
            }
            node.below.subtract_trees(&other.below);
            node.is_needed()
        });
    }

    /// The paths that no other path continues.
    #[must_use]
    pub fn leaves(&self) -> Set<'a> {
        let nodes = self.nodes.iter().map(|node| SetNode {
            element: node.element.clone(),
            is_member: node.below.is_empty(),
            below: node.below.leaves(),
        });
        Set { nodes: nodes.collect() }
    }

    /// Shows every path, those of a level before those below it.
    pub fn for_each(&self, visit: &mut impl FnMut(&[Element<'a>])) {
        self.walk(&mut Vec::new(), visit);
    }

    fn walk(&self, path: &mut Vec<Element<'a>>, visit: &mut impl FnMut(&[Element<'a>])) {
        checkpoint();
        // Members of a level first, then what lies below: upstream keeps the two in separate maps, and its
        // order shows in messages.
        for node in self.nodes.iter().filter(|node| node.is_member) {
            path.push(node.element.clone());
            visit(path);
            path.pop();
        }
        for node in self.nodes.iter().filter(|node| !node.below.is_empty()) {
            path.push(node.element.clone());
            node.below.walk(path, visit);
            path.pop();
        }
    }

    /// The paths as text, in the order of [`Set::for_each`].
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.for_each(&mut |path| paths.push(path.iter().map(Element::to_string).collect()));
        paths
    }

    /// An owned copy.
    pub fn into_owned(self) -> Set<'static> {
        let nodes = self.nodes.into_iter().map(|node| SetNode {
            element: node.element.into_owned(),
            is_member: node.is_member,
            below: node.below.into_owned(),
        });
        Set { nodes: nodes.collect() }
    }
}

/// The node of that element, skipping those before it.
fn seek<'n, 'a: 'n>(
    nodes: &mut std::iter::Peekable<impl Iterator<Item = &'n SetNode<'a>>>,
    element: &Element<'_>,
) -> Option<&'n SetNode<'a>> {
    while nodes.next_if(|node| node.element.compare(element).is_lt()).is_some() {}
    nodes.next_if(|node| node.element.compare(element).is_eq())
}

impl fmt::Display for Set<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.paths().join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(paths: &[&str]) -> Set<'static> {
        let mut set = Set::default();
        for path in paths {
            let path: Vec<_> = path.split('.').map(|name| Element::field(name.to_owned())).collect();
            set.insert(&path);
        }
        set
    }

    #[test]
    fn difference_keeps_what_lies_below_and_recursive_difference_does_not() {
        let all = set(&["a", "a.b", "a.b.c", "d"]);
        let mut kept = all.clone();
        kept.subtract(&set(&["a.b"]));
        assert_eq!(kept.paths(), [".a", ".d", ".a.b.c"]);
        let mut cut = all;
        cut.subtract_trees(&set(&["a.b"]));
        assert_eq!(cut.paths(), [".a", ".d"]);
    }

    #[test]
    fn branch_without_members_disappears() {
        let mut one = set(&["a.b.c"]);
        one.subtract(&set(&["a.b.c"]));
        assert!(one.is_empty());
        assert!(set(&["a.b"]).intersection(&set(&["a.c"])).is_empty());
    }

    #[test]
    fn set_contains_all_of_a_part_of_it() {
        let all = set(&["a", "a.b", "c.d"]);
        assert!(all.contains_all(&set(&["a.b", "c.d"])));
        assert!(!all.contains_all(&set(&["c"])));
        assert!(!all.contains_all(&set(&["b"])));
    }
}
