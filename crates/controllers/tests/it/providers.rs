//! Providers: their kinds become managed resource definitions, and their programs run on this machine as service accounts of their own.
#![expect(clippy::unnecessary_wraps, reason = "it reads better here as it is")]

use std::collections::BTreeMap;

use ferroplane_api::keys;
use ferroplane_controllers::ProviderState;
use ferroplane_engine::packages::protecting_usage_name;
use ferroplane_testkit::plane::registry::NAMESPACE;
use ferroplane_testkit::plane::{FakeRegistry, Plane, condition};
use serde_json::{Value, json};

use crate::packages::{PKG, apply, crd, healthy, message, owners, package_yaml, revisions};

const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const DEFINITION: &str =
    "/apis/apiextensions.crossplane.io/v1alpha1/managedresourcedefinitions/buckets.cloud.acme.org";
const KINDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn account(name: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{name}")
}

fn kind(name: &str) -> String {
    format!("{KINDS}/{name}.cloud.acme.org")
}

fn named(plural: &str, kind: &str) -> Value {
    let mut definition = crd(plural, "cloud.acme.org");
    definition["spec"]["names"] = json!({
        "kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase(),
    });
    definition
}

/// A registry with versions of a provider of buckets.
fn registry(spec: &Value) -> FakeRegistry {
    let registry = FakeRegistry::default();
    for version in ["v1.0.0", "v1.1.0"] {
        let objects = [named("buckets", "Bucket"), named("providerconfigs", "ProviderConfig")];
        let package = format!("# {version}\n{}", package_yaml("Provider", spec, &objects));
        registry.push(&format!("registry.example.org/acme/provider-cloud:{version}"), &package);
    }
    registry
}

async fn newest(plane: &Plane, count: usize) -> String {
    let list = format!("{PKG}/providerrevisions");
    plane.until(&list, |list| list["items"].as_array().is_some_and(|items| items.len() == count)).await;
    let all = revisions(plane, "provider").await;
    all.last().unwrap()["metadata"]["name"].as_str().unwrap().to_owned()
}

fn running() -> Option<ProviderState> {
    Some(ProviderState::Running("runs in a test".to_owned()))
}

#[tokio::test]
async fn provider_runs_as_a_service_account_of_its_own_and_its_successor_in_its_place() {
    let registry = registry(&json!({}));
    let providers = registry.run_providers();
    let mut wanted = providers.wanted();
    let mut plane = Plane::with_providers(&registry).await;
    let path = apply(&plane, "Provider", "cloud", "acme/provider-cloud:v1.0.0", &json!({})).await;
    let first = newest(&plane, 1).await;
    let asked = wanted.wait_for(|wanted| wanted.contains_key(&first)).await.unwrap()[&first].clone();
    let made = plane.get(&account(&first)).await;
    assert_eq!(owners(&made), [(first.clone(), true)]);
    assert_eq!(asked.account, made["metadata"]["uid"].as_str().unwrap());
    assert_eq!((&*asked.package, &*asked.namespace, &*asked.network), ("cloud", NAMESPACE, ""));
    assert!(asked.image.image.contains("@sha256:"), "{:?}", asked.image.image);
    let revision = format!("{PKG}/providerrevisions/{first}");
    plane.until(&revision, |it| message(it, "RuntimeHealthy") == "The program is being started").await;
    let binding = format!("{BINDINGS}/crossplane:provider:{first}:system");
    let binding = plane.until(&binding, |it| !it.is_null()).await;
    let subject = json!({"kind": "ServiceAccount", "name": first, "namespace": NAMESPACE});
    assert_eq!(binding["subjects"], json!([subject]));
    providers.set(&first, running());
    healthy(&plane, &path).await;
    let told = plane.get(&revision).await;
    assert_eq!(message(&told, "RuntimeHealthy"), "Runs in a test");
    assert_eq!(condition(&told, "RuntimeActive").as_deref(), Some("True/ActiveRuntime"));
    plane.quiet().await;
    plane.restart().await;
    assert_eq!(plane.quiet().await, Vec::<String>::new());

    providers.set(&first, Some(ProviderState::Down("it ended (exit code 1)".to_owned())));
    plane.until(&path, |it| message(it, "Healthy").contains("it ended (exit code 1)")).await;
    // The token of an account that is made again is another one.
    plane.delete(&account(&first)).await;
    let again = wanted
        .wait_for(|wanted| wanted.get(&first).is_some_and(|again| again.account != asked.account))
        .await
        .unwrap()[&first]
        .clone();
    assert_eq!(again.account, plane.get(&account(&first)).await["metadata"]["uid"].as_str().unwrap());
    providers.set(&first, running());
    healthy(&plane, &path).await;

    // A network that is granted, and one that is taken away, count at once: annotations change no generation.
    for network in ["Runner", "Isolated"] {
        let annotations = json!({"metadata": {"annotations": {"ferroplane.io/network": network}}});
        plane.merge(&path, &annotations).await;
        wanted
            .wait_for(|wanted| wanted.get(&first).is_some_and(|asked| asked.network == network))
            .await
            .unwrap();
    }

    apply(&plane, "Provider", "cloud", "acme/provider-cloud:v1.1.0", &json!({})).await;
    let second = newest(&plane, 2).await;
    let is_replaced = |wanted: &BTreeMap<String, _>| wanted.len() == 1 && wanted.contains_key(&second);
    wanted.wait_for(is_replaced).await.unwrap();
    providers.set(&second, running());
    healthy(&plane, &path).await;
    plane.delete(&path).await;
    wanted.wait_for(BTreeMap::is_empty).await.unwrap();
    plane.until(&account(&second), Value::is_null).await;
}

#[tokio::test]
async fn provider_does_not_run_as_an_account_that_is_not_its_own() {
    let registry = registry(&json!({}));
    let providers = registry.run_providers();
    let mut plane = Plane::with_providers(&registry).await;
    let path = apply(&plane, "Provider", "cloud", "acme/provider-cloud:v1.0.0", &json!({})).await;
    let name = newest(&plane, 1).await;
    providers.wanted().wait_for(|wanted| wanted.contains_key(&name)).await.unwrap();
    plane.stop().await;
    plane.delete(&account(&name)).await;
    let theirs = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
    plane.apply(&account(&name), &theirs).await;
    plane.start().await;
    plane.until(&path, |it| message(it, "Healthy").contains("its revision does not control it")).await;
    providers.wanted().wait_for(BTreeMap::is_empty).await.unwrap();
}

#[tokio::test]
async fn kinds_of_a_provider_become_managed_definitions_and_its_configuration_does_not() {
    let registry = registry(&json!({}));
    let providers = registry.run_providers();
    let mut plane = Plane::with_providers(&registry).await;
    let path = apply(&plane, "Provider", "cloud", "acme/provider-cloud:v1.0.0", &json!({})).await;
    let first = newest(&plane, 1).await;
    let definition = plane
        .until(DEFINITION, |it| {
            condition(it, "Established").as_deref() == Some("True/EstablishedManagedResource")
        })
        .await;
    assert_eq!(definition["spec"]["state"], "Active", "nobody has to activate what cannot wait");
    assert_eq!(owners(&definition), [(first.clone(), true), ("cloud".to_owned(), false)]);
    let made = plane.get(&kind("buckets")).await;
    assert_eq!(owners(&made), [("buckets.cloud.acme.org".to_owned(), false), (first.clone(), true)]);
    let plain = plane.get(&kind("providerconfigs")).await;
    assert_eq!(owners(&plain), [(first.clone(), true), ("cloud".to_owned(), false)]);
    let revision = format!("{PKG}/providerrevisions/{first}");
    // The definitions are there a moment before their revision says so.
    let revision = plane.until(&revision, |it| it["status"]["objectRefs"].is_array()).await;
    let kinds: Vec<_> =
        revision["status"]["objectRefs"].as_array().unwrap().iter().map(|it| &it["kind"]).collect();
    assert_eq!(kinds, ["CustomResourceDefinition", "ManagedResourceDefinition"]);

    // A new version takes over the definition and, through it, the kind; nothing that exists of it goes.
    let bucket = json!({"apiVersion": "cloud.acme.org/v1", "kind": "Bucket", "metadata": {"name": "b"}});
    plane.apply("/apis/cloud.acme.org/v1/buckets/b", &bucket).await;
    apply(&plane, "Provider", "cloud", "acme/provider-cloud:v1.1.0", &json!({})).await;
    let second = newest(&plane, 2).await;
    providers.wanted().wait_for(|wanted| wanted.contains_key(&second)).await.unwrap();
    providers.set(&second, running());
    healthy(&plane, &path).await;
    let controls = |it: &Value| owners(it).contains(&(second.clone(), true));
    plane.until(&kind("buckets"), controls).await;
    assert!(!plane.get("/apis/cloud.acme.org/v1/buckets/b").await.is_null());
    plane.quiet().await;
    plane.restart().await;
    assert_eq!(plane.quiet().await, Vec::<String>::new());
}

#[tokio::test]
async fn kinds_that_were_installed_as_they_are_become_managed_without_anything_being_lost() {
    let registry = registry(&json!({}));
    let providers = registry.run_providers();
    registry.keep_definitions(true);
    let mut plane = Plane::with_providers(&registry).await;
    let path = apply(&plane, "Provider", "cloud", "acme/provider-cloud:v1.0.0", &json!({})).await;
    let first = newest(&plane, 1).await;
    providers.wanted().wait_for(|wanted| wanted.contains_key(&first)).await.unwrap();
    providers.set(&first, running());
    healthy(&plane, &path).await;
    assert!(plane.get(DEFINITION).await.is_null());
    let before = plane.get(&kind("buckets")).await;
    assert_eq!(owners(&before), [(first.clone(), true), ("cloud".to_owned(), false)]);
    plane.until("/apis/cloud.acme.org/v1", |it| !it.is_null()).await;
    let bucket = json!({"apiVersion": "cloud.acme.org/v1", "kind": "Bucket", "metadata": {"name": "b"}});
    plane.apply("/apis/cloud.acme.org/v1/buckets/b", &bucket).await;

    plane.stop().await;
    registry.keep_definitions(false);
    plane.start().await;
    plane
        .until(DEFINITION, |it| {
            condition(it, "Established").as_deref() == Some("True/EstablishedManagedResource")
        })
        .await;
    let after = plane.get(&kind("buckets")).await;
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    let definition = ("buckets.cloud.acme.org".to_owned(), false);
    assert_eq!(owners(&after), [(first, true), ("cloud".to_owned(), false), definition]);
    assert!(!plane.get("/apis/cloud.acme.org/v1/buckets/b").await.is_null());
}

#[tokio::test]
async fn provider_is_protected_while_resources_of_its_kinds_exist() {
    let registry = registry(&json!({}));
    registry.protect_providers();
    let _providers = registry.run_providers();
    let mut plane = Plane::with_providers(&registry).await;
    let path = apply(&plane, "Provider", "cloud", "acme/provider-cloud:v1.0.0", &json!({})).await;
    plane
        .until(DEFINITION, |it| {
            condition(it, "Established").as_deref() == Some("True/EstablishedManagedResource")
        })
        .await;
    let usages = "/apis/protection.crossplane.io/v1beta1/clusterusages";
    let usage = format!("{usages}/{}", protecting_usage_name("buckets.cloud.acme.org"));
    plane.quiet().await;
    assert!(plane.get(&usage).await.is_null(), "there is nothing to protect it for");

    let bucket = json!({"apiVersion": "cloud.acme.org/v1", "kind": "Bucket", "metadata": {"name": "b"}});
    plane.apply("/apis/cloud.acme.org/v1/buckets/b", &bucket).await;
    let made = plane.until(&usage, |it| condition(it, "Ready").as_deref() == Some("True/Available")).await;
    assert_eq!(made["spec"]["of"]["resourceRef"]["name"], "cloud");
    let is_in_use = |it: &Value| it["metadata"]["labels"][keys::IN_USE] == "true";
    plane.until(&path, is_in_use).await;
    plane.quiet().await;
    plane.restart().await;
    assert_eq!(plane.quiet().await, Vec::<String>::new(), "nothing changed");

    plane.delete("/apis/cloud.acme.org/v1/buckets/b").await;
    plane.until(&usage, Value::is_null).await;
    plane.until(&path, |it| !is_in_use(it)).await;
}
