//! In which order the items of a merged list are: those that the patch names in the order of the patch, the others in
//! the order in which they were, and both together so that neither order is broken.
//!
//! Follows apimachinery 0.36.4, `pkg/util/strategicpatch/patch.go`.

use std::cmp::Ordering;

/// What is known about the place of an item.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rank {
    /// Its place in the patch, if the patch names it.
    pub(super) wanted: Option<usize>,
    /// Its place in the list as it was, if it was there.
    pub(super) known: Option<usize>,
}

/// The items' indices in their new order.
pub(super) fn arrange(ranks: &[Rank]) -> Vec<usize> {
    let (mut wanted, mut others): (Vec<usize>, Vec<usize>) =
        (0..ranks.len()).partition(|index| ranks[*index].wanted.is_some());
    sort(&mut wanted, |index| ranks[index].wanted);
    sort(&mut others, |index| ranks[index].known);
    interleave(&others, &wanted, |index| ranks[index].known)
}

/// Below this, Go sorts by insertion, and what has no rank comes to lie in a way of its own.
const INSERTION_LIMIT: usize = 20;

fn sort(indices: &mut [usize], rank: impl Fn(usize) -> Option<usize>) {
    let is_ranked = indices.iter().all(|index| rank(*index).is_some());
    // With all ranks known any stable sort gives Go's order; without, the comparison is not transitive, and
    // only its own algorithm does.
    if is_ranked || indices.len() > INSERTION_LIMIT {
        indices.sort_by_key(|index| rank(*index));
        return;
    }
    for end in 1..indices.len() {
        let mut position = end;
        while position > 0 && is_less(rank(indices[position]), rank(indices[position - 1])) {
            indices.swap(position, position - 1);
            position -= 1;
        }
    }
}

fn is_less(one: Option<usize>, other: Option<usize>) -> bool {
    one.zip(other).is_none_or(|(one, other)| one < other)
}

/// Takes from the left only what is known to come before the next of the right.
fn interleave(left: &[usize], right: &[usize], rank: impl Fn(usize) -> Option<usize>) -> Vec<usize> {
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    while let (Some(one), Some(other)) = (left.peek(), right.peek()) {
        let order = rank(**one).zip(rank(**other)).map(|(one, other)| one.cmp(&other));
        merged.extend(if order == Some(Ordering::Less) { left.next() } else { right.next() });
    }
    merged.extend(left.chain(right));
    merged
}

/// Moves items to where they belong.
pub(super) fn permute<T>(items: Vec<T>, order: &[usize]) -> Vec<T> {
    if order.is_sorted() {
        return items;
    }
    let mut items: Vec<_> = items.into_iter().map(Some).collect();
    order.iter().filter_map(|index| items.get_mut(*index)?.take()).collect()
}
