//! Sweeps away what a test has left on a real API server. Our own kinds stay: to install them takes a while.

use std::time::Duration;

use ferroplane_api::crds;
use http::Method;
use serde_json::{Value, json};

use super::super::send;
use super::items;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
/// On what the API server makes itself.
const BUILT_IN: &str = "kubernetes.io/bootstrapping";

struct Cleanup<'a>(&'a kube::Client);

/// Sweep while no controllers of ours run: nobody puts anything back.
pub(super) async fn sweep(client: &kube::Client) {
    let cleanup = Cleanup(client);
    // First, or it stands in the way of whatever is in use.
    cleanup.delete(&format!("{HOOKS}/crossplane-no-usages")).await;
    let crds = cleanup.get(CRDS).await;
    for crd in items(&crds) {
        cleanup.empty(crd).await;
    }
    let is_foreign = |crd: &&Value| !crds::ALL.iter().any(|ours| crd["metadata"]["name"] == ours.name());
    let foreign: Vec<_> = items(&crds).filter(is_foreign).map(|crd| path(CRDS, crd)).collect();
    for path in &foreign {
        cleanup.remove(path).await;
    }
    // Before events are: the server's controllers tell of what they do to them.
    cleanup.clear_workloads().await;
    for namespace in ["default", "kube-system"] {
        for plural in ["configmaps", "secrets", "events"] {
            cleanup
                .clear(&format!("/api/v1/namespaces/{namespace}/{plural}"), |object| {
                    let name = object["metadata"]["name"].as_str().unwrap();
                    name != "kube-root-ca.crt" && name != "extension-apiserver-authentication"
                })
                .await;
        }
    }
    for plural in ["clusterroles", "clusterrolebindings"] {
        let is_theirs = |object: &Value| object["metadata"]["labels"][BUILT_IN].is_null();
        cleanup.clear(&format!("{RBAC}/{plural}"), is_theirs).await;
    }
    let is_theirs = |object: &Value| {
        let name = object["metadata"]["name"].as_str().unwrap();
        name != "default" && !name.starts_with("kube-")
    };
    cleanup.clear("/api/v1/namespaces", is_theirs).await;
    for path in &foreign {
        cleanup.until_gone(path).await;
    }
}

impl Cleanup<'_> {
    /// Remove all objects of a kind, wherever they are.
    async fn empty(&self, crd: &Value) {
        let group = crd["spec"]["group"].as_str().unwrap();
        let plural = crd["spec"]["names"]["plural"].as_str().unwrap();
        let versions = crd["spec"]["versions"].as_array().unwrap();
        let Some(served) = versions.iter().find(|version| version["served"] == true) else { return };
        let base = format!("/apis/{group}/{}", served["name"].as_str().unwrap());
        let list = self.get(&format!("{base}/{plural}")).await;
        for object in items(&list) {
            let place = match object["metadata"]["namespace"].as_str() {
                Some(namespace) => format!("{base}/namespaces/{namespace}/{plural}"),
                None => format!("{base}/{plural}"),
            };
            self.remove(&path(&place, object)).await;
        }
    }

    /// Remove what runs, and what it runs as and on.
    async fn clear_workloads(&self) {
        // Owners first, or the server's controllers make again what they own.
        for plural in ["deployments", "statefulsets", "replicasets"] {
            self.clear(&format!("/apis/apps/v1/namespaces/default/{plural}"), |_| true).await;
        }
        self.clear("/api/v1/namespaces/default/pods", |_| true).await;
        self.clear("/api/v1/namespaces/default/persistentvolumeclaims", |_| true).await;
        self.clear("/api/v1/nodes", |_| true).await;
        // Otherwise, the garbage collector would remove those that were composed while the next test looks.
        let is_theirs = |account: &Value| account["metadata"]["name"] != "default";
        self.clear("/api/v1/namespaces/default/serviceaccounts", is_theirs).await;
    }

    /// Remove the objects of a list that are chosen, and wait until they are gone.
    async fn clear(&self, place: &str, is_chosen: impl Fn(&Value) -> bool) {
        let list = self.get(place).await;
        let chosen: Vec<_> =
            items(&list).filter(|object| is_chosen(object)).map(|object| path(place, object)).collect();
        for path in &chosen {
            self.remove(path).await;
        }
        for path in &chosen {
            self.until_gone(path).await;
        }
    }

    /// Delete an object, a caller that waits for whatever. Definitions keep what the API server itself waits for.
    async fn remove(&self, path: &str) {
        if !path.starts_with(CRDS) {
            let release = json!({"metadata": {"finalizers": null}});
            send(self.0, Method::PATCH, path, "application/merge-patch+json", &release).await;
        }
        self.delete(path).await;
    }

    async fn delete(&self, path: &str) {
        let options = json!({"propagationPolicy": "Background"});
        send(self.0, Method::DELETE, path, "application/json", &options).await;
    }

    async fn get(&self, path: &str) -> Value {
        send(self.0, Method::GET, path, "application/json", &Value::Null).await.1
    }

    /// Until the server has heard that nobody protects anything any more, it refuses to delete what was in use.
    async fn until_gone(&self, path: &str) {
        while send(self.0, Method::GET, path, "application/json", &Value::Null).await.0 != 404 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            self.delete(path).await;
        }
    }
}

fn path(place: &str, object: &Value) -> String {
    format!("{place}/{}", object["metadata"]["name"].as_str().unwrap())
}
