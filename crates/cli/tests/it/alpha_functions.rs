//! Images and webhooks as functions, on the command line.

mod webhook;

use tempfile::TempDir;

use crate::logs::{PLATFORM, THING};
use crate::peers::peer;
use crate::plane::Plane;
use crate::sandbox::{Ran, Sandbox, composition};

/// As the alpha design has it.
const DESIGN: &str = "
apiVersion: apiextensions.crossplane.io/v2alpha1
kind: Composition
metadata:
  name: example
spec:
  compositeTypeRef:
    apiVersion: example.org/v1
    kind: App
  functions:
  - name: my-cool-function
    type: Container
    container:
      image: registry.example.org/my-cool-function:0.1.0
      timeout: 20s
";

const REQUEST: &str = r#"{"meta": {"tag": "t"}, "observed": {"composite": {"resource": {"kind": "App"}}},
    "desired": {"resources": {"a": {"resource": {"apiVersion": "v1", "kind": "ConfigMap"}, "ready": "READY_TRUE"}}}}"#;

fn with_composition(text: &str) -> Sandbox {
    Sandbox::new().with("composition.yaml", text)
}

#[test]
fn function_is_called_once_and_its_answer_printed() {
    let sandbox = Sandbox::new().with("request.json", REQUEST);
    for command in [["functions", "run"], ["function", "test"]] {
        let [group, verb] = command;
        let answer = sandbox.run(&[group, verb, "auto-ready", "request.json"]).ok();
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["desired"]["resources"]["a"]["ready"], "READY_TRUE");
    }
}

#[test]
fn request_is_read_from_standard_input() {
    let sandbox = Sandbox::new().with("request.json", REQUEST);
    let from_a_file = sandbox.run(&["functions", "run", "auto-ready", "request.json"]).ok();
    for arguments in [&["functions", "run", "auto-ready"][..], &["function", "test", "auto-ready", "-"]] {
        let mut command = sandbox.command(arguments);
        command.stdin(std::fs::File::open(sandbox.path("request.json")).unwrap());
        assert_eq!(Ran::from(command.output().unwrap()).ok(), from_a_file, "{arguments:?}");
    }
}

#[test]
fn request_that_is_none_is_explained() {
    let sandbox = Sandbox::new().with("empty.json", "").with("other.json", r#"{"desird": {}}"#);
    let said = |arguments: &[&str]| sandbox.run(&[&["functions", "run"], arguments].concat()).fails_with(1);
    assert!(said(&["auto-ready"]).contains("the request is empty: give a RunFunctionRequest"));
    assert!(said(&["auto-ready", "empty.json"]).contains("the request is empty"));
    assert!(said(&["auto-ready", "none.json"]).contains("cannot read the request in `none.json`"));
    assert!(said(&["auto-ready", "other.json"]).contains("unknown field `desird`"));
}

#[test]
fn plain_http_and_addresses_of_this_machine_are_refused() {
    let sandbox = Sandbox::new().with("request.json", REQUEST);
    let said = |url: &str| sandbox.run(&["functions", "run", url, "request.json"]).fails_with(1);
    assert!(said("http://example.org/").contains("over https only"));
    assert!(said("https://127.0.0.1:1/").contains("no AccessGrant allows to call it"));
}

/// A pipeline, in the version that the designs write.
const PIPELINE: &str = "
apiVersion: apiextensions.crossplane.io/v2alpha1
kind: Composition
metadata:
  name: things
spec:
  compositeTypeRef: {apiVersion: acme.org/v1, kind: Thing}
  mode: Pipeline
  pipeline:
  - step: want
    functionRef: {name: function-dummy}
    input:
      apiVersion: dummy.fn.crossplane.io/v1beta1
      kind: Response
      response: {desired: {resources: {a: {resource: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}}}}}
";

#[test]
fn pipeline_in_the_version_of_the_designs_is_rendered_and_validated() {
    let sandbox = with_composition(PIPELINE).with("xr.yaml", THING);
    let documents = sandbox.render(&[]).documents();
    assert_eq!(documents.len(), 2, "{documents:#?}");
    assert_eq!(documents[1]["kind"], "ConfigMap");
    sandbox.run(&["validate", "composition.yaml"]).ok();
}

#[test]
fn pipeline_in_the_version_of_the_designs_is_applied_and_stored_as_v1() {
    let Some(_) = peer("kubectl") else { return };
    let plane = Plane::start(TempDir::new().unwrap(), &["--data-dir", "data"]);
    let (definition, _) = PLATFORM.split_once("---").unwrap();
    plane.told("kubectl apply -f -", &format!("{definition}---{PIPELINE}"));
    plane.says("kubectl wait xrd/things.acme.org --for=condition=Established --timeout=60s");
    plane.told("kubectl apply -f -", THING);
    plane.says("kubectl wait thing/a --for=condition=Synced --timeout=60s");
    let stored = plane.says("kubectl get composition things -o jsonpath='{.apiVersion} {.spec.mode}'");
    assert_eq!(stored, "apiextensions.crossplane.io/v1 Pipeline");
    plane.stop();
}

#[test]
fn functions_of_a_composition_are_steps_whose_failure_has_their_name() {
    let said = with_composition(DESIGN).render(&[]).fails_with(1);
    let expected = "cannot run pipeline step `my-cool-function`: cannot run image `registry.example.org/my-cool-function:0.1.0`";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn chroot_and_network_take_a_grant_and_trust_as_well() {
    let chroot = DESIGN.replace("Container", "Chroot").replace("container:", "chroot:");
    let said = with_composition(&chroot).render(&[]).fails_with(1);
    assert!(said.contains("without a container: no AccessGrant allows that"), "{said}");
    let grant = "{apiVersion: ferroplane.io/v1alpha1, kind: AccessGrant, metadata: {name: g}, spec: {to: {namespaces: [default]}, \
        run: [{privileges: [Chroot], images: ['*']}]}}";
    let said =
        with_composition(&chroot).with("grant.yaml", grant).render(&["-e", "grant.yaml"]).fails_with(1);
    assert!(said.contains("pass --allow-commands if you trust it"), "{said}");
    let network = format!("{DESIGN}      network: {{policy: Runner}}\n");
    let said =
        with_composition(&network).with("grant.yaml", grant).render(&["-e", "grant.yaml"]).fails_with(1);
    assert!(said.contains("cannot let pipeline step `my-cool-function` use the network"), "{said}");
    let grant = grant.replace("Chroot", "Network");
    let said =
        with_composition(&network).with("grant.yaml", &grant).render(&["-e", "grant.yaml"]).fails_with(1);
    assert!(
        said.contains("it would use your network: pass --allow-commands if you trust these files"),
        "{said}"
    );
}

#[test]
fn webhooks_of_files_that_are_not_trusted_are_not_called() {
    let webhook = DESIGN.replace("type: Container", "type: Webhook").replace("container:", "webhook:");
    let webhook =
        webhook.replace("image: registry.example.org/my-cool-function:0.1.0", "url: https://127.0.0.1:1/");
    let said = with_composition(&webhook).render(&[]).fails_with(1);
    assert!(said.contains("pass --allow-commands if you trust these files"), "{said}");
    let said = with_composition(&webhook).render(&["--allow-commands"]).fails_with(1);
    assert!(said.contains("no AccessGrant allows to call it"), "{said}");
}

#[test]
fn mistakes_in_functions_have_their_line() {
    let wrong = DESIGN.replace("20s", "soon");
    let said = with_composition(&wrong).render(&[]).fails_with(1);
    assert!(said.contains("composition.yaml:15: function `my-cool-function`: container.timeout"), "{said}");
    let found = with_composition(&wrong).run(&["validate", "composition.yaml"]);
    assert_eq!(found.code, Some(3), "{found:?}");
    assert!(found.stdout.contains("spec.functions[0].container.timeout"), "{found:?}");
    with_composition(DESIGN).run(&["validate", "composition.yaml"]).ok();
}

#[test]
fn timeout_that_is_longer_than_a_composite_resource_can_wait_is_warned_of() {
    let sandbox = with_composition(&DESIGN.replace("20s", "5m"));
    let found = sandbox.run(&["validate", "composition.yaml"]);
    let expected = "spec.functions[0].container.timeout: 5m has the effect of 90s";
    assert!(found.stdout.contains(expected), "{found:?}");
    found.ok();
}

#[test]
fn versions_that_do_not_exist_are_refused() {
    let sandbox = with_composition(&DESIGN.replace("v2alpha1", "v3alpha1"));
    let said = sandbox.render(&[]).fails_with(1);
    let expected = "only in `apiextensions.crossplane.io/v1` and `apiextensions.crossplane.io/v2alpha1`";
    assert!(said.contains(expected), "{said}");
    let found = sandbox.run(&["validate", "composition.yaml"]);
    assert_eq!(found.code, Some(3), "{found:?}");
    let expected = "Composition (apiextensions.crossplane.io) has no version v3alpha1, only v1, v2alpha1";
    assert!(found.stdout.contains(expected), "{found:?}");
}

#[test]
fn composition_render_takes_the_files_in_either_order() {
    let sandbox = with_composition(&composition(&[("one", "function-auto-ready", "")]));
    let rendered = sandbox.render(&[]).ok();
    for files in [["xr.yaml", "composition.yaml"], ["composition.yaml", "xr.yaml"]] {
        let again = sandbox.run(&["composition", "render", files[0], files[1]]).ok();
        assert_eq!(again, rendered);
    }
}

#[test]
fn program_is_a_plugin_of_kubectl() {
    let sandbox = Sandbox::new();
    let plugin = sandbox.path("kubectl-ferroplane");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_ferroplane"), &plugin).unwrap();
    let output = std::process::Command::new(plugin).args(["functions", "run", "--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(help.contains("Usage: kubectl ferroplane functions run"), "{help}");
    assert!(help.contains("Examples:"), "{help}");
}
