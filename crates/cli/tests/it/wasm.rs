//! Functions that are WebAssembly in a file, on the command line.

use crate::sandbox::Sandbox;
#[cfg(feature = "wasm")]
use {
    crate::containers::images::TestImage,
    crate::containers::registry::TestRegistry,
    crate::peers::peer,
    crate::plane::Plane,
    crate::sandbox::{Ran, composition, function},
    ferroplane_image::Execution,
    ferroplane_image::build::Layer,
    ferroplane_testkit::skip,
    tempfile::TempDir,
};

const REQUEST: &str = r#"{"meta": {"tag": "t"}}"#;

/// A command that says how many variables its environment has, and writes a line to its log.
#[cfg(feature = "wasm")]
const COUNTS_VARIABLES: &str = r#"(module
    (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ (param i32 i32) (result i32)))
    (memory (export "memory") 1)
    (data (i32.const 100) "{\"results\": [{\"severity\": \"SEVERITY_NORMAL\", \"message\": \"_ variables\"}]}")
    (data (i32.const 300) "counting\n")
    (func (export "_start")
        (drop (call $environ (i32.const 0) (i32.const 4)))
        (i32.store8 (i32.const 157) (i32.add (i32.const 48) (i32.load (i32.const 0))))
        (i32.store (i32.const 16) (i32.const 300)) (i32.store (i32.const 20) (i32.const 9))
        (drop (call $write (i32.const 2) (i32.const 16) (i32.const 1) (i32.const 32)))
        (i32.store (i32.const 16) (i32.const 100)) (i32.store (i32.const 20) (i32.const 72))
        (drop (call $write (i32.const 1) (i32.const 16) (i32.const 1) (i32.const 32)))))"#;

#[cfg(feature = "wasm")]
fn sandbox(name: &str, text: &str) -> Sandbox {
    let sandbox = Sandbox::new().with("request.json", REQUEST);
    std::fs::write(sandbox.path(name), wat::parse_str(text).unwrap()).unwrap();
    sandbox
}

#[test]
#[cfg(feature = "wasm")]
fn command_is_called_and_sees_what_it_is_granted() {
    let sandbox = sandbox("count.wasm", COUNTS_VARIABLES);
    let run =
        |more: &[&str]| sandbox.run(&[&["functions", "run", "count.wasm", "request.json"], more].concat());
    let ran = run(&[]);
    assert!(ran.stderr.contains("counting"), "{ran:?}");
    assert!(ran.ok().contains("0 variables"));
    let said = run(&["--grant", "env=A=b"]).fails_with(1);
    assert!(said.contains("`ferroplane functions declare count.wasm env` declares it"), "{said}");

    sandbox.run(&["functions", "declare", "count.wasm", "env", "clock"]).ok();
    assert_eq!(sandbox.run(&["functions", "declare", "count.wasm"]).ok(), "clock\nenv\n");
    let ran = run(&["--grant", "env=A=b,env=C=d"]);
    assert!(ran.stderr.contains("declares that it needs clock env; it is granted env"), "{ran:?}");
    assert!(ran.ok().contains("2 variables"));
    assert!(run(&["--grant", "network"]).fails_with(1).contains("cannot grant WebAssembly the network"));
    assert!(run(&["--grant", "everything"]).fails_with(2).contains("for WebAssembly clock"));
}

#[test]
#[cfg(feature = "wasm")]
fn compiled_code_is_kept_in_the_directory_that_is_named_for_it_alone() {
    let sandbox = sandbox("count.wasm", COUNTS_VARIABLES);
    let mut command = sandbox.command(&["functions", "run", "count.wasm", "request.json"]);
    command.env("FERROPLANE_CODE_CACHE", sandbox.path("volume/code"));
    Ran::from(command.output().unwrap()).ok();
    assert!(sandbox.path("volume/code/key").exists());
}

#[test]
#[cfg(feature = "wasm")]
fn render_runs_code_beside_the_functions() {
    let functions = |path: &str| function("function-count", &[("render.ferroplane.io/wasm", path)]);
    let sandbox = sandbox("count.wasm", COUNTS_VARIABLES)
        .with("composition.yaml", &composition(&[("count", "function-count", "")]))
        .with("functions.yaml", &functions("./count.wasm"));
    let ran = sandbox.render(&["--include-function-results"]);
    assert!(ran.ok().contains("0 variables"));

    for (path, problem) in [("../count.wasm", "expected a path below"), ("none.wasm", "cannot read")] {
        let said = Sandbox::new()
            .with("composition.yaml", &composition(&[("count", "function-count", "")]))
            .with("functions.yaml", &functions(path))
            .render(&[])
            .fails_with(1);
        assert!(said.contains(problem), "{said}");
    }
}

#[test]
#[cfg(feature = "wasm")]
fn code_that_does_not_end_is_stopped_at_its_limit() {
    let sandbox = sandbox("loop.wasm", r#"(module (func (export "_start") (loop (br 0))))"#);
    let said = sandbox.run(&["functions", "run", "loop.wasm", "request.json", "--limit", "time=100ms"]);
    assert!(said.fails_with(1).contains("did not answer within 0.1s"));
    let said = sandbox.run(&["functions", "run", "loop.wasm", "request.json", "--limit", "cpu=1"]);
    assert!(said.fails_with(1).contains("cannot limit the processors of WebAssembly"));
}

#[test]
#[cfg(feature = "wasm")]
fn file_that_is_no_code_is_explained() {
    let sandbox = sandbox("library.wasm", "(module)").with("text.wasm", "hello");
    let said = |file: &str| sandbox.run(&["functions", "run", file, "request.json"]).fails_with(1);
    assert!(said("text.wasm").contains("build it for wasm32-wasip1 or wasm32-wasip2"));
    assert!(said("library.wasm").contains("it exports neither `_start`"));
    assert!(said("none.wasm").contains("cannot read `none.wasm`"));
}

/// What `internal compile` writes, and how it ends, if it is given 64 MiB and 10 s for this code.
#[cfg(feature = "wasm")]
fn compiled(code: &[u8]) -> std::process::Output {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    let order = [&(64_u64 << 20).to_le_bytes()[..], &10_u64.to_le_bytes(), &[0]].concat();
    let mut child = Command::new(env!("CARGO_BIN_EXE_ferroplane"))
        .args(["internal", "compile"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&[&order[..], code].concat()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
#[cfg(feature = "wasm")]
fn process_that_compiles_says_what_it_made_or_what_is_wrong() {
    let native = compiled(&wat::parse_str(r#"(module (func (export "_start")))"#).unwrap());
    assert!(native.status.success() && native.stdout.starts_with(b"\x7fELF"), "{native:?}");
    let refused = compiled(b"\0asm\x01\0\0\0\x01");
    assert_eq!(refused.status.code(), Some(3));
    assert!(String::from_utf8(refused.stdout).unwrap().contains("unexpected end"));
}

/// A command that answers with this text, in which the number of variables in its environment takes the place of `_`, and writes a
/// line to its log.
#[cfg(feature = "wasm")]
pub(crate) fn counting(answer: &str) -> Vec<u8> {
    let (place, length) = (100 + answer.rfind('_').unwrap(), answer.len());
    let data = answer.replace('"', "\\\"");
    let text = format!(
        r#"(module
    (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ (param i32 i32) (result i32)))
    (memory (export "memory") 1)
    (data (i32.const 100) "{data}")
    (data (i32.const 900) "counting\n")
    (func (export "_start")
        (drop (call $environ (i32.const 0) (i32.const 4)))
        (i32.store (i32.const 16) (i32.const 900)) (i32.store (i32.const 20) (i32.const 9))
        (drop (call $write (i32.const 2) (i32.const 16) (i32.const 1) (i32.const 32)))
        (i32.store8 (i32.const {place}) (i32.add (i32.const 48) (i32.load (i32.const 0))))
        (i32.store (i32.const 16) (i32.const 100)) (i32.store (i32.const 20) (i32.const {length}))
        (drop (call $write (i32.const 1) (i32.const 16) (i32.const 1) (i32.const 32)))))"#
    );
    wat::parse_str(text).unwrap()
}

/// An image whose program is this code; a Function package if it has a manifest.
#[cfg(feature = "wasm")]
pub(crate) fn image(code: Vec<u8>, manifest: Option<&str>) -> TestImage {
    let mut layer = Layer::new();
    layer.add_bytes(code, "function.wasm", false).unwrap();
    let mut layers = vec![layer];
    if let Some(manifest) = manifest {
        let mut layer = Layer::new().annotate("io.crossplane.xpkg", "base");
        layer.add_bytes(manifest.as_bytes().to_vec(), "package.yaml", false).unwrap();
        layers.push(layer);
    }
    let entrypoint = Some(vec!["/function.wasm".to_owned()]);
    TestImage::of(layers, Execution { entrypoint, ..Execution::default() })
}

#[cfg(feature = "wasm")]
pub(crate) const PACKAGE: &str =
    "apiVersion: meta.pkg.crossplane.io/v1\nkind: Function\nmetadata: {name: function-count}\nspec: {}\n";

#[test]
#[cfg(feature = "wasm")]
fn image_of_code_runs_in_this_process_and_needs_no_container() {
    let answer = r#"{"results": [{"severity": "SEVERITY_NORMAL", "message": "_ variables"}]}"#;
    let sandbox = Sandbox::new().with("request.json", REQUEST);
    for (name, manifest) in [("program", None), ("package", Some(PACKAGE))] {
        image(counting(answer), manifest).export(&sandbox.path(name), &sandbox.path("image.tar"));
        // Without a PATH there is no runtime of containers.
        let mut command = sandbox.command(&["functions", "run", name, "request.json"]);
        let ran = crate::sandbox::Ran::from(command.env("PATH", "").output().unwrap());
        assert!(ran.ok().contains("0 variables"), "{name}");
    }
    let loops = wat::parse_str(r#"(module (func (export "_start") (loop (br 0))))"#).unwrap();
    image(loops, None).export(&sandbox.path("loops"), &sandbox.path("image.tar"));
    let said = sandbox.run(&["functions", "run", "loops", "request.json", "--limit", "time=100ms"]);
    assert!(said.fails_with(1).contains("did not answer within 0.1s"));
}

#[test]
#[cfg(feature = "wasm")]
fn package_of_code_is_called_within_the_limits_and_with_the_grants_of_the_call() {
    let answer = r#"{"results": [{"severity": "SEVERITY_NORMAL", "message": "_ variables"}]}"#;
    let sandbox = Sandbox::new().with("request.json", REQUEST);
    std::fs::write(sandbox.path("count.wasm"), counting(answer)).unwrap();
    sandbox.run(&["functions", "declare", "count.wasm", "env"]).ok();
    let code = std::fs::read(sandbox.path("count.wasm")).unwrap();
    for (name, manifest) in [("program", None), ("package", Some(PACKAGE))] {
        image(code.clone(), manifest).export(&sandbox.path(name), &sandbox.path("image.tar"));
    }
    let run = |name: &str, flags: &[&str]| {
        sandbox.run(&[&["functions", "run", name, "request.json"], flags].concat())
    };
    let ran = run("package", &["--grant", "env=A=b,env=C=d"]);
    assert!(ran.stderr.contains("counting"), "{ran:?}");
    assert!(ran.ok().contains("2 variables"));
    let said = |name: &str, flags: &[&str]| run(name, flags).fails_with(1);
    assert!(said("package", &["--limit", "cpu=1"]).contains("cannot limit the processors of WebAssembly"));
    assert!(said("package", &["--grant", "network"]).contains("cannot grant WebAssembly the network"));
    assert!(said("package", &["--grant", "read=/etc"]).contains("cannot grant a package directories"));
    assert!(said("program", &["--grant", "env=A=b"]).contains("that is not a Function package"));
    let loops = wat::parse_str(r#"(module (func (export "_start") (loop (br 0))))"#).unwrap();
    image(loops, Some(PACKAGE)).export(&sandbox.path("loops"), &sandbox.path("image.tar"));
    assert!(said("loops", &["--limit", "time=100ms"]).contains("did not answer within 0.1s"));
}

#[test]
#[cfg(feature = "wasm")]
fn step_and_package_of_code_are_rendered_from_a_registry() {
    let Some(registry) = TestRegistry::start(false) else { return };
    let answer = r#"{"results": [{"severity": "SEVERITY_NORMAL", "message": "_ variables"}]}"#;
    let program = registry.push(&image(counting(answer), None), "count:v1");
    let package = registry.push(&image(counting(answer), Some(PACKAGE)), "function-count:v1");
    let step = |more: &str| {
        format!(
            "{{apiVersion: container.fn.ferroplane.io/v1alpha1, kind: Container, image: '{program}'{more}}}"
        )
    };
    let functions = format!(
        "apiVersion: pkg.crossplane.io/v1\nkind: Function\nmetadata: {{name: count}}\nspec: {{package: '{package}'}}\n"
    );
    let sandbox = Sandbox::new()
        .with(
            "composition.yaml",
            &composition(&[("one", "function-container", &step("")), ("two", "count", "")]),
        )
        .with("functions.yaml", &functions);
    let rendered = sandbox.render(&["--include-function-results"]).ok();
    assert_eq!(rendered.matches("0 variables").count(), 2, "{rendered}");

    let grant = "{apiVersion: ferroplane.io/v1alpha1, kind: AccessGrant, metadata: {name: g}, spec: {to: {namespaces: [default]}, \
        run: [{privileges: [Network], images: ['*']}]}}";
    let network = step(", network: {policy: Runner}");
    let sandbox = Sandbox::new()
        .with("composition.yaml", &composition(&[("one", "function-container", &network)]))
        .with("grant.yaml", grant);
    let said = sandbox.render(&["-e", "grant.yaml", "--allow-commands"]).fails_with(1);
    assert!(said.contains("its program is WebAssembly, which has no network"), "{said}");
}

#[cfg(feature = "wasm")]
const PLATFORM: &str = "
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
  - step: count
    functionRef: {name: count}
";

#[test]
#[cfg(feature = "wasm")]
fn package_of_code_is_installed_and_what_it_declares_and_is_granted_can_be_seen() {
    let (Some(registry), Some(_)) = (TestRegistry::start(false), peer("kubectl")) else { return };
    let answer =
        r#"{"conditions": [{"type": "Counted", "status": "STATUS_CONDITION_TRUE", "reason": "Variables_"}]}"#;
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("count.wasm"), counting(answer)).unwrap();
    sandbox.run(&["functions", "declare", "count.wasm", "env"]).ok();
    let code = std::fs::read(sandbox.path("count.wasm")).unwrap();
    let package = registry.push(&image(code, Some(PACKAGE)), "function-count:v1");
    let plane = Plane::start(TempDir::new().unwrap(), &["--data-dir", "data"]);
    let function = format!(
        "apiVersion: pkg.crossplane.io/v1\nkind: Function\nmetadata: {{name: count}}\nspec: {{package: '{package}'}}\n"
    );
    plane.told("kubectl apply -f -", &format!("{function}---{PLATFORM}"));
    let runs = |text: &str| {
        // Not `kubectl wait`, which takes no text with an equals sign in it.
        let path = "{.items[*].status.conditions[?(@.type==\"RuntimeHealthy\")].message}";
        plane.says(&format!(
            "for try in $(seq 300); do kubectl get functionrevisions -o jsonpath='{path}' | grep -qF '{text}' && exit 0; \
             sleep 0.2; done; kubectl get functionrevisions -o yaml; exit 1"
        ));
    };
    let is = |reason: &str| {
        let path = "{.status.conditions[?(@.type==\"Counted\")].reason}";
        plane.says(&format!("kubectl wait thing/a --timeout=60s --for=jsonpath='{path}'={reason}"));
    };
    plane.says("kubectl wait function/count --for=condition=Healthy --timeout=120s");
    runs("Runs as WebAssembly in this process; it declares to need env, and is granted nothing");
    plane.says("kubectl wait xrd/things.acme.org --for=condition=Established --timeout=60s");
    plane.told(
        "kubectl apply -f -",
        "apiVersion: acme.org/v1\nkind: Thing\nmetadata: {name: a, namespace: default}\nspec: {}\n",
    );
    is("Variables0");
    let log = plane.says(&format!("{} logs function/count", env!("CARGO_BIN_EXE_ferroplane")));
    assert!(!log.is_empty() && log.lines().all(|line| line == "counting"), "{log}");

    plane.says("kubectl annotate function/count ferroplane.io/wasm-grants=env=A=b");
    runs("Runs as WebAssembly in this process; it declares to need env, and is granted env");
    plane.says("kubectl annotate thing/a look=again");
    is("Variables1");

    // A user who may install functions need not be the administrator of this machine.
    plane.says("kubectl annotate --overwrite function/count ferroplane.io/wasm-grants=read=/etc");
    runs(
        "cannot grant `read=/etc` to WebAssembly: expected clock, random, connect=ADDRESS:PORT or env=NAME=VALUE",
    );
    plane.says("kubectl annotate --overwrite function/count ferroplane.io/wasm-grants=clock");
    let undeclared = "kubectl get functionrevisions -o jsonpath='{.items[0].status.conditions[?(@.type==\"RuntimeHealthy\")].status}'";
    plane.says("kubectl wait functionrevisions --all --timeout=60s --for=condition=RuntimeHealthy=false");
    assert_eq!(plane.says(undeclared), "False");
    plane.stop();
}

/// The condition `Synced` of an XR whose step runs this code, once it is false. Nothing if this machine lacks what that takes.
#[cfg(feature = "wasm")]
fn condition_after(code: &str) -> Option<String> {
    let (registry, _) = (TestRegistry::start(false)?, peer("kubectl")?);
    let program = registry.push(&image(wat::parse_str(code).unwrap(), None), "fails:v1");
    let input = format!(
        "{{apiVersion: container.fn.ferroplane.io/v1alpha1, kind: Container, image: '{program}', timeout: 10s}}"
    );
    let step = format!("functionRef: {{name: function-container}}\n    input: {input}");
    let plane = Plane::start(TempDir::new().unwrap(), &["--data-dir", "data"]);
    plane.told("kubectl apply -f -", &PLATFORM.replace("functionRef: {name: count}", &step));
    plane.says("kubectl wait xrd/things.acme.org --for=condition=Established --timeout=60s");
    plane.told(
        "kubectl apply -f -",
        "apiVersion: acme.org/v1\nkind: Thing\nmetadata: {name: a, namespace: default}\nspec: {}\n",
    );
    plane.says("kubectl wait thing/a --for=condition=Synced=false --timeout=60s");
    let synced = "kubectl get thing/a -o jsonpath='{.status.conditions[?(@.type==\"Synced\")].message}'";
    let message = plane.says(synced);
    plane.stop();
    Some(message)
}

#[test]
#[cfg(feature = "wasm")]
fn code_that_does_not_end_is_a_condition_with_step_and_reason() {
    let code = r#"(module (func (export "_start") (loop (br 0))))"#;
    let Some(message) = condition_after(code) else { return };
    assert!(
        message.contains("pipeline step `count`") && message.contains("did not answer within 10s"),
        "{message}"
    );
}

#[test]
#[cfg(feature = "wasm")]
fn code_that_traps_is_a_condition_with_step_and_reason() {
    let code = r#"(module (func (export "_start") (unreachable)))"#;
    let Some(message) = condition_after(code) else { return };
    assert!(
        message.contains("pipeline step `count`")
            && message.contains("wasm trap: wasm `unreachable` instruction executed"),
        "{message}"
    );
}

/// The example that is an image in Go, compiled for another machine.
#[test]
#[cfg(feature = "wasm")]
fn example_in_go_labels_as_webassembly() {
    let go = |arguments: &[&str]| {
        let mut go = std::process::Command::new("go");
        let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/container-functions/go");
        go.args(arguments).current_dir(example).env("GOOS", "wasip1").env("GOARCH", "wasm");
        go.env("GOFLAGS", "-mod=readonly").output()
    };
    if go(&["version"]).is_err() {
        return skip("there is no Go");
    }
    let request = r#"{"meta": {"tag": "t"}, "desired": {"resources": {"a": {"resource": {"kind": "A"}}}}}"#;
    let sandbox = Sandbox::new().with("request.json", request);
    let code = sandbox.path("labelizer.wasm");
    let built = go(&["build", "-trimpath", "-buildvcs=false", "-o", code.to_str().unwrap(), "."]).unwrap();
    assert!(built.status.success(), "{built:?}");
    let answer = sandbox.run(&["functions", "run", "labelizer.wasm", "request.json"]).ok();
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    let labels = &answer["desired"]["resources"]["a"]["resource"]["metadata"]["labels"];
    assert_eq!(labels["labelizer.xfn.crossplane.io/processed"], "true", "{answer:#}");
}

/// An example that was built as WebAssembly. Says so if it was not.
#[cfg(feature = "wasm")]
fn built(example: &str) -> Option<std::path::PathBuf> {
    let built = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests/built");
    let code = Some(built.join(format!("{example}.wasm"))).filter(|code| code.is_file());
    if code.is_none() {
        skip(&format!("{example} was not built, `cargo xtask guests --examples` builds it"));
    }
    code
}

/// The example that is an image in Rust, compiled for another machine.
#[test]
#[cfg(feature = "wasm")]
fn example_in_rust_labels_as_webassembly() {
    let Some(code) = built("labelizer") else { return };
    let request = r#"{"desired": {"resources": {"a": {"resource": {"kind": "A"}}}}}"#;
    let sandbox = Sandbox::new().with("request.json", request);
    let answer = sandbox.run(&["functions", "run", code.to_str().unwrap(), "request.json"]).ok();
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    let labels = &answer["desired"]["resources"]["a"]["resource"]["metadata"]["labels"];
    assert_eq!(labels["labelizer.xfn.crossplane.io/processed"], "true", "{answer:#}");
}

/// The examples in `guests/examples`.
#[test]
#[cfg(feature = "wasm")]
fn examples_answer() {
    let request = r#"{"meta": {"tag": "t"}, "desired": {"resources": {"a": {"resource": {"kind": "A"}}}},
        "observed": {"composite": {"resource": {"kind": "X", "spec": {"name": "you"}}}}}"#;
    let sandbox = Sandbox::new().with("request.json", request);
    for (example, expected) in [
        ("rust-command", "Hello, you!"),
        ("go-command", "Hello, you!"),
        ("python-command", "Hello, you!"),
        ("rust-component", "\"message\": \"hello\""),
    ] {
        let Some(code) = built(example) else { continue };
        let answer = sandbox.run(&["functions", "run", code.to_str().unwrap(), "request.json"]).ok();
        assert!(answer.contains(expected), "{example}: {answer}");
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["meta"]["tag"], "t", "{example}");
        assert_eq!(
            answer["desired"]["resources"]["a"]["resource"]["kind"], "A",
            "{example}: what earlier steps want is kept"
        );
    }
}

#[test]
#[cfg(not(feature = "wasm"))]
fn build_without_webassembly_says_how_to_get_one() {
    let sandbox = Sandbox::new().with("request.json", REQUEST).with("a.wasm", "");
    let said = sandbox.run(&["functions", "run", "a.wasm", "request.json"]).fails_with(1);
    assert!(said.contains("has no WebAssembly") && said.contains("--features wasm"), "{said}");
}
