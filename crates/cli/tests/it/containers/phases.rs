//! Phases of Blueprints that run images in `up`, which has no pods: in containers of the plane's own.

use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use ferroplane_image::build::Layer;
use rustix::process::Signal;
use tempfile::TempDir;

use super::images::{TestImage, machine, shell};
use super::languages::{execution, jq_layer};
use super::registry::TestRegistry;
use crate::peers::peer;
use crate::plane::Plane;

/// By which the process of a container is found: its command line.
const MARKER: &str = "sleep\x00424242";

const BLUEPRINT: &str = r####"
apiVersion: cr.kanister.io/v1alpha1
kind: Blueprint
metadata: {name: images, namespace: default}
actions:
  run:
    phases:
    - func: KubeTask
      name: task
      args:
        image: IMAGE
        command:
        - sh
        - -c
        - |
          nc -w 1 127.0.0.1 PORT < /dev/null && reached=yes
          echo "###Phase-output###:{\"key\":\"who\",\"value\":\"$WHO\"}"
          echo "###Phase-output###:{\"key\":\"reached\",\"value\":\"${reached:-no}\"}"
        podOverride: {containers: [{name: container, env: [{name: WHO, value: me}]}]}
    - func: MultiContainerRun
      name: both
      args:
        initImage: IMAGE
        initCommand: [sh, -c, echo first > /shared/first]
        backgroundImage: IMAGE
        backgroundCommand: [sh, -c, cat /shared/first > /shared/part; busybox mv /shared/part /shared/whole]
        outputImage: IMAGE
        outputCommand:
        - sh
        - -c
        - |
          until test -e /shared/whole; do sleep 0.1; done
          read line < /shared/whole
          echo "###Phase-output###:{\"key\":\"line\",\"value\":\"$line\"}"
        sharedVolumeDir: /shared
  fail:
    phases:
    - func: KubeTask
      name: failing
      args:
        image: IMAGE
        command: [sh, -c, echo disk full >&2; exit 3]
  hang:
    phases:
    - func: KubeTask
      name: hanging
      args:
        image: IMAGE
        command: [sleep, '424242']
    deferPhase:
      func: KubeOps
      name: tell
      args:
        operation: create
        namespace: default
        spec: '{apiVersion: v1, kind: ConfigMap, metadata: {name: deferred, namespace: default}}'
"####;

fn blueprint(image: &str, port: u16) -> String {
    BLUEPRINT.replace("IMAGE", image).replace("PORT", &port.to_string())
}

fn action_set(name: &str, action: &str) -> String {
    format!(
        "apiVersion: cr.kanister.io/v1alpha1\nkind: ActionSet\nmetadata: {{name: {name}, namespace: default}}\n\
         spec: {{actions: [{{name: {action}, blueprint: images, object: {{kind: Namespace, name: default}}}}]}}\n"
    )
}

fn grant(image: &str) -> String {
    format!(
        "apiVersion: ferroplane.io/v1alpha1\nkind: AccessGrant\nmetadata: {{name: network}}\n\
         spec: {{to: {{namespaces: [default], kinds: [{{apiGroup: cr.kanister.io, kind: ActionSet}}]}}, \
         read: [{{apiGroups: [''], kinds: [Namespace], namespaces: ['*']}}], run: [{{privileges: [Network], images: ['{image}']}}]}}\n"
    )
}

/// Whoever is about a namespace has to be granted to read it.
fn read_grant() -> &'static str {
    "apiVersion: ferroplane.io/v1alpha1\nkind: AccessGrant\nmetadata: {name: read}\n\
     spec: {to: {namespaces: [default]}, read: [{apiGroups: [''], kinds: [Namespace], namespaces: ['*']}]}\n"
}

fn field(plane: &Plane, name: &str, path: &str) -> String {
    plane.says(&format!("kubectl get actionset/{name} -o jsonpath='{{.status{path}}}'"))
}

fn wait(plane: &Plane, name: &str, state: &str) {
    plane.says(&format!(
        "kubectl wait actionset/{name} --for=jsonpath='{{.status.state}}'={state} --timeout=120s || \
         (kubectl get actionset/{name} -o yaml; exit 1)"
    ));
}

/// How many processes of containers run.
fn running() -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let commands = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    commands.filter(|command| String::from_utf8_lossy(command).contains(MARKER)).count()
}

fn wait_until_running(expected: bool) {
    let began = Instant::now();
    while (running() > 0) != expected {
        assert!(began.elapsed() < Duration::from_mins(2), "a container runs: {}", !expected);
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn phases_run_images_in_containers_and_nothing_is_left_of_them() {
    let (Some(machine), Some(_)) = (machine(), peer("kubectl")) else { return };
    let Some(registry) = TestRegistry::start(false) else { return };
    let image = registry.push(&TestImage::new(&machine, shell("true")), "tools:1");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let blueprint = blueprint(&image, listener.local_addr().unwrap().port());
    // One container reaches it.
    std::thread::spawn(move || listener.accept().map(drop));
    let plane = Plane::start(TempDir::new().unwrap(), &["--data-dir", "data"]);
    plane.told("kubectl apply -f -", &format!("{blueprint}---\n{}", read_grant()));

    plane.told("kubectl apply -f -", &action_set("one", "run"));
    wait(&plane, "one", "complete");
    assert_eq!(field(&plane, "one", ".actions[0].phases[0].output.who"), "me");
    assert_eq!(field(&plane, "one", ".actions[0].phases[0].output.reached"), "no");
    assert_eq!(field(&plane, "one", ".actions[0].phases[1].output.line"), "first");

    // The network is there for an image that has a grant.
    plane.told("kubectl apply -f -", &grant(&image));
    plane.told("kubectl apply -f -", &action_set("two", "run"));
    wait(&plane, "two", "complete");
    assert_eq!(field(&plane, "two", ".actions[0].phases[0].output.reached"), "yes");

    plane.told("kubectl apply -f -", &action_set("three", "fail"));
    wait(&plane, "three", "failed");
    let said = field(&plane, "three", ".errors[0].message");
    assert!(said.contains("exited with code 3: disk full"), "{said}");

    // A container ends with the plane, however that ends; nobody can know what its command did.
    plane.told("kubectl apply -f -", &action_set("four", "hang"));
    wait_until_running(true);
    plane.signal(Signal::KILL);
    let mut plane = plane;
    plane.end();
    wait_until_running(false);
    let plane = Plane::start(plane.into_directory(), &["--data-dir", "data"]);
    wait(&plane, "four", "failed");
    assert_eq!(field(&plane, "four", ".errors[0].code"), "PhaseInterrupted");
    plane.says("kubectl get configmap/deferred");

    // So it does when its ActionSet is cancelled.
    plane.says("kubectl delete configmap/deferred");
    plane.told("kubectl apply -f -", &action_set("five", "hang"));
    wait_until_running(true);
    plane.says("kubectl annotate actionset/five ferroplane.io/cancel=true");
    wait(&plane, "five", "failed");
    wait_until_running(false);
    plane.stop();
}

#[test]
fn example_of_a_function_for_phases_is_installed_and_called() {
    let (Some(machine), Some(_)) = (machine(), peer("kubectl")) else { return };
    let (Some(mut program), Some(registry)) = (jq_layer(&machine), TestRegistry::start(false)) else {
        return;
    };
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/action-function");
    let read = |name: &str| std::fs::read_to_string(example.join(name)).unwrap();
    program.add_file(&example.join("function.sh"), "function.sh").unwrap();
    let mut manifests = Layer::new().annotate("io.crossplane.xpkg", "base");
    manifests.add_bytes(read("package/crossplane.yaml").into_bytes(), "package.yaml", false).unwrap();
    let package = TestImage::of(vec![program, manifests], execution(&["/bin/sh", "/function.sh"]));
    let image = registry.push(&package, "function-backup-path:v0.1.0");
    let plane = Plane::start(TempDir::new().unwrap(), &["--data-dir", "data"]);
    let function = read("function.yaml").replace("registry.example.org/function-backup-path:v0.1.0", &image);
    plane.told("kubectl apply -f -", &function);
    plane.says("kubectl wait function/function-backup-path --for=condition=Healthy --timeout=120s");
    plane.says("kubectl create configmap db-settings");
    plane.told("kubectl apply -f -", &read("blueprint.yaml"));
    plane.told("kubectl apply -f -", &read("backup.yaml").replace("generateName: backup-", "name: one"));
    wait(&plane, "one", "complete");
    assert_eq!(field(&plane, "one", ".actions[0].phases[0].function.version"), "v0.1.0");
    let noted = plane.says("kubectl get configmap/planned-backup -o jsonpath='{.data.path}'");
    assert_eq!(noted, "s3://backups/default/db-settings");
    plane.stop();
}
