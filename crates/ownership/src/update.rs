//! Notes who changed what, when an object is created, replaced or patched.
//!
//! Follows structured-merge-diff 6.3.3, `merge/update.go`; apimachinery 0.36.4,
//! `pkg/util/managedfields/internal/structuredmerge.go`.

use std::sync::LazyLock;

use ferroplane_golang::json::JsonObject;
use serde_json::Value;

use super::entry::{decode, encode, is_reset, read_entries, read_list, take_entries, write_entries};
use super::ledger::{Comparisons, Identity, Ledger, Operation, Record, Versions};
use super::stamp::Stamp;
use super::{Request, VersionedKind, cap};
use crate::merge::compare::{Comparison, compare};
use crate::merge::is_too_deep;
use crate::merge::set::Set;
use crate::merge::validate::{Duplicates, validate};

/// Fields that never have an owner.
pub(super) static NEVER_OWNED: LazyLock<Set<'static>> = LazyLock::new(|| {
    Set::of_fields(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

/// An object with its new managed fields.
#[derive(Debug, Clone)]
pub struct Updated {
    pub object: JsonObject,
    /// Why the object lost its managed fields, if they could not be worked out. Worth a log line, no more.
    pub problem: Option<String>,
}

/// Notes in a new object what differs from the live one. Without a live one, the object is created.
pub fn update(
    live: Option<&JsonObject>,
    mut new: JsonObject,
    kind: &VersionedKind,
    request: &Request<'_>,
) -> Updated {
    let sent = take_entries(&mut new);
    match work_out(live, &new, sent.as_ref(), kind, request) {
        Ok(Worked { slots, is_sent }) => {
            let old = if is_sent { sent } else { live.and_then(live_entries).cloned() };
            write_entries(&mut new, old, slots);
            Updated { object: new, problem: None }
        }
        // An update never fails for its managed fields: the object is written without them, and its next
        // writer starts anew.
        Err(problem) => Updated { object: new, problem: Some(problem) },
    }
}

fn live_entries(live: &JsonObject) -> Option<&Value> {
    live.get("metadata")?.get("managedFields")
}

struct Worked {
    slots: Vec<super::entry::Slot>,
    /// Whether old entries are those that were sent, not those of the live object.
    is_sent: bool,
}

fn work_out(
    live: Option<&JsonObject>,
    new: &JsonObject,
    sent: Option<&Value>,
    kind: &VersionedKind,
    request: &Request<'_>,
) -> Result<Worked, String> {
    if is_too_deep(new) || live.is_some_and(is_too_deep) {
        return Err("object is nested too deeply".to_owned());
    }
    let empty = JsonObject::new();
    let before = live.unwrap_or(&empty);
    // Subresources cannot change the owners directly.
    let sent = sent.filter(|_| request.subresource.is_empty());
    let (mut ledger, is_sent) = choose(before, sent);
    // Owners are recorded from the start or not at all, until a manager applies.
    let is_untracked = ledger.records.is_empty() && has_uid(before);
    if !is_untracked {
        track(&mut ledger, before, new, kind, request)?;
    }
    Ok(Worked { slots: encode(&mut ledger), is_sent })
}

/// The owners that were sent, unless there are none or they are invalid.
fn choose<'a>(live: &'a JsonObject, sent: Option<&'a Value>) -> (Ledger<'a>, bool) {
    if let Some(entries) = sent.and_then(read_list) {
        if is_reset(&entries) {
            return (Ledger::default(), true);
        }
        match decode(entries) {
            Ok(ledger) if !ledger.records.is_empty() => return (ledger, true),
            _ => {}
        }
    }
    (decode(read_entries(live).unwrap_or_default()).unwrap_or_default(), false)
}

fn has_uid(object: &JsonObject) -> bool {
    let uid = object.get("metadata").and_then(|metadata| metadata.get("uid")).and_then(Value::as_str);
    uid.is_some_and(|uid| !uid.is_empty())
}

/// Gives what changed to the one who changed it.
pub(super) fn track<'a>(
    ledger: &mut Ledger<'a>,
    before: &'a JsonObject,
    after: &'a JsonObject,
    kind: &'a VersionedKind,
    request: &Request<'a>,
) -> Result<(), String> {
    let mut versions = Versions::new(kind, request);
    let shape = versions.current()?;
    let fits = |object: &JsonObject, what: &str| {
        let result = validate(object, shape, Duplicates::Allowed);
        result.map_err(|problems| {
            format!(
                "failed to convert {what} object ({}) to smd typed: {problems}",
                describe(object, kind, request)
            )
        })
    };
    // New before live, as upstream: the order decides which mistake is reported.
    fits(after, "new")?;
    fits(before, "live")?;
    let fail = |problem: String| {
        format!("failed to update ManagedFields ({}): {problem}", describe(after, kind, request))
    };
    ledger.reconcile(&mut versions, before).map_err(fail)?;
    let comparison = compare(before, after, shape);
    let comparison = comparison.map_err(|problems| fail(format!("failed to compare objects: {problems}")))?;
    let comparisons = in_all_versions(ledger, &versions, before, after, comparison, request).map_err(fail)?;
    // Also from the own entry: `note` below gives back what this write set.
    ledger.lose(None, &comparisons);
    if let Some(comparison) = comparisons.get(request.api_version) {
        note(ledger, comparison, request);
    }
    // Only updates are capped, and only after the new one was noted: it is the newest, and survives.
    cap::cap(ledger);
    Ok(())
}

/// What changes, as seen in each version that has owners.
pub(super) fn in_all_versions<'a>(
    ledger: &Ledger<'a>,
    versions: &Versions<'a>,
    before: &'a JsonObject,
    after: &'a JsonObject,
    mut comparison: Comparison<'a>,
    request: &Request<'a>,
) -> Result<Comparisons<'a>, String> {
    if let Some(reset) = request.reset(request.api_version) {
        reset.apply_to_comparison(&mut comparison);
    }
    let mut comparisons = Comparisons(vec![(request.api_version.into(), comparison)]);
    for record in &ledger.records {
        let version = &record.identity.api_version;
        if comparisons.get(version).is_some() {
            continue;
        }
        let seen = |what: &str, object: &'a JsonObject| {
            let seen = versions.converted(request.api_version, version, object);
            seen.map_err(|problem| format!("failed to convert {what} object: {problem}"))
        };
        let (Some(before), Some(after)) = (seen("old", before)?, seen("new", after)?) else { continue };
        let comparison = compare(&before.object, &after.object, after.shape).map(Comparison::into_owned);
        let mut comparison =
            comparison.map_err(|problems| format!("failed to compare objects: {problems}"))?;
        // The fields that may not be changed differ by version, as do their names.
        if let Some(reset) = request.reset(version) {
            reset.apply_to_comparison(&mut comparison);
        }
        comparisons.0.push((version.clone(), comparison));
    }
    Ok(comparisons)
}

fn note<'a>(ledger: &mut Ledger<'a>, comparison: &Comparison<'a>, request: &Request<'a>) {
    let mut set = comparison.modified.clone();
    set.unite(comparison.added.clone());
    set.subtract(&NEVER_OWNED);
    if set.is_empty() {
        return;
    }
    let identity = Identity::of(request, Operation::Update);
    let time = Stamp::parse(request.time);
    let Some(position) = ledger.position(&identity) else {
        let record = Record { identity, time, set, source: None, origin: None, is_retimed: false };
        return ledger.records.push(record);
    };
    let record = &mut ledger.records[position];
    if record.set.unite(set) {
        record.source = None;
    }
    // Only reached if something was set. `keep_times` undoes it if the object came out the same.
    record.retime(time);
}

/// An object in the words of errors: where it is, and what.
pub(super) fn describe(object: &JsonObject, kind: &VersionedKind, request: &Request<'_>) -> String {
    let metadata = object.get("metadata");
    let text =
        |name| metadata.and_then(|metadata| metadata.get(name)).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = request.api_version.split_once('/').unwrap_or(("", request.api_version));
    format!("{}/{}; {group}/{version}, Kind={}", text("namespace"), text("name"), kind.name)
}
