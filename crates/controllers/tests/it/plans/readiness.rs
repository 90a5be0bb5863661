//! Plans that are asked for before all composite resources are known: they wait, or say so.

use ferroplane_engine::changes::Action;
use ferroplane_testkit::plane::{Plane, condition};
use serde_json::json;

use super::{composition, of, plane_with, site, told};

const XRD: &str = "/apis/apiextensions.crossplane.io/v2/compositeresourcedefinitions/sites.example.org";
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/sites.example.org";

/// Plan another Composition, and see that all sites are in the plan.
async fn plan_reaches_all(plane: &Plane, settings: &[&str], expected: &[(Action, &str)]) {
    let plan = plane.plan(&[composition(settings)]).await.unwrap();
    assert_eq!(plan.considered, 2, "{plan:#?}");
    for name in ["blog", "docs"] {
        assert_eq!(told(of(&plan, name)), expected, "{plan:#?}");
    }
}

#[tokio::test]
async fn plan_right_after_a_start_reaches_every_site() {
    let mut plane = plane_with(&["blog", "docs"]).await;
    let expected = [(Action::Delete, "two"), (Action::Create, "three")];
    for _ in 0..3 {
        plane.restart().await;
        plan_reaches_all(&plane, &["one", "three"], &expected).await;
    }
}

#[tokio::test]
async fn plan_right_after_a_definition_changed_reaches_every_site() {
    let plane = plane_with(&["blog", "docs"]).await;
    let expected = [(Action::Delete, "two"), (Action::Create, "three")];
    for number in 0..5 {
        // The controller of its composite resources is started anew.
        plane.merge(XRD, &json!({"spec": {"metadata": {"labels": {"number": number.to_string()}}}})).await;
        plan_reaches_all(&plane, &["one", "three"], &expected).await;
    }
}

#[tokio::test]
async fn composite_resource_that_no_controller_reconciles_is_not_planned() {
    let plane = Plane::new().await;
    // Not made from a definition, so that none gets it.
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "sites.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced", "names": {"kind": "Site", "plural": "sites"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    plane.apply(CRD, &crd).await;
    plane.define_sites().await;
    plane.until(XRD, |xrd| condition(xrd, "Established").is_some_and(|it| it.starts_with("False/"))).await;
    let refused = plane.plan(&[site("blog", "red")]).await.unwrap_err();
    assert!(refused.to_string().contains("`sites.example.org` is not established"), "{refused}");
}
