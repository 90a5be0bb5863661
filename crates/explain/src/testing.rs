//! What an API server has, for tests.
#![expect(clippy::needless_pass_by_value, reason = "values read better where tests make them")]

use ferroplane_api::{Object, meta};
use ferroplane_engine::wording::UNREADY_RESOURCES;
use ferroplane_engine::{SettleFacts, Trouble, settle_trouble};
use serde_json::{Value, json};

use crate::{Id, KnownFunction, Purpose, Snapshot, State, Want, wants};

pub(crate) const SINCE: &str = "2026-01-01T00:00:00Z";

/// What an API server has, for tests.
#[derive(Default)]
pub(crate) struct Plane {
    pub(crate) objects: Vec<Value>,
    pub(crate) unreadable: Vec<Id>,
    pub(crate) events: Vec<Value>,
}

pub(crate) fn object(value: &Value) -> Object {
    value.as_object().cloned().unwrap_or_default()
}

pub(crate) fn root() -> Id {
    Id::new("demo.io/v1", "App", "default", "hello")
}

pub(crate) fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": SINCE, "observedGeneration": 1})
}

pub(crate) fn established(condition: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.crossplane.io/v2", "kind": "CompositeResourceDefinition",
        "metadata": {"name": "apps.demo.io", "creationTimestamp": SINCE},
        "spec": {"group": "demo.io", "names": {"kind": "App", "plural": "apps"}},
        "status": {"conditions": [condition]},
    })
}

pub(crate) fn composition(name: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": name},
        "spec": {"compositeTypeRef": {"apiVersion": "demo.io/v1", "kind": "App"}},
    })
}

pub(crate) fn revision(name: &str, number: i64, functions: &[(&str, &str)]) -> Value {
    let steps: Vec<_> = functions
        .iter()
        .map(|(step, function)| json!({"step": step, "functionRef": {"name": function}}))
        .collect();
    json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "CompositionRevision",
        "metadata": {"name": name, "labels": {"crossplane.io/composition-name": "app"}},
        "spec": {"revision": number, "pipeline": steps},
    })
}

pub(crate) fn bucket(conditions: Value) -> Value {
    json!({
        "apiVersion": "cloud.io/v1", "kind": "Bucket",
        "metadata": {
            "name": "b", "namespace": "default", "uid": "2", "creationTimestamp": SINCE,
            "annotations": {"crossplane.io/composition-resource-name": "bucket"},
        },
        "status": {"conditions": conditions},
    })
}

impl Plane {
    /// A composite resource with these conditions, that composes a bucket.
    pub(crate) fn with(conditions: Value) -> Self {
        let xr = json!({
            "apiVersion": "demo.io/v1", "kind": "App",
            "metadata": {"name": "hello", "namespace": "default", "uid": "1", "generation": 1, "creationTimestamp": SINCE},
            "spec": {"crossplane": {
                "compositionRef": {"name": "app"}, "compositionRevisionRef": {"name": "app-1"},
                "resourceRefs": [{"apiVersion": "cloud.io/v1", "kind": "Bucket", "name": "b"}],
            }},
            "status": {"conditions": conditions},
        });
        let definition = established(condition("Established", "True", "WatchingCompositeResource", ""));
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "apps.demo.io"},
            "status": {"conditions": [condition("Established", "True", "", "")]},
        });
        let steps = [("compose", "function-compose"), ("ready", "function-auto-ready")];
        let objects = vec![xr, definition, crd, composition("app"), revision("app-1", 1, &steps)];
        Self { objects, ..Self::default() }.and(bucket(json!([])))
    }

    /// One that could not be composed, for this reason.
    pub(crate) fn saying(message: &str) -> Self {
        Self::with(json!([condition("Synced", "False", "ReconcileError", message)]))
    }

    /// One that could not be composed, as the engine says it.
    pub(crate) fn troubled(trouble: &Trouble) -> Self {
        let facts = SettleFacts { now: SINCE.to_owned(), generation: 1, ..SettleFacts::default() };
        Self::with(settle_trouble(trouble, None, facts).status["conditions"].clone())
    }

    /// One of which these are not ready.
    pub(crate) fn unready(names: &str) -> Self {
        let synced = condition("Synced", "True", "ReconcileSuccess", "");
        Self::with(json!([
            synced,
            condition("Ready", "False", "Creating", &format!("{UNREADY_RESOURCES}{names}"))
        ]))
    }

    /// The same, with one more object, or another one of that name.
    pub(crate) fn and(mut self, object: Value) -> Self {
        let key = |it: &Value| (it["kind"].clone(), it["metadata"]["name"].clone());
        self.objects.retain(|other| key(other) != key(&object));
        self.objects.push(object);
        self
    }

    /// The same, but different.
    pub(crate) fn but(mut self, kind: &str, change: impl Fn(&mut Value)) -> Self {
        for object in self.objects.iter_mut().filter(|object| object["kind"] == kind) {
            change(object);
        }
        self
    }

    pub(crate) fn without(mut self, kind: &str) -> Self {
        self.objects.retain(|object| object["kind"] != kind);
        self
    }

    pub(crate) fn read(&self) -> Snapshot {
        self.read_from(&root())
    }

    /// What explains an object.
    pub(crate) fn read_from(&self, root: &Id) -> Snapshot {
        let ready = "function-auto-ready".to_owned();
        let known = KnownFunction { name: ready, composes: false, declares_readiness: true };
        let mut snapshot = Snapshot::knowing(vec![known]);
        loop {
            let wants = wants(&snapshot, root, Purpose::Cause);
            if wants.is_empty() {
                return snapshot;
            }
            for want in wants {
                self.answer(want, &mut snapshot);
            }
        }
    }

    pub(crate) fn answer(&self, want: Want, snapshot: &mut Snapshot) {
        let is_kind = |it: &&Value, kind: &str| it["kind"] == kind;
        match want {
            Want::Object(id) if self.unreadable.contains(&id) => {
                snapshot.put(id, State::Unreadable("no".to_owned()));
            }
            Want::Object(id) => {
                let found = self.objects.iter().find(|it| Id::of(&object(it)) == id);
                let has_kind = ["Namespace", "Function", "App"].contains(&id.kind.as_str())
                    || self
                        .objects
                        .iter()
                        .any(|it| is_kind(&it, &id.kind) || it["spec"]["names"]["kind"] == *id.kind);
                snapshot.put(
                    id,
                    match found {
                        Some(found) => State::Here(Box::new(object(found))),
                        None if has_kind => State::Missing,
                        None => State::UnknownKind,
                    },
                );
            }
            Want::List(list) => {
                let group = meta::group(&list.api_version);
                let is_of_group =
                    |it: &&Value| meta::group(it["apiVersion"].as_str().unwrap_or_default()) == group;
                let all = self.objects.iter().filter(|it| is_kind(it, &list.kind)).filter(is_of_group);
                let all = all.map(object).collect();
                snapshot.put_list(list, all);
            }
            Want::Events(id, _) => {
                let about = |it: &&Value| it["about"] == *id.name;
                let events = self.events.iter().filter(about).map(object).collect();
                snapshot.put_events(id, events);
            }
        }
    }
}
