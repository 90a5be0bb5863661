//! A composite resource and its composed resources, or an ActionSet, at an earlier time, as far as they were recorded.
//!
//! The same rules explain it as explain the present state. They know what the reconcile knew: the composite resource, what
//! it composed, the pipeline, and the conditions and events in the end.

use ferroplane_api::{Object, keys, meta};
use ferroplane_engine::Reference;
use ferroplane_engine::composite::set_recorded;
use ferroplane_explain::{Diagnosis, Home, Id, List, Snapshot, State, diagnose};
use ferroplane_offline::replay::began_at;
use ferroplane_offline::times;
use ferroplane_recorder::{Head, RecordedRun, Recording};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::{drawing, known_functions};

/// What was found out about the past.
#[derive(Debug, Serialize)]
pub(crate) struct Then {
    #[serde(flatten)]
    pub(crate) diagnosis: Diagnosis,
    /// When the reconcile began that was recorded, and its number.
    at: Timestamp,
    recording: u64,
}

impl Then {
    pub(crate) fn of(recording: &Recording) -> Self {
        let (root, snapshot) = snapshot(recording);
        let head = &recording.head;
        Self { diagnosis: diagnose(&snapshot, &root), at: began_at(head), recording: head.id }
    }

    pub(crate) fn text(&self, now: Timestamp, is_colourful: bool) -> String {
        let Self { diagnosis, at, recording } = self;
        let time = times::with_age(*at, now);
        let mut text = if diagnosis.is_ready && diagnosis.cause.is_none() {
            format!("{} was ready at {time}.\n", diagnosis.object)
        } else {
            drawing::answer(diagnosis, &format!("what was recorded at {time}"), *at, is_colourful)
        };
        text += &format!("\nEverything that was recorded at {time}:\n  ferroplane replay show {recording}\n");
        text
    }
}

/// What there was, and which object it is about.
fn snapshot(recording: &Recording) -> (Id, Snapshot) {
    if recording.head.is_action_set() {
        return action_set(recording);
    }
    let (head, last) = (&recording.head, recording.takes.last());
    let mut snapshot = Snapshot::knowing(known_functions()).at(Home::Embedded);
    let xr = composite(recording, last);
    let id = Id::of(&xr);
    snapshot.put_list(definitions(), vec![definition(head)]);
    snapshot.put_events(id.clone(), events(recording));
    snapshot.put(id.clone(), State::Here(Box::new(xr)));
    for object in last.into_iter().flat_map(|take| take.inputs.subject.observed().values()) {
        if let Ok(object) = object.object.json() {
            snapshot.put(Id::of(object), State::Here(Box::new(object.clone())));
        }
    }
    if let Some(take) = last {
        let revision = revision(head, take);
        snapshot.put(Id::of(&revision), State::Here(Box::new(revision)));
    }
    (id, snapshot)
}

/// An ActionSet with the status that it had in the end, which says everything about it.
fn action_set(recording: &Recording) -> (Id, Snapshot) {
    let mut snapshot = Snapshot::knowing(known_functions()).at(Home::Embedded);
    let mut action_set = object(recording.action_set.clone());
    action_set.insert("status".to_owned(), recording.settlement["status"].clone());
    let id = Id::of(&action_set);
    snapshot.put_events(id.clone(), events(recording));
    snapshot.put(id.clone(), State::Here(Box::new(action_set)));
    (id, snapshot)
}

/// The composite resource as it was read, with what was written to it.
fn composite(recording: &Recording, last: Option<&RecordedRun>) -> Object {
    let head = &recording.head;
    let read = last.and_then(|take| take.inputs.subject.object().json().ok()).cloned();
    // One for which no pipeline could be run was not recorded itself.
    let mut xr = read.unwrap_or_else(|| object(json!({"spec": {"crossplane": {}}})));
    xr.insert("apiVersion".to_owned(), head.api_version.as_str().into());
    xr.insert("kind".to_owned(), head.kind.as_str().into());
    for (field, text) in [("name", &head.name), ("namespace", &head.namespace), ("uid", &head.uid)] {
        if !text.is_empty() {
            meta::set_field(&mut xr, field, text);
        }
    }
    meta::child(&mut xr, "metadata").insert("generation".to_owned(), head.generation.into());
    let outcome =
        last.and_then(|take| serde_json::from_slice::<Value>(&take.outcome).ok()).unwrap_or_default();
    let references = outcome["plan"]["references"].as_array();
    let references: Option<Vec<_>> = references.map(|list| list.iter().map(reference).collect());
    set_recorded(&mut xr, &head.composition, &head.revision, references.as_deref());
    if let Some(conditions) = conditions(recording) {
        meta::child(&mut xr, "status").insert("conditions".to_owned(), conditions);
    }
    xr
}

/// A reference as the recording of an outcome has it.
fn reference(recorded: &Value) -> Reference {
    let text = |field: &str| recorded[field].as_str().map(str::to_owned);
    Reference {
        api_version: text("apiVersion").unwrap_or_default(),
        kind: text("kind").unwrap_or_default(),
        name: text("name").unwrap_or_default(),
        namespace: text("namespace"),
    }
}

/// The conditions in the end. If they could not be written, the failure is known from the recording.
fn conditions(recording: &Recording) -> Option<Value> {
    let head = &recording.head;
    let settled = &recording.settlement["conditions"];
    if settled.is_array() || head.trouble.is_empty() {
        return settled.is_array().then(|| settled.clone());
    }
    Some(json!([{
        "type": "Synced", "status": "False", "reason": "ReconcileError", "message": head.trouble,
        "lastTransitionTime": began_at(head).to_string(), "observedGeneration": head.generation, "step": head.step,
    }]))
}

fn events(recording: &Recording) -> Vec<Object> {
    let list = |field: &str| recording.settlement[field].as_array().map(Vec::as_slice).unwrap_or_default();
    // Events are written after the conditions were decided.
    let times = list("conditions").iter().filter_map(|condition| condition["lastTransitionTime"].as_str());
    let time = times.max().unwrap_or_default();
    let event = |event: &Value| {
        let mut annotations = Object::new();
        for (key, field) in [(keys::CAUSE, "code"), (keys::STEP, "step"), (keys::RESOURCE, "resource")] {
            if let Some(text) = event[field].as_str() {
                annotations.insert(key.to_owned(), text.into());
            }
        }
        object(json!({
            "type": event["kind"], "reason": event["reason"], "message": event["message"], "lastTimestamp": time,
            "metadata": {"annotations": annotations},
        }))
    };
    list("events").iter().map(event).collect()
}

/// Enough of a revision to tell which step calls what.
fn revision(head: &Head, take: &RecordedRun) -> Object {
    object(json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "CompositionRevision",
        "metadata": {"name": head.revision, "labels": {keys::COMPOSITION_NAME: head.composition}},
        "spec": {"pipeline": take.inputs.pipeline.written_steps()},
    }))
}

fn definitions() -> List {
    let (api_version, kind) = ("apiextensions.crossplane.io/v2", "CompositeResourceDefinition");
    List { api_version: api_version.to_owned(), kind: kind.to_owned(), ..List::default() }
}

/// There was a definition of its kind, or nothing would have been composed.
fn definition(head: &Head) -> Object {
    let group = meta::group(&head.api_version);
    object(json!({
        "apiVersion": "apiextensions.crossplane.io/v2", "kind": "CompositeResourceDefinition",
        "metadata": {"name": format!("{}.{group}", head.kind.to_lowercase())},
        "spec": {"group": group, "names": {"kind": head.kind}},
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    }))
}

fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        _ => Object::new(),
    }
}

#[cfg(test)]
mod tests {
    use ferroplane_api::{Cause, FailurePoint};
    use ferroplane_engine::{SettleFacts, Trouble, conditions_in, settle_trouble};
    use ferroplane_recorder::Ending;

    use super::*;

    fn recording(trouble: &str, settlement: Value) -> Recording {
        let head = Head {
            id: 4,
            began_at: 4000,
            api_version: "demo.io/v1".to_owned(),
            kind: "App".to_owned(),
            name: "shop".to_owned(),
            uid: "1".to_owned(),
            generation: 1,
            revision: "app-1".to_owned(),
            trouble: trouble.to_owned(),
            ending: (if trouble.is_empty() { Ending::Succeeded } else { Ending::Failed }).into(),
            ..Head::default()
        };
        Recording {
            head,
            takes: Vec::new(),
            phase_calls: Vec::new(),
            action_set: Value::Null,
            settlement,
            is_written: true,
        }
    }

    fn condition(kind: &str, status: &str, message: &str) -> Value {
        let time = "1970-01-01T00:00:03Z";
        json!({"type": kind, "status": status, "reason": "R", "message": message, "lastTransitionTime": time, "observedGeneration": 1})
    }

    #[test]
    fn failure_is_found_by_its_code_with_the_rules_of_why() {
        let failure = FailurePoint::new(Cause::FunctionFatalResult).in_step("size");
        let facts =
            SettleFacts { now: "1970-01-01T00:00:03Z".to_owned(), generation: 1, ..SettleFacts::default() };
        let settled =
            settle_trouble(&Trouble::new("", "cannot compose resources: too big", failure), None, facts);
        assert_eq!(conditions_in(&settled.status["conditions"]).len(), 1);
        let then =
            Then::of(&recording("x", json!({"conditions": settled.status["conditions"], "events": []})));
        let text = then.text(then.at, false);
        let since = times::local("1970-01-01T00:00:03Z".parse().unwrap());
        let expected = format!("App shop: step `size`: too big (since {since}, for 1s)\n");
        assert!(text.starts_with(&expected), "{text}");
        assert!(text.ends_with("\n  ferroplane replay show 4\n"), "{text}");
        let cause = then.diagnosis.cause.unwrap();
        assert_eq!((cause.rule, cause.code), ("function-fatal", Some("FunctionFatalResult")));
    }

    #[test]
    fn events_say_what_a_condition_only_counts() {
        let message = "cannot apply composed resource `a` of step `s`: Bucket.e.org \"b\" is invalid: spec.size: Required value";
        let settlement = json!({
            "conditions": [{
                "type": "Synced", "status": "False", "reason": "R", "message": "Unsynced resources: a", "observedGeneration": 1,
                "code": "ComposedResourcesUnsynced", "lastTransitionTime": "1970-01-01T00:00:03Z",
            }],
            "events": [{"kind": "Warning", "reason": "R", "message": message, "code": "SchemaViolated", "step": "s", "resource": "a"}],
        });
        let cause = Then::of(&recording("", settlement)).diagnosis.cause.unwrap();
        assert_eq!(cause.to_string(), "App shop: step `s`: field `spec.size`: Required value");
    }

    #[test]
    fn trouble_that_an_older_release_recorded_is_shown_as_it_is() {
        let mut recording = recording("something went wrong", Value::Null);
        recording.head.step = "size".to_owned();
        let then = Then::of(&recording);
        let cause = then.diagnosis.cause.unwrap();
        assert_eq!((cause.rule, cause.message.as_str()), ("sync-error", "something went wrong"));
        assert!(!then.diagnosis.is_ready);
    }

    #[test]
    fn action_set_is_explained_by_the_status_that_it_had() {
        let condition = json!({
            "type": "Succeeded", "status": "False", "reason": "ActionFailed", "message": "it ended with 1",
            "code": "PhaseFailed", "step": "dump", "lastTransitionTime": "1970-01-01T00:00:03Z", "observedGeneration": 1,
        });
        let status = json!({
            "state": "failed", "actions": [], "conditions": [condition],
            "errors": [{"action": 0, "phase": "dump", "code": "PhaseFailed", "message": "it ended with 1"}],
        });
        let mut recording =
            recording("it ended with 1", json!({"conditions": [condition], "status": status}));
        recording.head.api_version = "cr.kanister.io/v1alpha1".to_owned();
        recording.head.kind = "ActionSet".to_owned();
        recording.action_set = json!({
            "apiVersion": "cr.kanister.io/v1alpha1", "kind": "ActionSet",
            "metadata": {"name": "shop", "namespace": "default", "uid": "1", "generation": 1}, "spec": {"actions": []},
        });
        let then = Then::of(&recording);
        assert!(!then.diagnosis.is_ready);
        let cause = then.diagnosis.cause.unwrap();
        assert_eq!((cause.code, cause.message.as_str()), (Some("PhaseFailed"), "it ended with 1"));
    }

    #[test]
    fn what_was_ready_is_said_to_have_been() {
        let conditions = json!([condition("Synced", "True", ""), condition("Ready", "True", "")]);
        let then = Then::of(&recording("", json!({"conditions": conditions})));
        assert!(then.diagnosis.is_ready);
        let text = then.text(Timestamp::from_second(304).unwrap(), false);
        let time = times::local(then.at);
        assert!(text.starts_with(&format!("App shop was ready at {time} (5m ago).\n")), "{text}");
    }
}
