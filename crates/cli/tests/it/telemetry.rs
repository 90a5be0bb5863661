//! Metrics, traces and log lines of `ferroplane up`, as those receive them who are meant to.

mod collector;
mod metrics;
mod secrets;
mod traces;

use std::process::{Child, ChildStderr, Command, Stdio};

use ferroplane_testkit::free_port;
use tempfile::TempDir;

use crate::peers::peer;
use crate::plane::{Plane, ferroplane};

const DEFINITION: &str = "
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: sites.example.org}
spec:
  group: example.org
  names: {kind: Site, plural: sites}
  versions:
  - name: v1
    served: true
    referenceable: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {theme: {type: string}}}
          status: {type: object, properties: {greetedBy: {type: object, additionalProperties: {type: boolean}}}}
";

/// A `Site` becomes a `ConfigMap`, by functions that are built in.
const COMPOSITION: &str = "
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: site}
spec:
  compositeTypeRef: {apiVersion: example.org/v1, kind: Site}
  mode: Pipeline
  pipeline:
  - step: paint
    functionRef: {name: function-patch-and-transform}
    input:
      apiVersion: pt.fn.crossplane.io/v1beta1
      kind: Resources
      resources:
      - name: config
        base: {apiVersion: v1, kind: ConfigMap, data: {theme: none}}
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: spec.theme, toFieldPath: data.theme}
  - step: ready
    functionRef: {name: function-auto-ready}
";

const SITE: &str = "{apiVersion: example.org/v1, kind: Site, metadata: {name: blog, namespace: default}, spec: {theme: dark}}";

/// A plane with these variables and flags, and the platform on it.
fn platform(variables: &[(&str, &str)], flags: &[&str]) -> Plane {
    let plane = bare(variables, flags);
    define(&plane, COMPOSITION);
    plane
}

/// Makes it known what a `Site` is, and these manifests.
fn define(plane: &Plane, manifests: &str) {
    plane.told("kubectl apply -f -", &format!("{DEFINITION}---{manifests}"));
    plane.says("kubectl wait xrd/sites.example.org --for=condition=Established --timeout=60s");
}

/// A plane with these variables and flags.
fn bare(variables: &[(&str, &str)], flags: &[&str]) -> Plane {
    let directory = TempDir::new().unwrap();
    let mut command = up(&directory, flags);
    command.envs(variables.iter().copied());
    Plane::run_by(directory, command)
}

fn up(directory: &TempDir, flags: &[&str]) -> Command {
    let mut command = ferroplane(directory.path(), &["up", "--listen", "127.0.0.1:0"]);
    command.args(["--kubeconfig", "kubeconfig", "--data-dir", "data"]).args(flags);
    command
}

fn apply_site(plane: &Plane) {
    plane.told("kubectl apply -f -", SITE);
    plane.says("kubectl wait site/blog --for=condition=Ready --timeout=60s");
}

/// The greeter on the Go SDK, in plain text. Ends when it is dropped.
struct Greeter {
    child: Child,
    port: u16,
}

impl Greeter {
    /// Nothing if it is not installed.
    fn start() -> Option<Self> {
        let (program, port) = (peer("greeter-go")?, free_port());
        let child = Command::new(program)
            .args(["--insecure", "--address", &format!("127.0.0.1:{port}")])
            .env("GREETER_TELL_TRACE", "1")
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        Some(Self { child: child.unwrap(), port })
    }

    /// What it says about traces.
    fn words(&mut self) -> ChildStderr {
        self.child.stderr.take().unwrap()
    }
}

impl Drop for Greeter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
