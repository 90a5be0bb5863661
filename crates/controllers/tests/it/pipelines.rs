//! What functions say, and what comes of it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ferroplane_testkit::plane::sites::{SETTINGS, SITES, is_ready, plane_with_sites, plane_with_sites_by};
use ferroplane_testkit::plane::{Plane, condition};
use ferroplane_testkit::{FunctionServer, Versions};
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use serde_json::{Value, json};

const CREDENTIALS: &str = "/api/v1/namespaces/default/secrets/cloud";
const BLOG: &str = "/apis/example.org/v1/namespaces/default/sites/blog";

/// A setting that is wanted, and ready.
fn setting(name: &str, color: &str) -> Value {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"color": color}});
    json!({"resource": object, "ready": "READY_TRUE"})
}

/// The color of the site that a function is asked about.
fn color(request: &RunFunctionRequest) -> String {
    let composite = request.observed.as_ref().and_then(|observed| observed.composite()?.resource.as_ref());
    composite.unwrap().json().unwrap()["spec"]["color"].as_str().unwrap().to_owned()
}

/// The data of what a function required under this name.
fn required(request: &RunFunctionRequest, name: &str) -> Vec<String> {
    let items =
        request.required_resources.get(name).map(|resources| resources.items.clone()).unwrap_or_default();
    let text = |item: &ferroplane_wire::v1::Resource| {
        item.resource.as_ref().unwrap().json().unwrap()["data"]["color"].as_str().unwrap().to_owned()
    };
    items.iter().map(text).collect()
}

async fn is_unsynced(plane: &Plane, words: &str) -> Value {
    plane
        .until(BLOG, |site| {
            let conditions = site["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|condition| {
                condition["type"] == "Synced"
                    && condition["reason"] == "ReconcileError"
                    && condition["message"].as_str().is_some_and(|message| message.contains(words))
            })
        })
        .await
}

#[tokio::test]
async fn fatal_result_changes_nothing_and_says_why() {
    let plane = plane_with_sites_by(|request| match color(request).as_str() {
        "red" => json!({
            "desired": {"resources": {"a": setting("a", "red")}},
            "conditions": [{"type": "Painted", "status": "STATUS_CONDITION_TRUE", "reason": "Done"}],
        }),
        _ => json!({"results": [
            {"severity": "SEVERITY_NORMAL", "message": "looked"},
            {"severity": "SEVERITY_FATAL", "message": "no such color"},
            {"severity": "SEVERITY_NORMAL", "message": "never said"},
        ]}),
    })
    .await;
    plane.create_site("blog", "red").await;
    plane.until(BLOG, is_ready).await;
    plane.merge(BLOG, &json!({"spec": {"color": "none"}})).await;
    let site = is_unsynced(&plane, "no such color").await;
    assert_eq!(condition(&site, "Ready").as_deref(), Some("True/Available"));
    assert_eq!(condition(&site, "Painted").as_deref(), Some("Unknown/FatalError"));
    assert_eq!(plane.get(&format!("{SETTINGS}/a")).await["data"]["color"], "red");
    plane.until_said("blog", "looked").await;
    assert!(!plane.events("blog").await.iter().any(|event| event.contains("never said")));
}

#[tokio::test]
async fn failure_is_not_tried_again_at_once() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let plane = plane_with_sites_by(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        json!({"results": [{"severity": "SEVERITY_FATAL", "message": "no"}]})
    })
    .await;
    plane.create_site("blog", "red").await;
    is_unsynced(&plane, "no").await;
    plane.quiet().await;
    assert!(calls.load(Ordering::Relaxed) <= 2, "{}", calls.load(Ordering::Relaxed));
}

#[tokio::test]
async fn functions_are_not_called_when_nothing_changed() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let plane = plane_with_sites_by(move |request| {
        counter.fetch_add(1, Ordering::Relaxed);
        json!({"desired": {
            "composite": {"resource": {"status": {"color": color(request)}}},
            "resources": {"a": setting("a", &color(request))},
        }})
    })
    .await;
    plane.create_site("blog", "red").await;
    plane.until(BLOG, is_ready).await;
    plane.quiet().await;
    assert_eq!(calls.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn what_a_function_requires_is_followed() {
    let plane = plane_with_sites_by(|request| {
        let by_name = required(request, "by-name").join(",");
        let by_label = required(request, "by-label").join(",");
        json!({
            "requirements": {"resources": {
                "by-name": {
                    "apiVersion": "v1", "kind": "ConfigMap", "matchName": "paint", "namespace": "default",
                },
                "by-label": {"apiVersion": "v1", "kind": "ConfigMap", "matchLabels": {"labels": {"paint": "yes"}}},
            }},
            "desired": {"composite": {"resource": {"status": {"color": format!("{by_name}/{by_label}")}}}},
        })
    })
    .await;
    let paint = |name: &str, color: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"paint": "yes"}},
            "data": {"color": color},
        })
    };
    // To select by labels in all namespaces takes a grant.
    let read = json!({"apiGroups": [""], "kinds": ["ConfigMap"], "namespaces": ["*"]});
    let grant = json!({
        "apiVersion": "ferroplane.io/v1alpha1", "kind": "AccessGrant", "metadata": {"name": "paint"},
        "spec": {"to": {"namespaces": ["default"]}, "read": [read]},
    });
    plane.apply("/apis/ferroplane.io/v1alpha1/accessgrants/paint", &grant).await;
    plane.create_site("blog", "red").await;
    plane.until(BLOG, |site| site["status"]["color"] == "/").await;
    plane.apply(&format!("{SETTINGS}/paint"), &paint("paint", "green")).await;
    plane.until(BLOG, |site| site["status"]["color"] == "green/green").await;
    plane.apply(&format!("{SETTINGS}/more"), &paint("more", "blue")).await;
    plane.until(BLOG, |site| site["status"]["color"] == "green/blue,green").await;
    plane.merge(&format!("{SETTINGS}/more"), &json!({"metadata": {"labels": {"paint": "no"}}})).await;
    plane.until(BLOG, |site| site["status"]["color"] == "green/green").await;
    plane.delete(&format!("{SETTINGS}/paint")).await;
    plane.until(BLOG, |site| site["status"]["color"] == "/").await;
}

#[tokio::test]
async fn function_never_takes_the_answer_to_an_older_question_for_that_to_a_new_one() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = seen.clone();
    // Requires the setting that is named like the color, and fails if it is notified that there is none.
    let plane = plane_with_sites_by(move |request| {
        let color = color(request);
        let found = request.required_resources.get("paint").map(|_| required(request, "paint"));
        notes.lock().unwrap().push((color.clone(), found.clone()));
        let mut answer = json!({
            "requirements": {"resources": {"paint": {
                "apiVersion": "v1", "kind": "ConfigMap", "matchName": color, "namespace": "default",
            }}},
            "desired": {},
        });
        if found.is_some_and(|found| found.is_empty()) {
            answer["results"] = json!([{"severity": "SEVERITY_FATAL", "message": "there is no such paint"}]);
        }
        answer
    })
    .await;
    plane.apply(&format!("{SETTINGS}/green"), &setting("green", "green")["resource"]).await;
    plane.create_site("blog", "red").await;
    is_unsynced(&plane, "no such paint").await;
    plane.quiet().await;
    plane.merge(BLOG, &json!({"spec": {"color": "green"}})).await;
    plane.until(BLOG, is_ready).await;
    let mut green = seen.lock().unwrap().clone();
    green.retain(|(color, _)| color == "green");
    let found = green.into_iter().map(|(_, found)| found);
    assert_eq!(found.collect::<Vec<_>>(), [None, Some(vec!["green".to_owned()])]);
    let events = plane.events("blog").await;
    assert_eq!(events.iter().filter(|event| event.contains("no such paint")).count(), 1, "{events:#?}");
}

/// The paint that a site is annotated with. An annotation changes neither its generation nor its pipeline.
fn paint(request: &RunFunctionRequest) -> String {
    let composite = request.observed.as_ref().and_then(|observed| observed.composite()?.resource.as_ref());
    let annotations = &composite.unwrap().json().unwrap()["metadata"]["annotations"];
    annotations["example.org/paint"].as_str().unwrap_or("none").to_owned()
}

async fn annotate(plane: &Plane, paint: &str) {
    plane.merge(BLOG, &json!({"metadata": {"annotations": {"example.org/paint": paint}}})).await;
}

/// Requires the setting that is named like the paint.
fn asks_for(paint: &str) -> Value {
    json!({
        "requirements": {"resources": {"paint": {
            "apiVersion": "v1", "kind": "ConfigMap", "matchName": paint, "namespace": "default",
        }}},
        "desired": {},
    })
}

fn with_fatal_result(mut answer: Value, message: &str) -> Value {
    answer["results"] = json!([{"severity": "SEVERITY_FATAL", "message": message}]);
    answer
}

#[tokio::test]
async fn question_that_changes_with_what_is_observed_is_not_judged_by_an_older_answer() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = seen.clone();
    // Fails if it is given another setting than the one that it requires.
    let plane = plane_with_sites_by(move |request| {
        let paint = paint(request);
        let found = request.required_resources.get("paint").map(|_| required(request, "paint"));
        notes.lock().unwrap().push((paint.clone(), found.clone()));
        match found {
            Some(found) if found != [paint.clone()] => with_fatal_result(asks_for(&paint), "wrong paint"),
            _ => asks_for(&paint),
        }
    })
    .await;
    for color in ["none", "green"] {
        plane.apply(&format!("{SETTINGS}/{color}"), &setting(color, color)["resource"]).await;
    }
    plane.create_site("blog", "red").await;
    plane.until(BLOG, is_ready).await;
    plane.quiet().await;
    annotate(&plane, "green").await;
    let is_asked_about = |it: &(String, Option<Vec<String>>), paint: &str| it.0 == paint;
    plane.until(BLOG, |_| seen.lock().unwrap().iter().any(|it| is_asked_about(it, "green"))).await;
    plane.quiet().await;
    let mut green = seen.lock().unwrap().clone();
    green.retain(|it| is_asked_about(it, "green"));
    let found: Vec<_> = green.into_iter().map(|(_, found)| found).collect();
    let of = |color: &str| Some(vec![color.to_owned()]);
    assert_eq!(found, [of("none"), None, of("green")]);
    let events = plane.events("blog").await;
    assert!(!events.iter().any(|event| event.contains("wrong paint")), "{events:#?}");
    assert_eq!(condition(&plane.get(BLOG).await, "Synced").as_deref(), Some("True/ReconcileSuccess"));
}

#[tokio::test]
async fn run_that_failed_before_its_question_was_answered_is_repeated_at_once() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    // Fails unless it is given the setting that it requires, even if it has not asked for it before.
    let plane = plane_with_sites_by(move |request| {
        counter.fetch_add(1, Ordering::Relaxed);
        let paint = paint(request);
        let answer = asks_for(&paint);
        if required(request, "paint") == [paint] {
            answer
        } else {
            with_fatal_result(answer, "no such paint")
        }
    })
    .await;
    plane.apply(&format!("{SETTINGS}/green"), &setting("green", "green")["resource"]).await;
    plane.create_site("blog", "red").await;
    is_unsynced(&plane, "no such paint").await;
    // The first run is repeated at once. What fails then is tried again after 2, 4, and then 8 seconds.
    plane.until(BLOG, |_| calls.load(Ordering::Relaxed) >= 4).await;
    let began_at = std::time::Instant::now();
    annotate(&plane, "green").await;
    plane.until(BLOG, is_ready).await;
    assert!(began_at.elapsed() < Duration::from_secs(6), "it took {:?}", began_at.elapsed());
}

#[tokio::test]
async fn function_that_asks_for_something_else_each_time_it_fails_has_to_wait() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let plane = plane_with_sites_by(move |_| {
        let call = counter.fetch_add(1, Ordering::Relaxed);
        with_fatal_result(asks_for(&format!("paint-{call}")), "no such paint")
    })
    .await;
    plane.create_site("blog", "red").await;
    is_unsynced(&plane, "no such paint").await;
    plane.quiet().await;
    // Two calls in each of the runs that follow each other at once. After them, there is a pause of half a minute.
    let calls = calls.load(Ordering::Relaxed);
    assert!(calls <= 24, "{calls}");
}

#[tokio::test]
async fn cluster_scoped_resources_are_none_of_a_namespaced_one() {
    let plane = plane_with_sites_by(|_| {
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "mine"}, "rules": [],
        });
        json!({"desired": {"resources": {"role": {"resource": role}}}})
    })
    .await;
    plane.create_site("blog", "red").await;
    is_unsynced(&plane, "cluster scoped").await;
    assert!(plane.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/mine").await.is_null());
}

#[tokio::test]
async fn what_is_invalid_does_not_keep_the_rest_from_being_applied() {
    let plane = plane_with_sites_by(|_| {
        let bad = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bad"}, "data": {"not a key": "x"}});
        json!({"desired": {"resources": {
            "bad": {"resource": bad, "ready": "READY_TRUE"}, "good": setting("good", "red"),
        }}})
    })
    .await;
    plane.create_site("blog", "red").await;
    is_unsynced(&plane, "Unsynced resources: bad").await;
    plane.until(&format!("{SETTINGS}/good"), |object| object["data"]["color"] == "red").await;
    plane.until_said("blog", "Warning/ComposeResources: cannot apply composed resource `bad`").await;
}

#[tokio::test]
async fn object_belongs_to_the_first_that_composes_it() {
    let plane = plane_with_sites_by(
        |request| json!({"desired": {"resources": {"a": setting("shared", &color(request))}}}),
    )
    .await;
    plane.create_site("first", "red").await;
    plane.until(&format!("{SITES}/first"), is_ready).await;
    plane.create_site("blog", "blue").await;
    is_unsynced(&plane, "Unsynced resources: a").await;
    plane.delete(BLOG).await;
    plane.until(BLOG, Value::is_null).await;
    let shared = plane.get(&format!("{SETTINGS}/shared")).await;
    assert_eq!(shared["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
    assert_eq!(shared["metadata"]["ownerReferences"][0]["name"], "first");
}

#[tokio::test]
async fn function_that_wants_nothing_any_more_has_everything_deleted() {
    let plane = plane_with_sites_by(|request| match color(request).as_str() {
        "red" => json!({"desired": {"resources": {"a": setting("a", "red")}}}),
        _ => json!({"desired": {}}),
    })
    .await;
    plane.create_site("blog", "red").await;
    plane.until(BLOG, is_ready).await;
    plane.merge(BLOG, &json!({"spec": {"color": "none"}})).await;
    plane.until(&format!("{SETTINGS}/a"), Value::is_null).await;
    plane.until(BLOG, |site| site["spec"]["crossplane"]["resourceRefs"] == json!([])).await;
}

#[tokio::test]
async fn deletion_that_is_refused_keeps_nothing_else_alive() {
    let plane = plane_with_sites_by(|request| match color(request).as_str() {
        "red" => json!({"desired": {"resources": {"a": setting("a", "red"), "b": setting("b", "red")}}}),
        _ => json!({"desired": {}}),
    })
    .await;
    plane.create_site("blog", "red").await;
    plane.until(BLOG, is_ready).await;
    let usage = json!({
        "apiVersion": "protection.crossplane.io/v1beta1", "kind": "Usage", "metadata": {"name": "read"},
        "spec": {
            "of": {"apiVersion": "v1", "kind": "ConfigMap", "resourceRef": {"name": "a"}}, "reason": "it is read",
        },
    });
    let path = "/apis/protection.crossplane.io/v1beta1/namespaces/default/usages/read";
    plane.apply(path, &usage).await;
    plane.until(path, |usage| condition(usage, "Ready").as_deref() == Some("True/Available")).await;
    plane.merge(BLOG, &json!({"spec": {"color": "none"}})).await;
    plane.until(&format!("{SETTINGS}/b"), Value::is_null).await;
    let site = is_unsynced(&plane, "cannot delete composed resource `a`").await;
    let references = site["spec"]["crossplane"]["resourceRefs"].as_array().unwrap();
    assert!(references.iter().any(|reference| reference["name"] == "a"), "{references:?}");
    assert!(!plane.get(&format!("{SETTINGS}/a")).await.is_null());
    plane.until_said("blog", "Warning/ComposeResources: cannot delete composed resource `a`").await;
    plane.delete(path).await;
    plane.until(&format!("{SETTINGS}/a"), Value::is_null).await;
    plane.until(BLOG, |site| site["spec"]["crossplane"]["resourceRefs"] == json!([])).await;
}

#[tokio::test]
async fn missing_function_is_named() {
    let plane = Plane::new().await;
    plane.define_sites().await;
    // Its first revision: with an earlier one that works, the site might be composed before this one is made.
    plane.compose_sites_of(&json!([{"step": "test", "functionRef": {"name": "function-nobody"}}])).await;
    plane.create_site("blog", "red").await;
    let site = is_unsynced(&plane, "there is no function `function-nobody`").await;
    let machinery = &site["spec"]["crossplane"];
    assert_eq!(machinery["compositionRef"]["name"], "sites", "what was chosen stays chosen");
    assert!(machinery["compositionRevisionRef"]["name"].is_string(), "{machinery}");
    assert!(machinery["resourceRefs"].is_null(), "{machinery}");
    plane.until_said("blog", "Normal/SelectComposition: Uses CompositionRevision").await;
}

#[tokio::test]
async fn what_was_refused_is_applied_once_it_is_welcome() {
    let plane = plane_with_sites_by(
        |request| json!({"desired": {"resources": {"a": setting("shared", &color(request))}}}),
    )
    .await;
    plane.create_site("first", "red").await;
    plane.until(&format!("{SITES}/first"), is_ready).await;
    plane.create_site("blog", "blue").await;
    is_unsynced(&plane, "Unsynced resources: a").await;
    plane.delete(&format!("{SITES}/first")).await;
    plane.until(BLOG, is_ready).await;
}

#[tokio::test]
async fn resource_that_is_not_composed_where_it_was_wanted_is_told() {
    let plane = plane_with_sites_by(|_| {
        let mut wanted = setting("elsewhere", "red");
        wanted["resource"]["metadata"]["namespace"] = "kube-system".into();
        json!({"desired": {"resources": {"a": wanted}}})
    })
    .await;
    plane.create_site("blog", "red").await;
    plane.until(BLOG, is_ready).await;
    plane.until_said("blog", "Warning/NamespaceOverridden: cannot create composed resource").await;
    assert!(plane.get("/api/v1/namespaces/kube-system/configmaps/elsewhere").await.is_null());
}

#[tokio::test]
async fn missing_credentials_are_named() {
    let plane = plane_with_sites_by(|_| json!({})).await;
    plane
        .compose_sites_of(&json!([{
            "step": "test", "functionRef": {"name": "function-test"},
            "credentials": [{
                "name": "cloud", "source": "Secret", "secretRef": {"namespace": "default", "name": "missing"},
            }],
        }]))
        .await;
    plane.create_site("blog", "red").await;
    let site = is_unsynced(&plane, "credential `cloud`").await;
    assert_eq!(site["spec"]["crossplane"]["compositionRef"]["name"], "sites", "what was chosen stays chosen");
}

/// Set the credentials that sites are composed with.
async fn set_token(plane: &Plane, token: &str) {
    let data = json!({"token": STANDARD.encode(token)});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cloud"}, "data": data});
    plane.apply(CREDENTIALS, &secret).await;
}

#[tokio::test]
async fn credentials_that_are_rotated_reach_the_function() {
    let plane = plane_with_sites_by(|request| {
        use ferroplane_wire::v1::credentials::Source;
        let credential = request.credentials.get("cloud").and_then(|credential| credential.source.clone());
        let token = credential.map(|Source::CredentialData(credential)| credential.data["token"].clone());
        let token = token.map(|token| String::from_utf8(token.to_vec()).unwrap()).unwrap_or_default();
        json!({"desired": {"resources": {"a": setting("a", &token)}}})
    })
    .await;
    set_token(&plane, "first").await;
    plane
        .compose_sites_of(&json!([{
            "step": "test", "functionRef": {"name": "function-test"},
            "credentials": [{
                "name": "cloud", "source": "Secret", "secretRef": {"namespace": "default", "name": "cloud"},
            }],
        }]))
        .await;
    plane.create_site("blog", "red").await;
    let path = format!("{SETTINGS}/a");
    plane.until(&path, |setting| setting["data"]["color"] == "first").await;
    plane.quiet().await;
    set_token(&plane, "second").await;
    plane.until(&path, |setting| setting["data"]["color"] == "second").await;
    plane.quiet().await;
    plane.delete(CREDENTIALS).await;
    is_unsynced(&plane, "credential `cloud`").await;
    set_token(&plane, "third").await;
    plane.until(&path, |setting| setting["data"]["color"] == "third").await;
}

#[tokio::test]
async fn function_that_hangs_keeps_nobody_else_waiting() {
    let server = FunctionServer::start_async(|_| async {
        tokio::time::sleep(std::time::Duration::from_mins(10)).await;
        Ok(RunFunctionResponse::default())
    })
    .await;
    let plane = plane_with_sites_by(|_| json!({"desired": {}})).await;
    plane
        .apply(
            "/apis/pkg.crossplane.io/v1/functions/function-slow",
            &json!({
                "apiVersion": "pkg.crossplane.io/v1", "kind": "Function",
                "metadata": {"name": "function-slow", "annotations": {
                    "render.crossplane.io/runtime": "Development",
                    "render.crossplane.io/runtime-development-target": server.address(),
                }},
                "spec": {"package": "registry.example/function-slow:v1"},
            }),
        )
        .await;
    let slow = json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "slow"},
        "spec": {
            "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "Site"},
            "mode": "Pipeline", "pipeline": [{"step": "slow", "functionRef": {"name": "function-slow"}}],
        },
    });
    plane.apply("/apis/apiextensions.crossplane.io/v1/compositions/slow", &slow).await;
    for number in 0..150 {
        let site = json!({
            "apiVersion": "example.org/v1", "kind": "Site", "metadata": {"name": format!("slow-{number}")},
            "spec": {"color": "red", "crossplane": {"compositionRef": {"name": "slow"}}},
        });
        plane.apply(&format!("{SITES}/slow-{number}"), &site).await;
    }
    let quick = json!({
        "apiVersion": "example.org/v1", "kind": "Site", "metadata": {"name": "blog"},
        "spec": {"color": "red", "crossplane": {"compositionRef": {"name": "sites"}}},
    });
    plane.apply(BLOG, &quick).await;
    plane.until(BLOG, is_ready).await;
}

/// A Function that a developer serves there.
pub(crate) async fn serve_at(plane: &Plane, address: &str) {
    let function = json!({
        "apiVersion": "pkg.crossplane.io/v1", "kind": "Function",
        "metadata": {"name": "function-served", "annotations": {
            "render.crossplane.io/runtime": "Development",
            "render.crossplane.io/runtime-development-target": address,
        }},
        "spec": {"package": "registry.example/function-served:v1"},
    });
    plane.apply("/apis/pkg.crossplane.io/v1/functions/function-served", &function).await;
}

/// An address of this machine that nothing listens on.
fn deserted() -> (tokio::net::TcpSocket, String) {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap().to_string();
    (socket, address)
}

#[tokio::test]
async fn function_that_is_down_is_told_at_once_and_called_when_it_is_back() {
    let plane = Plane::new().await;
    plane.define_sites().await;
    let (_reserved, address) = deserted();
    serve_at(&plane, &address).await;
    plane.compose_sites_of(&json!([{"step": "test", "functionRef": {"name": "function-served"}}])).await;
    let began_at = std::time::Instant::now();
    plane.create_site("blog", "red").await;
    let site = is_unsynced(&plane, "cannot reach the function at").await;
    assert!(began_at.elapsed() < Duration::from_secs(10), "it took {:?}", began_at.elapsed());
    let mut conditions = site["status"]["conditions"].as_array().unwrap().iter();
    assert!(conditions.any(|condition| condition["code"] == "FunctionUnreachable"), "{site:#}");
    plane.until_said("blog", "cannot reach the function at").await;
    // It is tried again after 1, 2, 4, and then 8 seconds.
    plane.until(BLOG, |_| reconciles(&plane) >= 5).await;
    let began_at = std::time::Instant::now();
    let answer = |_| Ok(RunFunctionResponse::default());
    let _server = FunctionServer::serve(&address, Versions::Both, None, answer).await;
    plane.until(BLOG, is_ready).await;
    assert!(began_at.elapsed() < Duration::from_secs(6), "it took {:?}", began_at.elapsed());
}

#[tokio::test]
async fn response_may_hold_for_longer_than_clocks_count() {
    let plane = Plane::new().await;
    plane.define_sites().await;
    let response = json!({"meta": {"ttl": format!("{}s", i64::MAX)}});
    let response: RunFunctionResponse = ferroplane_wire::from_json(&response).unwrap();
    let server = FunctionServer::start(move |_| Ok(response.clone())).await;
    serve_at(&plane, &server.address()).await;
    plane.compose_sites_of(&json!([{"step": "test", "functionRef": {"name": "function-served"}}])).await;
    plane.create_site("blog", "red").await;
    plane.until(BLOG, is_ready).await;
    plane.quiet().await;
    let metrics = plane.metrics();
    let panics = metrics.lines().filter(|line| line.starts_with("controller_runtime_reconcile_panics_total"));
    let panics: Vec<_> = panics.filter(|line| !line.ends_with(" 0")).collect();
    assert!(panics.is_empty(), "{panics:#?}");
}

#[tokio::test]
async fn edit_of_a_function_that_is_down_counts_at_once() {
    let plane = Plane::new().await;
    plane.define_sites().await;
    let (_reserved, address) = deserted();
    serve_at(&plane, &address).await;
    plane.compose_sites_of(&json!([{"step": "test", "functionRef": {"name": "function-served"}}])).await;
    plane.create_site("blog", "red").await;
    is_unsynced(&plane, "cannot reach the function at").await;
    plane.until(BLOG, |_| reconciles(&plane) >= 5).await;
    let server = FunctionServer::start_async(|_| async { Ok(RunFunctionResponse::default()) }).await;
    let began_at = std::time::Instant::now();
    serve_at(&plane, &server.address()).await;
    plane.until(BLOG, is_ready).await;
    assert!(began_at.elapsed() < Duration::from_secs(6), "it took {:?}", began_at.elapsed());
}

/// A function that gives sites this color, and says that this holds for an hour. It notes the tags of the requests that it gets.
async fn serve_color(address: &str, color: &'static str) -> (FunctionServer, Arc<Mutex<Vec<String>>>) {
    let tags = Arc::new(Mutex::new(Vec::new()));
    let notes = tags.clone();
    let server = FunctionServer::serve(address, Versions::Both, None, move |request| {
        notes.lock().unwrap().push(request.meta.unwrap().tag);
        let desired = json!({"composite": {"resource": {"status": {"color": color}}}});
        Ok(ferroplane_wire::from_json(&json!({"meta": {"ttl": "3600s"}, "desired": desired})).unwrap())
    })
    .await;
    (server, tags)
}

#[tokio::test]
async fn answers_of_a_function_in_development_are_not_kept() {
    let mut plane = Plane::new().await;
    plane.define_sites().await;
    let (server, asked) = serve_color("127.0.0.1:0", "red").await;
    let address = server.address();
    serve_at(&plane, &address).await;
    plane.compose_sites_of(&json!([{"step": "test", "functionRef": {"name": "function-served"}}])).await;
    plane.create_site("blog", "none").await;
    plane.until(BLOG, |site| site["status"]["color"] == "red" && is_ready(site)).await;
    plane.quiet().await;
    // Controllers that know nothing ask about the site as it has become, and change nothing any more.
    let before = asked.lock().unwrap().len();
    plane.restart().await;
    plane.until(BLOG, |_| asked.lock().unwrap().len() > before).await;
    plane.quiet().await;

    plane.stop().await;
    server.stop().await;
    let (_server, asked_then) = serve_color(&address, "blue").await;
    plane.start().await;
    plane.until(BLOG, |site| site["status"]["color"] == "blue").await;
    // The very same request: an answer that had been kept would have been found.
    let (last, first) = (asked.lock().unwrap().last().cloned(), asked_then.lock().unwrap().first().cloned());
    assert_eq!(last, first);
}

#[tokio::test]
async fn input_can_be_an_object_that_is_followed() {
    let plane = plane_with_sites_by(|request| {
        let input = request.input.as_ref().unwrap().json().unwrap()["data"]["color"].clone();
        assert!(request.required_resources.is_empty());
        json!({"desired": {"composite": {"resource": {"status": {"color": input}}}}})
    })
    .await;
    plane
        .compose_sites_of(&json!([{
            "step": "test", "functionRef": {"name": "function-test"},
            "inputRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "paint", "namespace": "default"},
        }]))
        .await;
    plane.create_site("blog", "red").await;
    is_unsynced(
        &plane,
        "cannot get the input of pipeline step `test`, ConfigMap `paint`: there is no such object",
    )
    .await;
    let paint = |color: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "paint"}, "data": {"color": color}});
    plane.apply(&format!("{SETTINGS}/paint"), &paint("green")).await;
    plane.until(BLOG, |site| site["status"]["color"] == "green" && is_ready(site)).await;
    plane.apply(&format!("{SETTINGS}/paint"), &paint("blue")).await;
    plane.until(BLOG, |site| site["status"]["color"] == "blue").await;
}

#[tokio::test]
async fn function_that_never_wants_the_same_twice_is_slowed_down() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let plane = plane_with_sites_by(move |_| {
        let number = counter.fetch_add(1, Ordering::Relaxed);
        json!({"desired": {"resources": {"a": setting("a", &number.to_string())}}})
    })
    .await;
    plane.create_site("blog", "red").await;
    plane.until(BLOG, is_ready).await;
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert!(calls.load(Ordering::Relaxed) < 60, "{}", calls.load(Ordering::Relaxed));
}

/// How often sites were reconciled.
fn reconciles(plane: &Plane) -> u64 {
    let name = r#"controller_runtime_reconcile_total{controller="composite/sites.example.org","#;
    let metrics = plane.metrics();
    let counts =
        metrics.lines().filter(|line| line.starts_with(name)).filter_map(|line| line.split(' ').next_back());
    counts.map(|count| count.parse::<u64>().unwrap()).sum()
}

#[tokio::test]
async fn change_of_a_function_wakes_only_those_that_call_it() {
    let plane = plane_with_sites().await;
    plane.create_site("blog", "red").await;
    let path = format!("{SITES}/blog");
    plane.until(&path, is_ready).await;
    plane.quiet().await;
    let before = reconciles(&plane);
    let install = async |name: &str| {
        let function = json!({
            "apiVersion": "pkg.crossplane.io/v1", "kind": "Function", "metadata": {"name": name},
            "spec": {"package": format!("registry.example/somebody/{name}:v1.0.0")},
        });
        plane.apply(&format!("/apis/pkg.crossplane.io/v1/functions/{name}"), &function).await;
        plane.quiet().await;
    };
    install("function-other").await;
    assert_eq!(reconciles(&plane), before, "nobody calls it");
    install("function-auto-ready").await;
    plane.until(&path, |_| reconciles(&plane) > before).await;
}

#[tokio::test]
async fn templates_in_config_maps_are_followed() {
    let plane = Plane::new().await;
    plane.define_sites().await;
    let template =
        |status: &str| format!("apiVersion: example.org/v1\nkind: Site\nstatus: {{color: {status}}}\n");
    let files = |namespace: &str, text: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "templates", "namespace": namespace},
            "data": {"site.yaml": text},
        })
    };
    let pipeline = |kind: &str, version: &str, namespace: Option<&str>| {
        let mut required = json!({
            "requirementName": "/templates", "apiVersion": version, "kind": kind, "name": "templates",
        });
        if let Some(namespace) = namespace {
            required["namespace"] = namespace.into();
        }
        json!([{
            "step": "compose", "functionRef": {"name": "function-go-templating"},
            "requirements": {"requiredResources": [required]},
            "input": {
                "apiVersion": "gotemplating.fn.crossplane.io/v1beta1", "kind": "GoTemplate",
                "source": "FileSystem", "fileSystem": {"dirPath": "/templates"},
            },
        }])
    };
    plane.compose_sites_of(&pipeline("ConfigMap", "v1", Some("default"))).await;
    plane.create_site("blog", "red").await;
    is_unsynced(&plane, "cannot read tmpl from the folder {/templates}: there is no such ConfigMap").await;
    let path = format!("{SETTINGS}/templates");
    plane.apply(&path, &files("default", &template("'{{ .observed.composite.resource.spec.color }}'"))).await;
    plane.until(BLOG, |site| site["status"]["color"] == "red").await;
    plane.apply(&path, &files("default", &template("green"))).await;
    plane.until(BLOG, |site| site["status"]["color"] == "green").await;
    plane.apply(&path, &files("default", "\n\n{{ fail \"not today\" }}")).await;
    is_unsynced(&plane, "pipeline step `compose` returned a fatal result: ").await;
    is_unsynced(&plane, "not today (line 3 of file `site.yaml`)").await;

    // What another namespace holds takes a grant; what is in none does not.
    plane.compose_sites_of(&pipeline("ConfigMap", "v1", Some("kube-system"))).await;
    is_unsynced(&plane, "no AccessGrant allows that").await;
    let environment = "/apis/apiextensions.crossplane.io/v1beta1/environmentconfigs/templates";
    let version = "apiextensions.crossplane.io/v1beta1";
    plane
        .apply(
            environment,
            &json!({
                "apiVersion": version, "kind": "EnvironmentConfig", "metadata": {"name": "templates"},
                "data": {"site.yaml": template("blue")},
            }),
        )
        .await;
    plane.compose_sites_of(&pipeline("EnvironmentConfig", version, None)).await;
    plane.until(BLOG, |site| site["status"]["color"] == "blue").await;
}

/// A step whose template prints random values and the time into a setting.
fn random_step(comment: &str) -> Value {
    let template = format!(
        r#"# {comment}
apiVersion: v1
kind: ConfigMap
metadata:
  annotations:
    {{{{ setResourceNameAnnotation "random" }}}}
    gotemplating.fn.crossplane.io/ready: "True"
data:
  printed: "{{{{ randAlphaNum 20 }}}} {{{{ uuidv4 }}}} {{{{ now }}}}"
"#
    );
    let input = json!({
        "apiVersion": "gotemplating.fn.crossplane.io/v1beta1", "kind": "GoTemplate",
        "source": "Inline", "inline": {"template": template},
    });
    json!([{"step": "compose", "functionRef": {"name": "function-go-templating"}, "input": input}])
}

/// The name of a site's only setting, and what a template printed into it.
async fn printed(plane: &Plane, site: &str) -> (String, String) {
    let settings = plane.settings_of(site).await;
    let [setting] = &settings[..] else { panic!("{settings:#?}") };
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&setting["metadata"]["name"]), text(&setting["data"]["printed"]))
}

#[tokio::test]
async fn template_that_prints_random_values_and_the_time_does_not_write_for_ever() {
    let mut plane = Plane::new().await;
    plane.define_sites().await;
    plane.compose_sites_of(&random_step("one")).await;
    plane.quiet().await;
    plane.create_site("blog", "red").await;
    let site = plane.until(BLOG, is_ready).await;
    let writes = plane.quiet().await;
    assert_eq!(writes.iter().filter(|write| write.contains(SETTINGS)).count(), 1, "{writes:#?}");
    let (name, first) = printed(&plane, "blog").await;
    // Twenty letters, a uuid, and the clock, which stands at the creation of the composite resource.
    let (random, time) = first.split_at(20 + 1 + 36);
    let created = site["metadata"]["creationTimestamp"].as_str().unwrap().replace('T', " ");
    assert_eq!(time, format!(" {} +0000 UTC", created.trim_end_matches('Z')));

    let before = reconciles(&plane);
    plane.merge(BLOG, &json!({"metadata": {"annotations": {"example.org/touched": "yes"}}})).await;
    plane.until(BLOG, |_| reconciles(&plane) > before).await;
    assert_eq!(plane.quiet().await, Vec::<String>::new());
    plane.restart().await;
    plane.until(BLOG, |_| reconciles(&plane) > 0).await;
    assert_eq!(plane.quiet().await, Vec::<String>::new());
    assert_eq!(printed(&plane, "blog").await, (name.clone(), first.clone()));

    plane.create_site("shop", "red").await;
    plane.until(&format!("{SITES}/shop"), is_ready).await;
    let (_, other) = printed(&plane, "shop").await;
    assert!(!other.starts_with(random), "another composite resource has other random values: {other}");
    plane.compose_sites_of(&random_step("two")).await;
    let is_changed = |text: &str| !text.starts_with(random) && text.ends_with(time);
    let path = format!("{SETTINGS}/{name}");
    plane.until(&path, |setting| setting["data"]["printed"].as_str().is_some_and(is_changed)).await;
}
