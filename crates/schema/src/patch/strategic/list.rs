//! Merges lists.
//!
//! Follows apimachinery 0.36.4, `pkg/util/strategicpatch/patch.go`.

use std::collections::{HashMap, HashSet};

use ferroplane_cancellation::checkpoint;
use ferroplane_golang::fmt;
use serde_json::Value;

use super::key::MergeKey;
use super::order::{self, Rank};
use super::plan::plan;
use super::{DIRECTIVE, no_merge_key, wrong_type};
use crate::patch::Error;
use crate::patch::facts::{Found, Strategy};

pub(super) const MAP: &str = "map[string]interface {}";

/// A merged list.
pub(super) struct Merged {
    pub(super) items: Vec<Value>,
    /// If asked for, the keys in the order in which the items of the object were, according to the caller. Kubernetes reads
    /// them from the memory of the list as merging left it.
    pub(super) memory: Vec<Value>,
}

impl From<Vec<Value>> for Merged {
    fn from(items: Vec<Value>) -> Self {
        Self { items, memory: Vec::new() }
    }
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Merge,
    /// Take values out instead of merging them in.
    Delete,
    /// Merge, and tell the memory.
    Remember,
}

/// Merges a list of the patch into one of the object, or replaces it.
pub(super) fn merge(
    current: Vec<Value>,
    patch: Vec<Value>,
    found: Found<'_>,
    mode: Mode,
    depth: usize,
) -> Result<Merged, Error> {
    let is_deletion = mode == Mode::Delete;
    // Lists are replaced unless the type says otherwise, and their nulls and directives are kept then.
    if found.strategy != Strategy::Merge && !is_deletion {
        let memory = if mode == Mode::Remember { keys(&current, found.merge_key) } else { Vec::new() };
        return Ok(Merged { memory, items: patch });
    }
    if current.is_empty() && patch.is_empty() {
        return Ok(current.into());
    }
    if is_of_objects(&current, &patch)? {
        return merge_objects(current, patch, found, mode == Mode::Remember, depth);
    }
    if is_deletion {
        return delete_values(current, &patch);
    }
    let memory = if mode == Mode::Remember { current.clone() } else { Vec::new() };
    let items = merge_values(current, patch, found.merge_key)?;
    Ok(Merged { items, memory })
}

/// Whether the items are objects. All must be of one type, and none may be a list.
pub(super) fn is_of_objects(current: &[Value], patch: &[Value]) -> Result<bool, Error> {
    let mut items = current.iter().chain(patch);
    let first =
        items.next().ok_or_else(|| Error::Internal("no elements in any of the given slices".to_owned()))?;
    if first.is_array() {
        return Err(Error::NotApplicable("lists of lists are not supported".to_owned()));
    }
    // Integers and floats are different types here: `1` and `1.5` in one list are refused, as in Go.
    if first.is_null() || !items.all(|item| fmt::is_same_type(first, item)) {
        return Err(Error::Internal(format!(
            "list element types are not identical: [{} {}]",
            fmt::plain_list(current),
            fmt::plain_list(patch)
        )));
    }
    Ok(first.is_object())
}

fn delete_values(mut current: Vec<Value>, patch: &[Value]) -> Result<Merged, Error> {
    let deleted = patch.iter().map(MergeKey::of).collect::<Result<HashSet<_>, _>>()?;
    current.retain(|item| MergeKey::of(item).is_ok_and(|key| !deleted.contains(&key)));
    Ok(current.into())
}

/// Both lists, every value once.
fn merge_values(current: Vec<Value>, patch: Vec<Value>, merge_key: &str) -> Result<Vec<Value>, Error> {
    if !merge_key.is_empty()
        && let Some(item) = current.iter().chain(&patch).next()
    {
        return Err(wrong_type(MAP, item));
    }
    let mut ranks = Vec::new();
    let mut kept = vec![false; current.len() + patch.len()];
    {
        let known = positions(&current)?;
        let wanted = positions(&patch)?;
        let mut seen = HashSet::new();
        for (index, item) in current.iter().chain(&patch).enumerate() {
            let key = MergeKey::of(item)?;
            if seen.insert(key) {
                kept[index] = true;
                ranks.push(Rank { wanted: wanted.get(&key).copied(), known: known.get(&key).copied() });
            }
        }
    }
    let items = current.into_iter().chain(patch).zip(kept);
    let items = items.filter_map(|(item, is_kept)| is_kept.then_some(item)).collect();
    Ok(order::permute(items, &order::arrange(&ranks)))
}

/// Where each value is first.
fn positions(items: &[Value]) -> Result<HashMap<MergeKey<'_>, usize>, Error> {
    let mut positions = HashMap::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        positions.entry(MergeKey::of(item)?).or_insert(index);
    }
    Ok(positions)
}

fn merge_objects(
    current: Vec<Value>,
    patch: Vec<Value>,
    found: Found<'_>,
    remembers: bool,
    depth: usize,
) -> Result<Merged, Error> {
    let Found { scope, merge_key, .. } = found;
    if merge_key.is_empty() {
        let kind = scope.kind();
        return Err(Error::Internal(format!("cannot merge lists without merge key for {kind}")));
    }
    let (ordinary, deletions, is_replaced) = directives(patch, merge_key)?;
    let memory = if remembers { keys(&current, merge_key) } else { Vec::new() };
    if is_replaced {
        // Replacing does not move the old items, but deletions in the same patch do; `$setElementOrder` reads
        // what they left.
        let memory = plan(&current, &[], &deletions, merge_key, memory)
            .map_or_else(|_| Vec::new(), |plan| plan.memory);
        let plan = plan(&ordinary, &[], &[], merge_key, Vec::new())?;
        plan.failure.map_or(Ok(()), Err)?;
        let order = order::arrange(&plan.ranks);
        return Ok(Merged { items: order::permute(ordinary, &order), memory });
    }
    let plan = plan(&current, &ordinary, &deletions, merge_key, memory)?;
    let kept = current.into_iter().zip(plan.is_kept).filter_map(|(item, is_kept)| is_kept.then_some(item));
    let mut merged: Vec<_> = kept.collect();
    for (item, target) in ordinary.into_iter().zip(plan.targets) {
        checkpoint();
        match (merged.get_mut(target), item) {
            (Some(Value::Object(current)), Value::Object(item)) => {
                super::merge(current, item, scope, depth + 1)?;
            }
            (_, item) => merged.push(item),
        }
    }
    plan.failure.map_or(Ok(()), Err)?;
    Ok(Merged { items: order::permute(merged, &order::arrange(&plan.ranks)), memory: plan.memory })
}

/// Takes the directives out of a list: what is left, the keys to delete, and whether to replace the whole.
fn directives(patch: Vec<Value>, merge_key: &str) -> Result<(Vec<Value>, Vec<Value>, bool), Error> {
    let (mut ordinary, mut deletions, mut is_replaced) = (Vec::with_capacity(patch.len()), Vec::new(), false);
    for mut item in patch {
        let Some(directive) = item.get(DIRECTIVE) else {
            ordinary.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => match item.get_mut(merge_key) {
                Some(key) => deletions.push(key.take()),
                None => return Err(no_merge_key(&item, merge_key)),
            },
            Some("replace") => is_replaced = true,
            Some("merge") => {
                return Err(Error::Internal("merging lists cannot yet be specified in the patch".to_owned()));
            }
            _ => {
                let item = item.as_object().cloned().unwrap_or_default();
                return Err(super::unknown_directive(item.get(DIRECTIVE).unwrap_or(&Value::Null), &item));
            }
        }
    }
    Ok((ordinary, deletions, is_replaced))
}

/// The keys of the items, null where there is none.
pub(super) fn keys(items: &[Value], merge_key: &str) -> Vec<Value> {
    if merge_key.is_empty() {
        return items.to_vec();
    }
    items.iter().map(|item| item.get(merge_key).cloned().unwrap_or_default()).collect()
}
