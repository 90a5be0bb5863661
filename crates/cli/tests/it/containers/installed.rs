//! Function packages that `up` installs and serves.

use ferroplane_testkit::Pki;
use tempfile::TempDir;

use super::images::{TestImage, machine};
use super::processes::{running, until_ended};
use super::registry::TestRegistry;
use super::served::{META, package, package_named, package_without_program, program, python_image};
use crate::logs::{self, PLATFORM, THING};
use crate::peers::peer;
use crate::plane::Plane;
use crate::rollout::roll_out;
use crate::xpkg::Workshop;

/// A Function whose package is this image.
fn function(name: &str, image: &str) -> String {
    format!(
        "apiVersion: pkg.crossplane.io/v1\nkind: Function\nmetadata: {{name: {name}}}\nspec: {{package: '{image}'}}\n"
    )
}

/// Install a Function package, and wait until an XR is ready that it composes.
pub(crate) fn compose_with(image: &str, platform: &str) -> Plane {
    let plane = Plane::start(TempDir::new().unwrap(), &["--data-dir", "data"]);
    plane.told("kubectl apply -f -", &format!("{}---{platform}", function("program", image)));
    plane.says("kubectl wait function/program --for=condition=Healthy --timeout=120s");
    plane.says("kubectl wait xrd/things.acme.org --for=condition=Established --timeout=60s");
    plane.told("kubectl apply -f -", THING);
    plane.says("kubectl wait thing/a --for=condition=Ready --timeout=60s");
    plane
}

#[test]
fn an_upstream_function_is_installed_served_and_called() {
    let (Some(_), Some(_)) = (machine(), peer("kubectl")) else { return };
    let Some(auto_ready) = peer("function-auto-ready") else { return };
    let Some(registry) = TestRegistry::start(false) else { return };
    let program = "server-that-is-installed";
    let image = registry.push(&package_named(program, &auto_ready), "acme/function-auto-ready:v0.5.1");
    let plane = compose_with(&image, PLATFORM);
    assert_eq!(plane.says(RUNTIME), "Runs in a container on this machine");
    assert!(!running(program).is_empty());
    let directory = plane.stop();
    until_ended(program);
    assert!(directory.path().join("data/images/content").exists());
}

/// Policies, digests and signatures are about the image of the package.
#[test]
fn an_image_that_a_package_names_is_not_run_where_packages_are_installed() {
    let (Some(_), Some(_)) = (machine(), peer("kubectl")) else { return };
    let Some(auto_ready) = peer("function-auto-ready") else { return };
    let Some(registry) = TestRegistry::start(false) else { return };
    let other = registry.push(&program(&auto_ready), "acme/program:v1");
    let meta = META.replace("spec: {}", &format!("spec: {{image: '{other}'}}"));
    let image = registry.push(&package_without_program(&meta), "acme/function-named:v1");
    let plane = Plane::start(TempDir::new().unwrap(), &["--data-dir", "data"]);
    plane.told("kubectl apply -f -", &function("named", &image));
    plane.says(&format!("until {RUNTIME} | grep 'the image .{other}. that its .package.yaml. names was not verified'; do sleep 0.1; done"));
    plane.stop();
}

#[test]
fn a_function_that_xpkg_build_packed_is_installed_and_called() {
    let (Some(_), Some(_)) = (machine(), peer("kubectl")) else { return };
    let Some(auto_ready) = peer("function-auto-ready") else { return };
    let Some(registry) = TestRegistry::start(false) else { return };
    let workshop = Workshop::new();
    workshop.pack_function(&auto_ready, "function.xpkg");
    let image = format!("{}/acme/function-packed:v1.0.0", registry.address());
    workshop.says(&["push", &image, "-f", "function.xpkg"]);
    compose_with(&image, PLATFORM).stop();
}

#[test]
fn a_function_on_the_python_sdk_is_installed_and_called() {
    let (Some(_), Some(_)) = (machine(), peer("kubectl")) else { return };
    let Some(greeter) = peer("greeter-python") else { return };
    let Some(registry) = TestRegistry::start(false) else { return };
    let image = registry.push(&python_image(&greeter, Some(META)), "acme/greeter-python:v1.0.0");
    // It writes a status of its own, which the definition has to have.
    let status = "{type: object, properties: {status: {type: object, properties: {greetedBy: \
         {type: object, additionalProperties: {type: boolean}}}}}}";
    let plane = compose_with(&image, &PLATFORM.replace("{type: object}", status));
    let composed =
        "kubectl get configmap -l crossplane.io/composite=a -o jsonpath='{.items[0].data.greeting}'";
    assert_eq!(plane.says(composed), "hello from python");
    plane.stop();
}

/// The `crossplane.yaml` of a Function package with this spec.
fn manifest(spec: &str) -> String {
    format!(
        "apiVersion: meta.pkg.crossplane.io/v1\nkind: Function\nmetadata: {{name: function-test}}\nspec: {spec}\n"
    )
}

/// An Operation that calls a function once.
fn operation(function: &str) -> String {
    format!(
        "apiVersion: ops.crossplane.io/v1alpha1\nkind: Operation\nmetadata: {{name: {function}}}\n\
         spec: {{mode: Pipeline, retryLimit: 1, pipeline: [{{step: greet, functionRef: {{name: {function}}}}}]}}\n"
    )
}

#[test]
fn packages_on_the_go_and_python_sdks_are_called_by_operations_if_they_declare_that_they_can_operate() {
    let (Some(_), Some(_)) = (machine(), peer("kubectl")) else { return };
    let (Some(go), Some(python)) = (peer("greeter-go"), peer("greeter-python")) else { return };
    let Some(registry) = TestRegistry::start(false) else { return };
    let (able, unable) = (manifest("{capabilities: [operation]}"), manifest("{}"));
    let workshop = Workshop::new();
    let pack = |name: &str, manifest: &str| {
        workshop.pack_function_as(manifest, &go, "function.xpkg");
        let image = format!("{}/acme/{name}:v1.0.0", registry.address());
        workshop.says(&["push", &image, "-f", "function.xpkg"]);
        image
    };
    let push = |name: &str, manifest: &str| {
        registry.push(&python_image(&python, Some(manifest)), &format!("acme/{name}:v1.0.0"))
    };
    let functions = [
        ("go-able", pack("go-able", &able)),
        ("go-unable", pack("go-unable", &unable)),
        ("python-able", push("python-able", &able)),
        ("python-unable", push("python-unable", &unable)),
    ];
    let plane = Plane::start(TempDir::new().unwrap(), &["--data-dir", "data"]);
    plane.says("kubectl create configmap settings --from-literal=theme=dark");
    for (name, image) in &functions {
        plane.told("kubectl apply -f -", &function(name, image));
    }
    for (name, _) in &functions {
        plane.says(&format!("kubectl wait function/{name} --for=condition=Healthy --timeout=120s"));
        plane.told("kubectl apply -f -", &operation(name));
    }
    let reason = |name: &str, kind: &str| {
        plane.says(&format!("kubectl wait operation/{name} --for=condition={kind} --timeout=120s"));
        let kind = kind.split('=').next().unwrap();
        plane.says(&format!(
            "kubectl get operation/{name} -o jsonpath='{{.status.conditions[?(@.type==\"{kind}\")].reason}}'"
        ))
    };
    for language in ["go", "python"] {
        let (able, unable) = (format!("{language}-able"), format!("{language}-unable"));
        assert_eq!(reason(&able, "Succeeded"), "PipelineSuccess");
        let output =
            format!("kubectl get operation/{able} -o jsonpath='{{.status.pipeline[0].output.greetedBy}}'");
        assert_eq!(plane.says(&output), language);
        let applied =
            format!("kubectl get operation/{able} -o jsonpath='{{.status.appliedResourceRefs[*].name}}'");
        let greeting =
            format!("kubectl get configmap/{} -o jsonpath='{{.data.greeting}}'", plane.says(&applied));
        assert_eq!(plane.says(&greeting), format!("hello from {language}"));
        assert_eq!(reason(&unable, "Succeeded=False"), "PipelineError");
        assert_eq!(reason(&unable, "ValidPipeline=False"), "MissingCapabilities");
    }
    plane.stop();
}

/// A kind like that of [`PLATFORM`], whose pipeline calls another function.
fn platform_of(function: &str) -> String {
    PLATFORM
        .replace("things", &format!("{function}things"))
        .replace("Thing", &format!("{}Thing", function.to_uppercase()))
        .replace("{name: program}", &format!("{{name: {function}}}"))
}

/// An XR of that kind.
fn thing_of(function: &str, name: &str) -> String {
    THING
        .replace("Thing", &format!("{}Thing", function.to_uppercase()))
        .replace("{name: a,", &format!("{{name: {name},"))
}

#[test]
fn servers_that_crash_hang_or_never_listen_are_reported_disturb_no_others_and_recover_after_an_upgrade() {
    let (Some(machine), Some(_)) = (machine(), peer("kubectl")) else { return };
    let (Some(auto_ready), Some(registry)) = (peer("function-auto-ready"), TestRegistry::start(false)) else {
        return;
    };
    let push = |script: &str, name: &str| {
        let mut layer = machine.layer();
        layer.add_file(&auto_ready, "server").unwrap();
        registry.push(&logs::package(layer, script, ""), name)
    };
    let good = push("exec /server \"$@\"", "acme/good:v1.0.0");
    // The last one answers nobody once it has listened.
    let hangs = "/server \"$@\" & sleep 3; kill -STOP $!; wait";
    let bad = [
        ("crashes", push("echo no licence >&2; exit 3", "acme/crashes:v1.0.0")),
        ("silent", push("exec sleep 1000", "acme/silent:v1.0.0")),
        ("hangs", push(hangs, "acme/hangs:v1.0.0")),
    ];
    let plane = Plane::start(TempDir::new().unwrap(), &["--data-dir", "data"]);
    plane.told("kubectl apply -f -", &format!("{}---{}", function("good", &good), platform_of("good")));
    for (name, image) in &bad {
        plane.told("kubectl apply -f -", &format!("{}---{}", function(name, image), platform_of(name)));
    }
    let all = ["good", "crashes", "silent", "hangs"];
    for name in all {
        plane.says(&format!(
            "kubectl wait xrd/{name}things.acme.org --for=condition=Established --timeout=60s"
        ));
        plane.told("kubectl apply -f -", &thing_of(name, "a"));
    }
    let health = |name: &str| {
        format!(
            "kubectl get function/{name} -o jsonpath='{{.status.conditions[?(@.type==\"Healthy\")].message}}'"
        )
    };
    plane.until_said(&health("crashes"), |said| said.contains("exit code 3"));
    plane.until_said(&health("silent"), |said| said.contains("port 9443"));
    let synced = |name: &str| {
        format!("kubectl get {name}thing/a -o jsonpath='{{.status.conditions[?(@.type==\"Synced\")].code}}'")
    };
    for name in ["crashes", "silent", "hangs"] {
        plane.until_said(&synced(name), |said| said.starts_with("Function"));
    }
    // The others go on.
    plane.told("kubectl apply -f -", &thing_of("good", "b"));
    plane.says("kubectl wait goodthing/a goodthing/b --for=condition=Ready --timeout=30s");

    for (name, _) in &bad {
        let better = push("exec /server \"$@\"", &format!("acme/{name}:v1.1.0"));
        plane.told("kubectl apply -f -", &function(name, &better));
    }
    for (name, _) in &bad {
        plane.says(&format!("kubectl wait function/{name} --for=condition=Healthy --timeout=120s"));
        plane.says(&format!("kubectl wait {name}thing/a --for=condition=Ready --timeout=120s"));
    }
    plane.stop();
}

#[test]
fn packages_and_steps_come_from_a_registry_whose_authority_is_named() {
    let (Some(machine), Some(_), pki) = (machine(), peer("kubectl"), Pki::new()) else { return };
    let Some(auto_ready) = peer("function-auto-ready") else { return };
    let Some(registry) = TestRegistry::start_certified_by(&pki) else { return };
    let package = registry.push(&package(&auto_ready, META), "acme/function-auto-ready:v0.5.1");
    let step = TestImage::new(&machine, super::shell(super::LIST_LABELIZER));
    let step = registry.push(&step, "my-cool-function:0.1.0");
    let directory = TempDir::new().unwrap();
    std::fs::write(directory.path().join("ca.pem"), pki.ca()).unwrap();
    let plane = Plane::start(directory, &["--data-dir", "data", "--certificate-authority", "ca.pem"]);
    let function = format!(
        "apiVersion: pkg.crossplane.io/v1\nkind: Function\nmetadata: {{name: program}}\nspec: {{package: '{package}'}}\n"
    );
    plane.told("kubectl apply -f -", &format!("{function}---{}", alpha_platform(&step)));
    plane.says("kubectl wait function/program --for=condition=Healthy --timeout=120s");
    plane.says("kubectl wait xrd/things.acme.org --for=condition=Established --timeout=60s");
    plane.told("kubectl apply -f -", THING);
    plane.says("kubectl wait thing/a --for=condition=Ready --timeout=60s");
    assert_eq!(plane.says(TOUCHED), "yes");
    plane.stop();
}

/// The condition of the only revision that says how it runs.
const RUNTIME: &str = "kubectl get functionrevisions -o jsonpath='{.items[0].status.conditions[?(@.type==\"RuntimeHealthy\")].message}'";
/// Whether the program of a step has worked on the composed resource.
const TOUCHED: &str = "kubectl get configmap -l crossplane.io/composite=a -o jsonpath='{.items[0].metadata.annotations.example\\.org/touched}'";

#[test]
fn network_of_this_machine_is_granted_by_the_function_and_said_in_its_revision() {
    let (Some(machine), Some(_)) = (machine(), peer("kubectl")) else { return };
    let Some(auto_ready) = peer("function-auto-ready") else { return };
    let Some(registry) = TestRegistry::start(false) else { return };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // It tells us whether it gets here, and then serves.
    let mut layer = machine.layer();
    layer.add_file(&auto_ready, "server").unwrap();
    let script = format!(
        "if nc -w 1 127.0.0.1 {port} < /dev/null; then echo got out; else echo stayed in; fi; exec /server \"$@\""
    );
    let image = registry.push(&crate::logs::package(layer, &script, ""), "acme/online:v1");
    let plane = Plane::start(TempDir::new().unwrap(), &["--data-dir", "data"]);
    let function = |network: &str| {
        format!(
            "apiVersion: pkg.crossplane.io/v1\nkind: Function\nmetadata: {{name: program, annotations: {{ferroplane.io/network: {network}}}}}\n\
             spec: {{package: '{image}'}}\n"
        )
    };
    let until_it_says = |words: &str| {
        plane.says(&format!("for try in $(seq 600); do {RUNTIME} | grep -qF '{words}' && exit 0; sleep 0.2; done; {RUNTIME}; exit 1"));
    };
    plane.told("kubectl apply -f -", &function("All"));
    until_it_says("cannot read the annotation `ferroplane.io/network: All`: expected Isolated or Runner");
    plane.told("kubectl apply -f -", &function("Isolated"));
    until_it_says("Runs in a container on this machine");
    plane.until("stayed in");
    let accepting = std::thread::spawn(move || listener.accept().map(drop));
    plane.told("kubectl apply -f -", &function("Runner"));
    until_it_says("Runs in a container on this machine, with the network of this machine");
    plane.until("got out");
    accepting.join().unwrap().unwrap();
    // It is still called over mutual TLS, on a port of the loopback that nothing else has.
    plane.told("kubectl apply -f -", PLATFORM);
    plane.says("kubectl wait xrd/things.acme.org --for=condition=Established --timeout=60s");
    plane.told("kubectl apply -f -", THING);
    plane.says("kubectl wait thing/a --for=condition=Ready --timeout=60s");
    plane.stop();
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
    let versions = roll_out(&plane.beside(), "own", images.each_ref().map(String::as_str), "");
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
    assert_eq!(plane.says(TOUCHED), "yes");
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
    let want = "  - step: want\n    functionRef: {name: function-dummy}\n    input: {apiVersion: dummy.fn.crossplane.io/v1beta1, kind: Response, \
                response: {desired: {resources: {a: {resource: {apiVersion: v1, kind: ConfigMap}, ready: READY_TRUE}}}}}\n";
    let platform = PLATFORM
        .replace("name: program}", "name: labelizer}")
        .replace("  - {step: one", &format!("{want}  - {{step: one"));
    plane.told("kubectl apply -f -", &format!("{}---{platform}", function("labelizer", &image)));
    plane.says("kubectl wait function/labelizer --for=condition=Healthy --timeout=120s");
    plane.says("kubectl wait xrd/things.acme.org --for=condition=Established --timeout=60s");
    plane.told("kubectl apply -f -", THING);
    plane.says("kubectl wait thing/a --for=condition=Ready --timeout=60s");
    let labels = "kubectl get configmap -l crossplane.io/composite=a -o jsonpath='{.items[0].metadata.labels.labelizer\\.xfn\\.crossplane\\.io/processed}'";
    assert_eq!(plane.says(labels), "true");
    plane.stop();
}
