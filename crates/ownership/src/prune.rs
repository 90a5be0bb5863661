//! Removes from an object what its applier applied before, does not apply now, and no other manager owns.
//!
//! Follows structured-merge-diff 6.3.3, `merge/update.go`.

use ferroplane_golang::json::JsonObject;

use super::ledger::{Ledger, Seen, Versions};
use crate::merge::lost::{all_fields, lost_fields};
use crate::merge::remove::remove_items;
use crate::merge::set::Set;
use crate::merge::shape::Cursor;

/// Whether nothing can have to be removed: all that was applied is applied again.
pub(super) fn is_superfluous(last: &Set<'_>, now: &Set<'_>, live: &JsonObject, shape: Cursor<'_>) -> bool {
    now.contains_all(last) && now.is_firm(live, shape)
}

/// What has to go from an object, if all is in one version and nothing about it is odd.
pub(super) fn gone(
    merged: &JsonObject,
    ledger: &Ledger<'_>,
    last: &Set<'_>,
    shape: Cursor<'_>,
) -> Option<Set<'static>> {
    let mut last = last.clone();
    // Upstream ensures named fields are members (`EnsureNamedFieldsAreMembers`), so that a declared object
    // goes when all of it goes.
    last.add_declared_fields(Some(shape));
    let mut unowned = lost_fields(merged, &last, shape)?;
    for record in &ledger.records {
        unowned.subtract_with_declared(&record.set, Some(shape));
    }
    // Fields without an owner are removed first, then the real losses are determined; only fields that this applier
    // had may be removed.
    Some(lost_fields(merged, &unowned, shape)?.intersection(&last).into_owned())
}

/// An object in some version.
struct Versioned<'a> {
    object: JsonObject,
    version: &'a str,
}

/// The object without what has to go. `ledger` has what is applied now, `last` what was applied before.
pub(super) fn prune(
    merged: JsonObject,
    ledger: &Ledger<'_>,
    last: &Set<'_>,
    last_version: &str,
    versions: &Versions<'_>,
    version: &str,
) -> Result<JsonObject, String> {
    let fail = |what: &'static str| move |problem: String| format!("failed to {what}: {problem}");
    let seen = versions.converted(version, last_version, &merged);
    let seen = seen.map_err(fail("convert merged object to last applied version"))?;
    // The version of the last apply is gone: nothing can be pruned in it.
    let Some(Seen { object, shape }) = seen else { return Ok(merged) };
    let mut kept = object.into_owned();
    let mut last = last.clone();
    last.add_declared_fields(Some(shape));
    let mut pruned = Versioned { object: kept.clone(), version: last_version };
    remove_items(&mut pruned.object, &last, shape);
    let added = add_back_owned(kept.clone(), &mut pruned, ledger, versions);
    added.map_err(|problem| format!("failed add back owned items: {problem}"))?;
    let pruned = versions.converted(pruned.version, last_version, &pruned.object);
    let pruned = pruned.map_err(|problem| {
        format!("failed add back dangling items: failed to convert pruned object to last applied version: {problem}")
    })?;
    if let Some(pruned) = pruned {
        let gone = {
            // "Dangling" items come back here: removing an item of a list removes what others left below it,
            // which only the difference of the whole shows.
            let mut gone = all_fields(&kept, shape);
            gone.subtract(&all_fields(&pruned.object, shape));
            gone.intersection(&last).into_owned()
        };
        remove_items(&mut kept, &gone, shape);
    }
    let back = versions.converted(last_version, version, &kept)?.map(|seen| seen.object.into_owned());
    Ok(back.unwrap_or(kept))
}

/// Puts back fields that have an owner, or never had one, version by version.
fn add_back_owned<'a>(
    merged: JsonObject,
    pruned: &mut Versioned<'a>,
    ledger: &'a Ledger<'_>,
    versions: &Versions<'_>,
) -> Result<(), String> {
    let first = pruned.version;
    let mut merged = Versioned { object: merged, version: first };
    let mut all: Vec<&str> = ledger.records.iter().map(|record| &*record.identity.api_version).collect();
    all.sort_unstable();
    all.dedup();
    // The version that was pruned comes first.
    // The sort is stable, so that the others stay in order and the result does not depend on that of the
    // owners.
    all.sort_by_key(|version| *version != first);
    for version in all {
        let convert = |what: &'static str, from: &Versioned<'_>| {
            let seen = versions.converted(from.version, version, &from.object);
            let seen = seen.map(|seen| seen.map(|seen| (seen.object.into_owned(), seen.shape)));
            seen.map_err(|problem| format!("failed to convert {what} object at version {version}: {problem}"))
        };
        let Some((object, shape)) = convert("merged", &merged)? else { continue };
        merged = Versioned { object, version };
        let Some((before, _)) = convert("pruned", pruned)? else { continue };
        let mut owned = Set::default();
        for record in ledger.records.iter().filter(|record| record.identity.api_version == version) {
            owned.unite(record.set.clone());
        }
        owned.add_declared_fields(Some(shape));
        let gone = {
            let mut gone = all_fields(&merged.object, shape);
            gone.subtract(&all_fields(&before, shape));
            gone.subtract(&owned);
            gone.into_owned()
        };
        pruned.object.clone_from(&merged.object);
        remove_items(&mut pruned.object, &gone, shape);
        pruned.version = version;
    }
    Ok(())
}
