//! Packages whose signatures cannot be read: what was verified goes on, and nothing else does.

use ferroplane_testkit::plane::sites::SITES;
use ferroplane_testkit::plane::{FakeRegistry, ImageSigner, Plane, condition};
use serde_json::{Value, json};

use super::late_answers::until_asked;
use super::signatures::{BUILT_IN, by_key, code, demand, trust};
use super::{PKG, apply, healthy, message, package_yaml, revisions};

const REPOSITORY: &str = "registry.example.org/crossplane-contrib/function-auto-ready";
const DOWN: &str = "cannot connect to registry.example.org";

/// A registry with the package of a function that is built in. Returns the digest, too.
fn registry() -> (FakeRegistry, String) {
    let registry = FakeRegistry::default();
    let package = package_yaml("Function", &json!({}), &[]);
    let digest = registry.push(&format!("registry.example.org/{BUILT_IN}"), &package);
    (registry, digest)
}

/// The path of the only revision of a Function.
async fn only_revision(plane: &Plane) -> String {
    let [revision] = &revisions(plane, "function").await[..] else { panic!("there is not one revision") };
    format!("{PKG}/functionrevisions/{}", revision["metadata"]["name"].as_str().unwrap())
}

async fn compose_sites(plane: &Plane) -> String {
    plane.define_sites().await;
    plane.compose_sites_of(&json!([{"step": "ready", "functionRef": {"name": "ready"}}])).await;
    plane.create_site("blog", "red").await;
    format!("{SITES}/blog")
}

fn is_composed(site: &Value) -> bool {
    condition(site, "Synced").as_deref() == Some("True/ReconcileSuccess")
}

/// Have an `ImageConfig` name a pull secret that no API server gives away.
async fn name_unreadable_pull_secret(plane: &Plane) {
    let config = json!({
        "apiVersion": "pkg.crossplane.io/v1beta1", "kind": "ImageConfig", "metadata": {"name": "pull"},
        "spec": {
            "matchImages": [{"prefix": "registry.example.org/"}],
            "registry": {"authentication": {"pullSecretRef": {"name": "no/keys"}}},
        },
    });
    plane.apply("/apis/pkg.crossplane.io/v1beta1/imageconfigs/pull", &config).await;
}

#[tokio::test]
async fn verified_function_goes_on_when_controllers_start_without_its_registry_and_another_policy_stops_it() {
    let (registry, digest) = registry();
    let ours = ImageSigner::generate();
    registry.sign(&digest, ours.sign(&digest));
    let mut plane = Plane::with_registry(&registry).await;
    trust(&plane, "ours", &ours).await;
    demand(&plane, &json!([by_key("ours")])).await;
    let path = apply(&plane, "Function", "ready", BUILT_IN, &json!({})).await;
    healthy(&plane, &path).await;
    let revision = only_revision(&plane).await;
    plane.quiet().await;
    // The registry keeps no signatures for those who ask, as a pod without a volume.
    plane.stop().await;
    registry.set_down(Some(DOWN));
    registry.asked();
    plane.start().await;
    until_asked(&registry, &format!("signatures {REPOSITORY}@{digest}")).await;
    let site = compose_sites(&plane).await;
    plane.until(&site, is_composed).await;
    plane.quiet().await;
    let after = plane.get(&revision).await;
    assert_eq!(
        condition(&after, "RevisionHealthy").as_deref(),
        Some("True/HealthyPackageRevision"),
        "{after}"
    );
    let package = plane.get(&path).await;
    assert_eq!(condition(&package, "Installed").as_deref(), Some("True/ActivePackageRevision"), "{package}");

    demand(&plane, &json!([by_key("nobody"), by_key("ours")])).await;
    plane.until(&revision, |it| code(it, "RevisionHealthy") == "PackageUnverified").await;
    plane.quiet().await;
    plane.merge(&site, &json!({"metadata": {"annotations": {"look": "again"}}})).await;
    plane.until(&site, |site| message(site, "Synced").contains("its package is refused: cannot use")).await;

    registry.set_down(None);
    healthy(&plane, &path).await;
}

#[tokio::test]
async fn kept_signatures_count_while_the_registry_is_away_also_if_it_is_always_asked() {
    let (registry, digest) = registry();
    registry.keep_signatures();
    let ours = ImageSigner::generate();
    registry.sign(&digest, ours.sign(&digest));
    let plane = Plane::with_registry(&registry).await;
    trust(&plane, "ours", &ours).await;
    demand(&plane, &json!([by_key("ours")])).await;
    let always = json!({"packagePullPolicy": "Always"});
    let path = apply(&plane, "Function", "ready", BUILT_IN, &always).await;
    healthy(&plane, &path).await;
    let revision = only_revision(&plane).await;
    let noted = plane.get(&revision).await["status"]["verification"].clone();
    assert!(noted.is_string(), "it is not noted what was verified");
    plane.quiet().await;
    registry.set_down(Some(DOWN));
    // What was verified is not known to satisfy this one.
    demand(&plane, &json!([by_key("nobody"), by_key("ours")])).await;
    let is_verified_again = |it: &Value| {
        let verification = &it["status"]["verification"];
        verification.is_string() && *verification != noted
    };
    let after = plane.until(&revision, is_verified_again).await;
    assert_eq!(
        condition(&after, "RevisionHealthy").as_deref(),
        Some("True/HealthyPackageRevision"),
        "{after}"
    );
}

#[tokio::test]
async fn refused_package_stays_refused_if_its_pull_secret_cannot_be_read() {
    let (registry, _) = registry();
    let plane = Plane::with_registry(&registry).await;
    trust(&plane, "ours", &ImageSigner::generate()).await;
    let path = apply(&plane, "Function", "ready", BUILT_IN, &json!({})).await;
    healthy(&plane, &path).await;
    let revision = only_revision(&plane).await;
    demand(&plane, &json!([by_key("ours")])).await;
    plane.until(&revision, |it| code(it, "RevisionHealthy") == "PackageUnverified").await;
    name_unreadable_pull_secret(&plane).await;
    for (object, condition) in [(&revision, "RevisionHealthy"), (&path, "Installed")] {
        let is_told = |it: &Value| message(it, condition).contains("cannot read Secret `no/keys`");
        let refused = plane.until(object, is_told).await;
        assert_eq!(code(&refused, condition), "PackageUnverified", "{refused}");
    }
}

#[tokio::test]
async fn verified_function_goes_on_if_its_pull_secret_cannot_be_read() {
    let (registry, digest) = registry();
    let ours = ImageSigner::generate();
    registry.sign(&digest, ours.sign(&digest));
    let plane = Plane::with_registry(&registry).await;
    trust(&plane, "ours", &ours).await;
    demand(&plane, &json!([by_key("ours")])).await;
    let path = apply(&plane, "Function", "ready", BUILT_IN, &json!({})).await;
    healthy(&plane, &path).await;
    let revision = only_revision(&plane).await;
    name_unreadable_pull_secret(&plane).await;
    plane.until(&revision, |it| code(it, "RevisionHealthy") == "PackageUnavailable").await;
    let site = compose_sites(&plane).await;
    plane.until(&site, is_composed).await;
}

#[tokio::test]
async fn refused_function_without_a_revision_composes_nothing_when_controllers_start() {
    let (registry, _) = registry();
    let mut plane = Plane::with_registry(&registry).await;
    trust(&plane, "ours", &ImageSigner::generate()).await;
    demand(&plane, &json!([by_key("ours")])).await;
    let path = apply(&plane, "Function", "ready", BUILT_IN, &json!({})).await;
    plane.until(&path, |package| code(package, "Installed") == "PackageUnverified").await;
    let site = compose_sites(&plane).await;
    let is_refused = |site: &Value| message(site, "Synced").contains("its package is not installed");
    plane.until(&site, is_refused).await;
    plane.restart().await;
    plane.quiet().await;
    let after = plane.get(&site).await;
    assert!(is_refused(&after), "{after}");
}
