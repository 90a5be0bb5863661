//! What Crossplane promises of packages and dependencies, as its tests and its code say it, one test for each promise that no other test
//! here keeps.

use ferroplane_engine::packages::ResolveOptions;
use ferroplane_testkit::plane::{FakeRegistry, Plane, condition};
use serde_json::{Value, json};

use super::{
    INPUTS, LOCK, PKG, XRD, apply, configuration, crd, definition, healthy, message, owners, package_yaml,
    revisions,
};

const RIGHTS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:ferroplane:packages";

fn push(registry: &FakeRegistry, image: &str, package: &str) -> String {
    registry.push(&format!("registry.example.org/{image}"), package)
}

/// A package that differs from its other versions.
fn version(kind: &str, version: &str, spec: &Value) -> String {
    format!("# {version}\n{}", package_yaml(kind, spec, &[]))
}

fn depends(on: &[(&str, &str)]) -> Value {
    let dependency = |(name, version): &(&str, &str)| json!({"provider": format!("registry.example.org/acme/{name}"), "version": version});
    json!({"dependsOn": on.iter().map(dependency).collect::<Vec<_>>()})
}

/// Take a verb on a resource from controllers. Returns the rights that they had.
async fn forbid(plane: &Plane, resource: &str, verb: &str) -> Value {
    let role = plane.get(RIGHTS).await;
    let mut rules = role["rules"].as_array().cloned().unwrap();
    for rule in &mut rules {
        if rule["resources"].as_array().unwrap().contains(&json!(resource)) {
            rule["verbs"].as_array_mut().unwrap().retain(|known| known != verb);
        }
    }
    plane.merge(RIGHTS, &json!({"rules": rules})).await;
    role["rules"].clone()
}

#[tokio::test]
async fn new_package_is_not_healthy_until_its_revision_says_so() {
    let registry = FakeRegistry::default();
    push(&registry, "acme/provider:v1.0.0", &version("Provider", "v1.0.0", &json!({})));
    let _unattended = registry.run_providers();
    let plane = Plane::with_providers(&registry).await;
    let path = apply(&plane, "Provider", "provider", "acme/provider:v1.0.0", &json!({})).await;
    let is_installed =
        |it: &Value| condition(it, "Installed").as_deref() == Some("True/ActivePackageRevision");
    let package = plane.until(&path, is_installed).await;
    assert_eq!(condition(&package, "Healthy").as_deref(), Some("False/UnhealthyPackageRevision"));
    assert!(message(&package, "Healthy").contains("health is \""), "{}", message(&package, "Healthy"));
}

#[tokio::test]
async fn revision_that_somebody_deactivates_is_activated_again_by_the_policy() {
    let registry = FakeRegistry::default();
    push(&registry, "acme/platform:v1.0.0", &configuration("one", &json!({})));
    let plane = Plane::with_registry(&registry).await;
    let path = apply(&plane, "Configuration", "platform", "acme/platform:v1.0.0", &json!({})).await;
    let name = healthy(&plane, &path).await["status"]["currentRevision"].as_str().unwrap().to_owned();
    let revision = format!("{PKG}/configurationrevisions/{name}");
    plane.merge(&revision, &json!({"spec": {"desiredState": "Inactive"}})).await;
    plane.until(&revision, |it| it["spec"]["desiredState"] == "Active").await;
    healthy(&plane, &path).await;
}

#[tokio::test]
async fn revision_that_cannot_be_forgotten_is_told_and_tried_again() {
    let registry = FakeRegistry::default();
    for number in ["v1.0.0", "v1.1.0", "v1.2.0"] {
        push(&registry, &format!("acme/platform:{number}"), &version("Configuration", number, &json!({})));
    }
    let plane = Plane::with_registry(&registry).await;
    if plane.is_real() {
        // Controllers have all rights there, so that none can be taken from them.
        return;
    }
    let rights = forbid(&plane, "configurationrevisions", "delete").await;
    for number in ["v1.0.0", "v1.1.0", "v1.2.0"] {
        apply(&plane, "Configuration", "platform", &format!("acme/platform:{number}"), &json!({})).await;
        let list = format!("{PKG}/configurationrevisions");
        let image = format!("registry.example.org/acme/platform:{number}");
        let is_there =
            |list: &Value| list["items"].as_array().unwrap().iter().any(|it| it["spec"]["image"] == image);
        plane.until(&list, is_there).await;
    }
    plane.until_said("platform", "Warning/GarbageCollect").await;
    assert_eq!(revisions(&plane, "configuration").await.len(), 3);
    plane.merge(RIGHTS, &json!({"rules": rights})).await;
    let list = format!("{PKG}/configurationrevisions");
    plane.until(&list, |list| list["items"].as_array().unwrap().len() == 2).await;
}

#[tokio::test]
async fn history_without_a_limit_forgets_nothing() {
    let registry = FakeRegistry::default();
    let plane = Plane::with_registry(&registry).await;
    for number in 0..4 {
        let image = format!("acme/platform:v1.{number}.0");
        push(&registry, &image, &version("Configuration", &number.to_string(), &json!({})));
        let path =
            apply(&plane, "Configuration", "platform", &image, &json!({"revisionHistoryLimit": 0})).await;
        plane
            .until(&path, |it| it["status"]["currentIdentifier"] == format!("registry.example.org/{image}"))
            .await;
        healthy(&plane, &path).await;
    }
    plane.quiet().await;
    assert_eq!(revisions(&plane, "configuration").await.len(), 4);
}

#[tokio::test]
async fn change_of_the_runtime_configuration_alone_makes_a_new_revision() {
    let registry = FakeRegistry::default();
    push(&registry, "acme/provider:v1.0.0", &version("Provider", "v1.0.0", &json!({})));
    let plane = Plane::with_registry(&registry).await;
    let path = apply(&plane, "Provider", "provider", "acme/provider:v1.0.0", &json!({})).await;
    let first = plane.until(&path, |it| it["status"]["currentRevision"].is_string()).await;
    plane.merge(&path, &json!({"spec": {"runtimeConfigRef": {"name": "other"}}})).await;
    let changed = |it: &Value| it["status"]["currentRevision"] != first["status"]["currentRevision"];
    let second = plane.until(&path, changed).await;
    assert_eq!(second["metadata"]["generation"], 2);
}

#[tokio::test]
async fn reference_without_a_registry_is_refused() {
    let plane = Plane::with_registry(&FakeRegistry::default()).await;
    for (image, is_accepted) in [
        ("acme/function:v1.0.0", false),
        ("localhost:5000/acme/function:v1.0.0", false),
        ("registry.example.org/acme/function", false),
        ("127.0.0.1:5000/acme/function:v1.0.0", true),
        ("registry.local:5000/acme/function:v1.0.0", true),
    ] {
        let function = json!({
            "apiVersion": "pkg.crossplane.io/v1", "kind": "Function", "metadata": {"name": "f"}, "spec": {"package": image},
        });
        let path = format!("{PKG}/functions");
        let (status, answer) = plane
            .send(http::Method::POST, &format!("{path}?dryRun=All"), "application/json", &function)
            .await;
        assert_eq!(status == 201, is_accepted, "{image}: {answer}");
    }
}

#[tokio::test]
async fn common_labels_and_annotations_reach_the_revision_and_what_it_brings_and_can_be_removed() {
    let registry = FakeRegistry::default();
    push(&registry, "acme/platform:v1.0.0", &configuration("one", &json!({})));
    let plane = Plane::with_registry(&registry).await;
    let common = json!({"commonLabels": {"baz": "qux"}, "commonAnnotations": {"foo": "bar"}});
    let path = apply(&plane, "Configuration", "platform", "acme/platform:v1.0.0", &common).await;
    healthy(&plane, &path).await;
    let all = revisions(&plane, "configuration").await;
    let spec = &all.last().unwrap()["spec"];
    assert_eq!(
        (&spec["commonLabels"], &spec["commonAnnotations"]),
        (&json!({"baz": "qux"}), &json!({"foo": "bar"}))
    );
    let metadata = plane.get(XRD).await["metadata"].clone();
    assert_eq!((&metadata["labels"]["baz"], &metadata["annotations"]["foo"]), (&json!("qux"), &json!("bar")));
    plane.merge(&path, &json!({"spec": {"commonLabels": null, "commonAnnotations": null}})).await;
    let list = format!("{PKG}/configurationrevisions");
    let is_removed = |list: &Value| {
        let newest =
            list["items"].as_array().unwrap().iter().max_by_key(|it| it["spec"]["revision"].as_i64());
        newest.is_some_and(|it| {
            it["spec"]["commonLabels"].is_null() && it["spec"]["commonAnnotations"].is_null()
        })
    };
    plane.until(&list, is_removed).await;
}

#[tokio::test]
async fn configuration_with_a_definition_of_a_provider_is_installed_without_it() {
    let registry = FakeRegistry::default();
    let objects = [definition("one"), crd("buckets", "cloud.acme.org")];
    push(&registry, "acme/platform:v1.0.0", &package_yaml("Configuration", &json!({}), &objects));
    let plane = Plane::with_registry(&registry).await;
    let path = apply(&plane, "Configuration", "platform", "acme/platform:v1.0.0", &json!({})).await;
    let name = healthy(&plane, &path).await["status"]["currentRevision"].as_str().unwrap().to_owned();
    plane.until_said(&name, "Warning/LintPackage").await;
    let kind = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/buckets.cloud.acme.org";
    assert!(plane.get(kind).await.is_null() && !plane.get(XRD).await.is_null());
}

#[tokio::test]
async fn revision_stays_until_it_has_left_the_lock() {
    let registry = FakeRegistry::default();
    push(&registry, "acme/platform:v1.0.0", &configuration("one", &json!({})));
    let plane = Plane::with_registry(&registry).await;
    if plane.is_real() {
        // Controllers have all rights there, so that none can be taken from them.
        return;
    }
    let path = apply(&plane, "Configuration", "platform", "acme/platform:v1.0.0", &json!({})).await;
    let name = healthy(&plane, &path).await["status"]["currentRevision"].as_str().unwrap().to_owned();
    plane.until(LOCK, |lock| condition(lock, "Resolved").is_some()).await;
    let rights = forbid(&plane, "locks", "update").await;
    plane.delete(&path).await;
    plane.until_said(&name, "Warning/RemoveFinalizer").await;
    let revision = plane.get(&format!("{PKG}/configurationrevisions/{name}")).await;
    assert!(revision["metadata"]["deletionTimestamp"].is_string(), "{revision}");
    assert_eq!(plane.get(LOCK).await["packages"].as_array().unwrap().len(), 1);
    plane.merge(RIGHTS, &json!({"rules": rights})).await;
    plane.until(&format!("{PKG}/configurationrevisions/{name}"), Value::is_null).await;
    assert_eq!(plane.get(LOCK).await["packages"], json!([]));
}

#[tokio::test]
async fn tag_that_names_the_same_image_is_noted_in_the_lock() {
    let registry = FakeRegistry::default();
    for tag in ["v1.0.0", "v1.0.1"] {
        push(&registry, &format!("acme/platform:{tag}"), &configuration("one", &json!({})));
    }
    let plane = Plane::with_registry(&registry).await;
    let path = apply(&plane, "Configuration", "platform", "acme/platform:v1.0.0", &json!({})).await;
    healthy(&plane, &path).await;
    plane.until(LOCK, |lock| lock["packages"][0]["version"] == "v1.0.0").await;
    apply(&plane, "Configuration", "platform", "acme/platform:v1.0.1", &json!({})).await;
    plane
        .until(LOCK, |lock| {
            lock["packages"].as_array().is_some_and(|all| all.len() == 1)
                && lock["packages"][0]["version"] == "v1.0.1"
        })
        .await;
    healthy(&plane, &path).await;
}

/// Versions of a provider, each with a digest of its own. Returns the digests.
fn providers(registry: &FakeRegistry, versions: &[&str]) -> Vec<String> {
    let push = |number: &&str| {
        push(registry, &format!("acme/provider:{number}"), &version("Provider", number, &json!({})))
    };
    versions.iter().map(push).collect()
}

fn provider_is(image: &str) -> impl Fn(&Value) -> bool {
    let image = format!("registry.example.org/acme/provider{image}");
    move |it: &Value| it["spec"]["package"] == image
}

const PROVIDER: &str = "/apis/pkg.crossplane.io/v1/providers/acme-provider";

#[tokio::test]
async fn dependency_follows_what_its_parent_wants_by_version_and_by_digest() {
    let registry = FakeRegistry::default();
    registry.allow(ResolveOptions { upgrades: true, downgrades: false });
    let digests = providers(&registry, &["v0.3.0", "v0.3.1"]);
    let wants = [
        ("v1.0.0", "=v0.3.0", ":v0.3.0".to_owned()),
        ("v1.1.0", "=v0.3.1", ":v0.3.1".to_owned()),
        ("v1.2.0", &digests[0], format!("@{}", digests[0])),
        ("v1.3.0", &digests[1], format!("@{}", digests[1])),
    ];
    for (number, wanted, _) in &wants {
        push(
            &registry,
            &format!("acme/a:{number}"),
            &version("Configuration", number, &depends(&[("provider", wanted)])),
        );
    }
    let plane = Plane::with_registry(&registry).await;
    for (number, _, image) in &wants {
        let path = apply(&plane, "Configuration", "a", &format!("acme/a:{number}"), &json!({})).await;
        plane.until(PROVIDER, provider_is(image)).await;
        let current = format!("registry.example.org/acme/a:{number}");
        plane.until(&path, |it| it["status"]["currentIdentifier"] == current).await;
        healthy(&plane, &path).await;
    }
}

#[tokio::test]
async fn shared_dependency_moves_once_all_of_its_parents_agree() {
    let registry = FakeRegistry::default();
    registry.allow(ResolveOptions { upgrades: true, downgrades: false });
    providers(&registry, &["v0.0.1", "v0.0.2"]);
    for (number, wanted) in [("v1.0.0", "=v0.0.1"), ("v2.0.0", "=v0.0.2")] {
        for parent in ["a", "b"] {
            let package =
                version("Configuration", &format!("{parent} {number}"), &depends(&[("provider", wanted)]));
            push(&registry, &format!("acme/{parent}:{number}"), &package);
        }
    }
    let plane = Plane::with_registry(&registry).await;
    let install = async |parent: &str, number: &str| {
        apply(&plane, "Configuration", parent, &format!("acme/{parent}:{number}"), &json!({})).await
    };
    let (a, b) = (install("a", "v1.0.0").await, install("b", "v1.0.0").await);
    healthy(&plane, &a).await;
    healthy(&plane, &b).await;
    install("a", "v2.0.0").await;
    let is_unresolved =
        |lock: &Value| condition(lock, "Resolved").as_deref() == Some("False/DependencyResolutionFailed");
    plane.until(LOCK, is_unresolved).await;
    assert!(provider_is(":v0.0.1")(&plane.get(PROVIDER).await));
    // Installed, and not healthy.
    let package = plane.until(&a, |it| message(it, "Healthy").contains("acme/provider")).await;
    assert_eq!(condition(&package, "Installed").as_deref(), Some("True/ActivePackageRevision"));
    install("b", "v2.0.0").await;
    plane.until(PROVIDER, provider_is(":v0.0.2")).await;
    healthy(&plane, &a).await;
    healthy(&plane, &b).await;
    plane
        .until(LOCK, |lock| {
            condition(lock, "Resolved").as_deref() == Some("True/DependencyResolutionSucceeded")
        })
        .await;
}

#[tokio::test]
async fn circle_of_packages_installs_nothing_new_and_stops_nobody_else() {
    let registry = FakeRegistry::default();
    let on =
        |name: &str| json!({"configuration": format!("registry.example.org/acme/{name}"), "version": "*"});
    providers(&registry, &["v1.0.0"]);
    let missing = json!({"provider": "registry.example.org/acme/provider", "version": "*"});
    push(&registry, "acme/x:v1.0.0", &version("Configuration", "x", &json!({"dependsOn": [on("y")]})));
    push(
        &registry,
        "acme/y:v1.0.0",
        &version("Configuration", "y", &json!({"dependsOn": [on("x"), missing]})),
    );
    push(&registry, "acme/good:v1.0.0", &version("Configuration", "good", &json!({})));
    let plane = Plane::with_registry(&registry).await;
    apply(&plane, "Configuration", "acme-x", "acme/x:v1.0.0", &json!({})).await;
    plane.until(LOCK, |lock| message(lock, "Resolved").contains("depend on each other")).await;
    plane.quiet().await;
    assert!(plane.get(PROVIDER).await.is_null(), "nothing more is installed");
    let good = apply(&plane, "Configuration", "good", "acme/good:v1.0.0", &json!({})).await;
    healthy(&plane, &good).await;
}

#[tokio::test]
async fn two_functions_with_one_kind_of_input_do_not_block_each_other() {
    let registry = FakeRegistry::default();
    for (name, version) in [("one", "v1"), ("two", "v2")] {
        let mut input = crd("inputs", "fn.acme.org");
        input["spec"]["versions"][0]["name"] = version.into();
        push(&registry, &format!("acme/{name}:v1.0.0"), &package_yaml("Function", &json!({}), &[input]));
    }
    let plane = Plane::with_registry(&registry).await;
    for name in ["one", "two"] {
        apply(&plane, "Function", name, &format!("acme/{name}:v1.0.0"), &json!({})).await;
    }
    let is_healthy =
        |it: &Value| condition(it, "RevisionHealthy").as_deref() == Some("True/HealthyPackageRevision");
    let are_healthy = |list: &Value| {
        let items = list["items"].as_array().unwrap();
        items.len() == 2 && items.iter().all(is_healthy)
    };
    plane.until(&format!("{PKG}/functionrevisions"), are_healthy).await;
    let kind = plane.get(INPUTS).await;
    let mut served: Vec<&str> = kind["spec"]["versions"].as_array().unwrap().iter().map(name_of).collect();
    served.sort_unstable();
    assert_eq!(served, ["v1", "v2"]);
    assert!(owners(&kind).len() == 4 && owners(&kind).iter().all(|(_, controls)| !controls), "{kind}");
}

fn name_of(version: &Value) -> &str {
    version["name"].as_str().unwrap()
}

#[tokio::test]
async fn configuration_brings_operations_of_all_kinds_and_activation_policies() {
    let ops = |kind: &str, spec: Value| json!({"apiVersion": "ops.crossplane.io/v1alpha1", "kind": kind, "metadata": {"name": "it"}, "spec": spec});
    let run = json!({"mode": "Pipeline", "pipeline": [{"step": "a", "functionRef": {"name": "a"}}]});
    let template = json!({"spec": run});
    let watch = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    let objects = [
        ops("Operation", run.clone()),
        ops("CronOperation", json!({"schedule": "0 3 * * *", "operationTemplate": template})),
        ops("WatchOperation", json!({"watch": watch, "operationTemplate": template})),
        json!({
            "apiVersion": "apiextensions.crossplane.io/v1alpha1", "kind": "ManagedResourceActivationPolicy",
            "metadata": {"name": "it"}, "spec": {"activate": ["buckets.cloud.acme.org"]},
        }),
    ];
    let registry = FakeRegistry::default();
    push(&registry, "acme/platform:v1.0.0", &package_yaml("Configuration", &json!({}), &objects));
    let plane = Plane::with_registry(&registry).await;
    let path = apply(&plane, "Configuration", "platform", "acme/platform:v1.0.0", &json!({})).await;
    let name = healthy(&plane, &path).await["status"]["currentRevision"].as_str().unwrap().to_owned();
    for path in [
        "ops.crossplane.io/v1alpha1/operations/it",
        "ops.crossplane.io/v1alpha1/cronoperations/it",
        "ops.crossplane.io/v1alpha1/watchoperations/it",
        "apiextensions.crossplane.io/v1alpha1/managedresourceactivationpolicies/it",
    ] {
        let object = plane.get(&format!("/apis/{path}")).await;
        assert!(owners(&object).contains(&(name.clone(), true)), "{path}: {object}");
    }
}
