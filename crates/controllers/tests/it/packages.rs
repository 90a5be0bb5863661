//! Packages are installed, upgraded and removed, with what they depend on.

mod late_answers;
mod signatures;
mod statements;
mod unanswered_signatures;

use std::sync::Arc;

use ferroplane_controllers::PackagedFunction;
use ferroplane_engine::packages::{ResolveOptions, friendly_id, revision_id};
use ferroplane_runner::{AsyncFunction, Runner};
use ferroplane_testkit::plane::registry::NAMESPACE;
use ferroplane_testkit::plane::sites::{SITES, is_ready};
use ferroplane_testkit::plane::{FakeRegistry, Plane, condition, condition_code};
use ferroplane_wire::v1::RunFunctionResponse;
use serde_json::{Value, json};

pub(crate) const PKG: &str = "/apis/pkg.crossplane.io/v1";
pub(crate) const LOCK: &str = "/apis/pkg.crossplane.io/v1beta1/locks/lock";
pub(crate) const XRD: &str =
    "/apis/apiextensions.crossplane.io/v1/compositeresourcedefinitions/things.acme.org";
const INPUTS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/inputs.fn.acme.org";

/// The `package.yaml` of a package with this spec in its manifest, and these objects.
pub(crate) fn package_yaml(kind: &str, spec: &Value, objects: &[Value]) -> String {
    let manifest = json!({
        "apiVersion": "meta.pkg.crossplane.io/v1", "kind": kind,
        "metadata": {"name": "p", "annotations": {"meta.crossplane.io/license": "free"}}, "spec": spec,
    });
    let documents = [manifest].into_iter().chain(objects.iter().cloned());
    documents.map(|document| document.to_string()).collect::<Vec<_>>().join("\n---\n")
}

pub(crate) fn definition(about: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "CompositeResourceDefinition",
        "metadata": {"name": "things.acme.org"},
        "spec": {"group": "acme.org", "names": {"kind": "Thing", "plural": "things"}, "versions": [{
            "name": "v1", "served": true, "referenceable": true,
            "schema": {"openAPIV3Schema": {"type": "object", "description": about}},
        }]},
    })
}

pub(crate) fn crd(plural: &str, group: &str) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Cluster",
            "names": {"kind": "Input", "plural": plural, "singular": "input", "listKind": "InputList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    })
}

pub(crate) async fn apply(plane: &Plane, kind: &str, name: &str, image: &str, more: &Value) -> String {
    let path = format!("{PKG}/{}s/{name}", kind.to_lowercase());
    let mut package = json!({
        "apiVersion": "pkg.crossplane.io/v1", "kind": kind, "metadata": {"name": name},
        "spec": {"package": format!("registry.example.org/{image}")},
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        package["spec"][field] = value.clone();
    }
    plane.apply(&path, &package).await;
    path
}

/// Wait until a package is installed and healthy. Returns it.
pub(crate) async fn healthy(plane: &Plane, path: &str) -> Value {
    let is_healthy = |package: &Value| {
        condition(package, "Healthy").as_deref() == Some("True/HealthyPackageRevision")
            && condition(package, "Installed").as_deref() == Some("True/ActivePackageRevision")
    };
    plane.until(path, is_healthy).await
}

pub(crate) fn message(object: &Value, kind: &str) -> String {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|condition| condition["type"] == kind);
    found.and_then(|condition| condition["message"].as_str().map(str::to_owned)).unwrap_or_default()
}

pub(crate) async fn revisions(plane: &Plane, kind: &str) -> Vec<Value> {
    let mut items = plane.get(&format!("{PKG}/{kind}revisions")).await["items"].as_array().cloned().unwrap();
    items.sort_by_key(|revision| revision["spec"]["revision"].as_i64());
    items
}

/// The names of the owners of an object, and whether each controls it.
pub(crate) fn owners(object: &Value) -> Vec<(String, bool)> {
    let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    owners
        .iter()
        .map(|owner| (owner["name"].as_str().unwrap().to_owned(), owner["controller"] == true))
        .collect()
}

fn configuration(version: &str, spec: &Value) -> String {
    package_yaml("Configuration", spec, &[definition(version)])
}

#[tokio::test]
async fn configuration_is_installed_as_crossplane_installs_it_and_then_nothing_happens() {
    let registry = FakeRegistry::default();
    let digest =
        registry.push("registry.example.org/acme/platform:v1.0.0", &configuration("one", &json!({})));
    let mut plane = Plane::with_registry(&registry).await;
    let path = apply(&plane, "Configuration", "platform", "acme/platform:v1.0.0", &json!({})).await;
    let package = healthy(&plane, &path).await;
    let hex = digest.strip_prefix("sha256:").unwrap();
    let name = friendly_id("platform", &revision_id(hex, 1));
    let image = "registry.example.org/acme/platform:v1.0.0";
    assert_eq!(package["status"]["currentRevision"], name);
    assert_eq!(package["status"]["currentIdentifier"], image);
    assert_eq!(package["status"]["resolvedPackage"], image);
    let [revision] = &revisions(&plane, "configuration").await[..] else { panic!() };
    assert_eq!(revision["metadata"]["name"], name);
    assert_eq!(revision["metadata"]["finalizers"], json!(["revision.pkg.crossplane.io"]));
    assert_eq!(revision["metadata"]["labels"], json!({"pkg.crossplane.io/package": "platform"}));
    assert_eq!(revision["metadata"]["annotations"]["meta.crossplane.io/license"], "free");
    assert_eq!(
        (&revision["spec"]["revision"], &revision["spec"]["desiredState"]),
        (&json!(1), &json!("Active"))
    );
    assert_eq!(revision["status"]["objectRefs"][0]["name"], "things.acme.org");
    assert_eq!(revision["status"]["resolvedImage"], image);
    assert_eq!(revision["status"]["foundDependencies"], 0);
    assert_eq!(owners(&plane.get(XRD).await), [(name.clone(), true), ("platform".to_owned(), false)]);
    let lock = plane
        .until(LOCK, |lock| {
            condition(lock, "Resolved").as_deref() == Some("True/DependencyResolutionSucceeded")
        })
        .await;
    assert_eq!(
        lock["packages"],
        json!([{
            "apiVersion": "pkg.crossplane.io/v1", "kind": "Configuration", "name": name,
            "source": "registry.example.org/acme/platform", "version": "v1.0.0", "dependencies": [],
        }])
    );
    plane.quiet().await;
    let counted = r#"ferroplane_packages{kind="Configuration",condition="Healthy",status="True"} 1"#;
    assert!(plane.metrics().lines().any(|line| line == counted), "{}", plane.metrics());
    registry.asked();
    plane.restart().await;
    assert_eq!(plane.quiet().await, Vec::<String>::new());
    assert_eq!(registry.asked(), Vec::<String>::new(), "what is installed needs no registry");
    plane.merge(&path, &json!({"metadata": {"labels": {"team": "a"}}})).await;
    assert_eq!(plane.quiet().await, Vec::<String>::new(), "a label is not our business");
}

#[tokio::test]
async fn upgrade_hands_objects_over_and_keeps_as_many_revisions_as_wanted() {
    let registry = FakeRegistry::default();
    for version in ["v1.0.0", "v1.1.0", "v1.2.0"] {
        let extra = json!({"apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "old"},
            "spec": {"compositeTypeRef": {"apiVersion": "acme.org/v1", "kind": "Thing"}, "mode": "Pipeline",
                "pipeline": [{"step": "a", "functionRef": {"name": "a"}}]}});
        let objects =
            if version == "v1.0.0" { vec![definition(version), extra] } else { vec![definition(version)] };
        registry.push(
            &format!("registry.example.org/acme/platform:{version}"),
            &package_yaml("Configuration", &json!({}), &objects),
        );
    }
    let plane = Plane::with_registry(&registry).await;
    let mut names = Vec::new();
    for version in ["v1.0.0", "v1.1.0", "v1.2.0"] {
        let path =
            apply(&plane, "Configuration", "platform", &format!("acme/platform:{version}"), &json!({})).await;
        let is_current =
            |xrd: &Value| xrd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] == version;
        plane.until(XRD, is_current).await;
        names.push(healthy(&plane, &path).await["status"]["currentRevision"].as_str().unwrap().to_owned());
    }
    plane.quiet().await;
    let revisions = revisions(&plane, "configuration").await;
    let states: Vec<_> = revisions
        .iter()
        .map(|it| (it["spec"]["revision"].as_i64().unwrap(), it["spec"]["desiredState"].as_str().unwrap()))
        .collect();
    assert_eq!(states, [(2, "Inactive"), (3, "Active")]);
    let xrd = plane.get(XRD).await;
    assert!(owners(&xrd).contains(&(names[2].clone(), true)), "{:?}", owners(&xrd));
    assert_eq!(owners(&xrd).iter().filter(|(_, controls)| *controls).count(), 1);
    let old = plane.get("/apis/apiextensions.crossplane.io/v1/compositions/old").await;
    assert!(
        owners(&old).contains(&("platform".to_owned(), false)),
        "what a newer version lacks stays: {old}"
    );
    let lock = plane.get(LOCK).await;
    assert_eq!(lock["packages"].as_array().unwrap().len(), 1);
    assert_eq!(lock["packages"][0]["version"], "v1.2.0");
}

#[tokio::test]
async fn manual_package_is_active_when_somebody_says_so() {
    let registry = FakeRegistry::default();
    registry.push("registry.example.org/acme/platform:v1.0.0", &configuration("one", &json!({})));
    let plane = Plane::with_registry(&registry).await;
    let manual = json!({"revisionActivationPolicy": "Manual"});
    let path = apply(&plane, "Configuration", "platform", "acme/platform:v1.0.0", &manual).await;
    let package = plane
        .until(&path, |package| {
            condition(package, "Installed").as_deref() == Some("False/InactivePackageRevision")
        })
        .await;
    plane.quiet().await;
    let name = package["status"]["currentRevision"].as_str().unwrap();
    let revision = format!("{PKG}/configurationrevisions/{name}");
    assert_eq!(plane.get(&revision).await["spec"]["desiredState"], "Inactive");
    assert!(plane.get(XRD).await.is_null(), "an inactive revision creates nothing");
    plane.merge(&revision, &json!({"spec": {"desiredState": "Active"}})).await;
    healthy(&plane, &path).await;
    plane.until(XRD, |xrd| !xrd.is_null()).await;
    plane.merge(&revision, &json!({"spec": {"desiredState": "Inactive"}})).await;
    let is_released = |xrd: &Value| owners(xrd).iter().all(|(_, controls)| !controls);
    plane.until(XRD, is_released).await;
    plane.until(LOCK, |lock| lock["packages"].as_array().is_some_and(Vec::is_empty)).await;
}

#[tokio::test]
async fn dependencies_are_installed_and_counted() {
    let registry = FakeRegistry::default();
    let depends = json!({"dependsOn": [
        {"provider": "registry.example.org/acme/provider", "version": ">=v1.0.0, <v2.0.0"},
        {"apiVersion": "pkg.crossplane.io/v1", "kind": "Function", "package": "registry.example.org/acme/function", "version": "v1.0.0"},
    ]});
    registry.push("registry.example.org/acme/platform:v1.0.0", &configuration("one", &depends));
    for version in ["v1.0.0", "v1.5.0", "v2.0.0", "v1"] {
        let provider = package_yaml("Provider", &json!({}), &[crd("buckets", "cloud.acme.org")]);
        registry.push(&format!("registry.example.org/acme/provider:{version}"), &provider);
    }
    let function = package_yaml("Function", &json!({}), &[crd("inputs", "fn.acme.org")]);
    registry.push("registry.example.org/acme/function:v1.0.0", &function);
    let plane = Plane::with_registry(&registry).await;
    let path = apply(&plane, "Configuration", "platform", "acme/platform:v1.0.0", &json!({})).await;
    healthy(&plane, &path).await;
    let provider = plane.get(&format!("{PKG}/providers/acme-provider")).await;
    assert_eq!(provider["spec"]["package"], "registry.example.org/acme/provider:v1.5.0");
    plane
        .until(&format!("{PKG}/functions/acme-function"), |function| {
            condition(function, "Installed").as_deref() == Some("True/ActivePackageRevision")
        })
        .await;
    plane.quiet().await;
    let [revision] = &revisions(&plane, "configuration").await[..] else { panic!() };
    let counts = ["foundDependencies", "installedDependencies", "invalidDependencies"]
        .map(|field| revision["status"].get(field).cloned());
    assert_eq!(counts, [Some(json!(2)), Some(json!(2)), Some(json!(0))]);
    let buckets =
        plane.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/buckets.cloud.acme.org").await;
    assert_eq!(owners(&buckets).iter().filter(|(_, controls)| *controls).count(), 1, "{buckets}");
    let inputs = plane.get(INPUTS).await;
    assert!(owners(&inputs).iter().all(|(_, controls)| !controls) && owners(&inputs).len() == 2, "{inputs}");
    // Nobody asked for them by name, and nobody removes them.
    plane.delete(&path).await;
    plane.until(LOCK, |lock| lock["packages"].as_array().is_some_and(|packages| packages.len() == 2)).await;
    assert!(!plane.get(&format!("{PKG}/providers/acme-provider")).await.is_null());
}

#[tokio::test]
async fn dependency_that_cannot_be_had_is_explained_and_stops_nobody_else() {
    let registry = FakeRegistry::default();
    let depends =
        json!({"dependsOn": [{"provider": "registry.example.org/acme/provider", "version": ">=v3.0.0"}]});
    registry.push("registry.example.org/acme/bad:v1.0.0", &configuration("bad", &depends));
    registry.push("registry.example.org/acme/provider:v1.0.0", &package_yaml("Provider", &json!({}), &[]));
    registry.push("registry.example.org/acme/good:v1.0.0", &package_yaml("Configuration", &json!({}), &[]));
    let plane = Plane::with_registry(&registry).await;
    let bad = apply(&plane, "Configuration", "bad", "acme/bad:v1.0.0", &json!({})).await;
    let lock = plane
        .until(LOCK, |lock| {
            condition(lock, "Resolved").as_deref() == Some("False/DependencyResolutionFailed")
        })
        .await;
    assert!(
        message(&lock, "Resolved").contains("wanted by registry.example.org/acme/bad:v1.0.0 (>=v3.0.0)"),
        "{lock}"
    );
    assert_eq!(condition_code(&lock, "Resolved"), "PackageDependenciesUnmet");
    let package =
        plane.until(&bad, |package| message(package, "Healthy").contains("missing dependencies")).await;
    assert_eq!(condition_code(&package, "Healthy"), "PackageDependenciesUnmet");
    assert_eq!(condition(&package, "Installed").as_deref(), Some("True/ActivePackageRevision"));
    let good = apply(&plane, "Configuration", "good", "acme/good:v1.0.0", &json!({})).await;
    healthy(&plane, &good).await;
    assert!(plane.get(XRD).await.is_null(), "what lacks its dependencies brings nothing");
    plane.quiet().await;
    registry.asked();
    assert_eq!(plane.quiet().await, Vec::<String>::new(), "no hot loop");
    assert_eq!(registry.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn dependency_is_upgraded_where_that_is_allowed() {
    let registry = FakeRegistry::default();
    registry.allow(ResolveOptions { upgrades: true, downgrades: false });
    for version in ["v1.0.0", "v1.1.0", "v1.2.0"] {
        let provider = package_yaml("Provider", &json!({"crossplane": {"version": version}}), &[]);
        let provider = provider.replace(version, ">=v1.0.0");
        registry.push(
            &format!("registry.example.org/acme/provider:{version}"),
            &format!("# {version}\n{provider}"),
        );
    }
    let depends =
        json!({"dependsOn": [{"provider": "registry.example.org/acme/provider", "version": ">v1.0.0"}]});
    registry.push("registry.example.org/acme/platform:v1.0.0", &configuration("one", &depends));
    let plane = Plane::with_registry(&registry).await;
    // A user installed it under another name.
    let provider = apply(&plane, "Provider", "cool-provider", "acme/provider:v1.0.0", &json!({})).await;
    plane.until(LOCK, |lock| lock["packages"].as_array().is_some_and(|packages| packages.len() == 1)).await;
    let path = apply(&plane, "Configuration", "platform", "acme/platform:v1.0.0", &json!({})).await;
    plane
        .until(&provider, |provider| {
            provider["spec"]["package"] == "registry.example.org/acme/provider:v1.1.0"
        })
        .await;
    healthy(&plane, &path).await;
    assert_eq!(plane.get(&format!("{PKG}/providers")).await["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn package_that_cannot_be_fetched_says_why_and_is_installed_when_it_can() {
    let registry = FakeRegistry::default();
    registry.push("registry.example.org/acme/platform:v1.0.0", &configuration("one", &json!({})));
    registry.set_down(Some("cannot connect to registry.example.org"));
    let plane = Plane::with_registry(&registry).await;
    let path = apply(&plane, "Configuration", "platform", "acme/platform:v1.0.0", &json!({})).await;
    let package = plane
        .until(&path, |package| condition(package, "Installed").as_deref() == Some("False/UnpackingPackage"))
        .await;
    assert_eq!(condition(&package, "Healthy").as_deref(), Some("False/UnhealthyPackageRevision"));
    assert_eq!(message(&package, "Installed"), "cannot connect to registry.example.org");
    plane.until_said("platform", "Warning/UnpackPackage: cannot connect").await;
    registry.set_down(None);
    healthy(&plane, &path).await;
}

#[tokio::test]
async fn composite_resource_says_why_the_package_of_its_function_cannot_be_had() {
    let registry = FakeRegistry::default();
    registry.set_down(Some("cannot connect to registry.example.org"));
    let plane = Plane::with_registry(&registry).await;
    plane.define_sites().await;
    apply(&plane, "Function", "painter", "acme/painter:v1.0.0", &json!({})).await;
    plane.compose_sites_of(&json!([{"step": "paint", "functionRef": {"name": "painter"}}])).await;
    plane.create_site("blog", "red").await;
    let says_why = |site: &Value| {
        let words = message(site, "Synced");
        words.contains("function `painter` is installed as registry.example.org/acme/painter:v1.0.0, but cannot be called")
            && words.contains("its package is not installed: cannot connect to registry.example.org")
    };
    let site = plane.until(&format!("{SITES}/blog"), says_why).await;
    // Packages are installed here: nobody has to be told how to do without.
    assert!(!message(&site, "Synced").contains("installs no packages"), "{}", message(&site, "Synced"));
}

#[tokio::test]
async fn function_that_is_built_in_gets_a_revision_and_needs_no_registry() {
    let registry = FakeRegistry::default();
    let image = "crossplane-contrib/function-auto-ready:v0.5.0";
    registry.push(
        &format!("registry.example.org/{image}"),
        &package_yaml("Function", &json!({}), &[crd("inputs", "fn.acme.org")]),
    );
    registry.set_down(Some("cannot connect to registry.example.org"));
    let plane = Plane::with_registry(&registry).await;
    let path = apply(&plane, "Function", "ready", image, &json!({})).await;
    let function = plane
        .until(&path, |function| condition(function, "Healthy").as_deref() == Some("True/BuiltIn"))
        .await;
    let words = message(&function, "Installed");
    assert!(words.contains("is built in") && words.contains("is not installed: cannot connect"), "{words}");
    assert_eq!(plane.get(&format!("{PKG}/functionrevisions")).await["items"], json!([]));

    registry.set_down(None);
    healthy(&plane, &path).await;
    let [revision] = &revisions(&plane, "function").await[..] else { panic!() };
    assert_eq!(condition(revision, "RuntimeHealthy").as_deref(), Some("True/HealthyPackageRevision"));
    assert!(
        message(revision, "RuntimeHealthy").contains("The function is built in: `function-auto-ready`"),
        "{revision}"
    );
    assert_eq!(revision["status"]["capabilities"], json!(["composition"]));
    plane
        .until_said(
            revision["metadata"]["name"].as_str().unwrap(),
            "Normal/StartRuntime: The function is built in",
        )
        .await;
    assert!(!plane.get(INPUTS).await.is_null(), "the kind of its input can be named");

    plane.merge(&path, &json!({"metadata": {"annotations": {"ferroplane.io/native": "false"}}})).await;
    let function = plane
        .until(&path, |function| {
            condition(function, "Healthy").as_deref() == Some("False/UnhealthyPackageRevision")
        })
        .await;
    assert!(message(&function, "Healthy").contains("forbids the built-in function"), "{function}");
}

#[tokio::test]
async fn hostile_and_broken_packages_are_refused_with_the_reason() {
    let registry = FakeRegistry::default();
    let two = format!("{}\n---\n{}", configuration("a", &json!({})), configuration("b", &json!({})));
    let constrained = configuration("a", &json!({"crossplane": {"version": "<v1.0.0"}}));
    let secret = format!("{}\n---\napiVersion: v1\nkind: Secret\n", configuration("a", &json!({})));
    let cases = [
        ("two", two, "the package holds 2 manifests"),
        (
            "kind",
            package_yaml("Provider", &json!({}), &[definition("a")]),
            "the package is a Provider, and not a Configuration",
        ),
        ("constrained", constrained, "the package needs Crossplane <v1.0.0"),
        ("secret", secret, "no package may bring Secret of v1"),
        ("garbage", "a: [".to_owned(), "cannot read the document"),
    ];
    for (name, package, _) in &cases {
        registry.push(&format!("registry.example.org/acme/{name}:v1.0.0"), package);
    }
    let plane = Plane::with_registry(&registry).await;
    for (name, _, reason) in &cases {
        let path = apply(&plane, "Configuration", name, &format!("acme/{name}:v1.0.0"), &json!({})).await;
        let refused = plane.until(&path, |package| message(package, "Healthy").contains(reason)).await;
        assert_eq!(condition_code(&refused, "Healthy"), "PackageInvalid", "{name}");
    }
    plane.quiet().await;
    assert!(plane.get(XRD).await.is_null(), "nothing of them is installed");
    let ignoring = json!({"ignoreCrossplaneConstraints": true});
    let path = apply(&plane, "Configuration", "constrained", "acme/constrained:v1.0.0", &ignoring).await;
    healthy(&plane, &path).await;
}

#[tokio::test]
async fn object_of_another_package_is_not_taken() {
    let registry = FakeRegistry::default();
    registry.push("registry.example.org/acme/one:v1.0.0", &configuration("one", &json!({})));
    let composition = json!({"apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "other"},
        "spec": {"compositeTypeRef": {"apiVersion": "acme.org/v1", "kind": "Thing"}, "mode": "Pipeline",
            "pipeline": [{"step": "a", "functionRef": {"name": "a"}}]}});
    registry.push(
        "registry.example.org/acme/other:v1.0.0",
        &package_yaml("Configuration", &json!({}), &[composition, definition("other")]),
    );
    let plane = Plane::with_registry(&registry).await;
    let one = apply(&plane, "Configuration", "one", "acme/one:v1.0.0", &json!({})).await;
    healthy(&plane, &one).await;
    let other = apply(&plane, "Configuration", "other", "acme/other:v1.0.0", &json!({})).await;
    plane
        .until(&other, |package| {
            message(package, "Healthy").contains("is already controlled by ConfigurationRevision")
        })
        .await;
    let composition = plane.get("/apis/apiextensions.crossplane.io/v1/compositions/other").await;
    assert!(composition.is_null(), "nothing is half installed: {composition}");
}

#[tokio::test]
async fn images_are_rewritten_and_pulled_with_the_secret_that_an_image_config_names() {
    let registry = FakeRegistry::default();
    registry.push("mirror.example.org/m/acme/platform:v1.0.0", &configuration("one", &json!({})));
    let plane = Plane::with_registry(&registry).await;
    let config = json!({
        "apiVersion": "pkg.crossplane.io/v1beta1", "kind": "ImageConfig", "metadata": {"name": "mirror"},
        "spec": {"matchImages": [{"prefix": "registry.example.org/"}], "rewriteImage": {"prefix": "mirror.example.org/m/"}},
    });
    plane.apply("/apis/pkg.crossplane.io/v1beta1/imageconfigs/mirror", &config).await;
    let secret_config = json!({
        "apiVersion": "pkg.crossplane.io/v1beta1", "kind": "ImageConfig", "metadata": {"name": "secret"},
        "spec": {"matchImages": [{"prefix": "mirror.example.org/"}], "registry": {"authentication": {"pullSecretRef": {"name": "pull"}}}},
    });
    plane.apply("/apis/pkg.crossplane.io/v1beta1/imageconfigs/secret", &secret_config).await;
    plane
        .apply(
            &format!("/api/v1/namespaces/{NAMESPACE}"),
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        )
        .await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull", "namespace": NAMESPACE},
        "type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "{\"auths\":{}}"},
    });
    plane.apply(&format!("/api/v1/namespaces/{NAMESPACE}/secrets/pull"), &secret).await;
    let path = apply(&plane, "Configuration", "platform", "acme/platform:v1.0.0", &json!({})).await;
    let package = healthy(&plane, &path).await;
    assert_eq!(package["status"]["resolvedPackage"], "mirror.example.org/m/acme/platform:v1.0.0");
    let applied = json!([{"name": "mirror", "reason": "RewriteImage"}, {"name": "secret", "reason": "SetImagePullSecret"}]);
    assert_eq!(package["status"]["appliedImageConfigRefs"], applied);
    assert_eq!(registry.secrets(), [b"{\"auths\":{}}".to_vec()]);
    assert_eq!(plane.get(LOCK).await["packages"][0]["source"], "registry.example.org/acme/platform");
}

#[tokio::test]
async fn pull_secrets_of_the_control_plane_s_own_service_account_open_a_registry() {
    let registry = FakeRegistry::default();
    let depends =
        json!({"dependsOn": [{"configuration": "registry.example.org/acme/base", "version": ">=v1.0.0"}]});
    registry.push(
        "registry.example.org/acme/platform:v1.0.0",
        &package_yaml("Configuration", &depends, &[definition("one")]),
    );
    for version in ["v1.0.0", "v1.5.0"] {
        let base = format!("# {version}\n{}", package_yaml("Configuration", &json!({}), &[]));
        registry.push(&format!("registry.example.org/acme/base:{version}"), &base);
    }
    registry.require_secret(b"{\"auths\":{}}");
    // Nothing runs in pods: the service account counts all the same.
    let plane = Plane::with_pods(&registry, &[]).await;
    let account = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/crossplane");
    let own = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "crossplane", "namespace": NAMESPACE},
        "imagePullSecrets": [{"name": "own"}],
    });
    plane.apply(&account, &own).await;
    let path = apply(&plane, "Configuration", "platform", "acme/platform:v1.0.0", &json!({})).await;
    let is_denied = |package: &Value| {
        let words = message(package, "Installed");
        words.contains("there is no credential") && words.contains("there is no pull secret `own`")
    };
    plane.until(&path, is_denied).await;

    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "own", "namespace": NAMESPACE},
        "type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "{\"auths\":{}}"},
    });
    plane.apply(&format!("/api/v1/namespaces/{NAMESPACE}/secrets/own"), &secret).await;
    registry.asked();
    plane.merge(&path, &json!({"metadata": {"annotations": {"look": "again"}}})).await;
    healthy(&plane, &path).await;
    let dependency = plane.get(&format!("{PKG}/configurations/acme-base")).await;
    assert_eq!(dependency["spec"]["package"], "registry.example.org/acme/base:v1.5.0");
    // Each of these was refused without the Secret.
    let asked = registry.asked();
    for what in ["resolve ", "fetch ", "tags "] {
        assert!(asked.iter().any(|asked| asked.starts_with(what)), "{what}: {asked:?}");
    }
    assert_eq!(registry.secrets(), [b"{\"auths\":{}}".to_vec()]);
}

#[tokio::test]
async fn moved_tag_is_noticed_by_those_who_always_want_to_know() {
    let registry = FakeRegistry::default();
    let image = "registry.example.org/acme/platform:latest";
    let first = registry.push(image, &configuration("one", &json!({})));
    let plane = Plane::with_registry(&registry).await;
    let path = apply(&plane, "Configuration", "platform", "acme/platform:latest", &json!({})).await;
    healthy(&plane, &path).await;
    let second = registry.push(image, &configuration("two", &json!({})));
    apply(&plane, "Configuration", "platform", "acme/platform:latest", &json!({"revisionHistoryLimit": 5}))
        .await;
    plane
        .until(&path, |package| {
            package["metadata"]["generation"] == 2
                && package["status"]["currentRevision"]
                    == friendly_id("platform", &revision_id(&first[7..], 2))
        })
        .await;
    let always = json!({"revisionHistoryLimit": 5, "packagePullPolicy": "Always"});
    apply(&plane, "Configuration", "platform", "acme/platform:latest", &always).await;
    plane
        .until(&path, |package| {
            package["status"]["currentRevision"] == friendly_id("platform", &revision_id(&second[7..], 3))
        })
        .await;
    plane
        .until(XRD, |xrd| xrd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] == "two")
        .await;
}

#[tokio::test]
async fn change_of_a_status_asks_no_registry() {
    let registry = FakeRegistry::default();
    registry.push("registry.example.org/acme/platform:latest", &configuration("one", &json!({})));
    let plane = Plane::with_registry(&registry).await;
    let always = json!({"packagePullPolicy": "Always"});
    let path = apply(&plane, "Configuration", "platform", "acme/platform:latest", &always).await;
    healthy(&plane, &path).await;
    plane.quiet().await;
    assert!(!registry.asked().is_empty());
    let is_known = |package: &Value| package["status"]["currentIdentifier"] != "forged";
    plane.merge(&format!("{path}/status"), &json!({"status": {"currentIdentifier": "forged"}})).await;
    plane.until(&path, is_known).await;
    plane.quiet().await;
    assert_eq!(registry.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn registry_is_asked_again_for_a_package_that_is_created_again_and_for_a_deleted_revision() {
    let registry = FakeRegistry::default();
    let image = "registry.example.org/acme/platform:latest";
    let plane = Plane::with_registry(&registry).await;
    let is_about = |about: &'static str| {
        move |xrd: &Value| xrd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] == about
    };
    for policy in ["Always", "IfNotPresent"] {
        let spec = json!({"packagePullPolicy": policy});
        registry.push(image, &configuration("one", &json!({})));
        let path = apply(&plane, "Configuration", "platform", "acme/platform:latest", &spec).await;
        healthy(&plane, &path).await;
        plane.until(XRD, is_about("one")).await;
        plane.delete(&path).await;
        plane.until(XRD, Value::is_null).await;

        registry.push(image, &configuration("two", &json!({})));
        let path = apply(&plane, "Configuration", "platform", "acme/platform:latest", &spec).await;
        healthy(&plane, &path).await;
        plane.until(XRD, is_about("two")).await;
        plane.delete(&path).await;
        plane.until(XRD, Value::is_null).await;
    }

    // The package stays the same.
    registry.push(image, &configuration("one", &json!({})));
    let path = apply(&plane, "Configuration", "platform", "acme/platform:latest", &json!({})).await;
    healthy(&plane, &path).await;
    plane.quiet().await;
    registry.push(image, &configuration("two", &json!({})));
    let [revision] = &revisions(&plane, "configuration").await[..] else { panic!() };
    let revision = revision["metadata"]["name"].as_str().unwrap();
    plane.delete(&format!("{PKG}/configurationrevisions/{revision}")).await;
    plane.until(XRD, is_about("two")).await;
    healthy(&plane, &path).await;
}

#[tokio::test]
async fn paused_package_is_left_alone() {
    let registry = FakeRegistry::default();
    registry.push("registry.example.org/acme/platform:v1.0.0", &configuration("one", &json!({})));
    let plane = Plane::with_registry(&registry).await;
    let path = format!("{PKG}/configurations/platform");
    let package = json!({
        "apiVersion": "pkg.crossplane.io/v1", "kind": "Configuration",
        "metadata": {"name": "platform", "annotations": {"crossplane.io/paused": "true"}},
        "spec": {"package": "registry.example.org/acme/platform:v1.0.0"},
    });
    plane.apply(&path, &package).await;
    plane
        .until(&path, |package| condition(package, "Synced").as_deref() == Some("False/ReconcilePaused"))
        .await;
    plane.quiet().await;
    assert_eq!(registry.asked(), Vec::<String>::new());
    plane.merge(&path, &json!({"metadata": {"annotations": {"crossplane.io/paused": null}}})).await;
    let package = healthy(&plane, &path).await;
    assert_eq!(condition(&package, "Synced"), None);
}

#[tokio::test]
async fn deleted_package_takes_its_revisions_along_and_leaves_the_lock() {
    let registry = FakeRegistry::default();
    registry.push("registry.example.org/acme/platform:v1.0.0", &configuration("one", &json!({})));
    let plane = Plane::with_registry(&registry).await;
    let path = apply(&plane, "Configuration", "platform", "acme/platform:v1.0.0", &json!({})).await;
    healthy(&plane, &path).await;
    plane.delete(&path).await;
    plane.until(&format!("{PKG}/configurationrevisions"), |list| list["items"] == json!([])).await;
    let lock = plane.until(LOCK, |lock| lock["packages"].as_array().is_some_and(Vec::is_empty)).await;
    assert_eq!(lock["metadata"]["finalizers"], Value::Null);
    plane.until(XRD, Value::is_null).await;
    // A user who installs it again gets it again.
    let path = apply(&plane, "Configuration", "platform", "acme/platform:v1.0.0", &json!({})).await;
    healthy(&plane, &path).await;
}

#[tokio::test]
async fn function_in_a_package_is_run_and_called_and_stopped_when_it_is_replaced() {
    let registry = FakeRegistry::default();
    for version in ["v1.0.0", "v1.1.0"] {
        let package = package_yaml("Function", &json!({}), &[]);
        let image = format!("registry.example.org/acme/function-own:{version}");
        registry.push(&image, &format!("# {version}\n{package}"));
    }
    let functions = registry.run_functions();
    let plane = Plane::with_registry(&registry).await;
    plane.define_sites().await;
    let path = apply(&plane, "Function", "own", "acme/function-own:v1.0.0", &json!({})).await;
    plane.compose_sites_of(&json!([{"step": "own", "functionRef": {"name": "own"}}])).await;
    plane.create_site("blog", "red").await;
    let mut wanted = functions.wanted();
    let first = wanted.wait_for(|wanted| !wanted.is_empty()).await.unwrap().clone();
    let (first, request) = first.into_iter().next().unwrap();
    assert!(request.image.image.starts_with("registry.example.org/acme/function-own@sha256:"), "{request:?}");
    functions.set(&first, Some(PackagedFunction::Down("it ended".to_owned())));
    plane.until(&path, |function| message(function, "Healthy").contains("it ended")).await;

    let answer = Runner::AsyncFunction(AsyncFunction::new(|_| async { Ok(RunFunctionResponse::default()) }));
    functions.set(&first, Some(PackagedFunction::Serving(Arc::new(answer))));
    healthy(&plane, &path).await;
    plane.until(&format!("{SITES}/blog"), is_ready).await;

    // The old one serves until the new one does.
    apply(&plane, "Function", "own", "acme/function-own:v1.1.0", &json!({})).await;
    let both = wanted.wait_for(|wanted| wanted.len() == 2).await.unwrap().clone();
    plane.quiet().await;
    let states = revisions(&plane, "function").await;
    assert!(states.iter().all(|revision| revision["spec"]["desiredState"] == "Active"), "{states:?}");
    let second = both.keys().find(|name| **name != first).unwrap();
    let answer = Runner::AsyncFunction(AsyncFunction::new(|_| async { Ok(RunFunctionResponse::default()) }));
    functions.set(second, Some(PackagedFunction::Serving(Arc::new(answer))));
    wanted.wait_for(|wanted| wanted.len() == 1 && wanted.contains_key(second)).await.unwrap();
    plane.delete(&path).await;
    wanted.wait_for(std::collections::BTreeMap::is_empty).await.unwrap();
}

/// A Function that names a program, and the event that says that it is not run because the package is.
pub(crate) const COMMAND: &str = "render.ferroplane.io/command";
pub(crate) const NOT_RUN: &str = "Normal/CommandNotRun: The command in the annotation render.ferroplane.io/command is not run: the Function is served \
     without it";

/// Write a Function that names a program.
pub(crate) async fn apply_commanded(plane: &Plane, name: &str, image: &str) -> String {
    let path = format!("{PKG}/functions/{name}");
    let function = json!({
        "apiVersion": "pkg.crossplane.io/v1", "kind": "Function",
        "metadata": {"name": name, "annotations": {COMMAND: "./run"}},
        "spec": {"package": format!("registry.example.org/{image}")},
    });
    plane.apply(&path, &function).await;
    path
}

#[tokio::test]
async fn command_that_comes_through_the_api_does_not_keep_a_package_from_being_installed() {
    let registry = FakeRegistry::default();
    for name in ["one", "other"] {
        let package = package_yaml("Function", &json!({}), &[]);
        registry.push(&format!("registry.example.org/acme/{name}:v1.0.0"), &format!("# {name}\n{package}"));
    }
    let functions = registry.run_functions();
    let plane = Plane::with_registry(&registry).await;
    let mut wanted = functions.wanted();
    let serve = |names: Vec<String>| {
        for name in names {
            let answer =
                Runner::AsyncFunction(AsyncFunction::new(|_| async { Ok(RunFunctionResponse::default()) }));
            functions.set(&name, Some(PackagedFunction::Serving(Arc::new(answer))));
        }
    };

    let one = apply_commanded(&plane, "one", "acme/one:v1.0.0").await;
    let names = wanted.wait_for(|wanted| wanted.len() == 1).await.unwrap().keys().cloned().collect();
    serve(names);
    healthy(&plane, &one).await;
    plane.until_said("one", NOT_RUN).await;

    let other = apply(&plane, "Function", "other", "acme/other:v1.0.0", &json!({})).await;
    let names = wanted.wait_for(|wanted| wanted.len() == 2).await.unwrap().keys().cloned().collect();
    serve(names);
    healthy(&plane, &other).await;
    plane.merge(&other, &json!({"metadata": {"annotations": {COMMAND: "./run"}}})).await;
    plane.until_said("other", NOT_RUN).await;
    plane.quiet().await;
    healthy(&plane, &other).await;
    for name in ["one", "other"] {
        let events = plane.events(name).await;
        assert!(!events.iter().any(|event| event.starts_with("Warning/CommandNotRun")), "{events:?}");
    }

    // Its author may wait for the program.
    apply_commanded(&plane, "gone", "acme/gone:v1.0.0").await;
    plane.until_said("gone", "Warning/CommandNotRun: The command in the annotation").await;
}

#[tokio::test]
async fn revision_that_runs_built_in_can_be_named_and_an_inactive_one_is_not_called() {
    let registry = FakeRegistry::default();
    let image = "crossplane-contrib/function-auto-ready:v0.5.0";
    registry.push(&format!("registry.example.org/{image}"), &package_yaml("Function", &json!({}), &[]));
    let plane = Plane::with_registry(&registry).await;
    plane.define_sites().await;
    let path =
        apply(&plane, "Function", "ready", image, &json!({"revisionActivationPolicy": "Manual"})).await;
    let function = plane
        .until(&path, |it| condition(it, "Installed").as_deref() == Some("False/InactivePackageRevision"))
        .await;
    let name = function["status"]["currentRevision"].as_str().unwrap().to_owned();
    let step =
        json!([{"step": "ready", "functionRef": {"name": "ready"}, "functionRevisionRef": {"name": name}}]);
    plane.compose_sites_of(&step).await;
    plane.create_site("blog", "red").await;
    let is_refused = |site: &Value| {
        let conditions = site["status"]["conditions"].as_array();
        conditions.into_iter().flatten().any(|condition| condition["code"] == "FunctionInactive")
    };
    plane.until(&format!("{SITES}/blog"), is_refused).await;
    plane
        .merge(&format!("{PKG}/functionrevisions/{name}"), &json!({"spec": {"desiredState": "Active"}}))
        .await;
    healthy(&plane, &path).await;
    plane
        .until(&format!("{SITES}/blog"), |site| {
            condition(site, "Synced").as_deref() == Some("True/ReconcileSuccess")
        })
        .await;
}

#[tokio::test]
async fn webhooks_of_a_package_are_left_out_where_its_program_cannot_serve_them() {
    let registry = FakeRegistry::default();
    let hooks = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "validating-webhook-configuration"},
        "webhooks": [{
            "name": "a.acme.org", "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Fail",
            "clientConfig": {"service": {"name": "webhook-service", "namespace": "system", "path": "/validate"}},
            "rules": [{"apiGroups": ["cloud.acme.org"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["buckets"]}],
        }],
    });
    let mut converted = crd("queues", "cloud.acme.org");
    converted["spec"]["names"] =
        json!({"kind": "Queue", "plural": "queues", "singular": "queue", "listKind": "QueueList"});
    let client = json!({"service": {"name": "webhook-service", "namespace": "system", "path": "/convert"}});
    converted["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client}});
    let push = |name: &str, objects: &[Value]| {
        let package = package_yaml("Provider", &json!({}), objects);
        registry.push(&format!("registry.example.org/acme/{name}:v1.0.0"), &package);
    };
    push("cloud", &[crd("buckets", "cloud.acme.org"), hooks]);
    push("queues", &[converted]);
    registry.keep_definitions(true);
    let plane = Plane::with_registry(&registry).await;
    let is_installed = |revision: &Value| {
        condition(revision, "RevisionHealthy").as_deref() == Some("True/HealthyPackageRevision")
    };
    let revision_of = async |path: &str| {
        let package = plane.until(path, |it| it["status"]["currentRevision"].is_string()).await;
        package["status"]["currentRevision"].as_str().unwrap().to_owned()
    };
    let path = apply(&plane, "Provider", "cloud", "acme/cloud:v1.0.0", &json!({})).await;
    let name = revision_of(&path).await;
    plane.until(&format!("{PKG}/providerrevisions/{name}"), is_installed).await;
    plane.until_said(&name, "Warning/LintPackage").await;
    let codes = plane.event_codes(&name).await;
    assert!(codes.contains(&"LintPackage: PackageWebhooksNotServed".to_owned()), "{codes:?}");
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert!(!plane.get(&format!("{definitions}/buckets.cloud.acme.org")).await.is_null());
    let configurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let all = plane.get(configurations).await.to_string();
    assert!(!all.contains("a.acme.org"), "nothing would answer it, and buckets could not be created: {all}");

    // A kind whose versions nothing converts would be worse than none.
    let path = apply(&plane, "Provider", "queues", "acme/queues:v1.0.0", &json!({})).await;
    let refused = plane
        .until(&path, |it| message(it, "Healthy").contains("a webhook of the package converts its versions"))
        .await;
    assert!(
        message(&refused, "Healthy").contains("CustomResourceDefinition `queues.cloud.acme.org`"),
        "{refused}"
    );
    assert!(plane.get(&format!("{definitions}/queues.cloud.acme.org")).await.is_null());
}

#[tokio::test]
async fn package_cannot_change_the_kinds_of_the_control_plane() {
    let registry = FakeRegistry::default();
    let mut ours = crd("functions", "pkg.crossplane.io");
    ours["spec"]["names"]["kind"] = "Function".into();
    let objects = [crd("buckets", "cloud.acme.org"), ours];
    registry.push("registry.example.org/acme/evil:v1.0.0", &package_yaml("Provider", &json!({}), &objects));
    let plane = Plane::with_registry(&registry).await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let before = plane.get(&format!("{definitions}/functions.pkg.crossplane.io")).await;
    let path = apply(&plane, "Provider", "evil", "acme/evil:v1.0.0", &json!({})).await;
    plane
        .until(&path, |package| {
            message(package, "Healthy").contains("belongs to Kubernetes or to the control plane")
        })
        .await;
    plane.quiet().await;
    let after = plane.get(&format!("{definitions}/functions.pkg.crossplane.io")).await;
    assert_eq!(before["spec"], after["spec"]);
    assert!(
        plane.get(&format!("{definitions}/buckets.cloud.acme.org")).await.is_null(),
        "nothing of it is installed"
    );
}

#[tokio::test]
async fn object_of_a_package_that_is_deleted_comes_back() {
    const COMPOSITION: &str = "/apis/apiextensions.crossplane.io/v1/compositions/things";
    const POLICY: &str =
        "/apis/apiextensions.crossplane.io/v1alpha1/managedresourceactivationpolicies/things";
    const MANAGED: &str =
        "/apis/apiextensions.crossplane.io/v1alpha1/managedresourcedefinitions/inputs.cloud.acme.org";
    const CONFIG: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/configs.cloud.acme.org";
    let registry = FakeRegistry::default();
    let composition = json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "things"},
        "spec": {
            "compositeTypeRef": {"apiVersion": "acme.org/v1", "kind": "Thing"},
            "mode": "Pipeline", "pipeline": [{"step": "paint", "functionRef": {"name": "painter"}}],
        },
    });
    let policy = json!({
        "apiVersion": "apiextensions.crossplane.io/v1alpha1", "kind": "ManagedResourceActivationPolicy",
        "metadata": {"name": "things"}, "spec": {"activate": ["nothing.example.org"]},
    });
    let package = package_yaml("Configuration", &json!({}), &[definition("one"), composition, policy]);
    registry.push("registry.example.org/acme/platform:v1.0.0", &package);
    // The provider starts late, so that its kind stays a definition; the other kind configures it.
    let mut config = crd("configs", "cloud.acme.org");
    config["spec"]["names"]["kind"] = "ProviderConfig".into();
    let provider = package_yaml(
        "Provider",
        &json!({"capabilities": ["safe-start"]}),
        &[crd("inputs", "cloud.acme.org"), config],
    );
    registry.push("registry.example.org/acme/provider-cloud:v1.0.0", &provider);
    let plane = Plane::with_registry(&registry).await;
    let path = apply(&plane, "Configuration", "platform", "acme/platform:v1.0.0", &json!({})).await;
    healthy(&plane, &path).await;
    apply(&plane, "Provider", "cloud", "acme/provider-cloud:v1.0.0", &json!({})).await;
    for (object, kind) in [
        (XRD, "configuration"),
        (COMPOSITION, "configuration"),
        (POLICY, "configuration"),
        (MANAGED, "provider"),
        (CONFIG, "provider"),
    ] {
        plane.until(object, |it| !it.is_null()).await;
        let [revision] = &revisions(&plane, kind).await[..] else { panic!() };
        let revision = format!("{PKG}/{kind}revisions/{}", revision["metadata"]["name"].as_str().unwrap());
        let before = plane.get(object).await["metadata"]["uid"].clone();
        plane.delete(object).await;
        let is_new = |it: &Value| it["metadata"]["uid"].is_string() && it["metadata"]["uid"] != before;
        let after = plane.until(object, is_new).await["metadata"]["uid"].clone();
        let is_referenced = |it: &Value| {
            let references = it["status"]["objectRefs"].as_array();
            references.into_iter().flatten().any(|reference| reference["uid"] == after)
        };
        plane.until(&revision, is_referenced).await;
    }
}
