//! Programs of packages run in pods: Deployments, Services and certificates are what Crossplane would make, and change hands safely.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ferroplane_api::PackageKind::{Function, Provider};
use ferroplane_controllers::{Clock, PackagedFunction};
use ferroplane_runner::{AsyncFunction, Runner};
use ferroplane_testkit::plane::registry::NAMESPACE;
use ferroplane_testkit::plane::{FakeRegistry, ImageSigner, Plane, condition, condition_code, master};
use ferroplane_wire::v1::RunFunctionResponse;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::packages::{
    COMMAND, NOT_RUN, PKG, apply, apply_commanded, crd, healthy, message, owners, package_yaml, revisions,
};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const CONFIGS: &str = "/apis/pkg.crossplane.io/v1beta1/deploymentruntimeconfigs";

fn deployments() -> String {
    format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments")
}

fn of_core(plural: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/{plural}/{name}")
}

fn registry_of(kind: &str, name: &str, versions: &[&str]) -> FakeRegistry {
    let registry = FakeRegistry::default();
    for version in versions {
        // Different contents, so that each has a digest of its own.
        let package =
            package_yaml(kind, &json!({"crossplane": {"version": format!(">=v1, !={version}")}}), &[]);
        registry.push(&format!("registry.example.org/acme/{name}:{version}"), &package);
    }
    registry
}

/// Wait for a Deployment.
async fn deployed(plane: &Plane, name: &str) -> Value {
    plane.until(&format!("{}/{name}", deployments()), |deployment| !deployment.is_null()).await
}

/// What the pods of a Deployment run.
fn image_of(deployment: &Value) -> &str {
    deployment["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap_or_default()
}

/// What a Deployment says whose pods do not answer.
fn complaint(plane: &Plane) -> &'static str {
    if plane.is_real() { "Deployment does not have minimum availability." } else { "pods of a test" }
}

/// Do what Kubernetes does when enough pods answer, or do not any more.
async fn set_available(plane: &Plane, name: &str, status: &str) {
    deployed(plane, name).await;
    if plane.is_real() {
        return set_pods_ready(plane, name, status).await;
    }
    let condition =
        json!({"type": "Available", "status": status, "reason": "r", "message": complaint(plane)});
    let path = format!("{}/{name}/status", deployments());
    plane.merge(&path, &json!({"status": {"conditions": [condition]}})).await;
}

/// Do what kubelets do, of which there are none, until the controllers of a real cluster have noticed.
async fn set_pods_ready(plane: &Plane, name: &str, status: &str) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(90);
    loop {
        let deployment = plane.get(&format!("{}/{name}", deployments())).await;
        let labels = deployment["spec"]["selector"]["matchLabels"].as_object().cloned().unwrap_or_default();
        let labels: Vec<_> =
            labels.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap())).collect();
        let pods = plane
            .get(&format!("{}?labelSelector={}", of_core("pods", "").trim_end_matches('/'), labels.join(",")))
            .await;
        for pod in pods["items"].as_array().into_iter().flatten() {
            let path = format!("{}/status", of_core("pods", pod["metadata"]["name"].as_str().unwrap()));
            let ready =
                json!({"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"});
            if !condition(pod, "Ready").is_some_and(|ready| ready.starts_with(status)) {
                plane.merge(&path, &json!({"status": {"phase": "Running", "conditions": [ready]}})).await;
            }
        }
        let is_seen = deployment["status"]["observedGeneration"] == deployment["metadata"]["generation"];
        if is_seen && condition(&deployment, "Available").is_some_and(|it| it.starts_with(status)) {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "{deployment:#}\n{pods:#}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The name of the newest revision, once there are so many.
async fn newest(plane: &Plane, kind: &str, count: usize) -> String {
    let list = format!("{PKG}/{kind}revisions");
    plane.until(&list, |list| list["items"].as_array().is_some_and(|items| items.len() == count)).await;
    let all = revisions(plane, kind).await;
    all.last().unwrap()["metadata"]["name"].as_str().unwrap().to_owned()
}

fn controllers(object: &Value) -> Vec<String> {
    owners(object).into_iter().filter(|(_, controls)| *controls).map(|(name, _)| name).collect()
}

fn selected(service: &Value) -> &str {
    service["spec"]["selector"]["pkg.crossplane.io/revision"].as_str().unwrap_or_default()
}

fn conditions_are(object: &Value, expected: &[(&str, &str)]) -> bool {
    expected.iter().all(|(kind, value)| condition(object, kind).as_deref() == Some(*value))
}

#[tokio::test]
async fn function_runs_in_pods_and_says_where_it_is_called() {
    let registry = registry_of("Function", "function-own", &["v1.0.0"]);
    let mut plane = Plane::with_pods(&registry, &[Function, Provider]).await;
    let path = apply(&plane, "Function", "own", "acme/function-own:v1.0.0", &json!({})).await;
    let name = newest(&plane, "function", 1).await;
    let deployment = deployed(&plane, &name).await;
    assert_eq!(controllers(&deployment), std::slice::from_ref(&name));
    let [revision] = &revisions(&plane, "function").await[..] else { panic!() };
    let digest = revision["metadata"]["annotations"]["ferroplane.io/package-digest"].as_str().unwrap();
    assert_eq!(image_of(&deployment), format!("registry.example.org/acme/function-own@{digest}"));
    let service = plane.until(&of_core("services", "own"), |service| !service.is_null()).await;
    assert_eq!((selected(&service), &service["spec"]["clusterIP"]), (&*name, &json!("None")));
    let account = plane.get(&of_core("serviceaccounts", &name)).await;
    assert_eq!(controllers(&account), std::slice::from_ref(&name));
    let secret = plane.get(&of_core("secrets", "own-tls-server")).await;
    let authority = plane.get(&of_core("secrets", "crossplane-root-ca")).await;
    assert_eq!(secret["data"]["ca.crt"], authority["data"]["tls.crt"]);
    assert!(certifies(&secret, "own.crossplane-system.svc"), "{secret}");

    let revision = format!("{PKG}/functionrevisions/{name}");
    let is_waiting = |it: &Value| {
        let words = message(it, "RuntimeHealthy");
        words.contains("\"Available\" yet") || words.contains(complaint(&plane))
    };
    let waiting = plane.until(&revision, is_waiting).await;
    assert_eq!(waiting["status"]["endpoint"], "dns:///own.crossplane-system:9443");
    assert_eq!(waiting["status"]["tlsServerSecretName"], "own-tls-server");
    set_available(&plane, &name, "True").await;
    healthy(&plane, &path).await;
    let expected =
        [("RuntimeHealthy", "True/HealthyPackageRevision"), ("RuntimeActive", "True/ActiveRuntime")];
    assert!(conditions_are(&plane.get(&revision).await, &expected));
    set_available(&plane, &name, "False").await;
    let words = format!("unavailable with message: {}", complaint(&plane));
    plane.until(&path, |it| message(it, "Healthy").contains(&words)).await;
    set_available(&plane, &name, "True").await;
    healthy(&plane, &path).await;

    plane.quiet().await;
    plane.stop().await;
    plane.start_as(master("ferroplane")).await;
    assert_eq!(plane.quiet().await, Vec::<String>::new(), "nothing changed");
    plane.delete(&of_core("services", "own")).await;
    plane.until(&of_core("services", "own"), |service| selected(service) == name).await;
    plane.merge(&format!("{}/{name}", deployments()), &json!({"spec": {"replicas": 3}})).await;
    plane.until(&format!("{}/{name}", deployments()), |it| it["spec"]["replicas"] == 1).await;
}

#[tokio::test]
async fn pods_that_are_not_available_in_time_are_a_failure_with_a_code() {
    let registry = registry_of("Function", "function-own", &["v1.0.0"]);
    let plane = Plane::with_pods(&registry, &[Function, Provider]).await;
    if plane.is_real() {
        // Its controllers report that after ten minutes.
        return;
    }
    let path = apply(&plane, "Function", "own", "acme/function-own:v1.0.0", &json!({})).await;
    let name = newest(&plane, "function", 1).await;
    set_available(&plane, &name, "False").await;
    let waiting = plane.until(&path, |it| message(it, "Healthy").contains(complaint(&plane))).await;
    assert_eq!(condition_code(&waiting, "Healthy"), "");
    let late = json!([
        {"type": "Available", "status": "False", "reason": "r", "message": complaint(&plane)},
        {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "timed out"},
    ]);
    let deployment = format!("{}/{name}/status", deployments());
    plane.merge(&deployment, &json!({"status": {"conditions": late}})).await;
    let failed = plane.until(&path, |it| condition_code(it, "Healthy") == "PackageNotRun").await;
    assert!(message(&failed, "Healthy").contains(complaint(&plane)), "{failed:#}");
    set_available(&plane, &name, "True").await;
    healthy(&plane, &path).await;
    assert_eq!(condition_code(&plane.get(&path).await, "Healthy"), "");
}

#[tokio::test]
async fn command_of_a_function_does_not_keep_its_package_from_running_in_pods() {
    let registry = registry_of("Function", "one", &["v1.0.0"]);
    let package = package_yaml("Function", &json!({}), &[]);
    registry.push("registry.example.org/acme/other:v1.0.0", &package);
    let plane = Plane::with_pods(&registry, &[Function, Provider]).await;
    let one = apply_commanded(&plane, "one", "acme/one:v1.0.0").await;
    set_available(&plane, &current(&plane, &one).await, "True").await;
    healthy(&plane, &one).await;
    plane.until_said("one", NOT_RUN).await;

    let other = apply(&plane, "Function", "other", "acme/other:v1.0.0", &json!({})).await;
    set_available(&plane, &current(&plane, &other).await, "True").await;
    healthy(&plane, &other).await;
    plane.merge(&other, &json!({"metadata": {"annotations": {COMMAND: "./run"}}})).await;
    plane.until_said("other", NOT_RUN).await;
    plane.quiet().await;
    healthy(&plane, &other).await;
}

/// The name of the current revision of a package, once there is one.
async fn current(plane: &Plane, path: &str) -> String {
    let package = plane.until(path, |package| package["status"]["currentRevision"].is_string()).await;
    package["status"]["currentRevision"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn function_of_webassembly_runs_in_the_control_plane_and_has_no_pods() {
    let registry = registry_of("Function", "function-own", &["v1.1.0"]);
    let package = package_yaml("Function", &json!({}), &[]);
    registry.push_webassembly("registry.example.org/acme/function-own:v1.0.0", &package);
    let functions = registry.run_functions();
    let plane = Plane::with_pods(&registry, &[Function, Provider]).await;
    let path = apply(&plane, "Function", "own", "acme/function-own:v1.0.0", &json!({})).await;
    let first = newest(&plane, "function", 1).await;
    let mut wanted = functions.wanted();
    wanted.wait_for(|wanted| wanted.contains_key(&first)).await.unwrap();
    let runner = Runner::AsyncFunction(AsyncFunction::new(|_| async { Ok(RunFunctionResponse::default()) }));
    functions.set(&first, Some(PackagedFunction::Serving(Arc::new(runner))));
    healthy(&plane, &path).await;
    plane.quiet().await;
    assert!(plane.get(&format!("{}/{first}", deployments())).await.is_null());
    assert!(plane.get(&of_core("services", "own")).await.is_null());

    // A version that is not WebAssembly runs in pods again.
    apply(&plane, "Function", "own", "acme/function-own:v1.1.0", &json!({})).await;
    let second = newest(&plane, "function", 2).await;
    set_available(&plane, &second, "True").await;
    healthy(&plane, &path).await;
    wanted.wait_for(BTreeMap::is_empty).await.unwrap();
}

/// A Deployment that a revision controls.
fn left_behind(revision: &Value) -> Value {
    let metadata = &revision["metadata"];
    let owner = json!({
        "apiVersion": "pkg.crossplane.io/v1", "kind": "FunctionRevision", "name": metadata["name"], "uid": metadata["uid"],
        "controller": true,
    });
    let labels = json!({"app": "left-behind"});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": metadata["name"], "ownerReferences": [owner]},
        "spec": {"selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "program", "image": "registry.example.org/acme/jq"}]},
        }},
    })
}

#[tokio::test]
async fn function_that_is_run_for_every_call_has_no_pods_and_says_what_helps() {
    let registry = registry_of("Function", "function-own", &["v1.1.0"]);
    let manifest = json!({
        "apiVersion": "meta.pkg.crossplane.io/v1", "kind": "Function",
        "metadata": {"name": "p", "annotations": {"ferroplane.io/protocol": "RunFunction"}}, "spec": {},
    });
    registry.push("registry.example.org/acme/function-own:v1.0.0", &manifest.to_string());
    let plane = Plane::with_pods(&registry, &[Function, Provider]).await;
    let path = apply(&plane, "Function", "own", "acme/function-own:v1.0.0", &json!({})).await;
    let first = newest(&plane, "function", 1).await;
    let revision = format!("{PKG}/functionrevisions/{first}");
    let says_so = |it: &Value| {
        message(it, "RuntimeHealthy").starts_with("pods cannot run its program, which is not a server")
    };
    let refused = plane.until(&revision, says_so).await;
    let expected = [
        ("RevisionHealthy", "True/HealthyPackageRevision"),
        ("RuntimeHealthy", "False/UnhealthyPackageRevision"),
    ];
    assert!(conditions_are(&refused, &expected), "{refused:#}");
    let function =
        plane.until(&path, |it| message(it, "Healthy").contains("package a function server")).await;
    let conditions = function["status"]["conditions"].as_array().unwrap();
    let healthy_condition = conditions.iter().find(|it| it["type"] == "Healthy").unwrap();
    assert_eq!(healthy_condition["code"], "FunctionNotRunnable");
    plane.quiet().await;
    assert_eq!(plane.get(&deployments()).await["items"], json!([]));
    assert!(plane.get(&of_core("services", "own")).await.is_null());

    // An earlier release made a Deployment, whose pods crashed.
    let deployment = format!("{}/{first}", deployments());
    plane.apply(&deployment, &left_behind(&refused)).await;
    plane.until(&deployment, Value::is_null).await;

    // A version that is a server runs in pods.
    apply(&plane, "Function", "own", "acme/function-own:v1.1.0", &json!({})).await;
    let second = newest(&plane, "function", 2).await;
    set_available(&plane, &second, "True").await;
    healthy(&plane, &path).await;
}

#[tokio::test]
async fn function_that_is_run_for_every_call_runs_in_pods_with_an_adapter_where_one_is_named() {
    let registry = FakeRegistry::default();
    let manifest = |protocol: &str| {
        json!({
            "apiVersion": "meta.pkg.crossplane.io/v1", "kind": "Function",
            "metadata": {"name": "p", "annotations": {"ferroplane.io/protocol": protocol}}, "spec": {},
        })
        .to_string()
    };
    registry.push("registry.example.org/acme/function-own:v1.0.0", &manifest("KRM"));
    registry.push("registry.example.org/acme/function-other:v1.0.0", &manifest("Telepathy"));
    registry.adapt_programs(Some("registry.example.org/ferroplane:v1"));
    let mut plane = Plane::with_pods(&registry, &[Function, Provider]).await;
    let path = apply(&plane, "Function", "own", "acme/function-own:v1.0.0", &json!({})).await;
    let name = newest(&plane, "function", 1).await;
    let deployment = deployed(&plane, &name).await;
    let pods = &deployment["spec"]["template"]["spec"];
    assert_eq!(pods["initContainers"][0]["image"], "registry.example.org/ferroplane:v1");
    let command = pods["containers"][0]["command"].as_array().unwrap();
    assert_eq!(command[1..], ["internal", "adapter", "--protocol", "KRM", "--", "/function"]);
    assert!(image_of(&deployment).starts_with("registry.example.org/acme/function-own@"), "its own image");
    set_available(&plane, &name, "True").await;
    healthy(&plane, &path).await;
    let revision = format!("{PKG}/functionrevisions/{name}");
    assert_eq!(plane.get(&revision).await["status"]["endpoint"], "dns:///own.crossplane-system:9443");
    plane.quiet().await;
    plane.stop().await;
    plane.start_as(master("ferroplane")).await;
    assert_eq!(plane.quiet().await, Vec::<String>::new(), "nothing changed");

    // There is no such protocol.
    let other = apply(&plane, "Function", "other", "acme/function-other:v1.0.0", &json!({})).await;
    let words = "expected RunFunction, ResourceList or KRM";
    plane.until(&other, |it| message(it, "Healthy").contains(words)).await;

    // Without the adapter, its pods end.
    plane.stop().await;
    registry.adapt_programs(None);
    plane.start_as(master("ferroplane")).await;
    plane.until(&path, |it| message(it, "Healthy").contains("--function-adapter-image")).await;
    plane.until(&format!("{}/{name}", deployments()), Value::is_null).await;
    assert_eq!(plane.get(&revision).await["status"].get("endpoint"), None);
}

fn managed_definition(plural: &str) -> Value {
    let mut definition = crd(plural, "cloud.acme.org");
    definition["apiVersion"] = json!("apiextensions.crossplane.io/v1alpha1");
    definition["kind"] = json!("ManagedResourceDefinition");
    definition["spec"]["names"]["kind"] = json!(plural.to_uppercase());
    definition["spec"]["names"]["listKind"] = json!(format!("{}List", plural.to_uppercase()));
    definition["spec"]["names"]["singular"] = json!(plural.trim_end_matches('s'));
    definition
}

#[tokio::test]
async fn provider_that_can_wait_has_no_pods_until_a_policy_activates_one_of_its_kinds() {
    let registry = FakeRegistry::default();
    let spec = json!({"capabilities": ["safe-start"]});
    for version in ["v1.0.0", "v1.1.0"] {
        let package = package_yaml("Provider", &spec, &["buckets", "queues"].map(managed_definition));
        registry.push(
            &format!("registry.example.org/acme/provider-cloud:{version}"),
            &format!("# {version}\n{package}"),
        );
    }
    let mut plane = Plane::with_pods(&registry, &[Function, Provider]).await;
    let path = apply(&plane, "Provider", "cloud", "acme/provider-cloud:v1.0.0", &json!({})).await;
    let is =
        |object: &Value, kind: &str, expected: &str| condition(object, kind).as_deref() == Some(expected);
    plane.until(&path, |it| is(it, "Healthy", "True/AwaitingActivation")).await;
    let name = newest(&plane, "provider", 1).await;
    assert_eq!(deployed(&plane, &name).await["spec"]["replicas"], 0);
    let extensions = "/apis/apiextensions.crossplane.io/v1alpha1";
    let definition =
        |plural: &str| format!("{extensions}/managedresourcedefinitions/{plural}.cloud.acme.org");
    let kind = |plural: &str| {
        format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.cloud.acme.org")
    };
    plane.until(&definition("buckets"), |it| is(it, "Established", "False/InactiveManagedResource")).await;
    assert!(plane.get(&kind("buckets")).await.is_null());

    let policy = format!("{extensions}/managedresourceactivationpolicies/cloud");
    let activate = json!({
        "apiVersion": "apiextensions.crossplane.io/v1alpha1", "kind": "ManagedResourceActivationPolicy",
        "metadata": {"name": "cloud"}, "spec": {"activate": ["buckets.cloud.acme.org"]},
    });
    plane.apply(&policy, &activate).await;
    plane.until(&definition("buckets"), |it| is(it, "Established", "True/EstablishedManagedResource")).await;
    let owned = owners(&plane.get(&kind("buckets")).await);
    assert_eq!(owned, [("buckets.cloud.acme.org".to_owned(), false), (name.clone(), true)]);
    let told = plane.until(&policy, |it| is(it, "Healthy", "True/Running")).await;
    assert_eq!(told["status"]["activated"], json!(["buckets.cloud.acme.org"]));
    assert!(plane.get(&kind("queues")).await.is_null());
    plane.until(&format!("{}/{name}", deployments()), |it| it["spec"]["replicas"] == 1).await;
    set_available(&plane, &name, "True").await;
    healthy(&plane, &path).await;

    // What is active stays so, also when a newer version brings it again.
    plane.delete(&policy).await;
    apply(&plane, "Provider", "cloud", "acme/provider-cloud:v1.1.0", &json!({})).await;
    let second = newest(&plane, "provider", 2).await;
    set_available(&plane, &second, "True").await;
    healthy(&plane, &path).await;
    assert_eq!(plane.get(&definition("buckets")).await["spec"]["state"], "Active");
    plane.until(&kind("buckets"), |it| controllers(it) == [second.clone()]).await;
    plane.quiet().await;
    plane.stop().await;
    plane.start_as(master("ferroplane")).await;
    assert_eq!(plane.quiet().await, Vec::<String>::new(), "nothing changed");
}

/// Whether the certificate in a Secret names this host. Names of hosts stand in certificates as they are.
fn certifies(secret: &Value, host: &str) -> bool {
    let decode = |text: &str| BASE64_STANDARD.decode(text).unwrap_or_default();
    let pem = String::from_utf8(decode(secret["data"]["tls.crt"].as_str().unwrap_or_default())).unwrap();
    let body: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    decode(&body).windows(host.len()).any(|window| window == host.as_bytes())
}

#[tokio::test]
async fn upgrade_leads_callers_to_new_pods_once_they_answer_and_then_ends_the_old_ones() {
    let registry = registry_of("Function", "function-own", &["v1.0.0", "v1.1.0"]);
    let plane = Plane::with_pods(&registry, &[Function, Provider]).await;
    let path = apply(&plane, "Function", "own", "acme/function-own:v1.0.0", &json!({})).await;
    let first = newest(&plane, "function", 1).await;
    set_available(&plane, &first, "True").await;
    healthy(&plane, &path).await;
    let secret = plane.get(&of_core("secrets", "own-tls-server")).await["data"].clone();

    apply(&plane, "Function", "own", "acme/function-own:v1.1.0", &json!({})).await;
    let second = newest(&plane, "function", 2).await;
    deployed(&plane, &second).await;
    plane.quiet().await;
    let service = plane.get(&of_core("services", "own")).await;
    assert_eq!((selected(&service), controllers(&service)), (&*first, vec![first.clone()]));

    set_available(&plane, &second, "True").await;
    let service = plane.until(&of_core("services", "own"), |service| selected(service) == second).await;
    assert_eq!(controllers(&service), std::slice::from_ref(&second));
    plane.until(&format!("{}/{first}", deployments()), Value::is_null).await;
    healthy(&plane, &path).await;
    plane.quiet().await;
    let states: Vec<_> =
        revisions(&plane, "function").await.iter().map(|it| it["spec"]["desiredState"].clone()).collect();
    assert_eq!(states, ["Inactive", "Active"]);
    let kept = plane.get(&of_core("secrets", "own-tls-server")).await;
    assert_eq!(kept["data"], secret, "the certificate is in use");
    assert_eq!(controllers(&kept), std::slice::from_ref(&second));
    assert_eq!(selected(&plane.get(&of_core("services", "own")).await), second);
}

/// When the certificate that the pods of a Deployment read was replaced.
fn replaced_at(pods: &Value) -> &Value {
    &pods["metadata"]["annotations"]["ferroplane.io/certificate-replaced-at"]
}

#[tokio::test]
async fn pods_are_restarted_when_their_certificate_is_replaced_and_not_before() {
    let registry = registry_of("Function", "function-own", &["v1.0.0"]);
    let mut plane = Plane::with_pods(&registry, &[Function, Provider]).await;
    let path = apply(&plane, "Function", "own", "acme/function-own:v1.0.0", &json!({})).await;
    let name = newest(&plane, "function", 1).await;
    set_available(&plane, &name, "True").await;
    healthy(&plane, &path).await;
    let secret = plane.get(&of_core("secrets", "own-tls-server")).await;
    let deployment = deployed(&plane, &name).await;
    assert!(replaced_at(&secret).is_null(), "it is the first one");
    assert!(
        replaced_at(&deployment["spec"]["template"]).is_null(),
        "Crossplane's pods have no such annotation"
    );

    // It ends in three months.
    plane.quiet().await;
    plane.stop().await;
    plane.clock = Clock::new(|| Timestamp::now() + SignedDuration::from_hours(24 * (10 * 365 - 90)));
    plane.start_as(master("ferroplane")).await;
    let renewed =
        plane.until(&of_core("secrets", "own-tls-server"), |renewed| renewed["data"] != secret["data"]).await;
    let is_new = |it: &Value| replaced_at(&it["spec"]["template"]) == replaced_at(&renewed);
    let deployment = plane.until(&format!("{}/{name}", deployments()), is_new).await;
    assert_eq!(
        deployment["spec"]["strategy"]["type"], "RollingUpdate",
        "new pods answer before old ones end"
    );
    plane.quiet().await;
    assert_eq!(plane.quiet().await, Vec::<String>::new(), "nothing changed");

    // It is of an authority that is not trusted any more.
    plane.stop().await;
    plane.delete(&of_core("secrets", "crossplane-root-ca")).await;
    let later = SignedDuration::from_hours(24 * (10 * 365 - 89));
    plane.clock = Clock::new(move || Timestamp::now() + later);
    plane.start_as(master("ferroplane")).await;
    let is_newer = |it: &Value| {
        let at = |it: &Value| replaced_at(it).as_str().unwrap_or_default().to_owned();
        at(&it["spec"]["template"]) > at(&renewed)
    };
    plane.until(&format!("{}/{name}", deployments()), is_newer).await;
    let signed = plane.get(&of_core("secrets", "own-tls-server")).await;
    assert_ne!(signed["data"]["ca.crt"], renewed["data"]["ca.crt"]);
    set_available(&plane, &name, "True").await;
    plane.quiet().await;
    assert_eq!(plane.quiet().await, Vec::<String>::new(), "nothing changed");
}

/// Statement 57: each active revision has a Service, a certificate and an endpoint of its own.
#[tokio::test]
async fn revisions_that_are_active_at_once_have_services_and_certificates_of_their_own() {
    let registry = registry_of("Function", "function-own", &["v1.0.0", "v1.1.0"]);
    let mut plane = Plane::with_pods(&registry, &[Function, Provider]).await;
    let two = json!({"activeRevisionLimit": 2, "revisionHistoryLimit": 4});
    let path = apply(&plane, "Function", "own", "acme/function-own:v1.0.0", &two).await;
    let first = newest(&plane, "function", 1).await;
    set_available(&plane, &first, "True").await;
    healthy(&plane, &path).await;
    assert_eq!(selected(&plane.get(&of_core("services", "own")).await), first);

    // The names change hands when it is turned on.
    plane.quiet().await;
    plane.stop().await;
    plane.enables_function_revision_selectors = true;
    plane.start_as(master("ferroplane")).await;
    let is_at = |revision: &str| {
        let endpoint = format!("dns:///{revision}.crossplane-system:9443");
        move |it: &Value| it["status"]["endpoint"] == endpoint
    };
    let of = |revision: &str| format!("{PKG}/functionrevisions/{revision}");
    plane.until(&of(&first), is_at(&first)).await;
    apply(&plane, "Function", "own", "acme/function-own:v1.1.0", &two).await;
    let second = newest(&plane, "function", 2).await;
    set_available(&plane, &second, "True").await;
    healthy(&plane, &path).await;
    for revision in [&first, &second] {
        plane.until(&of(revision), is_at(revision)).await;
        let service = plane.until(&of_core("services", revision), |it| !it.is_null()).await;
        assert_eq!((selected(&service), controllers(&service)), (&**revision, vec![revision.clone()]));
        let secret = plane.get(&of_core("secrets", &format!("{revision}-tls-server"))).await;
        assert!(certifies(&secret, &format!("{revision}.crossplane-system.svc")), "{secret}");
        let deployment = plane.get(&format!("{}/{revision}", deployments())).await;
        let volumes = deployment["spec"]["template"]["spec"]["volumes"].to_string();
        assert!(volumes.contains(&format!("{revision}-tls-server")), "{volumes}");
    }
    let states: Vec<_> =
        revisions(&plane, "function").await.iter().map(|it| it["spec"]["desiredState"].clone()).collect();
    assert_eq!(states, ["Active", "Active"]);
    plane.quiet().await;
    assert_eq!(plane.quiet().await, Vec::<String>::new(), "nothing changed");

    // And back when it is turned off.
    plane.stop().await;
    plane.enables_function_revision_selectors = false;
    plane.start_as(master("ferroplane")).await;
    plane.until(&of_core("services", "own"), |service| selected(service) == second).await;
    plane.until(&of(&first), |it| it["spec"]["desiredState"] == "Inactive").await;
    plane.until(&of(&second), is_at("own")).await;
}

#[tokio::test]
async fn revisions_that_are_active_at_once_serve_all_versions_of_their_kind_of_input() {
    let registry = FakeRegistry::default();
    for (version, kinds) in [("v1.0.0", &["v1"][..]), ("v1.1.0", &["v1", "v2"][..])] {
        let mut input = crd("inputs", "fn.acme.org");
        let of_kind = |(place, name): (usize, &&str)| {
            let mut kind = input["spec"]["versions"][0].clone();
            (kind["name"], kind["storage"]) = (json!(name), json!(place == kinds.len() - 1));
            kind
        };
        let kinds: Vec<_> = kinds.iter().enumerate().map(of_kind).collect();
        input["spec"]["versions"] = json!(kinds);
        let package = package_yaml("Function", &json!({}), &[input]);
        registry.push(&format!("registry.example.org/acme/function-own:{version}"), &package);
    }
    let mut plane = Plane::with_pods(&registry, &[Function, Provider]).await;
    plane.stop().await;
    plane.enables_function_revision_selectors = true;
    plane.start_as(master("ferroplane")).await;
    let two = json!({"activeRevisionLimit": 2, "revisionHistoryLimit": 4});
    let mut names = Vec::new();
    for (count, version) in ["v1.0.0", "v1.1.0"].into_iter().enumerate() {
        let image = format!("acme/function-own:{version}");
        let path = apply(&plane, "Function", "own", &image, &two).await;
        names.push(newest(&plane, "function", count + 1).await);
        set_available(&plane, &names[count], "True").await;
        healthy(&plane, &path).await;
    }
    let expected = [
        ("RevisionHealthy", "True/HealthyPackageRevision"),
        ("RuntimeHealthy", "True/HealthyPackageRevision"),
    ];
    let are_healthy = async || {
        for name in &names {
            let revision = format!("{PKG}/functionrevisions/{name}");
            let revision = plane.until(&revision, |it| conditions_are(it, &expected)).await;
            assert_eq!(revision["spec"]["desiredState"], "Active", "{name}");
        }
        let kind =
            plane.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/inputs.fn.acme.org").await;
        let served = kind["spec"]["versions"].as_array().unwrap().iter().filter(|it| it["served"] == true);
        let served: Vec<_> = served.map(|it| it["name"].as_str().unwrap()).collect();
        assert_eq!(served, ["v1", "v2"], "{kind:#}");
        let owners = owners(&kind);
        assert!(owners.iter().all(|(_, controls)| !controls), "{owners:?}");
        assert!(names.iter().all(|name| owners.contains(&(name.clone(), false))), "{owners:?}");
    };
    are_healthy().await;
    plane.quiet().await;

    // The older one writes last.
    let label = json!({"spec": {"commonLabels": {"team": "a"}}});
    plane.merge(&format!("{PKG}/functionrevisions/{}", names[0]), &label).await;
    plane.quiet().await;
    are_healthy().await;
}

#[tokio::test]
async fn config_names_everything_and_a_fixed_name_changes_hands() {
    let registry = registry_of("Function", "function-own", &["v1.0.0", "v1.1.0"]);
    let plane = Plane::with_pods(&registry, &[Function, Provider]).await;
    let custom = json!({"runtimeConfigRef": {"name": "custom"}});
    let path = apply(&plane, "Function", "own", "acme/function-own:v1.0.0", &custom).await;
    let first = newest(&plane, "function", 1).await;
    let revision = format!("{PKG}/functionrevisions/{first}");
    plane
        .until(&revision, |it| {
            message(it, "RuntimeHealthy") == "there is no DeploymentRuntimeConfig `custom`"
        })
        .await;
    let config = json!({
        "apiVersion": "pkg.crossplane.io/v1beta1", "kind": "DeploymentRuntimeConfig", "metadata": {"name": "custom"},
        "spec": {
            "deploymentTemplate": {"metadata": {"name": "fixed"}, "spec": {"replicas": 2, "selector": {}, "template": {"spec": {"containers": []}}}},
            "serviceTemplate": {"metadata": {"name": "front"}}, "serviceAccountTemplate": {"metadata": {"name": "account"}},
        },
    });
    plane.apply(&format!("{CONFIGS}/custom"), &config).await;
    let deployment = deployed(&plane, "fixed").await;
    assert_eq!(deployment["spec"]["replicas"], 2);
    assert_eq!(deployment["spec"]["template"]["spec"]["serviceAccountName"], "account");
    set_available(&plane, "fixed", "True").await;
    healthy(&plane, &path).await;
    assert_eq!(plane.get(&revision).await["status"]["endpoint"], "dns:///front.crossplane-system:9443");
    assert!(certifies(
        &plane.get(&of_core("secrets", "own-tls-server")).await,
        "front.crossplane-system.svc"
    ));
    plane
        .merge(
            &format!("{CONFIGS}/custom"),
            &json!({"spec": {"deploymentTemplate": {"spec": {"replicas": 5}}}}),
        )
        .await;
    plane.until(&format!("{}/fixed", deployments()), |it| it["spec"]["replicas"] == 5).await;

    apply(&plane, "Function", "own", "acme/function-own:v1.1.0", &custom).await;
    let second = newest(&plane, "function", 2).await;
    plane.until(&format!("{}/fixed", deployments()), |it| controllers(it) == [second.clone()]).await;
    set_available(&plane, "fixed", "True").await;
    plane.until(&revision, |it| it["spec"]["desiredState"] == "Inactive").await;
    healthy(&plane, &path).await;
    plane.quiet().await;
    let kept = plane.get(&format!("{}/fixed", deployments())).await;
    assert_eq!(
        controllers(&kept),
        [second],
        "an inactive revision deletes what is its own, and nothing else"
    );
}

#[tokio::test]
async fn names_of_a_config_are_told_apart_while_several_revisions_are_active() {
    let registry = registry_of("Function", "function-own", &["v1.0.0", "v1.1.0"]);
    let mut plane = Plane::with_pods(&registry, &[Function, Provider]).await;
    plane.stop().await;
    plane.enables_function_revision_selectors = true;
    plane.start_as(master("ferroplane")).await;
    let config = json!({
        "apiVersion": "pkg.crossplane.io/v1beta1", "kind": "DeploymentRuntimeConfig", "metadata": {"name": "custom"},
        "spec": {"serviceTemplate": {"metadata": {"name": "front"}}},
    });
    plane.apply(&format!("{CONFIGS}/custom"), &config).await;
    let spec = json!({
        "runtimeConfigRef": {"name": "custom"}, "activeRevisionLimit": 2, "revisionHistoryLimit": 4,
    });
    let mut active = Vec::new();
    for (count, version) in ["v1.0.0", "v1.1.0"].into_iter().enumerate() {
        let image = format!("acme/function-own:{version}");
        let path = apply(&plane, "Function", "own", &image, &spec).await;
        let revision = newest(&plane, "function", count + 1).await;
        set_available(&plane, &revision, "True").await;
        healthy(&plane, &path).await;
        active.push(revision);
    }
    for revision in &active {
        let name = format!("front-{}", revision.rsplit('-').next().unwrap());
        let endpoint = format!("dns:///{name}.crossplane-system:9443");
        let path = format!("{PKG}/functionrevisions/{revision}");
        plane.until(&path, |it| it["status"]["endpoint"] == endpoint).await;
        let service = plane.until(&of_core("services", &name), |it| !it.is_null()).await;
        assert_eq!((selected(&service), controllers(&service)), (&**revision, vec![revision.clone()]));
        let secret = plane.get(&of_core("secrets", &format!("{revision}-tls-server"))).await;
        assert!(certifies(&secret, &format!("{name}.crossplane-system.svc")), "{secret}");
    }
}

#[tokio::test]
async fn configs_have_no_effect_if_the_administrator_turns_them_off() {
    let registry = registry_of("Function", "function-own", &["v1.0.0"]);
    registry.ignore_runtime_configs();
    let plane = Plane::with_pods(&registry, &[Function, Provider]).await;
    let config = json!({
        "apiVersion": "pkg.crossplane.io/v1beta1", "kind": "DeploymentRuntimeConfig", "metadata": {"name": "custom"},
        "spec": {"deploymentTemplate": {
            "metadata": {"name": "fixed"},
            "spec": {"replicas": 2, "selector": {}, "template": {"spec": {"containers": []}}},
        }},
    });
    plane.apply(&format!("{CONFIGS}/custom"), &config).await;
    // Neither the one that exists nor the one that does not.
    for (count, name) in ["custom", "missing"].into_iter().enumerate() {
        let reference = json!({"runtimeConfigRef": {"name": name}});
        let path = apply(&plane, "Function", name, "acme/function-own:v1.0.0", &reference).await;
        newest(&plane, "function", count + 1).await;
        let is_own = |it: &&Value| it["metadata"]["labels"]["pkg.crossplane.io/package"] == name;
        let all = revisions(&plane, "function").await;
        let revision = all.iter().find(is_own).unwrap()["metadata"]["name"].as_str().unwrap();
        assert_eq!(deployed(&plane, revision).await["spec"]["replicas"], 1);
        set_available(&plane, revision, "True").await;
        healthy(&plane, &path).await;
    }
    assert!(plane.get(&format!("{}/fixed", deployments())).await.is_null());
}

#[tokio::test]
async fn revision_without_its_dependencies_is_not_run_and_secrets_of_others_stay() {
    let registry = FakeRegistry::default();
    let depends = json!({"dependsOn": [{"provider": "registry.example.org/acme/none", "version": "v1.0.0"}]});
    registry.push("registry.example.org/acme/lonely:v1.0.0", &package_yaml("Function", &depends, &[]));
    registry.push("registry.example.org/acme/own:v1.0.0", &package_yaml("Function", &json!({}), &[]));
    let plane = Plane::with_pods(&registry, &[Function, Provider]).await;
    let theirs = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "own-tls-server", "namespace": NAMESPACE},
        "stringData": {"tls.crt": "theirs", "tls.key": "theirs"},
    });
    plane.apply(&of_core("secrets", "own-tls-server"), &theirs).await;
    let lonely = apply(&plane, "Function", "lonely", "acme/lonely:v1.0.0", &json!({})).await;
    plane.until(&lonely, |it| message(it, "Healthy").contains("missing dependencies")).await;
    let path = apply(&plane, "Function", "own", "acme/own:v1.0.0", &json!({})).await;
    plane.until(&path, |it| message(it, "Healthy").contains("does not belong to the package")).await;
    plane.quiet().await;
    let all = plane.get(&deployments()).await;
    assert_eq!(all["items"], json!([]), "nothing runs");
    let secret = plane.get(&of_core("secrets", "own-tls-server")).await;
    assert_eq!(secret["data"]["tls.crt"], BASE64_STANDARD.encode("theirs"));
}

#[tokio::test]
async fn provider_gets_rights_on_its_kinds_and_those_of_its_family_and_serves_webhooks() {
    let registry = FakeRegistry::default();
    let hooks = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "validating-webhook-configuration"},
        "webhooks": [{
            "name": "a.acme.org", "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore",
            "clientConfig": {"service": {"name": "webhook-service", "namespace": "system", "path": "/validate"}},
            "rules": [{"apiGroups": ["s3.acme.org"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["buckets"]}],
        }],
    });
    let push = |name: &str, objects: &[Value]| {
        let manifest = json!({
            "apiVersion": "meta.pkg.crossplane.io/v1", "kind": "Provider",
            "metadata": {"name": name, "labels": {"pkg.crossplane.io/provider-family": "acme"}}, "spec": {},
        });
        let documents: Vec<_> = [&manifest].into_iter().chain(objects).map(Value::to_string).collect();
        registry.push(&format!("registry.example.org/acme/{name}:v1.0.0"), &documents.join("\n---\n"));
        registry.push(&format!("registry.example.org/evil/{name}:v1.0.0"), &documents.join("\n---\n"));
    };
    let mut converted = crd("converted", "s3.acme.org");
    converted["spec"]["names"] = json!({
        "kind": "Converted", "listKind": "ConvertedList", "plural": "converted", "singular": "converted",
    });
    converted["spec"]["conversion"] = json!({
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"service": {"name": "webhook-service", "namespace": "system", "path": "/convert"}},
        },
    });
    push("s3", &[crd("buckets", "s3.acme.org"), converted, hooks]);
    let mut configs = crd("configs", "acme.org");
    configs["spec"]["names"]["kind"] = "Config".into();
    push("family", &[configs]);
    let plane = Plane::with_pods(&registry, &[Function, Provider]).await;
    apply(&plane, "Provider", "s3", "acme/s3:v1.0.0", &json!({})).await;
    let name = newest(&plane, "provider", 1).await;
    let deployment = deployed(&plane, &name).await;
    assert_eq!(deployment["spec"]["template"]["spec"]["volumes"][0]["secret"]["secretName"], "s3-tls-client");
    let secret = plane.get(&of_core("secrets", "s3-tls-client")).await;
    assert_eq!(controllers(&secret), std::slice::from_ref(&name), "as Crossplane has it");
    let webhooks =
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/crossplane-provider-s3";
    let hooks = plane.get(webhooks).await;
    let client = &hooks["webhooks"][0]["clientConfig"];
    assert_eq!(
        client["service"],
        json!({"name": "s3", "namespace": NAMESPACE, "path": "/validate", "port": 9443})
    );
    assert_eq!(client["caBundle"], secret["data"]["ca.crt"]);
    for kind in [
        "/apis/apiextensions.crossplane.io/v1alpha1/managedresourcedefinitions/converted.s3.acme.org",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/converted.s3.acme.org",
    ] {
        let defined = plane.until(kind, |it| !it.is_null()).await;
        let client = &defined["spec"]["conversion"]["webhook"]["clientConfig"];
        let address = json!({"name": "s3", "namespace": NAMESPACE, "path": "/convert", "port": 9443});
        assert_eq!(
            (&client["service"], &client["caBundle"]),
            (&address, &secret["data"]["ca.crt"]),
            "{kind}"
        );
    }

    let system = format!("{ROLES}/crossplane:provider:{name}:system");
    let groups = |role: &Value| -> Vec<Value> {
        role["rules"].as_array().into_iter().flatten().map(|rule| rule["apiGroups"][0].clone()).collect()
    };
    let role = plane.until(&system, |role| !role.is_null()).await;
    assert!(
        groups(&role).contains(&json!("s3.acme.org")) && !groups(&role).contains(&json!("acme.org")),
        "{role}"
    );
    let edit = plane.get(&format!("{ROLES}/crossplane:provider:{name}:aggregate-to-edit")).await;
    assert_eq!(edit["metadata"]["labels"]["rbac.crossplane.io/aggregate-to-crossplane"], "true");
    let binding =
        plane.until(&format!("{BINDINGS}/crossplane:provider:{name}:system"), |it| !it.is_null()).await;
    assert_eq!(
        binding["subjects"],
        json!([{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}])
    );

    apply(&plane, "Provider", "family", "acme/family:v1.0.0", &json!({})).await;
    plane.until(&system, |role| groups(role).contains(&json!("acme.org"))).await;
    plane.quiet().await;
    apply(&plane, "Provider", "evil", "evil/s3:v1.0.0", &json!({})).await;
    plane
        .until(&format!("{PKG}/providers/evil"), |it| message(it, "Healthy").contains("already controlled"))
        .await;
    plane.quiet().await;
    let roles = plane.get(ROLES).await;
    let of_evil = roles["items"].as_array().unwrap().iter().filter(|role| {
        role["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("crossplane:provider:evil"))
    });
    assert_eq!(of_evil.count(), 0, "who claims a family and kinds of others gains nothing");
}

#[tokio::test]
async fn programs_that_others_run_are_left_to_them() {
    let registry = registry_of("Function", "function-own", &["v1.0.0"]);
    let plane = Plane::with_pods(&registry, &[Provider]).await;
    let path = apply(&plane, "Function", "own", "acme/function-own:v1.0.0", &json!({})).await;
    let name = newest(&plane, "function", 1).await;
    let revision = format!("{PKG}/functionrevisions/{name}");
    let installed = plane
        .until(&revision, |it| conditions_are(it, &[("RevisionHealthy", "True/HealthyPackageRevision")]))
        .await;
    assert_eq!(condition(&installed, "RuntimeHealthy"), None);
    assert_eq!(installed["spec"].get("tlsServerSecretName"), None);
    let healthy_runtime = json!({"type": "RuntimeHealthy", "status": "True", "reason": "HealthyPackageRevision", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let mut conditions = installed["status"]["conditions"].as_array().cloned().unwrap();
    conditions.push(healthy_runtime);
    plane.merge(&format!("{revision}/status"), &json!({"status": {"conditions": conditions}})).await;
    healthy(&plane, &path).await;
    plane.quiet().await;
    assert_eq!(plane.get(&deployments()).await["items"], json!([]));
}

/// Everything that a cluster has because of packages, without what says how it is doing.
async fn packaged(plane: &Plane) -> BTreeMap<String, Value> {
    let extensions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let managed = "/apis/apiextensions.crossplane.io/v1alpha1/managedresourcedefinitions";
    let defined = "/apis/apiextensions.crossplane.io/v2/compositeresourcedefinitions";
    let mut lists = vec![deployments(), extensions.to_owned(), managed.to_owned(), defined.to_owned()];
    lists.extend(["services", "serviceaccounts", "secrets"].map(|plural| of_core(plural, "")));
    lists.extend(["provider", "function", "configuration"].map(|kind| format!("{PKG}/{kind}revisions")));
    let mut found = BTreeMap::new();
    for list in lists {
        let list = list.trim_end_matches('/');
        for item in plane.get(list).await["items"].as_array().into_iter().flatten() {
            let metadata = &item["metadata"];
            let name = metadata["name"].as_str().unwrap();
            if name.ends_with(".crossplane.io") || name.ends_with("ferroplane.io") {
                continue;
            }
            let kept = json!({
                "uid": metadata["uid"], "generation": metadata["generation"], "owners": metadata["ownerReferences"],
                "labels": metadata["labels"], "spec": item["spec"], "data": item["data"],
            });
            found.insert(format!("{list}/{name}"), kept);
        }
    }
    found
}

/// What Crossplane 2.4.0 leaves differs from ours in three things: revisions do not say which digest they were made of, pods run images by
/// their tags, which the test after this one shows, and another program wrote everything. Names, owners and contents are compared with those of Crossplane in the tests of `engine::packages`.
#[tokio::test]
async fn packages_that_crossplane_installed_get_no_new_revision_pod_or_owner() {
    let registry = registry_of("Function", "function-own", &["v1.0.0"]);
    let objects = [crd("buckets", "cloud.acme.org"), {
        let mut config = crd("providerconfigs", "cloud.acme.org");
        config["spec"]["names"]["kind"] = "ProviderConfig".into();
        config["spec"]["names"]["listKind"] = "ProviderConfigList".into();
        config["spec"]["names"]["singular"] = "providerconfig".into();
        config
    }];
    registry.push(
        "registry.example.org/acme/provider-cloud:v1.0.0",
        &package_yaml("Provider", &json!({}), &objects),
    );
    let depends = json!({"dependsOn": [{"provider": "registry.example.org/acme/provider-cloud", "version": ">=v1.0.0"}]});
    let platform = package_yaml("Configuration", &depends, &[crate::packages::definition("one")]);
    registry.push("registry.example.org/acme/platform:v1.0.0", &platform);
    let mut plane = Plane::with_pods(&registry, &[Function, Provider]).await;
    let function = apply(&plane, "Function", "own", "acme/function-own:v1.0.0", &json!({})).await;
    let configuration = apply(&plane, "Configuration", "platform", "acme/platform:v1.0.0", &json!({})).await;
    for kind in ["function", "provider"] {
        let name = newest(&plane, kind, 1).await;
        set_available(&plane, &name, "True").await;
    }
    healthy(&plane, &function).await;
    healthy(&plane, &configuration).await;
    healthy(&plane, &format!("{PKG}/providers/acme-provider-cloud")).await;
    plane.quiet().await;
    plane.stop().await;

    for kind in ["provider", "function", "configuration"] {
        for revision in revisions(&plane, kind).await {
            let path = format!("{PKG}/{kind}revisions/{}", revision["metadata"]["name"].as_str().unwrap());
            let unmarked = json!({"metadata": {"annotations": {"ferroplane.io/package-digest": null}, "managedFields": [{}]}});
            plane.merge(&path, &unmarked).await;
        }
    }
    let before = packaged(&plane).await;
    assert!(before.len() > 10, "{:?}", before.keys());
    plane.start_as(master("ferroplane")).await;
    healthy(&plane, &configuration).await;
    let writes = plane.quiet().await;
    let after = packaged(&plane).await;
    for (path, object) in &before {
        assert_eq!(after.get(path), Some(object), "{path}");
    }
    assert_eq!(before.len(), after.len(), "{:?}", after.keys());
    assert!(writes.iter().all(|write| write.contains("revisions") || write.contains("events")), "{writes:?}");
}

#[tokio::test]
async fn pods_of_crossplane_keep_the_tag_of_their_image_until_signatures_are_demanded() {
    let (image, registry) = ("registry.example.org/acme/function-own:v1.0.0", FakeRegistry::default());
    let digest = registry.push(image, &package_yaml("Function", &json!({}), &[]));
    let signer = ImageSigner::generate();
    registry.sign(&digest, signer.sign(&digest));
    let mut plane = Plane::with_pods(&registry, &[Function, Provider]).await;
    let path = apply(&plane, "Function", "own", "acme/function-own:v1.0.0", &json!({})).await;
    let name = newest(&plane, "function", 1).await;
    set_available(&plane, &name, "True").await;
    healthy(&plane, &path).await;
    plane.quiet().await;
    plane.stop().await;

    let unmarked = json!({"metadata": {"annotations": {"ferroplane.io/package-digest": null}}});
    plane.merge(&format!("{PKG}/functionrevisions/{name}"), &unmarked).await;
    let deployment = format!("{}/{name}", deployments());
    let mut pods = plane.get(&deployment).await["spec"]["template"]["spec"].clone();
    pods["containers"][0]["image"] = json!(image);
    let tagged = json!({"spec": {"template": {"spec": {"containers": pods["containers"]}}}});
    let before = plane.merge(&deployment, &tagged).await;
    assert_eq!(image_of(&before), image);
    plane.start_as(master("ferroplane")).await;
    plane.quiet().await;
    let after = plane.get(&deployment).await;
    assert_eq!((image_of(&after), &after["spec"]), (image, &before["spec"]), "no pod is restarted");

    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys", "namespace": NAMESPACE},
        "stringData": {"ours": signer.public_key()},
    });
    plane.apply(&of_core("secrets", "keys"), &secret).await;
    let key = json!({"secretRef": {"name": "keys", "key": "ours"}, "hashAlgorithm": "sha256"});
    let config = json!({
        "apiVersion": "pkg.crossplane.io/v1beta1", "kind": "ImageConfig", "metadata": {"name": "verify"},
        "spec": {
            "matchImages": [{"prefix": "registry.example.org/"}],
            "verification": {"provider": "Cosign", "cosign": {"authorities": [{"name": "ours", "key": key}]}},
        },
    });
    plane.apply("/apis/pkg.crossplane.io/v1beta1/imageconfigs/verify", &config).await;
    let pinned = format!("registry.example.org/acme/function-own@{digest}");
    plane.until(&deployment, |deployment| image_of(deployment) == pinned).await;
}

/// In the process of `ferroplane up` such a Function is stopped: `policy_that_comes_later_counts_for_what_is_installed_and_stops_it`.
#[tokio::test]
async fn policy_that_comes_later_leaves_pods_running_and_makes_their_revision_unhealthy() {
    const CONFIG: &str = "/apis/pkg.crossplane.io/v1beta1/imageconfigs/verify";
    let (image, registry) = ("registry.example.org/acme/function-own:v1.0.0", FakeRegistry::default());
    let digest = registry.push(image, &package_yaml("Function", &json!({}), &[]));
    let plane = Plane::with_pods(&registry, &[Function, Provider]).await;
    let path = apply(&plane, "Function", "own", "acme/function-own:v1.0.0", &json!({})).await;
    let name = newest(&plane, "function", 1).await;
    set_available(&plane, &name, "True").await;
    healthy(&plane, &path).await;
    plane.quiet().await;
    let objects = [format!("{}/{name}", deployments()), of_core("services", "own")];
    let before = [plane.get(&objects[0]).await["spec"].clone(), plane.get(&objects[1]).await["spec"].clone()];

    let signer = ImageSigner::generate();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys", "namespace": NAMESPACE},
        "stringData": {"ours": signer.public_key()},
    });
    plane.apply(&of_core("secrets", "keys"), &secret).await;
    let key = json!({"secretRef": {"name": "keys", "key": "ours"}, "hashAlgorithm": "sha256"});
    let config = |authority: &str| {
        json!({
            "apiVersion": "pkg.crossplane.io/v1beta1", "kind": "ImageConfig", "metadata": {"name": "verify"},
            "spec": {
                "matchImages": [{"prefix": "registry.example.org/"}],
                "verification": {"provider": "Cosign", "cosign": {"authorities": [{"name": authority, "key": key}]}},
            },
        })
    };
    plane.apply(CONFIG, &config("ours")).await;
    let revision = format!("{PKG}/functionrevisions/{name}");
    let is_refused = |it: &Value| {
        let conditions = it["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.into_iter().find(|condition| condition["type"] == "RevisionHealthy");
        found.is_some_and(|it| it["status"] == "False" && it["code"] == "PackageUnverified")
    };
    let refused = plane.until(&revision, is_refused).await;
    assert!(message(&refused, "RevisionHealthy").contains("ImageConfig `verify`"), "{refused:#}");
    plane.until(&path, |it| condition(it, "Healthy").is_some_and(|it| it.starts_with("False"))).await;
    plane.quiet().await;
    let after = [plane.get(&objects[0]).await["spec"].clone(), plane.get(&objects[1]).await["spec"].clone()];
    assert_eq!(before, after, "what calls the function is still answered");
    assert_eq!(plane.get(&revision).await["spec"]["desiredState"], "Active");

    registry.sign(&digest, signer.sign(&digest));
    plane.apply(CONFIG, &config("still-ours")).await;
    healthy(&plane, &path).await;
    let after = [plane.get(&objects[0]).await["spec"].clone(), plane.get(&objects[1]).await["spec"].clone()];
    assert_eq!(before, after, "no pod is restarted");
}

#[tokio::test]
async fn runtime_configuration_of_an_image_config_counts_more_than_that_of_the_package_also_for_dependencies()
{
    let registry = registry_of("Function", "function-own", &["v1.0.0"]);
    let depends =
        json!({"dependsOn": [{"function": "registry.example.org/acme/function-own", "version": ">=v1.0.0"}]});
    registry.push("registry.example.org/acme/platform:v1.0.0", &package_yaml("Configuration", &depends, &[]));
    let plane = Plane::with_pods(&registry, &[Function, Provider]).await;
    let config = |name: &str, replicas: u32| {
        json!({
            "apiVersion": "pkg.crossplane.io/v1beta1", "kind": "DeploymentRuntimeConfig", "metadata": {"name": name},
            "spec": {
                "deploymentTemplate": {"metadata": {"name": name}, "spec": {"replicas": replicas, "selector": {}, "template": {"spec": {"containers": []}}}},
                "serviceTemplate": {"metadata": {"name": format!("{name}-service")}},
                "serviceAccountTemplate": {"metadata": {"name": format!("{name}-account")}},
            },
        })
    };
    plane.apply(&format!("{CONFIGS}/of-image"), &config("of-image", 2)).await;
    let image_config = json!({
        "apiVersion": "pkg.crossplane.io/v1beta1", "kind": "ImageConfig", "metadata": {"name": "runtime"},
        "spec": {"matchImages": [{"prefix": "registry.example.org/acme/function-"}], "runtime": {"configRef": {"name": "of-image"}}},
    });
    plane.apply("/apis/pkg.crossplane.io/v1beta1/imageconfigs/runtime", &image_config).await;
    let platform = apply(&plane, "Configuration", "platform", "acme/platform:v1.0.0", &json!({})).await;
    let deployment = deployed(&plane, "of-image").await;
    assert_eq!(deployment["spec"]["replicas"], 2);
    assert_eq!(deployment["spec"]["template"]["spec"]["serviceAccountName"], "of-image-account");
    set_available(&plane, "of-image", "True").await;
    healthy(&plane, &platform).await;
    let name = newest(&plane, "function", 1).await;
    let revision = plane.get(&format!("{PKG}/functionrevisions/{name}")).await;
    assert_eq!(revision["status"]["endpoint"], "dns:///of-image-service.crossplane-system:9443");
    assert_eq!(
        revision["status"]["appliedImageConfigRefs"],
        json!([{"name": "runtime", "reason": "ConfigureRuntime"}])
    );
}

#[tokio::test]
async fn webhooks_follow_a_service_that_is_renamed() {
    const WEBHOOKS: &str =
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/crossplane-provider-s3";
    let registry = FakeRegistry::default();
    let hooks = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "validating-webhook-configuration"},
        "webhooks": [{
            "name": "a.acme.org", "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore",
            "clientConfig": {"service": {"name": "webhook-service", "namespace": "system", "path": "/validate"}},
            "rules": [{"apiGroups": ["s3.acme.org"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["buckets"]}],
        }],
    });
    let package = package_yaml("Provider", &json!({}), &[hooks]);
    registry.push("registry.example.org/acme/s3:v1.0.0", &package);
    let plane = Plane::with_pods(&registry, &[Function, Provider]).await;
    apply(&plane, "Provider", "s3", "acme/s3:v1.0.0", &json!({})).await;
    let leads_to = |service: &'static str| {
        move |hooks: &Value| hooks["webhooks"][0]["clientConfig"]["service"]["name"] == service
    };
    plane.until(WEBHOOKS, leads_to("s3")).await;
    let config = json!({
        "apiVersion": "pkg.crossplane.io/v1beta1", "kind": "DeploymentRuntimeConfig", "metadata": {"name": "default"},
        "spec": {"serviceTemplate": {"metadata": {"name": "front"}}},
    });
    plane.apply(&format!("{CONFIGS}/default"), &config).await;
    plane.until(WEBHOOKS, leads_to("front")).await;
}
