//! Metrics of the conditions of composite resources. They are updated when one is read or written, never by listing them.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};

use ferroplane_api::{Object, keys, meta};
use ferroplane_metrics::{Exposition, labels};
use serde_json::Value;

const CONDITIONS: [&str; 3] = ["Ready", "Synced", "Responsive"];
const STATUSES: [&str; 3] = ["True", "False", "Unknown"];

/// The conditions of a composite resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    /// The status of each condition, as an index.
    conditions: [u8; CONDITIONS.len()],
    is_paused: bool,
    is_deleting: bool,
}

impl State {
    fn of(composite: &Object) -> Self {
        let conditions = composite.get("status").and_then(|status| status.get("conditions")?.as_array());
        let status_of = |kind: &str| {
            let is_it = |condition: &&Value| condition.get("type").and_then(Value::as_str) == Some(kind);
            let found = conditions.and_then(|all| all.iter().find(is_it)?.get("status")?.as_str());
            match found {
                Some("True") => 0,
                Some("False") => 1,
                _ => 2,
            }
        };
        Self {
            conditions: CONDITIONS.map(status_of),
            is_paused: meta::annotation(composite, keys::PAUSED) == "true",
            is_deleting: meta::is_being_deleted(composite),
        }
    }
}

/// The composite resources of one kind.
#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    /// By the hash of their names: there are many, and a collision only makes one count wrong.
    states: HashMap<u64, State>,
    conditions: [[u64; STATUSES.len()]; CONDITIONS.len()],
    paused: u64,
    deleting: u64,
}

impl Tally {
    /// Set the state of a composite resource.
    pub(crate) fn set(&self, name: &str, composite: &Object) {
        let state = State::of(composite);
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Kept as differences: to count ten thousand composite resources at every scrape would cost more than
        // everything else.
        if let Some(before) = counted.states.insert(hash(name), state) {
            counted.subtract(before);
        }
        counted.add(state);
    }

    /// A composite resource was deleted.
    pub(crate) fn remove(&self, name: &str) {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = counted.states.remove(&hash(name)) {
            counted.subtract(before);
        }
    }
}

impl Counted {
    fn add(&mut self, state: State) {
        for (counts, status) in self.conditions.iter_mut().zip(state.conditions) {
            counts[usize::from(status)] += 1;
        }
        self.paused += u64::from(state.is_paused);
        self.deleting += u64::from(state.is_deleting);
    }

    fn subtract(&mut self, state: State) {
        for (counts, status) in self.conditions.iter_mut().zip(state.conditions) {
            counts[usize::from(status)] -= 1;
        }
        self.paused -= u64::from(state.is_paused);
        self.deleting -= u64::from(state.is_deleting);
    }
}

fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

/// The composite resources of all kinds, by the group and the name of the kind.
#[derive(Debug, Default)]
pub(super) struct States(Mutex<BTreeMap<(String, String), Arc<Tally>>>);

impl States {
    /// Start to count those of a kind.
    pub(super) fn begin(&self, group: &str, kind: &str) -> Arc<Tally> {
        let tally = Arc::<Tally>::default();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert((group.to_owned(), kind.to_owned()), tally.clone());
        tally
    }

    /// Stop to count those of a kind, unless a new controller has started to.
    pub(super) fn end(&self, group: &str, kind: &str, tally: &Arc<Tally>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (group.to_owned(), kind.to_owned());
        // The controller of a redefined kind may start before the old one has stopped.
        if all.get(&key).is_some_and(|current| Arc::ptr_eq(current, tally)) {
            all.remove(&key);
        }
    }

    pub(super) fn write(&self, page: &mut Exposition) {
        // Cloned, so that no reconcile waits while a page is written.
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut samples = page.gauge(
            "ferroplane_composite_resources",
            "Composite resources, by the status of their conditions Ready, Synced and Responsive",
        );
        for ((group, kind), tally) in &all {
            let counted = tally.0.lock().unwrap_or_else(PoisonError::into_inner);
            for (condition, counts) in CONDITIONS.iter().zip(counted.conditions) {
                for (status, count) in STATUSES.iter().zip(counts) {
                    let labels = labels(&[
                        ("group", group),
                        ("kind", kind),
                        ("condition", condition),
                        ("status", status),
                    ]);
                    samples.series(&labels, count);
                }
            }
        }
        let mut number = |name: &str, help: &str, of: fn(&Counted) -> u64| {
            let mut samples = page.gauge(name, help);
            for ((group, kind), tally) in &all {
                let count = of(&tally.0.lock().unwrap_or_else(PoisonError::into_inner));
                samples.series(&labels(&[("group", group), ("kind", kind)]), count);
            }
        };
        number(
            "ferroplane_composite_resources_paused",
            "Composite resources that are paused by annotation",
            |counted| counted.paused,
        );
        number(
            "ferroplane_composite_resources_deleting",
            "Composite resources that are being deleted",
            |counted| counted.deleting,
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn composite(value: Value) -> Object {
        let Value::Object(object) = value else { panic!("no object") };
        object
    }

    fn text(states: &States) -> String {
        let mut page = Exposition::default();
        states.write(&mut page);
        page.into_text()
    }

    #[test]
    fn one_is_counted_once_however_often_it_is_looked_at() {
        let states = States::default();
        let tally = states.begin("example.org", "Site");
        let told = |line: &str| {
            let text = text(&states);
            let line = line.replace('@', r#"group="example.org",kind="Site""#);
            assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
        };
        tally.set("a/b", &composite(json!({})));
        told(r#"ferroplane_composite_resources{@,condition="Ready",status="Unknown"} 1"#);
        let ready = json!({
            "metadata": {"annotations": {"crossplane.io/paused": "true"}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        tally.set("a/b", &composite(ready.clone()));
        tally.set("a/b", &composite(ready));
        told(r#"ferroplane_composite_resources{@,condition="Ready",status="True"} 1"#);
        told(r#"ferroplane_composite_resources{@,condition="Ready",status="Unknown"} 0"#);
        told("ferroplane_composite_resources_paused{@} 1");
        tally.remove("a/b");
        tally.remove("a/b");
        told(r#"ferroplane_composite_resources{@,condition="Ready",status="True"} 0"#);
        told("ferroplane_composite_resources_paused{@} 0");
    }

    #[test]
    fn kinds_that_go_take_their_numbers_with_them_but_not_those_of_their_successors() {
        let states = States::default();
        let old = states.begin("g", "K");
        let new = states.begin("g", "K");
        states.end("g", "K", &old);
        assert!(text(&states).contains("kind=\"K\""));
        states.end("g", "K", &new);
        assert!(!text(&states).contains("kind=\"K\""));
    }
}
