//! The state of a `WatchOperation` in memory, and its next step.
//!
//! The controller reports objects ([`WatchState::see`], [`WatchState::see_all`]) and operations ([`WatchState::learn`]), in any order and
//! any number of times. [`WatchState::decide`] returns the operations to create, and the controller reports which it has created.
//!
//! # Invariants
//! * There is one operation for each observed state of an object, unless a later state replaced it while it waited.
//! * What the work of a `WatchOperation` itself changes, its own operations above all, never triggers an operation.
//!   Nor do events about it and its operations, also after these were deleted, and about the ActionSets of operations that are known.
//! * A restart restores everything from the mark, and from the operations that the mark does not include yet.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use ferroplane_api::{Object, keys, meta};
use serde_json::Value;

use super::mark::{Handled, MARK_BOUND, Mark};
use super::names::is_name_for;
use super::sighting::{Sighting, TriggerNote};
use super::spec::WatchSpec;
use crate::operation::attempt::{AppliedActionSet, Standing, applied_action_sets, is_action_set, standing};
use crate::operation::cron::ConcurrencyPolicy;
use crate::operation::history::created_at;

/// How many operations in a row may be created because the one before changed the object.
pub const LOOP_LIMIT: u32 = 10;
/// How long changes of one object are merged after an operation was created for it, in milliseconds.
const MERGE: i64 = 1000;
/// How many operations are created before the mark is written.
const BATCH: usize = 200;
/// The kind of events, in both of Kubernetes' groups for them.
const EVENT: &str = "Event";
/// How many operations are remembered.
const MOST_KNOWN: usize = 4096;

/// The state of a `WatchOperation`.
#[derive(Debug, Clone, Default)]
pub struct WatchState {
    /// The name and UID of the `WatchOperation`.
    name: String,
    uid: String,
    /// Whether it watches events.
    watches_events: bool,
    mark: Mark,
    /// Whether the mark was made with another selector. Then an object that is missing was not deleted.
    is_reselected: bool,
    waiting: BTreeMap<String, Waiting>,
    arrivals: u64,
    /// The number of the next operation.
    next_sequence: u64,
    /// The numbers of known operations that the mark does not include.
    learnt: HashSet<u64>,
    /// The numbers of operations that may or may not have been created, and the keys of their objects.
    unknown: BTreeMap<u64, String>,
    /// The operations that had written to an object when it was handled.
    writers: HashMap<String, Vec<String>>,
    /// The operations that were learnt last, by their UIDs.
    known_operations: HashMap<String, KnownOperation>,
    /// When an operation was last created for an object, in milliseconds.
    made_at: HashMap<String, i64>,
    /// The versions for which Crossplane has created operations.
    versions_of_crossplane: HashMap<String, u64>,
}

/// An operation of the `WatchOperation`. It stays known when it is deleted, until the process ends or many others were learnt.
#[derive(Debug, Clone)]
struct KnownOperation {
    /// The order in which they were learnt.
    arrival: u64,
    /// How many operations in a row led to it.
    depth: u32,
    /// When it was created, in seconds since 1970.
    created: i64,
    /// The ActionSets that it has applied and owns. Empty unless events are watched.
    action_sets: Vec<AppliedActionSet>,
}

/// A change that has no operation yet.
#[derive(Debug, Clone)]
struct Waiting {
    sighting: Sighting,
    arrival: u64,
    since: i64,
    /// The start of its deadline: when it was observed, or when an operation may be created for it.
    fresh_at: i64,
    depth: u32,
}

/// A change for which an operation is to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trigger {
    pub sighting: Sighting,
    pub note: TriggerNote,
    /// When it was observed, in milliseconds since 1970.
    pub since: i64,
    /// Operations to delete in its favour.
    pub replaced: Vec<String>,
}

/// What a `WatchOperation` does now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchDecision {
    pub triggers: Vec<Trigger>,
    /// Objects that their own operations keep changing, as namespace and name: no operations are created for these changes.
    pub stopped: Vec<String>,
    /// Objects whose changes missed their deadline.
    pub missed: Vec<String>,
    /// When to decide again, in milliseconds since 1970.
    pub requeue_at: Option<i64>,
}

impl WatchState {
    /// Restore the state of a `WatchOperation` from its status.
    pub fn restore(watch: &Object, spec: &WatchSpec) -> Self {
        let mark = Mark::of(watch);
        let mut state = Self {
            name: meta::name(watch).to_owned(),
            uid: meta::uid(watch).to_owned(),
            watches_events: spec.selection.kind == EVENT,
            next_sequence: mark.sequence + 1,
            mark,
            ..Self::default()
        };
        state.select(spec);
        state
    }

    /// Select the objects of the spec. Call [`WatchState::see_all`] before anything else.
    pub fn select(&mut self, spec: &WatchSpec) {
        let selector = spec.selector();
        if self.mark.selector == selector {
            return;
        }
        self.is_reselected = !self.mark.selector.is_empty();
        self.mark.selector = selector;
        // Objects that were not selected before may be older than the floor.
        self.mark.floor = 0;
        // Existing objects are reported again. A deletion would not be reported a second time.
        self.waiting.retain(|_, waiting| waiting.sighting.is_gone());
    }

    /// Learn which operations exist, given all of the `WatchOperation`. Returns the keys of objects that have to be reported again.
    pub fn learn(&mut self, operations: &[Object]) -> Vec<String> {
        let mut learnt = Vec::new();
        let mut notes: Vec<_> = operations.iter().filter_map(|it| Some((TriggerNote::of(it)?, it))).collect();
        notes.sort_by_key(|(note, _)| note.sequence);
        for (note, operation) in notes {
            if note.sequence == 0 {
                let version = self.versions_of_crossplane.entry(note.key).or_default();
                *version = note.version.max(*version);
                continue;
            }
            self.learn_operation(operation, note.depth);
            self.next_sequence = self.next_sequence.max(note.sequence + 1);
            // Only once: operations after it count.
            if !self.mark.covers(&note) && self.learnt.insert(note.sequence) {
                self.take(&note);
                learnt.push(note.key);
            }
        }
        learnt
    }

    fn learn_operation(&mut self, operation: &Object, depth: u32) {
        let uid = meta::uid(operation);
        if uid.is_empty() {
            return;
        }
        let action_sets = if self.watches_events { applied_action_sets(operation) } else { Vec::new() };
        if let Some(known) = self.known_operations.get_mut(uid) {
            known.action_sets = action_sets;
            return;
        }
        self.arrivals += 1;
        let (arrival, created) = (self.arrivals, created_at(operation));
        let known = KnownOperation { arrival, depth, created, action_sets };
        self.known_operations.insert(uid.to_owned(), known);
        if self.known_operations.len() > MOST_KNOWN {
            let oldest = self.known_operations.iter().min_by_key(|(_, known)| known.arrival);
            if let Some(oldest) = oldest.map(|(uid, _)| uid.clone()) {
                self.known_operations.remove(&oldest);
            }
        }
    }

    /// Count the change of an operation as handled, unless a later one was.
    fn take(&mut self, note: &TriggerNote) {
        let present = self.mark.objects.get(&note.key);
        if note.is_gone() {
            // Whichever object had the name: a later one has a later version.
            if present.is_some_and(|handled| handled.version <= note.version) {
                self.mark.objects.remove(&note.key);
            }
        } else if present.is_none_or(|handled| handled.version <= note.version) {
            let TriggerNote { uid, version, state, .. } = note.clone();
            let handled = Handled { uid, version, seen: version, state, is_stopped: false };
            self.mark.objects.insert(note.key.clone(), handled);
        }
        let is_answered = |waiting: &Waiting| {
            let sighting = &waiting.sighting;
            let is_same = sighting.state == note.state || sighting.version <= note.version;
            sighting.uid == note.uid && sighting.is_gone() == note.is_gone() && is_same
        };
        if self.waiting.get(&note.key).is_some_and(is_answered) {
            self.waiting.remove(&note.key);
        }
    }

    /// Report all existing objects, and thereby those that were deleted. `now` is in milliseconds since 1970.
    pub fn see_all<'a>(&mut self, objects: impl Iterator<Item = &'a Object>, spec: &WatchSpec, now: i64) {
        let mut seen = HashSet::new();
        let mut sightings = Vec::new();
        for object in objects {
            let sighting = Sighting::of(object, &spec.fields);
            seen.insert(sighting.key.clone());
            if self.is_own(object) {
                self.ignore(&sighting.key);
            } else {
                sightings.push(sighting);
            }
        }
        // In the order of their versions: the mark can only cover changes that are older than all waiting ones.
        sightings.sort_by_key(|sighting| sighting.version);
        for sighting in sightings {
            self.see_present(sighting, now);
        }
        let known = self.mark.objects.keys().chain(self.waiting.keys());
        let missing: BTreeSet<_> = known.filter(|key| !seen.contains(*key)).cloned().collect();
        for key in missing {
            if self.is_reselected {
                // A waiting deletion is kept until it has its operation, also across a restart.
                if !self.waiting.contains_key(&key) {
                    self.mark.objects.remove(&key);
                }
            } else {
                self.see_gone(&key, now);
            }
        }
        self.is_reselected = false;
        self.versions_of_crossplane.clear();
    }

    /// Report the state of an object, by its namespace and name.
    pub fn see(&mut self, key: &str, object: Option<&Object>, spec: &WatchSpec, now: i64) {
        match object {
            Some(object) if self.is_own(object) => self.ignore(key),
            Some(object) => self.see_present(Sighting::of(object, &spec.fields), now),
            None => self.see_gone(key, now),
        }
    }

    /// Whether it is the `WatchOperation` itself, one of its operations, what such an operation owns, or an event about one of these. Every
    /// operation changes some of them: each change would trigger the next operation.
    fn is_own(&self, object: &Object) -> bool {
        self.is_own_uid(meta::uid(object))
            || meta::controller_uid(object).is_some_and(|uid| self.is_own_uid(uid))
            || event_subject(object).is_some_and(|subject| self.is_own_subject(subject))
    }

    fn is_own_uid(&self, uid: &str) -> bool {
        !uid.is_empty() && (uid == self.uid || self.known_operations.contains_key(uid))
    }

    /// Whether an event about this object is about the `WatchOperation`, one of its operations, or an ActionSet that one of these owns.
    fn is_own_subject(&self, subject: &Object) -> bool {
        let text = |field: &str| subject.get(field).and_then(Value::as_str).unwrap_or_default();
        if self.is_own_uid(text("uid")) {
            return true;
        }
        // By its name: an event outlives an operation that was deleted, and of that one no UID is known after a restart.
        let group = meta::group(meta::api_version(subject));
        if (group, meta::kind(subject)) == (keys::OPS, "Operation") {
            return is_name_for(&self.name, text("name"));
        }
        let applied =
            AppliedActionSet { namespace: text("namespace").to_owned(), name: text("name").to_owned() };
        is_action_set(subject)
            && self.known_operations.values().any(|known| known.action_sets.contains(&applied))
    }

    /// Forget an object that is never a trigger, also if it waits: its operation may be known only now.
    fn ignore(&mut self, key: &str) {
        self.waiting.remove(key);
        self.mark.objects.remove(key);
        self.writers.remove(key);
    }

    fn see_present(&mut self, sighting: Sighting, now: i64) {
        if self.is_handled(&sighting) {
            self.waiting.remove(&sighting.key);
            let handled =
                self.mark.objects.entry(sighting.key.clone()).or_insert_with(|| Handled::new(&sighting));
            if handled.is_of(&sighting.uid) {
                handled.seen = handled.seen.max(sighting.version);
                handled.state.clone_from(&sighting.state);
                handled.uid.clone_from(&sighting.uid);
            }
            self.writers.insert(sighting.key, sighting.writers);
            return;
        }
        let depth = self.depth_of(&sighting);
        self.wait(sighting, depth, now);
    }

    fn see_gone(&mut self, key: &str, now: i64) {
        self.writers.remove(key);
        let waiting =
            self.waiting.get(key).map(|waiting| (waiting.sighting.uid.clone(), waiting.sighting.version));
        let handled = self.mark.objects.get(key).map(|handled| (handled.uid.clone(), handled.seen));
        if let Some((uid, version)) = waiting.or(handled) {
            self.wait(Sighting::gone(key, &uid, version), 0, now);
        }
    }

    /// The later state replaces the earlier one, and keeps its place in the queue.
    fn wait(&mut self, sighting: Sighting, depth: u32, now: i64) {
        let fresh_at = self.made_at.get(&sighting.key).map_or(now, |at| now.max(at + MERGE));
        if let Some(waiting) = self.waiting.get_mut(&sighting.key) {
            // The name of the operation for a deletion contains the time at which it was noticed.
            if sighting.is_gone() && !waiting.sighting.is_gone() {
                waiting.since = now;
            }
            // A new change has its own deadline, however long an earlier one has waited. A repeated report of the
            // same change does not extend it.
            if (&sighting.uid, &sighting.state) != (&waiting.sighting.uid, &waiting.sighting.state) {
                waiting.fresh_at = fresh_at;
            }
            waiting.sighting = sighting;
            waiting.depth = depth;
        } else {
            self.arrivals += 1;
            let arrival = self.arrivals;
            let waiting = Waiting { sighting, arrival, since: now, fresh_at, depth };
            self.waiting.insert(waiting.sighting.key.clone(), waiting);
        }
    }

    fn is_handled(&self, sighting: &Sighting) -> bool {
        let Sighting { key, uid, version, state, .. } = sighting;
        // Versions that are no numbers cannot be compared.
        let is_not_later_than = |known: u64| *version > 0 && *version <= known;
        match self.mark.objects.get(key) {
            Some(handled) => {
                handled.is_of(uid)
                    && (handled.state == *state || is_not_later_than(handled.version.max(handled.seen)))
            }
            None => {
                is_not_later_than(self.mark.floor)
                    || self.versions_of_crossplane.get(key).is_some_and(|known| is_not_later_than(*known))
            }
        }
    }

    /// How many operations in a row led to this state: zero if none of ours has written to the object since it was handled.
    fn depth_of(&self, sighting: &Sighting) -> u32 {
        let before = self.writers.get(&sighting.key);
        let handled = self.mark.objects.get(&sighting.key);
        // After a restart it is unknown which operations had written to an object that was handled, so that the count
        // starts again.
        if before.is_none() && handled.is_some_and(|handled| handled.is_of(&sighting.uid)) {
            return 0;
        }
        let writers = sighting.writers.iter();
        let known = writers.filter_map(|writer| Some((writer, self.known_operations.get(writer)?)));
        let new = known.filter(|(writer, operation)| match before {
            Some(before) => !before.contains(writer),
            // Of an unknown object, those count that can have created it: it continues the row, or every operation
            // could create the object of the next one without end. An older object may have been selected before,
            // and have been changed by operations then.
            None => operation.created <= sighting.created,
        });
        new.map(|(_, operation)| operation.depth + 1).max().unwrap_or_default()
    }

    /// Decide what to do. `operations` are all of the `WatchOperation`, `written` is the mark in its status, and `now` is in milliseconds
    /// since 1970.
    pub fn decide(
        &mut self,
        spec: &WatchSpec,
        operations: &[Object],
        written: &Mark,
        now: i64,
    ) -> WatchDecision {
        // A time in the future was recorded before the clock was set back, and would delay changes until it is
        // reached again.
        self.made_at.retain(|_, at| *at <= now && *at + MERGE > now);
        let mut decision = WatchDecision::default();
        self.stop_loops(&mut decision);
        self.drop_late(spec, now, &mut decision);
        let running: Vec<_> =
            operations.iter().filter(|operation| standing(operation) == Standing::Running).collect();
        if spec.policy == ConcurrencyPolicy::Forbid && !running.is_empty() {
            // It is decided again when the running one has ended.
            return decision;
        }
        let mut ready: Vec<_> = Vec::new();
        for waiting in self.waiting.values() {
            match self.made_at.get(&waiting.sighting.key) {
                Some(at) => decision.look_at(at + MERGE),
                None => ready.push((waiting.arrival, waiting.sighting.key.clone())),
            }
        }
        ready.sort_unstable();
        let batch = if spec.policy == ConcurrencyPolicy::Forbid { 1 } else { BATCH };
        if ready.len() > batch && spec.policy != ConcurrencyPolicy::Forbid {
            decision.look_at(now);
        }
        for (_, key) in ready.into_iter().take(batch) {
            let makes_room = spec.policy == ConcurrencyPolicy::Replace;
            let older: Vec<_> = running.iter().filter(|it| makes_room && is_for(it, &key)).collect();
            if !older.iter().all(|operation| self.may_forget(written, operation)) {
                // Once the mark includes the older operation, it can be deleted.
                decision.look_at(now);
                continue;
            }
            let replaced = older.into_iter().map(|it| meta::name(it).to_owned()).collect();
            decision.triggers.extend(self.trigger(&key, replaced));
        }
        decision
    }

    fn trigger(&mut self, key: &str, replaced: Vec<String>) -> Option<Trigger> {
        let Waiting { sighting, depth, since, .. } = self.waiting.get(key)?.clone();
        let note = TriggerNote::new(&sighting, depth, self.next_sequence);
        self.next_sequence += 1;
        Some(Trigger { sighting, note, since, replaced })
    }

    fn stop_loops(&mut self, decision: &mut WatchDecision) {
        let looping = self.waiting.values().filter(|waiting| waiting.depth >= LOOP_LIMIT);
        let looping: Vec<_> = looping.map(|waiting| waiting.sighting.clone()).collect();
        for sighting in looping {
            self.skip(&sighting);
            if let Some(handled) = self.mark.objects.get_mut(&sighting.key) {
                handled.is_stopped = true;
            }
            decision.stopped.push(sighting.key);
        }
    }

    fn drop_late(&mut self, spec: &WatchSpec, now: i64, decision: &mut WatchDecision) {
        let Some(seconds) = spec.deadline else { return };
        // Only whole seconds count, as with schedules: a timer that fires some milliseconds late misses no
        // deadline.
        let deadline = seconds.saturating_mul(1000).saturating_add(999);
        let is_late = |waiting: &&Waiting| waiting.fresh_at.saturating_add(deadline) < now;
        let late: Vec<_> = self.waiting.values().filter(is_late).map(|it| it.sighting.clone()).collect();
        for sighting in late {
            self.skip(&sighting);
            decision.missed.push(sighting.key);
        }
        let next =
            self.waiting.values().map(|it| it.fresh_at.saturating_add(deadline).saturating_add(1)).min();
        if let Some(next) = next {
            decision.look_at(next);
        }
    }

    /// Count a change as handled without an operation.
    fn skip(&mut self, sighting: &Sighting) {
        self.take(&TriggerNote::new(sighting, 0, 0));
        self.writers.insert(sighting.key.clone(), sighting.writers.clone());
    }

    /// Report that this operation was created for a change.
    pub fn made(&mut self, trigger: &Trigger, operation: &Object, now: i64) {
        self.learn_operation(operation, trigger.note.depth);
        self.learnt.insert(trigger.note.sequence);
        self.take(&trigger.note);
        self.made_at.insert(trigger.note.key.clone(), now);
        if !trigger.sighting.is_gone() {
            self.writers.insert(trigger.note.key.clone(), trigger.sighting.writers.clone());
        }
    }

    /// Report that an operation may or may not have been created. The change continues to wait.
    pub fn failed(&mut self, trigger: &Trigger) {
        self.unknown.insert(trigger.note.sequence, trigger.note.key.clone());
    }

    /// The mark to write to the status. None if the written one is the same.
    pub fn mark(&mut self, written: &Mark) -> Option<Mark> {
        self.mark_within(written, MARK_BOUND)
    }

    pub(super) fn mark_within(&mut self, written: &Mark, bound: usize) -> Option<Mark> {
        // Once a change has its operation, it does not matter whether an earlier attempt created one.
        let waiting = &self.waiting;
        self.unknown.retain(|_, key| waiting.contains_key(key));
        let lowest_unknown = self.unknown.first_key_value().map(|(sequence, _)| *sequence);
        let sequence = lowest_unknown.unwrap_or(self.next_sequence).saturating_sub(1);
        let present = self.waiting.values().filter(|waiting| !waiting.sighting.is_gone());
        let oldest_waiting = present.map(|waiting| waiting.sighting.version).min();
        let mut mark = self.mark.bounded(oldest_waiting, bound);
        mark.sequence = sequence.max(written.sequence);
        (!mark.is_like(written)).then_some(mark)
    }

    /// Report that a mark was written to the status.
    pub fn written(&mut self, mark: &Mark) {
        self.mark.sequence = mark.sequence;
        self.learnt.retain(|sequence| *sequence > mark.sequence);
    }

    /// Whether an operation can be deleted without being created again after a restart. `written` is the mark in the status.
    pub fn may_forget(&self, written: &Mark, operation: &Object) -> bool {
        TriggerNote::of(operation).is_none_or(|note| written.covers(&note))
    }

    /// Whether a change waits for its operation.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The objects for which no operations are created, because their own operations keep changing them.
    pub fn stopped(&self) -> Vec<&str> {
        let stopped = self.mark.objects.iter().filter(|(_, handled)| handled.is_stopped);
        stopped.map(|(key, _)| key.as_str()).collect()
    }

    /// A user has changed the `WatchOperation`: stopped objects continue with their next change.
    pub fn forgive(&mut self) {
        for handled in self.mark.objects.values_mut() {
            handled.is_stopped = false;
        }
        // Changes that wait start new rows, too: the edit may have selected objects that the end of a row has created.
        for waiting in self.waiting.values_mut() {
            waiting.depth = 0;
        }
        self.writers.clear();
    }
}

impl Trigger {
    /// The same trigger with the current state of the object, which may have changed again.
    #[must_use]
    pub fn about(mut self, object: &Object, spec: &WatchSpec) -> Self {
        self.sighting = Sighting::of(object, &spec.fields);
        self.note = TriggerNote::new(&self.sighting, self.note.depth, self.note.sequence);
        self
    }
}

impl WatchDecision {
    fn look_at(&mut self, time: i64) {
        self.requeue_at = Some(self.requeue_at.map_or(time, |earlier| earlier.min(time)));
    }
}

/// The reference to the object that an event is about, if the object is an event.
fn event_subject(object: &Object) -> Option<&Object> {
    let is_event = meta::kind(object) == EVENT;
    let subject = object.get("involvedObject").or_else(|| object.get("regarding")).filter(|_| is_event)?;
    subject.as_object()
}

/// Whether an operation was created for an object.
fn is_for(operation: &Object, key: &str) -> bool {
    TriggerNote::of(operation).is_some_and(|note| note.key == key)
}

#[cfg(test)]
mod tests;
