//! Installing the kinds that we serve where something is in their way.

use std::time::Duration;

use ferroplane_apiserver::store::Options;
use ferroplane_client::{ApiClient, ObjectPath, Resource, Subresource};
use ferroplane_controllers::{InstallError, install_within};
use ferroplane_testkit::plane::{ApiServer, master};
use serde_json::json;

/// Somebody else's definition has the names of one of ours, which is therefore never established.
#[tokio::test]
async fn definition_whose_names_are_taken_is_an_error_and_no_endless_wait() {
    let server = ApiServer::embedded(Options::default()).await;
    let client = ApiClient::new(server.client(&master("administrator")));
    let resource = Resource {
        api_version: "apiextensions.k8s.io/v1".to_owned(),
        kind: "CustomResourceDefinition".to_owned(),
        plural: "customresourcedefinitions".to_owned(),
        is_namespaced: false,
    };
    let name = "others.pkg.crossplane.io";
    let other = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
        "spec": {
            "group": "pkg.crossplane.io", "scope": "Cluster",
            "names": {"kind": "Function", "plural": "others", "singular": "function", "listKind": "FunctionList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let other = other.as_object().unwrap();
    let path = ObjectPath { resource: &resource, namespace: "", name };
    client.apply(path, Subresource::None, "test", other).await.unwrap();
    let error = install_within(&client, Duration::from_millis(300)).await.unwrap_err();
    let InstallError::NotEstablished { name, reason, .. } = &error else { panic!("{error:?}") };
    assert_eq!(name, "functions.pkg.crossplane.io");
    assert!(reason.contains("NamesAccepted is False"), "{reason}");
    assert!(error.to_string().contains("kubectl describe crd functions.pkg.crossplane.io"), "{error}");
}
