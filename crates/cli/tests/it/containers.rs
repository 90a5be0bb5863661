//! Functions in images: run for a call, served for a render, from registries, files and directories.
//!
//! Where the machine does not allow containers, or has no runtime, each test prints why it is skipped.

pub(crate) mod built_by_others;
mod idle;
pub(crate) mod images;
pub(crate) mod installed;
mod languages;
mod phases;
pub(crate) mod processes;
mod providers;
pub(crate) mod registry;
pub(crate) mod served;

use ferroplane_testkit::Pki;
use serde_json::{Value, json};

use crate::sandbox::Sandbox;
use images::{TestImage, machine, shell};
use registry::TestRegistry;

/// What is wanted before the function is called.
const REQUEST: &str = r#"{"meta": {"tag": "t"}, "observed": {"composite": {"resource":
    {"apiVersion": "example.org/v1", "kind": "App", "metadata": {"name": "app"}}}}, "desired": {"resources":
    {"a": {"resource": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}, "ready": "READY_TRUE"}}}}"#;

/// Does what the example of the first design does with jq: labels every resource.
const LABELIZER: &str =
    r#"sed 's/"metadata":{/"metadata":{"labels":{"labelizer.xfn.crossplane.io\/processed":"true"},/g'"#;

fn sandbox() -> Sandbox {
    Sandbox::new().with("request.json", REQUEST)
}

fn answer(ran: crate::sandbox::Ran) -> Value {
    serde_json::from_str(&ran.ok()).unwrap()
}

#[test]
fn a_root_file_system_is_run_and_what_it_prints_is_shown() {
    let Some(machine) = machine() else { return };
    let sandbox = sandbox();
    let root = sandbox.path("image");
    machine.fill(&root);
    std::fs::write(root.join("function"), format!("#!/bin/sh\necho hello >&2\nexec {LABELIZER}\n")).unwrap();
    images::make_executable(&root.join("function"));
    let ran = sandbox.run(&["functions", "run", "./image", "request.json"]);
    assert!(ran.stderr.contains("hello"), "{ran:?}");
    let labels = &answer(ran)["desired"]["resources"]["a"]["resource"]["metadata"]["labels"];
    assert_eq!(labels, &json!({"labelizer.xfn.crossplane.io/processed": "true"}));
}

#[test]
fn layouts_and_tarballs_are_run() {
    let Some(machine) = machine() else { return };
    let sandbox = sandbox();
    let image = TestImage::new(&machine, shell(LABELIZER));
    image.export(&sandbox.path("layout"), &sandbox.path("image.tar"));
    for path in ["layout", "./image.tar"] {
        let answer = answer(sandbox.run(&["functions", "run", path, "request.json"]));
        assert_eq!(answer["desired"]["resources"]["a"]["resource"]["kind"], "ConfigMap", "{path}");
    }
}

#[test]
fn what_is_no_image_is_explained() {
    let sandbox = sandbox().with("empty/nothing", "").with("text.tar", "no tarball");
    let said = |name: &str| sandbox.run(&["functions", "run", name, "request.json"]).fails_with(1);
    assert!(said("./empty").contains("a program `function` at its top"), "{}", said("./empty"));
    assert!(said("./text.tar").contains("cannot run image"), "{}", said("./text.tar"));
    assert!(said("./none").contains("cannot find `./none`"));
    assert!(said("registry.example.org/UPPER:v1").contains("cannot parse the reference"));
}

#[test]
fn failures_and_limits_name_their_reason() {
    let Some(machine) = machine() else { return };
    let sandbox = sandbox();
    let run = |name: &str, script: &str, flags: &[&str]| {
        TestImage::new(&machine, shell(script)).export(&sandbox.path(name), &sandbox.path("image.tar"));
        sandbox.run(&[&["functions", "run", name, "request.json"], flags].concat()).fails_with(1)
    };
    let said = run("fails", "for n in $(seq 30); do echo line $n >&2; done; exit 7", &[]);
    assert!(said.contains("the function's program ended (exit code 7); it said:\nline 11\n"), "{said}");
    let said = run("dies", "sh -c 'kill -9 $$'; exit $?", &[]);
    assert!(said.contains("exit code 137, as of signal 9"), "{said}");
    let said = run("sleeps", "sleep 100", &["--limit", "time=300ms"]);
    assert!(said.contains("did not answer within 0.3s"), "{said}");
    let said = run("floods", "exec cat /dev/zero", &[]);
    assert!(said.contains("is larger than the 16777216 bytes"), "{said}");
    let said = run("grows", "x=a; while :; do x=$x$x; done", &["--limit", "memory=32MiB"]);
    assert!(said.contains("limit of memory") || said.contains("the function's program ended"), "{said}");
    let said = run("burns", "while :; do :; done", &["--limit", "time=20s,cpu=20m"]);
    assert!(said.contains("limit of processor time"), "{said}");
    let said = run("silent", "true", &[]);
    assert!(said.contains("the answer is empty") || said.contains("empty"), "{said}");
}

#[test]
fn limits_and_grants_of_a_call_hold_for_packages_too() {
    let Some(machine) = machine() else { return };
    let sandbox = sandbox();
    let run = |name: &str, script: &str, flags: &[&str]| {
        let package = crate::logs::package(machine.layer(), script, "ferroplane.io/protocol: RunFunction");
        package.export(&sandbox.path(name), &sandbox.path("image.tar"));
        sandbox.run(&[&["functions", "run", name, "request.json"], flags].concat())
    };
    let said = run("sleeps", "sleep 100", &["--limit", "time=300ms"]).fails_with(1);
    assert!(said.contains("did not answer within 0.3s"), "{said}");
    let said = run("burns", "while :; do :; done", &["--limit", "time=20s,cpu=20m"]).fails_with(1);
    assert!(said.contains("limit of processor time"), "{said}");
    let ran = run("echoes", "echo hello >&2; exec cat", &["--limit", "memory=64MiB"]);
    assert!(ran.stderr.contains("hello"), "{ran:?}");
    ran.ok();
    let said = run("refused", "exec cat", &["--grant", "clock"]).fails_with(1);
    assert!(said.contains("cannot grant this to a program that is not WebAssembly"), "{said}");
}

#[test]
fn the_network_is_there_only_if_granted() {
    let Some(machine) = machine() else { return };
    let sandbox = sandbox();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!("nc -w 1 127.0.0.1 {port} < /dev/null && echo reached >&2; exec cat");
    TestImage::new(&machine, shell(&script)).export(&sandbox.path("image"), &sandbox.path("image.tar"));
    let command = ["functions", "run", "image", "request.json"];
    let ran = sandbox.run(&command);
    assert!(!ran.stderr.contains("reached"), "{ran:?}");
    ran.ok();
    let accepting = std::thread::spawn(move || listener.accept().map(drop));
    let ran = sandbox.run(&[&command[..], &["--grant", "network"]].concat());
    accepting.join().unwrap().unwrap();
    assert!(ran.stderr.contains("reached"), "{ran:?}");
}

/// As the second design writes it, with the image in a registry.
fn design(image: &str, more: &str) -> String {
    format!(
        "
apiVersion: apiextensions.crossplane.io/v2alpha1
kind: Composition
metadata:
  name: example
spec:
  compositeTypeRef:
    apiVersion: example.org/v1
    kind: App
  resources:
  - name: config
    base:
      apiVersion: v1
      kind: ConfigMap
      metadata: {{namespace: default}}
  functions:
  - name: my-cool-function
    type: Container
    config:
      apiVersion: example.org/v1
      kind: Settings
    container:
      image: {image}
      timeout: 20s
      resources: {{limits: {{memory: 64Mi, cpu: 500m}}}}
{more}"
    )
}

/// Speaks the `ResourceList` of the second design.
const LIST_LABELIZER: &str =
    r#"sed 's/"fn.apiextensions.crossplane.io\/name":/"example.org\/touched":"yes",&/g'"#;

#[test]
fn the_design_s_manifests_are_rendered_with_an_image_from_a_registry() {
    let (Some(machine), Some(registry)) = (machine(), TestRegistry::start(false)) else { return };
    let image = registry.push(&TestImage::new(&machine, shell(LIST_LABELIZER)), "my-cool-function:0.1.0");
    let sandbox = Sandbox::new().with("composition.yaml", &design(&image, "      imagePullPolicy: Never\n"));
    let said = sandbox.render(&[]).fails_with(1);
    assert!(said.contains("it is not in the content store, and the pull policy is Never"), "{said}");

    let sandbox = Sandbox::new().with("composition.yaml", &design(&image, ""));
    let documents = sandbox.render(&[]).documents();
    assert_eq!(documents[1]["metadata"]["annotations"]["example.org/touched"], "yes", "{documents:#?}");
    // From now on the registry is not needed.
    drop(registry);
    assert_eq!(sandbox.render(&[]).documents(), documents);
    let always = design(&image, "      imagePullPolicy: Always\n");
    let said = Sandbox::new().with("composition.yaml", &always).render(&[]).fails_with(1);
    assert!(said.contains("cannot pull image"), "{said}");
}

#[test]
fn pull_secrets_and_docker_s_login_open_a_registry() {
    let (Some(machine), Some(registry)) = (machine(), TestRegistry::start(true)) else { return };
    let image = registry.push(&TestImage::new(&machine, shell(LIST_LABELIZER)), "private:0.1.0");
    let secret = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: pull, namespace: crossplane-system}}\ntype: kubernetes.io/dockerconfigjson\n\
         stringData:\n  .dockerconfigjson: '{}'\n",
        registry.docker_config()
    );
    let without = Sandbox::new().with("composition.yaml", &design(&image, "")).with("docker/none", "");
    let render = |sandbox: &Sandbox, flags: &[&str]| {
        let mut command = sandbox.command(&[&["render", "xr.yaml", "composition.yaml"], flags].concat());
        crate::sandbox::Ran::from(command.env("DOCKER_CONFIG", sandbox.path("docker")).output().unwrap())
    };
    let said = render(&without, &[]).fails_with(1);
    assert!(said.contains("there is no credential for it"), "{said}");
    let named = design(&image, "      imagePullSecrets: [{name: pull}]\n");
    let with =
        Sandbox::new().with("composition.yaml", &named).with("secret.yaml", &secret).with("docker/none", "");
    let grant = "{apiVersion: ferroplane.io/v1alpha1, kind: AccessGrant, metadata: {name: g}, spec: {to: {namespaces: [default]}, \
        read: [{apiGroups: [''], kinds: [Secret], namespaces: [crossplane-system], names: [pull]}]}}";
    let with = with.with("grant.yaml", grant);
    let flags = ["--function-credentials", "secret.yaml", "-e", "grant.yaml"];
    let documents = render(&with, &flags).documents();
    assert_eq!(documents[1]["metadata"]["annotations"]["example.org/touched"], "yes");

    let other = registry.push(&TestImage::new(&machine, shell("cat")), "private:0.2.0");
    let sandbox = sandbox().with("docker/config.json", &registry.docker_config());
    let mut command = sandbox.command(&["functions", "run", &other, "request.json"]);
    crate::sandbox::Ran::from(command.env("DOCKER_CONFIG", sandbox.path("docker")).output().unwrap()).ok();
}

#[test]
fn registry_with_a_private_authority_is_used_by_who_names_it() {
    let (Some(machine), pki) = (machine(), Pki::new()) else { return };
    let Some(registry) = TestRegistry::start_certified_by(&pki) else { return };
    let image = TestImage::new(&machine, shell(LIST_LABELIZER));
    // What one command fetches, another one need not: each has an image of its own.
    let [image, rendered] = ["0.1.0", "0.2.0"].map(|tag| registry.push(&image, &format!("certified:{tag}")));
    let sandbox = sandbox().with("ca.pem", &pki.ca()).with("composition.yaml", &design(&rendered, ""));
    let run = ["functions", "run", &image, "request.json", "--protocol", "resource-list"];
    let trust = ["--certificate-authority", "ca.pem"];
    let said = sandbox.run(&run).fails_with(1);
    assert!(said.contains("cannot pull image") && said.contains("certificate"), "{said}");
    let said = sandbox.render(&[]).fails_with(1);
    assert!(said.contains("cannot pull image") && said.contains("certificate"), "{said}");
    sandbox.run(&[&run[..], &trust].concat()).ok();
    let documents = sandbox.render(&trust).documents();
    assert_eq!(documents[1]["metadata"]["annotations"]["example.org/touched"], "yes", "{documents:#?}");
    let said = sandbox.run(&[&run[..], &["--certificate-authority", "none.pem"]].concat()).fails_with(1);
    assert!(said.contains("cannot read the authorities in `none.pem`"), "{said}");
    let said = sandbox.run(&[&run[..], &["--insecure-skip-tls-verify"]].concat()).fails_with(1);
    assert!(said.contains("cannot skip the verification of TLS certificates"), "{said}");
}

#[test]
fn chroot_runs_with_a_grant_and_trust_and_needs_no_container() {
    let (Some(machine), Some(registry)) = (machine(), TestRegistry::start(false)) else { return };
    let script = format!("id -u >&2; ls / >&2; exec {LIST_LABELIZER}");
    let image = registry.push(&TestImage::new(&machine, shell(&script)), "chroot:0.1.0");
    let chroot = design(&image, "").replace("Container", "Chroot").replace("    container:", "    chroot:");
    let chroot = chroot.replace("      resources: {limits: {memory: 64Mi, cpu: 500m}}\n", "");
    let grant = format!(
        "{{apiVersion: ferroplane.io/v1alpha1, kind: AccessGrant, metadata: {{name: g}}, spec: {{to: {{namespaces: [default]}}, \
         run: [{{privileges: [Chroot], images: ['{image}']}}]}}}}"
    );
    let sandbox = Sandbox::new().with("composition.yaml", &chroot).with("grant.yaml", &grant);
    sandbox.render(&["--allow-commands"]).fails_with(1);
    sandbox.render(&["-e", "grant.yaml"]).fails_with(1);
    let documents = sandbox.render(&["-e", "grant.yaml", "--allow-commands"]).documents();
    assert_eq!(documents[1]["metadata"]["annotations"]["example.org/touched"], "yes", "{documents:#?}");

    let sandbox = self::sandbox();
    let ran = sandbox.run(&[
        "functions",
        "run",
        &image,
        "request.json",
        "--grant",
        "chroot",
        "--protocol",
        "resource-list",
    ]);
    assert!(ran.stderr.contains("bin") && !ran.stderr.lines().any(|line| line == "0"), "{ran:?}");
    ran.ok();
}

#[test]
fn krm_functions_are_run() {
    let Some(machine) = machine() else { return };
    let sandbox = sandbox();
    let script = r#"sed 's/"kind":"ConfigMap","metadata":{/&"labels":{"krm":"yes"},/'"#;
    TestImage::new(&machine, shell(script)).export(&sandbox.path("krm"), &sandbox.path("krm.tar"));
    let answer = answer(sandbox.run(&["functions", "run", "krm", "request.json", "--protocol", "krm"]));
    let labels = &answer["desired"]["resources"]["a"]["resource"]["metadata"]["labels"];
    assert_eq!(labels, &json!({"krm": "yes"}), "{answer:#}");
    let fails = r#"echo '{"apiVersion":"config.kubernetes.io/v1","kind":"ResourceList","items":[],
        "results":[{"severity":"error","message":"no luck"}]}'; exit 1"#;
    TestImage::new(&machine, shell(fails)).export(&sandbox.path("fails"), &sandbox.path("fails.tar"));
    let ran = sandbox.run(&["functions", "run", "fails", "request.json", "--protocol", "krm"]);
    assert!(ran.stderr.contains("no luck"), "{ran:?}");
}
