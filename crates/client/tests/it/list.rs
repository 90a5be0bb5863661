//! Lists, page by page, and discovery.

use ferroplane_client::Query;

use crate::server::{TestServer, config_maps};

#[tokio::test]
async fn list_is_read_page_by_page() {
    let server = TestServer::start().await;
    server.create_namespaces(&["a"]).await;
    for number in 0..7 {
        server.create_config_map("a", &format!("map-{number}")).await;
    }
    let query = Query { limit: Some(3), ..Query::default() };
    let objects = server.client().list_objects(&config_maps(), "a", &query).await.unwrap();
    let names: Vec<_> = objects.iter().map(|object| object["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["map-0", "map-1", "map-2", "map-3", "map-4", "map-5", "map-6"]);
    assert!(objects.iter().all(|object| object["kind"] == "ConfigMap"), "items are given their kind");
    assert_eq!(server.requests("limit=3").len(), 3);
}

#[tokio::test]
async fn kinds_are_found_one_by_one_and_all_at_once() {
    let client = TestServer::start().await.client();
    let found = client.resource("v1", "ConfigMap").await.unwrap().unwrap();
    assert_eq!(*found, config_maps());
    assert!(client.resource("v1", "Unknown").await.unwrap().is_none());
    assert!(client.resource("../v1", "ConfigMap").await.unwrap().is_none());
    let catalogue = client.catalogue().await.unwrap();
    assert_eq!(catalogue.find("cm"), Some(&found));
    assert_eq!(catalogue.get("v1", "ConfigMap"), Some(&found));
    assert_eq!(catalogue.get_any_version("apps/v0", "Deployment").unwrap().api_version, "apps/v1");
}

#[tokio::test]
async fn kind_is_found_by_its_plural_while_kinds_change() {
    let server = TestServer::start().await;
    let client = server.client();
    server.make_forgetful(&client);
    let found = client.resource_of_plural("v1", "configmaps").await.unwrap();
    assert_eq!(found.as_deref(), Some(&config_maps()));
    assert!(client.resource_of_plural("v1", "unknowns").await.unwrap().is_none());
    assert!(client.resource_of_plural("../v1", "configmaps").await.unwrap().is_none());
}
