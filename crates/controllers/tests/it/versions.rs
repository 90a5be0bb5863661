//! What users hear of versions of functions that will go.

use std::time::Duration;

use ferroplane_testkit::TcpServer;
use ferroplane_testkit::plane::sites::{SITES, is_ready, plane_with_sites};
use ferroplane_testkit::plane::{Plane, condition};
use serde_json::{Value, json};

const COMPOSITION: &str = "/apis/apiextensions.crossplane.io/v1/compositions/sites";
const REVISIONS: &str = "/apis/apiextensions.crossplane.io/v1/compositionrevisions";
const DEPRECATED: &str = "step `aged`: function `function-aged` v0.1.0 is deprecated and will be removed in release \
                          0.3.0: use v0.2.0 instead";

fn steps(version: &str) -> Value {
    json!([{"step": "aged", "functionRef": {"name": "function-aged", "version": version}}])
}

async fn plane_with_aged_sites() -> Plane {
    let plane = Plane::new().await;
    plane.define_sites().await;
    plane.compose_sites_of(&steps("v0.1.0")).await;
    plane.create_site("blog", "red").await;
    plane
}

fn message(object: &Value, kind: &str) -> String {
    let conditions = object["status"]["conditions"].as_array().unwrap();
    let condition = conditions.iter().find(|condition| condition["type"] == kind).unwrap();
    condition["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn deprecated_version_is_told_of_wherever_somebody_looks() {
    let plane = plane_with_aged_sites().await;
    let blog = plane.until(&format!("{SITES}/blog"), is_ready).await;
    let told = Some("False/FunctionVersionDeprecated");
    assert_eq!(condition(&blog, "FunctionVersionsCurrent").as_deref(), told);
    assert_eq!(message(&blog, "FunctionVersionsCurrent"), DEPRECATED);
    plane.until_said("blog", "Warning/FunctionVersionDeprecated: Pipeline step \"aged\"").await;

    let revision = plane.get(REVISIONS).await["items"][0].clone();
    assert_eq!(condition(&revision, "FunctionVersionsCurrent").as_deref(), told);
    assert_eq!(condition(&revision, "ValidPipeline").as_deref(), Some("True/ValidPipeline"));
    let warning = &revision["status"]["warnings"][0];
    assert_eq!(warning["step"], "aged");
    assert_eq!((&warning["version"], &warning["removedIn"]), (&json!("v0.1.0"), &json!("0.3.0")));
    assert_eq!(warning["replacement"], "v0.2.0");
    plane.until_said(revision["metadata"]["name"].as_str().unwrap(), DEPRECATED).await;

    let metrics = plane.metrics();
    let used =
        r#"engine_function_version_use_total{function="function-aged",version="v0.1.0",state="deprecated"}"#;
    assert!(metrics.lines().any(|line| line.starts_with(used)), "{metrics}");
    let calls = r#"function_run_function_request_total{function_name="function-aged","#;
    assert!(metrics.lines().any(|line| line.starts_with(calls)), "{metrics}");
    let looks =
        r#"controller_runtime_reconcile_total{controller="composite/sites.example.org",result="success"}"#;
    assert!(metrics.lines().any(|line| line.starts_with(looks)), "{metrics}");
}

#[tokio::test]
async fn warning_is_said_once_and_taken_back_when_it_no_longer_holds() {
    let mut plane = plane_with_aged_sites().await;
    let path = format!("{SITES}/blog");
    plane.until(&path, is_ready).await;
    plane.quiet().await;
    plane.restart().await;
    assert_eq!(plane.quiet().await, Vec::<String>::new());
    plane.compose_sites_of(&steps("v0.2.0")).await;
    let is_current =
        |site: &Value| condition(site, "FunctionVersionsCurrent").as_deref() == Some("True/Current");
    plane.until(&path, is_current).await;
    let events = plane.events("blog").await;
    let told = events.iter().filter(|event| event.contains("FunctionVersionDeprecated")).count();
    // Once for each start of the controllers at the most.
    assert!((1..=2).contains(&told), "{events:#?}");
}

#[tokio::test]
async fn site_whose_versions_were_always_current_says_nothing_of_them() {
    let plane = Plane::new().await;
    plane.define_sites().await;
    plane.compose_sites_of(&steps("v0.2.0")).await;
    plane.create_site("blog", "red").await;
    let blog = plane.until(&format!("{SITES}/blog"), is_ready).await;
    assert_eq!(condition(&blog, "FunctionVersionsCurrent"), None);
    let revision = plane.get(REVISIONS).await["items"][0].clone();
    assert_eq!(
        (revision["status"].get("warnings"), condition(&revision, "FunctionVersionsCurrent")),
        (None, None)
    );
}

#[tokio::test]
async fn whoever_applies_a_composition_is_warned() {
    let plane = Plane::new().await;
    if plane.is_real() {
        return;
    }
    let composition = |version: &str| {
        json!({
            "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "sites"},
            "spec": {
                "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "Site"},
                "mode": "Pipeline", "pipeline": steps(version),
            },
        })
    };
    assert_eq!(plane.warnings(COMPOSITION, &composition("v0.2.0")).await, Vec::<String>::new());
    let warnings = plane.warnings(COMPOSITION, &composition("v0.1.0")).await;
    let [warning] = warnings.as_slice() else { panic!("{warnings:?}") };
    assert!(
        warning.starts_with("299 - \"step `aged`: function `function-aged` v0.1.0 is deprecated"),
        "{warning}"
    );
    // What is not there may come.
    assert_eq!(plane.warnings(COMPOSITION, &composition("v0.9.0")).await, Vec::<String>::new());
}

#[tokio::test]
async fn whoever_applies_a_composition_with_mistakes_in_its_steps_is_warned() {
    let plane = Plane::new().await;
    if plane.is_real() {
        return;
    }
    let template = json!({"name": "a", "base": {"apiVersion": "v1", "kind": "ConfigMap"}});
    let composition = json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "sites"},
        "spec": {
            "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "Site"}, "mode": "Pipeline",
            "pipeline": [
                {"step": "typo", "functionRef": {"name": "function-auto-redy"}},
                {"step": "twice", "functionRef": {"name": "function-patch-and-transform"}, "input": {
                    "apiVersion": "pt.fn.crossplane.io/v1beta1", "kind": "Resources", "resources": [template, template],
                }},
            ],
        },
    });
    let warnings = plane.warnings(COMPOSITION, &composition).await;
    let [typo, twice] = warnings.as_slice() else { panic!("{warnings:?}") };
    assert!(typo.contains("step `typo`: there is no function `function-auto-redy`"), "{typo}");
    assert!(twice.contains("step `twice`: input.resources[1].name: Duplicate value"), "{twice}");
}

#[tokio::test]
async fn function_that_insists_on_what_is_built_in_gets_it() {
    let plane = Plane::new().await;
    plane.define_sites().await;
    let path = "/apis/pkg.crossplane.io/v1/functions/mine";
    let function = |native: &str| {
        json!({
            "apiVersion": "pkg.crossplane.io/v1", "kind": "Function",
            "metadata": {"name": "mine", "annotations": {"ferroplane.io/native": native}},
            "spec": {"package": "registry.example/somebody/function-aged:v9.9.9"},
        })
    };
    plane.apply(path, &function("false")).await;
    plane.compose_sites_of(&json!([{"step": "aged", "functionRef": {"name": "mine"}}])).await;
    plane.create_site("blog", "red").await;
    plane
        .until_said(
            "blog",
            "function `mine` is installed as registry.example/somebody/function-aged:v9.9.9, but cannot be called",
        )
        .await;
    plane.apply(path, &function("true")).await;
    plane.until(&format!("{SITES}/blog"), is_ready).await;
}

#[tokio::test]
async fn fork_that_is_named_like_a_built_in_function_is_never_replaced_by_it() {
    for annotations in [json!({}), json!({"ferroplane.io/native": "false"})] {
        let plane = plane_with_sites().await;
        let function = json!({
            "apiVersion": "pkg.crossplane.io/v1", "kind": "Function",
            "metadata": {"name": "function-auto-ready", "annotations": annotations},
            "spec": {"package": "registry.example/fork/function-auto-ready:v0.7.0"},
        });
        plane.apply("/apis/pkg.crossplane.io/v1/functions/function-auto-ready", &function).await;
        plane.create_site("blog", "red").await;
        let is_refused = |site: &Value| {
            let conditions = site["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            conditions
                .any(|condition| condition["code"] == "FunctionNotRunnable" && condition["step"] == "ready")
        };
        plane.until(&format!("{SITES}/blog"), is_refused).await;
        let said = "function `function-auto-ready` is installed as registry.example/fork/function-auto-ready:v0.7.0, but cannot";
        plane.until_said("blog", said).await;
        // A caller that takes it away again gets what is built in.
        plane.delete("/apis/pkg.crossplane.io/v1/functions/function-auto-ready").await;
        plane.until(&format!("{SITES}/blog"), is_ready).await;
    }
}

#[tokio::test]
async fn function_that_a_developer_serves_is_called_only_where_that_is_allowed() {
    let developer = TcpServer::start(|_, _| async {});
    let mut plane = Plane::new().await;
    plane.define_sites().await;
    plane.stop().await;
    plane.allows_development_functions = false;
    plane.start().await;
    let function = json!({
        "apiVersion": "pkg.crossplane.io/v1", "kind": "Function",
        "metadata": {"name": "function-served", "annotations": {
            "render.crossplane.io/runtime": "Development",
            "render.crossplane.io/runtime-development-target": developer.address(),
        }},
        "spec": {"package": "registry.example/function-served:v1"},
    });
    plane.apply("/apis/pkg.crossplane.io/v1/functions/function-served", &function).await;
    plane.compose_sites_of(&json!([{"step": "test", "functionRef": {"name": "function-served"}}])).await;
    plane.create_site("blog", "red").await;
    let said = "annotation `render.crossplane.io/runtime: Development` is ignored";
    plane.until_said("blog", &format!("its {said}")).await;
    plane.until_said("function-served", &format!("Warning/DevelopmentIgnored: Its {said}")).await;
    assert_eq!(developer.connections(), 0);

    plane.stop().await;
    plane.allows_development_functions = true;
    plane.start().await;
    let connected = async {
        while developer.connections() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), connected)
        .await
        .expect("it is called where that is allowed");
}
