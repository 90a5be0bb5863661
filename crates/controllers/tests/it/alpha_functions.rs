//! Images as functions of a Composition: they compose, they are granted what they ask for, and they can be off.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ferroplane_runner::{External, ImageCall, ImageOutput, ImageRunner};
use ferroplane_testkit::plane::sites::is_ready;
use ferroplane_testkit::plane::{Plane, assert_same};
use http::Method;
use serde_json::{Value, json};

const BLOG: &str = "/apis/example.org/v1/namespaces/default/sites/blog";
const ALPHA: &str = "/apis/apiextensions.crossplane.io/v2alpha1/compositions/sites";
const STABLE: &str = "/apis/apiextensions.crossplane.io/v1/compositions/sites";

/// As the designs write it.
fn composition(network: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.crossplane.io/v2alpha1", "kind": "Composition", "metadata": {"name": "sites"},
        "spec": {
            "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "Site"},
            "functions": [{
                "name": "my-cool-function", "type": "Container",
                "container": {"image": "registry.example.org/my-cool-function:0.1.0", "network": {"policy": network}},
            }],
        },
    })
}

/// A plane on which every image adds settings of these names to the list that it is given, and drops all others.
async fn plane_with_images(settings: &Arc<Mutex<Vec<&'static str>>>) -> Plane {
    plane_counting_runs(settings, &Arc::default()).await
}

/// The same. Counts how often an image is run.
async fn plane_counting_runs(settings: &Arc<Mutex<Vec<&'static str>>>, runs: &Arc<AtomicUsize>) -> Plane {
    let (settings, runs) = (settings.clone(), runs.clone());
    let images = ImageRunner::new(move |call: ImageCall| {
        runs.fetch_add(1, Ordering::Relaxed);
        let settings = settings.lock().unwrap().clone();
        async move {
            let mut list: Value = serde_json::from_slice(&call.standard_input).unwrap();
            let items = list["items"].as_array_mut().unwrap();
            items.truncate(1);
            items[0]["status"]["color"] = call.has_network.to_string().into();
            let color = items[0]["spec"]["color"].clone();
            items.extend(settings.iter().map(|name| {
                json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"who": name, "color": color}, "metadata": {
                    "annotations": {"fn.apiextensions.crossplane.io/type": "ComposedResource",
                        "fn.apiextensions.crossplane.io/name": name, "fn.apiextensions.crossplane.io/ready": "True"}}})
            }));
            Ok(ImageOutput { standard_output: list.to_string().into_bytes(), ..ImageOutput::default() })
        }
    });
    let mut plane = Plane::new().await;
    plane.stop().await;
    plane.external = Some(External::new(images));
    plane.start().await;
    plane.define_sites().await;
    plane
}

#[tokio::test(flavor = "multi_thread")]
async fn image_composes_and_what_it_does_not_return_is_deleted() {
    let settings = Arc::new(Mutex::new(vec!["one", "two"]));
    let plane = plane_with_images(&settings).await;
    plane.apply(ALPHA, &composition("Isolated")).await;
    plane.create_site("blog", "red").await;
    let blog = plane.until(BLOG, is_ready).await;
    assert_eq!(blog["status"]["color"], "false");
    let made = plane.settings_of("blog").await;
    let who: Vec<_> = made.iter().map(|object| object["data"]["who"].as_str().unwrap()).collect();
    assert_eq!(who, ["one", "two"]);
    let annotations = made[0]["metadata"]["annotations"].as_object().unwrap();
    assert!(!annotations.keys().any(|key| key.starts_with("fn.apiextensions")), "{annotations:?}");
    *settings.lock().unwrap() = vec!["two"];
    plane.merge(BLOG, &json!({"spec": {"color": "blue"}})).await;
    let path = "/api/v1/namespaces/default/configmaps?labelSelector=crossplane.io/composite=blog";
    let left = plane.until(path, |list| list["items"].as_array().is_some_and(|items| items.len() == 1)).await;
    assert_eq!(left["items"][0]["data"]["who"], "two");
}

#[tokio::test(flavor = "multi_thread")]
async fn image_is_recorded_replayed_and_counted_like_any_other_step() {
    let plane = plane_with_images(&Arc::new(Mutex::new(vec!["one"]))).await;
    plane.apply(ALPHA, &composition("Isolated")).await;
    plane.create_site("blog", "red").await;
    plane.until(BLOG, is_ready).await;
    plane.quiet().await;
    // What has happened is recorded a moment later.
    let is_recorded = || plane.recordings().heads().unwrap().iter().any(|head| head.is_ready);
    plane.until(BLOG, |_| is_recorded()).await;
    let archive = plane.recordings();
    let heads = archive.heads().unwrap();
    let recorded = heads.iter().find(|head| head.is_ready).expect("the reconcile is recorded");
    let recording = archive.get(recorded.id).unwrap().unwrap().unwrap();
    let outcome: Value = serde_json::from_slice(&recording.takes.last().unwrap().outcome).unwrap();
    assert_eq!(outcome["plan"]["apply"][0]["object"]["data"]["who"], "one", "{outcome:#}");
    // A replay answers the image with what was recorded, and runs none.
    assert_same(&archive);
    let counted = "function_run_function_request_total{function_name=\"function-container\",\
        function_revision=\"function-container-v0.1.0\"";
    let metrics = plane.metrics();
    assert!(metrics.contains(counted), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_of_an_image_is_used_again_for_the_same_request() {
    let runs = Arc::<AtomicUsize>::default();
    let mut plane = plane_counting_runs(&Arc::new(Mutex::new(vec!["one"])), &runs).await;
    plane.apply(ALPHA, &composition("Isolated")).await;
    plane.create_site("blog", "red").await;
    plane.until(BLOG, is_ready).await;
    plane.quiet().await;
    // Controllers that know nothing ask about the site as it has become.
    plane.restart().await;
    let is_counted = |plane: &Plane, what: &str| {
        plane.metrics().contains(&format!(
            "function_run_function_response_cache_{what}_total{{function_name=\"function-container\""
        ))
    };
    plane.until(BLOG, |_| is_counted(&plane, "hits") || is_counted(&plane, "misses")).await;
    plane.quiet().await;
    let before = runs.load(Ordering::Relaxed);
    plane.restart().await;
    plane.until(BLOG, |_| is_counted(&plane, "hits")).await;
    plane.quiet().await;
    assert_eq!(runs.load(Ordering::Relaxed), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_of_a_composition_are_in_its_revision_and_a_change_of_their_order_makes_another() {
    let plane = plane_with_images(&Arc::default()).await;
    let mut composition = composition("Isolated");
    let mut second = composition["spec"]["functions"][0].clone();
    second["name"] = json!("my-other-function");
    composition["spec"]["functions"].as_array_mut().unwrap().push(second);
    plane.apply(ALPHA, &composition).await;
    let names = |list: &Value| -> Vec<Value> {
        let mut revisions: Vec<_> = list["items"].as_array().unwrap().clone();
        revisions.sort_by_key(|revision| revision["spec"]["revision"].as_i64());
        let functions = |revision: &Value| {
            let functions = revision["spec"]["functions"].as_array().unwrap();
            functions.iter().map(|function| function["name"].clone()).collect::<Value>()
        };
        revisions.iter().map(functions).collect()
    };
    let path = "/apis/apiextensions.crossplane.io/v1/compositionrevisions";
    let order = json!(["my-cool-function", "my-other-function"]);
    plane.until(path, |list| names(list) == [order.clone()]).await;
    composition["spec"]["functions"].as_array_mut().unwrap().reverse();
    plane.apply(ALPHA, &composition).await;
    let reversed = json!(["my-other-function", "my-cool-function"]);
    plane.until(path, |list| names(list) == [order.clone(), reversed.clone()]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn network_takes_a_grant_and_has_it_as_soon_as_it_is_written() {
    let plane = plane_with_images(&Arc::new(Mutex::new(vec!["one"]))).await;
    plane.apply(ALPHA, &composition("Runner")).await;
    plane.create_site("blog", "red").await;
    let is_denied = |site: &Value| site["status"].to_string().contains("AccessNotGranted");
    let site = plane.until(BLOG, is_denied).await;
    assert!(
        site["status"].to_string().contains("cannot let pipeline step `my-cool-function` use the network")
    );
    let grant = json!({
        "apiVersion": "ferroplane.io/v1alpha1", "kind": "AccessGrant", "metadata": {"name": "images"},
        "spec": {"to": {"namespaces": ["default"]},
            "run": [{"privileges": ["Network"], "images": ["registry.example.org/my-cool-function"]}]},
    });
    plane.apply("/apis/ferroplane.io/v1alpha1/accessgrants/images", &grant).await;
    let blog = plane.until(BLOG, is_ready).await;
    assert_eq!(blog["status"]["color"], "true");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_it_is_off_the_composite_resource_and_whoever_applies_the_composition_are_told() {
    let plane = Plane::new().await;
    plane.define_sites().await;
    let warnings = plane.warnings(ALPHA, &composition("Isolated")).await;
    let is_told = warnings.iter().any(|warning| warning.contains("--enable-alpha-functions"));
    assert_eq!(is_told, !plane.is_real(), "{warnings:?}");
    plane.create_site("blog", "red").await;
    plane.until(BLOG, |site| site["status"].to_string().contains("--enable-alpha-functions")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn version_of_the_designs_is_stored_as_the_stable_one_and_others_do_not_exist() {
    let plane = plane_with_images(&Arc::default()).await;
    plane.apply(ALPHA, &composition("Isolated")).await;
    let stable = plane.get(STABLE).await;
    assert_eq!(stable["apiVersion"], "apiextensions.crossplane.io/v1");
    assert_eq!(
        stable["spec"]["functions"][0]["container"]["image"],
        "registry.example.org/my-cool-function:0.1.0"
    );
    assert_eq!(plane.get(ALPHA).await["apiVersion"], "apiextensions.crossplane.io/v2alpha1");
    let path = ALPHA.replace("v2alpha1", "v3alpha1");
    let (code, _) = plane.send(Method::GET, &path, "application/json", &Value::Null).await;
    assert_eq!(code, 404);
    let mut both = composition("Isolated");
    both["spec"]["pipeline"] = json!([{"step": "a", "functionRef": {"name": "function-auto-ready"}}]);
    let path = format!("{ALPHA}?fieldManager=t&force=true");
    let (code, answer) = plane.send(Method::PATCH, &path, "application/apply-patch+yaml", &both).await;
    assert_eq!(code, 422, "{answer}");
    assert!(answer.to_string().contains("pipeline and functions exclude each other"), "{answer}");
}
