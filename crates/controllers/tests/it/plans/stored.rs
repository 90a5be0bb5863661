//! Plans for composed resources as the API server stores them: with the defaults of their schema, unless it refuses them.

use ferroplane_engine::changes::{Action, Change, ChangePlan};
use ferroplane_testkit::plane::sites::{SITES, is_ready, plane_with_sites_by};
use ferroplane_testkit::plane::{Plane, condition};
use serde_json::{Value, json};

use super::{of, site};

const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.cloud.example.org";
const WIDGETS: &str = "/apis/cloud.example.org/v1/namespaces/default/widgets";

/// A plane on which a site is a widget of its name and color. A widget has a size by default, and no long color.
async fn plane_with_widgets() -> Plane {
    let plane = plane_with_sites_by(|request| {
        let site = request.observed.as_ref().unwrap().composite().unwrap().resource.clone().unwrap();
        let site = site.json().unwrap();
        let widget = json!({
            "apiVersion": "cloud.example.org/v1", "kind": "Widget", "metadata": {"name": site["metadata"]["name"]},
            "spec": {"color": site["spec"]["color"]},
        });
        json!({"desired": {"resources": {"widget": {"resource": widget, "ready": "READY_TRUE"}}}})
    })
    .await;
    let spec = json!({
        "type": "object", "properties": {
            "color": {"type": "string", "maxLength": 5}, "size": {"type": "integer", "default": 3},
        },
    });
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.cloud.example.org"},
        "spec": {
            "group": "cloud.example.org", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    });
    plane.apply(CRD, &crd).await;
    plane.until("/apis/cloud.example.org/v1", |kinds| !kinds.is_null()).await;
    plane.create_site("blog", "red").await;
    plane.until(&format!("{SITES}/blog"), is_ready).await;
    plane.quiet().await;
    plane
}

/// What happens to the widget of a site.
fn widget<'p>(plan: &'p ChangePlan, site: &str) -> &'p Change {
    let widget = of(plan, site).changes.iter().find(|change| change.object.kind == "Widget");
    widget.unwrap_or_else(|| panic!("{plan:#?}"))
}

#[tokio::test]
async fn defaults_of_a_composed_resource_are_in_the_plan() {
    let plane = plane_with_widgets().await;
    let plan = plane.plan(&[site("docs", "green")]).await.unwrap();
    let widget = widget(&plan, "docs");
    let fields = widget.fields.iter().filter(|field| field.path.starts_with("spec."));
    let fields: Vec<_> = fields.map(|field| (field.path.as_str(), field.after.clone())).collect();
    let expected = [("spec.color", Some(json!("green"))), ("spec.size", Some(json!(3)))];
    assert_eq!((widget.action, fields), (Action::Create, expected.to_vec()));

    // What is then done is what the plan said.
    plane.apply(&format!("{SITES}/docs"), &site("docs", "green")).await;
    let made = plane.until(&format!("{WIDGETS}/docs"), |widget| !widget.is_null()).await;
    assert_eq!(made["spec"], json!({"color": "green", "size": 3}));
}

#[tokio::test]
async fn composed_resource_that_the_api_server_would_refuse_is_reported_with_its_reason() {
    let plane = plane_with_widgets().await;
    let plan = plane.plan(&[site("blog", "crimson")]).await.unwrap();
    let widget = widget(&plan, "blog");
    let reason = widget.refused.as_deref().unwrap_or_else(|| panic!("{plan:#?}"));
    assert!(reason.contains("spec.color"), "{reason}");
    assert_eq!((widget.resource.as_str(), widget.object.name.as_str()), ("widget", "blog"));

    // What is then done is what the plan said.
    plane.apply(&format!("{SITES}/blog"), &site("blog", "crimson")).await;
    let is_refused =
        |site: &Value| condition(site, "Synced").is_some_and(|synced| synced.starts_with("False"));
    plane.until(&format!("{SITES}/blog"), is_refused).await;
    assert_eq!(plane.get(&format!("{WIDGETS}/blog")).await["spec"]["color"], "red");
}
