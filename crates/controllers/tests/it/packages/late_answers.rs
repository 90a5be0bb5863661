//! A registry that answers late: what was decided about a state that is no more is dropped.

use std::time::Duration;

use ferroplane_engine::packages::ResolveOptions;
use ferroplane_testkit::plane::{FakeRegistry, Plane, condition};
use serde_json::{Value, json};

use super::{LOCK, PKG, XRD, apply, configuration, definition, healthy, package_yaml, revisions};

/// Wait until the registry was asked this.
pub(super) async fn until_asked(registry: &FakeRegistry, question: &str) {
    let asking = async {
        while !registry.asked().iter().any(|asked| asked == question) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let asked = tokio::time::timeout(Duration::from_secs(30), asking).await;
    asked.unwrap_or_else(|_| panic!("nobody asked: {question}"));
}

#[tokio::test]
async fn package_that_is_edited_while_its_registry_is_asked_gets_no_revision_of_the_former_image() {
    let registry = FakeRegistry::default();
    for version in ["v1.0.0", "v1.1.0"] {
        let image = format!("registry.example.org/acme/platform:{version}");
        registry.push(&image, &configuration(version, &json!({})));
    }
    let plane = Plane::with_registry(&registry).await;
    registry.hold(Some("resolve"));
    let path = apply(&plane, "Configuration", "platform", "acme/platform:v1.0.0", &json!({})).await;
    until_asked(&registry, "resolve registry.example.org/acme/platform:v1.0.0").await;
    apply(&plane, "Configuration", "platform", "acme/platform:v1.1.0", &json!({})).await;
    registry.hold(None);
    healthy(&plane, &path).await;
    plane.quiet().await;
    let all = revisions(&plane, "configuration").await;
    let images: Vec<_> = all.iter().map(|revision| revision["spec"]["image"].as_str().unwrap()).collect();
    assert_eq!(images, ["registry.example.org/acme/platform:v1.1.0"]);
}

#[tokio::test]
async fn revision_that_is_deactivated_while_its_image_is_fetched_writes_nothing() {
    let registry = FakeRegistry::default();
    // Without labels and annotations: the revision is not written before its objects are.
    let manifest = json!({
        "apiVersion": "meta.pkg.crossplane.io/v1", "kind": "Configuration", "metadata": {"name": "p"}, "spec": {},
    });
    let package = [manifest, definition("one")].map(|document| document.to_string()).join("\n---\n");
    let digest = registry.push("registry.example.org/acme/platform:v1.0.0", &package);
    let plane = Plane::with_registry(&registry).await;
    registry.hold(Some("fetch"));
    apply(&plane, "Configuration", "platform", "acme/platform:v1.0.0", &json!({})).await;
    until_asked(&registry, &format!("fetch registry.example.org/acme/platform@{digest}")).await;
    let [revision] = &revisions(&plane, "configuration").await[..] else { panic!() };
    // Otherwise the policy would activate it again.
    let manual = json!({"revisionActivationPolicy": "Manual"});
    apply(&plane, "Configuration", "platform", "acme/platform:v1.0.0", &manual).await;
    let path = format!("{PKG}/configurationrevisions/{}", revision["metadata"]["name"].as_str().unwrap());
    plane.merge(&path, &json!({"spec": {"desiredState": "Inactive"}})).await;
    registry.hold(None);
    plane
        .until(&path, |it| condition(it, "RevisionHealthy").as_deref() == Some("True/HealthyPackageRevision"))
        .await;
    plane.quiet().await;
    assert!(plane.get(XRD).await.is_null(), "a revision that is not active has written its objects");
}

#[tokio::test]
async fn dependency_that_a_user_moves_while_its_tags_are_listed_stays_where_the_user_moved_it() {
    let registry = FakeRegistry::default();
    registry.allow(ResolveOptions { upgrades: true, ..ResolveOptions::default() });
    for version in ["v1.0.0", "v1.1.0", "v1.2.0"] {
        let package =
            package_yaml("Provider", &json!({"crossplane": {"version": format!(">=v1, !={version}")}}), &[]);
        registry.push(&format!("registry.example.org/acme/provider-cloud:{version}"), &package);
    }
    let depends = json!({"dependsOn": [{"provider": "registry.example.org/acme/provider-cloud", "version": ">=v1.1.0"}]});
    registry.push("registry.example.org/acme/platform:v1.0.0", &configuration("one", &depends));
    let plane = Plane::with_registry(&registry).await;
    let has = |version: &'static str| {
        move |lock: &Value| {
            let packages = lock["packages"].as_array().cloned().unwrap_or_default();
            packages.iter().any(|package| package["version"] == version)
        }
    };
    let provider = apply(&plane, "Provider", "cloud", "acme/provider-cloud:v1.0.0", &json!({})).await;
    plane.until(LOCK, has("v1.0.0")).await;
    registry.hold(Some("tags"));
    let platform = apply(&plane, "Configuration", "platform", "acme/platform:v1.0.0", &json!({})).await;
    until_asked(&registry, "tags registry.example.org/acme/provider-cloud").await;
    apply(&plane, "Provider", "cloud", "acme/provider-cloud:v1.2.0", &json!({})).await;
    plane.until(LOCK, has("v1.2.0")).await;
    registry.hold(None);
    healthy(&plane, &platform).await;
    plane.quiet().await;
    let image = &plane.get(&provider).await["spec"]["package"];
    assert_eq!(*image, "registry.example.org/acme/provider-cloud:v1.2.0");
}

#[tokio::test]
async fn registry_that_does_not_answer_holds_no_dependency_of_another_package() {
    let registry = FakeRegistry::default();
    let depends_on = |name: &str, about: &str| {
        registry.push(
            &format!("registry.example.org/acme/{name}:v1.0.0"),
            &package_yaml("Provider", &json!({"crossplane": {"version": ">=v1"}}), &[]),
        );
        let dependency =
            json!({"provider": format!("registry.example.org/acme/{name}"), "version": ">=v1.0.0"});
        let package = package_yaml("Configuration", &json!({"dependsOn": [dependency]}), &[]);
        registry.push(&format!("registry.example.org/acme/{about}:v1.0.0"), &package);
    };
    depends_on("provider-slow", "one");
    depends_on("provider-fast", "two");
    let plane = Plane::with_registry(&registry).await;
    let slow = "tags registry.example.org/acme/provider-slow";
    registry.hold(Some(slow));
    let one = apply(&plane, "Configuration", "one", "acme/one:v1.0.0", &json!({})).await;
    until_asked(&registry, slow).await;
    // The lock changes while one registry is still to answer.
    let two = apply(&plane, "Configuration", "two", "acme/two:v1.0.0", &json!({})).await;
    healthy(&plane, &two).await;
    registry.hold(None);
    healthy(&plane, &one).await;
    let asked = registry.asked();
    assert!(!asked.iter().any(|asked| asked == slow), "it was asked already: {asked:?}");
}
