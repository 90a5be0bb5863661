//! What a plane does is what `render` says that it will do.
//!
//! Controllers carry out each scenario on a plane, and the same scenario is rendered from the objects that the plane has stored: once
//! from what its user wrote, once from what the plane has made of it. A function that takes notes is called by both. The requests that
//! it gets, the conditions and events of the composite resource, the references that it records and the resources that it composes are
//! the same, but for the facts in [`masks`]. The user's own file is rendered, too: what no API server has given defaults to has the same
//! fields for functions. Everything that the plane recorded meanwhile is replayed in the end.
//!
//! Each fact that `render` has to decide as a plane does has a scenario. The tests of planes alone (`composites`, `pipelines`, `claim`, `grants`,
//! `versions`, `connection_details`, `composed_kinds`) go into details of the same facts: a fact that is new there needs a scenario here. How
//! long a response is valid has none: `render` calls a function once, and tells nobody when a plane would call it again.

mod difference;
mod masks;
mod offline;
mod plane;
mod scenarios;

use serde_json::Value;

use difference::{assert_contains, assert_same};
use offline::Rendered;
use plane::{Run, Stored};
use scenarios::Scenario;

/// Carry out a scenario, render it, and compare.
async fn check(scenario: Scenario) {
    let mut run = Run::prepare(&scenario).await;
    let written = run.stored().await;
    let first_requests = run.reconcile().await;
    let settled = run.settle().await;
    let second_requests = run.reconcile().await;

    let before = Rendered::of(&scenario, &written).await;
    assert_requests(&first_requests, &before.requests, masks::FIRST);
    let after = Rendered::of(&scenario, &settled).await;
    assert_requests(&second_requests, &after.requests, masks::SETTLED);
    assert_own_fields(&scenario, &first_requests).await;

    let events = run.events().await;
    let rendered_events = [masks::first_events(before.events), after.events].concat();
    assert_same("events", &masks::events(&events), &masks::events(&rendered_events));
    assert_same("status", &masks::status(&settled.xr), &masks::status(&after.xr));
    assert_same("references", &references(&settled.xr), &references(&after.xr));
    assert_composed(&settled.composed, &after.composed);
    run.assert_replays_the_same();
}

/// The plane composes nothing, and `render` refuses the files. Both say why in their own words, since one is about objects and the other
/// about files, and both name this.
async fn check_refused(scenario: Scenario, named: &[&str]) {
    let mut run = Run::prepare(&scenario).await;
    let written = run.stored().await;
    let told = run.refuse().await;
    let rendered = Rendered::refusal(&scenario, &written).await;
    for name in named {
        assert!(told.contains(name), "the plane does not name {name}: {told}");
        assert!(rendered.contains(name), "`render` does not name {name}: {rendered}");
    }
}

/// Functions see the same in the fields of the composite resource, whether an API server or `render` gave them defaults.
async fn assert_own_fields(scenario: &Scenario, plane: &[Value]) {
    let Some(request) = plane.first() else { return };
    let (composed, others, schemas) = (Vec::new(), scenario.others.clone(), Value::Null);
    let file = Rendered::of(scenario, &Stored { xr: scenario.xr.clone(), composed, others, schemas }).await;
    let expected = file.requests.first().expect("`render` asks the function, too");
    assert_same("fields", &own_fields(scenario, request), &own_fields(scenario, expected));
}

/// What the schema of the definition has fields for, as a function sees it.
fn own_fields(scenario: &Scenario, request: &Value) -> Value {
    let schema = &scenario.kinds[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let fields = schema["properties"]["spec"]["properties"].as_object().unwrap().keys();
    let spec = &request["observed"]["composite"]["resource"]["spec"];
    fields.map(|field| (field.clone(), spec[field].clone())).collect()
}

/// The plane first asks functions what `render` asks them. What it asks after it has composed something is not compared here.
fn assert_requests(plane: &[Value], rendered: &[Value], masked: &[&str]) {
    assert!(plane.len() >= rendered.len(), "{} requests instead of {}", plane.len(), rendered.len());
    assert_eq!(plane.is_empty(), rendered.is_empty(), "{plane:#?}");
    for (request, expected) in plane.iter().zip(rendered) {
        assert_same("request", &masks::without(request, masked), &masks::without(expected, masked));
    }
}

/// Everything that `render` composes is on the plane, and nothing else.
fn assert_composed(plane: &[Value], rendered: &[Value]) {
    let identity = |object: &Value| ["apiVersion", "kind"].map(|key| object[key].clone());
    for object in rendered {
        let is_same = |stored: &&Value| {
            identity(stored) == identity(object) && stored["metadata"]["name"] == object["metadata"]["name"]
        };
        let stored = plane.iter().find(is_same);
        let stored = stored.unwrap_or_else(|| panic!("the plane has not composed {object:#}"));
        assert_contains("composed resource", stored, object);
        // An API server adds no labels, so that each has them from its composer.
        assert_same("labels", &stored["metadata"]["labels"], &object["metadata"]["labels"]);
    }
    assert_eq!(plane.len(), rendered.len(), "the plane has composed {plane:#?}");
}

fn references(xr: &Value) -> Value {
    let spec = &xr["spec"];
    let machinery = if spec["crossplane"].is_null() { spec } else { &spec["crossplane"] };
    machinery["resourceRefs"].clone()
}
