//! Function packages that `up` installs and serves.

use tempfile::TempDir;

use super::images::{TestImage, machine};
use super::registry::TestRegistry;
use super::served::{META, package};
use crate::logs::{PLATFORM, THING};
use crate::peers::peer;
use crate::plane::Plane;
use crate::rollout::roll_out;

#[test]
fn an_upstream_function_is_installed_served_and_called() {
    let (Some(_), Some(_)) = (machine(), peer("kubectl")) else { return };
    let Some(auto_ready) = peer("function-auto-ready") else { return };
    let Some(registry) = TestRegistry::start(false) else { return };
    let image = registry.push(&package(&auto_ready, META), "acme/function-auto-ready:v0.5.1");
    let plane = Plane::start(TempDir::new().unwrap(), &["--data-dir", "data"]);
    let function = format!(
        "apiVersion: pkg.crossplane.io/v1\nkind: Function\nmetadata: {{name: program}}\nspec: {{package: '{image}'}}\n"
    );
    plane.told("kubectl apply -f -", &format!("{function}---{PLATFORM}"));
    plane.says("kubectl wait function/program --for=condition=Healthy --timeout=120s");
    let columns = plane.says("kubectl get functionrevisions -o jsonpath='{.items[0].status.conditions[?(@.type==\"RuntimeHealthy\")].message}'");
    assert_eq!(columns, "runs in a container on this machine");
    plane.says("kubectl wait xrd/things.acme.org --for=condition=Established --timeout=60s");
    plane.told("kubectl apply -f -", THING);
    plane.says("kubectl wait thing/a --for=condition=Ready --timeout=60s");
    // Nothing of it is left when the plane ends.
    let directory = plane.stop();
    assert!(directory.path().join("data/images/content").exists());
}

#[test]
fn function_in_a_container_is_rolled_out_by_labels() {
    let (Some(_), Some(_)) = (machine(), peer("kubectl")) else { return };
    let Some(auto_ready) = peer("function-auto-ready") else { return };
    let Some(registry) = TestRegistry::start(false) else { return };
    let image = package(&auto_ready, META);
    let images =
        ["v1.0.0", "v1.1.0"].map(|version| registry.push(&image, &format!("acme/function-own:{version}")));
    let plane = Plane::start(TempDir::new().unwrap(), &["--data-dir", "data"]);
    let versions = roll_out(&plane, "own", images.each_ref().map(String::as_str), "");
    assert_eq!(versions, ["v1.0.0", "v1.1.0"]);
}

/// As the second design writes it, but for the image.
fn alpha_platform(image: &str) -> String {
    let definition = PLATFORM.split("---").next().unwrap();
    format!(
        "{definition}---
apiVersion: apiextensions.crossplane.io/v2alpha1
kind: Composition
metadata:
  name: example
spec:
  compositeTypeRef: {{apiVersion: acme.org/v1, kind: Thing}}
  resources:
  - name: config
    base: {{apiVersion: v1, kind: ConfigMap, data: {{a: b}}}}
  functions:
  - name: my-cool-function
    type: Container
    container:
      image: {image}
"
    )
}

#[test]
fn the_design_s_manifests_run_and_what_programs_print_is_logged_with_step_and_xr() {
    let (Some(machine), Some(_)) = (machine(), peer("kubectl")) else { return };
    let Some(registry) = TestRegistry::start(false) else { return };
    let script = format!("echo hello from the image >&2; exec {}", super::LIST_LABELIZER);
    let image = TestImage::new(&machine, super::shell(&script));
    let image = registry.push(&image, "my-cool-function:0.1.0");
    let plane = Plane::start(TempDir::new().unwrap(), &["--data-dir", "data"]);
    plane.told("kubectl apply -f -", &alpha_platform(&image));
    plane.says("kubectl wait xrd/things.acme.org --for=condition=Established --timeout=60s");
    plane.told("kubectl apply -f -", THING);
    plane.says("kubectl wait thing/a --for=condition=Ready --timeout=60s");
    let composed = "kubectl get configmap -l crossplane.io/composite=a -o jsonpath='{.items[0].metadata.annotations.example\\.org/touched}'";
    assert_eq!(plane.says(composed), "yes");
    let stored = "kubectl get compositions.v1.apiextensions.crossplane.io example -o jsonpath='{.apiVersion} {.spec.functions[0].type}'";
    assert_eq!(plane.says(stored), "apiextensions.crossplane.io/v1 Container");
    let line = plane.until("hello from the image");
    assert!(line.contains("my-cool-function") && line.contains("Thing/default/a"), "{line}");
    plane.stop();
}

#[test]
fn package_of_a_program_that_is_no_server_is_installed_and_called() {
    let (Some(machine), Some(_)) = (machine(), peer("kubectl")) else { return };
    let Some(registry) = TestRegistry::start(false) else { return };
    let Some(image) = super::languages::push_jq_package(&machine, &registry) else { return };
    let plane = Plane::start(TempDir::new().unwrap(), &["--data-dir", "data"]);
    let function = format!(
        "apiVersion: pkg.crossplane.io/v1\nkind: Function\nmetadata: {{name: labelizer}}\nspec: {{package: '{image}'}}\n"
    );
    let want = "  - step: want\n    functionRef: {name: function-dummy}\n    input: {apiVersion: dummy.fn.crossplane.io/v1beta1, kind: Response, \
                response: {desired: {resources: {a: {resource: {apiVersion: v1, kind: ConfigMap}, ready: READY_TRUE}}}}}\n";
    let platform = PLATFORM
        .replace("name: program}", "name: labelizer}")
        .replace("  - {step: one", &format!("{want}  - {{step: one"));
    plane.told("kubectl apply -f -", &format!("{function}---{platform}"));
    plane.says("kubectl wait function/labelizer --for=condition=Healthy --timeout=120s");
    plane.says("kubectl wait xrd/things.acme.org --for=condition=Established --timeout=60s");
    plane.told("kubectl apply -f -", THING);
    plane.says("kubectl wait thing/a --for=condition=Ready --timeout=60s");
    let labels = "kubectl get configmap -l crossplane.io/composite=a -o jsonpath='{.items[0].metadata.labels.labelizer\\.xfn\\.crossplane\\.io/processed}'";
    assert_eq!(plane.says(labels), "true");
    plane.stop();
}
