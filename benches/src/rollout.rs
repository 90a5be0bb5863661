//! Rollouts of functions: what a preview and a rollout of many composite resources take, and what the overlay costs each step.
//!
//! The functions are code in this process that answers at once, so that the figures are those of the control plane. The API server is in
//! memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ferroplane_api::Object;
use ferroplane_controllers::{PackagedFunction, PackagedFunctions};
use ferroplane_engine::intercept::Intercept;
use ferroplane_engine::rollout::Overlay;
use ferroplane_runner::{AsyncFunction, Runner};
use ferroplane_testkit::plane::sites::SITES;
use ferroplane_testkit::plane::{FakeRegistry, Plane};
use ferroplane_wire::from_json;
use nix::sys::resource::UsageWho;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::measure::{Stopwatch, Times, pretty};

const COUNT: usize = 1000;
const ROLLOUT: &str = "/apis/rollout.ferroplane.io/v1alpha1/functionrollouts/own";
const FUNCTION: &str = "/apis/pkg.crossplane.io/v1/functions/own";
const COMPOSITION: &str = "/apis/apiextensions.crossplane.io/v1/compositions/sites";
const BUDGET: Duration = Duration::from_secs(1);

pub(crate) fn run() {
    overlay();
    let runtime = Runtime::new().expect("there is a runtime");
    println!("\n| {COUNT} XRs | wall | CPU | calls of functions |\n|---|---|---|---|");
    runtime.block_on(roll_out());
}

/// What each selection of a composite resource costs more.
fn overlay() {
    let rollout = object(&json!({
        "metadata": {"name": "own"},
        "spec": {"functionRef": {"name": "own"}, "first": {"matchLabels": {"tier": "canary"}}},
        "status": {
            "stable": "own-1", "candidate": "own-2", "wave": 2,
            "cohort": [{"until": "2026-11-01T00:00:00Z", "bound": "8fffffffffffffff", "movedAt": "2026-11-01T00:00:00Z"}],
        },
    }));
    let intercept = object(&json!({
        "metadata": {"name": "debug", "uid": "1"},
        "spec": {"functionRef": {"name": "own"}, "composites": {"kind": "Site", "name": "blog"}, "to": "laptop:9443"},
    }));
    let composite = object(&json!({
        "apiVersion": "example.org/v1", "kind": "Site",
        "metadata": {
            "name": "blog", "namespace": "default", "uid": "0b2f6c1e-6a53-4a55-9f0e-1f1e2d3c4b5a",
            "creationTimestamp": "2026-10-01T00:00:00Z", "labels": {"tier": "canary"},
        },
    }));
    let overlay = Overlay::read(&rollout).expect("it has a stable revision");
    let intercept = Intercept::read(&intercept).expect("it can be read");
    println!("| a look-up | best | p50 | p99 |\n|---|---|---|---|");
    // A thousand at a time: a clock is slower than one of them.
    let print = |what: &str, times: &Times| {
        let [best, p50, p99] = [times.best(), times.p50(), times.p99()].map(|time| pretty(time / 1000));
        println!("| {what} | {best} | {p50} | {p99} |");
    };
    let chosen =
        || (0..1000).filter(|_| overlay.revision(overlay.choose(&composite, false)) == "own-2").count();
    print("which revision a composite resource calls", &Times::of(BUDGET, chosen));
    let selected = || (0..1000).filter(|_| intercept.selects(&composite)).count();
    print("whether a developer's process is called", &Times::of(BUDGET, selected));
}

/// A fleet on which functions are rolled out.
struct Fleet {
    plane: Plane,
    functions: Arc<PackagedFunctions>,
    calls: Arc<AtomicUsize>,
}

async fn roll_out() {
    let fleet = Fleet::begin().await;
    // Without a rollout, all are moved at once.
    fleet.measure("plain change", "v2.0.0", "two", None).await;
    let preview =
        json!({"functionRef": {"name": "own"}, "preview": true, "paused": true, "minReadySeconds": 0});
    fleet.measure("preview", "v3.0.0", "three", Some(&preview)).await;
    let waves =
        json!({"functionRef": {"name": "own"}, "minReadySeconds": 0, "preview": false, "paused": false});
    fleet.measure("rollout in waves, after that", "v3.0.0", "three", Some(&waves)).await;
}

impl Fleet {
    async fn begin() -> Self {
        let registry = FakeRegistry::default();
        for version in ["v1.0.0", "v2.0.0", "v3.0.0"] {
            let image = format!("registry.example.org/acme/function-own:{version}");
            let package = "apiVersion: meta.pkg.crossplane.io/v1\nkind: Function\nmetadata: {name: function-own}\nspec: {}\n";
            registry.push(&image, &format!("# {version}\n{package}"));
        }
        let functions = registry.run_functions();
        let plane = Plane::with_registry(&registry).await;
        plane.define_sites().await;
        let fleet = Self { plane, functions, calls: Arc::default() };
        fleet.install("v1.0.0", "one").await;
        let composition = json!({
            "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "sites"},
            "spec": {
                "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "Site"}, "mode": "Pipeline",
                "pipeline": [{"step": "own", "functionRef": {"name": "own"}}],
            },
        });
        fleet.plane.apply(COMPOSITION, &composition).await;
        for number in 0..COUNT {
            fleet.plane.create_site(&format!("site-{number}"), "any").await;
        }
        fleet.until_color("one").await;
        fleet
    }

    /// Install a version that makes sites of this color. Returns when it is in service.
    async fn install(&self, version: &str, color: &str) {
        let function = json!({
            "apiVersion": "pkg.crossplane.io/v1", "kind": "Function", "metadata": {"name": "own"},
            "spec": {
                "package": format!("registry.example.org/acme/function-own:{version}"), "activeRevisionLimit": 2,
                "revisionHistoryLimit": 9,
            },
        });
        let applied = self.plane.apply(FUNCTION, &function).await;
        let is_current = |function: &Value| {
            function["status"]["currentIdentifier"] == applied["spec"]["package"]
                && function["status"]["currentRevision"].is_string()
        };
        let current = self.plane.until(FUNCTION, is_current).await;
        let revision = current["status"]["currentRevision"].as_str().unwrap_or_default().to_owned();
        let mut wanted = self.functions.wanted();
        wanted.wait_for(|wanted| wanted.contains_key(&revision)).await.expect("somebody wants it");
        self.functions.set(&revision, Some(PackagedFunction::Serving(self.runner(color))));
    }

    fn runner(&self, color: &str) -> Arc<Runner> {
        let resource = |name: &str| {
            let object =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"who": name, "color": color}});
            json!({"resource": object, "ready": "READY_TRUE"})
        };
        let answer = json!({"meta": {}, "desired": {
            "composite": {"resource": {"status": {"color": color}}},
            "resources": {"a": resource("a"), "b": resource("b"), "c": resource("c")},
        }});
        let calls = self.calls.clone();
        let call = move |_| {
            calls.fetch_add(1, Ordering::Relaxed);
            let answer = answer.clone();
            async move { Ok(from_json(&answer).expect("it is an answer")) }
        };
        Arc::new(Runner::AsyncFunction(AsyncFunction::new(call)))
    }

    async fn until_color(&self, color: &str) {
        let is_all = |list: &Value| {
            let sites = list["items"].as_array().into_iter().flatten();
            sites.filter(|site| site["status"]["color"] == color).count() == COUNT
        };
        self.plane.until(SITES, is_all).await;
    }

    /// Bring about a change, with this rollout if there is one, and print what it took until it has ended.
    async fn measure(&self, what: &str, version: &str, color: &str, rollout: Option<&Value>) {
        if let Some(spec) = rollout {
            let rollout = json!({
                "apiVersion": "rollout.ferroplane.io/v1alpha1", "kind": "FunctionRollout", "metadata": {"name": "own"}, "spec": spec,
            });
            self.plane.apply(ROLLOUT, &rollout).await;
            self.plane.until(ROLLOUT, |rollout| rollout["status"]["stable"].is_string()).await;
        }
        let before = self.calls.load(Ordering::Relaxed);
        let (started, processor) = (Instant::now(), Stopwatch::start(UsageWho::RUSAGE_SELF));
        self.install(version, color).await;
        let is_paused = rollout.is_some_and(|spec| spec["paused"] == true);
        match rollout {
            Some(_) if is_paused => self.until_state("Paused").await,
            Some(_) => self.until_state("Promoted").await,
            None => self.until_color(color).await,
        }
        let calls = self.calls.load(Ordering::Relaxed) - before;
        println!("| {what} | {} | {} | {calls} |", pretty(started.elapsed()), pretty(processor.read()));
    }

    async fn until_state(&self, state: &str) {
        self.plane.until(ROLLOUT, |rollout| rollout["status"]["state"] == state).await;
    }
}

fn object(value: &Value) -> Object {
    value.as_object().cloned().unwrap_or_default()
}
