//! WebAssembly on a cluster: functions in packages and steps run in the process of the control plane.

use ferroplane_testkit::{Pki, skip};
use serde_json::{Value, json};

use super::ground::Ground;
use super::replica::Replica;
use crate::containers::registry::TestRegistry;
use crate::wasm::{PACKAGE, counting, image};

const FUNCTIONS: &str = "/apis/pkg.crossplane.io/v1/functions";
const REVISIONS: &str = "/apis/pkg.crossplane.io/v1/functionrevisions";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/crossplane-system/deployments";
const THINGS: &str = "/apis/acme.org/v1/namespaces/default/things";

fn condition(kind: &str, object: &Value) -> Value {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.find(|condition| condition["type"] == kind).cloned().unwrap_or_default()
}

/// A kind whose XRs are composed by a step that is an image, and by a function.
fn define(ground: &Ground, step: &str) {
    let extensions = "/apis/apiextensions.crossplane.io";
    let definition = json!({
        "apiVersion": "apiextensions.crossplane.io/v2", "kind": "CompositeResourceDefinition",
        "metadata": {"name": "things.acme.org"},
        "spec": {"scope": "Namespaced", "group": "acme.org", "names": {"kind": "Thing", "plural": "things"}, "versions": [
            {"name": "v1", "served": true, "referenceable": true, "schema": {"openAPIV3Schema": {"type": "object"}}},
        ]},
    });
    let input = json!({"apiVersion": "container.fn.ferroplane.io/v1alpha1", "kind": "Container", "image": step, "protocol": "RunFunction"});
    let composition = json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "things"},
        "spec": {"compositeTypeRef": {"apiVersion": "acme.org/v1", "kind": "Thing"}, "mode": "Pipeline", "pipeline": [
            {"step": "image", "functionRef": {"name": "function-container"}, "input": input},
            {"step": "package", "functionRef": {"name": "count"}},
        ]},
    });
    ground.create(&format!("{extensions}/v2/compositeresourcedefinitions"), &definition);
    ground.create(&format!("{extensions}/v1/compositions"), &composition);
}

#[test]
fn function_and_step_of_webassembly_run_in_the_control_plane_and_need_no_pods() {
    // Packages and steps trust the same authorities.
    let pki = Pki::new();
    let Some(registry) = TestRegistry::start_certified_by(&pki) else { return };
    let ground = Ground::new();
    if !ground.is_embedded() {
        return skip("what it leaves behind is in the way of tests on a server that they share");
    }
    let answer = |kind: &str| {
        format!(
            r#"{{"conditions": [{{"type": "{kind}", "status": "STATUS_CONDITION_TRUE", "reason": "Variables_"}}]}}"#
        )
    };
    let package =
        registry.push(&image(counting(&answer("ByPackage")), Some(PACKAGE)), "acme/function-count:v1");
    let step = registry.push(&image(counting(&answer("ByStep")), None), "acme/step:v1");
    let images = ground.path("images");
    let authority = ground.path("ca.pem");
    std::fs::write(&authority, pki.ca()).unwrap();
    let flags = [
        "--enable-packages",
        "--enable-alpha-functions",
        "--xpkg-cache-dir",
        images.to_str().unwrap(),
        "--ca-bundle-path",
        authority.to_str().unwrap(),
    ];
    let replica = Replica::start(&ground, &flags);
    replica.until("became the leader");
    let function = json!({
        "apiVersion": "pkg.crossplane.io/v1", "kind": "Function", "metadata": {"name": "count"}, "spec": {"package": package},
    });
    ground.create(FUNCTIONS, &function);
    let runs = "Runs as WebAssembly in this process; it declares to need nothing, and is granted nothing";
    ground.until(REVISIONS, |list| condition("RuntimeHealthy", &list["items"][0])["message"] == runs);
    ground.until(&format!("{FUNCTIONS}/count"), |it| condition("Healthy", it)["status"] == "True");
    assert_eq!(ground.get(DEPLOYMENTS)["items"], json!([]));

    define(&ground, &step);
    ground.create(
        THINGS,
        &json!({"apiVersion": "acme.org/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {}}),
    );
    ground.until(&format!("{THINGS}/a"), |thing| {
        ["ByStep", "ByPackage"].iter().all(|kind| condition(kind, thing)["reason"] == "Variables0")
    });
    assert!(images.join("steps/content").exists());
    replica.stop();
}
