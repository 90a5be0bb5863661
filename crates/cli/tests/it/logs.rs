//! `ferroplane logs`: what functions print that the control plane runs from packages.

use std::process::Command;

use ferroplane_image::Execution;
use ferroplane_image::build::Layer;
use ferroplane_testkit::Process;
use tempfile::TempDir;

use crate::containers::images::{TestImage, machine};
use crate::containers::registry::TestRegistry;
use crate::peers::peer;
use crate::plane::Plane;

pub(crate) const PLATFORM: &str = "
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: things.acme.org}
spec:
  group: acme.org
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions:
  - {name: v1, served: true, referenceable: true, schema: {openAPIV3Schema: {type: object}}}
---
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: things}
spec:
  compositeTypeRef: {apiVersion: acme.org/v1, kind: Thing}
  mode: Pipeline
  pipeline:
  - {step: one, functionRef: {name: program}}
";

pub(crate) const THING: &str =
    "apiVersion: acme.org/v1\nkind: Thing\nmetadata: {name: a, namespace: default}\nspec: {}\n";

/// A package with a shell that runs this script, for every call if it says so.
pub(crate) fn package(layer: Layer, script: &str, annotation: &str) -> TestImage {
    let meta = format!(
        "apiVersion: meta.pkg.crossplane.io/v1\nkind: Function\nmetadata: {{name: function-test, annotations: {{{annotation}}}}}\nspec: {{}}\n"
    );
    let mut manifests = Layer::new().annotate("io.crossplane.xpkg", "base");
    manifests.add_bytes(meta.into_bytes(), "package.yaml", false).unwrap();
    let entrypoint = Some(["/bin/sh", "-c", script, "sh"].map(str::to_owned).to_vec());
    let user = Some("65532:65532".to_owned());
    TestImage::of(vec![layer, manifests], Execution { entrypoint, user, ..Execution::default() })
}

fn install(plane: &Plane, name: &str, image: &str) {
    let function = format!(
        "apiVersion: pkg.crossplane.io/v1\nkind: Function\nmetadata: {{name: {name}}}\nspec: {{package: '{image}'}}\n"
    );
    plane.told("kubectl apply -f -", &function);
    plane.says(&format!("kubectl wait function/{name} --for=condition=Healthy --timeout=120s"));
}

/// Follows a function. What it prints can be heard as it comes.
fn follow(plane: &Plane, arguments: &str) -> Process {
    let line = format!("exec {} logs {arguments} --follow >&2", env!("CARGO_BIN_EXE_ferroplane"));
    let mut command = Command::new("sh");
    command.args(["-c", &line]).current_dir(plane.path("")).env("KUBECONFIG", plane.path("kubeconfig"));
    Process::spawn(command)
}

#[test]
fn lines_of_servers_and_of_programs_are_shown_and_followed() {
    let (Some(machine), Some(_)) = (machine(), peer("kubectl")) else { return };
    let (Some(auto_ready), Some(registry)) = (peer("function-auto-ready"), TestRegistry::start(false)) else {
        return;
    };
    let ferroplane = env!("CARGO_BIN_EXE_ferroplane");
    let mut layer = machine.layer();
    layer.add_file(&auto_ready, "server").unwrap();
    let server = package(layer, "echo hello; echo of the server >&2; exec /server \"$@\"", "");
    let server = registry.push(&server, "acme/server:v1");
    let script = "echo called >&2; exec cat";
    let program = package(machine.layer(), script, "ferroplane.io/protocol: RunFunction");
    let program = registry.push(&program, "acme/program:v1");
    let plane = Plane::start(TempDir::new().unwrap(), &["--data-dir", "data"]);
    install(&plane, "server", &server);
    let said = plane.says(&format!("{ferroplane} logs function/server --tail 100"));
    // They come by two pipes, in any order.
    assert!(said.contains("hello\n") && said.contains("of the server\n"), "{said}");

    install(&plane, "program", &program);
    let revision = plane.says(
        "kubectl get functionrevisions -l pkg.crossplane.io/package=program -o jsonpath='{.items[0].metadata.name}'",
    );
    assert_eq!(plane.says(&format!("{ferroplane} logs functionrevision/{revision}")), "");
    let mut following = follow(&plane, "function/program");
    plane.told("kubectl apply -f -", PLATFORM);
    plane.says("kubectl wait xrd/things.acme.org --for=condition=Established --timeout=60s");
    plane.told("kubectl apply -f -", THING);
    following.lines_until("a line of the function", |line| line == "called");
    let said = plane.says(&format!("{ferroplane} logs function/program --tail 1"));
    assert_eq!(said, "called\n");

    let said = plane.fails(&format!("{ferroplane} logs function/none"), "");
    assert!(said.contains("there is no Function `none` with an active revision"), "{said}");
    let said = plane.fails(&format!("{ferroplane} logs functionrevision/none-1"), "");
    assert!(said.contains("does not run `none-1` from its package"), "{said}");
    // The plane ends though something follows, and so do they.
    plane.stop();
    assert!(following.wait().success());
}
