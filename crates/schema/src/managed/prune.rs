//! Removes from an object what its applier applied before, does not apply now, and nobody else owns.

use super::ledger::{Ledger, Versions};
use crate::merge::Object;
use crate::merge::lost::{all_fields, lost_fields};
use crate::merge::remove::remove_items;
use crate::merge::set::Set;
use crate::merge::shape::Cursor;

/// Whether nothing can have to be removed: all that was applied is applied again.
pub(super) fn is_superfluous(last: &Set<'_>, now: &Set<'_>, live: &Object, shape: Cursor<'_>) -> bool {
    now.contains_all(last) && now.is_firm(live, shape)
}

/// What has to go from an object, if all is in one version and nothing about it is odd.
pub(super) fn gone(
    merged: &Object,
    ledger: &Ledger<'_>,
    last: &Set<'_>,
    shape: Cursor<'_>,
) -> Option<Set<'static>> {
    let mut last = last.clone();
    last.add_declared_fields(Some(shape));
    let mut unowned = lost_fields(merged, &last, shape)?;
    for record in &ledger.records {
        unowned.subtract_with_declared(&record.set, Some(shape));
    }
    Some(lost_fields(merged, &unowned, shape)?.intersection(&last).into_owned())
}

/// An object in some version.
struct Versioned<'a> {
    object: Object,
    version: &'a str,
}

/// The object without what has to go. `ledger` has what is applied now, `last` what was applied before.
pub(super) fn prune(
    merged: Object,
    ledger: &Ledger<'_>,
    last: &Set<'_>,
    last_version: &str,
    versions: &Versions<'_>,
    version: &str,
) -> Result<Object, String> {
    let fail = |what: &'static str| move |problem: String| format!("failed to {what}: {problem}");
    let shape = versions.converted(version, last_version, &merged);
    let shape = shape.map_err(fail("convert merged object to last applied version"))?;
    let Some(shape) = shape else { return Ok(merged) };
    let mut last = last.clone();
    last.add_declared_fields(Some(shape));
    let mut pruned = Versioned { object: merged.clone(), version: last_version };
    remove_items(&mut pruned.object, &last, shape);
    let added = add_back_owned(&merged, &mut pruned, ledger, versions, last_version);
    added.map_err(|problem| format!("failed add back owned items: {problem}"))?;
    let converted = versions.converted(pruned.version, last_version, &pruned.object);
    converted.map_err(|problem| {
        format!("failed add back dangling items: failed to convert pruned object to last applied version: {problem}")
    })?;
    let gone = {
        let mut gone = all_fields(&merged, shape);
        gone.subtract(&all_fields(&pruned.object, shape));
        gone.intersection(&last).into_owned()
    };
    let mut kept = merged;
    remove_items(&mut kept, &gone, shape);
    versions.converted(last_version, version, &kept)?;
    Ok(kept)
}

/// Puts back what somebody owns, or nobody ever owned, version by version.
fn add_back_owned<'a>(
    merged: &Object,
    pruned: &mut Versioned<'a>,
    ledger: &'a Ledger<'_>,
    versions: &Versions<'_>,
    first: &'a str,
) -> Result<(), String> {
    let mut all: Vec<&str> = ledger.records.iter().map(|record| &*record.identity.api_version).collect();
    all.sort_unstable();
    all.dedup();
    // The version that was pruned comes first.
    all.sort_by_key(|version| *version != first);
    let mut merged_version = first;
    for version in all {
        let convert = |what: &'static str, from: &str, object: &Object| {
            let shape = versions.converted(from, version, object);
            shape
                .map_err(|problem| format!("failed to convert {what} object at version {version}: {problem}"))
        };
        let Some(shape) = convert("merged", merged_version, merged)? else { continue };
        merged_version = version;
        convert("pruned", pruned.version, &pruned.object)?;
        let mut owned = Set::default();
        for record in ledger.records.iter().filter(|record| record.identity.api_version == version) {
            owned.unite(record.set.clone());
        }
        owned.add_declared_fields(Some(shape));
        let gone = {
            let mut gone = all_fields(merged, shape);
            gone.subtract(&all_fields(&pruned.object, shape));
            gone.subtract(&owned);
            gone.into_owned()
        };
        pruned.object.clone_from(merged);
        remove_items(&mut pruned.object, &gone, shape);
        pruned.version = version;
    }
    Ok(())
}
