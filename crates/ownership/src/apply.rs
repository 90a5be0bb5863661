//! Merges a configuration into an object, for an owner.
//!
//! Follows structured-merge-diff 6.3.3, `merge/update.go`; apimachinery 0.36.4,
//! `pkg/util/managedfields/internal/structuredmerge.go`.

use std::sync::LazyLock;

use ferroplane_golang::json::JsonObject;
use serde_json::Value;

use super::conflict::{ApplyError, Taken, conflicts};
use super::entry::{decode, encode, is_same, read_entries};
use super::ledger::{Comparisons, Identity, Ledger, Operation, Record, Versions};
use super::plan::{Edit, Plan, is_equal_but_managed};
use super::prune::{gone, is_superfluous, prune};
use super::stamp::Stamp;
use super::update::{NEVER_OWNED, describe, in_all_versions, track};
use super::{Filter, Request, VersionedKind, last_applied};
use crate::merge::combine::combine;
use crate::merge::compare::{Comparison, compare};
use crate::merge::fieldset::{field_set, is_field_set_of};
use crate::merge::is_too_deep;
use crate::merge::lost::compare_without;
use crate::merge::path::are_equal_objects;
use crate::merge::remove::remove_items;
use crate::merge::set::Set;
use crate::merge::shape::Cursor;
use crate::merge::validate::{Duplicates, validate};

/// Works out what applying a configuration means for an object. Without a live one, the object is created.
pub fn apply<'c>(
    live: Option<&JsonObject>,
    applied: &'c JsonObject,
    kind: &'c VersionedKind,
    request: &Request<'_>,
    is_forced: bool,
) -> Result<Plan<'c>, ApplyError> {
    // All walks below recurse, and an object may come from anybody; this is the only place that bounds them
    // for an apply.
    if is_too_deep(applied) || live.is_some_and(is_too_deep) {
        return Err(ApplyError::BadRequest("object is nested too deeply".to_owned()));
    }
    let work = Work { live: live.unwrap_or(&NOTHING), applied, kind, request };
    let taken = match work.attempt(is_forced)? {
        Attempt::Done(plan) => return Ok(plan),
        Attempt::Conflicts(taken) => taken,
    };
    // Only `kubectl` migrates from client-side apply. Any other client with conflicts gets an error, and may force.
    if request.manager != last_applied::MANAGER {
        return Err(conflicts(taken, None));
    }
    let Some(allowed) = last_applied::allowed(work.live, kind, request) else {
        return Err(conflicts(taken, None));
    };
    if !last_applied::covers(&allowed, &taken) {
        return Err(conflicts(taken, Some(&allowed)));
    }
    // All conflicts are about fields that client-side apply set, so that forcing takes nothing from anybody
    // else.
    match work.attempt(true)? {
        Attempt::Done(plan) => Ok(plan),
        Attempt::Conflicts(taken) => Err(conflicts(taken, None)),
    }
}

/// What does not change while a configuration is applied.
#[derive(Clone, Copy)]
struct Work<'a, 'c> {
    live: &'a JsonObject,
    applied: &'c JsonObject,
    kind: &'c VersionedKind,
    request: &'a Request<'a>,
}

enum Attempt<'a, 'c> {
    Done(Plan<'c>),
    Conflicts(Taken<'a>),
}

/// The object after the merge, as far as it had to be worked out.
struct Merged<'a, 'c> {
    edit: Edit<'c>,
    comparison: Comparison<'a>,
}

impl<'a, 'c: 'a> Work<'a, 'c> {
    fn attempt(self, is_forced: bool) -> Result<Attempt<'a, 'c>, ApplyError> {
        // Every attempt starts from the live object again: the first one has changed its ledger already.
        let mut ledger = self.owners()?;
        let mut versions = Versions::new(self.kind, self.request);
        let shape = self.kind.shape(self.request.api_version);
        let shape = shape.ok_or_else(|| ApplyError::Failed(versions.unknown()))?;
        self.check_values(shape)?;
        // Before anything is compared: a schema may have made a list atomic since its owners were noted, and
        // what they own must be mentioned in the same terms.
        ledger.reconcile(&mut versions, self.live).map_err(ApplyError::Failed)?;

        let identity = Identity::of(self.request, Operation::Apply);
        let last = self.enter(&mut ledger, &identity, shape);

        let merged = self.merge(&ledger, last.as_ref(), &versions, shape).map_err(ApplyError::Failed)?;
        // The short cuts in `merge` and `enter` are for speed only. Debug builds and fuzzing check each
        // against the long way.
        debug_assert!(
            self.is_as_in_full(&merged, &ledger, last.as_ref(), &versions),
            "a short cut leads elsewhere"
        );
        let after = self.seen_by_others(&ledger, &merged);
        let comparisons = self.compare(&ledger, &versions, after.as_ref(), merged.comparison);
        let comparisons = comparisons.map_err(ApplyError::Failed)?;
        // Looked up again, because `enter` moves the own record to the end.
        let own = ledger.position(&identity);
        if !is_forced {
            let taken = ledger.conflicts(own, &comparisons);
            if !taken.is_empty() {
                return Ok(Attempt::Conflicts(taken));
            }
        }
        // A user who applies keeps what it names, even where the value changes; everybody else loses what
        // changes.
        ledger.lose(Some(&identity), &comparisons);
        drop(comparisons);
        // Last, when the ledger says what remains: an owner of nothing is dropped, and a time moves only with
        // a change.
        self.settle(&mut ledger, &identity, last, &merged.edit);
        Ok(Attempt::Done(self.plan(ledger, merged.edit)))
    }

    /// Enters the one who applies with what it names. Gives back what it owned, if that was something else.
    fn enter(
        self,
        ledger: &mut Ledger<'a>,
        identity: &Identity<'a>,
        shape: Cursor<'a>,
    ) -> Option<Record<'a>> {
        // The order of records does not matter until `encode` sorts them, and the own one is expected last.
        let last = ledger.position(identity).map(|position| ledger.records.swap_remove(position));
        match last {
            // Most of the time, what is applied is what was applied before.
            Some(last) if self.is_repeated(&last, ledger, shape) => {
                ledger.records.push(last);
                None
            }
            last => {
                // The old time stays for now; `settle` gives a new one if the object changes.
                let time = last.as_ref().and_then(|last| last.time.clone());
                let origin = last.as_ref().and_then(|last| last.origin);
                let (identity, set) = (identity.clone(), self.named(shape));
                ledger.records.push(Record { identity, time, set, source: None, origin, is_retimed: false });
                last
            }
        }
    }

    /// The owners of the live object. If there are none, `before-first-apply` owns the fields from before the first apply.
    fn owners(self) -> Result<Ledger<'a>, ApplyError> {
        let ledger = decode(read_entries(self.live).unwrap_or_default());
        let fail = |problem| ApplyError::Failed(format!("failed to decode managed fields: {problem}"));
        let mut ledger = ledger.map_err(fail)?;
        self.check_type()?;
        // Otherwise the first apply would own nothing of what exists and remove nothing that it drops: the
        // fields of the time before get an owner, as in Kubernetes' `skipNonAppliedManager`.
        if ledger.records.is_empty() {
            let request = Request { manager: "before-first-apply", ..*self.request };
            let tracked = track(&mut ledger, &NOTHING, self.live, self.kind, &request);
            tracked.map_err(|problem| {
                ApplyError::Failed(format!("failed to create manager for existing fields: {problem}"))
            })?;
        }
        // Checked after the live object was read, as upstream does: the order decides which of two mistakes is reported.
        if read_entries(self.applied).is_some() {
            return Err(ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()));
        }
        Ok(ledger)
    }

    fn check_type(self) -> Result<(), ApplyError> {
        let text = |name: &str| self.applied.get(name).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        if api_version == self.request.api_version && kind == self.kind.name {
            return Ok(());
        }
        let (group, version, kind) = match api_version.split_once('/') {
            None => ("", api_version, kind),
            // A group version with two slashes cannot be parsed, and Go prints the empty value then.
            Some((_, version)) if version.contains('/') => ("", "", ""),
            Some((group, version)) => (group, version, kind),
        };
        Err(ApplyError::BadRequest(format!("invalid object type: {group}/{version}, Kind={kind}")))
    }

    fn check_values(self, shape: Cursor<'a>) -> Result<(), ApplyError> {
        let fail = |what: &str, object: &JsonObject, problems: &dyn std::fmt::Display| {
            let object = describe(object, self.kind, self.request);
            ApplyError::Failed(format!("failed to create typed {what} object ({object}): {problems}"))
        };
        // Live objects may hold duplicates from before their list became a set; what is applied may not add
        // any.
        let applied = validate(self.applied, shape, Duplicates::Refused);
        applied.map_err(|problems| fail("patch", self.applied, &problems))?;
        let live = validate(self.live, shape, Duplicates::Allowed);
        live.map_err(|problems| fail("live", self.live, &problems))
    }

    /// Puts the configuration into the object, and takes out what this owner no longer applies.
    fn merge(
        self,
        ledger: &Ledger<'a>,
        last: Option<&Record<'a>>,
        versions: &Versions<'a>,
        shape: Cursor<'c>,
    ) -> Result<Merged<'a, 'c>, String> {
        let (change, comparison) = combine(self.live, self.applied, shape);
        let edit = change.map_or(Edit::Nothing, Edit::Change);
        let Some(last) = last.filter(|last| !self.applies_all_of(last, ledger, shape)) else {
            return Ok(Merged { edit, comparison });
        };
        let is_current = |record: &Record<'_>| record.identity.api_version == self.request.api_version;
        let is_one_version = is_current(last) && ledger.records.iter().all(is_current);
        // The common case of a controller that drops a field: nothing to merge, only something to remove, and
        // no copy of the object is made for it.
        if is_one_version && matches!(edit, Edit::Nothing) {
            match gone(self.live, ledger, &last.set, shape) {
                Some(gone) if gone.is_empty() => return Ok(Merged { edit, comparison }),
                Some(gone) => {
                    let comparison = compare_without(self.live, &gone, shape);
                    return Ok(Merged { edit: Edit::Remove(gone, shape), comparison });
                }
                None => {}
            }
        }
        let merged = edit.preview(self.live);
        let gone = if is_one_version { gone(&merged, ledger, &last.set, shape) } else { None };
        if gone.as_ref().is_some_and(Set::is_empty) {
            return Ok(Merged { edit, comparison });
        }
        let pruned = self.prune(merged, gone, ledger, last, versions, shape)?;
        let comparison = compare(self.live, &pruned, shape).map(Comparison::into_owned);
        let comparison = comparison.map_err(|problems| format!("failed to compare objects: {problems}"))?;
        let edit =
            if is_equal_but_managed(self.live, &pruned) { Edit::Nothing } else { Edit::Replace(pruned) };
        Ok(Merged { edit, comparison })
    }

    /// Whether taking no short cuts leads to the same object and the same changes. For debug builds and fuzzing.
    fn is_as_in_full(
        self,
        merged: &Merged<'_, '_>,
        ledger: &Ledger<'_>,
        last: Option<&Record<'_>>,
        versions: &Versions<'_>,
    ) -> bool {
        let version = self.request.api_version;
        let Some(shape) = self.kind.shape(version) else { return false };
        let (change, _) = combine(self.live, self.applied, shape);
        let all = change.map_or(Edit::Nothing, Edit::Change).preview(self.live);
        let full = match last {
            Some(last) => prune(all, ledger, &last.set, &last.identity.api_version, versions, version),
            None => match ledger.records.last().filter(|own| self.is_repeated(own, ledger, shape)) {
                Some(own) => prune(all, ledger, &own.set, version, versions, version),
                None => Ok(all),
            },
        };
        // What fails the long way is reported by the short way in its own words.
        let Ok(full) = full else { return true };
        let after = merged.edit.preview(self.live);
        let is_same_comparison =
            compare(self.live, &after, shape).is_ok_and(|other| other == merged.comparison);
        are_equal_objects(&full, &after) && is_same_comparison
    }

    fn prune(
        self,
        mut merged: JsonObject,
        gone: Option<Set<'_>>,
        ledger: &Ledger<'_>,
        last: &Record<'_>,
        versions: &Versions<'_>,
        shape: Cursor<'_>,
    ) -> Result<JsonObject, String> {
        if let Some(gone) = gone {
            remove_items(&mut merged, &gone, shape);
            return Ok(merged);
        }
        let version = self.request.api_version;
        let pruned = prune(merged, ledger, &last.set, &last.identity.api_version, versions, version);
        pruned.map_err(|problem| format!("failed to prune fields: {problem}"))
    }

    /// The fields that the configuration names, and may change.
    fn named(self, shape: Cursor<'a>) -> Set<'a> {
        let mut set = field_set(self.applied, shape);
        if let Some(reset) = self.request.reset(self.request.api_version) {
            reset.apply(&mut set);
        }
        set
    }

    /// Whether the same fields were applied before, so that none can have to go.
    fn is_repeated(self, last: &Record<'_>, ledger: &Ledger<'_>, shape: Cursor<'_>) -> bool {
        let is_current = |record: &Record<'_>| record.identity.api_version == self.request.api_version;
        let reset = match self.request.reset(self.request.api_version) {
            None => None,
            // Deeper filters would have to be followed while sets are compared; they are rare, and the long
            // way handles them.
            Some(Filter::Except(fields)) if fields.is_flat() => Some(fields),
            Some(_) => return false,
        };
        !last.set.is_empty()
            && is_current(last)
            && ledger.records.iter().all(is_current)
            && is_field_set_of(&last.set, self.applied, shape, &NEVER_OWNED, reset)
            // Without this, an item that is named but has nothing named in it could seem to be removed by the
            // long way.
            && last.set.is_firm(self.live, shape)
    }

    fn applies_all_of(self, last: &Record<'_>, ledger: &Ledger<'_>, shape: Cursor<'_>) -> bool {
        let is_current = |record: &Record<'_>| record.identity.api_version == self.request.api_version;
        let own = ledger.records.last();
        last.set.is_empty()
            || is_current(last)
                && ledger.records.iter().all(is_current)
                && own.is_some_and(|own| is_superfluous(&last.set, &own.set, self.live, shape))
    }

    /// The resulting object, if a manager owns fields of it in another version.
    fn seen_by_others(self, ledger: &Ledger<'_>, merged: &Merged<'_, '_>) -> Option<JsonObject> {
        let is_other = |record: &Record<'_>| record.identity.api_version != self.request.api_version;
        let is_needed = !matches!(merged.edit, Edit::Nothing) && ledger.records.iter().any(is_other);
        is_needed.then(|| merged.edit.preview(self.live))
    }

    fn compare<'x>(
        self,
        ledger: &Ledger<'x>,
        versions: &Versions<'x>,
        after: Option<&'x JsonObject>,
        mut comparison: Comparison<'x>,
    ) -> Result<Comparisons<'x>, String>
    where
        'a: 'x,
    {
        if let Some(after) = after {
            return in_all_versions(ledger, versions, self.live, after, comparison, self.request);
        }
        if let Some(reset) = self.request.reset(self.request.api_version) {
            reset.apply_to_comparison(&mut comparison);
        }
        Ok(Comparisons(vec![(self.request.api_version.into(), comparison)]))
    }

    /// Records the fields that the applier owns now. The time stays, if nothing changed.
    fn settle(
        self,
        ledger: &mut Ledger<'a>,
        identity: &Identity<'_>,
        last: Option<Record<'a>>,
        edit: &Edit<'_>,
    ) {
        let Some(position) = ledger.position(identity) else { return };
        let own = &mut ledger.records[position];
        // Only at the end: while merging, the own set must name `apiVersion` and `metadata.name` like
        // everything else that is applied.
        own.set.subtract(&NEVER_OWNED);
        if own.set.is_empty() {
            ledger.records.swap_remove(position);
            return;
        }
        if let Some(last) = last {
            let is_same = last.identity.api_version == identity.api_version && last.set == own.set;
            // If the set is the same, the old entry can stay as it is in the object, byte for byte.
            own.source = last.source.filter(|_| is_same);
        }
        if !matches!(edit, Edit::Nothing) {
            own.retime(Stamp::parse(self.request.time));
        }
    }

    /// An annotation that is applied and then kept in step may end as it was.
    fn without_detour(self, edit: Edit<'c>) -> Edit<'c> {
        let mut after = edit.preview(self.live);
        last_applied::follow(&mut after, self.applied);
        if is_equal_but_managed(self.live, &after) { Edit::Nothing } else { edit }
    }

    fn plan(self, mut ledger: Ledger<'_>, edit: Edit<'c>) -> Plan<'c> {
        let slots = encode(&mut ledger);
        let old = self.live.get("metadata").and_then(|metadata| metadata.get("managedFields"));
        let is_same = match old {
            None => slots.is_empty(),
            // An empty list is not written as one, so that it counts as a change.
            Some(old) => old.as_array().is_some_and(|old| !old.is_empty() && is_same(&slots, old.len())),
        };
        let is_kubectl = self.request.manager == last_applied::MANAGER;
        // Applying sets the annotation to what was sent, and `follow` rewrites it: the two steps together may
        // change nothing.
        let is_detour = is_kubectl && is_same && !matches!(edit, Edit::Nothing);
        let edit = if is_detour { self.without_detour(edit) } else { edit };
        let follows = match edit {
            Edit::Nothing => is_kubectl && last_applied::is_behind(self.live, self.applied),
            _ => is_kubectl,
        };
        Plan { applied: self.applied, edit, slots: (!is_same).then_some(slots), follows }
    }
}

static NOTHING: LazyLock<JsonObject> = LazyLock::new(JsonObject::new);
