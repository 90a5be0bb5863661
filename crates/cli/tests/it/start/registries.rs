//! Registries that a control plane on a cluster reaches by TLS.

use ferroplane_testkit::{DebianRegistry, Pki, RegistrySetup, skip};
use serde_json::{Value, json};

use super::ground::Ground;
use super::replica::Replica;
use crate::xpkg::Workshop;

const CONFIGURATIONS: &str = "/apis/pkg.crossplane.io/v1/configurations";

fn condition(object: &Value, kind: &str) -> Value {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.find(|condition| condition["type"] == kind).cloned().unwrap_or_default()
}

#[test]
fn package_of_a_registry_with_its_own_authority_is_installed_once_that_is_trusted() {
    let pki = Pki::new();
    let leaf = pki.issue(&["127.0.0.1"]);
    let setup = RegistrySetup { tls: Some(&leaf), ..RegistrySetup::default() };
    let Some(registry) = DebianRegistry::start(&setup) else { return };
    let ground = Ground::new();
    if !ground.is_embedded() {
        return skip("what it leaves behind is in the way of tests on a server that they share");
    }
    let workshop = Workshop::new();
    let manifest = "apiVersion: meta.pkg.crossplane.io/v1\nkind: Configuration\nmetadata: {name: platform}\n";
    workshop.write("package/crossplane.yaml", manifest).write("ca.pem", &pki.ca());
    workshop.says(&["build", "-f", "package", "-o", "platform.xpkg"]);
    let image = format!("{}/team/platform:v1.0.0", registry.address);
    workshop.says(&["push", &image, "-f", "platform.xpkg", "--certificate-authority", "ca.pem"]);
    let configuration = json!({
        "apiVersion": "pkg.crossplane.io/v1", "kind": "Configuration", "metadata": {"name": "platform"},
        "spec": {"package": image},
    });
    let path = format!("{CONFIGURATIONS}/platform");

    let replica = Replica::start(&ground, &["--enable-packages"]);
    replica.until("became the leader");
    ground.create(CONFIGURATIONS, &configuration);
    let refused = ground.until(&path, |it| condition(it, "Installed")["status"] == "False");
    let installed = condition(&refused, "Installed");
    assert_eq!(installed["code"], "PackageUnavailable", "{refused:#}");
    let message = installed["message"].as_str().unwrap();
    assert!(message.contains(&registry.address) && message.contains("certificate"), "{message}");
    replica.stop();

    let authority = workshop.path("ca.pem");
    let flags = ["--enable-packages", "--ca-bundle-path", authority.to_str().unwrap()];
    let replica = Replica::start(&ground, &flags);
    ground.until(&path, |it| condition(it, "Healthy")["status"] == "True");
    replica.stop();
}
