//! Operations that call functions of installed packages: what a package says that it can do decides.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ferroplane_controllers::{PackagedFunction, PackagedFunctions};
use ferroplane_runner::{AsyncFunction, Runner};
use ferroplane_testkit::plane::{FakeRegistry, Plane, condition};
use ferroplane_wire::v1::RunFunctionResponse;
use serde_json::{Value, json};

use super::{OPERATIONS, operation, until_succeeded};
use crate::packages::{PKG, apply, healthy, message, package_yaml, revisions};

/// A registry with a package for each of these manifests of functions: `acme/function-own:v1.0.0`, then `v1.1.0`.
fn registry_of(manifests: &[Value]) -> FakeRegistry {
    let registry = FakeRegistry::default();
    for (number, manifest) in manifests.iter().enumerate() {
        let image = format!("registry.example.org/acme/function-own:v1.{number}.0");
        // Different contents, so that each has a digest of its own.
        registry.push(&image, &format!("# {number}\n{}", package_yaml("Function", manifest, &[])));
    }
    registry
}

/// Serve the revision that was not served before, and count its calls. Returns its name.
async fn serve(functions: &PackagedFunctions, before: &str, calls: &Arc<AtomicUsize>) -> String {
    let mut wanted = functions.wanted();
    let is_new = |name: &String| name != before;
    let list = wanted.wait_for(|wanted| wanted.keys().any(is_new)).await.unwrap().clone();
    let revision = list.into_keys().find(is_new).unwrap();
    let calls = calls.clone();
    let answer = AsyncFunction::new(move |_| {
        calls.fetch_add(1, Ordering::Relaxed);
        async { Ok(RunFunctionResponse::default()) }
    });
    functions.set(&revision, Some(PackagedFunction::Serving(Arc::new(Runner::AsyncFunction(answer)))));
    revision
}

fn spec() -> Value {
    let steps = json!([{"step": "work", "functionRef": {"name": "own"}}]);
    json!({"mode": "Pipeline", "retryLimit": 100, "pipeline": steps})
}

async fn until_refused(plane: &Plane, name: &str) -> Value {
    let path = format!("{OPERATIONS}/{name}");
    plane
        .until(&path, |it| condition(it, "ValidPipeline").as_deref() == Some("False/MissingCapabilities"))
        .await
}

#[tokio::test]
async fn function_of_a_package_is_called_only_if_the_package_declares_operation() {
    let both = json!({"capabilities": ["composition", "operation"]});
    let registry = registry_of(&[json!({"capabilities": ["composition"]}), both]);
    let (functions, calls) = (registry.run_functions(), Arc::new(AtomicUsize::new(0)));
    let plane = Plane::with_registry(&registry).await;
    let path = apply(&plane, "Function", "own", "acme/function-own:v1.0.0", &json!({})).await;
    let first = serve(&functions, "", &calls).await;
    healthy(&plane, &path).await;
    plane.apply(&format!("{OPERATIONS}/early"), &operation("early", &spec())).await;
    let refused = until_refused(&plane, "early").await;
    assert!(refused["status"]["failures"].as_u64() >= Some(1), "{refused}");
    assert_eq!(condition(&refused, "Synced").as_deref(), Some("False/ReconcileError"));
    let succeeded = condition(&refused, "Succeeded").unwrap();
    assert!(
        ["Unknown/PipelinePending", "Unknown/PipelineRunning"].contains(&succeeded.as_str()),
        "{succeeded}"
    );
    assert!(message(&refused, "ValidPipeline").contains(&first), "{refused}");
    plane.until_said("early", "Warning/InvalidPipeline").await;
    assert_eq!(calls.load(Ordering::Relaxed), 0, "a function that cannot be used is not called");

    apply(&plane, "Function", "own", "acme/function-own:v1.1.0", &json!({})).await;
    let second = serve(&functions, &first, &calls).await;
    let mut wanted = functions.wanted();
    wanted.wait_for(|wanted| wanted.len() == 1 && wanted.contains_key(&second)).await.unwrap();
    plane.apply(&format!("{OPERATIONS}/late"), &operation("late", &spec())).await;
    let done = until_succeeded(&plane, "late", "True/PipelineSuccess").await;
    assert_eq!(condition(&done, "ValidPipeline").as_deref(), Some("True/ValidPipeline"));
    // The one that was refused runs, too. Its spec is edited so that it does not wait for the next attempt.
    plane.merge(&format!("{OPERATIONS}/early"), &json!({"spec": {"retryLimit": 101}})).await;
    let done = until_succeeded(&plane, "early", "True/PipelineSuccess").await;
    assert_eq!(condition(&done, "ValidPipeline").as_deref(), Some("True/ValidPipeline"));
    assert_eq!(calls.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn package_that_declares_nothing_is_for_compositions_alone() {
    let registry = registry_of(&[json!({})]);
    let (functions, calls) = (registry.run_functions(), Arc::new(AtomicUsize::new(0)));
    let plane = Plane::with_registry(&registry).await;
    let path = apply(&plane, "Function", "own", "acme/function-own:v1.0.0", &json!({})).await;
    serve(&functions, "", &calls).await;
    healthy(&plane, &path).await;
    let [revision] = &revisions(&plane, "function").await[..] else { panic!() };
    assert_eq!(revision["status"]["capabilities"], json!(["composition"]));
    plane.apply(&format!("{OPERATIONS}/o"), &operation("o", &spec())).await;
    until_refused(&plane, "o").await;
    assert_eq!(calls.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn revision_that_a_step_selects_has_to_declare_operation() {
    let both = json!({"capabilities": ["composition", "operation"]});
    let registry = registry_of(&[json!({"capabilities": ["composition"]}), both]);
    let (functions, calls) = (registry.run_functions(), Arc::new(AtomicUsize::new(0)));
    let plane = Plane::with_registry(&registry).await;
    let limits = json!({"revisionHistoryLimit": 4, "activeRevisionLimit": 2});
    let mut served = vec![String::new()];
    for version in ["v1.0.0", "v1.1.0"] {
        apply(&plane, "Function", "own", &format!("acme/function-own:{version}"), &limits).await;
        let revision = serve(&functions, served.last().unwrap(), &calls).await;
        let is_called = |it: &Value| condition(it, "InService").as_deref() == Some("True/Answered");
        plane.until(&format!("{PKG}/functionrevisions/{revision}"), is_called).await;
        served.push(revision);
    }
    let calling = |revision: &str| {
        let mut spec = spec();
        spec["pipeline"][0]["functionRevisionRef"] = json!({"name": revision});
        spec
    };
    plane.apply(&format!("{OPERATIONS}/unable"), &operation("unable", &calling(&served[1]))).await;
    let refused = until_refused(&plane, "unable").await;
    assert!(message(&refused, "ValidPipeline").contains(&served[1]), "{refused}");
    assert_eq!(calls.load(Ordering::Relaxed), 0, "another revision is not called in its place");
    plane.apply(&format!("{OPERATIONS}/able"), &operation("able", &calling(&served[2]))).await;
    let done = until_succeeded(&plane, "able", "True/PipelineSuccess").await;
    assert_eq!(condition(&done, "ValidPipeline").as_deref(), Some("True/ValidPipeline"));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}
