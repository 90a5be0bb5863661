//! Compositions with scripts in Starlark, on the command line. Skipped, and the skip is printed, where there is no interpreter in the
//! binary (`cargo xtask guests`, then build again with `--features wasm`).

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use ferroplane_testkit::skip;
use serde_json::Value;
use tempfile::TempDir;

use crate::logs::{PLATFORM, THING};
use crate::peers::peer;
use crate::plane::{self, Plane};
use crate::sandbox::{Ran, Sandbox};

/// A Composition with this script.
fn composition(script: &str, more: &str) -> String {
    let script = script.replace('\n', "\n          ");
    format!(
        "apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata:
  name: app
spec:
  compositeTypeRef:
    apiVersion: example.org/v1
    kind: App
  mode: Pipeline
  pipeline:
  - step: compose
    functionRef:
      name: function-starlark
    input:
      apiVersion: starlark.fn.crossplane.io/v1alpha1
      kind: StarlarkInput
      spec:
        source: |
          {script}
{more}"
    )
}

/// Whether there is an interpreter. It is compiled once, and kept for all tests: that takes seconds.
static IS_THERE: LazyLock<bool> = LazyLock::new(|| {
    let sandbox = Sandbox::new().with("composition.yaml", &composition("pass", ""));
    let is_there = !run_with_cache(&sandbox, RENDER).stderr.contains("has no interpreter of Starlark");
    if !is_there {
        skip("there is no interpreter of Starlark in this binary, `cargo xtask guests` builds it");
    }
    is_there
});

/// Whether there is an interpreter in the binary.
pub(crate) fn is_there() -> bool {
    *IS_THERE
}

/// Where compiled interpreters are kept.
pub(crate) fn cache() -> PathBuf {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/guests-cache");
    std::fs::create_dir_all(&cache).unwrap();
    cache.canonicalize().unwrap()
}

/// Runs the binary. Nothing if it has no interpreter.
pub(crate) fn run(sandbox: &Sandbox, arguments: &[&str]) -> Option<Ran> {
    IS_THERE.then(|| run_with_cache(sandbox, arguments))
}

fn run_with_cache(sandbox: &Sandbox, arguments: &[&str]) -> Ran {
    let mut command = sandbox.command(arguments);
    command.env("XDG_CACHE_HOME", cache()).output().unwrap().into()
}

const RENDER: &[&str] = &["render", "xr.yaml", "composition.yaml"];

#[test]
fn script_composes() {
    let script = "Resource('config', {'apiVersion': 'v1', 'kind': 'ConfigMap', 'data': {'size': get(oxr, 'spec.size')}})";
    let sandbox = Sandbox::new().with("composition.yaml", &composition(script, ""));
    let Some(ran) = run(&sandbox, RENDER) else { return };
    assert!(ran.ok().contains("size: small"));
}

#[test]
fn modules_are_loaded_from_a_directory_beside_the_composition() {
    let script = "load('names.star', 'named')\nResource('config', named('x'))";
    let text = composition(script, "        modulePaths: [/scripts/lib]\n");
    let module =
        "def named(name):\n  return {'apiVersion': 'v1', 'kind': 'ConfigMap', 'data': {'name': name}}\n";
    let sandbox = Sandbox::new().with("composition.yaml", &text).with("lib/names.star", module);
    let Some(ran) = run(&sandbox, RENDER) else { return };
    assert!(ran.ok().contains("name: x"));

    let missing = Sandbox::new().with("composition.yaml", &text);
    let said = run(&missing, RENDER).unwrap().fails_with(1);
    assert!(
        said.contains("composition.yaml:21: there is no directory `scripts/lib` beside this file"),
        "{said}"
    );
}

#[test]
fn module_composes_from_fields_of_the_composite_resource() {
    let script = "load('parts.star', '*')\nload('parts.star', parts = '*')\nconfig('a')\nparts.config('b')";
    let text = composition(script, "        modulePaths: [lib]\n");
    let module = "def config(name):\n  data = {'size': oxr.spec.size, 'zone': oxr.spec.zone}\n  \
                  return Resource(name, {'apiVersion': 'v1', 'kind': 'ConfigMap', 'data': data})\n";
    let sandbox = Sandbox::new().with("composition.yaml", &text).with("lib/parts.star", module);
    let Some(ran) = run(&sandbox, RENDER) else { return };
    let rendered = ran.ok();
    assert_eq!(rendered.matches("\nkind: ConfigMap").count(), 2, "{rendered}");
    assert!(rendered.contains("data:\n  size: small\n"), "{rendered}");
    assert!(!rendered.contains("zone"), "a field that is missing is left out: {rendered}");
}

#[test]
fn validate_reports_syntax_errors_at_their_line() {
    if !*IS_THERE {
        return;
    }
    let text = composition("x = 1\ndef f(:\n  pass", "        modulePaths: [lib]\n");
    let sandbox = Sandbox::new().with("composition.yaml", &text).with("lib/names.star", "x = 1\n\ny = = 2\n");
    let ran = run(&sandbox, &["validate", "composition.yaml", "-o", "json"]).unwrap();
    let found: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
    let text = found.to_string();
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(text.contains("spec.pipeline[0].input.spec.source: "), "{text}");
    assert!(text.contains("\"line\":20"), "{text}");
    assert!(text.contains("spec.modulePaths[0]: names.star:3: "), "{text}");

    let good = Sandbox::new().with("composition.yaml", &composition("fatal('not run')", ""));
    assert_eq!(run(&good, &["validate", "composition.yaml"]).unwrap().code, Some(0));
}

#[test]
fn failure_names_the_step_and_the_reason() {
    for (script, reason) in [
        ("x = 1 + 'a'", "cannot run the script: main.star:1:5"),
        ("fatal('there is no region')", "there is no region"),
        ("x = [0] * (1 << 30)", "cannot run the script"),
        ("def f():\n  for i in range(1000000000):\n    pass\nf()", "cannot run the script"),
    ] {
        let sandbox = Sandbox::new().with("composition.yaml", &composition(script, ""));
        let Some(ran) = run(&sandbox, RENDER) else { return };
        let said = ran.fails_with(3);
        assert!(said.contains("step `compose`") && said.contains(reason), "{script}: {said}");
    }
}

#[test]
fn robots_are_composed_by_a_script_as_by_a_template() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/robots");
    let at = |name: &str| example.join(name).to_str().unwrap().to_owned();
    let sandbox = Sandbox::new();
    for more in [vec![], vec!["-o".to_owned(), at("observed.yaml")]] {
        let render = |composition: &str| {
            let mut arguments = vec!["render".to_owned(), at("xr.yaml"), at(composition)];
            arguments.extend(more.clone());
            run(&sandbox, &arguments.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let Some(script) = render("composition-starlark.yaml") else { return };
        let script = script.ok();
        assert_eq!(script, render("composition.yaml").unwrap().ok());
        assert_eq!(script.matches("kind: Robot").count(), 5 * 2, "{script}");
    }
}

#[test]
fn dependency_cannot_be_deleted_before_what_depends_on_it() {
    let (true, Some(_)) = (is_there(), peer("kubectl")) else { return };
    let script = "def config(name):\n  \
                    return {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': name}, 'data': {'a': 'b'}}\n\
                  first = Resource('first', config('first'), ready = True)\n\
                  Resource('second', config('second'), ready = True, depends_on = [first])";
    let composition =
        composition(script, "").replace("example.org/v1", "acme.org/v1").replace("App", "Thing");
    let definition = PLATFORM.split("---").next().unwrap();
    let directory = TempDir::new().unwrap();
    let mut up = plane::ferroplane(directory.path(), &["up", "--listen", "127.0.0.1:0"]);
    up.args(["--kubeconfig", "kubeconfig", "--data-dir", "data"]).env("XDG_CACHE_HOME", cache());
    let plane = Plane::run_by(directory, up);
    plane.told("kubectl apply -f -", &format!("{definition}---\n{composition}"));
    plane.says("kubectl wait xrd/things.acme.org --for=condition=Established --timeout=60s");
    plane.told("kubectl apply -f -", THING);
    plane.until_used(1);

    let said = plane.fails("kubectl delete configmap first", "");
    assert!(said.contains("in-use by 1 usage"), "{said}");
    plane.says("kubectl delete thing/a --timeout=60s");
    plane.says("kubectl wait configmap/first configmap/second --for=delete --timeout=60s");
    assert_eq!(plane.says("kubectl get usages.protection.crossplane.io -A -o name"), "");
    plane.stop();
}

#[test]
fn function_is_documented() {
    let text = Sandbox::new().run(&["functions", "explain", "starlark", "--recursive"]).ok();
    assert!(text.contains("modulePaths") && text.contains("scriptConfigRef"), "{text}");
}

#[test]
#[cfg(not(feature = "wasm"))]
fn build_without_webassembly_says_how_to_get_one() {
    let sandbox = Sandbox::new().with("composition.yaml", &composition("pass", ""));
    let said = sandbox.run(RENDER).fails_with(3);
    assert!(said.contains("cargo xtask guests"), "{said}");
}
