//! Packages whose signatures somebody wants verified.

pub(super) use ferroplane_testkit::plane::condition_code as code;
use ferroplane_testkit::plane::registry::NAMESPACE;
use ferroplane_testkit::plane::sites::SITES;
use ferroplane_testkit::plane::{FakeRegistry, ImageSigner, Plane, condition};
use ferroplane_testkit::{KeylessSigner, Sigstore};
use serde_json::{Value, json};

use super::late_answers::until_asked;
use super::{PKG, apply, healthy, message, package_yaml, revisions};

const IMAGE: &str = "registry.example.org/acme/function-own:v1.0.0";
/// A package whose function is built in.
pub(super) const BUILT_IN: &str = "crossplane-contrib/function-auto-ready:v0.5.0";
const CONFIG: &str = "/apis/pkg.crossplane.io/v1beta1/imageconfigs/verify";

fn function(about: &str) -> String {
    package_yaml("Function", &json!({"capabilities": ["composition", about]}), &[])
}

/// Demand signatures of these authorities for all images.
pub(super) async fn demand(plane: &Plane, authorities: &Value) {
    let config = json!({
        "apiVersion": "pkg.crossplane.io/v1beta1", "kind": "ImageConfig", "metadata": {"name": "verify"},
        "spec": {
            "matchImages": [{"prefix": "registry.example.org/"}],
            "verification": {"provider": "Cosign", "cosign": {"authorities": authorities}},
        },
    });
    plane.apply(CONFIG, &config).await;
}

pub(super) fn by_key(name: &str) -> Value {
    json!({"name": name, "key": {"secretRef": {"name": "keys", "key": name}, "hashAlgorithm": "sha256"}})
}

/// Have the public key of somebody in a Secret.
pub(super) async fn trust(plane: &Plane, name: &str, signer: &ImageSigner) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    plane.apply(&format!("/api/v1/namespaces/{NAMESPACE}"), &namespace).await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys", "namespace": NAMESPACE},
        "stringData": {name: signer.public_key()},
    });
    plane.apply(&format!("/api/v1/namespaces/{NAMESPACE}/secrets/keys"), &secret).await;
}

#[tokio::test]
async fn package_is_installed_only_if_somebody_who_is_trusted_has_signed_it() {
    let registry = FakeRegistry::default();
    let digest = registry.push(IMAGE, &function("one"));
    let (ours, other) = (ImageSigner::generate(), ImageSigner::generate());
    registry.sign(&digest, other.sign(&digest));
    let plane = Plane::with_registry(&registry).await;
    trust(&plane, "ours", &ours).await;
    demand(&plane, &json!([by_key("ours")])).await;
    let path = apply(&plane, "Function", "own", "acme/function-own:v1.0.0", &json!({})).await;
    let refused = plane.until(&path, |package| code(package, "Installed") == "PackageUnverified").await;
    let said = message(&refused, "Installed");
    assert!(said.contains("ImageConfig `verify`"), "{said}");
    assert!(said.contains("authority `ours`: no signature of the image was made with its key"), "{said}");
    let revisions = plane.get(&format!("{PKG}/functionrevisions")).await;
    assert_eq!(revisions["items"], json!([]), "nothing is made of an image that is not trusted");

    registry.sign(&digest, ours.sign(&digest));
    // A user who changes the policy has packages looked at again.
    demand(&plane, &json!([by_key("nobody"), by_key("ours")])).await;
    let package = plane
        .until(&path, |package| {
            condition(package, "Installed").as_deref() == Some("True/ActivePackageRevision")
        })
        .await;
    let applied = &package["status"]["appliedImageConfigRefs"];
    assert_eq!(*applied, json!([{"name": "verify", "reason": "VerifyImage"}]));
}

#[tokio::test]
async fn policy_that_comes_later_counts_for_what_is_installed_and_stops_it() {
    let registry = FakeRegistry::default();
    registry.push(IMAGE, &function("one"));
    let functions = registry.run_functions();
    let plane = Plane::with_registry(&registry).await;
    let path = apply(&plane, "Function", "own", "acme/function-own:v1.0.0", &json!({})).await;
    let mut wanted = functions.wanted();
    wanted.wait_for(|wanted| wanted.len() == 1).await.unwrap();
    demand(&plane, &json!([by_key("ours")])).await;
    wanted.wait_for(std::collections::BTreeMap::is_empty).await.unwrap();
    let refused = plane.until(&path, |package| code(package, "Installed") == "PackageUnverified").await;
    let said = message(&refused, "Installed");
    assert!(said.contains(&format!("there is no Secret `keys` in namespace `{NAMESPACE}`")), "{said}");
    let of_revisions = format!("{PKG}/functionrevisions");
    let is_stopped = |list: &Value| code(&list["items"][0], "RuntimeHealthy") == "PackageUnverified";
    plane.until(&of_revisions, is_stopped).await;
    plane.delete(CONFIG).await;
    wanted.wait_for(|wanted| wanted.len() == 1).await.unwrap();
    plane.until(&of_revisions, |list| !is_stopped(list)).await;
}

#[tokio::test]
async fn policy_that_comes_while_the_registry_is_away_stops_what_nobody_can_verify() {
    let registry = FakeRegistry::default();
    let digest = registry.push(IMAGE, &function("one"));
    let ours = ImageSigner::generate();
    registry.sign(&digest, ours.sign(&digest));
    let functions = registry.run_functions();
    let plane = Plane::with_registry(&registry).await;
    trust(&plane, "ours", &ours).await;
    let path = apply(&plane, "Function", "own", "acme/function-own:v1.0.0", &json!({})).await;
    let mut wanted = functions.wanted();
    wanted.wait_for(|wanted| wanted.len() == 1).await.unwrap();
    plane.quiet().await;
    registry.set_down(Some("cannot connect to registry.example.org"));
    demand(&plane, &json!([by_key("ours")])).await;
    wanted.wait_for(std::collections::BTreeMap::is_empty).await.unwrap();
    let refused = plane.until(&path, |package| code(package, "Installed") == "PackageUnverified").await;
    let said = message(&refused, "Installed");
    let why = "cannot be verified as ImageConfig `verify` demands: cannot connect to registry.example.org";
    assert!(said.contains(why), "{said}");
    let [revision] = &revisions(&plane, "function").await[..] else { panic!() };
    let revision = format!("{PKG}/functionrevisions/{}", revision["metadata"]["name"].as_str().unwrap());
    plane.until(&revision, |it| code(it, "RevisionHealthy") == "PackageUnverified").await;

    registry.set_down(None);
    wanted.wait_for(|wanted| wanted.len() == 1).await.unwrap();
}

/// An authority whose key is in a Secret that no API server gives away.
fn by_unreadable_key() -> Value {
    let mut authority = by_key("ours");
    authority["key"]["secretRef"]["name"] = "no/keys".into();
    authority
}

#[tokio::test]
async fn policy_whose_key_cannot_be_read_stops_what_nobody_can_verify() {
    let registry = FakeRegistry::default();
    let digest = registry.push(IMAGE, &function("one"));
    let ours = ImageSigner::generate();
    registry.sign(&digest, ours.sign(&digest));
    let functions = registry.run_functions();
    let plane = Plane::with_registry(&registry).await;
    trust(&plane, "ours", &ours).await;
    let path = apply(&plane, "Function", "own", "acme/function-own:v1.0.0", &json!({})).await;
    let mut wanted = functions.wanted();
    wanted.wait_for(|wanted| wanted.len() == 1).await.unwrap();
    demand(&plane, &json!([by_unreadable_key()])).await;
    wanted.wait_for(std::collections::BTreeMap::is_empty).await.unwrap();
    let refused = plane.until(&path, |package| code(package, "Installed") == "PackageUnverified").await;
    let said = message(&refused, "Installed");
    let why = "cannot be verified as ImageConfig `verify` demands: cannot read Secret `no/keys`";
    assert!(said.contains(why), "{said}");
    let [revision] = &revisions(&plane, "function").await[..] else { panic!() };
    let revision = format!("{PKG}/functionrevisions/{}", revision["metadata"]["name"].as_str().unwrap());
    plane.until(&revision, |it| code(it, "RevisionHealthy") == "PackageUnverified").await;

    demand(&plane, &json!([by_key("ours")])).await;
    wanted.wait_for(|wanted| wanted.len() == 1).await.unwrap();
}

#[tokio::test]
async fn built_in_function_whose_package_is_not_signed_is_refused() {
    let registry = FakeRegistry::default();
    let package = package_yaml("Function", &json!({}), &[]);
    let digest = registry.push(&format!("registry.example.org/{BUILT_IN}"), &package);
    let ours = ImageSigner::generate();
    let plane = Plane::with_registry(&registry).await;
    trust(&plane, "ours", &ours).await;
    demand(&plane, &json!([by_key("ours")])).await;
    let path = apply(&plane, "Function", "ready", BUILT_IN, &json!({})).await;
    plane.until(&path, |package| code(package, "Installed") == "PackageUnverified").await;
    plane.define_sites().await;
    plane.compose_sites_of(&json!([{"step": "ready", "functionRef": {"name": "ready"}}])).await;
    plane.create_site("blog", "red").await;
    let site = format!("{SITES}/blog");
    let is_not_installed =
        |site: &Value| message(site, "Synced").contains("its package is not installed: cannot use");
    plane.until(&site, is_not_installed).await;

    registry.sign(&digest, ours.sign(&digest));
    demand(&plane, &json!([by_key("nobody"), by_key("ours")])).await;
    healthy(&plane, &path).await;
    let is_composed = |site: &Value| condition(site, "Synced").as_deref() == Some("True/ReconcileSuccess");
    plane.until(&site, is_composed).await;

    // A policy that comes later counts for what is installed.
    demand(&plane, &json!([by_key("nobody")])).await;
    plane.until(&path, |package| code(package, "Installed") == "PackageUnverified").await;
    let [revision] = &revisions(&plane, "function").await[..] else { panic!() };
    let revision = format!("{PKG}/functionrevisions/{}", revision["metadata"]["name"].as_str().unwrap());
    plane.until(&revision, |it| code(it, "RevisionHealthy") == "PackageUnverified").await;
    plane.quiet().await;
    plane.merge(&site, &json!({"metadata": {"annotations": {"look": "again"}}})).await;
    let is_refused = |site: &Value| message(site, "Synced").contains("its package is refused: cannot use");
    plane.until(&site, is_refused).await;
}

#[tokio::test]
async fn built_in_function_does_not_stand_in_for_a_package_that_nobody_can_verify() {
    let registry = FakeRegistry::default();
    registry.set_down(Some("cannot connect to registry.example.org"));
    let plane = Plane::with_registry(&registry).await;
    demand(&plane, &json!([by_key("ours")])).await;
    let path = apply(&plane, "Function", "ready", BUILT_IN, &json!({})).await;
    let refused = plane.until(&path, |package| code(package, "Installed") == "PackageUnverified").await;
    let said = message(&refused, "Installed");
    assert!(said.contains("demands: cannot connect to registry.example.org"), "{said}");
    // Nor if a key cannot be read.
    demand(&plane, &json!([by_unreadable_key()])).await;
    let is_told = |package: &Value| message(package, "Installed").contains("cannot read Secret `no/keys`");
    let refused = plane.until(&path, is_told).await;
    assert_eq!(code(&refused, "Installed"), "PackageUnverified");
    // Without the policy, it does.
    plane.delete(CONFIG).await;
    plane.until(&path, |package| condition(package, "Healthy").as_deref() == Some("True/BuiltIn")).await;
}

#[tokio::test]
async fn key_that_is_replaced_counts_once_its_image_config_is_touched() {
    let registry = FakeRegistry::default();
    let digest = registry.push(IMAGE, &function("one"));
    let (old, new) = (ImageSigner::generate(), ImageSigner::generate());
    registry.sign(&digest, old.sign(&digest));
    let functions = registry.run_functions();
    let plane = Plane::with_registry(&registry).await;
    trust(&plane, "ours", &old).await;
    demand(&plane, &json!([by_key("ours")])).await;
    let path = apply(&plane, "Function", "own", "acme/function-own:v1.0.0", &json!({})).await;
    let mut wanted = functions.wanted();
    wanted.wait_for(|wanted| wanted.len() == 1).await.unwrap();
    plane.quiet().await;
    trust(&plane, "ours", &new).await;
    plane.merge(CONFIG, &json!({"metadata": {"annotations": {"key": "2"}}})).await;
    wanted.wait_for(std::collections::BTreeMap::is_empty).await.unwrap();
    plane.until(&path, |package| code(package, "Installed") == "PackageUnverified").await;
}

#[tokio::test]
async fn policy_that_is_replaced_while_signatures_are_fetched_decides_nothing() {
    let registry = FakeRegistry::default();
    let digest = registry.push(IMAGE, &function("one"));
    let ours = ImageSigner::generate();
    registry.sign(&digest, ours.sign(&digest));
    let plane = Plane::with_registry(&registry).await;
    trust(&plane, "ours", &ours).await;
    demand(&plane, &json!([by_key("ours")])).await;
    registry.hold(Some("signatures"));
    let path = apply(&plane, "Function", "own", "acme/function-own:v1.0.0", &json!({})).await;
    until_asked(&registry, &format!("signatures registry.example.org/acme/function-own@{digest}")).await;
    demand(&plane, &json!([by_key("other")])).await;
    // Until the control plane has seen the change, too.
    plane.quiet().await;
    registry.hold(None);
    plane.until(&path, |package| code(package, "Installed") == "PackageUnverified").await;
    plane.quiet().await;
    let revisions = plane.get(&format!("{PKG}/functionrevisions")).await;
    assert_eq!(revisions["items"], json!([]), "the former policy has installed it");
}

#[tokio::test]
async fn what_cannot_be_verified_is_refused_with_the_reason() {
    let registry = FakeRegistry::default();
    registry.push(IMAGE, &function("one"));
    let plane = Plane::with_registry(&registry).await;
    let attested = json!({"name": "robot", "keyless": {"identities": [{"subject": "robot"}]}, "attestations": [
        {"name": "built", "predicateType": "https://slsa.dev/provenance/v1"},
    ]});
    let nothing = json!({"name": "nobody"});
    demand(&plane, &json!([attested, nothing])).await;
    let path = apply(&plane, "Function", "own", "acme/function-own:v1.0.0", &json!({})).await;
    let refused = plane.until(&path, |package| code(package, "Installed") == "PackageUnverified").await;
    let said = message(&refused, "Installed");
    assert!(said.contains("authority `robot`: the image has no attestation"), "{said}");
    assert!(said.contains("authority `nobody`: it has neither a key nor identities"), "{said}");
}

#[tokio::test]
async fn package_with_a_demanded_attestation_is_installed_and_another_is_refused_with_the_reason() {
    const BILL: &str = "https://spdx.dev/Document";
    let registry = FakeRegistry::default();
    let digest = registry.push(IMAGE, &function("one"));
    let ours = ImageSigner::generate();
    registry.sign(&digest, ours.sign(&digest));
    registry.sign(&digest, ours.attest(&digest, BILL));
    let plane = Plane::with_registry(&registry).await;
    trust(&plane, "ours", &ours).await;
    let attested = |kind: &str| {
        let mut authority = by_key("ours");
        authority["attestations"] = json!([{"name": "built", "predicateType": kind}]);
        json!([authority])
    };
    demand(&plane, &attested("https://slsa.dev/provenance/v1")).await;
    let path = apply(&plane, "Function", "own", "acme/function-own:v1.0.0", &json!({})).await;
    let refused = plane.until(&path, |package| code(package, "Installed") == "PackageUnverified").await;
    let said = message(&refused, "Installed");
    let why = format!("no attestation of the image counts: one has the predicate type `{BILL}`");
    assert!(said.contains(&why), "{said}");
    demand(&plane, &attested("spdx")).await;
    let is_installed =
        |package: &Value| condition(package, "Installed").as_deref() == Some("True/ActivePackageRevision");
    plane.until(&path, is_installed).await;
}

/// Trust identities by the trusted root in a Secret.
async fn demand_identity(plane: &Plane, identity: &Value) {
    let config = json!({
        "apiVersion": "pkg.crossplane.io/v1beta1", "kind": "ImageConfig",
        "metadata": {"name": "verify", "annotations": {"ferroplane.io/trusted-root": "roots"}},
        "spec": {
            "matchImages": [{"prefix": "registry.example.org/"}],
            "verification": {"provider": "Cosign", "cosign": {"authorities": [
                {"name": "robot", "keyless": {"identities": [identity]}},
            ]}},
        },
    });
    plane.apply(CONFIG, &config).await;
}

#[tokio::test]
async fn package_is_installed_if_an_identity_that_the_policy_names_has_signed_it() {
    let registry = FakeRegistry::default();
    let digest = registry.push(IMAGE, &function("one"));
    let (sigstore, signer) = (Sigstore::new(), KeylessSigner::default());
    registry.sign(&digest, sigstore.sign(&signer, &digest).into());
    let plane = Plane::with_registry(&registry).await;
    let stranger = json!({"issuer": signer.issuer, "subjectRegExp": "^https://ci.example.org/other/"});
    demand_identity(&plane, &stranger).await;
    let path = apply(&plane, "Function", "own", "acme/function-own:v1.0.0", &json!({})).await;
    let no_root = format!("authority `robot`: there is no Secret `roots` in namespace `{NAMESPACE}`");
    plane.until(&path, |package| message(package, "Installed").contains(&no_root)).await;

    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    plane.apply(&format!("/api/v1/namespaces/{NAMESPACE}"), &namespace).await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "roots", "namespace": NAMESPACE},
        "stringData": {"trusted_root.json": sigstore.trusted_root().to_string()},
    });
    plane.apply(&format!("/api/v1/namespaces/{NAMESPACE}/secrets/roots"), &secret).await;
    // A user who changes the policy has packages looked at again.
    let another = json!({"issuer": signer.issuer, "subjectRegExp": "^https://ci.example.org/else/"});
    demand_identity(&plane, &another).await;
    let unknown =
        format!("authority `robot`: no signature of the image counts: one is of `{}`", signer.subject);
    plane.until(&path, |package| message(package, "Installed").contains(&unknown)).await;

    let ours = json!({"issuer": signer.issuer, "subjectRegExp": "^https://ci.example.org/acme/"});
    demand_identity(&plane, &ours).await;
    plane
        .until(&path, |package| {
            condition(package, "Installed").as_deref() == Some("True/ActivePackageRevision")
        })
        .await;
}

#[tokio::test]
async fn upgrade_that_is_not_signed_leaves_what_is_installed_in_use() {
    let registry = FakeRegistry::default();
    let signer = ImageSigner::generate();
    let image = |version: &str| format!("registry.example.org/acme/platform:{version}");
    let platform = |about: &str| package_yaml("Configuration", &json!({}), &[super::definition(about)]);
    let first = registry.push(&image("v1.0.0"), &platform("one"));
    registry.push(&image("v1.1.0"), &platform("two"));
    registry.sign(&first, signer.sign(&first));
    let plane = Plane::with_registry(&registry).await;
    trust(&plane, "ours", &signer).await;
    demand(&plane, &json!([by_key("ours")])).await;
    let path = apply(&plane, "Configuration", "platform", "acme/platform:v1.0.0", &json!({})).await;
    healthy(&plane, &path).await;
    apply(&plane, "Configuration", "platform", "acme/platform:v1.1.0", &json!({})).await;
    plane.until(&path, |package| code(package, "Installed") == "PackageUnverified").await;
    let revisions = plane.get(&format!("{PKG}/configurationrevisions")).await;
    let states: Vec<&Value> =
        revisions["items"].as_array().unwrap().iter().map(|it| &it["spec"]["desiredState"]).collect();
    assert_eq!(states, ["Active"]);
}
