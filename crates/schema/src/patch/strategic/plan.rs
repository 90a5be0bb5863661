//! Finds out what merging two lists of objects will do, before anything is moved.
//!
//! Our own design: upstream moves items while it merges; this decides first, so that nothing is copied twice.

use std::collections::HashMap;

use serde_json::Value;

use super::key::MergeKey;
use super::no_merge_key;
use super::order::Rank;
use crate::patch::Error;

/// What merging will do, found out before anything is moved.
#[derive(Default)]
pub(super) struct Plan {
    /// Whether each item of the object stays.
    pub(super) is_kept: Vec<bool>,
    /// For each item of the patch that is not a directive, the item of the merged list that it becomes part of.
    pub(super) targets: Vec<usize>,
    pub(super) ranks: Vec<Rank>,
    pub(super) memory: Vec<Value>,
    /// What is wrong with the lists, to be said if nothing is wrong with the items before.
    pub(super) failure: Option<Error>,
}

/// `memory` has the keys of the items, or is empty if they are not needed.
pub(super) fn plan(
    current: &[Value],
    patch: &[Value],
    deletions: &[Value],
    merge_key: &str,
    memory: Vec<Value>,
) -> Result<Plan, Error> {
    let keys =
        current.iter().map(|item| MergeKey::of_item(item, merge_key)).collect::<Result<Vec<_>, _>>()?;
    let (is_kept, mut memory) = delete(&keys, deletions, memory)?;
    let remaining: Vec<_> =
        keys.iter().zip(&is_kept).filter_map(|(key, kept)| kept.then_some(*key)).collect();
    let mut known = HashMap::with_capacity(remaining.len());
    for (index, key) in remaining.iter().enumerate() {
        // The first of several with one key: upstream searches from the front.
        known.entry(key.unwrap_or(MergeKey::Null)).or_insert(index);
    }
    let (mut merged, mut failure) = (remaining.clone(), None);
    let (mut targets, mut wanted, mut added) =
        (Vec::with_capacity(patch.len()), HashMap::new(), HashMap::new());
    for (index, item) in patch.iter().enumerate() {
        let Some(key) = MergeKey::of_item(item, merge_key)? else {
            // Not returned yet: upstream merges as it goes, and an error in an item before this one comes
            // first.
            failure = Some(no_merge_key(item, merge_key));
            break;
        };
        wanted.entry(key).or_insert(index);
        let existing =
            known.get(&key).filter(|index| remaining[**index].is_some()).or_else(|| added.get(&key));
        let target = existing.copied().unwrap_or_else(|| {
            if let Some(slot) = memory.get_mut(merged.len()) {
                *slot = item.get(merge_key).cloned().unwrap_or_default();
            }
            added.insert(key, merged.len());
            merged.push(Some(key));
            merged.len() - 1
        });
        targets.push(target);
    }
    let mut ranks = Vec::with_capacity(merged.len());
    for (index, key) in merged.iter().enumerate() {
        let Some(key) = key else { return Err(no_merge_key(nth_kept(current, &is_kept, index), merge_key)) };
        ranks.push(Rank { wanted: wanted.get(key).copied(), known: known.get(key).copied() });
    }
    Ok(Plan { is_kept, targets, ranks, memory, failure })
}

fn nth_kept<'v>(current: &'v [Value], is_kept: &[bool], index: usize) -> &'v Value {
    let mut kept = current.iter().zip(is_kept).filter(|(_, kept)| **kept);
    kept.nth(index).map_or(&Value::Null, |(item, _)| item)
}

/// Which items stay, and the keys that the memory of the list holds afterwards: items move up, and what they leave
/// behind at the end stays.
fn delete(
    keys: &[Option<MergeKey<'_>>],
    deletions: &[Value],
    memory: Vec<Value>,
) -> Result<(Vec<bool>, Vec<Value>), Error> {
    let mut is_kept = vec![true; keys.len()];
    if deletions.is_empty() {
        return Ok((is_kept, memory));
    }
    let mut places: HashMap<MergeKey<'_>, Vec<usize>> = HashMap::new();
    for (index, key) in keys.iter().enumerate() {
        if let Some(key) = key {
            places.entry(*key).or_default().push(index);
        }
    }
    let (mut last, mut left_behind) = (keys.len(), Vec::new());
    for deletion in deletions {
        for index in places.remove(&MergeKey::of(deletion)?).unwrap_or_default() {
            while last > 0 && !is_kept[last - 1] {
                last -= 1;
            }
            left_behind.extend(memory.get(last.saturating_sub(1)).cloned());
            is_kept[index] = false;
        }
    }
    let remaining = memory.into_iter().zip(&is_kept).filter_map(|(key, kept)| kept.then_some(key));
    let memory = remaining.chain(left_behind.into_iter().rev()).collect();
    Ok((is_kept, memory))
}
