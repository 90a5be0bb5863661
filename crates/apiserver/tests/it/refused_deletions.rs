//! A webhook refuses to have something deleted: that keeps neither its siblings nor, once it no longer refuses, itself.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferroplane_apiserver::InProcessWebhook;
use ferroplane_apiserver::store::{Options, Store};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::definitions::{WIDGETS, cluster_with_widgets, widget};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const TEAM: &str = "/api/v1/namespaces/team";
const TEAM_MAPS: &str = "/api/v1/namespaces/team/configmaps";
const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.org";

/// When deletions were refused.
type Refusals = Arc<Mutex<Vec<Instant>>>;

/// Refuses to have a config map deleted that is labelled as used.
async fn protect_used(cluster: &Cluster) -> Refusals {
    let refusals = Refusals::default();
    let noted = refusals.clone();
    let webhook = InProcessWebhook::new(move |review: Value| {
        let request = &review["request"];
        let is_used = request["oldObject"]["metadata"]["labels"]["used"] == "true";
        if is_used {
            noted.lock().unwrap().push(Instant::now());
        }
        let answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {
            "uid": request["uid"], "allowed": !is_used, "status": {"code": 409, "reason": "it is in use"},
        }});
        std::future::ready(answer)
    });
    cluster.server().register_webhook("usages.internal", &webhook);
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "usages"},
        "webhooks": [{
            "name": "usages.example.org",
            "clientConfig": {"url": "https://usages.internal/review"},
            "rules": [{
                "operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
            }],
            "sideEffects": "None", "admissionReviewVersions": ["v1"],
        }],
    });
    cluster.post(CONFIGURATIONS, &configuration).await.is(201);
    refusals
}

fn map(name: &str, owner: Option<&Value>, is_used: bool) -> Value {
    let references: Vec<_> = owner
        .into_iter()
        .map(|owner| {
            json!({
                "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true,
            })
        })
        .collect();
    let labels = if is_used { json!({"used": "true"}) } else { json!({}) };
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": labels, "ownerReferences": references},
    })
}

/// Dependents of which the first, by any order, the last and one in the middle are used.
const DEPENDENTS: [(&str, bool); 5] =
    [("a-used", true), ("b-user", false), ("c-used", true), ("d-user", false), ("e-used", true)];

async fn make_dependents(cluster: &Cluster, maps: &str, owner: Option<&Value>) {
    for (name, is_used) in DEPENDENTS {
        cluster.post(maps, &map(name, owner, is_used)).await.is(201);
    }
}

/// Everything that is not refused goes; the rest goes as soon as it is no longer refused.
async fn watch_them_go(cluster: &Cluster, maps: &str) {
    for (name, _) in DEPENDENTS.iter().filter(|(_, is_used)| !is_used) {
        cluster.until(&format!("{maps}/{name}"), |it| it.code == 404).await;
    }
    for (name, _) in DEPENDENTS.iter().filter(|(_, is_used)| *is_used) {
        let path = format!("{maps}/{name}");
        assert!(cluster.get(&path).await.is(200)["metadata"]["deletionTimestamp"].is_null());
        cluster.merge(&path, &json!({"metadata": {"labels": {"used": null}}})).await.is(200);
        cluster.until(&path, |it| it.code == 404).await;
    }
}

#[tokio::test]
async fn refused_dependent_does_not_keep_its_siblings_when_the_owner_is_gone() {
    let cluster = Cluster::new().await;
    protect_used(&cluster).await;
    let owner = cluster.post(MAPS, &map("owner", None, false)).await.is(201).clone();
    make_dependents(&cluster, MAPS, Some(&owner)).await;
    cluster.delete(&format!("{MAPS}/owner")).await.is(200);
    watch_them_go(&cluster, MAPS).await;
}

#[tokio::test]
async fn refused_dependent_does_not_keep_its_siblings_when_the_owner_waits() {
    let cluster = Cluster::new().await;
    protect_used(&cluster).await;
    let owner = cluster.post(MAPS, &map("owner", None, false)).await.is(201).clone();
    make_dependents(&cluster, MAPS, Some(&owner)).await;
    cluster.delete(&format!("{MAPS}/owner?propagationPolicy=Foreground")).await.is(200);
    watch_them_go(&cluster, MAPS).await;
    cluster.until(&format!("{MAPS}/owner"), |it| it.code == 404).await;
}

#[tokio::test]
async fn refused_object_does_not_keep_its_siblings_when_the_namespace_goes() {
    let cluster = Cluster::new().await;
    protect_used(&cluster).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    cluster.post("/api/v1/namespaces", &namespace).await.is(201);
    make_dependents(&cluster, TEAM_MAPS, None).await;
    cluster.delete(TEAM).await.is(200);
    cluster
        .until(TEAM, |namespace| namespace.body["status"]["conditions"].to_string().contains("it is in use"))
        .await;
    watch_them_go(&cluster, TEAM_MAPS).await;
    cluster.until(TEAM, |it| it.code == 404).await;
}

#[tokio::test]
async fn definition_waits_for_a_refused_dependent_and_says_so() {
    let cluster = cluster_with_widgets().await;
    protect_used(&cluster).await;
    let owner = cluster.post(WIDGETS, &widget("w", &json!({}))).await.is(201).clone();
    make_dependents(&cluster, MAPS, Some(&owner)).await;
    cluster.delete(DEFINITION).await.is(200);
    cluster
        .until(DEFINITION, |it| it.body["status"]["conditions"].to_string().contains("configmaps default/"))
        .await;
    watch_them_go(&cluster, MAPS).await;
    cluster.until(DEFINITION, |it| it.code == 404).await;
}

#[tokio::test]
async fn refused_object_does_not_keep_the_rest_of_a_collection() {
    let cluster = Cluster::new().await;
    protect_used(&cluster).await;
    make_dependents(&cluster, MAPS, None).await;
    let refused = cluster.delete(MAPS).await;
    assert!(refused.is(409)["message"].as_str().unwrap().ends_with("it is in use"));
    for (name, is_used) in DEPENDENTS {
        cluster.get(&format!("{MAPS}/{name}")).await.is(if is_used { 200 } else { 404 });
    }
}

#[tokio::test]
async fn refused_deletion_is_tried_again_when_the_webhook_goes() {
    let cluster = Cluster::new().await;
    protect_used(&cluster).await;
    let owner = cluster.post(MAPS, &map("owner", None, false)).await.is(201).clone();
    make_dependents(&cluster, MAPS, Some(&owner)).await;
    cluster.delete(&format!("{MAPS}/owner")).await.is(200);
    cluster.until(&format!("{MAPS}/b-user"), |it| it.code == 404).await;
    // Long enough for the delays between two attempts to have grown.
    tokio::time::sleep(Duration::from_secs(2)).await;
    cluster.delete(&format!("{CONFIGURATIONS}/usages")).await.is(200);
    for (name, _) in DEPENDENTS {
        cluster.until(&format!("{MAPS}/{name}"), |it| it.code == 404).await;
    }
}

#[tokio::test(start_paused = true)]
async fn refused_deletion_is_tried_again_later_each_time() {
    // Nothing waits for a thread, so that time passes only while the garbage collector waits.
    let options = Options { writes_in_place: true, ..Options::default() };
    let cluster = Cluster::of(Store::in_memory(options).unwrap()).await;
    let refusals = protect_used(&cluster).await;
    let owner = cluster.post(MAPS, &map("owner", None, false)).await.is(201).clone();
    cluster.post(MAPS, &map("used", Some(&owner), true)).await.is(201);
    cluster.delete(&format!("{MAPS}/owner")).await.is(200);
    tokio::time::sleep(Duration::from_mins(10)).await;
    let refusals = refusals.lock().unwrap().clone();
    let pauses: Vec<_> = refusals.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // Timers are precise to a millisecond.
    let grows = |pair: &[Duration]| pair[1] + Duration::from_millis(1) >= pair[0];
    assert!(pauses.windows(2).all(grows), "{pauses:?}");
    assert!(pauses[0] < Duration::from_millis(100), "{pauses:?}");
    assert!(*pauses.last().unwrap() >= Duration::from_secs(59), "{pauses:?}");
    assert!((10..=30).contains(&pauses.len()), "{pauses:?}");

    let path = format!("{MAPS}/used");
    cluster.merge(&path, &json!({"metadata": {"labels": {"used": null}}})).await.is(200);
    let changed_at = Instant::now();
    cluster.until(&path, |it| it.code == 404).await;
    assert!(changed_at.elapsed() <= Duration::from_secs(2), "{:?}", changed_at.elapsed());
}

#[tokio::test]
async fn owners_that_wait_for_each_other_go() {
    let cluster = Cluster::new().await;
    let first = cluster.post(MAPS, &map("first", None, false)).await.is(201).clone();
    let second = cluster.post(MAPS, &map("second", Some(&first), false)).await.is(201).clone();
    let owners = map("first", Some(&second), false)["metadata"]["ownerReferences"].clone();
    let change = json!({"metadata": {"ownerReferences": owners}});
    cluster.merge(&format!("{MAPS}/first"), &change).await.is(200);
    cluster.delete(&format!("{MAPS}/first?propagationPolicy=Foreground")).await.is(200);
    for name in ["first", "second"] {
        cluster.until(&format!("{MAPS}/{name}"), |it| it.code == 404).await;
    }
}

#[tokio::test]
async fn owner_goes_when_what_it_waits_for_gets_another_owner() {
    let cluster = Cluster::new().await;
    let owner = cluster.post(MAPS, &map("owner", None, false)).await.is(201).clone();
    let mut held = map("held", Some(&owner), false);
    held["metadata"]["finalizers"] = json!(["example.org/keep"]);
    cluster.post(MAPS, &held).await.is(201);
    cluster.delete(&format!("{MAPS}/owner?propagationPolicy=Foreground")).await.is(200);
    let path = format!("{MAPS}/held");
    cluster.until(&path, |it| !it.body["metadata"]["deletionTimestamp"].is_null()).await;
    cluster.merge(&path, &json!({"metadata": {"ownerReferences": null}})).await.is(200);
    cluster.until(&format!("{MAPS}/owner"), |it| it.code == 404).await;
    cluster.get(&path).await.is(200);
}
