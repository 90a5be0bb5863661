//! Reports missing rights of the control plane, to the user who can grant them.

use ferroplane_client::{ApiClient, Resource};
use serde_json::{Value, json};

use super::controller::Controller;

const VERBS: [&str; 7] = ["get", "list", "watch", "create", "update", "patch", "delete"];
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const OURSELVES: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

impl Controller {
    /// The rights on a kind that the plane needs and lacks.
    pub(super) async fn denied(&self, resource: &Resource, namespace: &str) -> Option<String> {
        let mut denied = Vec::new();
        for verb in VERBS {
            if !may(&self.shared.context.composer, verb, resource, namespace).await? {
                denied.push(verb);
            }
        }
        if denied.is_empty() {
            return None;
        }
        let (group, plural) = (resource.group(), &resource.plural);
        let version = ferroplane_api::meta::version(&resource.api_version);
        let what = if group.is_empty() {
            format!("{plural}/{version}")
        } else {
            format!("{plural}.{group}/{version}")
        };
        let place = if namespace.is_empty() { String::new() } else { format!(" in namespace {namespace}") };
        Some(format!(
            "{} is not allowed to [{}] resource {what}{place}",
            self.ourselves().await,
            denied.join(", ")
        ))
    }

    async fn ourselves(&self) -> String {
        let question = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let answer = self.shared.context.composer.review(OURSELVES, &question).await.unwrap_or(Value::Null);
        answer["status"]["userInfo"]["username"].as_str().unwrap_or("the control plane").to_owned()
    }
}

/// Whether the plane may do this with a kind, in one namespace or, if that is empty, in all. None if the API server does not answer.
pub(super) async fn may(
    cluster: &ApiClient,
    verb: &str,
    resource: &Resource,
    namespace: &str,
) -> Option<bool> {
    let question = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {
            "verb": verb, "group": resource.group(), "resource": resource.plural, "namespace": namespace,
        }},
    });
    let answer = cluster.review(REVIEWS, &question).await.ok()?;
    answer["status"]["allowed"].as_bool()
}
