//! Informers of one namespace, and of all.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferroplane_client::{Change, DataStandIn, Informer, InformerError, InformerScope};
use http::StatusCode;
use serde_json::json;
use tokio::sync::Notify;

use crate::server::{TestServer, config_maps};

/// What an informer told of, as `+namespace/name` and `-namespace/name`.
struct Told {
    informer: Arc<Informer>,
    changes: Arc<Mutex<Vec<String>>>,
    news: Arc<Notify>,
}

impl Told {
    async fn by(server: &TestServer, namespace: Option<&str>) -> Self {
        let scope = InformerScope {
            namespace: namespace.map(str::to_owned),
            ..InformerScope::new(config_maps().into())
        };
        let informer = Informer::start(server.client(), scope);
        let told = Self { informer, changes: Arc::default(), news: Arc::default() };
        let (changes, news) = (told.changes.clone(), told.news.clone());
        told.informer.listen(move |_, change| {
            let sign = if matches!(change, Change::Applied { .. }) { '+' } else { '-' };
            changes.lock().unwrap().push(format!("{sign}{}", change.header().key()));
            news.notify_one();
        });
        told.informer.synced().await;
        told
    }

    async fn wait_for(&self, change: &str) {
        let seen = async {
            while !self.changes.lock().unwrap().iter().any(|told| told == change) {
                self.news.notified().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), seen).await.expect(change);
    }

    fn namespaces(&self) -> Vec<String> {
        let changes = self.changes.lock().unwrap();
        let mut namespaces: Vec<_> =
            changes.iter().map(|change| change[1..].split('/').next().unwrap().to_owned()).collect();
        namespaces.sort();
        namespaces.dedup();
        namespaces
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        self.informer.stop();
    }
}

async fn server_with_two_namespaces() -> TestServer {
    let server = TestServer::start().await;
    server.create_namespaces(&["a", "b"]).await;
    server.create_config_map("a", "first").await;
    server.create_config_map("b", "first").await;
    server
}

#[tokio::test]
async fn informer_of_a_namespace_never_sees_another() {
    let server = server_with_two_namespaces().await;
    let told = Told::by(&server, Some("a")).await;
    server.create_config_map("b", "second").await;
    server.create_config_map("a", "second").await;
    told.wait_for("+a/second").await;
    assert_eq!(told.namespaces(), ["a"]);
    assert_eq!(told.informer.len(), 2);
    assert!(told.informer.get("a", "first").is_some() && told.informer.get("b", "first").is_none());
}

#[tokio::test]
async fn informer_of_all_namespaces_sees_each() {
    let server = server_with_two_namespaces().await;
    let told = Told::by(&server, None).await;
    told.wait_for("+a/first").await;
    told.wait_for("+b/first").await;
}

#[tokio::test]
async fn informer_says_while_the_server_does_not_let_it_watch() {
    let server = server_with_two_namespaces().await;
    let told = Told::by(&server, None).await;
    assert!(told.informer.refusal().is_none());
    server.refuse_next_watch(StatusCode::FORBIDDEN);
    server.end_watches();
    let until = |is_refused: bool| {
        tokio::time::timeout(Duration::from_secs(30), told.informer.until_refused(is_refused))
    };
    until(true).await.expect("it is refused");
    assert!(matches!(told.informer.refusal(), Some(InformerError::Refused(error)) if error.is_forbidden()));
    assert_eq!(told.informer.len(), 2, "what was cached stays");
    until(false).await.expect("it is served again");
}

#[tokio::test]
async fn watch_that_ended_is_restarted_in_the_same_namespace() {
    let server = server_with_two_namespaces().await;
    let told = Told::by(&server, Some("a")).await;
    server.create_config_map("a", "second").await;
    told.wait_for("+a/second").await;
    server.end_watches();
    server.create_config_map("b", "third").await;
    server.create_config_map("a", "third").await;
    told.wait_for("+a/third").await;
    assert_eq!(told.namespaces(), ["a"]);
    let watches = server.requests("watch=true");
    assert!(watches.len() >= 2, "{watches:?}");
    assert!(watches.iter().all(|uri| uri.starts_with("/api/v1/namespaces/a/configmaps?")), "{watches:?}");
    let lists = server.requests("limit=");
    assert_eq!(lists.len(), 1, "a watch that ended is continued without a list: {lists:?}");
}

#[tokio::test]
async fn informer_that_fell_behind_lists_its_namespace_again() {
    let server = server_with_two_namespaces().await;
    let told = Told::by(&server, Some("a")).await;
    server.create_config_map("a", "second").await;
    told.wait_for("+a/second").await;
    server.refuse_next_watch(StatusCode::GONE);
    server.end_watches();
    server.create_config_map("a", "third").await;
    told.wait_for("+a/third").await;
    assert_eq!(told.namespaces(), ["a"]);
    let lists = server.requests("limit=");
    assert_eq!(lists.len(), 2, "{lists:?}");
    assert!(lists.iter().all(|uri| uri.starts_with("/api/v1/namespaces/a/configmaps?")), "{lists:?}");
}

#[tokio::test]
async fn server_that_fails_is_waited_for_and_one_that_refuses_is_not() {
    for (code, is_waited_for) in [
        (StatusCode::SERVICE_UNAVAILABLE, true),
        (StatusCode::NOT_FOUND, false),
        (StatusCode::FORBIDDEN, false),
    ] {
        let server = server_with_two_namespaces().await;
        server.refuse_next_list(code);
        let informer = Informer::start(server.client(), InformerScope::new(config_maps().into()));
        informer.synced_or_refused().await;
        assert_eq!(!informer.is_empty(), is_waited_for, "{code}");
        informer.stop();
    }
}

#[tokio::test]
async fn informer_without_data_keeps_everything_else() {
    let server = server_with_two_namespaces().await;
    let copy = r#"{"data":{"color":"secret"}}"#;
    let metadata = json!({
        "name": "applied", "namespace": "a",
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": copy, "kept": "yes"},
    });
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "immutable": true, "data": {"color": "secret"},
    });
    server.client().create(&config_maps(), "a", object.as_object().unwrap()).await.unwrap();
    let scope = InformerScope { without_data: true, ..InformerScope::new(config_maps().into()) };
    let informer = Informer::start(server.client(), scope);
    informer.synced().await;
    let held = String::from_utf8(informer.get("a", "applied").unwrap().bytes.to_vec()).unwrap();
    assert!(held.contains(r#""kept":"yes""#) && held.contains(r#""immutable":true"#), "{held}");
    assert!(held.contains("managedFields") && !held.contains("secret"), "{held}");
    informer.stop();
}

#[tokio::test]
async fn what_stands_for_data_is_kept_in_its_place() {
    let server = server_with_two_namespaces().await;
    let metadata = json!({"name": "long", "namespace": "a"});
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"color": "secret"}});
    server.client().create(&config_maps(), "a", object.as_object().unwrap()).await.unwrap();
    let lengths = DataStandIn::new(|object| {
        let length = object.get("data").and_then(|data| data["color"].as_str()).map(str::len);
        json!({"length": length}).as_object().cloned().unwrap()
    });
    let scope = InformerScope {
        without_data: true,
        stand_in: Some(lengths),
        ..InformerScope::new(config_maps().into())
    };
    let informer = Informer::start(server.client(), scope);
    informer.synced().await;
    let held = informer.object("a", "long").unwrap();
    assert_eq!((held.get("data"), &held["length"]), (None, &json!(6)));
    informer.stop();
}

#[tokio::test]
async fn informer_of_metadata_keeps_no_data() {
    let server = server_with_two_namespaces().await;
    let copy = r#"{"data":{"color":"secret"}}"#;
    let metadata = json!({
        "name": "applied", "namespace": "a", "labels": {"paint": "yes"},
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": copy, "kept": "yes"},
    });
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"color": "secret"}});
    let before = object.as_object().unwrap();
    server.client().create(&config_maps(), "a", before).await.unwrap();
    let scope = InformerScope { metadata_only: true, ..InformerScope::new(config_maps().into()) };
    let informer = Informer::start(server.client(), scope);
    informer.synced().await;
    // What comes with the list, and what comes with the watch.
    let mut after = before.clone();
    after["metadata"]["name"] = "later".into();
    server.client().create(&config_maps(), "a", &after).await.unwrap();
    for name in ["applied", "later"] {
        let held = loop {
            match informer.get("a", name) {
                Some(held) => break String::from_utf8(held.bytes.to_vec()).unwrap(),
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        assert!(held.contains(r#""paint":"yes""#) && held.contains(r#""kept":"yes""#), "{held}");
        assert!(!held.contains("secret") && !held.contains("managedFields"), "{held}");
    }
    informer.stop();
}
