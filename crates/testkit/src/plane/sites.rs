//! A kind of composite resource to try things with: sites, each of which has a few settings.

use serde_json::{Value, json};

use super::{Plane, condition};

pub const SITES: &str = "/apis/example.org/v1/namespaces/default/sites";
pub const SETTINGS: &str = "/api/v1/namespaces/default/configmaps";
const DEFINITION: &str =
    "/apis/apiextensions.crossplane.io/v2/compositeresourcedefinitions/sites.example.org";

/// A plane with a kind of site, which becomes two settings.
pub async fn plane_with_sites() -> Plane {
    let plane = Plane::new().await;
    plane.define_sites().await;
    plane.compose_sites(&["one", "two"]).await;
    plane.until_sites_can_be_composed().await;
    plane
}

/// A plane with a kind of site, which becomes what a function says.
pub async fn plane_with_sites_by(
    answer: impl Fn(&ferroplane_wire::v1::RunFunctionRequest) -> Value + Send + Sync + 'static,
) -> Plane {
    let plane = Plane::with_function("function-test", move |request| {
        let mut answer = answer(request);
        if answer.get("meta").is_none() {
            answer["meta"] = json!({});
        }
        ferroplane_wire::from_json(&answer).unwrap()
    })
    .await;
    plane.define_sites().await;
    plane.compose_sites_of(&json!([{"step": "test", "functionRef": {"name": "function-test"}}])).await;
    plane
}

impl Plane {
    pub async fn define_sites(&self) {
        let schema = json!({
            "type": "object", "properties": {
                "spec": {"type": "object", "properties": {"color": {"type": "string"}}},
                "status": {"type": "object", "properties": {"color": {"type": "string"}}},
            },
        });
        self.apply(
            DEFINITION,
            &json!({
                "apiVersion": "apiextensions.crossplane.io/v2", "kind": "CompositeResourceDefinition",
                "metadata": {"name": "sites.example.org"},
                "spec": {
                    "group": "example.org", "names": {"kind": "Site", "plural": "sites"}, "scope": "Namespaced",
                    "versions": [{
                        "name": "v1", "served": true, "referenceable": true, "schema": {"openAPIV3Schema": schema},
                    }],
                },
            }),
        )
        .await;
        self.until("/apis/example.org/v1", |kinds| {
            kinds["resources"]
                .as_array()
                .is_some_and(|kinds| kinds.iter().any(|kind| kind["name"] == "sites"))
        })
        .await;
    }

    /// Wait until the controller of sites runs, and the first revision of their Composition is checked.
    pub async fn until_sites_can_be_composed(&self) {
        let is_watched =
            |xrd: &Value| condition(xrd, "Established").as_deref() == Some("True/WatchingCompositeResource");
        self.until(DEFINITION, is_watched).await;
        let is_judged = |list: &Value| condition(&list["items"][0], "ValidPipeline").is_some();
        self.until("/apis/apiextensions.crossplane.io/v1/compositionrevisions", is_judged).await;
    }

    /// Sites become settings of these names.
    pub async fn compose_sites(&self, settings: &[&str]) {
        let resources = settings.iter().map(|name| {
            json!({
                "name": name,
                "base": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"who": name}},
                "patches": [
                    {"type": "FromCompositeFieldPath", "fromFieldPath": "spec.color", "toFieldPath": "data.color"},
                    {"type": "ToCompositeFieldPath", "fromFieldPath": "data.color", "toFieldPath": "status.color"},
                ],
            })
        });
        let input = json!({
            "apiVersion": "pt.fn.crossplane.io/v1beta1", "kind": "Resources", "resources": resources.collect::<Value>(),
        });
        self.compose_sites_of(&json!([
            {"step": "settings", "functionRef": {"name": "function-patch-and-transform"}, "input": input},
            {"step": "ready", "functionRef": {"name": "function-auto-ready"}},
        ]))
        .await;
    }

    /// Sites become what these steps say.
    pub async fn compose_sites_of(&self, pipeline: &Value) {
        self.apply(
            "/apis/apiextensions.crossplane.io/v1/compositions/sites",
            &json!({
                "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "sites"},
                "spec": {
                    "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "Site"},
                    "mode": "Pipeline", "pipeline": pipeline,
                },
            }),
        )
        .await;
    }

    pub async fn create_site(&self, name: &str, color: &str) {
        let site = json!({
            "apiVersion": "example.org/v1", "kind": "Site", "metadata": {"name": name}, "spec": {"color": color},
        });
        self.apply(&format!("{SITES}/{name}"), &site).await;
    }

    /// The settings that a site has, by who they are.
    pub async fn settings_of(&self, site: &str) -> Vec<Value> {
        let list = self.get(&format!("{SETTINGS}?labelSelector=crossplane.io/composite={site}")).await;
        let mut settings = list["items"].as_array().cloned().unwrap_or_default();
        settings.sort_by_key(|object| object["data"]["who"].to_string());
        settings
    }
}

/// Whether a site is ready as it is now, not as it was before it was changed.
pub fn is_ready(site: &Value) -> bool {
    let conditions = site["status"]["conditions"].as_array().into_iter().flatten();
    let mut synced = conditions.filter(|condition| condition["type"] == "Synced");
    condition(site, "Ready").as_deref() == Some("True/Available")
        && condition(site, "Synced").as_deref() == Some("True/ReconcileSuccess")
        && synced.all(|condition| condition["observedGeneration"] == site["metadata"]["generation"])
}
