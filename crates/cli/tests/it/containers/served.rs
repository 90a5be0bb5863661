//! Function packages: gRPC servers in containers, made of functions that we did not write.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use ferroplane_image::Execution;
use ferroplane_image::build::Layer;
use serde_json::Value;

use super::images::{TestImage, add_files, libraries, machine, run};
use super::registry::TestRegistry;
use crate::peers::{PATCHES, TEMPLATE, peer};
use crate::sandbox::{Sandbox, composition, dummy};

pub(super) const META: &str =
    "apiVersion: meta.pkg.crossplane.io/v1\nkind: Function\nmetadata: {name: function-test}\nspec: {}\n";

/// A package as upstream's tools build it: a layer with the server, and a layer with the manifests.
pub(super) fn package(server: &Path, meta: &str) -> TestImage {
    server_image(server, "function", Some(manifests(meta)))
}

/// A package whose process has a name that no other one on this machine has.
pub(super) fn package_named(program: &str, server: &Path) -> TestImage {
    server_image(server, program, Some(manifests(META)))
}

/// A package whose program is in another image, if anywhere.
pub(super) fn package_without_program(meta: &str) -> TestImage {
    TestImage::of(vec![manifests(meta)], Execution::default())
}

/// An image of a server that is no package.
pub(crate) fn program(server: &Path) -> TestImage {
    server_image(server, "function", None)
}

fn server_image(server: &Path, name: &str, manifests: Option<Layer>) -> TestImage {
    let mut program = Layer::new();
    program.add_file(server, name).unwrap();
    let entrypoint = Some(vec![format!("/{name}")]);
    let user = Some("65532:65532".to_owned());
    let layers = [program].into_iter().chain(manifests).collect();
    TestImage::of(layers, Execution { entrypoint, user, ..Execution::default() })
}

/// The layer that makes an image a package.
fn manifests(meta: &str) -> Layer {
    let mut manifests = Layer::new().annotate("io.crossplane.xpkg", "base");
    manifests.add_bytes(meta.as_bytes().to_vec(), "package.yaml", false).unwrap();
    manifests
}

fn functions(package: &str, annotation: &str) -> String {
    format!(
        "apiVersion: pkg.crossplane.io/v1\nkind: Function\nmetadata:\n  name: ready\n  annotations:\n    {annotation}\n\
         spec:\n  package: {package}\n"
    )
}

fn pipeline() -> String {
    let desired = "{desired: {resources: {a: {resource: {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}}}}}}";
    composition(&[("want", "function-dummy", &dummy(desired)), ("ready", "ready", "")])
}

#[test]
fn an_upstream_function_is_pulled_and_served_for_a_render() {
    let (Some(_), Some(auto_ready)) = (machine(), peer("function-auto-ready")) else { return };
    let Some(registry) = TestRegistry::start(false) else { return };
    let image = registry.push(&package(&auto_ready, META), "function-auto-ready:v0.5.1");
    for annotation in ["ferroplane.io/native: 'false'", "render.crossplane.io/runtime: Docker"] {
        let sandbox = Sandbox::new()
            .with("composition.yaml", &pipeline())
            .with("functions.yaml", &functions(&image, annotation))
            .with("observed.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default, annotations: {crossplane.io/composition-resource-name: a}}\n");
        let documents = sandbox.render(&["-o", "observed.yaml"]).documents();
        assert_eq!(documents.len(), 2, "{documents:#?}");
        let conditions = documents[0]["status"]["conditions"].as_array().unwrap();
        let ready = conditions.iter().find(|condition| condition["type"] == "Ready").unwrap();
        assert_eq!(ready["status"], "True", "{documents:#?}");
    }
}

#[test]
fn upstream_functions_that_compose_are_served_from_images() {
    let (Some(_), Some(registry)) = (machine(), TestRegistry::start(false)) else { return };
    for (name, input) in [("function-patch-and-transform", PATCHES), ("function-go-templating", TEMPLATE)] {
        let Some(server) = peer(name) else { return };
        let image = registry.push(&package(&server, META), &format!("{name}:v0.1.0"));
        let sandbox = Sandbox::new()
            .with("composition.yaml", &composition(&[("compose", "ready", input)]))
            .with("functions.yaml", &functions(&image, "ferroplane.io/native: 'false'"));
        let documents = sandbox.render(&[]).documents();
        assert_eq!(documents[1]["data"]["size"], "small", "{name}: {documents:#?}");
    }
}

#[test]
fn a_package_is_called_once() {
    let (Some(_), Some(auto_ready)) = (machine(), peer("function-auto-ready")) else { return };
    let sandbox = Sandbox::new().with("request.json", super::REQUEST);
    package(&auto_ready, META).export(&sandbox.path("layout"), &sandbox.path("package.tar"));
    let served: Value = super::answer(sandbox.run(&["functions", "run", "package.tar", "request.json"]));
    assert_eq!(served["desired"]["resources"]["a"]["ready"], "READY_TRUE", "{served:#}");
    assert_eq!(served["meta"]["tag"], "t");
}

#[test]
fn a_server_that_does_not_serve_is_quoted() {
    let Some(machine) = machine() else { return };
    let Some(registry) = TestRegistry::start(false) else { return };
    let broken = TestImage::new(&machine, super::shell("echo no certificates >&2; exit 2"));
    let image = registry.push(&broken, "broken:v1");
    let sandbox = Sandbox::new()
        .with("composition.yaml", &pipeline())
        .with("functions.yaml", &functions(&image, "x: z"));
    let said = sandbox.render(&[]).fails_with(1);
    assert!(said.starts_with("error: functions.yaml:4: function `ready`: cannot run the image"), "{said}");
    assert!(
        said.contains(
            "the program ended (exit code 2) before it listened on port 9443; it said:\nno certificates"
        ),
        "{said}"
    );
    assert!(said.contains("The package is not built in; besides, you can say how to reach"), "{said}");
}

/// The interpreter, the program and what it imports, each at the place where this machine has it. With a manifest, it is a package.
pub(super) fn python_image(launcher: &Path, meta: Option<&str>) -> TestImage {
    let library = launcher.with_file_name("lib").join("greeter-python");
    let (python, main) = (library.join("venv/bin/python3"), library.join("main.py"));
    let list = "import asyncio, importlib.util, sys\n\
                spec = importlib.util.spec_from_file_location('main', sys.argv[1])\n\
                spec.loader.exec_module(importlib.util.module_from_spec(spec))\n\
                for module in list(sys.modules.values()):\n    \
                    name = getattr(module, '__file__', None)\n    if name: print(name)\n\
                print(sys.argv[1])";
    let files = run(Command::new(&python).args(["-B", "-c", list]).arg(&main));
    let interpreter = python.canonicalize().unwrap();
    let mut needed: BTreeSet<PathBuf> = files.lines().map(PathBuf::from).collect();
    needed.insert(interpreter.clone());
    let is_native = |file: &&PathBuf| **file == interpreter || file.extension().is_some_and(|it| it == "so");
    let libraries: Vec<_> = needed.iter().filter(is_native).flat_map(|file| libraries(file)).collect();
    needed.extend(libraries);
    let mut layer = Layer::new();
    add_files(&mut layer, needed);
    let packages =
        run(Command::new(&python).args(["-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"]));
    let entrypoint =
        [interpreter.to_str().unwrap(), "-B", main.to_str().unwrap()].map(str::to_owned).to_vec();
    let env = Some(vec![format!("PYTHONPATH={}", packages.trim())]);
    let user = Some("65532:65532".to_owned());
    let layers = [layer].into_iter().chain(meta.map(manifests)).collect();
    TestImage::of(layers, Execution { entrypoint: Some(entrypoint), env, user, ..Execution::default() })
}

#[test]
fn function_on_the_python_sdk_is_served_from_an_image_with_its_interpreter() {
    let (Some(_), Some(greeter)) = (machine(), peer("greeter-python")) else { return };
    let sandbox = Sandbox::new().with("request.json", super::REQUEST);
    python_image(&greeter, None).export(&sandbox.path("layout"), &sandbox.path("image.tar"));
    let served =
        super::answer(sandbox.run(&["functions", "run", "layout", "request.json", "--protocol", "grpc"]));
    assert!(served["results"].to_string().contains("greeted from python"), "{served:#}");
}
