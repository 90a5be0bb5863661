//! Composite resources: what they become, and how it stays so.

use serde_json::{Value, json};

use crate::plane::{Plane, condition};

const SITES: &str = "/apis/example.org/v1/namespaces/default/sites";
const SETTINGS: &str = "/api/v1/namespaces/default/configmaps";

/// A plane with a kind of site, each of which has a few settings.
async fn plane_with_sites() -> Plane {
    let plane = Plane::new().await;
    plane.define_sites().await;
    plane
}

impl Plane {
    async fn define_sites(&self) {
        self.apply(
            "/apis/apiextensions.crossplane.io/v2/compositeresourcedefinitions/sites.example.org",
            &json!({
                "apiVersion": "apiextensions.crossplane.io/v2", "kind": "CompositeResourceDefinition",
                "metadata": {"name": "sites.example.org"},
                "spec": {
                    "group": "example.org", "names": {"kind": "Site", "plural": "sites"}, "scope": "Namespaced",
                    "versions": [{"name": "v1", "served": true, "referenceable": true, "schema": {"openAPIV3Schema": {
                        "type": "object", "properties": {
                            "spec": {"type": "object", "properties": {"color": {"type": "string"}}},
                            "status": {"type": "object", "properties": {"color": {"type": "string"}}},
                        },
                    }}}],
                },
            }),
        )
        .await;
        self.compose_sites(&["one", "two"]).await;
    }

    /// Sites become settings of these names.
    async fn compose_sites(&self, settings: &[&str]) {
        let resources: Vec<_> = settings
            .iter()
            .map(|name| {
                json!({
                    "name": name,
                    "base": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"who": name}},
                    "patches": [
                        {"type": "FromCompositeFieldPath", "fromFieldPath": "spec.color", "toFieldPath": "data.color"},
                        {"type": "ToCompositeFieldPath", "fromFieldPath": "data.color", "toFieldPath": "status.color"},
                    ],
                })
            })
            .collect();
        self.apply(
            "/apis/apiextensions.crossplane.io/v1/compositions/sites",
            &json!({
                "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "sites"},
                "spec": {
                    "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "Site"},
                    "mode": "Pipeline",
                    "pipeline": [
                        {
                            "step": "settings", "functionRef": {"name": "function-patch-and-transform"},
                            "input": {
                                "apiVersion": "pt.fn.crossplane.io/v1beta1", "kind": "Resources", "resources": resources,
                            },
                        },
                        {"step": "ready", "functionRef": {"name": "function-auto-ready"}},
                    ],
                },
            }),
        )
        .await;
    }

    async fn create_site(&self, name: &str, color: &str) -> Value {
        let path = format!("{SITES}/{name}");
        let site = json!({
            "apiVersion": "example.org/v1", "kind": "Site", "metadata": {"name": name}, "spec": {"color": color},
        });
        self.until("/apis/example.org/v1", |kinds| {
            kinds["resources"]
                .as_array()
                .is_some_and(|kinds| kinds.iter().any(|kind| kind["name"] == "sites"))
        })
        .await;
        self.apply(&path, &site).await;
        path.as_str().into()
    }

    /// The settings that a site has, by the names that the composition knows them by.
    async fn settings_of(&self, site: &str) -> Vec<Value> {
        let list = self.get(&format!("{SETTINGS}?labelSelector=crossplane.io/composite={site}")).await;
        let mut settings = list["items"].as_array().cloned().unwrap_or_default();
        settings.sort_by_key(|object| object["data"]["who"].to_string());
        settings
    }
}

fn is_ready(site: &Value) -> bool {
    condition(site, "Ready").as_deref() == Some("True/Available")
        && condition(site, "Synced").as_deref() == Some("True/ReconcileSuccess")
}

#[tokio::test]
async fn site_becomes_settings_and_is_ready() {
    let plane = plane_with_sites().await;
    plane.create_site("blog", "red").await;
    let site = plane.until(&format!("{SITES}/blog"), is_ready).await;
    let settings = plane.settings_of("blog").await;
    assert_eq!(
        settings.iter().map(|object| object["data"].clone()).collect::<Vec<_>>(),
        [json!({"who": "one", "color": "red"}), json!({"who": "two", "color": "red"}),]
    );
    for object in &settings {
        let metadata = &object["metadata"];
        assert_eq!(metadata["ownerReferences"][0]["uid"], site["metadata"]["uid"]);
        assert_eq!(metadata["ownerReferences"][0]["blockOwnerDeletion"], true);
        assert_eq!(metadata["annotations"]["crossplane.io/composition-resource-name"], object["data"]["who"]);
    }
    let mut names: Vec<_> = settings.iter().map(|object| object["metadata"]["name"].clone()).collect();
    names.sort_by_key(ToString::to_string);
    let references = names.iter().map(|name| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name}));
    assert_eq!(site["spec"]["crossplane"]["resourceRefs"], references.collect::<Value>());
    assert_eq!(site["spec"]["crossplane"]["compositionRef"], json!({"name": "sites"}));
    assert_eq!(site["status"]["color"], "red");
    assert_eq!(site["metadata"]["finalizers"], json!(["composite.apiextensions.crossplane.io"]));
    for condition in site["status"]["conditions"].as_array().unwrap() {
        assert_eq!(condition["observedGeneration"], site["metadata"]["generation"], "{condition}");
    }
}
