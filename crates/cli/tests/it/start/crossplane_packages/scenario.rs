//! What a user does with packages, in what order, and what exists once nothing changes any more.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::ground::Ground;
use super::manifests::{direct, image_config, installed, mirrored, publish, push_all, runtime_config};
use super::snapshot::{Form, NAMESPACE, gather, has_orphans, snapshot};
use crate::packages::LocalRegistry;

const PKG: &str = "/apis/pkg.crossplane.io/v1";
/// How long a package may take on a busy machine. Crossplane tries again later and later.
const PATIENCE: Duration = Duration::from_mins(4);
const PAUSE: Duration = Duration::from_millis(1500);
/// How many times in a row everything must be as it was.
const STILL: u32 = 4;
/// How many looks are taken before a state is recorded that still changes.
const LOOKS: u32 = 60;

/// A state that both sides have to reach.
#[derive(Debug, Clone, Copy)]
pub(super) enum Moment {
    Installed,
    Upgraded,
    Held,
    Failing,
    Removed,
}

impl Moment {
    const ALL: [Self; 5] = [Self::Installed, Self::Upgraded, Self::Held, Self::Failing, Self::Removed];

    fn title(self) -> &'static str {
        match self {
            Self::Installed => "a Function, a Configuration with a dependency and a Provider are installed",
            Self::Upgraded => "all three are upgraded",
            Self::Held => "a package with the policy Manual is installed",
            Self::Failing => "an image is missing, and a dependency is too old",
            Self::Removed => "packages are deleted",
        }
    }
}

/// A user, a cluster without nodes, and a registry with packages.
pub(super) struct Scenario<'a> {
    ground: &'a Ground,
    registry: &'a LocalRegistry,
}

impl<'a> Scenario<'a> {
    /// Push all packages. Nothing is installed yet.
    pub(super) fn prepare(ground: &'a Ground, registry: &'a LocalRegistry) -> Self {
        push_all(registry);
        // That of the control plane: its pull secrets are those of all pods.
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "crossplane"}});
        ground.create(&format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts"), &account);
        Self { ground, registry }
    }

    /// Play every moment. Returns what existed in each.
    pub(super) fn play_all(&self) -> Value {
        let play = |moment: Moment| {
            self.play(moment);
            json!({"title": moment.title(), "objects": self.settle()})
        };
        let moments: Vec<Value> = Moment::ALL.into_iter().map(play).collect();
        json!({"registry": self.registry.address, "moments": moments})
    }

    /// Do what leads to a moment, and wait until packages say that it is there.
    pub(super) fn play(&self, moment: Moment) {
        match moment {
            Moment::Installed => self.install(),
            Moment::Upgraded => self.upgrade(),
            Moment::Held => self.hold(),
            Moment::Failing => self.fail(),
            Moment::Removed => self.remove(),
        }
        eprintln!("reached: {}", moment.title());
    }

    /// Install one more Function, and wait until it is healthy: then everything that was there before has been reconciled, too.
    pub(super) fn install_probe(&self, name: &str) {
        let image = direct(self.registry, name, "v1.0.0");
        self.apply(&installed("Function", name, &image, &json!({})));
        self.until("functions", name, "Healthy", "True");
    }

    /// Install a Configuration that our command line has built, and wait until it is healthy and its objects exist.
    pub(super) fn install_built(&self) {
        let image = publish(self.registry);
        self.apply(&installed("Configuration", "built", &image, &json!({})));
        self.until("configurations", "built", "Healthy", "True");
        let definition = "/apis/apiextensions.crossplane.io/v2/compositeresourcedefinitions/builds.acme.org";
        self.ground.until(definition, |definition| !definition.is_null());
    }

    /// Wait until nothing changes any more. Returns what exists then.
    pub(super) fn settle(&self) -> Vec<Value> {
        let mut objects = gather(self.ground);
        let mut still = 0;
        for _ in 0..LOOKS {
            std::thread::sleep(PAUSE);
            self.run_pods();
            let now = gather(self.ground);
            let [before, after] = [objects, now.clone()].map(|objects| snapshot(objects, Form::Identity));
            still = if before == after && !has_orphans(&now) { still + 1 } else { 0 };
            objects = now;
            if still == STILL {
                return objects;
            }
        }
        eprintln!("something changes all the time");
        objects
    }

    fn install(&self) {
        self.apply(&image_config(self.registry));
        self.apply(&runtime_config());
        self.apply_versions("v1.0.0");
        self.until("functions", "acme-function-needed", "Healthy", "True");
    }

    fn upgrade(&self) {
        self.apply_versions("v1.1.0");
    }

    fn apply_versions(&self, version: &str) {
        let config = json!({"runtimeConfigRef": {"name": "two-pods"}});
        let own = direct(self.registry, "function-own", version);
        self.apply(&installed("Function", "own", &own, &config));
        let platform = mirrored("platform", version);
        self.apply(&installed("Configuration", "platform", &platform, &json!({})));
        let cloud = mirrored("provider-cloud", version);
        self.apply(&installed("Provider", "cloud", &cloud, &json!({})));
        for (plural, name) in [("functions", "own"), ("configurations", "platform"), ("providers", "cloud")] {
            self.until(plural, name, "Healthy", "True");
        }
    }

    fn hold(&self) {
        let manual = json!({"revisionActivationPolicy": "Manual"});
        self.apply(&installed("Configuration", "held", &mirrored("held", "v1.0.0"), &manual));
        self.until("configurations", "held", "Installed", "False");
    }

    fn fail(&self) {
        self.apply(&installed("Configuration", "absent", &mirrored("absent", "v1.0.0"), &json!({})));
        self.apply(&installed("Configuration", "wanting", &mirrored("wanting", "v1.0.0"), &json!({})));
        self.until("configurations", "absent", "Installed", "False");
        self.until("configurations", "wanting", "Healthy", "False");
    }

    fn remove(&self) {
        let packages = ["functions/own", "configurations/platform", "configurations/held", "providers/cloud"];
        for package in packages {
            self.ground.send("DELETE", &format!("{PKG}/{package}"), &Value::Null);
        }
        for package in packages {
            self.ground.until(&format!("{PKG}/{package}"), Value::is_null);
        }
    }

    /// Apply an object as a user does.
    fn apply(&self, object: &Value) {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let plural = format!("{}s", text(&object["kind"]).to_lowercase());
        let (version, name) = (text(&object["apiVersion"]), text(&object["metadata"]["name"]));
        self.ground.apply(&format!("/apis/{version}/{plural}/{name}"), object);
    }

    /// Wait until a condition of a package has a status that is about its newest spec.
    fn until(&self, plural: &str, name: &str, kind: &str, status: &str) {
        let path = format!("{PKG}/{plural}/{name}");
        let began = Instant::now();
        loop {
            self.run_pods();
            let package = self.ground.get(&path);
            if has_condition(&package, kind, status) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{kind} of {path} never became {status}: {package:#}");
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    /// Say of every pod that it runs, as a node would.
    fn run_pods(&self) {
        let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
        let list = self.ground.get(&pods);
        for pod in list["items"].as_array().into_iter().flatten() {
            if Ground::is_ready(pod) || pod["metadata"]["deletionTimestamp"].is_string() {
                continue;
            }
            let mut pod = pod.clone();
            pod["apiVersion"] = "v1".into();
            pod["kind"] = "Pod".into();
            let ready = json!({"type": "Ready", "status": "True"});
            pod["status"] = json!({"phase": "Running", "conditions": [ready]});
            let name = pod["metadata"]["name"].as_str().unwrap();
            // Another writer may have been faster: the next look tries again.
            let (code, answer) = self.ground.send("PUT", &format!("{pods}/{name}/status"), &pod);
            assert!(matches!(code, 200 | 404 | 409), "{code} {answer:#}");
        }
    }
}

fn has_condition(package: &Value, kind: &str, status: &str) -> bool {
    let generation = &package["metadata"]["generation"];
    let is_it = |condition: &Value| {
        condition["type"] == kind
            && condition["status"] == status
            && condition["observedGeneration"] == *generation
    };
    package["status"]["conditions"].as_array().into_iter().flatten().any(is_it)
}
