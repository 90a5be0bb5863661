//! Whether revisions of compositions can be used.

use ferroplane_testkit::plane::{Plane, condition};
use serde_json::{Value, json};

use crate::composition::composition;

const COMPOSITIONS: &str = "/apis/apiextensions.crossplane.io/v1/compositions";
const REVISIONS: &str = "/apis/apiextensions.crossplane.io/v1/compositionrevisions";
const FUNCTIONS: &str = "/apis/pkg.crossplane.io/v1/functionrevisions";

/// Make a function that says it can do this.
async fn function(plane: &Plane, name: &str, state: &str, capabilities: &[&str]) {
    let revision = json!({
        "apiVersion": "pkg.crossplane.io/v1", "kind": "FunctionRevision",
        "metadata": {"name": format!("{name}-1"), "labels": {"pkg.crossplane.io/package": name}},
        "spec": {"desiredState": state, "image": format!("example.org/{name}:v1"), "revision": 1},
    });
    let path = format!("{FUNCTIONS}/{name}-1");
    plane.apply(&path, &revision).await;
    plane.merge(&format!("{path}/status"), &json!({"status": {"capabilities": capabilities}})).await;
}

/// Wait until the only revision says this about its pipeline. Returns it.
async fn verdict(plane: &Plane, wanted: &str) -> Value {
    let is_so = |list: &Value| condition(&list["items"][0], "ValidPipeline").as_deref() == Some(wanted);
    plane.until(REVISIONS, is_so).await["items"][0].clone()
}

#[tokio::test]
async fn revision_whose_functions_are_not_there_is_invalid_until_they_are() {
    let plane = Plane::new().await;
    plane.apply(&format!("{COMPOSITIONS}/site"), &composition("site", "A")).await;
    let revision = verdict(&plane, "False/MissingFunctions").await;
    let conditions = revision["status"]["conditions"].as_array().unwrap();
    let valid = conditions.iter().find(|condition| condition["type"] == "ValidPipeline").unwrap();
    assert_eq!((&valid["code"], &valid["step"]), (&json!("FunctionNotFound"), &json!("a")), "{valid}");
    function(&plane, "function-a", "Active", &["composition"]).await;
    let revision = verdict(&plane, "True/ValidPipeline").await;
    assert_eq!(condition(&revision, "Synced").as_deref(), Some("True/ReconcileSuccess"));
    assert_eq!(revision["status"]["conditions"][0]["observedGeneration"], 1);
}

#[tokio::test]
async fn revision_is_judged_again_when_its_functions_change() {
    let plane = Plane::new().await;
    function(&plane, "function-a", "Active", &["operation"]).await;
    plane.apply(&format!("{COMPOSITIONS}/site"), &composition("site", "A")).await;
    let revision = verdict(&plane, "False/MissingCapabilities").await;
    assert_eq!(condition(&revision, "Synced").as_deref(), Some("True/ReconcileSuccess"));
    function(&plane, "function-a", "Active", &["operation", "Composition"]).await;
    verdict(&plane, "True/ValidPipeline").await;
    function(&plane, "function-a", "Active", &[]).await;
    verdict(&plane, "False/MissingCapabilities").await;
    function(&plane, "function-a", "Inactive", &[]).await;
    verdict(&plane, "True/ValidPipeline").await;
}

#[tokio::test]
async fn what_is_built_in_must_be_able_to_compose_too() {
    let plane = Plane::new().await;
    let mut composition = composition("site", "A");
    composition["spec"]["pipeline"] = json!([{"step": "a", "functionRef": {"name": "function-operating"}}]);
    plane.apply(&format!("{COMPOSITIONS}/site"), &composition).await;
    verdict(&plane, "False/MissingCapabilities").await;
}

#[tokio::test]
async fn revision_that_no_pipeline_can_be_made_of_is_invalid() {
    let plane = Plane::new().await;
    let mut revision = composition("site-0", "A");
    revision["kind"] = "CompositionRevision".into();
    revision["spec"]["revision"] = 1.into();
    revision["spec"]["pipeline"] = json!([]);
    plane.apply(&format!("{REVISIONS}/site-0"), &revision).await;
    let revision = verdict(&plane, "False/InvalidPipeline").await;
    let conditions = revision["status"]["conditions"].as_array().unwrap();
    let message = conditions.iter().find(|condition| condition["type"] == "ValidPipeline").unwrap();
    assert_eq!(message["message"], "cannot make the pipeline ready: the pipeline has no steps");
}

#[tokio::test]
async fn nothing_is_written_when_nothing_changed() {
    let mut plane = Plane::new().await;
    function(&plane, "function-a", "Active", &["composition"]).await;
    plane.apply(&format!("{COMPOSITIONS}/site"), &composition("site", "A")).await;
    let before = verdict(&plane, "True/ValidPipeline").await;
    plane.restart().await;
    plane.writes();
    // Whoever is woken by this finds nothing to do either.
    plane
        .merge(&format!("{FUNCTIONS}/function-a-1/status"), &json!({"status": {"foundDependencies": 1}}))
        .await;
    plane.apply(&format!("{COMPOSITIONS}/other"), &composition("other", "A")).await;
    let is_judged = |list: &Value| {
        let mut items = list["items"].as_array().into_iter().flatten();
        items.all(|item| condition(item, "ValidPipeline").is_some()) && list["items"].get(1).is_some()
    };
    let list = plane.until(REVISIONS, is_judged).await;
    let mut items = list["items"].as_array().unwrap().iter();
    assert!(items.any(|item| item["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]));
}
