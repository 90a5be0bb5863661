//! What earlier releases wrote opens, and has what was written.

use std::path::Path;

use ferroplane_apiserver::auth::identity::Identity;
use ferroplane_apiserver::listeners::HttpService;
use ferroplane_apiserver::store::{Options, Store};
use ferroplane_apiserver::{Server, Settings};
use serde_json::{Value, json};

use super::{fixture, run, until_recorded};
use crate::plane::{Plane, ferroplane};

/// What an API server on the store in a data directory answers to reads.
async fn read(data: &Path, paths: &[&str]) -> Vec<Value> {
    let store = Store::open(data, Options::default()).unwrap();
    let server = Server::start(store.clone(), Settings::default()).await.unwrap();
    let identity = Identity::authenticated("admin", ["system:masters".to_owned()]);
    let client = kube::Client::new(HttpService::in_process(server.clone(), identity), "default");
    let mut answers = Vec::new();
    for path in paths {
        let request = http::Request::get(*path).body(Vec::new()).unwrap();
        answers.push(client.request::<Value>(request).await.unwrap());
    }
    server.stop();
    drop((client, server));
    store.close().await;
    answers
}

/// Checks that a store has everything that was written to it.
async fn check(data: &Path) {
    let paths = [
        "/apis/test.io/v1/namespaces/default/shops/one",
        "/api/v1/namespaces/default/configmaps/one",
        "/api/v1/namespaces/default/configmaps?labelSelector=crossplane.io/composite=one",
        "/apis/apiextensions.crossplane.io/v2/compositeresourcedefinitions/shops.test.io",
        "/apis/apiextensions.crossplane.io/v1/compositions/shops",
        "/apis/apiextensions.crossplane.io/v1/compositionrevisions",
        "/api/v1/namespaces/default/secrets/cloud",
    ];
    let answers = read(data, &paths).await;
    let [xr, settings, composed, definition, composition, revisions, secret] = &answers[..] else {
        panic!("{answers:?}")
    };
    assert_eq!(xr["status"]["color"], "blue", "{xr}");
    let ready = xr["status"]["conditions"].as_array().unwrap().iter().find(|it| it["type"] == "Ready");
    assert_eq!(ready.unwrap()["status"], "True", "{xr}");
    assert_eq!(settings["data"], json!({"color": "blue"}));
    assert_eq!(settings["metadata"]["ownerReferences"][0]["uid"], xr["metadata"]["uid"]);
    assert_eq!(composed["items"].as_array().unwrap().len(), 2, "{composed}");
    assert_eq!(definition["spec"]["names"]["kind"], "Shop");
    assert_eq!(composition["spec"]["pipeline"][0]["step"], "resources");
    assert_eq!(revisions["items"].as_array().unwrap().len(), 1, "{revisions}");
    assert_eq!(secret["data"], json!({"key": "dmFsdWUtb2YtYS1zZWNyZXQ="}));
}

#[tokio::test]
async fn store_of_every_version_is_read() {
    for version in fixture::all() {
        check(&fixture::copy(&version).path().join("data")).await;
    }
}

#[tokio::test]
async fn backup_of_every_version_is_restored() {
    for version in fixture::all() {
        let copy = fixture::copy(&version);
        let ran = run(copy.path(), &["restore", "backup.db", "--data-dir", "restored"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        check(&copy.path().join("restored")).await;
    }
}

#[test]
fn recordings_of_every_version_are_replayed() {
    for version in fixture::all() {
        let copy = fixture::copy(&version);
        let listed = run(copy.path(), &["replay", "list", "shop/one"]).stdout;
        assert!(listed.lines().count() > 2 && listed.contains("  ready"), "{listed}");
        // If a release decides otherwise on purpose, an old recording comes to something else: look whether that is meant.
        let ran = run(copy.path(), &["replay", "shop/one"]);
        assert_eq!((ran.code, ran.stdout.contains("same, byte for byte")), (Some(0), true), "{ran:?}");
        let shown = run(copy.path(), &["replay", "show", "shop/one"]).stdout;
        assert!(shown.contains("color: blue") && !shown.contains("value-of-a-secret"), "{shown}");
        let ran = run(copy.path(), &["replay", "--recordings", "one.recording"]);
        assert_eq!((ran.code, ran.stdout.contains("same, byte for byte")), (Some(0), true), "{ran:?}");
        if !version.ends_with("v1") {
            let ran = run(copy.path(), &["replay", "operation/checked"]);
            assert_eq!((ran.code, ran.stdout.contains("same, byte for byte")), (Some(0), true), "{ran:?}");
            let ran = run(copy.path(), &["replay", "actionset/noted"]);
            let decision = "phase `note`, KubeOps v0.1.0: the decision is the same";
            assert_eq!((ran.code, ran.stdout.contains(decision)), (Some(0), true), "{ran:?}");
        }
    }
}

#[test]
fn plane_goes_on_with_a_data_directory_of_every_version() {
    for version in fixture::all() {
        let copy = fixture::copy(&version);
        let authority = std::fs::read(copy.path().join("data/certificates/ca.crt")).unwrap();
        let recorded = run(copy.path(), &["replay", "list"]).stdout;
        std::fs::write(copy.path().join("second.yaml"), fixture::shop("two", "green")).unwrap();
        let mut command = ferroplane(copy.path(), &["up", "second.yaml", "--listen", "127.0.0.1:0"]);
        command.args(["--kubeconfig", "kubeconfig", "--data-dir", "data"]);
        let plane = Plane::run_by(copy, command);
        until_recorded(&plane.path(""), "shop/two", "  ready");
        for xr in ["shop/one", "shop/two"] {
            let ran = run(&plane.path(""), &["trace", xr, "--kubeconfig", "kubeconfig"]);
            assert_eq!(ran.code, Some(0), "{ran:?}");
        }
        let directory = plane.stop();
        let kept = run(directory.path(), &["replay", "list"]).stdout;
        let kept_starts: Vec<_> = kept.lines().map(id_and_start).collect();
        let is_kept = |line: &str| kept_starts.contains(&id_and_start(line));
        assert!(recorded.lines().all(is_kept), "{recorded}\n{kept}");
        let kept = std::fs::read(directory.path().join("data/certificates/ca.crt")).unwrap();
        assert_eq!(kept, authority, "clients trust another authority");
    }
}

/// What a line of `replay list` begins with. Its age is another one a second later.
fn id_and_start(line: &str) -> Vec<&str> {
    line.split_whitespace().take(2).collect()
}
