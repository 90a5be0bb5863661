//! Functions in several languages, as the designs and our examples have them: programs in images that are run for every call.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use ferroplane_image::Execution;
use ferroplane_image::build::Layer;
use ferroplane_testkit::skip;
use serde_json::{Value, json};

use super::images::{Machine, TestImage, add_program, machine, run};
use super::registry::TestRegistry;
use super::{answer, sandbox};
use crate::logs::package;
use crate::peers::peer;
use crate::sandbox::{Sandbox, composition, dummy};

const LABELS: &str = "labelizer.xfn.crossplane.io/processed";

/// The entrypoint of the first design's example. In the design a quote is at the wrong place.
const JQ: &str = r#"(.desired.resources[] | .resource.metadata.labels) |= {"labelizer.xfn.crossplane.io/processed": "true"} + . | .desired"#;

/// What a step before wants.
const WANTED: &str = "{desired: {resources: {a: {resource: {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}}}}}}";

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/container-functions")
}

pub(super) fn execution(entrypoint: &[&str]) -> Execution {
    let entrypoint = Some(entrypoint.iter().map(|word| (*word).to_owned()).collect());
    Execution { entrypoint, user: Some("1000:1000".to_owned()), ..Execution::default() }
}

/// A program of this machine. Says so if it is not there.
fn program(path: &str) -> Option<PathBuf> {
    let found = Some(PathBuf::from(path)).filter(|path| path.exists());
    if found.is_none() {
        skip(&format!("there is no {path}"));
    }
    found
}

/// The interpreter that `python3` is on this machine. Says so if there is none.
fn python() -> Option<PathBuf> {
    let mut find = Command::new("python3");
    find.args(["-I", "-S", "-c", "import os, sys; print(os.path.realpath(sys.executable))"]);
    if Command::new("python3").arg("--version").output().is_err() {
        skip("there is no python3");
        return None;
    }
    Some(PathBuf::from(run(&mut find).trim()))
}

/// A shell and `jq`. If the peers have to be there, `jq` has to be, too: `cargo xtask test` installs it.
pub(super) fn jq_layer(machine: &Machine) -> Option<Layer> {
    let mut layer = machine.layer();
    let jq = program("/usr/bin/jq");
    assert!(jq.is_some() || std::env::var_os("FERROPLANE_REQUIRE_PEERS").is_none(), "jq is not there");
    add_program(&mut layer, &jq?);
    Some(layer)
}

/// Call an image once, and look at what it did to the resource.
#[track_caller]
fn labels(image: &TestImage, protocol: &str) {
    let sandbox = sandbox();
    image.export(&sandbox.path("layout"), &sandbox.path("image.tar"));
    let answer = answer(sandbox.run(&["functions", "run", "layout", "request.json", "--protocol", protocol]));
    let resource = &answer["desired"]["resources"]["a"]["resource"];
    assert_eq!(resource["metadata"]["labels"], json!({LABELS: "true"}), "{answer:#}");
    assert_eq!(resource["kind"], "ConfigMap", "{answer:#}");
}

#[test]
fn example_in_shell_and_jq_labels() {
    let Some(machine) = machine() else { return };
    let Some(mut layer) = jq_layer(&machine) else { return };
    layer.add_file(&examples().join("shell/function.sh"), "function.sh").unwrap();
    labels(&TestImage::of(vec![layer], execution(&["/bin/sh", "/function.sh"])), "run-function");
}

#[test]
fn example_in_python_labels() {
    let (Some(_), Some(python)) = (machine(), python()) else { return };
    let mut layer = Layer::new();
    add_program(&mut layer, &python);
    // What the program imports, and nothing else of the interpreter's library, which is known by `os`.
    let list = "import json, os, sys\nfor module in list(sys.modules.values()):\n    \
                name = getattr(module, '__file__', None)\n    if name: print(name)";
    let modules = run(Command::new(&python).args(["-I", "-S", "-c", list]));
    // `os.path` is a second name of another module.
    for module in modules.lines().collect::<BTreeSet<_>>() {
        layer.add_file(Path::new(module), module.trim_start_matches('/')).unwrap();
    }
    layer.add_file(&examples().join("python/function.py"), "function.py").unwrap();
    let entrypoint = execution(&[python.to_str().unwrap(), "-S", "/function.py"]);
    labels(&TestImage::of(vec![layer], entrypoint), "resource-list");
}

#[test]
fn example_in_go_labels() {
    let Some(_) = machine() else { return };
    if Command::new("go").arg("version").output().is_err() {
        return skip("Go is not installed");
    }
    let directory = tempfile::tempdir().unwrap();
    let built = directory.path().join("function");
    let mut go = Command::new("go");
    go.current_dir(examples().join("go")).env("CGO_ENABLED", "0").env("GOFLAGS", "-mod=readonly");
    run(go.args(["build", "-trimpath", "-buildvcs=false", "-o"]).arg(&built).arg("."));
    let mut layer = Layer::new();
    layer.add_file(&built, "function").unwrap();
    labels(&TestImage::of(vec![layer], execution(&["/function"])), "run-function");
}

/// The project by itself, linked so that it needs no libraries: it is all that the image holds.
#[test]
fn example_in_rust_labels() {
    let Some(_) = machine() else { return };
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests/built/labelizer");
    if !built.is_file() {
        return skip("labelizer was not built, `cargo xtask guests --examples` builds it");
    }
    let mut layer = Layer::new();
    layer.add_file(&built, "function").unwrap();
    labels(&TestImage::of(vec![layer], execution(&["/function"])), "run-function");
}

/// A Function package as the first design builds it: of an image that reads a request and writes an answer.
fn jq_package(machine: &Machine) -> Option<TestImage> {
    let meta = "apiVersion: meta.pkg.crossplane.io/v1\nkind: Function\nmetadata:\n  name: function-labelizer\n  annotations:\n    \
                ferroplane.io/protocol: RunFunction\nspec: {}\n";
    let mut manifests = Layer::new().annotate("io.crossplane.xpkg", "base");
    manifests.add_bytes(meta.as_bytes().to_vec(), "package.yaml", false).unwrap();
    Some(TestImage::of(vec![jq_layer(machine)?, manifests], execution(&["jq", JQ])))
}

pub(super) fn push_jq_package(machine: &Machine, registry: &TestRegistry) -> Option<String> {
    Some(registry.push(&jq_package(machine)?, "negz/function-labelizer:v0.1.0"))
}

#[test]
fn the_adapter_of_the_first_design_makes_a_function_of_jq() {
    let (Some(machine), Some(registry)) = (machine(), TestRegistry::start(false)) else { return };
    let Some(image) = push_jq_package(&machine, &registry) else { return };
    let functions = format!(
        "apiVersion: pkg.crossplane.io/v1\nkind: Function\nmetadata: {{name: function-labelizer}}\nspec: {{package: '{image}'}}\n"
    );
    let steps = [("want", "function-dummy", dummy(WANTED)), ("label", "function-labelizer", String::new())];
    let steps = steps.each_ref().map(|(step, function, input)| (*step, *function, input.as_str()));
    let sandbox =
        Sandbox::new().with("composition.yaml", &composition(&steps)).with("functions.yaml", &functions);
    let documents = sandbox.render(&[]).documents();
    assert_eq!(documents[1]["metadata"]["labels"][LABELS], "true", "{documents:#?}");

    let sandbox = self::sandbox();
    let answer = answer(sandbox.run(&["functions", "run", &image, "request.json"]));
    assert_eq!(answer["desired"]["resources"]["a"]["resource"]["metadata"]["labels"][LABELS], "true");
}

#[test]
fn package_as_a_later_step_does_not_bring_back_what_an_earlier_step_dropped() {
    let (Some(machine), Some(registry)) = (machine(), TestRegistry::start(false)) else { return };
    let observed = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: default, \
                    annotations: {crossplane.io/composition-resource-name: b}}\n";
    for protocol in ["ResourceList", "KRM"] {
        let echo = package(machine.layer(), "exec cat", &format!("ferroplane.io/protocol: {protocol}"));
        let image = registry.push(&echo, &format!("echo-{}:v1", protocol.to_lowercase()));
        let functions = format!(
            "apiVersion: pkg.crossplane.io/v1\nkind: Function\nmetadata: {{name: echo}}\nspec: {{package: '{image}'}}\n"
        );
        let wanted = dummy(WANTED);
        let documents = Sandbox::new()
            .with(
                "composition.yaml",
                &composition(&[("want", "function-dummy", wanted.as_str()), ("echo", "echo", "")]),
            )
            .with("functions.yaml", &functions)
            .with("observed.yaml", observed)
            .render(&["-o", "observed.yaml"])
            .documents();
        let names = documents.iter().map(|document| &document["metadata"]["annotations"]);
        let names: Vec<_> =
            names.filter_map(|them| them["crossplane.io/composition-resource-name"].as_str()).collect();
        assert_eq!(names, ["a"], "{protocol}: {documents:#?}");
    }
}

#[test]
fn function_on_the_framework_of_kustomize_runs() {
    let (Some(_), Some(krm)) = (machine(), peer("krm-set-labels")) else { return };
    let mut layer = Layer::new();
    layer.add_file(&krm, "function").unwrap();
    let image = TestImage::of(vec![layer], execution(&["/function"]));
    let run = |input: &Value| {
        let mut request: Value = serde_json::from_str(super::REQUEST).unwrap();
        request["input"] = input.clone();
        let sandbox = Sandbox::new().with("request.json", &request.to_string());
        image.export(&sandbox.path("krm"), &sandbox.path("krm.tar"));
        sandbox.run(&["functions", "run", "krm", "request.json", "--protocol", "krm"])
    };
    let ran = run(&json!({"labels": {"team": "shop"}}));
    assert!(ran.stderr.contains("labelling"), "{ran:?}");
    let answer = answer(ran);
    assert_eq!(
        answer["desired"]["resources"]["a"]["resource"]["metadata"]["labels"],
        json!({"team": "shop"})
    );
    let ran = run(&json!({"fail": "no labels today"}));
    assert_ne!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("no labels today"), "{ran:?}");
}

#[test]
fn function_on_the_framework_of_kustomize_is_a_step_of_a_render() {
    let (Some(_), Some(krm)) = (machine(), peer("krm-set-labels")) else { return };
    let Some(registry) = TestRegistry::start(false) else { return };
    let mut layer = Layer::new();
    layer.add_file(&krm, "function").unwrap();
    let image =
        registry.push(&TestImage::of(vec![layer], execution(&["/function"])), "krm-set-labels:v0.1.0");
    let render = |config: &str| {
        let composition = super::design(&image, "      protocol: KRM\n");
        let composition =
            composition.replace("kind: Settings\n", &format!("kind: Settings\n      {config}\n"));
        Sandbox::new().with("composition.yaml", &composition).render(&[])
    };
    let documents = render("labels: {team: shop}").documents();
    assert_eq!(documents[1]["metadata"]["labels"]["team"], "shop", "{documents:#?}");
    let said = render("fail: no labels today").fails_with(1);
    assert!(said.contains("`my-cool-function`") && said.contains("no labels today"), "{said}");
}

/// A function that kpt's own project has published, as it is.
#[test]
fn function_of_kpt_s_catalogue_is_a_step_of_a_render() {
    let (Some(_), Some(set_namespace)) = (machine(), peer("kpt-set-namespace")) else { return };
    let Some(registry) = TestRegistry::start(false) else { return };
    let mut layer = Layer::new();
    layer.add_file(&set_namespace, "function").unwrap();
    let image = TestImage::of(vec![layer], execution(&["/function"]));
    let image = registry.push(&image, "kpt-fn/set-namespace:v0.4.1");
    // Resources of an XR with a namespace are in that namespace, whatever functions return.
    let xr = "apiVersion: example.org/v1\nkind: App\nmetadata: {name: app}\n";
    let render = |config: &str| {
        let composition = super::design(&image, "      protocol: KRM\n");
        let settings = "      apiVersion: example.org/v1\n      kind: Settings\n";
        assert!(composition.contains(settings), "{composition}");
        let composition = composition.replace(settings, &format!("      {config}\n"));
        Sandbox::new()
            .with("xr.yaml", xr)
            .with("composition.yaml", &composition)
            .render(&["--include-function-results"])
    };
    let documents =
        render("{apiVersion: fn.kpt.dev/v1alpha1, kind: SetNamespace, namespace: shop}").documents();
    assert_eq!(documents[1]["metadata"]["namespace"], "shop", "{documents:#?}");
    // Its result is an event of the step.
    let events = documents.iter().filter_map(|document| document["message"].as_str());
    let of_the_step: Vec<_> =
        events.filter_map(|message| message.strip_prefix("Pipeline step \"my-cool-function\": ")).collect();
    assert_eq!(of_the_step, [r#"namespace "default" updated to "shop", 1 value(s) changed"#]);
    let said = render("{apiVersion: fn.kpt.dev/v1alpha1, kind: Other, namespace: shop}").fails_with(1);
    assert!(
        said.contains("`my-cool-function`") && said.contains("unknown functionConfig Kind=Other"),
        "{said}"
    );
}
