//! The durable mark of a `WatchOperation`: what was handled, so that a restart does not repeat it.
//!
//! # Guarantees
//! * It lists at most [`MARK_BOUND`] objects, however many are watched: those that changed last. One version covers all others: an object
//!   that is not listed and is not newer was handled.
//! * A change that was not handled is never covered.

use std::collections::{BTreeMap, HashSet};

use ferroplane_api::Object;
use serde_json::{Value, json};

use super::sighting::{Sighting, TriggerNote};

/// The maximum number of listed objects.
pub const MARK_BOUND: usize = 1000;

const STOPPED: &str = "stopped";

/// The changes that were handled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mark {
    /// The part of the spec that it was made with.
    pub(super) selector: String,
    /// Objects that are not listed and not newer than this version were handled.
    pub(super) floor: u64,
    /// The mark includes the operations up to this number.
    pub(super) sequence: u64,
    pub(super) objects: BTreeMap<String, Handled>,
}

/// The last state of an object that was handled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Handled {
    /// Empty if unknown: Crossplane does not record it.
    pub(super) uid: String,
    /// The version for which an operation was made.
    pub(super) version: u64,
    /// The last version with that state. It is not written: the state is enough.
    pub(super) seen: u64,
    pub(super) state: String,
    /// Whether no operation was created, because operations keep changing the object.
    pub(super) is_stopped: bool,
}

impl Handled {
    pub(super) fn new(sighting: &Sighting) -> Self {
        let Sighting { uid, version, state, .. } = sighting.clone();
        Self { uid, version, seen: version, state, is_stopped: false }
    }

    fn parse(text: &str) -> Option<Self> {
        // Text instead of an object per entry: a thousand of them have to fit into a status together with everything
        // else.
        let mut parts = text.split('.');
        let (uid, version) = (parts.next()?.to_owned(), parts.next()?.parse().ok()?);
        Some(Self {
            uid,
            version,
            seen: version,
            state: parts.next()?.to_owned(),
            is_stopped: parts.next() == Some(STOPPED),
        })
    }

    fn text(&self) -> String {
        let Self { uid, version, state, is_stopped, .. } = self;
        let end = if *is_stopped { format!(".{STOPPED}") } else { String::new() };
        format!("{uid}.{version}.{state}{end}")
    }

    pub(super) fn is_of(&self, uid: &str) -> bool {
        // An unknown uid matches every object: otherwise changes that Crossplane handled would be handled again
        // after a takeover.
        self.uid == uid || self.uid.is_empty() || uid.is_empty()
    }

    fn is_like(&self, other: &Self) -> bool {
        // Without versions: otherwise the status would be written for every version of every object.
        self.uid == other.uid && self.state == other.state && self.is_stopped == other.is_stopped
    }
}

impl Mark {
    /// The mark in the status of a `WatchOperation`.
    pub fn of(watch: &Object) -> Self {
        let handled = watch.get("status").and_then(|status| status.get("handled"));
        let field = |field: &str| handled.and_then(|handled| handled.get(field));
        let text = |name: &str| field(name).and_then(Value::as_str).unwrap_or_default();
        let objects = field("objects").and_then(Value::as_object).into_iter().flatten();
        let objects = objects.filter_map(|(key, text)| Some((key.clone(), Handled::parse(text.as_str()?)?)));
        Self {
            selector: text("selector").to_owned(),
            floor: text("resourceVersion").parse().unwrap_or_default(),
            sequence: field("sequence").and_then(Value::as_u64).unwrap_or_default(),
            objects: objects.collect(),
        }
    }

    /// The form in the status.
    pub fn to_json(&self) -> Value {
        let objects: BTreeMap<_, _> =
            self.objects.iter().map(|(key, handled)| (key, handled.text())).collect();
        let mut mark = json!({"selector": self.selector, "sequence": self.sequence, "objects": objects});
        // As text, like every resource version in Kubernetes.
        if self.floor > 0 {
            mark["resourceVersion"] = self.floor.to_string().into();
        }
        mark
    }

    /// The mark within its bound. `oldest_waiting` is the lowest version that was not handled: newer versions cannot be covered.
    pub(super) fn bounded(&self, oldest_waiting: Option<u64>, bound: usize) -> Self {
        let mut bounded = self.clone();
        let Some(excess) = bounded.objects.len().checked_sub(bound).filter(|excess| *excess > 0) else {
            return bounded;
        };
        let mut by_version: Vec<_> = bounded.objects.iter().map(|(key, it)| (it.seen, key.clone())).collect();
        // The objects that changed longest ago are removed first: the floor that covers them is the lowest.
        by_version.sort_unstable();
        let dropped = &by_version[..excess];
        let highest = dropped.last().map_or(0, |(version, _)| *version);
        // The floor stays below the waiting changes, even if some removed entries are handled again: twice is
        // better than never.
        let covered = oldest_waiting.map_or(highest, |oldest| highest.min(oldest.saturating_sub(1)));
        let dropped: HashSet<_> = dropped.iter().map(|(_, key)| key).collect();
        bounded.objects.retain(|key, _| !dropped.contains(key));
        // The floor never sinks: a covered change stays handled.
        bounded.floor = bounded.floor.max(covered);
        bounded
    }

    /// Whether both marks are the same except for versions.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.selector == other.selector
            && self.sequence == other.sequence
            && self.objects.len() == other.objects.len()
            && self
                .objects
                .iter()
                .all(|(key, handled)| other.objects.get(key).is_some_and(|it| it.is_like(handled)))
    }

    /// Whether it includes what an operation records: that operation may be deleted.
    pub(super) fn covers(&self, note: &TriggerNote) -> bool {
        note.sequence <= self.sequence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(count: u64) -> Mark {
        let handled = |version| Handled {
            uid: "u".to_owned(),
            version,
            seen: version,
            state: "s".to_owned(),
            is_stopped: version == 2,
        };
        let objects = (1..=count).map(|version| (format!("n/{version}"), handled(version)));
        Mark { selector: "x".to_owned(), floor: 0, sequence: count, objects: objects.collect() }
    }

    fn read(mark: &Mark) -> Mark {
        Mark::of(json!({"status": {"handled": mark.to_json()}}).as_object().unwrap())
    }

    #[test]
    fn mark_is_read_as_it_was_written() {
        assert_eq!(read(&mark(3)), mark(3));
        assert_eq!(Mark::of(&Object::new()), Mark::default());
    }

    #[test]
    fn mark_never_lists_more_than_its_bound_and_covers_nothing_that_waits() {
        let bound = u64::try_from(MARK_BOUND).unwrap();
        let bounded = mark(bound + 5).bounded(None, MARK_BOUND);
        assert_eq!((bounded.objects.len(), bounded.floor), (MARK_BOUND, 5));
        assert!(!bounded.objects.contains_key("n/5") && bounded.objects.contains_key("n/6"));
        assert_eq!(mark(bound + 5).bounded(Some(3), MARK_BOUND).floor, 2);
        assert_eq!(mark(bound).bounded(None, MARK_BOUND).floor, 0);
        assert!(read(&bounded).to_json().to_string().len() < 100_000);
    }

    #[test]
    fn mark_that_differs_in_versions_only_says_the_same() {
        let mut moved = mark(3);
        moved.objects.get_mut("n/1").unwrap().version = 9;
        assert!(moved.is_like(&mark(3)) && !mark(3).is_like(&mark(4)));
        moved.objects.get_mut("n/1").unwrap().state = "t".to_owned();
        assert!(!moved.is_like(&mark(3)));
    }
}
