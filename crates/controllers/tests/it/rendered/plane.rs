//! Carries out a scenario on a plane.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ferroplane_testkit::plane::{Plane, assert_same, condition};
use http::Method;
use serde_json::{Value, json};

use super::scenarios::{Scenario, path_of};

/// The requests that a function was sent, as JSON.
#[derive(Debug, Clone, Default)]
pub(super) struct Requests(Arc<Mutex<Vec<Value>>>);

impl Requests {
    pub(super) fn add(&self, request: &ferroplane_wire::v1::RunFunctionRequest) {
        let request = ferroplane_wire::to_json(request).unwrap();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(request);
    }

    pub(super) fn take(&self) -> Vec<Value> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What a plane has stored.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) xr: Value,
    pub(super) composed: Vec<Value>,
    /// What functions may ask to see, and what allows them to.
    pub(super) others: Vec<Value>,
    /// The `OpenAPI` document of the kind of the composite resource. Null if no API server has it.
    pub(super) schemas: Value,
}

/// A scenario on a plane. Controllers run only while something is reconciled.
pub(super) struct Run {
    plane: Plane,
    requests: Requests,
    /// The path of the composite resource.
    xr: String,
    /// Whether its pipeline runs at all.
    composes: bool,
}

impl Run {
    /// A plane that knows the kinds of a scenario, with everything stored that its user writes.
    pub(super) async fn prepare(scenario: &Scenario) -> Self {
        let (requests, answer) = (Requests::default(), scenario.answer);
        let notes = requests.clone();
        let mut plane = Plane::with_function("function-test", move |request| {
            notes.add(request);
            ferroplane_wire::from_json(&answer(request)).unwrap()
        })
        .await;
        for object in scenario.kinds.iter().chain(&scenario.compositions).chain(&scenario.functions) {
            plane.apply(&path_of(object), object).await;
        }
        for definition in &scenario.kinds {
            plane
                .until(&path_of(definition), |it| {
                    condition(it, "Established").as_deref() == Some("True/WatchingCompositeResource")
                })
                .await;
        }
        let revisions = "/apis/apiextensions.crossplane.io/v1/compositionrevisions";
        let count = scenario.compositions.len();
        let are_judged = |list: &Value| {
            let revisions = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
            revisions.len() == count
                && revisions.iter().all(|revision| condition(revision, "ValidPipeline").is_some())
        };
        plane.until(revisions, are_judged).await;
        plane.stop().await;
        for object in &scenario.others {
            let mut object = object.clone();
            let owners = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
            for owner in owners.into_iter().flatten() {
                let (name, namespace) = (&owner["name"], &scenario.xr["metadata"]["namespace"]);
                let metadata = json!({"name": name, "namespace": namespace});
                let identity =
                    json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "metadata": metadata});
                // Without one that is there, what it owns would be deleted with it.
                owner["uid"] = plane.get(&path_of(&identity)).await["metadata"]["uid"].clone();
            }
            plane.apply(&path_of(&object), &object).await;
        }
        let xr = path_of(&scenario.xr);
        // Created, as `kubectl apply` does it: every null that its user wrote is sent.
        let (collection, _) = xr.rsplit_once('/').unwrap();
        let (code, answer) = plane.send(Method::POST, collection, "application/json", &scenario.xr).await;
        assert_eq!(code, 201, "{answer}");
        let is_paused = !scenario.xr["metadata"]["annotations"]["crossplane.io/paused"].is_null();
        let composes = !is_paused && !scenario.is_deleted;
        let run = Self { plane, requests, xr, composes };
        if scenario.is_deleted {
            run.plane.delete(&run.xr).await;
        }
        run
    }

    /// What is stored now.
    pub(super) async fn stored(&self) -> Stored {
        let xr = self.plane.get(&self.xr).await;
        let mut composed = Vec::new();
        for reference in super::references(&xr).as_array().into_iter().flatten() {
            let mut object = reference.clone();
            object["metadata"]["name"] = reference["name"].clone();
            let namespace = match &reference["namespace"] {
                Value::Null => &xr["metadata"]["namespace"],
                namespace => namespace,
            };
            object["metadata"]["namespace"] = namespace.clone();
            composed.push(self.plane.get(&path_of(&object)).await);
        }
        // `render` refuses files of objects that something else controls, which the plane ignores.
        composed.retain(|object| !object.is_null() && is_free_for(object, &xr));
        let mut others = Vec::new();
        let kinds = [
            ("/api/v1/configmaps", "v1", "ConfigMap"),
            ("/api/v1/secrets", "v1", "Secret"),
            ("/apis/ferroplane.io/v1alpha1/accessgrants", "ferroplane.io/v1alpha1", "AccessGrant"),
        ];
        for (path, api_version, kind) in kinds {
            let list = self.plane.get(path).await;
            for mut object in list["items"].as_array().cloned().unwrap_or_default() {
                object["apiVersion"] = api_version.into();
                object["kind"] = kind.into();
                others.push(object);
            }
        }
        let schemas = self.plane.get("/openapi/v3/apis/example.org/v1").await;
        Stored { xr, composed, others, schemas }
    }

    /// Let controllers that know nothing reconcile everything. Returns what they asked functions.
    pub(super) async fn reconcile(&mut self) -> Vec<Value> {
        let before = self.recorded();
        self.requests.take();
        self.plane.start().await;
        while self.composes && self.recorded() == before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.plane.until(&self.xr, |xr| condition(xr, "Synced").is_some()).await;
        self.plane.quiet().await;
        self.plane.stop().await;
        self.requests.take()
    }

    /// Let controllers reconcile what cannot be composed. Returns why, and asks no function.
    pub(super) async fn refuse(&mut self) -> String {
        self.plane.start().await;
        let is_unsynced =
            |xr: &Value| condition(xr, "Synced").is_some_and(|synced| synced.starts_with("False/"));
        let xr = self.plane.until(&self.xr, is_unsynced).await;
        self.plane.stop().await;
        assert_eq!(self.requests.take(), Vec::<Value>::new());
        let mut conditions = xr["status"]["conditions"].as_array().unwrap().iter();
        let synced = conditions.find(|condition| condition["type"] == "Synced").unwrap();
        synced["message"].as_str().unwrap_or_default().to_owned()
    }

    /// How often the composite resource was composed.
    fn recorded(&self) -> usize {
        let heads = self.plane.recordings().heads().unwrap();
        heads.iter().filter(|head| head.kind == "Site").count()
    }

    /// Everything that was recorded has the same result again, and something was if it was composed.
    pub(super) fn assert_replays_the_same(&self) {
        assert!(self.recorded() > 0 || !self.composes, "there are no recordings");
        assert_same(&self.plane.recordings());
    }

    /// Reconcile until nothing changes any more. Returns what is stored then.
    pub(super) async fn settle(&mut self) -> Stored {
        loop {
            let before = self.plane.get(&self.xr).await;
            self.reconcile().await;
            if self.plane.get(&self.xr).await == before {
                return self.stored().await;
            }
        }
    }

    /// What was told about the composite resource, as `Normal/Reason: text`.
    pub(super) async fn events(&self) -> Vec<String> {
        self.plane.events(self.xr.rsplit('/').next().unwrap()).await
    }
}

/// Whether nothing but this composite resource controls an object.
fn is_free_for(object: &Value, xr: &Value) -> bool {
    let mut owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.all(|owner| owner["controller"] != true || owner["uid"] == xr["metadata"]["uid"])
}
