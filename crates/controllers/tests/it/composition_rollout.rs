//! `FunctionRollout` of a Composition: composite resources follow a new revision in waves, and go back when it misbehaves.

use std::collections::BTreeSet;

use ferroplane_controllers::PackagedFunction;
use ferroplane_testkit::plane::sites::{SITES, is_ready, plane_with_sites};
use ferroplane_testkit::plane::{Plane, condition};
use serde_json::{Value, json};

use crate::function_rollout::{answer, runner};
use crate::rollout::Rollout;

const ROLLOUT: &str = "/apis/rollout.ferroplane.io/v1alpha1/functionrollouts/sites";
const COUNT: usize = 4;

/// Sites that follow the first revision of their Composition, and a rollout for it.
struct Fleet {
    plane: Plane,
    first: String,
    composed: BTreeSet<String>,
}

impl Fleet {
    async fn begin(more: &Value) -> Self {
        let plane = plane_with_sites().await;
        for number in 0..COUNT {
            plane.create_site(&format!("site-{number}"), "red").await;
        }
        for number in 0..COUNT {
            plane.until(&site(number), is_ready).await;
        }
        let first = revision_of(&plane.get(&site(0)).await);
        let mut spec = json!({
            "compositionRef": {"name": "sites"}, "minReadySeconds": 0, "gates": {"maxLatencyFactor": 0},
        });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let rollout = json!({
            "apiVersion": "rollout.ferroplane.io/v1alpha1", "kind": "FunctionRollout", "metadata": {"name": "sites"}, "spec": spec,
        });
        plane.apply(ROLLOUT, &rollout).await;
        plane.until(ROLLOUT, |rollout| rollout["status"]["stable"] == first).await;
        plane.quiet().await;
        let composed = composed(&plane).await;
        Self { plane, first, composed }
    }

    async fn until_state(&self, state: &str) -> Value {
        self.plane.until(ROLLOUT, |rollout| rollout["status"]["state"] == state).await["status"].clone()
    }

    /// All sites follow the first revision, and nothing was deleted.
    async fn assert_unharmed(&self) {
        for number in 0..COUNT {
            let is_back = |site: &Value| is_ready(site) && revision_of(site) == self.first;
            self.plane.until(&site(number), is_back).await;
            let events = self.plane.events(&format!("site-{number}")).await;
            assert!(!events.iter().any(|event| event.starts_with("Warning")), "{events:#?}");
        }
        assert_eq!(composed(&self.plane).await, self.composed, "nothing was deleted");
    }
}

fn site(number: usize) -> String {
    format!("{SITES}/site-{number}")
}

fn revision_of(site: &Value) -> String {
    site["spec"]["crossplane"]["compositionRevisionRef"]["name"].as_str().unwrap_or_default().to_owned()
}

async fn composed(plane: &Plane) -> BTreeSet<String> {
    let list = plane.get("/api/v1/configmaps?labelSelector=crossplane.io/composite").await;
    list["items"].as_array().unwrap().iter().map(|it| it["metadata"]["uid"].to_string()).collect()
}

#[tokio::test]
async fn revision_of_a_composition_that_works_reaches_all() {
    let fleet = Fleet::begin(&json!({"paused": true})).await;
    fleet.plane.compose_sites(&["one", "two", "three"]).await;
    let status = fleet.until_state("Paused").await;
    let candidate = status["candidate"].as_str().unwrap().to_owned();
    fleet.plane.quiet().await;
    // It can be used, and nothing follows it: neither whoever was there, nor whoever is new.
    fleet.plane.create_site("late", "red").await;
    let late = fleet.plane.until(&format!("{SITES}/late"), is_ready).await;
    assert_eq!(revision_of(&late), fleet.first);
    assert_eq!(revision_of(&fleet.plane.get(&site(0)).await), fleet.first);
    fleet.plane.merge(ROLLOUT, &json!({"spec": {"paused": null}})).await;
    let status = fleet.until_state("Promoted").await;
    assert_eq!(status["differences"], json!({"Added": COUNT + 1}));
    for number in 0..COUNT {
        fleet.plane.until(&site(number), |site| is_ready(site) && revision_of(site) == candidate).await;
    }
    fleet.plane.quiet().await;
    assert_eq!(composed(&fleet.plane).await.len(), 3 * (COUNT + 1));
}

#[tokio::test]
async fn revision_of_a_composition_that_drops_a_resource_deletes_nothing() {
    let fleet = Fleet::begin(&json!({})).await;
    fleet.plane.compose_sites(&["one"]).await;
    let status = fleet.until_state("RolledBack").await;
    assert!(status["message"].as_str().unwrap().contains("no longer composes `two`"), "{status:#}");
    fleet.assert_unharmed().await;
    // It is not tried again, and nothing happens any more.
    fleet.plane.quiet().await;
    assert_eq!(fleet.plane.quiet().await, Vec::<String>::new());
}

#[tokio::test]
async fn revision_of_a_composition_deletes_nothing_while_the_old_one_cannot_be_called() {
    let mut rollout = Rollout::begin().await;
    let function = rollout.install_running("v1.0.0", None, runner(|_| answer("one", &["a", "b"]))).await;
    rollout.compose("all", &json!({})).await;
    let (plane, blog) = (&rollout.plane, site(0));
    plane.create_site("site-0", "red").await;
    let first = revision_of(&plane.until(&blog, is_ready).await);
    let policy = json!({
        "apiVersion": "rollout.ferroplane.io/v1alpha1", "kind": "FunctionRollout", "metadata": {"name": "sites"},
        "spec": {"compositionRef": {"name": "sites"}, "minReadySeconds": 0, "paused": true},
    });
    plane.apply(ROLLOUT, &policy).await;
    plane.until(ROLLOUT, |rollout| rollout["status"]["stable"] == first).await;
    let before = composed(plane).await;
    // The new revision calls another function, and composes something else.
    plane.compose_sites(&["one"]).await;
    plane.until(ROLLOUT, |rollout| rollout["status"]["state"] == "Paused").await;
    rollout.functions.set(&function, Some(PackagedFunction::Down("it ended".to_owned())));
    plane.merge(ROLLOUT, &json!({"spec": {"paused": null}})).await;
    let is_back = |rollout: &Value| rollout["status"]["state"] == "RolledBack";
    let status = plane.until(ROLLOUT, is_back).await["status"].clone();
    assert!(status["message"].as_str().unwrap().contains("cannot be called to compare"), "{status:#}");
    assert_eq!(composed(plane).await, before, "nothing was deleted");
    let again = PackagedFunction::Serving(runner(|_| answer("one", &["a", "b"])));
    rollout.functions.set(&function, Some(again));
    let site = plane.until(&blog, is_ready).await;
    assert_eq!(revision_of(&site), first);
    assert_eq!(composed(plane).await, before, "nothing was deleted");
}

#[tokio::test]
async fn preview_of_a_composition_moves_nobody() {
    let fleet = Fleet::begin(&json!({"preview": true, "paused": true})).await;
    fleet.plane.compose_sites(&["one", "two", "three"]).await;
    let status = fleet.until_state("Paused").await;
    assert_eq!(status["differences"], json!({"Added": COUNT}), "{status:#}");
    fleet.assert_unharmed().await;
}

#[tokio::test]
async fn sites_that_pin_or_select_a_revision_are_counted_and_not_moved() {
    let fleet = Fleet::begin(&json!({"paused": true})).await;
    let manual = json!({"spec": {"crossplane": {"compositionUpdatePolicy": "Manual"}}});
    fleet.plane.merge(&site(0), &manual).await;
    fleet.plane.compose_sites(&["one", "two", "three"]).await;
    fleet.until_state("Paused").await;
    fleet.plane.merge(ROLLOUT, &json!({"spec": {"paused": null}})).await;
    let status = fleet.until_state("Promoted").await;
    assert_eq!(
        (&status["composites"]["total"], &status["composites"]["manual"]),
        (&json!(COUNT - 1), &json!(1))
    );
    fleet.plane.quiet().await;
    assert_eq!(revision_of(&fleet.plane.get(&site(0)).await), fleet.first);
}

#[tokio::test]
async fn plan_of_a_composition_says_what_it_comes_to_in_the_end() {
    let fleet = Fleet::begin(&json!({"paused": true})).await;
    let composition = fleet.plane.get("/apis/apiextensions.crossplane.io/v1/compositions/sites").await;
    let mut spec = composition["spec"].clone();
    spec["pipeline"][0]["input"]["resources"].as_array_mut().unwrap().truncate(1);
    let file = json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "sites"}, "spec": spec,
    });
    let plan = fleet.plane.plan(&[file]).await.unwrap();
    assert_eq!(plan.composites.len(), COUNT, "{plan:#?}");
}

#[tokio::test]
async fn rollout_is_for_a_function_or_a_composition() {
    let plane = plane_with_sites().await;
    let rollout = |spec: &Value| {
        json!({
            "apiVersion": "rollout.ferroplane.io/v1alpha1", "kind": "FunctionRollout", "metadata": {"name": "sites"}, "spec": spec,
        })
    };
    let both = json!({"functionRef": {"name": "a"}, "compositionRef": {"name": "a"}});
    for wrong in [json!({}), both] {
        let path = "/apis/rollout.ferroplane.io/v1alpha1/functionrollouts";
        let (code, answer) = plane.send(http::Method::POST, path, "application/json", &rollout(&wrong)).await;
        assert_eq!(code, 422, "{answer:#}");
    }
    plane.apply(ROLLOUT, &rollout(&json!({"compositionRef": {"name": "nothing"}}))).await;
    let refused = |it: &Value| condition(it, "Accepted").as_deref() == Some("False/CompositionNotFound");
    plane.until(ROLLOUT, refused).await;
}
