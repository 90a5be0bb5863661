//! Composed resources whose kind is no longer served in the version that their references name.

use ferroplane_testkit::plane::Plane;
use ferroplane_testkit::plane::sites::{SITES, is_ready, plane_with_sites_by};
use serde_json::{Value, json};

const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.cloud.example.org";
const WIDGETS: &str = "/apis/cloud.example.org/v1/namespaces/default/widgets";

/// Define widgets in two versions, of which these are served.
async fn serve(plane: &Plane, served: &[&str]) {
    let version = |name: &str| {
        json!({
            "name": name, "served": served.contains(&name), "storage": name == "v1alpha1",
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        })
    };
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.cloud.example.org"},
        "spec": {
            "group": "cloud.example.org", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [version("v1"), version("v1alpha1")],
        },
    });
    plane.apply(CRD, &crd).await;
    for name in ["v1", "v1alpha1"] {
        let is_served = served.contains(&name);
        plane.until(&format!("/apis/cloud.example.org/{name}"), |kinds| kinds.is_null() != is_served).await;
    }
}

/// A plane on which a red site is a widget of the first version, a blue one a widget of the second version and of another name, and
/// any other nothing. There is a red one.
async fn plane_with_red_widget() -> Plane {
    let plane = plane_with_sites_by(|request| {
        let site = request.observed.as_ref().unwrap().composite().unwrap().resource.clone().unwrap();
        let (version, name) = match site.json().unwrap()["spec"]["color"].as_str() {
            Some("red") => ("v1alpha1", "first"),
            Some("blue") => ("v1", "second"),
            _ => return json!({"desired": {}}),
        };
        let api_version = format!("cloud.example.org/{version}");
        let widget = json!({"apiVersion": api_version, "kind": "Widget", "metadata": {"name": name}});
        json!({"desired": {"resources": {"widget": {"resource": widget, "ready": "READY_TRUE"}}}})
    })
    .await;
    serve(&plane, &["v1alpha1"]).await;
    plane.create_site("blog", "red").await;
    plane.until(&blog(), is_ready).await;
    plane
}

fn blog() -> String {
    format!("{SITES}/blog")
}

fn references(site: &Value) -> Value {
    site["spec"]["crossplane"]["resourceRefs"].clone()
}

#[tokio::test]
async fn object_is_found_in_another_version_than_its_reference_names() {
    let plane = plane_with_red_widget().await;
    serve(&plane, &["v1"]).await;
    plane.merge(&blog(), &json!({"spec": {"color": "blue"}})).await;
    let site = plane.until(&blog(), is_ready).await;
    let widgets = plane.get(WIDGETS).await;
    let names: Vec<_> =
        widgets["items"].as_array().unwrap().iter().map(|it| &it["metadata"]["name"]).collect();
    assert_eq!(names, ["first"], "no second one is made");
    assert_eq!(
        references(&site),
        json!([{"apiVersion": "cloud.example.org/v1", "kind": "Widget", "name": "first"}])
    );
}

#[tokio::test]
async fn object_of_a_kind_that_is_not_served_is_not_forgotten() {
    let plane = plane_with_red_widget().await;
    let before = references(&plane.get(&blog()).await);
    serve(&plane, &[]).await;
    plane.merge(&blog(), &json!({"spec": {"color": "none"}})).await;
    let is_reported = |site: &Value| {
        let conditions = site["status"]["conditions"].as_array();
        conditions.into_iter().flatten().any(|condition| {
            condition["code"] == "ComposedKindUnavailable"
                && condition["observedGeneration"] == site["metadata"]["generation"]
        })
    };
    let site = plane.until(&blog(), is_reported).await;
    assert_eq!(references(&site), before);
    // As soon as it can be read, it is deleted.
    serve(&plane, &["v1"]).await;
    plane.until(&blog(), |site| references(site) == json!([])).await;
    plane.until(WIDGETS, |widgets| widgets["items"] == json!([])).await;
}
