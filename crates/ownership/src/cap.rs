//! Keeps the list of owners short: the oldest of many updates become one entry.
//!
//! Follows apimachinery 0.36.4, `pkg/util/managedfields/internal/capmanagers.go`.

use std::collections::HashMap;

use super::ledger::{Identity, Ledger, Operation, Record};

/// How many entries of updates are kept apart.
// Kubernetes' `DefaultMaxUpdateManagers`. Appliers are never merged: they need to know what they applied.
const MAX_UPDATES: usize = 10;
const OLD_UPDATES: &str = "ancient-changes";

/// Merges the oldest updates of each version, until there are few enough.
pub(super) fn cap(ledger: &mut Ledger<'_>) {
    let count = ledger.records.iter().filter(|record| is_update(record)).count();
    if count <= MAX_UPDATES {
        return;
    }
    // By time, then by the text of the identity: upstream sorts so, and it decides which owners are merged.
    ledger.records.sort_by_cached_key(|record| {
        (record.time.as_ref().map_or(0, |time| time.seconds), record.identity.text())
    });
    // As options, so that merging can take records out without shifting the rest each time.
    let mut records: Vec<_> = std::mem::take(&mut ledger.records).into_iter().map(Some).collect();
    merge_oldest(&mut records, count - MAX_UPDATES);
    ledger.records = records.into_iter().flatten().collect();
}

fn is_update(record: &Record<'_>) -> bool {
    record.identity.operation == Operation::Update
}

fn bucket_of<'a>(record: &Record<'a>) -> Identity<'a> {
    Identity { manager: OLD_UPDATES.into(), subresource: "".into(), ..record.identity.clone() }
}

/// Merges so many of the oldest records, each into the one that stands for the old ones of its version.
fn merge_oldest(records: &mut [Option<Record<'_>>], mut excess: usize) {
    let mut buckets = HashMap::new();
    for (index, record) in records.iter().enumerate() {
        if let Some(record) = record.as_ref().filter(|record| record.identity.is_same(&bucket_of(record))) {
            buckets.insert(record.identity.api_version.to_string(), index);
        }
    }
    let mut firsts = HashMap::new();
    for index in 0..records.len() {
        let Some(record) = records[index].as_ref().filter(|record| is_update(record)) else { continue };
        if excess == 0 {
            return;
        }
        let version = record.identity.api_version.to_string();
        // A version with a single update keeps it: one record renamed to `ancient-changes` would save
        // nothing.
        let Some(first) = firsts.get(&version).copied() else {
            firsts.insert(version, index);
            continue;
        };
        let bucket = *buckets.entry(version).or_insert_with(|| {
            if let Some(first) = &mut records[first] {
                first.identity = bucket_of(first);
            }
            first
        });
        if bucket == index {
            continue;
        }
        if let (Some(old), Some(bucket)) = (records[index].take(), &mut records[bucket]) {
            bucket.set.unite(old.set);
            // Records come oldest first, so that the bucket has the time of the newest change in it.
            bucket.time = old.time;
            (bucket.source, bucket.origin) = (None, None);
            excess -= 1;
        }
    }
}
