//! Revisions of a function that misbehave, as real programs in containers, are rolled back on `up`: at most one composite resource is harmed
//! at a time, and nothing is deleted.

use std::time::{Duration, Instant};

use ferroplane_image::build::Layer;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::containers::images::{Machine, TestImage, machine, shell};
use crate::containers::registry::TestRegistry;
use crate::logs;
use crate::peers::peer;
use crate::plane::Plane;
use crate::rollout::{DEFINITION, function};

/// How long a rollout may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(4);

/// Its program is run for every call, and is no server.
const META: &str = "apiVersion: meta.pkg.crossplane.io/v1\nkind: Function\nmetadata:\n  name: function-own\n  annotations:\n    \
                    ferroplane.io/protocol: RunFunction\nspec: {}\n";

/// How many composite resources are created while a revision is rolled out.
const LATE: usize = 20;

const COMPOSITION: &str = "
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: example}
spec:
  compositeTypeRef: {apiVersion: custom-api.example.org/v1alpha1, kind: AcmeBucket}
  mode: Pipeline
  pipeline:
  - {step: compose, functionRef: {name: own}}
";

/// The resources come from a function that is built in. The program has to answer, too.
const COMPOSITION_OF_SERVERS: &str = "
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: example}
spec:
  compositeTypeRef: {apiVersion: custom-api.example.org/v1alpha1, kind: AcmeBucket}
  mode: Pipeline
  pipeline:
  - step: compose
    functionRef: {name: function-patch-and-transform}
    input:
      apiVersion: pt.fn.crossplane.io/v1beta1
      kind: Resources
      resources:
      - {name: a, base: {apiVersion: v1, kind: ConfigMap, data: {color: one}}, readinessChecks: [{type: None}]}
  - {step: own, functionRef: {name: own}}
";

/// What a new revision does wrong: in words, as a script, and what the rollout has to say about it.
type Fault = (&'static str, String, Value);

/// What works: `b` cannot be changed once it is there.
fn resources(color: &str) -> Value {
    json!({
        "a": {
            "resource": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"color": color}}, "ready": "READY_TRUE",
        },
        "b": {
            "resource": {"apiVersion": "v1", "kind": "ConfigMap", "immutable": true, "data": {"value": "first"}},
            "ready": "READY_TRUE",
        },
    })
}

/// A command that prints an answer with these resources.
fn print(resources: &Value) -> String {
    format!("echo '{}'", json!({"desired": {"resources": resources}}))
}

/// A script that does this when it has read what it is asked.
fn script(does: &str) -> String {
    format!("cat > /dev/null; {does}")
}

/// A script that answers with what works, but for this change.
fn changed(change: impl Fn(&mut Value)) -> String {
    let mut resources = resources("two");
    change(&mut resources);
    script(&print(&resources))
}

fn package(machine: &Machine, script: &str) -> TestImage {
    let mut manifests = Layer::new().annotate("io.crossplane.xpkg", "base");
    manifests.add_bytes(META.as_bytes().to_vec(), "package.yaml", false).unwrap();
    TestImage::of(vec![machine.layer(), manifests], shell(script))
}

/// A package of a server of upstream's, which this script starts as `/server` with the arguments that it gets.
fn package_of_server(machine: &Machine, script: &str) -> TestImage {
    let mut layer = machine.layer();
    layer.add_file(&peer("function-auto-ready").unwrap(), "server").unwrap();
    logs::package(layer, script, "")
}

fn bucket(name: &str) -> String {
    let tier = if name == "canary" { "canary" } else { "any" };
    format!(
        "
apiVersion: custom-api.example.org/v1alpha1
kind: AcmeBucket
metadata: {{name: {name}, namespace: default, labels: {{tier: {tier}}}}}
spec: {{}}
---
"
    )
}

fn rollout(more: &Value) -> String {
    // A busy machine is slow by itself.
    let mut spec = json!({
        "functionRef": {"name": "own"}, "waves": ["1", "50%", "100%"], "first": {"matchLabels": {"tier": "canary"}},
        "minReadySeconds": 1, "progressDeadlineSeconds": 120, "gates": {"maxLatencyFactor": 0},
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let metadata = json!({"name": "own"});
    json!({
        "apiVersion": "rollout.ferroplane.io/v1alpha1", "kind": "FunctionRollout", "metadata": metadata, "spec": spec,
    })
    .to_string()
}

/// Three composite resources that a program in a container composes, and a rollout for it.
struct Fleet {
    plane: Plane,
    registry: TestRegistry,
    machine: Machine,
    /// Makes a package that runs a script.
    package: fn(&Machine, &str) -> TestImage,
    /// The identities of everything that is composed.
    composed: String,
}

impl Fleet {
    /// Nothing if this machine cannot run containers, or lacks something else.
    fn begin() -> Option<Self> {
        Self::begin_with(&script(&print(&resources("one"))))
    }

    /// The same with another program, which answers `one`.
    fn begin_with(program: &str) -> Option<Self> {
        Self::begin_as(COMPOSITION, package, program)
    }

    /// The same with another Composition and package.
    fn begin_as(composition: &str, package: fn(&Machine, &str) -> TestImage, program: &str) -> Option<Self> {
        let (machine, _) = (machine()?, peer("kubectl")?);
        let registry = TestRegistry::start(false)?;
        let plane = Plane::start(TempDir::new().unwrap(), &["--data-dir", "data"]);
        let mut fleet = Self { plane, registry, machine, package, composed: String::new() };
        fleet.plane.told("kubectl apply -f -", DEFINITION);
        fleet.plane.says(
            "kubectl wait xrd/acmebuckets.custom-api.example.org --for=condition=Established --timeout=60s",
        );
        fleet.install(0, program);
        fleet.plane.says("kubectl wait function/own --for=condition=Healthy --timeout=120s");
        fleet.plane.told("kubectl apply -f -", composition);
        fleet.plane.told("kubectl apply -f -", &["canary", "two", "three"].map(bucket).concat());
        fleet.until_all_are("one");
        fleet.composed = fleet.composed();
        fleet.plane.told("kubectl apply -f -", &rollout(&json!({})));
        fleet.until_status("state", "Idle");
        Some(fleet)
    }

    /// Make a version of this script the current one.
    fn install(&self, number: usize, script: &str) {
        let name = format!("acme/function-own:v1.{number}.0");
        let image = self.registry.push(&(self.package)(&self.machine, script), &name);
        self.plane.told("kubectl apply -f -", &function("own", &image, "any"));
    }

    fn get(&self, what: &str) -> Value {
        let said = self.plane.says(&format!("kubectl get {what} -o json"));
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"))
    }

    fn composed(&self) -> String {
        self.plane
            .says("kubectl get configmaps -l crossplane.io/composite -o jsonpath='{.items[*].metadata.uid}'")
    }

    /// All are ready, and have been composed by whoever answers this color.
    fn until_all_are(&self, color: &str) {
        for condition in ["Synced", "Ready"] {
            self.plane
                .says(&format!("kubectl wait acmebuckets --all --for=condition={condition} --timeout=120s"));
        }
        let colors = "kubectl get configmaps -l crossplane.io/composite -o jsonpath='{.items[*].data.color}'";
        self.plane.says(&format!(
            "timeout 60 sh -c 'until [ \"$({})\" = \"{color} {color} {color}\" ]; do sleep 0.2; done'",
            colors.replace('\'', "")
        ));
    }

    /// Wait until the program that answers this color has composed so many.
    fn until_so_many_are(&self, color: &str, count: usize) {
        let colors = "kubectl get configmaps -l crossplane.io/composite -o jsonpath='{.items[*].data.color}'";
        let count_of = |said: &str| said.split_whitespace().filter(|it| *it == color).count();
        self.plane.until_said(colors, |said| count_of(said) == count);
    }

    /// Kill the control plane, and start it again.
    fn kill(self) -> Self {
        let Self { mut plane, registry, machine, package, composed } = self;
        plane.signal(Signal::KILL);
        plane.end();
        let plane = Plane::start(plane.into_directory(), &["--data-dir", "data"]);
        Self { plane, registry, machine, package, composed }
    }

    /// Kill the control plane, and see that the rollout is where it was.
    fn kill_in(self, state: &str) -> Self {
        self.until_status("state", state);
        let status = |fleet: &Self| fleet.get("functionrollout own")["status"].clone();
        let before = status(&self);
        let fleet = self.kill();
        let after = status(&fleet);
        for field in ["candidate", "rejected", "stable", "startedAt", "state", "wave"] {
            assert_eq!(after[field], before[field], "killed when it was {state}: {field}: {after:#}");
        }
        fleet
    }

    /// Send all back from a revision.
    fn undo(&self, revision: &Value) {
        let revision = revision.as_str().unwrap();
        self.plane
            .says(&format!("kubectl annotate functionrollout/own rollout.ferroplane.io/undo={revision}"));
    }

    /// Wait until a field of the status of the rollout is so.
    fn until_status(&self, path: &str, value: &str) {
        self.plane.says(&format!(
            "kubectl wait functionrollout/own --for=jsonpath='{{.status.{path}}}'={value} --timeout=120s"
        ));
    }

    /// Wait until a further rollout has ended so. Returns how many were harmed at the same time at most.
    fn until_ended(&self, before: &Value, state: &str, fault: &str) -> usize {
        let deadline = Instant::now() + PATIENCE;
        let mut most = 0;
        loop {
            let buckets = self.get("acmebuckets");
            let harmed = buckets["items"].as_array().unwrap().iter().filter(|it| !is_well(it)).count();
            most = most.max(harmed);
            let status = self.get("functionrollout own")["status"].clone();
            let record = &status["history"][0];
            if record["revision"] != *before && status["state"] == state {
                return most;
            }
            let is_otherwise = record["revision"] != *before && record["result"] != state;
            assert!(!is_otherwise && Instant::now() < deadline, "{fault}: {status:#}\n{buckets:#}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Install a revision with each fault, and see it rolled back before it does much harm.
    fn roll_back_each(&self, faults: &[Fault]) {
        for (number, (fault, script, more)) in (1..).zip(faults) {
            self.plane.told("kubectl apply -f -", &rollout(more));
            let before = self.get("functionrollout own")["status"]["history"][0]["revision"].clone();
            self.install(number, script);
            let most = self.until_ended(&before, "RolledBack", fault);
            assert!(most <= 1, "{fault}: {most} of three were harmed");
            self.until_all_are("one");
            assert_eq!(self.composed(), self.composed, "{fault}: nothing is deleted");
        }
    }
}

fn is_well(bucket: &Value) -> bool {
    let conditions = bucket["status"]["conditions"].as_array().into_iter().flatten();
    let is_true = |kind: &str| conditions.clone().any(|it| it["type"] == kind && it["status"] == "True");
    is_true("Synced") && is_true("Ready")
}

#[test]
fn programs_that_end_badly_are_rolled_back_and_one_that_works_is_promoted() {
    let Some(fleet) = Fleet::begin() else { return };
    fleet.roll_back_each(&[
        ("crashes", script("echo no >&2; exit 3"), json!({})),
        ("hangs", script("sleep 1000"), json!({})),
        ("answers 100 MB", script("seq 1 14000000"), json!({})),
        ("leaks until it is killed", script("x=0123456789abcdef; while :; do x=$x$x; done"), json!({})),
    ]);
    let before = fleet.get("functionrollout own")["status"]["history"][0]["revision"].clone();
    fleet.install(9, &script(&print(&resources("two"))));
    assert!(fleet.until_ended(&before, "Promoted", "works") <= 1);
    fleet.until_all_are("two");
    assert_eq!(fleet.composed(), fleet.composed, "nothing is deleted");
}

/// They serve long enough for the first wave.
#[test]
fn servers_that_are_killed_or_hang_in_the_middle_of_a_rollout_are_rolled_back() {
    let Some(_) = peer("function-auto-ready") else { return };
    let serve = "exec /server \"$@\"";
    let Some(fleet) = Fleet::begin_as(COMPOSITION_OF_SERVERS, package_of_server, serve) else { return };
    let observed = json!({"minReadySeconds": 6});
    fleet.roll_back_each(&[
        ("is killed", "/server \"$@\" & sleep 8; kill -KILL $!; exit 3".to_owned(), observed.clone()),
        ("hangs", "/server \"$@\" & sleep 8; kill -STOP $!; wait".to_owned(), observed),
    ]);
}

#[test]
fn control_plane_that_is_killed_goes_on_with_a_rollout_where_it_was() {
    let Some(fleet) = Fleet::begin() else { return };
    let fleet = fleet.kill_in("Idle");
    // Before anybody is moved, and while a wave is observed.
    fleet.plane.told("kubectl apply -f -", &rollout(&json!({"paused": true})));
    fleet.install(1, &script(&print(&resources("two"))));
    let fleet = fleet.kill_in("Paused");
    fleet.plane.told("kubectl apply -f -", &rollout(&json!({"minReadySeconds": 600})));
    fleet.until_status("composites.ready", "1");
    let fleet = fleet.kill_in("Progressing");
    let candidate = fleet.get("functionrollout own")["status"]["candidate"].clone();
    fleet.plane.told("kubectl apply -f -", &rollout(&json!({"minReadySeconds": 0})));
    fleet.until_status("state", "Promoted");
    fleet.until_all_are("two");
    // After it has ended, either way.
    let fleet = fleet.kill_in("Promoted");
    fleet.undo(&candidate);
    fleet.until_status("state", "RolledBack");
    fleet.until_all_are("one");
    let fleet = fleet.kill_in("RolledBack");
    fleet.until_all_are("one");
    assert_eq!(fleet.composed(), fleet.composed, "nothing is deleted");
}

/// Programs take their time, so that neither state is over before the control plane is killed.
#[test]
fn control_plane_that_is_killed_in_a_preview_or_on_the_way_back_goes_on_where_it_was() {
    let old = format!("case \"$(cat)\" in *goes-back*) sleep 10;; esac; {}", print(&resources("one")));
    let Some(fleet) = Fleet::begin_with(&old) else { return };
    fleet.plane.told("kubectl apply -f -", &rollout(&json!({"preview": true, "minReadySeconds": 600})));
    fleet.install(1, &script(&format!("sleep 10; {}", print(&resources("two")))));
    let fleet = fleet.kill_in("Previewing");
    fleet.until_all_are("one");
    fleet.until_status("composites.ready", "1");
    fleet.until_so_many_are("two", 1);
    let candidate = fleet.get("functionrollout own")["status"]["candidate"].clone();
    fleet.plane.says("kubectl label acmebuckets --all goes-back=yes");
    fleet.undo(&candidate);
    let fleet = fleet.kill_in("RollingBack");
    fleet.until_status("state", "RolledBack");
    fleet.until_all_are("one");
    assert_eq!(fleet.composed(), fleet.composed, "nothing is deleted");
}

#[test]
fn old_program_that_ends_and_a_registry_that_loses_its_images_stop_no_rollout() {
    // It ends without an answer as soon as composite resources say so.
    let works = print(&resources("one"));
    let mortal = format!("case \"$(cat)\" in *old-ends*) exit 3;; *) {works};; esac");
    let Some(fleet) = Fleet::begin_with(&mortal) else { return };
    fleet.plane.told("kubectl apply -f -", &rollout(&json!({"minReadySeconds": 600})));
    fleet.install(1, &script(&print(&resources("two"))));
    fleet.until_status("composites.ready", "1");
    fleet.registry.delete_images();
    fleet.plane.says("kubectl label acmebuckets --all old-ends=yes");
    fleet.plane.says("kubectl wait acmebuckets/two --for=condition=Synced=False --timeout=120s");
    fleet.plane.told("kubectl apply -f -", &rollout(&json!({"minReadySeconds": 0})));
    fleet.until_status("state", "Promoted");
    fleet.until_all_are("two");
    assert_eq!(fleet.composed(), fleet.composed, "nothing is deleted");
}

#[test]
fn composite_resources_that_are_created_meanwhile_call_the_old_program_until_their_turn() {
    let Some(fleet) = Fleet::begin() else { return };
    fleet.plane.told("kubectl apply -f -", &rollout(&json!({"minReadySeconds": 600})));
    fleet.install(1, &script(&print(&resources("two"))));
    fleet.until_status("composites.ready", "1");
    let late: String = (0..LATE).map(|number| bucket(&format!("late-{number}"))).collect();
    fleet.plane.told("kubectl apply -f -", &late);
    fleet.until_so_many_are("one", LATE + 2);
    fleet.plane.says("kubectl wait acmebuckets --all --for=condition=Ready --timeout=120s");
    fleet.until_so_many_are("two", 1);
    fleet.plane.told("kubectl apply -f -", &rollout(&json!({"minReadySeconds": 0})));
    fleet.until_status("state", "Promoted");
    fleet.until_so_many_are("two", LATE + 3);
    fleet.until_status("composites.total", &(LATE + 3).to_string());
}

#[test]
fn programs_that_compose_something_else_are_rolled_back() {
    let Some(fleet) = Fleet::begin() else { return };
    let refused = json!({"refuse": ["Deleted", "Renamed", "NotDeterministic"]});
    // A quote ends, and what follows is the shell's.
    let id = "read -r id < /proc/sys/kernel/random/uuid";
    let restless = print(&resources("ID")).replace("ID", "'$id'");
    fleet.roll_back_each(&[
        ("drops a resource", changed(|it| drop(it.as_object_mut().unwrap().remove("b"))), json!({})),
        (
            "renames a resource",
            changed(|it| {
                let resources = it.as_object_mut().unwrap();
                let b = resources.remove("b").unwrap();
                resources.insert("c".to_owned(), b);
            }),
            json!({}),
        ),
        (
            "changes what cannot be changed",
            changed(|it| it["b"]["resource"]["data"]["value"] = json!("second")),
            json!({}),
        ),
        ("is not deterministic", script(&format!("{id}; {restless}")), refused),
    ]);
}

#[test]
fn programs_that_are_slow_or_fail_later_are_rolled_back() {
    let Some(fleet) = Fleet::begin() else { return };
    let slow = json!({
        "refuse": ["Deleted", "Renamed", "Slower"], "gates": {"maxLatencyFactor": 2, "slowMilliseconds": 2000},
    });
    let nothing = json!({"apiVersion": "nothing.example.org/v1", "kind": "Nothing", "matchName": "x"});
    let requires = json!({
        "requirements": {"resources": {"nothing": nothing}},
        "results": [{"severity": "SEVERITY_FATAL", "message": "there is nothing"}],
    });
    let works = print(&resources("two"));
    fleet.roll_back_each(&[
        ("is slow", script(&format!("sleep 8; {works}")), slow),
        ("requires what does not exist", script(&format!("echo '{requires}'")), json!({})),
        (
            "never becomes ready",
            changed(|it| it["a"]["ready"] = json!("READY_FALSE")),
            json!({"progressDeadlineSeconds": 3}),
        ),
        (
            "works for the first, and fails later",
            format!("case \"$(cat)\" in *canary*) {works};; *) exit 3;; esac"),
            json!({}),
        ),
    ]);
}
